/* gpu_rocm.c - AMD's devices, through ROCm SMI
 *
 * librocm_smi64.so comes with ROCm and is loaded when it is there; its prototypes are declared
 * here, as published.  Without it gpu_sysfs.c reads the files the library reads.
 */
#include "backend/local/gpu_priv.h"
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>

enum { RSMI_OK = 0, RSMI_INSUFFICIENT_SIZE = 5, MEM_VRAM = 0, PROCESSES_MAX = 65536 };

/* As the library writes it; the layout must not change. */
struct rsmi_process {
    uint32_t pid, pasid;
    uint64_t vram_bytes, sdma_us;
    uint32_t occupancy;
};
struct rocm {
    void *lib;
    char path[128];
    bool up;
    int (*init)(uint64_t flags);
    int (*shut_down)(void);
    int (*count)(uint32_t *);
    int (*unique_id)(uint32_t, uint64_t *);
    int (*name)(uint32_t, char *, size_t);
    int (*mem_total)(uint32_t, int kind, uint64_t *);
    int (*mem_used)(uint32_t, int kind, uint64_t *);
    int (*busy)(uint32_t, uint32_t *);
    int (*power)(uint32_t, uint32_t sensor, uint64_t *microwatts);
    int (*processes)(struct rsmi_process *, uint32_t *);
    int (*process_gpus)(uint32_t pid, uint32_t *devices, uint32_t *n);
    int (*process_on)(uint32_t pid, uint32_t device, struct rsmi_process *);
};

#define AT(member) offsetof(struct rocm, member)
static const struct symbol {
    size_t at;
    bool needed;
    const char *name;
} symbols[] = {
    {AT(init), true, "rsmi_init"},
    {AT(shut_down), false, "rsmi_shut_down"},
    {AT(count), true, "rsmi_num_monitor_devices"},
    {AT(unique_id), false, "rsmi_dev_unique_id_get"},
    {AT(name), false, "rsmi_dev_name_get"},
    {AT(mem_total), true, "rsmi_dev_memory_total_get"},
    {AT(mem_used), true, "rsmi_dev_memory_usage_get"},
    {AT(busy), false, "rsmi_dev_busy_percent_get"},
    {AT(power), false, "rsmi_dev_power_ave_get"},
    {AT(processes), false, "rsmi_compute_process_info_get"},
    {AT(process_gpus), false, "rsmi_compute_process_gpus_get"},
    {AT(process_on), false, "rsmi_compute_process_info_by_device_get"},
};

static void rocm_close(void *self)
{
    struct rocm *r = self;

    if (r->up && r->shut_down)
        r->shut_down();
    free(r);
}

/* Fails also without a device, so that gpu_sysfs gets its chance. */
static int rocm_start(struct rocm *r, struct err *e)
{
    uint32_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
        void **to = (void **)((char *)r + symbols[i].at);
        *to = dlsym(r->lib, symbols[i].name);
        if (symbols[i].needed && !*to)
            return err_set(e, ERR_UNAVAILABLE, "%s has no %s: it is not ROCm SMI", r->path,
                           symbols[i].name);
    }
    int rc = r->init(0);
    if (rc != RSMI_OK)
        return err_set(e, ERR_UNAVAILABLE, "ROCm SMI does not start: error %d", rc);
    r->up = true;
    rc = r->count(&n);
    if (rc != RSMI_OK || !n)
        return err_set(e, ERR_NOT_FOUND, "ROCm SMI finds no device");
    return 0;
}

static void *rocm_open(struct err *e)
{
    const char *path = getenv("BERTH_ROCM_LIBRARY");
    static const char *const names[] = {"librocm_smi64.so", "librocm_smi64.so.7",
                                        "librocm_smi64.so.6", "librocm_smi64.so.5"};
    struct rocm *r = xcalloc(1, sizeof(*r));

    for (size_t i = 0; i < ARRAY_SIZE(names) && !r->lib; i++) {
        snprintf(r->path, sizeof(r->path), "%s", path && *path ? path : names[i]);
        r->lib = dlopen(r->path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!r->lib) {
        err_set(e, ERR_NOT_FOUND, "ROCm SMI cannot be loaded (%s)", dlerror());
        free(r);
        return NULL;
    }
    if (rocm_start(r, e) < 0) {
        rocm_close(r);
        return NULL;
    }
    return r;
}

/* Without a unique id the position stands for the device. */
static void rocm_read_device(struct rocm *r, uint32_t i, struct gpu_look *out)
{
    struct device *d = gpu_look_device(out, DEVICE_AMD, (int32_t)i);
    uint64_t v = 0;
    uint32_t percent = 0;

    if (r->unique_id && r->unique_id(i, &v) == RSMI_OK && v)
        snprintf(d->uuid, sizeof(d->uuid), "GPU-%016" PRIx64, v);
    else
        snprintf(d->uuid, sizeof(d->uuid), "amd-%u", i);
    if (!r->name || r->name(i, d->kind, sizeof(d->kind)) != RSMI_OK || !d->kind[0])
        snprintf(d->kind, sizeof(d->kind), "AMD GPU");
    d->kind[sizeof(d->kind) - 1] = 0;
    int rc = r->mem_total(i, MEM_VRAM, &v);
    if (rc == RSMI_OK)
        d->mem_bytes = (int64_t)MIN(v, (uint64_t)INT64_MAX);
    if (rc == RSMI_OK && (rc = r->mem_used(i, MEM_VRAM, &v)) == RSMI_OK)
        d->used_bytes = (int64_t)MIN(v, (uint64_t)INT64_MAX);
    if (rc != RSMI_OK) {
        d->state = DEVICE_LOST;
        snprintf(d->trouble, sizeof(d->trouble), "ROCm SMI error %d", rc);
        return;
    }
    if (r->busy && r->busy(i, &percent) == RSMI_OK)
        d->busy_percent = (int32_t)MIN(percent, 100u);
    if (r->power && r->power(i, 0, &v) == RSMI_OK)
        d->power_mw = (int32_t)MIN(v / 1000, (uint64_t)INT32_MAX);
}

/* The library knows which devices a process uses, and newer ones how much on each; older ones tell
 * the sum, which is then taken to be spread evenly. */
static void add_process(struct rocm *r, const struct rsmi_process *p, uint32_t first, uint32_t n,
                        struct gpu_look *out)
{
    uint32_t used = n;
    AUTO_FREE uint32_t *on = xcalloc(n + 1, sizeof(*on));

    if (!r->process_gpus || r->process_gpus(p->pid, on, &used) != RSMI_OK || used > n || !used)
        return;
    for (uint32_t i = 0; i < used; i++) {
        struct rsmi_process here = {0};
        uint64_t bytes = p->vram_bytes / used;
        if (on[i] >= n)
            continue;
        if (r->process_on && r->process_on(p->pid, on[i], &here) == RSMI_OK)
            bytes = here.vram_bytes;
        gpu_look_process(out, (int32_t)p->pid, first + on[i],
                         bytes > INT64_MAX ? -1 : (int64_t)bytes);
    }
}

static void read_processes(struct rocm *r, uint32_t first, uint32_t n, struct gpu_look *out)
{
    uint32_t count = 0;

    if (!r->processes || r->processes(NULL, &count) != RSMI_OK || !count || count > PROCESSES_MAX)
        return;
    uint32_t room = count += 8; /* some may start between the two calls */
    AUTO_FREE struct rsmi_process *all = xcalloc(room, sizeof(*all));
    int rc = r->processes(all, &count);
    if (rc != RSMI_OK && rc != RSMI_INSUFFICIENT_SIZE)
        return;
    for (uint32_t i = 0; i < MIN(count, room); i++)
        if (all[i].pid)
            add_process(r, &all[i], first, n, out);
}

static void rocm_read(void *self, struct gpu_look *out)
{
    struct rocm *r = self;
    uint32_t n = 0, first = (uint32_t)out->devices.n;
    int rc = r->count(&n);

    if (rc != RSMI_OK) {
        gpu_look_say(out, "ROCm SMI (%s): error %d", r->path, rc);
        return;
    }
    gpu_look_say(out, "ROCm SMI (%s)", r->path);
    n = MIN(n, (uint32_t)NODE_MAX_GPUS);
    for (uint32_t i = 0; i < n; i++)
        rocm_read_device(r, i, out);
    read_processes(r, first, n, out);
}

const struct gpu_source gpu_rocm = {rocm_open, rocm_read, rocm_close};
