/* gpu_view.c - answers: how a job stands, why it waits, when it ends */
#include "sched/gpu_priv.h"

/* Would n devices for mem bytes be free on an open node? */
static bool has_free(const struct gpus *g, const struct gjob *j)
{
    struct gpu_set s;

    for (size_t k = 0; k < g->nodes.n; k++)
        if (g->nodes.p[k].open && gpu_may_use(j->say.nodes, k) &&
            gpu_pick(g, (uint32_t)k, j->say.counts[0], j->mem_bytes, &s))
            return true;
    return false;
}

static const struct gpu_column *hold_of_other(const struct gpus *g, const struct gjob *j)
{
    for (size_t i = 0; i < g->columns.n; i++)
        if (g->columns.p[i].hold && g->columns.p[i].jobs[0] != j->say.job &&
            gpu_find(g, g->columns.p[i].jobs[0]))
            return &g->columns.p[i];
    return NULL;
}

/* Why can it not go next to those who run?  The first of them with as many devices is named. */
static enum gpu_wait sharing_wait(const struct gpus *g, const struct gjob *j, uint64_t *who)
{
    enum gpu_wait why = GPU_WAIT_GPUS;

    if (g->conf.per_device < 2)
        return why;
    for (size_t i = 0; i < g->jobs.n; i++) {
        const struct gjob *o = g->jobs.p[i];
        if (!o->run.holds || o->run.n != j->say.counts[0])
            continue;
        if (gpu_fits_with(g, j, o)) {
            *who = o->say.job;
            return GPU_WAIT_BEHIND;
        }
        if (why == GPU_WAIT_MEMORY)
            continue;
        if (!j->say.share || !o->say.share)
            why = GPU_WAIT_NO_SHARE;
        else if (o->run.n_with + 2 > g->conf.per_device && gpu_memory_fits(g, j, o))
            why = GPU_WAIT_CROWDED;
        else
            why = GPU_WAIT_MEMORY;
        *who = o->say.job;
    }
    return why;
}

static enum gpu_wait wait_of(const struct gpus *g, const struct gjob *j, int64_t now, uint64_t *who)
{
    bool open = false;
    const struct gpu_column *hold;

    *who = 0;
    for (size_t k = 0; k < g->nodes.n; k++)
        open |= g->nodes.p[k].open && g->nodes.p[k].usable > 0;
    if (!open)
        return GPU_WAIT_CLOSED;
    /* A refusal stays the reason until a plan includes the job again, not only during its back-off.
     */
    if (j->plan.refused_until > now || (j->plan.refusals && j->plan.want.plan != g->plan))
        return GPU_WAIT_HOST;
    if (has_free(g, j)) {
        hold = hold_of_other(g, j);
        if (hold && j->plan.want.plan != g->plan) {
            *who = hold->jobs[0];
            return GPU_WAIT_RESERVED;
        }
        return g->due || j->plan.want.plan == g->plan ? GPU_WAIT_NOTHING : GPU_WAIT_BEHIND;
    }
    return sharing_wait(g, j, who);
}

static void view_run(struct gpus *g, struct gjob *j, struct gpu_view *v)
{
    struct speed_key k = gpu_key(j);

    v->node = j->run.node;
    v->devices = j->run.devices;
    v->speed = gpu_speed(g, j, &k);
    v->n_with = j->run.n_with;
    for (int32_t i = 0; i < j->run.n_with; i++)
        v->with[i] = j->run.with[i]->say.job;
}

bool gpus_view(struct gpus *g, int64_t now, uint64_t job, struct gpu_view *out)
{
    struct gjob *j = gpu_find(g, job);

    if (!j)
        return false;
    gpu_predict(g, now);
    *out = (struct gpu_view){.running = j->run.holds,
                             .stopping = j->run.stopping,
                             .reserved_bytes = j->mem_bytes,
                             .measured_bytes = j->measured_bytes,
                             .epochs_done = j->progress.done,
                             .epochs = j->say.epochs,
                             .estimate_s = gpu_total_s(g, j),
                             .speed = 1,
                             .service_s = j->progress.service_s,
                             .overrun = gpu_overrun(g, j),
                             .attempts = j->history.attempts,
                             .preemptions = j->history.preemptions,
                             .start = j->forecast.start,
                             .finish = j->forecast.finish};
    if (j->run.holds) {
        view_run(g, j, out);
        if (j->run.up && now > j->run.mark_ms)
            out->service_s += (double)(now - j->run.mark_ms) / 1000;
    } else {
        out->wait = wait_of(g, j, now, &out->wait_for);
    }
    out->left_s = gpu_left_s(g, j, now) / (out->speed > 0.01 ? out->speed : 0.01);
    return true;
}
