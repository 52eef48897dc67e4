/* apply_track.c - what jobs and people say about experiments becomes rows
 *
 * Owns: the tables mark, note and project, and what a report does to those of series_rows.c.
 *
 * Tags, parameters, artifacts and epochs are known once per name: the last value wins, the first
 * appearance gives the order.  Points and parameters make no event each: what a piece of the spool
 * brought of them is one event, which comes with its offset (apply_spool).
 */
#include "base/util.h"
#include "store/apply_priv.h"
#include "store/series_priv.h"
#include "store/track.h"

/* ---- marks ---- */

static int erase_mark(struct applier *a, const struct change *c, struct err *e)
{
    sqlite3_stmt *st =
        db_prepare(a->db, "DELETE FROM mark WHERE job = ?1 AND kind = ?2 AND name = ?3", e);
    if (!st)
        return -1;
    sqlite3_bind_int64(st, 1, (int64_t)c->key.job);
    sqlite3_bind_int(st, 2, c->report_kind);
    bind_str(st, 3, c->name);
    if (db_run(a->db, st, e) < 0)
        return -1;
    if (!sqlite3_changes(a->db->h))
        return 0;
    data_begin(a, c->user);
    data_str(a, "name", c->name);
    data_raw(a, STR("\"removed\":true"));
    return event_append(a, EVENT_REPORT_TAG, c->at_ms, c->key.job, c->key.job, e);
}

static int write_mark(struct applier *a, const struct change *c, struct err *e)
{
    sqlite3_stmt *st =
        db_prepare(a->db,
                   "INSERT INTO mark(job, kind, name, run, step, at_ms, text)"
                   " SELECT seq, ?2, ?3, ?4, ?5, ?6, ?7 FROM job WHERE seq = ?1"
                   " ON CONFLICT(job, kind, name) DO UPDATE SET run = ?4, step = ?5, at_ms = ?6,"
                   " text = ?7",
                   e);
    if (!st)
        return -1;
    sqlite3_bind_int64(st, 1, (int64_t)c->key.job);
    sqlite3_bind_int(st, 2, c->report_kind);
    bind_str(st, 3, c->name);
    sqlite3_bind_int64(st, 4, c->key.run);
    sqlite3_bind_int64(st, 5, c->step);
    sqlite3_bind_int64(st, 6, c->at_ms);
    bind_str(st, 7, c->text);
    return db_run(a->db, st, e);
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
    if (c->flag)
        return erase_mark(a, c, e);
    if (write_mark(a, c, e) < 0)
        return -1;
    if (!sqlite3_changes(a->db->h))
        return 0; /* no such job */
    if (c->report_kind == MARK_PARAM)
        return 0;
    data_begin(a, c->user);
    if (c->key.run)
        data_int(a, "run", c->key.run);
    data_str(a, "name", c->name);
    data_str(a, "text", c->text);
    if (c->step >= 0)
        data_int(a, "step", c->step);
    return event_append(a, mark_event(c->report_kind), c->at_ms, c->key.job, c->key.job, e);
}

/* ---- points ---- */

int apply_points(struct applier *a, const struct change *c, struct err *e)
{
    struct series_row row;
    int rc = series_open(a->db, c->key.job, c->name, &row, e);

    if (rc <= 0)
        return rc;
    if (c->flag)
        return series_append_text(a->db, &row, c->key.run, c->step, c->at_ms, c->text, e);
    size_t n = series_count(c->text);
    AUTO_FREE struct series_point *p = xcalloc(n + 1, sizeof(*p));
    if (!n || series_unpack(c->text, p, NULL) < 0)
        return 0; /* not a block: nothing that could be kept */
    return series_append(a->db, &row, c->key.run, p, n, e);
}

static int spool_event(struct applier *a, const struct change *c, struct err *e)
{
    data_begin(a, c->user);
    data_int(a, "run", c->key.run);
    data_raw(a, c->text);
    return event_append(a, EVENT_REPORT_METRIC, c->at_ms, c->key.job, c->key.job, e);
}

int apply_spool(struct applier *a, const struct change *c, struct err *e)
{
    sqlite3_stmt *st = db_prepare(a->db,
                                  "UPDATE run SET spool_offset = max(spool_offset, ?3)"
                                  " WHERE job = ?1 AND run = ?2",
                                  e);
    if (!st)
        return -1;
    sqlite3_bind_int64(st, 1, (int64_t)c->key.job);
    sqlite3_bind_int64(st, 2, c->key.run);
    sqlite3_bind_int64(st, 3, c->offset);
    if (db_run(a->db, st, e) < 0)
        return -1;
    return c->text.n && sqlite3_changes(a->db->h) ? spool_event(a, c, e) : 0;
}

/* ---- notes and projects ---- */

int project_first(struct applier *a, struct str project, uint32_t uid, struct str user,
                  int64_t at_ms, struct err *e)
{
    sqlite3_stmt *st = db_prepare(a->db,
                                  "INSERT INTO project(name, uid, user, created_ms)"
                                  " VALUES(?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
                                  e);
    if (!st)
        return -1;
    bind_str(st, 1, project);
    sqlite3_bind_int64(st, 2, uid);
    bind_str(st, 3, user);
    sqlite3_bind_int64(st, 4, at_ms);
    return db_run(a->db, st, e);
}

int apply_project(struct applier *a, const struct change *c, struct err *e)
{
    sqlite3_stmt *st;

    if (project_first(a, c->name, c->uid, c->user, c->at_ms, e) < 0)
        return -1;
    st = db_prepare(a->db, "UPDATE project SET description = ?2 WHERE name = ?1", e);
    if (!st)
        return -1;
    bind_str(st, 1, c->name);
    bind_str(st, 2, c->text);
    if (db_run(a->db, st, e) < 0)
        return -1;
    data_begin(a, c->user);
    data_str(a, "project", c->name);
    return event_append(a, EVENT_PROJECT_DESCRIBED, c->at_ms, 0, 0, e);
}

static int insert_note(struct applier *a, const struct change *c, struct err *e)
{
    /* Of a job: only if it is there, under its project. */
    sqlite3_stmt *st =
        db_prepare(a->db,
                   c->key.job ? "INSERT INTO note(job, project, author, at_ms, text)"
                                " SELECT j.seq, p.project, ?2, ?3, ?4 FROM job j JOIN party p"
                                " ON p.seq = j.party WHERE j.seq = ?1"
                              : "INSERT INTO note(project, author, at_ms, text)"
                                " VALUES(?1, ?2, ?3, ?4)",
                   e);
    if (!st)
        return -1;
    if (c->key.job)
        sqlite3_bind_int64(st, 1, (int64_t)c->key.job);
    else
        bind_str(st, 1, c->name);
    bind_str(st, 2, c->author);
    sqlite3_bind_int64(st, 3, c->at_ms);
    bind_str(st, 4, c->text);
    return db_run(a->db, st, e);
}

int apply_note(struct applier *a, const struct change *c, struct err *e)
{
    if (!c->key.job && project_first(a, c->name, c->uid, c->user, c->at_ms, e) < 0)
        return -1;
    if (insert_note(a, c, e) < 0)
        return -1;
    if (!sqlite3_changes(a->db->h))
        return 0;
    data_begin(a, c->user);
    if (!c->key.job)
        data_str(a, "project", c->name);
    data_str(a, "author", c->author);
    return event_append(a, EVENT_NOTE, c->at_ms, c->key.job, c->key.job, e);
}
