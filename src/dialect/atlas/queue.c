/* queue.c - /queued_jobs by position, and /workers
 *
 * A position counts at the moment of the request: the controller gives the order on the loop
 * thread, then a worker thread reads the facts of the jobs.
 */
#include "base/json_out.h"
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"
#include <stdio.h>

/* The numbers of the waiting jobs in their order, as they were when the request came. */
struct places {
    uint64_t *jobs;
    size_t n;
    size_t at; /* of the one asked for */
    bool purge;
};

static void places_free(void *data)
{
    free(((struct places *)data)->jobs);
}

/* Takes the order of the queue from the controller.  Loop thread. */
static struct places *places_get(struct call *c)
{
    struct places *p = call_alloc(c, sizeof(*p));

    p->n = core_queue_list(call_atlas(c)->conf.core, STR(ATLAS_QUEUE), &p->jobs);
    c->data = p;
    c->free_data = places_free;
    return p;
}

/* The position in the path. */
static int position_read(struct call *c, struct places *p)
{
    int64_t at;

    if (!str_to_i64(c->arg[0], &at) || at < 0)
        return err_set(&c->err, ERR_INVALID, "position '%.40s' must be 0 or a larger number",
                       c->arg[0].p);
    if ((size_t)at >= p->n)
        return err_set(&c->err, ERR_NOT_FOUND,
                       "there is no job at position %lld; the queue has %zu", (long long)at, p->n);
    p->at = (size_t)at;
    return 0;
}

/* The job at a position; NULL: it has left the queue meanwhile.  Yours. */
static struct json *queue_job_json(struct call *c, uint64_t job, size_t at)
{
    AUTO(atlas_job) struct atlas_job j = {0};
    struct err gone;

    if (atlas_job_read(c, job, &j, &gone) < 0 || atlas_job_extra(c, &j, &gone) < 0)
        return NULL;
    struct json *all = atlas_job_json(&j);
    json_set_int(all, "position", (int64_t)at);
    return all;
}

static int queue_list_work(struct call *c)
{
    struct places *p = c->data;
    char position[24];

    jw_object(&c->out, NULL);
    for (size_t i = 0; i < p->n; i++) {
        AUTO(json) struct json *job = queue_job_json(c, p->jobs[i], i);
        snprintf(position, sizeof(position), "%zu", i);
        if (job)
            jw_json(&c->out, position, job);
    }
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    return 0;
}

/* GET /queued_jobs: position → job. */
void atlas_queue_list(struct call *c)
{
    places_get(c);
    atlas_work(c, queue_list_work, NULL);
}

static int queue_get_work(struct call *c)
{
    struct places *p = c->data;
    AUTO(json) struct json *job = queue_job_json(c, p->jobs[p->at], p->at);

    if (!job)
        return err_set(&c->err, ERR_NOT_FOUND, "the job at position %zu has just left the queue",
                       p->at);
    jw_json(&c->out, NULL, job);
    buf_addc(&c->out, '\n');
    return 0;
}

/* atlas_work for a route with a position in its path. */
static void position_work(struct call *c, call_work_fn work, call_fn then)
{
    if (position_read(c, places_get(c)) < 0)
        call_fail(c, &c->err);
    else
        atlas_work(c, work, then);
}

/* GET /queued_jobs/POSITION. */
void atlas_queue_get(struct call *c)
{
    position_work(c, queue_get_work, NULL);
}

/* ---- delete: out of the queue and out of the records; its bundle stays unless purged ---- */

/* The job has left the queue; now its record goes, and with `purge` its bundle. */
static void queue_on_cancelled(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;
    const struct places *p = c->data;

    if (e || !r->done)
        call_acted(c, e, r);
    else if (p->purge)
        atlas_remove(c, c->arg[1].p, atlas_removed);
    else
        core_remove(call_atlas(c)->conf.core, &atlas_note(c)->job, 1, &c->who.caller, call_acted,
                    c);
}

/* Reads the id of the job before the record is removed: the files are found by that id. */
static int id_work(struct call *c)
{
    struct places *p = c->data;
    AUTO(atlas_job) struct atlas_job j = {0};

    atlas_note(c)->job = p->jobs[p->at];
    p->purge = http_query_param(c->query, "purge", &c->mem) != NULL; /* an empty one counts */
    if (atlas_job_read(c, atlas_note(c)->job, &j, &c->err) < 0)
        return -1;
    c->arg[1] = call_copy(c, str_of(j.id));
    return 0;
}

static void queue_delete_then(struct call *c)
{
    core_cancel(call_atlas(c)->conf.core, &atlas_note(c)->job, 1, &c->who.caller,
                queue_on_cancelled, c);
}

/* DELETE /queued_jobs/POSITION. */
void atlas_queue_delete(struct call *c)
{
    position_work(c, id_work, queue_delete_then);
}

/* ---- patch ---- */

/* Clients send the position as a number or as a text. */
static int patch_work(struct call *c)
{
    AUTO(json) struct json *j = call_json_body(c);
    struct places *p = c->data;
    int64_t to;

    if (!j)
        return -1;
    bool ok =
        json_type(j) == JSON_INT || (json_type(j) == JSON_STR && str_to_i64(json_str(j), &to));
    to = json_type(j) == JSON_INT ? json_int(j) : ok ? to : -1;
    if (!ok || to < 0)
        return err_set(&c->err, ERR_INVALID,
                       "the body must be the new position, a number from 0 to %zu", p->n - 1);
    atlas_note(c)->job = p->jobs[p->at];
    p->at = (size_t)to;
    return 0;
}

/* The controller moves the job by its number, so a change of the queue meanwhile moves no other
 * job. */
static void patch_then(struct call *c)
{
    core_queue_move(call_atlas(c)->conf.core, atlas_note(c)->job, ((struct places *)c->data)->at,
                    &c->who.caller, call_acted, c);
}

/* PATCH /queued_jobs/POSITION: the body is the new position. */
void atlas_queue_patch(struct call *c)
{
    position_work(c, patch_work, patch_then);
}

/* ---- workers ---- */

static int workers_checked(struct call *c)
{
    (void)c; /* who asks was looked at before this is called */
    return 0;
}

/* Loop thread, because workers and live jobs belong to that thread. */
static void list_then(struct call *c)
{
    struct atlas *a = call_atlas(c);

    jw_object(&c->out, NULL);
    for (size_t i = 0; i < a->workers.n; i++) {
        const struct atlas_live *l = atlas_on_worker(a, a->workers.p[i]);
        char id[16];
        snprintf(id, sizeof(id), "%d", a->workers.p[i]);
        jw_object(&c->out, id);
        jw_int(&c->out, "worker_id", a->workers.p[i]);
        jw_str_or_null(&c->out, "job_id", str_of(l ? l->id : NULL));
        jw_end_object(&c->out);
    }
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    call_reply(c);
}

/* GET /workers: worker → the job it is running. */
void atlas_workers_list(struct call *c)
{
    atlas_work(c, workers_checked, list_then);
}

/* The number of workers is the limit of the queue. */
static void set_rules(struct call *c, core_act_fn then)
{
    struct queue_rules r = core_queue_rules_of(call_atlas(c)->conf.core, STR(ATLAS_QUEUE));

    r.limit = (int32_t)call_atlas(c)->workers.n;
    core_queue_rules(call_atlas(c)->conf.core, STR(ATLAS_QUEUE), &r, &c->who.caller, then, c);
}

/* Loop thread.  The new number follows the highest one that exists; gaps of removed workers are not
 * filled. */
static void add_then(struct call *c)
{
    struct atlas *a = call_atlas(c);
    int32_t id = a->workers.n ? vec_last(&a->workers) + 1 : 0;

    if (a->workers.n >= ATLAS_WORKERS_MAX) {
        err_set(&c->err, ERR_INVALID, "there are %d workers, which is the maximum",
                ATLAS_WORKERS_MAX);
        call_fail(c, &c->err);
        return;
    }
    vec_push(&a->workers, id);
    c->status = 201;
    buf_addf(&c->out, "%d\n", id);
    set_rules(c, call_acted);
}

/* POST /workers: one worker more; answers its number. */
void atlas_workers_add(struct call *c)
{
    atlas_work(c, workers_checked, add_then);
}

/* The limit is lower now; the job of the worker that was removed is stopped. */
static void on_fewer(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    if (e || !atlas_note(c)->job) {
        call_acted(c, e, r);
        return;
    }
    core_cancel(call_atlas(c)->conf.core, &atlas_note(c)->job, 1, &c->who.caller, call_acted, c);
}

/* The last worker cannot be removed: pausing the queue is the way to stop it. */
static void remove_then(struct call *c)
{
    struct atlas *a = call_atlas(c);
    int64_t id;
    size_t at = 0;

    if (!str_to_i64(c->arg[0], &id))
        id = -1;
    while (at < a->workers.n && a->workers.p[at] != id)
        at++;
    if (at == a->workers.n || a->workers.n == 1) {
        err_set(&c->err, at == a->workers.n ? ERR_NOT_FOUND : ERR_CONFLICT,
                at == a->workers.n ? "there is no worker '%.20s'"
                                   : "worker %.20s is the last one; pause the queue instead",
                c->arg[0].p);
        call_fail(c, &c->err);
        return;
    }
    const struct atlas_live *l = atlas_on_worker(a, (int32_t)id);
    atlas_note(c)->job = l ? l->job : 0;
    vec_remove(&a->workers, at);
    set_rules(c, on_fewer);
}

/* DELETE /workers/WORKER. */
void atlas_workers_remove(struct call *c)
{
    atlas_work(c, workers_checked, remove_then);
}
