/* view_read.c - the trials of a study from the answers of the REST API
 *
 * Owns: the arrays that importance and pictures look at.  A trial that runs or waits is pending;
 * one that was stopped early has a value that does not compare with final ones, so it has no
 * result.
 */
#include "base/json.h"
#include "base/util.h"
#include "tune/view.h"
#include <math.h>

static void trial_goal_add(struct tune_trials *t, const struct json *goal)
{
    bool maximize = json_has(goal, "maximize");
    struct str metric = json_get_str(goal, maximize ? "maximize" : "minimize");

    t->maximize[t->n_goals] = maximize;
    t->goals[t->n_goals++] = xstrndup(metric.p ? metric.p : "", metric.n);
}

int tune_trials_open(struct tune_trials *t, const struct json *study, struct err *e)
{
    const struct json *goal = json_get(study, "objective");
    struct str name = json_get_str(study, "name");
    bool list = json_type(goal) == JSON_ARRAY;

    *t = (struct tune_trials){0};
    t->name = xstrndup(name.p ? name.p : "", name.n);
    for (size_t i = 0; list && i < MIN(json_len(goal), (size_t)TUNE_OBJECTIVES_MAX); i++)
        trial_goal_add(t, json_at(goal, i));
    if (!t->n_goals)
        trial_goal_add(t, goal);
    return tune_space_from_short(json_get(study, "space"), &t->space, e);
}

void tune_trials_done(struct tune_trials *t)
{
    tune_space_free(t->space);
    for (size_t i = 0; i < t->n_goals; i++)
        free(t->goals[i]);
    FREE_EACH(t->name, t->codes.p, t->values.p, t->outcomes.p, t->stopped.p);
    *t = (struct tune_trials){0};
}

/* `values` of a trial with several objectives; NaN when it has none. */
static void trial_values_add(struct tune_trials *t, const struct json *item)
{
    const struct json *list = json_get(item, "values");

    for (size_t i = 0; i < t->n_goals; i++) {
        const struct json *v = t->n_goals > 1 ? json_at(list, i) : json_get(item, "value");
        enum json_type type = json_type(v);
        vec_push(&t->values, type == JSON_INT || type == JSON_REAL ? json_real(v) : NAN);
    }
}

static int trial_item_add(struct tune_trials *t, const struct json *item, struct err *e)
{
    struct str state = json_get_str(item, "state");
    size_t n = t->space->n;

    vec_reserve(&t->codes, t->codes.n + n);
    if (tune_space_read(t->space, json_get(item, "params"), t->codes.p + t->codes.n, e) < 0)
        return err_wrap(e, "trial %lld", (long long)json_int(json_get(item, "number")));
    t->codes.n += n;
    bool done = str_eq_c(state, "done"), stopped = str_eq_c(state, "pruned");
    bool ended = done || stopped || str_eq_c(state, "failed");
    trial_values_add(t, item);
    vec_push(&t->outcomes, done ? TUNE_DONE : ended ? TUNE_FAILED : TUNE_PENDING);
    vec_push(&t->stopped, stopped);
    return 0;
}

int tune_trials_add(struct tune_trials *t, const struct json *items, struct err *e)
{
    for (size_t i = 0; i < json_len(items); i++)
        if (trial_item_add(t, json_at(items, i), e) < 0)
            return -1;
    return 0;
}

struct tune_view tune_trials_view(struct tune_trials *t)
{
    return (struct tune_view){.space = t->space,
                              .n = t->outcomes.n,
                              .codes = t->codes.p,
                              .values = t->values.p,
                              .outcomes = t->outcomes.p,
                              .stopped = t->stopped.p,
                              .n_goals = t->n_goals,
                              .goal_names = (const char *const *)t->goals,
                              .maximize = t->maximize,
                              .title = t->name};
}
