/* reports.c - what a job says about itself, coming in and going out
 *
 * POST /v1/jobs/{job}/reports takes a piece of a run's spool file: whole JSON lines from byte
 * `offset` on.  The answer is where the next piece must begin, so a piece sent twice counts once.
 */
#include "api/api_priv.h"
#include "api/job_json.h"

/* ---- POST /v1/jobs/{job}/reports ---- */

struct reports_call {
    struct job_facts f;
    int64_t run, offset;
    struct str lines;
};

static int post_run(struct call *c)
{
    struct reports_call *d = c->data;

    if (job_ref_arg(c, &d->f) < 0)
        return -1;
    if (c->who.token.job != 0 && d->run != c->who.token.run)
        return err_set(&c->err, ERR_DENIED, "this token belongs to run %u, not to run %lld",
                       c->who.token.run, (long long)d->run);
    return 0;
}

static void on_reported(void *arg, const struct err *e, int64_t offset)
{
    struct call *c = arg;

    if (e) {
        call_fail(c, e);
        return;
    }
    put_int(&c->out, "{\"offset\":", offset);
    buf_addc(&c->out, '}');
    call_reply(c);
}

static void post_then(struct call *c)
{
    struct reports_call *d = c->data;
    struct run_key key = {d->f.seq, (uint32_t)d->run};

    core_report(c->api->conf.core, key, d->offset, d->lines, on_reported, c);
}

void reports_post(struct call *c)
{
    struct reports_call *d = call_alloc(c, sizeof(*d));
    int64_t number;

    c->data = d;
    d->lines = call_copy(c, http_body(c->req));
    if (call_param_int(c, "run", c->who.token.run, 1, UINT32_MAX, &d->run, &c->err) < 0 ||
        call_param_int(c, "offset", 0, 0, INT64_MAX / 2, &d->offset, &c->err) < 0) {
        call_fail(c, &c->err);
        return;
    }
    if (d->run == 0) {
        err_set(&c->err, ERR_INVALID, "run: say which run this comes from, as in ?run=1&offset=0");
        call_fail(c, &c->err);
        return;
    }
    /* A token proves which job it is: named by number, the store need not be asked. */
    if (c->who.token.job != 0 && str_to_i64(c->arg, &number) &&
        (uint64_t)number == c->who.token.job && d->run == c->who.token.run) {
        d->f.seq = c->who.token.job;
        post_then(c);
        return;
    }
    call_work(c, post_run, post_then);
}

/* ---- GET /v1/jobs/{job}/metrics ---- */

struct series {
    char *name;
    struct buf points;
};
struct all_series {
    struct arena *mem;
    struct map_str by_name;
    VEC(struct series *) list;
    const char *only;
};

static bool add_point(void *arg, const struct report_view *v)
{
    struct all_series *all = arg;
    struct series *s;

    if (all->only && !str_eq_c(v->name, all->only))
        return true;
    s = map_str_get(&all->by_name, v->name);
    if (!s) {
        s = arena_alloc(all->mem, sizeof(*s));
        s->name = arena_strndup(all->mem, v->name.p, v->name.n);
        buf_init(&s->points, API_REPLY_MAX);
        map_str_put(&all->by_name, v->name, s);
        vec_push(&all->list, s);
    }
    put_int(&s->points, s->points.n ? ",{\"step\":" : "{\"step\":", v->step);
    put_double(&s->points, ",\"value\":", v->value);
    put_int(&s->points, ",\"run\":", v->run);
    put_time(&s->points, ",\"at\":", v->at_ms);
    return buf_addc(&s->points, '}');
}

static int metrics_run(struct call *c)
{
    struct all_series all = {.mem = &c->mem, .only = c->data};
    struct job_facts f;
    int rc;

    if (job_ref_arg(c, &f) < 0)
        return -1;
    rc = store_reports(c->api->conf.store, f.seq, 'm', add_point, &all, &c->err);
    buf_adds(&c->out, "{\"metrics\":{");
    for (size_t i = 0; i < all.list.n; i++) {
        struct series *s = all.list.p[i];

        put_str(&c->out, i ? "," : "", str_of(s->name));
        put_raw(&c->out, ":[", buf_str(&s->points));
        buf_addc(&c->out, ']');
        buf_done(&s->points);
    }
    buf_adds(&c->out, "}}");
    map_str_done(&all.by_name);
    vec_done(&all.list);
    return rc;
}

void reports_metrics(struct call *c)
{
    c->data = (void *)call_param(c, "name");
    c->etag = true;
    call_work(c, metrics_run, NULL);
}
