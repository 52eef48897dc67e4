/* cgroup.c - version 2, version 1, or none
 *
 * Version 2: groups are made in the nearest directory, from our own cgroup upwards, that hands the
 * memory controller to its children and lets us make a directory.  Our own cgroup seldom does (it
 * has processes inside), its parent often does (app.slice of a user session, system.slice).
 * Version 1: in our own cgroup of each controller's hierarchy.
 *
 * A CPU count is a weight unless a quota is asked for: idle CPUs help whoever can use them, and
 * under contention everybody gets what was stated.
 */
#include "shepherd/cgroup.h"
#include "base/str.h"
#include "base/util.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

/* Period of the CPU quota in microseconds; the kernel's own default. */
enum { PERIOD_US = 100000 };

/* ---- small files ---- */

static bool path_make(char out[CGROUP_PATH_MAX], const char *dir, const char *name)
{
    int n = snprintf(out, CGROUP_PATH_MAX, "%s/%s", dir, name);

    if (n > 0 && n < CGROUP_PATH_MAX)
        return true;
    out[0] = 0;
    return false;
}

static bool file_put(const char *dir, const char *name, const char *text)
{
    char path[CGROUP_PATH_MAX];

    if (!path_make(path, dir, name))
        return false;
    AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool file_put_int(const char *dir, const char *name, int64_t v)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, v);
    return file_put(dir, name, text);
}

/* NUL-terminated; cut when longer. */
static bool file_get(const char *dir, const char *name, char *out, size_t max)
{
    char path[CGROUP_PATH_MAX];

    if (!path_make(path, dir, name))
        return false;
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t n = 0;
    ssize_t got;
    while (n < max - 1 && (got = read(fd, out + n, max - 1 - n)) > 0)
        n += (size_t)got;
    out[n] = 0;
    return true;
}

/* 0 when the file cannot be read or is not a number, such as "max". */
static int64_t file_get_int(const char *dir, const char *name)
{
    char text[64];
    int64_t v;

    if (!file_get(dir, name, text, sizeof(text)) || !str_to_i64(str_trim(str_of(text)), &v))
        return 0;
    return v;
}

/* The number after `key ` at the start of a line. */
static int64_t file_get_key(const char *dir, const char *name, const char *key)
{
    char text[2048];
    int64_t v;

    if (!file_get(dir, name, text, sizeof(text)))
        return 0;
    for (struct str rest = str_of(text), line; rest.n > 0;) {
        line = str_cut(rest, '\n', &rest);
        struct str val, word = str_cut(line, ' ', &val);
        if (str_eq_c(word, key) && str_to_i64(str_trim(val), &v))
            return v;
    }
    return 0;
}

static bool text_has_word(struct str list, const char *word, char sep)
{
    while (list.n > 0)
        if (str_eq_c(str_trim(str_cut(list, sep, &list)), word))
            return true;
    return false;
}

/* ---- where ---- */

/* Our path in one hierarchy: `controller` of v1, or NULL for v2.  A line is "4:memory:/path". */
static bool own_path(const char *cgroups, const char *controller, struct str *out)
{
    for (struct str rest = str_of(cgroups), line; rest.n > 0;) {
        line = str_cut(rest, '\n', &rest);
        struct str tail, number = str_cut(line, ':', &tail);
        struct str path, names = str_cut(tail, ':', &path);
        bool v2 = str_eq_c(number, "0") && names.n == 0;
        if (controller ? text_has_word(names, controller, ',') : v2) {
            *out = path;
            return path.n > 0 && path.p[0] == '/';
        }
    }
    return false;
}

/* Mount point and mounted root of a hierarchy.  A line of mountinfo is
 * "35 31 0:32 /root /mount/point opts … - cgroup cgroup rw,memory". */
static bool find_mount(const char *mounts, const char *controller, struct str *point,
                       struct str *root)
{
    for (struct str rest = str_of(mounts), line; rest.n > 0;) {
        line = str_cut(rest, '\n', &rest);
        const char *dash = memmem(line.p, line.n, " - ", 3);
        if (!dash)
            continue;
        struct str tail = {dash + 3, (size_t)(line.p + line.n - (dash + 3))};
        struct str type = str_cut(tail, ' ', &tail);
        str_cut(tail, ' ', &tail); /* the source says nothing */
        if (controller ? !str_eq_c(type, "cgroup") || !text_has_word(tail, controller, ',')
                       : !str_eq_c(type, "cgroup2"))
            continue;
        struct str head = line;
        for (int i = 0; i < 3; i++)
            str_cut(head, ' ', &head);
        *root = str_cut(head, ' ', &head);
        *point = str_cut(head, ' ', &head);
        return true;
    }
    return false;
}

/* Our directory in a hierarchy, as seen through its mount; and how long the mount point's part is.
 */
static bool cgroup_own_dir(const char *mounts, const char *cgroups, const char *controller,
                           char out[CGROUP_PATH_MAX], size_t *mount_n)
{
    struct str point, root, path;

    if (!find_mount(mounts, controller, &point, &root) || !own_path(cgroups, controller, &path))
        return false;
    if (root.n > 1 && str_starts(path, root)) { /* a container sees its part of the hierarchy */
        path.p += root.n;
        path.n -= root.n;
    }
    if (path.n == 1)
        path.n = 0;
    int n = snprintf(out, CGROUP_PATH_MAX, STR_FMT STR_FMT, STR_ARG(point), STR_ARG(path));
    *mount_n = point.n;
    if (n > 0 && n < CGROUP_PATH_MAX && access(out, F_OK) == 0)
        return true;
    out[0] = 0;
    return false;
}

/* Asked, not tried: a group made for a trial stays behind when we are killed just then. */
static bool can_make_in(const char *dir)
{
    return access(dir, W_OK | X_OK) == 0;
}

static bool hands_down(const char *dir, const char *controller)
{
    char text[512];

    return file_get(dir, "cgroup.subtree_control", text, sizeof(text)) &&
           text_has_word(str_trim(str_of(text)), controller, ' ');
}

static bool probe_v2(struct cgroup_host *h, const char *mounts, const char *cgroups)
{
    char dir[CGROUP_PATH_MAX];
    size_t mount_n;

    if (!cgroup_own_dir(mounts, cgroups, NULL, dir, &mount_n))
        return false;
    for (bool own = true;; own = false) {
        char have[512];
        if (file_get(dir, "cgroup.controllers", have, sizeof(have)) &&
            text_has_word(str_trim(str_of(have)), "memory", ' ')) {
            if (own && !hands_down(dir, "memory"))
                file_put(dir, "cgroup.subtree_control", "+memory");
            if (own && !hands_down(dir, "cpu"))
                file_put(dir, "cgroup.subtree_control", "+cpu");
            if (hands_down(dir, "memory") && can_make_in(dir)) {
                h->version = 2;
                memcpy(h->mem, dir, sizeof(dir));
                return true;
            }
        }
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= mount_n || !slash)
            return false;
        *slash = 0;
    }
}

static void probe_v1(struct cgroup_host *h, const char *mounts, const char *cgroups)
{
    size_t n;

    if (cgroup_own_dir(mounts, cgroups, "memory", h->mem, &n) && !can_make_in(h->mem))
        h->mem[0] = 0;
    if (cgroup_own_dir(mounts, cgroups, "cpu", h->cpu, &n) && !can_make_in(h->cpu))
        h->cpu[0] = 0;
    if (h->mem[0] || h->cpu[0])
        h->version = 1;
}

void cgroup_probe(struct cgroup_host *h, const char *proc_dir)
{
    enum { MOUNTS_MAX = 256 << 10 };
    char cgroups[4096];
    AUTO_FREE char *mounts = xmalloc(MOUNTS_MAX);

    *h = (struct cgroup_host){0};
    if (!file_get(proc_dir, "mountinfo", mounts, MOUNTS_MAX) ||
        !file_get(proc_dir, "cgroup", cgroups, sizeof(cgroups)))
        return;
    if (!probe_v2(h, mounts, cgroups))
        probe_v1(h, mounts, cgroups);
}

/* ---- one run ---- */

void cgroup_name(const struct cgroup_host *h, const char *name, struct cgroup *out)
{
    *out = (struct cgroup){.version = h->version};
    if (h->mem[0])
        path_make(out->mem, h->mem, name);
    if (h->cpu[0])
        path_make(out->cpu, h->cpu, name);
}

static bool dir_made(const char *dir)
{
    return mkdir(dir, 0755) == 0 || errno == EEXIST;
}

static bool limit_v2(struct cgroup *c, const struct cgroup_limits *l)
{
    char text[64];
    bool held = false;

    if (l->mem_bytes > 0) {
        held |= file_put_int(c->mem, "memory.max", l->mem_bytes);
        /* Without a swap limit the run would swap instead of ending at its limit.  oom.group
         * makes the kernel kill the whole run, not one process of it. */
        file_put(c->mem, "memory.swap.max", "0");
        file_put(c->mem, "memory.oom.group", "1");
    }
    if (l->mcpu > 0) {
        /* 100 is the kernel's default weight and stands for one CPU here; 1 to 10000 is what the
         * kernel accepts. */
        held |= file_put_int(c->mem, "cpu.weight", MIN(MAX(l->mcpu / 10, 1), 10000));
        if (l->quota) {
            snprintf(text, sizeof(text), "%" PRId64 " %d", l->mcpu * (PERIOD_US / 1000), PERIOD_US);
            held |= file_put(c->mem, "cpu.max", text);
        }
    }
    return held;
}

static bool limit_v1_mem(struct cgroup *c, const struct cgroup_limits *l)
{
    if (!c->mem[0] || l->mem_bytes <= 0 || !dir_made(c->mem))
        return false;
    if (!file_put_int(c->mem, "memory.limit_in_bytes", l->mem_bytes)) {
        rmdir(c->mem);
        return false;
    }
    file_put_int(c->mem, "memory.memsw.limit_in_bytes", l->mem_bytes);
    return true;
}

static bool limit_v1_cpu(struct cgroup *c, const struct cgroup_limits *l)
{
    if (!c->cpu[0] || l->mcpu <= 0 || !dir_made(c->cpu))
        return false;
    if (!file_put_int(c->cpu, "cpu.shares", MIN(MAX(l->mcpu * 1024 / 1000, 2), 262144))) {
        rmdir(c->cpu);
        return false;
    }
    if (l->quota) {
        file_put_int(c->cpu, "cpu.cfs_period_us", PERIOD_US);
        file_put_int(c->cpu, "cpu.cfs_quota_us", l->mcpu * (PERIOD_US / 1000));
    }
    return true;
}

bool cgroup_make(struct cgroup *c, const struct cgroup_limits *l)
{
    if (c->version == 2 && c->mem[0] && dir_made(c->mem)) {
        if (limit_v2(c, l))
            return true;
        rmdir(c->mem);
    } else if (c->version == 1) {
        if (!limit_v1_mem(c, l))
            c->mem[0] = 0;
        if (!limit_v1_cpu(c, l))
            c->cpu[0] = 0;
        if (c->mem[0] || c->cpu[0])
            return true;
    }
    *c = (struct cgroup){0};
    return false;
}

void cgroup_join(const struct cgroup *c)
{
    if (c->mem[0])
        file_put(c->mem, "cgroup.procs", "0");
    if (c->cpu[0])
        file_put(c->cpu, "cgroup.procs", "0");
}

int64_t cgroup_peak_bytes(const struct cgroup *c)
{
    if (!c->mem[0])
        return 0;
    return file_get_int(c->mem, c->version == 2 ? "memory.peak" : "memory.max_usage_in_bytes");
}

bool cgroup_saw_oom(const struct cgroup *c)
{
    if (!c->mem[0])
        return false;
    return file_get_key(c->mem, c->version == 2 ? "memory.events" : "memory.oom_control",
                        "oom_kill") > 0;
}

static int kill_members(const char *dir)
{
    char path[CGROUP_PATH_MAX], line[32];
    int n = 0;

    if (!dir[0] || !path_make(path, dir, "cgroup.procs"))
        return 0;
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    while (fgets(line, sizeof(line), f)) {
        int64_t pid;
        if (str_to_i64(str_trim(str_of(line)), &pid) && pid > 1 && pid != getpid()) {
            kill((pid_t)pid, SIGKILL);
            n++;
        }
    }
    fclose(f);
    return n;
}

int cgroup_kill(const struct cgroup *c)
{
    return kill_members(c->mem) + kill_members(c->cpu);
}

static void remove_dir(const char *dir)
{
    struct timespec pause = {.tv_nsec = 2000000};

    /* A member that was just reaped may linger for a moment. */
    for (int i = 0; dir[0] && i < 20 && rmdir(dir) < 0 && errno == EBUSY; i++)
        nanosleep(&pause, NULL);
}

void cgroup_remove(const struct cgroup *c)
{
    remove_dir(c->mem);
    remove_dir(c->cpu);
}

static void cgroup_sweep_dir(const char *dir, const char *prefix, cgroup_in_use_fn in_use,
                             void *arg)
{
    DIR *d = dir[0] ? opendir(dir) : NULL;
    struct dirent *ent;
    size_t n = strlen(prefix);

    if (!d)
        return;
    while ((ent = readdir(d)))
        if (strncmp(ent->d_name, prefix, n) == 0 && !in_use(arg, ent->d_name + n))
            unlinkat(dirfd(d), ent->d_name, AT_REMOVEDIR);
    closedir(d);
}

void cgroup_sweep(const struct cgroup_host *h, const char *prefix, cgroup_in_use_fn in_use,
                  void *arg)
{
    cgroup_sweep_dir(h->mem, prefix, in_use, arg);
    cgroup_sweep_dir(h->cpu, prefix, in_use, arg);
}
