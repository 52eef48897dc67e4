/* api.c - the handler of the HTTP server: who asks, for what, may they
 *
 * Owns: the way of a request from the server to its handler, and what all requests share.
 * Order: route, then identity, then permission, so that a wrong path is told to nobody who may not
 * know it: without a proof every path but /healthz answers 401.
 */
#include "api/api_priv.h"
#include "api/follow.h"
#include <stdio.h>
#include <unistd.h>

struct name_call { /* a request that waits for the name of its user */
    struct call *call;
    uint32_t uid;
    char name[64];
};

static void call_dispatch(struct call *c)
{
    c->route->handler(c);
}

static void name_run(void *arg)
{
    struct name_call *n = arg;

    auth_name_lookup(n->uid, n->name);
}

static void name_done(void *arg)
{
    struct name_call *n = arg;
    struct call *c = n->call;

    c->on_worker = false;
    c->api->working--;
    auth_name_add(&c->api->auth, n->uid, n->name);
    auth_name_find(&c->api->auth, &c->who);
    free(n);
    if (c->req)
        call_dispatch(c);
    else
        call_free(c);
}

static void name_wait(struct call *c)
{
    struct name_call *n = xcalloc(1, sizeof(*n));

    n->call = c;
    n->uid = c->who.caller.uid;
    c->on_worker = true;
    c->api->working++;
    work_submit(c->api->conf.loop, name_run, name_done, n);
}

static void refuse(struct http_req *r, const struct err *e)
{
    if (e->code == ERR_UNAUTHENTICATED)
        http_reply_header(r, "WWW-Authenticate", "Bearer realm=\"berth\"");
    http_reply_err(r, e);
}

static void reply_no_route(struct http_req *r, enum route_result res, const char *allow)
{
    struct str path = {http_path(r).p, MIN(http_path(r).n, 100)};
    struct err e;
    const char *near;
    char body[512];

    if (res == ROUTE_NO_METHOD) {
        snprintf(body, sizeof(body),
                 "{\"error\":{\"code\":\"invalid\",\"message\":\"this path takes %s\"}}", allow);
        http_reply_header(r, "Allow", allow);
        http_reply(r, 405, "application/json", str_of(body));
        return;
    }
    near = route_nearest(path);
    if (near)
        err_set(&e, ERR_NOT_FOUND, "there is no " STR_FMT " here; did you mean %s?", STR_ARG(path),
                near);
    else
        err_set(&e, ERR_NOT_FOUND,
                "there is no " STR_FMT " here; GET /v1/routes lists what there is", STR_ARG(path));
    refuse(r, &e);
}

static int check(struct api *a, enum route_result res, const struct route *route, struct who *who,
                 struct http_req *r, struct err *e)
{
    if (res == ROUTE_FOUND && route->auth == AUTH_PUBLIC)
        return 0;
    if (auth_identify(&a->auth, http_peer(r), http_header(r, "authorization"), who, e) < 0)
        return -1;
    if (res != ROUTE_FOUND)
        return 0;
    if (auth_allows(route->auth, who, e) < 0)
        return -1;
    if (a->closing && strcmp(route->method, "GET") != 0)
        return err_set(e, ERR_UNAVAILABLE, "the daemon is shutting down; try again in a moment");
    return 0;
}

static void on_request(void *self, struct http_req *r)
{
    struct api *a = self;
    const struct route *route = NULL;
    struct str arg = {0};
    char allow[64] = "";
    struct who who = {0};
    struct err e = {0};
    enum route_result res;
    struct call *c;

    res = route_find(http_method(r), http_path(r), &route, &arg, allow, sizeof(allow));
    if (check(a, res, route, &who, r, &e) < 0) {
        refuse(r, &e);
        return;
    }
    if (res != ROUTE_FOUND) {
        reply_no_route(r, res, allow);
        return;
    }
    c = call_new(a, r, route, &who, arg);
    if (who.known && !auth_name_find(&a->auth, &c->who))
        name_wait(c);
    else
        call_dispatch(c);
}

/* Called when only the head is there: who is not known may not make us keep large bodies. */
static size_t on_body_max(void *self, struct http_req *r)
{
    struct api *a = self;
    const struct route *route = NULL;
    struct str arg;
    char allow[64];
    struct who who = {0};
    struct err e = {0};
    enum { STRANGER_BODY_MAX = 64 << 10 };
    enum route_result res =
        route_find(http_method(r), http_path(r), &route, &arg, allow, sizeof(allow));

    if (res != ROUTE_FOUND || check(a, res, route, &who, r, &e) < 0)
        return STRANGER_BODY_MAX;
    return route->body_max ? route->body_max : API_BODY_MAX;
}

struct api *api_new(const struct api_conf *conf)
{
    struct api *a = xcalloc(1, sizeof(*a));
    char name[64];

    a->conf = *conf;
    a->conf.home = xstrdup(conf->home);
    a->conf.token = xstrdup(conf->token);
    a->conf.version = xstrdup(conf->version);
    a->auth = (struct auth_conf){.core = conf->core,
                                 .token = a->conf.token,
                                 .uid = conf->uid,
                                 .gid = getegid(),
                                 .multi_user = conf->multi_user};
    auth_name_lookup(conf->uid, name);
    auth_name_add(&a->auth, conf->uid, name);
    a->events = events_new(a);
    a->follows = follows_new(a);
    return a;
}

void api_free(struct api *a)
{
    if (!a)
        return;
    ASSERT(a->working == 0); /* the host runs the loop until api_busy says no */
    events_free(a->events);
    follows_free(a->follows);
    while (a->calls) { /* wait for a commit that will not be told any more */
        a->calls->req = NULL;
        call_free(a->calls);
    }
    submit_keys_done(a);
    auth_done(&a->auth);
    free((char *)a->conf.home);
    free((char *)a->conf.token);
    free((char *)a->conf.version);
    free(a);
}

struct http_handler api_handler(struct api *a)
{
    return (struct http_handler){.request = on_request, .body_max = on_body_max, .self = a};
}

struct auth_conf *api_auth(struct api *a)
{
    return &a->auth;
}

void api_attach(struct api *a, struct http_server *s)
{
    a->server = s;
}

void api_committed(struct api *a)
{
    events_committed(a->events);
    follows_committed(a->follows);
}

void api_end_streams(struct api *a)
{
    a->closing = true;
    events_end(a->events);
    follows_end(a->follows);
}

bool api_busy(const struct api *a)
{
    return a->working > 0;
}
