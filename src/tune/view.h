/* view.h - the trials of a study as plain arrays, for what only looks at them */
#pragma once
#include "tune/study.h"

/* Everything is borrowed.  Trial i has the codes from codes[i * space->n] on, and the values from
 * values[i * n_goals] on.  Only a trial that is TUNE_DONE and whose value is finite counts as one
 * with a result. */
struct tune_view {
    const struct tune_space *space;
    size_t n; /* trials, in the order in which they were asked */
    const double *codes, *values;
    const enum tune_outcome *outcomes;
    size_t n_goals;                /* objectives, at least 1 */
    const char *const *goal_names; /* one of each objective; may be NULL */
    const bool *maximize;          /* one of each objective; NULL = all are minimised */
    const char *title;             /* the name of the study; may be NULL */
};

static inline double tune_view_value(const struct tune_view *v, size_t trial, size_t goal)
{
    return v->values[trial * v->n_goals + goal];
}
static inline double tune_view_code(const struct tune_view *v, size_t trial, size_t dim)
{
    return v->codes[trial * v->space->n + dim];
}
static inline bool tune_view_maximizes(const struct tune_view *v, size_t goal)
{
    return v->maximize && v->maximize[goal];
}
/* Has the trial a result of this objective? */
static inline bool tune_view_has(const struct tune_view *v, size_t trial, size_t goal)
{
    return v->outcomes[trial] == TUNE_DONE && __builtin_isfinite(tune_view_value(v, trial, goal));
}
