/* act.c - what people ask of existing jobs: cancel, hold, release, retry, remove, pause
 *
 * Each takes effect in memory at once, is answered after its commit, and reaches the backend only
 * then; on a full disk after a second without a commit (trouble_barrier), so that a job can be
 * stopped there.  If the daemon ends before the commit, such a job runs once more.
 *
 * People read the store, which may be ahead of the core: a commit is visible before the loop hears
 * of it.  A request that meets a job in that moment waits for the commit, so that nobody who saw a
 * job end is told that it has not ended.  A request about a finished job that is being removed
 * waits for that removal, which the store may refuse: only then it is known whether there is such a
 * job.
 */
#include "core/core_priv.h"
#include <stdio.h>

/* One request of a person, from its arrival until it is answered. */
struct acting {
    struct core *c;
    core_act_fn done;
    void *arg;
    struct caller who;
    const struct act_kind *kind;
    struct acted result;
    VEC(uint64_t) jobs;       /* of a request that waits for a commit */
    VEC(struct run_key) keys; /* runs to stop, or whose files go */
    /* What happens to each job. */
    void (*act)(struct acting *a, const uint64_t *jobs, size_t n);
    /* Of requests about waiting jobs: for how many of them a host has to answer first, because
     * their runs were sent ahead. */
    size_t pending;
    /* Of a removal: the requests that wait for it, in the order in which they came. */
    struct acting *waiting, **waiting_end, *next;
};

static void acting_free(struct acting *a)
{
    vec_done(&a->jobs);
    vec_done(&a->keys);
    free(a);
}

static void acting_finish(struct acting *a, const struct err *e)
{
    a->done(a->arg, e, e ? NULL : &a->result);
    acting_free(a);
}

/* The change is durable, or cannot be for now, so the runs are stopped now.  A run that ended
 * meanwhile is not found by its key. */
static void on_acted(void *arg, const struct err *e)
{
    struct acting *a = arg;

    for (size_t i = 0; i < a->keys.n; i++) {
        struct job *j = core_job(a->c, a->keys.p[i].job);
        if (j && j->run && run_key_eq(j->run->key, a->keys.p[i])) {
            j->run->stop_recorded = true;
            run_stop(a->c, j->run);
        }
    }
    acting_finish(a, e);
}

/* ---- waiting jobs, also those whose run was sent ahead ---- */

/* The answer waits for a commit behind the last job that was acted on. */
static void acting_answered(struct acting *a)
{
    if (--a->pending == 0)
        trouble_barrier(a->c, TROUBLE_NOT_RECORDED, on_acted, a);
}

/* A host has answered for one job.  j NULL: the core ends, and nobody is answered any more. */
static void acting_go_on(void *arg, struct job *j)
{
    struct acting *a = arg;

    if (j) {
        a->act(a, &j->wait.job, 1);
        acting_answered(a);
    } else if (--a->pending == 0) {
        acting_free(a);
    }
}

/* Acts on all jobs at once, except on those whose run was sent ahead: only the host knows whether
 * such a job still waits.  Requests about one job are carried out in the order in which they came.
 */
static void acting_on_waiting(struct acting *a, const uint64_t *jobs, size_t n)
{
    VEC(uint64_t) now = {0};

    a->pending = 1; /* ours, until all jobs are seen */
    for (size_t i = 0; i < n; i++) {
        const struct job *j = core_job(a->c, jobs[i]);
        if (j && j->hold == HOLD_AHEAD && caller_sees(&a->who, j->uid)) {
            a->pending++;
            ahead_then(a->c, j, acting_go_on, a);
        } else {
            vec_push(&now, jobs[i]);
        }
    }
    a->act(a, now.p, now.n);
    vec_done(&now);
    acting_answered(a);
}

/* ---- a request begins ---- */

/* Two kinds of requests: about jobs that may wait or run, and about finished jobs. */
struct act_kind {
    void (*begin)(struct acting *a, const uint64_t *jobs, size_t n);
    bool (*is_committing)(const struct job *j); /* the store may show j otherwise than we know it */
    bool of_finished;
};

static bool submit_is_committing(const struct job *j)
{
    return j->hold == HOLD_COMMIT;
}

static bool end_is_committing(const struct job *j)
{
    return job_state_final(j->state);
}

static void acting_on_finished(struct acting *a, const uint64_t *jobs, size_t n)
{
    a->act(a, jobs, n);
}

static const struct act_kind on_waiting = {acting_on_waiting, submit_is_committing, false};
static const struct act_kind on_finished = {acting_on_finished, end_is_committing, true};

/* A removal of one of these jobs that is on its way to disk; NULL: there is none. */
static struct acting *acting_removal(const struct core *c, const uint64_t *jobs, size_t n)
{
    struct acting *removal = NULL;

    for (size_t i = 0; i < n && !removal; i++)
        removal = map_u64_get(&c->jobs.leaving, jobs[i]);
    return removal;
}

static void acting_keep_jobs(struct acting *a, const uint64_t *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        vec_push(&a->jobs, jobs[i]);
}

/* All that was visible when the request came is committed. */
static void acting_start(struct acting *a, const uint64_t *jobs, size_t n)
{
    struct acting *removal = a->kind->of_finished ? acting_removal(a->c, jobs, n) : NULL;

    if (!removal) {
        a->kind->begin(a, jobs, n);
        return;
    }
    if (jobs != a->jobs.p)
        acting_keep_jobs(a, jobs, n);
    *removal->waiting_end = a;
    removal->waiting_end = &a->next;
}

static void on_jobs_committed(void *arg, const struct err *e)
{
    struct acting *a = arg;

    if (e)
        acting_finish(a, e);
    else
        acting_start(a, a->jobs.p, a->jobs.n);
}

static void acting_begin(struct core *c, const struct act_kind *kind,
                         void (*act)(struct acting *a, const uint64_t *jobs, size_t n),
                         const uint64_t *jobs, size_t n, const struct caller *who, core_act_fn done,
                         void *arg)
{
    struct acting *a = xcalloc(1, sizeof(*a));
    bool wait = false;

    *a = (struct acting){.c = c, .done = done, .arg = arg, .who = *who, .kind = kind, .act = act};
    for (size_t i = 0; i < n && !wait; i++) {
        const struct job *j = core_job(c, jobs[i]);
        wait = j && kind->is_committing(j);
    }
    if (!wait) {
        acting_start(a, jobs, n);
        return;
    }
    acting_keep_jobs(a, jobs, n);
    trouble_barrier(c, TROUBLE_NOTHING_CHANGED, on_jobs_committed, a);
}

/* Neighbouring numbers become one change: cancelling a sweep of 100 000 writes one range. */
struct range {
    uint64_t first, last;
    enum job_state from, to;
    struct str reason;
};

static void range_stage(struct core *c, struct range *r, const struct caller *who)
{
    if (!r->first)
        return;
    core_stage(c, &(struct change){CHANGE_BY(c, who, CHANGE_JOB_STATE),
                                   .job_state = {.first = r->first,
                                                 .last = r->last,
                                                 .from = r->from,
                                                 .to = r->to,
                                                 .reason = r->reason}});
    r->first = 0;
}

/* One more job moves from this state; a gap, or another state, begins a new change. */
static void range_add(struct core *c, struct range *r, uint64_t job, enum job_state from,
                      const struct caller *who)
{
    if (!r->first || r->last + 1 != job || r->from != from) {
        range_stage(c, r, who);
        r->first = job;
        r->from = from;
    }
    r->last = job;
}

/* ---- cancel ---- */

/* The job is stopping from now on; on_acted stops its run. */
static void cancel_run(struct core *c, struct job *j, struct acting *a, const struct caller *who)
{
    j->cancel_requested = true;
    if (j->state != JOB_STOPPING)
        job_move(c, j, JOB_EV_CANCEL);
    core_stage(c, &(struct change){CHANGE_BY(c, who, CHANGE_JOB_CANCEL),
                                   .job_cancel = {.job = j->wait.job}});
    vec_push(&a->keys, j->run->key);
}

/* Jobs that wait are final at once; those with a run become stopping.  A job whose command has
 * ended and whose end step is under way keeps its outcome; only the step is given up. */
static void cancel_jobs(struct acting *a, const uint64_t *jobs, size_t n)
{
    struct core *c = a->c;
    const struct caller *who = &a->who;
    VEC(struct job *) gone = {0};
    struct range r = {.to = JOB_CANCELLED, .reason = STR("cancelled while it waited")};

    for (size_t i = 0; i < n; i++) {
        struct job *j = core_job(c, jobs[i]);
        bool ending = j && j->run && j->run->ending;
        if (!j || job_state_final(j->state) || j->hold == HOLD_COMMIT ||
            (j->cancel_requested && !ending)) {
            a->result.already++;
        } else if (!caller_sees(who, j->uid)) {
            a->result.denied++;
        } else if (ending) {
            run_end_step_abandon(c, j->run, "it was cancelled", true);
            a->result.done++;
        } else if (job_state_waits(j->state)) {
            range_add(c, &r, jobs[i], j->state, who);
            job_dequeue(c, j);
            job_move(c, j, JOB_EV_CANCEL);
            vec_push(&gone, j);
            a->result.done++;
        } else {
            cancel_run(c, j, a, who);
            a->result.done++;
        }
    }
    range_stage(c, &r, who);
    for (size_t i = 0; i < gone.n; i++) {
        job_settle_waiters(c, gone.p[i]);
        job_forget_after_commit(c, gone.p[i], (struct run_key){0}, 0);
    }
    vec_done(&gone);
    c->dirty = true;
}

void core_cancel(struct core *c, const uint64_t *jobs, size_t n, const struct caller *who,
                 core_act_fn done, void *arg)
{
    acting_begin(c, &on_waiting, cancel_jobs, jobs, n, who, done, arg);
}

/* ---- hold, release ---- */

/* Each waiting job to which `ev` may happen moves.  A job that is held already counts as done: the
 * wish is fulfilled. */
static void waiting_move(struct acting *a, const uint64_t *jobs, size_t n, enum job_event ev,
                         struct range *r)
{
    struct core *c = a->c;

    for (size_t i = 0; i < n; i++) {
        struct job *j = core_job(c, jobs[i]);
        enum job_state next;
        if (!j || j->hold == HOLD_COMMIT) {
            a->result.already++;
        } else if (!caller_sees(&a->who, j->uid)) {
            a->result.denied++;
        } else if (j->state == JOB_HELD && ev == JOB_EV_HOLD) {
            a->result.done++;
        } else if (!job_next(j->state, ev, &next)) {
            a->result.already++;
        } else {
            range_add(c, r, jobs[i], j->state, &a->who);
            job_dequeue(c, j);
            job_move(c, j, ev);
            train_unready(c, j);
            job_activate(c, j);
            a->result.done++;
        }
    }
    range_stage(c, r, &a->who);
}

static void hold_jobs(struct acting *a, const uint64_t *jobs, size_t n)
{
    char reason[96];
    struct range r = {.to = JOB_HELD};

    snprintf(reason, sizeof(reason), "held by %s", a->who.user);
    r.reason = str_of(reason);
    waiting_move(a, jobs, n, JOB_EV_HOLD, &r);
}

void core_hold(struct core *c, const uint64_t *jobs, size_t n, const struct caller *who,
               core_act_fn done, void *arg)
{
    acting_begin(c, &on_waiting, hold_jobs, jobs, n, who, done, arg);
}

static void release_jobs(struct acting *a, const uint64_t *jobs, size_t n)
{
    struct range r = {.to = JOB_QUEUED};

    waiting_move(a, jobs, n, JOB_EV_RELEASE, &r);
}

void core_release(struct core *c, const uint64_t *jobs, size_t n, const struct caller *who,
                  core_act_fn done, void *arg)
{
    acting_begin(c, &on_waiting, release_jobs, jobs, n, who, done, arg);
}

/* ---- retry ---- */

/* Is this a finished job that the caller may touch?  Counts it either way. */
static bool finished(struct acting *a, uint64_t job, struct job_record *out)
{
    struct ledger *led = &a->c->conf.ledger;
    struct err e;

    if (core_job(a->c, job))
        a->result.already++;
    else if (map_u64_get(&a->c->jobs.leaving, job) || led->read_job(led->self, job, out, &e) < 0)
        a->result.unknown++;
    else if (!caller_sees(&a->who, out->uid))
        a->result.denied++;
    else
        return ++a->result.done;
    return false;
}

/* What it waits for may be on its way again; then it waits again.  What ended badly does not hold
 * it back: whoever retries a job by hand wants it to run. */
static void wait_again(struct core *c, struct job *j)
{
    struct ledger *led = &c->conf.ledger;
    AUTO_FREE uint64_t *after = NULL;
    size_t n = 0;
    struct err e;

    if (led->read_deps(led->self, j->wait.job, &after, &n, &e) < 0)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct job *other = core_job(c, after[i]);
        if (other && !job_state_final(other->state))
            job_wait_for(c, j, after[i]);
    }
}

static void retry_one(struct core *c, const struct job_record *rec, const struct caller *who)
{
    struct job *j = job_new(c, rec->seq);

    job_describe(c, j, rec);
    if (rec->training.n)
        train_new(c, rec->seq, rec->spec, rec->training);
    j->attempt = rec->attempt;
    j->wait.since_ms = core_mono(c);
    core_stage(
        c, &(struct change){CHANGE_BY(c, who, CHANGE_JOB_RETRY), .job_retry = {.job = rec->seq}});
    train_retried(c, rec->seq, rec->state);
    wait_again(c, j);
    job_activate(c, j);
}

static void retry_jobs(struct acting *a, const uint64_t *jobs, size_t n)
{
    struct job_record rec;

    for (size_t i = 0; i < n; i++)
        if (finished(a, jobs[i], &rec))
            retry_one(a->c, &rec, &a->who);
    trouble_barrier(a->c, TROUBLE_NOT_RECORDED, on_acted, a);
}

void core_retry(struct core *c, const uint64_t *jobs, size_t n, const struct caller *who,
                core_act_fn done, void *arg)
{
    acting_begin(c, &on_finished, retry_jobs, jobs, n, who, done, arg);
}

/* ---- remove ---- */

/* The store has spoken about a removal.  If it refused, it refuses those who waited, too. */
static void acting_go_on_all(struct acting *waiting, const struct err *e)
{
    while (waiting) {
        struct acting *a = waiting;
        waiting = a->next;
        a->next = NULL;
        if (e)
            acting_finish(a, e);
        else
            acting_start(a, a->jobs.p, a->jobs.n);
    }
}

/* Files are deleted after the commit: a job that is still there must have its logs. */
static void on_removed(void *arg, const struct err *e)
{
    struct acting *a = arg, *waiting = a->waiting;

    for (size_t i = 0; i < a->keys.n; i++)
        map_u64_del(&a->c->jobs.leaving, a->keys.p[i].job);
    if (!e && a->keys.n && a->c->conf.ops->discard)
        a->c->conf.ops->discard(a->c->conf.self, a->keys.p, a->keys.n);
    a->result.removed = a->keys.p;
    a->result.n_removed = a->keys.n;
    acting_finish(a, e);
    acting_go_on_all(waiting, e);
}

/* From now on whoever asks to remove or to retry such a job waits: a retry behind the removal would
 * be acknowledged and lost. */
static void remove_jobs(struct acting *a, const uint64_t *jobs, size_t n)
{
    struct core *c = a->c;
    struct job_record rec;

    a->waiting_end = &a->waiting;
    for (size_t i = 0; i < n; i++) {
        if (!finished(a, jobs[i], &rec))
            continue;
        core_stage(c, &(struct change){CHANGE_BY(c, &a->who, CHANGE_REMOVE),
                                       .remove = {.first = jobs[i], .last = jobs[i]}});
        vec_push(&a->keys, core_run_key(c, jobs[i], rec.id, rec.attempt));
        map_u64_put(&c->jobs.leaving, jobs[i], a);
    }
    core_barrier(c, on_removed, a);
}

void core_remove(struct core *c, const uint64_t *jobs, size_t n, const struct caller *who,
                 core_act_fn done, void *arg)
{
    acting_begin(c, &on_finished, remove_jobs, jobs, n, who, done, arg);
}

/* ---- queue ---- */

void set_and_answer(struct core *c, const struct change *ch, core_act_fn done, void *arg)
{
    core_stage(c, ch);
    c->dirty = true;
    track_answer(c, done, arg);
}

int admin_only(const struct caller *who, const char *what, struct err *e)
{
    return who->admin ? 0 : err_set(e, ERR_DENIED, "only the owner of this daemon may %s", what);
}

static void queue_record(struct core *c, struct str queue, enum queue_mode mode,
                         const struct caller *who, core_act_fn done, void *arg)
{
    set_and_answer(
        c,
        &(struct change){CHANGE_BY(c, who, CHANGE_QUEUE), .queue = {.name = queue, .mode = mode}},
        done, arg);
}

void core_pause(struct core *c, struct str queue, bool paused, const struct caller *who,
                core_act_fn done, void *arg)
{
    struct err e = {0};

    if (admin_only(who, paused ? "pause a queue" : "resume a queue", &e) < 0) {
        done(arg, &e, NULL);
        return;
    }
    uint32_t at = core_queue_index(c, queue);
    /* A person may resume a queue that nobody keeps any more: it is an ordinary one again. */
    bool kept = queue_keepers(c->queue, at, 0) > 0;
    queue_set_paused(c->queue, at, paused);
    queue_set_kept(c->queue, at, kept);
    c->dirty = true;
    queue_record(c, queue, paused ? QUEUE_PAUSED : kept ? QUEUE_KEPT : QUEUE_OPEN, who, done, arg);
}

void core_queue_keep(struct core *c, struct str queue, const struct caller *who, core_act_fn done,
                     void *arg)
{
    uint32_t at = core_queue_index(c, queue);

    queue_keepers(c->queue, at, 1);
    queue_set_kept(c->queue, at, true);
    c->dirty = true;
    queue_record(c, queue, queue_paused(c->queue, at) ? QUEUE_PAUSED : QUEUE_KEPT, who, done, arg);
}

void core_queue_unkeep(struct core *c, struct str queue)
{
    int32_t left = queue_keepers(c->queue, core_queue_index(c, queue), -1);

    ASSERT(left >= 0);
}
