/* retain.c - which finished jobs are old, and what is forgotten with them
 *
 * Owns: choosing what is old enough.  Jobs are looked at from the oldest number on, up to the first
 * that was submitted after the limit: none behind it can have ended before.  The core removes them,
 * so that a retry and a removal of one job do not cross.
 */
#include "base/util.h"
#include "store/query_priv.h"

/* Adds the tags by which the files of the runs are named. */
static int name_runs(struct db *d, struct run_key *jobs, size_t n, struct err *e)
{
    uint64_t first = 1, last = 0;
    int64_t tagged;
    struct id id;

    if (db_int(d, "SELECT tagged FROM counter", &tagged, e) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        uint64_t job = jobs[i].job;
        if (job < (uint64_t)tagged)
            continue;
        if ((job < first || job > last) && query_range(d, job, &first, &last, &id, e) < 0)
            return -1;
        jobs[i].tag = run_tag(id_add(id, job - first));
    }
    return 0;
}

/* Up to `limit` finished jobs of the span, in order of their numbers. */
static int find_old(struct db *d, const struct ended_span *span, size_t limit, struct run_key *out,
                    size_t *out_n, struct err *e)
{
    int rc = 0;
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT seq, state, ended_ms, created_ms, attempt FROM job NOT"
                                " INDEXED WHERE seq > ?1 ORDER BY seq",
                                INT(span->after));
    *out_n = 0;
    while (*out_n < limit && (rc = db_step(d, st, e)) == 1) {
        int64_t ended_ms = sqlite3_column_int64(st, 2);
        if (sqlite3_column_int64(st, 3) >= span->before_ms)
            break;
        if (job_state_final((enum job_state)sqlite3_column_int(st, 1)) &&
            ended_ms >= span->from_ms && ended_ms < span->before_ms)
            out[(*out_n)++] =
                (struct run_key){column_u64(st, 0), (uint32_t)sqlite3_column_int64(st, 4), 0};
    }
    sqlite3_reset(st);
    return rc < 0 ? -1 : name_runs(d, out, *out_n, e);
}

int store_ended(struct store *s, const struct ended_span *span, size_t limit, struct run_key *out,
                size_t *out_n, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    int rc = d ? find_old(d, span, limit, out, out_n, e) : -1;

    pool_return(&s->pool, d);
    return rc;
}

void store_forget(struct store *s, int64_t before_ms, int64_t max_events)
{
    struct batch *b = batch_new();

    batch_stage(b, &(struct change){.kind = CHANGE_FORGET, .forget = {before_ms, max_events}});
    writer_queue_take(&s->writer, b);
}

/* ---- what is kept by name ---- */

int store_fact(struct store *s, const char *name, struct buf *out, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st = db_query(d, e, "SELECT value FROM fact WHERE name = ?1", TEXT(str_of(name)));
    int rc = db_step(d, st, e);

    if (rc == 1) {
        struct str text = column_str(st, 0);
        buf_add(out, text.p, text.n);
        sqlite3_reset(st);
    }
    pool_return(&s->pool, d);
    return MIN(rc, 0);
}

void store_fact_set(struct store *s, const char *name, struct str text, int64_t now_ms)
{
    struct batch *b = batch_new();

    batch_stage(b, &(struct change){.kind = CHANGE_FACT,
                                    .at_ms = now_ms,
                                    .fact = {.name = str_of(name), .value = text}});
    writer_queue_take(&s->writer, b);
}

int store_last_time(struct store *s, int64_t *out_ms, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    int rc = d ? db_int(d, "SELECT ifnull((SELECT at_ms FROM event ORDER BY seq DESC LIMIT 1), 0)",
                        out_ms, e)
               : -1;

    pool_return(&s->pool, d);
    return rc;
}
