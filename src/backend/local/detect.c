/* detect.c - what this host has to offer
 *
 * CPUs: those we may run on, less what a cgroup quota takes.  Memory: of the machine, or of the
 * tightest cgroup around us.  The configuration {"slots","mcpu","mem_bytes"} overrides each; 0
 * means "as found".  GPUs are found by gpu_watch.c.
 */
#include "backend/local/local_priv.h"
#include "base/file.h"
#include <dirent.h>
#include <sched.h>
#include <stdio.h>

enum { CPUS_MAX = 8192 };

/* In thousandths of a CPU; at least one CPU. */
static int64_t affinity_mcpu(void)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t n = CPU_ALLOC_SIZE(CPUS_MAX);
    int64_t found = 0;

    ASSERT(set);
    CPU_ZERO_S(n, set);
    if (sched_getaffinity(0, n, set) == 0)
        found = CPU_COUNT_S(n, set);
    CPU_FREE(set);
    return MAX(found, 1) * 1000;
}

/* First line of a file as up to two numbers; "max" reads as none. */
static int read_numbers(const char *dir, const char *name, int64_t out[2])
{
    AUTO_FREE char *path = path_join(dir, name), *text = NULL;
    size_t n;
    int found = 0;

    if (file_read_all(path, 4096, &text, &n, NULL) < 0)
        return 0;
    for (struct str rest = str_trim((struct str){text, n}); rest.n > 0 && found < 2; found++)
        if (!str_to_i64(str_trim(str_cut(rest, ' ', &rest)), &out[found]))
            break;
    return found;
}

/* Thousandths of a CPU and bytes; 0 = no limit found. */
struct limits {
    int64_t mcpu, mem_bytes;
};

static void lower(int64_t *v, int64_t limit)
{
    if (limit > 0 && (*v == 0 || limit < *v))
        *v = limit;
}

static void limits_of_dir(const char *dir, struct limits *l)
{
    int64_t v[2], period[2];

    if (read_numbers(dir, "cpu.max", v) == 2 && v[1] > 0)
        lower(&l->mcpu, v[0] * 1000 / v[1]);
    if (read_numbers(dir, "cpu.cfs_quota_us", v) >= 1 && v[0] > 0 &&
        read_numbers(dir, "cpu.cfs_period_us", period) >= 1 && period[0] > 0)
        lower(&l->mcpu, v[0] * 1000 / period[0]);
    if (read_numbers(dir, "memory.max", v) >= 1)
        lower(&l->mem_bytes, v[0]);
    if (read_numbers(dir, "memory.limit_in_bytes", v) >= 1)
        lower(&l->mem_bytes, v[0]);
}

/* From our own cgroup up to the mount point. */
static void limits_upwards(const char *mount, struct str path, struct limits *l)
{
    AUTO_FREE char *dir = xasprintf("%s" STR_FMT, mount, STR_ARG(path));
    size_t stop = strlen(mount);

    for (;;) {
        limits_of_dir(dir, l);
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < stop)
            break;
        *slash = 0;
    }
}

/* Every group above us limits us too, so the lowest limit on the way up counts.  Hierarchies
 * that are mounted elsewhere than usual are not found; the configuration overrides then. */
static struct limits detect_cgroup_limits(void)
{
    struct limits l = {0};
    AUTO_FREE char *text = NULL;
    size_t n;

    if (file_read_all("/proc/self/cgroup", 65536, &text, &n, NULL) < 0)
        return l;
    for (struct str rest = {text, n}, line; rest.n > 0;) {
        line = str_cut(rest, '\n', &rest);
        struct str tail;
        str_cut(line, ':', &tail);
        struct str path, names = str_cut(tail, ':', &path);
        if (names.n == 0)
            limits_upwards("/sys/fs/cgroup", path, &l);
        else if (str_eq_c(names, "memory"))
            limits_upwards("/sys/fs/cgroup/memory", path, &l);
        else if (str_starts(names, STR("cpu")) && !str_starts(names, STR("cpuset")))
            limits_upwards("/sys/fs/cgroup/cpu", path, &l);
    }
    return l;
}

/* 0 when it cannot be read. */
static int64_t machine_mem_bytes(void)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    long long kb;

    if (file_read_all("/proc/meminfo", 65536, &text, &n, NULL) < 0 ||
        sscanf(text, "MemTotal: %lld kB", &kb) != 1)
        return 0;
    return kb * 1024;
}

/* For a driver that does not answer: the number of devices is known to the kernel all the same. */
int32_t detect_driver_gpus(void)
{
    DIR *d = opendir("/proc/driver/nvidia/gpus");
    struct dirent *ent;
    int32_t n = 0;

    if (!d)
        return 0;
    while ((ent = readdir(d)))
        n += ent->d_name[0] != '.';
    closedir(d);
    return n;
}

static int64_t conf_int(const struct json *conf, const char *key, int64_t unset)
{
    const struct json *v = json_get(conf, key);

    return v ? json_int(v) : unset;
}

void detect_node(struct node *node, const struct json *conf)
{
    struct limits l = detect_cgroup_limits();
    int64_t slots = conf_int(conf, "slots", 0);

    if (gethostname(node->name, sizeof(node->name) - 1) < 0 || !node->name[0])
        snprintf(node->name, sizeof(node->name), "localhost");
    node->mcpu = affinity_mcpu();
    lower(&node->mcpu, l.mcpu);
    node->mem_bytes = machine_mem_bytes();
    lower(&node->mem_bytes, l.mem_bytes);
    if (conf_int(conf, "mcpu", 0) > 0)
        node->mcpu = conf_int(conf, "mcpu", 0);
    if (conf_int(conf, "mem_bytes", 0) > 0)
        node->mem_bytes = conf_int(conf, "mem_bytes", 0);
    node->slots = slots > 0 ? (int32_t)MIN(slots, INT32_MAX) : (int32_t)((node->mcpu + 999) / 1000);
}
