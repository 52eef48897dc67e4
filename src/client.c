/* client.c - the small client: what a user calls as `berth`
 *
 * Starting a program that is linked dynamically, or with a C library that asks the processor what
 * it can do, costs up to a millisecond: most of the time of a command.  So this one is static and
 * small and has the commands of the list below.  Everything else is done by the full program, which
 * replaces this process, with the same words and the same environment.
 *
 * This file is the whole seam: the list, the question whether a call can be answered here, and the
 * few functions that the full program has to do.  The sources are listed in cli/meson.build.
 */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/jobspec.h"
#include "cli/spec_file.h"
#include "io/http_client.h"
#include <errno.h>
#include <string.h>

enum { EXIT_NOT_FOUND = 127 }; /* as shells have it */

/* Those that only speak over the home's socket: no database, no loop, no threads, no libraries.  A
 * command that is missing here takes a millisecond longer. */
static const struct command *const quick_commands[] = {
    &cmd_submit, &cmd_ls,     &cmd_show,     &cmd_logs,    &cmd_wait,  &cmd_explain,
    &cmd_watch,  &cmd_cancel, &cmd_hold,     &cmd_release, &cmd_retry, &cmd_rm,
    &cmd_queue,  &cmd_nodes,  &cmd_projects, NULL,
};
static char **words; /* argv, for the full program */

__attribute__((noreturn)) static void hand_over(void)
{
    static const char *const places[] = {
        "berth-full", /* in the build directory */
        "../libexec/berth/berth-full",
    };
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    char *slash = n > 0 ? memrchr(exe, '/', (size_t)n) : NULL;

    if (!slash) {
        cli_say("cannot tell where this program is: %s", strerror(errno));
        _exit(EXIT_NOT_FOUND);
    }
    *slash = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        AUTO_FREE char *path = xasprintf("%s/%s", exe, places[i]);
        execv(path, words);
        if (errno != ENOENT)
            break;
    }
    cli_say("cannot run berth-full, beside %s/berth or in ../libexec/berth: %s; install it there",
            exe, strerror(errno));
    _exit(EXIT_NOT_FOUND);
}

/* ---- what the full program does for it ---- */

/* The whole call is one that a command of the list can answer: no help, no mistake, no other name
 * of the program. */
static bool is_quick(char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    struct shared_opts shared = {0};
    struct operands ops = {0};
    struct err e = {0};
    char **rest;
    bool help;

    if (strcmp(slash ? slash + 1 : argv[0], "berth") != 0 ||
        opt_parse_leading(leading_groups, argv + 1, &shared, &rest, &help, &e) < 0 || help ||
        !*rest)
        return false;
    const struct command *cmd = command_find(quick_commands, *rest, &e);
    if (!cmd)
        return false;
    AUTO_FREE void *own = xcalloc(1, cmd->opts_size + 1);
    bool parsed = opt_parse(cmd, rest + 1, own, &shared, &ops, &help, &e) == 0 && !help;
    opt_done(cmd, own, &shared, &ops);
    return parsed;
}

/* There is no YAML here, and nothing was read yet. */
int spec_file_read(const char *path, struct json **out, struct err *e)
{
    (void)path;
    (void)out;
    (void)e;
    hand_over();
}

/* Nor is there what packs directories. */
int jobspec_take_snapshot(struct cli *c, struct json *spec, struct err *e)
{
    (void)c;
    (void)spec;
    (void)e;
    hand_over();
}

/* Nor is there libcurl. */
int cli_connect_url(struct cli *c, struct err *e)
{
    (void)c;
    (void)e;
    hand_over();
}

/* Nor a loop: cli_connect_url has handed over before a URL is called. */
int http_url_call(struct http_client *c, struct http_ask *a, struct err *e)
{
    (void)c;
    (void)a;
    (void)e;
    hand_over();
}

void http_url_close(struct http_client *c)
{
    (void)c;
}

int main(int argc, char **argv)
{
    static const struct program program = {.version = BERTH_VERSION, .commands = quick_commands};

    words = argv;
    if (argc < 1 || !is_quick(argv))
        hand_over();
    return cli_main(argc, argv, &program);
}
