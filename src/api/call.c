/* call.c - one request on its way: to worker threads, to the controller, and back
 *
 * Owns: the life of a call.  It begins with a request and ends with exactly one of call_reply,
 * call_fail, call_free.  The client may leave in between: `req` is then NULL, the work is finished
 * all the same (a submission under way is kept) and the answer is dropped.
 *
 * Only the loop thread touches `req`, the list of calls and the api; a worker gets the call with
 * everything it needs copied into `mem`.
 */
#include "api/api_priv.h"
#include "base/hash.h"
#include <stdio.h>

static void on_gone(void *arg, struct http_req *r)
{
    struct call *c = arg;

    (void)r;
    c->req = NULL;
}

struct call *call_new(struct api *a, struct http_req *r, const struct route *route,
                      const struct who *who, struct str arg)
{
    struct call *c = xcalloc(1, sizeof(*c));

    c->api = a;
    c->req = r;
    c->route = route;
    c->who = *who;
    c->status = 200;
    c->type = "application/json";
    buf_init(&c->out, API_REPLY_MAX);
    c->arg = call_copy(c, arg);
    c->next = a->calls;
    if (c->next)
        c->next->prev = c;
    a->calls = c;
    http_on_gone(r, on_gone, c);
    return c;
}

void call_free(struct call *c)
{
    if (!c)
        return;
    if (c->prev)
        c->prev->next = c->next;
    else
        c->api->calls = c->next;
    if (c->next)
        c->next->prev = c->prev;
    if (c->free_data)
        c->free_data(c->data);
    buf_done(&c->out);
    vec_done(&c->live);
    arena_done(&c->mem);
    free(c);
}

struct http_req *call_take_req(struct call *c)
{
    struct http_req *r = c->req;

    if (r)
        http_on_gone(r, NULL, NULL);
    c->req = NULL;
    return r;
}

/* Strong: hash and length of the body.  On a worker thread where there is one: a page of 10 000
 * jobs takes milliseconds. */
static void set_etag(struct call *c)
{
    static const uint8_t key[16] = "berth etags";
    size_t n = c->etag_n ? c->etag_n : c->out.n;

    snprintf(c->etag_text, sizeof(c->etag_text), "\"%016llx-%zx\"",
             (unsigned long long)siphash24(key, buf_str(&c->out).p, n), n);
}

void call_reply(struct call *c)
{
    struct http_req *r;

    if (c->out.overflow) {
        err_set(&c->err, ERR_LIMIT,
                "the answer would be larger than %d MiB; ask for a smaller page with 'limit'",
                API_REPLY_MAX >> 20);
        call_fail(c, &c->err);
        return;
    }
    r = call_take_req(c);
    if (r && c->etag) {
        if (!c->etag_text[0])
            set_etag(c);
        http_reply_header(r, "Cache-Control", "private, no-cache");
        if (http_not_modified(r, c->etag_text))
            r = NULL;
    }
    if (r) {
        size_t n;
        char *body = buf_take(&c->out, &n);

        http_reply_take(r, c->status, c->type, body, n);
    }
    call_free(c);
}

void call_fail(struct call *c, const struct err *e)
{
    struct http_req *r = call_take_req(c);

    if (r) {
        if (e->code == ERR_UNAUTHENTICATED)
            http_reply_header(r, "WWW-Authenticate", "Bearer realm=\"berth\"");
        if (err_retryable(e->code))
            http_reply_header(r, "Retry-After", "1");
        http_reply_err(r, e);
    }
    call_free(c);
}

/* All that one answer says of the store is of one committed state. */
static void work_run(void *arg)
{
    struct call *c = arg;
    int rc;

    store_snapshot_begin(c->api->conf.store);
    rc = c->run(c);
    store_snapshot_end(c->api->conf.store);
    if (rc < 0 && c->err.code == ERR_NONE)
        err_set(&c->err, ERR_INTERNAL, "%s %s failed without a reason; this is a bug",
                c->route->method, c->route->path);
    else if (c->etag)
        set_etag(c);
}

static void work_done(void *arg)
{
    struct call *c = arg;

    c->on_worker = false;
    c->api->working--;
    if (c->err.code != ERR_NONE)
        call_fail(c, &c->err);
    else if (c->then)
        c->then(c);
    else
        call_reply(c);
}

void call_work(struct call *c, call_work_fn run, call_fn then)
{
    c->run = run;
    c->then = then;
    c->on_worker = true;
    c->api->working++;
    work_submit(c->api->conf.loop, work_run, work_done, c);
}

void call_here(struct call *c, call_work_fn run, call_fn then)
{
    c->run = run;
    c->then = then;
    c->api->working++;
    work_run(c);
    work_done(c);
}

struct str call_copy(struct call *c, struct str s)
{
    char *copy;

    if (!s.p)
        return (struct str){NULL, 0};
    copy = arena_alloc(&c->mem, s.n + 1); /* bodies may hold NULs, so no strndup */
    memcpy(copy, s.p, s.n);
    return (struct str){copy, s.n};
}

const char *call_param(struct call *c, const char *name)
{
    const char *v = c->req ? http_param(c->req, name) : NULL;

    return v && v[0] ? arena_strdup(&c->mem, v) : NULL;
}

int call_param_int(struct call *c, const char *name, int64_t dflt, int64_t min, int64_t max,
                   int64_t *out, struct err *e)
{
    const char *text = call_param(c, name);
    int64_t v = dflt;

    if (text && (!str_to_i64(str_of(text), &v) || v < min || v > max))
        return err_set(e, ERR_INVALID, "%s=%.40s: must be a whole number from %lld to %lld", name,
                       text, (long long)min, (long long)max);
    *out = v;
    return 0;
}
