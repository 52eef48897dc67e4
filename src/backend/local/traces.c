/* traces.c - locks and journals of a home, read from outside */
#include "backend/traces.h"
#include "backend/live_runs.h"
#include "base/file.h"
#include "base/map.h"
#include "base/vec.h"
#include "shepherd/journal.h"
#include "shepherd/run_lock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

typedef VEC(struct run_trace) trace_list;

struct tracing {
    trace_list found;
    struct map_u64 by_id; /* position in found, plus one */
};

static struct run_trace *trace_of(struct tracing *t, struct run_key key)
{
    uint64_t id;

    if (!run_key_pack(key, &id))
        return NULL;
    size_t at = (size_t)(uintptr_t)map_u64_get(&t->by_id, id);
    if (!at) {
        vec_push(&t->found, (struct run_trace){.key = key});
        at = t->found.n;
        map_u64_put(&t->by_id, id, (void *)(uintptr_t)at);
    }
    return &t->found.p[at - 1];
}

static void trace_live(void *arg, struct run_key key, pid_t supervisor, pid_t command UNUSED)
{
    struct run_trace *x = trace_of(arg, key);

    if (x)
        x->pid = supervisor;
}

/* The lock of a run tells nothing about whose it is: those that the journals know are asked for one
 * by one, the others are found by the mark of their commands. */
static int find_locks(struct tracing *t, const char *shepherd_dir, int fd, struct err *e)
{
    uint64_t id;

    for (size_t i = 0; i < t->found.n; i++)
        if (!t->found.p[i].ended && run_key_pack(t->found.p[i].key, &id))
            t->found.p[i].pid = run_lock_holder(fd, id);
    return live_runs(shepherd_dir, trace_live, t, e);
}

static int read_generation(struct tracing *t, int dir, const char *name, uint32_t generation,
                           struct err *e)
{
    AUTO_FD fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    struct journal_reader r;
    struct journal_record rec;
    int got;

    if (fd < 0)
        return err_sys(e, "cannot read %s", name);
    journal_reader_init(&r, fd, 0);
    while ((got = journal_read(&r, &rec, e)) == 1) {
        struct run_trace *x =
            rec.kind == JOURNAL_VOID ? NULL : trace_of(t, journal_record_key(&rec));
        if (!x)
            continue;
        x->journal = MAX(x->journal, generation);
        x->started = x->started || rec.kind == JOURNAL_STARTED;
        x->ended = x->ended || rec.kind == JOURNAL_ENDED;
    }
    journal_reader_done(&r);
    return got;
}

static int by_key(const void *a, const void *b)
{
    const struct run_trace *x = a, *y = b;

    if (x->key.job != y->key.job)
        return x->key.job < y->key.job ? -1 : 1;
    if (x->key.run != y->key.run)
        return x->key.run < y->key.run ? -1 : 1;
    return x->key.tag < y->key.tag ? -1 : x->key.tag > y->key.tag;
}

int run_traces(const char *home, struct run_trace **out, size_t *out_n, struct err *e)
{
    AUTO_FREE char *path = path_join(home, "shepherd");
    struct tracing t = {0};
    AUTO_FD dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;

    *out = NULL;
    *out_n = 0;
    if (dir < 0)
        return errno == ENOENT ? 0 : err_sys(e, "cannot read %s", path);
    int list = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = list < 0 ? NULL : fdopendir(list);
    struct dirent *x;
    uint32_t generation;
    while (rc == 0 && d && (x = readdir(d)))
        if (journal_file_parse(x->d_name, &generation))
            rc = read_generation(&t, dir, x->d_name, generation, e);
    if (d)
        closedir(d);
    AUTO_FD locks = openat(dir, "runs.lock", O_RDONLY | O_CLOEXEC);
    if (rc == 0 && locks >= 0)
        rc = find_locks(&t, path, locks, e);
    map_u64_done(&t.by_id);
    if (rc < 0) {
        vec_done(&t.found);
        return -1;
    }
    if (t.found.n)
        qsort(t.found.p, t.found.n, sizeof(*t.found.p), by_key);
    *out = t.found.p;
    *out_n = t.found.n;
    return 0;
}
