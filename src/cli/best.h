/* best.h - the best jobs by a metric: berth best, and the end of a sweep */
#pragma once
#include "cli/columns.h"

/* One of the two names is set, or neither. */
struct best_opts {
    const char *maximize, *minimize; /* a metric, or a figure of one: acc, acc.mean */
};
extern const struct opt_group best_group;

/* The best jobs, best first; those without the metric are left out.  *cols is zeroed at first and
 * columns_done frees it; *out is the caller's.  ERR_INVALID when not exactly one name is set. */
int best_jobs(struct cli *c, const struct best_opts *o, const char *filter, int64_t limit,
              struct chosen_columns *cols, struct json **out, struct err *e);
