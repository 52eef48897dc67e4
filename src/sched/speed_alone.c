/* speed_alone.c - the speed of a family without company, over device counts
 *
 * Owns: the curve of each family and its exponent.  Counts that were measured are taken as they
 * are; others lie on a power of the count, whose exponent is the family's own slope, drawn towards
 * that of its kin and of all.
 */
#include "sched/speed_priv.h"

#include <math.h>

static const double PULL_MEAN = 6, PULL_EXPONENT = 1.5;

static const struct family_alone *alone_at(const struct family *f, int32_t n)
{
    for (size_t i = 0; i < f->alone.n; i++)
        if (f->alone.p[i].n == n)
            return &f->alone.p[i];
    return NULL;
}

bool speeds_alone(const struct speeds *s, uint32_t family, int32_t n, struct speed_guess *out)
{
    const struct family *f = s->families.p[family];
    const struct family_alone *best = NULL;

    for (size_t i = 0; i < f->alone.n; i++) {
        const struct family_alone *a = &f->alone.p[i];
        if (a->weight > 0 &&
            (!best || fabs(log((double)a->n / n)) < fabs(log((double)best->n / n))))
            best = a;
    }
    if (!best)
        return false;
    struct speed_guess g = speeds_scale(s, family, n, best->n);
    *out = (struct speed_guess){best->log_rate + g.log, g.var + 0.003};
    return true;
}

bool speeds_said(const struct speeds *s, uint32_t family, double *log_rate)
{
    const struct family *f = s->families.p[family];

    *log_rate = f->said;
    return f->said_weight > 0;
}

void speeds_learn_said(struct speeds *s, uint32_t family, double log_rate)
{
    struct family *f = s->families.p[family];

    if (family == SPEED_NO_FAMILY)
        return;
    speed_mix(&f->said, &f->said_weight, log_rate, 1);
    speeds_touch(s, f);
}

static double exponent_of(const struct speeds *s, const struct family *f)
{
    return speed_term(&f->slope, &f->kin->slope, PULL_EXPONENT, s->exponent);
}

struct speed_guess speeds_scale(const struct speeds *s, uint32_t family, int32_t n, int32_t ref)
{
    const struct family *f = s->families.p[family];
    double span = log((double)n / ref);

    if (n == ref)
        return (struct speed_guess){0, 0};
    const struct family_alone *a = alone_at(f, n), *b = alone_at(f, ref);
    if (a && b)
        return (struct speed_guess){a->log_rel - b->log_rel, 0.003};
    return (struct speed_guess){exponent_of(s, f) * span, 0.09 * span * span};
}

/* The exponent of one family, and with it that of all: slopes between neighbouring counts, each
 * weighted by how far apart they are. */
static void fit_exponent(struct speeds *s, struct family *f)
{
    double sum = 0, weight = 0;

    for (size_t i = 1; i < f->alone.n; i++) {
        sum += f->alone.p[i].log_rel - f->alone.p[i - 1].log_rel;
        weight += log((double)f->alone.p[i].n / f->alone.p[i - 1].n);
    }
    s->slope.sum += sum - f->slope.sum;
    s->slope.weight += weight - f->slope.weight;
    speed_term_set(&f->slope, &f->kin->slope, sum, weight);
    s->exponent = (s->slope.sum + PULL_MEAN * SPEED_PRIOR_EXPONENT) / (s->slope.weight + PULL_MEAN);
}

static struct family_alone *alone_make(struct family *f, int32_t n)
{
    size_t i = 0;

    while (i < f->alone.n && f->alone.p[i].n < n)
        i++;
    if (i < f->alone.n && f->alone.p[i].n == n)
        return &f->alone.p[i];
    vec_push(&f->alone, (struct family_alone){0});
    memmove(&f->alone.p[i + 1], &f->alone.p[i], (f->alone.n - 1 - i) * sizeof(f->alone.p[0]));
    f->alone.p[i] = (struct family_alone){.n = n};
    return &f->alone.p[i];
}

void speeds_learn_alone(struct speeds *s, uint32_t family, int32_t n, double log_rate)
{
    struct family *f = s->families.p[family];
    bool first = true;

    if (family == SPEED_NO_FAMILY)
        return;
    struct speed_guess before = {0};
    first = !speeds_alone(s, family, n, &before);
    struct family_alone *a = alone_make(f, n);
    bool fresh = a->weight == 0 && a->rel_weight == 0;
    speed_mix(&a->log_rate, &a->weight, log_rate, 1);
    if (fresh) { /* where it lies on the curve, if nobody told: by the rates of others */
        a->log_rel = first ? 0 : log_rate;
        for (size_t i = 0; !first && i < f->alone.n; i++)
            if (f->alone.p[i].n != n && f->alone.p[i].weight > 0) {
                a->log_rel = log_rate - f->alone.p[i].log_rate + f->alone.p[i].log_rel;
                break;
            }
        a->rel_weight = 1;
        fit_exponent(s, f);
    }
    speeds_touch(s, f);
}

void speeds_put_alone(struct speeds *s, uint32_t family, const struct family_alone *a)
{
    struct family *f = s->families.p[family];

    *alone_make(f, a->n) = *a;
    fit_exponent(s, f);
}

void speeds_learn_scale(struct speeds *s, uint32_t family, int32_t n, int32_t ref, double log_ratio)
{
    struct family *f = s->families.p[family];

    if (family == SPEED_NO_FAMILY)
        return;
    struct family_alone *b = alone_make(f, ref);
    double from = b->log_rel;
    if (b->rel_weight == 0)
        b->rel_weight = 1;
    struct family_alone *a = alone_make(f, n);
    speed_mix(&a->log_rel, &a->rel_weight, from + log_ratio, 1);
    fit_exponent(s, f);
    speeds_touch(s, f);
}
