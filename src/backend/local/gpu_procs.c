/* gpu_procs.c - which run a process belongs to
 *
 * By its cgroup (runs with limits have one of their own), else by its ancestors up to a command or
 * its supervisor, else by the mark in its environment: that finds what detached itself, as long as
 * it belongs to the same user as the run, so nobody can charge a stranger.  A process stays with
 * its run for life, so what was found is kept under its pid and start time; that a process is
 * nobody's is kept only until another run starts.
 *
 * Drivers list processes that have just ended, and a run may start or end while we look: a process
 * that is gone, or that names a run we do not know of, is in doubt once and a stranger from then
 * on.
 */
#include "backend/local/gpu_priv.h"
#include "base/file.h"
#include "base/proc_stat.h"
#include "shepherd/proto.h"
#include "shepherd/tree.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

enum { GENERATIONS_MAX = 100, FILE_BYTES = 8192 };

/* What is known of one process.  The start time, in clock ticks since boot, tells a new process
 * from an old one with the same pid. */
struct verdict {
    uint64_t start;
    struct run_key key; /* job 0 = no run of ours */
    uint32_t serial;    /* of the list of runs it was found with */
    bool asked;         /* since the last sweep */
    bool doubted;       /* at the last look */
};
struct root { /* a process from which a run descends */
    const struct gpu_run *run;
    bool shared; /* several runs hang here: it tells nothing */
};
struct gpu_procs {
    char mark[20]; /* of the home, in hex */
    char *proc;
    const struct gpu_run *runs;
    size_t n_runs;
    struct map_u64 by_key;   /* packed key → struct gpu_run */
    struct map_u64 roots;    /* pid → struct root: commands and their supervisors */
    struct map_u64 verdicts; /* pid → struct verdict */
    uint64_t digest;         /* of the runs */
    uint32_t serial;
};

struct gpu_procs *gpu_procs_new(uint64_t home_mark, const char *proc)
{
    struct gpu_procs *p = xcalloc(1, sizeof(*p));

    snprintf(p->mark, sizeof(p->mark), "%016" PRIx64, home_mark);
    p->proc = xstrdup(proc);
    return p;
}

void gpu_procs_free(struct gpu_procs *p)
{
    if (!p)
        return;
    map_u64_done(&p->by_key);
    map_u64_clear(&p->roots, free);
    map_u64_clear(&p->verdicts, free);
    free(p->proc);
    free(p);
}

/* ---- reading /proc ---- */

/* Length of the text, which is NUL-terminated and cut at max - 1; -1 when the process is gone. */
static ssize_t proc_read(const struct gpu_procs *p, int64_t pid, const char *name, char *out,
                         size_t max)
{
    char path[300];
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/%" PRId64 "/%s", p->proc, pid, name);
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && n < max - 1) {
        ssize_t got = read(fd, out + n, max - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    out[n] = 0;
    return fd < 0 ? -1 : (ssize_t)n;
}

static bool stat_read(const struct gpu_procs *p, int64_t pid, struct proc_stat *out)
{
    char text[1024];

    return proc_read(p, pid, "stat", text, sizeof(text)) > 0 && proc_stat_parse(text, out);
}

/* ---- the runs ---- */

/* Two runs with the same parent process: the parent says nothing about which run a process is
 * of. */
static void add_root(struct gpu_procs *p, int64_t pid, const struct gpu_run *run)
{
    struct root *r = map_u64_get(&p->roots, (uint64_t)pid);

    if (r) {
        r->shared |= r->run != run;
        return;
    }
    r = xcalloc(1, sizeof(*r));
    r->run = run;
    map_u64_put(&p->roots, (uint64_t)pid, r);
}

/* A pid that was given to a later process is not the command any more: its start time tells. */
static void procs_add_run(struct gpu_procs *p, const struct gpu_run *run)
{
    struct proc_stat st;
    uint64_t id;

    if (!run_key_pack(run->key, &id))
        return;
    map_u64_put(&p->by_key, id, (void *)(uintptr_t)run);
    p->digest = (p->digest ^ id) * 0x100000001b3u;
    p->digest = (p->digest ^ (uint64_t)run->pid) * 0x100000001b3u;
    if (run->pid <= 1 || !stat_read(p, run->pid, &st) ||
        (run->pid_start && st.start > (uint64_t)run->pid_start))
        return;
    add_root(p, run->pid, run);
    if (st.ppid > 1)
        add_root(p, st.ppid, run); /* the supervisor, to whom orphans of the run return */
}

void gpu_procs_runs(struct gpu_procs *p, const struct gpu_run *runs, size_t n)
{
    uint64_t before = p->digest;

    map_u64_done(&p->by_key);
    map_u64_clear(&p->roots, free);
    p->runs = runs;
    p->n_runs = n;
    p->digest = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        procs_add_run(p, &runs[i]);
    if (p->digest != before)
        p->serial++;
}

static const struct gpu_run *procs_find_run(const struct gpu_procs *p, struct run_key key)
{
    uint64_t id;
    const struct gpu_run *r = run_key_pack(key, &id) ? map_u64_get(&p->by_key, id) : NULL;

    return r && run_key_eq(r->key, key) ? r : NULL;
}

/* ---- one process ---- */

/* "<mark>.<key>" with whatever follows. */
static bool mark_parse(const struct gpu_procs *p, const char *text, struct run_key *out)
{
    size_t n = strlen(p->mark);

    return strncmp(text, p->mark, n) == 0 && text[n] == '.' &&
           run_key_parse(str_of(text + n + 1), out) > 0;
}

/* Each of the by_… functions fills *out and returns true when it found a run of this home. */
static bool by_cgroup(const struct gpu_procs *p, int32_t pid, struct run_key *out)
{
    static const char name[] = "/berth-";
    char text[FILE_BYTES];

    if (proc_read(p, pid, "cgroup", text, sizeof(text)) <= 0)
        return false;
    for (const char *at = text; (at = strstr(at, name));) {
        at += sizeof(name) - 1;
        if (mark_parse(p, at, out))
            return true;
    }
    return false;
}

static bool by_ancestors(const struct gpu_procs *p, int32_t pid, struct run_key *out)
{
    struct proc_stat st;

    for (int i = 0; i < GENERATIONS_MAX && pid > 1; i++) {
        const struct root *r = map_u64_get(&p->roots, (uint64_t)pid);
        if (r && r->shared)
            return false;
        if (r) {
            *out = r->run->key;
            return true;
        }
        if (!stat_read(p, pid, &st))
            return false;
        pid = st.ppid;
    }
    return false;
}

/* Guards against a process of another user that sets the mark of a run in its own environment. */
static bool same_user(const struct gpu_procs *p, int64_t a, int64_t b)
{
    char path[300];
    struct stat sa, sb;

    snprintf(path, sizeof(path), "%s/%" PRId64, p->proc, a);
    if (stat(path, &sa) < 0)
        return false;
    snprintf(path, sizeof(path), "%s/%" PRId64, p->proc, b);
    return stat(path, &sb) < 0 || sa.st_uid == sb.st_uid; /* the command may be gone */
}

static bool by_environ(const struct gpu_procs *p, int32_t pid, struct run_key *out)
{
    static const char name[] = TREE_MARK_NAME "=";
    AUTO_FREE char *path = xasprintf("%s/%d/environ", p->proc, (int)pid), *text = NULL;
    size_t n;

    if (file_read_all(path, 4 << 20, &text, &n, NULL) < 0)
        return false;
    for (const char *at = text; at < text + n; at += strlen(at) + 1) {
        if (strncmp(at, name, sizeof(name) - 1) != 0)
            continue;
        if (!mark_parse(p, at + sizeof(name) - 1, out))
            return false;
        const struct gpu_run *r = procs_find_run(p, *out);
        return !r || same_user(p, pid, r->pid);
    }
    return false;
}

/* A process in doubt is not counted at the first look and is a stranger from the second one on. */
static enum gpu_owner doubt(struct verdict *v)
{
    bool again = v->doubted;

    v->doubted = true;
    return again ? GPU_OWNER_STRANGER : GPU_OWNER_UNCLEAR;
}

static void process_classify(struct gpu_procs *p, int32_t pid, uint64_t start, struct verdict *v)
{
    v->start = start;
    v->serial = p->serial;
    v->doubted = false;
    v->key = (struct run_key){0};
    if (!by_cgroup(p, pid, &v->key) && !by_ancestors(p, pid, &v->key) &&
        !by_environ(p, pid, &v->key))
        v->key = (struct run_key){0};
}

enum gpu_owner gpu_procs_owner(struct gpu_procs *p, int32_t pid, struct run_key *out)
{
    struct proc_stat st;
    struct verdict *v = map_u64_get(&p->verdicts, (uint64_t)pid);

    if (!v) {
        v = xcalloc(1, sizeof(*v));
        map_u64_put(&p->verdicts, (uint64_t)pid, v);
    }
    v->asked = true;
    if (!stat_read(p, pid, &st))
        return doubt(v);
    if (v->start != st.start || !v->serial || (!v->key.job && v->serial != p->serial))
        process_classify(p, pid, st.start, v);
    *out = v->key;
    if (!v->key.job)
        return GPU_OWNER_STRANGER;
    return procs_find_run(p, v->key) ? GPU_OWNER_RUN : doubt(v);
}

/* Without it verdicts of processes that have ended would pile up. */
void gpu_procs_sweep(struct gpu_procs *p)
{
    VEC(uint64_t) gone = {0};
    size_t it = 0;
    uint64_t pid;
    void *val;

    while (map_u64_next(&p->verdicts, &it, &pid, &val)) {
        struct verdict *v = val;
        if (!v->asked)
            vec_push(&gone, pid);
        v->asked = false;
    }
    for (size_t i = 0; i < gone.n; i++)
        free(map_u64_del(&p->verdicts, gone.p[i]));
    vec_done(&gone);
}
