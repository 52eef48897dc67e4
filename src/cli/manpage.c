/* manpage.c - man pages in roff, from the command tables
 *
 * Owns: the roff.  Text is escaped: a backslash, a hyphen that must stay one, and a dot or quote at
 * the start of a line would otherwise be read as commands.
 */
#include "base/util.h"
#include "cli/opt.h"
#include <ctype.h>

static const char *const roff_escapes[128] = {['\\'] = "\\e",  ['-'] = "\\-",   ['\''] = "\\(aq",
                                              ['`'] = "\\(ga", ['^'] = "\\(ha", ['~'] = "\\(ti"};

static void roff_text(struct buf *b, struct str s)
{
    bool line_start = b->n == 0 || b->p[b->n - 1] == '\n';

    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (line_start && (c == '.' || c == '\''))
            buf_adds(b, "\\&");
        const char *escape =
            (unsigned char)c < ARRAY_SIZE(roff_escapes) ? roff_escapes[(int)c] : NULL;
        if (escape)
            buf_adds(b, escape);
        else
            buf_addc(b, c);
        line_start = c == '\n';
    }
}

static void roff_c(struct buf *b, const char *s)
{
    roff_text(b, str_of(s));
}

/* Upper-case words of a synopsis are arguments and stand in italics. */
static void synopsis_words(struct buf *b, struct str line)
{
    while (line.n) {
        size_t n = 0;
        bool upper = isupper((unsigned char)line.p[0]);
        while (n < line.n && upper == (bool)isupper((unsigned char)line.p[n]))
            n++;
        if (upper)
            buf_adds(b, "\\fI");
        roff_text(b, (struct str){line.p, n});
        if (upper)
            buf_adds(b, "\\fR");
        line = (struct str){line.p + n, line.n - n};
    }
}

/* An empty line of the description begins a new paragraph. */
static void man_paragraphs(struct buf *b, const char *text)
{
    struct str rest = str_of(text);

    while (rest.n) {
        struct str line = str_cut(rest, '\n', &rest);
        if (!line.n) {
            buf_adds(b, ".PP\n");
            continue;
        }
        roff_text(b, line);
        buf_addc(b, '\n');
    }
}

static void man_option(struct buf *b, const struct opt *o)
{
    buf_adds(b, ".TP\n");
    if (o->letter)
        buf_addf(b, "\\fB\\-%c\\fR, ", o->letter);
    buf_adds(b, "\\fB\\-\\-");
    roff_c(b, o->name);
    buf_adds(b, "\\fR");
    if (o->arg) {
        buf_adds(b, opt_has_value(o) ? " \\fI" : "\\fI");
        roff_c(b, o->arg);
        buf_adds(b, "\\fR");
    }
    buf_addc(b, '\n');
    roff_c(b, o->help);
    buf_adds(b, o->type == OPT_LIST ? " (may be repeated).\n" : ".\n");
}

static void option_groups(struct buf *b, const struct opt_group *const *groups)
{
    for (const struct opt_group *const *g = groups; *g; g++) {
        if (!(*g)->n)
            continue;
        buf_adds(b, ".SS ");
        roff_c(b, (*g)->title);
        buf_addc(b, '\n');
        for (size_t i = 0; i < (*g)->n; i++)
            man_option(b, &(*g)->opts[i]);
    }
}

static void man_examples(struct buf *b, const struct example *x)
{
    if (!x || !x->line)
        return;
    buf_adds(b, ".SH EXAMPLES\n");
    for (; x->line; x++) {
        buf_adds(b, ".TP\n\\fB");
        roff_c(b, x->line);
        buf_adds(b, "\\fR\n");
        roff_c(b, x->text);
        buf_adds(b, ".\n");
    }
}

/* The date is empty, so that the same version always makes the same bytes. */
static void title(struct buf *b, const char *name, const char *version)
{
    buf_adds(b, ".\\\" Made by `berth man`; the words live in the command tables.\n.TH \"");
    for (; *name; name++)
        buf_addc(b, (char)toupper((unsigned char)*name));
    buf_addf(b, "\" 1 \"\" \"Berth %s\" \"Berth manual\"\n", version);
}

static void command_page(struct buf *b, const struct command *cmd, const char *version)
{
    AUTO_FREE char *full = xasprintf("berth-%s", cmd->name);
    struct str rest = str_of(cmd->synopsis);

    title(b, full, version);
    buf_adds(b, ".SH NAME\n");
    roff_c(b, full);
    buf_adds(b, " \\- ");
    roff_c(b, cmd->summary);
    buf_adds(b, "\n.SH SYNOPSIS\n");
    do {
        struct str line = str_cut(rest, '\n', &rest);
        buf_adds(b, "\\fBberth ");
        roff_c(b, cmd->name);
        buf_adds(b, "\\fR ");
        synopsis_words(b, line);
        buf_adds(b, rest.n ? "\n.br\n" : "\n");
    } while (rest.n);
    if (cmd->description && *cmd->description) {
        buf_adds(b, ".SH DESCRIPTION\n");
        man_paragraphs(b, cmd->description);
    }
    if (*cmd->groups)
        buf_adds(b, ".SH OPTIONS\n");
    option_groups(b, cmd->groups);
    man_examples(b, cmd->examples);
    buf_adds(b, ".SH SEE ALSO\n.BR berth (1)\n");
}

static void overview_page(struct buf *b, const struct command *const *all,
                          const struct opt_group *const *common, const char *version)
{
    title(b, "berth", version);
    buf_adds(b, ".SH NAME\nberth \\- run experiments: one job, a sweep, or a queue\n"
                ".SH SYNOPSIS\n\\fBberth\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...] "
                "[\\fIARGUMENT\\fR...]\n"
                ".SH DESCRIPTION\n"
                "Berth runs commands as jobs, on slots, CPUs, memory and GPUs of this machine.\n"
                "Jobs outlive the terminal, the daemon and its crashes; every one ends with an\n"
                "exit status, an output file and a reason.\n"
                ".SH COMMANDS\n");
    for (const struct command *const *c = all; *c; c++) {
        if ((*c)->flags & COMMAND_HIDDEN)
            continue;
        buf_adds(b, ".TP\n.BR berth\\-");
        roff_c(b, (*c)->name);
        buf_adds(b, " (1)\n");
        roff_c(b, (*c)->summary);
        buf_adds(b, ".\n");
    }
    buf_adds(b, ".SH OPTIONS\nThese options may stand before or after the command.\n");
    option_groups(b, common);
    buf_adds(b, ".SH ENVIRONMENT\n"
                ".TP\n\\fBBERTH_HOME\\fR\nWhere jobs, output and sockets live; by default\n"
                "\\fI$XDG_DATA_HOME/berth\\fR or \\fI\\(ti/.local/share/berth\\fR.\n"
                ".TP\n\\fBBERTH_URL\\fR\nThe daemon to speak to, as with \\fB\\-\\-server\\fR.\n"
                ".TP\n\\fBBERTH_TOKEN\\fR\nBearer token for that daemon.\n"
                ".TP\n\\fBNO_COLOR\\fR\nNo colours when set and not empty.\n"
                ".PP\nOf the daemon:\n"
                ".TP\n\\fBBERTH_PUBLIC_NAME\\fR\nIts host names, as with "
                "\\fBberth serve \\-\\-public\\-name\\fR.\n"
                ".TP\n\\fBBERTH_SENDMAIL\\fR\nThe program that sends mail of hooks.\n"
                ".TP\n\\fBBERTH_SLACK\\fR\nURL or token for Slack, of hooks without a secret.\n"
                ".SH EXIT STATUS\n"
                ".TP\n0\nDone.\n"
                ".TP\n2\nThe command line or the file is wrong.\n"
                ".TP\n65\nToo large.\n"
                ".TP\n66\nNo such job.\n"
                ".TP\n69\nThe daemon cannot be reached.\n"
                ".TP\n70\nA fault inside berth.\n"
                ".TP\n74\nThe disk is full.\n"
                ".TP\n75\nNot possible now, such as removing a running job.\n"
                ".TP\n77\nNot allowed.\n"
                ".PP\n\\fBberth run\\fR and \\fBberth wait\\fR exit with the status of the job;\n"
                "128 plus the number of the signal that ended it.\n");
}

void man_page(struct buf *b, const struct command *cmd, const struct command *const *all,
              const struct opt_group *const *common, const char *version)
{
    if (cmd)
        command_page(b, cmd, version);
    else
        overview_page(b, all, common, version);
}
