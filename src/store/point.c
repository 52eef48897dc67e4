/* point.c - single jobs, read on the loop thread: a few microseconds each
 *
 * Owns: the loop thread's read connection.  Statements are reset before returning: one that stood
 * on its row would hold its snapshot and keep the log from being reused.
 */
#include "base/util.h"
#include "store/query_priv.h"
#include <math.h>

void point_init(struct point *p, const char *path)
{
    *p = (struct point){.path = xstrdup(path)};
}

void point_done(struct point *p)
{
    db_done(&p->db);
    FREE_EACH(p->path, p->queue, p->nodes, p->training);
}

struct db *point_db(struct point *p, struct err *e)
{
    if (!p->db.h && db_open(&p->db, p->path, DB_READER, e) < 0)
        return NULL;
    return &p->db;
}

static const char job_sql[] =
    "SELECT j.seq, j.spec, j.batch, j.idx, j.created_ms, j.next_try_ms, j.state, j.priority,"
    " j.attempt, j.tries, j.cancel, s.mcpu, s.mem_bytes, s.gpus, s.slots, s.timeout_ms,"
    " s.backoff_ms, s.retries, p.uid, p.queue, b.slots, i.first, i.id, j.training, s.nodes,"
    " s.retry_lost FROM job j"
    " JOIN spec s ON s.seq = j.spec JOIN party p ON p.seq = j.party"
    " LEFT JOIN batch b ON b.seq = j.batch"
    " JOIN intake i ON i.first = (SELECT max(first) FROM intake WHERE first <= ?1)"
    " WHERE j.seq = ?1";

/* The texts are copied because the statement is reset before the caller sees them; they live until
 * the next record is read. */
static void point_fill(struct point *p, sqlite3_stmt *st, struct job_record *out)
{
    struct str queue, training, nodes;
    uint64_t first;

    *out = (struct job_record){0};
    db_row(st, COL(&out->seq), COL(&out->spec), COL(&out->batch), COL(&out->index),
           COL(&out->created_ms), COL(&out->next_try_ms), COL(&out->state), COL(&out->priority),
           COL(&out->attempt), COL(&out->tries), COL(&out->cancel_requested), COL(&out->need),
           COL(&out->timeout_ms), COL(&out->backoff_ms), COL(&out->retries), COL(&out->uid),
           COL(&queue), COL(&out->batch_slots), COL(&first), COL(&out->id), COL(&training),
           COL(&nodes), COL(&out->retry_lost));
    out->id = id_add(out->id, out->seq - first);
    free(p->queue);
    p->queue = xstrndup(queue.p, queue.n);
    free(p->training);
    p->training = training.n ? xstrndup(training.p, training.n) : NULL;
    free(p->nodes);
    p->nodes = xstrndup(nodes.n ? nodes.p : "", nodes.n);
    out->queue = (struct str){p->queue, queue.n};
    out->nodes = (struct str){p->nodes, nodes.n};
    out->training = (struct str){p->training, training.n};
}

int point_job(struct point *p, uint64_t job, struct job_record *out, struct err *e)
{
    struct db *d = point_db(p, e);
    sqlite3_stmt *st = db_query(d, e, job_sql, INT(job));
    int rc = db_step(d, st, e);
    if (rc == 1)
        point_fill(p, st, out);
    sqlite3_reset(st);
    if (rc == 0)
        return err_set(e, ERR_NOT_FOUND, "there is no job %llu; `berth ls` lists the jobs",
                       (unsigned long long)job);
    if (rc == 1 && out->retry_lost)
        return query_lost_runs(d, job, &out->lost, e);
    return rc < 0 ? -1 : 0;
}

int point_deps(struct point *p, uint64_t job, uint64_t **out, size_t *out_n, struct err *e)
{
    VEC(uint64_t) found = {0};
    struct db *d = point_db(p, e);
    sqlite3_stmt *st =
        db_query(d, e, "SELECT other FROM dep WHERE job = ?1 ORDER BY other", INT(job));
    int rc;

    while ((rc = db_step(d, st, e)) == 1)
        vec_push(&found, column_u64(st, 0));
    if (rc < 0) {
        vec_done(&found);
        return -1;
    }
    *out = found.p;
    *out_n = found.n;
    return 0;
}

int point_metric(struct point *p, uint64_t job, struct str name, struct metric_facts *out,
                 struct err *e)
{
    struct db *d = point_db(p, e);
    sqlite3_stmt *st =
        db_query(d, e, "SELECT numbers, value, min, max FROM series WHERE job = ?1 AND name = ?2",
                 INT(job), TEXT(name));
    int rc = db_step(d, st, e);

    if (rc == 0)
        return err_set(e, ERR_NOT_FOUND, "job %llu reported no metric %.*s",
                       (unsigned long long)job, (int)MIN(name.n, 100), name.p);
    if (rc < 0)
        return -1;
    db_row(st, COL(&out->n), COL(&out->last), COL(&out->min), COL(&out->max));
    if (sqlite3_column_type(st, 1) == SQLITE_NULL) /* NaN, or a text */
        out->last = NAN;
    sqlite3_reset(st);
    return 0;
}
