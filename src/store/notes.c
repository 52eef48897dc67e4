/* notes.c - reading what people wrote: notes, projects with their descriptions */
#include "base/util.h"
#include "store/query_priv.h"
#include "store/track.h"

int store_notes(struct store *s, struct str project, uint64_t job,
                bool (*fn)(void *arg, const struct note_view *v), void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    int rc;
    sqlite3_stmt *st =
        db_query(d, e,
                 job ? "SELECT seq, ifnull(job, 0), project, author, text, at_ms FROM note"
                       " WHERE job = ?1 ORDER BY seq"
                     : "SELECT seq, ifnull(job, 0), project, author, text, at_ms FROM note"
                       " WHERE project = ?1 AND job IS NULL ORDER BY seq",
                 job ? INT(job) : TEXT(project));

    while ((rc = db_step(d, st, e)) == 1) {
        struct note_view v;
        db_row(st, COL(&v.seq), COL(&v.job), COL(&v.project), COL(&v.author), COL(&v.text),
               COL(&v.at_ms));
        if (!fn(arg, &v))
            break;
    }
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}

/* ---- projects ---- */

/* From the tally, so the cost does not grow with the jobs of the project. */
static int count_jobs(struct db *d, struct project_view *v, struct err *e)
{
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT t.state, sum(t.n) FROM party p JOIN tally t ON t.party ="
                                " p.seq WHERE p.project = ?1 GROUP BY 1",
                                TEXT(v->name));
    int rc;

    while ((rc = db_step(d, st, e)) == 1)
        if (column_u64(st, 0) < JOB_STATE_MAX)
            v->counts[column_u64(st, 0)] = column_u64(st, 1);
    return rc;
}

/* The statement stands on a project. */
static int project_tell(struct db *d, sqlite3_stmt *st, project_fn fn, void *arg, struct err *e)
{
    struct project_view v = {0};

    db_row(st, COL(&v.name), COL(&v.owner), COL(&v.uid), COL(&v.created_ms), COL(&v.description),
           COL(&v.notes));
    if (count_jobs(d, &v, e) < 0)
        return -1;
    return fn(arg, &v) ? 0 : 1;
}

#define PROJECT_COLUMNS                                                                            \
    "SELECT name, user, uid, created_ms, description,"                                             \
    " (SELECT count(*) FROM note n WHERE n.project = p.name AND n.job IS NULL) FROM project p"

int store_project_list(struct store *s, project_fn fn, void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st = db_query(d, e, PROJECT_COLUMNS " ORDER BY name");
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        rc = project_tell(d, st, fn, arg, e);
        if (rc)
            break;
    }
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}

int store_project(struct store *s, struct str name, project_fn fn, void *arg, struct err *e)
{
    struct db *d = pool_borrow(&s->pool, e);
    sqlite3_stmt *st = db_query(d, e, PROJECT_COLUMNS " WHERE name = ?1", TEXT(name));
    int rc = db_step(d, st, e);

    if (rc == 0)
        rc = err_set(e, ERR_NOT_FOUND,
                     "there is no project '%.*s'; `berth projects` lists the projects",
                     (int)MIN(name.n, 100), name.p);
    else if (rc == 1)
        rc = project_tell(d, st, fn, arg, e);
    pool_return(&s->pool, d);
    return rc < 0 ? -1 : 0;
}
