/* daemon.c - bringing up the background daemon of this user
 *
 * Owns: `berth serve --auto` as a detached process: own session, no terminal, root directory,
 * output in $BERTH_HOME/log.  Two commands may do this at once: the second daemon finds the home
 * taken and leaves, and both commands use the first.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "base/vec.h"
#include "cli/cli.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

/* A daemon that does not answer within START_MS counts as failed. */
enum { START_MS = 5000, SAY_AFTER_MS = 2000, LOG_TAIL = 2048, MORE_IN = 48 };

bool daemon_answers(const char *target)
{
    struct http_client *http = http_client_new(target, NULL, NULL);
    struct http_response r = {0};
    struct err e;
    bool up = http_call(http, "GET", "/healthz", NULL, STR(""), &r, &e) == 0 && r.status == 200;

    http_response_done(&r);
    http_client_free(http);
    return up;
}

/* A daemon started with these variables would report to the job that surrounds the command. */
static bool belongs_to_job(const char *variable)
{
    static const char *const prefixes[] = {
        "BERTH_JOB",   "BERTH_RUN",    "BERTH_PARAM", "BERTH_ATTEMPT", "BERTH_PROJECT",
        "BERTH_INDEX", "BERTH_SOCKET", "BERTH_TOKEN", "BERTH_URL",     "BERTH_HOME",
    };

    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

/* The environment without what belongs to a job we may be running in; `home` says which home.  The
 * caller frees the array; the texts are borrowed from environ and `home`. */
static char **daemon_env(char *home)
{
    VEC(char *) env = {0};

    for (char **v = environ; *v; v++)
        if (!belongs_to_job(*v))
            vec_push(&env, *v);
    vec_push(&env, home);
    vec_push(&env, NULL);
    return env.p;
}

/* 0, or an errno value.  All signals get their default action and none is blocked: the daemon must
 * not inherit what the command has set. */
static int spawn_serve(struct cli *c, const char *program, const char *log, pid_t *out_pid)
{
    char *argv[] = {(char *)"berth", (char *)"serve", (char *)"--auto", NULL};
    AUTO_FREE char *home = xasprintf("BERTH_HOME=%s", c->home);
    AUTO_FREE char **env = daemon_env(home);
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t all, none;

    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&fa, 1, log, O_WRONLY | O_APPEND | O_CREAT, 0600);
    posix_spawn_file_actions_adddup2(&fa, 1, 2);
    posix_spawn_file_actions_addchdir_np(&fa, "/");
    posix_spawnattr_init(&at);
    posix_spawnattr_setflags(&at,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&at, &none);
    posix_spawnattr_setsigdefault(&at, &all);
    int rc = posix_spawn(out_pid, program, &fa, &at, argv, env);
    posix_spawnattr_destroy(&at);
    posix_spawn_file_actions_destroy(&fa);
    return rc;
}

int daemon_spawn(struct cli *c, int *out_pid, struct err *e)
{
    AUTO_FREE char *log = path_join(c->home, "log");
    char program[4096];
    pid_t pid;
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

    /* It would be part of the job's process tree and end with it, and its own runs too. */
    if (getenv("BERTH_RUN"))
        return err_set(e, ERR_UNAVAILABLE,
                       "no daemon serves %s, and a daemon started inside a job would end with that "
                       "job; run `berth serve` outside",
                       c->home);
    if (n < 0)
        return err_sys(e, "cannot start a daemon: the path of this program is unknown");
    program[n] = 0;
    if (dir_make_all(c->home, 0700, e) < 0)
        return err_wrap(e, "creating the home %s", c->home);
    errno = spawn_serve(c, program, log, &pid);
    if (errno)
        return err_sys(e, "cannot start a daemon (%s)", program);
    if (out_pid)
        *out_pid = pid;
    return 0;
}

/* What the daemon said last; "" when nothing. */
static void last_log_line(const char *path, char *out, size_t size)
{
    char tail[LOG_TAIL + 1] = "";
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);

    out[0] = 0;
    if (fd < 0)
        return;
    off_t end = lseek(fd, 0, SEEK_END);
    ssize_t n = pread(fd, tail, LOG_TAIL, end > LOG_TAIL ? end - LOG_TAIL : 0);
    while (n > 0 && tail[n - 1] == '\n')
        tail[--n] = 0;
    const char *nl = strrchr(tail, '\n');
    const char *last = nl ? nl + 1 : tail;
    snprintf(out, size, "%.*s", (int)MIN(strlen(last), size - 1), last);
}

/* It ended by itself: 1 = another one had the home (and may be leaving), -1 = it failed. */
static int ended(pid_t pid)
{
    int status = 0;

    if (waitpid(pid, &status, WNOHANG) != pid)
        return 0;
    return status == 0 ? 1 : -1;
}

int daemon_start(struct cli *c, struct err *e)
{
    AUTO_FREE char *log = path_join(c->home, "log");
    char line[sizeof(e->text)];
    int64_t start = clock_mono(&clock_system), waited = 0;
    bool said = false;
    int pid, gone = 0;

    if (daemon_spawn(c, &pid, e) < 0)
        return -1;
    for (int nap = 1; waited < START_MS && gone >= 0; nap = MIN(nap * 2, 10)) {
        if (daemon_answers(c->target))
            return 0;
        /* gone > 0: another daemon had the home and may be leaving, so a new daemon is started. */
        gone = ended(pid);
        if (gone > 0 && daemon_spawn(c, &pid, e) < 0)
            return -1;
        if (waited > SAY_AFTER_MS && !said) {
            cli_say("waiting for the daemon to start …");
            said = true;
        }
        poll(NULL, 0, nap);
        waited = clock_mono(&clock_system) - start;
    }
    last_log_line(log, line, sizeof(line));
    if (strlen(line) + strlen(log) > sizeof(e->text) - MORE_IN) /* the reason says what to do */
        return err_set(e, ERR_UNAVAILABLE, "the daemon did not start: %s", line);
    return err_set(e, ERR_UNAVAILABLE, "the daemon did not start: %s (more in %s)",
                   line[0] ? line : "it printed no reason", log);
}
