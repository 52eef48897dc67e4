/* sql_value.c - parameters, tags and metrics of `job j` as SQL expressions
 *
 * Owns: where a value that has a name is found, for filters, for the order of lists and for their
 * columns alike.
 *
 * A parameter is what the job logged, else what it was submitted with (its JSON; a name with dots
 * is tried as one key, then as a path), else its metric of that name.  Most names were never logged
 * by any job: that is asked first, and then only the JSON is looked at.
 */
#include "base/util.h"
#include "store/sql_priv.h"
#include "store/track.h"

/* '$."a.b"', or with `split` '$."a"."b"' */
static struct str param_path(struct sql *q, const char *key, bool split)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, 1 << 16);
    buf_adds(&b, "$.\"");
    for (const char *c = key; *c; c++) {
        if (split && *c == '.')
            buf_adds(&b, "\".\"");
        else
            buf_addc(&b, *c);
    }
    buf_addc(&b, '"');
    return (struct str){arena_strndup(&q->scratch, buf_str(&b).p, b.n), b.n};
}

void sql_param(struct sql *q, const char *function, const char *key)
{
    bool dotted = strchr(key, '.') != NULL;

    if (strchr(key, '"')) { /* SQLite's paths have no way to write it */
        sql_add(q, "NULL");
        return;
    }
    if (dotted)
        sql_add(q, "ifnull(");
    for (int split = 0; split <= dotted; split++) {
        sql_add(q, split ? ", " : "");
        sql_add(q, function);
        sql_add(q, "(j.params, ");
        sql_text(q, param_path(q, key, split));
        sql_add(q, ")");
    }
    if (dotted)
        sql_add(q, ")");
}

void sql_mark(struct sql *q, int kind, const char *value, const char *name)
{
    sql_add(q, "(SELECT ");
    sql_add(q, value);
    sql_add(q, " FROM mark m WHERE m.job = j.seq AND m.kind = ");
    sql_int(q, kind);
    sql_add(q, " AND m.name = ");
    sql_text(q, str_of(name));
    sql_add(q, ")");
}

/* NULL stands for NaN; nothing but NaNs has neither a lowest nor a highest value. */
const char *sql_stat(enum job_column_stat s)
{
    static const char *const all[] = {
        [JOB_COLUMN_LAST] = "ifnull(r.value, r.text)",
        [JOB_COLUMN_MIN] = "CASE WHEN r.counted THEN r.min END",
        [JOB_COLUMN_MAX] = "CASE WHEN r.counted THEN r.max END",
        [JOB_COLUMN_FIRST] = "r.first",
        [JOB_COLUMN_MEAN] = "CASE WHEN r.counted THEN r.sum / r.counted END",
        [JOB_COLUMN_COUNT] = "r.n",
        [JOB_COLUMN_STEP] = "nullif(r.step, -1)",
        [JOB_COLUMN_MIN_STEP] = "CASE WHEN r.counted THEN r.low_step END",
        [JOB_COLUMN_MAX_STEP] = "CASE WHEN r.counted THEN r.high_step END",
    };
    return all[s];
}

void sql_metric(struct sql *q, const char *name, enum job_column_stat stat)
{
    sql_add(q, "(SELECT ");
    sql_add(q, sql_stat(stat));
    sql_add(q, " FROM series r WHERE r.job = j.seq AND r.name = ");
    sql_text(q, str_of(name));
    sql_add(q, ")");
}

/* Does this statement return a row? */
static int has_row(struct db *d, sqlite3_stmt *st, bool *out, struct err *e)
{
    int rc = db_step(d, st, e);

    sqlite3_reset(st);
    *out = rc == 1;
    return rc < 0 ? -1 : 0;
}

static int is_measured(struct db *d, const char *name, bool *out, struct err *e)
{
    return has_row(
        d, db_query(d, e, "SELECT 1 FROM series WHERE name = ?1 LIMIT 1", TEXT(str_of(name))), out,
        e);
}

int sql_look_at(struct db *d, const struct job_column *c, struct named_value *out, struct err *e)
{
    *out = (struct named_value){.column = c, .metric = c->param, .submitted = true};
    if (c->kind == JOB_COLUMN_TAG)
        return 0;
    if (c->kind != JOB_COLUMN_METRIC &&
        has_row(d,
                db_query(d, e, "SELECT 1 FROM mark WHERE kind = ?1 AND name = ?2 LIMIT 1",
                         INT(MARK_PARAM), TEXT(str_of(c->param))),
                &out->logged, e) < 0)
        return -1;
    if (c->kind == JOB_COLUMN_PARAM)
        return 0;
    if (is_measured(d, c->param, &out->measured, e) < 0)
        return -1;
    if (out->measured && c->param != c->metric && strcmp(c->param, c->metric) != 0)
        return 0; /* a metric whose name ends like a figure */
    out->metric = c->metric;
    out->stat = c->stat;
    return out->measured ? 0 : is_measured(d, c->metric, &out->measured, e);
}

void sql_named(struct sql *q, const struct named_value *v)
{
    const struct job_column *c = v->column;
    int parts = v->logged + v->submitted + v->measured;

    if (c->kind == JOB_COLUMN_TAG) {
        sql_mark(q, MARK_TAG, "m.text", c->param);
        return;
    }
    if (c->kind == JOB_COLUMN_METRIC) {
        sql_metric(q, v->metric, v->stat);
        return;
    }
    sql_add(q, parts > 1 ? "coalesce(" : parts ? "" : "NULL");
    if (v->logged) {
        sql_mark(q, MARK_PARAM, "json_extract(m.text, '$')", c->param);
        sql_add(q, --parts ? ", " : "");
    }
    if (v->submitted) {
        sql_param(q, "json_extract", c->param);
        sql_add(q, --parts ? ", " : "");
    }
    if (v->measured)
        sql_metric(q, v->metric, v->stat);
    sql_add(q, v->logged + v->submitted + v->measured > 1 ? ")" : "");
}
