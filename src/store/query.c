/* query.c - reading one job's things: view, spec, dependencies, runs, events, keys */
#include "base/util.h"
#include "store/query_priv.h"

/* The same words wherever a single job is asked for. */
static int no_such_job(uint64_t seq, struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "there is no job %llu; `berth ls` lists the jobs",
                   (unsigned long long)seq);
}

int store_job(struct store *s, uint64_t seq, job_view_fn fn, void *arg, struct err *e)
{
    struct view_reader r = {.db = pool_borrow(&s->pool, e)};
    struct job_view v;
    int rc = r.db ? view_read(&r, seq, &v, e) : -1;

    if (rc == 1)
        fn(arg, &v);
    if (rc == 0)
        no_such_job(seq, e);
    view_done(&r);
    pool_return(&s->pool, r.db);
    return rc == 1 ? 0 : -1;
}

int store_job_spec(struct store *s, uint64_t seq, char **out_json, struct err *e)
{
    bool old;

    return store_job_spec_age(s, seq, out_json, &old, e);
}

int store_job_spec_age(struct store *s, uint64_t seq, char **out_json, bool *out_old, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT s.body, s.sealed IS NULL FROM job j JOIN spec s ON"
                                " s.seq = j.spec WHERE j.seq = ?1",
                                INT(seq));
    int rc = db_step(d, st, e);

    if (rc == 1) {
        struct str body = column_str(st, 0);
        *out_json = xstrndup(body.p, body.n);
        *out_old = sqlite3_column_int(st, 1) != 0;
    }
    if (rc == 0)
        no_such_job(seq, e);
    pool_return(&s->pool, d);
    return rc == 1 ? 0 : -1;
}

int store_snapshot_used(struct store *s, const char *id, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT 1 FROM spec WHERE snapshot = ?1 UNION ALL SELECT 1 FROM"
                                " schedule WHERE instr(def, ?1) LIMIT 1",
                                TEXT(str_of(id)));
    int rc = db_step(d, st, e);

    pool_return(&s->pool, d);
    return rc;
}

int store_job_deps(struct store *s, uint64_t seq, uint64_t **out, size_t *out_n, struct err *e)
{
    VEC(uint64_t) found = {0};
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st =
        db_query(d, e, "SELECT other FROM dep WHERE job = ?1 ORDER BY other", INT(seq));
    int rc;

    while ((rc = db_step(d, st, e)) == 1)
        vec_push(&found, column_u64(st, 0));
    pool_return(&s->pool, d);
    if (rc < 0) {
        vec_done(&found);
        return -1;
    }
    *out = found.p;
    *out_n = found.n;
    return 0;
}

int store_runs(struct store *s, uint64_t job, bool (*fn)(void *arg, const struct run_view *v),
               void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st =
        db_query(d, e,
                 "SELECT run, node, detail, why, wait_status, sys, gpus, devices, pid,"
                 " placed_ms, started_ms, ended_ms, max_rss_bytes,"
                 " cpu_user_ms, cpu_sys_ms FROM run WHERE job = ?1"
                 " ORDER BY run",
                 INT(job));
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        struct run_outcome o = {0};
        struct run_view v = {
            .key.job = job, .ended = sqlite3_column_type(st, 3) != SQLITE_NULL, .exit_code = -1};
        db_row(st, COL(&v.key.run), COL(&v.node), COL(&v.detail), COL(&v.why), COL(&o.wait_status),
               COL(&o.sys), COL(&v.gpus), COL(&v.pid), COL(&v.placed_ms), COL(&v.started_ms),
               COL(&v.ended_ms), COL(&v.max_rss_bytes), COL(&v.cpu_user_ms), COL(&v.cpu_sys_ms));
        o.why = v.why;
        o.started_ms = v.started_ms;
        if (v.ended)
            v.exit_code = run_outcome_exit_code(&o);
        if (!fn(arg, &v))
            break;
    }
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}

/* Events of one job: its own, and those about a range that holds it. */
static const char events_of_job[] =
    "SELECT seq, at_ms, kind, first, last, data FROM event WHERE seq IN ("
    " SELECT seq FROM event INDEXED BY event_job WHERE first = ?3 AND first > 0 AND seq > ?1"
    " UNION SELECT seq FROM event INDEXED BY event_range"
    "  WHERE last > first AND first <= ?3 AND last >= ?3 AND seq > ?1) ORDER BY seq LIMIT ?2";
static const char events_of_all[] = "SELECT seq, at_ms, kind, first, last, data FROM event"
                                    " WHERE seq > ?1 ORDER BY seq LIMIT ?2";

int store_events(struct store *s, uint64_t after, size_t limit, uint64_t job,
                 bool (*fn)(void *arg, const struct event_view *v), void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    struct db_arg all = INT(limit ? (int64_t)limit : -1);
    sqlite3_stmt *st = job ? db_query(d, e, events_of_job, INT(after), all, INT(job))
                           : db_query(d, e, events_of_all, INT(after), all);
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        struct event_view v;
        int kind;
        db_row(st, COL(&v.seq), COL(&v.at_ms), COL(&kind), COL(&v.first), COL(&v.last),
               COL(&v.data));
        v.kind = str_of(event_kind_name(kind));
        if (!v.data.n)
            v.data = STR("{}");
        if (!fn(arg, &v))
            break;
    }
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}

int store_idempotent(struct store *s, uint32_t uid, struct str key, struct idempotent *out,
                     struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st =
        db_query(d, e, "SELECT first, n, batch, print FROM idempotency WHERE uid = ?1 AND key = ?2",
                 INT(uid), TEXT(key));
    int rc = db_step(d, st, e);

    if (rc == 1)
        db_row(st, COL(&out->first), COL(&out->n), COL(&out->batch), COL(&out->print));
    pool_return(&s->pool, d);
    return rc;
}
