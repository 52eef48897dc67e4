/* calls.h - connections to the daemon's socket, carried through the frames of one ssh connection
 *
 * A job elsewhere reaches the daemon by a socket that the far program listens on.  Each of its
 * connections is a call with a number that the far end gives; bytes go both ways, in windows.  Both
 * ends use this: one with descriptors it accepted, the other with one end of a socket pair that the
 * daemon's HTTP server has the other of.
 */
#pragma once
#include "backend/ssh/wire.h"
#include "base/map.h"

struct loop;
/* All calls of one connection.  Loop thread only.  `out` must outlive it. */
struct calls {
    struct loop *loop;
    struct buf *out;         /* frames go here */
    void (*send)(void *arg); /* after which they are sent */
    void *arg;
    /* Calls that have not ended, by number. */
    struct map_u64 open;
    uint64_t last; /* number given last */
};
enum { CALLS_MAX = 256 };

void calls_init(struct calls *c, struct loop *l, struct buf *out, void (*send)(void *), void *arg);
void calls_done(struct calls *c); /* ends all; may be used again */
/* A new one, announced to the other end, which then expects bytes.  False when there are too many:
 * fd is closed. */
bool calls_make_take(struct calls *c, int fd);
/* The other end announced a call.  Takes fd; a number that is in use, or too many calls, refuse
 * it. */
void calls_add_take(struct calls *c, uint64_t number, int fd);
/* Tells the other end that a call it announced ends at once. */
void calls_refuse(struct calls *c, uint64_t number);
/* A frame WIRE_CALL_BYTES, WIRE_CALL_ACK or WIRE_CALL_END.  False when it makes no sense. */
bool calls_take(struct calls *c, enum wire_type type, struct str body);
