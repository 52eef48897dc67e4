/* queue_priv.h - the inside of the queue, for the planner that walks its heads */
#pragma once
#include "base/map.h"
#include "base/vec.h"
#include "sched/queue.h"

/* One queue, batch or user with its limit.  Those of batches and users are freed with the last
 * shape that counts against them; those of queues stay, for they carry pause and rules. */
struct group {
    struct limit limit;
    bool strict, backfill; /* of queues: see queue_rules */
    uint32_t shapes;       /* that count against it */
};
struct shape_slot {
    struct shape pub;
    struct group *groups[LIMIT_KINDS]; /* NULL = not limited in this way */
    VEC(struct wait_item *) heap;
    uint32_t active_at; /* place in queue.active while the heap is not empty */
    uint32_t takes;     /* not yet dropped; 0 = the slot is in the free list */
};
struct queue {
    struct limit_conf conf;
    VEC(struct shape_slot) shapes;
    VEC(uint32_t) active;               /* shapes with something waiting, in no order */
    VEC(uint32_t) free_list;            /* shapes that nobody has any more */
    struct map_str index;               /* facts of a shape → its number + 1 */
    struct map_u64 groups[LIMIT_KINDS]; /* number of the queue or batch, uid + 1 → struct group */
    VEC(char *) nodes;                  /* texts of shapes that say where */
    size_t count;
};

/* The first limit that is not open; NULL = one more job of this shape may start. */
static inline const struct limit *shape_refusal(const struct shape_slot *s)
{
    for (int k = 0; k < LIMIT_KINDS; k++)
        if (s->groups[k] && !limit_open(&s->groups[k]->limit))
            return &s->groups[k]->limit;
    return NULL;
}
/* May only the first of all jobs of its queue start, whatever the shape? */
static inline bool shape_strict(const struct shape_slot *s)
{
    const struct group *g = s->groups[LIMIT_QUEUE];

    return g->strict && !g->backfill;
}
