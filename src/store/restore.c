/* restore.c - the database of a backup, fitted to what has happened since
 *
 * Both databases have the same schema, because the copy is migrated and a present one of another
 * version is not used.  The present one is attached as `now` and only read.  When it turns out to
 * be damaged, what was taken from it is undone, and the traces of runs in locks and journals have
 * to do.  The copy belongs to nobody else until it is done, so a failure needs no way back.
 */
#include "store/restore.h"
#include "base/util.h"
#include "store/check_priv.h"
#include "store/migrate_priv.h"
#include "store/query_priv.h"
#include "store/store_priv.h"

/* The id of the job in the schema, as text. */
#define JOB_ID(schema)                                                                             \
    "(SELECT job_id(i.id, j.seq - i.first) FROM " schema ".intake i WHERE i.first <= j.seq"        \
    " ORDER BY i.first DESC LIMIT 1)"
#define WENT_ON " IN (SELECT seq FROM temp.went_on)"
#define SET_COUNT(up, low, number, kind)                                                           \
    ", n" #number "= (SELECT count(*) FROM job WHERE job.seq BETWEEN first_job AND first_job +"    \
    " n_jobs - 1 AND job.batch = batch.seq AND state = " #number ")"

static const char find_sql[] =
    "CREATE TEMP TABLE went_on(seq INTEGER PRIMARY KEY);"
    "CREATE TEMP TABLE newer(seq INTEGER PRIMARY KEY, state INTEGER NOT NULL);";

/* A number means the same job only when the id is the same. */
static const char went_on_sql[] =
    "INSERT INTO temp.went_on SELECT j.seq FROM main.job j JOIN now.job n ON n.seq = j.seq"
    " WHERE (1 << j.state & ?1 OR n.attempt > j.attempt) AND " JOB_ID("main") " = " JOB_ID("now");
static const char newer_sql[] =
    "INSERT INTO temp.newer SELECT n.seq, n.state FROM now.job n WHERE n.seq >="
    " (SELECT job FROM main.counter) AND NOT EXISTS(SELECT 1 FROM main.job j WHERE j.seq = n.seq)";

/* Party, spec and batch stay as the backup has them: their numbers belong to it. */
static const char carry_sql[] =
    "DELETE FROM main.run WHERE job" WENT_ON ";"
    "INSERT INTO main.run SELECT * FROM now.run WHERE job" WENT_ON ";"
    "DELETE FROM main.ahead WHERE job" WENT_ON ";"
    "INSERT INTO main.ahead SELECT * FROM now.ahead WHERE job" WENT_ON ";"
    "DELETE FROM main.dep WHERE job" WENT_ON ";"
    "INSERT INTO main.dep SELECT * FROM now.dep WHERE job" WENT_ON ";"
    "UPDATE main.job SET (state, priority, attempt, tries, cancel, deps, started_ms, ended_ms,"
    " next_try_ms, exit_code, reason, training) = (SELECT state, priority, attempt, tries, cancel,"
    " deps, started_ms, ended_ms, next_try_ms, exit_code, reason, training FROM now.job n"
    " WHERE n.seq = main.job.seq) WHERE seq" WENT_ON ";"
    "DELETE FROM main.mark WHERE job" WENT_ON ";"
    "INSERT INTO main.mark(job, kind, name, run, step, at_ms, text) SELECT job, kind, name, run,"
    " step, at_ms, text FROM now.mark WHERE job" WENT_ON " ORDER BY seq;"
    "DELETE FROM main.series WHERE job" WENT_ON ";"
    "INSERT INTO main.series(job, name, n, numbers, step_min, step_max, at_min, at_max, min, max,"
    " low_step, high_step, first, sum, counted, run, step, at_ms, value, text) SELECT job, name, n,"
    " " SERIES_STATS ", run, step, at_ms, value, text FROM now.series WHERE job" WENT_ON ";"
    "INSERT INTO main.block SELECT m.seq, b.first, b.n, b.run, b.step_min, b.step_max, b.at_min,"
    " b.at_max, b.data FROM now.block b JOIN now.series s ON s.seq = b.series JOIN main.series m"
    " ON m.job = s.job AND m.name = s.name WHERE s.job" WENT_ON ";"
    "INSERT INTO main.word SELECT m.seq, w.idx, w.run, w.step, w.at_ms, w.text FROM now.word w"
    " JOIN now.series s ON s.seq = w.series JOIN main.series m ON m.job = s.job AND"
    " m.name = s.name WHERE s.job" WENT_ON ";"
    /* Moments of schedules that have passed are not repeated, nor messages that were sent. */
    "UPDATE main.schedule SET settled_s = max(settled_s, ifnull((SELECT n.settled_s FROM"
    " now.schedule n WHERE n.uid = main.schedule.uid AND n.name = main.schedule.name), 0));"
    "DELETE FROM main.delivery WHERE seq NOT IN (SELECT seq FROM now.delivery);"
    "DELETE FROM main.sqlite_sequence WHERE name = 'delivery' AND seq < (SELECT n.seq FROM"
    " now.sqlite_sequence n WHERE n.name = 'delivery');"
    "INSERT INTO main.sqlite_sequence SELECT name, seq FROM now.sqlite_sequence n WHERE"
    " n.name = 'delivery' AND NOT EXISTS(SELECT 1 FROM main.sqlite_sequence m WHERE"
    " m.name = 'delivery');"
    "UPDATE main.counter SET job = max(job, (SELECT job FROM now.counter)), spec = max(spec,"
    " (SELECT spec FROM now.counter)), batch = max(batch, (SELECT batch FROM now.counter));";

/* A job that waited in the backup and was removed since comes back, but does not run by itself. */
static const char hold_sql[] =
    "UPDATE main.job SET state = ?1, reason = 'restored from a backup; it had been removed since'"
    " WHERE 1 << state & ?2 AND NOT EXISTS(SELECT 1 FROM now.job n WHERE n.seq = main.job.seq)";
static const char held_sql[] =
    "INSERT INTO temp.went_on SELECT seq FROM main.job j WHERE state = ?1 AND NOT EXISTS(SELECT 1"
    " FROM now.job n WHERE n.seq = j.seq)";

/* After jobs have changed their states. */
static const char recount_sql[] =
    "DELETE FROM main.tally WHERE party IN (SELECT party FROM main.job WHERE seq" WENT_ON ");"
    "INSERT INTO main.tally SELECT party, state, count(*) FROM main.job WHERE party IN (SELECT"
    " party FROM main.job WHERE seq" WENT_ON ") GROUP BY party, state;"
    "UPDATE main.batch SET n_jobs = n_jobs" JOB_STATE_LIST(
        SET_COUNT) " WHERE seq IN (SELECT batch"
                   " FROM main.job WHERE seq" WENT_ON ");";

/* ---- with a present database ---- */

static int attach_present(struct db *d, const char *path, struct err *e)
{
    int64_t version, app;

    if (db_run(d, e, "ATTACH ?1 AS now", TEXT(str_of(path))) < 0 ||
        db_int(d, "PRAGMA now.application_id", &app, e) < 0 ||
        db_int(d, "PRAGMA now.user_version", &version, e) < 0)
        return -1;
    if (app != SCHEMA_APPLICATION)
        return err_set(e, ERR_INVALID, "%s is empty or of another program", path);
    if ((size_t)version != n_migrations)
        return err_set(e, ERR_INVALID,
                       "%s has schema %lld, this berth %zu: start the daemon once to upgrade it",
                       path, (long long)version, n_migrations);
    return 0;
}

static int carry(struct db *d, struct store_restored *out, struct err *e)
{
    if (db_run(d, e, went_on_sql, INT(JOB_STATES_ACTIVE)) < 0 || db_run(d, e, newer_sql) < 0 ||
        db_int(d,
               "SELECT count(*) FROM main.job j WHERE NOT EXISTS(SELECT 1 FROM now.job n WHERE"
               " n.seq = j.seq)",
               &out->returned, e) < 0)
        return -1;
    if (db_exec(d, carry_sql, e) < 0 ||
        db_run(d, e, hold_sql, INT(JOB_HELD), INT(1 << JOB_QUEUED)) < 0)
        return -1;
    return db_run(d, e, held_sql, INT(JOB_HELD));
}

/* A damaged database is found out while it is read; what was taken from it until then is undone. */
static int use_present(struct db *d, const char *path, struct store_restored *out, struct err *e)
{
    struct err why = {0};
    int rc = attach_present(d, path, &why);

    if (rc == 0 && db_exec(d, "SAVEPOINT present", e) < 0)
        return -1;
    if (rc == 0) {
        rc = carry(d, out, &why);
        if (rc < 0) {
            out->returned = 0;
            if (db_exec(d, "ROLLBACK TO present", e) < 0)
                return -1;
        }
        if (db_exec(d, "RELEASE present", e) < 0)
            return -1;
    }
    out->present_read = rc == 0;
    snprintf(out->trouble, sizeof(out->trouble), "%s", why.text);
    return 0;
}

/* ---- without one ---- */

/* The next daemon asks the shepherd what became of the run, as after a crash. */
static int open_run(struct db *d, const struct restore_trace *t, int64_t wall_ms, struct err *e)
{
    if (db_run(d, e,
               "INSERT INTO run(job, run, placed_ms, journal, gpus, node) SELECT ?1, ?2, ?3, ?4,"
               " 0, name FROM node WHERE conf IS NULL LIMIT 1",
               INT(t->key.job), INT(t->key.run), INT(wall_ms), INT(t->journal)) < 0)
        return -1;
    return db_run(d, e,
                  "UPDATE job SET state = ?2, tries = tries + ?3 - attempt, attempt = ?3"
                  " WHERE seq = ?1",
                  INT(t->key.job), INT(JOB_STARTING), INT(t->key.run));
}

/* Is the trace one of this job, and not of another one that had its number?  1, 0 or -1. */
static int trace_is_of_job(struct db *d, const struct restore_trace *t, struct err *e)
{
    uint64_t first, last;
    int64_t tagged;
    struct id id;

    if (db_int(d, "SELECT tagged FROM main.counter", &tagged, e) < 0 ||
        query_range(d, t->key.job, &first, &last, &id, e) < 0)
        return -1;
    uint32_t tag = t->key.job < (uint64_t)tagged ? 0 : run_tag(id_add(id, t->key.job - first));
    return tag == t->key.tag;
}

/* A job that waited in the backup and has a trace of a later run is not run again. */
static int use_trace(struct db *d, const struct restore_trace *t, int64_t wall_ms, struct err *e)
{
    sqlite3_stmt *st =
        db_query(d, e, "SELECT state, attempt FROM job WHERE seq = ?1", INT(t->key.job));
    int32_t state, attempt;
    int rc = db_step(d, st, e);

    if (rc <= 0)
        return rc;
    db_row(st, COL(&state), COL(&attempt));
    sqlite3_reset(st);
    rc = (uint32_t)attempt >= t->key.run ? 0 : trace_is_of_job(d, t, e);
    if (rc <= 0)
        return rc;
    if (job_state_waits((enum job_state)state) && t->journal) {
        if (db_run(d, e, "DELETE FROM ahead WHERE job = ?1", INT(t->key.job)) < 0)
            return -1;
        return open_run(d, t, wall_ms, e);
    }
    if (!job_state_final((enum job_state)state))
        return 0; /* its recorded run comes first; the next one is found as it is started */
    return db_run(d, e, "UPDATE job SET attempt = ?2 WHERE seq = ?1", INT(t->key.job),
                  INT(t->key.run));
}

static int use_traces(struct db *d, const struct store_restore_conf *conf, struct err *e)
{
    if (db_run(d, e, "INSERT INTO temp.went_on SELECT seq FROM main.job WHERE 1 << state & ?1",
               INT(JOB_STATES_ACTIVE)) < 0)
        return -1;
    for (size_t i = 0; i < conf->n_traces; i++)
        if (use_trace(d, &conf->traces[i], conf->wall_ms, e) < 0)
            return -1;
    return 0;
}

/* ---- the result ---- */

static int read_lists(struct db *d, struct store_restored *out, struct err *e)
{
    VEC(struct restore_job) newer = {0};
    VEC(uint64_t) went_on = {0};
    sqlite3_stmt *st = db_query(d, e, "SELECT seq, state FROM temp.newer ORDER BY seq");
    int rc;

    while ((rc = db_step(d, st, e)) == 1)
        vec_push(&newer, ((struct restore_job){column_u64(st, 0),
                                               (enum job_state)sqlite3_column_int(st, 1)}));
    st = rc < 0 ? NULL : db_query(d, e, "SELECT seq FROM temp.went_on ORDER BY seq");
    while (rc == 0 && (rc = db_step(d, st, e)) == 1) {
        vec_push(&went_on, column_u64(st, 0));
        rc = 0;
    }
    out->newer = newer.p;
    out->n_newer = newer.n;
    out->went_on = went_on.p;
    out->n_went_on = went_on.n;
    if (rc < 0)
        return -1;
    int64_t next = 0;
    if (db_int(d, "SELECT job FROM main.counter", &next, e) < 0 ||
        db_int(d, "SELECT count(*) FROM main.job", &out->jobs, e) < 0)
        return -1;
    out->next_job = (uint64_t)next;
    return 0;
}

static int restore_db(struct db *d, const struct store_restore_conf *conf,
                      struct store_restored *out, struct err *e)
{
    if (db_exec(d, find_sql, e) < 0)
        return -1;
    if (conf->present && use_present(d, conf->present, out, e) < 0)
        return -1;
    if (!out->present_read && use_traces(d, conf, e) < 0)
        return -1;
    if (db_exec(d, recount_sql, e) < 0 ||
        db_run(d, e, "UPDATE main.counter SET job = max(job, ?1)", INT(conf->used_job + 1)) < 0)
        return -1;
    return read_lists(d, out, e);
}

/* SQLite's own check of every page: a backup may have lain on a bad disk for a year. */
static int check_copy(struct db *d, struct err *e)
{
    sqlite3_stmt *st = db_query(d, e, "PRAGMA quick_check(" FINDINGS_MANY ")");
    struct str found;
    int rc = check_next(d, st, &found, e);

    if (rc == 1)
        err_set(e, ERR_INTERNAL, "the database of the backup is damaged: %.150s", found.p);
    sqlite3_reset(st);
    return rc ? -1 : 0;
}

int store_restore(const struct store_restore_conf *conf, struct store_restored *out, struct err *e)
{
    struct db d = {0};

    *out = (struct store_restored){0};
    int rc = db_open(&d, conf->copy, DB_WRITER, e);
    if (rc == 0)
        rc = check_copy(&d, e);
    if (rc == 0)
        rc = migrate(&d, migrations, n_migrations, e);
    if (rc == 0)
        rc = query_functions(&d, e);
    /* SQLite attaches no database inside of a transaction. */
    struct err why = {0};
    if (rc == 0)
        rc = restore_db(&d, conf, out, &why);
    if (rc < 0 && why.code)
        *e = why;
    db_done(&d);
    return rc < 0 ? err_wrap(e, "restoring the database") : 0;
}

void store_restored_done(struct store_restored *r)
{
    FREE_EACH(r->newer, r->went_on);
    *r = (struct store_restored){0};
}
