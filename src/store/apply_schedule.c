/* apply_schedule.c - schedules: defined, settled up to a moment, removed
 *
 * Owns: the table of schedules.  The last settled moment grows with every submission and every
 * skipped moment; only a new definition may set it back.
 */
#include "store/apply_priv.h"

/* The core keeps names unique.  A second schedule of one name would be a mistake of the core and is
 * left out: a change that fails would hold up all that come after it. */
int apply_schedule(struct applier *a, const struct change *c, struct err *e)
{
    const struct schedule_row *r = &c->schedule.row;

    return db_run(a->db, e,
                  "INSERT INTO schedule(seq, uid, gid, user, name, def, paused, created_ms,"
                  " settled_s) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
                  " ON CONFLICT(seq) DO UPDATE SET def = ?6, paused = ?7, settled_s = ?9,"
                  " trouble = NULL ON CONFLICT(uid, name) DO NOTHING",
                  INT(r->seq), INT(r->uid), INT(r->gid), TEXT(r->user), TEXT(r->name), TEXT(r->def),
                  INT(r->paused), INT(r->created_ms), INT(r->settled_s));
}

int apply_schedule_settled(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_schedule_settled *s = &c->schedule_settled;

    return db_run(a->db, e,
                  "UPDATE schedule SET settled_s = max(settled_s, ?2), trouble = ?3 WHERE seq = ?1",
                  INT(s->seq), INT(s->settled_s), TEXT_OR_NULL(s->trouble));
}

int apply_schedule_gone(struct applier *a, const struct change *c, struct err *e)
{
    return db_run(a->db, e, "DELETE FROM schedule WHERE seq = ?1", INT(c->schedule_gone.seq));
}

int apply_schedule_fired(struct applier *a, const struct submission *s, struct err *e)
{
    if (!s->schedule.seq)
        return 0;
    return db_run(a->db, e,
                  "UPDATE schedule SET settled_s = max(settled_s, ?2), last_job = ?3, last_n = ?4,"
                  " trouble = NULL WHERE seq = ?1",
                  INT(s->schedule.seq), INT(s->schedule.settled_s), INT(s->jobs[0].seq),
                  INT(s->n_jobs));
}
