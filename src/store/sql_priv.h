/* sql_priv.h - a query under construction: text with numbered parameters, and their values */
#pragma once
#include "base/buf.h"
#include "base/vec.h"
#include "model/filter.h"
#include "model/job_column.h"
#include "store/db_priv.h"

struct param_names;
struct sql {
    struct buf text;
    VEC(struct db_arg) args;
    struct arena scratch; /* text made for arguments */
};
void sql_init(struct sql *q);
void sql_done(struct sql *q);
/* Appends "?N" and remembers the value.  Nothing from outside ever becomes SQL text. */
void sql_int(struct sql *q, int64_t v);
void sql_real(struct sql *q, double v);
void sql_text(struct sql *q, struct str v);
/* Appends SQL text of this program, never a value. */
void sql_add(struct sql *q, const char *literal);
sqlite3_stmt *sql_query(struct sql *q, struct db *d, struct err *e); /* bound, ready to step */

/* A filter as a condition on `job j`, always 0 or 1; names (param_names.c) may be NULL.  Absent
 * values match nothing, not even "!="; `not` in front of a term matches them. */
int sql_filter(struct sql *q, struct db *d, const struct filter *f, int64_t now_ms,
               struct param_names *names, struct err *e);
/* ---- values of `job j` that have a name (sql_value.c) ---- */
/* A submitted parameter.  `function` is json_extract for its value or json_type for its type. */
void sql_param(struct sql *q, const char *function, const char *key);
/* `value` of the job's mark m of that kind (enum mark_kind) and name. */
void sql_mark(struct sql *q, int kind, const char *value, const char *name);
const char *sql_stat(enum job_column_stat s); /* of the row `series r` */
void sql_metric(struct sql *q, const char *name, enum job_column_stat stat);
/* A column, and which of its readings some job has: what none has need not be looked for in each.
 * The column is borrowed. */
struct named_value {
    const struct job_column *column;
    const char *metric; /* the metric it is, if it is one, and what of it */
    enum job_column_stat stat;
    bool submitted; /* until somebody knows better */
    bool logged, measured;
};
int sql_look_at(struct db *d, const struct job_column *c, struct named_value *out, struct err *e);
void sql_named(struct sql *q, const struct named_value *v);

/* Expressions on `job j` that lists and filters share. */
#define SQL_NAME "ifnull(j.name, (SELECT s.name FROM spec s WHERE s.seq = j.spec))"
void sql_duration(struct sql *q, int64_t now_ms); /* NULL before the start */
