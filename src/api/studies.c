/* studies.c - /v1/studies: searches over parameters
 *
 * The controller keeps the studies in memory, so lists and answers are written on the loop thread;
 * trials are read from the store on a worker thread.  Spaces and jobs of definitions are checked on
 * a worker thread.  Users who are not admins see their own studies; a name is unique for one user,
 * and admins choose with ?user=.
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "api/submit_parse.h"
#include "core/study.h"
#include "model/vault.h"
#include "store/study_view.h"
#include <math.h>

enum { TRIALS_PAGE_MAX = 10000, RESULTS_MAX = 10000 };

/* ---- the answer ---- */

static void study_counts_json(struct buf *b, const struct study *s)
{
    jw_object(b, "counts");
    jw_int(b, "asked", (int64_t)s->trials.n);
    for (int i = 0; i <= TRIAL_WAITING; i++)
        jw_int(b, trial_state_names[i], (int64_t)s->counts[i]);
    jw_end_object(b);
}

static void study_best_json(struct buf *b, const struct study *s)
{
    if (!s->best) {
        jw_null(b, "best");
        return;
    }
    const struct study_trial *t = &s->trials.p[s->best - 1];
    jw_object(b, "best");
    jw_int(b, "number", (int64_t)s->best);
    jw_int_or_null(b, "job", (int64_t)t->job, t->job != 0);
    jw_double(b, "value", t->value);
    jw_raw(b, "params", str_of(s->best_params));
    jw_end_object(b);
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
    jw_json(b, "space", json_get(def, "space"));
    jw_text(b, "state", study_state_names[study_state_of(s)]);
    jw_str_or_null(b, "reason", str_of(s->trouble ? s->trouble : ""));
    jw_time(b, "created", s->created_ms);
    study_counts_json(b, s);
    study_best_json(b, s);
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

/* Loop thread.  Bodies are small here, or lists of numbers. */
static struct json *study_body(struct call *c)
{
    call_keep_body(c);
    return body_object(c);
}

static uint64_t study_seq_of_path(struct call *c)
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
    static const char *const keys[] = {"name",     "space", "constraints", "engine",
                                       "seed",     "take",  "objective",   "trials",
                                       "parallel", "job",   "from",        "stop"};

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

/* ---- points and results ---- */

static void study_exchanged(void *arg, const struct err *e, const struct study_answer *r)
{
    struct call *c = arg;

    if (e) {
        call_fail(c, e);
        return;
    }
    jw_object(&c->out, NULL);
    if (c->route->arg)
        jw_int(&c->out, "told", (int64_t)r->told);
    jw_array(&c->out, "trials");
    for (size_t i = 0; i < r->n; i++) {
        jw_object(&c->out, NULL);
        jw_int(&c->out, "number", (int64_t)r->points[i].number);
        jw_raw(&c->out, "params", str_of(r->points[i].params));
        jw_end_object(&c->out);
    }
    jw_end_array(&c->out);
    jw_bool(&c->out, "exhausted", r->exhausted);
    jw_end_object(&c->out);
    call_reply(c);
}

void studies_ask(struct call *c)
{
    static const char *const keys[] = {"n"};
    AUTO(json) struct json *body = study_body(c);
    uint64_t seq = body ? study_seq_of_path(c) : 0;
    int64_t n = 1;

    if (!seq || body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) < 0 ||
        body_int(c, body, "n", 1, RESULTS_MAX, &n) < 0)
        call_fail(c, &c->err);
    else
        core_study_exchange(call_api(c)->conf.core, seq, NULL, 0, (size_t)n, &c->who.caller,
                            study_exchanged, c);
}

/* One element of `trials`. */
static int study_result_read(struct call *c, const struct json *v, struct study_result *out)
{
    static const char *const keys[] = {"number", "value", "failed", "pruned", "reason"};
    const struct json *value = json_get(v, "value");
    int64_t number = 0;
    struct str reason;

    if (json_type(v) != JSON_OBJECT)
        return body_wrong_type(c, "trials[]", v, "an object");
    if (body_check_keys(v, keys, ARRAY_SIZE(keys), &c->err) < 0 ||
        body_int(c, v, "number", 1, INT32_MAX, &number) < 0 ||
        body_text(c, v, "reason", &reason) < 0)
        return -1;
    bool failed = json_bool(json_get(v, "failed")), pruned = json_bool(json_get(v, "pruned"));
    bool is_number = json_type(value) == JSON_INT || json_type(value) == JSON_REAL;
    bool is_nan = json_type(value) == JSON_STR; /* "nan", "inf": JSON has no such numbers */
    if (!number)
        return err_set(&c->err, ERR_INVALID, "number: is missing; name the trial that was asked");
    if (!failed && !is_number && !is_nan)
        return err_set(&c->err, ERR_INVALID,
                       "value: trial %lld needs a number, or \"failed\": true", (long long)number);
    *out = (struct study_result){.number = (uint64_t)number,
                                 .state = failed   ? TRIAL_FAILED
                                          : pruned ? TRIAL_PRUNED
                                                   : TRIAL_DONE,
                                 .value = is_number ? json_real(value) : NAN,
                                 .reason = reason};
    return 0;
}

/* POST …/tell: results, and points for those who ask in the same request. */
void studies_tell(struct call *c)
{
    static const char *const keys[] = {"trials", "ask"};
    AUTO(json) struct json *body = study_body(c);
    const struct json *list = json_get(body, "trials");
    uint64_t seq = body ? study_seq_of_path(c) : 0;
    VEC(struct study_result) results = {0};
    int64_t ask = 0;
    bool ok = seq && body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) == 0 &&
              body_int(c, body, "ask", 0, RESULTS_MAX, &ask) == 0;

    if (ok && (json_type(list) != JSON_ARRAY || json_len(list) > RESULTS_MAX)) {
        err_set(&c->err, ERR_INVALID, "trials: give a list of at most %d results", RESULTS_MAX);
        ok = false;
    }
    for (size_t i = 0; ok && i < json_len(list); i++) {
        struct study_result r;
        ok = study_result_read(c, json_at(list, i), &r) == 0;
        if (ok)
            vec_push(&results, r);
    }
    if (ok)
        core_study_exchange(call_api(c)->conf.core, seq, results.p, results.n, (size_t)ask,
                            &c->who.caller, study_exchanged, c);
    else
        call_fail(c, &c->err);
    vec_done(&results);
}

static void study_reported(void *arg, const struct err *e, bool stop)
{
    struct call *c = arg;

    if (e) {
        call_fail(c, e);
        return;
    }
    jw_object(&c->out, NULL);
    jw_bool(&c->out, "stop", stop);
    jw_end_object(&c->out);
    call_reply(c);
}

/* POST …/report: how far a trial is that a client runs. */
void studies_report(struct call *c)
{
    static const char *const keys[] = {"number", "step", "value"};
    AUTO(json) struct json *body = study_body(c);
    const struct json *value = json_get(body, "value");
    uint64_t seq = body ? study_seq_of_path(c) : 0;
    int64_t number = 0, step = -1;
    bool is_number = json_type(value) == JSON_INT || json_type(value) == JSON_REAL;

    if (!seq || body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) < 0 ||
        body_int(c, body, "number", 1, INT32_MAX, &number) < 0 ||
        body_int(c, body, "step", 0, INT64_MAX, &step) < 0) {
        call_fail(c, &c->err);
        return;
    }
    if (step < 0 || (!is_number && json_type(value) != JSON_STR)) {
        err_set(&c->err, ERR_INVALID,
                "give number, step and value: {\"number\": 1, \"step\": 4, "
                "\"value\": 0.3}");
        call_fail(c, &c->err);
        return;
    }
    core_study_report(call_api(c)->conf.core, seq, (uint64_t)number, step,
                      is_number ? json_real(value) : NAN, &c->who.caller, study_reported, c);
}

static void study_enqueued(void *arg, const struct err *e, const struct study_answer *r)
{
    struct call *c = arg;

    if (e) {
        call_fail(c, e);
        return;
    }
    c->status = 201;
    jw_object(&c->out, NULL);
    jw_int(&c->out, "number", (int64_t)r->points[0].number);
    jw_end_object(&c->out);
    call_reply(c);
}

void studies_enqueue(struct call *c)
{
    static const char *const keys[] = {"params"};
    AUTO(json) struct json *body = study_body(c);
    uint64_t seq = body ? study_seq_of_path(c) : 0;

    if (!seq || body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) < 0)
        call_fail(c, &c->err);
    else
        core_study_enqueue(call_api(c)->conf.core, seq, json_get(body, "params"), &c->who.caller,
                           study_enqueued, c);
}

/* ---- trials ---- */

struct trials_page {
    uint64_t study;
    int64_t after, limit;
    uint64_t n, last;
};

static bool trial_json(void *arg, const struct trial_row *r)
{
    struct call *c = arg;
    struct trials_page *p = c->data;
    struct buf *b = &c->out;

    jw_object(b, NULL);
    jw_int(b, "number", (int64_t)r->number);
    jw_text(b, "state", trial_state_names[r->state]);
    jw_double(b, "value", r->value);
    jw_int_or_null(b, "job", (int64_t)r->job, r->job != 0);
    jw_raw(b, "params", r->params);
    jw_str_or_null(b, "reason", r->reason);
    jw_end_object(b);
    p->n++;
    p->last = r->number;
    return true;
}

static int trials_read(struct call *c)
{
    struct trials_page *p = c->data;

    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    if (store_trials(call_api(c)->conf.store, p->study, (uint64_t)p->after, (size_t)p->limit,
                     trial_json, c, &c->err) < 0)
        return -1;
    jw_end_array(&c->out);
    jw_int_or_null(&c->out, "next", (int64_t)p->last, p->n == (uint64_t)p->limit);
    jw_end_object(&c->out);
    return 0;
}

/* A core_act_fn.  Also when the disk is full: what is recorded can be read. */
static void trials_recorded(void *arg, const struct err *e, const struct acted *r)
{
    (void)e;
    (void)r;
    call_work(arg, trials_read, call_reply);
}

/* The store may lag behind what the study has answered. */
void studies_trials(struct call *c)
{
    struct trials_page *p = c->data = call_alloc(c, sizeof(*p));

    *p = (struct trials_page){.study = study_seq_of_path(c)};
    if (!p->study || call_param_int(c, "after", 0, 0, INT64_MAX, &p->after, &c->err) < 0 ||
        call_param_int(c, "limit", 1000, 1, TRIALS_PAGE_MAX, &p->limit, &c->err) < 0)
        call_fail(c, &c->err);
    else
        core_study_recorded(call_api(c)->conf.core, trials_recorded, c);
}
