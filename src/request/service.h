/* service.h - a table of routes with what their handlers share, and servers made of such tables
 *
 * A server asks the service that was added last first; the first one with a row for the path has
 * the request.  For paths that none of them has answers the one whose port it is, else the one that
 * was added first.
 *
 * Order of the questions: which route, who is calling, may the caller.  So a caller without a proof
 * learns nothing about paths: every path but a public one answers 401.
 */
#pragma once
#include "request/call.h"

struct core;
struct loop;
struct store;

struct service {
    const struct route *routes;
    size_t n_routes;
    void *self;      /* becomes call.self */
    size_t body_max; /* of routes that name none; 0 = REQUEST_BODY_MAX */
    size_t extra;    /* bytes of the service's own in every call: call.extra */
    uint16_t port;   /* rows with ROUTE_PORT answer on this TCP port only; 0 = nowhere */
    /* Is this TCP port the service's?  There it answers for paths that no table has.  NULL: no. */
    bool (*has_port)(void *self, uint16_t port);
    /* The part of a path that the table is searched for; borrowed.  NULL: all of it. */
    struct str (*path)(void *self, struct str path);
    /* Who is calling?  NULL: auth_identify.  Fails as that does. */
    int (*identify)(void *self, struct http_req *r, struct who *out, struct err *e);
    /* Sends a failure in the service's own form.  NULL: {"error": …}. */
    void (*fail)(struct http_req *r, int status, const struct err *e);
    /* Of rows with ROUTE_PIECES: `begin` when the head is there, `piece` for every piece of the
     * body, the handler when it is complete.  A caller who was refused has c->err set: the body is
     * read to its end, so that the client hears why, and the handler fails.  `c->gone` must be set
     * by `begin`: there is no answer when the client leaves on the way. */
    void (*begin)(struct call *c);
    void (*piece)(struct call *c, struct str bytes);
};
enum { REQUEST_BODY_MAX = 1 << 20 };

struct request_conf {
    struct loop *loop;
    struct store *store; /* NULL: call_work reads nothing */
    struct auth *auth;   /* NULL: every service has an `identify` */
    const char *names;   /* of this server, see request/site.h; outlives it; NULL = none */
};
struct request_server *request_server_new(const struct request_conf *c);
void request_server_add(struct request_server *s, const struct service *v); /* copied */
struct http_handler request_server_handler(struct request_server *s);
struct loop *request_server_loop(const struct request_server *s);
struct auth *request_server_auth(const struct request_server *s);
/* From now on the server answers GET only. */
void request_server_shut(struct request_server *s);
bool request_server_closing(const struct request_server *s);
/* A worker thread has something of a service that is no call: the server is busy until released. */
void request_server_hold(struct request_server *s);
void request_server_release(struct request_server *s);
/* Worker threads still hold calls: the owner runs the loop until this is false, then closes the
 * store and frees the server. */
bool request_server_busy(const struct request_server *s);
/* Calls that wait for a commit are dropped without an answer. */
void request_server_free(struct request_server *s);
