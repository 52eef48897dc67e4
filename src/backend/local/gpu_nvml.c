/* gpu_nvml.c - NVIDIA's devices, through the driver's management library
 *
 * libnvidia-ml.so.1 comes with the driver and is loaded when it is there; its prototypes are
 * declared here, as published.  Entry points have versions: the newest that the library exports is
 * used.  Only init, count, handle, UUID and memory are needed; a library that lacks another, or a
 * device that does not support it, leaves a gauge unknown.
 *
 * A GPU in MIG mode is no device: its slices are, each under its own UUID.
 *
 * A device that answers with an error is lost.  The library finds devices only when it is
 * initialised, so while one is lost it is initialised anew now and then.
 */
#include "backend/local/gpu_priv.h"
#include "base/clock.h"
#include <dlfcn.h>
#include <stdio.h>

enum {
    NVML_SUCCESS = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_FUNCTION_NOT_FOUND = 13,
    COMPUTE_MODE_PROHIBITED = 2,
    TEXT_MAX = 96,
    ENTRY_V1 = 16, /* u32 pid, u64 memory */
    ENTRY_V2 = 24, /* and u32 GPU instance, u32 compute instance; _v3 is the same */
    ENTRY_ODD = 32,
    PROCESSES_MAX = 65536,
    PID_LIMIT = 1 << 22,
    MIG_SLICES_MAX = 64,
    INIT_AGAIN_MS = 20000, /* it may take a second, and wakes devices that sleep */
};
#define MEMORY_NOT_TOLD UINT64_MAX

typedef void *nvml_device;
struct nvml_memory {
    uint64_t total, free, used;
};
struct nvml_utilisation {
    uint32_t gpu, memory;
};
typedef int (*nvml_list_fn)(nvml_device, unsigned *n, void *entries);

struct known { /* what a place among the library's devices held when it last answered */
    char uuid[64], name[64];
    int64_t mem_bytes;
    bool sliced;
};
/* The functions that the library exports; NULL = it lacks this one.  Used by the watch's thread
 * alone. */
struct nvml {
    void *lib;
    char path[128];
    bool up, doubtful; /* doubtful: something would not answer */
    int64_t init_ms;   /* monotonic: when it was last initialised */
    size_t entry_size; /* of compute and MPS lists: see nvml_entries_plausible */
    VEC(struct known) known;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int);
    int (*driver_version)(char *, unsigned);
    int (*count)(unsigned *);
    int (*handle)(unsigned, nvml_device *);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*name)(nvml_device, char *, unsigned);
    int (*memory)(nvml_device, struct nvml_memory *);
    int (*utilisation)(nvml_device, struct nvml_utilisation *);
    int (*power)(nvml_device, unsigned *);
    int (*compute_mode)(nvml_device, unsigned *);
    int (*mig_mode)(nvml_device, unsigned *, unsigned *);
    int (*mig_max)(nvml_device, unsigned *);
    int (*mig_handle)(nvml_device, unsigned, nvml_device *);
    nvml_list_fn compute, mps, graphics;
};

/* ---- loading ---- */

#define AT(member) offsetof(struct nvml, member)
static const struct symbol {
    size_t at;
    bool needed;
    const char *names[2]; /* newest first */
} symbols[] = {
    {AT(init), true, {"nvmlInit_v2", "nvmlInit"}},
    {AT(shutdown), false, {"nvmlShutdown"}},
    {AT(error_string), false, {"nvmlErrorString"}},
    {AT(driver_version), false, {"nvmlSystemGetDriverVersion"}},
    {AT(count), true, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}},
    {AT(handle), true, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}},
    {AT(uuid), true, {"nvmlDeviceGetUUID"}},
    {AT(name), false, {"nvmlDeviceGetName"}},
    {AT(memory), true, {"nvmlDeviceGetMemoryInfo"}},
    {AT(utilisation), false, {"nvmlDeviceGetUtilizationRates"}},
    {AT(power), false, {"nvmlDeviceGetPowerUsage"}},
    {AT(compute_mode), false, {"nvmlDeviceGetComputeMode"}},
    {AT(mig_mode), false, {"nvmlDeviceGetMigMode"}},
    {AT(mig_max), false, {"nvmlDeviceGetMaxMigDeviceCount"}},
    {AT(mig_handle), false, {"nvmlDeviceGetMigDeviceHandleByIndex"}},
};

/* One version for all lists, so that they agree about the size of an entry. */
static void bind_lists(struct nvml *n)
{
    static const struct {
        const char *suffix;
        size_t entry;
    } versions[] = {{"_v3", ENTRY_V2}, {"_v2", ENTRY_V2}, {"", ENTRY_V1}};
    char name[80];

    for (size_t i = 0; i < ARRAY_SIZE(versions) && !n->compute; i++) {
        const char *suffix = versions[i].suffix;
        snprintf(name, sizeof(name), "nvmlDeviceGetComputeRunningProcesses%s", suffix);
        *(void **)&n->compute = dlsym(n->lib, name);
        snprintf(name, sizeof(name), "nvmlDeviceGetMPSComputeRunningProcesses%s", suffix);
        *(void **)&n->mps = dlsym(n->lib, name);
        snprintf(name, sizeof(name), "nvmlDeviceGetGraphicsRunningProcesses%s", suffix);
        *(void **)&n->graphics = dlsym(n->lib, name);
        n->entry_size = versions[i].entry;
    }
}

static int bind_symbols(struct nvml *n, struct err *e)
{
    for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
        void **to = (void **)((char *)n + symbols[i].at);
        for (size_t k = 0; k < 2 && symbols[i].names[k] && !*to; k++)
            *to = dlsym(n->lib, symbols[i].names[k]);
        if (symbols[i].needed && !*to)
            return err_set(e, ERR_UNAVAILABLE, "%s has no %s: it is not NVIDIA's library", n->path,
                           symbols[i].names[0]);
    }
    bind_lists(n);
    return 0;
}

/* The library's own words, or the number in `out`. */
static const char *nvml_error_text(const struct nvml *n, int rc, char out[40])
{
    const char *text = n->error_string ? n->error_string(rc) : NULL;

    if (text && *text)
        return text;
    snprintf(out, 40, "error %d", rc);
    return out;
}

/* The library itself stays loaded for good: drivers leave threads and handlers behind. */
static void nvml_close(void *self)
{
    struct nvml *n = self;

    if (n->up && n->shutdown)
        n->shutdown();
    vec_done(&n->known);
    free(n);
}

static void *nvml_open(struct err *e)
{
    const char *path = getenv("BERTH_NVML_LIBRARY");
    struct nvml *n = xcalloc(1, sizeof(*n));

    snprintf(n->path, sizeof(n->path), "%s", path && *path ? path : "libnvidia-ml.so.1");
    n->doubtful = true;
    n->lib = dlopen(n->path, RTLD_NOW | RTLD_LOCAL);
    if (!n->lib) {
        err_set(e, ERR_NOT_FOUND, "NVML cannot be loaded (%s)", dlerror());
        free(n);
        return NULL;
    }
    if (bind_symbols(n, e) < 0) {
        nvml_close(n);
        return NULL;
    }
    return n;
}

/* ---- processes ---- */

/* memcpy, because the list is an array of bytes whose entries have no type here. */
static uint64_t entry_memory(const char *entry)
{
    uint64_t v;

    memcpy(&v, entry + 8, sizeof(v));
    return v;
}

static uint32_t entry_pid(const char *entry)
{
    uint32_t v;

    memcpy(&v, entry, sizeof(v));
    return v;
}

bool nvml_entries_plausible(const void *entries, size_t n, size_t size, uint64_t total)
{
    for (size_t i = 0; i < n; i++) {
        const char *at = (const char *)entries + i * size;
        if (!entry_pid(at) || entry_pid(at) > PID_LIMIT ||
            (entry_memory(at) > total && entry_memory(at) != MEMORY_NOT_TOLD))
            return false;
    }
    return true;
}

/* Yours; NULL when there are none or the list is not to be had.  There is room for the largest kind
 * of entry whatever the library says it writes. */
static char *list_read(nvml_list_fn fn, nvml_device dev, unsigned *out_n)
{
    unsigned n = 0;

    *out_n = 0;
    int rc = fn(dev, &n, NULL);
    for (int tries = 0; rc == NVML_INSUFFICIENT_SIZE && n <= PROCESSES_MAX && tries < 5; tries++) {
        n += 8; /* some may start between the two calls */
        char *entries = xcalloc(n, ENTRY_ODD);
        rc = fn(dev, &n, entries);
        if (rc == NVML_SUCCESS && n) {
            *out_n = n;
            return entries;
        }
        free(entries);
    }
    return NULL;
}

/* The size of an entry cannot be asked for.  With two or more entries a wrong size shows: pids
 * or sizes that cannot be; the size is then corrected for good. */
static void add_processes(struct nvml *n, nvml_list_fn fn, nvml_device dev, uint32_t device,
                          struct gpu_look *out)
{
    unsigned count;
    uint64_t total = (uint64_t)out->devices.p[device].mem_bytes;

    if (!fn)
        return;
    AUTO_FREE char *entries = list_read(fn, dev, &count);
    if (total && n->entry_size == ENTRY_V2 && count > 1 &&
        !nvml_entries_plausible(entries, count, ENTRY_V2, total) &&
        nvml_entries_plausible(entries, count, ENTRY_ODD, total))
        n->entry_size = ENTRY_ODD;
    for (unsigned i = 0; i < count; i++) {
        const char *at = entries + (size_t)i * n->entry_size;
        uint64_t bytes = entry_memory(at);
        if (entry_pid(at))
            gpu_look_process(out, (int32_t)entry_pid(at), device,
                             bytes > INT64_MAX ? -1 : (int64_t)bytes);
    }
}

/* ---- devices ---- */

/* Errors that speak of a question, not of the device. */
static bool harmless(int rc)
{
    return rc == NVML_SUCCESS || rc == NVML_NOT_SUPPORTED || rc == NVML_NO_PERMISSION ||
           rc == NVML_NOT_FOUND || rc == NVML_FUNCTION_NOT_FOUND;
}

/* `doubtful` has the library initialised again later, which may find the device. */
static void mark_lost(struct nvml *n, struct device *d, int rc)
{
    char number[40];

    if (d->state == DEVICE_LOST)
        return;
    d->state = DEVICE_LOST;
    snprintf(d->trouble, sizeof(d->trouble), "%s", nvml_error_text(n, rc, number));
    n->doubtful = true;
}

/* A gauge that is not supported stays at -1; an error that is not harmless marks the device as
 * lost. */
static void read_gauges(struct nvml *n, nvml_device dev, struct device *d)
{
    struct nvml_memory m = {0};
    struct nvml_utilisation u = {0};
    unsigned v = 0;
    int rc = n->memory(dev, &m);

    if (rc == NVML_SUCCESS) {
        d->mem_bytes = (int64_t)MIN(m.total, (uint64_t)INT64_MAX);
        d->used_bytes = (int64_t)MIN(m.used, m.total);
    } else if (!harmless(rc)) {
        mark_lost(n, d, rc);
        return;
    }
    if (n->utilisation && (rc = n->utilisation(dev, &u)) == NVML_SUCCESS)
        d->busy_percent = (int32_t)MIN(u.gpu, 100u);
    else if (!harmless(rc))
        mark_lost(n, d, rc);
    if (n->power && n->power(dev, &v) == NVML_SUCCESS)
        d->power_mw = (int32_t)MIN(v, (unsigned)INT32_MAX);
    if (n->compute_mode && n->compute_mode(dev, &v) == NVML_SUCCESS &&
        v == COMPUTE_MODE_PROHIBITED && d->state == DEVICE_OK) {
        d->state = DEVICE_EXCLUDED;
        snprintf(d->trouble, sizeof(d->trouble), "its compute mode is Prohibited");
    }
}

/* A GPU or a slice of one.  False when it does not even tell its name. */
static bool nvml_read_device(struct nvml *n, nvml_device dev, int32_t ordinal, struct gpu_look *out,
                             int *rc)
{
    char uuid[TEXT_MAX] = "", name[TEXT_MAX] = "";

    *rc = n->uuid(dev, uuid, sizeof(uuid));
    if (*rc != NVML_SUCCESS || !uuid[0])
        return false;
    if (!n->name || n->name(dev, name, sizeof(name)) != NVML_SUCCESS || !name[0])
        snprintf(name, sizeof(name), "NVIDIA GPU");
    uint32_t at = (uint32_t)out->devices.n;
    struct device *d = gpu_look_device(out, DEVICE_NVIDIA, ordinal);
    snprintf(d->uuid, sizeof(d->uuid), "%s", uuid);
    snprintf(d->kind, sizeof(d->kind), "%s", name);
    read_gauges(n, dev, d);
    if (d->state != DEVICE_LOST) {
        add_processes(n, n->compute, dev, at, out);
        add_processes(n, n->mps, dev, at, out);
        add_processes(n, n->graphics, dev, at, out);
    }
    return true;
}

/* True when the GPU is in MIG mode: whatever slices it has are its devices. */
static bool read_slices(struct nvml *n, nvml_device dev, int32_t ordinal, struct gpu_look *out)
{
    unsigned now = 0, next, max = MIG_SLICES_MAX;
    int rc;

    if (!n->mig_mode || !n->mig_handle || n->mig_mode(dev, &now, &next) != NVML_SUCCESS || now != 1)
        return false;
    if (n->mig_max && n->mig_max(dev, &max) != NVML_SUCCESS)
        max = MIG_SLICES_MAX;
    for (unsigned i = 0; i < MIN(max, (unsigned)MIG_SLICES_MAX); i++) {
        nvml_device slice;
        if (n->mig_handle(dev, i, &slice) == NVML_SUCCESS)
            nvml_read_device(n, slice, ordinal, out, &rc);
    }
    return true;
}

/* Place i does not answer: what was there is lost.  Slices are missed by whoever knew them. */
static void read_lost(struct nvml *n, unsigned i, int rc, struct gpu_look *out)
{
    struct known *k = &n->known.p[i];

    n->doubtful = true;
    if (k->sliced)
        return;
    struct device *d = gpu_look_device(out, DEVICE_NVIDIA, (int32_t)i);
    snprintf(d->uuid, sizeof(d->uuid), "%s", k->uuid);
    snprintf(d->kind, sizeof(d->kind), "%s", k->name[0] ? k->name : "NVIDIA GPU");
    d->mem_bytes = k->mem_bytes;
    mark_lost(n, d, rc);
}

static void read_place(struct nvml *n, unsigned i, struct gpu_look *out)
{
    nvml_device dev;
    size_t first = out->devices.n;
    int rc = n->handle(i, &dev);

    if (rc == NVML_NO_PERMISSION)
        return; /* kept from us by a container: not ours to know */
    if (rc != NVML_SUCCESS) {
        read_lost(n, i, rc, out);
        return;
    }
    struct known *k = &n->known.p[i];
    k->sliced = read_slices(n, dev, (int32_t)i, out);
    if (k->sliced)
        return;
    if (!nvml_read_device(n, dev, (int32_t)i, out, &rc)) {
        read_lost(n, i, rc, out);
        return;
    }
    struct device *d = &out->devices.p[first];
    snprintf(k->uuid, sizeof(k->uuid), "%s", d->uuid);
    snprintf(k->name, sizeof(k->name), "%s", d->kind);
    if (d->mem_bytes)
        k->mem_bytes = d->mem_bytes;
    d->mem_bytes = k->mem_bytes;
}

/* Initialises again at most every INIT_AGAIN_MS, and only while something did not answer. */
static int nvml_start(struct nvml *n)
{
    int64_t now = clock_mono(&clock_system);

    if (n->up && (!n->doubtful || now - n->init_ms < INIT_AGAIN_MS))
        return NVML_SUCCESS;
    if (n->up && n->shutdown)
        n->shutdown();
    n->init_ms = now;
    int rc = n->init();
    n->up = rc == NVML_SUCCESS;
    return rc;
}

static void nvml_read(void *self, struct gpu_look *out)
{
    struct nvml *n = self;
    unsigned count = 0;
    char version[TEXT_MAX] = "", number[40];
    int rc = nvml_start(n);

    n->doubtful = false;
    if (rc == NVML_SUCCESS)
        rc = n->count(&count);
    if (rc != NVML_SUCCESS) {
        n->doubtful = true;
        gpu_look_say(out, "NVML (%s): %s", n->path, nvml_error_text(n, rc, number));
        return;
    }
    if (n->driver_version)
        n->driver_version(version, sizeof(version));
    gpu_look_say(out, "NVML (%s%s%s)", n->path, version[0] ? ", driver " : "", version);
    count = MIN(count, (unsigned)NODE_MAX_GPUS);
    while (n->known.n < count)
        vec_push(&n->known, ((struct known){0}));
    for (unsigned i = 0; i < count; i++)
        read_place(n, i, out);
}

const struct gpu_source gpu_nvml = {nvml_open, nvml_read, nvml_close};
