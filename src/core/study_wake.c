/* study_wake.c - studies after a restart: what is known of them at once, and their trials
 *
 * Every point that was asked and every result that was told has a number.  Replaying them in this
 * order gives the engine that made them.  A study that has nothing to do sleeps: only sums of its
 * trials are read at the start.  The first request that needs its engine wakes it, on another
 * thread; meanwhile requests to it wait as they do for a proposal.
 */
#include "core/study_priv.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An operation that was recorded, until all are there. */
struct study_replay {
    uint64_t op, number;
    double *code; /* NULL = it tells */
    enum trial_state state;
    double values[TUNE_OBJECTIVES_MAX];
};

static void study_unreadable(struct study *s, const char *why)
{
    study_set_trouble(s, why);
    tune_study_free(s->engine);
    s->engine = NULL;
}

/* A definition that this program cannot read stays as it is, with the reason. */
void study_restore(struct core *c, const struct study_row *r)
{
    struct study *s = xcalloc(1, sizeof(*s));
    struct err e = {0};

    s->seq = r->seq;
    s->name = xstrndup(r->name.p, r->name.n);
    s->owner = (struct caller){.uid = r->uid, .gid = r->gid};
    snprintf(s->owner.user, sizeof(s->owner.user), STR_FMT, STR_ARG(r->user));
    s->paused = r->paused;
    s->created_ms = r->created_ms;
    s->exhausted = r->ended; /* if it is not its limit that it has reached */
    s->said = r->ended ? STUDY_FINISHED : r->paused ? STUDY_PAUSED : STUDY_RUNNING;
    if (json_parse(r->def, "study", &s->def, &e) < 0 ||
        study_rules_read(s->def, &s->rules, &e) < 0 ||
        study_engine_new(s->def, &s->engine, &e) < 0 ||
        study_stop_new(s->def, &s->rules, &s->stop, &e) < 0)
        study_unreadable(s, e.text);
    study_list(c, s);
}

/* Only sums of the trials are needed for lists, and of a study that submits no jobs and lends no
 * trials nothing else is needed before somebody asks.  A front has no sum. */
bool study_sum_restore(struct core *c, const struct study_sum *x)
{
    struct study *s = study_by_seq(c, x->seq);
    uint64_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(x->counts); i++)
        n += x->counts[i];
    if (!s || !s->engine || !n)
        return false;
    bool works =
        s->rules.has_job && s->said != STUDY_FINISHED && (!s->paused || x->counts[TRIAL_RUNNING]);
    if (works || x->leased || s->rules.n_goals > 1)
        return true;
    s->asleep = true;
    s->asked = n;
    s->ops = x->ops;
    memcpy(s->counts, x->counts, sizeof(s->counts));
    s->best = (struct study_best){.number = x->best, .job = x->best_job, .value = x->value};
    if (x->best)
        s->best.params = xstrndup(x->params.p, x->params.n);
    return false;
}

/* One trial of a study that is read: kept until all are there. */
static void study_row_add(struct study *s, const struct trial_row *r)
{
    struct err e = {0};
    struct study_replay x = {.op = r->asked, .number = r->number, .state = r->state};

    if (!s->engine)
        return;
    vec_push(&s->trials, ((struct study_trial){.job = r->job,
                                               .state = r->state,
                                               .hold = r->hold,
                                               .lease_s = r->lease_s,
                                               .parent = r->parent}));
    x.code = study_code_of(s, r->params, &e);
    if (!x.code || r->number != s->trials.n) {
        study_unreadable(s, x.code ? "a trial is not recorded" : e.text);
        free(x.code);
        return;
    }
    if (r->told || r->state == TRIAL_PRUNED) /* pruned and not told: it was asked to stop */
        x.state = TRIAL_RUNNING;
    vec_push(&s->replay, x);
    if (!r->told)
        return;
    x = (struct study_replay){.op = r->told, .number = r->number, .state = r->state};
    if (study_values_read(s, r, x.values, &e) == 0)
        vec_push(&s->replay, x);
    else
        study_unreadable(s, e.text);
}

static int replay_by_op(const void *a, const void *b)
{
    const struct study_replay *x = a, *y = b;

    return (x->op > y->op) - (x->op < y->op);
}

static void replay_asked(struct study *s, const struct study_replay *x,
                         const struct study_trial *was)
{
    study_trial_add(s, x->code, x->state);
    struct study_trial *t = &vec_last(&s->trials);
    t->job = was->job;
    t->hold = was->hold;
    t->parent = was->parent;
    t->lease_s = was->lease_s;
    if (was->state == TRIAL_PRUNED)
        t->pruned_at = 0;
}

static void study_replay(struct study *s)
{
    VEC(struct study_trial) was = {0};

    for (size_t i = 0; i < s->trials.n; i++)
        vec_push(&was, s->trials.p[i]);
    vec_clear(&s->trials);
    if (s->replay.n)
        qsort(s->replay.p, s->replay.n, sizeof(*s->replay.p), replay_by_op);
    for (size_t i = 0; i < s->replay.n; i++) {
        struct study_replay *x = &s->replay.p[i];
        if (x->code && s->engine)
            replay_asked(s, x, &was.p[x->number - 1]);
        else if (s->engine && x->number <= s->trials.n)
            study_trial_result(s, x->number, x->state, x->values);
        s->ops = x->op;
        free(x->code);
    }
    vec_done(&s->replay);
    vec_done(&was);
}

/* All trials are there: what depends on jobs, clients and reports. */
static void study_restored(struct core *c, struct study *s)
{
    study_stop_replay(c, s);
    study_leases_restored(c, s);
    for (uint64_t n = 1; n <= s->trials.n; n++)
        if (s->trials.p[n - 1].state == TRIAL_RUNNING && s->trials.p[n - 1].job)
            study_job_restored(c, s, n);
}

void trial_restore(struct core *c, const struct trial_row *r)
{
    struct study *s = study_by_seq(c, r->study);

    if (s)
        study_row_add(s, r);
}

void studies_restored(struct core *c)
{
    for (size_t i = 0; i < c->studies.all.n; i++) {
        struct study *s = c->studies.all.p[i];
        if (s->asleep)
            continue;
        study_replay(s);
        study_restored(c, s);
        c->studies.look_ms = 0;
    }
}

/* ---- waking ---- */

/* A study of the same definition without trials: it gets them on another thread, while this one
 * answers questions from the sums. */
static struct study *study_twin(const struct study *s)
{
    struct study *twin = xcalloc(1, sizeof(*twin));
    struct err e = {0};

    twin->def = json_copy(s->def);
    if (study_rules_read(twin->def, &twin->rules, &e) < 0 ||
        study_engine_new(twin->def, &twin->engine, &e) < 0 ||
        study_stop_new(twin->def, &twin->rules, &twin->stop, &e) < 0)
        study_unreadable(twin, e.text);
    return twin;
}

static void wake_row(void *arg, const struct trial_row *r)
{
    study_row_add(arg, r);
}

/* On another thread. */
static void wake_work(void *arg)
{
    struct study_asking *a = arg;
    struct ledger *led = &a->c->conf.ledger;
    struct err e = {0};

    if (led->read_trials && led->read_trials(led->self, a->s->seq, wake_row, a->twin, &e) < 0)
        study_unreadable(a->twin, e.text);
    study_replay(a->twin);
}

#define TAKE_OVER(member)                                                                          \
    do {                                                                                           \
        __typeof__(s->member) own = s->member;                                                     \
        s->member = twin->member;                                                                  \
        twin->member = own;                                                                        \
    } while (0)

static void twin_take(struct study *s, struct study *twin)
{
    TAKE_OVER(engine);
    TAKE_OVER(stop);
    TAKE_OVER(trouble);
    TAKE_OVER(ops);
    TAKE_OVER(asked);
    TAKE_OVER(best);
    TAKE_OVER(trials);
    TAKE_OVER(values);
    TAKE_OVER(front);
    memcpy(s->counts, twin->counts, sizeof(s->counts));
    s->asleep = false;
}

static void wake_done(void *arg)
{
    struct study_asking *a = arg;
    struct core *c = a->c;
    struct study *s = a->s;

    if (s->gone) {
        study_asking_gone(a);
        return;
    }
    twin_take(s, a->twin);
    study_asking_over(a);
    if (s->engine)
        study_restored(c, s);
    while (!s->engine && s->calls.n) {
        struct err e = {0};
        err_set(&e, ERR_CONFLICT, "study %.80s cannot be continued: %.120s", s->name,
                s->trouble ? s->trouble : "its trials cannot be read");
        study_call_fail(vec_pop(&s->calls), &e);
    }
    study_go_on(c, s);
}

static struct study_asking *wake_begin(struct core *c, struct study *s)
{
    struct study_asking *a = xcalloc(1, sizeof(*a));

    *a = (struct study_asking){.c = c, .s = s, .twin = study_twin(s)};
    s->asking = a;
    return a;
}

void study_wake(struct core *c, struct study *s)
{
    struct study_asking *a = wake_begin(c, s);

    if (c->conf.ops->offload && c->conf.ops->offload(c->conf.self, wake_work, wake_done, a))
        return;
    wake_work(a);
    wake_done(a);
}

int study_wake_now(struct core *c, struct study *s, struct err *e)
{
    if (!s->asleep || !s->engine)
        return 0;
    if (s->asking)
        return err_set(e, ERR_UNAVAILABLE, "study %.100s is being read; try again", s->name);
    struct study_asking *a = wake_begin(c, s);
    wake_work(a);
    wake_done(a);
    return s->engine ? 0
                     : err_set(e, ERR_CONFLICT, "study %.80s cannot be read: %.120s", s->name,
                               s->trouble ? s->trouble : "its trials");
}
