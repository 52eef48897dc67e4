/* schedules.c - /v1/schedules: jobs that are submitted again and again
 *
 * The controller keeps the schedules in memory, so lists and answers are written on the loop
 * thread.  The job of a definition is checked on a worker thread by the reader of submissions, when
 * the schedule is made and again each time it submits: both accept the same jobs.
 *
 * Users who are not admins see their own schedules.  A name is unique for one user; admins choose
 * among the schedules of several users with ?user=, and otherwise get their own first.
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "api/submit_parse.h"
#include "base/clock.h"
#include "base/fault.h"
#include "core/schedule.h"
#include "model/vault.h"
#include "request/once.h"

enum { NEXT_TIMES = 5 };

/* ---- the answer ---- */

/* The next moments of the schedule; an empty list while it is paused, because next_s is 0 then. */
static void put_next(struct buf *b, const struct schedule *s, int times)
{
    int64_t t = s->next_s;

    jw_array(b, "next");
    for (int i = 0; t && i < times; i++) {
        jw_time(b, NULL, t * 1000);
        if (i + 1 < times)
            t = schedule_after(&s->rules, &s->zone, t);
    }
    jw_end_array(b);
}

/* Lists have one coming time and no `job`, whose environment may be long. */
static void schedule_json(struct buf *b, const struct schedule *s, bool whole)
{
    const struct json *job = json_get(s->def, "job");

    jw_object(b, NULL);
    jw_text(b, "name", s->name);
    jw_text(b, "user", s->owner.user);
    jw_json(b, "cron", json_get(s->def, "cron"));
    jw_str_or_null(b, "timezone", str_of(s->rules.timezone));
    jw_text(b, "overlap", schedule_overlap_names[s->rules.overlap]);
    jw_text(b, "catch_up", schedule_catch_up_names[s->rules.catch_up]);
    jw_str_or_null(b, "dialect", json_get_str(s->def, "dialect"));
    jw_bool(b, "paused", s->paused);
    jw_time(b, "created", s->created_ms);
    put_next(b, s, whole ? NEXT_TIMES : 1);
    jw_int_or_null(b, "last_job", (int64_t)s->last_job, s->last_job != 0);
    jw_str_or_null(b, "trouble", str_of(s->trouble));
    jw_json(b, "command", json_get(job, "command"));
    if (whole) {
        AUTO(json) struct json *shown = json_copy(job);
        vault_strip_tree(shown);
        jw_json(b, "job", shown);
    }
    jw_end_object(b);
}

/* Loop thread.  The schedule of the path, for this turn of the loop only; NULL: c->err says why.  A
 * handler that waits for a worker thread calls the function again afterwards, since the schedule
 * may be gone by then. */
static const struct schedule *schedule_of_path(struct call *c)
{
    const struct core *core = call_api(c)->conf.core;
    const char *user = call_param(c, "user");
    const struct schedule *found = NULL;

    for (size_t i = 0; i < core_schedule_count(core); i++) {
        const struct schedule *s = core_schedule_at(core, i);
        if (!caller_sees(&c->who.caller, s->owner.uid) || !str_eq_c(c->arg[0], s->name) ||
            (user && strcmp(user, s->owner.user) != 0))
            continue;
        if (!found || s->owner.uid == c->who.caller.uid)
            found = s;
    }
    if (!found)
        err_set(&c->err, ERR_NOT_FOUND,
                "there is no schedule '%.100s'; `berth cron ls` lists the schedules", c->arg[0].p);
    return found;
}

void schedules_list(struct call *c)
{
    const struct core *core = call_api(c)->conf.core;

    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    for (size_t i = 0; i < core_schedule_count(core); i++)
        if (caller_sees(&c->who.caller, core_schedule_at(core, i)->owner.uid))
            schedule_json(&c->out, core_schedule_at(core, i), false);
    jw_end_array(&c->out);
    jw_end_object(&c->out);
    call_reply(c);
}

void schedules_get(struct call *c)
{
    const struct schedule *s = schedule_of_path(c);

    if (!s) {
        call_fail(c, &c->err);
        return;
    }
    schedule_json(&c->out, s, true);
    call_reply(c);
}

/* A core_act_fn: answers with the schedule of the path. */
static void schedule_answer(void *arg, const struct err *e, const struct acted *r UNUSED)
{
    call_then(arg, e, schedules_get);
}

/* ---- a schedule submits ---- */

/* The job was valid when the schedule was made; a newer daemon may refuse it now, and the schedule
 * then shows the error as its trouble. */
static void firing_read(struct definition_job *w)
{
    const struct firing *f = w->of;

    if (definition_read_job(json_get(f->def, "job"), "a schedule", &f->owner,
                            core_vault(w->a->conf.core), &w->x, &w->err) < 0)
        return;
    if (f->key.n)
        w->x->s.idempotency_key = (struct str){xstrndup(f->key.p, f->key.n), f->key.n};
    w->x->s.idempotency_print = f->print;
    fault_sleep("BERTH_FAULT_FIRED_MS");
}

static void firing_take(void *of, struct submission *s, const struct err *e)
{
    core_fired_take(of, s, e);
}

void api_fire(struct api *a, struct firing *f)
{
    definition_submit(a, f, firing_read, firing_take);
}

/* ---- definitions ---- */

/* The body of POST or PUT.  `def` is what the schedule keeps. */
struct defining {
    struct json *def; /* without name and paused */
    struct str name;
    bool paused;
};

static void defining_free(void *data)
{
    json_free(((struct defining *)data)->def);
}

/* Worker thread.  Everything but the time zone, which the controller looks up. */
static int schedule_define(struct call *c)
{
    struct defining *d = c->data;
    struct json *body = d->def = body_object(c);
    struct schedule_rules rules;
    const struct vault *vault = core_vault(call_api(c)->conf.core);
    struct submit *x = NULL;
    const struct json *paused = json_get(body, "paused");
    static const char *const keys[] = {"name",     "cron", "timezone", "overlap",
                                       "catch_up", "job",  "paused"};

    if (!body || body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) < 0 ||
        body_text(c, body, "name", &d->name) < 0)
        return -1;
    d->name = call_copy(c, d->name);
    if (paused && json_type(paused) != JSON_BOOL)
        return body_wrong_type(c, "paused", paused, "true or false");
    d->paused = json_bool(paused);
    json_del(body, "name");
    json_del(body, "paused");
    if (!json_get(body, "cron"))
        return err_set(&c->err, ERR_INVALID,
                       "cron: is missing; give five fields: \"30 6 * * 1-5\"");
    if (!json_get(body, "job"))
        return err_set(&c->err, ERR_INVALID,
                       "job: is missing; give a job: {\"command\":[\"echo\",\"hello\"]}");
    if (json_has(json_get(body, "job"), "sealed"))
        return err_set(&c->err, ERR_INVALID, "job.sealed: unknown key; send values under env");
    if (schedule_rules_read(body, &rules, &c->err) < 0 ||
        definition_read_job(json_get(body, "job"), "a schedule", &c->who.caller, vault, &x,
                            &c->err) < 0)
        return -1;
    submit_free(x);
    return vault ? definition_seal_job(body, vault, &c->err) : 0;
}

/* Reads and checks the body on a worker thread; then `then` on the loop thread. */
static void schedule_define_then(struct call *c, call_fn then)
{
    c->data = call_alloc(c, sizeof(struct defining));
    *(struct defining *)c->data = (struct defining){0};
    c->free_data = defining_free;
    call_keep_body(c);
    call_work(c, schedule_define, then);
}

static void schedule_add(struct call *c)
{
    struct defining *d = c->data;

    c->status = 201;
    c->arg[0] = d->name;
    core_schedule_add(
        call_api(c)->conf.core,
        &(struct schedule_request){.name = d->name, .def = d->def, .paused = d->paused},
        &c->who.caller, schedule_answer, c);
}

/* POST /v1/schedules.  The same definition again is answered as the first time, so a client may
 * repeat the request. */
void schedules_add(struct call *c)
{
    schedule_define_then(c, schedule_add);
}

/* A schedule of a dialect has members that only its dialect understands, so it is not replaced
 * here. */
static void schedule_replace(struct call *c)
{
    struct defining *d = c->data;
    const struct schedule *s = schedule_of_path(c);

    if (s && json_has(s->def, "dialect"))
        err_set(&c->err, ERR_CONFLICT,
                "schedule %.100s was made through %.20s; change it there, or remove it", s->name,
                json_get_str(s->def, "dialect").p);
    if (s && d->name.n && !str_eq(d->name, c->arg[0]))
        err_set(&c->err, ERR_INVALID, "name: a schedule cannot be renamed; leave `name` out");
    if (c->err.code) {
        call_fail(c, &c->err);
        return;
    }
    core_schedule_set(call_api(c)->conf.core, s->seq, d->def, d->paused, &c->who.caller,
                      schedule_answer, c);
}

/* PUT /v1/schedules/{name}: the whole definition, without the name. */
void schedules_put(struct call *c)
{
    schedule_define_then(c, schedule_replace);
}

/* ---- actions ---- */

void schedules_remove(struct call *c)
{
    const struct schedule *s = schedule_of_path(c);

    if (s)
        core_schedule_remove(call_api(c)->conf.core, s->seq, &c->who.caller, call_acted, c);
    else
        call_fail(c, &c->err);
}

/* Two rows of the table share this handler; route.arg says whether to pause or to resume. */
void schedules_set_paused(struct call *c)
{
    const struct schedule *s = schedule_of_path(c);

    if (s)
        core_schedule_pause(call_api(c)->conf.core, s->seq, *(const bool *)c->route->arg,
                            &c->who.caller, schedule_answer, c);
    else
        call_fail(c, &c->err);
}

/* The jobs exist now, whether or not the client is still there. */
static void schedule_ran(void *arg, const struct err *e, const struct submitted *r)
{
    struct call *c = arg;

    if (e) {
        call_fail(c, e);
        return;
    }
    c->status = 201;
    submitted_many_json(&c->out, r->batch, r->batch_id, r->first, r->n, r->id);
    call_reply(c);
}

/* What the same idempotency key was answered before. */
static bool add_run_replay(void *arg, const struct job_view *v)
{
    struct call *c = arg;
    const struct once_made *made = c->data;

    submitted_many_json(&c->out, v->batch.seq, v->batch.id, made->first, made->n, v->id);
    return false;
}

/* Worker thread.  A repeated request is answered with the jobs of the first one. */
static int schedule_find_run(struct call *c)
{
    struct once_made *made = c->data;

    call_once_body(c, STR("")); /* the body says nothing here */
    int known = call_once_find(c, made);

    if (known <= 0)
        return known;
    return store_job(call_api(c)->conf.store, made->first, add_run_replay, c, &c->err);
}

/* Loop thread. made.n is not 0 when schedule_find_run has written the answer of the first request.
 */
static void schedule_run_then(struct call *c)
{
    const struct schedule *s = schedule_of_path(c);

    if (((struct once_made *)c->data)->n)
        call_reply(c);
    else if (call_closing(c))
        call_fail_closing(c);
    else if (!s)
        call_fail(c, &c->err);
    else
        core_schedule_run(call_api(c)->conf.core, s->seq, call_once_key(c), call_once_print(c),
                          &c->who.caller, schedule_ran, c);
}

static void schedule_run_begin(struct call *c)
{
    call_work(c, schedule_find_run, schedule_run_then);
}

/* POST /v1/schedules/{name}/run: submits its job now. */
void schedules_run(struct call *c)
{
    c->data = call_alloc(c, sizeof(struct once_made));
    *(struct once_made *)c->data = (struct once_made){0};
    call_run_once(c, schedule_run_begin);
}
