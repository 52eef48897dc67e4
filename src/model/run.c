/* run.c - how a run ended: its exit code, and one sentence for people
 *
 * Exit codes follow the shell: 0 to 255 as the command said, 128 + signal, 127 for a command that
 * was not found and 126 for one that could not be started.  A run without an outcome of its own
 * (supervisor killed, node lost, never ran, cancelled before it began) has none: -1.
 */
#include "base/units.h"
#include "base/util.h"
#include "model/job.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* The names are stored on disk: none may change. */
static const char *const end_names[] = {
#define X(up, low) [RUN_END_##up] = #low,
    RUN_END_LIST(X)
#undef X
};

const char *run_end_name(enum run_end r)
{
    return (unsigned)r < RUN_END_MAX ? end_names[r] : "unknown";
}

/* -1 for a status of a process that was only stopped or continued. */
static int status_code(int wait_status)
{
    if (WIFEXITED(wait_status))
        return WEXITSTATUS(wait_status);
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : -1;
}

int run_outcome_exit_code(const struct run_outcome *o)
{
    switch (o->why) {
    case RUN_END_EXITED:
    case RUN_END_TIMEOUT:
    case RUN_END_OUT_OF_MEMORY:
        return status_code(o->wait_status);
    case RUN_END_CANCELLED:
        return o->started_ms ? status_code(o->wait_status) : -1;
    case RUN_END_START_FAILED:
        return o->sys == ENOENT ? 127 : 126;
    case RUN_END_SUPERVISOR_KILLED:
    case RUN_END_NEVER_RAN:
    case RUN_END_NODE_LOST:
    case RUN_END_MAX:
        break;
    }
    return -1;
}

/* The name of a signal, where it has one, saves users a look into a table. */
static void signal_text(int wait_status, char *out, size_t n)
{
    int signo = WTERMSIG(wait_status);
    const char *name = sigabbrev_np(signo);
    const char *core = WCOREDUMP(wait_status) ? ", core dumped" : "";

    if (name)
        snprintf(out, n, "killed by signal %d (%s)%s", signo, name, core);
    else
        snprintf(out, n, "killed by signal %d%s", signo, core);
}

/* Empty for exit status 0: a job that succeeded needs no reason. */
static void exited_text(int wait_status, char *out, size_t n)
{
    int code = status_code(wait_status);

    if (WIFSIGNALED(wait_status))
        signal_text(wait_status, out, n);
    else if (code == 127)
        snprintf(out, n, "exit status 127 (usually: command not found)");
    else if (code == 126)
        snprintf(out, n, "exit status 126 (usually: command cannot be executed)");
    else if (code != 0)
        snprintf(out, n, "exit status %d", code);
    else
        out[0] = '\0';
}

/* The supervisor's own sentence is best; without one the errno has to do. */
static void start_failed_text(const struct run_outcome *o, struct str detail, char *out, size_t n)
{
    if (detail.n)
        snprintf(out, n, STR_FMT, STR_ARG(detail));
    else if (o->sys == ENOENT)
        snprintf(out, n, "command not found");
    else if (o->sys)
        snprintf(out, n, "could not start: %s", strerrordesc_np(o->sys) ?: "unknown error");
    else
        snprintf(out, n, "could not start");
}

/* "ran longer than its limit of 2h"; the limit is left out when it is not known. */
static void limit_text(const char *what, const char *join, const char *limit, const char *end,
                       char *out, size_t n)
{
    if (limit[0])
        snprintf(out, n, "%s%s%s%s", what, join, limit, end);
    else
        snprintf(out, n, "%s", what);
}

void run_outcome_describe(const struct run_outcome *o, const struct run_facts *f, char *out,
                          size_t n)
{
    static const struct run_facts none;
    char limit[UNIT_TEXT_MAX] = "";

    ASSERT(n > 0);
    /* Facts are optional: callers without the spec get the short sentence. */
    f = f ? f : &none;
    switch (o->why) {
    case RUN_END_EXITED:
        exited_text(o->wait_status, out, n);
        return;
    case RUN_END_CANCELLED:
        snprintf(out, n, "%s", o->started_ms ? "cancelled" : "cancelled before it started");
        return;
    case RUN_END_TIMEOUT:
        if (f->timeout_ms)
            duration_format(f->timeout_ms, limit);
        limit_text("ran longer than its limit", " of ", limit, "", out, n);
        return;
    case RUN_END_START_FAILED:
        start_failed_text(o, f->detail, out, n);
        return;
    case RUN_END_SUPERVISOR_KILLED:
        snprintf(out, n, "supervisor was killed");
        return;
    case RUN_END_NEVER_RAN:
        snprintf(out, n, "never ran: no trace of it was found after a crash");
        return;
    case RUN_END_NODE_LOST:
        snprintf(out, n, "the machine it ran on went away or rebooted");
        return;
    case RUN_END_OUT_OF_MEMORY:
        if (f->mem_bytes)
            size_format(f->mem_bytes, limit);
        limit_text("out of memory", " (limit ", limit, ")", out, n);
        return;
    case RUN_END_MAX:
        break;
    }
    snprintf(out, n, "ended for an unknown reason (%d)", (int)o->why);
}

void run_outcome_text(const struct run_outcome *o, char *out, size_t n)
{
    run_outcome_describe(o, NULL, out, n);
}
