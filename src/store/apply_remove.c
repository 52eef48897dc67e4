/* apply_remove.c - finished jobs leave, and what only they used leaves with them
 *
 * Owns: removing job (runs, reports and dependencies follow by foreign key), the spec, id range and
 * batch that nobody else needs, old events and old idempotency keys.
 *
 * Only finished jobs go: one that was retried since the request was made stays.  Numbers are never
 * used again (counter), and the newest event stays whatever its age, so its number is not either.
 */
#include "base/util.h"
#include "store/apply_priv.h"

struct victim {
    uint64_t seq, spec;
    struct member member;
    enum job_state state;
};
typedef VEC(struct victim) victims;

/* The finished jobs of the range are listed before any is deleted: a statement must not walk over
 * rows that change under it. */
static int find_victims(struct applier *a, uint64_t first, uint64_t last, victims *out,
                        struct err *e)
{
    int rc;
    sqlite3_stmt *st = db_query(a->db, e,
                                "SELECT seq, spec, party, batch, state FROM job NOT INDEXED"
                                " WHERE seq BETWEEN ?1 AND ?2 AND 1 << state & ?3",
                                INT(first), INT(last), INT(JOB_STATES_FINAL));
    while ((rc = db_step(a->db, st, e)) == 1)
        vec_push(out, ((struct victim){column_u64(st, 0),
                                       column_u64(st, 1),
                                       {column_u64(st, 2), column_u64(st, 3)},
                                       (enum job_state)sqlite3_column_int(st, 4)}));
    return rc;
}

static int run_with(struct applier *a, const char *literal, uint64_t key, struct err *e)
{
    return db_run(a->db, e, literal, INT(key));
}

/* Deletes the job and what only this job still used.  The intake row goes with the last job of its
 * range, so ids of removed jobs are not found any more. */
static int remove_one(struct applier *a, const struct victim *v, struct err *e)
{
    if (run_with(a, "DELETE FROM job WHERE seq = ?1", v->seq, e) < 0 ||
        run_with(a, "UPDATE spec SET jobs = jobs - 1 WHERE seq = ?1", v->spec, e) < 0 ||
        run_with(a, "DELETE FROM spec WHERE seq = ?1 AND jobs <= 0", v->spec, e) < 0)
        return -1;
    if (a->hooks.notifies && notify_forget_job(a, v->seq, e) < 0)
        return -1;
    tally_add(&a->tally, v->member, v->state, -1);
    if (run_with(a,
                 "DELETE FROM intake WHERE first = (SELECT max(first) FROM intake WHERE first <= "
                 "?1) AND NOT EXISTS(SELECT 1 FROM job WHERE seq BETWEEN intake.first AND "
                 "intake.last)",
                 v->seq, e) < 0)
        return -1;
    if (!v->member.batch)
        return 0;
    return run_with(a,
                    "DELETE FROM batch WHERE seq = ?1 AND NOT EXISTS(SELECT 1 FROM job WHERE seq"
                    " BETWEEN batch.first_job AND batch.first_job + batch.n_jobs - 1)",
                    v->member.batch, e);
}

int apply_remove(struct applier *a, const struct change *c, struct err *e)
{
    uint64_t first = c->remove.first, last = MAX(first, c->remove.last);
    victims v = {0};
    int rc = find_victims(a, first, last, &v, e);

    for (size_t i = 0; rc == 0 && i < v.n; i++)
        rc = remove_one(a, &v.p[i], e);
    if (rc == 0 && v.n) {
        data_begin(a, c->user);
        if (v.n > 1)
            data_int(a, "jobs", (int64_t)v.n);
        rc = event_append(a, EVENT_JOB_REMOVED, c->at_ms, first, last, e);
    }
    vec_done(&v);
    return rc;
}

/* Looks at the oldest max_events events only, so that one call stays short however many are old. */
int apply_forget(struct applier *a, const struct change *c, struct err *e)
{
    if (db_run(a->db, e,
               "DELETE FROM event WHERE seq IN (SELECT seq FROM event ORDER BY"
               " seq LIMIT ?2) AND at_ms < ?1"
               " AND seq < (SELECT max(seq) FROM event)",
               INT(c->forget.before_ms), INT(c->forget.max_events)) < 0)
        return -1;
    if (run_with(a, "DELETE FROM idempotency WHERE at_ms < ?1", (uint64_t)c->forget.before_ms, e) <
        0)
        return -1;
    return hooks_forget(a, e);
}
