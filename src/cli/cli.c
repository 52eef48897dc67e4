/* cli.c - from argv to one command
 *
 * Owns: finding the command, its options and help.  Whatever is not the plain run of a command that
 * was found (help, mistakes, other commands) the small client leaves to the full program.
 */
#include "cli/cli.h"
#include "base/util.h"
#include <unistd.h>

enum { HELP_MAX = 1 << 20 };

static void leave_to_full(const struct cli *c)
{
    if (c->seams->hand_over)
        c->seams->hand_over();
}

static int run_command(struct cli *c, const struct command *cmd, char **argv)
{
    AUTO_FREE void *own = xcalloc(1, cmd->opts_size + 1);
    struct operands ops;
    struct err e = {0};
    bool help;
    int rc;

    rc = opt_parse(cmd, argv, own, &c->opt, &ops, &help, &e);
    if (rc < 0 || help)
        leave_to_full(c);
    if (rc < 0) {
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

/* Asked for it is an answer, instead of a command it is a reminder. */
static int overview(struct cli *c, bool asked)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, HELP_MAX);
    help_overview(&b, c->seams->commands, c->seams->version, c->out.colour);
    cli_print(&b);
    return asked ? 0 : err_exit_code(ERR_INVALID);
}

/* Names under which the program may be called, e.g. through a link, and the command each means. */
static const struct {
    const char *program, *command;
} called_as[] = {
    {"berthd", "serve"},
    {"run-scheduler", "run-scheduler"},
    {"scheduler-state", "scheduler-state"},
    {"scheduler-situation", "scheduler-situation"},
    {"scheduler-cancel-job", "scheduler-cancel-job"},
    {"scheduler-get-logs", "scheduler-get-logs"},
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

/* Programs with commands and options of their own, whose words this one speaks too. */
static const char *const dialects[] = {"atlas-server", "foundations", "hyperctl"};

static bool is_dialect(const char *word)
{
    const char *slash = strrchr(word, '/');

    for (size_t i = 0; i < ARRAY_SIZE(dialects); i++)
        if (!strcmp(slash ? slash + 1 : word, dialects[i]))
            return true;
    return false;
}

/* The words of a dialect, called by its name or as `berth hyperctl …`; else NULL. */
static char **dialect_words(char **argv)
{
    if (is_dialect(argv[0]))
        return argv;
    return argv[1] && !strchr(argv[1], '/') && is_dialect(argv[1]) ? argv + 1 : NULL;
}

static int dispatch(struct cli *c, char **argv)
{
    const char *name = command_for_program(argv[0]);
    char **rest = argv + 1;
    struct err e = {0};
    bool help = false;

    if (!name && *rest && (!strcmp(*rest, "--version") || !strcmp(*rest, "-V"))) {
        name = "version";
        rest++;
    }
    if (!name) {
        int rc = opt_parse_leading(leading_groups, rest, &c->opt, &rest, &help, &e);
        if (rc < 0 || help || !*rest) {
            leave_to_full(c);
            return rc < 0 ? cli_fail(&e) : overview(c, help);
        }
        name = *rest++;
    }
    const struct command *cmd = command_find(c->seams->commands, name, &e);
    if (!cmd)
        leave_to_full(c);
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
    char **words = dialect_words(argv);
    if (words)
        leave_to_full(&c);
    int rc = words ? seams->dialect(&c, words) : dispatch(&c, argv);
    http_client_free(c.http);
    free(c.home);
    free(c.target);
    return rc;
}
