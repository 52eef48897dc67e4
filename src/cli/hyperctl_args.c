/* hyperctl_args.c - arguments the way Python's argparse takes them
 *
 * -c FILE, -cFILE, --config FILE, --config=FILE and every unique beginning of a long name are the
 * same.  Messages, usage lines and exit status 2 are argparse's, since scripts have seen them.
 */
#include "base/util.h"
#include "cli/hyperctl.h"
#include <stdarg.h>
#include <stdio.h>

enum { TEXT_MAX = 64 << 10, HELP_COLUMN = 24, HELP_WIDTH = 54, PARSED_HELP = 1, PARSED_WRONG = 3 };

const char hyper_usage[] = "usage: hyperctl [-h] [--log-level LOG_LEVEL] [-error] [-warn] [-info] "
                           "[-debug] {run,generate,batch,job} ...";
const char hyper_help[] =
    "usage: hyperctl [-h] [--log-level LOG_LEVEL] [-error] [-warn] [-info] [-debug] "
    "{run,generate,batch,job} ...\n"
    "\n"
    "hyperctl command is used to manage jobs\n"
    "\n"
    "positional arguments:\n"
    "  {run,generate,batch,job}\n"
    "    run                 run jobs\n"
    "    generate            generate specific jobs json file\n"
    "    batch               batch operations\n"
    "    job                 job operations\n"
    "\n"
    "optional arguments:\n"
    "  -h, --help            show this help message and exit\n"
    "\n"
    "Console outputs:\n"
    "  --log-level LOG_LEVEL\n"
    "                        logging level, default is INFO\n"
    "  -error                alias of \"--log-level=ERROR\"\n"
    "  -warn                 alias of \"--log-level=WARN\"\n"
    "  -info                 alias of \"--log-level=INFO\"\n"
    "  -debug                alias of \"--log-level=DEBUG\"\n";

int hyper_usage_error(const char *prog, const char *usage, const char *fmt, ...)
{
    char text[1000];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s\n%s: error: %s\n", usage, prog, text);
    return 2;
}

/* ---- help ---- */

static void usage_line(struct buf *b, const struct hyper_command *cmd)
{
    buf_addf(b, "usage: hyperctl %s [-h]", cmd->path);
    for (size_t i = 0; i < cmd->n_args; i++) {
        const struct hyper_arg *a = &cmd->args[i];
        const char *shown = a->letter ? a->letter : a->name;
        if (!a->help)
            continue;
        buf_addf(b, " %s%s%s%s%s", a->required ? "" : "[", shown, a->metavar ? " " : "",
                 a->metavar ? a->metavar : "", a->required ? "" : "]");
    }
}

static void wrapped(struct buf *b, const char *text)
{
    size_t col = 0;

    for (struct str rest = str_of(text); rest.n;) {
        struct str word = str_cut(rest, ' ', &rest);
        if (col && col + 1 + word.n > HELP_WIDTH) {
            buf_addf(b, "\n%*s", HELP_COLUMN, "");
            col = 0;
        }
        buf_addf(b, "%s" STR_FMT, col ? " " : "", STR_ARG(word));
        col += word.n + (col ? 1 : 0);
    }
    buf_addc(b, '\n');
}

static void help_row(struct buf *b, const char *left, const char *help)
{
    int n = (int)strlen(left);

    if (n > HELP_COLUMN - 2)
        buf_addf(b, "%s\n%*s", left, HELP_COLUMN, "");
    else
        buf_addf(b, "%-*s", HELP_COLUMN, left);
    wrapped(b, help);
}

void hyper_help_command(struct buf *b, const struct hyper_command *cmd)
{
    usage_line(b, cmd);
    buf_adds(b, "\n\noptional arguments:\n");
    help_row(b, "  -h, --help", "show this help message and exit");
    for (size_t i = 0; i < cmd->n_args; i++) {
        const struct hyper_arg *a = &cmd->args[i];
        const char *value = a->metavar ? a->metavar : "", *space = a->metavar ? " " : "";
        if (!a->help)
            continue;
        AUTO_FREE char *left = a->letter ? xasprintf("  %s%s%s, %s%s%s", a->letter, space, value,
                                                     a->name, space, value)
                                         : xasprintf("  %s%s%s", a->name, space, value);
        help_row(b, left, a->help);
    }
}

/* ---- parsing ---- */

__attribute__((format(printf, 2, 3))) static int wrong(const struct hyper_command *cmd,
                                                       const char *fmt, ...)
{
    AUTO(buf) struct buf usage = {0};
    AUTO_FREE char *prog = xasprintf("hyperctl %s", cmd->path);
    char text[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    buf_init(&usage, TEXT_MAX);
    usage_line(&usage, cmd);
    hyper_usage_error(prog, usage.p, "%s", text);
    return PARSED_WRONG;
}

static const char *both_names(const struct hyper_arg *a, char out[80])
{
    snprintf(out, 80, "%s%s%s", a->letter ? a->letter : "", a->letter ? "/" : "", a->name);
    return out;
}

/* The argument a word names.  *value: what stands after "=" or the letter, else NULL.
 * 1 = found, 0 = none, -1 = several and that was said. */
static int find_arg(const struct hyper_command *cmd, const char *word, const struct hyper_arg **out,
                    const char **value)
{
    const char *eq = strchr(word, '=');
    size_t n = eq ? (size_t)(eq - word) : strlen(word), found = 0;

    *out = NULL;
    *value = NULL;
    if (word[1] != '-') {
        for (size_t i = 0; i < cmd->n_args && !*out; i++)
            if (cmd->args[i].letter && !strncmp(word, cmd->args[i].letter, 2))
                *out = &cmd->args[i];
        if (*out && word[2])
            *value = word[2] == '=' ? word + 3 : word + 2;
        return *out != NULL;
    }
    for (size_t i = 0; i < cmd->n_args; i++) {
        bool whole = !cmd->args[i].name[strnlen(cmd->args[i].name, n)];
        if (strncmp(word, cmd->args[i].name, n) != 0 || (!cmd->args[i].help && !whole))
            continue;
        *out = &cmd->args[i];
        found++;
        if (whole) {
            found = 1;
            break;
        }
    }
    *value = eq ? eq + 1 : NULL;
    if (found > 1) {
        wrong(cmd, "ambiguous option: %.*s", (int)n, word);
        return -1;
    }
    return found == 1;
}

static bool is_help(const char *word)
{
    return !strcmp(word, "-h") || (strlen(word) > 2 && !strncmp("--help", word, strlen(word)));
}

static int set_arg(const struct hyper_command *cmd, const struct hyper_arg *a, const char *value,
                   char ***argv, struct hyper_opts *out)
{
    char names[80];
    void *at = (char *)out + a->offset;

    if (!a->metavar) {
        if (value)
            return wrong(cmd, "argument %s: ignored explicit argument '%.60s'",
                         both_names(a, names), value);
        *(bool *)at = true;
        return 0;
    }
    if (!value) {
        const char *next = (*argv)[1];
        if (!next || (next[0] == '-' && next[1]))
            return wrong(cmd, "argument %s: expected one argument", both_names(a, names));
        value = next;
        ++*argv;
    }
    *(const char **)at = value;
    return 0;
}

static int check_required(const struct hyper_command *cmd, const struct hyper_opts *o)
{
    AUTO(buf) struct buf missing = {0};
    char names[80];

    buf_init(&missing, TEXT_MAX);
    for (size_t i = 0; i < cmd->n_args; i++) {
        const struct hyper_arg *a = &cmd->args[i];
        if (a->required && !*(const char *const *)((const char *)o + a->offset))
            buf_addf(&missing, "%s%s", missing.n ? ", " : "", both_names(a, names));
    }
    if (!missing.n)
        return 0;
    return wrong(cmd, "the following arguments are required: %s", missing.p);
}

int hyper_args_parse(const struct hyper_command *cmd, char **argv, struct hyper_opts *out)
{
    AUTO(buf) struct buf strange = {0};

    buf_init(&strange, TEXT_MAX);
    for (; *argv; argv++) {
        const struct hyper_arg *a;
        const char *value;
        if (is_help(*argv)) {
            AUTO(buf) struct buf b = {0};
            buf_init(&b, TEXT_MAX);
            hyper_help_command(&b, cmd);
            cli_print(&b);
            return PARSED_HELP;
        }
        int rc = (*argv)[0] == '-' && (*argv)[1] ? find_arg(cmd, *argv, &a, &value) : 0;
        if (rc < 0)
            return PARSED_WRONG;
        if (rc == 0)
            buf_addf(&strange, "%s%s", strange.n ? " " : "", *argv);
        else if ((rc = set_arg(cmd, a, value, &argv, out)) != 0)
            return rc;
    }
    int rc = check_required(cmd, out);
    if (rc == 0 && strange.n)
        rc =
            hyper_usage_error("hyperctl", hyper_usage, "unrecognized arguments: %s", strange.p) + 1;
    return rc;
}
