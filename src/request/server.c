/* server.c - services behind one HTTP server: which of them, who is calling, may the caller
 *
 * Owns: the way of a request from the HTTP server to its handler, and the list of calls.
 */
#include "base/clock.h"
#include "base/json_out.h"
#include "request/request_priv.h"
#include "request/session.h"
#include "request/site.h"
#include <stdio.h>

/* A caller without a proof may not make the server keep large bodies. */
enum { STRANGER_BODY_MAX = 64 << 10 };

struct request_target { /* what a request asks for */
    const struct service *service;
    enum route_result res;
    struct route_match match;
};

/* ---- failures ---- */

/* Headers come first: `fail` of the service sends the answer. */
void service_fail(const struct service *v, struct http_req *r, int status, const struct err *e)
{
    if (e->code == ERR_UNAUTHENTICATED)
        http_reply_header(r, "WWW-Authenticate", "Bearer realm=\"berth\"");
    if (err_retryable(e->code))
        http_reply_header(r, "Retry-After", "1");
    if (v->fail) {
        v->fail(r, status, e);
    } else if (status == 405) { /* no error code has this status */
        AUTO(buf) struct buf body = {0};
        buf_init(&body, 4096);
        jw_object(&body, NULL);
        jw_object(&body, "error");
        jw_text(&body, "code", "invalid");
        jw_text(&body, "message", e->text);
        jw_end_object(&body);
        jw_end_object(&body);
        http_reply(r, status, "application/json", buf_str(&body));
    } else {
        http_reply_err(r, e);
    }
}

/* Only for callers that request_check let pass: to others every path looks the same. */
static void reply_no_route(const struct request_target *t, struct http_req *r)
{
    const struct service *v = t->service;
    struct str path = {http_path(r).p, MIN(http_path(r).n, 100)};
    struct err e = {0};

    if (t->res == ROUTE_NO_METHOD) {
        err_set(&e, ERR_INVALID, "this path accepts %s only", t->match.allow);
        http_reply_header(r, "Allow", t->match.allow);
        service_fail(v, r, 405, &e);
        return;
    }
    const char *near = route_nearest(v->routes, v->n_routes, path);
    if (near)
        err_set(&e, ERR_NOT_FOUND, "there is no " STR_FMT " here; did you mean %s?", STR_ARG(path),
                near);
    else
        err_set(&e, ERR_NOT_FOUND, "there is no " STR_FMT " here; GET /v1/routes lists all paths",
                STR_ARG(path));
    service_fail(v, r, 404, &e);
}

/* ---- which route, who, may they ---- */

/* Without a match the service of the result is the one whose port it is, else the one that was
 * added first.  ROUTE_PORT rows take part only on the TCP port of their service. */
static void target_find(const struct request_server *s, struct http_req *r,
                        struct request_target *out)
{
    const struct http_peer *p = http_peer(r);

    for (size_t i = s->services.n; i-- > 0;) {
        const struct service *v = s->services.p[i];
        bool here = v->port && !p->is_unix && p->to_port == v->port;

        out->service = v;
        out->res = route_find(v->routes, v->n_routes, here ? 0 : ROUTE_PORT, http_method(r),
                              v->path ? v->path(v->self, http_path(r)) : http_path(r), &out->match);
        if (out->res != ROUTE_NO_PATH)
            return;
    }
    for (size_t i = 0; !p->is_unix && i < s->services.n; i++) {
        const struct service *v = s->services.p[i];
        if (v->has_port && v->has_port(v->self, p->to_port))
            out->service = v;
    }
}

/* A token wins over a cookie.  A session is no proof for site_check: the Host must be known. */
static int request_identify(const struct request_server *s, struct http_req *r, struct who *who,
                            struct err *e)
{
    struct str authorization = http_header(r, "authorization"), cookie = http_header(r, "cookie");

    if (!authorization.p && cookie.n && !http_peer(r)->is_unix &&
        session_read(s->conf.auth, cookie, clock_wall(&clock_system), &who->caller)) {
        who->known = who->session = true;
        return site_own_page(r, e);
    }
    return auth_identify(s->conf.auth, http_peer(r), authorization, who, e);
}

/* The caller is identified also for paths that do not exist, so that a stranger hears 401 and not
 * 404.  site_check refuses what a page of another site makes a browser send. */
static int request_check(const struct request_server *s, const struct request_target *t,
                         struct http_req *r, struct who *who, struct err *e)
{
    const struct service *v = t->service;
    const struct route *route = t->match.route;

    bool public = route && route->who == AUTH_PUBLIC;
    if (!public &&
        (v->identify ? v->identify(v->self, r, who, e) < 0 : request_identify(s, r, who, e) < 0))
        return -1;
    if (site_check(r, s->conf.names, who->proved, e) < 0)
        return -1;
    if (!route || public)
        return 0;
    if (auth_allows(route->who, who, e) < 0)
        return -1;
    if (s->closing && strcmp(route->method, "GET") != 0)
        return err_set(e, ERR_UNAVAILABLE, REQUEST_CLOSING_TEXT);
    return 0;
}

/* ---- what is to be known of a caller and takes time: a name may be asked of the network ---- */

/* A call that waits for a worker thread before its handler runs.  `peer` is a copy: the thread must
 * not touch the request. */
struct who_wait {
    struct call *call;
    struct http_peer peer;
    bool named; /* no name is needed */
    char name[64];
};

/* True: the name of the caller is known, or there is none to look for. */
static bool who_named(const struct request_server *s, struct who *w)
{
    return !w->known || w->caller.user[0] || auth_name_find(s->conf.auth, w);
}

/* Worker thread: both questions may block. */
static void who_wait_run(void *arg)
{
    struct who_wait *n = arg;
    struct who *w = &n->call->who;

    if (w->ask_owner)
        w->owner_known = auth_peer_owner(&n->peer, &w->owner);
    if (!n->named)
        auth_name_lookup(w->caller.uid, n->name);
}

/* Loop thread.  The name is kept, so the next request of this user does not wait. */
static void who_wait_done(void *arg)
{
    AUTO_FREE struct who_wait *n = arg;
    struct call *c = n->call;
    struct auth *auth = c->server->conf.auth;

    c->server->working--;
    if (!n->named) {
        auth_name_add(auth, c->who.caller.uid, n->name);
        auth_name_find(auth, &c->who);
    }
    if (!c->req)
        call_free(c);
    else if (c->who.ask_owner && c->route->who != AUTH_HOST &&
             auth_owner_allows(auth, &c->who, &c->err) < 0)
        call_fail(c, &c->err);
    else
        c->route->handler(c);
}

/* ---- requests ---- */

/* A caller who is refused has c->err set; the body is then read to its end before the answer, so
 * that the client hears why (service.h). */
static bool request_in_pieces(void *self, struct http_req *r)
{
    struct request_server *s = self;
    struct request_target t;

    target_find(s, r, &t);
    if (t.res != ROUTE_FOUND || !(t.match.route->flags & ROUTE_PIECES))
        return false;
    struct call *c = call_new(s, t.service, r, &t.match);
    if (request_check(s, &t, r, &c->who, &c->err) == 0 && share_known(s, r, &c->who, &c->err) == 0)
        share_call_begin(s, r, &c->share, &c->err);
    http_set_data(r, c);
    t.service->begin(c);
    return true;
}

static void request_piece(void *self, struct http_req *r, struct str bytes)
{
    struct call *c = http_data(r);

    (void)self;
    c->service->piece(c, bytes);
}

/* The request is complete: which route, who is calling, may the caller; then the handler. */
static void request_on(void *self, struct http_req *r)
{
    struct request_server *s = self;
    struct call *begun = http_data(r);
    struct request_target t;
    struct who who = {0};
    struct err e = {0};

    if (begun) { /* in pieces, which are complete now */
        begun->route->handler(begun);
        return;
    }
    target_find(s, r, &t);
    if (request_check(s, &t, r, &who, &e) < 0 || share_known(s, r, &who, &e) < 0) {
        service_fail(t.service, r, err_http_status(e.code), &e);
        return;
    }
    if (t.res != ROUTE_FOUND) {
        reply_no_route(&t, r);
        return;
    }
    uint64_t share = 0;
    if (share_call_begin(s, r, &share, &e) < 0) {
        service_fail(t.service, r, err_http_status(e.code), &e);
        return;
    }
    struct call *c = call_new(s, t.service, r, &t.match);
    c->who = who;
    c->share = share;
    bool named = who_named(s, &c->who);
    if (named && !who.ask_owner) {
        c->route->handler(c);
        return;
    }
    struct who_wait *n = xcalloc(1, sizeof(*n));
    *n = (struct who_wait){.call = c, .peer = *http_peer(r), .named = named};
    s->working++;
    work_submit(s->conf.loop, who_wait_run, who_wait_done, n);
}

/* Called when only the head is there.  A body in pieces is never kept as a whole, so its limit does
 * not depend on the caller. */
static size_t request_body_max(void *self, struct http_req *r)
{
    struct request_server *s = self;
    struct request_target t;
    struct who who = {0};
    struct err e = {0};

    target_find(s, r, &t);
    if (t.res != ROUTE_FOUND ||
        (!(t.match.route->flags & ROUTE_PIECES) && request_check(s, &t, r, &who, &e) < 0))
        return STRANGER_BODY_MAX;
    if (t.match.route->body_max)
        return t.match.route->body_max;
    return t.service->body_max ? t.service->body_max : REQUEST_BODY_MAX;
}

/* ---- life ---- */

struct request_server *request_server_new(const struct request_conf *c)
{
    struct request_server *s = xcalloc(1, sizeof(*s));

    s->conf = *c;
    return s;
}

void request_server_add(struct request_server *s, const struct service *v)
{
    struct service *copy = xmalloc(sizeof(*copy));

    *copy = *v;
    vec_push(&s->services, copy);
}

struct http_handler request_server_handler(struct request_server *s)
{
    return (struct http_handler){.request = request_on,
                                 .body_max = request_body_max,
                                 .self = s,
                                 .in_pieces = request_in_pieces,
                                 .piece = request_piece,
                                 .share = share_of_peer,
                                 .refused = share_refused};
}

struct loop *request_server_loop(const struct request_server *s)
{
    return s->conf.loop;
}

struct auth *request_server_auth(const struct request_server *s)
{
    return s->conf.auth;
}

void request_server_shut(struct request_server *s)
{
    s->closing = true;
}

bool request_server_closing(const struct request_server *s)
{
    return s->closing;
}

void request_server_hold(struct request_server *s)
{
    s->working++;
}

void request_server_release(struct request_server *s)
{
    ASSERT(s->working > 0);
    s->working--;
}

bool request_server_busy(const struct request_server *s)
{
    return s->working > 0;
}

void request_server_free(struct request_server *s)
{
    if (!s)
        return;
    s->closing = true;
    ASSERT(s->working == 0); /* the owner runs the loop until request_server_busy says no */
    for (struct call *c = s->calls; c; c = c->next)
        c->req = NULL; /* the HTTP server is gone */
    while (s->calls)
        call_free(s->calls);
    map_str_done(&s->keys);
    map_u64_done(&s->under_way);
    vec_free_each(&s->services, free);
    free(s);
}
