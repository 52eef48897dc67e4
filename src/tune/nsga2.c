/* nsga2.c - the engine nsga2: children of good trials (K. Deb et al., 2002)
 *
 * The best POPULATION trials of the whole study, by level and room (many.c), are the parents.  Two
 * tournaments choose a pair; their child mixes both (simulated binary crossover) and is changed a
 * little (polynomial mutation).  There are no generations to wait for, so any number of trials may
 * be in flight.  With one objective the order of trials is that of their losses.
 */
#include "base/util.h"
#include "tune/study_priv.h"
#include <math.h>

enum { POPULATION = 20, NSGA_START = 20, CHILDREN_TRIED = 30 };
/* How close children stay to their parents, and to themselves when changed. */
static const double MIX_INDEX = 15, CHANGE_INDEX = 20, MIX_SHARE = 0.9;

/* The better one of two drawn; places in `ranked` are what is compared. */
static size_t tournament(const struct tune_study *s, struct rng *r)
{
    size_t n = MIN(s->ranked.n, POPULATION);
    size_t a = (size_t)rng_below(r, n), b = (size_t)rng_below(r, n);

    return s->ranked.p[MIN(a, b)];
}

static double mixed_unit(struct rng *r, double a, double b)
{
    double u = rng_unit(r);
    double beta =
        u < 0.5 ? pow(2 * u, 1 / (MIX_INDEX + 1)) : pow(1 / (2 * (1 - u)), 1 / (MIX_INDEX + 1));

    return 0.5 * ((1 + beta) * a + (1 - beta) * b);
}

static double changed_unit(struct rng *r, double x)
{
    double u = rng_unit(r), power = 1 / (CHANGE_INDEX + 1);

    return x + (u < 0.5 ? pow(2 * u, power) - 1 : 1 - pow(2 * (1 - u), power));
}

/* A parameter that one parent lacks comes from the other; one that both lack is drawn by
 * tune_space_settle if it exists now. */
static void nsga_child(const struct tune_study *s, struct rng *r, double *code)
{
    const double *a = study_code(s, tournament(s, r)), *b = study_code(s, tournament(s, r));
    double change = 1.0 / (double)s->space->n;
    bool mix = rng_unit(r) < MIX_SHARE;

    for (size_t i = 0; i < s->space->n; i++) {
        const struct tune_dim *d = &s->space->dims[i];
        bool from_b = mix && rng_below(r, 2);
        double p = from_b ? b[i] : a[i], q = from_b ? a[i] : b[i];
        code[i] = isnan(p) ? q : p;
        if (isnan(code[i]))
            continue;
        double u = tune_dim_unit(d, code[i]);
        if (mix && !isnan(p) && !isnan(q) && !tune_dim_unordered(d) && rng_below(r, 2))
            u = mixed_unit(r, u, tune_dim_unit(d, q));
        if (rng_unit(r) < change)
            u = tune_dim_unordered(d) ? rng_unit(r) : changed_unit(r, u);
        code[i] = tune_dim_code(d, u);
    }
    tune_space_settle(s->space, code, r);
}

static bool is_copy(const struct tune_study *s, const double *code)
{
    for (size_t t = 0; t < MIN(s->ranked.n, POPULATION); t++) {
        const double *other = study_code(s, s->ranked.p[t]);
        bool same = true;
        for (size_t i = 0; i < s->space->n && same; i++)
            same = code[i] == other[i] || (isnan(code[i]) && isnan(other[i]));
        if (same)
            return true;
    }
    return false;
}

static int nsga_propose(void *state UNUSED, struct tune_study *s, int64_t id, double *code,
                        struct err *e)
{
    struct rng r;

    if (s->done.n < NSGA_START)
        return study_spread(s, id, code, e);
    study_many_order(s);
    study_rng(s, id, DRAW_SEARCH, &r);
    for (int i = 0; i < CHILDREN_TRIED; i++) {
        nsga_child(s, &r, code);
        if (tune_space_allows(s->space, code) && !study_issued(s, code) && !is_copy(s, code))
            return 0;
    }
    return study_spread(s, id, code, e);
}

const struct tune_engine tune_nsga2 = {.name = "nsga2", .propose = nsga_propose, .many = true};
