/* import.c - finished jobs of another home become rows of this one
 *
 * The lines come from outside.  Each is parsed as strict JSON; what the program relies on later is
 * checked here (a final state, a spec that can be parsed, blocks of points that can be unpacked,
 * numbers in range), and the tables are STRICT, so that a value of another type is refused by
 * SQLite.  All of a file is one transaction.
 *
 * A job keeps its distance to the other jobs of its file, because a batch is a stretch of numbers.
 */
#include "base/json.h"
#include "base/map.h"
#include "base/util.h"
#include "model/series.h"
#include "store/migrate_priv.h"
#include "store/query_priv.h"
#include "store/series_priv.h"
#include "store/store_priv.h"
#include "store/transfer.h"

enum { SPAN_MAX = 50 * 1000 * 1000 }; /* numbers that one file may take */

struct importing {
    const struct import_conf *conf;
    const char *name; /* of the file */
    struct db db;
    struct import_tally *tally;
    struct map_u64 specs, batches;       /* key in the file → number here */
    int64_t next_spec, next_batch, base; /* base: number here of the file's number 0 */
    int64_t low, high;                   /* the file's numbers */
};

static int import_bad(const struct importing *x, const char *what, struct err *e)
{
    return err_set(e, ERR_INVALID, "%s: %s; it is no file of berth export, or damaged", x->name,
                   what);
}

/* ---- functions for SQL ---- */

static void sql_hex_bytes(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    const char *text = (const char *)sqlite3_value_text(v[0]);
    size_t len = text ? strlen(text) : 0;
    AUTO_FREE uint8_t *out = xmalloc(len / 2 + 1);

    (void)n;
    for (size_t i = 0; i < len / 2; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            return; /* NULL, which the table refuses */
        out[i] = (uint8_t)byte;
    }
    if (text && len % 2 == 0)
        sqlite3_result_blob(ctx, out, (int)(len / 2), SQLITE_TRANSIENT);
}

/* ---- checks ---- */

static int check_blocks(const struct importing *x, const struct json *series, struct err *e)
{
    const struct json *blocks = json_get(series, "blocks");
    AUTO(buf) struct buf bytes = {0};
    struct series_point *points = xmalloc(SERIES_BLOCK_MAX * sizeof(*points));
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < json_len(blocks); i++) {
        const struct json *b = json_at(blocks, i);
        struct str hex = json_get_str(b, "data");
        unsigned byte;

        buf_reset(&bytes);
        for (size_t k = 0; k + 1 < hex.n && sscanf(hex.p + k, "%2x", &byte) == 1; k += 2)
            buf_addc(&bytes, (char)byte);
        size_t n = bytes.n * 2 == hex.n ? series_count(buf_str(&bytes)) : 0;
        struct err why;
        if (!n || n > SERIES_BLOCK_MAX || (int64_t)n != json_int(json_get(b, "n")) ||
            series_unpack(buf_str(&bytes), points, &why) < 0)
            rc = import_bad(x, "points of a metric cannot be read", e);
    }
    free(points);
    return rc;
}

static int check_job(const struct importing *x, const struct json *j, enum job_state *state,
                     struct id *id, struct err *e)
{
    const struct json *series = json_get(j, "series");
    int64_t number = json_int(json_get(j, "number"));

    if (!id_parse(json_get_str(j, "id"), id))
        return import_bad(x, "a job has no id", e);
    if (!job_state_parse(json_get_str(j, "state"), state) || !job_state_final(*state))
        return import_bad(x, "a job has not finished", e);
    if (number < x->low || number > x->high || json_int(json_get(j, "ended_ms")) <= 0)
        return import_bad(x, "a job has no number or no time of its end", e);
    if (*state == JOB_SUCCEEDED && !json_len(json_get(j, "runs")))
        return import_bad(x, "a job succeeded without a run", e);
    for (size_t i = 0; i < json_len(series); i++)
        if (check_blocks(x, json_at(series, i), e) < 0)
            return -1;
    return 0;
}

/* ---- lines ---- */

static struct str import_project(const struct importing *x, const struct json *j, const char *key)
{
    return x->conf->project ? str_of(x->conf->project) : json_get_str(j, key);
}

static int import_project_line(struct importing *x, const struct json *j, struct str line,
                               struct err *e)
{
    struct str name = import_project(x, j, "name");

    if (db_run(&x->db, e,
               "INSERT INTO project(name, uid, user, created_ms, description) SELECT ?2, ?3, '',"
               " json_extract(?1, '$.created_ms'), ifnull(json_extract(?1, '$.description'), '')"
               " WHERE true ON CONFLICT DO NOTHING",
               TEXT(line), TEXT(name), INT(x->conf->uid)) < 0)
        return -1;
    return db_run(&x->db, e,
                  "INSERT INTO note(job, project, author, at_ms, text) SELECT NULL, ?2,"
                  " json_extract(value, '$.author'), json_extract(value, '$.at_ms'),"
                  " json_extract(value, '$.text') FROM json_each(?1, '$.notes') v WHERE NOT"
                  " EXISTS(SELECT 1 FROM note n WHERE n.job IS NULL AND n.project = ?2 AND n.at_ms"
                  " = json_extract(v.value, '$.at_ms') AND n.text = json_extract(v.value,"
                  " '$.text'))",
                  TEXT(line), TEXT(name));
}

/* Batches and specs are inserted when the first of their jobs is, so that a file that brings
 * nothing new leaves nothing behind. */
struct pending {
    struct str line;
    uint64_t number; /* here; 0 = not inserted yet */
    uint64_t party;
};

static int import_later(struct importing *x, struct map_u64 *map, const struct json *j,
                        struct str line, struct err *e)
{
    uint64_t key = (uint64_t)json_int(json_get(j, "key"));
    struct pending *p;

    if (!key || map_u64_get(map, key))
        return import_bad(x, "a spec or batch has no key of its own", e);
    p = xcalloc(1, sizeof(*p));
    p->line = line;
    map_u64_put(map, key, p);
    return 0;
}

static int import_party(struct importing *x, const struct json *spec, uint64_t *out, struct err *e)
{
    struct str project = import_project(x, spec, "project"), queue = json_get_str(spec, "queue"),
               user = json_get_str(spec, "user");
    sqlite3_stmt *st;

    if (!project.n || !queue.n)
        return import_bad(x, "a spec has no project or queue", e);
    if (db_run(&x->db, e,
               "INSERT INTO party(uid, project, queue, user) VALUES(?1, ?2, ?3, ?4) ON CONFLICT DO"
               " NOTHING",
               INT(x->conf->uid), TEXT(project), TEXT(queue), TEXT(user)) < 0 ||
        db_run(&x->db, e,
               "INSERT INTO project(name, uid, user, created_ms) VALUES(?1, ?2, ?3, ?4) ON CONFLICT"
               " DO NOTHING",
               TEXT(project), INT(x->conf->uid), TEXT(user), INT(x->conf->wall_ms)) < 0)
        return -1;
    st = db_query(&x->db, e,
                  "SELECT seq FROM party WHERE uid = ?1 AND project = ?2 AND queue = ?3 AND user ="
                  " ?4",
                  INT(x->conf->uid), TEXT(project), TEXT(queue), TEXT(user));
    if (db_step(&x->db, st, e) != 1)
        return -1;
    *out = column_u64(st, 0);
    sqlite3_reset(st);
    return 0;
}

static int import_spec(struct importing *x, struct pending *p, struct err *e)
{
    AUTO(json) struct json *j = NULL;
    struct spec *spec = NULL;
    struct err why = {0};

    if (json_parse(p->line, x->name, &j, e) < 0)
        return -1;
    if (spec_parse(json_get(j, "body"), "", &spec, &why) < 0)
        return err_set(e, ERR_INVALID, "%s: a spec cannot be read: %.150s", x->name, why.text);
    spec_free(spec);
    if (import_party(x, j, &p->party, e) < 0)
        return -1;
    p->number = (uint64_t)x->next_spec++;
    return db_run(&x->db, e,
                  "INSERT INTO spec(seq, party, jobs, gid, mcpu, mem_bytes, gpus, slots,"
                  " timeout_ms, backoff_ms, priority, retries, retry_lost, name, body) SELECT ?2,"
                  " ?3, 0, ?4, json_extract(?1, '$.mcpu'), json_extract(?1, '$.mem_bytes'),"
                  " json_extract(?1, '$.gpus'), json_extract(?1, '$.slots'), json_extract(?1,"
                  " '$.timeout_ms'), json_extract(?1, '$.backoff_ms'), json_extract(?1,"
                  " '$.priority'), json_extract(?1, '$.retries'), json_extract(?1,"
                  " '$.retry_lost'), json_extract(?1, '$.name'), json_extract(?1, '$.body')",
                  TEXT(p->line), INT(p->number), INT(p->party), INT(x->conf->gid));
}

/* A batch with an id that is here already: its jobs come without a batch, because the numbers of a
 * batch are one stretch. */
static int import_batch(struct importing *x, struct pending *p, struct err *e)
{
    AUTO(json) struct json *j = NULL;

    if (json_parse(p->line, x->name, &j, e) < 0)
        return -1;
    int64_t first = json_int(json_get(j, "first_job")), n = json_int(json_get(j, "n_jobs"));
    if (first < x->low - SPAN_MAX || first > x->high || n <= 0 || n > SPAN_MAX)
        return import_bad(x, "a batch has numbers that its jobs do not have", e);
    p->number = (uint64_t)x->next_batch++;
    return db_run(&x->db, e,
                  "INSERT INTO batch(seq, id, name, project, slots, uid, first_job, n_jobs,"
                  " created_ms) SELECT ?2, hex_bytes(json_extract(?1, '$.id')), json_extract(?1,"
                  " '$.name'), ?3, json_extract(?1, '$.slots'), ?4, ?5, ?6, json_extract(?1,"
                  " '$.created_ms') WHERE true ON CONFLICT DO NOTHING",
                  TEXT(p->line), INT(p->number), TEXT(import_project(x, j, "project")),
                  INT(x->conf->uid), INT(first + x->base), INT(n));
}

typedef int pending_fn(struct importing *x, struct pending *p, struct err *e);

static int import_needed(struct importing *x, struct map_u64 *map, const struct json *key,
                         pending_fn *insert, struct pending **out, struct err *e)
{
    *out = map_u64_get(map, (uint64_t)json_int(key));
    if (!*out)
        return import_bad(x, "a job names a spec or batch that is not in the file", e);
    return (*out)->number ? 0 : insert(x, *out, e);
}

static const char *const job_parts[] = {
    "INSERT INTO run(job, run, why, wait_status, sys, placed_ms, started_ms, ended_ms, journal,"
    " gpus, max_rss_bytes, cpu_user_ms, cpu_sys_ms, node, detail, devices) SELECT ?2,"
    " json_extract(value, '$.run'), json_extract(value, '$.why'), json_extract(value,"
    " '$.wait_status'), json_extract(value, '$.sys'), json_extract(value, '$.placed_ms'),"
    " json_extract(value, '$.started_ms'), json_extract(value, '$.ended_ms'), 0, 0,"
    " json_extract(value, '$.max_rss_bytes'), json_extract(value, '$.cpu_user_ms'),"
    " json_extract(value, '$.cpu_sys_ms'), json_extract(value, '$.node'), json_extract(value,"
    " '$.detail'), json_extract(value, '$.devices') FROM json_each(?1, '$.runs')",
    "INSERT INTO mark(job, kind, name, run, step, at_ms, text) SELECT ?2, json_extract(value,"
    " '$.kind'), json_extract(value, '$.name'), json_extract(value, '$.run'), json_extract(value,"
    " '$.step'), json_extract(value, '$.at_ms'), json_extract(value, '$.text') FROM json_each(?1,"
    " '$.marks')",
    "INSERT INTO series(job, name, n, numbers, step_min, step_max, at_min, at_max, min, max, run,"
    " step, at_ms, value, text) SELECT ?2, json_extract(value, '$.name'), json_extract(value,"
    " '$.n'), json_extract(value, '$.numbers'), json_extract(value, '$.step_min'),"
    " json_extract(value, '$.step_max'), json_extract(value, '$.at_min'), json_extract(value,"
    " '$.at_max'), ifnull(json_extract(value, '$.min'), 0), ifnull(json_extract(value, '$.max'),"
    " 0), json_extract(value, '$.run'), json_extract(value, '$.step'), json_extract(value,"
    " '$.at_ms'), json_extract(value, '$.value'), json_extract(value, '$.text') FROM json_each(?1,"
    " '$.series')",
    "INSERT INTO block(series, first, n, run, step_min, step_max, at_min, at_max, data) SELECT"
    " s.seq, json_extract(b.value, '$.first'), json_extract(b.value, '$.n'), json_extract(b.value,"
    " '$.run'), json_extract(b.value, '$.step_min'), json_extract(b.value, '$.step_max'),"
    " json_extract(b.value, '$.at_min'), json_extract(b.value, '$.at_max'),"
    " hex_bytes(json_extract(b.value, '$.data')) FROM json_each(?1, '$.series') v, "
    "json_each(v.value,"
    " '$.blocks') b, series s WHERE s.job = ?2 AND s.name = json_extract(v.value, '$.name')",
    "INSERT INTO word(series, idx, run, step, at_ms, text) SELECT s.seq, json_extract(b.value,"
    " '$.idx'), json_extract(b.value, '$.run'), json_extract(b.value, '$.step'),"
    " json_extract(b.value, '$.at_ms'), json_extract(b.value, '$.text') FROM json_each(?1,"
    " '$.series') v, json_each(v.value, '$.words') b, series s WHERE s.job = ?2 AND s.name ="
    " json_extract(v.value, '$.name')",
    "INSERT INTO note(job, project, author, at_ms, text) SELECT ?2, (SELECT project FROM party p"
    " JOIN job j ON j.party = p.seq WHERE j.seq = ?2), json_extract(value, '$.author'),"
    " json_extract(value, '$.at_ms'), json_extract(value, '$.text') FROM json_each(?1, '$.notes')",
};

static int import_rows(struct importing *x, const struct json *j, struct str line, uint64_t number,
                       enum job_state state, struct id id, struct err *e)
{
    struct pending *spec = NULL, *batch = NULL;
    int64_t in_batch = json_int(json_get(j, "batch"));

    if (import_needed(x, &x->specs, json_get(j, "spec"), import_spec, &spec, e) < 0)
        return -1;
    if (in_batch &&
        import_needed(x, &x->batches, json_get(j, "batch"), import_batch, &batch, e) < 0)
        return -1;
    if (db_run(&x->db, e,
               "INSERT INTO job(seq, state, party, spec, batch, idx, priority, attempt, tries,"
               " cancel, deps, created_ms, started_ms, ended_ms, next_try_ms, exit_code, name,"
               " params, reason, training) SELECT ?2, ?3, ?4, ?5, ifnull((SELECT seq FROM batch"
               " WHERE seq = ?6), 0), json_extract(?1, '$.index'), json_extract(?1, '$.priority'),"
               " json_extract(?1, '$.attempt'), json_extract(?1, '$.tries'), json_extract(?1,"
               " '$.cancel'), 0, json_extract(?1, '$.created_ms'), json_extract(?1,"
               " '$.started_ms'), json_extract(?1, '$.ended_ms'), 0, json_extract(?1,"
               " '$.exit_code'), json_extract(?1, '$.name'), json_extract(?1, '$.params'),"
               " json_extract(?1, '$.reason'), json_extract(?1, '$.training')",
               TEXT(line), INT(number), INT(state), INT(spec->party), INT(spec->number),
               INT(batch ? batch->number : 0)) < 0 ||
        db_run(&x->db, e, "INSERT INTO intake(first, last, id) VALUES(?1, ?1, ?2)", INT(number),
               ID(id)) < 0 ||
        db_run(&x->db, e, "UPDATE spec SET jobs = jobs + 1 WHERE seq = ?1", INT(spec->number)) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_SIZE(job_parts); i++)
        if (db_run_args(&x->db, e, job_parts[i], (const struct db_arg[]){TEXT(line), INT(number)},
                        2) < 0)
            return -1;
    return series_recount(&x->db, number, e);
}

/* An id that lies in a stretch of ids of this home is known here, also when its job was removed. */
static int import_is_present(struct importing *x, struct id id, bool *out, struct err *e)
{
    sqlite3_stmt *st = db_query(
        &x->db, e, "SELECT first, last, id FROM intake WHERE id <= ?1 ORDER BY id DESC LIMIT 1",
        ID(id));
    int rc = db_step(&x->db, st, e);

    *out = false;
    if (rc <= 0)
        return rc;
    struct id base = column_id(st, 2);
    *out = id_cmp(id_add(base, column_u64(st, 1) - column_u64(st, 0)), id) >= 0;
    sqlite3_reset(st);
    return 0;
}

static int import_job(struct importing *x, const struct json *j, struct str line, struct err *e)
{
    uint64_t number = (uint64_t)(json_int(json_get(j, "number")) + x->base);
    char text[ID_TEXT_MAX];
    enum job_state state;
    struct id id;
    bool present;

    if (check_job(x, j, &state, &id, e) < 0 || import_is_present(x, id, &present, e) < 0)
        return -1;
    if (present) {
        x->tally->present++;
        return 0;
    }
    if (import_rows(x, j, line, number, state, id, e) < 0)
        return -1;
    x->tally->jobs++;
    if (!x->tally->first)
        x->tally->first = number;
    id_format(id, text);
    return x->conf->job(x->conf->arg, text, number, e);
}

static int import_line(struct importing *x, const struct json *j, struct str line, struct err *e)
{
    struct str is = json_get_str(j, "is");

    if (str_eq_c(is, "project"))
        return import_project_line(x, j, line, e);
    if (str_eq_c(is, "batch"))
        return import_later(x, &x->batches, j, line, e);
    if (str_eq_c(is, "spec"))
        return import_later(x, &x->specs, j, line, e);
    if (str_eq_c(is, "job"))
        return import_job(x, j, line, e);
    return import_bad(x, "a line of an unknown kind", e);
}

/* ---- the file ---- */

/* The first look: the format, and which numbers the jobs have. */
static int import_span(struct importing *x, struct str text, struct err *e)
{
    bool first = true;

    x->low = INT64_MAX;
    while (text.n) {
        AUTO(json) struct json *j = NULL;
        struct str line = str_cut(text, '\n', &text);
        if (json_parse(line, x->name, &j, e) < 0)
            return -1;
        if (first && !str_eq_c(json_get_str(j, "format"), "berth-export"))
            return import_bad(x, "the first line does not name the format", e);
        if (first && json_int(json_get(j, "version")) != 1)
            return err_set(e, ERR_INVALID, "%s was written by a newer berth; use that one",
                           x->name);
        first = false;
        if (!str_eq_c(json_get_str(j, "is"), "job"))
            continue;
        int64_t number = json_int(json_get(j, "number"));
        x->low = MIN(x->low, number);
        x->high = MAX(x->high, number);
    }
    if (first)
        return import_bad(x, "it is empty", e);
    if (x->low != INT64_MAX && (x->low <= 0 || x->high - x->low > SPAN_MAX))
        return import_bad(x, "numbers of its jobs are out of range", e);
    return 0;
}

static int import_recount(struct importing *x, struct err *e)
{
#define SET_BATCH_COUNT(up, low, number, kind)                                                     \
    ", n" #number "= (SELECT count(*) FROM job WHERE job.seq BETWEEN first_job AND first_job +"    \
    " n_jobs - 1 AND job.batch = batch.seq AND state = " #number ")"
    int64_t job = x->high ? x->high + x->base + 1 : 0;

    if (db_exec(&x->db,
                "DELETE FROM tally; INSERT INTO tally SELECT party, state, count(*) FROM job GROUP"
                " BY party, state",
                e) < 0 ||
        db_run(&x->db, e,
               "UPDATE batch SET n_jobs = n_jobs" JOB_STATE_LIST(
                   SET_BATCH_COUNT) " WHERE seq >= (SELECT batch FROM counter)") < 0)
        return -1;
    return db_run(&x->db, e, "UPDATE counter SET job = max(job, ?1), spec = ?2, batch = ?3",
                  INT(x->tally->jobs ? job : 0), INT(x->next_spec), INT(x->next_batch));
}

static int import_text(struct importing *x, struct str text, struct err *e)
{
    int64_t next = 0;
    bool first = true;

    if (db_int(&x->db, "SELECT job FROM counter", &next, e) < 0 ||
        db_int(&x->db, "SELECT spec FROM counter", &x->next_spec, e) < 0 ||
        db_int(&x->db, "SELECT batch FROM counter", &x->next_batch, e) < 0)
        return -1;
    x->base = x->high ? next - x->low : 0;
    while (text.n) {
        AUTO(json) struct json *j = NULL;
        struct str line = str_cut(text, '\n', &text);
        if (json_parse(line, x->name, &j, e) < 0 || (!first && import_line(x, j, line, e) < 0))
            return -1;
        first = false;
    }
    return import_recount(x, e);
}

int store_import(const struct import_conf *conf, struct str text, const char *name,
                 struct import_tally *out, struct err *e)
{
    struct importing x = {.conf = conf, .name = name, .tally = out};

    *out = (struct import_tally){0};
    int rc = import_span(&x, text, e);
    if (rc == 0)
        rc = db_open(&x.db, conf->path, DB_WRITER, e);
    if (rc == 0)
        rc = migrate(&x.db, migrations, n_migrations, e);
    if (rc == 0 && sqlite3_create_function(x.db.h, "hex_bytes", 1, SQLITE_UTF8 | SQLITE_INNOCUOUS,
                                           NULL, sql_hex_bytes, NULL, NULL))
        rc = db_fail(&x.db, e);
    if (rc == 0)
        rc = db_exec(&x.db, "BEGIN IMMEDIATE", e);
    if (rc == 0)
        rc = import_text(&x, text, e);
    if (rc == 0)
        rc = db_exec(&x.db, "COMMIT", e);
    map_u64_clear(&x.specs, free);
    map_u64_clear(&x.batches, free);
    db_done(&x.db); /* rolls back what was not committed */
    return rc;
}
