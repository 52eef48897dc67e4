/* facts.c - a job in the words of Atlas: its state, its record, its log
 *
 * Atlas has five states.  A job that was stopped, lost or cancelled is failed.
 */
#include "api/follow.h"
#include "base/file.h"
#include "base/json_out.h"
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"
#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

const char *const atlas_state_names[] = {"queued", "pending", "running", "completed", "failed"};

void atlas_job_done(struct atlas_job *j)
{
    free(j->project);
    free(j->user);
    free(j->reason);
    json_free(j->extra);
    *j = (struct atlas_job){0};
}

/* A held job counts as queued, and a job that is being stopped still as running. */
static enum atlas_state atlas_state_of(enum job_state s)
{
    switch (s) {
    case JOB_QUEUED:
    case JOB_HELD:
        return ATLAS_QUEUED;
    case JOB_STARTING:
        return ATLAS_PENDING;
    case JOB_RUNNING:
    case JOB_STOPPING:
        return ATLAS_RUNNING;
    default:
        return s == JOB_SUCCEEDED ? ATLAS_COMPLETED : ATLAS_FAILED;
    }
}

void atlas_job_fill(const struct job_view *v, struct atlas_job *out)
{
    *out = (struct atlas_job){.job = v->seq,
                              .job_id = v->id,
                              .state = atlas_state_of(v->state),
                              .real = v->state,
                              .project = xstrndup(v->project.p, v->project.n),
                              .user = xstrndup(v->user.p, v->user.n),
                              .reason = xstrndup(v->reason.p ? v->reason.p : "", v->reason.n),
                              .created_ms = v->created_ms,
                              .started_ms = v->started_ms,
                              .ended_ms = v->ended_ms,
                              .exit_code = v->exit_code,
                              .attempt = v->attempt};
    atlas_id_format(v->id, v->name, out->id);
}

/* The submission as Atlas knows it is kept in the spec; its user name wins over that of the
 * system. */
int atlas_job_extra(const struct call *c, struct atlas_job *j, struct err *e)
{
    AUTO_FREE char *text = NULL;
    AUTO(json) struct json *spec = NULL;

    if (store_job_spec(call_atlas(c)->conf.store, j->job, &text, e) < 0 ||
        json_parse(str_of(text), "spec", &spec, e) < 0)
        return -1;
    const struct json *extra = json_get(spec, "extra");
    j->extra = json_type(extra) == JSON_OBJECT ? json_copy(extra) : json_new_object();
    const struct json *name = json_get(json_get(j->extra, "metadata"), "username");
    if (json_type(name) == JSON_STR && json_str(name).n) {
        free(j->user);
        j->user = xstrndup(json_str(name).p, json_str(name).n);
    }
    return 0;
}

int atlas_resolve(struct store *s, const char *id, uint64_t *out, struct err *e)
{
    char uuid[ID_UUID_MAX];
    struct id known;

    if (!atlas_id_parse(id, &known))
        return err_set(e, ERR_NOT_FOUND, "there is no job '%.60s'", id);
    id_format_uuid(known, uuid);
    return store_resolve(s, str_of(uuid), out, e);
}

static bool on_job_read(void *arg, const struct job_view *v)
{
    atlas_job_fill(v, arg);
    return false;
}

int atlas_job_read(const struct call *c, uint64_t job, struct atlas_job *out, struct err *e)
{
    return store_job(call_atlas(c)->conf.store, job, on_job_read, out, e);
}

int atlas_job_find(struct call *c, struct str id, struct atlas_job *out)
{
    uint64_t job;

    *out = (struct atlas_job){0};
    if (atlas_resolve(call_atlas(c)->conf.store, id.p, &job, &c->err) < 0 ||
        atlas_job_read(c, job, out, &c->err) < 0) {
        if (c->err.code == ERR_NOT_FOUND)
            err_set(&c->err, ERR_NOT_FOUND, "there is no job %.60s", id.p);
        return -1;
    }
    return atlas_job_extra(c, out, &c->err);
}

/* ---- the beginning of an id ---- */

enum { SHORT_MIN = 4, SHORT_PAGE = 1000 };
struct short_search {
    struct str want; /* in small letters */
    char found[ATLAS_ID_MAX];
    size_t n;
};

static bool on_short(void *arg, const struct job_view *v)
{
    struct short_search *s = arg;
    char id[ATLAS_ID_MAX];

    atlas_id_format(v->id, v->name, id);
    if (!str_starts(str_of(id), s->want))
        return true;
    snprintf(s->found, sizeof(s->found), "%s", id);
    return ++s->n < 2;
}

/* Ids begin with their random half, so all jobs are looked through. */
static int facts_find_short(struct call *c, struct str text, struct short_search *s)
{
    char *want = arena_strdup(&c->mem, text.p), *cursor = NULL;
    int rc;

    for (char *p = want; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    s->want = str_of(want);
    do {
        struct job_query q = {
            .queue = ATLAS_QUEUE, .limit = SHORT_PAGE, .sort = "id", .cursor = cursor};
        char *next = NULL;
        rc = store_jobs(call_atlas(c)->conf.store, &q, on_short, s, &next, &c->err);
        free(cursor);
        cursor = next;
    } while (rc == 0 && cursor && s->n < 2);
    free(cursor);
    return rc;
}

int atlas_job_find_short(struct call *c, struct str id, struct atlas_job *out)
{
    struct short_search s = {0};

    if (atlas_id_ok(id.p) || id.n < SHORT_MIN || strspn(id.p, "0123456789abcdefABCDEF-_") != id.n)
        return atlas_job_find(c, id, out);
    if (facts_find_short(c, id, &s) < 0)
        return -1;
    if (s.n > 1)
        return err_set(&c->err, ERR_CONFLICT, "several jobs begin with %.60s; give more of the id",
                       id.p);
    return atlas_job_find(c, s.n ? str_of(s.found) : id, out);
}

static void facts_set_time(struct json *j, const char *key, int64_t ms)
{
    json_set_take(j, key, ms ? json_new_real((double)ms / 1000) : NULL);
}

static void facts_set_copy(struct json *j, const struct atlas_job *from, const char *key)
{
    const struct json *v = json_get(from->extra, key);

    json_set_take(j, key, v ? json_copy(v) : json_new_object());
}

bool atlas_job_failed(const struct atlas_job *j)
{
    return job_state_final(j->real) && j->real != JOB_SUCCEEDED && j->reason[0];
}

/* Times are seconds since 1970 as a real number; a time that has not come is null. */
struct json *atlas_job_json(const struct atlas_job *job)
{
    struct json *j = json_new_object();
    bool over = job->state >= ATLAS_COMPLETED;

    json_set_str(j, "job_id", job->id);
    json_set_str(j, "status", atlas_state_names[job->state]);
    facts_set_copy(j, job, "spec");
    facts_set_copy(j, job, "metadata");
    facts_set_copy(j, job, "gpu_spec");
    facts_set_time(j, "queued_time", job->created_ms);
    facts_set_time(j, "start_time", job->started_ms);
    facts_set_time(j, "end_time", over ? job->ended_ms : 0);
    json_set_take(j, "return_code",
                  over && job->exit_code >= 0 ? json_new_int(job->exit_code) : NULL);
    json_set_str(j, "reason", atlas_job_failed(job) ? job->reason : NULL);
    return j;
}

/* Worker thread.  The log is that of the last run. */
char *atlas_job_log(const struct call *c, const struct atlas_job *j, size_t *out_n)
{
    const struct core *core = call_atlas(c)->conf.core;
    struct run_key key = core_run_key(core, j->job, j->job_id, j->attempt);
    AUTO_FREE char *path = core_log_path(core, key), *text = NULL;
    AUTO_FD fd = j->attempt ? log_file_open(path) : -1;
    struct stat st;
    struct err e;
    size_t n = 0;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        if (st.st_size > ATLAS_LOG_MAX)
            lseek(fd, st.st_size - ATLAS_LOG_MAX, SEEK_SET);
        /* A log may grow while it is read. */
        if (fd_read_all(fd, ATLAS_LOG_MAX + (ATLAS_LOG_MAX >> 1), &text, &n, &e) == 0 && n) {
            *out_n = n;
            return TAKE(text);
        }
        free(TAKE(text));
    }
    /* A job that never ran has no output: the reason why it failed stands for its log. */
    text = atlas_job_failed(j)
               ? xasprintf("Foundations ERROR: Job '%s' %s: %s\n", j->id,
                           j->started_ms ? "has failed" : "could not be started", j->reason)
               : xstrdup("");
    *out_n = strlen(text);
    return TAKE(text);
}

void atlas_add_log(struct call *c, const char *key, const struct atlas_job *j)
{
    size_t n;

    if (key && j->state == ATLAS_QUEUED) {
        jw_null(&c->out, key);
        return;
    }
    AUTO_FREE char *log = atlas_job_log(c, j, &n);
    jw_str(&c->out, key, (struct str){log, n});
}

void atlas_add_time(struct buf *b, const char *key, int64_t ms)
{
    char text[40];

    if (!ms) {
        jw_null(b, key);
        return;
    }
    atlas_time_text(ms, text);
    jw_text(b, key, text);
}

void atlas_time_text(int64_t ms, char out[40])
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;

    gmtime_r(&s, &tm);
    size_t n = strftime(out, 40, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, 40 - n, ".%03d+00:00", (int)(ms % 1000));
}
