/* cmaes.c - the engine cmaes: a normal distribution that moves and turns towards good trials
 *
 * Covariance matrix adaptation (N. Hansen, 2016) over the positions of ordered parameters, with
 * negative weights for the worst.  It begins in the middle of the space.
 * Generations are not waited for: whenever as many results as a generation has are there, the
 * distribution moves, so results may come late and in any order.  When it has contracted or turned
 * flat it starts again elsewhere: in turn with twice as many trials per generation and with few and
 * a smaller spread (IPOP and BIPOP).
 *
 * Values with steps keep at least a chance to change (the margin of R. Hamano et al., 2022).
 * Choices have no direction: they are drawn by how often the best trials have them.  An absent
 * parameter stays where the distribution has its middle.
 *
 * Everything here changes with results only; a proposal is a draw.
 */
#include "tune/linear.h"
#include "tune/study_priv.h"
#include <math.h>

enum { FULL_MATRIX_MAX = 60, LAMBDA_MAX = 512, SWEEPS = 30, CHOICE_TRIALS = 10 };
/* The spread of the first start, as a share of the range: 0.2 lost trials on a wide look around and
 * was behind other implementations, which begin with a sixth, on rotated problems. */
static const double sigma_start = 0.14, contracted = 2e-5;

struct cmaes {
    size_t d, *dims; /* ordered parameters that vary */
    bool full;       /* the whole matrix; else its diagonal only */
    size_t lambda, small_lambda, restarts;
    size_t since; /* the first trial of this start */
    double sigma;
    double *mean, *c, *b, *spread; /* C = B diag(spread²) B' */
    double *ps, *pc;               /* paths of the steps */
    double *pool, *pool_loss;      /* lambda × d positions of results, and these */
    size_t pooled;
    size_t generation, flat;
    double *work; /* 4 d */
};

/* Weights and rates of a generation, as Hansen's tutorial gives them. */
struct cmaes_rates {
    double weights[LAMBDA_MAX], mueff, cs, ds, cc, c1, cmu, chi;
};

static void cmaes_rates(const struct cmaes *m, struct cmaes_rates *r)
{
    double n = (double)m->d, sum = 0, sq = 0, neg = 0, neg_sq = 0;
    size_t mu = m->lambda / 2;

    for (size_t i = 0; i < m->lambda; i++) {
        double w = log(((double)m->lambda + 1) / 2) - log((double)i + 1);
        r->weights[i] = w;
        if (i < mu) {
            sum += w;
            sq += w * w;
        } else {
            neg += w;
            neg_sq += w * w;
        }
    }
    r->mueff = sum * sum / sq;
    double mueff_neg = neg * neg / neg_sq;
    r->cs = (r->mueff + 2) / (n + r->mueff + 5);
    r->ds = 1 + 2 * fmax(0, sqrt((r->mueff - 1) / (n + 1)) - 1) + r->cs;
    r->cc = (4 + r->mueff / n) / (n + 4 + 2 * r->mueff / n);
    r->c1 = 2 / ((n + 1.3) * (n + 1.3) + r->mueff);
    r->cmu = fmin(1 - r->c1, 2 * (r->mueff - 2 + 1 / r->mueff) / ((n + 2) * (n + 2) + r->mueff));
    if (!m->full) {
        r->c1 = fmin(0.5, r->c1 * (n + 2) / 3);
        r->cmu = fmin(1 - r->c1, r->cmu * (n + 2) / 3);
    }
    double scale = fmin(fmin(1 + r->c1 / r->cmu, 1 + 2 * mueff_neg / (r->mueff + 2)),
                        (1 - r->c1 - r->cmu) / (n * r->cmu));
    for (size_t i = 0; i < m->lambda; i++)
        r->weights[i] *= i < mu ? 1 / sum : scale / -neg;
    r->chi = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
}

/* ---- start and restart ---- */
static void cmaes_begin(struct cmaes *m, const double *mean, double sigma)
{
    size_t d = m->d;

    memcpy(m->mean, mean, d * sizeof(double));
    m->sigma = sigma;
    memset(m->c, 0, (m->full ? d * d : d) * sizeof(double));
    if (m->full)
        memset(m->b, 0, d * d * sizeof(double));
    for (size_t j = 0; j < d; j++) {
        m->c[m->full ? j * d + j : j] = 1;
        if (m->full)
            m->b[j * d + j] = 1;
        m->spread[j] = 1;
        m->ps[j] = m->pc[j] = 0;
    }
    m->pooled = m->generation = m->flat = 0;
}

/* Twice the generation, or the small one with less spread; somewhere else by chance. */
static void cmaes_restart(struct cmaes *m, struct tune_study *s)
{
    struct rng r;
    double *mean = m->work;

    m->restarts++;
    study_rng(s, (int64_t)m->restarts, DRAW_CHOICE, &r);
    bool small = m->restarts % 2 == 0;
    m->lambda = small ? m->small_lambda : m->small_lambda << MIN((m->restarts + 1) / 2, 5);
    m->lambda = MIN(m->lambda, LAMBDA_MAX);
    for (size_t j = 0; j < m->d; j++)
        mean[j] = rng_unit(&r);
    cmaes_begin(m, mean, small ? sigma_start * pow(10, -rng_unit(&r)) : 2 * sigma_start);
    m->since = s->trials.n;
}

/* For engines that hand over a search: C is learned anew, because it is that of another scale. */
void cmaes_begin_at_best(void *state, struct tune_study *s)
{
    struct cmaes *m = state;
    const double *best = study_code(s, s->ranked.p[0]);

    for (size_t j = 0; j < m->d; j++) {
        double c = best[m->dims[j]];
        m->work[j] = isnan(c) ? 0.5 : tune_dim_unit(&s->space->dims[m->dims[j]], c);
    }
    cmaes_begin(m, m->work, sigma_start / 3);
    m->since = s->trials.n;
}

static void cmaes_close(void *state)
{
    struct cmaes *m = state;

    if (m)
        FREE_EACH(m->dims, m->mean, m->c, m->b, m->spread, m->ps, m->pc, m->pool, m->pool_loss,
                  m->work, m);
}

static int cmaes_open(struct tune_study *s, void **out, struct err *e UNUSED)
{
    struct cmaes *m = xcalloc(1, sizeof(*m));

    m->dims = xcalloc(s->space->n, sizeof(*m->dims));
    for (size_t i = 0; i < s->space->n; i++)
        if (s->space->dims[i].count != 1 && !tune_dim_unordered(&s->space->dims[i]))
            m->dims[m->d++] = i;
    size_t d = m->d;
    m->full = d <= FULL_MATRIX_MAX;
    m->lambda = m->small_lambda = 4 + (size_t)(3 * log(fmax((double)d, 1)));
    m->mean = xcalloc(d + 1, sizeof(double));
    m->c = xcalloc((m->full ? d * d : d) + 1, sizeof(double));
    m->b = xcalloc((m->full ? d * d : 0) + 1, sizeof(double));
    m->spread = xcalloc(d + 1, sizeof(double));
    m->ps = xcalloc(d + 1, sizeof(double));
    m->pc = xcalloc(d + 1, sizeof(double));
    m->pool = xcalloc(LAMBDA_MAX * d + 1, sizeof(double));
    m->pool_loss = xcalloc(LAMBDA_MAX, sizeof(double));
    m->work = xcalloc(4 * d + 1, sizeof(double));
    for (size_t j = 0; j < d; j++)
        m->work[j] = 0.5;
    cmaes_begin(m, m->work, sigma_start);
    *out = m;
    return 0;
}

/* ---- the matrix ---- */
/* Turns C into B and spread by rotations of pairs (Jacobi). */
static void cmaes_decompose(struct cmaes *m)
{
    size_t n = m->d;
    double *a = m->c, *b = m->b, off = 1, top = 0;

    if (!m->full) {
        for (size_t j = 0; j < n; j++)
            m->spread[j] = sqrt(a[j]);
        return;
    }
    AUTO_FREE double *w = xcalloc(n * n, sizeof(double));
    memcpy(w, a, n * n * sizeof(double));
    memset(b, 0, n * n * sizeof(double));
    for (size_t j = 0; j < n; j++) {
        b[j * n + j] = 1;
        top = fmax(top, w[j * n + j]);
    }
    for (int sweep = 0; sweep < SWEEPS && off > 1e-24 * top * top; sweep++) {
        off = 0;
        for (size_t p = 0; p + 1 < n; p++)
            for (size_t q = p + 1; q < n; q++) {
                double x = w[p * n + q];
                off += x * x;
                if (x == 0)
                    continue;
                double theta = (w[q * n + q] - w[p * n + p]) / (2 * x);
                double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
                double c = 1 / sqrt(t * t + 1), s = t * c;
                for (size_t k = 0; k < n; k++) {
                    double u = w[p * n + k], v = w[q * n + k];
                    w[p * n + k] = c * u - s * v;
                    w[q * n + k] = s * u + c * v;
                }
                for (size_t k = 0; k < n; k++) {
                    double u = w[k * n + p], v = w[k * n + q], y = b[k * n + p], z = b[k * n + q];
                    w[k * n + p] = c * u - s * v;
                    w[k * n + q] = s * u + c * v;
                    b[k * n + p] = c * y - s * z;
                    b[k * n + q] = s * y + c * z;
                }
            }
    }
    for (size_t j = 0; j < n; j++)
        m->spread[j] = sqrt(fmax(w[j * n + j], 1e-20));
}

/* out = B diag(spread)^power B' y with power -1, or B diag(spread) z with power 1. */
static void cmaes_turn(const struct cmaes *m, const double *y, int power, double *out)
{
    size_t n = m->d;

    for (size_t j = 0; j < n && !m->full; j++)
        out[j] = power > 0 ? y[j] * m->spread[j] : y[j] / m->spread[j];
    if (!m->full)
        return;
    memset(out, 0, n * sizeof(double));
    for (size_t k = 0; k < n; k++) {
        double f = power > 0 ? y[k] * m->spread[k] : 0;
        for (size_t j = 0; power < 0 && j < n; j++)
            f += m->b[j * n + k] * y[j] / m->spread[k];
        for (size_t j = 0; j < n; j++)
            out[j] += m->b[j * n + k] * f;
    }
}

/* ---- a generation ---- */
static void pool_sort(struct cmaes *m)
{
    double *x = m->work;

    for (size_t i = 1; i < m->pooled; i++) {
        double loss = m->pool_loss[i];
        size_t at = i;
        memcpy(x, m->pool + i * m->d, m->d * sizeof(double));
        for (; at > 0 && m->pool_loss[at - 1] > loss; at--) {
            m->pool_loss[at] = m->pool_loss[at - 1];
            memcpy(m->pool + at * m->d, m->pool + (at - 1) * m->d, m->d * sizeof(double));
        }
        m->pool_loss[at] = loss;
        memcpy(m->pool + at * m->d, x, m->d * sizeof(double));
    }
}

/* C from the path of the mean and from the steps of the pool, which are y by now. */
static void cmaes_learn(struct cmaes *m, const struct cmaes_rates *r, double keep)
{
    size_t n = m->d, rows = m->full ? n : 1;
    double *turned = m->work + 2 * n;

    for (size_t j = 0; j < rows * n; j++)
        m->c[j] *= keep;
    for (size_t j = 0; j < n; j++)
        for (size_t k = 0; m->full ? k <= j : k == 0; k++)
            m->c[m->full ? j * n + k : j] += r->c1 * m->pc[j] * m->pc[m->full ? k : j];
    for (size_t i = 0; i < m->lambda; i++) {
        const double *y = m->pool + i * n;
        double w = r->weights[i] * r->cmu;
        if (w < 0) { /* the worst count by direction, not by length */
            cmaes_turn(m, y, -1, turned);
            w *= (double)n / (linear_dot(turned, turned, n) + 1e-12);
        }
        for (size_t j = 0; j < n; j++)
            for (size_t k = 0; m->full ? k <= j : k == 0; k++)
                m->c[m->full ? j * n + k : j] += w * y[j] * y[m->full ? k : j];
    }
    for (size_t j = 0; j < n; j++) {
        for (size_t k = 0; m->full && k < j; k++)
            m->c[k * n + j] = m->c[j * n + k];
        double *diag = &m->c[m->full ? j * n + j : j];
        *diag = fmax(*diag, 1e-18);
    }
}

/* One generation: moves the mean, lengthens or shortens the paths, learns C, adapts the spread.  A
 * path longer than chance makes it means steps in the same direction: the spread grows. */
static void cmaes_update(struct cmaes *m)
{
    struct cmaes_rates r;
    size_t n = m->d;
    double *step = m->work, *turned = m->work + n, negative = 0;

    cmaes_rates(m, &r);
    pool_sort(m);
    for (size_t i = 0; i < m->lambda * n; i++)
        m->pool[i] = (m->pool[i] - m->mean[i % n]) / m->sigma;
    memset(step, 0, n * sizeof(double));
    for (size_t i = 0; i < m->lambda / 2; i++)
        linear_add(step, r.weights[i], m->pool + i * n, n);
    for (size_t i = 0; i < m->lambda; i++)
        negative += r.weights[i];
    cmaes_turn(m, step, -1, turned);
    double length = 0, grow = sqrt(r.cs * (2 - r.cs) * r.mueff);
    for (size_t j = 0; j < n; j++) {
        m->mean[j] = fmin(fmax(m->mean[j] + m->sigma * step[j], 0), 1);
        m->ps[j] = (1 - r.cs) * m->ps[j] + grow * turned[j];
        length += m->ps[j] * m->ps[j];
    }
    length = sqrt(length);
    m->generation++;
    double fade = sqrt(1 - pow(1 - r.cs, 2 * (double)m->generation));
    bool hs = length / fade < (1.4 + 2 / ((double)n + 1)) * r.chi;
    double reach = hs ? sqrt(r.cc * (2 - r.cc) * r.mueff) : 0;
    for (size_t j = 0; j < n; j++)
        m->pc[j] = (1 - r.cc) * m->pc[j] + reach * step[j];
    double stall = hs ? 0 : r.c1 * r.cc * (2 - r.cc);
    cmaes_learn(m, &r, 1 + stall - r.c1 - r.cmu * negative);
    m->sigma *= exp(fmin(1, r.cs / r.ds * (length / r.chi - 1)));
    m->sigma = fmin(m->sigma, 0.5);
    cmaes_decompose(m);
    double range = m->pool_loss[m->lambda - 1] - m->pool_loss[0];
    m->flat = range <= 1e-12 * (1 + fabs(m->pool_loss[0])) ? m->flat + 1 : 0;
    m->pooled = 0;
}

/* Contracted to a point, flat for three generations, or too narrow to be computed with. */
static bool cmaes_over(const struct cmaes *m)
{
    double most = 0, least = INFINITY;

    for (size_t j = 0; j < m->d; j++) {
        most = fmax(most, m->spread[j]);
        least = fmin(least, m->spread[j]);
    }
    return m->flat >= 3 || m->sigma * most < contracted || most > 1e7 * least;
}

/* ---- trials ---- */
static void cmaes_told(void *state, struct tune_study *s, size_t trial)
{
    struct cmaes *m = state;
    const double *code = study_code(s, trial);
    double loss = s->loss.p[trial];

    if (!m->d)
        return;
    if (trial < m->since)
        return;
    for (size_t j = 0; j < m->d; j++) {
        double c = code[m->dims[j]];
        m->pool[m->pooled * m->d + j] =
            isnan(c) ? m->mean[j] : tune_dim_unit(&s->space->dims[m->dims[j]], c);
    }
    m->pool_loss[m->pooled++] = isnan(loss) ? HUGE_VAL : loss;
    if (m->pooled < m->lambda)
        return;
    cmaes_update(m);
    if (cmaes_over(m))
        cmaes_restart(m, s);
}

/* A choice as often as the best trials have it, and any of them now and then. */
static double cmaes_choice(const struct tune_study *s, size_t dim, struct rng *r)
{
    size_t n = MIN(s->ranked.n, CHOICE_TRIALS), count = (size_t)s->space->dims[dim].count;

    if (n && rng_unit(r) > 0.15) {
        double c = study_code(s, s->ranked.p[rng_below(r, n)])[dim];
        if (!isnan(c))
            return c;
    }
    return (double)rng_below(r, count);
}

/* A draw; x has room for 2 d numbers. */
static void cmaes_draw(const struct cmaes *m, const struct tune_study *s, struct rng *r, double *x)
{
    double *z = x + m->d;
    double margin = 1 / ((double)m->d * (double)m->lambda);

    for (size_t j = 0; j < m->d; j++)
        z[j] = rng_normal(r);
    cmaes_turn(m, z, 1, x);
    for (size_t j = 0; j < m->d; j++) {
        const struct tune_dim *d = &s->space->dims[m->dims[j]];
        x[j] = m->mean[j] + m->sigma * x[j];
        double sd = m->sigma * sqrt(m->c[m->full ? j * m->d + j : j]);
        if (d->count > 0 && sd * d->count < 0.4 && rng_unit(r) < 2 * margin)
            x[j] += (rng_below(r, 2) ? 1 : -1) / d->count;
    }
}

/* Draws outside of the space are drawn again, which keeps the distribution's shape; at last they
 * are moved inside. */
static int cmaes_propose(void *state, struct tune_study *s, int64_t id, double *code, struct err *e)
{
    const struct cmaes *m = state;
    struct rng r;
    double *x = arena_alloc(&s->scratch, (2 * m->d + 1) * sizeof(double));

    if (!m->d)
        return study_spread(s, id, code, e);
    study_rng(s, id, DRAW_SEARCH, &r);
    for (int tries = 0; tries < 100; tries++) {
        bool inside = true;
        cmaes_draw(m, s, &r, x);
        for (size_t j = 0; j < m->d; j++)
            inside &= x[j] >= 0 && x[j] <= 1;
        if (!inside && tries < 30) /* after many tries the nearest point inside will do */
            continue;
        for (size_t i = 0; i < s->space->n; i++)
            code[i] = tune_dim_unordered(&s->space->dims[i]) ? cmaes_choice(s, i, &r) : 0;
        for (size_t j = 0; j < m->d; j++)
            code[m->dims[j]] = tune_dim_code(&s->space->dims[m->dims[j]], x[j]);
        tune_space_settle(s->space, code, &r);
        if (tune_space_allows(s->space, code) && !study_issued(s, code))
            return 0;
    }
    return study_draw_new(s, &r, code, e);
}

const struct tune_engine tune_cmaes = {.name = "cmaes",
                                       .open = cmaes_open,
                                       .close = cmaes_close,
                                       .propose = cmaes_propose,
                                       .told = cmaes_told};
