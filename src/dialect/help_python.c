/* help_python.c - usage lines, help and mistakes in the form of Python's argparse
 *
 * Owns: the layout that users of hyperctl and foundations know from the original programs, and
 * that their scripts compare.  The words come from the command tables, as in help.c.
 */
#include "dialect/help_python.h"
#include "base/util.h"
#include "cli/cli.h"
#include <stdio.h>

enum { PYTHON_COLUMN = 24, PYTHON_WIDTH = 54, PYTHON_MISTAKE = 2 };

/* On stderr, as argparse does; always PYTHON_MISTAKE. */
static int mistake_print(const char *prog, const char *usage, const char *text)
{
    fprintf(stderr, "%s\n%s: error: %s\n", usage, prog, text);
    return PYTHON_MISTAKE;
}

int python_mistake(const char *prog, const char *usage, const char *fmt, ...)
{
    char text[1000];

    FORMAT_ARGS(text, fmt);
    return mistake_print(prog, usage, text);
}

/* " [-c CONFIG]"; a required option stands without brackets. */
static void usage_option(struct buf *b, const struct opt *o)
{
    bool must = o->type == OPT_REQUIRED;

    buf_adds(b, must ? " " : " [");
    if (o->letter)
        buf_addf(b, "-%c", o->letter);
    else
        buf_addf(b, "--%s", o->name);
    buf_addf(b, "%s%s%s", o->arg ? " " : "", o->arg ? o->arg : "", must ? "" : "]");
}

/* All on one line; argparse breaks a long line at the width of the terminal. */
static void usage_line(struct buf *b, const struct command *cmd)
{
    buf_addf(b, "usage: %s %s [-h]", cmd->program, cmd->name);
    for (const struct opt_group *const *g = cmd->groups; *g; g++)
        for (size_t i = 0; i < (*g)->n; i++)
            if ((*g)->opts[i].help)
                usage_option(b, &(*g)->opts[i]);
    for (size_t i = 0; cmd->words && cmd->words[i].name; i++)
        buf_addf(b, " %s%s", cmd->words[i].name, i < cmd->min_operands ? "" : " ...");
}

void python_help_row(struct buf *b, const char *left, const char *help)
{
    size_t col = 0;
    int n = (int)strlen(left);

    if (n > PYTHON_COLUMN - 2)
        buf_addf(b, "%s\n%*s", left, PYTHON_COLUMN, "");
    else
        buf_addf(b, "%-*s", PYTHON_COLUMN, left);
    for (struct str rest = str_of(help); rest.n;) {
        struct str word = str_cut(rest, ' ', &rest);
        if (col && col + 1 + word.n > PYTHON_WIDTH) {
            buf_addf(b, "\n%*s", PYTHON_COLUMN, "");
            col = 0;
        }
        buf_addf(b, "%s" STR_FMT, col ? " " : "", STR_ARG(word));
        col += word.n + (col ? 1 : 0);
    }
    buf_addc(b, '\n');
}

static void option_row(struct buf *b, const struct opt *o)
{
    const char *value = o->arg ? o->arg : "", *space = o->arg ? " " : "";
    AUTO_FREE char *left =
        o->letter ? xasprintf("  -%c%s%s, --%s%s%s", o->letter, space, value, o->name, space, value)
                  : xasprintf("  --%s%s%s", o->name, space, value);

    if (o->help)
        python_help_row(b, left, o->help);
}

void python_help(struct buf *b, const struct command *cmd)
{
    usage_line(b, cmd);
    buf_addc(b, '\n');
    if (cmd->words && cmd->words->name)
        buf_adds(b, "\npositional arguments:\n");
    for (size_t i = 0; cmd->words && cmd->words[i].name; i++) {
        AUTO_FREE char *left = xasprintf("  %s", cmd->words[i].name);
        python_help_row(b, left, cmd->words[i].help);
    }
    buf_adds(b, "\noptional arguments:\n");
    python_help_row(b, "  -h, --help", "show this help message and exit");
    for (const struct opt_group *const *g = cmd->groups; *g; g++)
        for (size_t i = 0; i < (*g)->n; i++)
            option_row(b, &(*g)->opts[i]);
}

int python_parse(const struct command *cmd, const char *program_usage, char **argv, void *own,
                 void *shared, struct operands *out)
{
    AUTO(buf) struct buf text = {0};
    struct err e = {0};
    bool help;
    int rc = opt_parse(cmd, argv, own, shared, out, &help, &e);

    buf_init(&text, PYTHON_TEXT_MAX);
    if (rc == 0 && !help)
        return 0;
    if (rc == 0) {
        python_help(&text, cmd);
        cli_print(&text);
        return 1;
    }
    if (e.code == ERR_NOT_FOUND)
        return 1 + mistake_print(cmd->program, program_usage, e.text);
    AUTO_FREE char *prog = xasprintf("%s %s", cmd->program, cmd->name);
    usage_line(&text, cmd);
    return 1 + mistake_print(prog, text.p, e.text);
}
