/* apply_study.c - studies and their trials: defined, asked, told, removed
 *
 * Owns: the tables study and trial.  A trial appears once and gets its result once: the core sees
 * to that, and what comes twice all the same changes nothing, since a change that fails would hold
 * up all that come after it.
 */
#include "base/json_out.h"
#include "model/hook.h"
#include "store/apply_priv.h"
#include <math.h>

int apply_study(struct applier *a, const struct change *c, struct err *e)
{
    const struct study_row *r = &c->study.row;

    return db_run(a->db, e,
                  "INSERT INTO study(seq, uid, gid, user, name, def, paused, created_ms)"
                  " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
                  " ON CONFLICT(seq) DO UPDATE SET def = ?6, paused = ?7"
                  " ON CONFLICT(uid, name) DO NOTHING",
                  INT(r->seq), INT(r->uid), INT(r->gid), TEXT(r->user), TEXT(r->name), TEXT(r->def),
                  INT(r->paused), INT(r->created_ms));
}

int apply_study_gone(struct applier *a, const struct change *c, struct err *e)
{
    return db_run(a->db, e, "DELETE FROM study WHERE seq = ?1", INT(c->study_gone.seq));
}

int apply_study_said(struct applier *a, const struct change *c, struct err *e)
{
    static const enum event_kind kinds[] = {
        [STUDY_SAID_CREATED] = EVENT_STUDY_CREATED, [STUDY_SAID_BEST] = EVENT_STUDY_BEST,
        [STUDY_SAID_ENDED] = EVENT_STUDY_ENDED,     [STUDY_SAID_PAUSED] = EVENT_STUDY_PAUSED,
        [STUDY_SAID_RESUMED] = EVENT_STUDY_RESUMED, [STUDY_SAID_REMOVED] = EVENT_STUDY_REMOVED};
    const struct change_study_said *s = &c->study_said;

    data_begin(a, c->user);
    data_str(a, "study", s->name);
    data_str(a, "owner", s->owner);
    data_int(a, "uid", s->uid);
    jw_members(&a->data, s->data);
    if (event_append(a, kinds[s->what], c->at_ms, 0, 0, e) < 0)
        return -1;
    if ((s->what == STUDY_SAID_ENDED || s->what == STUDY_SAID_RESUMED) &&
        db_run(a->db, e, "UPDATE study SET ended = ?2 WHERE seq = ?1", INT(s->seq),
               INT(s->what == STUDY_SAID_ENDED)) < 0)
        return -1;
    if (s->what != STUDY_SAID_ENDED)
        return 0;
    return hooks_of_study(a, s->seq, s->uid, s->good ? HOOK_SUCCESS : HOOK_FAILURE, c->at_ms, e);
}

static struct db_arg number_or_null(double v)
{
    return isnan(v) ? NONE : REAL(v);
}

/* The study may have been removed in the same turn. */
int apply_trial(struct applier *a, const struct trial_row *r, struct err *e)
{
    return db_run(
        a->db, e,
        "INSERT INTO trial(study, number, job, params, asked, told, state, value, hold,"
        " lease_s, results, parent) SELECT seq, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12"
        " FROM study WHERE seq = ?1"
        " ON CONFLICT(study, number) DO UPDATE SET state = ?7, hold = ?9, lease_s = ?10",
        INT(r->study), INT(r->number), INT(r->job), TEXT(r->params), INT(r->asked), INT(r->told),
        INT(r->state), number_or_null(r->value), INT(r->hold), INT(r->lease_s),
        TEXT_OR_NULL(r->values), INT(r->parent));
}

int apply_trial_submitted(struct applier *a, const struct submission *s, struct err *e)
{
    struct trial_row r = s->trial;

    r.job = s->jobs[0].seq;
    return apply_trial(a, &r, e);
}

int apply_trial_told(struct applier *a, const struct change *c, struct err *e)
{
    const struct trial_row *r = &c->trial_told.row;

    return db_run(a->db, e,
                  "UPDATE trial SET told = ?3, state = ?4, value = ?5, reason = ?6, results = ?7,"
                  " job = ?8 WHERE study = ?1 AND number = ?2 AND told = 0",
                  INT(r->study), INT(r->number), INT(r->told), INT(r->state),
                  number_or_null(r->value), TEXT_OR_NULL(r->reason), TEXT_OR_NULL(r->values),
                  INT(r->job));
}
