/* job_column.h - what a list shows and sorts by beside the fields of a job
 *
 *   column := tag.K               the tag K
 *           | params.K            the parameter K; a name with dots is also a path (opt.name)
 *           | metric.M[.stat]     the metric M
 *           | K[.stat]            the parameter of that name; of a job without it, the metric
 *   stat   := last min max first mean count step min_step max_step     (default: last)
 *
 * step is that of the last value, min_step and max_step are those of the lowest and the highest.
 * Quotes hold any name:  "val/acc, top 5".max
 */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum job_column_kind { JOB_COLUMN_EITHER, JOB_COLUMN_PARAM, JOB_COLUMN_TAG, JOB_COLUMN_METRIC };
enum job_column_stat {
    JOB_COLUMN_LAST,
    JOB_COLUMN_MIN,
    JOB_COLUMN_MAX,
    JOB_COLUMN_FIRST,
    JOB_COLUMN_MEAN,
    JOB_COLUMN_COUNT,
    JOB_COLUMN_STEP,
    JOB_COLUMN_MIN_STEP,
    JOB_COLUMN_MAX_STEP
};
/* One column; the texts live in the arena it was parsed into. */
struct job_column {
    const char *text;   /* as it was written: its heading, and its key in JSON */
    const char *param;  /* the name as a parameter's or tag's: with what reads as a stat */
    const char *metric; /* the name as a metric's: without it */
    enum job_column_kind kind;
    enum job_column_stat stat; /* of the metric */
};
enum { JOB_COLUMNS_MAX = 200, JOB_COLUMN_TEXT_MAX = 300 };

/* The column of a name that needs no parsing: nothing stands in front of it, no quotes. */
void job_column_of_name(const char *name, enum job_column_kind kind, struct arena *a,
                        struct job_column *out);
/* ERR_INVALID says which column is wrong. */
int job_column_parse(struct str text, struct arena *a, struct job_column *out, struct err *e);
/* Names separated by commas; *out lives in the arena. */
int job_columns_parse(struct str list, struct arena *a, struct job_column **out, size_t *out_n,
                      struct err *e);
