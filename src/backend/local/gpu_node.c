/* gpu_node.c - the devices of a node, from one look at the drivers to the next
 *
 * Devices are found once, when the node opens, and keep their places for its life: runs are
 * recorded with them.  They are known by their UUIDs.  One that is missing from a look is lost; one
 * whose UUID was never seen, because it did not answer at the start, is whatever appears in its
 * place.
 */
#include "backend/local/gpu_priv.h"
#include <stdio.h>

/* A device of which the real UUID was never seen. */
static bool placeholder(const struct device *d)
{
    return d->state == DEVICE_UNSEEN || str_starts(str_of(d->uuid), STR("gpu-"));
}

void gpu_node_init(struct node *n, const struct gpu_look *first, int64_t gpus)
{
    size_t want = gpus >= 0 ? (size_t)gpus : first ? first->devices.n : 0;

    want = MIN(want, (size_t)NODE_MAX_GPUS);
    n->devices = xcalloc(MAX(want, 1), sizeof(*n->devices));
    n->n_devices = want;
    for (size_t i = 0; i < want; i++) {
        struct device *d = &n->devices[i];
        if (first && i < first->devices.n) {
            *d = first->devices.p[i];
        } else {
            *d = (struct device){.used_bytes = -1, .busy_percent = -1, .power_mw = -1};
            d->ordinal = (int32_t)i;
        }
        d->index = (int32_t)i;
        if (!d->uuid[0])
            snprintf(d->uuid, sizeof(d->uuid), "gpu-%zu", i);
        if (!d->kind[0])
            snprintf(d->kind, sizeof(d->kind), "gpu");
    }
}

struct teller {
    void (*notice)(void *arg, const char *text);
    void *arg;
};

__attribute__((format(printf, 2, 3))) static void node_notice(const struct teller *t,
                                                              const char *fmt, ...)
{
    char text[400];

    FORMAT_ARGS(text, fmt);
    t->notice(t->arg, text);
}

/* `at`: its place in the look. */
static struct device *node_device_find(struct node *n, const struct device *seen, size_t at,
                                       const bool *taken)
{
    if (at < n->n_devices && seen->uuid[0] && !strcmp(n->devices[at].uuid, seen->uuid) &&
        !taken[at])
        return &n->devices[at]; /* nearly always: a thousand devices are a million pairs */
    for (size_t i = 0; seen->uuid[0] && i < n->n_devices; i++)
        if (!taken[i] && !strcmp(n->devices[i].uuid, seen->uuid))
            return &n->devices[i];
    for (size_t i = 0; i < n->n_devices; i++) {
        struct device *d = &n->devices[i];
        bool here = d->vendor == DEVICE_ANY
                        ? i == at
                        : d->vendor == seen->vendor && d->ordinal == seen->ordinal;
        if (!taken[i] && placeholder(d) && here)
            return d;
    }
    return NULL;
}

/* One notice per change, not per look. */
static void tell_change(const struct teller *t, const struct device *was, const struct device *now)
{
    if (was->state != DEVICE_LOST && now->state == DEVICE_LOST)
        node_notice(t,
                    "GPU %d (%s, %s) is lost: %s; nothing is placed on it until it answers again, "
                    "%s or dmesg may tell more",
                    (int)now->index, now->kind, now->uuid, now->trouble,
                    now->vendor == DEVICE_AMD ? "rocm-smi" : "nvidia-smi");
    else if (was->state == DEVICE_LOST && now->state != DEVICE_LOST)
        node_notice(t, "GPU %d (%s, %s) is back", (int)now->index, now->kind, now->uuid);
    else if (was->state == DEVICE_OK && now->state == DEVICE_EXCLUDED)
        node_notice(t, "GPU %d (%s, %s) is not used any more: %s", (int)now->index, now->kind,
                    now->uuid, now->trouble);
}

/* What a lost device cannot tell (UUID, size of its memory) is kept from before. */
static void update_one(struct device *d, const struct device *seen, int64_t wall_ms,
                       const struct teller *t)
{
    struct device was = *d;

    *d = *seen;
    d->index = was.index;
    d->seen_ms = seen->state == DEVICE_LOST ? was.seen_ms : wall_ms;
    if (!d->uuid[0])
        snprintf(d->uuid, sizeof(d->uuid), "%s", was.uuid);
    if (!d->mem_bytes)
        d->mem_bytes = was.mem_bytes;
    tell_change(t, &was, d);
}

/* Unknown gauges are -1, so that nobody plans with old numbers. */
static void update_missing(struct device *d, const struct teller *t)
{
    struct device was = *d;

    if (d->vendor == DEVICE_ANY)
        return; /* never more than a number in the configuration */
    d->state = DEVICE_LOST;
    d->used_bytes = d->busy_percent = d->power_mw = -1;
    d->foreign_bytes = 0;
    if (was.state != DEVICE_LOST)
        snprintf(d->trouble, sizeof(d->trouble), "its driver does not list it any more");
    tell_change(t, &was, d);
}

void gpu_node_update(struct node *n, const struct gpu_look *l, int64_t wall_ms,
                     void (*notice)(void *arg, const char *text), void *arg)
{
    const struct teller t = {notice, arg};
    AUTO_FREE bool *taken = xcalloc(n->n_devices + 1, sizeof(*taken));

    for (size_t i = 0; i < l->devices.n; i++) {
        struct device *d = node_device_find(n, &l->devices.p[i], i, taken);
        if (!d)
            continue;
        taken[d - n->devices] = true;
        update_one(d, &l->devices.p[i], wall_ms, &t);
    }
    for (size_t i = 0; i < n->n_devices; i++)
        if (!taken[i])
            update_missing(&n->devices[i], &t);
}
