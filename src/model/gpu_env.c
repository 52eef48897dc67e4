/* gpu_env.c - the variables by which a job sees its GPUs and no others
 *
 * NVIDIA: CUDA_VISIBLE_DEVICES for programs, NVIDIA_VISIBLE_DEVICES for container engines.  AMD:
 * ROCR_VISIBLE_DEVICES alone, since HIP takes CUDA_VISIBLE_DEVICES for numbers within that.  UUIDs
 * stay right when a driver counts its devices differently than we do, or loses one; a list of them
 * may not contain numbers.
 */
#include "model/gpu_env.h"
#include "base/buf.h"
#include "base/util.h"

/* Linux passes no longer variable to a program. */
enum { VALUE_MAX = 128 << 10 };

/* Other names, such as "gpu-0", are our own and mean nothing to a driver. */
static bool has_uuid(const struct device *d)
{
    return str_starts(str_of(d->uuid), STR("GPU-")) || str_starts(str_of(d->uuid), STR("MIG-"));
}

/* The devices of that vendor as a list; false when there are none. */
static bool list(struct buf *b, const struct node *n, const struct gpu_set *devices, bool amd)
{
    /* The first pass decides whether all devices have UUIDs, the second one writes. */
    bool uuids = true;

    buf_reset(b);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n->n_devices; i++) {
            const struct device *d = &n->devices[i];
            if (!gpu_set_has(devices, (uint32_t)i) || (d->vendor == DEVICE_AMD) != amd)
                continue;
            if (pass == 0)
                uuids = uuids && has_uuid(d);
            else if (uuids)
                buf_addf(b, "%s%s", b->n ? "," : "", d->uuid);
            else
                buf_addf(b, "%s%d", b->n ? "," : "", (int)d->ordinal);
        }
    return b->n > 0;
}

void gpu_env(const struct node *n, const struct gpu_set *devices,
             void (*set)(void *arg, const char *key, const char *value), void *arg)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, VALUE_MAX);
    if (list(&b, n, devices, false)) {
        set(arg, "CUDA_VISIBLE_DEVICES", b.p);
        set(arg, "NVIDIA_VISIBLE_DEVICES", b.p);
    }
    if (list(&b, n, devices, true))
        set(arg, "ROCR_VISIBLE_DEVICES", b.p);
}
