/* mounts.c - directories of the host that a run sees under other names
 *
 * Owns: the mount namespace of a command.
 *
 * A target that exists is mounted over.  One like /custom, which a host does not have, must not be
 * made there: it would be left behind, and two runs would meet in it.  So the command gets a root
 * directory of its own, an empty tmpfs with every name of the real one bound into it, and the
 * target is made in that.  The real root directory itself is all that is hidden.
 *
 * Sources and targets are looked up with the rights of the run's user.  A target is looked up in
 * the root that the command will have, so a link that a user made leads to no other place.
 *
 * Without root's rights the command also gets a user namespace of its own, where the kernel allows
 * that: in it the user is who they were, and may mount.
 *
 * Everything that needs memory happens before the fork; the child, which still shares our memory,
 * makes system calls with texts that are ready.  Our own namespace stays as it is: a supervisor
 * that looked for its cgroups in a tree that a user arranged could be led anywhere.
 */
#include "shepherd/mounts.h"
#include "base/file.h"
#include "base/util.h"
#include "base/vec.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

/* ---- before the fork ---- */

static bool is_directory(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* "/a/b/c" → "/a" exists? */
static bool top_exists(const char *target)
{
    char top[NAME_MAX + 2];
    const char *slash = strchr(target + 1, '/');
    size_t n = slash ? (size_t)(slash - target) : strlen(target);

    if (n >= sizeof(top))
        return false;
    memcpy(top, target, n);
    top[n] = 0;
    return access(top, F_OK) == 0;
}

static int mount_split(const char *text, struct mount_target *t, char **out_target)
{
    const char *colon = strchr(text, ':'), *end;

    if (text[0] != '/' || !colon || colon[1] != '/' || colon[2] == 0) {
        errno = EINVAL;
        return -1;
    }
    end = strchr(colon + 1, ':');
    if (end && strcmp(end, ":ro") != 0 && strcmp(end, ":rw") != 0) {
        errno = EINVAL;
        return -1;
    }
    t->text = text;
    t->host = xstrndup(text, (size_t)(colon - text));
    t->read_only = end && !strcmp(end, ":ro");
    *out_target = end ? xstrndup(colon + 1, (size_t)(end - colon - 1)) : xstrdup(colon + 1);
    return 0;
}

static int mount_read_entry(struct mounts *m, int dir, const char *name, struct mount_entry *out)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    *out = (struct mount_entry){.from = xasprintf("/%s", name),
                                .to = xasprintf("%s/%s", m->staging, name),
                                .is_dir = S_ISDIR(st.st_mode)};
    if (S_ISLNK(st.st_mode)) {
        char text[PATH_MAX];
        ssize_t n = readlinkat(dir, name, text, sizeof(text));
        out->link = xstrndup(text, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

static int read_root(struct mounts *m)
{
    VEC(struct mount_entry) list = {0};
    DIR *d = opendir("/");
    struct dirent *de;

    if (!d)
        return -1;
    while ((de = readdir(d))) {
        struct mount_entry one;
        if (strcmp(de->d_name, ".") && strcmp(de->d_name, "..") &&
            mount_read_entry(m, dirfd(d), de->d_name, &one) == 0)
            vec_push(&list, one);
    }
    closedir(d);
    m->entries = list.p;
    m->n_entries = list.n;
    return 0;
}

/* Every directory on the way to a target below a name that the host does not have. */
static char **ways(const char *target)
{
    VEC(char *) list = {0};

    for (const char *at = target + 1; at; at = strchr(at, '/')) {
        at += *at == '/';
        const char *next = strchr(at, '/');
        size_t n = next ? (size_t)(next - target) : strlen(target);
        vec_push(&list, xstrndup(target, n));
    }
    vec_push(&list, NULL);
    return list.p;
}

int mounts_plan(struct mounts *m, char *const *list, uint32_t n, const char *staging)
{
    bool own_root = false;

    *m = (struct mounts){0};
    if (n == 0)
        return 0; /* most runs: a first malloc or printf of a fresh process copies many pages */
    m->staging = xstrdup(staging);
    snprintf(m->uid_map, sizeof(m->uid_map), "%u %u 1\n", geteuid(), geteuid());
    snprintf(m->gid_map, sizeof(m->gid_map), "%u %u 1\n", getegid(), getegid());
    m->targets = xcalloc(n, sizeof(*m->targets));
    for (uint32_t i = 0; i < n; i++) {
        struct mount_target *t = &m->targets[m->n_targets];
        m->failed = list[i];
        if (mount_split(list[i], t, &t->to) < 0)
            return -1;
        m->n_targets++;
        if (path_has_dots(str_of(t->to))) { /* it could leave the root that is built for the run */
            errno = EINVAL;
            return -1;
        }
        own_root |= !is_directory(t->to);
    }
    if (own_root && (!staging[0] || read_root(m) < 0))
        return -1;
    for (size_t i = 0; own_root && i < m->n_targets; i++) {
        if (!top_exists(m->targets[i].to))
            m->targets[i].make = ways(m->targets[i].to);
    }
    m->failed = NULL;
    return 0;
}

void mounts_done(struct mounts *m)
{
    for (size_t i = 0; i < m->n_entries; i++)
        FREE_EACH(m->entries[i].from, m->entries[i].to, m->entries[i].link);
    for (size_t i = 0; i < m->n_targets; i++) {
        texts_free(m->targets[i].make);
        FREE_EACH(m->targets[i].host, m->targets[i].to);
    }
    FREE_EACH(m->entries, m->targets, m->staging);
    *m = (struct mounts){0};
}

/* ---- in the child ---- */

static int bind_to(const char *from, const char *to)
{
    return mount(from, to, NULL, MS_BIND | MS_REC, NULL);
}

static int entry_put(const struct mount_entry *x)
{
    if (x->link)
        return symlink(x->link, x->to);
    if (x->is_dir)
        return mkdir(x->to, 0755) < 0 ? -1 : bind_to(x->from, x->to);
    int fd = open(x->to, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    close(fd);
    return bind_to(x->from, x->to);
}

/* A root of our own on the staging directory.  It is left out when a tree that contains it is bound
 * into it (unbindable), which would go on for ever. */
static int root_build(struct mounts *m)
{
    if (mount("berth", m->staging, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m") < 0 ||
        mount(NULL, m->staging, NULL, MS_UNBINDABLE, NULL) < 0)
        return -1;
    for (size_t i = 0; i < m->n_entries; i++)
        if (entry_put(&m->entries[i]) < 0)
            return -1;
    return 0;
}

static int root_enter(struct mounts *m)
{
    if (chdir(m->staging) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -1;
    return mount(NULL, "/", NULL, MS_PRIVATE, NULL);
}

/* "/proc/self/fd/N" without the library. */
static void fd_path(int fd, char out[32])
{
    static const char head[] = "/proc/self/fd/";
    char digits[12];
    size_t n = 0, at = sizeof(head) - 1;

    memcpy(out, head, at);
    do {
        digits[n++] = (char)('0' + fd % 10);
    } while ((fd /= 10) > 0);
    while (n > 0)
        out[at++] = digits[--n];
    out[at] = 0;
}

/* ---- looking up, as that user could ---- */

static void take_rights(const struct run_start *as)
{
    if (!as)
        return;
    syscall(SYS_setfsgid, as->gid);
    syscall(SYS_setfsuid, as->uid);
}

/* errno stays as it was.  False: the rights of the user stayed, or were never taken. */
static bool leave_rights(const struct run_start *as)
{
    int sys = errno;

    if (!as)
        return true;
    bool taken = (uint32_t)syscall(SYS_setfsuid, 0) == as->uid;
    taken &= (uint32_t)syscall(SYS_setfsgid, 0) == as->gid;
    errno = sys;
    return taken && (uint32_t)syscall(SYS_setfsuid, -1) == 0;
}

/* A directory below `root`, which is "/" to links and names in it.  Links of /proc to open files
 * are refused: those are the supervisor's. */
static int dir_in_root(int root, const char *path, const struct run_start *as)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};

    take_rights(as);
    int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
    if (fd < 0 && errno == ENOSYS) /* before Linux 5.6 */
        fd = openat(root, path[1] ? path + 1 : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (leave_rights(as))
        return fd;
    if (fd >= 0)
        close(fd);
    errno = EPERM;
    return -1;
}

/* The directories of a target that the host does not have.  `way` is changed and changed back. */
static int ways_make(int root, char *const *way)
{
    for (; way && *way; way++) {
        char *slash = strrchr(*way, '/');
        *slash = 0;
        int dir = dir_in_root(root, **way ? *way : "/", NULL);
        *slash = '/';
        int rc = dir < 0 ? -1 : mkdirat(dir, slash + 1, 0755);
        int sys = errno;
        if (dir >= 0)
            close(dir);
        errno = sys;
        if (rc < 0 && errno != EEXIST)
            return -1;
    }
    return 0;
}

/* What the host's mount forbids stays forbidden; in a user namespace it must be said again. */
static int make_read_only(const char *path)
{
    enum { KEPT = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME, RELATIME = 4096 };
    struct statfs fs;

    if (statfs(path, &fs) < 0)
        return -1;
    unsigned long kept = (unsigned long)fs.f_flags & KEPT;
    if (fs.f_flags & RELATIME)
        kept |= MS_RELATIME;
    return mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | kept, NULL);
}

/* Looked up anew, since the descriptor from before names what is now covered. */
static int target_lock(int root, const struct mount_target *t, const struct run_start *as)
{
    char path[32];
    int fd = dir_in_root(root, t->to, as), rc;

    if (fd < 0)
        return -1;
    fd_path(fd, path);
    rc = make_read_only(path);
    close(fd);
    return rc;
}

/* `host` and `root` are "/" and the root that the command will have. */
static int target_bind(int host, int root, const struct mount_target *t, const struct run_start *as)
{
    char from[32], to[32];
    int source = dir_in_root(host, t->host, as);
    int target = source < 0 || ways_make(root, t->make) < 0 ? -1 : dir_in_root(root, t->to, as);
    int rc = -1, sys;

    if (target >= 0) {
        fd_path(source, from);
        fd_path(target, to);
        rc = bind_to(from, to);
    }
    sys = errno;
    if (source >= 0)
        close(source);
    if (target >= 0)
        close(target);
    errno = sys;
    return rc == 0 && t->read_only ? target_lock(root, t, as) : rc;
}

static int targets_bind(struct mounts *m, const struct run_start *as)
{
    enum { HOW = O_PATH | O_DIRECTORY | O_CLOEXEC };
    AUTO_FD host = open("/", HOW);
    AUTO_FD root = m->n_entries ? open(m->staging, HOW) : open("/", HOW);

    if (host < 0 || root < 0)
        return -1;
    for (size_t i = 0; i < m->n_targets; i++) {
        m->failed = m->targets[i].text;
        if (target_bind(host, root, &m->targets[i], as) < 0)
            return -1;
    }
    return 0;
}

static int mount_put_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC), sys = 0;

    if (fd < 0)
        return -1;
    if (write(fd, text, strlen(text)) < 0)
        sys = errno;
    close(fd);
    errno = sys;
    return sys ? -1 : 0;
}

/* A namespace of mounts, and where that takes it one of users. */
static int leave_host(const struct mounts *m)
{
    if (geteuid() == 0)
        return unshare(CLONE_NEWNS);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return -1;
    if (mount_put_text("/proc/self/setgroups", "deny") < 0 && errno != ENOENT)
        return -1;
    return mount_put_text("/proc/self/uid_map", m->uid_map) < 0 ||
                   mount_put_text("/proc/self/gid_map", m->gid_map) < 0
               ? -1
               : 0;
}

int mounts_enter(struct mounts *m, const struct run_start *as)
{
    if (as && (syscall(SYS_setgroups, as->groups.n, as->groups.ids) < 0 ||
               prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0))
        return -1;
    m->failed = m->targets[0].text;
    if (leave_host(m) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
        return -1;
    if (m->n_entries && root_build(m) < 0)
        return -1;
    if (targets_bind(m, as) < 0)
        return -1;
    return m->n_entries ? root_enter(m) : 0;
}
