/* command.c - files, user, directory and exec of one command
 *
 * Owns: everything between the decision to run and the running program.
 *
 * The program is started by vfork: the child borrows our memory until it executes, so a start does
 * not copy page tables twice, and the child can say by plain variables what went wrong.  It
 * therefore does nothing but system calls (raw ones for the user ids: the library's would signal
 * other threads).  The log is opened before the user is changed, so that files stay in the
 * scheduler's directories.
 */
#include "shepherd/command.h"
#include "base/file.h"
#include "base/rand.h"
#include "base/util.h"
#include "shepherd/mark.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

static const char default_path[] = "/usr/local/bin:/usr/bin:/bin";

static bool command_fail(struct command *c, enum start_stage stage, int sys)
{
    c->failed = stage;
    c->sys = sys;
    return false;
}

/* Does the run belong to another user than the shepherd?  Its files are then private to that
 * user. */
static bool foreign(const struct command *c)
{
    return c->start->change_user;
}

/* ---- before the fork ---- */

/* Makes the directory of a thousand runs, under another name at first: ext4 decides by the name
 * where on the disk a directory and the files in it go (the backend asked for that, see spread_runs
 * there), and `0`, `1`, `2` would put every home on the machine in the same few places. */
static void make_parent(const char *path)
{
    AUTO_FREE char *copy = xstrdup(path);
    const char *dir = dirname(copy);
    AUTO_FREE char *above = xstrdup(dir), *temp = NULL;
    uint64_t name;

    /* Submitters reach their own files below these directories, and nobody lists them. */
    if (dir_make_all(dirname(above), 0711, NULL) < 0)
        return;
    random_bytes(&name, sizeof(name));
    temp = xasprintf("%s/.%016" PRIx64, above, name);
    if (mkdir(temp, 0711) < 0)
        return;
    if (renameat2(AT_FDCWD, temp, AT_FDCWD, dir, RENAME_NOREPLACE) == 0)
        return;
    rmdir(temp); /* somebody was faster, or the file system cannot do that */
    mkdir(dir, 0711);
}

static int command_log_open(struct command *c, const char *path)
{
    const struct run_start *s = c->start;
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY;
    int fd = open(path, flags, 0600);

    if (fd < 0 && errno == ENOENT) {
        make_parent(path);
        fd = open(path, flags, 0600);
    }
    if (fd >= 0 && foreign(c) && fchown(fd, s->uid, s->gid) < 0) {
        int sys = errno;
        close(fd);
        errno = sys;
        return -1;
    }
    return fd;
}

static bool params_write(struct command *c)
{
    const struct run_start *s = c->start;
    char path[PATH_MAX];
    struct err e = {0};

    if (s->params_json.n == 0)
        return true;
    if (snprintf(path, sizeof(path), "%s/params.json", s->run_dir) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return false;
    if (fd_write_all(fd, s->params_json.p, s->params_json.n, &e) < 0) {
        errno = e.sys;
        return false;
    }
    return !foreign(c) || fchown(fd, s->uid, s->gid) == 0;
}

static bool run_dir_make(struct command *c)
{
    const struct run_start *s = c->start;
    struct stat st;

    if (mkdir(s->run_dir, 0700) < 0 && errno == ENOENT) {
        make_parent(s->run_dir);
        mkdir(s->run_dir, 0700);
    }
    if (lstat(s->run_dir, &st) < 0)
        return false;
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return false;
    }
    if (!params_write(c))
        return false;
    /* Last: while the directory is ours, nobody else can put anything in the way. */
    return !foreign(c) || lchown(s->run_dir, s->uid, s->gid) == 0;
}

bool command_prepare(struct command *c)
{
    const struct run_start *s = c->start;

    c->out_fd =
        s->log_path ? command_log_open(c, s->log_path) : open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (c->out_fd < 0)
        return command_fail(c, START_LOG, errno);
    c->err_fd = s->err_path ? command_log_open(c, s->err_path) : c->out_fd;
    if (c->err_fd < 0)
        return command_fail(c, START_LOG, errno);
    if (s->make_run_dir && !run_dir_make(c))
        return command_fail(c, START_RUN_DIR, errno);
    uint32_t n_mounts = 0;
    while (s->mounts && s->mounts[n_mounts])
        n_mounts++;
    if (mounts_plan(&c->mounts, s->mounts, n_mounts, s->run_dir) < 0)
        return command_fail(c, START_MOUNT, errno);
    return true;
}

void command_close(struct command *c)
{
    if (c->err_fd >= 0 && c->err_fd != c->out_fd)
        close(c->err_fd);
    if (c->out_fd >= 0)
        close(c->out_fd);
    c->out_fd = c->err_fd = -1;
    mounts_done(&c->mounts);
}

/* ---- in the child ---- */

static bool become_user(struct command *c)
{
    const struct run_start *s = c->start;

    if (syscall(SYS_setgroups, s->groups.n, s->groups.ids) < 0 ||
        syscall(SYS_setresgid, s->gid, s->gid, s->gid) < 0 ||
        syscall(SYS_setresuid, s->uid, s->uid, s->uid) < 0)
        return command_fail(c, START_USER, errno);
    return true;
}

static bool can_execute(const char *path, int *sys)
{
    struct stat st;

    if (access(path, X_OK) < 0) {
        if (*sys != EACCES) /* "permission denied" tells more than a later "not found" */
            *sys = errno;
        return false;
    }
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        return true;
    *sys = EACCES;
    return false;
}

/* The program's path, by the job's own PATH; NULL with *sys. */
static const char *program_find(const struct run_start *s, char out[PATH_MAX], int *sys)
{
    const char *name = s->argv[0], *path = default_path;

    *sys = ENOENT;
    if (name[0] == 0)
        return NULL;
    if (strchr(name, '/'))
        return can_execute(name, sys) ? name : NULL;
    for (char *const *v = s->envp; *v; v++)
        if (strncmp(*v, "PATH=", 5) == 0)
            path = *v + 5;
    size_t name_n = strlen(name);
    for (struct str rest = str_of(path), dir; rest.n > 0;) {
        dir = str_cut(rest, ':', &rest);
        if (dir.n == 0)
            dir = STR(".");
        if (dir.n + name_n + 2 > PATH_MAX)
            continue;
        memcpy(out, dir.p, dir.n);
        out[dir.n] = '/';
        memcpy(out + dir.n + 1, name, name_n + 1);
        if (can_execute(out, sys))
            return out;
    }
    return NULL;
}

static bool record_started(struct command *c)
{
    enum { TICKS_PER_S = 100 }; /* of /proc/PID/stat; the same on every Linux we run on */
    struct timespec up, wall;

    clock_gettime(CLOCK_BOOTTIME, &up);
    clock_gettime(CLOCK_REALTIME, &wall);
    c->started.kind = JOURNAL_STARTED;
    c->started.pid = (uint32_t)getpid();
    c->started.pid_start =
        (uint64_t)up.tv_sec * TICKS_PER_S + (uint64_t)up.tv_nsec / (1000000000 / TICKS_PER_S);
    c->started.at_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000;
    if (journal_append(c->journal_fd, &c->started) == 0)
        return true;
    return command_fail(c, START_JOURNAL, errno);
}

/* Inside a run of another home that home's mark stays: its shepherd must find us, too. */
static void limit_mark(const char *mark)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_LOCKS, &l) < 0 || l.rlim_max != RLIM_INFINITY)
        return;
    l.rlim_cur = l.rlim_max = mark_number(mark);
    setrlimit(RLIMIT_LOCKS, &l);
}

static void child_exec(struct command *c)
{
    const struct run_start *s = c->start;
    char path[PATH_MAX];
    int sys;
    sigset_t none;

    setsid();
    dup2(c->out_fd, STDOUT_FILENO);
    dup2(c->err_fd, STDERR_FILENO);
    cgroup_join(c->cgroup);
    limit_mark(c->mark);
    if (c->mounts.n_targets && mounts_enter(&c->mounts, foreign(c) ? s : NULL) < 0) {
        command_fail(c, START_MOUNT, errno);
        return;
    }
    if (foreign(c) && !become_user(c))
        return;
    if (s->cwd && chdir(s->cwd) < 0) {
        command_fail(c, START_CWD, errno);
        return;
    }
    /* After the change of user: whether a level is permitted depends on the submitter. */
    if (s->limits.nice && setpriority(PRIO_PROCESS, 0, (int)s->limits.nice) < 0) {
        command_fail(c, START_NICE, errno);
        return;
    }
    const char *program = program_find(s, path, &sys);
    if (!program) {
        command_fail(c, START_EXEC, sys);
        return;
    }
    if (!record_started(c))
        return;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(program, s->argv, s->envp);
    if (errno == ENOEXEC) { /* a script without "#!": what a shell would do */
        char **argv = (char **)(uintptr_t)s->argv - 1;
        argv[0] = (char *)(uintptr_t) "sh";
        argv[1] = (char *)(uintptr_t)program;
        execve("/bin/sh", argv, s->envp);
    }
    command_fail(c, START_EXEC, errno);
}

__attribute__((noinline)) pid_t command_start(struct command *c)
{
    pid_t pid;

    c->failed = START_OK;
    c->sys = 0;
    pid = vfork();
    if (pid == 0) {
        child_exec(c);
        _exit(127);
    }
    if (pid < 0)
        command_fail(c, START_FORK, errno);
    return pid;
}

const char *command_failure_name(const struct command *c)
{
    const struct run_start *s = c->start;

    switch (c->failed) {
    case START_LOG:
        return s->err_path && c->out_fd >= 0 ? s->err_path : s->log_path;
    case START_RUN_DIR:
        return s->run_dir;
    case START_CWD:
        return s->cwd;
    case START_EXEC:
        return s->argv[0];
    case START_MOUNT:
        return c->mounts.failed ? c->mounts.failed : "";
    case START_OK:
    case START_USER:
    case START_NICE:
    case START_FORK:
    case START_JOURNAL:
    case START_ENGINE:
    case START_IMAGE:
    case START_CONTAINER:
    case START_GONE:
    case START_SPACE:
        break;
    }
    return "";
}
