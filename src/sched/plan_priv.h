/* plan_priv.h - one pass over the waiting jobs, shared by plan() and explain */
#pragma once
#include "sched/plan.h"
#include "sched/queue_priv.h"

struct hold {                   /* room that is kept for a job which has waited too long */
    const struct wait_item *it; /* NULL = none */
    struct resources need;
    struct resources kept; /* what of the node others must leave free meanwhile */
    int64_t by_ms;         /* when it can start at the latest; 0 = not known; -1 = not asked yet */
};
struct node_room {
    bool open;             /* not drained, not away */
    struct resources room; /* what is free; gpus as a count */
    struct gpu_set gpus;   /* free devices */
    struct hold hold;
};
struct start {
    struct wait_item *it;
    uint32_t node;
    struct gpu_set gpus;
};
struct pass {
    const struct plan_input *s;
    struct node_room *nodes;
    VEC(struct start) starts;
    VEC(struct wait_item *) heads; /* heap of candidates */
};
/* Decides; takes what it starts out of the queue.  Then pass_undo (puts back) or not, and
 * pass_done. */
void pass_run(struct pass *p, const struct plan_input *s, size_t max_starts);
void pass_undo(struct pass *p);
void pass_done(struct pass *p);

/* May something of this shape run on node k at all?  One that refused it is asked again only when
 * no other could take it. */
bool shape_allows(const struct plan_input *s, const struct shape *shape, size_t k);
/* As far as names of nodes are concerned, whoever its user is. */
bool shape_names(const struct plan_input *s, const struct shape *shape, size_t k);
bool room_fits(const struct node_room *n, const struct resources *need);
/* May this start on node k, or would it take what is kept there for another? */
bool room_allowed(struct pass *p, size_t k, const struct resources *need, uint32_t limit_s);
/* When `need` fits on node k at the latest, by the known ends of runs; 0 = not known. */
int64_t room_by(const struct pass *p, size_t k, const struct resources *need);
/* What others must leave free on node k so that `need` fits as soon as what it lacks comes free. */
struct resources room_keep(const struct pass *p, size_t k, const struct resources *need);
