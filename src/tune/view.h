/* view.h - the trials of a study as plain arrays, for what only looks at them */
#pragma once
#include "base/vec.h"
#include "tune/study.h"

/* Everything is borrowed.  Trial i has the codes from codes[i * space->n] on, and the values from
 * values[i * n_goals] on.  Only a trial that is TUNE_DONE and whose value is finite counts as one
 * with a result. */
struct tune_view {
    const struct tune_space *space;
    size_t n; /* trials, in the order in which they were asked */
    const double *codes, *values;
    const enum tune_outcome *outcomes;
    /* Which trials were stopped early: they have no result, and did not fail.  NULL = none. */
    const bool *stopped;
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
static inline bool tune_view_stopped(const struct tune_view *v, size_t trial)
{
    return v->stopped && v->stopped[trial];
}
/* Has the trial a result of this objective? */
static inline bool tune_view_has(const struct tune_view *v, size_t trial, size_t goal)
{
    return v->outcomes[trial] == TUNE_DONE && __builtin_isfinite(tune_view_value(v, trial, goal));
}

/* view_read.c: the trials of a study as the REST API answers them.  Owns everything; a zeroed
 * struct is empty. */
struct tune_trials {
    struct tune_space *space;
    char *name;
    VEC(double) codes;
    VEC(double) values;
    VEC(enum tune_outcome) outcomes;
    VEC(bool) stopped;
    size_t n_goals;
    char *goals[TUNE_OBJECTIVES_MAX];
    bool maximize[TUNE_OBJECTIVES_MAX];
};
/* `study` is an answer of GET /v1/studies/{name}.  The caller calls tune_trials_done, also after an
 * error. */
int tune_trials_open(struct tune_trials *t, const struct json *study, struct err *e);
/* Appends `items` of GET /v1/studies/{name}/trials.  The error names the trial. */
int tune_trials_add(struct tune_trials *t, const struct json *items, struct err *e);
/* Borrows until the next change. */
struct tune_view tune_trials_view(struct tune_trials *t);
void tune_trials_done(struct tune_trials *t);
