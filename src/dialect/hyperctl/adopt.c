/* adopt.c - the jobs that an earlier owner of the batch left in the scheduler
 *
 * All jobs of a batch wait in a queue of their own, so that what an earlier owner left can be found
 * by that name after a crash: a job that still runs the same script is kept, one that would run
 * another script is ended first, one that succeeded meanwhile counts.  Nothing is submitted before
 * the unwanted jobs have ended, because a second copy of a job would write the same files.
 */
#include "base/util.h"
#include "dialect/hyperctl/run.h"

/* The newest record of each job of the batch. */
struct adopting {
    struct hyper_run *r;
    struct hyper_event *last; /* per job; first 0 = none */
    char (*nodes)[64];        /* per job: a copy of last.node */
    VEC(uint64_t) unwanted;
};

static bool found_active(const struct hyper_event *f)
{
    return f->first && !job_state_final(f->state);
}

/* Keeps the newest record of each job; older active ones are unwanted, and so are active jobs that
 * are not in the batch any more. */
static void adopt_on_row(void *arg, const struct hyper_event *f)
{
    struct adopting *a = arg;
    const struct hyper_job *j = hyper_batch_find(a->r->b, f->name);

    if (!j) {
        if (found_active(f))
            vec_push(&a->unwanted, f->first);
        return;
    }
    size_t at = (size_t)(j - a->r->b->jobs.p);
    if (found_active(&a->last[at]))
        vec_push(&a->unwanted, a->last[at].first);
    a->last[at] = *f;
    a->last[at].name = STR(""); /* borrowed */
    snprintf(a->nodes[at], sizeof(a->nodes[at]), STR_FMT, STR_ARG(f->node));
    a->last[at].node = str_of(a->nodes[at]);
}

/* True when the job need not be submitted: it still runs, or it succeeded since the last run. */
static bool adopt_job(struct hyper_run *r, struct hyper_job *j, const struct hyper_event *f)
{
    struct hyper_event place = *f;

    if (found_active(f)) {
        /* A job that ends already, or that runs an older script, does not count as this job. */
        if (f->state == JOB_STOPPING || (f->state != JOB_QUEUED && j->changed))
            return false;
        hyper_track(r, j, f->first, f->id);
        j->gap = f->state != JOB_QUEUED;
    } else {
        if (f->state != JOB_SUCCEEDED || hyper_marker_removed(&r->l, j))
            return false;
        j->number = f->first;
        j->id = f->id;
        j->started_ms = f->started_ms;
    }
    place.state = JOB_STARTING; /* tells on which machine it is */
    hyper_job_event(r, j, &place);
    if (f->state == JOB_RUNNING || f->state == JOB_SUCCEEDED)
        hyper_job_event(r, j, f);
    return true;
}

/* The unwanted jobs were told to end: their events tell when they have. */
static void unwanted_cancelled(void *arg, const struct err *e, uint64_t number)
{
    struct hyper_run *r = arg;

    if (e)
        hyper_step_done(r, e, number);
    else
        r->sched.link->ops->listen(r->sched.link, r->sched.last_event);
}

/* Settles every job that was found: kept, counted as succeeded, or ended. */
static void adopt_listed(void *arg, const struct err *e, uint64_t number)
{
    struct adopting *a = arg;
    struct hyper_run *r = a->r;

    for (size_t i = 0; !e && i < r->b->jobs.n; i++) {
        struct hyper_job *j = &r->b->jobs.p[i];
        bool settled = j->pending && a->last[i].first && adopt_job(r, j, &a->last[i]);
        if (!settled && found_active(&a->last[i]))
            vec_push(&a->unwanted, a->last[i].first);
    }
    r->sched.unwanted = e ? 0 : a->unwanted.n;
    for (size_t i = 0; i < r->sched.unwanted; i++)
        map_u64_put(&r->sched.jobs, a->unwanted.p[i], (void *)(intptr_t)UNWANTED);
    if (r->sched.unwanted)
        r->sched.link->ops->cancel(r->sched.link, a->unwanted.p, a->unwanted.n, unwanted_cancelled,
                                   r);
    else
        hyper_step_done(r, e, number);
    vec_done(&a->unwanted);
    free(a->last);
    free(a->nodes);
    free(a);
}

/* The submission has to wait for the last of them.  The link is muted meanwhile: events of jobs
 * whose numbers are not known yet would be missed. */
void hyper_unwanted_ended(struct hyper_run *r, uint64_t number)
{
    map_u64_del(&r->sched.jobs, number);
    if (--r->sched.unwanted)
        return;
    r->sched.link->ops->mute(r->sched.link);
    hyper_step_done(r, NULL, 0);
}

/* May be repeated after a lost connection, so it begins with nothing known of the jobs. */
void hyper_step_adopt(struct hyper_run *r)
{
    if (!r->sched.leftover) {
        hyper_step_done(r, NULL, 0);
        return;
    }
    struct adopting *a = xcalloc(1, sizeof(*a));
    a->r = r;
    a->last = xcalloc(r->b->jobs.n + 1, sizeof(*a->last));
    a->nodes = xcalloc(r->b->jobs.n + 1, sizeof(*a->nodes));
    map_u64_done(&r->sched.jobs);
    r->sched.jobs = (struct map_u64){0};
    for (size_t i = 0; i < r->b->jobs.n; i++)
        r->b->jobs.p[i].number = 0;
    r->sched.link->ops->list(r->sched.link, r->b->remote, adopt_on_row, adopt_listed, a);
}
