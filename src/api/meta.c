/* meta.c - the daemon itself: what it is, what it serves, its end */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "api/openapi.h"
#include "base/json.h"

void meta_health(struct call *c)
{
    jw_object(&c->out, NULL);
    jw_bool(&c->out, "ok", true);
    jw_end_object(&c->out);
    call_reply(c);
}

/* ---- GET /v1/routes: the table, for the test that compares it with openapi.yaml ---- */

void meta_routes(struct call *c)
{
    static const char *const classes[] = {
        [AUTH_PUBLIC] = "public", [AUTH_READ] = "read",   [AUTH_WRITE] = "write",
        [AUTH_JOB] = "job",       [AUTH_ADMIN] = "admin",
    };
    struct buf *b = &c->out;

    jw_object(b, NULL);
    jw_array(b, "items");
    for (size_t i = 0; i < api_n_routes; i++) {
        const struct route *r = &api_routes[i];

        jw_object(b, NULL);
        jw_text(b, "method", r->method);
        jw_text(b, "path", r->path);
        jw_text(b, "auth", classes[r->who]);
        jw_end_object(b);
    }
    jw_end_array(b);
    jw_end_object(b);
    c->etag.wanted = true;
    call_reply(c);
}

/* ---- GET /v1 ----
 *
 * What monitors ask all the time.  Counts change with events only, so an admin's answer needs the
 * store once per event.
 */
/* `at` is the number of the newest event before the counts were read, plus 1: 0 means "never". */
struct about {
    uint64_t counts[JOB_STATE_MAX], at;
};

/* The answer of GET /v1; `counts` are of the jobs the caller may see. */
static void about_reply(struct call *c, const uint64_t counts[JOB_STATE_MAX], uint64_t last_event)
{
    const struct api_conf *conf = &call_api(c)->conf;
    struct buf *b = &c->out;

    buf_reserve(b, 1000);
    jw_object(b, NULL);
    jw_text(b, "version", conf->version);
    jw_text(b, "home", conf->home);
    jw_time(b, "started", conf->started_ms);
    jw_int(b, "uid", conf->uid);
    jw_bool(b, "multi_user", conf->multi_user);
    jw_object(b, "you");
    jw_text(b, "user", c->who.caller.user);
    jw_int(b, "uid", c->who.caller.uid);
    jw_bool(b, "admin", c->who.caller.admin);
    jw_end_object(b);
    jw_object(b, "counts");
    jw_counts(b, counts);
    jw_end_object(b);
    jw_key(b, STR("node"));
    node_json(b, conf->core, 0, NULL); /* this machine is always the first */
    jw_int(b, "last_event", (int64_t)last_event);
    jw_end_object(b);
    call_reply(c);
}

/* Worker thread: the caller's own jobs, or all jobs for an admin. */
static int about_run(struct call *c)
{
    struct about *d = c->data;
    struct job_query q = visible_jobs(c);

    return store_job_counts(call_api(c)->conf.store, &q, d->counts, &c->err);
}

static void about_then(struct call *c)
{
    struct about *d = c->data;
    struct api *a = c->self;

    /* Two such calls may finish in either order; the newer counts stay. */
    if (c->who.caller.admin && d->at >= a->counts_at) {
        memcpy(a->counts, d->counts, sizeof(a->counts));
        a->counts_at = d->at;
    }
    about_reply(c, d->counts, d->at - 1);
}

/* Only an admin's counts are kept: those of other users differ from user to user. */
void meta_get(struct call *c)
{
    struct api *a = c->self;
    uint64_t now = store_last_event(a->conf.store) + 1;
    struct about *d;

    if (c->who.caller.admin && a->counts_at == now) {
        about_reply(c, a->counts, now - 1);
        return;
    }
    d = call_alloc(c, sizeof(*d));
    d->at = now;
    c->data = d;
    call_work(c, about_run, about_then);
}

/* ---- what is built in ---- */

static void reply_text(struct call *c, const char *type, struct str text)
{
    c->type = type;
    c->etag.wanted = true;
    buf_add(&c->out, text.p, text.n);
    call_reply(c);
}

void meta_openapi(struct call *c)
{
    reply_text(c, "application/yaml", openapi_text());
}

void meta_schema_job(struct call *c)
{
    reply_text(c, "application/schema+json", str_of(spec_schema()));
}

void meta_schema_sweep(struct call *c)
{
    reply_text(c, "application/schema+json", str_of(spec_sweep_schema()));
}

/* ---- POST /v1/shutdown ---- */

void meta_shutdown(struct call *c)
{
    struct api *a = c->self;

    c->status = 202;
    /* The answer is queued before the loop is told to stop, so the client still gets it. */
    meta_health(c);
    if (a->conf.shutdown)
        a->conf.shutdown(a->conf.shutdown_arg);
}
