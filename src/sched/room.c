/* room.c - what is free on a node, when more will be, and for whom it is kept */
#include "sched/plan_priv.h"

bool room_fits(const struct node_room *n, const struct resources *need)
{
    return need->slots <= n->room.slots && (!need->mcpu || need->mcpu <= n->room.mcpu) &&
           (!need->mem_bytes || need->mem_bytes <= n->room.mem_bytes) && need->gpus <= n->room.gpus;
}

struct ending { /* something that holds room now, and until when at most */
    int64_t at_ms;
    const struct resources *need;
    int32_t gpus;
};
typedef VEC(struct ending) endings;

static int ending_order(const void *a, const void *b)
{
    const struct ending *x = a, *y = b;

    return (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
}

/* Of runs, and of what this pass has started: the next pass sees those as runs, and the two should
 * agree. */
static void gather_endings(const struct pass *p, size_t k, endings *out)
{
    const struct snapshot *s = p->s;

    for (size_t i = 0; i < s->n_runs; i++) {
        const struct plan_run *r = &s->runs[i];
        if (r->node == k && r->ends_by_ms)
            vec_push(out, ((struct ending){MAX(r->ends_by_ms, s->now_ms), &r->need,
                                           gpu_count(r->gpus)}));
    }
    for (size_t i = 0; i < p->starts.n; i++) {
        const struct start *st = &p->starts.p[i];
        const struct resources *need = &s->queue->shapes.p[st->it->shape].pub.need;
        if (st->node == k && st->it->limit_s)
            vec_push(out, ((struct ending){s->now_ms + (int64_t)st->it->limit_s * 1000, need,
                                           need->gpus}));
    }
    if (out->n)
        qsort(out->p, out->n, sizeof(*out->p), ending_order);
}

int64_t room_by(const struct pass *p, size_t k, const struct resources *need)
{
    endings ends = {0};
    struct node_room n = p->nodes[k];
    int64_t by = 0;

    if (room_fits(&n, need))
        return p->s->now_ms;
    gather_endings(p, k, &ends);
    for (size_t i = 0; !by && i < ends.n; i++) {
        n.room.slots += ends.p[i].need->slots;
        n.room.mcpu += ends.p[i].need->mcpu;
        n.room.mem_bytes += ends.p[i].need->mem_bytes;
        n.room.gpus += ends.p[i].gpus;
        if (room_fits(&n, need))
            by = ends.p[i].at_ms;
    }
    vec_done(&ends);
    return by;
}

/* Takes nothing of a kind that the other needs and that would then be short. */
static bool leaves_enough(const struct resources *room, const struct resources *need,
                          const struct resources *kept)
{
    return (!kept->slots || need->slots + kept->slots <= room->slots) &&
           (!need->mcpu || !kept->mcpu || need->mcpu + kept->mcpu <= room->mcpu) &&
           (!need->mem_bytes || !kept->mem_bytes ||
            need->mem_bytes + kept->mem_bytes <= room->mem_bytes) &&
           (!need->gpus || !kept->gpus || need->gpus + kept->gpus <= room->gpus);
}

bool room_allowed(struct pass *p, size_t k, const struct resources *need, uint32_t limit_s)
{
    struct node_room *n = &p->nodes[k];

    if (!n->hold.it || leaves_enough(&n->room, need, &n->hold.need))
        return true;
    if (!limit_s)
        return false;
    if (n->hold.by_ms < 0)
        n->hold.by_ms = room_by(p, k, &n->hold.need);
    return n->hold.by_ms && p->s->now_ms + (int64_t)limit_s * 1000 <= n->hold.by_ms;
}
