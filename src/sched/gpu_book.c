/* gpu_book.c - the book of jobs and nodes: what happened
 *
 * Owns: struct gpus, its jobs and nodes, the events of gpu.h, and when a plan is due.
 *
 * A full plan is due when a job comes or goes, when a node changes, when memory is not what was
 * said, when something was measured for the first time or an estimate moved by a fifth, and every
 * minute while somebody waits.  Plans are at least replan_ms apart, so a burst makes one.
 */
#include "sched/gpu_priv.h"

#include <math.h>

static const int64_t MIB = INT64_C(1) << 20;

struct gpus *gpus_new(const struct gpu_conf *conf, const struct gpu_hands *hands)
{
    struct gpus *g = xcalloc(1, sizeof(*g));
    struct gpu_conf *c = &g->conf;

    *c = *conf;
    g->hands = *hands;
    if (c->per_device <= 0)
        c->per_device = 2;
    c->per_device = MIN(c->per_device, GPU_SHARE_MAX);
    c->guard_bytes = c->guard_bytes ? c->guard_bytes : 256 * MIB;
    c->restart_s = c->restart_s > 0 ? c->restart_s : 60;
    c->ageing_after_s = c->ageing_after_s > 0 ? c->ageing_after_s : 4 * 3600;
    c->reserve_after_s = c->reserve_after_s > 0 ? c->reserve_after_s : 24 * 3600;
    c->replan_ms = c->replan_ms > 0 ? c->replan_ms : 1000;
    c->unknown_s = c->unknown_s > 0 ? c->unknown_s : 24 * 3600;
    c->effort = c->effort ? c->effort : 3;
    g->speeds = speeds_new();
    /* The first plan need not wait for replan_ms. */
    g->planned_ms = INT64_MIN / 2;
    g->tick_ms = -1;
    g->trust.said_var = 0.25;
    g->trust.said_weight = 2;
    for (int i = 0; i < GPU_SPREADS; i++) {
        g->trust.spread[0][i] = (struct gpu_spread){{-0.75, 0.2, 1.1}, 0};
        g->trust.spread[1][i] = (struct gpu_spread){{-0.35, 0.1, 0.75}, 0};
    }
    return g;
}

static void job_free(struct gjob *j)
{
    vec_done(&j->pace.own);
    free(j);
}

void gpus_free(struct gpus *g)
{
    if (!g)
        return;
    vec_free_each(&g->jobs, job_free);
    for (size_t i = 0; i < g->nodes.n; i++)
        vec_done(&g->nodes.p[i].dev);
    map_u64_clear(&g->saved, free);
    map_u64_done(&g->by_id);
    speeds_free(g->speeds);
    FREE_EACH(g->jobs.p, g->nodes.p, g->columns.p, g->changed.p, g->forgotten.p, g->facts, g);
}

struct gjob *gpu_find(const struct gpus *g, uint64_t job)
{
    return map_u64_get(&g->by_id, job);
}

void gpu_due(struct gpus *g)
{
    g->due = true;
}

/* The record of the job has changed: gpu_keep saves it at the end of the turn. */
static void gpu_touch(struct gpus *g, struct gjob *j)
{
    if (j->dirty || !g->hands.remember)
        return;
    j->dirty = true;
    vec_push(&g->changed, j->say.job);
}

/* ---- nodes ---- */

void gpus_node(struct gpus *g, int64_t now, uint32_t node, const struct gpu_device_state *d,
               size_t n, bool open)
{
    while (g->nodes.n <= node)
        vec_push(&g->nodes, (struct gpu_node){0});
    struct gpu_node *nd = &g->nodes.p[node];
    bool changed = nd->open != open || nd->dev.n != n;

    n = MIN(n, (size_t)GPU_SET_MAX);
    while (nd->dev.n < n) {
        vec_push(&nd->dev, (struct gpu_device){0});
        changed = true;
    }
    for (size_t i = 0; i < nd->dev.n; i++) {
        struct gpu_device_state s = i < n ? d[i] : (struct gpu_device_state){0};
        struct gpu_device_state *old = &nd->dev.p[i].state;
        /* Foreign memory moves all the time; only a change that could alter a plan asks for one. */
        changed |= old->usable != s.usable || old->mem_bytes != s.mem_bytes ||
                   llabs(old->foreign_bytes - s.foreign_bytes) > 64 * MIB;
        *old = s;
    }
    nd->open = open && n > 0;
    gpu_count_free(g, node);
    gpu_guard(g, now);
    if (changed)
        gpu_due(g);
}

/* ---- jobs ---- */

/* Names what is lacking: devices on one node, or memory on each device. */
static int book_refuse(struct err *e, const struct gpu_job *j, int32_t most, int64_t room)
{
    if (j->counts[0] > most)
        return err_set(e, ERR_INVALID,
                       "the job asks for %d GPUs on one node and the largest node has %d; ask for "
                       "fewer",
                       j->counts[0], most);
    return err_set(e, ERR_INVALID,
                   "the job asks for %ld MiB on each GPU and no node has %d GPUs with more than "
                   "%ld MiB to give; ask for less",
                   j->mem_bytes / MIB, j->counts[0], room / MIB);
}

/* Is there a node that could hold it if nobody else were there? */
static int check_fits(const struct gpus *g, const struct gpu_job *j, struct err *e)
{
    int32_t most = 0;
    int64_t room = 0;
    bool any = false;

    for (size_t k = 0; k < g->nodes.n; k++) {
        const struct gpu_node *nd = &g->nodes.p[k];
        int32_t fit = 0, there = 0;
        if (!gpu_may_use(j->nodes, k))
            continue;
        for (size_t i = 0; i < nd->dev.n; i++) {
            const struct gpu_device *d = &nd->dev.p[i];
            if (!d->state.usable && !d->state.mem_bytes)
                continue; /* it was taken away */
            there++;
            int64_t has = d->state.mem_bytes ? gpu_room(g, d) : INT64_MAX;
            fit += j->mem_bytes <= has;
            room = MAX(room, d->state.mem_bytes ? has : 0);
        }
        any |= there > 0;
        most = MAX(most, there);
        if (fit >= j->counts[0])
            return 0;
    }
    return any ? book_refuse(e, j, most, room) : 0;
}

/* Refuses a job whose own statements cannot be planned with. */
static int check_says(const struct gpu_job *j, struct err *e)
{
    if (j->n_counts < 1 || j->n_counts > GPU_COUNTS_MAX || j->counts[0] < 1)
        return err_set(e, ERR_INVALID, "a job needs at least one GPU count of 1 or more");
    for (int32_t i = 1; i < j->n_counts; i++)
        if (j->counts[i] <= j->counts[i - 1])
            return err_set(e, ERR_INVALID, "GPU counts must ascend");
    if (!(j->estimate_s >= 0) || !(j->epoch_work >= 0) || j->mem_bytes < 0 || j->epochs < 0)
        return err_set(e, ERR_INVALID, "estimate, memory and epochs of a job must not be negative");
    return 0;
}

int gpus_add(struct gpus *g, int64_t now, const struct gpu_job *say, struct err *e)
{
    if (gpu_find(g, say->job))
        return err_set(e, ERR_CONFLICT, "job %lu is planned already", say->job);
    if (check_says(say, e) < 0 || check_fits(g, say, e) < 0)
        return -1;
    struct gjob *j = xcalloc(1, sizeof(*j));
    j->say = *say;
    j->say.family = (struct str){0};
    if (j->say.ref < 1)
        j->say.ref = j->say.counts[0];
    j->family = gpu_family(g, say, &j->apart);
    j->serial = g->serial++;
    j->mem_bytes = say->mem_bytes;
    j->progress.waits_since_ms = MIN(say->submitted_ms, now);
    j->at = g->jobs.n;
    vec_push(&g->jobs, j);
    map_u64_put(&g->by_id, say->job, j);
    gpu_recall_job(g, j);
    if (j->apart)
        gpu_touch(g, j);
    gpu_due(g);
    return 0;
}

void gpu_begin_run(struct gjob *j, int64_t now)
{
    j->progress.waited_ms += MAX(0, now - j->progress.waits_since_ms);
    j->run.start_ms = j->run.mark_ms = now;
    j->run.epoch_ms = 0;
    j->run.epochs_here = 0;
    j->run.n_seg = 0;
    j->progress.frac = 0;
    j->history.attempts++;
    j->plan.refusals = 0;
}

void gpus_adopt(struct gpus *g, int64_t now, uint64_t job, uint32_t node,
                const struct gpu_set *devices, int64_t mem_bytes)
{
    struct gjob *j = gpu_find(g, job);

    if (!j || j->run.holds || node >= g->nodes.n || gpu_set_empty(devices))
        return;
    struct gpu_node *nd = &g->nodes.p[node];
    for (int32_t d = gpu_set_next(devices, 0); d >= 0;
         d = d + 1 < GPU_SET_MAX ? gpu_set_next(devices, (uint32_t)d + 1) : -1) {
        while (nd->dev.n <= (size_t)d) /* a device that is gone: it keeps its place, unusable */
            vec_push(&nd->dev, (struct gpu_device){0});
        if (nd->dev.p[d].n_jobs == GPU_SHARE_MAX)
            return;
    }
    gpu_begin_run(j, now);
    /* gpu_begin_run has counted this run again; the record of the job counted it when it started.
     */
    if (j->history.attempts > 1)
        j->history.attempts--; /* counted when it started */
    j->mem_bytes = MAX(j->mem_bytes, mem_bytes);
    gpu_hold(g, j, now, node, devices);
    j->run.up = j->run.adopted = true;
    gpu_due(g);
}

void gpus_started(struct gpus *g, int64_t now, uint64_t job)
{
    struct gjob *j = gpu_find(g, job);

    if (!j || !j->run.holds || j->run.up)
        return;
    j->run.up = true;
    j->run.mark_ms = now;
}

void gpu_mark(struct gpus *g, struct gjob *j, int64_t now)
{
    double dt = (double)(now - j->run.mark_ms) / 1000;

    if (!j->run.holds || !j->run.up || dt <= 0)
        return;
    struct speed_key k = gpu_key(j);
    double rate = exp(gpu_log_rate(g, j, &k));
    j->progress.frac += dt * rate / gpu_work(j);
    j->progress.service_s += dt;
    j->progress.ref_s += dt * exp(log(rate) - j->pace.base.log);
    if (!j->run.n_seg || !speed_key_equal(&j->run.seg[j->run.n_seg - 1].key, &k)) {
        if (j->run.n_seg == GPU_SEGMENTS) { /* the oldest two become one */
            j->run.seg[1].seconds += j->run.seg[0].seconds;
            memmove(&j->run.seg[0], &j->run.seg[1], sizeof(j->run.seg[0]) * (GPU_SEGMENTS - 1));
            j->run.n_seg--;
        }
        j->run.seg[j->run.n_seg++] = (struct gpu_segment){.key = k};
    }
    j->run.seg[j->run.n_seg - 1].seconds += dt;
    j->run.mark_ms = now;
}

void gpus_epoch(struct gpus *g, int64_t now, uint64_t job, int32_t done, double epoch_s)
{
    struct gjob *j = gpu_find(g, job);

    if (!j || !j->run.holds || done <= j->progress.done)
        return;
    gpu_mark(g, j, now);
    /* Only the length of a single epoch teaches something.  After a restart the beginning of the
     * first epoch is not known, so its length counts only when the job reports it. */
    if (done == j->progress.done + 1 && j->say.epochs > 0 &&
        !(j->run.adopted && !j->run.epochs_here && !epoch_s))
        gpu_learn_epoch(g, j, now, epoch_s);
    j->progress.done = done;
    j->run.epochs_here++;
    /* The last epoch is finished rather than stopped, so a request that came too late is over. */
    if (done >= j->say.epochs - 1 && j->say.epochs > 0 && !j->run.delivered && !j->run.stop_now)
        j->run.stopping = false;
    j->progress.frac = 0;
    j->run.n_seg = 0;
    j->run.epoch_ms = now;
    gpu_touch(g, j);
    double total = gpu_total_s(g, j);
    if (fabs(log(total / MAX(1, j->pace.last_total_s))) > 0.2)
        gpu_due(g);
    j->pace.last_total_s = total;
}

void gpus_resumes_at(struct gpus *g, uint64_t job, int32_t done)
{
    struct gjob *j = gpu_find(g, job);

    if (!j || j->run.holds || j->progress.done == done)
        return;
    j->progress.done = done;
    gpu_touch(g, j);
    gpu_due(g);
}

void gpus_set_nodes(struct gpus *g, uint64_t job, uint64_t nodes)
{
    struct gjob *j = gpu_find(g, job);

    if (!j || j->say.nodes == nodes)
        return;
    j->say.nodes = nodes;
    gpu_due(g);
}

/* Reservations are multiples of 64 MiB, so that small changes of a measurement change no plan. */
static int64_t round_up(int64_t bytes)
{
    return (bytes + 64 * MIB - 1) / (64 * MIB) * (64 * MIB);
}

void gpus_measured(struct gpus *g, int64_t now, uint64_t job, int64_t mem_bytes)
{
    struct gjob *j = gpu_find(g, job);

    if (!j || mem_bytes <= 0)
        return;
    j->measured_bytes = MAX(j->measured_bytes, mem_bytes);
    int64_t want =
        round_up(MAX(j->measured_bytes + j->measured_bytes / 10, j->measured_bytes + 256 * MIB));
    /* The reservation grows at once.  It shrinks only after a whole epoch, when the job has shown
     * all it does. */
    if (want > j->mem_bytes ? j->mem_bytes > 0 || j->progress.done > 0
                            : j->progress.done > 0 && want < j->mem_bytes) {
        bool surprise = llabs(want - j->mem_bytes) > 128 * MIB;
        j->mem_bytes = want;
        gpu_touch(g, j);
        if (surprise)
            gpu_due(g);
    }
    gpu_guard(g, now);
}

void gpus_stop_delivered(struct gpus *g, int64_t now, uint64_t job)
{
    struct gjob *j = gpu_find(g, job);

    (void)now;
    if (j && j->run.holds) /* after a restart it may not be known here that it was asked */
        j->run.stopping = j->run.delivered = true;
}

void gpus_ask_again(struct gpus *g)
{
    for (size_t i = 0; i < g->jobs.n; i++)
        g->jobs.p[i]->plan.refused_until = g->jobs.p[i]->plan.refusals = 0;
    gpu_due(g);
}

void gpus_stopped(struct gpus *g, int64_t now, uint64_t job, enum gpu_stop how)
{
    struct gjob *j = gpu_find(g, job);

    if (!j || !j->run.holds)
        return;
    bool adopted = j->run.adopted;
    gpu_mark(g, j, now);
    if (how == GPU_STOPPED_NO_MEMORY) {
        int64_t had = MAX(j->mem_bytes, j->measured_bytes);
        j->mem_bytes = had ? round_up(had + had / 2) : 0;
        for (size_t k = 0, fits = 0; k < g->nodes.n && j->mem_bytes; k++) {
            for (size_t i = 0; i < g->nodes.p[k].dev.n; i++)
                fits += j->mem_bytes <= gpu_room(g, &g->nodes.p[k].dev.p[i]);
            if (k + 1 == g->nodes.n && fits < (size_t)j->say.counts[0])
                j->mem_bytes = 0; /* nothing is large enough: a whole device, then */
        }
    }
    if (how == GPU_STOPPED_UNDONE)
        j->history.attempts--;
    /* Only voluntary stops count against GPU_STOPS_PER_HOUR; a stop for device memory had to be. */
    if (how == GPU_STOPPED_ASKED && !j->run.stop_now)
        j->history.stopped_ms[j->history.n_stopped++ % GPU_STOPS_PER_HOUR] = now;
    j->history.preemptions += how == GPU_STOPPED_ASKED || how == GPU_STOPPED_LOST;
    gpu_release(g, j, now);
    j->progress.frac = 0;
    j->progress.waits_since_ms = now;
    gpu_touch(g, j);
    /* A stop we asked for was planned, unless that plan is from before a restart, or a later one
     * was made when it was leaving and nobody waited: no tick would come either. */
    if (how != GPU_STOPPED_ASKED || adopted || g->tick_ms < 0)
        gpu_due(g);
}

void gpus_remove(struct gpus *g, int64_t now, uint64_t job, bool finished)
{
    struct gjob *j = map_u64_del(&g->by_id, job);

    if (!j)
        return;
    if (j->run.holds) {
        gpu_mark(g, j, now);
        if (finished)
            gpu_predict_learn(g, j, now);
        gpu_release(g, j, now);
    }
    /* The last job moves into the gap, so that removing one costs the same with any number of jobs.
     */
    struct gjob *last = vec_pop(&g->jobs);
    if (last != j) {
        g->jobs.p[j->at] = last;
        last->at = j->at;
    }
    if (g->hands.remember)
        vec_push(&g->forgotten, job);
    job_free(j);
    gpu_due(g);
}

int64_t gpus_next_wake(const struct gpus *g)
{
    if (g->solving || !g->jobs.n)
        return -1;
    if (g->due)
        return g->planned_ms + g->conf.replan_ms;
    return g->tick_ms;
}
