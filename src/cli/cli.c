/* cli.c - from argv to one command
 *
 * Owns: finding the command, its options and help, and how errors are said: one line, "berth: …",
 * and the exit status of base/err.h.
 */
#include "cli/cli.h"
#include "base/file.h"
#include "base/util.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { HELP_MAX = 1 << 20 };

void cli_say(const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    fprintf(stderr, "berth: %s\n", line);
}

int cli_fail(const struct err *e)
{
    cli_say("%s", e->text[0] ? e->text : "something went wrong without saying what");
    return err_exit_code(e->code);
}

void cli_print(struct buf *b)
{
    struct err e;

    if (b->n && fd_write_all(STDOUT_FILENO, b->p, b->n, &e) < 0) {
        if (e.sys != EPIPE)
            cli_say("cannot write the output: %s", e.text);
        _exit(e.sys == EPIPE ? 141 : 74);
    }
    buf_reset(b);
}

bool cli_json(const struct cli *c)
{
    return c->opt.output && !strcmp(c->opt.output, "json");
}

bool cli_csv(const struct cli *c)
{
    return c->opt.output && !strcmp(c->opt.output, "csv");
}

static int run_command(struct cli *c, const struct command *cmd, char **argv)
{
    AUTO_FREE void *own = xcalloc(1, cmd->opts_size + 1);
    struct operands ops;
    struct err e = {0};
    bool help;
    int rc;

    if (opt_parse(cmd, argv, own, &c->opt, &ops, &help, &e) < 0) {
        rc = cli_fail(&e);
    } else if (help) {
        AUTO(buf) struct buf b = {0};
        buf_init(&b, HELP_MAX);
        help_command(&b, cmd, c->out.width, c->out.colour);
        cli_print(&b);
        rc = 0;
    } else {
        rc = cmd->run(c, own, &ops);
    }
    opt_done(cmd, own, &c->opt, &ops);
    return rc;
}

static int overview(struct cli *c)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, HELP_MAX);
    help_overview(&b, cli_commands, c->seams->version, c->out.colour);
    cli_print(&b);
    return 0;
}

/* Names under which the program may be called, e.g. through a link, and the command each means. */
static const struct {
    const char *program, *command;
} called_as[] = {
    {"berthd", "serve"},
};

static const char *command_for_program(const char *argv0)
{
    const char *slash = strrchr(argv0, '/');
    const char *base = slash ? slash + 1 : argv0;

    for (size_t i = 0; i < ARRAY_SIZE(called_as); i++)
        if (!strcmp(base, called_as[i].program))
            return called_as[i].command;
    return NULL;
}

static int dispatch(struct cli *c, char **argv)
{
    const char *name = command_for_program(argv[0]);
    char **rest = argv + 1;
    struct err e = {0};
    bool help = false;

    if (!name) {
        if (*rest && (!strcmp(*rest, "--version") || !strcmp(*rest, "-V")))
            name = "version";
        else if (opt_parse_leading(leading_groups, rest, &c->opt, &rest, &help, &e) < 0)
            return cli_fail(&e);
        else if (help)
            return overview(c);
        else if (!*rest) {
            overview(c);
            return err_exit_code(ERR_INVALID);
        } else {
            name = *rest;
        }
        rest++;
    }
    const struct command *cmd = command_find(cli_commands, name, &e);
    return cmd ? run_command(c, cmd, rest) : cli_fail(&e);
}

int cli_main(int argc, char **argv, const struct cli_seams *seams)
{
    struct cli c = {
        .seams = seams,
        .out = term_detect(STDOUT_FILENO),
        .err = term_detect(STDERR_FILENO),
        .unreachable = daemon_start,
    };

    if (argc < 1)
        return err_exit_code(ERR_INVALID);
    int rc = dispatch(&c, argv);
    http_client_free(c.http);
    free(c.home);
    free(c.target);
    return rc;
}
