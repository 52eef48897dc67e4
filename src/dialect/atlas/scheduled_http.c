/* scheduled_http.c - /scheduled_jobs: list, create, pause, change and remove scheduled jobs
 *
 * The bundle that was uploaded for the id becomes the bundle of the scheduled job: it is kept as
 * long as the schedule, under a name of its own.  A job without a schedule (null or an empty
 * object: clients of the original send that first) is paused until it gets one.
 *
 * A worker thread checks and writes a change to disk; then the loop thread puts it into the list.
 */
#include "api/submit_parse.h"
#include "base/json_out.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/scheduled_priv.h"
#include <stdio.h>

enum { NEXT_RUNS = 3 };

/* Always -1, with the error set. */
static int scheduled_missing(struct call *c)
{
    return err_set(&c->err, ERR_NOT_FOUND, "there is no scheduled job '%.60s'", c->arg[0].p);
}

/* The scheduled job of the path, which the caller may change. */
static struct scheduled *scheduled_of_caller(struct call *c)
{
    struct scheduled *x = schedules_find(call_atlas(c)->schedules, c->arg[0].p);

    if (!x)
        scheduled_missing(c);
    else if (!c->who.caller.admin && c->who.caller.uid != x->owner.uid) {
        err_set(&c->err, ERR_DENIED, "scheduled job %s belongs to %.60s", x->id, x->owner.user);
        return NULL;
    }
    return x;
}

/* ---- reading ---- */

/* One member of the answer: id → next runs, schedule, status and definition. */
static void scheduled_add_json(struct buf *b, const struct scheduled *x)
{
    int64_t now = schedules_now(), t = MAX(now, x->done_s);

    jw_object(b, x->id);
    jw_array(b, "next_run_time");
    for (int i = 0; i < NEXT_RUNS; i++) {
        t = x->paused ? 0 : scheduled_after(x, t);
        jw_int_or_null(b, NULL, t, t != 0);
    }
    jw_end_array(b);
    jw_json(b, "schedule", json_get(x->def, "schedule"));
    jw_text(b, "status", x->paused ? "paused" : "active");
    jw_json(b, "properties", x->def);
    jw_end_object(b);
}

/* A definition without a project belongs to "default", as a job does. */
static bool in_project(const struct scheduled *x, const char *project)
{
    const struct json *name = json_get(json_get(x->def, "metadata"), "project_name");

    return str_eq_c(json_type(name) == JSON_STR ? json_str(name) : STR("default"), project);
}

static int scheduled_list_work(struct call *c)
{
    const struct schedules *s = call_atlas(c)->schedules;
    const char *project = http_query_param(c->query, "project", &c->mem);

    jw_object(&c->out, NULL);
    for (size_t i = 0; i < s->all.n; i++)
        if (!project || in_project(s->all.p[i], project))
            scheduled_add_json(&c->out, s->all.p[i]);
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    return 0;
}

static int scheduled_get_work(struct call *c)
{
    const struct scheduled *x = schedules_find(call_atlas(c)->schedules, c->arg[0].p);

    if (!x)
        return scheduled_missing(c);
    jw_object(&c->out, NULL);
    scheduled_add_json(&c->out, x);
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    return 0;
}

/* GET /scheduled_jobs; `project` restricts the list. */
void atlas_scheduled_list(struct call *c)
{
    schedules_turn(c, scheduled_list_work, NULL);
}

/* GET /scheduled_jobs/ID. */
void atlas_scheduled_get(struct call *c)
{
    schedules_turn(c, scheduled_get_work, NULL);
}

/* ---- changes ---- */

/* The definition is on disk; now the list gets it, and the timer counts with it. */
static void scheduled_put_then(struct call *c)
{
    struct turn *t = c->data;

    schedules_put_take(t->s, TAKE(t->x));
    call_reply(c);
}

/* The body, which must be an object with this key.  Yours. */
static struct json *body_with(struct call *c, const char *key, const char *example)
{
    AUTO(json) struct json *body = call_json_body(c);

    if (!body || json_get(body, key))
        return TAKE(body);
    err_set(&c->err, ERR_INVALID, "%s is missing: send an object such as %s", key, example);
    return NULL;
}

/* Writes the changed definition.  Moments before the change are settled: they are not fired. */
static int scheduled_keep_change(struct call *c)
{
    struct turn *t = c->data;

    t->x->done_s = schedules_now();
    c->status = 204;
    return scheduled_write(t->s->dir, t->x, &c->err);
}

/* A job without a schedule cannot become active. */
static int set_status(struct call *c, struct scheduled *x, const struct json *status)
{
    struct str word = json_type(status) == JSON_STR ? json_str(status) : STR("");

    if (!str_eq_c(word, "paused") && !str_eq_c(word, "active"))
        return err_set(&c->err, ERR_INVALID, "status must be paused or active");
    x->paused = str_eq_c(word, "paused");
    if (!x->paused && !x->timed)
        return err_set(&c->err, ERR_INVALID,
                       "scheduled job %s has no schedule; set one with PATCH first", x->id);
    return 0;
}

static int scheduled_status_work(struct call *c)
{
    struct turn *t = c->data;
    const struct scheduled *was = scheduled_of_caller(c);
    AUTO(json) struct json *body = was ? body_with(c, "status", "{\"status\": \"paused\"}") : NULL;

    if (!body)
        return -1;
    t->x = scheduled_copy(was);
    return set_status(c, t->x, json_get(body, "status")) < 0 ? -1 : scheduled_keep_change(c);
}

static int scheduled_times_work(struct call *c)
{
    struct turn *t = c->data;
    const struct scheduled *was = scheduled_of_caller(c);
    AUTO(json)
    struct json *body = was ? body_with(c, "schedule", "{\"schedule\": \"30 6 * * *\"}") : NULL;

    if (!body)
        return -1;
    t->x = scheduled_copy(was);
    if (scheduled_set_times(t->x, json_get(body, "schedule"), &c->err) < 0)
        return -1;
    if (!t->x->timed)
        return err_set(&c->err, ERR_INVALID,
                       "schedule is empty; to pause scheduled job %s, PUT its status", t->x->id);
    if (was->paused && !was->timed)
        t->x->paused = false; /* the job was paused only because it had no schedule */
    return scheduled_keep_change(c);
}

/* PUT /scheduled_jobs/ID: {"status": "paused" or "active"}. */
void atlas_scheduled_put(struct call *c)
{
    schedules_turn(c, scheduled_status_work, scheduled_put_then);
}

/* PATCH /scheduled_jobs/ID: {"schedule": …}. */
void atlas_scheduled_patch(struct call *c)
{
    schedules_turn(c, scheduled_times_work, scheduled_put_then);
}

/* ---- creating a scheduled job ---- */

/* Checks now everything that a firing will need, by preparing a run and dropping it. */
static int scheduled_try_run(struct call *c, struct atlas_submission s)
{
    struct turn *t = c->data;
    struct submit *x = NULL;
    char run[ATLAS_ID_MAX];

    scheduled_run_id(t->x, schedules_now(), run);
    s.id = run;
    if (atlas_prepare(call_atlas(c), &s, &t->room, &c->who.caller, &x, &c->err) < 0)
        return -1;
    submit_free(x);
    return 0;
}

/* Fills the new definition from the body of the request. */
static int read_definition(struct call *c, struct json *body)
{
    struct turn *t = c->data;
    struct atlas_submission s;
    struct id id;

    /* The original did not ask for these two. */
    if (json_type(body) == JSON_OBJECT && !json_has(body, "metadata"))
        json_set_take(body, "metadata", json_new_object());
    if (json_type(body) == JSON_OBJECT && !json_has(body, "gpu_spec"))
        json_set_take(body, "gpu_spec", json_new_object());
    if (atlas_submission_read(body, &s, &c->err) < 0)
        return -1;
    t->x = xcalloc(1, sizeof(*t->x));
    t->x->owner = c->who.caller;
    t->x->done_s = schedules_now();
    id_parse(str_of(s.id), &id);
    id_format_uuid(id, t->x->id); /* the canonical form, for paths */
    t->x->def = json_new_object();
    json_set_str(t->x->def, "job_id", t->x->id);
    json_set_take(t->x->def, "spec", json_copy(s.spec));
    json_set_take(t->x->def, "metadata", json_copy(s.metadata));
    json_set_take(t->x->def, "gpu_spec", json_copy(s.gpu_spec));
    if (scheduled_set_times(t->x, json_get(body, "schedule"), &c->err) < 0)
        return -1;
    t->x->paused = !t->x->timed;
    return scheduled_try_run(c, s);
}

/* Refuses a second definition with this id, one too many, and one without a bundle. */
static int scheduled_check_new(struct call *c)
{
    const struct turn *t = c->data;
    char tree[ATLAS_TREE_MAX];

    atlas_bundle_tree(t->x->id, tree);
    if (schedules_find(t->s, t->x->id))
        return err_set(&c->err, ERR_CONFLICT,
                       "scheduled job %s exists already; PATCH its schedule, or DELETE it first",
                       t->x->id);
    if (t->s->all.n >= SCHEDULED_MAX)
        return err_set(&c->err, ERR_INVALID,
                       "there are %d scheduled jobs, which is the maximum; delete one first",
                       SCHEDULED_MAX);
    if (!cas_has_tree(call_atlas(c)->cas, tree))
        return err_set(&c->err, ERR_CONFLICT, "job %s has no bundle; upload the bundle first",
                       t->x->id);
    return 0;
}

/* The mark comes first and goes last: a crash in between leaves a mark, and the next start
 * removes the rest. */
static int scheduled_keep_new(struct call *c)
{
    struct turn *t = c->data;
    char bundle[ATLAS_TREE_MAX], kept[ATLAS_TREE_MAX];
    struct err none;

    atlas_bundle_tree(t->x->id, bundle);
    scheduled_tree(t->x->id, kept);
    if (scheduled_mark(t->s->dir, t->x->id, &c->err) < 0)
        return -1;
    if (cas_copy_tree(call_atlas(c)->cas, bundle, kept, &c->err) < 0 ||
        scheduled_write(t->s->dir, t->x, &c->err) < 0) {
        scheduled_erase(call_atlas(c)->cas, t->s->dir, t->x->id, &none);
        return -1;
    }
    /* The scheduled job exists from here on; a mark or bundle that stays behind does no harm. */
    scheduled_unmark(t->s->dir, t->x->id, &none);
    cas_drop_tree(call_atlas(c)->cas, bundle, &none);
    c->status = 201;
    buf_addf(&c->out, "\"%s\"\n", t->x->id);
    return 0;
}

static int scheduled_post_work(struct call *c)
{
    AUTO(json) struct json *body = call_json_body(c);

    if (!body || read_definition(c, body) < 0 || scheduled_check_new(c) < 0)
        return -1;
    return scheduled_keep_new(c);
}

/* POST /scheduled_jobs: a submission with a schedule; its bundle was uploaded before. */
void atlas_scheduled_post(struct call *c)
{
    schedules_turn(c, scheduled_post_work, scheduled_put_then);
}

/* ---- removing a scheduled job; its runs stay ---- */

/* The mark comes first: after a crash in between, the next start completes the removal. */
static int scheduled_delete_work(struct call *c)
{
    struct turn *t = c->data;
    const struct scheduled *x = scheduled_of_caller(c);

    if (!x)
        return -1;
    t->x = scheduled_copy(x);
    c->status = 204;
    if (scheduled_mark(t->s->dir, x->id, &c->err) < 0)
        return -1;
    return scheduled_erase(call_atlas(c)->cas, t->s->dir, x->id, &c->err);
}

static void scheduled_delete_then(struct call *c)
{
    struct turn *t = c->data;

    schedules_drop(t->s, t->x->id);
    call_reply(c);
}

/* DELETE /scheduled_jobs/ID; jobs that were fired before stay. */
void atlas_scheduled_delete(struct call *c)
{
    schedules_turn(c, scheduled_delete_work, scheduled_delete_then);
}
