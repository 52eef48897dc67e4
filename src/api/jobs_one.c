/* jobs_one.c - one job: its record, its spec, why it waits, whether it should stop */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "core/track.h"
#include "model/vault.h"
#include "store/track.h"

/* ---- GET /v1/jobs/{job} ---- */

/* The object stays open: get_run adds the members that need further queries. */
static bool add_open(void *arg, const struct job_view *v)
{
    struct call *c = arg;

    job_json_open(&c->out, v);
    job_live_note(c, v, c->out.n - strlen("null"));
    return false;
}

static bool job_run_json(void *arg, const struct run_view *v)
{
    struct buf *b = arg;
    const char *state = v->ended ? run_end_name(v->why) : v->started_ms ? "running" : "starting";

    jw_object(b, NULL);
    jw_int(b, "run", v->key.run);
    jw_str(b, "node", v->node);
    jw_text(b, "state", state);
    jw_int_or_null(b, "exit_code", v->exit_code, v->ended && v->exit_code >= 0);
    jw_str_or_null(b, "detail", v->detail);
    jw_int_or_null(b, "pid", v->pid, v->pid > 0); /* -1: on another machine */
    jw_gpus(b, "gpus", &v->gpus);
    jw_time(b, "placed", v->placed_ms);
    jw_time(b, "started", v->started_ms);
    jw_time(b, "ended", v->ended_ms);
    jw_int(b, "max_rss_bytes", v->max_rss_bytes);
    jw_int(b, "cpu_user_ms", v->cpu_user_ms);
    jw_int(b, "cpu_sys_ms", v->cpu_sys_ms);
    jw_end_object(b);
    return true;
}

/* Tags, parameters and artifacts of a job, each with its last value. */
static bool job_mark_json(void *arg, const struct mark_view *v)
{
    struct buf *b = arg;

    jw_key(b, v->name);
    if (v->kind == MARK_TAG) {
        jw_str(b, NULL, v->text);
    } else if (v->kind == MARK_PARAM) {
        jw_raw(b, NULL, v->text);
    } else {
        jw_object(b, NULL);
        jw_str(b, "path", v->text);
        jw_int(b, "run", v->run);
        jw_time(b, "at", v->at_ms);
        jw_end_object(b);
    }
    return true;
}

static bool job_metric_json(void *arg, const struct series_view *v)
{
    struct buf *b = arg;

    jw_key(b, v->name);
    jw_object(b, NULL);
    jw_value(b, v->is_text, v->text, v->value);
    jw_step(b, "step", v->step);
    jw_int(b, "points", (int64_t)v->n);
    jw_int(b, "run", v->run);
    jw_time(b, "at", v->at_ms);
    return jw_end_object(b);
}

static int put_marks(struct call *c, const char *key, uint64_t seq, enum mark_kind kind)
{
    jw_object(&c->out, key);
    if (store_marks(call_api(c)->conf.store, &seq, 1, kind, job_mark_json, &c->out, &c->err) < 0)
        return -1;
    jw_end_object(&c->out); /* call_reply refuses an answer that is too large */
    return 0;
}

/* What the job reported and what people added: parameters, tags, metrics, artifacts. */
static int put_tracked(struct call *c, uint64_t seq)
{
    struct store *s = call_api(c)->conf.store;

    if (put_marks(c, "logged_params", seq, MARK_PARAM) < 0 ||
        put_marks(c, "tags", seq, MARK_TAG) < 0)
        return -1;
    jw_object(&c->out, "metrics");
    if (store_series(s, &seq, 1, job_metric_json, &c->out, &c->err) < 0)
        return -1;
    jw_end_object(&c->out);
    return put_marks(c, "artifacts", seq, MARK_ARTIFACT);
}

/* The spec for an answer.  Specs of older programs hold secrets, which are left out here. */
static int read_shown_spec(struct call *c, uint64_t seq, char **out)
{
    const struct vault *vault = core_vault(call_api(c)->conf.core);
    AUTO(json) struct json *form = NULL;
    bool old;

    if (store_job_spec_age(call_api(c)->conf.store, seq, out, &old, &c->err) < 0)
        return -1;
    if (!old || !vault || json_parse(str_of(*out), "spec", &form, &c->err) < 0)
        return c->err.code ? -1 : 0;
    vault_mask_form(vault, form);
    free(*out);
    *out = json_text(form);
    return 0;
}

/* Most specs have no snapshot, and are not parsed for that. */
static int put_snapshot(struct call *c, uint32_t uid, const char *text)
{
    AUTO(json) struct json *spec = NULL;

    if (strstr(text, "\"snapshot\"") && json_parse(str_of(text), "spec", &spec, &c->err) < 0)
        return -1;
    return snapshot_of_spec(c, uid, spec, &c->out);
}

/* Worker thread.  All reads see one committed state, so runs and state agree. */
static int get_run(struct call *c)
{
    struct store *s = call_api(c)->conf.store;
    struct job_facts f;
    AUTO_FREE char *spec = NULL;
    AUTO_FREE uint64_t *after = NULL;
    size_t n_after = 0;

    if (job_ref_arg(c, &f) < 0 || store_job(s, f.seq, add_open, c, &c->err) < 0)
        return -1;
    jw_array(&c->out, "runs");
    if (store_runs(s, f.seq, job_run_json, &c->out, &c->err) < 0 ||
        read_shown_spec(c, f.seq, &spec) < 0 ||
        store_job_deps(s, f.seq, &after, &n_after, &c->err) < 0)
        return -1;
    jw_end_array(&c->out);
    jw_raw(&c->out, "spec", str_of(spec));
    if (put_snapshot(c, f.uid, spec) < 0)
        return -1;
    jw_array(&c->out, "after");
    for (size_t i = 0; i < n_after; i++)
        jw_int(&c->out, NULL, (int64_t)after[i]);
    jw_end_array(&c->out);
    if (put_tracked(c, f.seq) < 0)
        return -1;
    jw_end_object(&c->out);
    return 0;
}

/* The data of the call is a struct job_live, which job_live_note and job_live_reply expect there.
 */
void jobs_get(struct call *c)
{
    c->data = call_alloc(c, sizeof(struct job_live));
    c->etag.wanted = true;
    call_work(c, get_run, job_live_reply);
}

/* ---- GET /v1/jobs/{job}/spec ---- */

static int spec_run(struct call *c)
{
    struct job_facts f;
    AUTO_FREE char *spec = NULL;

    if (job_ref_arg(c, &f) < 0 || read_shown_spec(c, f.seq, &spec) < 0)
        return -1;
    buf_adds(&c->out, spec);
    return 0;
}

void jobs_spec(struct call *c)
{
    c->etag.wanted = true;
    call_work(c, spec_run, NULL);
}

/* ---- GET /v1/jobs/{job}/explain ---- */

struct explain {
    struct job_facts f;
    struct buf ended; /* the answer when the controller does not hold the job any more */
};

static void explain_free(void *data)
{
    buf_done(&((struct explain *)data)->ended);
}

/* What is known of a finished job is all in its record. */
static bool add_ended(void *arg, const struct job_view *v)
{
    struct buf *b = arg;
    AUTO(buf) struct buf text = {0};

    buf_init(&text, 4096);
    buf_addf(&text, "Job %llu %s", (unsigned long long)v->seq,
             v->state == JOB_LOST        ? "was lost"
             : v->state == JOB_CANCELLED ? "was cancelled"
                                         : job_state_name(v->state));
    if (v->reason.n > 0)
        buf_addf(&text, ": " STR_FMT, (int)MIN(v->reason.n, 1000), v->reason.p);
    buf_addc(&text, '.');
    jw_object(b, NULL);
    jw_text(b, "state", job_state_name(v->state));
    jw_bool(b, "waiting", false);
    jw_str(b, "kind", STR("ended"));
    jw_str(b, "text", buf_str(&text));
    buf_reset(&text);
    if (v->state != JOB_SUCCEEDED)
        buf_addf(&text, "'berth logs %llu' shows its output, 'berth retry %llu' runs it again.",
                 (unsigned long long)v->seq, (unsigned long long)v->seq);
    jw_str_or_null(b, "remedy", buf_str(&text));
    jw_int(b, "ahead", 0);
    jw_end_object(b);
    return false;
}

/* Worker thread.  The record is read in any case, because only the loop thread can tell whether the
 * core still holds the job. */
static int job_explain_run(struct call *c)
{
    struct explain *x = c->data;

    if (job_ref_arg(c, &x->f) < 0)
        return -1;
    return store_job(call_api(c)->conf.store, x->f.seq, add_ended, &x->ended, &c->err);
}

/* Loop thread: the controller explains active jobs, the record explains all others. */
static void explain_then(struct call *c)
{
    struct explain *x = c->data;
    struct core *core = call_api(c)->conf.core;
    AUTO(json) struct json *why = NULL;

    /* Not held (any more): the record says it all. */
    if (core_explain(core, x->f.seq, &why, &c->err) == 0) {
        json_write(&c->out, why, JSON_COMPACT);
    } else if (c->err.code == ERR_NOT_FOUND) {
        buf_add(&c->out, x->ended.p, x->ended.n);
    } else {
        call_fail(c, &c->err);
        return;
    }
    call_reply(c);
}

void jobs_explain(struct call *c)
{
    struct explain *x = call_alloc(c, sizeof(*x));

    buf_init(&x->ended, 64 << 10);
    c->data = x;
    c->free_data = explain_free;
    call_work(c, job_explain_run, explain_then);
}

/* ---- GET /v1/jobs/{job}/control: what berth.should_stop() asks ---- */

/* Loop thread.  The question is also a sign of life of a run that Berth did not start. */
static void control_reply(struct call *c, uint64_t seq)
{
    if (c->who.token.job == seq)
        core_heard(call_api(c)->conf.core, c->who.token);
    jw_object(&c->out, NULL);
    jw_bool(&c->out, "stop", core_stop_requested(call_api(c)->conf.core, seq));
    jw_end_object(&c->out);
    call_reply(c);
}

static int control_run(struct call *c)
{
    return job_ref_arg(c, c->data);
}

/* Loop thread, for callers that are not the job itself or that name it in another way. */
static void control_then(struct call *c)
{
    control_reply(c, ((struct job_facts *)c->data)->seq);
}

void jobs_control(struct call *c)
{
    int64_t number;

    /* Training loops ask this often: a job asking by its own number needs no look at the store. */
    if (c->who.token.job != 0 && str_to_i64(c->arg[0], &number) &&
        (uint64_t)number == c->who.token.job) {
        control_reply(c, c->who.token.job);
        return;
    }
    c->data = call_alloc(c, sizeof(struct job_facts));
    call_work(c, control_run, control_then);
}
