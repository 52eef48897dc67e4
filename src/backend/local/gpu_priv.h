/* gpu_priv.h - the GPUs of this host: which, how full, and by whom
 *
 * A source (gpu_nvml.c, gpu_rocm.c, gpu_sysfs.c) reads devices and the processes on them from one
 * driver.  gpu_procs.c finds out which run a process belongs to.  gpu_watch.c lets a thread of its
 * own do all of that, since drivers may hang, and keeps the node's devices up to date on the loop.
 */
#pragma once
#include "backend/backend.h"
#include "base/map.h"
#include "base/vec.h"
#include "io/loop.h"

/* A process that holds memory of a device, as the driver lists it. */
struct gpu_proc {
    int32_t pid;
    uint32_t device; /* position in the look */
    int64_t bytes;   /* -1 = the driver does not say */
};
struct run_memories {
    struct run_memory *p;
    size_t n, cap;
};
/* What one look at all drivers found. */
struct gpu_look {
    VEC(struct device) devices; /* index and seen_ms are not filled in */
    VEC(struct gpu_proc) procs;
    struct run_memories runs; /* by gpu_attribute */
    char drivers[200];        /* "NVML, driver 535.104 (libnvidia-ml.so.1)"; or what is lacking */
};
/* Empties the look and keeps its memory for the next one. */
void gpu_look_clear(struct gpu_look *l);
void gpu_look_done(struct gpu_look *l);
/* A device with nothing known but what is given, appended; never NULL. */
struct device *gpu_look_device(struct gpu_look *l, enum device_vendor vendor, int32_t ordinal);
/* Adds a phrase to `drivers`. */
void gpu_look_say(struct gpu_look *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Bytes of a process on a device; a process in several lists of a driver counts once, as its
 * largest. */
void gpu_look_process(struct gpu_look *l, int32_t pid, uint32_t device, int64_t bytes);

/* One way to see devices.  All of it runs on the watch's thread and may take its time. */
struct gpu_source {
    /* NULL: there is nothing to look at, e says why. */
    void *(*open)(struct err *e);
    /* Appends.  What does not answer is appended as lost, or left out when it is not known what it
     * was; a fault of one device is nobody else's. */
    void (*read)(void *self, struct gpu_look *out);
    void (*close)(void *self);
};
extern const struct gpu_source gpu_nvml, gpu_rocm, gpu_sysfs;

/* All sources that are there; AMD's library is preferred to the files of its driver. */
struct gpu_sources {
    struct {
        const struct gpu_source *cls;
        void *self;
    } p[2];
    size_t n;
    char lacking[200];
};
/* Is there any sign of a GPU?  A few system calls; without one no library is loaded. */
bool gpu_sources_likely(void);
void gpu_sources_open(struct gpu_sources *s);
void gpu_sources_read(struct gpu_sources *s, struct gpu_look *out);
void gpu_sources_close(struct gpu_sources *s);

/* ---- gpu_nvml.c: the entries of process lists ---- */
/* Older drivers write 16 bytes an entry, newer ones 24, a few of 2023 wrote 32 under the name
 * of 24. True when `n` entries of that size make sense: pids that can be, memory within `total`. */
bool nvml_entries_plausible(const void *entries, size_t n, size_t size, uint64_t total);

/* ---- gpu_sysfs.c ---- */
/* /proc/PID/fdinfo of a DRM client as text: its device, client number and bytes of VRAM. */
struct drm_client {
    char pci[32];
    int64_t id, vram_bytes;
};
bool drm_client_parse(struct str text, struct drm_client *out);

/* ---- gpu_procs.c ---- */
/* A run whose command has started. */
struct gpu_run {
    struct run_key key;
    int64_t pid, pid_start; /* its command; it did not start later than this, 0 = not known */
};
/* Verdicts about processes, kept from look to look.  Not locked: one thread at a time. */
struct gpu_procs;
/* `home_mark` as in shepherd/mark.h; `proc` is "/proc", or a stand-in in tests. */
struct gpu_procs *gpu_procs_new(uint64_t home_mark, const char *proc);
void gpu_procs_free(struct gpu_procs *p);
/* The runs there are from now on; borrowed until the next call. */
void gpu_procs_runs(struct gpu_procs *p, const struct gpu_run *runs, size_t n);
enum gpu_owner {
    GPU_OWNER_RUN,      /* *out */
    GPU_OWNER_STRANGER, /* no run of ours */
    GPU_OWNER_UNCLEAR   /* just gone, or of a run that has just started or ended: not counted */
};
enum gpu_owner gpu_procs_owner(struct gpu_procs *p, int32_t pid, struct run_key *out);
/* Forgets pids that were not asked for since the last call. */
void gpu_procs_sweep(struct gpu_procs *p);

typedef enum gpu_owner (*gpu_owner_fn)(void *arg, int32_t pid, struct run_key *out);
/* Fills in foreign_bytes of each device and the memory of each run: the largest, over its devices,
 * of what its processes hold there together. */
void gpu_attribute(struct gpu_look *l, gpu_owner_fn owner, void *arg);

/* ---- gpu_watch.c ---- */
struct gpu_watch;
/* What the watch is opened with.  All functions are called on the loop thread. */
struct gpu_watch_conf {
    struct loop *loop;
    uint64_t home_mark;
    struct node *node; /* its devices are made by gpu_watch_open and change with every look */
    int64_t gpus;      /* so many devices, whatever is found; -1 = as found */
    const char
        *exclude; /* "0,GPU-…": indices and UUIDs, borrowed until open returns; NULL = none */
    /* Runs that may hold devices, appended to out; asked on the loop before every look. */
    void (*runs)(void *arg, struct gpu_run **out, size_t *out_n);
    void (*looked)(void *arg, const struct run_memory *runs, size_t n); /* the node is up to date */
    void (*notice)(void *arg, const char *text);
    void *arg;
};
/* Waits for the first look, but not for a driver that hangs.  *out is NULL when there is nothing to
 * watch: the node then has the devices the configuration asks for. */
int gpu_watch_open(struct gpu_watch **out, const struct gpu_watch_conf *conf, struct err *e);
/* Does not wait for a driver that hangs: the thread is left to itself then. */
void gpu_watch_close(struct gpu_watch *w);
/* A run that may hold devices has begun, or all have ended. */
void gpu_watch_busy(struct gpu_watch *w, bool busy);

/* The devices of a node from what was found first. */
void gpu_node_init(struct node *n, const struct gpu_look *first, int64_t gpus);
/* And later: devices are known by their UUIDs and keep their places.  What an operator should read
 * goes to notice. */
void gpu_node_update(struct node *n, const struct gpu_look *l, int64_t wall_ms,
                     void (*notice)(void *arg, const char *text), void *arg);
