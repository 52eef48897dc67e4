/* migrate.c - the schema and its history
 *
 * PRAGMA user_version is the number of steps taken.  Released steps are never edited: a change of
 * the schema is a new step at the end.
 *
 * What is where:
 *   party    project × queue × user: the few combinations that exist.  Jobs carry its number.
 *   intake   which numbers carry which ids: the ids of one submission are consecutive, so one row
 *            stands for all of its jobs and no job row holds its id.
 *   spec     what to run, shared by many jobs; `jobs` counts those that still use it.
 *   batch    n0 … n8 are how many of its jobs are in each state.
 *   job      one row each; started, ended and exit_code are those of the last run.  deps > 0: it
 *            waits for that many others; < 0: only for those that are still active, because it was
 *            retried by hand; 0: for none, or not any more.
 *            training is how far a job that trains has got, NULL for others.
 *   run      one row per attempt; why is NULL while it has no outcome.  devices are the GPUs it
 *            has, as "0-3,7".
 *   ahead    starts of queued jobs that were sent ahead to a host and that the host has not
 *            answered; only the controller reads them, after a restart.
 *   fact     what the controller keeps for itself, text by name.
 *   schedule jobs that are submitted again and again; settled_s is the last moment for which a job
 *            was submitted, or which was skipped.  spec.schedule has the name of the schedule that
 *            submitted the jobs of a spec.
 *   study    searches over parameters; def is what a person said of them.
 *   trial    their points with results.  asked and told count the operations of a study, so that
 *            its engine can be made again by replaying them.  job 0: a client runs it.
 *   study_log  lines of JSON that clients append, one log per user and name; number counts them.
 *   mark     what jobs and people said, once per name: parameters, tags, artifacts, epochs.
 *   series   metrics of jobs: their last point and what is known of all.
 *   block    the points of a metric that are numbers, many in a row.
 *   word     the last points of a metric that are texts.
 *   note     remarks of people about a job, or about a project when job is NULL.
 *   project  who began it and when, and its description; there is one for every party.
 *   event    append-only; first = last for one job, 0 for none.
 *   hook     who is told of which events and how; one whose name contains ':' was made by `notify`
 *            of a submission.  seen_job: jobs up to this number were checked for waiting too long.
 *            window_*: messages of the current minute.  tries, next_ms: failures in a row, next
 *            try.
 *   notify   entries of `notify`: the jobs first … last, or their batch, are told to the hook.
 *   delivery messages that are not sent yet; next_ms is not before the end of the minute of a
 *            summary.  Numbers are never used again: receivers drop repeated messages by them.
 *   tally    how many jobs each party has in each state, so that counts cost nothing.
 *   counter  the next numbers; they never repeat, also when the newest job was removed.  probe is
 *            what the writer changes to see whether the disk takes writes again.  tagged is the
 *            first job whose runs have a tag in their names.
 *
 * job_lane serves every list that asks for states or projects: one ordered lane per (state, party),
 * merged.  It is the only index a job's life touches.
 */
#include "base/util.h"
#include "store/migrate_priv.h"
#include "store/series_priv.h"

static const char v1[] =
    "CREATE TABLE party("
    " seq INTEGER PRIMARY KEY, uid INTEGER NOT NULL, project TEXT NOT NULL, queue TEXT NOT NULL,"
    " user TEXT NOT NULL, UNIQUE(project, queue, uid, user)) STRICT;"
    "CREATE TABLE spec("
    " seq INTEGER PRIMARY KEY, party INTEGER NOT NULL, jobs INTEGER NOT NULL,"
    " gid INTEGER NOT NULL, mcpu INTEGER NOT NULL, mem_bytes INTEGER NOT NULL,"
    " gpus INTEGER NOT NULL, slots INTEGER NOT NULL, timeout_ms INTEGER NOT NULL,"
    " backoff_ms INTEGER NOT NULL, priority INTEGER NOT NULL, retries INTEGER NOT NULL,"
    " name TEXT NOT NULL, body TEXT NOT NULL) STRICT;"
    "CREATE TABLE batch("
    " seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, name TEXT NOT NULL, project TEXT NOT NULL,"
    " slots INTEGER NOT NULL, uid INTEGER NOT NULL, first_job INTEGER NOT NULL,"
    " n_jobs INTEGER NOT NULL, created_ms INTEGER NOT NULL, n0 INTEGER NOT NULL DEFAULT 0,"
    " n1 INTEGER NOT NULL DEFAULT 0, n2 INTEGER NOT NULL DEFAULT 0, n3 INTEGER NOT NULL DEFAULT 0,"
    " n4 INTEGER NOT NULL DEFAULT 0, n5 INTEGER NOT NULL DEFAULT 0, n6 INTEGER NOT NULL DEFAULT 0,"
    " n7 INTEGER NOT NULL DEFAULT 0) STRICT;"
    "CREATE INDEX batch_name ON batch(name);"
    "CREATE TABLE intake("
    " first INTEGER PRIMARY KEY, last INTEGER NOT NULL, id BLOB NOT NULL UNIQUE) STRICT;"
    "CREATE TABLE job("
    " seq INTEGER PRIMARY KEY, state INTEGER NOT NULL, party INTEGER NOT NULL,"
    " spec INTEGER NOT NULL, batch INTEGER NOT NULL, idx INTEGER NOT NULL,"
    " priority INTEGER NOT NULL, attempt INTEGER NOT NULL, tries INTEGER NOT NULL,"
    " cancel INTEGER NOT NULL, deps INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
    " started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL, next_try_ms INTEGER NOT NULL,"
    " exit_code INTEGER, name TEXT, params TEXT, reason TEXT) STRICT;"
    "CREATE INDEX job_lane ON job(state, party);"
    "CREATE TABLE dep("
    " job INTEGER NOT NULL REFERENCES job(seq) ON DELETE CASCADE, other INTEGER NOT NULL,"
    " PRIMARY KEY(job, other)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE run("
    " job INTEGER NOT NULL REFERENCES job(seq) ON DELETE CASCADE, run INTEGER NOT NULL,"
    " why INTEGER, wait_status INTEGER NOT NULL DEFAULT 0, sys INTEGER NOT NULL DEFAULT 0,"
    " placed_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL DEFAULT 0,"
    " ended_ms INTEGER NOT NULL DEFAULT 0, pid INTEGER NOT NULL DEFAULT 0,"
    " pid_start INTEGER NOT NULL DEFAULT 0, journal INTEGER NOT NULL, gpus INTEGER NOT NULL,"
    " max_rss_bytes INTEGER NOT NULL DEFAULT 0, cpu_user_ms INTEGER NOT NULL DEFAULT 0,"
    " cpu_sys_ms INTEGER NOT NULL DEFAULT 0, spool_offset INTEGER NOT NULL DEFAULT 0,"
    " node TEXT NOT NULL, detail TEXT, PRIMARY KEY(job, run)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE report("
    " job INTEGER NOT NULL REFERENCES job(seq) ON DELETE CASCADE, kind INTEGER NOT NULL,"
    " name TEXT NOT NULL, seq INTEGER NOT NULL, run INTEGER NOT NULL, step INTEGER NOT NULL,"
    " at_ms INTEGER NOT NULL, value REAL, text TEXT,"
    " PRIMARY KEY(job, kind, name, seq)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE event("
    " seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, kind INTEGER NOT NULL,"
    " first INTEGER NOT NULL, last INTEGER NOT NULL, data TEXT) STRICT;"
    "CREATE INDEX event_job ON event(first) WHERE first > 0;"
    "CREATE INDEX event_range ON event(first, last) WHERE last > first;"
    "CREATE TABLE tally("
    " party INTEGER NOT NULL, state INTEGER NOT NULL, n INTEGER NOT NULL,"
    " PRIMARY KEY(party, state)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE counter("
    " one INTEGER PRIMARY KEY CHECK(one = 1), job INTEGER NOT NULL, spec INTEGER NOT NULL,"
    " batch INTEGER NOT NULL, probe INTEGER NOT NULL) STRICT;"
    "INSERT INTO counter VALUES(1, 1, 1, 1, 0);"
    "CREATE TABLE idempotency("
    " uid INTEGER NOT NULL, key TEXT NOT NULL, first INTEGER NOT NULL, n INTEGER NOT NULL,"
    " batch INTEGER NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY(uid, key)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE queue(name TEXT PRIMARY KEY, paused INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE node(name TEXT PRIMARY KEY, drained INTEGER NOT NULL) STRICT, WITHOUT ROWID;";

/* Devices as text, since a node may have more than 64; older runs keep their bit mask in gpus. */
static const char v2[] =
    "ALTER TABLE run ADD COLUMN devices TEXT;"
    "ALTER TABLE job ADD COLUMN training TEXT;"
    "CREATE TABLE fact(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;";

/* A node that is not this host has a URL; conf is what else was said of it, as JSON. */
static const char v3[] = "ALTER TABLE node ADD COLUMN url TEXT;"
                         "ALTER TABLE node ADD COLUMN conf TEXT;";

/* Points of metrics in blocks instead of a row and an event each; notes, projects. */
static const char v4[] =
    "CREATE TABLE mark("
    " seq INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES job(seq) ON DELETE CASCADE,"
    " kind INTEGER NOT NULL, name TEXT NOT NULL, run INTEGER NOT NULL, step INTEGER NOT NULL,"
    " at_ms INTEGER NOT NULL, text TEXT NOT NULL, UNIQUE(job, kind, name)) STRICT;"
    "CREATE INDEX mark_name ON mark(kind, name);"
    "INSERT INTO mark(job, kind, name, run, step, at_ms, text) SELECT job, kind, name, run, step,"
    " at_ms, ifnull(text, '') FROM report WHERE kind <> 109 ORDER BY seq"
    " ON CONFLICT(job, kind, name) DO UPDATE SET run = excluded.run, step = excluded.step,"
    " at_ms = excluded.at_ms, text = excluded.text;"
    "CREATE TABLE series("
    " seq INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES job(seq) ON DELETE CASCADE,"
    " name TEXT NOT NULL, n INTEGER NOT NULL DEFAULT 0, numbers INTEGER NOT NULL DEFAULT 0,"
    " step_min INTEGER NOT NULL DEFAULT 0, step_max INTEGER NOT NULL DEFAULT 0,"
    " at_min INTEGER NOT NULL DEFAULT 0, at_max INTEGER NOT NULL DEFAULT 0,"
    " min REAL NOT NULL DEFAULT 0, max REAL NOT NULL DEFAULT 0, run INTEGER NOT NULL DEFAULT 0,"
    " step INTEGER NOT NULL DEFAULT -1, at_ms INTEGER NOT NULL DEFAULT 0, value REAL, text TEXT,"
    " UNIQUE(job, name)) STRICT;"
    "CREATE INDEX series_name ON series(name);"
    "CREATE TABLE block("
    " series INTEGER NOT NULL REFERENCES series(seq) ON DELETE CASCADE, first INTEGER NOT NULL,"
    " n INTEGER NOT NULL, run INTEGER NOT NULL, step_min INTEGER NOT NULL,"
    " step_max INTEGER NOT NULL, at_min INTEGER NOT NULL, at_max INTEGER NOT NULL,"
    " data BLOB NOT NULL, PRIMARY KEY(series, first)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE word("
    " series INTEGER NOT NULL REFERENCES series(seq) ON DELETE CASCADE, idx INTEGER NOT NULL,"
    " run INTEGER NOT NULL, step INTEGER NOT NULL, at_ms INTEGER NOT NULL, text TEXT NOT NULL,"
    " PRIMARY KEY(series, idx)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE note("
    " seq INTEGER PRIMARY KEY, job INTEGER REFERENCES job(seq) ON DELETE CASCADE,"
    " project TEXT NOT NULL, author TEXT NOT NULL, at_ms INTEGER NOT NULL, text TEXT NOT NULL)"
    " STRICT;"
    "CREATE INDEX note_job ON note(job);"
    "CREATE INDEX note_project ON note(project);"
    "CREATE TABLE project("
    " name TEXT PRIMARY KEY, uid INTEGER NOT NULL, user TEXT NOT NULL, created_ms INTEGER NOT NULL,"
    " description TEXT NOT NULL DEFAULT '') STRICT, WITHOUT ROWID;"
    "INSERT INTO project(name, uid, user, created_ms) SELECT p.project, p.uid, p.user,"
    " ifnull(min(j.created_ms), 0) FROM party p LEFT JOIN job j ON j.party = p.seq"
    " GROUP BY p.project;";

/* Where jobs of a spec may run: names or patterns, "a,b*". */
static const char v5[] = "ALTER TABLE spec ADD COLUMN nodes TEXT;";

/* How many jobs of a batch are held. */
static const char v6[] = "ALTER TABLE batch ADD COLUMN n8 INTEGER NOT NULL DEFAULT 0;";

/* Starts sent ahead are no runs yet: lists must not find them in `run`. */
static const char v7[] =
    "CREATE TABLE ahead("
    " job INTEGER PRIMARY KEY REFERENCES job(seq) ON DELETE CASCADE, run INTEGER NOT NULL,"
    " journal INTEGER NOT NULL, node TEXT NOT NULL) STRICT;";

/* How many lost runs of its jobs are repeated without using up a retry. */
static const char v8[] = "ALTER TABLE spec ADD COLUMN retry_lost INTEGER NOT NULL DEFAULT 0;";

/* Schedules were files of one dialect before, which imports them. */
static const char v9[] =
    "ALTER TABLE spec ADD COLUMN schedule TEXT;"
    "CREATE TABLE schedule("
    " seq INTEGER PRIMARY KEY, uid INTEGER NOT NULL, gid INTEGER NOT NULL, user TEXT NOT NULL,"
    " name TEXT NOT NULL, def TEXT NOT NULL, paused INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
    " settled_s INTEGER NOT NULL, last_job INTEGER NOT NULL DEFAULT 0,"
    " last_n INTEGER NOT NULL DEFAULT 0, trouble TEXT, UNIQUE(uid, name)) STRICT;";

/* Hooks, entries of `notify`, messages that wait. */
static const char v10[] =
    "CREATE TABLE hook("
    " seq INTEGER PRIMARY KEY, uid INTEGER NOT NULL, gid INTEGER NOT NULL, user TEXT NOT NULL,"
    " name TEXT NOT NULL, action TEXT NOT NULL, filter TEXT NOT NULL, secret TEXT NOT NULL,"
    " events INTEGER NOT NULL, wait_ms INTEGER NOT NULL, scope INTEGER NOT NULL,"
    " everyone INTEGER NOT NULL, enabled INTEGER NOT NULL, seen_job INTEGER NOT NULL,"
    " window_ms INTEGER NOT NULL DEFAULT 0, window_n INTEGER NOT NULL DEFAULT 0,"
    " tries INTEGER NOT NULL DEFAULT 0, next_ms INTEGER NOT NULL DEFAULT 0,"
    " sent INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,"
    " last_ms INTEGER NOT NULL DEFAULT 0, last_error TEXT NOT NULL DEFAULT '',"
    " last_error_ms INTEGER NOT NULL DEFAULT 0, UNIQUE(name, uid)) STRICT;"
    "CREATE TABLE notify("
    " scope INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,"
    " hook INTEGER NOT NULL REFERENCES hook(seq) ON DELETE CASCADE, events INTEGER NOT NULL,"
    " wait_due_ms INTEGER NOT NULL, PRIMARY KEY(scope, first, hook, events, wait_due_ms))"
    " STRICT, WITHOUT ROWID;"
    "CREATE INDEX notify_due ON notify(wait_due_ms) WHERE wait_due_ms > 0;"
    "CREATE INDEX notify_hook ON notify(hook);"
    "CREATE TABLE delivery("
    " seq INTEGER PRIMARY KEY AUTOINCREMENT,"
    " hook INTEGER NOT NULL REFERENCES hook(seq) ON DELETE CASCADE, event INTEGER NOT NULL,"
    " scope INTEGER NOT NULL, subject INTEGER NOT NULL, last INTEGER NOT NULL,"
    " n INTEGER NOT NULL, bad INTEGER NOT NULL, at_ms INTEGER NOT NULL,"
    " next_ms INTEGER NOT NULL) STRICT;"
    "CREATE INDEX delivery_hook ON delivery(hook, seq);";

/* The snapshot in which runs of a spec start: it is kept while a spec names it. */
static const char v11[] =
    "ALTER TABLE spec ADD COLUMN snapshot TEXT;"
    "CREATE INDEX spec_snapshot ON spec(snapshot) WHERE snapshot IS NOT NULL;";

/* A hash of the request that used a key; 0: from before, or made without a request. */
static const char v12[] = "ALTER TABLE idempotency ADD COLUMN print INTEGER NOT NULL DEFAULT 0;";

/* Values of secrets leave the text of a spec; NULL: written before, nobody looked for secrets. */
static const char v13[] = "ALTER TABLE spec ADD COLUMN sealed TEXT;";

/* From which job number on the names of runs have a tag (model/run_key.h): what earlier versions
 * started, or may have, keeps its names. */
static const char v14[] = "ALTER TABLE counter ADD COLUMN tagged INTEGER NOT NULL DEFAULT 1;"
                          "UPDATE counter SET tagged = job;";

/* Studies: searches over parameters, and their trials. */
static const char v15[] =
    "CREATE TABLE study("
    " seq INTEGER PRIMARY KEY, uid INTEGER NOT NULL, gid INTEGER NOT NULL, user TEXT NOT NULL,"
    " name TEXT NOT NULL, def TEXT NOT NULL, paused INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
    " UNIQUE(uid, name)) STRICT;"
    "CREATE TABLE trial("
    " study INTEGER NOT NULL REFERENCES study(seq) ON DELETE CASCADE, number INTEGER NOT NULL,"
    " job INTEGER NOT NULL, params TEXT NOT NULL, asked INTEGER NOT NULL,"
    " told INTEGER NOT NULL DEFAULT 0, state INTEGER NOT NULL, value REAL, reason TEXT,"
    " PRIMARY KEY(study, number)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX trial_job ON trial(job) WHERE job > 0;";

/* Leases of trials that clients evaluate. */
static const char v16[] = "ALTER TABLE trial ADD COLUMN hold INTEGER NOT NULL DEFAULT 0;"
                          "ALTER TABLE trial ADD COLUMN lease_s INTEGER NOT NULL DEFAULT 0;";

/* Results of trials with several objectives: a JSON array. */
static const char v17[] = "ALTER TABLE trial ADD COLUMN results TEXT;";

/* Was the end of the study said last?  Then it is not said again after a restart. */
static const char v18[] = "ALTER TABLE study ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;";

/* First value, mean, where a metric was lowest and highest; all of it in one index by name, which
 * lists are sorted by. */
static const char v19[] = "";

/* What libraries of searches keep of their studies, line by line. */
static const char v20[] =
    "CREATE TABLE study_log("
    " uid INTEGER NOT NULL, name TEXT NOT NULL, number INTEGER NOT NULL, line TEXT NOT NULL,"
    " PRIMARY KEY(uid, name, number)) STRICT, WITHOUT ROWID;";

/* Trials of a population continue others. */
static const char v21[] = "ALTER TABLE trial ADD COLUMN parent INTEGER NOT NULL DEFAULT 0;";

const struct migration migrations[] = {{v1, NULL},
                                       {v2, NULL},
                                       {v3, NULL},
                                       {v4, series_migrate},
                                       {v5, NULL},
                                       {v6, NULL},
                                       {v7, NULL},
                                       {v8, NULL},
                                       {v9, NULL},
                                       {v10, NULL},
                                       {v11, NULL},
                                       {v12, NULL},
                                       {v13, NULL},
                                       {v14, NULL},
                                       {v15, NULL},
                                       {v16, NULL},
                                       {v17, NULL},
                                       {v18, NULL},
                                       {v19, series_migrate_stats},
                                       {v20, NULL},
                                       {v21, NULL}};
const size_t n_migrations = ARRAY_SIZE(migrations);

/* Schema and version change in one transaction, so a crash leaves the file at the version before.
 */
static int take_step(struct db *d, const struct migration *step, size_t version, struct err *e)
{
    char sql[64];

    if (db_exec(d, "BEGIN IMMEDIATE", e) < 0)
        return -1;
    snprintf(sql, sizeof(sql), "PRAGMA user_version=%zu", version);
    if (db_exec(d, step->sql, e) < 0 || (step->run && step->run(d, e) < 0) ||
        db_exec(d, sql, e) < 0 || db_exec(d, "COMMIT", e) < 0) {
        if (!sqlite3_get_autocommit(d->h))
            sqlite3_exec(d->h, "ROLLBACK", NULL, NULL, NULL);
        return err_wrap(e, "schema %zu", version);
    }
    return 0;
}

/* Marks an empty file as ours.  A file that has tables without our mark belongs to another program
 * and is left alone. */
static int claim_new_file(struct db *d, struct err *e)
{
    int64_t tables, app;
    char sql[64];

    if (db_int(d, "SELECT count(*) FROM sqlite_schema", &tables, e) < 0 ||
        db_int(d, "PRAGMA application_id", &app, e) < 0)
        return -1;
    if (app == SCHEMA_APPLICATION)
        return 0;
    if (app || tables)
        return err_set(e, ERR_CONFLICT,
                       "%s is a database of another program; move it away or choose another "
                       "$BERTH_HOME",
                       d->path);
    snprintf(sql, sizeof(sql), "PRAGMA application_id=%d", SCHEMA_APPLICATION);
    return db_exec(d, sql, e);
}

int migrate(struct db *d, const struct migration *steps, size_t n, struct err *e)
{
    int64_t version;

    if (claim_new_file(d, e) < 0 || db_int(d, "PRAGMA user_version", &version, e) < 0)
        return -1;
    if (version < 0 || (size_t)version > n)
        return err_set(e, ERR_CONFLICT,
                       "the job store %s was written by a newer berth (schema %lld, this one knows "
                       "%zu); upgrade berth or restore a backup",
                       d->path, (long long)version, n);
    for (size_t i = (size_t)version; i < n; i++)
        if (take_step(d, &steps[i], i + 1, e) < 0)
            return -1;
    return 0;
}
