/* gpu_problem.c - freezing the question
 *
 * Runs on the loop thread, so it must be cheap.  The answer is looked for in the copy, on another
 * thread: jobs (gpu_rank.c says which), the groups they are in, nodes, and what is known of speeds.
 */
#include "sched/gpu_problem_priv.h"

#include <math.h>

/* ---- groups, nodes, speeds ---- */

/* Makes a group of j and the jobs beside it; a job that is leaving is in no group. */
static void freeze_group(struct gpus *g, struct gpu_problem *p, struct gjob *j, int64_t now)
{
    const struct gpu_node *nd = &g->nodes.p[j->run.node];
    struct group q = {.n = j->run.n, .node = j->run.node, .open = nd->open, .room = INT64_MAX};

    for (int32_t i = -1; i < j->run.n_with; i++) {
        struct gjob *o = i < 0 ? j : j->run.with[i];
        if (o->plan.at_problem == GPU_NOBODY)
            continue; /* it is on its way out */
        struct cand *c = &p->cands.p[o->plan.at_problem];
        c->group = (int32_t)p->groups.n;
        bool urgent = p->urgent && o->say.priority < GPU_URGENT;
        c->fixed = !o->run.stopping && !gpu_may_stop(g, o, now, urgent);
        q.jobs[q.n_jobs++] = o->plan.at_problem;
    }
    for (int32_t d = gpu_set_next(&j->run.devices, 0); d >= 0;
         d = d + 1 < GPU_SET_MAX ? gpu_set_next(&j->run.devices, (uint32_t)d + 1) : -1) {
        const struct gpu_device *dev = &nd->dev.p[d];
        int64_t room = dev->state.usable && dev->state.mem_bytes ? gpu_room(g, dev) : 0;
        q.room = MIN(q.room, MAX(room, 0));
    }
    vec_push(&p->groups, q);
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* Is the device held by a job that this problem leaves alone?  Then the device is no part of it. */
static bool not_in_question(const struct gpu_device *d)
{
    for (int32_t i = 0; i < d->n_jobs; i++)
        if (!problem_leaving(d->jobs[i]) && d->jobs[i]->plan.at_problem == GPU_NOBODY)
            return true;
    return false;
}

static void freeze_node(const struct gpus *g, struct gpu_problem *p, const struct gpu_node *nd)
{
    struct pnode n = {.open = nd->open, .first_room = p->rooms.n};

    for (size_t i = 0; i < nd->dev.n; i++) {
        const struct gpu_device *d = &nd->dev.p[i];
        if ((!d->state.usable && !d->n_jobs) || not_in_question(d))
            continue;
        n.cap++;
        if (d->state.usable)
            vec_push(&p->rooms, d->state.mem_bytes ? gpu_room(g, d) : INT64_MAX);
    }
    n.n_rooms = p->rooms.n - n.first_room;
    if (n.n_rooms)
        qsort(p->rooms.p + n.first_room, n.n_rooms, sizeof(int64_t), ascending);
    vec_push(&p->nodes, n);
}

/* The place of the fact, or the empty place where it would be.  cap is a power of two, and the
 * table is never more than half full, so the search ends. */
static size_t fact_slot(const struct speed_fact *table, size_t cap, uint32_t a, uint32_t b,
                        int32_t n)
{
    uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)n * 0x85ebca6b;
    size_t i = (size_t)(h >> 20) & (cap - 1);

    while (table[i].n && (table[i].a != a || table[i].b != b || table[i].n != n))
        i = (i + 1) & (cap - 1);
    return i;
}

/* All measured pairs as a table of half empty places, made anew when something was learnt;
 * log_ratio holds the ratio itself. */
static void update_facts(struct gpus *g)
{
    size_t n = speeds_fact_count(g->speeds), cap = 16;

    if (g->facts && g->facts_version == speeds_changes(g->speeds))
        return;
    AUTO_FREE struct speed_fact *all = xcalloc(n + 1, sizeof(*all));
    n = speeds_facts(g->speeds, all);
    while (cap < 2 * n)
        cap *= 2;
    free(g->facts);
    g->facts = xcalloc(cap, sizeof(*g->facts));
    g->facts_cap = cap;
    g->facts_version = speeds_changes(g->speeds);
    for (size_t i = 0; i < n; i++) {
        struct speed_fact *f = &g->facts[fact_slot(g->facts, cap, all[i].a, all[i].b, all[i].n)];
        *f = all[i];
        f->log_ratio = exp(all[i].log_ratio);
    }
}

static void freeze_facts(struct gpus *g, struct gpu_problem *p)
{
    update_facts(g);
    p->facts = xmalloc(g->facts_cap * sizeof(*p->facts));
    memcpy(p->facts, g->facts, g->facts_cap * sizeof(*p->facts));
    p->facts_cap = g->facts_cap;
}

double problem_ratio(const struct gpu_problem *p, const struct cand *a, const struct cand *b,
                     int32_t n)
{
    for (int32_t i = 0; i < a->n_ratios; i++)
        if (a->ratios[i].family == b->family && a->ratios[i].n == n)
            return a->ratios[i].ratio;
    const struct speed_fact *f =
        &p->facts[fact_slot(p->facts, p->facts_cap, a->family, b->family, n)];
    if (f->n)
        return f->log_ratio;
    double r = p->mean_ratio * a->suffers * b->disturbs;
    return MIN(r, 1);
}

/* ---- who may not share ---- */

static int32_t count_class(int32_t n)
{
    return n >= 128 ? 7 : 31 - __builtin_clz((unsigned)n);
}

static void freeze_compatible(const struct gpus *g, struct gpu_problem *p)
{
    size_t n = p->cands.n;

    if (!g->hands.compatible || g->conf.per_device < 2 || p->roomy)
        return;
    p->incompatible = xcalloc(n * n + 1, 1);
    for (size_t i = 0; i < n; i++)
        for (size_t k = MAX(i + 1, n > KEEP_ALL ? p->n_running : 0); k < n; k++) {
            const struct cand *a = &p->cands.p[i], *b = &p->cands.p[k];
            if (!a->share || !b->share)
                continue;
            for (int32_t m = 0; m < a->n_counts; m++)
                if (ints_have(b->counts, (size_t)b->n_counts, a->counts[m]) &&
                    !g->hands.compatible(g->hands.self, a->job, b->job, a->counts[m]))
                    p->incompatible[i * n + k] |= (uint8_t)(1 << count_class(a->counts[m]));
        }
}

bool problem_compatible(const struct gpu_problem *p, int32_t a, int32_t b, int32_t n)
{
    size_t i = (size_t)MIN(a, b), k = (size_t)MAX(a, b);

    return !p->incompatible || !(p->incompatible[i * p->cands.n + k] >> count_class(n) & 1);
}

bool problem_room(const struct gpu_problem *p, size_t node, int32_t n, int64_t mem)
{
    const struct pnode *nd = &p->nodes.p[node];
    const int64_t *rooms = p->rooms.p + nd->first_room;

    if (nd->n_rooms < (size_t)n)
        return false;
    return !mem || rooms[nd->n_rooms - (size_t)n] >= mem;
}

bool problem_allows(const struct gpu_problem *p, const struct column *c, size_t node)
{
    for (int32_t i = 0; i < c->n_jobs; i++)
        if (!gpu_may_use(p->cands.p[c->jobs[i]].nodes, node))
            return false;
    return true;
}

/* ---- begin, end ---- */

static const int64_t TICK_MS = 60 * 1000;

/* Somebody waits, shares, is to stop, or could use more devices. */
static bool something_to_decide(const struct gpus *g)
{
    if (g->jobs.n > g->n_running)
        return true;
    for (size_t i = 0; i < g->jobs.n; i++) {
        const struct gjob *j = g->jobs.p[i];
        if (j->run.n_with || j->run.stopping || j->say.n_counts > 1)
            return true;
    }
    return false;
}

struct gpu_problem *gpus_plan_begin(struct gpus *g, int64_t now)
{
    if (g->solving || !g->jobs.n)
        return NULL;
    if (g->tick_ms >= 0 && now >= g->tick_ms)
        g->due = true;
    if (!g->due || now < g->planned_ms + g->conf.replan_ms)
        return NULL;
    if (!something_to_decide(g)) {
        g->due = false;
        g->tick_ms = -1;
        return NULL;
    }
    struct gpu_problem *p = xcalloc(1, sizeof(*p));
    p->conf = g->conf;
    p->roomy = problem_roomy(g);
    p->plan = ++g->plan;
    p->mean_ratio = exp(speeds_terms(g->speeds, SPEED_NO_FAMILY).mean);
    rng_seed(&p->rng, g->conf.seed ^ g->plan * UINT64_C(0x9e3779b97f4a7c15));
    problem_jobs(g, p, now);
    for (size_t i = 0; i < p->cands.n; i++) {
        struct gjob *j = gpu_find(g, p->cands.p[i].job);
        if (j->run.holds && !problem_leaving(j) && p->cands.p[i].group == GPU_NOBODY)
            freeze_group(g, p, j, now);
    }
    for (size_t i = 0; i < g->nodes.n; i++)
        freeze_node(g, p, &g->nodes.p[i]);
    freeze_facts(g, p);
    freeze_compatible(g, p);
    g->due = false;
    g->solving = true;
    g->planned_ms = now;
    g->tick_ms = g->jobs.n > g->n_running ? now + TICK_MS : -1;
    return p;
}

void gpu_problem_free(struct gpu_problem *p)
{
    FREE_EACH(p->cands.p, p->groups.p, p->nodes.p, p->rooms.p, p->facts, p->columns.p, p->order.p,
              p->chosen.p, p->held.p, p->held_nodes.p, p->incompatible, p);
}
