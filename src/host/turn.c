/* turn.c - one turn of the loop: changes, plan, commit, events
 *
 * Callbacks change the core.  At the end of the turn core_turn plans and stages rows, and
 * store_flush hands the batch to the writer.  After the commit the writer posts back: barriers run
 * (replies, starts), then events go out.
 */
#include "api/api.h"
#include "host/host_priv.h"

enum {
    IDLE_MS = 500,            /* time without a commit before the store makes a checkpoint */
    RETAIN_EVERY_MS = 600000, /* between two searches for jobs past their keeping time */
};

/* Sets the timer for the time at which the core has something to do without a request or an event
 * of a run, such as the end of the back-off before a retry. */
static void turn_arm_wake(struct host *h)
{
    int64_t at = core_next_wake(h->core);

    if (at == h->turn.wake_at)
        return;
    h->turn.wake_at = at;
    if (at < 0)
        timer_stop(h->turn.wake);
    else
        timer_start(h->turn.wake,
                    at > clock_mono(&clock_system) ? at - clock_mono(&clock_system) : 0, 0);
}

void turn_finish(void *arg)
{
    struct host *h = arg;

    if (!h->closing) {
        health_turn(h);
        core_turn(h->core);
    }
    store_flush(h->store);
    if (!h->closing)
        turn_arm_wake(h);
}

static void turn_on_wake(void *arg)
{
    struct host *h = arg;

    h->turn.wake_at = -1; /* the end of this turn releases what is due and arms the timer again */
}

static void turn_on_idle(void *arg)
{
    struct host *h = arg;

    store_idle(h->store);
}

/* Loop thread, after each commit.  store_drain comes first: it runs the barriers of the commit, so
 * the daemon replies to a request before it sends the events that the request caused. */
static void turn_committed(void *arg)
{
    struct host *h = arg;

    if (!h->store)
        return; /* posted just before the store was closed */
    store_drain(h->store);
    api_committed(h->api);
    if (job_ports_count(h->env.ports))
        job_ports_look(h->env.ports);
    parts_committed(h);
    health_committed(h);
    timer_start(h->turn.idle, IDLE_MS, 0);
}

void turn_on_commit(void *arg)
{
    struct host *h = arg;

    loop_post(h->loop, turn_committed, h);
}

void turn_start(struct host *h)
{
    h->turn.wake = timer_new(h->loop, turn_on_wake, h);
    h->turn.idle = timer_new(h->loop, turn_on_idle, h);
    h->turn.retain = timer_new(h->loop, old_jobs_look, h);
    h->turn.wake_at = -1;
    timer_start(h->turn.idle, IDLE_MS, 0); /* the first jobs should find a log that need not grow */
    if (h->conf.retain_ms)
        timer_start(h->turn.retain, IDLE_MS, RETAIN_EVERY_MS);
    health_start(h);
    loop_on_turn_end(h->loop, turn_finish, h);
    h->turn.on = true;
}

void turn_stop(struct host *h)
{
    if (h->turn.on)
        loop_off_turn_end(h->loop, turn_finish, h);
    health_stop(h);
    timer_free(h->turn.wake);
    timer_free(h->turn.idle);
    timer_free(h->turn.retain);
}
