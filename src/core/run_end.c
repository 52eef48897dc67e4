/* run_end.c - what the outcome of a run means for its job, and the step between the two
 *
 * Owns: the judgement of an outcome, back-off, and end steps under way.
 *
 * A job may have an end step: work on the files of a run after its processes are gone, for example
 * its archive (core_ops.end_step).  While the step is under way the run is RUN_OVER: its slots and
 * devices are free, nothing more is reported to it, and the job keeps its state.  The transition is
 * staged when the step is reported, or when nobody wants to wait for it any longer.  Nothing is
 * recorded of a step: the backend keeps the outcome until the transition is durable, so after a
 * crash the outcome arrives again and the step is repeated.
 */
#include "core/core_priv.h"
#include <errno.h>
#include <stdio.h>
#include <sys/wait.h>

enum {
    BACKOFF_MAX_MS = 3600 * 1000,
    SPACE_MS = 1000,           /* a start that found no space comes again after this, doubled, */
    SPACE_MAX_MS = 60 * 1000,  /* at most this; the same without a maximum after a whole run */
    STEP_MAX_MS = 3600 * 1000, /* 64 GiB, the largest bundle, take some minutes to archive */
};

struct run_ending {
    struct run_outcome outcome;
    struct verdict verdict;
    struct str detail; /* what the backend said */
    bool waits;        /* the end step does, for space */
    char copy[];       /* of detail, while the end step is under way */
};

/* Errors of the machine and not of the command: another try may succeed. */
static bool transient_start_error(int sys)
{
    return sys == EAGAIN || sys == ENOMEM || sys == EMFILE || sys == ENFILE || sys == ETXTBSY ||
           sys == ENOSPC || sys == EIO;
}

/* A lost run that is repeated without using up a retry, because the job asked for that. */
static bool lost_is_repeated(const struct job *j, const struct run_outcome *o)
{
    return run_end_is_lost(o->why) && j->lost < j->retry_lost;
}

/* What the end of this run means for its job. */
static enum job_event judge(const struct job *j, const struct run_outcome *o)
{
    bool retry_left = j->tries <= j->retries || lost_is_repeated(j, o);

    if (j->cancel_requested)
        return JOB_EV_CANCELLED;
    switch (o->why) {
    case RUN_END_NEVER_RAN:
        return JOB_EV_REQUEUE;
    case RUN_END_EXITED:
        if (WIFEXITED(o->wait_status) && WEXITSTATUS(o->wait_status) == 0)
            return JOB_EV_SUCCEEDED;
        break;
    case RUN_END_CANCELLED: /* stopped, but not for its owner: preempted */
        return JOB_EV_REQUEUE;
    case RUN_END_SUPERVISOR_KILLED:
    case RUN_END_NODE_LOST:
        return retry_left ? JOB_EV_REQUEUE : JOB_EV_LOST;
    case RUN_END_START_FAILED:
        return retry_left && transient_start_error(o->sys) ? JOB_EV_REQUEUE : JOB_EV_FAILED;
    default:
        break;
    }
    return retry_left ? JOB_EV_REQUEUE : JOB_EV_FAILED;
}

/* A start that failed because this machine has no space or no descriptors is not the job's fault:
 * the job waits until that is over, and its reason says so meanwhile. */
static void judge_trouble(struct core *c, const struct run *r, const struct run_outcome *o,
                          struct verdict *v)
{
    bool here = r->host && r->host->at == 0;

    if (o->why != RUN_END_START_FAILED || r->job->cancel_requested || !here ||
        !trouble_blames(c, o->sys))
        return;
    v->ev = JOB_EV_REQUEUE;
    v->no_try = true;
    snprintf(v->text, sizeof(v->text), "it could not start (%.140s) and starts when that is over",
             core_in_trouble(c, NULL)->text);
}

static bool sys_is_full(int sys)
{
    return sys == ENOSPC || sys == EDQUOT;
}

/* Nothing fails because a disk was full.  A start waits for space, as long as it takes.  A run that
 * ended badly while there was none is repeated when there is some.  One that fills the disk itself
 * does so ever less often, and its reason says how often: what to do about it people decide. */
static void judge_space(struct core *c, struct run *r, const struct run_outcome *o,
                        struct str detail, struct verdict *v)
{
    struct job *j = r->job;
    char how[80], times[40] = "";

    if (!sys_is_full(o->sys)) {
        if (o->why == RUN_END_EXITED)
            j->full = 0;
        return;
    }
    if (j->cancel_requested || v->ev == JOB_EV_CANCELLED)
        return;
    if (o->why == RUN_END_START_FAILED) {
        v->ev = JOB_EV_REQUEUE;
        v->no_try = true;
        r->refused = r->refused || (r->host && !r->host->ours); /* another node may have space */
        j->waits += j->waits < UINT8_MAX;
        return;
    }
    if (o->why != RUN_END_EXITED)
        return;
    if (r->host && r->host->ours)
        trouble_blames(c, o->sys);
    run_outcome_text(o, how, sizeof(how));
    snprintf(how + strlen(how), sizeof(how) - strlen(how), "%s", how[0] ? "" : "incomplete output");
    j->full += j->full < UINT8_MAX;
    v->ev = JOB_EV_REQUEUE;
    v->no_try = true;
    if (j->full > 1)
        snprintf(times, sizeof(times), ", %d times in a row", j->full);
    snprintf(v->text, sizeof(v->text),
             "%.60s while the disk of %.*s was full%s; it runs again when there is space", how,
             (int)MIN(detail.n, (size_t)70), detail.p, times);
}

/* Another node of which it is not known that it lacks the directory of the job. */
static bool has_other_node(struct core *c, const struct run *r)
{
    struct plan_input s = core_plan_input(c, 1);
    const struct shape *shape = queue_shape_at(c->queue, r->job->wait.shape);

    for (size_t k = 0; k < s.n_nodes; k++)
        if (k != r->host->at && shape_has_hope(&s, shape, k))
            return true;
    return false;
}

/* A node without the working directory is left out for this job, and others are tried.  Where all
 * nodes it may use lack it, the job fails with the remedy. */
static void judge_place(struct core *c, struct run *r, const struct run_outcome *o,
                        struct str detail, struct verdict *v)
{
    if (!o->no_dir || !r->host || r->host->ours || r->job->cancel_requested)
        return;
    const char *name = host_node(r->host)->name;
    r->unfit = unfit_bit(r->host->at) != 0;
    if (r->unfit && has_other_node(c, r)) {
        v->ev = JOB_EV_REQUEUE;
        v->no_try = v->at_once = true;
        snprintf(v->text, sizeof(v->text), "%.40s: %.*s; other nodes are tried", name,
                 (int)MIN(detail.n, (size_t)120), detail.p);
        return;
    }
    v->ev = JOB_EV_FAILED;
    snprintf(v->text, sizeof(v->text),
             "%.40s: %.*s; copy files with --asset, or name another directory with --cwd", name,
             (int)MIN(detail.n, (size_t)90), detail.p);
}

int64_t backoff_delay(int64_t first_ms, uint32_t tries)
{
    for (uint32_t i = 1; i < tries && first_ms < BACKOFF_MAX_MS; i++)
        first_ms *= 2;
    return MIN(first_ms, (int64_t)BACKOFF_MAX_MS);
}

/* Milliseconds until the next try of a job.  A preempted job waits for nothing but free resources.
 */
static int64_t retry_delay(const struct job *j, const struct run_outcome *o)
{
    if (o->why == RUN_END_CANCELLED)
        return 0;
    if (o->why == RUN_END_NEVER_RAN)
        return RESEND_MS;
    if (sys_is_full(o->sys) && o->why == RUN_END_EXITED)
        return backoff_delay(SPACE_MS, j->full);
    if (sys_is_full(o->sys))
        return MIN(backoff_delay(SPACE_MS, j->waits), (int64_t)SPACE_MAX_MS);
    return backoff_delay(j->backoff_ms, j->tries);
}

/* The reason people read: the verdict's, or the backend's, or the outcome in words (in `text`). */
static struct str ending_reason(const struct core *c, const struct run *r,
                                const struct run_ending *x, char *text, size_t n)
{
    const struct run_outcome *o = &x->outcome;
    const struct resources *need = &queue_shape_at(c->queue, r->job->wait.shape)->need;
    const struct run_facts facts = {r->timeout_ms, need->mem_bytes, x->detail};
    bool names_limit = o->why == RUN_END_TIMEOUT || o->why == RUN_END_OUT_OF_MEMORY;
    struct str said = x->verdict.text[0] ? str_of(x->verdict.text) : x->detail;

    run_outcome_describe(o, &facts, text, n);
    return said.n && !names_limit ? said : str_of(text);
}

/* Stages the transition; the run is gone when this returns. */
static void run_conclude(struct core *c, struct run *r, const struct run_ending *x,
                         const char *step_trouble)
{
    const struct run_outcome *o = &x->outcome;
    const struct verdict *v = &x->verdict;
    struct job *j = r->job;
    struct run_key key = r->key;
    bool waits = v->ev == JOB_EV_REQUEUE && !v->at_once;
    int64_t delay = waits && (!r->refused || sys_is_full(o->sys)) ? retry_delay(j, o) : 0;
    char text[200];
    struct str reason = ending_reason(c, r, x, text, sizeof(text));
    AUTO_FREE char *with_step = NULL;

    if (step_trouble) {
        with_step = xasprintf(STR_FMT "%sthe end step is not complete: %s", STR_ARG(reason),
                              reason.n ? "; " : "", step_trouble);
        reason = str_of(with_step);
    }
    if (v->ev == JOB_EV_LOST)
        c->stats.lost_runs++;
    if (v->no_try || !run_end_is_a_try(o->why))
        j->tries--;
    train_ended(c, j, v);
    job_move(c, j, v->ev);
    core_stage(c, &(struct change){.kind = CHANGE_RUN_ENDED,
                                   .at_ms = core_wall(c),
                                   .run_ended = {.key = key,
                                                 .outcome = *o,
                                                 .next = j->state,
                                                 .detail = reason,
                                                 .no_try = v->no_try,
                                                 .next_try_ms = delay ? core_wall(c) + delay : 0}});
    const struct core_host *h = r->host;
    bool refused = r->refused, unfit = r->unfit, again = v->ev == JOB_EV_REQUEUE;
    run_drop(c, r); /* frees x as well, if x is the run's */
    if (refused)
        job_avoid(c, j, h);
    if (unfit && again)
        job_leave_out(c, j, h);
    if (again) {
        j->due_ms = delay ? core_mono(c) + delay : 0;
        job_activate(c, j);
    } else {
        job_settle_waiters(c, j);
    }
    job_forget_after_commit(c, j, key, h ? h->serial : 0);
    ahead_answered(c, j);
}

/* ---- the end step ---- */

/* False: the job has none.  A run that never ran has no files. */
static bool end_step_begin(struct core *c, struct run *r, const struct run_ending *x)
{
    if (!r->end_step || !c->conf.ops->end_step || x->outcome.why == RUN_END_NEVER_RAN ||
        !c->conf.ops->end_step(c->conf.self, r->key))
        return false;
    r->ending = xmalloc(sizeof(*x) + x->detail.n);
    *r->ending = *x;
    if (x->detail.n)
        memcpy(r->ending->copy, x->detail.p, x->detail.n);
    r->ending->detail.p = r->ending->copy;
    run_let_go(c, r);
    ahead_unlink(c, r);
    train_left(c, r->job, &x->verdict);
    c->dirty = true;
    vec_push(&c->steps, ((struct step_due){r->key, core_mono(c) + STEP_MAX_MS}));
    return true;
}

struct run *run_ending(const struct core *c, struct run_key key)
{
    struct job *j = core_job(c, key.job);
    struct run *r = j ? j->run : NULL;

    return r && r->ending && run_key_eq(r->key, key) ? r : NULL;
}

/* Entries of steps that were reported are dropped when they come to the front. */
static void end_steps_prune(struct core *c)
{
    while (c->steps.n && !run_ending(c, c->steps.p[0].key))
        vec_remove(&c->steps, 0);
}

void core_end_step_done(struct core *c, struct run_key key, const struct err *e)
{
    struct run *r = run_ending(c, key);

    if (r)
        run_conclude(c, r, r->ending, e ? e->text : NULL);
    end_steps_prune(c);
}

bool core_job_end_waits(const struct core *c, uint64_t job)
{
    const struct job *j = core_job(c, job);

    return j && j->run && j->run->ending && j->run->ending->waits;
}

void core_end_step_waits(struct core *c, struct run_key key, bool waits)
{
    struct run *r = run_ending(c, key);

    if (r)
        r->ending->waits = waits;
    for (size_t i = 0; i < c->steps.n; i++)
        if (run_key_eq(c->steps.p[i].key, key)) {
            vec_remove(&c->steps, i);
            vec_push(&c->steps, ((struct step_due){key, core_mono(c) + STEP_MAX_MS}));
            return;
        }
}

void run_end_step_abandon(struct core *c, struct run *r, const char *why, bool cancel)
{
    struct verdict *v = &r->ending->verdict;

    if (cancel && v->ev == JOB_EV_REQUEUE) {
        v->ev = JOB_EV_CANCELLED;
        v->text[0] = 0;
        r->job->cancel_requested = true;
        if (r->job->state != JOB_STOPPING)
            job_move(c, r->job, JOB_EV_CANCEL);
    }
    if (c->conf.ops->end_step_cancel)
        c->conf.ops->end_step_cancel(c->conf.self, r->key);
    run_conclude(c, r, r->ending, why);
    end_steps_prune(c);
}

/* All steps get the same time, so the oldest entry is due first. */
void end_steps_due(struct core *c)
{
    while (c->steps.n && c->steps.p[0].at_ms <= core_mono(c)) {
        struct run *r = run_ending(c, c->steps.p[0].key);
        vec_remove(&c->steps, 0);
        if (r)
            run_end_step_abandon(c, r, "it took longer than an hour", false);
    }
}

void run_end(struct core *c, struct run *r, const struct run_outcome *o, struct str detail)
{
    struct job *j = r->job;
    struct run_ending x = {.outcome = *o, .detail = detail};

    /* A run that has ended had begun: it counts as an attempt before its end is judged. */
    if (r->chain.ahead)
        ahead_arrived(c, r, o->ended_ms ? o->ended_ms : core_wall(c));
    x.verdict.ev = judge(j, o);
    x.verdict.no_try = lost_is_repeated(j, o);
    judge_trouble(c, r, o, &x.verdict);
    judge_place(c, r, o, detail, &x.verdict);
    judge_space(c, r, o, detail, &x.verdict);
    if (o->why == RUN_END_EXITED && sys_is_full(o->sys))
        x.detail = STR(""); /* the disk, which the verdict names */
    if (run_end_is_lost(o->why) && j->lost < UINT8_MAX)
        j->lost++;
    if (r->phase == RUN_UNRESOLVED && r->host)
        host_resolved_one(r->host);
    /* Before the run is over: reports of a run that is over are refused. */
    report_drain_spool(c, r);
    r->phase = RUN_OVER;
    train_judge(c, r, o, &x.verdict);
    if (!end_step_begin(c, r, &x))
        run_conclude(c, r, &x, NULL);
}
