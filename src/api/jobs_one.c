/* jobs_one.c - one job: its record, its spec, why it waits, whether it should stop
 *
 * The record joins what the store keeps in several tables; each is read by itself, so a job that
 * changes in between may show a run that its state does not know yet.  The next read settles it.
 */
#include "api/api_priv.h"
#include "api/job_json.h"

/* ---- GET /v1/jobs/{job} ---- */

static bool add_open(void *arg, const struct job_view *v)
{
    struct call *c = arg;

    job_json_open(&c->out, v);
    job_live_note(c, v, c->out.n - strlen("null"));
    return false;
}

static bool add_run(void *arg, const struct run_view *v)
{
    struct buf *b = arg;
    const char *state = v->ended ? run_end_name(v->why) : v->started_ms ? "running" : "starting";

    if (b->p[b->n - 1] != '[')
        buf_addc(b, ',');
    put_int(b, "{\"run\":", v->key.run);
    put_str(b, ",\"node\":", v->node);
    put_str(b, ",\"state\":", str_of(state));
    if (v->ended && v->exit_code >= 0)
        put_int(b, ",\"exit_code\":", v->exit_code);
    else
        put_null(b, ",\"exit_code\":");
    put_str_or_null(b, ",\"detail\":", v->detail);
    if (v->pid)
        put_int(b, ",\"pid\":", v->pid);
    else
        put_null(b, ",\"pid\":");
    put_gpus(b, ",\"gpus\":", &v->gpus);
    put_time(b, ",\"placed\":", v->placed_ms);
    put_time(b, ",\"started\":", v->started_ms);
    put_time(b, ",\"ended\":", v->ended_ms);
    put_int(b, ",\"max_rss_bytes\":", v->max_rss_bytes);
    put_int(b, ",\"cpu_user_ms\":", v->cpu_user_ms);
    put_int(b, ",\"cpu_sys_ms\":", v->cpu_sys_ms);
    buf_addc(b, '}');
    return true;
}

/* Last of each name; the order is that of first appearance. */
struct last_report {
    char *name, *text;
    double value;
    int64_t step, at_ms;
    uint32_t run;
    char kind;
};
struct last_reports {
    struct arena *mem;
    struct map_str tags, metrics, artifacts;
    VEC(struct last_report *) all;
};

static bool keep_report(void *arg, const struct report_view *v)
{
    struct last_reports *l = arg;
    struct map_str *m = v->kind == 'm'   ? &l->metrics
                        : v->kind == 't' ? &l->tags
                        : v->kind == 'a' ? &l->artifacts
                                         : NULL;
    struct last_report *r;

    if (!m)
        return true;
    r = map_str_get(m, v->name);
    if (!r) {
        r = arena_alloc(l->mem, sizeof(*r));
        r->name = arena_strndup(l->mem, v->name.p, v->name.n);
        r->kind = v->kind;
        map_str_put(m, v->name, r);
        vec_push(&l->all, r);
    }
    if (v->kind != 'm')
        r->text = arena_strndup(l->mem, v->text.p, v->text.n);
    r->value = v->value;
    r->step = v->step;
    r->at_ms = v->at_ms;
    r->run = v->run;
    return true;
}

static void add_report(struct buf *b, const struct last_report *r)
{
    put_str(b, "", str_of(r->name));
    if (r->kind == 't') {
        put_str(b, ":", str_of(r->text));
        return;
    }
    if (r->kind == 'm') {
        put_double(b, ":{\"value\":", r->value);
        put_int(b, ",\"step\":", r->step);
    } else {
        put_str(b, ":{\"path\":", str_of(r->text));
    }
    put_int(b, ",\"run\":", r->run);
    put_time(b, ",\"at\":", r->at_ms);
    buf_addc(b, '}');
}

static void add_reports(struct buf *b, const struct last_reports *l, char kind)
{
    bool first = true;

    buf_addc(b, '{');
    for (size_t i = 0; i < l->all.n; i++) {
        if (l->all.p[i]->kind != kind)
            continue;
        if (!first)
            buf_addc(b, ',');
        add_report(b, l->all.p[i]);
        first = false;
    }
    buf_addc(b, '}');
}

static int put_reports(struct call *c, uint64_t seq)
{
    struct last_reports l = {.mem = &c->mem};
    int rc = store_reports(c->api->conf.store, seq, 0, keep_report, &l, &c->err);

    if (rc == 0) {
        buf_adds(&c->out, ",\"tags\":");
        add_reports(&c->out, &l, 't');
        buf_adds(&c->out, ",\"metrics\":");
        add_reports(&c->out, &l, 'm');
        buf_adds(&c->out, ",\"artifacts\":");
        add_reports(&c->out, &l, 'a');
    }
    map_str_done(&l.tags);
    map_str_done(&l.metrics);
    map_str_done(&l.artifacts);
    vec_done(&l.all);
    return rc;
}

static int get_run(struct call *c)
{
    struct store *s = c->api->conf.store;
    struct job_facts f;
    AUTO_FREE char *spec = NULL;
    AUTO_FREE uint64_t *after = NULL;
    size_t n_after = 0;

    if (job_ref_arg(c, &f) < 0 || store_job(s, f.seq, add_open, c, &c->err) < 0)
        return -1;
    buf_adds(&c->out, ",\"runs\":[");
    if (store_runs(s, f.seq, add_run, &c->out, &c->err) < 0 ||
        store_job_spec(s, f.seq, &spec, &c->err) < 0 ||
        store_job_deps(s, f.seq, &after, &n_after, &c->err) < 0)
        return -1;
    put_raw(&c->out, "],\"spec\":", str_of(spec));
    buf_adds(&c->out, ",\"after\":[");
    for (size_t i = 0; i < n_after; i++)
        put_int(&c->out, i ? "," : "", (int64_t)after[i]);
    buf_addc(&c->out, ']');
    if (put_reports(c, f.seq) < 0)
        return -1;
    buf_addc(&c->out, '}');
    return 0;
}

void jobs_get(struct call *c)
{
    c->etag = true;
    call_work(c, get_run, job_live_reply);
}

/* ---- GET /v1/jobs/{job}/spec ---- */

static int spec_run(struct call *c)
{
    struct job_facts f;
    AUTO_FREE char *spec = NULL;

    if (job_ref_arg(c, &f) < 0 || store_job_spec(c->api->conf.store, f.seq, &spec, &c->err) < 0)
        return -1;
    buf_adds(&c->out, spec);
    return 0;
}

void jobs_spec(struct call *c)
{
    c->etag = true;
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
    put_str(b, "{\"state\":", str_of(job_state_name(v->state)));
    put_bool(b, ",\"waiting\":", false);
    put_str(b, ",\"kind\":", STR("ended"));
    put_str(b, ",\"text\":", buf_str(&text));
    buf_reset(&text);
    if (v->state != JOB_SUCCEEDED)
        buf_addf(&text, "'berth logs %llu' shows its output, 'berth retry %llu' runs it again.",
                 (unsigned long long)v->seq, (unsigned long long)v->seq);
    put_str_or_null(b, ",\"remedy\":", buf_str(&text));
    put_int(b, ",\"ahead\":", 0);
    buf_addc(b, '}');
    return false;
}

static int explain_run(struct call *c)
{
    struct explain *x = c->data;

    if (job_ref_arg(c, &x->f) < 0)
        return -1;
    return store_job(c->api->conf.store, x->f.seq, add_ended, &x->ended, &c->err);
}

static void explain_then(struct call *c)
{
    struct explain *x = c->data;
    struct core *core = c->api->conf.core;
    struct json *why = NULL;

    /* Not held (any more): the record says it all. */
    if (core_explain(core, x->f.seq, &why, &c->err) == 0) {
        json_write(&c->out, why, false);
        json_free(why);
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
    call_work(c, explain_run, explain_then);
}

/* ---- GET /v1/jobs/{job}/control: what berth.should_stop() asks ---- */

static void control_reply(struct call *c, uint64_t seq)
{
    put_bool(&c->out, "{\"stop\":", core_stop_requested(c->api->conf.core, seq));
    buf_addc(&c->out, '}');
    call_reply(c);
}

static int control_run(struct call *c)
{
    return job_ref_arg(c, c->data);
}

static void control_then(struct call *c)
{
    control_reply(c, ((struct job_facts *)c->data)->seq);
}

void jobs_control(struct call *c)
{
    int64_t number;

    /* Training loops ask this often: a job asking by its own number needs no look at the store. */
    if (c->who.token.job != 0 && str_to_i64(c->arg, &number) &&
        (uint64_t)number == c->who.token.job) {
        control_reply(c, c->who.token.job);
        return;
    }
    c->data = call_alloc(c, sizeof(struct job_facts));
    call_work(c, control_run, control_then);
}
