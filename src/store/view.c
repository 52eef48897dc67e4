/* view.c - one job as people see it, gathered from job, run, spec, batch and intake
 *
 * Jobs of a page mostly share spec, batch and id range: those are read again only when they change,
 * and their statements keep standing on the row, so that nothing is copied.
 */
#include "store/query_priv.h"

/* Moves the statement to the row `seq`, unless it stands there already. */
static int stand_on(struct view_reader *r, sqlite3_stmt **st, uint64_t *at, uint64_t seq,
                    const char *literal, struct err *e)
{
    if (*at == seq && *st)
        return 0;
    *st = db_query(r->db, e, literal, INT(seq));
    if (db_step(r->db, *st, e) < 0)
        return -1;
    *at = seq;
    return 0;
}

static int view_read_spec(struct view_reader *r, uint64_t spec, struct job_view *out, struct err *e)
{
    if (stand_on(r, &r->spec_st, &r->spec, spec,
                 "SELECT s.name, p.project, p.queue, p.user, p.uid, s.mcpu, s.mem_bytes, s.gpus,"
                 " s.slots, s.body -> '$.command', s.schedule FROM spec s JOIN party p ON p.seq = "
                 "s.party"
                 " WHERE s.seq = ?1",
                 e) < 0)
        return -1;
    struct str name;
    db_row(r->spec_st, COL(&name), COL(&out->project), COL(&out->queue), COL(&out->user),
           COL(&out->uid), COL(&out->need), COL(&out->origin.command), COL(&out->origin.schedule));
    if (!out->name.n)
        out->name = name;
    return 0;
}

static int read_batch(struct view_reader *r, struct job_view *out, struct err *e)
{
    out->batch.name = STR("");
    if (!out->batch.seq)
        return 0;
    if (stand_on(r, &r->batch_st, &r->batch, out->batch.seq,
                 "SELECT name, id FROM batch WHERE seq = ?1", e) < 0)
        return -1;
    out->batch.name = column_str(r->batch_st, 0);
    out->batch.id = column_id(r->batch_st, 1);
    return 0;
}

static int read_id(struct view_reader *r, struct job_view *out, struct err *e)
{
    if ((out->seq < r->first || out->seq > r->last) &&
        query_range(r->db, out->seq, &r->first, &r->last, &r->id, e) < 0)
        return -1;
    out->id = id_add(r->id, out->seq - r->first);
    return 0;
}

int view_read(struct view_reader *r, uint64_t seq, struct job_view *out, struct err *e)
{
    sqlite3_stmt *st =
        db_query(r->db, e,
                 "SELECT j.seq, j.state, j.spec, j.batch, j.idx, j.priority, j.attempt, j.cancel,"
                 " j.created_ms, j.started_ms, j.ended_ms, ifnull(j.exit_code, -1), j.name,"
                 " j.params, j.reason, r.max_rss_bytes, r.cpu_user_ms + r.cpu_sys_ms, j.training,"
                 " ifnull((SELECT sum(max(o.ended_ms - o.started_ms, 0)) FROM run o"
                 "  WHERE o.job = j.seq AND o.started_ms > 0 AND o.ended_ms > 0), 0)"
                 " FROM job j"
                 " LEFT JOIN run r ON r.job = j.seq AND r.run = j.attempt WHERE j.seq = ?1",
                 INT(seq));
    int rc = db_step(r->db, st, e);
    if (rc <= 0)
        return rc;
    uint64_t spec;
    *out = (struct job_view){0};
    db_row(st, COL(&out->seq), COL(&out->state), COL(&spec), COL(&out->batch.seq),
           COL(&out->batch.index), COL(&out->priority), COL(&out->attempt),
           COL(&out->cancel_requested), COL(&out->created_ms), COL(&out->started_ms),
           COL(&out->ended_ms), COL(&out->exit_code), COL(&out->name), COL(&out->params),
           COL(&out->reason), COL(&out->usage.max_rss_bytes), COL(&out->usage.cpu_ms),
           COL(&out->training), COL(&out->ran_ms));
    if (view_read_spec(r, spec, out, e) < 0 || read_batch(r, out, e) < 0 || read_id(r, out, e) < 0)
        return -1;
    return 1;
}

void view_done(struct view_reader *r)
{
    if (r->spec_st)
        sqlite3_reset(r->spec_st);
    if (r->batch_st)
        sqlite3_reset(r->batch_st);
}
