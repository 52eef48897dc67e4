/* series.h - points of a metric, packed; and the few buckets a chart needs of very many
 *
 * A block holds points of one run in the order in which they were logged.  Steps and times are
 * stored as differences of differences with repeats counted, values as what changed of their bytes:
 * a regular series costs 3 to 9 bytes a point.  Values may be NaN or infinite.  Pure.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

struct series_point {
    /* step as the job counts; at_ms is wall clock. */
    int64_t step, at_ms;
    double value;
};
enum { SERIES_BLOCK_MAX = 4096 }; /* points of a block */

/* Appends one block; n is 1 … SERIES_BLOCK_MAX. */
void series_pack(struct buf *out, const struct series_point *p, size_t n);
/* How many points a block has; 0 = it is none. */
size_t series_count(struct str block);
/* out has room for series_count.  ERR_INVALID for anything series_pack did not make. */
int series_unpack(struct str block, struct series_point *out, struct err *e);

/* What is known of a stretch of points without unpacking it.  min > max: all values are NaN. */
struct series_stats {
    uint64_t n;
    int64_t step_min, step_max, at_min, at_max;
    double min, max;
    int64_t low_step, high_step; /* where the value was first min, max */
    double first, sum;           /* NaNs left out */
    uint64_t counted;            /* numbers that are no NaN */
};
/* A zeroed struct is empty; points may be added in any order, of which `first` is the first. */
void series_stats_add(struct series_stats *s, const struct series_point *p, size_t n);

/* ---- buckets of equal width over steps or times ---- */
struct series_bucket {
    uint64_t n;      /* points in it, NaNs included; 0 = none */
    double min, max; /* NaNs left out; min > max: nothing but NaNs */
    double last;     /* of the largest x, the later logged one of equals */
    int64_t last_x;  /* step or time of `last` */
};
struct series_axis {
    bool by_time;
    int64_t from, to; /* both inclusive; from <= to */
    size_t n;         /* buckets, 1 … 10 000 */
};
/* Bucket i holds x from series_edge(i) up to and without series_edge(i + 1). */
int64_t series_edge(const struct series_axis *a, size_t i);
/* Adds points to buckets (a->n of them, zeroed at first); those outside the axis are left out. */
void series_fill(const struct series_axis *a, struct series_bucket *b, const struct series_point *p,
                 size_t n);
