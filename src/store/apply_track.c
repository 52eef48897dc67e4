/* apply_track.c - what jobs and people say about experiments becomes rows
 *
 * Owns: the tables mark, note and project, and what a report does to those of series_rows.c.
 *
 * Tags, parameters, artifacts and epochs are known once per name: the last value wins, the first
 * appearance gives the order.  Points and parameters make no event each: what a piece of the spool
 * brought of them is one event, which comes with its offset (apply_spool).
 */
#include "base/json_out.h"
#include "base/util.h"
#include "store/apply_priv.h"
#include "store/series_priv.h"
#include "store/track.h"

/* ---- marks ---- */

int apply_mark_gone(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_mark_gone *m = &c->mark_gone;

    if (db_run(a->db, e, "DELETE FROM mark WHERE job = ?1 AND kind = ?2 AND name = ?3", INT(m->job),
               INT(m->kind), TEXT(m->name)) < 0)
        return -1;
    if (!sqlite3_changes(a->db->h))
        return 0;
    data_begin(a, c->user);
    data_str(a, "name", m->name);
    jw_bool(&a->data, "removed", true);
    return event_append(a, EVENT_REPORT_TAG, c->at_ms, m->job, m->job, e);
}

/* Inserts nothing for a job that is not there; the caller sees that by sqlite3_changes. */
static int write_mark(struct applier *a, const struct change_mark *m, int64_t at_ms, struct err *e)
{
    return db_run(a->db, e,
                  "INSERT INTO mark(job, kind, name, run, step, at_ms, text)"
                  " SELECT seq, ?2, ?3, ?4, ?5, ?6, ?7 FROM job WHERE seq = ?1"
                  " ON CONFLICT(job, kind, name) DO UPDATE SET run = ?4, step = ?5, at_ms = ?6,"
                  " text = ?7",
                  INT(m->key.job), INT(m->kind), TEXT(m->name), INT(m->key.run), INT(m->step),
                  INT(at_ms), TEXT(m->text));
}

static enum event_kind mark_event(char kind)
{
    switch (kind) {
    case MARK_TAG:
        return EVENT_REPORT_TAG;
    case MARK_ARTIFACT:
        return EVENT_REPORT_ARTIFACT;
    default:
        return EVENT_REPORT_EPOCH;
    }
}

int apply_mark(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_mark *m = &c->mark;

    if (write_mark(a, m, c->at_ms, e) < 0)
        return -1;
    if (!sqlite3_changes(a->db->h))
        return 0; /* no such job */
    if (m->kind == MARK_PARAM)
        return 0;
    data_begin(a, c->user);
    if (m->key.run)
        data_int(a, "run", m->key.run);
    data_str(a, "name", m->name);
    data_str(a, "text", m->text);
    if (m->step >= 0)
        data_int(a, "step", m->step);
    return event_append(a, mark_event(m->kind), c->at_ms, m->key.job, m->key.job, e);
}

/* ---- points ---- */

int apply_points(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_points *x = &c->points;
    struct series_row row;
    int rc = series_open(a->db, x->key.job, x->name, &row, e);

    if (rc <= 0)
        return rc;
    size_t n = series_count(x->block);
    AUTO_FREE struct series_point *p = xcalloc(n + 1, sizeof(*p));
    if (!n || series_unpack(x->block, p, NULL) < 0)
        return 0; /* not a block: nothing that could be kept */
    return series_append(a->db, &row, x->key.run, p, n, e);
}

int apply_text_point(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_text_point *x = &c->text_point;
    struct series_row row;
    int rc = series_open(a->db, x->key.job, x->name, &row, e);

    if (rc <= 0)
        return rc;
    return series_append_text(a->db, &row, x->key.run, x->step, c->at_ms, x->text, e);
}

static int spool_event(struct applier *a, const struct change *c, struct err *e)
{
    data_begin(a, c->user);
    data_int(a, "run", c->spool.key.run);
    jw_members(&a->data, c->spool.summary);
    return event_append(a, EVENT_REPORT_METRIC, c->at_ms, c->spool.key.job, c->spool.key.job, e);
}

int apply_spool(struct applier *a, const struct change *c, struct err *e)
{
    if (db_run(a->db, e,
               "UPDATE run SET spool_offset = max(spool_offset, ?3)"
               " WHERE job = ?1 AND run = ?2",
               INT(c->spool.key.job), INT(c->spool.key.run), INT(c->spool.offset)) < 0)
        return -1;
    return c->spool.summary.n && sqlite3_changes(a->db->h) ? spool_event(a, c, e) : 0;
}

/* ---- notes and projects ---- */

int project_first(struct applier *a, struct str project, uint32_t uid, struct str user,
                  int64_t at_ms, struct err *e)
{
    return db_run(a->db, e,
                  "INSERT INTO project(name, uid, user, created_ms)"
                  " VALUES(?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
                  TEXT(project), INT(uid), TEXT(user), INT(at_ms));
}

int apply_project(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_project *p = &c->project;

    if (project_first(a, p->name, p->uid, c->user, c->at_ms, e) < 0)
        return -1;
    if (db_run(a->db, e, "UPDATE project SET description = ?2 WHERE name = ?1", TEXT(p->name),
               TEXT(p->description)) < 0)
        return -1;
    data_begin(a, c->user);
    data_str(a, "project", p->name);
    return event_append(a, EVENT_PROJECT_DESCRIBED, c->at_ms, 0, 0, e);
}

static int insert_note(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_note *n = &c->note;

    /* Of a job: only if it is there, under its project. */
    return db_run(a->db, e,
                  n->job ? "INSERT INTO note(job, project, author, at_ms, text)"
                           " SELECT j.seq, p.project, ?2, ?3, ?4 FROM job j JOIN party p"
                           " ON p.seq = j.party WHERE j.seq = ?1"
                         : "INSERT INTO note(project, author, at_ms, text)"
                           " VALUES(?1, ?2, ?3, ?4)",
                  n->job ? INT(n->job) : TEXT(n->project), TEXT(n->author), INT(c->at_ms),
                  TEXT(n->text));
}

int apply_note(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_note *n = &c->note;

    if (!n->job && project_first(a, n->project, n->uid, c->user, c->at_ms, e) < 0)
        return -1;
    if (insert_note(a, c, e) < 0)
        return -1;
    if (!sqlite3_changes(a->db->h))
        return 0;
    data_begin(a, c->user);
    if (!n->job)
        data_str(a, "project", n->project);
    data_str(a, "author", n->author);
    return event_append(a, EVENT_NOTE, c->at_ms, n->job, n->job, e);
}
