/* plan.h - the planner is a function: the state of the cluster in, decisions out
 *
 * No clock, no I/O, no state of its own.  The daemon, `berth explain` and the simulator call the
 * same code. The waiting jobs come from a queue (queue.h) that is kept in order between calls, so
 * that one freed slot costs microseconds with a million jobs waiting.
 */
#pragma once
#include "base/vec.h"
#include "model/job.h"
#include "model/node.h"
#include "sched/queue.h"

struct plan_run { /* something that holds resources now */
    struct run_key key;
    uint32_t node;
    struct resources need;
    struct gpu_set gpus;
    int32_t priority;
    int64_t started_ms, ends_by_ms; /* monotonic; ends_by 0 = unknown */
};
struct plan_input {
    int64_t now_ms; /* monotonic */
    const struct node *nodes;
    const struct usage *usage; /* one per node */
    size_t n_nodes;
    const struct plan_run *runs;
    size_t n_runs;
    struct queue
        *queue; /* the planner pops what it starts; the caller puts back what it could not record */
    /* At most this many jobs start in one call; 0 = none. */
    size_t max_starts;
    int64_t patience_ms; /* a job that waits longer for room is reserved for: nothing smaller
                            overtakes it */
    /* Jobs that ask for GPUs are planned by sched/gpu.h: they are not started here, only asked
     * about.  One of them, or NULL, lacks nothing but room on its host and gets it kept. */
    bool gpus_elsewhere;
    struct wait_item *wants_room;
    uint32_t wants_room_on; /* that host */
};
struct decision { /* start this job there */
    uint64_t job;
    uint32_t node;
    struct gpu_set gpus;
};
typedef VEC(struct decision) decisions;
/* Appends what starts now, the most important first, then the oldest; smaller jobs fill gaps until
 * one has waited too long for room.  Takes what it starts out of the queue. */
void plan(const struct plan_input *s, decisions *out);

/* May something of this shape run on node k one day: when it is back, resumed or has room? */
bool shape_has_hope(const struct plan_input *s, const struct shape *shape, size_t k);

/* Why a waiting job waits, as data; explain.c turns it into sentences. */
enum wait_kind {
    WAIT_NOTHING, /* would start now */
    WAIT_DEPENDENCY,
    WAIT_BACKOFF,
    WAIT_HELD,  /* by a person */
    WAIT_LIMIT, /* of its queue, batch or user: wait_reason.limit */
    WAIT_SLOTS,
    WAIT_CPUS,
    WAIT_MEMORY,
    WAIT_GPUS,
    WAIT_RESERVED, /* room is kept for an older or more important job */
    WAIT_NODE_DRAINED,
    WAIT_NODE_AWAY,    /* whoever could take it cannot be reached, or was put aside */
    WAIT_NEVER_FITS,   /* no node is large enough */
    WAIT_NO_SUCH_NODE, /* it names nodes, and none of them is here */
    WAIT_NO_ACCOUNT,   /* its user may not run on the node that would do */
    WAIT_NOT_QUEUED,   /* the queue does not hold it */
    WAIT_TURN          /* its queue is strict, and another is before it */
};
struct wait_reason {
    enum wait_kind kind;
    size_t ahead;     /* jobs before it in its queue */
    uint64_t other;   /* the job reserved for, or waited on */
    int64_t until_ms; /* of BACKOFF, NODE_AWAY; earliest known end of a run that would make room,
                         else 0 */
    struct resources missing; /* what is lacking on the node that comes nearest */
    struct limit limit;       /* of LIMIT: the one that refuses it */
    uint32_t node;
    struct str nodes;  /* of NO_SUCH_NODE: those it names; borrowed from its shape */
    const char *user;  /* its owner, set by the caller for the text; NULL = not known */
    struct usage used; /* of that node, with what would start before it */
};
/* As if plan() were called now without max_starts; the queue is as before afterwards. */
struct wait_reason plan_explain(const struct plan_input *s, struct wait_item *it);
/* One sentence and a remedy. */
void wait_reason_text(const struct wait_reason *w, const struct plan_input *s, char *out, size_t n);
