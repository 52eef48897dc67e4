/* node.c - does a request fit on a node, and what runs hold of it
 *
 * A request that leaves CPUs or memory unstated (0) takes none of them, only its slots.  Devices
 * are known by their place in the node; several runs may be on one.
 */
#include "model/node.h"
#include "base/util.h"

bool node_admits(const struct node *n, uint32_t uid)
{
    const struct node_users *u = n->users;
    size_t i = 0;

    if (!u || u->all)
        return true;
    while (i < u->n && u->uids[i] != uid)
        i++;
    return i < u->n;
}

struct gpu_set node_gpus(const struct node *n)
{
    struct gpu_set all = {0};

    for (size_t i = 0; i < n->n_devices && i < NODE_MAX_GPUS; i++)
        gpu_set_add(&all, (uint32_t)i);
    return all;
}

struct gpu_set node_free_gpus(const struct node *n, const struct usage *u)
{
    struct gpu_set idle = node_gpus(n);

    gpu_set_subtract(&idle, &u->gpus);
    return idle;
}

static int32_t count_free(const struct node *n, const struct usage *u)
{
    struct gpu_set idle = node_free_gpus(n, u);

    return gpu_set_count(&idle);
}

bool resources_fit(const struct node *n, const struct usage *u, const struct resources *need)
{
    if (u->slots + need->slots > n->slots)
        return false;
    if (need->mcpu && u->mcpu + need->mcpu > n->mcpu)
        return false;
    if (need->mem_bytes && u->mem_bytes + need->mem_bytes > n->mem_bytes)
        return false;
    return !need->gpus || need->gpus <= count_free(n, u);
}

bool resources_ever_fit(const struct node *n, const struct resources *need)
{
    static const struct usage nothing;

    return resources_fit(n, &nothing, need);
}

/* The same rules as resources_fit: what a request leaves at 0 is never missing. */
struct resources resources_missing(const struct node *n, const struct usage *u,
                                   const struct resources *need)
{
    struct resources lack = {0};

    lack.slots = MAX(u->slots + need->slots - n->slots, 0);
    if (need->mcpu)
        lack.mcpu = MAX(u->mcpu + need->mcpu - n->mcpu, 0);
    if (need->mem_bytes)
        lack.mem_bytes = MAX(u->mem_bytes + need->mem_bytes - n->mem_bytes, 0);
    if (need->gpus)
        lack.gpus = MAX(need->gpus - count_free(n, u), 0);
    return lack;
}

void usage_add(struct usage *u, const struct resources *need, const struct gpu_set *gpus)
{
    for (int32_t i = gpu_set_next(gpus, 0); i >= 0; i = gpu_set_after(gpus, i)) {
        /* The planner allows only a few runs on a device; 255 would be a broken count. */
        ASSERT(u->on_gpu[i] < UINT8_MAX);
        u->on_gpu[i]++;
        gpu_set_add(&u->gpus, (uint32_t)i);
    }
    u->slots += need->slots;
    u->mcpu += need->mcpu;
    u->mem_bytes += need->mem_bytes;
    u->runs++;
}

void usage_sub(struct usage *u, const struct resources *need, const struct gpu_set *gpus)
{
    for (int32_t i = gpu_set_next(gpus, 0); i >= 0; i = gpu_set_after(gpus, i)) {
        ASSERT(u->on_gpu[i]);
        if (!--u->on_gpu[i])
            gpu_set_del(&u->gpus, (uint32_t)i);
    }
    u->slots -= need->slots;
    u->mcpu -= need->mcpu;
    u->mem_bytes -= need->mem_bytes;
    u->runs--;
    ASSERT(u->slots >= 0 && u->mcpu >= 0 && u->mem_bytes >= 0 && u->runs >= 0);
}
