/* call.c - one request on its way: to worker threads, to the controller, and back
 *
 * Owns: the life of a call, and its answer.
 */
#include "request/call.h"
#include "base/hash.h"
#include "base/json.h"
#include "request/request_priv.h"
#include "store/query.h"
#include <stdio.h>

/* Loop thread.  A worker thread that has the call works on: it does not look at `req`. */
static void call_on_gone(void *arg, struct http_req *r)
{
    struct call *c = arg;

    (void)r;
    c->req = NULL;
    if (c->gone)
        c->gone(c);
}

struct call *call_new(struct request_server *s, const struct service *v, struct http_req *r,
                      const struct route_match *m)
{
    struct call *c = xcalloc(1, sizeof(*c));

    c->server = s;
    c->service = v;
    c->self = v->self;
    c->req = r;
    c->route = m->route;
    c->type = "application/json";
    buf_init(&c->out, CALL_REPLY_MAX);
    for (size_t i = 0; i < ROUTE_ARGS_MAX; i++)
        c->arg[i] = call_copy(c, m->args[i]);
    c->query = call_copy(c, http_query(r));
    if (v->extra)
        c->extra = call_alloc(c, v->extra);
    c->next = s->calls;
    if (c->next)
        c->next->prev = c;
    s->calls = c;
    http_on_gone(r, call_on_gone, c);
    return c;
}

/* The idempotency key is released last, because once_release may run the handler of the next call
 * with the same key. */
void call_free(struct call *c)
{
    struct request_server *server;
    AUTO_FREE char *holder = NULL;

    if (!c)
        return;
    server = c->server;
    if (once_holder(c).n)
        holder = xstrndup(once_holder(c).p, once_holder(c).n);
    call_take_req(c);
    if (c->prev)
        c->prev->next = c->next;
    else
        c->server->calls = c->next;
    if (c->next)
        c->next->prev = c->prev;
    if (c->free_data)
        c->free_data(c->data);
    share_call_end(server, c->share);
    free((char *)c->body.p);
    buf_done(&c->out);
    arena_done(&c->mem);
    free(c);
    if (holder)
        once_release(server, str_of(holder));
}

struct http_req *call_take_req(struct call *c)
{
    struct http_req *r = c->req;

    if (r)
        http_on_gone(r, NULL, NULL);
    c->req = NULL;
    return r;
}

int call_stream_check(struct call *c)
{
    if (!c->req || share_stream_check(c->req, &c->err) == 0)
        return 0;
    call_fail(c, &c->err);
    return -1;
}

/* Strong: hash and length of the body.  On a worker thread where there is one: a page of 10 000
 * jobs takes milliseconds. */
static void call_set_etag(struct call *c)
{
    static const uint8_t key[16] = "berth etags";
    size_t n = c->etag.n ? c->etag.n : c->out.n;

    snprintf(c->etag.text, sizeof(c->etag.text), "\"%016llx-%zx\"",
             (unsigned long long)siphash24(key, buf_str(&c->out).p, n), n);
}

/* A client that left gets nothing; the call ends all the same. */
void call_reply(struct call *c)
{
    struct http_req *r;

    if (c->out.overflow) {
        err_set(&c->err, ERR_LIMIT,
                "the answer would be larger than %d MiB; request a smaller page with 'limit'",
                CALL_REPLY_MAX >> 20);
        call_fail(c, &c->err);
        return;
    }
    r = call_take_req(c);
    if (r && c->etag.wanted) {
        if (!c->etag.text[0])
            call_set_etag(c);
        http_reply_header(r, "Cache-Control", "private, no-cache");
        if (http_not_modified(r, c->etag.text))
            r = NULL;
    }
    if (r) {
        size_t n;
        char *body = buf_take(&c->out, &n);

        http_reply_take(r, c->status ? c->status : 200, c->type, body, n);
    }
    call_free(c);
}

void call_fail(struct call *c, const struct err *e)
{
    struct http_req *r = call_take_req(c);

    if (r)
        service_fail(c->service, r, err_http_status(e->code), e);
    call_free(c);
}

void call_then(struct call *c, const struct err *e, call_fn next)
{
    if (e)
        call_fail(c, e);
    else
        next(c);
}

bool call_closing(const struct call *c)
{
    return c->server->closing;
}

void call_fail_closing(struct call *c)
{
    err_set(&c->err, ERR_UNAVAILABLE, REQUEST_CLOSING_TEXT);
    call_fail(c, &c->err);
}

/* Worker thread, or the loop thread for call_here.  `run` sees one committed state of the store
 * however many queries it makes. */
static void call_work_run(void *arg)
{
    struct call *c = arg;
    struct store *store = c->server->conf.store;
    int rc;

    if (store)
        store_snapshot_begin(store);
    rc = c->run(c);
    if (store)
        store_snapshot_end(store);
    if (rc < 0 && c->err.code == ERR_NONE)
        err_set(&c->err, ERR_INTERNAL, "%s %s failed without a reason; this is a bug",
                c->route->method, c->route->path);
    else if (c->etag.wanted)
        call_set_etag(c);
}

/* Loop thread.  The call may be freed afterwards, so nothing of it is used here any more. */
static void call_work_done(void *arg)
{
    struct call *c = arg;

    c->server->working--;
    if (c->err.code != ERR_NONE)
        call_fail(c, &c->err);
    else
        (c->then ? c->then : call_reply)(c);
}

void call_work(struct call *c, call_work_fn run, call_fn then)
{
    c->run = run;
    c->then = then;
    c->server->working++;
    work_submit(c->server->conf.loop, call_work_run, call_work_done, c);
}

/* `working` is counted as in call_work, because call_work_done takes it back. */
void call_here(struct call *c, call_work_fn run, call_fn then)
{
    c->run = run;
    c->then = then;
    c->server->working++;
    call_work_run(c);
    call_work_done(c);
}

void call_later(struct call *c, call_fn then)
{
    c->then = then;
    c->server->working++;
    loop_post(c->server->conf.loop, call_work_done, c);
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

/* Does nothing the second time, so that a handler may pass through several works. */
void call_keep_body(struct call *c)
{
    if (c->req && !c->body.p)
        c->body.p = http_body_take(c->req, &c->body.n);
}

struct json *call_json_body(struct call *c)
{
    struct json *j = NULL;

    if (json_parse(c->body, "body", &j, &c->err) < 0)
        return NULL;
    if (!j)
        err_set(&c->err, ERR_INVALID, "the body of the request is empty");
    return j;
}

void call_acted(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;

    if (e) {
        call_fail(c, e);
    } else if (r->denied || r->unknown || (!r->done && r->already)) {
        err_set(&c->err, r->denied ? ERR_DENIED : ERR_NOT_FOUND,
                r->denied ? "this job is another user's" : "this job does not exist any more");
        call_fail(c, &c->err);
    } else {
        c->status = c->status ? c->status : 204;
        call_reply(c);
    }
}

const char *call_param(struct call *c, const char *name)
{
    const char *v = http_query_param(c->query, name, &c->mem);

    return v && v[0] ? v : NULL;
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
