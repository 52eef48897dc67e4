/* proto.h - what the daemon and the shepherd say to each other
 *
 * A unix stream socket carries frames: a head with the length of the whole frame, then the body.
 * Both ends run on one host, so numbers are in host order.  The daemon speaks first (HELLO); after
 * WELCOME it sends as much as it likes.  Nothing is acknowledged: what became of a run is read from
 * the journal, and whatever the journal does not show may be sent again, since START is idempotent.
 */
#pragma once
#include "model/job.h"
#include "shepherd/frame.h"
#include "shepherd/run_start.h"
#include <sys/types.h>

/* The version changes with every member of a START and with every new type of frame: a shepherd of
 * another version is replaced. */
enum { PROTO_VERSION = 0x500 + RUN_START_N_FIELDS, PROTO_FRAME_MAX = 16 << 20 };

enum proto_type {
    PROTO_HELLO = 1, /* daemon: I am the daemon now; earlier connections end */
    PROTO_WELCOME,   /* shepherd: value = its pid */
    PROTO_START,     /* daemon: offset, then a run_start */
    PROTO_STOP,      /* daemon: key, value = grace in ms, -1 = the run's own */
    PROTO_SIGNAL,    /* daemon: key, value = signal number, to the command's process group */
    PROTO_ADOPT,     /* daemon: key, journal, offset, value = enum proto_seen */
    PROTO_FORGET,    /* daemon: journal is gone, close it */
    PROTO_RETIRE,    /* daemon: leave at once; supervisors go on, another shepherd takes over */
    PROTO_NOTICE,    /* shepherd: text an operator should read */
    PROTO_WITHDRAW,  /* daemon: key, is not to start any more unless its turn has come */
    PROTO_TYPE_MAX
};
/* How much the daemon knows of a run it wants adopted. */
enum proto_seen { PROTO_SEEN_NOTHING, PROTO_SEEN_STARTED };

/* Body of everything but START and NOTICE.  The last four belong to ADOPT: what the STARTED record
 * of the run said, so that the shepherd need not look for it. */
struct proto_op {
    struct run_key key;
    uint64_t offset;
    int32_t value;
    uint32_t journal;
    uint64_t pid_start;
    int64_t started_ms;
    uint32_t pid, boot;
};
/* A shepherd of an earlier version must be able to read HELLO and RETIRE: it wants this size. */
_Static_assert(sizeof(struct proto_op) == 56, "the size of an order does not change");

/* A START.  After decoding, text points into the frame and the lists belong to the struct. */
struct proto_start {
    uint64_t offset; /* a record of this run from here on means that it ran already */
    struct run_start run;
    struct run_start_memory memory; /* only of a decoded one */
};
void proto_start_done(struct proto_start *s);

/* Appends a frame; false when it would be larger than PROTO_FRAME_MAX or than the buffer allows. */
bool proto_put_start(struct buf *b, const struct proto_start *s);
bool proto_put_op(struct buf *b, enum proto_type type, const struct proto_op *op);
bool proto_put_text(struct buf *b, enum proto_type type, struct str text);

/* A frame at the head of `in`: 1 = *head and *body are set, 0 = not complete yet, -1 = no frame of
 * ours. */
int proto_next(struct str in, struct frame_head *head, struct str *body);
/* False when the body has not exactly the size of a proto_op. */
bool proto_get_op(struct str body, struct proto_op *out);
/* Reuses the arrays of an earlier decode into the same struct. */
bool proto_get_start(struct str body, struct proto_start *s);
/* Changes `offset` in a complete START frame, for sending it again later. */
void proto_set_start_offset(struct str frame, uint64_t offset);
