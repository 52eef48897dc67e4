/* record.c - runs a program and writes down what it and its children do to the files below one
 * directory
 *
 *   record LOG DIR COMMAND…
 *
 * The order of writes, new names and syncs decides what a disk may hold after a power cut; model.py
 * reads the log and makes such disks.  The recorder stops every thread at the system calls that
 * change files (seccomp chooses them, ptrace stops them), so it sees static programs too and
 * nothing in the programs has to know of it.  Memory that is mapped from files is not seen: only
 * SQLite's shared memory file is used that way, and no promise depends on it.
 *
 * A record is a line of text, `op fields… n`, and n bytes.  Files are named by their inodes, so
 * renames need no care here.  `since` of a sync is the number of records when it was called: writes
 * that were recorded later, while it was under way, are not covered by it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_ROOM = 4096, THREADS_MAX = 4096, DATA_MAX = 64 << 20 };
/* Of one write to a file that others append to, and how many of them may be at it. */
enum { APPEND_MAX = 4096, APPENDS_MAX = 64 };

/* What a thread is about to do, from its stop before a system call to the one behind it. */
struct call {
    pid_t tid;
    long number;
    uint64_t args[6];
    uint64_t since; /* records when it began */
    int existed;    /* open, rename: the name was there */
    char path[PATH_ROOM], to[PATH_ROOM];
};

static FILE *out;
static char dir[PATH_ROOM];
static size_t dir_n;
static uint64_t records;
static struct call calls[THREADS_MAX];

static const int watched[] = {
    SYS_openat,    SYS_write,     SYS_pwrite64,        SYS_writev,    SYS_pwritev,
    SYS_pwritev2,  SYS_ftruncate, SYS_fallocate,       SYS_renameat,  SYS_renameat2,
    SYS_unlinkat,  SYS_mkdirat,   SYS_linkat,          SYS_symlinkat, SYS_fsync,
    SYS_fdatasync, SYS_syncfs,    SYS_copy_file_range, SYS_sendfile,  SYS_splice,
#ifdef SYS_open
    SYS_open,      SYS_creat,     SYS_rename,          SYS_unlink,    SYS_mkdir,
    SYS_rmdir,     SYS_link,      SYS_symlink,
#endif
};

static void fail(const char *what)
{
    fprintf(stderr, "record: %s: %s\n", what, strerror(errno));
    exit(99);
}

/* ---- what a thread's arguments say ---- */

static struct call *call_of(pid_t tid)
{
    struct call *spare = NULL;

    for (size_t i = 0; i < THREADS_MAX; i++) {
        if (calls[i].tid == tid)
            return &calls[i];
        if (!calls[i].tid && !spare)
            spare = &calls[i];
    }
    if (!spare)
        fail("too many threads");
    spare->tid = tid;
    return spare;
}

static ssize_t peek(pid_t tid, uint64_t at, void *p, size_t n)
{
    struct iovec here = {p, n}, there = {(void *)(uintptr_t)at, n};

    return process_vm_readv(tid, &here, 1, &there, 1, 0);
}

/* A string of the thread; a page at a time, since what lies behind its end may not be readable. */
static int peek_text(pid_t tid, uint64_t at, char *text, size_t room)
{
    size_t n = 0;

    while (n < room) {
        size_t piece = 4096 - (at + n) % 4096;
        piece = piece < room - n ? piece : room - n;
        ssize_t got = peek(tid, at + n, text + n, piece);
        if (got <= 0)
            return -1;
        if (memchr(text + n, 0, (size_t)got))
            return 0;
        n += (size_t)got;
    }
    return -1;
}

/* The name as seen from here; links in the middle of a path are not looked up, and the programs use
 * none. */
static void path_of(pid_t tid, int at, uint64_t text, char path[PATH_ROOM])
{
    char name[PATH_ROOM], link[64], base[PATH_ROOM];

    path[0] = 0;
    if (peek_text(tid, text, name, sizeof(name)) < 0)
        return;
    if (name[0] == '/') {
        snprintf(path, PATH_ROOM, "%s", name);
        return;
    }
    if (at == AT_FDCWD)
        snprintf(link, sizeof(link), "/proc/%d/cwd", tid);
    else
        snprintf(link, sizeof(link), "/proc/%d/fd/%d", tid, at);
    ssize_t n = readlink(link, base, sizeof(base) - 1);
    if (n <= 0)
        return;
    base[n] = 0;
    if (snprintf(path, PATH_ROOM, "%s/%s", base, name) >= PATH_ROOM)
        path[0] = 0;
}

static int is_below(const char *path)
{
    return !strncmp(path, dir, dir_n) && (path[dir_n] == '/' || !path[dir_n]);
}

/* 1 when the descriptor is a file or directory below the directory, with its inode. */
static int inode_of(pid_t tid, int fd, struct stat *st)
{
    char link[64], path[PATH_ROOM];

    snprintf(link, sizeof(link), "/proc/%d/fd/%d", tid, fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n <= 0)
        return 0;
    path[n] = 0;
    return is_below(path) && stat(link, st) == 0 && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode));
}

static int64_t position_of(pid_t tid, int fd)
{
    char link[64], text[256];

    snprintf(link, sizeof(link), "/proc/%d/fdinfo/%d", tid, fd);
    FILE *f = fopen(link, "r");
    long long pos = -1;
    while (f && fgets(text, sizeof(text), f))
        if (sscanf(text, "pos: %lld", &pos) == 1)
            break;
    if (f)
        fclose(f);
    return pos;
}

/* ---- records ---- */

static void put(const char *data, size_t n, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vfprintf(out, fmt, ap);
    va_end(ap);
    fprintf(out, " %zu\n", n);
    if (n && fwrite(data, 1, n, out) != n)
        fail("cannot write the log");
    records++;
}

/* Names are relative to the directory. */
static const char *name_of(const char *path)
{
    return path[dir_n] ? path + dir_n + 1 : "";
}

/* The bytes are read back from the file: they may have come from several buffers, or from another
 * file. */
static void put_bytes(pid_t tid, int fd, const struct stat *st, int64_t at, int64_t n)
{
    char link[64];
    char *data = malloc((size_t)n);

    snprintf(link, sizeof(link), "/proc/%d/fd/%d", tid, fd);
    int mine = open(link, O_RDONLY | O_CLOEXEC);
    if (!data || mine < 0 || pread(mine, data, (size_t)n, at) != n)
        fail("cannot read back what was written");
    put(data, (size_t)n, "write %llu %lld", (unsigned long long)st->st_ino, (long long)at);
    close(mine);
    free(data);
}

/* A call that names an offset of its own has moved it on by n; -1 = the position of the file. */
static int64_t offset_before(pid_t tid, uint64_t offset, int64_t n)
{
    int64_t after;

    if (!offset || n <= 0)
        return -1;
    if (peek(tid, offset, &after, sizeof(after)) != (ssize_t)sizeof(after))
        fail("cannot read the offset of a copy");
    return after - n;
}

/* Processes that share one open file append at once, and the position is behind all they wrote: so
 * these bytes may stand before it. */
static int64_t offset_of(pid_t tid, int fd, uint64_t bytes, int64_t n)
{
    static char wrote[APPEND_MAX], found[APPEND_MAX];
    int64_t last = position_of(tid, fd) - n;
    char link[64];

    if (n <= 0 || n > APPEND_MAX || peek(tid, bytes, wrote, (size_t)n) != n)
        return last;
    snprintf(link, sizeof(link), "/proc/%d/fd/%d", tid, fd);
    int mine = open(link, O_RDONLY | O_CLOEXEC);
    int64_t at = last;
    for (int i = 0; mine >= 0 && i < APPENDS_MAX && at >= 0; i++, at -= n)
        if (pread(mine, found, (size_t)n, at) == n && !memcmp(wrote, found, (size_t)n)) {
            last = at;
            break;
        }
    if (mine >= 0)
        close(mine);
    return last;
}

static void written(struct call *c, int fd, int64_t n, int64_t at)
{
    struct stat st;

    if (n <= 0 || n > DATA_MAX || !inode_of(c->tid, fd, &st) || !S_ISREG(st.st_mode))
        return;
    if (at < 0 && c->number == SYS_write)
        at = offset_of(c->tid, fd, c->args[1], n);
    else if (at < 0)
        at = position_of(c->tid, fd) - n;
    put_bytes(c->tid, fd, &st, at, n);
}

static void opened(struct call *c, int flags, int64_t fd)
{
    struct stat st;

    if (fd < 0 || !inode_of(c->tid, (int)fd, &st) || !S_ISREG(st.st_mode))
        return;
    unsigned long long ino = st.st_ino;
    if ((flags & O_CREAT) && !c->existed) {
        const char *name = name_of(c->path);
        put(name, strlen(name), "create %llu %o", ino, st.st_mode & 07777);
    }
    if (flags & O_TRUNC)
        put("", 0, "truncate %llu 0", ino);
}

static void renamed(const struct call *c)
{
    char both[2 * PATH_ROOM];

    if (is_below(c->path) && is_below(c->to)) {
        int n = snprintf(both, sizeof(both), "%s%c%s", name_of(c->path), 0, name_of(c->to));
        put(both, (size_t)n, "rename");
    }
}

static void linked(const struct call *c)
{
    struct stat st;
    const char *name = name_of(c->to);

    if (is_below(c->to) && lstat(c->to, &st) == 0)
        put(name, strlen(name), "link %llu", (unsigned long long)st.st_ino);
}

static void made(const char *path)
{
    struct stat st;
    const char *name = name_of(path);

    if (is_below(path) && lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
        put(name, strlen(name), "mkdir %llu %o", (unsigned long long)st.st_ino, st.st_mode & 07777);
}

static void removed(const char *path)
{
    const char *name = name_of(path);

    if (is_below(path))
        put(name, strlen(name), "remove");
}

static void synced(struct call *c, int all)
{
    struct stat st;

    if (all)
        put("", 0, "sync 0 %llu", (unsigned long long)c->since);
    else if (inode_of(c->tid, (int)c->args[0], &st))
        put("", 0, "sync %llu %llu", (unsigned long long)st.st_ino, (unsigned long long)c->since);
}

static void resized(struct call *c, int64_t size)
{
    struct stat st;

    if (inode_of(c->tid, (int)c->args[0], &st))
        put("", 0, "truncate %llu %lld", (unsigned long long)st.st_ino, (long long)size);
}

/* ---- before and behind a system call ---- */

static void before(struct call *c)
{
    const uint64_t *a = c->args;
    struct stat st;

    c->since = records;
    c->path[0] = c->to[0] = 0;
    switch (c->number) {
    case SYS_openat:
        path_of(c->tid, (int)a[0], a[1], c->path);
        break;
    case SYS_unlinkat:
    case SYS_mkdirat:
        path_of(c->tid, (int)a[0], a[1], c->path);
        break;
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_linkat:
        path_of(c->tid, (int)a[0], a[1], c->path);
        path_of(c->tid, (int)a[2], a[3], c->to);
        break;
#ifdef SYS_open
    case SYS_open:
    case SYS_creat:
    case SYS_unlink:
    case SYS_mkdir:
    case SYS_rmdir:
        path_of(c->tid, AT_FDCWD, a[0], c->path);
        break;
    case SYS_rename:
    case SYS_link:
        path_of(c->tid, AT_FDCWD, a[0], c->path);
        path_of(c->tid, AT_FDCWD, a[1], c->to);
        break;
#endif
    }
    c->existed = c->path[0] && is_below(c->path) && lstat(c->path, &st) == 0;
}

static void behind(struct call *c, int64_t result)
{
    const uint64_t *a = c->args;
    struct stat st;

    if (result < 0)
        return;
    switch (c->number) {
    case SYS_openat:
        opened(c, (int)a[2], result);
        break;
    case SYS_write:
    case SYS_writev:
        written(c, (int)a[0], result, -1);
        break;
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2:
        written(c, (int)a[0], result, (int64_t)a[3]);
        break;
    case SYS_sendfile:
        written(c, (int)a[0], result, -1);
        break;
    case SYS_splice:
    case SYS_copy_file_range:
        written(c, (int)a[2], result, offset_before(c->tid, a[3], result));
        break;
    case SYS_ftruncate:
        resized(c, (int64_t)a[1]);
        break;
    case SYS_fallocate:
        if (!a[1] && inode_of(c->tid, (int)a[0], &st))
            put("", 0, "truncate %llu %lld", (unsigned long long)st.st_ino, (long long)st.st_size);
        break;
    case SYS_renameat:
    case SYS_renameat2:
        renamed(c);
        break;
    case SYS_unlinkat:
        removed(c->path);
        break;
    case SYS_mkdirat:
        made(c->path);
        break;
    case SYS_linkat:
        linked(c);
        break;
    case SYS_fsync:
    case SYS_fdatasync:
        synced(c, 0);
        break;
    case SYS_syncfs:
        synced(c, 1);
        break;
#ifdef SYS_open
    case SYS_open:
        opened(c, (int)a[1], result);
        break;
    case SYS_creat:
        opened(c, O_CREAT | O_TRUNC, result);
        break;
    case SYS_rename:
        renamed(c);
        break;
    case SYS_unlink:
    case SYS_rmdir:
        removed(c->path);
        break;
    case SYS_mkdir:
        made(c->path);
        break;
    case SYS_link:
        linked(c);
        break;
#endif
    }
}

/* ---- the threads ---- */

/* In the child: from here on the chosen system calls stop for the tracer. */
static void trap_calls(void)
{
    enum { N = sizeof(watched) / sizeof(watched[0]) };
    struct sock_filter f[N + 3];
    struct sock_fprog prog = {.len = N + 3, .filter = f};

    f[0] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < N; i++)
        f[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)watched[i],
                                                (unsigned char)(N - i), 0);
    f[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    f[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
        fail("cannot choose system calls");
}

/* A stop; returns the request that lets the thread go on, and the signal it gets. */
static int stopped(pid_t tid, int status, int *signal)
{
    struct __ptrace_syscall_info info;
    struct call *c;
    int event = status >> 16, what = WSTOPSIG(status);

    *signal = 0;
    if (event == PTRACE_EVENT_SECCOMP) {
        c = call_of(tid);
        if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) > 0) {
            c->number = (long)info.seccomp.nr;
            memcpy(c->args, info.seccomp.args, sizeof(c->args));
            before(c);
        }
        return PTRACE_SYSCALL; /* stops again behind the call */
    }
    if (what == (SIGTRAP | 0x80)) {
        if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) > 0 &&
            info.op == PTRACE_SYSCALL_INFO_EXIT)
            behind(call_of(tid), info.exit.rval);
        return PTRACE_CONT;
    }
    if (event == PTRACE_EVENT_STOP) /* a group stop, or a new thread */
        return what == SIGTRAP ? PTRACE_CONT : PTRACE_LISTEN;
    if (!event)
        *signal = what;
    return PTRACE_CONT;
}

/* Until the last thread is gone; the status of the command. */
static int follow(pid_t first)
{
    int status, result = 99, signal;
    pid_t tid;

    while ((tid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
        if (tid <= 0)
            continue;
        if (WIFSTOPPED(status)) {
            int request = stopped(tid, status, &signal);
            ptrace(request, tid, 0, signal); /* fails when it was killed meanwhile */
            continue;
        }
        call_of(tid)->tid = 0;
        if (tid == first)
            result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return result;
}

int main(int argc, char **argv)
{
    int go[2];
    char c;

    if (argc < 4) {
        fprintf(stderr, "usage: record LOG DIR COMMAND…\n");
        return 2;
    }
    out = fopen(argv[1], "we");
    if (!out || !realpath(argv[2], dir) || pipe(go) < 0)
        fail(argv[1]);
    dir_n = strlen(dir);
    pid_t child = fork();
    if (child == 0) {
        close(go[1]);
        if (read(go[0], &c, 1) != 1)
            _exit(99);
        trap_calls();
        execvp(argv[3], argv + 3);
        fail(argv[3]);
    }
    if (ptrace(PTRACE_SEIZE, child, 0,
               PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACECLONE | PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL) < 0)
        fail("cannot trace");
    if (write(go[1], "g", 1) != 1)
        fail("pipe");
    int result = follow(child);
    if (fclose(out) != 0)
        fail("cannot write the log");
    return result;
}
