/* study.h - a study: a space, an engine, and the trials with their results
 *
 * Ask gives a point to try, tell gives its result.  Nothing here knows a clock, a file or chance
 * from outside: every random number comes from (seed, number of the trial, purpose).  So the same
 * seed and the same order of calls give the same proposals, and a study made again by
 * tune_study_record and tune_study_tell in the recorded order goes on as the first one would have.
 * All memory belongs to the study; one thread uses it at a time.
 */
#pragma once
#include "tune/space.h"

struct tune_pbt_conf;
struct tune_study;
struct tune_conf {
    const char *engine; /* a name of tune_engine_names; NULL = the default */
    uint64_t seed;
    bool maximize;
    int64_t budget; /* number of trials that are planned; -1 = not known */
    /* Several objectives: their number and for each whether it is maximised; `maximize` is then
     * not looked at.  0 and 1 = one. */
    size_t objectives;
    const bool *maximize_each;
    const struct tune_pbt_conf *pbt; /* of the engine pbt; NULL = as it is without settings */
};
enum { TUNE_OBJECTIVES_MAX = 8 };

enum tune_outcome { TUNE_PENDING, TUNE_DONE, TUNE_FAILED };
struct tune_trial {
    double value; /* as it was told, the first of several; of a failed trial NaN */
    enum tune_outcome outcome;
};

/* Takes the space, also when it fails.  The caller frees *out. */
int tune_study_new(struct tune_space *space_take, const struct tune_conf *conf,
                   struct tune_study **out, struct err *e);
void tune_study_free(struct tune_study *s);

/* The next point.  Numbers of trials count from 1; the codes are borrowed until the next call. They
 * are for tune_space_write: the study keeps them as tune_space_read makes them from that text.
 * ERR_NOT_FOUND: the space has no further point (grid, random). */
int tune_study_ask(struct tune_study *s, int64_t *out_id, const double **out_code, struct err *e);
/* The first half of tune_study_ask: fills in n codes, n = parameters of the space, and adds
 * nothing. Another thread may propose while this one reads the study, but not while it changes the
 * study. tune_space_canonical makes of the codes what tune_study_record must get. */
int tune_study_propose(struct tune_study *s, double *out_code, struct err *e);
/* Does a proposal take microseconds?  Then another thread costs more than it. */
bool tune_study_cheap(const struct tune_study *s);
/* Adds a trial with a point that was asked earlier, or that a person chose; the engine takes it
 * into account as if it had been asked now. */
int64_t tune_study_record(struct tune_study *s, const double *code);
/* The result of a trial.  A value that is not finite counts as failed.  A second result of the
 * same trial is an error (ERR_CONFLICT). */
int tune_study_tell(struct tune_study *s, int64_t id, enum tune_outcome outcome, double value,
                    struct err *e);
/* The result of a trial with several objectives, as many values as there are.  One that is not
 * finite makes the trial a failed one; values may be NULL when the outcome is TUNE_FAILED. */
int tune_study_tell_many(struct tune_study *s, int64_t id, enum tune_outcome outcome,
                         const double *values, size_t n, struct err *e);

size_t tune_study_count(const struct tune_study *s);
const struct tune_space *tune_study_space(const struct tune_study *s);
/* NULL when there is no such trial; *out_code may be NULL. */
const struct tune_trial *tune_study_get(const struct tune_study *s, int64_t id,
                                        const double **out_code);
/* The number of the trial with the best value, 0 = none has succeeded, or there are several
 * objectives. */
int64_t tune_study_best(const struct tune_study *s);
/* The trial whose state this one continues (engine pbt); 0 = it begins anew. */
int64_t tune_study_parent(const struct tune_study *s, int64_t id);
size_t tune_study_objectives(const struct tune_study *s);
/* The values of a trial that succeeded, one per objective and borrowed until the next result; else
 * NULL. */
const double *tune_study_values(const struct tune_study *s, int64_t id);
/* The Pareto front: the trials that no other is better than in everything, oldest first.  Returns
 * their number; the first `room` are in out_ids. */
size_t tune_study_front(const struct tune_study *s, int64_t *out_ids, size_t room);

/* "auto|tpe|…", and a sentence for each; the help of commands is made from them. */
extern const char tune_engine_names[], tune_engine_help[];
