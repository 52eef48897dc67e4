/* importance.c - shares of variance of parameters, from the leaves of pairs of trees
 *
 * The function of a leaf l is its value v inside its box and 0 outside.  With w the weight of the
 * box and w_j that of its side along parameter j, its part of the effect of a set U of parameters
 * is v w · product over j in U of (1[x_j in side j] / w_j - 1). So the covariance of the effects of
 * two leaves is v w v' w' · product of K_j over j in U, where K_j = weight of the common part of
 * the sides / (w_j w'_j) - 1, which is 0 unless both boxes are bounded along j.  The sum over all
 * sets U is v w v' w' · (product over all j of (1 + K_j) - 1), the whole covariance.  One pass over
 * all pairs of leaves of two trees therefore yields every share exactly.
 */
#include "tune/importance.h"
#include "base/util.h"
#include "tune/forest.h"
#include <math.h>

enum { SAMPLE_MAX = 8192, TREE_ROWS_MAX = 2048, TREE_PAIRS = 32, FIT_ROWS = 512 };
enum {
    LEAVES_MAX = 256,
    LEAF_PAIRS = 4,
    FEWEST_TRIALS = 4,
    SHARE_DRAWS = 2048,
    EVEN_EDGES = 32,
    RANK_EDGES = 30
};
/* A node looks at every row for every parameter: with very many parameters there are fewer rows. */
enum { TREE_CELLS_MAX = 65536, SAMPLE_CELLS_MAX = 262144 };
static const double far_out = 10; /* interquartile ranges */

struct fanova {
    const struct tune_view *view;
    const struct tune_space *space;
    size_t n;        /* rows */
    uint32_t *trial; /* of a row */
    uint32_t *rows;  /* all of them, shuffled for each pair of trees */
    double *value;
    uint8_t *atoms;
    double *absent; /* probability that a parameter does not exist */
    struct forest_dim *dims;
    struct rng rng;
    double variance, *single, *total, *pairs;
    double *guess; /* sum of predictions of a row by trees that did not see it, */
    uint32_t *n_guess;
};

static int fanova_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* ---- rows ---- */
/* Chooses the rows: each trial with a result is as likely as any other. */
static size_t fanova_pick(struct fanova *f, size_t goal)
{
    const struct tune_view *v = f->view;
    size_t have = 0, seen = 0;

    for (size_t i = 0; i < v->n; i++)
        have += tune_view_has(v, i, goal);
    size_t room = MIN((size_t)SAMPLE_MAX, SAMPLE_CELLS_MAX / MAX(f->space->n, (size_t)1));
    size_t want = MIN(have, room);
    f->trial = xcalloc(want + 1, sizeof(*f->trial));
    f->value = xcalloc(want + 1, sizeof(*f->value));
    for (size_t i = 0; i < v->n && f->n < want; i++)
        if (tune_view_has(v, i, goal) && rng_below(&f->rng, have - seen++) < want - f->n) {
            f->trial[f->n] = (uint32_t)i;
            f->value[f->n++] = tune_view_value(v, i, goal);
        }
    return have;
}

/* Moves the median to 0 and the farthest value to 1 or -1; far ones are pulled in.  false: all
 * values are equal.  Halves keep the difference of two huge values finite. */
static bool fanova_scale(struct fanova *f)
{
    AUTO_FREE double *sorted = xcalloc(f->n, sizeof(*sorted));
    double farthest = 0;

    for (size_t i = 0; i < f->n; i++)
        sorted[i] = f->value[i] / 2;
    qsort(sorted, f->n, sizeof(*sorted), fanova_by_size);
    double mid = sorted[f->n / 2], q1 = sorted[f->n / 4], q3 = sorted[f->n * 3 / 4];
    double reach = q3 > q1 ? far_out * (q3 - q1) : INFINITY;
    for (size_t i = 0; i < f->n; i++) {
        double x = fmin(fmax(f->value[i] / 2, q1 - reach), q3 + reach);
        f->value[i] = x / 2 - mid / 2;
        farthest = fmax(farthest, fabs(f->value[i]));
    }
    for (size_t i = 0; i < f->n && farthest > 0; i++)
        f->value[i] /= farthest;
    return farthest > 0;
}

/* How often a parameter is absent in random draws; constraints are left aside. */
static void fanova_find_absent(struct fanova *f)
{
    const struct tune_space *s = f->space;
    AUTO_FREE double *code = xcalloc(s->n + 1, sizeof(*code));

    f->absent = xcalloc(s->n + 1, sizeof(*f->absent));
    for (int k = 0; k < SHARE_DRAWS && s->conditional; k++) {
        for (size_t i = 0; i < s->n; i++)
            code[i] = NAN;
        tune_space_settle(s, code, &f->rng);
        for (size_t i = 0; i < s->n; i++)
            f->absent[i] += isnan(code[i]) ? 1.0 / SHARE_DRAWS : 0;
    }
    /* A branch too rare for the draws, or a trial from elsewhere: what was seen has a weight. */
    for (size_t i = 0; i < s->n; i++)
        for (size_t r = 0; r < f->n; r++)
            if (isnan(tune_view_code(f->view, f->trial[r], i)))
                f->absent[i] = fmax(f->absent[i], 1.0 / SHARE_DRAWS);
            else
                f->absent[i] = fmin(f->absent[i], 1 - 1.0 / SHARE_DRAWS);
}

/* ---- atoms ---- */
static size_t fanova_unique(double *x, size_t n)
{
    size_t kept = 0;

    qsort(x, n, sizeof(*x), fanova_by_size);
    for (size_t i = 0; i < n; i++)
        if (x[i] > 0 && x[i] < 1 && (!kept || x[i] > x[kept - 1] + 1e-12))
            x[kept++] = x[i];
    return kept;
}

/* Where a range is cut into pieces, as positions: between all values when they are few; else half
 * of the cuts at even distances and half at even ranks of the trials, which are dense where an
 * engine has searched. */
static size_t fanova_edges(const struct fanova *f, size_t dim, double *edges)
{
    const struct tune_dim *d = &f->space->dims[dim];
    AUTO_FREE double *at = xcalloc(f->n + 1, sizeof(*at));
    size_t n = 0, present = 0;
    double unused;

    if (d->count > 0 && d->count < FOREST_ATOMS) {
        for (double k = 1; k < d->count; k++)
            tune_dim_cell(d, k, &edges[n++], &unused);
        return n;
    }
    for (size_t r = 0; r < f->n; r++) {
        double code = tune_view_code(f->view, f->trial[r], dim);
        if (!isnan(code))
            at[present++] = tune_dim_unit(d, code);
    }
    qsort(at, present, sizeof(*at), fanova_by_size);
    for (int k = 1; k < EVEN_EDGES; k++)
        edges[n++] = (double)k / EVEN_EDGES;
    for (size_t k = 1; k < RANK_EDGES && present > 1; k++) {
        size_t i = MAX(k * present / RANK_EDGES, (size_t)1);
        edges[n++] = (at[i - 1] + at[i]) / 2;
    }
    for (size_t i = 0; i < n && d->count > 0; i++) /* no value is on both sides of a cut */
        tune_dim_cell(d, tune_dim_code(d, edges[i]), &edges[i], &unused);
    return fanova_unique(edges, n);
}

/* Pieces of a range; "absent" is the first atom, before all values. */
static void fanova_cut_range(struct fanova *f, size_t dim)
{
    struct forest_dim *d = &f->dims[dim];
    double edges[FOREST_ATOMS + 1], none = f->absent[dim];
    size_t n = fanova_edges(f, dim, edges);
    unsigned first = none > 0;

    d->ordered = true;
    d->weight[0] = none;
    for (size_t k = 0; k <= n; k++) {
        double lo = k ? edges[k - 1] : 0, hi = k < n ? edges[k] : 1;
        d->weight[first + k] = (1 - none) * (hi - lo);
    }
    d->n = first + (unsigned)n + 1;
    for (size_t r = 0; r < f->n; r++) {
        double code = tune_view_code(f->view, f->trial[r], dim);
        size_t k = 0;
        if (!isnan(code)) {
            double u = tune_dim_unit(&f->space->dims[dim], code);
            for (size_t span = n; span > 0;) /* the number of edges that are not above u */
                if (edges[k + span / 2] <= u) {
                    k += span / 2 + 1;
                    span -= span / 2 + 1;
                } else {
                    span /= 2;
                }
            k += first;
        }
        f->atoms[r * f->space->n + dim] = (uint8_t)k;
    }
}

/* Categories, most frequent first; all that find no room share the last atom but one, and the last
 * is "absent". */
static void fanova_list_choices(struct fanova *f, size_t dim)
{
    struct forest_dim *d = &f->dims[dim];
    size_t count = (size_t)f->space->dims[dim].count;
    AUTO_FREE double *seen = xcalloc(count + 1, sizeof(*seen));
    AUTO_FREE double *sorted = xcalloc(count + 1, sizeof(*sorted));
    AUTO_FREE uint8_t *atom = xcalloc(count + 1, 1);
    unsigned room = FOREST_ATOMS - 2, n = 0;
    double none = f->absent[dim], each = (1 - none) / (double)count;

    for (size_t r = 0; r < f->n; r++) {
        double code = tune_view_code(f->view, f->trial[r], dim);
        if (code >= 0 && code < (double)count)
            seen[(size_t)code]++;
    }
    memcpy(sorted, seen, count * sizeof(*seen));
    qsort(sorted, count, sizeof(*sorted), fanova_by_size);
    double enough = count > room ? sorted[count - room] : -1;
    for (int ties = 0; ties < 2;
         ties++) /* those above the limit first, then as many at it as fit */
        for (size_t k = 0; k < count; k++)
            if ((ties ? seen[k] == enough : seen[k] > enough) && n < room) {
                d->weight[n] = each;
                atom[k] = (uint8_t)++n;
            }
    unsigned others = n;
    if (count > n) {
        d->weight[others] = each * (double)(count - n);
        n++;
    }
    d->weight[n] = none;
    d->n = n + (none > 0);
    for (size_t r = 0; r < f->n; r++) {
        double code = tune_view_code(f->view, f->trial[r], dim);
        unsigned a = isnan(code) ? n : others;
        if (code >= 0 && code < (double)count && atom[(size_t)code])
            a = atom[(size_t)code] - 1U;
        f->atoms[r * f->space->n + dim] = (uint8_t)a;
    }
}

static void fanova_make_atoms(struct fanova *f)
{
    f->dims = xcalloc(f->space->n + 1, sizeof(*f->dims));
    f->atoms = xcalloc(f->n * f->space->n + 1, 1);
    for (size_t i = 0; i < f->space->n; i++) {
        if (tune_dim_unordered(&f->space->dims[i]))
            fanova_list_choices(f, i);
        else
            fanova_cut_range(f, i);
        f->dims[i].derived = f->space->dims[i].n_whens > 0;
        forest_dim_sum(&f->dims[i]);
    }
}

/* ---- shares ---- */
static size_t pair_index(size_t n, size_t i, size_t j)
{
    size_t a = MIN(i, j), b = MAX(i, j);

    return a * n - a * (a + 1) / 2 + b - a - 1;
}

/* The parameters that bound both leaves, and their K.  The number of them. */
static uint32_t fanova_common(const struct fanova *f, const struct forest_leaf *x,
                              const struct forest_bound *const *other, uint32_t *dims, double *k)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < x->n_bounds; i++) {
        const struct forest_bound *a = &x->bounds[i], *b = other[a->dim];
        if (!b)
            continue;
        dims[n] = a->dim;
        k[n++] = forest_set_weight(&f->dims[a->dim], a->set & b->set) / (a->weight * b->weight) - 1;
    }
    return n;
}

/* Adds the covariances of two leaves. */
static void fanova_add_leaves(struct fanova *f, double vw, uint32_t n, const uint32_t *dims,
                              const double *k)
{
    double before[FOREST_DEPTH + 1] = {1}, after = 1;

    for (uint32_t i = 0; i < n; i++) {
        before[i + 1] = before[i] * (1 + k[i]);
        f->single[dims[i]] += vw * k[i];
        for (uint32_t j = 0; j < i; j++)
            f->pairs[pair_index(f->space->n, dims[i], dims[j])] += vw * k[i] * k[j];
    }
    f->variance += vw * (before[n] - 1);
    for (uint32_t i = n; i-- > 0;) { /* all sets with i in them: K_i times the rest */
        f->total[dims[i]] += vw * k[i] * before[i] * after;
        after *= 1 + k[i];
    }
}

static void fanova_add_trees(struct fanova *f, const struct forest_tree *x,
                             const struct forest_tree *y)
{
    AUTO_FREE const struct forest_bound **bound = xcalloc(f->space->n + 1, sizeof(const void *));
    uint32_t dims[FOREST_DEPTH];
    double k[FOREST_DEPTH];

    for (size_t i = 0; i < y->leaves.n; i++) {
        const struct forest_leaf *b = &y->leaves.p[i];
        for (uint32_t j = 0; j < b->n_bounds; j++)
            bound[b->bounds[j].dim] = &b->bounds[j];
        /* A set of atoms that the space never has weighs nothing and has no share. */
        for (size_t l = 0; l < x->leaves.n && b->weight > 0; l++) {
            const struct forest_leaf *a = &x->leaves.p[l];
            if (a->weight > 0) {
                uint32_t n = fanova_common(f, a, bound, dims, k);
                fanova_add_leaves(f, a->value * a->weight * b->value * b->weight, n, dims, k);
            }
        }
        for (uint32_t j = 0; j < b->n_bounds; j++)
            bound[b->bounds[j].dim] = NULL;
    }
}

/* What the tree says of rows that it did not see. */
static void fanova_guess(struct fanova *f, const struct forest_tree *t, const uint32_t *rows,
                         size_t n)
{
    for (size_t i = 0; i < MIN(n, (size_t)FIT_ROWS); i++) {
        f->guess[rows[i]] += forest_predict(t, f->atoms + rows[i] * f->space->n);
        f->n_guess[rows[i]]++;
    }
}

/* Grows two trees over disjoint halves of the rows. */
static void fanova_grow_pair(struct fanova *f, size_t leaf, struct forest_tree *x,
                             struct forest_tree *y)
{
    struct forest_data data = {f->dims, f->space->n, f->atoms, f->value};
    size_t limit = MIN((size_t)TREE_ROWS_MAX, MAX(TREE_CELLS_MAX / f->space->n, (size_t)128));
    size_t half = f->n / 2, n_x = MIN(half, limit), n_y = MIN(f->n - half, limit);
    uint32_t *rows = f->rows;

    for (size_t i = f->n - 1; i > 0; i--) {
        size_t k = rng_below(&f->rng, i + 1);
        uint32_t t = rows[i];
        rows[i] = rows[k];
        rows[k] = t;
    }
    forest_grow(&data, rows, n_x, MAX(leaf, 1 + n_x / LEAVES_MAX), &f->rng, x);
    forest_grow(&data, rows + half, n_y, MAX(leaf, 1 + n_y / LEAVES_MAX), &f->rng, y);
    fanova_guess(f, x, rows + half, n_y);
    fanova_guess(f, y, rows, n_x);
}

static double fanova_fit(const struct fanova *f)
{
    double mean = 0, spread = 0, off = 0, n = 0;

    for (size_t r = 0; r < f->n; r++)
        if (f->n_guess[r]) {
            mean += f->value[r];
            n++;
        }
    mean /= n;
    for (size_t r = 0; r < f->n; r++)
        if (f->n_guess[r]) {
            double wrong = f->value[r] - f->guess[r] / f->n_guess[r];
            off += wrong * wrong;
            spread += (f->value[r] - mean) * (f->value[r] - mean);
        }
    return spread > 0 ? fmax(0, 1 - off / spread) : 0;
}

/* Large leaves when there is much noise, small ones when there is none: the size with which a few
 * trees predict best what they did not see. */
static size_t fanova_choose_leaf(struct fanova *f, struct forest_tree *x, struct forest_tree *y)
{
    static const size_t sizes[] = {1, 3, 8, 20};
    size_t best = sizes[0];
    double best_fit = -1;

    for (size_t i = 0; i < ARRAY_SIZE(sizes) && sizes[i] * 4 <= f->n; i++) {
        memset(f->guess, 0, f->n * sizeof(*f->guess));
        memset(f->n_guess, 0, f->n * sizeof(*f->n_guess));
        for (int k = 0; k < LEAF_PAIRS; k++)
            fanova_grow_pair(f, sizes[i], x, y);
        double fit = fanova_fit(f);
        if (fit > best_fit) {
            best_fit = fit;
            best = sizes[i];
        }
    }
    memset(f->guess, 0, f->n * sizeof(*f->guess));
    memset(f->n_guess, 0, f->n * sizeof(*f->n_guess));
    return best;
}

/* Sums become shares.  A small negative one is chance: the effect is not there. */
static void fanova_share(double *x, size_t n, double whole)
{
    for (size_t i = 0; i < n; i++)
        x[i] = whole > 0 ? fmin(1, fmax(0, x[i] / whole)) : 0;
}

static void fanova_run(struct fanova *f, struct tune_importance *out)
{
    struct forest_tree x = {0}, y = {0};
    size_t n = f->space->n;

    fanova_find_absent(f);
    fanova_make_atoms(f);
    f->rows = xcalloc(f->n, sizeof(*f->rows));
    f->guess = xcalloc(f->n, sizeof(*f->guess));
    f->n_guess = xcalloc(f->n, sizeof(*f->n_guess));
    for (size_t i = 0; i < f->n; i++)
        f->rows[i] = (uint32_t)i;
    size_t leaf = fanova_choose_leaf(f, &x, &y);
    for (int k = 0; k < TREE_PAIRS; k++) {
        fanova_grow_pair(f, leaf, &x, &y);
        fanova_add_trees(f, &x, &y);
    }
    forest_tree_done(&x);
    forest_tree_done(&y);
    /* Below rounding there is nothing to divide. */
    double whole = f->variance > 1e-12 ? f->variance : 0;
    fanova_share(out->single, n, whole);
    fanova_share(out->total, n, whole);
    fanova_share(out->pairs, n * (n - 1) / 2, whole);
    out->fit = fanova_fit(f);
}

void tune_importance_find(const struct tune_view *v, size_t goal, uint64_t seed,
                          struct tune_importance *out)
{
    struct fanova f = {.view = v, .space = v->space};
    size_t n = v->space->n;

    *out = (struct tune_importance){.n = n};
    out->single = f.single = xcalloc(n + 1, sizeof(double));
    out->total = f.total = xcalloc(n + 1, sizeof(double));
    out->pairs = f.pairs = xcalloc(n * (n + 1) / 2 + 1, sizeof(double));
    rng_seed(&f.rng, seed);
    out->n_trials = fanova_pick(&f, goal);
    out->n_used = f.n;
    if (n && f.n >= FEWEST_TRIALS && fanova_scale(&f))
        fanova_run(&f, out);
    FREE_EACH(f.trial, f.rows, f.value, f.atoms, f.absent, f.dims, f.guess, f.n_guess);
}

void tune_importance_done(struct tune_importance *m)
{
    FREE_EACH(m->single, m->total, m->pairs);
    *m = (struct tune_importance){0};
}

double tune_importance_pair(const struct tune_importance *m, size_t i, size_t j)
{
    return m->pairs[pair_index(m->n, i, j)];
}

size_t *tune_importance_order(const struct tune_importance *m)
{
    size_t *order = xcalloc(m->n + 1, sizeof(*order));

    for (size_t i = 0; i < m->n; i++) { /* by insertion: stable, and at most 1000 */
        size_t k = i;
        for (; k > 0 && m->total[order[k - 1]] < m->total[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    return order;
}
