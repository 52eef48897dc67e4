/* gp_search.c - where the Gaussian process expects the largest gain
 *
 * What is searched is the logarithm of the expected improvement (S. Ament et al., 2023).  Many
 * points of the whole space and near the best trials are judged by a bound that needs no solving;
 * the best of them exactly; from the best of those it climbs: continuous parameters by the
 * gradient, finite ones by trying other values.
 */
#include "tune/gp_priv.h"
#include "tune/sobol.h"
#include <math.h>

enum {
    SPREAD = 320,
    NEAR_TRIALS = 5,
    NEAR_EACH = 24,
    EXACT = 24,
    STARTS = 4,
    ROUNDS = 3,
    CHOICES_TRIED = 12
};

enum { EXCURSION_TRIED = 40 };
static const double EXCURSION_FAR = 0.06;

/* log(phi(z) + z Phi(z)), and the parts of its derivatives: Phi / h and phi / h. */
static double log_gain(double z, double *by_mean, double *by_sd)
{
    double phi = exp(-0.5 * z * z) * 0.3989422804014327;

    if (z > -1) {
        double cdf = 0.5 * erfc(-z * M_SQRT1_2), h = phi + z * cdf;
        *by_mean = cdf / h;
        *by_sd = phi / h;
        return log(h);
    }
    /* Far below, by the continued fraction of Mills' ratio: everything relative to phi. */
    double t = -z, ratio = t;
    for (int i = 40; i >= 1; i--)
        ratio = t + i / ratio;
    double mills = 1 / ratio, rest = 1 - t * mills;
    if (!(rest > 1e-12))
        rest = 1 / (t * t + 3);
    *by_mean = mills / rest;
    *by_sd = 1 / rest;
    return -0.5 * z * z - 0.9189385332046727 + log(rest);
}

/* The logarithm of the expected improvement at a point, and its gradient by coordinates.  Below the
 * best by many spreads the improvement itself would be 0 and its gradient lost. */
static double gp_gain(struct gp_ask *a, const double *at, double *grad)
{
    double mean, sd, by_mean, by_sd;
    size_t d = a->g->d;

    a->evals -= grad ? 2 : 1;
    gp_model_at(&a->m, at, &mean, &sd, grad ? a->grad : NULL);
    double v = log(sd) + log_gain((a->best - mean) / sd, &by_mean, &by_sd);
    for (size_t j = 0; grad && j < d; j++)
        grad[j] = (-by_mean * a->grad[j] + by_sd * a->grad[d + j]) / sd;
    return v;
}

/* The same without solving: the spread is bounded by the nearest point alone. */
static double gp_gain_bound(struct gp_ask *a, const double *at)
{
    size_t n = a->m.l.n;
    double near = 0, unused[2];

    gp_model_row(&a->m, at, n, a->m.row, a->m.slope);
    for (size_t i = 0; i < n; i++)
        near = fmax(near, a->m.row[i]);
    double var = a->m.scale - near * near / (a->m.scale + a->m.noise);
    double sd = sqrt(fmax(var, 1e-14)), mean = linear_dot(a->m.row, a->m.alpha, n);
    return log(sd) + log_gain((a->best - mean) / sd, &unused[0], &unused[1]);
}

/* ---- search ---- */
/* A point of a sequence that is another one for each trial. */
static void draw_spread(struct gp_ask *a, uint64_t seed, uint32_t index, double *code)
{
    const struct tune_space *s = a->s->space;

    for (size_t i = 0; i < s->n; i++)
        code[i] = a->one_branch && s->dims[i].decides ? a->model[i]
                  : tune_space_active(s, code, i)
                      ? tune_dim_code(&s->dims[i], sobol_unit(seed, index, i))
                      : NAN;
}

/* A point near a good trial: all numbers moved a little, or a few of everything changed. */
static void draw_close(struct gp_ask *a, size_t trial, double *code)
{
    const struct tune_space *s = a->s->space;
    double scale = pow(10, -0.5 - 2.5 * rng_unit(&a->rng)), share = 2.0 / (double)(a->g->d + 1);
    bool few = rng_below(&a->rng, 2);

    memcpy(code, study_code(a->s, trial), s->n * sizeof(double));
    for (size_t j = 0; j < a->g->d; j++) {
        size_t i = a->g->dims[j];
        const struct tune_dim *d = &s->dims[i];
        if (isnan(code[i]) || ((few || d->count > 0) && rng_unit(&a->rng) > share))
            continue;
        double u = tune_dim_unit(d, code[i]) + (few ? 0.3 : scale) * rng_normal(&a->rng);
        code[i] = tune_dim_code(d, a->g->choice[j] ? rng_unit(&a->rng)
                                   : u < 0         ? -u
                                   : u > 1         ? 2 - u
                                                   : u);
    }
    tune_space_settle(s, code, &a->rng);
}

/* Legal, new, and within the branch that this proposal is about. */
static bool gp_may_try(const struct gp_ask *a, const double *code)
{
    if (a->one_branch && study_branch_key(a->s, code) != a->branch)
        return false;
    return tune_space_allows(a->s->space, code) && !study_issued(a->s, code);
}

struct gp_start {
    double gain, *code;
};

/* Keeps the EXACT best by the bound, worst last. */
static void starts_offer(struct gp_ask *a, struct gp_start *best, size_t *n, const double *code)
{
    const struct tune_space *s = a->s->space;

    if (!gp_may_try(a, code))
        return;
    gp_place(a->g, s, code, a->at);
    double gain = gp_gain_bound(a, a->at);
    if (*n == EXACT && !(gain > best[EXACT - 1].gain))
        return;
    size_t at = *n < EXACT ? (*n)++ : EXACT - 1;
    double *room =
        best[at].code ? best[at].code : arena_alloc(&a->s->scratch, s->n * sizeof(double));
    for (; at > 0 && best[at - 1].gain < gain; at--)
        best[at] = best[at - 1];
    memcpy(room, code, s->n * sizeof(double));
    best[at] = (struct gp_start){gain, room};
}

/* Many points by the bound, the EXACT best of them by the true gain, best first.  Returns how many
 * there are. */
static size_t gp_screen(struct gp_ask *a, struct gp_start *best)
{
    struct tune_study *s = a->s;
    double *code = arena_alloc(&s->scratch, s->space->n * sizeof(double));
    uint64_t seed = rng_next(&a->rng);
    size_t n = 0;

    for (uint32_t i = 0; i < SPREAD; i++) {
        draw_spread(a, seed, i, code);
        starts_offer(a, best, &n, code);
    }
    size_t near = 0;
    for (size_t t = 0; t < s->ranked.n && near < NEAR_TRIALS; t++) {
        if (a->one_branch && study_branch_key(s, study_code(s, s->ranked.p[t])) != a->branch)
            continue;
        near++;
        for (int i = 0; i < NEAR_EACH; i++) {
            draw_close(a, s->ranked.p[t], code);
            starts_offer(a, best, &n, code);
        }
    }
    for (size_t i = 0; i < n; i++) {
        gp_place(a->g, s->space, best[i].code, a->at);
        best[i].gain = gp_gain(a, a->at, NULL);
        for (size_t k = i; k > 0 && best[k - 1].gain < best[k].gain; k--) {
            struct gp_start swap = best[k];
            best[k] = best[k - 1];
            best[k - 1] = swap;
        }
    }
    return n;
}

/* What the minimiser sees: the coordinates that move, and the gain with its sign turned. */
static double gp_climb_value(void *ctx, const double *x, double *grad)
{
    struct gp_ask *a = ctx;
    double full[TUNE_DIMS_MAX];

    for (size_t k = 0; k < a->n_moving; k++)
        a->at[a->moving[k]] = x[k];
    double v = gp_gain(a, a->at, full);
    for (size_t k = 0; k < a->n_moving; k++)
        grad[k] = -full[a->moving[k]];
    return -v;
}

/* Continuous parameters by the gradient. */
static void gp_climb(struct gp_ask *a, struct gp_start *p, int evals)
{
    const struct tune_space *s = a->s->space;
    size_t d = a->g->d;
    double *x = arena_alloc(&a->s->scratch, 3 * (d + 1) * sizeof(double)), *lo = x + d,
           *hi = lo + d;
    double *code = arena_alloc(&a->s->scratch, s->n * sizeof(double));

    gp_place(a->g, s, p->code, a->at);
    a->n_moving = 0;
    for (size_t j = 0; j < d; j++)
        if (!(s->dims[a->g->dims[j]].count > 0) && !isnan(p->code[a->g->dims[j]])) {
            x[a->n_moving] = a->at[j];
            lo[a->n_moving] = 0;
            hi[a->n_moving] = 1;
            a->moving[a->n_moving++] = j;
        }
    if (!a->n_moving || evals < 4)
        return;
    double gain =
        -linear_minimize(gp_climb_value, a, x, lo, hi, a->n_moving, evals, &a->s->scratch);
    memcpy(code, p->code, s->n * sizeof(double));
    for (size_t k = 0; k < a->n_moving; k++)
        code[a->g->dims[a->moving[k]]] = x[k];
    if (gain > p->gain && tune_space_allows(s, code)) {
        p->gain = gain;
        memcpy(p->code, code, s->n * sizeof(double));
    }
}

/* The k-th other value of a finite parameter; NaN = no more. */
static double other_value(struct gp_ask *a, const struct tune_dim *d, double now, int k)
{
    static const double share[] = {0, 0, 0.1, 0.3};

    if (tune_dim_unordered(d)) {
        if (d->count > CHOICES_TRIED)
            return k < CHOICES_TRIED ? (double)rng_below(&a->rng, (uint64_t)d->count) : NAN;
        return k < d->count ? k : NAN;
    }
    if (k >= 2 * (int)ARRAY_SIZE(share))
        return NAN;
    double step = fmax(k / 2 == 1 ? 2 : 1, nearbyint(share[k / 2] * d->count));
    return fmin(fmax(now + (k % 2 ? step : -step), 0), d->count - 1);
}

/* Finite parameters one after the other; true when something changed. */
static bool gp_switch(struct gp_ask *a, struct gp_start *p)
{
    const struct tune_space *s = a->s->space;
    double *code = arena_alloc(&a->s->scratch, s->n * sizeof(double)), v;
    bool changed = false;

    for (size_t j = 0; j < a->g->d; j++) {
        size_t i = a->g->dims[j];
        const struct tune_dim *d = &s->dims[i];
        if (!(d->count > 0) || isnan(p->code[i]))
            continue;
        for (int k = 0; a->evals > 0 && !isnan(v = other_value(a, d, p->code[i], k)); k++) {
            if (v == p->code[i])
                continue;
            memcpy(code, p->code, s->n * sizeof(double));
            code[i] = v;
            if (d->decides)
                tune_space_settle(s, code, &a->rng);
            if (!gp_may_try(a, code))
                continue;
            gp_place(a->g, s, code, a->at);
            double gain = gp_gain(a, a->at, NULL);
            if (gain > p->gain) {
                p->gain = gain;
                memcpy(p->code, code, s->n * sizeof(double));
                changed = true;
            }
        }
    }
    return changed;
}

/* Is the point, in all coordinates, where a trial is already? */
static bool gp_stands_on(const struct gp_ask *a, const double *code)
{
    gp_place(a->g, a->s->space, code, a->at);
    for (size_t i = 0; i < a->m.l.n; i++) {
        double far = 0;
        for (size_t j = 0; j < a->g->d; j++)
            far = fmax(far, fabs(a->at[j] - a->g->x[i * a->g->d + j]));
        if (far < 2e-6)
            return true;
    }
    return false;
}

/* Each of the best starts gets an equal share of the evaluations that are left, in rounds of steps
 * and switches until nothing changes. */
bool gp_search(struct gp_ask *a, double *out)
{
    struct gp_start best[EXACT] = {0};
    size_t n = gp_screen(a, best), top = SIZE_MAX;

    for (size_t i = 0; i < MIN(n, STARTS) && a->evals > 0; i++) {
        int share = a->evals / (int)(MIN(n, STARTS) - i);
        for (int round = 0; round < ROUNDS && share > 0; round++) {
            int before = a->evals;
            gp_climb(a, &best[i], share / 2);
            bool changed = gp_switch(a, &best[i]);
            share -= before - a->evals;
            if (!changed)
                break;
        }
    }
    for (size_t i = 0; i < n; i++)
        if ((top == SIZE_MAX || best[i].gain > best[top].gain) && !gp_stands_on(a, best[i].code))
            top = i;
    if (top == SIZE_MAX)
        return false;
    memcpy(out, best[top].code, a->s->space->n * sizeof(double));
    return true;
}

/* A model of all parameters at once learns slowly that a far value of one alone would do; a fixed
 * share of the trials asks. */
bool gp_excursion(struct gp_ask *a, size_t turn, double *out)
{
    const struct tune_space *s = a->s->space;
    size_t j = turn % a->g->d, i = a->g->dims[j];
    const struct tune_dim *d = &s->dims[i];
    double *code = arena_alloc(&a->s->scratch, s->n * sizeof(double)), top = -INFINITY;
    const double *best = study_code(a->s, a->s->ranked.p[0]);

    if (isnan(best[i]) || d->decides)
        return false;
    for (int k = 0; k < EXCURSION_TRIED; k++) {
        memcpy(code, best, s->n * sizeof(double));
        code[i] = tune_dim_code(d, (k + rng_unit(&a->rng)) / EXCURSION_TRIED);
        bool far = fabs(tune_dim_unit(d, code[i]) - tune_dim_unit(d, best[i])) > EXCURSION_FAR;
        if ((!far && !a->g->choice[j]) || !gp_may_try(a, code))
            continue;
        gp_place(a->g, s, code, a->at);
        double gain = gp_gain(a, a->at, NULL);
        if (gain > top) {
            top = gain;
            memcpy(out, code, s->n * sizeof(double));
        }
    }
    return top > -INFINITY && !gp_stands_on(a, out);
}
