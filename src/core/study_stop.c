/* study_stop.c - trials that are stopped early by what they report
 *
 * A study with `stop` gives every report of its metric to a layer (tune/stop.h), which answers go
 * on or stop.  The job of a trial that is to stop is cancelled, so it learns of that as of any
 * other cancel; that the study has asked for it is recorded first, so the end of the job is a
 * pruned trial with the last value it reported, and not a failed one.
 *
 * After a restart the layer is fed the recorded points of all trials, in the order of their times.
 * Points of two jobs within one millisecond may have come in another order before.
 */
#include "core/study_priv.h"
#include "model/series.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int study_stop_new(const struct json *def, const struct study_rules *r, struct tune_stop **out,
                   struct err *e)
{
    struct tune_stop_conf conf = {.maximize = r->goals[0].maximize};

    if (tune_stop_parse(json_get(def, "stop"), &conf, e) < 0)
        return err_wrap(e, "stop");
    if (conf.layers && r->n_goals > 1)
        return err_set(e, ERR_INVALID,
                       "stop: a trial with several objectives cannot be judged by one of them; "
                       "leave stop out, or name one objective");
    *out = conf.layers ? tune_stop_new(&conf) : NULL;
    return 0;
}

static void prune_answered(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)e;
    (void)r;
}

static void study_prune(struct core *c, struct study *s, uint64_t number, int64_t step)
{
    struct study_trial *t = &s->trials.p[number - 1];
    struct trial_row row;

    t->pruned_at = step;
    row = study_trial_row(s, number);
    row.state = TRIAL_PRUNED; /* without `told`: it is asked to stop */
    core_stage(c, &(struct change){.kind = CHANGE_TRIAL, .at_ms = core_wall(c), .trial.row = row});
    if (t->job)
        core_cancel(c, &t->job, 1, &s->owner, prune_answered, NULL);
}

bool study_report(struct core *c, struct study *s, uint64_t number, int64_t step, double value)
{
    struct study_trial *t = &s->trials.p[number - 1];
    enum tune_verdict v = TUNE_CONTINUE;

    if (!s->stop || t->state != TRIAL_RUNNING)
        return false;
    t->value = value; /* what it has reached, should it be pruned */
    if (t->pruned_at >= 0)
        return true;
    if (tune_stop_report(s->stop, (int64_t)number, step, value, &v, NULL) < 0 || v != TUNE_STOP)
        return false;
    study_prune(c, s, number, step);
    return true;
}

void study_job_points(struct core *c, uint64_t job, struct str name, struct str block)
{
    const struct study_job *w = map_u64_get(&c->studies.jobs, job);
    struct study *s = w ? study_by_seq(c, w->study) : NULL;
    size_t n = series_count(block);

    if (!s || !s->stop || !n || !str_eq(name, s->rules.goals[0].metric))
        return;
    AUTO_FREE struct series_point *p = xcalloc(n, sizeof(*p));
    if (series_unpack(block, p, NULL) < 0)
        return;
    for (size_t i = 0; i < n; i++)
        study_report(c, s, w->number, p[i].step, p[i].value);
}

/* ---- after a restart ---- */

struct past_report {
    uint64_t number;
    struct series_point p;
};
struct past_reports {
    uint64_t number;
    VEC(struct past_report) all;
};

static void past_add(void *arg, const struct series_point *p)
{
    struct past_reports *x = arg;

    vec_push(&x->all, ((struct past_report){x->number, *p}));
}

static int past_by_time(const void *a, const void *b)
{
    const struct past_report *x = a, *y = b;

    if (x->p.at_ms != y->p.at_ms)
        return x->p.at_ms < y->p.at_ms ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->p.step > y->p.step) - (x->p.step < y->p.step);
}

void study_stop_replay(struct core *c, struct study *s)
{
    struct ledger *led = &c->conf.ledger;
    struct past_reports x = {0};
    enum tune_verdict v;

    if (!s->stop || !led->read_points)
        return;
    for (uint64_t n = 1; n <= s->trials.n; n++) {
        x.number = n;
        if (s->rules.has_job && s->trials.p[n - 1].job) /* not a job that a client has named */
            led->read_points(led->self, s->trials.p[n - 1].job, s->rules.goals[0].metric, past_add,
                             &x, NULL);
    }
    if (x.all.n)
        qsort(x.all.p, x.all.n, sizeof(*x.all.p), past_by_time);
    for (size_t i = 0; i < x.all.n; i++) {
        struct study_trial *t = &s->trials.p[x.all.p[i].number - 1];
        tune_stop_report(s->stop, (int64_t)x.all.p[i].number, x.all.p[i].p.step, x.all.p[i].p.value,
                         &v, NULL);
        if (t->state == TRIAL_RUNNING)
            t->value = x.all.p[i].p.value;
    }
    for (uint64_t n = 1; n <= s->trials.n; n++)
        if (s->trials.p[n - 1].state != TRIAL_RUNNING)
            tune_stop_finished(s->stop, (int64_t)n);
    vec_done(&x.all);
}

int core_study_report(struct core *c, uint64_t seq, struct study_holding held, int64_t step,
                      double value, const struct caller *who, bool *out_stop, struct err *e)
{
    uint64_t number = held.number;
    struct study *s = study_of_caller(c, seq, who, e);

    if (!s || study_wake_now(c, s, e) < 0)
        return -1;
    if (!s->stop)
        return err_set(e, ERR_CONFLICT, "study %.100s has no `stop`: nothing is stopped early",
                       s->name);
    if (number < 1 || number > s->trials.n)
        return err_set(e, ERR_NOT_FOUND, "there is no trial %llu; the last one is %zu",
                       (unsigned long long)number, s->trials.n);
    bool lost = false;
    if ((held.hold || s->trials.p[number - 1].lease_s) &&
        core_study_renew(c, seq, &held, 1, who, &lost, e) < 0)
        return -1;
    if (lost) {
        *out_stop = true;
        return 0;
    }
    if (s->trials.p[number - 1].state != TRIAL_RUNNING)
        return err_set(e, ERR_CONFLICT, "trial %llu is %s", (unsigned long long)number,
                       trial_state_names[s->trials.p[number - 1].state]);
    *out_stop = study_report(c, s, number, step, value);
    return 0;
}
