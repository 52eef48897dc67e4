/* look_ahead.c - very short jobs: the next ones wait where they will run
 *
 * The way from the end of one run to the start of the next is: journal, commit, START.  Jobs of a
 * few milliseconds would leave the host idle meanwhile, so while runs are that short the next jobs
 * of the same shape are recorded early and form a chain behind each run: the backend starts the
 * first as soon as the run before it has ended.  Each takes over the slot, the devices and the
 * place in the batch of the one before it, so all must ask for the same, and it is done only while
 * nothing else waits.  A host behind a network may refuse one in the middle, and the next would
 * start beside the first: there, none waits.
 */
#include "core/core_priv.h"

enum {
    SHORT_RUN_MS = 25, /* a round trip costs a few milliseconds: not worth it for longer runs */
    CHAIN_MAX = 8,     /* hides a commit and the few milliseconds in which ends are gathered */
    GATE_PATIENCE_MS = 200, /* a run has lasted this long, so it is not short: give its chain up */
};

/* A queue with rules counts what runs; who waits behind a run would not be counted. */
static bool queue_ruled(const struct core *c, uint32_t shape)
{
    uint32_t named = queue_shape_at(c->queue, shape)->queue;
    struct queue_rules r = queue_rules_of(c->queue, named);

    return r.strict || r.limit;
}

static bool leads_a_chain(struct core *c, const struct run *r)
{
    uint32_t shape = r->job->wait.shape;
    bool young = core_mono(c) - r->started_mono_ms <= SHORT_RUN_MS;
    bool on_its_way = r->phase == RUN_RECORDING || r->phase == RUN_SENT || r->phase == RUN_LIVE;

    return young && on_its_way && !r->host->cls->far && !r->job->cancel_requested &&
           host_open(r->host) && !queue_paused(c->queue, queue_shape_at(c->queue, shape)->queue) &&
           !queue_ruled(c, shape) &&
           !queue_shape_at(c->queue, shape)->need.gpus && /* those are planned elsewhere */
           queue_count_shape(c->queue, shape) == queue_count(c->queue);
}

/* Puts one more job behind the last of the chain, if that has fewer than `depth`. */
static void extend_chain(struct core *c, struct run *r, int depth)
{
    struct wait_item *w = queue_head(c->queue, r->job->wait.shape);
    struct run *last = r;
    int n = 0;

    for (; last->next; last = last->next)
        n++;
    if (!w || n >= depth || map_u64_get(&c->gpu.trains, w->job))
        return;
    queue_remove(c->queue, w);
    run_place(c, r->host, core_job(c, w->job), &r->gpus, last);
    if (!c->gates_due_ms)
        c->gates_due_ms = core_mono(c) + GATE_PATIENCE_MS;
}

/* Row by row, so that the last jobs of a sweep are spread over all slots. */
void run_look_ahead(struct core *c)
{
    if (!c->conf.lookahead || c->mean_run_ms <= 0 || c->mean_run_ms > SHORT_RUN_MS)
        return;
    for (int depth = 1; depth <= CHAIN_MAX && queue_count(c->queue); depth++)
        for (size_t i = 0; i < c->held.n; i++) {
            struct run *r = core_job(c, c->held.p[i].key.job)->run;
            if (leads_a_chain(c, r))
                extend_chain(c, r, depth);
        }
}

static void give_up_chain(struct core *c, struct run *r)
{
    for (; r; r = r->next)
        if (r->phase == RUN_SENT)
            run_stop(c, r); /* it ends as never tried, and is queued again */
}

void run_recall_gated(struct core *c)
{
    int64_t now = core_mono(c), next = 0;

    if (!c->gates_due_ms || now < c->gates_due_ms)
        return;
    for (size_t i = 0; i < c->held.n; i++) {
        struct run *r = core_job(c, c->held.p[i].key.job)->run;
        int64_t due = r->started_mono_ms + GATE_PATIENCE_MS;
        if (!r->next)
            continue;
        if (due <= now) {
            give_up_chain(c, r->next);
            due = now + GATE_PATIENCE_MS; /* those not sent yet, another time */
        }
        next = next ? MIN(next, due) : due;
    }
    c->gates_due_ms = next;
}
