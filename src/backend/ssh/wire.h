/* wire.h - what the daemon and its far program say to each other over one ssh connection
 *
 * Frames with a head and a body.  Both ends are of one build, checked by hash before the first
 * frame, and of one processor architecture, so structs travel as they are.  Still neither end
 * trusts lengths, counts or text: a host that was taken over must not be able to harm the daemon.
 *
 * Orders (daemon → far) may be repeated: what they mean is idempotent.  Facts (far → daemon) come
 * from the journal there.  Output of runs flows in windows: the far end never has more than
 * WIRE_WINDOW unacknowledged bytes of one stream under way, so a loud run cannot hold up the others
 * nor the orders.
 */
#pragma once
#include "backend/backend.h"
#include "base/buf.h"
#include "shepherd/proto.h"

enum {
    WIRE_VERSION = 0x400 + RUN_START_N_FIELDS,
    WIRE_FRAME_MAX = PROTO_FRAME_MAX + (1 << 20), /* a START with all it may hold */
    WIRE_PIECE = 64 << 10,                        /* of output or of a file in one frame */
    /* Unacknowledged bytes that one stream may have under way. */
    WIRE_WINDOW = 512 << 10,
    /* Longest explanation of an outcome, a refusal or a notice, in bytes. */
    WIRE_DETAIL_MAX = 512,
};

/* "/proc/PID/fd/N": a file of the daemon that holds JSON {"password","passphrase"}.  Set only for
 * the ssh process of a connection that has one to give: with it, berth-far is the program that ssh
 * asks (far/askpass.c), and the secret is in no environment, on no command line and on no disk. */
#define WIRE_ASKPASS "BERTH_ASKPASS"

enum wire_type {
    /* daemon → far */
    WIRE_HELLO = 1, /* JSON: configuration of the backend there */
    WIRE_STAGE,     /* struct wire_op, text: directory of the run; files follow */
    WIRE_ASSET,   /* struct wire_asset, text: name below that directory, then bytes; the other way:
                     a file the run wants kept, below its run_dir */
    WIRE_START,   /* struct wire_start */
    WIRE_STOP,    /* struct wire_op: value = grace in ms */
    WIRE_SIGNAL,  /* struct wire_op: value = signal */
    WIRE_ADOPT,   /* struct wire_op: what is known; offset[] = bytes we have */
    WIRE_SETTLED, /* struct wire_op */
    WIRE_ACK,     /* struct wire_op: value = stream, offset[0] = bytes we have, at_ms = 1: go back
                     there and send again */
    WIRE_PING,    /* struct wire_op */
    /* far → daemon */
    WIRE_WELCOME, /* struct wire_node */
    WIRE_STARTED, /* struct wire_op */
    WIRE_ENDED,   /* struct wire_ended, text */
    WIRE_ABSENT,  /* struct wire_op */
    WIRE_REFUSED, /* struct wire_op, text */
    WIRE_NOTICE,  /* text */
    WIRE_DEVICES, /* struct wire_devices, then devices and runs */
    WIRE_LOG,     /* struct wire_log, bytes */
    WIRE_JOURNAL, /* struct wire_op: journal = generation for new runs */
    WIRE_PONG,    /* struct wire_op */
    WIRE_CALL,    /* struct wire_op: key.job = number; somebody there called the daemon */
    /* both ways, about a call (calls.h) */
    WIRE_CALL_BYTES, /* struct wire_op, bytes */
    WIRE_CALL_ACK,   /* struct wire_op: value = bytes */
    WIRE_CALL_END,   /* struct wire_op */
    /* daemon → far */
    WIRE_ADOPTED, /* struct wire_op: all runs from before have been named */
    WIRE_TYPE_MAX
};
enum wire_stream { WIRE_OUT, WIRE_ERR, WIRE_SPOOL, WIRE_STREAMS };
enum wire_asset_kind { WIRE_FILE, WIRE_DIR, WIRE_LINK };

/* Body of most frames.  Which members have a meaning depends on the type, see enum wire_type;
 * the others are ignored. */
struct wire_op {
    struct run_key key;
    int64_t value, pid, pid_start, at_ms;
    uint64_t offset[WIRE_STREAMS];
    uint32_t journal, unused; /* no padding */
};
/* One piece of a file, a directory or a link.  The target of a link travels as the bytes. */
struct wire_asset {
    struct run_key key;
    uint16_t kind;
    uint16_t first; /* of a file: this piece begins it */
    uint32_t mode;
};
struct wire_ended {
    struct run_key key;
    struct run_outcome o;
    uint64_t size[WIRE_STREAMS]; /* of the streams: ended() waits until the copies have as much */
};
/* A piece of output.  `offset` is where the piece belongs in the file, in bytes. */
struct wire_log {
    struct run_key key;
    uint32_t stream;
    uint32_t anew; /* the copy is cut to nothing first: the log was shortened there */
    uint64_t offset;
};
/* Capacity of the host as its local backend found it. */
struct wire_node {
    int32_t slots;
    uint32_t journal;
    int64_t mcpu, mem_bytes;
    char name[64];
};
/* Numbers of the struct device and struct run_memory that follow it in the frame. */
struct wire_devices {
    uint32_t n_devices, n_runs;
};
/* A START.  The bytes of `run` are those the local backend sends to its shepherd. */
struct wire_start {
    uint64_t offset[WIRE_STREAMS];  /* bytes of each stream that the daemon has */
    struct run_start run;           /* stage_dir NULL or "": the far end's choice */
    struct run_start_memory memory; /* only of a decoded one */
};
void wire_start_done(struct wire_start *s);

/* Each appends a whole frame; false when it would be too large, and then nothing is appended. */
bool wire_put_op(struct buf *b, enum wire_type type, const struct wire_op *op);
bool wire_put_op_text(struct buf *b, enum wire_type type, const struct wire_op *op,
                      struct str text);
bool wire_put_text(struct buf *b, enum wire_type type, struct str text);
bool wire_put_asset(struct buf *b, const struct wire_asset *a, struct str name, struct str bytes);
bool wire_put_start(struct buf *b, const struct wire_start *s);
bool wire_put_ended(struct buf *b, const struct wire_ended *e, struct str detail);
bool wire_put_log(struct buf *b, const struct wire_log *l, struct str bytes);
bool wire_put_node(struct buf *b, const struct wire_node *n);
bool wire_put_devices(struct buf *b, const struct node *n, const struct run_memory *runs,
                      size_t n_runs);

/* A frame at the head of `in`: 1 = *head and *body are set, 0 = not complete yet, -1 = no frame of
 * ours. */
int wire_next(struct str in, struct frame_head *head, struct str *body);
/* Each decodes one body; false when the lengths, an enum or the key are not valid (wire_get_op
 * leaves the key to its caller).  Text and bytes point into the body. */
bool wire_get_op(struct str body, struct wire_op *out);
bool wire_get_op_text(struct str body, struct wire_op *out, struct str *text);
/* The name is a C string: not empty, relative, without "..". */
bool wire_get_asset(struct str body, struct wire_asset *out, struct str *name, struct str *bytes);
/* Text points into the body; done() frees the rest. */
bool wire_get_start(struct str body, struct wire_start *out);
bool wire_get_ended(struct str body, struct wire_ended *out, struct str *detail);
bool wire_get_log(struct str body, struct wire_log *out, struct str *bytes);
bool wire_get_node(struct str body, struct wire_node *out);
/* Devices go to n->devices, which has room for NODE_MAX_GPUS; *runs is yours. */
bool wire_get_devices(struct str body, struct node *n, struct run_memory **runs, size_t *n_runs);
/* May a file of a run have this name below its directory? */
bool wire_name_ok(struct str name);
