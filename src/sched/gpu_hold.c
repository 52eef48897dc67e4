/* gpu_hold.c - holding devices for jobs that waited too long
 *
 * Such a job goes before all others, so it gets devices that are free or can be freed.  When those
 * that may not be stopped leave it too few on every node, the node with most of them is chosen:
 * what is free there stays free, and of the groups that run there nobody joins those who end first,
 * until enough come together.  Every run ends or reaches an epoch end, a held device is never given
 * away, hence every job starts.
 */
#include "sched/gpu_problem_priv.h"

static double longest_left(const struct gpu_problem *p, const struct group *q)
{
    double left = 0;

    for (int32_t i = 0; i < q->n_jobs; i++)
        left = MAX(left, p->cands.p[q->jobs[i]].left_s);
    return left;
}

/* Nobody joins the groups of that node that end first, until they make up n devices. */
static void node_drain_groups(struct gpu_problem *p, size_t node, int32_t n)
{
    while (n > 0) {
        struct group *next = NULL;
        for (size_t i = 0; i < p->groups.n; i++) {
            struct group *q = &p->groups.p[i];
            if (q->node == node && q->fixed && !q->drains &&
                (!next || longest_left(p, q) < longest_left(p, next)))
                next = q;
        }
        if (!next)
            return;
        next->drains = true;
        n -= next->n;
    }
}

/* The node on which most devices are free or can be freed, among those the job may use and whose
 * devices have the memory.  GPU_NOBODY = there is none. */
static int32_t best_node(const struct gpu_problem *p, const struct cand *a)
{
    int32_t best = GPU_NOBODY;

    for (size_t k = 0; k < p->nodes.n; k++)
        if (p->nodes.p[k].open && gpu_may_use(a->nodes, k) &&
            problem_room(p, k, a->counts[0], a->mem_bytes) &&
            (best == GPU_NOBODY || p->nodes.p[k].free > p->nodes.p[best].free))
            best = (int32_t)k;
    return best;
}

void problem_hold(struct gpu_problem *p)
{
    for (size_t k = 0; k < p->nodes.n; k++)
        p->nodes.p[k].free = p->nodes.p[k].cap;
    for (size_t i = 0; i < p->groups.n; i++) {
        struct group *q = &p->groups.p[i];
        for (int32_t k = 0; k < q->n_jobs; k++)
            q->fixed |= p->cands.p[q->jobs[k]].fixed;
        if (q->fixed)
            p->nodes.p[q->node].free -= q->n;
    }
    for (size_t i = 0; i < p->cands.n; i++) {
        const struct cand *a = &p->cands.p[i];
        int32_t best = a->claim && a->group == GPU_NOBODY ? best_node(p, a) : GPU_NOBODY;
        if (best == GPU_NOBODY)
            continue;
        struct pnode *nd = &p->nodes.p[best];
        if (nd->free >= a->counts[0]) { /* the search will find it */
            nd->free -= a->counts[0];
            continue;
        }
        node_drain_groups(p, (size_t)best, a->counts[0] - nd->free);
        /* The search sees a node without these devices, so it cannot give them to anybody else. */
        nd->cap -= nd->free;
        nd->free = 0;
        vec_push(&p->held, (int32_t)i);
        vec_push(&p->held_nodes, (uint32_t)best);
    }
}
