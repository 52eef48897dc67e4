/* forest.h - regression trees whose leaves are boxes with an exact measure
 *
 * The values of every parameter are divided into at most 64 atoms that all trees share: pieces of a
 * range, or categories.  A leaf restricts some parameters to sets of atoms; its weight is the part
 * of the space that it covers when the parameters are drawn independently.
 */
#pragma once
#include "base/rand.h"
#include "base/vec.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FOREST_ATOMS = 64, FOREST_DEPTH = 16 };

struct forest_dim {
    bool ordered; /* sets are runs of neighbouring atoms */
    bool derived; /* exists by the value of another, which is preferred where both divide alike */
    unsigned n;   /* number of atoms */
    double weight[FOREST_ATOMS];
    double below[FOREST_ATOMS + 1]; /* sum of the weights before this atom */
};

struct forest_data {
    const struct forest_dim *dims;
    size_t n_dims;
    const uint8_t *atoms; /* n_dims of each row */
    const double *values; /* one of each row */
};

/* Parameter `dim` is in `set`, which has this weight. */
struct forest_bound {
    uint32_t dim;
    uint64_t set;
    double weight;
};
struct forest_leaf {
    double value, weight;
    uint32_t n_bounds;
    struct forest_bound bounds[FOREST_DEPTH];
};
struct forest_tree {
    VEC(struct forest_leaf) leaves;
};

/* Fills in `below`. */
void forest_dim_sum(struct forest_dim *d);
double forest_set_weight(const struct forest_dim *d, uint64_t set);
/* A tree over these rows, which are put into another order.  Every leaf has min_rows of them or
 * more (at least 1).  The caller frees the tree; `out` may hold an old one, whose memory is used
 * again. */
void forest_grow(const struct forest_data *data, uint32_t *rows, size_t n_rows, size_t min_rows,
                 struct rng *r, struct forest_tree *out);
void forest_tree_done(struct forest_tree *t);
/* The value of the leaf that this row is in. */
double forest_predict(const struct forest_tree *t, const uint8_t *atoms);
