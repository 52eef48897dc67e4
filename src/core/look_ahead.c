/* look_ahead.c - very short jobs: the next ones wait where they will run
 *
 * Owns: chains of runs, and runs that were sent ahead until the host says that they have begun.
 *
 * Between the end of one run and the start of the next there are a journal record, a commit and a
 * message.  Jobs of a few milliseconds would leave the host idle meanwhile.  While runs are that
 * short, the next jobs of the same shape are sent ahead and form a chain behind each run: the
 * backend starts the first of a chain as soon as the run before it has ended.  Each run of a chain
 * takes over the slot, the devices and the place in the batch of the run before it, so all jobs of
 * a chain must ask for the same, and chains are made only while no other shape waits.
 *
 * A job whose run was sent ahead is a waiting job: queued, with no attempt more than before.  The
 * start is durable before it is sent (CHANGE_AHEAD), but only recovery reads that record.  When the
 * host says that the run has begun, the run is recorded like any other (ahead_arrived).  When the
 * host has taken the start back, the record is deleted and nothing is left of it (ahead_withdrawn);
 * the next start of the job may have the same key, because a start that was taken back never runs.
 */
#include "core/core_priv.h"

enum {
    SHORT_RUN_MS = 25, /* a round trip costs a few milliseconds: not worth it for longer runs */
    CHAIN_MAX = 8,     /* hides a commit and the few milliseconds in which ends are gathered */
    GATE_PATIENCE_MS = 200, /* a run that has lasted this long is not short: take its chain back */
};

/* ---- sending ---- */

/* A queue with rules counts what runs; runs that wait behind another would not be counted. */
static bool queue_ruled(const struct core *c, uint32_t shape)
{
    uint32_t named = queue_shape_at(c->queue, shape)->queue;
    struct queue_rules r = queue_rules_of(c->queue, named);

    return r.strict || r.limit;
}

/* May other runs wait behind this one?  Not behind a run that has lasted longer than SHORT_RUN_MS,
 * nor while any job of another shape waits. */
static bool leads_a_chain(struct core *c, const struct run *r)
{
    uint32_t shape = r->job->wait.shape;
    bool young = core_mono(c) - r->started_mono_ms <= SHORT_RUN_MS;
    bool on_its_way = r->phase == RUN_RECORDING || r->phase == RUN_SENT || r->phase == RUN_LIVE;

    return young && on_its_way && !r->recall && r->host->cls->withdraw &&
           !r->job->cancel_requested && host_open(r->host) &&
           queue_active(c->queue, queue_shape_at(c->queue, shape)->queue) &&
           !queue_ruled(c, shape) &&
           !queue_shape_at(c->queue, shape)->need.gpus && /* those are planned elsewhere */
           queue_count_shape(c->queue, shape) == queue_count(c->queue);
}

/* The intention to start it is durable before it is sent, as for any run. */
static void ahead_place(struct core *c, struct job *j, struct run *last)
{
    struct run *r = run_new(c, j, last->host, &last->gpus);

    r->chain = (struct run_chain){.prev = last, .ahead = true};
    last->chain.next = r;
    j->hold = HOLD_AHEAD;
    core_stage(c, &(struct change){.kind = CHANGE_AHEAD,
                                   .at_ms = core_wall(c),
                                   .ahead = {.key = r->key,
                                             .node = str_of(host_node(r->host)->name),
                                             .journal = r->journal}});
    run_send_after_commit(c, r);
    if (!c->ahead.due_ms)
        c->ahead.due_ms = core_mono(c) + GATE_PATIENCE_MS;
}

/* Puts one more job behind the last of the chain, if the chain has fewer than `depth`. */
static void extend_chain(struct core *c, struct run *r, int depth)
{
    struct wait_item *w = queue_head(c->queue, r->job->wait.shape);
    struct run *last = r;
    int n = 0;

    for (; last->chain.next; last = last->chain.next) {
        if (last->chain.next->recall)
            return; /* until the host has answered, nothing can wait behind that one */
        n++;
    }
    if (!w || n >= depth || map_u64_get(&c->gpu.trains, w->job))
        return;
    queue_remove(c->queue, w);
    ahead_place(c, core_job(c, w->job), last);
}

/* Row by row, so that the last jobs of a sweep are spread over all slots. */
void ahead_send(struct core *c)
{
    double mean_ms = c->ahead.mean_run_ms;

    if (!c->conf.lookahead || mean_ms <= 0 || mean_ms > SHORT_RUN_MS)
        return;
    for (int depth = 1; depth <= CHAIN_MAX && queue_count(c->queue); depth++)
        for (size_t i = 0; i < c->held.n; i++) {
            struct run *r = core_job(c, c->held.p[i].key.job)->run;
            if (leads_a_chain(c, r))
                extend_chain(c, r, depth);
        }
}

/* ---- chains ---- */

/* If r was the first of its chain, the run behind r takes its place and holds the resources from
 * now on. */
void ahead_unlink(struct core *c, struct run *r)
{
    struct run *heir = r->chain.next;

    if (r->chain.prev)
        r->chain.prev->chain.next = heir;
    if (heir)
        heir->chain.prev = r->chain.prev;
    if (heir && !heir->chain.prev) {
        heir->started_mono_ms = core_mono(c);
        run_hold(c, heir);
    }
    r->chain.next = r->chain.prev = NULL;
}

/* The backend may have dropped a run in the middle, or that run may just have started.  A start
 * behind a run that the backend does not know would begin at once, beside the first of the chain.
 */
bool ahead_broken(const struct run *r)
{
    for (const struct run *p = r->chain.prev; p && p->chain.prev; p = p->chain.prev)
        if (p->stop_sent || p->recall)
            return true;
    return false;
}

/* ---- the host answers ---- */

void ahead_answered(struct core *c, struct job *j)
{
    for (size_t i = 0; i < c->ahead.wishes.n;) {
        struct ahead_wish w = c->ahead.wishes.p[i];
        if (w.job != j->wait.job) {
            i++;
            continue;
        }
        vec_remove(&c->ahead.wishes, i);
        w.fn(w.arg, j);
    }
}

/* Deletes the record of the start, so that recovery does not ask the host for it. */
static void ahead_stage_gone(struct core *c, const struct job *j)
{
    core_stage(c, &(struct change){.kind = CHANGE_AHEAD_GONE,
                                   .at_ms = core_wall(c),
                                   .ahead_gone = {.job = j->wait.job}});
}

void ahead_arrived(struct core *c, struct run *r, int64_t at_ms)
{
    r->chain.ahead = r->recall = false;
    r->job->hold = HOLD_NONE;
    ahead_stage_gone(c, r->job);
    run_record(c, r, at_ms);
}

void ahead_withdrawn(struct core *c, struct run *r, int64_t delay_ms)
{
    struct job *j = r->job;
    struct run_key key = r->key;
    uint64_t host = r->host->serial;

    ahead_stage_gone(c, j);
    run_drop(c, r);
    j->due_ms = delay_ms ? core_mono(c) + delay_ms : 0;
    job_activate(c, j);
    job_forget_after_commit(c, j, key, host);
    ahead_answered(c, j);
}

/* ---- taking back ---- */

/* From the end of the chain: a START that is sent again to a new shepherd must not name a run that
 * was taken back, because it would begin at once. */
void ahead_withdraw(struct run *r)
{
    if (r->recall)
        return;
    if (r->chain.next)
        ahead_withdraw(r->chain.next);
    r->recall = true; /* one that is not sent yet will not be */
    if (r->phase != RUN_RECORDING && r->host->cls)
        r->host->cls->withdraw(r->host->backend, r->key);
}

void ahead_then(struct core *c, const struct job *j, ahead_fn fn, void *arg)
{
    vec_push(&c->ahead.wishes, ((struct ahead_wish){j->wait.job, fn, arg}));
    ahead_withdraw(j->run);
}

void ahead_recall_late(struct core *c)
{
    int64_t now = core_mono(c), next = 0;

    if (!c->ahead.due_ms || now < c->ahead.due_ms)
        return;
    for (size_t i = 0; i < c->held.n; i++) {
        struct run *r = core_job(c, c->held.p[i].key.job)->run;
        int64_t due = r->started_mono_ms + GATE_PATIENCE_MS;
        if (!r->chain.next)
            continue;
        if (due <= now) {
            ahead_withdraw(r->chain.next);
            due = now + GATE_PATIENCE_MS; /* looked at again until the host has answered */
        }
        next = next ? MIN(next, due) : due;
    }
    c->ahead.due_ms = next;
}

void ahead_free(struct core *c)
{
    for (size_t i = 0; i < c->ahead.wishes.n; i++)
        c->ahead.wishes.p[i].fn(c->ahead.wishes.p[i].arg, NULL);
    vec_done(&c->ahead.wishes);
}
