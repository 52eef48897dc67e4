/* queue.h - waiting jobs in order
 *
 * Jobs that ask for the same (shape: resources, limits, nodes) wait in one heap; the planner looks
 * only at the heads, so its work grows with the number of shapes, not of jobs.  Order
 * within and between shapes: priority, then age, then number.  Not ready jobs (dependency,
 * back-off) are not in here; core holds them.
 *
 * A named queue may have rules: how many of it run at once, and that its jobs start strictly in
 * order, whatever their shapes.
 */
#pragma once
#include "model/spec.h"
#include "sched/limit.h"
#include <stdbool.h>
#include <stdint.h>

struct queue;
struct wait_item { /* kept compact: there may be a million */
    uint64_t job;
    int64_t since_ms; /* monotonic-comparable age key: smaller is older */
    int32_t priority;
    uint32_t shape;
    uint32_t pos;     /* place in its heap; the queue's own */
    uint32_t limit_s; /* it surely ends within so many seconds of its start (timeout and grace); 0 =
                         unknown.  May overtake a reservation that comes later. */
};
/* What makes two jobs wait in one heap: whatever decides whether the head may start. */
struct shape {
    struct resources need;
    uint32_t queue;    /* number of the named queue */
    uint32_t uid;      /* counts only when users are limited or apart (limit_conf) */
    uint64_t batch;    /* counted only with batch_max */
    int32_t batch_max; /* running jobs of the batch; 0 = no limit */
    uint64_t avoid;    /* nodes that refused it, as bits by place; see avoid_bit */
    uint64_t unfit;    /* nodes that lack what it needs and never get it; see unfit_bit */
    struct str nodes;  /* where it may run, see nodes_match; empty = anywhere */
};

struct queue *queue_new(const struct limit_conf *conf); /* NULL = no limits */
void queue_free(struct queue *q);
/* The shape with these facts, made on first use; the text of `nodes` is copied.  Each take is
 * answered by one drop, after the job has left the queue and nothing of it runs; the last drop
 * frees the number for another shape. */
uint32_t queue_shape_take(struct queue *q, const struct shape *facts);
void queue_shape_drop(struct queue *q, uint32_t shape);
/* Places beyond the bits there are share the last. */
static inline uint64_t avoid_bit(size_t node)
{
    return UINT64_C(1) << (node < 63 ? node : 63);
}
/* 0 for places beyond the bits there are: of them nothing is noted. */
static inline uint64_t unfit_bit(size_t node)
{
    return node < 64 ? UINT64_C(1) << node : 0;
}
/* Good until the next queue_shape_take, which may move the table. */
const struct shape *queue_shape_at(const struct queue *q, uint32_t shape);
/* The item is owned by the caller and must stay where it is while queued. */
void queue_push(struct queue *q, struct wait_item *it);
void queue_remove(struct queue *q, struct wait_item *it); /* must be queued */
/* False also for a zeroed item and for one that was removed. */
bool queue_contains(const struct queue *q, const struct wait_item *it);
struct wait_item *queue_head(const struct queue *q, uint32_t shape); /* NULL when empty */
size_t queue_count(const struct queue *q);
size_t queue_count_shape(const struct queue *q, uint32_t shape);
void queue_set_paused(struct queue *q, uint32_t named_queue, bool paused);
bool queue_paused(const struct queue *q, uint32_t named_queue);
/* A kept queue starts nothing while it has no keeper.  queue_keepers returns how many there are
 * after the change. */
void queue_set_kept(struct queue *q, uint32_t named_queue, bool kept);
int32_t queue_keepers(struct queue *q, uint32_t named_queue, int32_t change);
/* Neither paused nor without a keeper that it needs. */
bool queue_active(const struct queue *q, uint32_t named_queue);
/* Rules of a named queue.  Strict: only the first of all its jobs may start, and one that lacks
 * room holds up all behind it; with `backfill` others may pass it.  At most `limit` run at once;
 * 0 = as many as fit. */
struct queue_rules {
    bool strict, backfill;
    int32_t limit;
};
void queue_set_rules(struct queue *q, uint32_t named_queue, const struct queue_rules *r);
struct queue_rules queue_rules_of(const struct queue *q, uint32_t named_queue);
/* One more job of this shape holds resources (1), or one less (-1): all its limits count it. */
void queue_count_running(struct queue *q, uint32_t shape, int32_t delta);
/* The limit that keeps jobs of this shape from starting now; NULL = none does. */
const struct limit *queue_refusal(const struct queue *q, uint32_t shape);
/* May this waiting job start now, as far as limits and the order of its queue are concerned? */
bool queue_may_start(const struct queue *q, const struct wait_item *it);
/* The first of a named queue over all shapes; NULL when nothing waits. */
struct wait_item *queue_first(const struct queue *q, uint32_t named_queue);
/* How many are before this item over all shapes; O(n) of the waiting jobs, for explain only. */
size_t queue_ahead(const struct queue *q, const struct wait_item *it);
bool wait_item_before(const struct wait_item *a, const struct wait_item *b);
