/* studies.c - /v1/studies: searches over parameters
 *
 * The controller keeps the studies in memory, so lists and answers are written on the loop thread.
 * Their trials are in study_trials.c.  Spaces and jobs of definitions are checked on
 * a worker thread.  Users who are not admins see their own studies; a name is unique for one user,
 * and admins choose with ?user=.
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "api/submit_parse.h"
#include "core/study.h"
#include "model/vault.h"

/* ---- the answer ---- */

static void study_counts_json(struct buf *b, const struct study *s)
{
    jw_object(b, "counts");
    jw_int(b, "asked", (int64_t)s->asked);
    for (int i = 0; i <= TRIAL_WAITING; i++)
        jw_int(b, trial_state_names[i], (int64_t)s->counts[i]);
    jw_end_object(b);
}

static void study_best_json(struct buf *b, const struct study *s)
{
    const struct study_best *t = &s->best;

    if (!t->number) {
        jw_null(b, "best");
        return;
    }
    jw_object(b, "best");
    jw_int(b, "number", (int64_t)t->number);
    jw_int_or_null(b, "job", (int64_t)t->job, t->job != 0);
    jw_double(b, "value", t->value);
    jw_raw(b, "params", str_of(t->params));
    jw_end_object(b);
}

/* The trials that no other is better than in everything, in the order in which they were asked. */
static void study_front_json(struct buf *b, const struct study *s)
{
    jw_array(b, "front");
    for (size_t i = 0; i < s->front.n; i++) {
        uint64_t number = s->front.p[i].number, job = s->trials.p[number - 1].job;
        const double *values = study_values(s, number);
        jw_object(b, NULL);
        jw_int(b, "number", (int64_t)number);
        jw_int_or_null(b, "job", (int64_t)job, job != 0);
        jw_array(b, "values");
        for (size_t k = 0; k < s->rules.n_goals; k++)
            jw_double(b, NULL, values[k]);
        jw_end_array(b);
        jw_raw(b, "params", str_of(s->front.p[i].params));
        jw_end_object(b);
    }
    jw_end_array(b);
}

static void study_json(struct buf *b, const struct study *s)
{
    const struct json *def = s->def;
    struct str engine = json_get_str(def, "engine");

    jw_object(b, NULL);
    jw_text(b, "name", s->name);
    jw_text(b, "user", s->owner.user);
    jw_str(b, "engine", engine.n ? engine : STR("auto"));
    jw_int(b, "seed", json_int(json_get(def, "seed")));
    jw_json(b, "objective", json_get(def, "objective"));
    jw_text(b, "take", s->rules.take_best ? "best" : "last");
    jw_int_or_null(b, "trials", s->rules.trials, s->rules.trials >= 0);
    jw_int(b, "parallel", s->rules.parallel);
    jw_json(b, "stop", json_get(def, "stop"));
    if (json_get(def, "pbt"))
        jw_json(b, "pbt", json_get(def, "pbt"));
    jw_json(b, "space", json_get(def, "space"));
    jw_text(b, "state", study_state_names[study_state_of(s)]);
    jw_str_or_null(b, "reason", str_of(s->trouble ? s->trouble : ""));
    jw_time(b, "created", s->created_ms);
    study_counts_json(b, s);
    study_best_json(b, s);
    if (s->rules.n_goals > 1)
        study_front_json(b, s);
    jw_bool(b, "has_job", s->rules.has_job);
    jw_end_object(b);
}

/* Loop thread.  The study of this name that the caller may see; their own first. */
static const struct study *study_named(struct call *c, struct str name)
{
    const struct core *core = call_api(c)->conf.core;
    const char *user = call_param(c, "user");
    const struct study *found = NULL;

    for (size_t i = 0; i < core_study_count(core); i++) {
        const struct study *s = core_study_at(core, i);
        if (!caller_sees(&c->who.caller, s->owner.uid) || !str_eq_c(name, s->name) ||
            (user && strcmp(user, s->owner.user) != 0))
            continue;
        if (!found || s->owner.uid == c->who.caller.uid)
            found = s;
    }
    if (!found)
        err_set(&c->err, ERR_NOT_FOUND,
                "there is no study '%.*s'; `berth search ls` lists the studies",
                (int)MIN(name.n, 100), name.p);
    return found;
}

struct json *study_body(struct call *c)
{
    call_keep_body(c);
    return body_object(c);
}

uint64_t study_seq_of_path(struct call *c)
{
    const struct study *s = study_named(c, c->arg[0]);

    return s ? s->seq : 0;
}

void studies_list(struct call *c)
{
    const struct core *core = call_api(c)->conf.core;

    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    for (size_t i = 0; i < core_study_count(core); i++)
        if (caller_sees(&c->who.caller, core_study_at(core, i)->owner.uid))
            study_json(&c->out, core_study_at(core, i));
    jw_end_array(&c->out);
    jw_end_object(&c->out);
    call_reply(c);
}

void studies_get(struct call *c)
{
    const struct study *s = study_named(c, c->arg[0]);

    if (!s) {
        call_fail(c, &c->err);
        return;
    }
    study_json(&c->out, s);
    call_reply(c);
}

/* A core_act_fn: answers with the study of the path. */
static void study_answer_acted(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    (void)r;
    if (e)
        call_fail(c, e);
    else
        studies_get(c);
}

/* ---- a trial submits ---- */

/* What a trial of a population needs to go on from its parent. */
static int trial_env(struct json *job, const struct trial_launch *t, struct err *e)
{
    const struct json *had = json_get(job, "env");
    AUTO_FREE char *dir = t->parent_dir ? xasprintf("%s/artifacts", t->parent_dir) : NULL;
    AUTO_FREE char *number = xasprintf("%llu", (unsigned long long)t->number);
    AUTO_FREE char *parent = xasprintf("%llu", (unsigned long long)t->parent);

    if (had && json_type(had) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "job.env: must be a map of names and values");
    struct json *env = had ? json_copy(had) : json_new_object();
    json_set_str(env, "BERTH_TRIAL", number);
    if (t->parent)
        json_set_str(env, "BERTH_PARENT_TRIAL", parent);
    if (dir)
        json_set_str(env, "BERTH_PARENT_ARTIFACTS", dir);
    json_set_take(job, "env", env);
    return 0;
}

/* The parameters of the point go over those of the job; a lost run is repeated with the same. */
static int trial_job(const struct trial_launch *t, struct json **out, struct err *e)
{
    AUTO(json) struct json *job = json_copy(t->job), *point = NULL;

    if (json_parse(str_of(t->params), "params", &point, e) < 0)
        return -1;
    struct json *all =
        json_has(job, "params") ? json_copy(json_get(job, "params")) : json_new_object();
    for (struct json_it it = {0}; json_next(point, &it);)
        json_set_take(all, it.key, json_copy(it.val));
    json_set_take(job, "params", all);
    if (!json_has(job, "name")) {
        AUTO_FREE char *name = xasprintf("%s-%llu", t->name, (unsigned long long)t->number);
        json_set_str(job, "name", name);
    }
    if (trial_env(job, t, e) < 0)
        return -1;
    if (!json_has(job, "retry_lost"))
        json_set_int(job, "retry_lost", 3);
    *out = TAKE(job);
    return 0;
}

static void trial_read(struct definition_job *w)
{
    const struct trial_launch *t = w->of;
    AUTO(json) struct json *job = NULL;

    if (trial_job(t, &job, &w->err) == 0)
        definition_read_job(job, "a study", &t->owner, core_vault(w->a->conf.core), &w->x, &w->err);
}

static void trial_take(void *of, struct submission *s, const struct err *e)
{
    core_trial_take(of, s, e);
}

void api_trial(struct api *a, struct trial_launch *t)
{
    definition_submit(a, t, trial_read, trial_take);
}

/* ---- definitions ---- */

struct study_defining {
    struct json *def;
    struct str name, from;
};

static void study_defining_free(void *data)
{
    json_free(((struct study_defining *)data)->def);
}

/* Worker thread: everything is checked here, since a large space takes a while. */
static int study_define(struct call *c)
{
    struct study_defining *d = c->data;
    struct json *body = d->def = body_object(c);
    const struct vault *vault = core_vault(call_api(c)->conf.core);
    struct tune_study *engine = NULL;
    struct tune_stop *stop = NULL;
    struct study_rules rules;
    struct submit *x = NULL;
    static const char *const keys[] = {"name", "space",     "constraints", "engine",   "seed",
                                       "take", "objective", "trials",      "parallel", "job",
                                       "from", "stop",      "pbt"};

    if (!body || body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) < 0 ||
        body_text(c, body, "name", &d->name) < 0 || body_text(c, body, "from", &d->from) < 0)
        return -1;
    d->name = call_copy(c, d->name);
    d->from = call_copy(c, d->from);
    json_del(body, "name");
    json_del(body, "from");
    if (!json_get(body, "space"))
        return err_set(&c->err, ERR_INVALID,
                       "space: is missing; give parameters: {\"lr\": {\"log\": [1e-5, 0.1]}}");
    if (study_engine_new(body, &engine, &c->err) < 0)
        return -1;
    tune_study_free(engine);
    if (study_rules_read(body, &rules, &c->err) < 0 ||
        study_stop_new(body, &rules, &stop, &c->err) < 0)
        return -1;
    tune_stop_free(stop);
    if (!json_get(body, "job"))
        return 0;
    if (json_has(json_get(body, "job"), "sealed"))
        return err_set(&c->err, ERR_INVALID, "job.sealed: unknown key; send values under env");
    if (definition_read_job(json_get(body, "job"), "a study", &c->who.caller, vault, &x, &c->err) <
        0)
        return -1;
    submit_free(x);
    return vault ? definition_seal_job(body, vault, &c->err) : 0;
}

static void study_add(struct call *c)
{
    struct study_defining *d = c->data;
    const struct study *from = d->from.n ? study_named(c, d->from) : NULL;
    struct core *core = call_api(c)->conf.core;

    if (d->from.n && !from) {
        call_fail(c, &c->err);
        return;
    }
    c->status = core_study_find(core, d->name, c->who.caller.uid) ? 200 : 201;
    c->arg[0] = d->name;
    core_study_add(core, d->name, d->def, from ? from->seq : 0, &c->who.caller, study_answer_acted,
                   c);
}

/* POST /v1/studies.  The same definition again is answered with the study, so that a client may
 * repeat the request, and continue a study by defining it again. */
void studies_add(struct call *c)
{
    c->data = call_alloc(c, sizeof(struct study_defining));
    *(struct study_defining *)c->data = (struct study_defining){0};
    c->free_data = study_defining_free;
    call_keep_body(c);
    call_work(c, study_define, study_add);
}

/* ---- changes ---- */

static int study_change_read(struct call *c, const struct json *body, struct study_change *x)
{
    static const char *const keys[] = {"trials", "parallel", "paused"};
    const struct json *paused = json_get(body, "paused");
    int64_t parallel = 1;

    if (!body || body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) < 0)
        return -1;
    x->trials = -1; /* null */
    if (body_int(c, body, "trials", 1, INT32_MAX, &x->trials) < 0 ||
        body_int(c, body, "parallel", 1, INT32_MAX, &parallel) < 0)
        return -1;
    if (json_has(body, "paused") && json_type(paused) != JSON_BOOL)
        return body_wrong_type(c, "paused", paused, "true or false");
    x->set_trials = json_has(body, "trials");
    x->set_parallel = json_has(body, "parallel");
    x->set_paused = json_has(body, "paused");
    x->parallel = (int32_t)parallel;
    x->paused = json_bool(paused);
    return 0;
}

void studies_change(struct call *c)
{
    AUTO(json) struct json *body = study_body(c);
    struct study_change x = {0};
    uint64_t seq = body ? study_seq_of_path(c) : 0;

    if (!seq || study_change_read(c, body, &x) < 0)
        call_fail(c, &c->err);
    else
        core_study_set(call_api(c)->conf.core, seq, &x, &c->who.caller, study_answer_acted, c);
}

void studies_remove(struct call *c)
{
    uint64_t seq = study_seq_of_path(c);
    const char *force = call_param(c, "force");

    if (!seq) {
        call_fail(c, &c->err);
        return;
    }
    core_study_remove(call_api(c)->conf.core, seq, force && !strcmp(force, "true"), &c->who.caller,
                      call_acted, c);
}
