/* importance.h - which parameters matter: an exact analysis of variance (fANOVA) of an own forest
 *
 * A share is the part of the variance of the objective, over the whole space with parameters drawn
 * independently, that is due to one parameter alone, to two together beyond their own shares, or
 * to everything that a parameter takes part in (`total`).  All shares of all sets of parameters add
 * up to 1; they are exact for the forest, from the boxes of its leaves, without sampling.
 *
 * Trees come in pairs that saw disjoint halves of the trials, and a variance is the covariance of
 * such a pair.  So noise, which the halves do not share, does not count as an effect.
 *
 * A parameter whose condition does not hold has the value "absent", which is as probable as in a
 * random draw of the space.  Categories are divided as sets.
 *
 * The time is bounded: at most 8192 trials, chosen evenly at random, of which each of 64 trees sees
 * at most 2048; at most 256 leaves of depth 16; at most 64 pieces of a range, and of more than 63
 * categories the rarest are one; with more than 32 parameters fewer trials.  100 000 trials of 10
 * parameters take about 0.3 s.
 */
#pragma once
#include "tune/view.h"

struct tune_importance {
    size_t n;        /* parameters of the space */
    size_t n_trials; /* that have a result */
    size_t n_used;   /* of these in the forest */
    /* Part of the variance of trials that a tree did not see and that the forest predicts, 0 … 1.
     * Near 0 the shares say nothing. */
    double fit;
    double *single, *total; /* one of each parameter, 0 … 1 */
    double *pairs;          /* use tune_importance_pair */
};

/* Shares are all 0 when there are fewer than 4 results, when all values are equal, and when the
 * halves of the trials have nothing in common.  The same view and seed give the same numbers.
 * Values that are more than 10 interquartile ranges away from the quartiles count as that far: one
 * diverged trial would hide all the others.  The caller calls tune_importance_done. */
void tune_importance_find(const struct tune_view *v, size_t goal, uint64_t seed,
                          struct tune_importance *out);
void tune_importance_done(struct tune_importance *m);
/* The share of i and j together, i ≠ j. */
double tune_importance_pair(const struct tune_importance *m, size_t i, size_t j);
/* The parameters by `total`, largest first; equal ones in their order.  The caller frees it. */
size_t *tune_importance_order(const struct tune_importance *m);
