/* forest.c - growing a regression tree over atoms
 *
 * A node is divided where the sum of squared errors falls most.  Categories are sorted by the mean
 * of their rows first: the best of all divisions into two sets is then one of the cuts of that
 * order.  Where no row tells on which side an atom belongs, chance decides, so that the average of
 * many trees is smooth.
 */
#include "tune/forest.h"
#include "base/util.h"
#include "base/vec.h"
#include <string.h>

/* Of more parameters than this, a node looks at a third of them, or at this many. */
enum { DIMS_PER_NODE = 32 };

struct forest_growth {
    const struct forest_data *data;
    struct rng *rng;
    struct forest_tree *tree;
    size_t min_rows; /* of a leaf */
    uint32_t *order; /* parameters in the order in which a node looks at them */
};

struct forest_split {
    double gain;
    uint32_t dim;
    uint64_t left;
};

/* The rows of a node by atoms of one parameter. */
struct forest_bins {
    double sum[FOREST_ATOMS];
    uint32_t count[FOREST_ATOMS];
    unsigned used[FOREST_ATOMS], n_used; /* atoms with rows, in the order of cuts */
};

void forest_dim_sum(struct forest_dim *d)
{
    d->below[0] = 0;
    for (unsigned i = 0; i < d->n; i++)
        d->below[i + 1] = d->below[i] + d->weight[i];
}

double forest_set_weight(const struct forest_dim *d, uint64_t set)
{
    double sum = 0;

    if (!set)
        return 0;
    if (d->ordered)
        return d->below[64 - __builtin_clzll(set)] - d->below[__builtin_ctzll(set)];
    for (; set; set &= set - 1)
        sum += d->weight[__builtin_ctzll(set)];
    return sum;
}

/* All atoms below k. */
static uint64_t forest_first_atoms(unsigned k)
{
    return k < 64 ? (1ULL << k) - 1 : ~0ULL;
}

static void forest_fill_bins(const struct forest_growth *g, const uint32_t *rows, size_t n,
                             uint32_t dim, struct forest_bins *b)
{
    const struct forest_data *d = g->data;
    unsigned atoms = d->dims[dim].n;

    memset(b->sum, 0, atoms * sizeof(b->sum[0]));
    memset(b->count, 0, atoms * sizeof(b->count[0]));
    for (size_t i = 0; i < n; i++) {
        uint8_t a = d->atoms[rows[i] * d->n_dims + dim];
        b->sum[a] += d->values[rows[i]];
        b->count[a]++;
    }
    b->n_used = 0;
    for (unsigned a = 0; a < atoms; a++)
        if (b->count[a])
            b->used[b->n_used++] = a;
    if (d->dims[dim].ordered)
        return;
    /* At most 64, and few as a rule. */
    for (unsigned i = 1; i < b->n_used; i++)
        for (unsigned k = i; k > 0; k--) {
            unsigned x = b->used[k - 1], y = b->used[k];
            if (b->sum[x] / b->count[x] <= b->sum[y] / b->count[y])
                break;
            b->used[k - 1] = y;
            b->used[k] = x;
        }
}

/* The set left of the cut behind used[cut]. */
static uint64_t forest_left_set(struct forest_growth *g, const struct forest_bins *b, uint32_t dim,
                                unsigned cut)
{
    const struct forest_dim *d = &g->data->dims[dim];
    uint64_t left = 0;

    if (d->ordered) { /* anywhere in the gap between two atoms with rows */
        unsigned gap = b->used[cut + 1] - b->used[cut];
        return forest_first_atoms(b->used[cut] + 1 + (unsigned)rng_below(g->rng, gap));
    }
    for (unsigned a = 0; a < d->n; a++)
        if (!b->count[a] && rng_below(g->rng, 2))
            left |= 1ULL << a;
    for (unsigned i = 0; i <= cut; i++)
        left |= 1ULL << b->used[i];
    return left;
}

/* Improves `best` if a division by this parameter is better. */
static void forest_try_dim(struct forest_growth *g, const uint32_t *rows, size_t n, uint32_t dim,
                           struct forest_split *best)
{
    struct forest_bins b;
    double left = 0, all = 0;
    size_t n_left = 0;
    long cut = -1;

    /* "c exists" says the same as "kind is svm": kind is the cause. */
    double trust = g->data->dims[dim].derived ? 1 - 1e-6 : 1;
    forest_fill_bins(g, rows, n, dim, &b);
    for (unsigned i = 0; i < b.n_used; i++)
        all += b.sum[b.used[i]];
    for (unsigned i = 0; i + 1 < b.n_used; i++) {
        left += b.sum[b.used[i]];
        n_left += b.count[b.used[i]];
        size_t n_right = n - n_left;
        if (n_left < g->min_rows || n_right < g->min_rows)
            continue;
        double gain = left * left / (double)n_left + (all - left) * (all - left) / (double)n_right -
                      all * all / (double)n;
        gain *= trust;
        if (gain > best->gain) {
            best->gain = gain;
            cut = i;
        }
    }
    if (cut >= 0) {
        best->dim = dim;
        best->left = forest_left_set(g, &b, dim, (unsigned)cut);
    }
}

/* The order is shuffled: of parameters that are equally good, none is preferred. */
static struct forest_split forest_best_split(struct forest_growth *g, const uint32_t *rows,
                                             size_t n, double spread)
{
    struct forest_split best = {.gain = spread * 1e-9}; /* less is rounding */
    size_t dims = g->data->n_dims, tries = dims;

    if (dims > DIMS_PER_NODE)
        tries = MAX(dims / 3, (size_t)DIMS_PER_NODE);
    for (size_t i = 0; i < tries; i++) {
        size_t k = i + rng_below(g->rng, dims - i);
        uint32_t dim = g->order[k];
        g->order[k] = g->order[i];
        g->order[i] = dim;
        if (g->data->dims[dim].n > 1)
            forest_try_dim(g, rows, n, dim, &best);
    }
    return best;
}

static bool forest_goes_left(const struct forest_data *d, uint32_t row,
                             const struct forest_split *s)
{
    return s->left >> d->atoms[row * d->n_dims + s->dim] & 1;
}

/* Rows of the left side to the front; their number. */
static size_t forest_part_rows(const struct forest_data *d, uint32_t *rows, size_t n,
                               const struct forest_split *s)
{
    size_t left = 0;

    for (size_t i = 0; i < n; i++)
        if (forest_goes_left(d, rows[i], s)) {
            uint32_t t = rows[left];
            rows[left++] = rows[i];
            rows[i] = t;
        }
    return left;
}

/* The box of a child: one parameter is narrowed. */
static void forest_narrow(const struct forest_data *d, struct forest_leaf *box, uint32_t dim,
                          uint64_t set)
{
    const struct forest_dim *dd = &d->dims[dim];
    uint32_t i = 0;

    while (i < box->n_bounds && box->bounds[i].dim != dim)
        i++;
    if (i == box->n_bounds) {
        box->bounds[box->n_bounds++] =
            (struct forest_bound){dim, forest_first_atoms(dd->n), dd->below[dd->n]};
    }
    struct forest_bound *b = &box->bounds[i];
    b->set &= set;
    b->weight = forest_set_weight(dd, b->set);
}

static void forest_add_leaf(struct forest_growth *g, const struct forest_leaf *box, double value)
{
    struct forest_tree *t = g->tree;

    vec_push(&t->leaves, *box);
    struct forest_leaf *leaf = &vec_last(&t->leaves);

    leaf->value = value;
    leaf->weight = 1;
    for (uint32_t i = 0; i < leaf->n_bounds; i++)
        leaf->weight *= leaf->bounds[i].weight;
}

static void forest_grow_node(struct forest_growth *g, uint32_t *rows, size_t n,
                             const struct forest_leaf *box, int depth)
{
    const struct forest_data *d = g->data;
    struct forest_split s = {0};
    double sum = 0, spread = 0;

    for (size_t i = 0; i < n; i++)
        sum += d->values[rows[i]];
    for (size_t i = 0; i < n; i++) {
        double off = d->values[rows[i]] - sum / (double)n;
        spread += off * off;
    }
    /* Each level adds at most one bound. */
    if (depth < FOREST_DEPTH && n >= 2 * g->min_rows && spread > 1e-18 * (double)n)
        s = forest_best_split(g, rows, n, spread);
    if (!s.left) {
        forest_add_leaf(g, box, sum / (double)n);
        return;
    }
    size_t left = forest_part_rows(d, rows, n, &s);
    for (int side = 0; side < 2; side++) {
        struct forest_leaf child = *box;
        forest_narrow(d, &child, s.dim, side ? ~s.left : s.left);
        forest_grow_node(g, side ? rows + left : rows, side ? n - left : left, &child, depth + 1);
    }
}

void forest_grow(const struct forest_data *data, uint32_t *rows, size_t n_rows, size_t min_rows,
                 struct rng *r, struct forest_tree *out)
{
    AUTO_FREE uint32_t *order = xcalloc(data->n_dims + 1, sizeof(*order));
    struct forest_growth g = {data, r, out, min_rows, order};
    struct forest_leaf all = {0};

    vec_clear(&out->leaves);
    for (size_t i = 0; i < data->n_dims; i++)
        order[i] = (uint32_t)i;
    if (n_rows)
        forest_grow_node(&g, rows, n_rows, &all, 0);
}

void forest_tree_done(struct forest_tree *t)
{
    vec_done(&t->leaves);
}

double forest_predict(const struct forest_tree *t, const uint8_t *atoms)
{
    for (size_t i = 0; i < t->leaves.n; i++) {
        const struct forest_leaf *l = &t->leaves.p[i];
        uint32_t k = 0;
        while (k < l->n_bounds && l->bounds[k].set >> atoms[l->bounds[k].dim] & 1)
            k++;
        if (k == l->n_bounds)
            return l->value;
    }
    return 0; /* only of a tree without rows */
}
