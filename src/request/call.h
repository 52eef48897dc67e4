/* call.h - one request on its way: to worker threads, to the controller, and back
 *
 * A call outlives the connection it came on.  It ends with exactly one of call_reply, call_fail,
 * call_free (or call_acted, which is one of them).  The client may leave in between: `req` is then
 * NULL, the work is finished all the same (a submission under way is kept) and the answer is
 * dropped.
 *
 * The loop thread owns a call, except between call_work and its `then`: there a worker thread has
 * it and may touch everything but `req` and `server`.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "io/http_server.h"
#include "request/route.h"

enum { CALL_REPLY_MAX = 512 << 20 }; /* a page of 10 000 jobs with large params */

struct json;
struct request_server;
struct service;
typedef int (*call_work_fn)(struct call *c); /* worker thread; fills c->err when it returns -1 */

struct call {
    struct request_server *server;
    const struct service *service;
    void *self;           /* the service's */
    struct http_req *req; /* NULL once the client left; loop thread only */
    const struct route *route;
    struct who who;
    struct arena mem;               /* lives as long as the call */
    struct str arg[ROUTE_ARGS_MAX]; /* what stood for the placeholders; NUL-terminated copies */
    struct str query;               /* a copy, still encoded: read it with call_param */
    struct str body;                /* after call_keep_body */
    void *extra;                    /* service.extra bytes, zeroed */
    void *data;                     /* the handler's, usually in mem */
    void (*free_data)(void *data);

    /* The answer. */
    struct err err;
    int status; /* 0 = 200 */
    const char *type;
    struct buf out;
    struct {
        bool wanted; /* send an ETag of the body, and 304 when the client has it */
        size_t n;    /* of its first n bytes only; 0 = all */
        char text[40];
    } etag;

    uint64_t share;    /* where it is counted (share.h); 0 = nowhere */
    struct once *once; /* idempotency: once.h */
    call_fn gone;      /* called when the client left, with `req` NULL; may be NULL */
    /* Set by call_work. */
    call_work_fn run;
    call_fn then;
    struct call *prev, *next; /* of the server's list */
};

/* `run` on a worker thread, then `then` on the loop thread (NULL: call_reply).  All that `run`
 * reads of the store is of one committed state.  When `run` fails, the error is the answer and
 * `then` is not called. */
void call_work(struct call *c, call_work_fn run, call_fn then);
/* The same on this thread, for work that takes less time than a worker needs to wake up. */
void call_here(struct call *c, call_work_fn run, call_fn then);
/* Calls `then` in a later turn of the loop, after requests that other clients sent meanwhile. */
void call_later(struct call *c, call_fn then);

void call_reply(struct call *c); /* status, type, out */
void call_fail(struct call *c, const struct err *e);
/* After a change that the core made: fails the call with e, or calls `next` when e is NULL. */
void call_then(struct call *c, const struct err *e, call_fn next);
void call_free(struct call *c); /* answers nothing */
/* Takes the request out of the call, for streams and files: NULL when the client left. */
struct http_req *call_take_req(struct call *c);
/* Before an answer becomes a stream.  -1: the caller has too many, and the call has failed. */
int call_stream_check(struct call *c);
/* The server is closing: requests that wait or change something must be refused.  Loop thread. */
bool call_closing(const struct call *c);
/* call_fail with the message for a server that is closing. */
void call_fail_closing(struct call *c);

/* Decoded query parameter; NULL when absent or empty.  Any thread. */
const char *call_param(struct call *c, const char *name);
/* Whole number within [min, max]; `dflt` when absent. */
int call_param_int(struct call *c, const char *name, int64_t dflt, int64_t min, int64_t max,
                   int64_t *out, struct err *e);
/* Moves the body of the request into the call, where any thread may read it. */
void call_keep_body(struct call *c);
/* The kept body as JSON; NULL: c->err says what is wrong with it. */
struct json *call_json_body(struct call *c);
/* A core_act_fn for a call about one job: answers with c->status (0 = 204) once the controller is
 * done, or with why nothing was done. */
struct acted;
void call_acted(void *arg, const struct err *e, const struct acted *r);
struct str call_copy(struct call *c, struct str s);
static inline void *call_alloc(struct call *c, size_t n)
{
    return arena_alloc(&c->mem, n);
}
