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
#include "store/list_priv.h"

static const struct sort sorts[] = {
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

/* By a value that has a name: numbers, then texts, then jobs without a value. */
static const struct sort by_column = {"", "", false, 'c'};

/* ---- the statement ---- */

static void list_add_sort_key(struct listing *l)
{
    if (*l->sort->key) {
        sql_add(&l->sql, l->sort->key);
        return;
    }
    if (l->q->by) {
        sql_named(&l->sql, &l->named);
        return;
    }
    sql_add(&l->sql, "ifnull(");
    sql_duration(&l->sql, l->at.now_ms);
    sql_add(&l->sql, ", -1)");
}

/* The value at which the page before ended; `key` is its expression. */
static void list_add_key(struct listing *l)
{
    if (l->q->by && l->at.type == 'r')
        sql_real(&l->sql, l->at.real);
    else if (l->at.text)
        sql_text(&l->sql, str_of(l->at.text));
    else
        sql_int(&l->sql, l->at.key);
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
    } else if (l->q->by && l->at.type == 'n') {
        sql_add(&l->sql, " AND ");
        list_add_sort_key(l);
        sql_add(&l->sql, " IS NULL AND j.seq");
        sql_add(&l->sql, op);
    } else {
        /* A comparison with NULL is NULL: jobs without a value come behind all others. */
        sql_add(&l->sql, l->q->by ? " AND ifnull((" : " AND (");
        list_add_sort_key(l);
        sql_add(&l->sql, ", j.seq)");
        sql_add(&l->sql, op);
        sql_add(&l->sql, "(");
        list_add_key(l);
        sql_add(&l->sql, ", ");
        sql_int(&l->sql, (int64_t)l->at.seq);
        sql_add(&l->sql, l->q->by ? "), 1)" : ")");
        return;
    }
    sql_int(&l->sql, (int64_t)l->at.seq);
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

int list_add_filter(struct listing *l, struct err *e)
{
    if (list_add_batch(l, e) < 0)
        return -1;
    if (!l->q->filter)
        return 0;
    sql_add(&l->sql, " AND ");
    return sql_filter(&l->sql, l->db, l->q->filter, l->at.now_ms, l->names, e);
}

static int add_conditions(struct listing *l, struct err *e)
{
    add_after(l);
    return list_add_filter(l, e);
}

/* The combinations of state and party as one condition. */
void list_add_scans(struct listing *l)
{
    if (!l->scans.restricted)
        return;
    sql_add(&l->sql, " AND j.state * 4294967296 + j.party IN (");
    for (size_t i = 0; i < l->scans.all.n; i++) {
        const struct job_scan *scan = &l->scans.all.p[i];
        sql_add(&l->sql, i ? ", " : "");
        sql_int(&l->sql, (int64_t)((uint64_t)scan->state << 32) + (int64_t)scan->party);
    }
    sql_add(&l->sql, ")");
}

static void add_order(struct listing *l, const char *key, const char *seq, size_t limit)
{
    const char *direction = l->q->desc ? " DESC" : "";

    sql_add(&l->sql, " ORDER BY ");
    if (l->sort->key) {
        if (l->q->by) {
            sql_add(&l->sql, key);
            sql_add(&l->sql, " IS NULL, ");
        }
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
    list_add_scans(l);
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

/* Which readings of the column's name there are. */
static int list_look_at(struct listing *l, struct store *s, struct err *e)
{
    const struct job_column *c = l->q->by;

    if (sql_look_at(l->db, c, &l->named, e) < 0)
        return -1;
    if (c->kind == JOB_COLUMN_TAG)
        return 0;
    if (c->kind == JOB_COLUMN_METRIC)
        l->named.submitted = false;
    else if (param_names_has(s->names, l->db, c->param, &l->named.submitted, e) < 0)
        return -1;
    /* To a user who sees only their own jobs, a name that only others use is one of theirs. */
    if (l->named.measured || l->named.logged || l->named.submitted || l->q->only_uid)
        return 0;
    return err_set(
        e, ERR_INVALID,
        "cannot sort by '%.60s': no job has a parameter or a metric of that name; fields "
        "are id, name, state, priority, created, started, ended, duration, exit_code",
        c->text);
}

/* listing_close must follow, also after an error. */
static int listing_open(struct listing *l, struct store *s, const struct job_query *q,
                        struct err *e)
{
    const char *name = q->sort && *q->sort ? q->sort : "id";

    *l = (struct listing){.q = q, .names = s->names};
    sql_init(&l->sql);
    for (size_t i = 0; i < ARRAY_SIZE(sorts); i++)
        if (!strcmp(sorts[i].name, name))
            l->sort = &sorts[i];
    if (q->by)
        l->sort = &by_column;
    if (!l->sort)
        return err_set(e, ERR_INVALID,
                       "cannot sort by \"%.60s\"; use id, name, state, priority, created, started, "
                       "ended, duration or exit_code",
                       name);
    l->at.now_ms = clock_wall(&clock_system);
    if (cursor_parse(l, e) < 0)
        return -1;
    l->db = pool_borrow(&s->pool, e);
    if (!l->db || (q->by && list_look_at(l, s, e) < 0))
        return -1;
    return scans_find(&l->scans, l->db, q, e);
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

/* The key of the row on which the statement stands. */
static void remember_key(const struct listing *l, sqlite3_stmt *st, struct cursor *c)
{
    if (!l->sort->key)
        return;
    int type = sqlite3_column_type(st, 1);
    if (l->q->by) {
        c->type = type == SQLITE_NULL      ? 'n'
                  : type == SQLITE_TEXT    ? 't'
                  : type == SQLITE_INTEGER ? 'i'
                                           : 'r';
        c->real = c->type == 'r' ? sqlite3_column_double(st, 1) : 0;
    }
    if (l->sort->text || c->type == 't')
        c->text = xstrdup(column_str(st, 1).p);
    else
        c->key = sqlite3_column_int64(st, 1);
}

int list_put(struct list_page *p, sqlite3_stmt *st, struct err *e)
{
    struct job_view v;

    if (p->n++ == p->l->q->limit) {
        p->next = cursor_format(p->l, &p->last);
        return 0;
    }
    p->last.seq = column_u64(st, 0);
    free(p->last.text);
    p->last.text = NULL;
    remember_key(p->l, st, &p->last);
    int rc = view_read(&p->views, p->last.seq, &v, e);
    return rc < 0 ? -1 : rc == 1 && !p->fn(p->arg, &v) ? 0 : 1;
}

/* Asks for one job more than the page has: if it comes, there is another page and a cursor. */
static int list_put_rest(struct list_page *p, struct err *e)
{
    struct listing *l = p->l;
    struct err ie = {0};
    sqlite3_stmt *st = listing_start(l, l->q->limit + 1 - p->n, &ie);
    int rc = 0;

    if (!st) {
        if (ie.code && e)
            *e = ie;
        return ie.code ? -1 : 0;
    }
    while ((rc = db_step(l->db, st, e)) == 1 && (rc = list_put(p, st, e)) == 1)
        ;
    sqlite3_reset(st);
    return rc;
}

/* In the order of a metric those that have it come first, by its index. */
static int list_page(struct list_page *p, struct err *e)
{
    struct listing *l = p->l;
    int rc = 1;

    if (list_by_metric(l) && l->at.type != 'n') {
        rc = list_put_measured(p, e);
        l->at.type = 'n';
        l->at.seq = l->q->desc ? INT64_MAX : 0;
        l->at.set = true;
    }
    if (rc == 1)
        rc = list_put_rest(p, e);
    free(p->last.text);
    view_done(&p->views);
    return rc < 0 ? -1 : 0;
}

int store_jobs(struct store *s, const struct job_query *q, job_view_fn fn, void *arg,
               char **out_cursor, struct err *e)
{
    struct listing l;
    int rc = listing_open(&l, s, q, e);
    struct list_page page = {
        .l = &l, .views = {.db = l.db}, .last = {.now_ms = l.at.now_ms}, .fn = fn, .arg = arg};

    if (rc == 0 && (q->limit < 1 || q->limit > 10000))
        rc = err_set(e, ERR_INVALID, "a page has 1 to 10000 jobs, not %zu", q->limit);
    if (rc == 0)
        rc = list_page(&page, e);
    listing_close(&l, s);
    if (rc == 0 && out_cursor)
        *out_cursor = TAKE(page.next);
    free(page.next);
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
    plain.by = NULL;
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
