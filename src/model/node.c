/* node.c - does a request fit on a node, and what runs hold of it
 *
 * A request that leaves CPUs or memory unstated (0) takes none of them, only its slots.  GPUs are
 * whole devices: bit i of a usage stands for the device with index i.
 */
#include "model/node.h"
#include "base/util.h"

uint64_t node_gpu_mask(const struct node *n)
{
    uint64_t mask = 0;

    for (size_t i = 0; i < n->n_devices; i++) {
        int32_t index = n->devices ? n->devices[i].index : (int32_t)i;
        if (index >= 0 && index < NODE_MAX_GPUS)
            mask |= UINT64_C(1) << index;
    }
    return mask;
}

int32_t gpu_count(uint64_t mask)
{
    return __builtin_popcountll(mask);
}

uint64_t gpus_lowest(uint64_t free_mask, int32_t count)
{
    uint64_t picked = 0;

    for (; count > 0 && free_mask; count--) {
        picked |= free_mask & -free_mask;
        free_mask &= free_mask - 1;
    }
    return picked;
}

bool resources_fit(const struct node *n, const struct usage *u, const struct resources *need)
{
    if (u->slots + need->slots > n->slots)
        return false;
    if (need->mcpu && u->mcpu + need->mcpu > n->mcpu)
        return false;
    if (need->mem_bytes && u->mem_bytes + need->mem_bytes > n->mem_bytes)
        return false;
    return !need->gpus || need->gpus <= gpu_count(node_gpu_mask(n) & ~u->gpus);
}

bool resources_ever_fit(const struct node *n, const struct resources *need)
{
    static const struct usage nothing;

    return resources_fit(n, &nothing, need);
}

struct resources resources_missing(const struct node *n, const struct usage *u,
                                   const struct resources *need)
{
    struct resources lack = {0};
    int32_t free_gpus = gpu_count(node_gpu_mask(n) & ~u->gpus);

    lack.slots = MAX(u->slots + need->slots - n->slots, 0);
    if (need->mcpu)
        lack.mcpu = MAX(u->mcpu + need->mcpu - n->mcpu, 0);
    if (need->mem_bytes)
        lack.mem_bytes = MAX(u->mem_bytes + need->mem_bytes - n->mem_bytes, 0);
    if (need->gpus)
        lack.gpus = MAX(need->gpus - free_gpus, 0);
    return lack;
}

bool resources_equal(const struct resources *a, const struct resources *b)
{
    return a->mcpu == b->mcpu && a->mem_bytes == b->mem_bytes && a->gpus == b->gpus &&
           a->slots == b->slots;
}

void usage_add(struct usage *u, const struct resources *need, uint64_t gpus)
{
    ASSERT(!(u->gpus & gpus)); /* a device is given to one run at a time */
    u->slots += need->slots;
    u->mcpu += need->mcpu;
    u->mem_bytes += need->mem_bytes;
    u->gpus |= gpus;
    u->runs++;
}

void usage_sub(struct usage *u, const struct resources *need, uint64_t gpus)
{
    ASSERT((u->gpus & gpus) == gpus);
    u->slots -= need->slots;
    u->mcpu -= need->mcpu;
    u->mem_bytes -= need->mem_bytes;
    u->gpus &= ~gpus;
    u->runs--;
    ASSERT(u->slots >= 0 && u->mcpu >= 0 && u->mem_bytes >= 0 && u->runs >= 0);
}
