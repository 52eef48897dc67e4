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
    jw_object(b, NULL);
    jw_str(b, "name", v->name);
    jw_int(b, "total", (int64_t)total(counts));
    jw_time(b, "created", v->created_ms);
    jw_str(b, "owner", v->owner);
    jw_str(b, "description", v->description);
    jw_int(b, "notes", (int64_t)v->notes);
    jw_counts(b, counts);
    jw_end_object(b);
}

/* rc -1: a query inside of the callback failed, and c->err says why. */
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
    put_project(&c->out, v, counts);
    return true;
}

/* Worker thread: projects the caller may know of, with counts of the jobs the caller may see. */
static int projects_run(struct call *c)
{
    struct projects_call p = {.c = c};

    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    if (store_project_list(call_api(c)->conf.store, add_project, &p, &c->err) < 0 || p.rc < 0)
        return -1;
    jw_end_array(&c->out);
    jw_end_object(&c->out);
    return 0;
}

void projects_list(struct call *c)
{
    c->etag.wanted = true;
    call_work(c, projects_run, NULL);
}

/* add_project writes nothing when the caller may not know of the project: c->out is then empty. */
static int project_run(struct call *c)
{
    struct projects_call p = {.c = c, .all = true};

    if (store_project(call_api(c)->conf.store, c->arg[0], add_project, &p, &c->err) < 0 || p.rc < 0)
        return -1;
    if (!c->out.n) /* in the same words as one that is not there */
        return err_set(&c->err, ERR_NOT_FOUND,
                       "there is no project '%.*s'; `berth projects` lists the projects",
                       (int)MIN(c->arg[0].n, 100), c->arg[0].p);
    return 0;
}

void project_get(struct call *c)
{
    c->etag.wanted = true;
    call_work(c, project_run, NULL);
}

/* ---- batches ---- */

/* `before`: batches with smaller numbers only; 0 = from the newest on.  `last` and `n` are of this
 * page. */
struct batches_call {
    int64_t limit, before;
    uint64_t last;
    size_t n;
    struct buf *out;
};

static bool batches_add(void *arg, const struct batch_view *v)
{
    struct batches_call *d = arg;
    struct buf *b = d->out;

    jw_object(b, NULL);
    jw_id(b, "id", v->id);
    jw_int(b, "number", (int64_t)v->seq);
    jw_str_or_null(b, "name", v->name);
    jw_str(b, "project", v->project);
    jw_int_or_null(b, "slots", v->slots, v->slots);
    jw_int(b, "first", (int64_t)v->first_job);
    jw_int(b, "count", (int64_t)v->n_jobs);
    jw_time(b, "created", v->created_ms);
    jw_counts(b, v->counts);
    jw_end_object(b);
    d->last = v->seq;
    d->n++;
    return !b->overflow;
}

/* Worker thread.  `next` is the number of the last batch of a full page. */
static int batches_run(struct call *c)
{
    struct batches_call *d = c->data;
    char next[24] = "";

    d->out = &c->out;
    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    if (store_batches(call_api(c)->conf.store, !c->who.caller.admin, c->who.caller.uid,
                      (uint64_t)d->before, (size_t)d->limit, batches_add, d, &c->err) < 0)
        return -1;
    if (d->n == (size_t)d->limit && d->last > 1)
        snprintf(next, sizeof(next), "%llu", (unsigned long long)d->last);
    jw_end_array(&c->out);
    jw_str_or_null(&c->out, "next", str_of(next));
    jw_end_object(&c->out);
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
