/* cli.c - from argv to one command
 *
 * Owns: finding the command, its options and help.
 */
#include "cli/cli.h"
#include "base/util.h"
#include "dialect/dialect.h"
#include <unistd.h>

/* One byte more than opts_size, because a command without options has opts_size 0. */
static int run_command(struct cli *c, const struct command *cmd, char **argv)
{
    AUTO_FREE void *own = xcalloc(1, cmd->opts_size + 1);
    struct operands ops;
    struct err e = {0};
    bool help;
    int rc;

    rc = opt_parse(cmd, argv, own, &c->opt, &ops, &help, &e);
    if (rc < 0) {
        rc = cli_fail(&e);
    } else if (help) {
        AUTO(buf) struct buf b = {0};
        help_command(&b, cmd, c->out.width, c->out.colour);
        cli_print(&b);
        rc = 0;
    } else {
        rc = cmd->run(c, own, &ops);
    }
    opt_done(cmd, own, &c->opt, &ops);
    return rc;
}

/* Asked for it is an answer, instead of a command it is a reminder. */
static int cli_overview(struct cli *c, bool asked)
{
    AUTO(buf) struct buf b = {0};

    help_overview(&b, c->program, c->out.colour);
    cli_print(&b);
    return asked ? 0 : err_exit_code(ERR_INVALID);
}

/* The last part of the path; points into argv0. */
static const char *program_name(const char *argv0)
{
    const char *slash = strrchr(argv0, '/');

    return slash ? slash + 1 : argv0;
}

/* The command of a program that is called by another name, e.g. through a link; else NULL. */
static const char *command_for_program(const struct program *p, const char *name)
{
    if (!strcmp(name, "berthd"))
        return "serve";
    for (const struct command *const *c = p->commands; *c; c++)
        if ((*c)->flags & COMMAND_PROGRAM && !strcmp(name, (*c)->name))
            return name;
    return NULL;
}

/* Called by the name of a dialect's program, or as `berth hyperctl …`?  *words begins with it. */
static const struct dialect_program *dialect_program(const struct program *p, char **argv,
                                                     char ***words)
{
    for (size_t at = 0; at < 2 && argv[at]; at++) {
        const char *name = at ? argv[at] : program_name(argv[at]);
        *words = argv + at;
        for (const struct dialect *const *d = p->dialects; d && *d; d++)
            for (const struct dialect_program *x = (*d)->programs; x && x->name; x++)
                if (!strcmp(name, x->name))
                    return x;
    }
    return NULL;
}

/* Options before the command's name are parsed with leading_groups; the others by the command. */
static int dispatch(struct cli *c, char **argv)
{
    const char *name = command_for_program(c->program, program_name(argv[0]));
    char **rest = argv + 1;
    struct err e = {0};
    bool help = false;

    if (!name && *rest && (!strcmp(*rest, "--version") || !strcmp(*rest, "-V"))) {
        name = "version";
        rest++;
    }
    if (!name) {
        int rc = opt_parse_leading(leading_groups, rest, &c->opt, &rest, &help, &e);
        if (rc < 0 || help || !*rest)
            return rc < 0 ? cli_fail(&e) : cli_overview(c, help);
        name = *rest++;
    }
    const struct command *cmd = command_find(c->program->commands, name, &e);
    return cmd ? run_command(c, cmd, rest) : cli_fail(&e);
}

int cli_main(int argc, char **argv, const struct program *program)
{
    struct cli c = {
        .program = program,
        .out = term_detect(STDOUT_FILENO),
        .err = term_detect(STDERR_FILENO),
        .unreachable = daemon_start,
    };

    if (argc < 1)
        return err_exit_code(ERR_INVALID);
    char **words;
    const struct dialect_program *other = dialect_program(program, argv, &words);
    int rc = other ? other->main(&c, words) : dispatch(&c, argv);
    http_client_free(c.http);
    free(c.home);
    free(c.target);
    return rc;
}
