/* room.c - what is free on a node, when more will be, and for whom it is kept */
#include "sched/plan_priv.h"

/* A job that names nodes runs on those only; any other job keeps off nodes that are reserved. */
bool shape_names(const struct plan_input *s, const struct shape *shape, size_t k)
{
    return shape->nodes.n ? nodes_match(shape->nodes, s->nodes[k].name) : !s->nodes[k].reserved;
}

static bool named(const struct plan_input *s, const struct shape *shape, size_t k)
{
    return shape_names(s, shape, k) && node_admits(&s->nodes[k], shape->uid) &&
           !(shape->unfit & unfit_bit(k));
}

bool shape_has_hope(const struct plan_input *s, const struct shape *shape, size_t k)
{
    const struct node *n = &s->nodes[k];

    return n->name[0] && named(s, shape, k) &&
           (!n->slots || resources_ever_fit(n, &shape->need)); /* never reached: not known */
}

bool shape_allows(const struct plan_input *s, const struct shape *shape, size_t k)
{
    if (!named(s, shape, k))
        return false;
    if (!(shape->avoid & avoid_bit(k)))
        return true;
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct node *n = &s->nodes[i];
        if (!(shape->avoid & avoid_bit(i)) && !n->drained && !n->away && named(s, shape, i) &&
            resources_ever_fit(n, &shape->need))
            return false;
    }
    return true;
}

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
    const struct plan_input *s = p->s;

    for (size_t i = 0; i < s->n_runs; i++) {
        const struct plan_run *r = &s->runs[i];
        if (r->node == k && r->ends_by_ms)
            vec_push(out, ((struct ending){MAX(r->ends_by_ms, s->now_ms), &r->need,
                                           gpu_set_count(&r->gpus)}));
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

/* ---- what must be kept ---- */

enum { KINDS = 4 };
struct amounts {
    int64_t of[KINDS]; /* slots, CPUs, memory, GPUs */
};

static struct amounts amounts_of(const struct resources *r)
{
    return (struct amounts){{r->slots, r->mcpu, r->mem_bytes, r->gpus}};
}

struct holders { /* what holds a node, seen from each kind */
    struct amounts sum;
    struct amounts least[KINDS]; /* of those that hold some of kind d: the least of each kind */
};

static void count_holder(struct holders *h, const struct resources *need)
{
    struct amounts a = amounts_of(need);

    for (int d = 0; d < KINDS; d++) {
        for (int e = 0; a.of[d] && e < KINDS; e++)
            h->least[d].of[e] = h->sum.of[d] ? MIN(h->least[d].of[e], a.of[e]) : a.of[e];
        h->sum.of[d] += a.of[d];
    }
}

static struct holders count_holders(const struct pass *p, size_t k)
{
    struct holders h = {0};

    for (size_t i = 0; i < p->s->n_runs; i++)
        if (p->s->runs[i].node == k)
            count_holder(&h, &p->s->runs[i].need);
    for (size_t i = 0; i < p->starts.n; i++)
        if (p->starts.p[i].node == k)
            count_holder(&h, &p->s->queue->shapes.p[p->starts.p[i].it->shape].pub.need);
    return h;
}

/* Of what is short now, nothing may be taken.  Of the rest, not what it needs itself, less what
 * comes free for sure together with what is short: a job that waits for a GPU gets the slot of the
 * run that frees one, and no slot need stand empty until then. */
struct resources room_keep(const struct pass *p, size_t k, const struct resources *need)
{
    const struct node *n = &p->s->nodes[k];
    struct amounts want = amounts_of(need), room = amounts_of(&p->nodes[k].room), keep = want;
    struct amounts all = {{n->slots, n->mcpu, n->mem_bytes, (int64_t)n->n_devices}};
    struct holders h = count_holders(p, k);

    for (int d = 0; d < KINDS; d++) {
        bool short_of = want.of[d] > room.of[d];
        /* Only when runs account for all that is taken of this kind is it sure that one of them
         * frees it; the rest may be held by something the planner does not see. */
        bool all_known = h.sum.of[d] >= all.of[d] - room.of[d];
        for (int e = 0; short_of && all_known && e < KINDS; e++)
            if (want.of[e] <= room.of[e])
                keep.of[e] = MAX(MIN(keep.of[e], want.of[e] - h.least[d].of[e]), 0);
    }
    return (struct resources){.slots = (int32_t)keep.of[0],
                              .mcpu = keep.of[1],
                              .mem_bytes = keep.of[2],
                              .gpus = (int32_t)keep.of[3]};
}

/* Takes nothing of a kind of which some must be kept and would then be short. */
static bool leaves_enough(const struct resources *room, const struct resources *need,
                          const struct resources *kept)
{
    struct amounts r = amounts_of(room), n = amounts_of(need), k = amounts_of(kept);

    for (int d = 0; d < KINDS; d++)
        if (n.of[d] && k.of[d] && n.of[d] + k.of[d] > r.of[d])
            return false;
    return true;
}

bool room_allowed(struct pass *p, size_t k, const struct resources *need, uint32_t limit_s)
{
    struct node_room *n = &p->nodes[k];

    if (!n->hold.it || leaves_enough(&n->room, need, &n->hold.kept))
        return true;
    if (!limit_s)
        return false;
    if (n->hold.by_ms < 0)
        n->hold.by_ms = room_by(p, k, &n->hold.need);
    return n->hold.by_ms && p->s->now_ms + (int64_t)limit_s * 1000 <= n->hold.by_ms;
}
