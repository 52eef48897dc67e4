/* grid.c - the engine grid: evenly spaced values of each parameter, every combination exactly once
 *
 * How many values a parameter gets: a choice all of its own.  The others share the rest of the
 * budget in proportion to the length of their range (the decades of a logarithmic one), first those
 * with steps, fewest steps first, then the continuous ones; each has at least one and at most as
 * many as it has values.  One value is the middle; more include both ends.  The last parameter of
 * the space varies fastest.
 */
#include "tune/study_priv.h"
#include <math.h>

/* A grid whose constraints leave out so many points in a row is taken to be over. */
enum { GRID_BARREN_MAX = 10000000 };

struct grid {
    double *counts; /* values of each parameter */
    double *at;     /* the next point, as indices of those values */
    double *codes;  /* the same as codes */
    bool over;
};

/* What a parameter's share of the budget is in proportion to. */
static double grid_length(const struct tune_dim *d)
{
    if (d->choices)
        return d->count;
    if (d->expr)
        return d->width; /* of what is drawn */
    return d->log ? log10(d->high / d->low) : d->high - d->low;
}

/* Choices, then values with steps, fewest first, then continuous ones. */
static bool comes_before(const struct tune_dim *a, const struct tune_dim *b)
{
    int ka = a->choices ? 0 : a->count > 0 ? 1 : 2, kb = b->choices ? 0 : b->count > 0 ? 1 : 2;

    return ka != kb ? ka < kb : ka == 1 && a->count < b->count;
}

/* The parameters in the order in which they get their share; equal ones keep their order. */
static void share_order(const struct tune_space *s, size_t *order)
{
    for (size_t i = 0; i < s->n; i++) {
        size_t at = i;
        for (; at > 0 && comes_before(&s->dims[i], &s->dims[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* How many values each parameter gets; see the top of the file. */
static int grid_share(struct tune_study *s, struct grid *g, struct err *e)
{
    const struct tune_space *space = s->space;
    size_t *order = arena_alloc(&s->scratch, space->n * sizeof(*order)), left = 0;
    double rest = (double)s->budget;

    share_order(space, order);
    for (size_t i = 0; i < space->n; i++) {
        const struct tune_dim *d = &space->dims[i];
        double length = grid_length(d);
        g->counts[i] = d->count;
        if (!(d->count > 0) && s->budget < 0)
            return err_set(e, ERR_INVALID,
                           "the grid of %.60s, which is continuous, needs the number of trials "
                           "(n_trials)",
                           d->name);
        left += !d->choices && d->count != 1;
        rest /= length > 0 ? length : 1;
    }
    for (size_t i = 0; i < space->n && s->budget >= 0; i++) {
        const struct tune_dim *d = &space->dims[order[i]];
        if (d->choices || d->count == 1)
            continue;
        double length = grid_length(d);
        double n = nearbyint(fmax(length * pow(rest, 1.0 / (double)left), 1));
        if (d->count > 0)
            n = fmin(n, d->count);
        g->counts[order[i]] = n;
        rest /= n / length;
        left--;
    }
    return 0;
}

/* The k-th of n values. */
static double grid_code(const struct tune_dim *d, double k, double n)
{
    if (isnan(k) || d->choices)
        return k;
    if (d->count > 0)
        return n > 1 ? nearbyint(k * (d->count - 1) / (n - 1)) : floor((d->count - 1) / 2);
    return n > 1 ? k / (n - 1) : 0.5;
}

/* Conditions ask for codes, so a point is counted by indices and checked by codes. */
static bool grid_settle(const struct tune_space *s, struct grid *g, size_t from)
{
    for (size_t i = 0; i < s->n; i++) {
        if (i >= from)
            g->at[i] = tune_space_active(s, g->codes, i) ? 0 : NAN;
        g->codes[i] = grid_code(&s->dims[i], g->at[i], g->counts[i]);
    }
    return tune_space_allows(s, g->codes);
}

/* Goes on to the next point that meets the constraints. */
static void grid_advance(const struct tune_space *s, struct grid *g)
{
    for (int barren = 0;; barren++) {
        size_t at = s->n;
        while (at > 0 && (isnan(g->at[at - 1]) || g->at[at - 1] + 1 >= g->counts[at - 1]))
            at--;
        if (at == 0 || barren > GRID_BARREN_MAX) {
            g->over = true;
            return;
        }
        g->at[at - 1]++;
        if (grid_settle(s, g, at))
            return;
    }
}

static void grid_close(void *state)
{
    struct grid *g = state;

    if (g)
        FREE_EACH(g->counts, g->at, g->codes, g);
}

static int grid_open(struct tune_study *s, void **out, struct err *e)
{
    size_t n = s->space->n;
    struct grid *g = xcalloc(1, sizeof(*g));

    g->counts = xcalloc(n, sizeof(double));
    g->at = xcalloc(n, sizeof(double));
    g->codes = xcalloc(n, sizeof(double));
    if (grid_share(s, g, e) < 0) {
        grid_close(g);
        return -1;
    }
    if (!grid_settle(s->space, g, 0))
        grid_advance(s->space, g);
    *out = g;
    return 0;
}

static int grid_propose(void *state, struct tune_study *s, int64_t id UNUSED, double *code,
                        struct err *e)
{
    const struct grid *g = state;

    if (g->over)
        return err_set(e, ERR_NOT_FOUND, "every point of the grid has been asked; %zu trials",
                       s->trials.n);
    memcpy(code, g->codes, s->space->n * sizeof(double));
    return 0;
}

/* A trial that was the next point of the grid moves it on; one that a person added does not. */
static void grid_asked(void *state, struct tune_study *s, size_t trial)
{
    struct grid *g = state;
    const double *code = study_code(s, trial);

    if (g->over)
        return;
    double *want = arena_alloc(&s->scratch, s->space->n * sizeof(double));
    memcpy(want, g->codes, s->space->n * sizeof(double));
    tune_space_canonical(s->space, want);
    for (size_t i = 0; i < s->space->n; i++)
        if (code[i] != want[i] && !(isnan(code[i]) && isnan(want[i])))
            return;
    grid_advance(s->space, g);
}

const struct tune_engine tune_grid = {.name = "grid",
                                      .open = grid_open,
                                      .close = grid_close,
                                      .propose = grid_propose,
                                      .asked = grid_asked,
                                      .many = true,
                                      .cheap = true};
