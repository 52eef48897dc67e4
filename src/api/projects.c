/* projects.c - GET /v1/projects and /v1/batches: jobs by the groups they belong to */
#include "api/api_priv.h"
#include "api/job_json.h"

/* ---- projects ---- */

struct project {
    char *name;
    uint64_t counts[JOB_STATE_MAX];
};
struct projects {
    struct arena *mem;
    VEC(struct project) list;
};

static bool keep_project(void *arg, struct str name, const uint64_t counts[JOB_STATE_MAX])
{
    struct projects *p = arg;
    struct project one = {.name = arena_strndup(p->mem, name.p, name.n)};

    memcpy(one.counts, counts, sizeof(one.counts));
    vec_push(&p->list, one);
    return true;
}

static uint64_t total(const uint64_t counts[JOB_STATE_MAX])
{
    uint64_t n = 0;

    for (int s = 0; s < JOB_STATE_MAX; s++)
        n += counts[s];
    return n;
}

/* For a person who is not an admin: what is theirs of each project; one without is not shown. */
static int own_counts(struct call *c, struct project *p)
{
    struct job_query q = {
        .project = p->name, .only_uid = true, .uid = c->who.caller.uid, .limit = 1};

    memset(p->counts, 0, sizeof(p->counts));
    return store_job_counts(c->api->conf.store, &q, p->counts, &c->err);
}

static int projects_run(struct call *c)
{
    struct projects p = {.mem = &c->mem};
    int rc = store_projects(c->api->conf.store, keep_project, &p, &c->err);

    buf_adds(&c->out, "{\"items\":[");
    for (size_t i = 0; rc == 0 && i < p.list.n; i++) {
        struct project *one = &p.list.p[i];

        if (!c->who.caller.admin) {
            rc = own_counts(c, one);
            if (rc < 0 || total(one->counts) == 0)
                continue;
        }
        if (c->out.p[c->out.n - 1] != '[')
            buf_addc(&c->out, ',');
        put_str(&c->out, "{\"name\":", str_of(one->name));
        put_int(&c->out, ",\"total\":", (int64_t)total(one->counts));
        buf_addc(&c->out, ',');
        put_counts(&c->out, one->counts);
        buf_addc(&c->out, '}');
    }
    buf_adds(&c->out, "]}");
    vec_done(&p.list);
    return rc;
}

void projects_list(struct call *c)
{
    c->etag = true;
    call_work(c, projects_run, NULL);
}

/* ---- batches ---- */

struct batches_call {
    int64_t limit, before;
    uint64_t last;
    size_t n;
    struct buf *out;
};

static bool add_batch(void *arg, const struct batch_view *v)
{
    struct batches_call *d = arg;
    struct buf *b = d->out;

    put_id(b, d->n ? ",{\"id\":" : "{\"id\":", v->id);
    put_int(b, ",\"number\":", (int64_t)v->seq);
    put_str_or_null(b, ",\"name\":", v->name);
    put_str(b, ",\"project\":", v->project);
    if (v->slots)
        put_int(b, ",\"slots\":", v->slots);
    else
        put_null(b, ",\"slots\":");
    put_int(b, ",\"first\":", (int64_t)v->first_job);
    put_int(b, ",\"count\":", (int64_t)v->n_jobs);
    put_time(b, ",\"created\":", v->created_ms);
    buf_addc(b, ',');
    put_counts(b, v->counts);
    buf_addc(b, '}');
    d->last = v->seq;
    d->n++;
    return !b->overflow;
}

static int batches_run(struct call *c)
{
    struct batches_call *d = c->data;

    d->out = &c->out;
    buf_adds(&c->out, "{\"items\":[");
    if (store_batches(c->api->conf.store, !c->who.caller.admin, c->who.caller.uid,
                      (uint64_t)d->before, (size_t)d->limit, add_batch, d, &c->err) < 0)
        return -1;
    if (d->n == (size_t)d->limit && d->last > 1) {
        put_int(&c->out, "],\"next\":\"", (int64_t)d->last);
        buf_addc(&c->out, '"');
    } else {
        put_null(&c->out, "],\"next\":");
    }
    buf_addc(&c->out, '}');
    return 0;
}

void batches_list(struct call *c)
{
    struct batches_call *d = call_alloc(c, sizeof(*d));

    c->data = d;
    c->etag = true;
    if (call_param_int(c, "limit", API_PAGE_DEFAULT, 1, API_PAGE_MAX, &d->limit, &c->err) < 0 ||
        call_param_int(c, "cursor", 0, 1, INT64_MAX, &d->before, &c->err) < 0)
        call_fail(c, &c->err);
    else
        call_work(c, batches_run, NULL);
}
