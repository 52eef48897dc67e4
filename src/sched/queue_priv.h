/* queue_priv.h - the inside of the queue, for the planner that walks its heads */
#pragma once
#include "base/map.h"
#include "base/vec.h"
#include "sched/queue.h"

struct batch { /* of batches with a limit */
    int32_t running;
    int32_t planned; /* of the pass under way; 0 between passes */
    VEC(uint32_t) shapes;
};
struct lane { /* a named queue, once it has rules or something of it runs */
    struct queue_rules rules;
    int32_t running;
    int32_t planned; /* of the pass under way; 0 between passes */
};
struct shape_slot {
    struct shape pub;
    struct batch *batch; /* NULL = no limit */
    struct lane *lane;   /* of its queue; NULL = none yet */
    VEC(struct wait_item *) heap;
    uint32_t active_at; /* place in queue.active while the heap is not empty */
};
struct queue {
    VEC(struct shape_slot) shapes;
    VEC(uint32_t) active;    /* shapes with something waiting, in no order */
    VEC(uint32_t) free_list; /* shapes of forgotten batches */
    struct map_str index;    /* facts of a shape → its number + 1 */
    struct map_u64 batches;  /* → struct batch */
    struct map_u64 paused;   /* named queues */
    struct map_u64 lanes;    /* named queue → struct lane */
    VEC(char *) nodes;       /* texts of shapes that say where; they know them by place + 1 */
    size_t count;
};

/* May one more of this shape start, as far as queue and batch are concerned? */
static inline bool lane_open(const struct lane *l)
{
    return !l || !l->rules.limit || l->running + l->planned < l->rules.limit;
}
/* Do only the first of all its shapes count? */
static inline bool lane_strict(const struct lane *l)
{
    return l && l->rules.strict && !l->rules.backfill;
}
static inline bool shape_open(const struct shape_slot *s)
{
    return !s->pub.paused && lane_open(s->lane) &&
           (!s->batch || s->batch->running + s->batch->planned < s->pub.batch_slots);
}
