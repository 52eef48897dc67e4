/* cmd_stop.c - berth stop: end the daemon of a home and wait until it has ended
 *
 * Owns: whom to ask.  The lock of the home tells who serves it: a daemon is asked to end over its
 * socket; a `berth run` that serves its own jobs is left alone, because its user waits for it.
 * Jobs have supervisors of their own and continue without a daemon.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"
#include "host/doctor.h"
#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>

enum { STOP_WAIT_MS = 60 * 1000, STOP_NAP_MS = 20 };

/* Is one of its words "serve"?  Unreadable counts as yes: then the daemon itself decides. */
static bool is_daemon(pid_t pid, char shown[80])
{
    AUTO_FREE char *path = xasprintf("/proc/%d/cmdline", (int)pid), *text = NULL;
    size_t n = 0;
    bool serve = false;

    if (file_read_all(path, 1 << 20, &text, &n, NULL) < 0 || n == 0)
        return true;
    snprintf(shown, 80, "%s", text);
    for (size_t i = 0; i < n; i += strlen(text + i) + 1) {
        serve = serve || !strcmp(text + i, "serve");
        if (i > 0)
            snprintf(shown + strlen(shown), 80 - strlen(shown), " %s", text + i);
    }
    return serve;
}

/* False when it still runs after a minute.  Another daemon may have the home by then. */
static bool has_ended(pid_t pid, int pidfd, const char *lock)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int64_t end = clock_mono(&clock_system) + STOP_WAIT_MS;
    pid_t holder = pid;

    if (pidfd >= 0)
        return poll(&p, 1, STOP_WAIT_MS) == 1;
    /* Before Linux 5.3, and where pidfds are forbidden: the lock ends with the process. */
    while (file_lock_held(lock, &holder) == 1 && holder == pid) {
        if (clock_mono(&clock_system) > end)
            return false;
        poll(NULL, 0, STOP_NAP_MS);
    }
    return true;
}

static void say_stopped(const struct cli *c, pid_t pid, const struct json *counts)
{
    int64_t queued = int_of(counts, "queued"),
            running =
                int_of(counts, "running") + int_of(counts, "starting") + int_of(counts, "stopping");
    char jobs[120];

    snprintf(jobs, sizeof(jobs), "%lld job%s continue%s to run", (long long)running,
             plural_end(running), running == 1 ? "s" : "");
    cli_say("the daemon of %s (pid %d) has ended; %s, %lld wait%s; berth serve or the next "
            "submission starts a daemon",
            c->home, (int)pid, running ? jobs : "no job was running", (long long)queued,
            queued == 1 ? "s" : "");
}

static int stop_daemon(struct cli *c, struct err *e)
{
    AUTO_FREE char *lock = path_join(c->home, "daemon.lock");
    AUTO(json) struct json *meta = NULL;
    char shown[80] = "";
    pid_t pid = 0;

    if (file_lock_held(lock, &pid) != 1) {
        cli_say("no daemon serves %s", c->home);
        return 0;
    }
    if (!is_daemon(pid, shown))
        return err_set(e, ERR_CONFLICT, "'%s' (pid %d) serves %s, not a daemon; end that command",
                       shown, (int)pid, c->home);
    AUTO_FD pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (cli_get(c, "/v1", &meta, e) < 0 || cli_post(c, "/v1/shutdown", NULL, NULL, e) < 0) {
        if (e->code == ERR_UNAVAILABLE)
            err_set(e, ERR_UNAVAILABLE,
                    "the daemon of %s (pid %d) does not answer; 'kill %d' ends it, running jobs "
                    "continue",
                    c->home, (int)pid, (int)pid);
        return -1;
    }
    if (!has_ended(pid, pidfd, lock))
        return err_set(e, ERR_UNAVAILABLE,
                       "the daemon of %s (pid %d) was asked to end and has not after a minute; "
                       "read %s/log",
                       c->home, (int)pid, c->home);
    say_stopped(c, pid, json_get(meta, "counts"));
    return 0;
}

static int stop(struct cli *c, const void *opts UNUSED, const struct operands *ops UNUSED)
{
    struct err e = {0};

    c->unreachable = NULL; /* a daemon is not started to be ended */
    if (cli_open(c, &e) < 0)
        return cli_fail(&e);
    if (!c->is_unix)
        return cli_refuse("berth stop ends a daemon of this machine; run it where the daemon runs");
    return stop_daemon(c, &e) < 0 ? cli_fail(&e) : 0;
}

const struct command cmd_stop = {
    BERTH_COMMAND(SECTION_DAEMON, "stop", "[OPTION…]", stop,
                  "end the daemon; running jobs continue"),
    .description =
        "Asks the daemon of the home to end and returns when it has. Jobs continue to run, and "
        "the next daemon takes them over with their output and exit status; queued jobs wait for "
        "it. Without a daemon it does nothing and succeeds.",
    .groups = OPTION_GROUPS(&common_group),
    .examples = EXAMPLES({"berth stop", "end the daemon that berth submit started"},
                         {"berth stop --home /srv/berth", "the daemon of another home"}),
};
