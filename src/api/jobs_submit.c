/* jobs_submit.c - POST /v1/jobs
 *
 * Owns: the way of a submission: read on a worker thread (one small job at once), taken by the
 * controller, answered after its commit.
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "api/submit_parse.h"
#include "request/once.h"
#include <strings.h>

/* Up to this size a single job is read on the loop thread. */
enum { SMALL_BODY_BYTES = 64 << 10 };

/* One submission.  `replay`: the answer is that of an earlier request with the same key.
 * `prepared`: submit_prepare was called on the loop thread. */
struct submitting {
    struct submit *x; /* NULL once the controller has it */
    struct str batch; /* name asked for with ?batch= */
    struct str name;  /* of a single job, for the answer */
    bool yaml, single, replay, prepared;
    struct once_made made; /* by the same key before */
    atomic_int *claims;    /* counts this request until its jobs are recorded; NULL = it does not */
};

static void submitting_free(void *data)
{
    struct submitting *d = data;

    submit_free(d->x);
    if (d->claims)
        atomic_fetch_sub(d->claims, 1);
}

/* ---- the answer ---- */

static void submitted_json(struct buf *b, struct id id, uint64_t number, struct str name,
                           enum job_state state)
{
    jw_object(b, NULL);
    jw_id(b, "id", id);
    jw_int(b, "number", (int64_t)number);
    jw_str(b, "name", name);
    jw_text(b, "state", job_state_name(state));
    jw_end_object(b);
}

void submitted_many_json(struct buf *b, uint64_t batch, struct id batch_id, uint64_t first,
                         uint64_t n, struct id first_id)
{
    jw_object(b, NULL);
    if (batch)
        jw_id(b, "batch", batch_id);
    else
        jw_null(b, "batch");
    jw_int(b, "first", (int64_t)first);
    jw_int(b, "count", (int64_t)n);
    jw_id(b, "first_id", first_id);
    jw_end_object(b);
}

/* Loop thread, after the commit: the jobs exist now, whether or not the client is still there. */
static void jobs_on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    struct call *c = arg;
    struct submitting *d = c->data;
    char location[64];

    if (e) {
        call_fail(c, e);
        return;
    }
    c->status = 201;
    if (d->single) {
        submitted_json(&c->out, r->id, r->first, d->name, r->held ? JOB_HELD : JOB_QUEUED);
        snprintf(location, sizeof(location), "/v1/jobs/%llu", (unsigned long long)r->first);
        if (c->req)
            http_reply_header(c->req, "Location", location);
    } else {
        submitted_many_json(&c->out, r->batch, r->batch_id, r->first, r->n, r->id);
    }
    call_reply(c);
}

/* What the same key was answered before. */
static bool add_replay(void *arg, const struct job_view *v)
{
    struct call *c = arg;
    struct submitting *d = c->data;

    if (d->single)
        submitted_json(&c->out, v->id, v->seq, v->name, v->state);
    else
        submitted_many_json(&c->out, v->batch.seq, v->batch.id, d->made.first, d->made.n, v->id);
    return false;
}

/* ---- reading: worker thread ---- */

/* A job named in `after`, within what the caller may see. */
static int submit_resolve_ref(void *arg, struct str ref, uint64_t *out, struct err *e)
{
    struct job_facts f;

    if (job_ref_resolve(arg, ref, &f, e) < 0)
        return -1;
    *out = f.seq;
    return 0;
}

/* Answers as the first request with this key was answered. */
static int submit_replay(struct call *c)
{
    struct submitting *d = c->data;
    struct store *s = call_api(c)->conf.store;

    d->replay = true;
    if (store_job(s, d->made.first, add_replay, c, &c->err) == 0)
        return 0;
    if (c->err.code == ERR_NOT_FOUND)
        err_set(&c->err, ERR_CONFLICT,
                "this idempotency key made job %llu, which was removed since; use a new key",
                (unsigned long long)d->made.first);
    return -1;
}

/* Worker thread: the body becomes rows, or the answer of an earlier request with the same key. */
static int submit_run(struct call *c)
{
    struct submitting *d = c->data;
    int known;

    if (!d->prepared) {
        call_once_body(c, (struct str){d->x->body, d->x->body_n});
        if (submit_prepare(d->x, d->yaml, &c->err) < 0)
            return -1;
    }
    d->single = d->x->single;
    known = call_once_find(c, &d->made);
    if (known < 0)
        return -1;
    if (known && d->made.compared)
        return submit_replay(c);
    if (submit_parse(d->x, submit_resolve_ref, c, &c->err) < 0) {
        if (!known || c->err.code == ERR_INVALID)
            return -1;
        c->err = (struct err){0}; /* a job it waits for may be gone by now: what was made counts */
        return submit_replay(c);
    }
    if (known) {
        /* A request that is sent again may come from another terminal, with other variables. */
        static const char *const without[] = {"env", "secrets", NULL};
        if (call_once_check(c, &d->made, &d->x->s, without) < 0 && c->err.code != ERR_NOT_FOUND)
            return -1;
        c->err = (struct err){0};
        return submit_replay(c);
    }
    if (snapshot_claim_all(c, &d->x->s, &d->claims) < 0)
        return -1;
    submit_name(d->x, call_once_key(c), d->batch);
    d->x->s.idempotency_print = call_once_print(c);
    d->name = call_copy(c, d->x->specs.p[0].name);
    return 0;
}

/* The rows borrow the caller's name: it must be the submission's own copy. */
static void submit_hand_over(struct call *c, struct submit *x)
{
    core_submit_take(call_api(c)->conf.core, &x->s, &x->who, jobs_on_submitted, c);
}

/* Loop thread.  A client that left before this point has submitted nothing. */
static void jobs_submit_then(struct call *c)
{
    struct submitting *d = c->data;

    if (d->replay) {
        call_reply(c);
    } else if (!c->req) {
        call_free(c);
    } else if (call_closing(c)) {
        call_fail_closing(c);
    } else {
        submit_hand_over(c, TAKE(d->x));
    }
}

/* One ordinary job is read in less time than a worker takes to wake up, and people wait for it.  A
 * snapshot is looked up on the disk, which a loop thread must not do. */
static bool is_small(const struct submitting *d)
{
    return !d->yaml && d->x->body_n <= SMALL_BODY_BYTES &&
           !memmem(d->x->body, d->x->body_n, "\"snapshot\"", strlen("\"snapshot\""));
}

/* Loop thread, when no other request with the same idempotency key is under way. */
static void jobs_submit_begin(struct call *c)
{
    struct submitting *d = c->data;

    if (is_small(d)) {
        call_once_body(c, (struct str){d->x->body, d->x->body_n});
        if (submit_prepare(d->x, false, &c->err) < 0) {
            call_fail(c, &c->err);
            return;
        }
        d->prepared = true;
        if (d->x->single) {
            call_here(c, submit_run, jobs_submit_then);
            return;
        }
    }
    call_work(c, submit_run, jobs_submit_then);
}

/* ---- the request: loop thread ---- */

static bool is_yaml(struct str type)
{
    static const char *const names[] = {"application/yaml", "application/x-yaml", "text/yaml",
                                        "text/x-yaml"};
    struct str rest, name = str_trim(str_cut(type, ';', &rest));

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (name.n == strlen(names[i]) && !strncasecmp(name.p, names[i], name.n))
            return true;
    return false;
}

/* Before the body is taken out of the request: a refusal needs no copy of it. */
static int submit_check_size(const struct call *c, const struct submitting *d, struct err *e)
{
    if (d->batch.n > SPEC_NAME_MAX)
        return err_set(e, ERR_LIMIT, "batch: is %zu bytes long; at most %d are allowed", d->batch.n,
                       SPEC_NAME_MAX);
    if (d->yaml && http_body(c->req).n > API_YAML_BODY_MAX)
        return err_set(e, ERR_LIMIT,
                       "a YAML body may have at most %d MiB; send JSON, which may have %d MiB",
                       API_YAML_BODY_MAX >> 20, API_SUBMIT_BODY_MAX >> 20);
    return 0;
}

void jobs_submit(struct call *c)
{
    struct submitting *d = call_alloc(c, sizeof(*d));
    size_t n = 0;
    char *body;

    d->yaml = is_yaml(http_header(c->req, "content-type"));
    d->batch = str_of(call_param(c, "batch"));
    c->data = d;
    if (submit_check_size(c, d, &c->err) < 0) {
        call_fail(c, &c->err);
        return;
    }
    body = http_body_take(c->req, &n);
    d->x = submit_new_take(body, n, &c->who.caller, core_vault(call_api(c)->conf.core));
    c->free_data = submitting_free;
    call_run_once(c, jobs_submit_begin);
}
