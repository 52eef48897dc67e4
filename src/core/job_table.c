/* job_table.c - the active jobs: made, moved between states, held, forgotten
 *
 * Owns: the table, what keeps a waiting job out of the queue (dependencies, back-off, a person's
 * hold), who waits for whom.
 * Does not own: the order of ready jobs (sched/queue.c) or what a run does (run.c).
 *
 * Rule for dependencies: a job starts when all it waits for have succeeded.  If one ends in any
 * other way, the waiting job is cancelled with that reason, and so are those that wait for it in
 * turn.
 */
#include "base/heap.h"
#include "core/core_priv.h"
#include <stdio.h>

enum { GRACE_ALLOWED_S = 60 }; /* after its limit a run is surely gone within this */

/* Jobs come from slabs: a million of them make a thousand allocations, and the free ones are
 * reused.  Slabs are kept, so memory follows the longest queue there was, not the history. */
static struct job *job_take(struct core *c)
{
    if (!c->jobs.free) {
        struct job_slab *slab = xcalloc(1, sizeof(*slab));
        slab->next = c->jobs.slabs;
        c->jobs.slabs = slab;
        for (size_t i = JOBS_PER_SLAB; i-- > 0;) {
            slab->jobs[i].next_free = c->jobs.free;
            c->jobs.free = &slab->jobs[i];
        }
    }
    struct job *j = c->jobs.free;
    c->jobs.free = j->next_free;
    *j = (struct job){0};
    return j;
}

struct job *job_new(struct core *c, uint64_t number)
{
    struct job *j = job_take(c);

    ASSERT(!core_job(c, number));
    j->wait.job = number;
    map_u64_put(&c->jobs.by_number, number, j);
    c->stats.queued++; /* JOB_QUEUED is 0: every job begins there */
    return j;
}

void job_describe(struct core *c, struct job *j, const struct job_record *r)
{
    int64_t limit_s = r->timeout_ms ? r->timeout_ms / 1000 + GRACE_ALLOWED_S : 0;

    j->retries = (uint16_t)r->retries;
    j->retry_lost = (uint8_t)r->retry_lost;
    j->lost = (uint8_t)MIN(r->lost, (uint32_t)UINT8_MAX);
    j->full = (uint8_t)MIN(r->full, (uint32_t)UINT8_MAX);
    j->backoff_ms = (uint32_t)MIN(r->backoff_ms, (int64_t)UINT32_MAX);
    j->uid = r->uid;
    j->tag = core_run_key(c, r->seq, r->id, 0).tag;
    j->wait.priority = r->priority;
    j->wait.limit_s = (uint32_t)MIN(limit_s, (int64_t)UINT32_MAX);
    j->wait.shape =
        queue_shape_take(c->queue, &(struct shape){.need = r->need,
                                                   .queue = core_queue_index(c, r->queue),
                                                   .uid = r->uid,
                                                   .batch = r->batch,
                                                   .batch_max = r->batch_slots,
                                                   .nodes = r->nodes});
}

/* The job must neither be in the queue nor have a run. */
static void job_reshape(struct core *c, struct job *j, const struct shape *s)
{
    uint32_t was = j->wait.shape;

    j->wait.shape = queue_shape_take(c->queue, s);
    queue_shape_drop(c->queue, was);
}

void job_avoid(struct core *c, struct job *j, const struct core_host *h)
{
    struct shape s = *queue_shape_at(c->queue, j->wait.shape);

    s.avoid |= avoid_bit(h->at);
    job_reshape(c, j, &s);
}

void job_leave_out(struct core *c, struct job *j, const struct core_host *h)
{
    struct shape s = *queue_shape_at(c->queue, j->wait.shape);

    s.unfit |= unfit_bit(h->at);
    job_reshape(c, j, &s);
}

/* Of a job with a run the mark stays: its shape counts what the run holds. */
void jobs_take_in(struct core *c, uint32_t place)
{
    struct job *j;

    for (size_t it = 0; (j = map_u64_each(&c->jobs.by_number, &it));) {
        if (j->run || job_state_final(j->state) ||
            !(queue_shape_at(c->queue, j->wait.shape)->unfit & unfit_bit(place)))
            continue;
        struct shape s = *queue_shape_at(c->queue, j->wait.shape);
        bool queued = queue_contains(c->queue, &j->wait);
        s.unfit &= ~unfit_bit(place);
        if (queued)
            queue_remove(c->queue, &j->wait);
        job_reshape(c, j, &s);
        if (queued)
            queue_push(c->queue, &j->wait);
    }
}

/* The counter of an active state; NULL = the state is final. */
static size_t *state_counter(struct core *c, enum job_state s)
{
    switch (s) {
    case JOB_QUEUED:
        return &c->stats.queued;
    case JOB_HELD:
        return &c->stats.on_hold;
    case JOB_STARTING:
        return &c->stats.starting;
    case JOB_RUNNING:
        return &c->stats.running;
    case JOB_STOPPING:
        return &c->stats.stopping;
    default:
        return NULL;
    }
}

void job_drop(struct core *c, struct job *j)
{
    size_t *counter = state_counter(c, j->state);

    ASSERT(!j->run);
    if (counter)
        --*counter;
    queue_shape_drop(c->queue, j->wait.shape);
    train_drop(c, j->wait.job);
    map_u64_del(&c->jobs.by_number, j->wait.job);
    j->next_free = c->jobs.free;
    c->jobs.free = j;
}

void job_move(struct core *c, struct job *j, enum job_event ev)
{
    enum job_state next = j->state;
    bool legal = job_next(j->state, ev, &next);
    size_t *from = state_counter(c, j->state), *to = state_counter(c, next);

    ASSERT(legal);
    if (from)
        --*from;
    if (to)
        ++*to;
    else
        c->stats.ended[next]++;
    j->state = (uint8_t)next;
    c->dirty = true;
    if (!to)
        train_final(c, j);
}

uint32_t core_queue_index(struct core *c, struct str name)
{
    uintptr_t known = (uintptr_t)map_str_get(&c->queues, name);

    if (!known) {
        known = c->queues.n + 1;
        map_str_put(&c->queues, name, (void *)known);
    }
    return (uint32_t)known;
}

/* ---- back-off: a heap by time; entries of jobs that moved on are skipped when they surface ----
 */

static bool due_before(const struct due *a, const struct due *b)
{
    return a->at_ms < b->at_ms;
}

HEAP_DEFINE(due_heap, struct due, due_before, HEAP_NO_PLACE)

static void due_push(struct core *c, int64_t at_ms, uint64_t job)
{
    vec_push(&c->jobs.due, ((struct due){at_ms, job}));
    due_heap_fix(c->jobs.due.p, c->jobs.due.n, c->jobs.due.n - 1);
}

static struct due due_pop(struct core *c)
{
    struct due top = c->jobs.due.p[0];

    due_heap_remove(c->jobs.due.p, &c->jobs.due.n, 0);
    return top;
}

void core_release_due(struct core *c)
{
    int64_t now = core_mono(c);

    while (c->jobs.due.n && c->jobs.due.p[0].at_ms <= now) {
        struct job *j = core_job(c, due_pop(c).job);
        /* The entry is stale: the job is gone, was released before, or waits for a later time. */
        if (!j || j->hold != HOLD_BACKOFF || j->due_ms > now)
            continue;
        j->hold = HOLD_NONE;
        c->stats.held--;
        queue_push(c->queue, &j->wait);
        train_ready(c, j);
        c->dirty = true;
    }
}

int64_t core_next_wake(const struct core *c)
{
    const int64_t times[] = {c->jobs.due.n ? c->jobs.due.p[0].at_ms : -1,
                             train_next_wake(c),
                             c->ahead.due_ms ? c->ahead.due_ms : -1,
                             hosts_next_wake(c),
                             schedules_next_wake(c),
                             studies_next_wake(c),
                             c->steps.n ? c->steps.p[0].at_ms : -1,
                             hooks_next_wake(c),
                             trouble_next_wake(c)};
    int64_t at = -1;

    for (size_t i = 0; i < ARRAY_SIZE(times); i++)
        if (times[i] >= 0 && (at < 0 || times[i] < at))
            at = times[i];
    return at;
}

/* ---- queue and holds ---- */

void job_activate(struct core *c, struct job *j)
{
    ASSERT(job_state_waits(j->state) && !j->run);
    c->dirty = true;
    if (j->state == JOB_HELD) {
        j->hold = HOLD_PERSON;
    } else if (j->deps) {
        j->hold = HOLD_DEPS;
        c->stats.held++;
    } else if (j->due_ms && j->due_ms > core_mono(c)) {
        j->hold = HOLD_BACKOFF;
        c->stats.held++;
        due_push(c, j->due_ms, j->wait.job);
    } else {
        j->hold = HOLD_NONE;
        queue_push(c->queue, &j->wait);
        /* During recovery train_restored tells the planner of all jobs, in one order. */
        if (c->recovered)
            train_ready(c, j);
    }
}

void job_dequeue(struct core *c, struct job *j)
{
    if (j->hold == HOLD_NONE)
        queue_remove(c->queue, &j->wait);
    else if (j->hold == HOLD_DEPS || j->hold == HOLD_BACKOFF)
        c->stats.held--;
    j->hold = HOLD_NONE;
}

void job_wait_for(struct core *c, struct job *j, uint64_t other)
{
    struct waiters *w = map_u64_get(&c->jobs.waiters, other);

    if (!w) {
        w = xcalloc(1, sizeof(*w));
        map_u64_put(&c->jobs.waiters, other, w);
    }
    /* A new serial makes the entries of an earlier wait of the same job stale. */
    if (!j->deps)
        j->wait_serial = ++c->jobs.wait_serial;
    vec_push(&w->jobs, ((struct waiter){j->wait.job, j->wait_serial}));
    j->deps++;
}

void job_move_recorded(struct core *c, struct job *j, enum job_event ev, struct str reason)
{
    enum job_state from = j->state;

    job_move(c, j, ev);
    core_stage(c, &(struct change){.kind = CHANGE_JOB_STATE,
                                   .at_ms = core_wall(c),
                                   .job_state = {.first = j->wait.job,
                                                 .last = j->wait.job,
                                                 .from = from,
                                                 .to = j->state,
                                                 .reason = reason}});
}

/* Cancels one waiting job because a job it waits for did not succeed. */
static void cancel_waiter(struct core *c, struct job *j, uint64_t other, enum job_state state)
{
    char reason[96];

    snprintf(reason, sizeof(reason), "job %llu, which it waits for, ended as %s",
             (unsigned long long)other, job_state_name(state));
    job_dequeue(c, j);
    job_move_recorded(c, j, JOB_EV_CANCEL, str_of(reason));
    job_forget_after_commit(c, j, (struct run_key){0}, 0);
}

void job_settle_waiters(struct core *c, struct job *j)
{
    /* A list instead of recursion: a chain of dependent jobs may be as long as the queue. */
    VEC(struct job *) ended = {0};

    vec_push(&ended, j);
    for (size_t i = 0; i < ended.n; i++) {
        struct job *e = ended.p[i];
        study_job_final(c, e);
        struct waiters *w = map_u64_del(&c->jobs.waiters, e->wait.job);
        for (size_t k = 0; w && k < w->jobs.n; k++) {
            struct job *other = core_job(c, w->jobs.p[k].job);
            if (!other || other->wait_serial != w->jobs.p[k].serial ||
                !job_state_waits(other->state) || other->hold == HOLD_NONE || !other->deps)
                continue;
            if (e->state != JOB_SUCCEEDED) {
                cancel_waiter(c, other, e->wait.job, e->state);
                vec_push(&ended, other);
            } else if (--other->deps == 0 && other->hold == HOLD_DEPS) {
                c->stats.held--;
                job_activate(c, other);
            }
        }
        if (w) {
            vec_done(&w->jobs);
            free(w);
        }
    }
    vec_done(&ended);
}

void job_cancel_dependent(struct core *c, uint64_t job, uint64_t other, enum job_state state)
{
    struct job *j = core_job(c, job);

    if (!j || !job_state_waits(j->state) || j->hold == HOLD_AHEAD)
        return; /* one that was sent ahead had all it waits for */
    cancel_waiter(c, j, other, state);
    job_settle_waiters(c, j);
}

/* ---- forgetting ---- */

struct forget {
    struct core *c;
    uint64_t job;
    struct run_key key;
    uint64_t host; /* serial */
    bool final;
};

/* Only now may the host drop its trace of the run: after a crash before the commit, that trace
 * tells how the run ended. */
static void on_end_durable(void *arg, const struct err *e)
{
    struct forget *f = arg;
    struct job *j = core_job(f->c, f->job);

    if (!e && j && f->final)
        job_drop(f->c, j);
    struct core_host *h = f->key.job ? host_by_serial(f->c, f->host) : NULL;
    if (!e && h && h->cls)
        h->cls->settled(h->backend, f->key);
    free(f);
}

void job_forget_after_commit(struct core *c, struct job *j, struct run_key key, uint64_t host)
{
    struct forget *f = xmalloc(sizeof(*f));

    *f = (struct forget){c, j->wait.job, key, host, job_state_final(j->state)};
    core_barrier(c, on_end_durable, f);
}
