/* pbt.h - population based training: trials copy better ones and change their parameters
 *
 * A layer beside the engines (M. Jaderberg et al., 2017).  Members of a population report (step,
 * value).  At every `interval` steps a member that is among the worst share takes over the state of
 * one of the best share, which the caller copies (a checkpoint), and goes on with that member's
 * parameters, a little changed.  The answers follow from the seed and the order of the calls.
 */
#pragma once
#include "tune/space.h"

struct json;
struct tune_pbt_conf {
    uint64_t seed;
    bool maximize;      /* tune_pbt_parse leaves it and the seed as they are */
    int64_t interval;   /* steps between decisions */
    double share;       /* of the population, at the worst and at the best end */
    double resample;    /* the probability that a parameter is drawn anew */
    double change;      /* of a number: by up to so much of its range, up or down */
    int64_t population; /* of the engine pbt: members */
};

/* {"interval": 10, "share": 0.25, "resample": 0.25, "change": 0.2, "population": 8}, null for
 * these; the error names the key, the value and the remedy. */
int tune_pbt_parse(const struct json *j, struct tune_pbt_conf *out, struct err *e);

struct tune_pbt_step {
    int64_t copy_from;  /* the trial whose state is copied; 0 = go on as you are */
    const double *code; /* the new parameters, borrowed until the next call; NULL without a copy */
};

struct tune_pbt;
/* The space is borrowed and must outlive the population. */
struct tune_pbt *tune_pbt_new(const struct tune_space *space, const struct tune_pbt_conf *conf);
void tune_pbt_free(struct tune_pbt *p);
/* A member of the population, trial 1, 2, …, with its parameters. */
int tune_pbt_join(struct tune_pbt *p, int64_t trial, const double *code, struct err *e);
/* A report of a member.  Steps rise; an earlier one changes nothing.  NaN and infinities count as
 * the worst.  After a copy the member counts with the parameters of the answer, and with the value
 * of the trial that it copied until it reports again. */
int tune_pbt_report(struct tune_pbt *p, int64_t trial, int64_t step, double value,
                    struct tune_pbt_step *out, struct err *e);
/* The member has ended: nobody copies it, and it has no rank. */
void tune_pbt_leave(struct tune_pbt *p, int64_t trial);
/* The parameters of a member now, or NULL. */
const double *tune_pbt_code(const struct tune_pbt *p, int64_t trial);
