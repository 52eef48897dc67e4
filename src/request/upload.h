/* upload.h - a large body that worker threads take while it arrives
 *
 * The loop collects pieces of the body; a worker thread takes what there is; meanwhile the next
 * pieces gather, and when they are too many the connection is paused.  So an upload holds about a
 * megabyte, however large it is, and a slow client holds no thread.  A body that is refused is read
 * to its end, so that the client hears why.
 */
#pragma once
#include "request/call.h"

struct upload;
/* Uploads of one kind: how many are taken at once, and those that wait for their turn. */
struct upload_line {
    size_t max, now;
    VEC(struct upload *) waiting; /* the owner frees the vector */
};
struct upload_ops {
    /* Worker thread: the next bytes.  An error refuses the body. */
    int (*feed)(void *x, struct str bytes, struct err *e);
    /* Worker thread: the body is complete.  An error refuses it. */
    int (*finish)(void *x, struct err *e);
    /* Worker thread or loop thread: the body was refused or the client left; what was taken of it
     * goes.  Called at most once, and not after a successful finish. */
    void (*drop)(void *x);
    /* Loop thread: the body was accepted; must end the call. */
    void (*answer)(struct call *c, void *x);
};
/* For service.begin.  `x` is freed with the call (call_alloc).  A caller who was refused (c->err)
 * is answered with that when the body is complete. */
void upload_begin(struct call *c, struct upload_line *line, const struct upload_ops *ops, void *x);
void upload_piece(struct call *c, struct str bytes); /* service.piece */
/* The handler of the route; `missing` is what a request without a body is told. */
void upload_end(struct call *c, const char *missing);
