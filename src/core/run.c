/* run.c - one attempt of a job: placed, recorded, handed to the backend
 *
 * Owns: the life of a run from the planner's decision to its outcome, and the count of what runs
 * hold of their nodes.
 * Does not own: what the outcome means for the job (run_end.c).
 *
 * A run is recorded before it is handed over, and its key is never used for another execution, so
 * after any crash the backend can say what became of it.  A run may be sent ahead and wait in the
 * backend for the place of another (look_ahead.c): it holds nothing until that one has ended, and
 * counts as an attempt only when it has begun.
 */
#include "base/arena.h"
#include "core/core_priv.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

enum {
    REFUSALS_MAX = 3, /* by nodes; then it is the job's own fault */
    DEVICES_TEXT_MAX = 8192,
};

/* ---- what runs hold ---- */

void run_hold(struct core *c, struct run *r)
{
    const struct shape *s = queue_shape_at(c->queue, r->job->wait.shape);

    if (r->holds || r->outside)
        return;
    r->holds = true;
    r->slot = c->held.n;
    usage_add(host_usage(r->host), &s->need, &r->gpus);
    queue_count_running(c->queue, r->job->wait.shape, 1);
    int64_t limit_ms = (int64_t)r->job->wait.limit_s * 1000;
    int64_t ends_by = limit_ms ? r->started_mono_ms + limit_ms : 0;
    vec_push(&c->held, ((struct plan_run){r->key, r->host->at, s->need, r->gpus,
                                          r->job->wait.priority, r->started_mono_ms, ends_by}));
}

/* The last entry of core.held moves into the gap, and its run learns its new slot. */
void run_let_go(struct core *c, struct run *r)
{
    const struct shape *s = queue_shape_at(c->queue, r->job->wait.shape);

    if (!r->holds)
        return;
    r->holds = false;
    usage_sub(host_usage(r->host), &s->need, &r->gpus);
    queue_count_running(c->queue, r->job->wait.shape, -1);
    struct plan_run last = vec_pop(&c->held);
    /* Otherwise the run itself was the last entry. */
    if (r->slot < c->held.n) {
        c->held.p[r->slot] = last;
        core_job(c, last.key.job)->run->slot = r->slot;
    }
}

void run_discard(struct run *r)
{
    if (!r)
        return;
    free(r->outside);
    free(r->ending);
    free(r);
}

void run_drop(struct core *c, struct run *r)
{
    run_let_go(c, r);
    ahead_unlink(c, r);
    if (r->outside)
        outside_over(c, r);
    r->job->run = NULL;
    run_discard(r);
    c->dirty = true;
}

/* ---- starting ---- */

/* The backend did not take it.  A request that is impossible stays so; anything else is tried again
 * after RESEND_MS. */
static void run_unsent(struct core *c, struct run *r, const struct err *e)
{
    bool impossible = e->code == ERR_INVALID || e->code == ERR_LIMIT;
    struct run_outcome o = {.why = impossible ? RUN_END_START_FAILED : RUN_END_NEVER_RAN,
                            .sys = impossible ? EINVAL : 0,
                            .ended_ms = core_wall(c)};

    run_end(c, r, &o, str_of(e->text));
}

/* Hands a run to its backend, or ends it when it is not wanted any more.  The run may be gone when
 * this returns. */
static void start_now(struct core *c, struct run *r)
{
    struct arena a = {0};
    struct launch l = {0};
    struct run_start s = {0};
    struct err e = {0};
    struct run_outcome o = {.why = RUN_END_NEVER_RAN, .ended_ms = core_wall(c)};

    if (r->chain.ahead && (r->recall || ahead_broken(r))) {
        ahead_withdrawn(c, r, 0);
        return;
    }
    if (r->job->cancel_requested || r->recall) {
        o.why = RUN_END_CANCELLED;
        run_end(c, r, &o, STR("stopped before it started"));
        return;
    }
    struct ledger *led = &c->conf.ledger;
    int rc = led->read_launch(led->self, r->key.job, &l, &e);
    /* A start that fails half way may leave files behind, so the flag is set before the build. */
    r->end_step = rc == 0 && (l.spec->origin.dialect || l.spec->command.snapshot);
    if (rc < 0 || launch_build(c, r, &l, &a, &s, &e) < 0) {
        o.why = RUN_END_START_FAILED;
        o.sys = EINVAL;
        run_end(c, r, &o, str_of(e.text));
    } else {
        r->timeout_ms = s.limits.timeout_ms;
        r->started_mono_ms = core_mono(c);
        r->phase = RUN_SENT;
        bool sent = r->host->cls->start(r->host->backend, &s, &e) == 0;
        if (!sent && r->chain.ahead)
            ahead_withdrawn(c, r, RESEND_MS);
        else if (!sent)
            run_unsent(c, r, &e);
    }
    launch_done(&l);
    arena_done(&a);
}

struct placed {
    struct core *c;
    struct run_key key;
};

/* The placement is durable.  The run is found again by its key: it may have ended meanwhile. */
static void on_placed(void *arg, const struct err *e)
{
    struct placed *p = arg;
    struct job *j = core_job(p->c, p->key.job);

    (void)e; /* placements are never refused, only late */
    if (j && j->run && run_key_eq(j->run->key, p->key) && j->run->phase == RUN_RECORDING) {
        if (j->run->outside)
            outside_begun(p->c, j->run);
        else
            start_now(p->c, j->run);
    }
    free(p);
}

struct run *run_new(struct core *c, struct job *j, struct core_host *h, const struct gpu_set *gpus)
{
    struct run *r = xcalloc(1, sizeof(*r));

    ASSERT(j->state == JOB_QUEUED && !j->run);
    j->run = r;
    r->job = j;
    r->key = (struct run_key){j->wait.job, j->attempt + 1, j->tag};
    r->started_mono_ms = core_mono(c);
    if (h) {
        ASSERT(h->cls);
        r->host = h;
        r->gpus = *gpus;
        r->journal = h->cls->journal(h->backend);
    }
    return r;
}

void run_record(struct core *c, struct run *r, int64_t at_ms)
{
    AUTO(buf) struct buf devices = {0};

    r->job->attempt++;
    r->job->tries++;
    job_move(c, r->job, JOB_EV_PLACED);
    train_placed(c, r);
    buf_init(&devices, DEVICES_TEXT_MAX);
    gpu_set_format(&r->gpus, &devices);
    core_stage(c, &(struct change){
                      .kind = CHANGE_RUN_NEW,
                      .at_ms = at_ms,
                      .run_new = {.key = r->key,
                                  .node = str_of(r->host ? host_node(r->host)->name : OUTSIDE_NODE),
                                  .devices = buf_str(&devices),
                                  .journal = r->journal}});
}

void run_send_after_commit(struct core *c, struct run *r)
{
    struct placed *p = xmalloc(sizeof(*p));

    *p = (struct placed){c, r->key};
    core_barrier(c, on_placed, p);
}

void run_place(struct core *c, struct core_host *h, struct job *j, const struct gpu_set *gpus)
{
    struct run *r = run_new(c, j, h, gpus);

    run_hold(c, r);
    run_record(c, r, core_wall(c));
    run_send_after_commit(c, r);
}

void run_place_outside(struct core *c, struct job *j, const struct outside_process *p)
{
    struct run *r = run_new(c, j, NULL, NULL);

    r->outside = xmalloc(sizeof(*r->outside));
    *r->outside = *p;
    run_record(c, r, core_wall(c));
    run_send_after_commit(c, r);
}

void run_send_absent(struct core *c)
{
    for (size_t i = 0; i < c->absent.n;) {
        struct job *j = core_job(c, c->absent.p[i]);
        struct run *r = j ? j->run : NULL;
        if (r && r->phase == RUN_ABSENT) {
            const struct shape *s = queue_shape_at(c->queue, j->wait.shape);
            struct resources need = s->need;
            need.gpus = 0; /* its devices were kept for it */
            bool room = resources_fit(host_node(r->host), host_usage(r->host), &need) &&
                        !queue_refusal(c->queue, j->wait.shape);
            bool asked = host_being_asked(r->host);
            r->recall |= !host_open(r->host) && !asked; /* it may run elsewhere */
            if ((!room || asked) && !j->cancel_requested && !r->recall) {
                i++;
                continue;
            }
            if (!j->cancel_requested && !r->recall)
                run_hold(c, r);
            start_now(c, r);
        }
        vec_remove(&c->absent, i);
    }
}

/* ---- stopping ---- */

void run_stop(struct core *c, struct run *r)
{
    if (r->stop_sent || r->phase == RUN_OVER || r->phase == RUN_RECORDING || r->phase == RUN_ABSENT)
        return; /* not with the backend: start_now sees the request */
    if (r->host && !r->host->cls)
        return; /* asked again when it is heard of */
    r->stop_sent = true;
    if (r->outside)
        outside_stop(c, r);
    else
        r->host->cls->stop(r->host->backend, r->key, -1);
}

/* ---- what the backend tells ---- */

/* NULL: the host speaks of a run that is not, or no longer, its own. */
static struct run *known_run(const struct core_host *h, struct run_key key)
{
    struct job *j = core_job(h->core, key.job);
    struct run *r = j ? j->run : NULL;

    return r && r->host == h && run_key_eq(r->key, key) && r->phase != RUN_OVER ? r : NULL;
}

void run_started(struct core *c, struct run *r, int64_t pid, int64_t pid_start, int64_t at_ms)
{
    bool known = r->phase == RUN_UNRESOLVED && r->seen;

    if (r->chain.ahead)
        ahead_arrived(c, r, at_ms);
    r->phase = RUN_LIVE;
    r->job->refusals = 0;
    r->job->waits = 0;
    c->dirty = true;
    /* A run behind another in a chain holds nothing until the run before it has ended. */
    if (!r->chain.prev)
        run_hold(c, r);
    train_started(c, r);
    /* Not before the request is durable: a run that was stopped for a request that a crash undid
     * would look preempted, and its job would run once more. */
    if (r->stop_recorded)
        run_stop(c, r);
    if (known)
        return; /* recorded before the restart */
    r->started_mono_ms = core_mono(c);
    if (r->job->state == JOB_STARTING)
        job_move(c, r->job, JOB_EV_STARTED);
    c->stats.started++;
    core_stage(
        c, &(struct change){.kind = CHANGE_RUN_STARTED,
                            .at_ms = at_ms,
                            .run_started = {.key = r->key, .pid = pid, .pid_start = pid_start}});
    ahead_answered(c, r->job);
}

/* A repeated report changes nothing. */
static void on_started(void *owner, struct run_key key, int64_t pid, int64_t pid_start,
                       int64_t at_ms)
{
    struct core_host *h = owner;
    struct run *r = known_run(h, key);

    if (!r || r->phase == RUN_LIVE)
        return;
    if (r->phase == RUN_UNRESOLVED)
        host_resolved_one(h);
    host_went_well(h);
    run_started(h->core, r, pid, pid_start, at_ms);
}

static void on_ended(void *owner, struct run_key key, const struct run_outcome *o,
                     struct str detail)
{
    struct core_host *h = owner;
    struct core *c = h->core;
    struct run *r = known_run(h, key);

    if (!r) {
        /* Nobody waits for this run, so the backend may forget it.  While its end step is under way
         * the backend must keep the outcome: after a crash the step begins again with it. */
        if (!run_ending(h->core, key))
            h->cls->settled(h->backend, key);
        return;
    }
    if (o->why == RUN_END_EXITED)
        c->ahead.mean_run_ms +=
            ((double)(o->ended_ms - o->started_ms) + 0.5 - c->ahead.mean_run_ms) * 0.2;
    report_end(c, r, o, detail);
    if (c->conf.ops->killed &&
        (o->why == RUN_END_SUPERVISOR_KILLED ||
         (WIFSIGNALED(o->wait_status) && WTERMSIG(o->wait_status) == SIGKILL)))
        c->conf.ops->killed(c->conf.self, key);
}

/* The backend has no trace of a recorded run, so it never began.  run_send_absent starts it under
 * the same key. */
static void on_absent(void *owner, struct run_key key)
{
    struct core_host *h = owner;
    struct core *c = h->core;
    struct run *r = known_run(h, key);

    if (!r)
        return;
    if (r->phase == RUN_UNRESOLVED)
        host_resolved_one(h);
    if (r->chain.ahead) {
        ahead_withdrawn(c, r, 0);
        return;
    }
    run_let_go(c, r);
    r->phase = RUN_ABSENT;
    vec_push(&c->absent, key.job);
    c->dirty = true;
}

static void on_spooled(void *owner, struct run_key key)
{
    struct core_host *h = owner;
    struct run *r = known_run(h, key);

    if (r)
        report_spooled(h->core, r);
}

/* It is no try of the job's, and another node is asked first.  A job that was refused three times
 * in a row, wherever, is at fault itself. */
static void on_refused(void *owner, struct run_key key, int sys, struct str why)
{
    struct core_host *h = owner;
    struct run *r = known_run(h, key);
    struct run_outcome o = {.why = RUN_END_NEVER_RAN, .ended_ms = core_wall(h->core)};

    host_put_aside(h, why);
    if (!r) {
        h->cls->settled(h->backend, key);
        return;
    }
    r->refused = true;
    /* Without space it waits as long as it takes: the node was put aside. */
    if (sys != ENOSPC && sys != EDQUOT && ++r->job->refusals >= REFUSALS_MAX) {
        o.why = RUN_END_START_FAILED;
        o.sys = EHOSTUNREACH;
    }
    run_end(h->core, r, &o, why);
}

/* Devices or reachability of a node have changed. */
static void on_node(void *owner, const struct node *n)
{
    (void)n; /* it is the one the backend shows */
    host_refresh(owner);
    train_attached(owner);
}

static void on_notice(void *owner, struct str text)
{
    const struct core *c = ((struct core_host *)owner)->core;

    if (c->conf.ops->notice)
        c->conf.ops->notice(c->conf.self, text);
}

static void on_call(void *owner, int fd)
{
    const struct core *c = ((struct core_host *)owner)->core;

    if (c->conf.ops->call)
        c->conf.ops->call(c->conf.self, fd);
    else
        close(fd);
}

const struct backend_events core_backend_events = {.started = on_started,
                                                   .ended = on_ended,
                                                   .absent = on_absent,
                                                   .notice = on_notice,
                                                   .devices = train_devices,
                                                   .spooled = on_spooled,
                                                   .node = on_node,
                                                   .refused = on_refused,
                                                   .call = on_call};

/* Until it is heard of, it counts as holding what it was given.  Of a chain (look_ahead.c) more
 * than one does, but nothing starts there meanwhile. */
struct run *run_restore(struct core *c, struct core_host *h, struct job *j,
                        const struct run_record *rec)
{
    struct run *r = xcalloc(1, sizeof(*r));

    ASSERT(!j->run);
    j->run = r;
    r->job = j;
    r->host = h;
    r->key = (struct run_key){rec->key.job, rec->key.run, j->tag};
    r->gpus = rec->gpus;
    r->journal = rec->journal;
    r->spool_offset = rec->spool_offset;
    r->phase = RUN_UNRESOLVED;
    r->started_mono_ms = core_mono(c);
    r->seen = rec->pid != 0;
    r->stop_recorded = j->cancel_requested;
    r->end_step = true; /* not known before its spec is read again; the operation knows */
    if (rec->ahead) {
        r->chain.ahead = true;
        j->hold = HOLD_AHEAD;
        j->deps = j->wait_serial = 0; /* all it waits for had succeeded when the run was sent */
    }
    if (h) {
        h->unresolved++;
    } else {
        r->outside = xmalloc(sizeof(*r->outside));
        *r->outside = (struct outside_process){.pid = rec->pid, .pid_start = rec->pid_start};
    }
    run_hold(c, r);
    return r;
}
