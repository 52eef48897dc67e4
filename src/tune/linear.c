/* linear.c - see linear.h */
#include "tune/linear.h"
#include "base/util.h"
#include <math.h>
#include <string.h>

/* Two numbers at once: the compiler may not reorder sums of doubles by itself. */
typedef double pair __attribute__((vector_size(16), aligned(8), may_alias));

double linear_dot(const double *a, const double *b, size_t n)
{
    pair s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        s0 += *(const pair *)(a + i) * *(const pair *)(b + i);
        s1 += *(const pair *)(a + i + 2) * *(const pair *)(b + i + 2);
        s2 += *(const pair *)(a + i + 4) * *(const pair *)(b + i + 4);
        s3 += *(const pair *)(a + i + 6) * *(const pair *)(b + i + 6);
    }
    s0 = s0 + s1 + (s2 + s3);
    double sum = s0[0] + s0[1];
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

void linear_add(double *to, double factor, const double *from, size_t n)
{
    pair f = {factor, factor};
    size_t i = 0;

    for (; i + 2 <= n; i += 2)
        *(pair *)(to + i) += f * *(const pair *)(from + i);
    if (i < n)
        to[i] += factor * from[i];
}

void triangle_append(struct triangle *t, const double *k_row, double least)
{
    size_t n = t->n;
    double *row = triangle_row(t, n);

    ASSERT(n < t->cap);
    for (size_t j = 0; j < n; j++) {
        const double *other = triangle_row(t, j);
        row[j] = (k_row[j] - linear_dot(row, other, j)) / other[j];
    }
    double d = k_row[n] - linear_dot(row, row, n);
    row[n] = sqrt(d > least ? d : least);
    t->n++;
}

void triangle_forward(const struct triangle *t, double *x)
{
    for (size_t i = 0; i < t->n; i++) {
        const double *row = triangle_row(t, i);
        x[i] = (x[i] - linear_dot(row, x, i)) / row[i];
    }
}

void triangle_back(const struct triangle *t, double *x)
{
    for (size_t i = t->n; i-- > 0;) {
        const double *row = triangle_row(t, i);
        x[i] /= row[i];
        linear_add(x, -x[i], row, i);
    }
}

/* ---- the minimiser ---- */
struct minimizer {
    linear_fn *f;
    void *ctx;
    const double *lo, *hi;
    size_t n;
    int evals;
    double *h, *dir, *next, *grad_next, *y, *hy; /* h: the inverse curvature, n × n */
};

/* Nothing is known of the curvature. */
static void minimizer_reset(struct minimizer *m)
{
    memset(m->h, 0, m->n * m->n * sizeof(double));
    for (size_t i = 0; i < m->n; i++)
        m->h[i * m->n + i] = 1;
}

/* Does the gradient push this coordinate against its bound? */
static bool minimizer_held(const struct minimizer *m, const double *x, const double *grad, size_t i)
{
    return (x[i] <= m->lo[i] && grad[i] > 0) || (x[i] >= m->hi[i] && grad[i] < 0);
}

/* The direction -H g among the coordinates that are free.  Returns the slope. */
static double minimizer_direction(struct minimizer *m, const double *x, const double *grad)
{
    double slope = 0;

    for (size_t i = 0; i < m->n; i++)
        m->hy[i] = minimizer_held(m, x, grad, i) ? 0 : grad[i];
    for (size_t i = 0; i < m->n; i++) {
        m->dir[i] = m->hy[i] == 0 ? 0 : -linear_dot(m->h + i * m->n, m->hy, m->n);
        if ((x[i] <= m->lo[i] && m->dir[i] < 0) || (x[i] >= m->hi[i] && m->dir[i] > 0))
            m->dir[i] = 0;
        slope += m->dir[i] * grad[i];
    }
    return slope;
}

/* The update of the inverse curvature by the step in `dir` and the change of gradient in `y`. */
static void minimizer_learn(struct minimizer *m)
{
    size_t n = m->n;
    double sy = linear_dot(m->dir, m->y, n), yhy;

    if (!(sy > 1e-12 * sqrt(linear_dot(m->dir, m->dir, n) * linear_dot(m->y, m->y, n))))
        return;
    for (size_t i = 0; i < n; i++)
        m->hy[i] = linear_dot(m->h + i * n, m->y, n);
    yhy = linear_dot(m->y, m->hy, n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            m->h[i * n + j] += (1 + yhy / sy) * m->dir[i] * m->dir[j] / sy -
                               (m->hy[i] * m->dir[j] + m->dir[i] * m->hy[j]) / sy;
}

/* Tries steps along the direction until one is good enough; *value, x and grad become those of the
 * new point.  False: no step was. */
static bool minimizer_step(struct minimizer *m, double *x, double *grad, double *value)
{
    double step = 1;

    for (int tries = 0; tries < 12 && m->evals > 0; tries++, step *= tries < 3 ? 0.4 : 0.1) {
        for (size_t i = 0; i < m->n; i++)
            m->next[i] = fmin(fmax(x[i] + step * m->dir[i], m->lo[i]), m->hi[i]);
        double v = m->f(m->ctx, m->next, m->grad_next), fall = 0;
        m->evals--;
        for (size_t i = 0; i < m->n; i++)
            fall += grad[i] * (m->next[i] - x[i]);
        if (!(v <= *value + 1e-4 * fall))
            continue;
        for (size_t i = 0; i < m->n; i++) {
            m->dir[i] = m->next[i] - x[i];
            m->y[i] = m->grad_next[i] - grad[i];
            x[i] = m->next[i];
            grad[i] = m->grad_next[i];
        }
        *value = v;
        return true;
    }
    return false;
}

/* A direction that does not fall, or along which no step is good, makes it forget the curvature and
 * try once more by the gradient alone. */
double linear_minimize(linear_fn *f, void *ctx, double *x, const double *lo, const double *hi,
                       size_t n, int evals, struct arena *mem)
{
    double *room = arena_alloc(mem, (n * n + 6 * n) * sizeof(double)), *grad = room + n * n;
    struct minimizer m = {
        f,        ctx,          lo,           hi,           n,           evals - 1, room,
        grad + n, grad + 2 * n, grad + 3 * n, grad + 4 * n, grad + 5 * n};
    bool fresh = true;
    double value = f(ctx, x, grad);

    minimizer_reset(&m);
    while (m.evals > 0) {
        double norm = sqrt(linear_dot(grad, grad, n)), before = value;
        if (fresh && norm > 0) /* the first step is a tenth of the unit, whatever the scale of f */
            for (size_t i = 0; i < n; i++)
                m.h[i * n + i] = fmin(1, 0.1 / norm);
        double slope = minimizer_direction(&m, x, grad);
        if (fresh && !(slope < -1e-14))
            break;
        if (!(slope < 0) || !minimizer_step(&m, x, grad, &value)) {
            if (fresh)
                break;
            minimizer_reset(&m);
            fresh = true;
            continue;
        }
        minimizer_learn(&m);
        fresh = false;
        if (before - value < 1e-10 * (1 + fabs(value)))
            break;
    }
    return value;
}
