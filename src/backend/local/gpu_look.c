/* gpu_look.c - one look at all devices: what was found, where to look, and what belongs to whom
 *
 * foreign_bytes of a device is what processes that are no run of ours hold on it.  When the driver
 * does not tell the memory of such a process (MPS, virtual machines), it is what is used beyond our
 * own runs and the driver's own share.
 */
#include "backend/local/gpu_priv.h"
#include <stdarg.h>
#include <stdio.h>

#define MIB (INT64_C(1) << 20)

void gpu_look_clear(struct gpu_look *l)
{
    vec_clear(&l->devices);
    vec_clear(&l->procs);
    vec_clear(&l->runs);
    l->drivers[0] = 0;
}

void gpu_look_done(struct gpu_look *l)
{
    vec_done(&l->devices);
    vec_done(&l->procs);
    vec_done(&l->runs);
}

struct device *gpu_look_device(struct gpu_look *l, enum device_vendor vendor, int32_t ordinal)
{
    struct device d = {.vendor = vendor,
                       .ordinal = ordinal,
                       .state = DEVICE_OK,
                       .used_bytes = -1,
                       .busy_percent = -1,
                       .power_mw = -1};

    vec_push(&l->devices, d);
    return &vec_last(&l->devices);
}

void gpu_look_say(struct gpu_look *l, const char *fmt, ...)
{
    size_t n = strlen(l->drivers);
    va_list ap;

    if (n)
        n += (size_t)snprintf(l->drivers + n, sizeof(l->drivers) - n, "; ");
    if (n >= sizeof(l->drivers))
        return;
    va_start(ap, fmt);
    vsnprintf(l->drivers + n, sizeof(l->drivers) - n, fmt, ap);
    va_end(ap);
}

void gpu_look_process(struct gpu_look *l, int32_t pid, uint32_t device, int64_t bytes)
{
    /* Those of one device come together. */
    for (size_t i = l->procs.n; i-- > 0 && l->procs.p[i].device == device;)
        if (l->procs.p[i].pid == pid) {
            l->procs.p[i].bytes = MAX(l->procs.p[i].bytes, bytes);
            return;
        }
    vec_push(&l->procs, ((struct gpu_proc){pid, device, bytes}));
}

/* ---- where to look ---- */

bool gpu_sources_likely(void)
{
    static const char *const said[] = {"BERTH_NVML_LIBRARY", "BERTH_ROCM_LIBRARY",
                                       "BERTH_SYSFS_ROOT"};
    static const char *const signs[] = {"/dev/nvidiactl", "/proc/driver/nvidia/version",
                                        "/dev/dxg", /* Windows' Linux */
                                        "/dev/kfd", "/sys/module/amdgpu"};

    for (size_t i = 0; i < ARRAY_SIZE(said); i++)
        if (getenv(said[i]) && *getenv(said[i]))
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
        if (access(signs[i], F_OK) == 0)
            return true;
    return false;
}

/* A source that is not there is noted in `lacking`, for the operator. */
static bool source_open(struct gpu_sources *s, const struct gpu_source *cls)
{
    struct err e = {0};
    void *self = cls->open(&e);
    size_t n = strlen(s->lacking);

    if (!self) {
        snprintf(s->lacking + n, sizeof(s->lacking) - n, "%s%s", n ? "; " : "", e.text);
        return false;
    }
    s->p[s->n].cls = cls;
    s->p[s->n++].self = self;
    return true;
}

void gpu_sources_open(struct gpu_sources *s)
{
    *s = (struct gpu_sources){0};
    source_open(s, &gpu_nvml);
    if (!source_open(s, &gpu_rocm))
        source_open(s, &gpu_sysfs);
}

void gpu_sources_read(struct gpu_sources *s, struct gpu_look *out)
{
    gpu_look_clear(out);
    for (size_t i = 0; i < s->n; i++)
        s->p[i].cls->read(s->p[i].self, out);
    if (!s->n)
        gpu_look_say(out, "%s", s->lacking);
    if (out->devices.n > NODE_MAX_GPUS)
        out->devices.n = NODE_MAX_GPUS;
}

void gpu_sources_close(struct gpu_sources *s)
{
    for (size_t i = 0; i < s->n; i++)
        s->p[i].cls->close(s->p[i].self);
    s->n = 0;
}

/* ---- what belongs to whom ---- */

struct share { /* of one run on one device */
    struct run_key key;
    uint32_t device;
    int64_t bytes;
};
/* Sums in bytes.  *_untold: the driver does not tell the memory of at least one such process. */
struct per_device {
    int64_t ours, foreign;
    bool ours_untold, foreign_untold;
};

static int by_run(const void *x, const void *y)
{
    const struct share *a = x, *b = y;

    if (a->key.job != b->key.job)
        return a->key.job < b->key.job ? -1 : 1;
    if (a->key.run != b->key.run)
        return a->key.run < b->key.run ? -1 : 1;
    return a->device < b->device ? -1 : a->device > b->device;
}

/* The largest sum over the devices of each run. */
static void look_fold_runs(struct gpu_look *l, const struct share *s, size_t n)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        bool same_run = i && s[i].key.job == s[i - 1].key.job && s[i].key.run == s[i - 1].key.run;
        if (!same_run)
            vec_push(&l->runs, ((struct run_memory){s[i].key, 0}));
        sum = same_run && s[i].device == s[i - 1].device ? sum + s[i].bytes : s[i].bytes;
        vec_last(&l->runs).bytes = MAX(vec_last(&l->runs).bytes, sum);
    }
}

static void count(struct per_device *d, bool ours, int64_t bytes)
{
    bool *untold = ours ? &d->ours_untold : &d->foreign_untold;
    int64_t *sum = ours ? &d->ours : &d->foreign;

    if (bytes < 0)
        *untold = true;
    else
        *sum += bytes;
}

/* `driver` estimates what the driver itself uses: 3 % of the memory, at least 512 MiB.  If the
 * memory of own processes is not known either, the rest cannot be attributed. */
static int64_t foreign_bytes(const struct device *d, const struct per_device *p)
{
    int64_t driver = MAX(512 * MIB, d->mem_bytes / 100 * 3);

    if (!p->foreign_untold || p->ours_untold || d->used_bytes < 0)
        return p->foreign;
    int64_t rest = d->used_bytes - p->ours - driver;
    return MAX(p->foreign, rest);
}

void gpu_attribute(struct gpu_look *l, gpu_owner_fn owner, void *arg)
{
    AUTO_FREE struct per_device *per = xcalloc(l->devices.n + 1, sizeof(*per));
    VEC(struct share) shares = {0};
    struct run_key key;

    vec_clear(&l->runs);
    for (size_t i = 0; i < l->procs.n; i++) {
        const struct gpu_proc *p = &l->procs.p[i];
        if (p->device >= l->devices.n)
            continue;
        enum gpu_owner who = owner(arg, p->pid, &key);
        if (who == GPU_OWNER_UNCLEAR)
            continue;
        count(&per[p->device], who == GPU_OWNER_RUN, p->bytes);
        if (who == GPU_OWNER_RUN && p->bytes >= 0)
            vec_push(&shares, ((struct share){key, p->device, p->bytes}));
    }
    if (shares.n)
        qsort(shares.p, shares.n, sizeof(*shares.p), by_run);
    look_fold_runs(l, shares.p, shares.n);
    for (size_t i = 0; i < l->devices.n; i++)
        l->devices.p[i].foreign_bytes = foreign_bytes(&l->devices.p[i], &per[i]);
    vec_done(&shares);
}
