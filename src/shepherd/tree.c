/* tree.c - walks of /proc
 *
 * The cheap walk follows /proc/PID/task/TID/children down from one process, so that stopping one
 * run among thousands does not read thousands of files.  Kernels without that file, and the hunt
 * for orphans, take the whole of /proc.  Both are repeated by the caller until nothing is found:
 * a process may fork while we look.
 */
#include "shepherd/tree.h"
#include "base/str.h"
#include "base/util.h"
#include "base/vec.h"
#include "shepherd/mark.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct pids {
    pid_t *p;
    size_t n, cap;
};
struct procs {
    struct proc_stat *p;
    size_t n, cap;
};

/* ---- reading /proc ---- */

static ssize_t read_file(const char *path, char *out, size_t max)
{
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;

    if (fd < 0)
        return -1;
    while (n < max - 1) {
        ssize_t got = read(fd, out + n, max - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    out[n] = 0;
    return (ssize_t)n;
}

static bool proc_stat_read(pid_t pid, struct proc_stat *out)
{
    char path[64], text[1024];

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    return read_file(path, text, sizeof(text)) > 0 && proc_stat_parse(text, out);
}

static void procs_read(struct procs *out)
{
    DIR *d = opendir("/proc");
    struct dirent *ent;

    if (!d)
        return;
    while ((ent = readdir(d))) {
        int64_t pid;
        struct proc_stat st;
        if (str_to_i64(str_of(ent->d_name), &pid) && proc_stat_read((pid_t)pid, &st) &&
            st.state != 'Z' && st.state != 'X')
            vec_push(out, st);
    }
    closedir(d);
}

/* ---- descendants ---- */

/* Appends the children of one thread.  False when the kernel does not tell. */
static bool add_children_of_thread(pid_t pid, const char *tid, struct pids *out)
{
    char path[96], text[4096], *pos, *end;

    snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)pid, tid);
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno != ENOENT || access("/proc/thread-self/children", F_OK) == 0;
    size_t have = 0;
    ssize_t got;
    while ((got = read(fd, text + have, sizeof(text) - 1 - have)) > 0) {
        have += (size_t)got;
        text[have] = 0;
        pos = text;
        /* A number is whole once a space follows it. */
        for (long v; (v = strtol(pos, &end, 10)) > 0 && *end == ' '; pos = end + 1)
            vec_push(out, (pid_t)v);
        have -= (size_t)(pos - text);
        memmove(text, pos, have);
    }
    return true;
}

static bool add_children(pid_t pid, struct pids *out)
{
    char path[64];
    struct dirent *ent;
    bool known = true;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    if (!d)
        return true; /* it is gone, and its children are ours now: the next round sees them */
    while (known && (ent = readdir(d)))
        if (ent->d_name[0] != '.')
            known = add_children_of_thread(pid, ent->d_name, out);
    closedir(d);
    return known;
}

/* Where a walk down the tree ends: children of these are not looked at. */
struct leaves {
    const pid_t *p;
    size_t n;
};

/* Adds to `set` all that descend from its members. */
static void close_over(const struct procs *all, const struct leaves *leaves, struct pids *set)
{
    for (bool grew = true; grew;) {
        grew = false;
        for (size_t i = 0; i < all->n; i++) {
            if (ints_have(set->p, set->n, all->p[i].ppid) &&
                !ints_have(leaves->p, leaves->n, all->p[i].ppid) &&
                !ints_have(set->p, set->n, all->p[i].pid)) {
                vec_push(set, all->p[i].pid);
                grew = true;
            }
        }
    }
}

static bool descendants_by_children(pid_t root, const struct leaves *leaves, struct pids *out)
{
    if (!add_children(root, out))
        return false;
    for (size_t i = 0; i < out->n; i++)
        if (!ints_have(leaves->p, leaves->n, out->p[i]) && !add_children(out->p[i], out))
            return false;
    return true;
}

static void descendants_by_scan(pid_t root, const struct leaves *leaves, struct pids *out)
{
    struct procs all = {0};

    vec_clear(out);
    procs_read(&all);
    vec_push(out, root);
    close_over(&all, leaves, out);
    vec_remove(out, 0);
    vec_done(&all);
}

enum { WALKS_MAX = 10 };

/* A process whose parent ends during the walk moves up the tree, past the place where the walk has
 * been.  So the walk is repeated until it finds the same twice. */
static void descendants(pid_t root, const struct leaves *leaves, struct pids *out)
{
    struct pids before = {0};

    for (int walk = 0; walk < WALKS_MAX; walk++) {
        vec_clear(out);
        if (!descendants_by_children(root, leaves, out))
            descendants_by_scan(root, leaves, out);
        if (walk && out->n == before.n &&
            (!out->n || !memcmp(out->p, before.p, out->n * sizeof(*out->p))))
            break;
        vec_clear(&before);
        for (size_t i = 0; i < out->n; i++)
            vec_push(&before, out->p[i]);
    }
    vec_done(&before);
}

static size_t signal_pids(const struct pids *found, int signo)
{
    size_t alive = 0;

    for (size_t i = 0; i < found->n; i++) {
        if (kill(found->p[i], signo) == 0)
            alive++;
        if (signo == SIGTERM)
            kill(found->p[i], SIGCONT); /* a stopped process could not act on it */
    }
    return alive;
}

size_t tree_signal(pid_t root, int signo)
{
    struct pids found = {0};

    descendants(root, &(struct leaves){NULL, 0}, &found);
    size_t alive = signal_pids(&found, signo);
    vec_done(&found);
    return alive;
}

static bool one_lives(const struct pids *found, const pid_t *asks, size_t n)
{
    struct proc_stat st;

    for (size_t i = 0; i < found->n; i++)
        if (ints_have(asks, n, found->p[i]) && proc_stat_read(found->p[i], &st) &&
            st.state != 'Z' && st.state != 'X')
            return true;
    return false;
}

bool tree_ask(pid_t root, const pid_t *asks, size_t n)
{
    struct pids found = {0};

    descendants(root, &(struct leaves){asks, n}, &found);
    bool lives = one_lives(&found, asks, n);
    signal_pids(&found, SIGTERM);
    vec_done(&found);
    return lives;
}

bool tree_has(pid_t root, const pid_t *asks, size_t n)
{
    struct pids found = {0};

    descendants(root, &(struct leaves){asks, n}, &found);
    bool lives = one_lives(&found, asks, n);
    vec_done(&found);
    return lives;
}

/* ---- orphans ---- */

struct tree_scan {
    struct procs all;
    char (*marks)[TREE_MARK_MAX]; /* of each, "" = none */
    uint64_t *numbers;            /* the mark in the limits of each (mark.h) */
};

/* The marker in that process' environment.  Read in pieces: it may be megabytes, and shells reorder
 * it. */
static void read_mark(pid_t pid, char out[TREE_MARK_MAX])
{
    static const char name[] = TREE_MARK_NAME "=";
    char path[64], text[8192];
    size_t have = 0;

    out[0] = 0;
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got; fd >= 0;) {
        got = read(fd, text + have, sizeof(text) - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return;
        have += (size_t)got;
        const char *at = memmem(text, have, name, sizeof(name) - 1);
        const char *end = at ? memchr(at, 0, have - (size_t)(at - text)) : NULL;
        if (end && end - at < TREE_MARK_MAX) {
            memcpy(out, at, (size_t)(end - at) + 1);
            return;
        }
        size_t keep = MIN(have, (size_t)TREE_MARK_MAX);
        memmove(text, text + have - keep, keep);
        have = keep;
    }
}

static uint64_t read_number(pid_t pid)
{
    struct rlimit l;

    return prlimit(pid, RLIMIT_LOCKS, NULL, &l) < 0 ? 0 : (uint64_t)l.rlim_max;
}

struct tree_scan *tree_scan_new(void)
{
    struct tree_scan *t = xcalloc(1, sizeof(*t));

    procs_read(&t->all);
    t->marks = xcalloc(t->all.n + 1, sizeof(*t->marks));
    t->numbers = xcalloc(t->all.n + 1, sizeof(*t->numbers));
    for (size_t i = 0; i < t->all.n; i++) {
        read_mark(t->all.p[i].pid, t->marks[i]);
        t->numbers[i] = read_number(t->all.p[i].pid);
    }
    return t;
}

void tree_scan_free(struct tree_scan *t)
{
    if (t)
        FREE_EACH(t->all.p, t->marks, t->numbers, t);
}

static bool leader_is_ours(const struct procs *all, const struct tree_orphans *o)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->p[i].pid == o->leader)
            return all->p[i].start <= o->pid_start; /* a reused pid would have started later */
    return false;
}

size_t tree_kill_orphans(const struct tree_scan *t, const struct tree_orphans *o)
{
    struct pids set = {0};
    pid_t self = getpid();
    bool session = o->leader > 0 && leader_is_ours(&t->all, o);
    uint64_t number = mark_number(o->mark);

    for (size_t i = 0; i < t->all.n; i++) {
        const struct proc_stat *p = &t->all.p[i];
        if (p->pid == self || p->pid == 1 || (o->is_supervisor && o->is_supervisor(o->arg, p->pid)))
            continue;
        if ((session && (p->session == o->leader || p->pid == o->leader)) ||
            (o->shepherd > 0 && p->ppid == o->shepherd) || strcmp(t->marks[i], o->mark) == 0 ||
            t->numbers[i] == number)
            vec_push(&set, p->pid);
    }
    if (set.n > 0)
        close_over(&t->all, &(struct leaves){NULL, 0}, &set);
    for (size_t i = 0; i < set.n; i++)
        kill(set.p[i], SIGKILL);
    size_t n = set.n;
    vec_done(&set);
    return n;
}
