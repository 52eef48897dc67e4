/* gp_model.c - kernel, fit and prediction of the Gaussian process */
#include "tune/gp_model.h"
#include "base/util.h"
#include <math.h>
#include <string.h>

static const double ROOT_5 = 2.2360679774997897;
/* Priors, on unit cubes and results of spread 1.  The length of a parameter grows with the square
 * root of their number: in more dimensions points are farther apart.  Noise is taken to be small
 * until results say otherwise. */
static const double weight_spread = 1.7, scale_spread = 1.0, noise_mode = -11.5, noise_spread = 3.0;
enum { FIT_STARTS = 2 };
/* Of the unit: how far the best result lies from where the power has its pole. */
static const double WARP_ROOM = 0.05;
/* And how much smaller than the bulk of the results the unit may become. */
static const double WARP_ZOOM = 0.1;

static double weight_mode(size_t d)
{
    return log(4.0 / fmax((double)d, 1));
}

void gp_kernel_reset(struct gp_kernel *k)
{
    for (size_t j = 0; j < k->d; j++)
        k->log_weight[j] = weight_mode(k->d);
    k->log_scale = 0;
    k->log_noise = noise_mode;
}

/* ---- results ---- */
static int warp_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The power alone; what lies at or below the pole counts as next to it. */
static double warp_raw(const struct gp_warp *w, double loss)
{
    double z = (loss - w->shift) / w->unit;

    z = z > 1e-12 ? z : 1e-12;
    return w->power > 0 ? (pow(z, w->power) - 1) / w->power : log(z);
}

double gp_warp_value(const struct gp_warp *w, double loss)
{
    return (warp_raw(w, loss) - w->mean) / w->spread;
}

/* Mean and spread after the power, and how normal the results are then (Box and Cox, 1964). */
static double warp_try(struct gp_warp *w, const double *loss, size_t n)
{
    double sum = 0, sq = 0, logs = 0;

    for (size_t i = 0; i < n; i++) {
        double v = warp_raw(w, loss[i]);
        sum += v;
        logs += log((loss[i] - w->shift) / w->unit);
    }
    w->mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) {
        double v = warp_raw(w, loss[i]) - w->mean;
        sq += v * v;
    }
    double var = sq / (double)n;
    w->spread = var > 1e-20 ? sqrt(var) : 1;
    return -0.5 * (double)n * log(fmax(var, 1e-20)) + (w->power - 1) * logs;
}

void gp_warp_fit(struct gp_warp *w, double power, const double *loss, size_t n, struct arena *mem)
{
    static const double powers[] = {1, 0.5, 0.25, 0};
    double *sorted = arena_alloc(mem, n * sizeof(double)), best = -INFINITY;
    struct gp_warp keep = {0};

    memcpy(sorted, loss, n * sizeof(double));
    qsort(sorted, n, sizeof(double), warp_order);
    /* Many results next to the best must not make all others look alike. */
    double half = fmax(sorted[n / 2] - sorted[0], WARP_ZOOM * (sorted[n * 4 / 5] - sorted[0]));
    w->unit = half > 0 ? half : sorted[n - 1] > sorted[0] ? sorted[n - 1] - sorted[0] : 1;
    /* The best lies a little above 0, so that the logarithm does not tear it away from the rest. */
    w->shift = sorted[0] - WARP_ROOM * w->unit;
    for (size_t i = 0; i < ARRAY_SIZE(powers); i++) {
        w->power = power >= 0 ? power : powers[i];
        double fit = warp_try(w, loss, n);
        if (fit > best + 1e-9) {
            best = fit;
            keep = *w;
        }
    }
    *w = keep;
}

double gp_warp_cost(const struct gp_warp *w, const double *loss, size_t n)
{
    double sum = (double)n * log(w->spread);

    for (size_t i = 0; i < n; i++)
        sum -= (w->power - 1) * log((loss[i] - w->shift) / w->unit);
    return sum;
}

/* ---- the kernel ---- */
static double gp_distance(const struct gp_kernel *k, const double *weight, const double *a,
                          const double *b)
{
    double r2 = 0;

    for (size_t j = 0; j < k->d; j++) {
        double t = k->choice[j] ? (a[j] != b[j]) : a[j] - b[j];
        r2 += weight[j] * t * t;
    }
    return r2;
}

/* Matérn 5/2 of a squared distance, without the scale; *slope is its derivative. */
static double matern(double r2, double *slope)
{
    double r = ROOT_5 * sqrt(r2), e = exp(-r);

    *slope = -5.0 / 6.0 * (1 + r) * e;
    return (1 + r + 5.0 / 3.0 * r2) * e;
}

/* ---- fit ---- */
struct gp_fit {
    struct gp_kernel *k;
    const double *x, *y;
    size_t n;
    struct triangle l;
    double *weight, *row, *alpha, *corr, *slope, *inverse;
};

/* -log posterior of theta = (log weights, log scale, log noise), and its gradient. */
static double gp_prior(size_t d, const double *theta, double *grad)
{
    double sum = 0;

    for (size_t j = 0; j < d + 2; j++) {
        double mode = j < d ? weight_mode(d) : j == d ? 0 : noise_mode;
        double spread = j < d ? weight_spread : j == d ? scale_spread : noise_spread;
        double t = (theta[j] - mode) / spread;
        sum += 0.5 * t * t;
        grad[j] = t / spread;
    }
    return sum;
}

/* Correlations, their slopes, and the factor of K, for the weights at hand. */
static void gp_factor(struct gp_fit *f, double scale, double noise)
{
    size_t n = f->n, d = f->k->d;

    f->l.n = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            double c = matern(gp_distance(f->k, f->weight, f->x + i * d, f->x + j * d),
                              &f->slope[i * n + j]);
            f->corr[i * n + j] = c;
            f->row[j] = scale * c;
        }
        f->row[i] = scale + noise;
        triangle_append(&f->l, f->row, 1e-10);
    }
}

/* K^-1 into `inverse`, lower half: column i of L^-1 first, kept as row i, then their products. */
static void gp_invert(struct gp_fit *f)
{
    size_t n = f->n;

    for (size_t c = 0; c < n; c++) {
        double *col = f->inverse + c * n;
        memset(col, 0, n * sizeof(double));
        col[c] = 1 / triangle_row(&f->l, c)[c];
        for (size_t i = c + 1; i < n; i++) {
            const double *row = triangle_row(&f->l, i);
            col[i] = -linear_dot(row + c, col + c, i - c) / row[i];
        }
    }
}

/* What the minimiser sees: -log of the posterior and its gradient.  The gradient needs K^-1, which
 * costs three times the factor; both together are n cubed operations. */
static double gp_fit_value(void *ctx, const double *theta, double *grad)
{
    struct gp_fit *f = ctx;
    size_t n = f->n, d = f->k->d;
    double scale = exp(theta[d]), noise = exp(theta[d + 1]), value = gp_prior(d, theta, grad);

    for (size_t j = 0; j < d; j++)
        f->weight[j] = exp(theta[j]);
    gp_factor(f, scale, noise);
    memcpy(f->alpha, f->y, n * sizeof(double));
    triangle_forward(&f->l, f->alpha);
    value += 0.5 * linear_dot(f->alpha, f->alpha, n);
    triangle_back(&f->l, f->alpha);
    for (size_t i = 0; i < n; i++)
        value += log(triangle_row(&f->l, i)[i]);
    gp_invert(f);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            /* Half of (K^-1 - alpha alpha'), counted twice off the diagonal. */
            double inv = linear_dot(f->inverse + i * n + i, f->inverse + j * n + i, n - i);
            double w = inv - f->alpha[i] * f->alpha[j];
            if (i == j) {
                grad[d] += 0.5 * w * scale;
                grad[d + 1] += 0.5 * w * noise;
                continue;
            }
            grad[d] += w * scale * f->corr[i * n + j];
            w *= scale * f->slope[i * n + j];
            for (size_t p = 0; p < d; p++) {
                double t = f->k->choice[p] ? f->x[i * d + p] != f->x[j * d + p]
                                           : f->x[i * d + p] - f->x[j * d + p];
                grad[p] += w * f->weight[p] * t * t;
            }
        }
    return value;
}

double gp_kernel_fit(struct gp_kernel *k, const double *x, const double *y, size_t n, int evals,
                     struct arena *mem)
{
    size_t d = k->d;
    struct gp_fit f = {.k = k, .x = x, .y = y, .n = n};
    double *theta = arena_alloc(mem, (d + 2) * 4 * sizeof(double));
    double *lo = theta + d + 2, *hi = lo + d + 2, *best = hi + d + 2, least = INFINITY;

    f.l = (struct triangle){arena_alloc(mem, n * (n + 1) / 2 * sizeof(double)), 0, n};
    f.weight = arena_alloc(mem, d * sizeof(double));
    f.row = arena_alloc(mem, n * sizeof(double));
    f.alpha = arena_alloc(mem, n * sizeof(double));
    f.corr = arena_alloc(mem, n * n * sizeof(double));
    f.slope = arena_alloc(mem, n * n * sizeof(double));
    f.inverse = arena_alloc(mem, n * n * sizeof(double));
    for (size_t j = 0; j < d + 2; j++) {
        lo[j] = j < d ? log(1e-3) : j == d ? log(0.05) : log(1e-7);
        hi[j] = j < d ? log(1e3) : j == d ? log(20.0) : log(1.0);
    }
    for (int start = 0; start < FIT_STARTS; start++) {
        if (start > 0)
            gp_kernel_reset(k);
        memcpy(theta, k->log_weight, d * sizeof(double));
        theta[d] = k->log_scale;
        theta[d + 1] = k->log_noise;
        double v = linear_minimize(gp_fit_value, &f, theta, lo, hi, d + 2, evals / FIT_STARTS, mem);
        if (v < least) {
            least = v;
            memcpy(best, theta, (d + 2) * sizeof(double));
        }
    }
    memcpy(k->log_weight, best, d * sizeof(double));
    k->log_scale = best[d];
    k->log_noise = best[d + 1];
    return least;
}

/* ---- prediction ---- */
void gp_model_init(struct gp_model *m, const struct gp_kernel *k, size_t cap, struct arena *mem)
{
    *m = (struct gp_model){.k = k, .scale = exp(k->log_scale), .noise = exp(k->log_noise)};
    m->weight = arena_alloc(mem, k->d * sizeof(double));
    for (size_t j = 0; j < k->d; j++)
        m->weight[j] = exp(k->log_weight[j]);
    m->alpha = arena_alloc(mem, cap * sizeof(double));
    m->row = arena_alloc(mem, cap * sizeof(double));
    m->slope = arena_alloc(mem, cap * sizeof(double));
}

/* The slopes are by the squared distance, with the scale: the gradient of a row by any coordinate
 * is slope * 2 * weight * difference. */
void gp_model_row(const struct gp_model *m, const double *at, size_t n, double *out, double *slope)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = m->scale * matern(gp_distance(m->k, m->weight, at, m->x + i * m->k->d), &slope[i]);
        slope[i] *= m->scale;
    }
}

void gp_model_at(const struct gp_model *m, const double *at, double *mean, double *sd, double *grad)
{
    size_t n = m->l.n, d = m->k->d;
    double *v = m->row;

    gp_model_row(m, at, n, v, m->slope);
    *mean = linear_dot(v, m->alpha, n);
    triangle_forward(&m->l, v);
    double var = m->scale - linear_dot(v, v, n);
    *sd = sqrt(var > 1e-14 ? var : 1e-14);
    if (!grad)
        return;
    triangle_back(&m->l, v); /* now K^-1 k */
    memset(grad, 0, 2 * d * sizeof(double));
    for (size_t i = 0; i < n; i++) {
        double a = 2 * m->slope[i] * m->alpha[i], b = -2 * m->slope[i] * v[i] / *sd;
        const double *x = m->x + i * d;
        for (size_t j = 0; j < d; j++) {
            double t = m->k->choice[j] ? 0 : m->weight[j] * (at[j] - x[j]);
            grad[j] += a * t;
            grad[d + j] += b * t;
        }
    }
}
