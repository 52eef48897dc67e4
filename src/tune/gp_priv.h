/* gp_priv.h - the engine gp: what it keeps, and one proposal in the making */
#pragma once
#include "tune/gp_model.h"
#include "tune/study_priv.h"

/* Kept between proposals; all of it follows from the order of the results. */
struct gp {
    size_t d;
    size_t *dims; /* parameters that vary */
    bool *choice;
    struct gp_kernel kernel;
    double power;    /* of the warp of results */
    size_t next_fit; /* number of results at which the kernel is fitted again */
    double *x;       /* coordinates of the results in their order, then of the others */
    size_t known;    /* results in x */
    struct triangle l;
};

/* One search for the best point. */
struct gp_ask {
    struct tune_study *s;
    struct gp *g;
    struct gp_model m;
    struct rng rng;
    double best; /* the smallest expected result so far, as warped */
    int evals;   /* left */
    bool doubt;  /* with half the lengths */
    double *at, *grad;
    /* of the gradient steps: which coordinates move */
    size_t *moving, n_moving;
    /* of conditional spaces: look at the branch of this trial only */
    bool one_branch;
    uint64_t branch;
    const double *model;
};

/* The coordinates of a point (gp_model.h). */
void gp_place(const struct gp *g, const struct tune_space *s, const double *code, double *x);
/* The point with the largest gain that no trial stands on; false: there is none. */
bool gp_search(struct gp_ask *a, double *out);
/* The best trial with one parameter, number `turn` of them in turn, somewhere else; false: it
 * cannot be moved. */
bool gp_excursion(struct gp_ask *a, size_t turn, double *out);
