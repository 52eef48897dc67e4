/* jobs.c - jobs by their state, one job, its log; stop and delete */
#include "api/follow.h"
#include "base/json_out.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/atlas_priv.h"
#include <stdio.h>
#include <sys/stat.h>

enum { PAGE = 1000 };

/* ---- lists ---- */

/* One list.  Only one page of jobs is held as structs; what is answered is kept as JSON, because
 * the sort works on the members of the answer. */
struct jobs_list {
    struct call *c;
    enum atlas_state state;
    const char *sort;           /* "start_time:desc,job_id:asc" */
    VEC(struct atlas_job) jobs; /* of the page that is being read */
    VEC(struct json *) all;     /* of every page: the jobs as they are answered */
};

/* The store knows more states than Atlas, so the state is checked here again. */
static bool jobs_on_job(void *arg, const struct job_view *v)
{
    struct jobs_list *l = arg;
    struct atlas_job j;

    atlas_job_fill(v, &j);
    /* A job that is being started has left the queue, so it is listed with those that run. */
    if (j.state == l->state || (l->state == ATLAS_RUNNING && j.state == ATLAS_PENDING))
        vec_push(&l->jobs, j);
    else
        atlas_job_done(&j);
    return true;
}

/* Facts come in pages of the store; the specs are read afterwards, one by one. */
static int jobs_read_page(struct jobs_list *l, uint32_t states, char **cursor)
{
    struct call *c = l->c;
    struct job_query q = {
        .queue = ATLAS_QUEUE, .state_mask = states, .limit = PAGE, .sort = "id", .cursor = *cursor};
    char *next = NULL;

    int rc = store_jobs(call_atlas(c)->conf.store, &q, jobs_on_job, l, &next, &c->err);
    free(*cursor);
    *cursor = next;
    for (size_t i = 0; i < l->jobs.n; i++) {
        struct atlas_job *j = &l->jobs.p[i];
        struct err gone; /* a job that was removed meanwhile is left out */
        if (rc == 0 && atlas_job_extra(c, j, &gone) == 0)
            vec_push(&l->all, atlas_job_json(j));
        atlas_job_done(j);
    }
    vec_clear(&l->jobs);
    return rc;
}

/* Numbers compare by size, everything else by its text; a missing value comes first. */
static int jobs_compare_values(const struct json *a, const struct json *b)
{
    bool numbers = (json_type(a) == JSON_INT || json_type(a) == JSON_REAL) &&
                   (json_type(b) == JSON_INT || json_type(b) == JSON_REAL);

    if (!a || !b)
        return (a != NULL) - (b != NULL);
    if (numbers)
        return (json_real(a) > json_real(b)) - (json_real(a) < json_real(b));
    AUTO_FREE char *x = json_text(a), *y = json_text(b);
    return strcmp(x, y);
}

/* An unknown field compares equal, so the order of the store remains. */
static int by_fields(const void *pa, const void *pb, void *arg)
{
    const struct json *const *a = pa, *const *b = pb;
    struct str rest = str_of(((struct jobs_list *)arg)->sort);

    while (rest.n > 0) {
        struct str way, field = str_cut(str_cut(rest, ',', &rest), ':', &way);
        char key[64];
        if (field.n >= sizeof(key))
            continue;
        snprintf(key, sizeof(key), STR_FMT, STR_ARG(field));
        int d = jobs_compare_values(json_get(*a, key), json_get(*b, key));
        if (d)
            return str_eq_c(way, "desc") ? -d : d;
    }
    return 0;
}

/* The route says which list it is. */
static enum atlas_state jobs_state_asked(const struct call *c)
{
    struct str path = str_of(c->route->path);

    return str_starts(path, STR("/running"))     ? ATLAS_RUNNING
           : str_starts(path, STR("/completed")) ? ATLAS_COMPLETED
                                                 : ATLAS_FAILED;
}

/* Worker thread.  The store filters by state; then all pages are sorted together. */
static int jobs_list_work(struct call *c)
{
    static const uint32_t active = 1u << JOB_STARTING | 1u << JOB_RUNNING | 1u << JOB_STOPPING;
    struct jobs_list l = {.c = c, .state = jobs_state_asked(c), .sort = call_param(c, "sort")};
    uint32_t states = l.state == ATLAS_RUNNING     ? active
                      : l.state == ATLAS_COMPLETED ? 1u << JOB_SUCCEEDED
                                                   : JOB_STATES_FINAL & ~(1u << JOB_SUCCEEDED);
    char *cursor = NULL;
    int rc;

    do
        rc = jobs_read_page(&l, states, &cursor);
    while (rc == 0 && cursor);
    free(cursor);
    if (rc == 0 && l.sort && l.all.n)
        qsort_r(l.all.p, l.all.n, sizeof(*l.all.p), by_fields, &l);
    jw_object(&c->out, NULL);
    for (size_t i = 0; i < l.all.n; i++) {
        jw_key(&c->out, json_str(json_get(l.all.p[i], "job_id")));
        jw_json(&c->out, NULL, l.all.p[i]);
        json_free(l.all.p[i]);
    }
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    vec_done(&l.jobs);
    vec_done(&l.all);
    return rc;
}

/* GET /running_jobs, /completed_jobs and /failed_jobs; `sort` orders the answer. */
void atlas_jobs_list(struct call *c)
{
    atlas_work(c, jobs_list_work, NULL);
}

/* ---- one ---- */

static int jobs_get_work(struct call *c)
{
    AUTO(atlas_job) struct atlas_job j = {0};

    if (atlas_job_find_short(c, c->arg[0], &j) < 0)
        return -1;
    AUTO(json) struct json *all = atlas_job_json(&j);
    struct atlas_full waits;
    if (atlas_archive_waits(call_atlas(c), j.id, &waits))
        json_set_str(all, "reason", waits.text);
    jw_object(&c->out, NULL);
    for (struct json_it it = {0}; json_next(all, &it);)
        jw_json(&c->out, it.key, it.val);
    const char *logs = call_param(c, "logs");
    if (!logs || strcmp(logs, "0") != 0) /* the command asks for the state alone, again and again */
        atlas_add_log(c, "logs", &j);    /* written straight into the answer: a log may be large */
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    return 0;
}

/* GET /jobs/JOB: the record of the job with its log. */
void atlas_job_get(struct call *c)
{
    atlas_work(c, jobs_get_work, NULL);
}

static int logs_work(struct call *c)
{
    AUTO(atlas_job) struct atlas_job j = {0};

    if (atlas_job_find(c, c->arg[0], &j) < 0)
        return -1;
    atlas_add_log(c, NULL, &j);
    buf_addc(&c->out, '\n');
    return 0;
}

/* The log alone, as a JSON text. */
void atlas_jobs_logs(struct call *c)
{
    atlas_work(c, logs_work, NULL);
}

/* Only a job that runs has a container. */
static int container_work(struct call *c)
{
    AUTO(atlas_job) struct atlas_job j = {0};

    if (atlas_job_find(c, c->arg[0], &j) < 0)
        return -1;
    if (j.state != ATLAS_RUNNING && j.state != ATLAS_PENDING)
        return err_set(&c->err, ERR_NOT_FOUND, "job %.40s is not running", c->arg[0].p);
    /* A container is named after its run: job and attempt. */
    buf_addf(&c->out, "\"berth-%llu.%u\"\n", (unsigned long long)j.job, j.attempt);
    return 0;
}

void atlas_jobs_container(struct call *c)
{
    atlas_work(c, container_work, NULL);
}

/* ---- the log as it grows ---- */

/* `file`: the log is sent by api_follow; else the answer is in call.out. */
struct tail {
    struct run_key key;
    int64_t offset;
    bool follow, file;
};

/* A log that is still a file is sent by api_follow; any other text is the answer itself. */
static int tail_work(struct call *c)
{
    struct tail *t = c->data;
    const char *offset = call_param(c, "offset"), *follow = call_param(c, "follow");
    AUTO(atlas_job) struct atlas_job j = {0};
    size_t n;

    if (offset && !str_to_i64(str_of(offset), &t->offset))
        return err_set(&c->err, ERR_INVALID, "offset=%.40s: must be a whole number", offset);
    t->follow = follow && strcmp(follow, "0") != 0;
    if (atlas_job_find(c, c->arg[0], &j) < 0)
        return -1;
    const struct core *core = call_atlas(c)->conf.core;
    t->key = core_run_key(core, j.job, j.job_id, j.attempt);
    AUTO_FREE char *path = core_log_path(core, t->key);
    bool over = job_state_final(j.real);
    struct stat st;
    bool empty = stat(path, &st) < 0 || st.st_size == 0; /* the reason stands for it */
    t->file = j.attempt ? !over || !empty : t->follow && !over;
    c->type = "text/plain; charset=utf-8";
    if (!t->file) {
        AUTO_FREE char *log = atlas_job_log(c, &j, &n);
        size_t from = t->offset < 0 ? 0 : MIN((size_t)t->offset, n);
        buf_add(&c->out, log + from, n - from);
    }
    return 0;
}

/* api_follow takes the request and sends the file, growing while the job runs. */
static void tail_then(struct call *c)
{
    struct tail *t = c->data;

    if (!t->file) {
        call_reply(c);
        return;
    }
    if (t->follow && call_stream_check(c) < 0)
        return;
    struct http_req *r = call_take_req(c);
    if (r)
        api_follow(call_atlas(c)->conf.api, r, t->key, t->offset, !t->follow);
    call_free(c);
}

/* GET /jobs/JOB/logs: bytes of the log from `offset` on; with `follow` until the job ends. */
void atlas_job_tail(struct call *c)
{
    c->data = call_alloc(c, sizeof(struct tail));
    atlas_work(c, tail_work, tail_then);
}

/* ---- stop ---- */

/* Worker thread.  The state may change until stop_then; the core checks it again. */
static int stop_work(struct call *c)
{
    AUTO(atlas_job) struct atlas_job j = {0};

    if (atlas_job_find(c, c->arg[0], &j) < 0)
        return -1;
    atlas_note(c)->job = j.job;
    if (j.state != ATLAS_RUNNING && j.state != ATLAS_PENDING)
        return err_set(&c->err, ERR_NOT_FOUND, "job %.40s is not running: it is %s", c->arg[0].p,
                       atlas_state_names[j.state]);
    return 0;
}

/* A job whose archive is being made counts as running, but cannot be stopped any more; to cancel it
 * in the core would give up its archive. */
static void stop_then(struct call *c)
{
    if (core_job_ending(call_atlas(c)->conf.core, atlas_note(c)->job)) {
        err_set(&c->err, ERR_NOT_FOUND, "job %.40s has ended; its files are being archived",
                c->arg[0].p);
        call_fail(c, &c->err);
        return;
    }
    core_cancel(call_atlas(c)->conf.core, &atlas_note(c)->job, 1, &c->who.caller, call_acted, c);
}

/* DELETE /running_jobs/JOB: stops the job; its record and files stay. */
void atlas_jobs_stop(struct call *c)
{
    atlas_work(c, stop_work, stop_then);
}

/* ---- delete ---- */

/* Files that a container wrote as root are removed by a container too, then the rest is tried
 * again. */
static int jobs_discard_work(struct call *c)
{
    const struct atlas_conf *conf = &call_atlas(c)->conf;
    const char *id = atlas_note(c)->removed;
    AUTO_FREE char *archive = xasprintf("%s/%s", call_atlas(c)->archive_dir, id);
    int rc = atlas_discard_job(conf->home, call_atlas(c)->cas, id, &c->err);

    if (rc == 0 || c->err.code != ERR_DENIED)
        return rc;
    c->err = (struct err){0};
    if (host_clean_dir(conf->env, archive, &c->err) < 0)
        return -1;
    return atlas_discard_job(conf->home, call_atlas(c)->cas, id, &c->err);
}

/* The record is removed first; then no other request can find the job while its files go. */
static void jobs_on_removed(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    if (e || !r->done)
        call_acted(c, e, r);
    else
        atlas_work(c, jobs_discard_work, atlas_note(c)->then_removed);
}

void atlas_remove(struct call *c, const char *id, call_fn then)
{
    atlas_note(c)->removed = id;
    atlas_note(c)->then_removed = then;
    core_remove(call_atlas(c)->conf.core, &atlas_note(c)->job, 1, &c->who.caller, jobs_on_removed,
                c);
}

void atlas_removed(struct call *c)
{
    c->status = 204;
    call_reply(c);
}

static int jobs_delete_work(struct call *c)
{
    AUTO(atlas_job) struct atlas_job j = {0};

    if (atlas_job_find(c, c->arg[0], &j) < 0)
        return -1;
    atlas_note(c)->job = j.job;
    if (j.state < ATLAS_COMPLETED)
        return err_set(&c->err, ERR_NOT_FOUND,
                       "job %.40s is %s; only completed and failed jobs can be deleted",
                       c->arg[0].p, atlas_state_names[j.state]);
    return 0;
}

static void jobs_delete_then(struct call *c)
{
    atlas_remove(c, c->arg[0].p, atlas_removed);
}

/* DELETE /completed_jobs/JOB: removes record and files of a job that has ended. */
void atlas_jobs_delete(struct call *c)
{
    atlas_work(c, jobs_delete_work, jobs_delete_then);
}
