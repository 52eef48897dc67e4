/* gp_model.h - a Gaussian process: what is known of the loss between the trials
 *
 * Coordinates: ordered parameters by their position, absent ones at 0.5; choices by their code,
 * absent ones -1, where equal is near and all others are equally far.
 */
#pragma once
#include "tune/linear.h"
#include "tune/space.h"

/* Matérn 5/2 with a weight (1 / length²) per parameter, a scale, and noise; all as logarithms. */
struct gp_kernel {
    size_t d;
    const bool *choice; /* d: is the parameter unordered? */
    double *log_weight; /* d */
    double log_scale, log_noise;
};

/* How results become normal: a power of their distance from the best, then mean 0 and spread 1. */
struct gp_warp {
    double shift, unit, power, mean, spread;
};
/* With this power, or with a negative one the most normal of some. */
void gp_warp_fit(struct gp_warp *w, double power, const double *loss, size_t n, struct arena *mem);
/* What must be added to the result of gp_kernel_fit to compare warps: the measure they stretch. */
double gp_warp_cost(const struct gp_warp *w, const double *loss, size_t n);
double gp_warp_value(const struct gp_warp *w, double loss);

/* Parameters of the kernel by maximum a posteriori from n points x (n × d) with results y, starting
 * at the kernel as it is and at the prior's mode.  Returns -log of the posterior.  At most `evals`
 * evaluations, n³ operations each.
 */
double gp_kernel_fit(struct gp_kernel *k, const double *x, const double *y, size_t n, int evals,
                     struct arena *mem);
void gp_kernel_reset(struct gp_kernel *k);

/* The process given its points. */
struct gp_model {
    const struct gp_kernel *k;
    double *weight, scale, noise; /* of the kernel, not as logarithms */
    const double *x;              /* n × d */
    struct triangle l;
    double *alpha; /* K^-1 y */
    double *row;   /* room for one row of K */
    double *slope; /* dk/d(r²) of that row */
};
void gp_model_init(struct gp_model *m, const struct gp_kernel *k, size_t cap, struct arena *mem);
/* Row i of K against the rows before it, and its diagonal. */
void gp_model_row(const struct gp_model *m, const double *at, size_t n, double *out, double *slope);
/* Mean and spread at a point; with `grad` (2 × d) also their gradients. */
void gp_model_at(const struct gp_model *m, const double *at, double *mean, double *sd,
                 double *grad);
