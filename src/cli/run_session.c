/* run_session.c - a host for as long as a command runs
 *
 * Owns: who serves the home while `berth run` works.  Nobody: we do, in this process.  Somebody:
 * we are a client.  Somebody who vanishes: we take over.  When we leave and others' jobs remain,
 * a background daemon gets them, so that none is stranded.
 *
 * Signals are caught, not blocked: a blocked mask would be inherited by everything we start.
 */
#include "base/clock.h"
#include "base/util.h"
#include "cli/run.h"
#include "cli/view.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

enum { TAKE_OVER_MS = 10000, NAP_MS = 20, EXIT_INTERRUPTED = 130 };

/* For the signal handler, which gets no argument: the writing end of run_session.interrupts. */
static int interrupt_fd = -1;

/* The handler only writes a byte; errno is restored for the code that was interrupted. */
static void session_on_signal(int signo)
{
    int saved = errno;
    char byte = (char)signo;

    (void)!write(interrupt_fd, &byte, 1);
    errno = saved;
}

/* SIGPIPE is ignored, so that a closed output is an error of write(), which run_one.c handles. */
static void catch_signals(void)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction sa = {.sa_handler = session_on_signal, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    for (size_t i = 0; i < ARRAY_SIZE(caught); i++)
        sigaction(caught[i], &sa, NULL);
    sigaction(SIGPIPE, &ignore, NULL);
}

/* Called when nobody answers on the home's socket. */
static int take_over(struct cli *c, struct err *e)
{
    struct run_session *s = c->unreachable_arg;
    int64_t until = clock_mono(&clock_system) + TAKE_OVER_MS;

    if (s->host)
        return err_wrap(e, "the scheduler inside this command stopped answering");
    for (;;) {
        if (embed_open(&s->host, &s->conf, e) == 0)
            return 0;
        if (e->code != ERR_CONFLICT)
            return -1;
        /* Somebody holds the home and is just starting or leaving. */
        if (daemon_answers(c->target))
            return 0;
        if (clock_mono(&clock_system) > until)
            return -1;
        poll(NULL, 0, NAP_MS);
    }
}

int run_session_open(struct run_session *s, struct cli *c, int32_t slots, struct err *e)
{
    *s = (struct run_session){.c = c, .interrupts = {-1, -1}};
    if (cli_open(c, e) < 0)
        return -1;
    if (c->is_unix && embed_log(c->home, e) < 0)
        return -1;
    if (!c->opt.home && !c->opt.server)
        c->opt.home = c->home; /* this home, never the system daemon's */
    if (pipe2(s->interrupts, O_CLOEXEC) < 0)
        return err_sys(e, "cannot create a pipe");
    s->conf = (struct host_conf){.home = c->home,
                                 .slots = slots,
                                 .gpus = -1,
                                 .parts = c->program->parts,
                                 .version = c->program->version};
    c->unreachable = take_over;
    c->unreachable_arg = s;
    c->no_reminder = true; /* it says by itself how far it is */
    interrupt_fd = s->interrupts[1];
    catch_signals();
    return 0;
}

/* What needs a daemon when we leave: jobs, except held ones, and schedules that wait for their next
 * time.  Nothing when the host cannot be asked. */
static void count_left(struct cli *c, int64_t *jobs, bool *schedules)
{
    AUTO(json) struct json *counts = NULL, *all = NULL;
    struct err e;

    if (cli_get(c, "/v1/jobs/summary?state=queued,starting,running,stopping", &counts, &e) == 0)
        *jobs = int_of(counts, "total");
    if (cli_get(c, "/v1/schedules", &all, &e) == 0)
        for (size_t i = 0; i < json_len(json_get(all, "items")); i++)
            *schedules |= json_len(json_get(json_at(json_get(all, "items"), i), "next")) > 0;
}

/* Jobs and schedules are counted while the host still answers.  The daemon is started after the
 * host has given up the lock of the home. */
void run_session_close(struct run_session *s)
{
    int64_t left = 0;
    bool schedules = false;
    struct err e;

    if (s->host)
        count_left(s->c, &left, &schedules);
    s->c->unreachable = NULL;
    embed_close(s->host);
    s->host = NULL;
    if ((left || schedules) && daemon_spawn(s->c, NULL, &e) < 0)
        cli_say("%lld other job%s stay%s queued until the next berth command: %s", (long long)left,
                plural_end(left), left == 1 ? "s" : "", e.text);
    else if (left)
        cli_say("%lld other job%s continue%s under a background daemon (berth ls)", (long long)left,
                plural_end(left), left == 1 ? "s" : "");
    for (int i = 0; i < 2; i++)
        if (s->interrupts[i] >= 0)
            close(s->interrupts[i]);
}

_Noreturn void run_session_abandon(struct run_session *s)
{
    struct err e;

    if (s->host && daemon_spawn(s->c, NULL, &e) < 0)
        cli_say(
            "exiting; the jobs keep running, and the next berth command records their results: %s",
            e.text);
    else
        cli_say("exiting; the jobs keep running (berth ls)");
    _exit(EXIT_INTERRUPTED);
}
