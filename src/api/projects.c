/* projects.c - GET /v1/projects, /v1/projects/{name} and /v1/batches: jobs by their groups */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "store/track.h"

/* ---- projects ---- */

static uint64_t total(const uint64_t counts[JOB_STATE_MAX])
{
    uint64_t n = 0;

    for (int s = 0; s < JOB_STATE_MAX; s++)
        n += counts[s];
    return n;
}

/* For a person who is not an admin: what is theirs of each project; others' are not counted. */
static int own_counts(struct call *c, struct str name, uint64_t counts[JOB_STATE_MAX])
{
    const char *project = arena_strndup(&c->mem, name.p, name.n);
    struct job_query q = {
        .project = project, .only_uid = true, .uid = c->who.caller.uid, .limit = 1};

    memset(counts, 0, JOB_STATE_MAX * sizeof(*counts));
    return store_job_counts(call_api(c)->conf.store, &q, counts, &c->err);
}

static void put_project(struct buf *b, const struct project_view *v,
                        const uint64_t counts[JOB_STATE_MAX])
{
    put_str(b, "{\"name\":", v->name);
    put_int(b, ",\"total\":", (int64_t)total(counts));
    put_time(b, ",\"created\":", v->created_ms);
    put_str(b, ",\"owner\":", v->owner);
    put_str(b, ",\"description\":", v->description);
    put_int(b, ",\"notes\":", (int64_t)v->notes);
    buf_addc(b, ',');
    put_counts(b, counts);
    buf_addc(b, '}');
}

struct projects_call {
    struct call *c;
    bool all; /* also those without jobs */
    int rc;
};

/* One without a job of theirs is shown to those who began it only. */
static bool add_project(void *arg, const struct project_view *v)
{
    struct projects_call *p = arg;
    struct call *c = p->c;
    uint64_t counts[JOB_STATE_MAX];

    memcpy(counts, v->counts, sizeof(counts));
    if (!c->who.caller.admin) {
        p->rc = own_counts(c, v->name, counts);
        if (p->rc < 0)
            return false;
        if (!total(counts) && v->uid != c->who.caller.uid)
            return true;
    }
    if (!p->all && !total(counts) && !v->notes && !v->description.n)
        return true; /* its last job was removed, and nobody wrote anything about it */
    if (c->out.n && c->out.p[c->out.n - 1] != '[')
        buf_addc(&c->out, ',');
    put_project(&c->out, v, counts);
    return true;
}

static int projects_run(struct call *c)
{
    struct projects_call p = {.c = c};

    buf_adds(&c->out, "{\"items\":[");
    if (store_project_list(call_api(c)->conf.store, add_project, &p, &c->err) < 0 || p.rc < 0)
        return -1;
    buf_adds(&c->out, "]}");
    return 0;
}

void projects_list(struct call *c)
{
    c->etag.wanted = true;
    call_work(c, projects_run, NULL);
}

static int project_run(struct call *c)
{
    struct projects_call p = {.c = c, .all = true};

    if (store_project(call_api(c)->conf.store, c->arg[0], add_project, &p, &c->err) < 0 || p.rc < 0)
        return -1;
    if (!c->out.n) /* in the same words as one that is not there */
        return err_set(&c->err, ERR_NOT_FOUND,
                       "there is no project '%.*s'; `berth projects` shows what there is",
                       (int)MIN(c->arg[0].n, 100), c->arg[0].p);
    return 0;
}

void project_get(struct call *c)
{
    c->etag.wanted = true;
    call_work(c, project_run, NULL);
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
    if (store_batches(call_api(c)->conf.store, !c->who.caller.admin, c->who.caller.uid,
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
    c->etag.wanted = true;
    if (call_param_int(c, "limit", API_PAGE_DEFAULT, 1, API_PAGE_MAX, &d->limit, &c->err) < 0 ||
        call_param_int(c, "cursor", 0, 1, INT64_MAX, &d->before, &c->err) < 0)
        call_fail(c, &c->err);
    else
        call_work(c, batches_run, NULL);
}
