/* study_trials.c - /v1/studies/{name}/…: points asked, results told, trials listed
 *
 * Answered on the loop thread, where the studies are; lists of trials are read from the store on a
 * worker thread.
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "core/study.h"
#include "store/study_view.h"
#include <math.h>

enum { TRIALS_PAGE_MAX = 10000, RESULTS_MAX = 10000, LEASE_MAX_S = 604800 };

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
        if (r->points[i].hold)
            jw_int(&c->out, "hold", r->points[i].hold);
        if (r->points[i].parent)
            jw_int(&c->out, "parent", (int64_t)r->points[i].parent);
        jw_end_object(&c->out);
    }
    jw_end_array(&c->out);
    if (r->leased)
        jw_int(&c->out, "leased", (int64_t)r->leased);
    jw_bool(&c->out, "exhausted", r->exhausted);
    jw_end_object(&c->out);
    call_reply(c);
}

void studies_ask(struct call *c)
{
    static const char *const keys[] = {"n", "lease"};
    AUTO(json) struct json *body = study_body(c);
    uint64_t seq = body ? study_seq_of_path(c) : 0;
    int64_t n = 1, lease = 0;

    if (!seq || body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) < 0 ||
        body_int(c, body, "n", 1, RESULTS_MAX, &n) < 0 ||
        body_int(c, body, "lease", 1, LEASE_MAX_S, &lease) < 0) {
        call_fail(c, &c->err);
        return;
    }
    core_study_exchange(call_api(c)->conf.core, seq, NULL, 0,
                        &(struct study_ask){(size_t)n, (int32_t)lease}, &c->who.caller,
                        study_exchanged, c);
}

/* A number, or NaN for a text: JSON has no such numbers.  false: it is neither. */
static bool study_number(const struct json *v, double *out)
{
    enum json_type type = json_type(v);

    *out = type == JSON_INT || type == JSON_REAL ? json_real(v) : NAN;
    return type == JSON_INT || type == JSON_REAL || type == JSON_STR;
}

/* `value`, or `values` of a study with several objectives. */
static int study_values_of(struct call *c, const struct json *v, struct study_result *out)
{
    const struct json *list = json_get(v, "values");
    bool many = json_type(list) == JSON_ARRAY;
    bool ok = !many || json_len(list) <= TUNE_OBJECTIVES_MAX;

    if (out->state == TRIAL_FAILED)
        return 0;
    out->n_values = many ? json_len(list) : 1;
    for (size_t i = 0; ok && i < out->n_values; i++)
        ok = study_number(many ? json_at(list, i) : json_get(v, "value"), &out->values[i]);
    if (!ok)
        return err_set(&c->err, ERR_INVALID,
                       "value: trial %llu needs a number (values: a list of them, with several "
                       "objectives), or \"failed\": true",
                       (unsigned long long)out->number);
    return 0;
}

/* One element of `trials`. */
static int study_result_read(struct call *c, const struct json *v, struct study_result *out)
{
    static const char *const keys[] = {"number", "value", "failed", "pruned",
                                       "reason", "hold",  "values", "job"};
    int64_t number = 0, hold = 0, job = 0;
    struct str reason;

    if (json_type(v) != JSON_OBJECT)
        return body_wrong_type(c, "trials[]", v, "an object");
    if (body_check_keys(v, keys, ARRAY_SIZE(keys), &c->err) < 0 ||
        body_int(c, v, "number", 1, INT32_MAX, &number) < 0 ||
        body_int(c, v, "hold", 1, INT32_MAX, &hold) < 0 ||
        body_int(c, v, "job", 1, INT64_MAX, &job) < 0 || body_text(c, v, "reason", &reason) < 0)
        return -1;
    bool failed = json_bool(json_get(v, "failed")), pruned = json_bool(json_get(v, "pruned"));
    if (!number)
        return err_set(&c->err, ERR_INVALID, "number: is missing; name the trial that was asked");
    *out = (struct study_result){.number = (uint64_t)number,
                                 .state = failed   ? TRIAL_FAILED
                                          : pruned ? TRIAL_PRUNED
                                                   : TRIAL_DONE,
                                 .reason = reason,
                                 .hold = (uint32_t)hold,
                                 .job = (uint64_t)job};
    return study_values_of(c, v, out);
}

/* POST …/tell: results, and points for those who ask in the same request. */
void studies_tell(struct call *c)
{
    static const char *const keys[] = {"trials", "ask", "lease"};
    AUTO(json) struct json *body = study_body(c);
    const struct json *list = json_get(body, "trials");
    uint64_t seq = body ? study_seq_of_path(c) : 0;
    VEC(struct study_result) results = {0};
    int64_t ask = 0, lease = 0;
    bool ok = seq && body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) == 0 &&
              body_int(c, body, "ask", 0, RESULTS_MAX, &ask) == 0 &&
              body_int(c, body, "lease", 1, LEASE_MAX_S, &lease) == 0;

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
        core_study_exchange(call_api(c)->conf.core, seq, results.p, results.n,
                            &(struct study_ask){(size_t)ask, (int32_t)lease}, &c->who.caller,
                            study_exchanged, c);
    else
        call_fail(c, &c->err);
    vec_done(&results);
}

/* POST …/report: how far a trial is that a client runs. */
void studies_report(struct call *c)
{
    static const char *const keys[] = {"number", "step", "value", "hold"};
    AUTO(json) struct json *body = study_body(c);
    uint64_t seq = body ? study_seq_of_path(c) : 0;
    int64_t number = 0, step = -1, hold = 0;
    bool stop = false;
    double value;

    if (!seq || body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) < 0 ||
        body_int(c, body, "number", 1, INT32_MAX, &number) < 0 ||
        body_int(c, body, "hold", 1, INT32_MAX, &hold) < 0 ||
        body_int(c, body, "step", 0, INT64_MAX, &step) < 0) {
        call_fail(c, &c->err);
        return;
    }
    if (step < 0 || !study_number(json_get(body, "value"), &value)) {
        err_set(&c->err, ERR_INVALID,
                "give number, step and value: {\"number\": 1, \"step\": 4, "
                "\"value\": 0.3}");
        call_fail(c, &c->err);
        return;
    }
    if (core_study_report(call_api(c)->conf.core, seq,
                          (struct study_holding){(uint64_t)number, (uint32_t)hold}, step, value,
                          &c->who.caller, &stop, &c->err) < 0) {
        call_fail(c, &c->err);
        return;
    }
    jw_object(&c->out, NULL);
    jw_bool(&c->out, "stop", stop);
    jw_end_object(&c->out);
    call_reply(c);
}

static int study_holding_read(struct call *c, const struct json *v, struct study_holding *out)
{
    static const char *const keys[] = {"number", "hold"};
    int64_t number = 0, hold = 0;

    if (json_type(v) != JSON_OBJECT)
        return body_wrong_type(c, "trials[]", v, "an object");
    if (body_check_keys(v, keys, ARRAY_SIZE(keys), &c->err) < 0 ||
        body_int(c, v, "number", 1, INT32_MAX, &number) < 0 ||
        body_int(c, v, "hold", 1, INT32_MAX, &hold) < 0)
        return -1;
    if (!number)
        return err_set(&c->err, ERR_INVALID, "number: is missing; name the trial that was asked");
    *out = (struct study_holding){(uint64_t)number, (uint32_t)hold};
    return 0;
}

static void study_renewed_json(struct buf *b, const struct study_holding *held, size_t n,
                               const bool *lost)
{
    jw_object(b, NULL);
    jw_array(b, "lost");
    for (size_t i = 0; i < n; i++)
        if (lost[i])
            jw_int(b, NULL, (int64_t)held[i].number);
    jw_end_array(b);
    jw_end_object(b);
}

/* POST …/renew: the client is alive and still evaluates these trials. */
void studies_renew(struct call *c)
{
    static const char *const keys[] = {"trials"};
    AUTO(json) struct json *body = study_body(c);
    const struct json *list = json_get(body, "trials");
    uint64_t seq = body ? study_seq_of_path(c) : 0;
    size_t n = json_type(list) == JSON_ARRAY ? json_len(list) : 0;
    bool ok = seq && body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) == 0;

    if (ok && (!n || n > RESULTS_MAX)) {
        err_set(&c->err, ERR_INVALID, "trials: give a list of 1 to %d trials", RESULTS_MAX);
        ok = false;
    }
    AUTO_FREE struct study_holding *held = xcalloc(n + 1, sizeof(*held));
    AUTO_FREE bool *lost = xcalloc(n + 1, sizeof(*lost));
    for (size_t i = 0; ok && i < n; i++)
        ok = study_holding_read(c, json_at(list, i), &held[i]) == 0;
    if (!ok ||
        core_study_renew(call_api(c)->conf.core, seq, held, n, &c->who.caller, lost, &c->err) < 0) {
        call_fail(c, &c->err);
        return;
    }
    study_renewed_json(&c->out, held, n, lost);
    call_reply(c);
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
    if (r->values.n)
        jw_raw(b, "values", r->values);
    jw_int_or_null(b, "job", (int64_t)r->job, r->job != 0);
    jw_raw(b, "params", r->params);
    jw_str_or_null(b, "reason", r->reason);
    if (r->parent)
        jw_int(b, "parent", (int64_t)r->parent);
    if (r->hold)
        jw_int(b, "hold", r->hold);
    if (r->lease_s)
        jw_int(b, "lease", r->lease_s);
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
