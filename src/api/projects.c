/* projects.c - GET /v1/projects, /v1/projects/{name} and /v1/batches: jobs by their groups */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "store/track.h"

/* ---- projects ---- */

/* A project is for admins, for who has jobs in it, and for who began it.  `counts` are of the jobs
 * that the caller may see. */
static int project_visible(struct call *c, const struct project_view *v,
                           uint64_t counts[JOB_STATE_MAX], uint64_t *total, bool *out)
{
    struct job_query q = visible_jobs(c);

    q.project = arena_strndup(&c->mem, v->name.p, v->name.n);
    if (c->who.caller.admin) { /* the store keeps these counts */
        memcpy(counts, v->counts, JOB_STATE_MAX * sizeof(*counts));
        *total = 0;
        for (int s = 0; s < JOB_STATE_MAX; s++)
            *total += counts[s];
    } else if (visible_counts(c, &q, counts, total) < 0) {
        return -1;
    }
    *out = *total > 0 || caller_sees(&c->who.caller, v->uid);
    return 0;
}

static void put_project(struct buf *b, const struct project_view *v,
                        const uint64_t counts[JOB_STATE_MAX], uint64_t total)
{
    jw_object(b, NULL);
    jw_str(b, "name", v->name);
    jw_int(b, "total", (int64_t)total);
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

static bool add_project(void *arg, const struct project_view *v)
{
    struct projects_call *p = arg;
    uint64_t counts[JOB_STATE_MAX], total;
    bool visible;

    p->rc = project_visible(p->c, v, counts, &total, &visible);
    if (p->rc < 0)
        return false;
    if (!visible)
        return true;
    if (!p->all && !total && !v->notes && !v->description.n)
        return true; /* its last job was removed, and nobody wrote anything about it */
    put_project(&p->c->out, v, counts, total);
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

static int project_not_found(struct call *c)
{
    return err_set(&c->err, ERR_NOT_FOUND,
                   "there is no project '%.*s'; `berth projects` lists the projects",
                   (int)MIN(c->arg[0].n, 100), c->arg[0].p);
}

struct project_look {
    struct call *c;
    bool found, visible;
    int rc;
};

static bool project_look(void *arg, const struct project_view *v)
{
    struct project_look *p = arg;
    uint64_t counts[JOB_STATE_MAX], total;

    p->found = true;
    p->rc = project_visible(p->c, v, counts, &total, &p->visible);
    return false;
}

int project_ref_arg(struct call *c, bool or_new)
{
    struct project_look p = {.c = c};

    if (store_project(call_api(c)->conf.store, c->arg[0], project_look, &p, &c->err) < 0 &&
        c->err.code != ERR_NOT_FOUND)
        return -1;
    if (p.rc < 0)
        return -1;
    c->err = (struct err){0};
    return p.visible || (!p.found && or_new) ? 0 : project_not_found(c);
}

/* add_project writes nothing when the caller may not know of the project: c->out is then empty. */
static int project_run(struct call *c)
{
    struct projects_call p = {.c = c, .all = true};

    if (store_project(call_api(c)->conf.store, c->arg[0], add_project, &p, &c->err) < 0 || p.rc < 0)
        return -1;
    return c->out.n ? 0 : project_not_found(c); /* in the same words as one that is not there */
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
