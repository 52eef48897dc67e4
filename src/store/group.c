/* group.c - projects, batches and queues with their counts; read from what is counted already */
#include "base/util.h"
#include "store/query_priv.h"

int store_batches(struct store *s, bool only_uid, uint32_t uid, uint64_t before, size_t limit,
                  bool (*fn)(void *arg, const struct batch_view *v), void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    int rc;
    sqlite3_stmt *st =
        db_query(d, e,
                 "SELECT seq, id, name, project, uid, slots, first_job, "
                 "n_jobs, created_ms" BATCH_COUNTS " FROM batch WHERE seq < ?1"
                 " AND (?2 < 0 OR uid = ?2) ORDER BY seq DESC LIMIT ?3",
                 INT(before ? before : INT64_MAX), INT(only_uid ? (int64_t)uid : -1), INT(limit));

    while ((rc = db_step(d, st, e)) == 1) {
        struct batch_view v;
        db_row(st, COL(&v.seq), COL(&v.id), COL(&v.name), COL(&v.project), COL(&v.uid),
               COL(&v.slots), COL(&v.first_job), COL(&v.n_jobs), COL(&v.created_ms));
        for (int i = 0; i < JOB_STATE_MAX; i++)
            v.counts[job_states[i]] = column_u64(st, 9 + i);
        if (!fn(arg, &v))
            break;
    }
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}

int store_queues(struct store *s, bool (*fn)(void *arg, struct str name, bool paused), void *arg,
                 struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    int rc;
    sqlite3_stmt *st =
        db_query(d, e,
                 "SELECT name, max(paused) FROM (SELECT name, paused = 1 AS paused FROM"
                 " queue UNION ALL SELECT queue, 0 FROM party)"
                 " GROUP BY name ORDER BY name");

    while ((rc = db_step(d, st, e)) == 1)
        if (!fn(arg, column_str(st, 0), sqlite3_column_int(st, 1)))
            break;
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}
