/* series_priv.h - the points of metrics in their tables; inside the store room only */
#pragma once
#include "model/series.h"
#include "store/db_priv.h"

enum { WORDS_KEPT = 100 }; /* texts of a metric: the last ones */

/* A metric of a job as its row has it. */
struct series_row {
    uint64_t seq; /* 0 = not there yet */
    uint64_t n;
    struct series_stats stats;
};
/* 1 = *row is filled (made if need be), 0 = there is no such job, -1 = error. */
int series_open(struct db *d, uint64_t job, struct str name, struct series_row *row, struct err *e);
/* Points of one run behind those that are there; n is at most SERIES_BLOCK_MAX. */
int series_append(struct db *d, struct series_row *row, uint32_t run, const struct series_point *p,
                  size_t n, struct err *e);
/* Appends a text as a point of its own and deletes all but the last WORDS_KEPT texts. */
int series_append_text(struct db *d, struct series_row *row, uint32_t run, int64_t step,
                       int64_t at_ms, struct str text, struct err *e);
/* Moves the rows of table report, of schema 3, to where they are kept since schema 4. */
int series_migrate(struct db *d, struct err *e);
/* Adds the columns that rows of table series have since schema 19, and fills them. */
int series_migrate_stats(struct db *d, struct err *e);
/* Computes again what the rows of a job's metrics say of their points; job 0 = of all jobs. */
int series_recount(struct db *d, uint64_t job, struct err *e);
