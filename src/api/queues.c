/* queues.c - GET /v1/queues, POST /v1/queues/{name}/pause and /resume
 *
 * A queue exists once a job named it or an admin paused it.  Users who are not admins see the
 * queues with jobs of theirs, and count those.
 */
#include "api/api_priv.h"
#include "api/job_json.h"

/* The names are kept, and the jobs of each queue are counted after store_queues has returned: each
 * of the two takes a read connection. */
struct queue_names {
    struct arena *mem;
    VEC(struct {
        char *name;
        bool paused;
    })
    list;
};

static bool keep_queue(void *arg, struct str name, bool paused)
{
    struct queue_names *q = arg;

    vec_reserve(&q->list, q->list.n + 1);
    q->list.p[q->list.n].name = arena_strndup(q->mem, name.p, name.n);
    q->list.p[q->list.n++].paused = paused;
    return true;
}

static int queues_run(struct call *c)
{
    struct store *s = call_api(c)->conf.store;
    struct queue_names q = {.mem = &c->mem};
    int rc = store_queues(s, keep_queue, &q, &c->err);

    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    for (size_t i = 0; rc == 0 && i < q.list.n; i++) {
        struct job_query jq = visible_jobs(c);
        uint64_t counts[JOB_STATE_MAX], total;

        jq.queue = q.list.p[i].name;
        rc = visible_counts(c, &jq, counts, &total);
        if (rc < 0 || (!total && !c->who.caller.admin))
            continue;
        jw_object(&c->out, NULL);
        jw_text(&c->out, "name", q.list.p[i].name);
        jw_bool(&c->out, "paused", q.list.p[i].paused);
        jw_counts(&c->out, counts);
        jw_end_object(&c->out);
    }
    jw_end_array(&c->out);
    jw_end_object(&c->out);
    vec_done(&q.list);
    return rc;
}

void queues_list(struct call *c)
{
    c->etag.wanted = true;
    call_work(c, queues_run, NULL);
}

static bool queues_row_paused(const struct call *c)
{
    return *(const bool *)c->route->arg;
}

static void queue_on_set(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    (void)r;
    if (e) {
        call_fail(c, e);
        return;
    }
    jw_object(&c->out, NULL);
    jw_str(&c->out, "name", c->arg[0]);
    jw_bool(&c->out, "paused", queues_row_paused(c));
    jw_end_object(&c->out);
    call_reply(c);
}

bool queue_name_check(struct call *c)
{
    if (c->arg[0].n <= SPEC_NAME_MAX && !memchr(c->arg[0].p, '\n', c->arg[0].n))
        return true;
    err_set(&c->err, ERR_INVALID, "the name of a queue has 1 to %d bytes on one line",
            SPEC_NAME_MAX);
    call_fail(c, &c->err);
    return false;
}

void queues_set_paused(struct call *c)
{
    if (!queue_name_check(c))
        return;
    core_pause(call_api(c)->conf.core, c->arg[0], queues_row_paused(c), &c->who.caller,
               queue_on_set, c);
}
