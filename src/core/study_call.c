/* study_call.c - requests to a study: points asked, results told, points chosen by people
 *
 * A request waits while a proposal is made, because a proposal reads the engine on another thread.
 * Results are checked when their turn has come: all of a request count, or none.
 */
#include "core/study_priv.h"
#include <stdlib.h>

enum { WANT_MAX = 10000 };

void study_call_free(struct study_call *x)
{
    for (size_t i = 0; i < x->results.n; i++)
        free((char *)x->results.p[i].reason.p);
    for (size_t i = 0; i < x->points.n; i++)
        free(x->points.p[i].params);
    vec_done(&x->results);
    vec_done(&x->points);
    free(x->code);
    free(x);
}

void study_call_fail(struct study_call *x, const struct err *e)
{
    if (x->done)
        x->done(x->arg, e, NULL);
    study_call_free(x);
}

void study_call_durable(void *arg, const struct err *e)
{
    struct study_call *x = arg;
    struct study_answer r = {.told = x->results.n,
                             .points = x->points.p,
                             .n = x->points.n,
                             .leased = x->leased,
                             .exhausted = x->want > 0 && !x->leased && !x->later};

    x->done(x->arg, e, e ? NULL : &r);
    study_call_free(x);
}

void study_call_durable_later(struct core *c, const struct study *s, struct study_call *x)
{
    x->leased = s->leases.n;
    trouble_barrier(c, TROUBLE_NOT_RECORDED, study_call_durable, x);
}

/* ---- results ---- */

static int result_check_values(const struct study *s, const struct study_result *r, struct err *e)
{
    size_t goals = s->rules.n_goals;

    if (r->state == TRIAL_PRUNED && goals > 1)
        return err_set(e, ERR_INVALID,
                       "trial %llu cannot be pruned: the study has several objectives; tell it as "
                       "failed",
                       (unsigned long long)r->number);
    if (r->state != TRIAL_FAILED && r->n_values != goals)
        return err_set(e, ERR_INVALID, "trial %llu has %zu value%s, and the study %zu objective%s",
                       (unsigned long long)r->number, r->n_values, r->n_values == 1 ? "" : "s",
                       goals, goals == 1 ? "" : "s");
    return 0;
}

static int number_order(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Ten thousand results of one request are sorted, not compared each with each: this is the loop. */
static int results_twice(const struct study_call *x, struct err *e)
{
    VEC(uint64_t) numbers = {0};
    uint64_t twice = 0;

    for (size_t i = 0; i < x->results.n; i++)
        vec_push(&numbers, x->results.p[i].number);
    if (numbers.n)
        qsort(numbers.p, numbers.n, sizeof(*numbers.p), number_order);
    for (size_t i = 1; i < numbers.n; i++)
        if (numbers.p[i] == numbers.p[i - 1])
            twice = numbers.p[i];
    vec_done(&numbers);
    return twice ? err_set(e, ERR_CONFLICT, "trial %llu has two results in one request",
                           (unsigned long long)twice)
                 : 0;
}

static int results_check(const struct study *s, const struct study_call *x, struct err *e)
{
    for (size_t i = 0; i < x->results.n; i++) {
        uint64_t n = x->results.p[i].number;
        if (n < 1 || n > s->trials.n)
            return err_set(e, ERR_NOT_FOUND, "there is no trial %llu; the last one is %zu",
                           (unsigned long long)n, s->trials.n);
        const struct study_trial *t = &s->trials.p[n - 1];
        if (!study_holds(s, n, x->results.p[i].hold))
            return err_set(e, ERR_CONFLICT,
                           "trial %llu was given to another client when its lease had ended; name "
                           "hold %u if it is yours, otherwise ask for another trial",
                           (unsigned long long)n, t->hold);
        if (t->state != TRIAL_RUNNING && (t->state != TRIAL_WAITING || !t->hold))
            return err_set(e, ERR_CONFLICT, "trial %llu is %s: it has a result, or was not asked",
                           (unsigned long long)n, trial_state_names[s->trials.p[n - 1].state]);
        if (result_check_values(s, &x->results.p[i], e) < 0)
            return -1;
    }
    return results_twice(x, e);
}

static struct str result_reason(const struct study *s, const struct study_result *r)
{
    bool nan = r->state == TRIAL_DONE && s->trials.p[r->number - 1].state == TRIAL_FAILED;

    return nan && !r->reason.n ? STR("its value is not a finite number") : r->reason;
}

void study_result_tell(struct core *c, struct study *s, const struct study_result *r)
{
    study_trial_result(s, r->number, r->state, r->values);
    study_result_stage(c, s, r->number, s->ops, result_reason(s, r));
}

static void results_tell(struct study *s, struct study_call *x)
{
    x->told = true;
    x->ops_before = s->ops;
    for (size_t i = 0; i < x->results.n; i++) {
        const struct study_result *r = &x->results.p[i];
        s->trials.p[r->number - 1].job = r->job;
        study_trial_result(s, r->number, r->state, r->values);
    }
}

void study_call_stage_told(struct core *c, const struct study *s, const struct study_call *x)
{
    for (size_t i = 0; i < x->results.n; i++) {
        const struct study_result *r = &x->results.p[i];
        study_result_stage(c, s, r->number, x->ops_before + i + 1, result_reason(s, r));
    }
}

/* ---- points ---- */

/* A trial that a person chose, or whose client has vanished, is handed out before the engine is
 * asked. */
static bool waiting_take(struct core *c, struct study *s, struct study_call *x)
{
    const struct tune_space *space = tune_study_space(s->engine);

    for (uint64_t n = 1; s->counts[TRIAL_WAITING] && n <= s->trials.n; n++) {
        const double *code = NULL;
        if (s->trials.p[n - 1].state != TRIAL_WAITING)
            continue;
        AUTO(buf) struct buf text = {0};
        tune_study_get(s->engine, (int64_t)n, &code);
        tune_space_write(space, code, NULL, &text);
        s->trials.p[n - 1].state = TRIAL_RUNNING;
        s->counts[TRIAL_WAITING]--;
        s->counts[TRIAL_RUNNING]++;
        study_lease_begin(c, s, n, x->lease_s);
        struct trial_row row = study_trial_row(s, n);
        row.params = buf_str(&text);
        core_stage(c,
                   &(struct change){.kind = CHANGE_TRIAL, .at_ms = core_wall(c), .trial.row = row});
        vec_push(&x->points,
                 ((struct study_point){n, xstrndup(text.p, text.n), s->trials.p[n - 1].hold,
                                       s->trials.p[n - 1].parent}));
        x->want--;
        return true;
    }
    return false;
}

void study_call_point(struct core *c, struct study *s, struct study_call *x, uint64_t number,
                      const char *params)
{
    if (x->kind == CALL_EXCHANGE)
        study_lease_begin(c, s, number, x->lease_s);
    struct trial_row row = study_trial_row(s, number);
    row.asked = s->ops;
    row.params = str_of(params);
    core_stage(c, &(struct change){.kind = CHANGE_TRIAL, .at_ms = core_wall(c), .trial.row = row});
    vec_push(&x->points, ((struct study_point){number, xstrdup(params), row.hold, row.parent}));
    x->want--;
}

static bool may_ask_more(const struct study *s)
{
    int64_t own = (int64_t)s->asked - s->rules.warm;

    return !s->exhausted && (s->rules.trials < 0 || own < s->rules.trials);
}

static void exchange_step(struct core *c, struct study *s, struct study_call *x)
{
    struct err e = {0};

    if (!x->told && results_check(s, x, &e) < 0) {
        study_call_fail(x, &e);
        return;
    }
    if (!x->told)
        results_tell(s, x);
    while (x->want && waiting_take(c, s, x))
        ;
    if (x->want && may_ask_more(s)) {
        study_propose(c, s, x);
        return;
    }
    study_call_stage_told(c, s, x);
    study_call_durable_later(c, s, x);
}

/* Of a study with a job the point is a job at once, beyond `parallel` if need be. */
static void point_step(struct core *c, struct study *s, struct study_call *x)
{
    bool job = s->rules.has_job;
    AUTO(buf) struct buf text = {0};

    tune_space_write(tune_study_space(s->engine), x->code, NULL, &text);
    uint64_t number = study_trial_add(s, x->code, job ? TRIAL_RUNNING : TRIAL_WAITING);
    if (job) {
        vec_push(&x->points, ((struct study_point){number, xstrndup(text.p, text.n), 0, 0}));
        study_launch(c, s, number, text.p, x); /* answers when the job is durable */
    } else {
        x->want = 1;
        study_call_point(c, s, x, number, text.p);
        study_call_durable_later(c, s, x);
    }
}

void study_call_step(struct core *c, struct study *s, struct study_call *x)
{
    switch (x->kind) {
    case CALL_EXCHANGE:
        exchange_step(c, s, x);
        break;
    case CALL_POINT:
        point_step(c, s, x);
        break;
    case CALL_JOB_ENDED:
        study_job_result(c, s, x);
        study_call_free(x);
        break;
    case CALL_VANISHED:
        study_vanished_result(c, s, x->number);
        study_call_free(x);
        break;
    }
}

void study_go_on(struct core *c, struct study *s)
{
    if (s->asleep && s->engine && !s->asking && (s->calls.n || study_may_fill(c, s))) {
        study_wake(c, s);
        return;
    }
    while (s->engine && !s->asking && s->calls.n) {
        struct study_call *x = s->calls.p[0];
        vec_remove(&s->calls, 0);
        study_call_step(c, s, x);
    }
    study_fill(c, s);
    study_say_state(c, s, NULL);
}

/* ---- requests ---- */

/* NULL: the request was answered with an error. */
static struct study *study_for_call(struct core *c, uint64_t seq, const struct caller *who,
                                    core_study_fn done, void *arg)
{
    struct err e = {0};
    struct study *s = study_of_caller(c, seq, who, &e);

    if (s && !s->engine) {
        err_set(&e, ERR_CONFLICT, "study %.80s cannot be continued: %.120s", s->name,
                s->trouble ? s->trouble : "its definition cannot be read");
        s = NULL;
    }
    if (!s)
        done(arg, &e, NULL);
    return s;
}

void core_study_exchange(struct core *c, uint64_t seq, const struct study_result *results, size_t n,
                         const struct study_ask *ask, const struct caller *who, core_study_fn done,
                         void *arg)
{
    struct study *s = study_for_call(c, seq, who, done, arg);
    struct err e = {0};

    if (!s)
        return;
    if (s->rules.has_job || ask->want > WANT_MAX) {
        if (s->rules.has_job)
            err_set(&e, ERR_CONFLICT, "study %.100s runs jobs: their metrics are its results",
                    s->name);
        else
            err_set(&e, ERR_INVALID, "n: at most %d points in one request", WANT_MAX);
        done(arg, &e, NULL);
        return;
    }
    struct study_call *x = xcalloc(1, sizeof(*x));
    *x = (struct study_call){.kind = CALL_EXCHANGE,
                             .want = ask->want,
                             .lease_s = ask->lease_s,
                             .done = done,
                             .arg = arg};
    for (size_t i = 0; i < n; i++) {
        struct study_result r = results[i];
        r.reason = (struct str){r.reason.n ? xstrndup(r.reason.p, r.reason.n) : NULL, r.reason.n};
        vec_push(&x->results, r);
    }
    vec_push(&s->calls, x);
    study_go_on(c, s);
}

void core_study_enqueue(struct core *c, uint64_t seq, const struct json *params,
                        const struct caller *who, core_study_fn done, void *arg)
{
    struct study *s = study_for_call(c, seq, who, done, arg);
    struct err e = {0};

    if (!s)
        return;
    const struct tune_space *space = tune_study_space(s->engine);
    struct study_call *x = xcalloc(1, sizeof(*x));
    *x = (struct study_call){.kind = CALL_POINT, .done = done, .arg = arg};
    x->code = xcalloc(space->n + 1, sizeof(double));
    if (tune_space_read(space, params, x->code, &e) < 0) {
        study_call_fail(x, &e);
        return;
    }
    vec_push(&s->calls, x);
    study_go_on(c, s);
}
