/* list.c - lists of jobs: filter, order, pages
 *
 * Owns: the statement that finds the numbers of a page in order, and the cursor between pages.
 *
 * A page is found by key and then each job is read (view.c), so that filtering touches only what it
 * needs.  A query about states or projects becomes one ordered, limited scan of the index
 * job_lane per combination, merged: the cost does not grow with the jobs that do not match.  With
 * too many scans, or a query that excludes none, the table is walked from the end asked for.
 *
 * Pages continue after (sort key, number) of the last job, not at an offset: jobs that arrive or
 * leave between two pages neither repeat nor hide others.  "created" is the order of numbers, which
 * a stepped clock does not disturb.
 */
#include "base/clock.h"
#include "base/util.h"
#include "store/scans_priv.h"

static const struct sort {
    const char *name;
    const char *key; /* NULL = the number alone; "" = duration */
    bool text;
    char code; /* in cursors */
} sorts[] = {
    {"id", NULL, false, 'i'},
    {"created", NULL, false, 'i'},
    {"name", SQL_NAME, true, 'n'},
    {"state", "j.state", false, 's'},
    {"priority", "j.priority", false, 'p'},
    {"started", "j.started_ms", false, 'b'},
    {"ended", "j.ended_ms", false, 'e'},
    {"duration", "", false, 'd'},
    {"exit_code", "ifnull(j.exit_code, -1)", false, 'x'},
};

enum { KEEP_SQL_BYTES = 8192 }; /* a statement of a longer text is not worth keeping */

struct cursor {
    bool set;
    int64_t now_ms; /* of the first page: durations of running jobs must not move between pages */
    uint64_t seq;
    int64_t key;
    char *text; /* of a text key */
};
/* One list being made: what was asked, where it continues, and the statement under construction. */
struct listing {
    struct db *db;
    const struct job_query *q;
    const struct sort *sort;
    struct cursor at;
    struct job_scans scans;
    struct sql sql;
};

/* ---- cursor: code, direction, now, number, key; hexadecimal, safe in a URL ---- */

static char *cursor_format(const struct listing *l, const struct cursor *c)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, 1 << 16);
    buf_addf(&b, "%c%c-%llx-%llx-", l->sort->code, l->q->desc ? 'd' : 'a',
             (unsigned long long)c->now_ms, (unsigned long long)c->seq);
    if (!l->sort->text)
        buf_addf(&b, "%llx", (unsigned long long)c->key);
    for (const char *p = c->text; p && *p; p++)
        buf_addf(&b, "%02x", (unsigned char)*p);
    return buf_take(&b, NULL);
}

/* Reads a number and moves *p behind it.  strtoull alone would also accept signs and spaces. */
static bool parse_hex(const char **p, uint64_t *out)
{
    char *end;

    if (!**p || !strchr("0123456789abcdef", **p))
        return false;
    *out = strtoull(*p, &end, 16);
    *p = end;
    return true;
}

static bool parse_hex_text(const char *p, char **out)
{
    size_t n = strlen(p);

    if (n % 2 || strspn(p, "0123456789abcdef") != n)
        return false;
    *out = xcalloc(n / 2 + 1, 1);
    for (size_t i = 0; i < n / 2; i++) {
        const char pair[] = {p[2 * i], p[2 * i + 1], '\0'};
        (*out)[i] = (char)strtoul(pair, NULL, 16);
    }
    return true;
}

/* A cursor comes from outside: it may be damaged, or belong to a list in another order. */
static int cursor_parse(struct listing *l, struct err *e)
{
    const char *p = l->q->cursor;
    uint64_t now, key = 0;

    if (!p)
        return 0;
    if (p[0] != l->sort->code || p[1] != (l->q->desc ? 'd' : 'a') || p[2] != '-')
        return err_set(e, ERR_INVALID,
                       "the cursor belongs to a list in another order; start again without it");
    p += 3;
    if (!parse_hex(&p, &now) || *p++ != '-' || !parse_hex(&p, &l->at.seq) || *p++ != '-' ||
        (l->sort->text ? !parse_hex_text(p, &l->at.text) : !parse_hex(&p, &key) || *p))
        return err_set(e, ERR_INVALID, "the cursor is damaged; start again without it");
    l->at.now_ms = (int64_t)now;
    l->at.key = (int64_t)key;
    l->at.set = true;
    return 0;
}

/* ---- the statement ---- */

static void list_add_sort_key(struct listing *l)
{
    if (*l->sort->key) {
        sql_add(&l->sql, l->sort->key);
        return;
    }
    sql_add(&l->sql, "ifnull(");
    sql_duration(&l->sql, l->at.now_ms);
    sql_add(&l->sql, ", -1)");
}

/* Behind the last job of the page before. */
static void add_after(struct listing *l)
{
    const char *op = l->q->desc ? " < " : " > ";

    if (!l->at.set)
        return;
    if (!l->sort->key) {
        sql_add(&l->sql, " AND j.seq");
        sql_add(&l->sql, op);
    } else {
        sql_add(&l->sql, " AND (");
        list_add_sort_key(l);
        sql_add(&l->sql, ", j.seq)");
        sql_add(&l->sql, op);
        sql_add(&l->sql, "(");
        if (l->sort->text)
            sql_text(&l->sql, str_of(l->at.text));
        else
            sql_int(&l->sql, l->at.key);
        sql_add(&l->sql, ", ");
    }
    sql_int(&l->sql, (int64_t)l->at.seq);
    sql_add(&l->sql, l->sort->key ? ")" : "");
}

/* The jobs of a batch are a stretch of numbers. */
static int list_add_batch(struct listing *l, struct err *e)
{
    sqlite3_stmt *st;

    if (!l->q->batch)
        return 0;
    st = db_query(l->db, e, "SELECT first_job, first_job + n_jobs - 1 FROM batch WHERE seq = ?1",
                  INT(l->q->batch));
    int rc = db_step(l->db, st, e);
    if (rc < 0)
        return -1;
    sql_add(&l->sql, " AND j.seq BETWEEN ");
    sql_int(&l->sql, rc ? sqlite3_column_int64(st, 0) : 1);
    sql_add(&l->sql, " AND ");
    sql_int(&l->sql, rc ? sqlite3_column_int64(st, 1) : 0);
    sql_add(&l->sql, " AND j.batch = ");
    sql_int(&l->sql, (int64_t)l->q->batch);
    sqlite3_reset(st);
    return 0;
}

static int add_conditions(struct listing *l, struct err *e)
{
    add_after(l);
    if (list_add_batch(l, e) < 0)
        return -1;
    if (!l->q->filter)
        return 0;
    sql_add(&l->sql, " AND ");
    return sql_filter(&l->sql, l->db, l->q->filter, l->at.now_ms, e);
}

static void add_order(struct listing *l, const char *key, const char *seq, size_t limit)
{
    const char *direction = l->q->desc ? " DESC" : "";

    sql_add(&l->sql, " ORDER BY ");
    if (l->sort->key) {
        sql_add(&l->sql, key);
        sql_add(&l->sql, direction);
        sql_add(&l->sql, ", ");
    }
    sql_add(&l->sql, seq);
    sql_add(&l->sql, direction);
    if (limit) {
        sql_add(&l->sql, " LIMIT ");
        sql_int(&l->sql, (int64_t)limit);
    }
}

static void add_select(struct listing *l, const char *from)
{
    sql_add(&l->sql, "SELECT j.seq AS seq");
    if (l->sort->key) {
        sql_add(&l->sql, ", ");
        list_add_sort_key(l);
        sql_add(&l->sql, " AS k");
    }
    sql_add(&l->sql, from);
}

/* One walk over the table; used when the scans do not narrow it, or are too many. */
static int build_walk(struct listing *l, size_t limit, struct err *e)
{
    add_select(l, " FROM job j NOT INDEXED WHERE 1");
    if (l->scans.restricted) {
        sql_add(&l->sql, " AND j.state * 4294967296 + j.party IN (");
        for (size_t i = 0; i < l->scans.all.n; i++) {
            const struct job_scan *scan = &l->scans.all.p[i];
            sql_add(&l->sql, i ? ", " : "");
            sql_int(&l->sql, (int64_t)((uint64_t)scan->state << 32) + (int64_t)scan->party);
        }
        sql_add(&l->sql, ")");
    }
    if (add_conditions(l, e) < 0)
        return -1;
    add_order(l, "k", "j.seq", limit);
    return 0;
}

/* One limited scan per combination, merged by the outer ORDER BY: each inner scan returns no more
 * than a page. */
static int build_scans(struct listing *l, size_t limit, struct err *e)
{
    AUTO_FREE char *conditions = NULL; /* the same for each, parameters included */

    sql_add(&l->sql, "SELECT * FROM (");
    for (size_t i = 0; i < l->scans.all.n; i++) {
        const struct job_scan *scan = &l->scans.all.p[i];
        sql_add(&l->sql, i ? " UNION ALL SELECT * FROM (" : "SELECT * FROM (");
        add_select(l, " FROM job j INDEXED BY job_lane WHERE j.state = ");
        sql_int(&l->sql, scan->state);
        sql_add(&l->sql, " AND j.party = ");
        sql_int(&l->sql, (int64_t)scan->party);
        if (conditions) {
            sql_add(&l->sql, conditions);
        } else {
            size_t from = l->sql.text.n;
            if (add_conditions(l, e) < 0)
                return -1;
            conditions = xstrdup(buf_str(&l->sql.text).p + from);
        }
        add_order(l, "k", "j.seq", limit);
        sql_add(&l->sql, ")");
    }
    sql_add(&l->sql, ")");
    add_order(l, "k", "seq", limit);
    return 0;
}

/* listing_close must follow, also after an error. */
static int listing_open(struct listing *l, struct store *s, const struct job_query *q,
                        struct err *e)
{
    const char *name = q->sort && *q->sort ? q->sort : "id";

    *l = (struct listing){.q = q};
    sql_init(&l->sql);
    for (size_t i = 0; i < ARRAY_SIZE(sorts); i++)
        if (!strcmp(sorts[i].name, name))
            l->sort = &sorts[i];
    if (!l->sort)
        return err_set(e, ERR_INVALID,
                       "cannot sort by \"%.60s\"; use id, name, state, priority, created, started, "
                       "ended, duration or exit_code",
                       name);
    l->at.now_ms = clock_wall(&clock_system);
    if (cursor_parse(l, e) < 0)
        return -1;
    l->db = pool_borrow(&s->pool, e);
    return l->db ? scans_find(&l->scans, l->db, q, e) : -1;
}

static void listing_close(struct listing *l, struct store *s)
{
    if (l->db) {
        if (l->sql.text.n > KEEP_SQL_BYTES)
            db_forget_text(l->db, l->sql.text.p);
        pool_return(&s->pool, l->db);
    }
    scans_done(&l->scans);
    sql_done(&l->sql);
    free(l->at.text);
}

/* NULL with no error: nothing can match. */
static sqlite3_stmt *listing_start(struct listing *l, size_t limit, struct err *e)
{
    bool scans = l->scans.restricted && l->scans.all.n <= SCANS_MAX;

    if (!l->scans.all.n)
        return NULL;
    if ((scans ? build_scans(l, limit, e) : build_walk(l, limit, e)) < 0)
        return NULL;
    return sql_query(&l->sql, l->db, e);
}

/* ---- pages ---- */

/* Asks for one job more than the page has: if it comes, there is another page and a cursor. */
static int list_page(struct listing *l, job_view_fn fn, void *arg, char **out_cursor, struct err *e)
{
    struct view_reader views = {.db = l->db};
    struct cursor last = {.now_ms = l->at.now_ms};
    struct err ie = {0};
    struct job_view v;
    sqlite3_stmt *st = listing_start(l, l->q->limit + 1, &ie);
    int rc = 0;
    size_t n = 0;

    if (!st) {
        if (ie.code && e)
            *e = ie;
        return ie.code ? -1 : 0;
    }
    while ((rc = db_step(l->db, st, e)) == 1) {
        if (n++ == l->q->limit) {
            *out_cursor = cursor_format(l, &last);
            break;
        }
        last.seq = column_u64(st, 0);
        last.key = l->sort->key && !l->sort->text ? sqlite3_column_int64(st, 1) : 0;
        free(last.text);
        last.text = l->sort->text ? xstrdup(column_str(st, 1).p) : NULL;
        rc = view_read(&views, last.seq, &v, e);
        if (rc < 0 || (rc == 1 && !fn(arg, &v)))
            break;
    }
    free(last.text);
    view_done(&views);
    sqlite3_reset(st);
    return rc < 0 ? -1 : 0;
}

int store_jobs(struct store *s, const struct job_query *q, job_view_fn fn, void *arg,
               char **out_cursor, struct err *e)
{
    struct listing l;
    char *cursor = NULL;
    int rc = listing_open(&l, s, q, e);

    if (rc == 0 && (q->limit < 1 || q->limit > 10000))
        rc = err_set(e, ERR_INVALID, "a page has 1 to 10000 jobs, not %zu", q->limit);
    if (rc == 0)
        rc = list_page(&l, fn, arg, &cursor, e);
    listing_close(&l, s);
    if (rc == 0 && out_cursor)
        *out_cursor = TAKE(cursor);
    free(cursor);
    return rc;
}

int store_job_seqs(struct store *s, const struct job_query *q, uint64_t **out, size_t *out_n,
                   struct err *e)
{
    VEC(uint64_t) found = {0};
    struct listing l;
    struct err ie = {0};
    int rc = listing_open(&l, s, q, e);

    if (rc == 0) {
        sqlite3_stmt *st = listing_start(&l, 0, &ie);
        while (st && (rc = db_step(l.db, st, e)) == 1)
            vec_push(&found, column_u64(st, 0));
        if (ie.code) {
            rc = -1;
            if (e)
                *e = ie;
        }
    }
    listing_close(&l, s);
    if (rc < 0) {
        vec_done(&found);
        return -1;
    }
    *out = found.p;
    *out_n = found.n;
    return 0;
}

/* ---- counts ---- */

/* Counts what the filter selects by looking at each job; used only when the tally cannot answer. */
static int count_by_filter(struct listing *l, uint64_t out[JOB_STATE_MAX], struct err *e)
{
    int rc;
    bool scans = l->scans.restricted && l->scans.all.n <= SCANS_MAX;

    sql_add(&l->sql, "SELECT j.state, count(*) FROM job j NOT INDEXED WHERE j.seq IN (");
    if ((scans ? build_scans(l, 0, e) : build_walk(l, 0, e)) < 0)
        return -1;
    sql_add(&l->sql, ") GROUP BY j.state");
    sqlite3_stmt *st = sql_query(&l->sql, l->db, e);
    if (!st)
        return -1;
    while ((rc = db_step(l->db, st, e)) == 1)
        if (column_u64(st, 0) < JOB_STATE_MAX)
            out[column_u64(st, 0)] = column_u64(st, 1);
    return rc;
}

static int count_of_batch(struct db *d, uint64_t batch, uint64_t out[JOB_STATE_MAX], struct err *e)
{
    sqlite3_stmt *st =
        db_query(d, e, "SELECT seq" BATCH_COUNTS " FROM batch WHERE seq = ?1", INT(batch));
    int rc = db_step(d, st, e);
    for (int i = 0; rc == 1 && i < JOB_STATE_MAX; i++)
        out[job_states[i]] = column_u64(st, 1 + i);
    return rc < 0 ? -1 : 0;
}

int store_job_counts(struct store *s, const struct job_query *q, uint64_t out[JOB_STATE_MAX],
                     struct err *e)
{
    struct job_query plain = *q;
    struct listing l;
    uint64_t n[JOB_STATE_MAX] = {0};
    int rc;

    plain.sort = "id";
    plain.cursor = NULL;
    rc = listing_open(&l, s, &plain, e);
    if (rc == 0 && l.scans.all.n) {
        if (q->batch && !q->filter && !l.scans.restricted)
            rc = count_of_batch(l.db, q->batch, n, e);
        else if (q->filter || q->batch)
            rc = count_by_filter(&l, n, e);
        else
            for (size_t i = 0; i < l.scans.all.n; i++)
                n[l.scans.all.p[i].state] += l.scans.all.p[i].n;
    }
    listing_close(&l, s);
    if (rc == 0)
        memcpy(out, n, sizeof(n));
    return rc;
}
