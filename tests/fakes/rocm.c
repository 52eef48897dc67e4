/* rocm.c - a stand-in for librocm_smi64.so whose GPUs are lines of a text file
 *
 * Load it with BERTH_ROCM_LIBRARY=…/libfake_rocm.so.  FAKE_ROCM_STATE names the file, read by every
 * call:
 *
 *   gpu UNIQUE_ID MIB USED_MIB BUSY    UNIQUE_ID in hex, 0 = has none; numbered from 0
 *   proc PID DEVICE MIB                a process may have several
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 1, NOT_SUPPORTED = 2, INSUFFICIENT_SIZE = 5, MAX = 64 };
#define MIB (UINT64_C(1) << 20)

struct process {
    uint32_t pid, pasid;
    uint64_t vram_bytes, sdma_us;
    uint32_t occupancy;
};
struct state {
    struct {
        unsigned long long id, mem, used;
        unsigned busy;
    } gpus[MAX];
    struct {
        unsigned pid, gpu;
        unsigned long long mib;
    } procs[MAX];
    uint32_t n_gpus, n_procs;
};

static int load(struct state *s)
{
    const char *path = getenv("FAKE_ROCM_STATE");
    FILE *f = path ? fopen(path, "re") : NULL;
    char line[256];

    memset(s, 0, sizeof(*s));
    if (!f)
        return NOT_SUPPORTED;
    while (fgets(line, sizeof(line), f)) {
        if (s->n_gpus < MAX &&
            sscanf(line, "gpu %llx %llu %llu %u", &s->gpus[s->n_gpus].id, &s->gpus[s->n_gpus].mem,
                   &s->gpus[s->n_gpus].used, &s->gpus[s->n_gpus].busy) == 4)
            s->n_gpus++;
        else if (s->n_procs < MAX &&
                 sscanf(line, "proc %u %u %llu", &s->procs[s->n_procs].pid,
                        &s->procs[s->n_procs].gpu, &s->procs[s->n_procs].mib) == 3)
            s->n_procs++;
    }
    fclose(f);
    return OK;
}

static int load_gpu(struct state *s, uint32_t i)
{
    int rc = load(s);

    return rc != OK ? rc : i < s->n_gpus ? OK : INVALID;
}

#define EXPORT(name, ...)                                                                          \
    __attribute__((visibility("default"))) int name(__VA_ARGS__);                                  \
    int name(__VA_ARGS__)

EXPORT(rsmi_init, uint64_t flags)
{
    struct state s;

    (void)flags;
    return load(&s);
}

EXPORT(rsmi_shut_down, void)
{
    return OK;
}

EXPORT(rsmi_num_monitor_devices, uint32_t *n)
{
    struct state s;
    int rc = load(&s);

    *n = s.n_gpus;
    return rc;
}

EXPORT(rsmi_dev_unique_id_get, uint32_t i, uint64_t *out)
{
    struct state s;
    int rc = load_gpu(&s, i);

    if (rc == OK && !s.gpus[i].id)
        rc = NOT_SUPPORTED;
    if (rc == OK)
        *out = s.gpus[i].id;
    return rc;
}

EXPORT(rsmi_dev_name_get, uint32_t i, char *out, size_t n)
{
    struct state s;
    int rc = load_gpu(&s, i);

    if (rc == OK)
        snprintf(out, n, "Stand-in Instinct");
    return rc;
}

EXPORT(rsmi_dev_memory_total_get, uint32_t i, int kind, uint64_t *out)
{
    struct state s;
    int rc = load_gpu(&s, i);

    if (rc == OK)
        *out = kind == 0 ? s.gpus[i].mem * MIB : 0;
    return rc;
}

EXPORT(rsmi_dev_memory_usage_get, uint32_t i, int kind, uint64_t *out)
{
    struct state s;
    int rc = load_gpu(&s, i);

    if (rc == OK)
        *out = kind == 0 ? s.gpus[i].used * MIB : 0;
    return rc;
}

EXPORT(rsmi_dev_busy_percent_get, uint32_t i, uint32_t *out)
{
    struct state s;
    int rc = load_gpu(&s, i);

    if (rc == OK)
        *out = s.gpus[i].busy;
    return rc;
}

/* Each process once, with all its memory. */
EXPORT(rsmi_compute_process_info_get, struct process *out, uint32_t *n)
{
    struct state s;
    struct process all[MAX];
    uint32_t found = 0, room = *n;
    int rc = load(&s);

    for (uint32_t i = 0; i < s.n_procs; i++) {
        uint32_t k = 0;
        while (k < found && all[k].pid != s.procs[i].pid)
            k++;
        if (k == found)
            all[found++] = (struct process){.pid = s.procs[i].pid};
        all[k].vram_bytes += s.procs[i].mib * MIB;
    }
    *n = found;
    if (rc != OK || !out)
        return rc;
    memcpy(out, all, (found < room ? found : room) * sizeof(*out));
    return found > room ? INSUFFICIENT_SIZE : OK;
}

EXPORT(rsmi_compute_process_gpus_get, uint32_t pid, uint32_t *out, uint32_t *n)
{
    struct state s;
    uint32_t found = 0, room = *n;
    int rc = load(&s);

    for (uint32_t i = 0; i < s.n_procs; i++) {
        if (s.procs[i].pid != pid)
            continue;
        if (out && found < room)
            out[found] = s.procs[i].gpu;
        found++;
    }
    *n = found;
    return rc;
}

EXPORT(rsmi_compute_process_info_by_device_get, uint32_t pid, uint32_t i, struct process *out)
{
    struct state s;
    int rc = load_gpu(&s, i);

    for (uint32_t k = 0; rc == OK && k < s.n_procs; k++)
        if (s.procs[k].pid == pid && s.procs[k].gpu == i) {
            *out = (struct process){.pid = pid, .vram_bytes = s.procs[k].mib * MIB};
            return OK;
        }
    return rc == OK ? INVALID : rc;
}
