/* request_priv.h - what the files of this room share */
#pragma once
#include "base/map.h"
#include "base/util.h"
#include "io/loop.h"
#include "request/service.h"
#include "request/share.h"

#define REQUEST_CLOSING_TEXT "the daemon is shutting down; try again in a moment"

/* Connections of one kind that were refused, and when the log last said so, of whom. */
struct share_refusals {
    uint64_t total, key;
    int64_t logged_ms;
    bool logged;
};
struct request_server {
    struct request_conf conf;
    VEC(struct service *) services;
    struct call *calls; /* all under way */
    size_t working;     /* of them, those that a worker thread or the loop will come back to */
    struct map_u64 under_way; /* calls by share; only of callers with a bound (share.c) */
    struct share_refusals refusals[SHARE_KINDS];
    struct map_str keys;   /* idempotency keys under way → struct once_wait (once.c) */
    uint8_t once_seed[16]; /* of fingerprints, from the secret of the home; zeros until used */
    bool closing;
};

struct call *call_new(struct request_server *s, const struct service *v, struct http_req *r,
                      const struct route_match *m);
/* once.c: the key that a call holds; empty = none.  It is released when the call has ended. */
struct str once_holder(const struct call *c);
void once_release(struct request_server *s, struct str holder);
/* Sends a failure as the service wants it sent; the request is done with. */
void service_fail(const struct service *v, struct http_req *r, int status, const struct err *e);
