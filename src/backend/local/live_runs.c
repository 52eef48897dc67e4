/* live_runs.c - who holds locks of runs, and what they supervise
 *
 * The kernel names one holder of a range at a time; what is left of and right of its byte is asked
 * about next.  A byte does not tell its run, but the command below the supervisor has the run's
 * mark in its environment.  The shepherd itself holds locks for moments: it has another name.
 */
#include "backend/live_runs.h"
#include "base/file.h"
#include "base/util.h"
#include "base/vec.h"
#include "shepherd/tree.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

enum { HOLDERS_MAX = 100000, ENVIRON_MAX = 4 << 20 };

/* The first child of a supervisor; 0 = none now, or the kernel does not list children. */
static pid_t command_of(pid_t supervisor)
{
    AUTO_FREE char *path = xasprintf("/proc/%d/task/%d/children", supervisor, supervisor);
    AUTO_FREE char *text = NULL;
    int64_t pid;
    size_t n;

    if (file_read_all(path, 1 << 20, &text, &n, NULL) < 0)
        return 0;
    struct str rest, first = str_cut((struct str){text, n}, ' ', &rest);
    return str_to_i64(first, &pid) ? (pid_t)pid : 0;
}

/* "<home>.<key>" in BERTH_MARK. */
static bool key_by_mark(pid_t pid, struct run_key *out)
{
    static const char name[] = TREE_MARK_NAME "=";
    AUTO_FREE char *path = xasprintf("/proc/%d/environ", pid), *text = NULL;
    size_t n;

    if (file_read_all(path, ENVIRON_MAX, &text, &n, NULL) < 0)
        return false;
    for (const char *at = text; at < text + n; at += strlen(at) + 1) {
        struct str key;
        if (strncmp(at, name, sizeof(name) - 1) != 0)
            continue;
        str_cut(str_of(at), '.', &key);
        return run_key_parse(key, out) == key.n;
    }
    return false;
}

/* A supervisor is called "run 42.1". */
static bool is_run_supervisor(pid_t pid)
{
    static const char name[] = "run ";
    AUTO_FREE char *path = xasprintf("/proc/%d/comm", pid), *text = NULL;
    size_t n;

    return file_read_all(path, 64, &text, &n, NULL) == 0 && !strncmp(text, name, strlen(name));
}

static void tell_holder(pid_t supervisor, live_run_fn fn, void *arg)
{
    struct run_key key;
    pid_t command = is_run_supervisor(supervisor) ? command_of(supervisor) : 0;

    if (command > 0 && key_by_mark(command, &key))
        fn(arg, key, supervisor, command);
}

struct lock_range {
    int64_t from, to;
};

int live_runs(const char *shepherd_dir, live_run_fn fn, void *arg, struct err *e)
{
    AUTO_FREE char *path = path_join(shepherd_dir, "runs.lock");
    AUTO_FD fd = open(path, O_RDWR | O_CLOEXEC);
    VEC(struct lock_range) todo = {0};
    int rc = 0;

    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(e, "cannot open %s", path);
    vec_push(&todo, ((struct lock_range){0, INT64_MAX}));
    for (int i = 0; todo.n && rc == 0 && i < HOLDERS_MAX; i++) {
        const struct lock_range r = todo.p[--todo.n];
        /* A length of 0 reaches to the end of all offsets. */
        struct flock l = {.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = r.from,
                          .l_len = r.to == INT64_MAX ? 0 : r.to - r.from + 1};
        if (fcntl(fd, F_GETLK, &l) < 0)
            rc = err_sys(e, "cannot ask for locks in %s", path);
        if (rc < 0 || l.l_type == F_UNLCK || l.l_len != 1)
            continue;
        if (l.l_start > r.from)
            vec_push(&todo, ((struct lock_range){r.from, l.l_start - 1}));
        if (l.l_start < r.to)
            vec_push(&todo, ((struct lock_range){l.l_start + 1, r.to}));
        if (l.l_pid > 0)
            tell_holder(l.l_pid, fn, arg);
    }
    vec_done(&todo);
    return rc;
}
