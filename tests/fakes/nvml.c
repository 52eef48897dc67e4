/* nvml.c - a stand-in for libnvidia-ml.so.1 whose GPUs are lines of a text file
 *
 * Load it with BERTH_NVML_LIBRARY=…/libfake_nvml.so.  FAKE_NVML_STATE names the file, which is read
 * again by every call after it was changed.  Change it by renaming another over it, so that nobody
 * sees half of it; a moment without the file is waited for.  One thing a line, `#` begins a
 * comment:
 *
 *   driver 535.104.05                  what the driver calls itself
 *   gpu UUID MIB [key=value …]         a GPU; they are numbered from 0 in the order of their lines
 *       name=NVIDIA_A100               blanks are written as underscores
 *       used=MIB                       besides what processes use [0]
 *       busy=PERCENT power=MW          load [0], power [not supported]
 *       mode=2                         compute mode: 2 is Prohibited [0]
 *       mig=1                          in MIG mode
 *   mig GPU UUID MIB [name= used=]     a slice of that GPU; numbered from 0 within it
 *   proc PID DEVICE MIB [LIST]         a process; DEVICE is "1", or "1.0" for a slice; MIB "-" is
 *                                      not told; LIST is compute (default), mps or graphics
 *   error FUNCTION DEVICE CODE         that function answers with this code for that device ("*":
 *                                      for all).  Functions: init count handle uuid name memory
 *                                      busy power mode processes mig all; 15 is "GPU is lost"
 *   delay MS                           every call takes so long
 *   entry 32                           process entries of 32 bytes, as drivers of mid-2023 wrote
 *
 * NVML_AGE says which entry points exist: 3 = all, 2 = process lists up to _v2, 1 = plain names and
 * 16-byte entries only.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    OK = 0,
    UNINITIALISED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
};
enum { WHOLE = -1 };
#define MIB (UINT64_C(1) << 20)

struct gpu {
    int parent, slice; /* slice WHOLE: a GPU of its own */
    char uuid[80], name[80];
    uint64_t mem, used;
    int busy, power, mode, mig;
};
struct process {
    unsigned pid;
    int gpu, slice, list;
    uint64_t bytes;
};
struct fault {
    char function[16];
    int gpu, slice, code; /* gpu -1: all */
};
struct state {
    struct gpu gpus[8192];
    struct process procs[8192];
    struct fault faults[64];
    size_t n_gpus, n_procs, n_faults, n_whole;
    char driver[80];
    long delay_ms;
    size_t entry;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct state state; /* under lock, as is */
static struct stat seen;
static bool initialised;

/* ---- the file ---- */

static const char *after(const char *word, const char *key)
{
    size_t n = strlen(key);

    return strncmp(word, key, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

static void parse_device(const char *text, int *gpu, int *slice)
{
    *slice = WHOLE;
    if (text[0] == '*' || sscanf(text, "%d.%d", gpu, slice) < 1)
        *gpu = -1;
}

static void gpu_option(struct gpu *g, const char *word)
{
    const char *v;

    if ((v = after(word, "name"))) {
        snprintf(g->name, sizeof(g->name), "%s", v);
        for (char *c = g->name; *c; c++)
            *c = *c == '_' ? ' ' : *c;
    } else if ((v = after(word, "used"))) {
        g->used = strtoull(v, NULL, 10) * MIB;
    } else if ((v = after(word, "busy"))) {
        g->busy = (int)strtol(v, NULL, 10);
    } else if ((v = after(word, "power"))) {
        g->power = (int)strtol(v, NULL, 10);
    } else if ((v = after(word, "mode"))) {
        g->mode = (int)strtol(v, NULL, 10);
    } else if ((v = after(word, "mig"))) {
        g->mig = (int)strtol(v, NULL, 10);
    }
}

static void parse_gpu(char **words, int n, bool slice)
{
    int at = slice ? 2 : 1;

    if (n < at + 2 || state.n_gpus == sizeof(state.gpus) / sizeof(state.gpus[0]))
        return;
    struct gpu *g = &state.gpus[state.n_gpus++];
    *g = (struct gpu){.power = -1, .slice = WHOLE};
    if (slice) {
        g->parent = (int)strtol(words[1], NULL, 10);
        g->slice = 0;
        for (size_t i = 0; i + 1 < state.n_gpus; i++)
            g->slice += state.gpus[i].slice != WHOLE && state.gpus[i].parent == g->parent;
    } else {
        g->parent = (int)state.n_whole++;
    }
    snprintf(g->uuid, sizeof(g->uuid), "%s", words[at]);
    snprintf(g->name, sizeof(g->name), "Stand-in GPU%s", slice ? " MIG 1g.5gb" : "");
    g->mem = strtoull(words[at + 1], NULL, 10) * MIB;
    for (int i = at + 2; i < n; i++)
        gpu_option(g, words[i]);
}

static void parse_process(char **words, int n)
{
    if (n < 4 || state.n_procs == sizeof(state.procs) / sizeof(state.procs[0]))
        return;
    struct process *p = &state.procs[state.n_procs++];
    p->pid = (unsigned)strtoul(words[1], NULL, 10);
    parse_device(words[2], &p->gpu, &p->slice);
    p->bytes = words[3][0] == '-' ? UINT64_MAX : strtoull(words[3], NULL, 10) * MIB;
    p->list = n < 5                               ? 0
              : strcmp(words[4], "mps") == 0      ? 1
              : strcmp(words[4], "graphics") == 0 ? 2
                                                  : 0;
}

static void parse_fault(char **words, int n)
{
    if (n < 4 || state.n_faults == sizeof(state.faults) / sizeof(state.faults[0]))
        return;
    struct fault *f = &state.faults[state.n_faults++];
    snprintf(f->function, sizeof(f->function), "%s", words[1]);
    parse_device(words[2], &f->gpu, &f->slice);
    f->code = (int)strtol(words[3], NULL, 10);
}

static void parse_line(char *line)
{
    char *words[16], *save = NULL;
    int n = 0;

    line[strcspn(line, "#\n")] = 0;
    for (char *w = strtok_r(line, " \t", &save); w && n < 16; w = strtok_r(NULL, " \t", &save))
        words[n++] = w;
    if (n < 2)
        return;
    if (!strcmp(words[0], "gpu") || !strcmp(words[0], "mig"))
        parse_gpu(words, n, words[0][0] == 'm');
    else if (!strcmp(words[0], "proc"))
        parse_process(words, n);
    else if (!strcmp(words[0], "error"))
        parse_fault(words, n);
    else if (!strcmp(words[0], "driver"))
        snprintf(state.driver, sizeof(state.driver), "%s", words[1]);
    else if (!strcmp(words[0], "delay"))
        state.delay_ms = strtol(words[1], NULL, 10);
    else if (!strcmp(words[0], "entry"))
        state.entry = strtoul(words[1], NULL, 10);
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static bool load(void)
{
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *f = NULL;
    struct stat st;
    char *line = NULL;
    size_t cap = 0;

    for (int i = 0; path && !f && i < 20; i++)
        if (!(f = fopen(path, "re")))
            pause_ms(1);
    if (!f || fstat(fileno(f), &st) < 0) {
        if (f)
            fclose(f);
        return false;
    }
    if (!same_file(&st, &seen)) {
        state.n_gpus = state.n_procs = state.n_faults = state.n_whole = 0;
        state.delay_ms = 0;
        state.entry = NVML_AGE == 1 ? 16 : 24;
        snprintf(state.driver, sizeof(state.driver), "0.0");
        while (getline(&line, &cap, f) > 0)
            parse_line(line);
        seen = st;
    }
    free(line);
    fclose(f);
    return true;
}

/* ---- calls ---- */

static void *handle_of(int gpu, int slice)
{
    return (void *)(uintptr_t)((unsigned)(gpu + 1) << 8 | (unsigned)(slice + 1));
}

static struct gpu *gpu_of(const void *handle)
{
    int gpu = (int)((uintptr_t)handle >> 8) - 1, slice = (int)((uintptr_t)handle & 0xff) - 1;

    for (size_t i = 0; i < state.n_gpus; i++)
        if (state.gpus[i].parent == gpu && state.gpus[i].slice == slice)
            return &state.gpus[i];
    return NULL;
}

static int fault(const char *function, int gpu, int slice)
{
    for (size_t i = 0; i < state.n_faults; i++) {
        const struct fault *f = &state.faults[i];
        if ((!strcmp(f->function, function) || !strcmp(f->function, "all")) &&
            (f->gpu < 0 || (f->gpu == gpu && (f->slice == WHOLE || f->slice == slice))))
            return f->code;
    }
    return OK;
}

static void unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* Takes the lock; the caller gives it back by unlock, whatever is answered. */
static int enter(const char *function, int gpu, int slice)
{
    pthread_mutex_lock(&lock);
    if (!load())
        return DRIVER_NOT_LOADED;
    long ms = state.delay_ms;
    if (ms > 0) {
        unlock();
        pause_ms(ms);
        pthread_mutex_lock(&lock);
    }
    if (!initialised && strcmp(function, "init") != 0)
        return UNINITIALISED;
    return fault(function, gpu, slice);
}

/* The same for a device; *out is valid when OK is answered. */
static int enter_device(const char *function, void *handle, struct gpu **out)
{
    int gpu = (int)((uintptr_t)handle >> 8) - 1, slice = (int)((uintptr_t)handle & 0xff) - 1;
    int rc = enter(function, gpu, slice);

    *out = rc == OK ? gpu_of(handle) : NULL;
    return rc != OK ? rc : *out ? OK : GPU_IS_LOST;
}

static int init(void)
{
    int rc = enter("init", -1, WHOLE);

    initialised = rc == OK;
    unlock();
    return rc;
}

static int get_count(unsigned *out)
{
    int rc = enter("count", -1, WHOLE);

    if (rc == OK)
        *out = (unsigned)state.n_whole;
    unlock();
    return rc;
}

static int get_handle(unsigned i, void **out)
{
    int rc = enter("handle", (int)i, WHOLE);

    if (rc == OK && i >= state.n_whole)
        rc = INVALID_ARGUMENT;
    if (rc == OK)
        *out = handle_of((int)i, WHOLE);
    unlock();
    return rc;
}

static int get_text(const char *function, void *dev, char *out, unsigned n)
{
    struct gpu *g;
    int rc = enter_device(function, dev, &g);

    if (rc == OK)
        snprintf(out, n, "%s", function[0] == 'u' ? g->uuid : g->name);
    unlock();
    return rc;
}

static bool is_on(const struct process *p, const struct gpu *g)
{
    return p->gpu == g->parent && (g->slice == WHOLE || p->slice == g->slice);
}

static int list_processes(void *dev, unsigned *n, char *out, int list, size_t size)
{
    struct gpu *g;
    unsigned room = *n, count = 0;
    int rc = enter_device("processes", dev, &g);

    if (size > 16)
        size = state.entry;
    for (size_t i = 0; rc == OK && i < state.n_procs; i++) {
        const struct process *p = &state.procs[i];
        if (!is_on(p, g) || p->list != list)
            continue;
        if (out && count < room) {
            memset(out + count * size, 0, size);
            memcpy(out + count * size, &p->pid, sizeof(p->pid));
            memcpy(out + count * size + 8, &p->bytes, sizeof(p->bytes));
        }
        count++;
    }
    if (rc == OK) {
        *n = count;
        rc = count > room || (count && !out) ? INSUFFICIENT_SIZE : OK;
    }
    unlock();
    return rc;
}

/* ---- what the library exports ---- */

struct memory {
    uint64_t total, free, used;
};
struct utilisation {
    uint32_t gpu, memory;
};

#define EXPORT(name, ...)                                                                          \
    __attribute__((visibility("default"))) int name(__VA_ARGS__);                                  \
    int name(__VA_ARGS__)

EXPORT(nvmlInit, void)
{
    return init();
}

EXPORT(nvmlShutdown, void)
{
    pthread_mutex_lock(&lock);
    initialised = false;
    unlock();
    return OK;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(int rc);
const char *nvmlErrorString(int rc)
{
    switch (rc) {
    case OK:
        return "Success";
    case UNINITIALISED:
        return "Uninitialized";
    case NOT_SUPPORTED:
        return "Not Supported";
    case 4:
        return "Insufficient Permissions";
    case DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case GPU_IS_LOST:
        return "GPU is lost";
    default:
        return "Unknown Error";
    }
}

EXPORT(nvmlSystemGetDriverVersion, char *out, unsigned n)
{
    int rc = enter("driver", -1, WHOLE);

    if (rc == OK)
        snprintf(out, n, "%s", state.driver);
    unlock();
    return rc;
}

EXPORT(nvmlDeviceGetCount, unsigned *out)
{
    return get_count(out);
}

EXPORT(nvmlDeviceGetHandleByIndex, unsigned i, void **out)
{
    return get_handle(i, out);
}

EXPORT(nvmlDeviceGetUUID, void *dev, char *out, unsigned n)
{
    return get_text("uuid", dev, out, n);
}

EXPORT(nvmlDeviceGetName, void *dev, char *out, unsigned n)
{
    return get_text("name", dev, out, n);
}

EXPORT(nvmlDeviceGetMemoryInfo, void *dev, struct memory *out)
{
    struct gpu *g;
    int rc = enter_device("memory", dev, &g);

    if (rc == OK) {
        uint64_t used = g->used;
        for (size_t i = 0; i < state.n_procs; i++)
            if (is_on(&state.procs[i], g) && state.procs[i].bytes != UINT64_MAX)
                used += state.procs[i].bytes;
        *out = (struct memory){g->mem, g->mem > used ? g->mem - used : 0, used};
    }
    unlock();
    return rc;
}

EXPORT(nvmlDeviceGetUtilizationRates, void *dev, struct utilisation *out)
{
    struct gpu *g;
    int rc = enter_device("busy", dev, &g);

    if (rc == OK && g->slice != WHOLE)
        rc = NOT_SUPPORTED;
    if (rc == OK)
        *out = (struct utilisation){(uint32_t)g->busy, (uint32_t)g->busy / 2};
    unlock();
    return rc;
}

EXPORT(nvmlDeviceGetPowerUsage, void *dev, unsigned *out)
{
    struct gpu *g;
    int rc = enter_device("power", dev, &g);

    if (rc == OK && g->power < 0)
        rc = NOT_SUPPORTED;
    if (rc == OK)
        *out = (unsigned)g->power;
    unlock();
    return rc;
}

EXPORT(nvmlDeviceGetComputeMode, void *dev, unsigned *out)
{
    struct gpu *g;
    int rc = enter_device("mode", dev, &g);

    if (rc == OK)
        *out = (unsigned)g->mode;
    unlock();
    return rc;
}

EXPORT(nvmlDeviceGetComputeRunningProcesses, void *dev, unsigned *n, void *out)
{
    return list_processes(dev, n, out, 0, 16);
}

EXPORT(nvmlDeviceGetGraphicsRunningProcesses, void *dev, unsigned *n, void *out)
{
    return list_processes(dev, n, out, 2, 16);
}

#if NVML_AGE >= 2
EXPORT(nvmlInit_v2, void)
{
    return init();
}

EXPORT(nvmlDeviceGetCount_v2, unsigned *out)
{
    return get_count(out);
}

EXPORT(nvmlDeviceGetHandleByIndex_v2, unsigned i, void **out)
{
    return get_handle(i, out);
}

EXPORT(nvmlDeviceGetComputeRunningProcesses_v2, void *dev, unsigned *n, void *out)
{
    return list_processes(dev, n, out, 0, 24);
}

EXPORT(nvmlDeviceGetGraphicsRunningProcesses_v2, void *dev, unsigned *n, void *out)
{
    return list_processes(dev, n, out, 2, 24);
}

EXPORT(nvmlDeviceGetMigMode, void *dev, unsigned *now, unsigned *next)
{
    struct gpu *g;
    int rc = enter_device("mig", dev, &g);

    if (rc == OK)
        *now = *next = (unsigned)g->mig;
    unlock();
    return rc;
}

EXPORT(nvmlDeviceGetMaxMigDeviceCount, void *dev, unsigned *out)
{
    struct gpu *g;
    int rc = enter_device("mig", dev, &g);

    if (rc == OK)
        *out = 7;
    unlock();
    return rc;
}

EXPORT(nvmlDeviceGetMigDeviceHandleByIndex, void *dev, unsigned i, void **out)
{
    struct gpu *g;
    int rc = enter_device("mig", dev, &g);

    if (rc == OK) {
        *out = handle_of(g->parent, (int)i);
        rc = gpu_of(*out) ? OK : NOT_FOUND;
    }
    unlock();
    return rc;
}
#endif

#if NVML_AGE >= 3
EXPORT(nvmlDeviceGetComputeRunningProcesses_v3, void *dev, unsigned *n, void *out)
{
    return list_processes(dev, n, out, 0, 24);
}

EXPORT(nvmlDeviceGetMPSComputeRunningProcesses_v3, void *dev, unsigned *n, void *out)
{
    return list_processes(dev, n, out, 1, 24);
}

EXPORT(nvmlDeviceGetGraphicsRunningProcesses_v3, void *dev, unsigned *n, void *out)
{
    return list_processes(dev, n, out, 2, 24);
}
#endif
