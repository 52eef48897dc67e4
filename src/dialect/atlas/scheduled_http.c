/* scheduled_http.c - /scheduled_jobs: list, create, pause, change and remove scheduled jobs
 *
 * The bundle that was uploaded for the id becomes the bundle of the scheduled job: it is kept as
 * long as the schedule, under a name of its own.  A job without a schedule (null or an empty
 * object: clients of the original send that first) is paused until it gets one.
 *
 * The core keeps the schedules.  Worker threads read bodies and copy bundles.
 */
#include "api/submit_parse.h"
#include "base/clock.h"
#include "base/json_out.h"
#include "base/rand.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/scheduled_priv.h"
#include <stdio.h>
#include <strings.h>

enum { NEXT_RUNS = 3 };

static int64_t now_s(void)
{
    return clock_wall(&clock_system) / 1000;
}

/* The scheduled job of the path; NULL: the call was answered. */
static const struct schedule *scheduled_of_path(struct call *c)
{
    const struct schedule *s = scheduled_find(call_atlas(c), c->arg[0].p);

    if (s)
        return s;
    err_set(&c->err, ERR_NOT_FOUND, "there is no scheduled job '%.60s'", c->arg[0].p);
    call_fail(c, &c->err);
    return NULL;
}

/* ---- reading ---- */

/* One member of the answer: id → next runs, schedule, status and definition. */
static void scheduled_add_json(struct buf *b, const struct schedule *s)
{
    const struct json *job = json_get(s->def, "job"), *times = json_get(job, "schedule");
    int64_t t = MAX(now_s(), s->settled_s);

    jw_object(b, s->name);
    jw_array(b, "next_run_time");
    for (int i = 0; i < NEXT_RUNS; i++) {
        t = s->paused ? 0 : schedule_after(&s->rules, &s->zone, t);
        jw_int_or_null(b, NULL, t, t != 0);
    }
    jw_end_array(b);
    if (times)
        jw_json(b, "schedule", times);
    else
        jw_raw(b, "schedule", STR("{}"));
    jw_text(b, "status", s->paused ? "paused" : "active");
    jw_json(b, "properties", job);
    jw_end_object(b);
}

/* A definition without a project belongs to "default", as a job does. */
static bool in_project(const struct schedule *s, const char *project)
{
    struct str name = json_get_str(json_get(json_get(s->def, "job"), "metadata"), "project_name");

    return str_eq_c(name.n ? name : STR("default"), project);
}

/* GET /scheduled_jobs; `project` restricts the list. */
void atlas_scheduled_list(struct call *c)
{
    const struct core *core = call_atlas(c)->conf.core;
    const char *project = call_param(c, "project");

    jw_object(&c->out, NULL);
    for (size_t i = 0; i < core_schedule_count(core); i++) {
        const struct schedule *s = core_schedule_at(core, i);
        if (scheduled_is_ours(s) && (!project || in_project(s, project)))
            scheduled_add_json(&c->out, s);
    }
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    call_reply(c);
}

/* GET /scheduled_jobs/ID. */
void atlas_scheduled_get(struct call *c)
{
    const struct schedule *s = scheduled_of_path(c);

    if (!s)
        return;
    jw_object(&c->out, NULL);
    scheduled_add_json(&c->out, s);
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    call_reply(c);
}

/* ---- changes ---- */

/* The body of PUT or PATCH.  `example` is part of the message when `key` is missing. */
struct changing {
    struct json *body;
    const char *key, *example; /* the member that must be there */
};

static void changing_free(void *data)
{
    json_free(((struct changing *)data)->body);
}

static int changing_read(struct call *c)
{
    struct changing *x = c->data;

    x->body = call_json_body(c);
    if (!x->body)
        return -1;
    if (!json_get(x->body, x->key))
        return err_set(&c->err, ERR_INVALID, "%s is missing: send an object such as %s", x->key,
                       x->example);
    return 0;
}

/* `then` runs on the loop thread, with the body read.  The scheduled job may be removed meanwhile,
 * so `then` looks for it again. */
static void changing_begin(struct call *c, const char *key, const char *example, call_fn then)
{
    struct changing *x = call_alloc(c, sizeof(*x));

    *x = (struct changing){.key = key, .example = example};
    c->data = x;
    c->free_data = changing_free;
    if (scheduled_of_path(c))
        atlas_work(c, changing_read, then);
}

/* A job without a schedule cannot become active. */
static void scheduled_set_status(struct call *c)
{
    const struct changing *x = c->data;
    const struct schedule *s = scheduled_of_path(c);
    struct str word = json_get_str(x->body, "status");
    bool paused = str_eq_c(word, "paused");

    if (!s)
        return;
    if (!paused && !str_eq_c(word, "active"))
        err_set(&c->err, ERR_INVALID, "status must be paused or active");
    else if (!paused && !s->rules.timed)
        err_set(&c->err, ERR_INVALID, "scheduled job %s has no schedule; set one with PATCH first",
                s->name);
    if (c->err.code)
        call_fail(c, &c->err);
    else
        core_schedule_pause(call_atlas(c)->conf.core, s->seq, paused, &c->who.caller, call_acted,
                            c);
}

/* A job that was paused only because it had no schedule is active from now on. */
static void scheduled_set_times(struct call *c)
{
    const struct changing *x = c->data;
    const struct schedule *s = scheduled_of_path(c);
    const struct json *times = json_get(x->body, "schedule");

    if (!s)
        return;
    if (json_type(times) == JSON_OBJECT && !json_len(times)) {
        err_set(&c->err, ERR_INVALID,
                "schedule is empty; to pause scheduled job %s, PUT its status", s->name);
        call_fail(c, &c->err);
        return;
    }
    struct json *job = json_copy(json_get(s->def, "job"));
    json_set_take(job, "schedule", json_copy(times));
    AUTO(json) struct json *def = scheduled_def_take(job, json_get_str(s->def, "tree").p);
    if (json_has(s->def, "sealed"))
        json_set_take(def, "sealed", json_copy(json_get(s->def, "sealed")));
    core_schedule_set(call_atlas(c)->conf.core, s->seq, def, s->paused && s->rules.timed,
                      &c->who.caller, call_acted, c);
}

/* PUT /scheduled_jobs/ID: {"status": "paused" or "active"}. */
void atlas_scheduled_put(struct call *c)
{
    changing_begin(c, "status", "{\"status\": \"paused\"}", scheduled_set_status);
}

/* PATCH /scheduled_jobs/ID: {"schedule": …}. */
void atlas_scheduled_patch(struct call *c)
{
    changing_begin(c, "schedule", "{\"schedule\": \"30 6 * * *\"}", scheduled_set_times);
}

/* ---- creating a scheduled job ---- */

/* A scheduled job that is being created.  `tree` is empty until the bundle was copied; `failed` is
 * the answer of the core, kept while the worker thread removes what is not needed any more. */
struct creating {
    struct atlas_room room;
    struct json *def;
    char id[ID_UUID_MAX], tree[ATLAS_TREE_MAX];
    /* The ids of those that exist, read before the worker thread begins. */
    char existing[SCHEDULED_MAX][ID_UUID_MAX];
    size_t n_existing;
    struct err failed;
};

static void creating_free(void *data)
{
    json_free(((struct creating *)data)->def);
}

/* Loop thread: the schedules belong to the core, so the worker thread gets a copy of the ids. */
static void creating_note_existing(struct call *c, struct creating *x)
{
    const struct core *core = call_atlas(c)->conf.core;

    for (size_t i = 0; i < core_schedule_count(core) && x->n_existing < SCHEDULED_MAX; i++)
        if (scheduled_is_ours(core_schedule_at(core, i)))
            snprintf(x->existing[x->n_existing++], ID_UUID_MAX, "%s",
                     core_schedule_at(core, i)->name);
}

/* Checks now everything that a firing will need, by preparing a run and dropping it.  The client
 * thus hears of a mistake at once, not when the first moment comes. */
static int creating_try_run(struct call *c, struct atlas_submission s)
{
    struct creating *x = c->data;
    struct submit *run = NULL;
    char id[ATLAS_ID_MAX];

    scheduled_run_id(x->id, now_s(), id);
    s.id = id;
    if (atlas_prepare(call_atlas(c), &s, &x->room, &c->who.caller, &run, &c->err) < 0)
        return -1;
    submit_free(run);
    return 0;
}

/* Fills the new definition from the body of the request. */
static int creating_read(struct call *c, struct json *body)
{
    struct creating *x = c->data;
    struct schedule_rules rules;
    struct atlas_submission s;
    struct id id;

    /* The original did not ask for these two. */
    if (json_type(body) == JSON_OBJECT && !json_has(body, "metadata"))
        json_set_take(body, "metadata", json_new_object());
    if (json_type(body) == JSON_OBJECT && !json_has(body, "gpu_spec"))
        json_set_take(body, "gpu_spec", json_new_object());
    if (atlas_submission_read(body, &s, &c->err) < 0)
        return -1;
    id_parse(str_of(s.id), &id);
    id_format_uuid(id, x->id); /* the canonical form, for paths */
    struct json *job = json_new_object();
    json_set_str(job, "job_id", x->id);
    json_set_take(job, "spec", json_copy(s.spec));
    json_set_take(job, "metadata", json_copy(s.metadata));
    json_set_take(job, "gpu_spec", json_copy(s.gpu_spec));
    json_set_take(job, "schedule",
                  json_get(body, "schedule") ? json_copy(json_get(body, "schedule"))
                                             : json_new_object());
    x->def = scheduled_def_take(job, x->tree);
    if (schedule_rules_read(x->def, &rules, &c->err) < 0 || creating_try_run(c, s) < 0)
        return -1;
    scheduled_hide(core_vault(call_atlas(c)->conf.core), x->def);
    return 0;
}

/* Refuses a second definition with this id, one too many, and one without a bundle. */
static int creating_check(struct call *c, const char *bundle)
{
    const struct creating *x = c->data;

    for (size_t i = 0; i < x->n_existing; i++)
        if (!strcasecmp(x->existing[i], x->id))
            return err_set(
                &c->err, ERR_CONFLICT,
                "scheduled job %s exists already; PATCH its schedule, or DELETE it first", x->id);
    if (x->n_existing >= SCHEDULED_MAX)
        return err_set(&c->err, ERR_INVALID,
                       "there are %d scheduled jobs, which is the maximum; delete one first",
                       SCHEDULED_MAX);
    if (!cas_has_tree(call_atlas(c)->cas, bundle))
        return err_set(&c->err, ERR_CONFLICT, "job %s has no bundle; upload the bundle first",
                       x->id);
    return 0;
}

/* The bundle is kept before the schedule exists; a crash in between leaves a tree that the next
 * start removes. */
static int creating_work(struct call *c)
{
    struct creating *x = c->data;
    AUTO(json) struct json *body = call_json_body(c);
    uint32_t chance;
    char bundle[ATLAS_TREE_MAX], tree[ATLAS_TREE_MAX];

    if (!body || creating_read(c, body) < 0)
        return -1;
    atlas_bundle_tree(x->id, bundle);
    if (creating_check(c, bundle) < 0)
        return -1;
    random_bytes(&chance, sizeof(chance));
    snprintf(tree, sizeof(tree), "schedule-%s-%08x", x->id, chance);
    if (cas_copy_tree(call_atlas(c)->cas, bundle, tree, &c->err) < 0)
        return -1;
    snprintf(x->tree, sizeof(x->tree), "%s", tree);
    json_set_str(x->def, "tree", tree);
    return 0;
}

/* Worker thread.  Of the two trees one is not needed any more: the uploaded bundle when the
 * scheduled job exists now, else the copy that was made for it.  A failure of the removal is
 * ignored: the tree only takes space. */
static int creating_drop(struct call *c)
{
    struct creating *x = c->data;
    char bundle[ATLAS_TREE_MAX];
    struct err none;

    atlas_bundle_tree(x->id, bundle);
    cas_drop_tree(call_atlas(c)->cas, x->failed.code ? x->tree : bundle, &none);
    c->status = 201;
    buf_addf(&c->out, "\"%s\"\n", x->id);
    c->err = x->failed;
    return x->failed.code ? -1 : 0;
}

static void creating_added(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    (void)r;
    if (e)
        ((struct creating *)c->data)->failed = *e;
    call_work(c, creating_drop, NULL);
}

/* Another request may have been faster: ids are unique among all users here. */
static void creating_then(struct call *c)
{
    const struct creating *x = c->data;
    struct err e = {0};

    if (scheduled_find(call_atlas(c), x->id)) {
        err_set(&e, ERR_CONFLICT, "scheduled job %s exists already", x->id);
        creating_added(c, &e, NULL);
        return;
    }
    const struct json *times = json_get(x->def, "cron");
    core_schedule_add(
        call_atlas(c)->conf.core,
        &(struct schedule_request){.name = str_of(x->id),
                                   .def = x->def,
                                   .paused = json_type(times) == JSON_OBJECT && !json_len(times)},
        &c->who.caller, creating_added, c);
}

/* POST /scheduled_jobs: a submission with a schedule; its bundle was uploaded before. */
void atlas_scheduled_post(struct call *c)
{
    struct creating *x = call_alloc(c, sizeof(*x));

    *x = (struct creating){.room = atlas_room_of(call_atlas(c))};
    creating_note_existing(c, x);
    c->data = x;
    c->free_data = creating_free;
    atlas_work(c, creating_work, creating_then);
}

/* ---- removing a scheduled job; its runs stay ---- */

static int scheduled_drop_bundle(struct call *c)
{
    c->status = 204;
    return cas_drop_tree(call_atlas(c)->cas, c->data, &c->err);
}

static void scheduled_removed(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    (void)r;
    if (e)
        call_fail(c, e);
    else
        call_work(c, scheduled_drop_bundle, NULL);
}

/* DELETE /scheduled_jobs/ID; jobs that were fired before stay. */
void atlas_scheduled_delete(struct call *c)
{
    const struct schedule *s = scheduled_of_path(c);

    if (!s)
        return;
    c->data = (void *)call_copy(c, json_get_str(s->def, "tree")).p;
    core_schedule_remove(call_atlas(c)->conf.core, s->seq, &c->who.caller, scheduled_removed, c);
}
