/* plan.c - the most important first, then the oldest; small ones fill gaps, nobody starves
 *
 * The pass looks only at the head of each shape, so its cost grows with the number of shapes.  What
 * does not fit now cannot fit later in the same pass (room only shrinks), so every shape is looked
 * at once, and again only for each job of it that starts.
 *
 * Reservation: a job that does not fit and has waited longer than patience_ms gets the node where
 * least is lacking kept for it.  Whatever comes after it in order starts there only if it takes
 * nothing the reserved one would then lack, or surely ends before the reserved one can start.  The
 * reservation is found anew in each pass; as nothing it lacks is handed out meanwhile, what is
 * lacking only shrinks, so it does start.
 */
#include "base/heap.h"
#include "sched/plan_priv.h"

/* ---- heap of candidate heads ---- */

static bool head_before(struct wait_item *const *a, struct wait_item *const *b)
{
    return wait_item_before(*a, *b);
}

HEAP_DEFINE(heads, struct wait_item *, head_before, HEAP_NO_PLACE)

/* `next` takes the place of the first candidate; NULL: the first candidate leaves. */
static void heads_replace(struct pass *p, struct wait_item *next)
{
    if (!next) {
        heads_remove(p->heads.p, &p->heads.n, 0);
        return;
    }
    p->heads.p[0] = next;
    heads_fix(p->heads.p, p->heads.n, 0);
}

/* ---- who is a candidate ---- */

static bool fits_somewhere(const struct pass *p, const struct shape *shape)
{
    for (size_t k = 0; k < p->s->n_nodes; k++)
        if (p->nodes[k].open && room_fits(&p->nodes[k], &shape->need) &&
            shape_allows(p->s, shape, k))
            return true;
    return false;
}

static bool patience_over(const struct pass *p, const struct wait_item *it)
{
    return p->s->now_ms - it->since_ms >= p->s->patience_ms;
}

/* Would an empty open node have room?  A job for which none has must not get a node reserved: the
 * reservation would never end. */
static bool ever_fits(const struct pass *p, const struct shape *shape)
{
    for (size_t k = 0; k < p->s->n_nodes; k++)
        if (p->nodes[k].open && resources_ever_fit(&p->s->nodes[k], &shape->need) &&
            shape_allows(p->s, shape, k))
            return true;
    return false;
}

/* Of those that do not fit only as many matter as there are nodes to keep for them: the first in
 * order.  `list` is sorted, at most `max` long. */
static void keep_first(struct wait_item **list, size_t *n, size_t max, struct wait_item *it)
{
    size_t at = *n;

    if (at == max && !wait_item_before(it, list[at - 1]))
        return;
    at = at < max ? (*n)++ : at - 1;
    for (; at > 0 && wait_item_before(it, list[at - 1]); at--)
        list[at] = list[at - 1];
    list[at] = it;
}

/* Collects the head of each shape that may start, and of the others those that room is kept for. */
static void pass_gather(struct pass *p)
{
    const struct queue *q = p->s->queue;
    struct wait_item **blocked = xmalloc(p->s->n_nodes * sizeof(struct wait_item *));
    size_t n_blocked = 0;

    for (size_t i = 0; i < q->active.n; i++) {
        const struct shape_slot *shape = &q->shapes.p[q->active.p[i]];
        struct wait_item *head = shape->heap.p[0];

        if (shape_refusal(shape) || (p->s->gpus_elsewhere && shape->pub.need.gpus) ||
            (shape_strict(shape) && queue_first(q, shape->pub.queue) != head))
            continue;
        if (fits_somewhere(p, &shape->pub))
            vec_push(&p->heads, head);
        else if (patience_over(p, head) && ever_fits(p, &shape->pub))
            keep_first(blocked, &n_blocked, p->s->n_nodes, head);
    }
    if (p->s->wants_room && patience_over(p, p->s->wants_room))
        keep_first(blocked, &n_blocked, p->s->n_nodes, p->s->wants_room);
    if (p->heads.n) /* else there is nobody to keep room from */
        for (size_t i = 0; i < n_blocked; i++)
            vec_push(&p->heads, blocked[i]);
    heads_make(p->heads.p, p->heads.n);
    free(blocked);
}

/* ---- where ---- */

/* Tightest fit: GPUs are not wasted on who needs none, and large gaps stay large. */
static bool tighter(const struct node_room *a, const struct node_room *b)
{
    if (a->room.gpus != b->room.gpus)
        return a->room.gpus < b->room.gpus;
    return a->room.slots < b->room.slots;
}

/* The node to start on, -1 = none has room that is not kept for another job. */
static int64_t pass_place(struct pass *p, const struct wait_item *it, const struct shape *shape)
{
    const struct resources *need = &shape->need;
    int64_t best = -1;

    for (size_t k = 0; k < p->s->n_nodes; k++) {
        struct node_room *n = &p->nodes[k];
        if (!n->open || !room_fits(n, need) || !shape_allows(p->s, shape, k) ||
            !room_allowed(p, k, need, it->limit_s))
            continue;
        if (best < 0 || tighter(n, &p->nodes[best]))
            best = (int64_t)k;
    }
    return best;
}

/* How far a node is from having room: the sum of what is lacking, each as a share of the node. */
static double lacking(const struct pass *p, size_t k, const struct resources *need)
{
    const struct node *n = &p->s->nodes[k];
    const struct resources *room = &p->nodes[k].room;
    double sum = 0;

    if (need->slots > room->slots)
        sum += (double)(need->slots - room->slots) / MAX(n->slots, 1);
    if (need->mcpu && need->mcpu > room->mcpu)
        sum += (double)(need->mcpu - room->mcpu) / (double)MAX(n->mcpu, 1);
    if (need->mem_bytes && need->mem_bytes > room->mem_bytes)
        sum += (double)(need->mem_bytes - room->mem_bytes) / (double)MAX(n->mem_bytes, 1);
    if (need->gpus > room->gpus)
        sum += (double)(need->gpus - room->gpus) / (double)MAX(n->n_devices, 1);
    return sum;
}

/* Keeps the node for `it` on which least is lacking.  At most one job has a node kept for it there;
 * a job that has not waited for patience_ms yet gets nothing. */
static void pass_reserve(struct pass *p, const struct wait_item *it, const struct resources *need)
{
    const struct shape *shape = &p->s->queue->shapes.p[it->shape].pub;
    bool elsewhere = it == p->s->wants_room;
    double least = 0;
    size_t best = SIZE_MAX;

    if (!patience_over(p, it))
        return;
    for (size_t k = 0; k < p->s->n_nodes; k++) {
        struct node_room *n = &p->nodes[k];
        double lack = lacking(p, k, need);
        if (!n->open || n->hold.it || !resources_ever_fit(&p->s->nodes[k], need) ||
            (elsewhere ? k != p->s->wants_room_on : !shape_allows(p->s, shape, k)))
            continue;
        if (best == SIZE_MAX || lack < least) {
            best = k;
            least = lack;
        }
    }
    if (best != SIZE_MAX)
        p->nodes[best].hold =
            (struct hold){.it = it, .need = *need, .kept = room_keep(p, best, need), .by_ms = -1};
}

/* ---- the pass ---- */

/* Books the start in the pass only: the caller turns starts into runs, or pass_undo puts the jobs
 * back.  `planned` makes the limits count what this pass has started. */
static void pass_take(struct pass *p, struct wait_item *it, struct shape_slot *shape, size_t k)
{
    struct node_room *n = &p->nodes[k];
    const struct resources *need = &shape->pub.need;
    struct start st = {it, (uint32_t)k, gpu_set_lowest(&n->gpus, need->gpus)};

    n->room.slots -= need->slots;
    n->room.mcpu -= need->mcpu;
    n->room.mem_bytes -= need->mem_bytes;
    n->room.gpus -= need->gpus;
    gpu_set_subtract(&n->gpus, &st.gpus);
    for (int i = 0; i < LIMIT_KINDS; i++)
        if (shape->groups[i])
            shape->groups[i]->limit.planned++;
    vec_push(&p->starts, st);
    queue_remove(p->s->queue, it);
}

/* Who is a candidate now that the first of this shape has started. */
static struct wait_item *successor(const struct pass *p, const struct shape_slot *shape)
{
    struct wait_item *next = shape->heap.n ? shape->heap.p[0] : NULL;

    if (!shape_strict(shape))
        return next;
    next = queue_first(p->s->queue, shape->pub.queue);
    /* It is looked at by the planner of GPUs, and holds up the others meanwhile. */
    bool elsewhere =
        next && p->s->gpus_elsewhere && p->s->queue->shapes.p[next->shape].pub.need.gpus;
    return elsewhere ? NULL : next;
}

/* Everything takes a slot; without one there is nothing to look for. */
static bool any_slot(const struct pass *p)
{
    for (size_t k = 0; k < p->s->n_nodes; k++)
        if (p->nodes[k].open && p->nodes[k].room.slots > 0)
            return true;
    return false;
}

static void open_nodes(struct pass *p)
{
    const struct plan_input *s = p->s;

    p->nodes = xcalloc(s->n_nodes ? s->n_nodes : 1, sizeof(*p->nodes));
    for (size_t k = 0; k < s->n_nodes; k++) {
        const struct node *n = &s->nodes[k];
        const struct usage *u = &s->usage[k];
        struct node_room *r = &p->nodes[k];

        r->open = !n->drained && !n->away;
        r->gpus = node_free_gpus(n, u);
        r->room = (struct resources){n->mcpu - u->mcpu, n->mem_bytes - u->mem_bytes,
                                     gpu_set_count(&r->gpus), n->slots - u->slots};
    }
}

void pass_run(struct pass *p, const struct plan_input *s, size_t max_starts)
{
    *p = (struct pass){.s = s};
    open_nodes(p);
    if (!max_starts || !any_slot(p))
        return;
    pass_gather(p);
    while (p->heads.n && p->starts.n < max_starts) {
        struct wait_item *it = p->heads.p[0];
        struct shape_slot *shape = &s->queue->shapes.p[it->shape];
        bool elsewhere = it == s->wants_room;
        int64_t k = !shape_refusal(shape) && !elsewhere ? pass_place(p, it, &shape->pub) : -1;

        if (k >= 0) {
            pass_take(p, it, shape, (size_t)k);
            heads_replace(p, successor(p, shape));
            if (!any_slot(p))
                break;
            continue;
        }
        struct resources need = shape->pub.need;
        need.gpus = elsewhere ? 0 : need.gpus;
        if (!shape_refusal(shape))
            pass_reserve(p, it, &need);
        heads_replace(p, NULL);
    }
}

/* The limits count only real runs again; each start of this pass becomes one, or does not. */
static void clear_planned(struct pass *p)
{
    for (size_t i = 0; i < p->starts.n; i++) {
        struct shape_slot *s = &p->s->queue->shapes.p[p->starts.p[i].it->shape];
        for (int k = 0; k < LIMIT_KINDS; k++)
            if (s->groups[k])
                s->groups[k]->limit.planned = 0;
    }
}

void pass_undo(struct pass *p)
{
    for (size_t i = 0; i < p->starts.n; i++)
        queue_push(p->s->queue, p->starts.p[i].it);
}

void pass_done(struct pass *p)
{
    clear_planned(p);
    vec_done(&p->starts);
    vec_done(&p->heads);
    free(p->nodes);
}

void plan(const struct plan_input *s, decisions *out)
{
    struct pass p;

    pass_run(&p, s, s->max_starts);
    for (size_t i = 0; i < p.starts.n; i++) {
        const struct start *st = &p.starts.p[i];
        vec_push(out, ((struct decision){st->it->job, st->node, st->gpus}));
    }
    pass_done(&p);
}
