/* sql_priv.h - a query under construction: text with numbered parameters, and their values */
#pragma once
#include "base/buf.h"
#include "base/vec.h"
#include "model/filter.h"
#include "store/db_priv.h"

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

/* A filter as a condition on `job j`, always 0 or 1.  Absent values match nothing, not even "!=";
 * `not` in front of a term matches them. */
int sql_filter(struct sql *q, struct db *d, const struct filter *f, int64_t now_ms, struct err *e);
/* Expressions on `job j` that lists and filters share. */
#define SQL_NAME "ifnull(j.name, (SELECT s.name FROM spec s WHERE s.seq = j.spec))"
void sql_duration(struct sql *q, int64_t now_ms); /* NULL before the start */
