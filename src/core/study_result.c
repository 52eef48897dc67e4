/* study_result.c - results of trials: recorded, the best one, the front of several objectives
 *
 * With one objective a study has a best trial; with several it has a front: the trials that no
 * other is better than in everything.  Both are kept here as texts, because the engine may be with
 * another thread when somebody asks.
 */
#include "base/json_out.h"
#include "core/study_priv.h"
#include <math.h>
#include <stdlib.h>

const double *study_values(const struct study *s, uint64_t number)
{
    return s->rules.n_goals > 1 ? s->values.p + (number - 1) * s->rules.n_goals
                                : &s->trials.p[number - 1].value;
}

void study_values_write(const struct study *s, uint64_t number, struct buf *out)
{
    const double *v = study_values(s, number);

    if (s->rules.n_goals < 2 || !isfinite(v[0]))
        return;
    jw_array(out, NULL);
    for (size_t i = 0; i < s->rules.n_goals; i++)
        jw_double(out, NULL, v[i]);
    jw_end_array(out);
}

int study_values_read(const struct study *s, const struct trial_row *r, double *out, struct err *e)
{
    AUTO(json) struct json *list = NULL;
    size_t n = s->rules.n_goals;

    out[0] = r->value;
    if (n < 2 || r->state != TRIAL_DONE)
        return 0;
    if (json_parse(r->values, "results", &list, e) < 0)
        return -1;
    if (json_len(list) != n)
        return err_set(e, ERR_INVALID, "trial %llu has %zu results, not %zu",
                       (unsigned long long)r->number, json_len(list), n);
    for (size_t i = 0; i < n; i++)
        out[i] = json_real(json_at(list, i));
    return 0;
}

/* ---- the best ---- */

static char *study_params_text(const struct study *s, uint64_t number)
{
    const double *code = NULL;
    AUTO(buf) struct buf text = {0};

    tune_study_get(s->engine, (int64_t)number, &code);
    tune_space_write(tune_study_space(s->engine), code, NULL, &text);
    return buf_take(&text, NULL);
}

static void best_update(struct study *s, uint64_t number)
{
    double value = s->trials.p[number - 1].value, best = s->best.number ? s->best.value : NAN;

    if (s->rules.goals[0].maximize ? value <= best : value >= best)
        return;
    free(s->best.params);
    s->best = (struct study_best){.number = number,
                                  .job = s->trials.p[number - 1].job,
                                  .value = value,
                                  .params = study_params_text(s, number)};
}

/* Nowhere worse and somewhere better. */
static bool front_dominates(const struct study *s, uint64_t a, uint64_t b)
{
    const double *p = study_values(s, a), *q = study_values(s, b);
    bool better = false;

    for (size_t i = 0; i < s->rules.n_goals; i++) {
        double lead = s->rules.goals[i].maximize ? p[i] - q[i] : q[i] - p[i];
        if (lead < 0)
            return false;
        better |= lead > 0;
    }
    return better;
}

static void front_update(struct study *s, uint64_t number)
{
    size_t at = 0;

    for (size_t i = 0; i < s->front.n; i++)
        if (front_dominates(s, s->front.p[i].number, number))
            return;
    for (size_t i = 0; i < s->front.n;) {
        if (!front_dominates(s, number, s->front.p[i].number)) {
            i++;
            continue;
        }
        free(s->front.p[i].params);
        vec_remove(&s->front, i);
    }
    while (at < s->front.n && s->front.p[at].number < number)
        at++;
    vec_push(&s->front, ((struct study_front){0}));
    memmove(s->front.p + at + 1, s->front.p + at, (s->front.n - 1 - at) * sizeof(*s->front.p));
    s->front.p[at] = (struct study_front){number, study_params_text(s, number)};
}

/* ---- a result ---- */

/* A pruned trial tells the engine what it had reached; it is never the best. */
void study_trial_result(struct study *s, uint64_t number, enum trial_state state,
                        const double *values)
{
    struct study_trial *t = &s->trials.p[number - 1];
    size_t n = s->rules.n_goals;
    bool told = state != TRIAL_FAILED;

    for (size_t i = 0; told && i < n; i++)
        told = isfinite(values[i]);
    s->counts[t->state]--;
    t->state = !told && state == TRIAL_DONE ? TRIAL_FAILED : state;
    t->value = told ? values[0] : NAN;
    for (size_t i = 0; told && n > 1 && i < n; i++)
        s->values.p[(number - 1) * n + i] = values[i];
    s->counts[t->state]++;
    s->ops++;
    study_lease_end(s, number);
    if (s->stop)
        tune_stop_finished(s->stop, (int64_t)number);
    tune_study_tell_many(s->engine, (int64_t)number, told ? TUNE_DONE : TUNE_FAILED, values, n,
                         NULL);
    if (t->state == TRIAL_DONE && n > 1)
        front_update(s, number);
    else if (t->state == TRIAL_DONE)
        best_update(s, number);
}

struct trial_row study_trial_row(const struct study *s, uint64_t number)
{
    const struct study_trial *t = &s->trials.p[number - 1];

    return (struct trial_row){.study = s->seq,
                              .number = number,
                              .job = t->job,
                              .state = t->state,
                              .value = t->value,
                              .parent = t->parent,
                              .hold = t->hold,
                              .lease_s = t->lease_s};
}

void study_result_stage(struct core *c, const struct study *s, uint64_t number, uint64_t told,
                        struct str reason)
{
    struct trial_row row = study_trial_row(s, number);
    AUTO(buf) struct buf values = {0};

    study_values_write(s, number, &values);
    row.told = told;
    row.values = buf_str(&values);
    row.reason = reason;
    core_stage(c, &(struct change){
                      .kind = CHANGE_TRIAL_TOLD, .at_ms = core_wall(c), .trial_told.row = row});
    study_say_result(c, s, number);
}
