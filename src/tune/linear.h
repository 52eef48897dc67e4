/* linear.h - the linear algebra of the engines: dot products, triangles, a small minimiser
 *
 * Sums are taken in a fixed order, so the same numbers give the same bits on every machine, and a
 * factor that grew row by row equals one that was made at once.
 */
#pragma once
#include "base/arena.h"

double linear_dot(const double *a, const double *b, size_t n);
void linear_add(double *to, double factor, const double *from, size_t n); /* to += factor * from */

/* The lower triangle L of K = L L', row after row; row i has i + 1 numbers. */
struct triangle {
    double *rows;
    size_t n, cap; /* rows in use; room */
};
static inline double *triangle_row(const struct triangle *t, size_t i)
{
    return t->rows + i * (i + 1) / 2;
}
/* Appends the row of K (n + 1 numbers, the diagonal last).  A diagonal that rounding has made too
 * small is lifted to `least`. */
void triangle_append(struct triangle *t, const double *k_row, double least);
void triangle_forward(const struct triangle *t, double *x); /* x = L^-1 x */
void triangle_back(const struct triangle *t, double *x);    /* x = L'^-1 x */

/* Minimises f within lo … hi from x, by the method of Broyden, Fletcher, Goldfarb and Shanno.  f
 * returns the value at x and writes the gradient.  At most `evals` calls of f; the best x is left
 * in place and its value returned. */
typedef double linear_fn(void *ctx, const double *x, double *grad);
double linear_minimize(linear_fn *f, void *ctx, double *x, const double *lo, const double *hi,
                       size_t n, int evals, struct arena *mem);
