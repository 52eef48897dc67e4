/* gpu_place.c - devices: who is on them, what is free, which ones to take
 *
 * Jobs that share hold exactly the same devices, so a run joins all devices of its host or takes
 * devices nobody is on.  A device whose memory is not known is never shared.
 */
#include "sched/gpu_priv.h"

static const int64_t MIB = INT64_C(1) << 20;

int64_t gpu_room(const struct gpus *g, const struct gpu_device *d)
{
    int64_t reserve = g->conf.reserve_bytes;

    if (!reserve)
        reserve = MAX(512 * MIB, d->state.mem_bytes * 3 / 100);
    return d->state.mem_bytes - d->state.foreign_bytes - reserve;
}

/* Is the device usable and empty, with room for a reservation of mem bytes (0 = all of it)? */
static bool can_take(const struct gpus *g, const struct gpu_device *d, int64_t mem)
{
    return d->state.usable && !d->n_jobs && (!mem || !d->state.mem_bytes || mem <= gpu_room(g, d));
}

bool gpu_pick(const struct gpus *g, uint32_t node, int32_t n, int64_t mem, struct gpu_set *out)
{
    const struct gpu_node *nd = &g->nodes.p[node];
    struct gpu_set s = {0};

    /* Smallest first: the large devices stay for those who need them. */
    for (int64_t last = -1; n > 0;) {
        int64_t next = INT64_MAX;
        for (size_t i = 0; i < nd->dev.n; i++) {
            int64_t has = nd->dev.p[i].state.mem_bytes;
            if (!can_take(g, &nd->dev.p[i], mem) || has <= last)
                continue;
            next = MIN(next, has);
        }
        if (next == INT64_MAX)
            return false;
        for (size_t i = 0; i < nd->dev.n && n > 0; i++)
            if (can_take(g, &nd->dev.p[i], mem) && nd->dev.p[i].state.mem_bytes == next) {
                gpu_set_add(&s, (uint32_t)i);
                n--;
            }
        last = next;
    }
    *out = s;
    return true;
}

bool gpu_memory_fits(const struct gpus *g, const struct gjob *j, const struct gjob *host)
{
    const struct gpu_node *nd = &g->nodes.p[host->run.node];
    int64_t sum = j->mem_bytes + host->mem_bytes;

    if (!j->mem_bytes || !host->mem_bytes)
        return false;
    for (int32_t i = 0; i < host->run.n_with; i++) {
        if (!host->run.with[i]->mem_bytes)
            return false;
        sum += host->run.with[i]->mem_bytes;
    }
    for (int32_t d = gpu_set_next(&host->run.devices, 0); d >= 0;
         d = d + 1 < GPU_SET_MAX ? gpu_set_next(&host->run.devices, (uint32_t)d + 1) : -1) {
        const struct gpu_device *dev = &nd->dev.p[d];
        if (!dev->state.usable || !dev->state.mem_bytes || sum > gpu_room(g, dev))
            return false;
    }
    return true;
}

bool gpu_fits_with(const struct gpus *g, const struct gjob *j, const struct gjob *host)
{
    if (!j->say.share || !host->say.share || host->run.n_with + 2 > g->conf.per_device)
        return false;
    for (int32_t i = 0; i < host->run.n_with; i++)
        if (!host->run.with[i]->say.share)
            return false;
    return gpu_memory_fits(g, j, host);
}

void gpu_count_free(struct gpus *g, uint32_t node)
{
    struct gpu_node *nd = &g->nodes.p[node];

    nd->usable = nd->free = 0;
    for (size_t i = 0; i < nd->dev.n; i++) {
        nd->usable += nd->dev.p[i].state.usable;
        nd->free += nd->dev.p[i].state.usable && !nd->dev.p[i].n_jobs;
    }
}

static bool job_is_with(const struct gjob *j, const struct gjob *o)
{
    for (int32_t i = 0; i < j->run.n_with; i++)
        if (j->run.with[i] == o)
            return true;
    return false;
}

/* Two jobs that share a device are in each other's list: always both or neither.  Jobs share all
 * their devices where the planner placed them, but after a restart the caller may have adopted a
 * run that is about to end beside one that has got some of its devices. */
static void device_met(struct gpus *g, struct gjob *j, int64_t now, const struct gpu_device *d)
{
    for (int32_t i = 0; i < d->n_jobs; i++) {
        struct gjob *o = d->jobs[i];
        if (o == j || job_is_with(j, o) || j->run.n_with == SPEED_WITH_MAX ||
            o->run.n_with == SPEED_WITH_MAX)
            continue;
        gpu_mark(g, o, now); /* its speed changes now */
        j->run.with[j->run.n_with++] = o;
        o->run.with[o->run.n_with++] = j;
    }
}

static void mates_part(struct gpus *g, struct gjob *j, int64_t now)
{
    for (int32_t i = 0; i < j->run.n_with; i++) {
        struct gjob *o = j->run.with[i];
        gpu_mark(g, o, now);
        for (int32_t k = 0; k < o->run.n_with; k++)
            if (o->run.with[k] == j) {
                o->run.with[k] = o->run.with[--o->run.n_with];
                break;
            }
    }
    j->run.n_with = 0;
}

void gpu_hold(struct gpus *g, struct gjob *j, int64_t now, uint32_t node, const struct gpu_set *s)
{
    struct gpu_node *nd = &g->nodes.p[node];

    j->run.node = node;
    j->run.devices = *s;
    j->run.n = gpu_set_count(s);
    j->run.holds = true;
    j->run.n_with = 0;
    for (int32_t d = gpu_set_next(s, 0); d >= 0;
         d = d + 1 < GPU_SET_MAX ? gpu_set_next(s, (uint32_t)d + 1) : -1) {
        struct gpu_device *dev = &nd->dev.p[d];
        device_met(g, j, now, dev);
        /* Before the job is entered: only the first job on a device makes it not free. */
        nd->free -= dev->state.usable && !dev->n_jobs;
        ASSERT(dev->n_jobs < GPU_SHARE_MAX);
        dev->jobs[dev->n_jobs++] = j;
    }
    g->n_running++;
}

void gpu_release(struct gpus *g, struct gjob *j, int64_t now)
{
    struct gpu_node *nd = &g->nodes.p[j->run.node];

    mates_part(g, j, now);
    for (int32_t d = gpu_set_next(&j->run.devices, 0); d >= 0;
         d = d + 1 < GPU_SET_MAX ? gpu_set_next(&j->run.devices, (uint32_t)d + 1) : -1) {
        struct gpu_device *dev = &nd->dev.p[d];
        for (int32_t i = 0; i < dev->n_jobs; i++)
            if (dev->jobs[i] == j) {
                dev->jobs[i] = dev->jobs[--dev->n_jobs];
                break;
            }
        nd->free += dev->state.usable && !dev->n_jobs;
    }
    j->run.holds = j->run.up = j->run.stopping = j->run.delivered = j->run.stop_now = false;
    j->run.n = 0;
    j->run.devices = (struct gpu_set){0};
    g->n_running--;
}
