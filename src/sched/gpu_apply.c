/* gpu_apply.c - carrying a plan out: who is asked to stop, who starts where
 *
 * The plan in force is a list of columns.  Somebody of it runs already, or nobody does: then the
 * first takes free devices of the column's node and the others join it.  What stands in the way is
 * asked to stop when the plan is taken, and leaves at its next epoch end; a request that was not
 * delivered is withdrawn when a later plan lets the job stay.
 */
#include "sched/gpu_priv.h"
#include "sched/gpu_problem_priv.h"

/* After may_start refused a job, the planner asks again after this time, doubled with each refusal.
 */
static const int64_t REFUSED_MS = 1000, REFUSED_MAX_MS = 60 * 1000;

/* Asks a running job to stop, at its next epoch end or at once.  A repeated request is ignored
 * unless it is more urgent than the one before. */
static void gpu_ask_stop(struct gpus *g, struct gjob *j, bool at_once)
{
    if (!j->run.holds || (j->run.stopping && !at_once) || j->run.stop_now)
        return;
    j->run.stopping = true;
    j->run.stop_now |= at_once;
    if (g->hands.stop)
        g->hands.stop(g->hands.self, j->say.job, at_once);
}

/* Takes back a stop request that has not reached the job yet. */
static void withdraw(struct gpus *g, struct gjob *j)
{
    j->run.stopping = false;
    if (g->hands.unstop)
        g->hands.unstop(g->hands.self, j->say.job);
}

/* ---- memory ---- */

/* Bytes in use on a device: measured of our jobs, and of processes that are not ours. */
static int64_t used_on(const struct gpu_device *d)
{
    int64_t sum = d->state.foreign_bytes;

    for (int32_t i = 0; i < d->n_jobs; i++)
        sum += d->jobs[i]->measured_bytes;
    return sum;
}

/* A device runs out of memory.  The job that started last on it and may be preempted is marked;
 * gpus_apply stops that job at once.  A device with one job only is left alone: stopping the job
 * would not help anybody. */
static void relieve(struct gpus *g, struct gpu_device *d)
{
    struct gjob *youngest = NULL;

    for (int32_t i = 0; i < d->n_jobs; i++) {
        struct gjob *j = d->jobs[i];
        if (j->run.stop_now)
            return; /* a job of this device is stopping already */
        if (j->say.preempt != GPU_PREEMPT_NEVER &&
            (!youngest || j->run.start_ms > youngest->run.start_ms ||
             (j->run.start_ms == youngest->run.start_ms && j->serial > youngest->serial)))
            youngest = j;
    }
    if (youngest && d->n_jobs > 1) {
        youngest->overfull = true;
        gpu_due(g);
    }
}

void gpu_guard(struct gpus *g, int64_t now)
{
    (void)now;
    for (size_t k = 0; k < g->nodes.n; k++)
        for (size_t i = 0; i < g->nodes.p[k].dev.n; i++) {
            struct gpu_device *d = &g->nodes.p[k].dev.p[i];
            if (d->n_jobs > 1 && d->state.mem_bytes &&
                d->state.mem_bytes - used_on(d) < g->conf.guard_bytes)
                relieve(g, d);
        }
}

static void stop_overfull(struct gpus *g)
{
    for (size_t i = 0; i < g->jobs.n; i++)
        if (g->jobs.p[i]->overfull) {
            g->jobs.p[i]->overfull = false;
            gpu_ask_stop(g, g->jobs.p[i], true);
        }
}

/* ---- taking a plan ---- */

static bool in_column(const struct gpu_column *c, uint64_t job)
{
    for (int32_t i = 0; i < c->n_jobs; i++)
        if (c->jobs[i] == job)
            return true;
    return false;
}

/* Columns of more value per device come first; ties go to the older job, so plans are stable. */
static int denser(const void *a, const void *b)
{
    const struct gpu_column *x = a, *y = b;

    if (x->density != y->density)
        return x->density > y->density ? -1 : 1;
    return x->jobs[0] < y->jobs[0] ? -1 : x->jobs[0] > y->jobs[0];
}

/* Copies the chosen columns and the held devices of a solved problem into the plan in force, and
 * notes at each job which column it belongs to. */
static void take_columns(struct gpus *g, const struct gpu_problem *p)
{
    vec_clear(&g->columns);
    for (size_t i = 0; i < p->chosen.n; i++) {
        const struct column *x = &p->columns.p[p->chosen.p[i]];
        struct gpu_column c = {.n = x->n,
                               .node = (uint32_t)x->node,
                               .n_jobs = x->n_jobs,
                               .anchored = x->group != GPU_NOBODY,
                               .density = x->value / x->n};
        for (int32_t k = 0; k < x->n_jobs; k++)
            c.jobs[k] = p->cands.p[x->jobs[k]].job;
        vec_push(&g->columns, c);
    }
    for (size_t i = 0; i < p->held.n; i++) {
        const struct cand *a = &p->cands.p[p->held.p[i]];
        vec_push(&g->columns, ((struct gpu_column){.n = a->counts[0],
                                                   .node = p->held_nodes.p[i],
                                                   .n_jobs = 1,
                                                   .jobs = {a->job},
                                                   .hold = true}));
    }
    if (g->columns.n)
        qsort(g->columns.p, g->columns.n, sizeof(g->columns.p[0]), denser);
    for (size_t i = 0; i < g->columns.n; i++)
        for (int32_t k = 0; k < g->columns.p[i].n_jobs; k++) {
            struct gjob *j = gpu_find(g, g->columns.p[i].jobs[k]);
            if (j)
                j->plan.want = (struct gpu_want){p->plan, (uint32_t)i};
        }
}

/* Does the plan let this running job stay where it is? */
static bool stays(const struct gpus *g, const struct gjob *j)
{
    if (j->plan.want.plan != g->plan)
        return false;
    const struct gpu_column *c = &g->columns.p[j->plan.want.column];
    return c->anchored && c->node == j->run.node && c->n == j->run.n && j->plan.was_in;
}

/* Asks the running jobs that the new plan displaces to stop, and withdraws the requests to those it
 * lets stay.  A request that was delivered cannot be withdrawn any more. */
static void take_stops(struct gpus *g, const struct gpu_problem *p, int64_t now)
{
    bool urgent = false;

    for (size_t i = 0; i < p->cands.n; i++) {
        struct gjob *j = gpu_find(g, p->cands.p[i].job);
        const struct cand *c = &p->cands.p[i];
        if (!j)
            continue;
        urgent |= !j->run.holds && j->say.priority >= GPU_URGENT;
        j->plan.was_in = c->group != GPU_NOBODY && j->run.holds;
    }
    /* A column keeps the devices of one group; those who came from another start anew. */
    for (size_t i = 0; i < p->chosen.n; i++) {
        const struct column *x = &p->columns.p[p->chosen.p[i]];
        for (int32_t k = 0; k < x->n_jobs; k++) {
            struct gjob *j = gpu_find(g, p->cands.p[x->jobs[k]].job);
            if (j && p->cands.p[x->jobs[k]].group != x->group)
                j->plan.was_in = false;
        }
    }
    for (size_t i = 0; i < p->cands.n; i++) {
        struct gjob *j = gpu_find(g, p->cands.p[i].job);
        if (!j || !j->run.holds || p->cands.p[i].group == GPU_NOBODY || j->run.delivered ||
            j->run.stop_now)
            continue;
        if (stays(g, j)) {
            if (j->run.stopping)
                withdraw(g, j);
        } else if (!j->run.stopping && gpu_may_stop(g, j, now, urgent)) {
            gpu_ask_stop(g, j, false);
        }
    }
}

void gpus_plan_end(struct gpus *g, int64_t now, struct gpu_problem *p)
{
    g->solving = false;
    take_columns(g, p);
    take_stops(g, p, now);
    gpu_problem_free(p);
    g->prediction.wanted++;
}

/* ---- starting ---- */

/* The member of the column that runs with its devices, if nobody else is on them. */
static struct gjob *column_host(const struct gpus *g, const struct gpu_column *c, bool *blocked)
{
    *blocked = false;
    for (int32_t i = 0; i < c->n_jobs; i++) {
        struct gjob *j = gpu_find(g, c->jobs[i]);
        if (!j || !j->run.holds)
            continue;
        if (j->run.stopping || j->run.n != c->n || j->run.node != c->node) {
            *blocked |= j->run.stopping;
            continue;
        }
        for (int32_t k = 0; k < j->run.n_with; k++)
            if (!in_column(c, j->run.with[k]->say.job))
                *blocked = true;
        if (*blocked)
            return NULL;
        return j;
    }
    return NULL;
}

/* Asks the caller whether a job may start, and backs off after a refusal. */
static bool gjob_may_start(struct gpus *g, struct gjob *j, uint32_t node, int64_t now)
{
    if (j->plan.refused_until > now)
        return false;
    if (!g->hands.may_start || g->hands.may_start(g->hands.self, j->say.job, node))
        return true;
    j->plan.refused_until = now + MIN(REFUSED_MS << MIN(j->plan.refusals, 6), REFUSED_MAX_MS);
    j->plan.refusals++;
    gpu_due(g); /* others may have the devices meanwhile */
    return false;
}

/* Starts a job on these devices.  False: the caller could not start it; a new plan is due. */
static bool start_on(struct gpus *g, struct gjob *j, int64_t now, uint32_t node,
                     const struct gpu_set *devices)
{
    if (!g->hands.start(g->hands.self, j->say.job, node, devices, j->mem_bytes)) {
        /* may_start agreed and the start failed all the same.  The job waits for REFUSED_MS, so
         * that a start which always fails is not tried in a loop. */
        j->plan.refused_until = now + REFUSED_MS;
        gpu_due(g);
        return false;
    }
    gpu_begin_run(j, now);
    gpu_hold(g, j, now, node, devices);
    return true;
}

/* May j share devices with the host and with every job beside the host? */
static bool compatible(const struct gpus *g, const struct gjob *j, const struct gjob *host)
{
    if (!g->hands.compatible)
        return true;
    for (int32_t i = -1; i < host->run.n_with; i++) {
        const struct gjob *o = i < 0 ? host : host->run.with[i];
        if (!g->hands.compatible(g->hands.self, j->say.job, o->say.job, host->run.n))
            return false;
    }
    return true;
}

/* Starts the jobs of a column that do not run yet: beside the member that runs, or, when no member
 * runs, on free devices of the node of the column. */
static void start_column(struct gpus *g, const struct gpu_column *c, int64_t now)
{
    for (int32_t i = 0; i < c->n_jobs; i++) {
        struct gjob *j = gpu_find(g, c->jobs[i]);
        struct gpu_set devices;
        bool blocked;
        if (!j || j->run.holds || !g->nodes.p[c->node].open)
            continue;
        struct gjob *host = column_host(g, c, &blocked);
        if (blocked)
            continue;
        if (host) {
            devices = host->run.devices;
            if (gpu_fits_with(g, j, host) && compatible(g, j, host) &&
                gjob_may_start(g, j, c->node, now))
                start_on(g, j, now, c->node, &devices);
        } else if (!c->anchored && g->nodes.p[c->node].free >= c->n &&
                   gjob_may_start(g, j, c->node, now) && /* the cheaper question first */
                   gpu_pick(g, c->node, c->n, j->mem_bytes, &devices)) {
            start_on(g, j, now, c->node, &devices);
        }
    }
}

void gpus_apply(struct gpus *g, int64_t now)
{
    stop_overfull(g);
    for (size_t i = 0; i < g->columns.n; i++)
        if (!g->columns.p[i].hold)
            start_column(g, &g->columns.p[i], now);
    gpu_keep(g);
}
