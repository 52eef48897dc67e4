/* study_run.c - proposals of a study, and its trials that are jobs
 *
 * A study has at most one proposal under way, on another thread, and after it the submission of the
 * job, if the study has one.  Until the submission is durable nothing else happens to the study, so
 * that trials are recorded in the order in which the engine has them.  A submission that fails for
 * a passing reason is tried again; any other reason pauses the study, and resuming it tries the
 * same point again.
 */
#include "core/study_priv.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    AGAIN_MS = 2000,
    HERE_MAX = 64, /* points of a cheap engine that are proposed on the loop thread, in 0.1 ms */
};

static void launch_free(struct trial_launch *t)
{
    if (!t)
        return;
    json_free(t->job);
    FREE_EACH(t->name, t->params, t->parent_dir, t);
}

void study_asking_free(struct study_asking *a)
{
    if (!a)
        return;
    launch_free(a->launch);
    study_free(a->twin);
    if (a->call)
        study_call_free(a->call);
    for (size_t i = 0; i < a->got.n; i++)
        free(a->got.p[i].params);
    vec_done(&a->got);
    free(a);
}

/* ---- proposals ---- */

/* On another thread: nobody else uses the engine until propose_done. */
static void propose_work(void *arg)
{
    struct study_asking *a = arg;
    struct tune_study *engine = a->s->engine;
    const struct tune_space *space = tune_study_space(engine);
    AUTO_FREE double *code = xcalloc(space->n + 1, sizeof(*code));

    while (a->got.n < a->want && tune_study_propose(engine, code, &a->err) == 0) {
        AUTO(buf) struct buf text = {0};
        tune_space_write(space, code, NULL, &text); /* before it is canonical: see tune_study_ask */
        tune_space_canonical(space, code);
        uint64_t number = (uint64_t)tune_study_record(engine, code);
        vec_push(&a->got,
                 ((struct study_point){number, buf_take(&text, NULL), 0,
                                       (uint64_t)tune_study_parent(engine, (int64_t)number)}));
    }
}

/* The study was removed meanwhile. */
void study_asking_gone(struct study_asking *a)
{
    struct err e = {0};
    struct study *s = a->s;

    err_set(&e, ERR_NOT_FOUND, "the study was removed");
    if (a->call)
        study_call_fail(TAKE(a->call), &e);
    while (s->calls.n)
        study_call_fail(vec_pop(&s->calls), &e);
    study_free(s); /* with a */
}

void study_asking_over(struct study_asking *a)
{
    a->s->asking = NULL;
    study_asking_free(a);
}

static void propose_done(void *arg)
{
    struct study_asking *a = arg;
    struct core *c = a->c;
    struct study *s = a->s;
    struct study_call *call = a->call;
    AUTO_FREE char *params = NULL; /* of the job's point */

    if (s->gone) {
        study_asking_gone(a);
        return;
    }
    a->call = NULL;
    if (call)
        study_call_stage_told(c, s, call);
    for (size_t i = 0; i < a->got.n; i++) {
        study_trial_note(s, TRIAL_RUNNING);
        vec_last(&s->trials).parent = a->got.p[i].parent;
        if (call)
            study_call_point(c, s, call, a->got.p[i].number, a->got.p[i].params);
        else
            params = TAKE(a->got.p[i].params);
    }
    struct err e = a->err;
    s->exhausted |= e.code == ERR_NOT_FOUND;
    if (call && e.code == ERR_UNAVAILABLE) { /* a population at work */
        call->later = true;
    } else if (e.code && e.code != ERR_NOT_FOUND) {
        study_set_trouble(s, e.text);
        s->paused |= !call;
    }
    study_asking_over(a);
    if (call)
        study_call_durable_later(c, s, call);
    else if (params)
        study_launch(c, s, s->trials.n, params, NULL);
    study_go_on(c, s);
}

void study_propose(struct core *c, struct study *s, struct study_call *call)
{
    struct study_asking *a = xcalloc(1, sizeof(*a));
    size_t left = s->rules.trials < 0
                      ? SIZE_MAX
                      : (size_t)(s->rules.trials - ((int64_t)s->asked - s->rules.warm));

    *a = (struct study_asking){
        .c = c, .s = s, .call = call, .want = call ? MIN(call->want, left) : 1};
    s->asking = a;
    /* A job is submitted through the API, which is not there yet when the core starts. */
    bool here = call && a->want <= HERE_MAX && tune_study_cheap(s->engine);
    if (!here && c->conf.ops->offload &&
        c->conf.ops->offload(c->conf.self, propose_work, propose_done, a))
        return;
    propose_work(a);
    propose_done(a);
}

/* ---- jobs ---- */

static void launch_begin(struct core *c, struct study *s)
{
    struct study_asking *a = s->asking;
    struct err e = {0};

    a->again_ms = 0;
    if (c->conf.ops->trial) {
        c->conf.ops->trial(c->conf.self, a->launch);
        return;
    }
    err_set(&e, ERR_INVALID, "this program does not run studies; start `berth serve`");
    core_trial_take(a->launch, NULL, &e);
}

/* Where the job of the parent left its files; yours. */
static char *parent_dir(const struct core *c, const struct study *s, uint64_t parent)
{
    const struct ledger *led = &c->conf.ledger;
    uint64_t job = parent ? s->trials.p[parent - 1].job : 0;
    struct job_record rec = {0};

    if (!job || led->read_job(led->self, job, &rec, NULL) < 0)
        return NULL;
    return core_run_dir(c, core_run_key(c, job, rec.id, rec.attempt));
}

void study_launch(struct core *c, struct study *s, uint64_t number, const char *params,
                  struct study_call *call)
{
    struct trial_launch *t = xcalloc(1, sizeof(*t));

    *t = (struct trial_launch){.core = c,
                               .study = s->seq,
                               .number = number,
                               .name = xstrdup(s->name),
                               .owner = s->owner,
                               .job = json_copy(json_get(s->def, "job")),
                               .params = xstrdup(params),
                               .asked = s->ops,
                               .parent = s->trials.p[number - 1].parent,
                               .parent_dir = parent_dir(c, s, s->trials.p[number - 1].parent)};
    s->asking = xcalloc(1, sizeof(*s->asking));
    *s->asking = (struct study_asking){.c = c, .s = s, .launch = t, .call = call};
    launch_begin(c, s);
}

/* The study of a launch that still counts; NULL: it was removed, and the launch is freed. */
static struct study *launch_study(struct trial_launch *t)
{
    struct study *s = study_by_seq(t->core, t->study);

    return s && s->asking && s->asking->launch == t ? s : NULL;
}

static void launch_failed(struct core *c, struct study *s, const struct err *e)
{
    study_set_trouble(s, e->text);
    if (err_retryable(e->code)) {
        s->asking->again_ms = core_mono(c) + AGAIN_MS;
    } else {
        if (s->asking->call)
            study_call_fail(TAKE(s->asking->call), e);
        s->paused = true; /* whoever resumes it tries the same point again */
        s->asking->again_ms = INT64_MAX;
    }
    studies_look_at(c, core_mono(c) + AGAIN_MS);
    study_say_state(c, s, NULL);
}

static void study_job_watch(struct core *c, const struct study *s, uint64_t number, uint64_t job)
{
    struct study_job *w = xcalloc(1, sizeof(*w));

    *w = (struct study_job){s->seq, number};
    map_u64_put(&c->studies.jobs, job, w);
}

static void launch_cancelled(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)e;
    (void)r;
}

static void trial_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    struct trial_launch *t = arg;
    struct core *c = t->core;
    struct study *s = launch_study(t);

    if (!s) { /* removed with its jobs meanwhile */
        if (!e)
            core_cancel(c, &r->first, 1, &t->owner, launch_cancelled, NULL);
        launch_free(t);
        return;
    }
    if (e) {
        launch_failed(c, s, e);
        return;
    }
    s->trials.p[t->number - 1].job = r->first;
    if (core_job(c, r->first))
        study_job_watch(c, s, t->number, r->first);
    study_set_trouble(s, NULL);
    if (s->asking->call)
        study_call_durable(TAKE(s->asking->call), NULL);
    study_asking_over(s->asking);
    study_go_on(c, s);
}

void core_trial_take(struct trial_launch *t, struct submission *s, const struct err *e)
{
    struct study *x = launch_study(t);

    if (!x) {
        if (s)
            s->free_fn(s);
        launch_free(t);
        return;
    }
    if (!s) {
        launch_failed(t->core, x, e);
        return;
    }
    s->trial = (struct trial_row){.study = t->study,
                                  .number = t->number,
                                  .params = str_of(t->params),
                                  .asked = t->asked,
                                  .parent = t->parent,
                                  .state = TRIAL_RUNNING,
                                  .value = NAN};
    core_submit_take(t->core, s, &t->owner, trial_submitted, t);
}

bool study_may_fill(const struct core *c, const struct study *s)
{
    int64_t own = (int64_t)s->asked - s->rules.warm;

    return c->recovered && s->engine && !s->gone && !s->paused && !s->asking && !s->exhausted &&
           s->rules.has_job && (s->rules.trials < 0 || own < s->rules.trials) &&
           s->counts[TRIAL_RUNNING] < (uint64_t)s->rules.parallel;
}

void study_fill(struct core *c, struct study *s)
{
    if (!s->asleep && study_may_fill(c, s))
        study_propose(c, s, NULL);
}

void studies_turn(struct core *c)
{
    int64_t now = core_mono(c);

    if (!c->recovered || c->studies.look_ms < 0 || c->studies.look_ms > now)
        return;
    c->studies.look_ms = -1;
    for (size_t i = 0; i < c->studies.all.n; i++) {
        struct study *s = c->studies.all.p[i];
        bool waits = s->asking && s->asking->again_ms;
        if (waits && !s->paused && (s->asking->again_ms <= now || s->asking->again_ms == INT64_MAX))
            launch_begin(c, s);
        else if (waits && !s->paused)
            studies_look_at(c, s->asking->again_ms);
        else
            study_go_on(c, s);
        int64_t lease_ms = study_leases_look(c, s, now);
        if (lease_ms >= 0)
            studies_look_at(c, lease_ms);
    }
}

int64_t studies_next_wake(const struct core *c)
{
    return c->studies.look_ms;
}

/* ---- ends of jobs ---- */

static void study_push_end(struct core *c, struct study *s, uint64_t number, enum job_state state)
{
    struct study_call *x = xcalloc(1, sizeof(*x));

    *x = (struct study_call){.kind = CALL_JOB_ENDED, .number = number, .ended = state};
    vec_push(&s->calls, x);
    study_go_on(c, s);
}

/* A job whose end is durable. */
struct study_end {
    struct core *c;
    uint64_t study, number;
    enum job_state state;
};

static void study_end_durable(void *arg, const struct err *e)
{
    struct study_end *x = arg;
    struct study *s = study_by_seq(x->c, x->study);

    (void)e;
    if (s)
        study_push_end(x->c, s, x->number, x->state);
    free(x);
}

/* The metrics of the job are staged before its end: both are there when the barrier comes. */
void study_job_final(struct core *c, const struct job *j)
{
    struct study_job *w = map_u64_del(&c->studies.jobs, j->wait.job);
    struct ledger *led = &c->conf.ledger;

    if (!w)
        return;
    struct study_end *x = xcalloc(1, sizeof(*x));
    *x = (struct study_end){c, w->study, w->number, j->state};
    free(w);
    led->barrier(led->self, study_end_durable, x);
}

void study_job_restored(struct core *c, struct study *s, uint64_t number)
{
    uint64_t job = s->trials.p[number - 1].job;
    struct ledger *led = &c->conf.ledger;
    struct job_record rec = {.state = JOB_LOST};

    if (core_job_active(c, job, NULL)) {
        study_job_watch(c, s, number, job);
        return;
    }
    led->read_job(led->self, job, &rec, NULL); /* one that was removed counts as lost */
    study_push_end(c, s, number, rec.state);
}

/* The number that counts of one objective; NaN: *e says why there is none. */
static double study_job_value(struct core *c, const struct study *s, const struct study_goal *g,
                              uint64_t job, struct err *e)
{
    struct ledger *led = &c->conf.ledger;
    struct metric_facts f = {0};

    if (!led->read_metric)
        err_set(e, ERR_NOT_FOUND, "metrics are not kept here");
    if (!led->read_metric || led->read_metric(led->self, job, g->metric, &f, e) < 0)
        return NAN;
    double best = g->maximize ? f.max : f.min;
    double value = s->rules.take_best && f.n ? best : f.last;
    if (!isfinite(value))
        err_set(e, ERR_INVALID, "the last value of " STR_FMT " is not a finite number",
                STR_ARG(g->metric));
    return value;
}

void study_job_result(struct core *c, struct study *s, const struct study_call *x)
{
    const struct study_trial *t = &s->trials.p[x->number - 1];
    bool pruned = t->pruned_at >= 0 && (x->ended == JOB_CANCELLED || x->ended == JOB_SUCCEEDED);
    enum trial_state state = pruned                      ? TRIAL_PRUNED
                             : x->ended == JOB_SUCCEEDED ? TRIAL_DONE
                                                         : TRIAL_FAILED;
    struct err e = {0};

    if (t->state != TRIAL_RUNNING)
        return;
    double values[TUNE_OBJECTIVES_MAX] = {NAN};
    for (size_t i = 0; state != TRIAL_FAILED && !e.code && i < s->rules.n_goals; i++)
        values[i] = study_job_value(c, s, &s->rules.goals[i], t->job, &e);
    if (e.code)
        values[0] = NAN; /* one that is missing makes the trial a failed one */
    if (pruned)
        err_set(&e, ERR_INVALID, "stopped by %s at step %lld",
                s->stop && tune_stop_reason(s->stop, (int64_t)x->number)
                    ? tune_stop_reason(s->stop, (int64_t)x->number)
                    : "the study",
                (long long)t->pruned_at);
    if (state == TRIAL_FAILED)
        err_set(&e, ERR_INVALID, "job %llu ended as %s", (unsigned long long)t->job,
                job_state_name(x->ended));
    study_trial_result(s, x->number, state, values);
    study_result_stage(c, s, x->number, s->ops, str_of(e.text));
}
