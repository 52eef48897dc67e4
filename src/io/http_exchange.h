/* http_exchange.h - one HTTP/1.1 request and its answer, as bytes
 *
 * The state of an exchange without its socket's life: the owner connects, waits (blocking, with
 * poll or on the loop) and says when to send and when to receive.  Bodies of answers have a
 * length, come in chunks, or last until the connection ends.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <sys/types.h>

/* A body that is made while it is sent: fill puts up to n bytes at p and returns how many; 0 ends
 * the body, -1 the whole request (ERR_BUSY).  It travels in chunks. */
struct http_source {
    ssize_t (*fill)(void *arg, char *p, size_t n);
    void *arg;
};
struct http_request {
    const char *method, *path;
    const char *const *headers; /* NULL-terminated "name: value" lines, or NULL */
    const char *token;          /* sent as Authorization unless `headers` has one; or NULL */
    struct str body; /* borrowed until it is sent; JSON unless `headers` says otherwise */
    const struct http_source *source; /* borrowed; instead of `body`, or NULL */
    bool close;                       /* ask the server to close the connection afterwards */
};
/* What the exchange reports, in this order: headers, head, body.  Called from receive and feed
 * only. */
struct http_exchange_fns {
    void (*header)(void *arg, struct str name, struct str value); /* or NULL; short ones only */
    void (*head)(void *arg, int status);       /* or NULL; before the first byte of body */
    bool (*body)(void *arg, struct str piece); /* false: the rest is not wanted */
};

bool http_request_has_header(const struct http_request *q, const char *name);
/* May the request be sent again when nobody knows whether the server has seen it?  Yes by its
 * method, or because it has an Idempotency-Key; never with a source. */
bool http_request_repeatable(const struct http_request *q);

struct http_exchange;
/* Encodes the request.  The exchange borrows `fns`, and body and source of `q`; never NULL. */
struct http_exchange *http_exchange_new(const struct http_request *q,
                                        const struct http_exchange_fns *fns, void *arg);
void http_exchange_free(struct http_exchange *x);
/* Sends what the socket takes.  1 = more is left, for a socket that does not block; 0 = nothing is
 * left, or the send failed, which is no error yet: a server that refuses a large body answers and
 * stops reading, and its reason is waiting to be received; -1 = the source gave up. */
int http_exchange_send(struct http_exchange *x, int fd, struct err *e);
/* Ready to send the same request on another connection; the answer must not have begun, and the
 * request must have no source. */
void http_exchange_rewind(struct http_exchange *x);
/* Receives once and hands over what came; flags as of recv(2).  1 = more is expected (or nothing
 * was there), 0 = the answer is complete, or unwanted from here on, -1 = it is no HTTP, it ended
 * too early, or the connection broke. */
int http_exchange_receive(struct http_exchange *x, int fd, int flags, struct err *e);
/* The same with bytes the caller has; n = 0 says that the connection has ended. */
int http_exchange_feed(struct http_exchange *x, const char *p, size_t n, struct err *e);
int http_exchange_status(const struct http_exchange *x);   /* 0 until the head is complete */
bool http_exchange_stopped(const struct http_exchange *x); /* `body` wanted no more */
/* The request is out, the answer complete, and the connection may carry another request. */
bool http_exchange_reusable(const struct http_exchange *x);
