/* train_epoch.c - what running jobs report of their training, and whether they are told to stop
 *
 * Owns: the rule that makes all ranks of a job stop together.  The request is looked at when the
 * first rank reports another epoch; what it said then is the answer to everybody until the next
 * epoch, and a yes stays until the attempt ends.  Both are on disk before the report is answered,
 * so a restart in between changes no answer.
 *
 * And: an epoch counts when its snapshot exists.  Scripts save after they have reported, so a
 * report alone proves nothing.  It is confirmed when rank 0, which saves, begins the next epoch;
 * when any rank reports a later one, since ranks go in step; and when the run ends well
 * (train_end.c).
 */
#include "core/train_priv.h"
#include <math.h>

/* NULL: the job does not train, or has no run that could report. */
static struct train *running(const struct core *c, uint64_t job)
{
    const struct job *j = core_job(c, job);
    struct train *t = train_of(c, job);

    return t && j && j->run && j->run->phase != RUN_OVER && j->run->phase != RUN_ABSENT ? t : NULL;
}

static int not_running(uint64_t job, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "job %llu does not run, or does not train",
                   (unsigned long long)job);
}

/* Mixes the epoch that was just reported into the means that people see.  A script that does not
 * say how long it took is measured from report to report, without the start of the run. */
static void average(const struct core *c, struct train *t, bool follows)
{
    struct core_training_past *p = &t->past;
    int64_t now = train_now(c);
    double took = t->epoch_s > 0              ? t->epoch_s
                  : t->reported_ms && follows ? (double)(now - t->reported_ms) / 1000
                                              : 0;

    t->reported_ms = now;
    if (took <= 0)
        return;
    p->timed++;
    p->epoch_s += (took - p->epoch_s) / p->timed;
    if (t->step_s > 0)
        p->step_s += (t->step_s - p->step_s) / p->timed;
}

/* Reports of several ranks, and repeated ones, count once. */
static void count_epochs(struct core *c, struct train *t, int32_t epochs)
{
    int32_t total = t->spec->epochs;

    if (epochs <= t->past.done)
        return;
    bool follows = epochs == t->past.done + 1;
    t->past.done = epochs;
    t->past.confirmed = MAX(t->past.confirmed, epochs - 1);
    t->past.epochs = total;
    average(c, t, follows);
    if (t->known)
        gpus_epoch(c->gpu.planner, train_now(c), t->job, epochs, t->epoch_s);
    t->epoch_s = 0;
    /* Before the last epoch nobody is stopped: it would cost more than it frees. */
    if (total && epochs >= total - 1)
        t->raised = false;
    if (t->raised && !t->stop) {
        t->stop = true;
        if (t->known)
            gpus_stop_delivered(c->gpu.planner, train_now(c), t->job);
    }
    train_stage(c, t);
    c->dirty = true;
}

void core_epoch_done(struct core *c, uint64_t job, int64_t epochs, core_act_fn done, void *arg)
{
    struct train *t = running(c, job);
    struct err e = {0};

    if (!t) {
        not_running(job, &e);
    } else if (epochs < 0 || epochs > (t->spec->epochs ? t->spec->epochs + 1 : INT32_MAX)) {
        err_set(&e, ERR_INVALID, "%lld epochs cannot be done: job %llu has %d in all",
                (long long)epochs, (unsigned long long)job, t->spec->epochs);
    } else {
        if (t->spec->epochs)
            epochs = MIN(epochs, (int64_t)t->spec->epochs);
        count_epochs(c, t, (int32_t)epochs);
        track_answer(c, done, arg);
        return;
    }
    done(arg, &e, NULL);
}

void train_reported(struct core *c, uint64_t job, int64_t epochs)
{
    struct train *t = running(c, job);
    int64_t most = t && t->spec->epochs ? t->spec->epochs : INT32_MAX;

    if (t && epochs > 0 && epochs <= most)
        count_epochs(c, t, (int32_t)epochs);
}

/* Not waited for: what a crash of ours forgets, the next report confirms. */
void core_epoch_begins(struct core *c, uint64_t job, int64_t epochs)
{
    struct train *t = running(c, job);

    if (!t || (epochs < 0 && gpu_set_count(&core_job(c, job)->run->gpus) > 1))
        return;
    int32_t sure = epochs < 0 ? t->past.done : (int32_t)MIN(epochs, (int64_t)t->past.done);
    if (sure <= t->past.confirmed)
        return;
    t->past.confirmed = sure;
    train_stage(c, t);
}

bool core_has_to_stop(struct core *c, uint64_t job, bool *known)
{
    struct train *t = running(c, job);

    *known = t != NULL;
    if (!t || !t->stop)
        return false;
    t->asked = true;
    return true;
}

/* The same answer for scripts that ask through berth.should_stop(). */
bool train_stop_requested(const struct core *c, uint64_t job)
{
    struct train *t = running(c, job);

    if (!t || !t->stop)
        return false;
    t->asked = true;
    return true;
}

static bool epoch_seconds_ok(double seconds)
{
    return isfinite(seconds) && seconds >= 0;
}

int core_profiled(struct core *c, uint64_t job, const struct core_profile *p, struct err *e)
{
    struct train *t = running(c, job);
    int32_t scale = c->conf.gpu.time_scale > 0 ? c->conf.gpu.time_scale : 1;

    if (!t)
        return not_running(job, e);
    if (!epoch_seconds_ok(p->mean_step_s) || !epoch_seconds_ok(p->epoch_s) || p->mem_bytes < 0)
        return err_set(e, ERR_INVALID,
                       "times and memory of a profile must be finite and not negative");
    if (p->mean_step_s > 0)
        t->step_s = p->mean_step_s * scale;
    if (!t->past.timed) /* the best there is during the first epoch */
        t->past.step_s = t->step_s;
    if (p->epoch_s > 0)
        t->epoch_s = MAX(t->epoch_s, p->epoch_s * scale);
    t->past.measured_bytes = MAX(t->past.measured_bytes, p->mem_bytes);
    if (t->known && p->mem_bytes > 0) {
        gpus_measured(c->gpu.planner, train_now(c), t->job, p->mem_bytes);
        c->dirty = true;
    }
    return 0;
}

int core_signal_end(struct core *c, uint64_t job, struct err *e)
{
    struct train *t = running(c, job);

    if (!t)
        return not_running(job, e);
    if (!t->past.complete) {
        t->past.complete = true;
        train_stage(c, t);
    }
    return 0;
}
