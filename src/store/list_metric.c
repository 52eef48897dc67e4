/* list_metric.c - the order of a metric, read from its index
 *
 * The index series_read holds what is known of every metric by name.  The best of a hundred
 * thousand jobs are found by one pass over a stretch of it; whether a job matches the query is
 * asked in that order, until the page is full.
 */
#include "base/util.h"
#include "store/list_priv.h"

enum { MORE = 8 }; /* each further look takes so many times more candidates than the last */

bool list_by_metric(const struct listing *l)
{
    const struct named_value *v = &l->named;

    if (!l->q->by || !v->measured || v->stat > JOB_COLUMN_MEAN)
        return false;
    return l->q->by->kind == JOB_COLUMN_METRIC ||
           (l->q->by->kind == JOB_COLUMN_EITHER && !v->submitted && !v->logged);
}

/* A metric whose last value is a text has no place among numbers. */
static const char *metric_key(const struct listing *l)
{
    return l->named.stat == JOB_COLUMN_LAST ? "r.value" : sql_stat(l->named.stat);
}

/* The next candidates, in order, behind l->at. */
static sqlite3_stmt *candidates(struct listing *l, size_t limit, struct err *e)
{
    const char *direction = l->q->desc ? " DESC" : "";

    sql_done(&l->sql);
    sql_init(&l->sql);
    sql_add(&l->sql, "SELECT r.job AS seq, ");
    sql_add(&l->sql, metric_key(l));
    sql_add(&l->sql, " AS k FROM series r INDEXED BY series_read WHERE r.name = ");
    sql_text(&l->sql, str_of(l->named.metric));
    sql_add(&l->sql, " AND k IS NOT NULL");
    if (l->at.set) {
        sql_add(&l->sql, l->q->desc ? " AND (k, r.job) < (" : " AND (k, r.job) > (");
        sql_real(&l->sql, l->at.real);
        sql_add(&l->sql, ", ");
        sql_int(&l->sql, (int64_t)l->at.seq);
        sql_add(&l->sql, ")");
    }
    sql_add(&l->sql, " ORDER BY k");
    sql_add(&l->sql, direction);
    sql_add(&l->sql, ", r.job");
    sql_add(&l->sql, direction);
    sql_add(&l->sql, " LIMIT ");
    sql_int(&l->sql, (int64_t)limit);
    return sql_query(&l->sql, l->db, e);
}

/* Whether a candidate matches what the query asks for beside the order; NULL in *out: every one
 * does. */
static int matcher(struct listing *l, struct sql *text, sqlite3_stmt **out, struct err *e)
{
    struct sql own = l->sql;
    int rc = 0;

    *out = NULL;
    sql_init(&l->sql);
    sql_add(&l->sql, "SELECT 1 FROM job j WHERE j.seq = ");
    sql_int(&l->sql, 0);
    size_t plain = l->sql.text.n;
    list_add_scans(l);
    rc = list_add_filter(l, e);
    if (rc == 0 && l->sql.text.n > plain) {
        *out = sql_query(&l->sql, l->db, e);
        rc = *out ? 0 : -1;
    }
    *text = l->sql; /* holds what the statement is bound to */
    l->sql = own;
    return rc;
}

static int is_match(struct listing *l, sqlite3_stmt *match, int64_t seq, struct err *e)
{
    if (!match)
        return 1;
    sqlite3_reset(match);
    sqlite3_bind_int64(match, 1, seq);
    int rc = db_step(l->db, match, e);
    sqlite3_reset(match);
    return rc;
}

/* One look: *got candidates were seen, *full: nobody wants more. */
static int put_candidates(struct list_page *p, sqlite3_stmt *match, size_t limit, size_t *got,
                          bool *full, struct err *e)
{
    struct listing *l = p->l;
    sqlite3_stmt *st = candidates(l, limit, e);
    int rc = 0;

    *got = 0;
    while (!*full && rc >= 0 && (rc = db_step(l->db, st, e)) == 1) {
        ++*got;
        l->at.seq = column_u64(st, 0);
        l->at.real = sqlite3_column_double(st, 1);
        rc = is_match(l, match, sqlite3_column_int64(st, 0), e);
        if (rc == 1) {
            rc = list_put(p, st, e);
            *full = rc == 0;
        }
    }
    sqlite3_reset(st);
    l->at.set = true;
    return rc < 0 ? -1 : 0;
}

int list_put_measured(struct list_page *p, struct err *e)
{
    struct listing *l = p->l;
    struct sql text;
    sqlite3_stmt *match;
    bool full = false;
    int rc = matcher(l, &text, &match, e);

    size_t limit = (l->q->limit + 1) * (match ? MORE : 1), got = limit;
    while (rc == 0 && !full && got == limit) {
        rc = put_candidates(p, match, limit, &got, &full, e);
        if (rc == 0 && !full && got == limit)
            got = limit *= MORE;
    }
    if (text.text.n > KEEP_SQL_BYTES)
        db_forget_text(l->db, text.text.p);
    sql_done(&text);
    sql_done(&l->sql);
    sql_init(&l->sql);
    return rc < 0 ? -1 : !full;
}
