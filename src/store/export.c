/* export.c - finished jobs of projects as lines of JSON
 *
 * Each line is one row that SQLite writes itself, with what belongs to it inside.  Jobs that have
 * not finished are left out: their runs are here, and two homes must not both run them.
 *
 * The environment of a job is left out, because it may hold secrets, and so is its snapshot, whose
 * contents stay in this home.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/json_out.h"
#include "base/util.h"
#include "store/query_priv.h"
#include "store/store_priv.h"
#include "store/transfer.h"

/* A real number with all its digits; infinities, which JSON does not have, become null. */
#define REAL_JSON(x) "json(iif(abs(" x ") < 9e999, printf('%!.17g', " x "), 'null'))"
#define ID_OF_JOB                                                                                  \
    "(SELECT job_id(i.id, j.seq - i.first) FROM intake i WHERE i.first <= j.seq ORDER BY i.first"  \
    " DESC LIMIT 1)"
/* What belongs to the job `j`, each a list of objects. */
#define RUNS                                                                                       \
    "(SELECT json_group_array(json_object('run', run, 'why', why, 'wait_status', wait_status,"     \
    " 'sys', sys, 'placed_ms', placed_ms, 'started_ms', started_ms, 'ended_ms', ended_ms,"         \
    " 'max_rss_bytes', max_rss_bytes, 'cpu_user_ms', cpu_user_ms, 'cpu_sys_ms', cpu_sys_ms,"       \
    " 'node', node, 'detail', detail, 'devices', devices)) FROM run WHERE job = j.seq AND why IS"  \
    " NOT NULL)"
#define MARKS                                                                                      \
    "(SELECT json_group_array(json_object('kind', kind, 'name', name, 'run', run, 'step', step,"   \
    " 'at_ms', at_ms, 'text', text)) FROM (SELECT * FROM mark WHERE job = j.seq ORDER BY seq))"
#define NOTES                                                                                      \
    "(SELECT json_group_array(json_object('author', author, 'at_ms', at_ms, 'text', text)) FROM"   \
    " note WHERE note.job = j.seq)"
/* And to the series `s`. */
#define BLOCKS                                                                                     \
    "(SELECT json_group_array(json_object('first', b.first, 'n', b.n, 'run', b.run, 'step_min',"   \
    " b.step_min, 'step_max', b.step_max, 'at_min', b.at_min, 'at_max', b.at_max, 'data',"         \
    " hex(b.data))) FROM block b WHERE b.series = s.seq)"
#define WORDS                                                                                      \
    "(SELECT json_group_array(json_object('idx', w.idx, 'run', w.run, 'step', w.step, 'at_ms',"    \
    " w.at_ms, 'text', w.text)) FROM word w WHERE w.series = s.seq)"
#define SERIES                                                                                     \
    "(SELECT json_group_array(json_object('name', s.name, 'n', s.n, 'numbers', numbers,"           \
    " 'step_min', step_min, 'step_max', step_max, 'at_min', at_min, 'at_max', at_max, 'run', run," \
    " 'step', step, 'at_ms', at_ms, 'text', text, 'min', " REAL_JSON("min") ", 'max', " REAL_JSON( \
        "max") ", 'value', " REAL_JSON("value") ", 'blocks', " BLOCKS ", 'words', " WORDS          \
                                                ")) FROM (SELECT * FROM series WHERE job = j.seq " \
                                                "ORDER BY seq) s)"
#define FINISHED "1 << j.state & ?2"
#define OF_PROJECT "IN (SELECT seq FROM party WHERE project = ?1)"

/* ?1 is the project, ?2 the set of final states; the first column is the line. */
static const char project_sql[] =
    "SELECT json_object('is', 'project', 'name', name, 'description', description, 'created_ms',"
    " created_ms, 'notes', (SELECT json_group_array(json_object('author', author, 'at_ms', at_ms,"
    " 'text', text)) FROM note n WHERE n.job IS NULL AND n.project = project.name))"
    " FROM project WHERE name = ?1 AND ?2";
static const char batch_sql[] =
    "SELECT json_object('is', 'batch', 'key', seq, 'id', hex(id), 'project', project, 'name', name,"
    " 'slots', slots, 'first_job', first_job, 'n_jobs', n_jobs, 'created_ms', created_ms)"
    " FROM batch WHERE project = ?1 AND EXISTS(SELECT 1 FROM job j WHERE j.seq BETWEEN first_job"
    " AND first_job + n_jobs - 1 AND j.batch = batch.seq AND " FINISHED ") ORDER BY seq";
static const char spec_sql[] =
    "SELECT json_object('is', 'spec', 'key', s.seq, 'project', p.project, 'queue', p.queue, 'user',"
    " p.user, 'mcpu', mcpu, 'mem_bytes', mem_bytes, 'gpus', gpus, 'slots', slots, 'timeout_ms',"
    " timeout_ms, 'backoff_ms', backoff_ms, 'priority', priority, 'retries', retries, 'retry_lost',"
    " retry_lost, 'name', s.name, 'body', json_remove(body, '$.env', '$.secrets', '$.snapshot',"
    " '$.notify'))"
    " FROM spec s JOIN party p ON p.seq = s.party WHERE p.project = ?1 AND s.seq IN (SELECT spec"
    " FROM job j WHERE j.party = s.party AND " FINISHED ") ORDER BY s.seq";
static const char job_sql[] =
    "SELECT json_object('is', 'job', 'id', " ID_OF_JOB ", 'number', j.seq, 'spec', spec, 'batch',"
    " batch, 'index', idx, 'state', state_name(state), 'priority', priority, 'attempt', attempt,"
    " 'tries', tries, 'cancel', cancel, 'created_ms', created_ms, 'started_ms', started_ms,"
    " 'ended_ms', ended_ms, 'exit_code', exit_code, 'name', name, 'params', params, 'reason',"
    " reason, 'training', training, 'runs', " RUNS ", 'marks', " MARKS ", 'series', " SERIES
    ", 'notes', " NOTES "), j.seq, " ID_OF_JOB " FROM job j WHERE j.party " OF_PROJECT
    " AND " FINISHED " ORDER BY j.seq";

struct exporting {
    struct db db;
    export_line_fn line;
    export_job_fn job;
    void *arg;
    struct export_tally *tally;
};

static int export_rows(struct exporting *x, const char *sql, const char *project, struct err *e)
{
    sqlite3_stmt *st = db_query_args(
        &x->db, e, sql, (const struct db_arg[]){TEXT(str_of(project)), INT(JOB_STATES_FINAL)}, 2);
    int rc;

    while ((rc = db_step(&x->db, st, e)) == 1) {
        if (x->line(x->arg, column_str(st, 0), e) < 0) {
            sqlite3_reset(st);
            return -1;
        }
        if (sql != job_sql)
            continue;
        x->tally->jobs++;
        x->job(x->arg, column_u64(st, 1), column_str(st, 2).p);
    }
    return rc;
}

static int export_project(struct exporting *x, const char *project, struct err *e)
{
    static const char *const parts[] = {project_sql, batch_sql, spec_sql, job_sql};
    sqlite3_stmt *st =
        db_query(&x->db, e,
                 "SELECT (SELECT count(*) FROM project WHERE name = ?1), (SELECT"
                 " count(*) FROM job j WHERE j.party " OF_PROJECT " AND NOT (" FINISHED "))",
                 TEXT(str_of(project)), INT(JOB_STATES_FINAL));
    int64_t known = 0, unfinished = 0;

    if (db_step(&x->db, st, e) < 0)
        return -1;
    db_row(st, COL(&known), COL(&unfinished));
    sqlite3_reset(st);
    if (!known)
        return err_set(e, ERR_NOT_FOUND, "there is no project '%.100s'; berth projects lists them",
                       project);
    x->tally->unfinished += unfinished;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (export_rows(x, parts[i], project, e) < 0)
            return -1;
    return 0;
}

int store_export(const char *path, const char *const *projects, size_t n, export_line_fn line,
                 export_job_fn job, void *arg, struct export_tally *out, struct err *e)
{
    struct exporting x = {.line = line, .job = job, .arg = arg, .tally = out};
    AUTO(buf) struct buf head = {0};

    *out = (struct export_tally){0};
    jw_object(&head, NULL);
    jw_text(&head, "format", "berth-export");
    jw_int(&head, "version", 1);
    jw_time(&head, "exported", clock_wall(&clock_system));
    jw_end_object(&head);
    int rc = db_open(&x.db, path, DB_READER, e);
    if (rc == 0)
        rc = query_functions(&x.db, e);
    if (rc == 0)
        rc = db_exec(&x.db, "BEGIN", e);
    if (rc == 0)
        rc = line(arg, buf_str(&head), e);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = export_project(&x, projects[i], e);
    db_done(&x.db);
    return rc;
}
