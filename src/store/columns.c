/* columns.c - the values of one job in columns of a list
 *
 * A parameter leaves as the JSON it came as: whole numbers beyond 2^53 and huge ones stay what they
 * are.  A metric is a number, and NaN is one; SQLite keeps NaN as NULL.
 */
#include "store/query_priv.h"
#include "store/track.h"
#include <math.h>

/* The find functions: 1 = the job has it; texts stay until the same statement is used again. */
static int find_mark(struct db *d, uint64_t job, enum mark_kind kind, const char *name,
                     struct str *out, struct err *e)
{
    sqlite3_stmt *st =
        db_query(d, e, "SELECT text FROM mark WHERE job = ?1 AND kind = ?2 AND name = ?3", INT(job),
                 INT(kind), TEXT(str_of(name)));
    int rc = db_step(d, st, e);

    if (rc == 1)
        *out = column_str(st, 0);
    return rc;
}

static struct job_value number_value(double v)
{
    return (struct job_value){.is = JOB_VALUE_NUMBER, .number = v};
}

static struct job_value whole_value(int64_t v)
{
    return (struct job_value){.is = JOB_VALUE_INTEGER, .integer = v};
}

static struct job_value stat_value(const struct series_view *v, enum job_column_stat stat)
{
    const struct series_stats *s = &v->stats;

    switch (stat) {
    case JOB_COLUMN_LAST:
        if (v->is_text)
            return (struct job_value){.is = JOB_VALUE_WORDS, .text = v->text};
        return number_value(v->value);
    case JOB_COLUMN_COUNT:
        return whole_value((int64_t)v->n);
    case JOB_COLUMN_STEP:
        return v->step >= 0 ? whole_value(v->step) : (struct job_value){0};
    default:
        break;
    }
    if (!s->counted) /* nothing but NaNs and texts */
        return s->n ? number_value(NAN) : (struct job_value){0};
    return stat == JOB_COLUMN_MIN        ? number_value(s->min)
           : stat == JOB_COLUMN_MAX      ? number_value(s->max)
           : stat == JOB_COLUMN_FIRST    ? number_value(s->first)
           : stat == JOB_COLUMN_MEAN     ? number_value(s->sum / (double)s->counted)
           : stat == JOB_COLUMN_MIN_STEP ? whole_value(s->low_step)
                                         : whole_value(s->high_step);
}

static int find_param(struct db *d, const struct job_view *v, const char *name,
                      struct job_value *out, struct err *e)
{
    struct str text = {0};
    int rc = find_mark(d, v->seq, MARK_PARAM, name, &text, e);

    if (rc == 0)
        rc = param_raw(v->params, str_of(name), &text);
    if (rc == 1)
        *out = (struct job_value){.is = JOB_VALUE_JSON, .text = text};
    return rc;
}

static int find_column(struct db *d, const struct job_view *v, const struct job_column *c,
                       struct job_value *out, struct err *e)
{
    struct series_view series;
    int rc = 0;

    *out = (struct job_value){0};
    if (c->kind == JOB_COLUMN_TAG) {
        rc = find_mark(d, v->seq, MARK_TAG, c->param, &out->text, e);
        out->is = rc == 1 ? JOB_VALUE_WORDS : JOB_VALUE_NOTHING;
        return rc;
    }
    if (c->kind != JOB_COLUMN_METRIC)
        rc = find_param(d, v, c->param, out, e);
    if (rc || c->kind == JOB_COLUMN_PARAM)
        return rc;
    rc = series_find(d, v->seq, c->param, &series, e);
    if (rc == 1)
        *out = stat_value(&series, strcmp(c->param, c->metric) ? JOB_COLUMN_LAST : c->stat);
    else if (rc == 0 && (rc = series_find(d, v->seq, c->metric, &series, e)) == 1)
        *out = stat_value(&series, c->stat);
    return rc;
}

int store_columns(struct store *s, const struct job_view *v, const struct job_column *columns,
                  size_t n, void (*fn)(void *arg, size_t i, const struct job_value *v), void *arg,
                  struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    struct job_value value;
    int rc = d ? 0 : -1;

    for (size_t i = 0; rc >= 0 && i < n; i++) {
        rc = find_column(d, v, &columns[i], &value, e);
        if (rc >= 0)
            fn(arg, i, &value);
    }
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}
