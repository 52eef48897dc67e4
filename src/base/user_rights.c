/* user_rights.c - see user_rights.h
 *
 * Owns: the file ids of the calling thread while they are not those of the process.
 *
 * Linux keeps ids per thread; the C library's functions change them for all threads, so the system
 * calls are made directly.  The uid for file access alone is changed: with it the kernel takes
 * CAP_DAC_OVERRIDE and its relatives from the thread, and another user cannot send the thread a
 * signal, as they could if its real uid were theirs.
 */
#include "base/user_rights.h"
#include "base/file.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

/* What the kernel takes away with the uid for files, as far as it opens files of others. */
#define FILE_CAPS                                                                                  \
    (1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH | 1u << CAP_FOWNER |     \
     1u << CAP_FSETID)

/* The group of nobody: a member of it may do what everybody may. */
enum { NOGROUP = 65534 };

static _Thread_local bool rights_entered;
/* The thread's own groups while it has those of a user. */
static _Thread_local gid_t *own_groups;
static _Thread_local int n_own_groups;

static bool own_groups_keep(void)
{
    int n = (int)syscall(SYS_getgroups, 0, NULL);

    if (n < 0)
        return false;
    own_groups = xcalloc((size_t)n + 1, sizeof(*own_groups));
    n_own_groups = (int)syscall(SYS_getgroups, n, own_groups);
    return n_own_groups == n;
}

/* An id that does not exist changes nothing, and the answer is the present one. */
static bool file_ids_are(uint32_t uid, uint32_t gid)
{
    return (uint32_t)syscall(SYS_setfsuid, -1) == uid && (uint32_t)syscall(SYS_setfsgid, -1) == gid;
}

/* Is root's right to open every file gone?  With SECBIT_NO_SETUID_FIXUP it would stay. */
static bool file_caps_gone(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[2] = {{0}};

    return syscall(SYS_capget, &head, caps) == 0 && !(caps[0].effective & FILE_CAPS);
}

static void rights_restore(void)
{
    syscall(SYS_setfsuid, geteuid());
    syscall(SYS_setfsgid, getegid());
    ASSERT(syscall(SYS_setgroups, n_own_groups, own_groups) == 0);
    ASSERT(file_ids_are(geteuid(), getegid()));
    free(TAKE(own_groups));
}

int user_rights_enter(const struct user_rights *u, struct err *e)
{
    uint32_t gid = u->gid == USER_NO_GROUP ? NOGROUP : u->gid;

    ASSERT(!rights_entered);
    if (u->uid == geteuid())
        return 0;
    if (!own_groups_keep() || syscall(SYS_setgroups, u->n_groups, u->groups) < 0) {
        int sys = errno;
        free(TAKE(own_groups));
        errno = sys;
        return err_sys(e,
                       "cannot take the groups of user %u; a daemon for several users must be "
                       "root's",
                       u->uid);
    }
    syscall(SYS_setfsgid, gid);
    syscall(SYS_setfsuid, u->uid);
    if (!file_ids_are(u->uid, gid) || !file_caps_gone()) {
        rights_restore();
        return err_set(e, ERR_DENIED,
                       "cannot take the file rights of user %u; a daemon for several users must be "
                       "root's",
                       u->uid);
    }
    rights_entered = true;
    return 0;
}

int user_rights_enter_owner(int dir, struct err *e)
{
    struct stat st;

    if (geteuid() != 0)
        return 0;
    if (fstat(dir, &st) < 0)
        return err_sys(e, "cannot learn the owner of a directory");
    return user_rights_enter(&(struct user_rights){.uid = st.st_uid, .gid = st.st_gid}, e);
}

void user_rights_leave(void)
{
    if (!rights_entered)
        return;
    rights_restore();
    rights_entered = false;
}

enum { BENEATH = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };

/* Name by name, before Linux 5.6 and in sandboxes that do not know openat2. */
static int walk_beneath(int dir, const char *path, int flags, mode_t mode)
{
    AUTO_FREE char *rest = xstrdup(path);
    AUTO_FD at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;

    if (path[0] == '/' || path_has_dots(str_of(path))) {
        errno = EXDEV;
        return -1;
    }
    char *name = rest;
    for (char *slash; at >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
        *slash = '\0';
        int next =
            *name ? openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : TAKE_FD(at);
        if (at >= 0)
            close(at);
        at = next;
    }
    AUTO_FD fd = at < 0 ? -1 : openat(at, *name ? name : ".", flags | O_NOFOLLOW, mode);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) { /* O_PATH opens the link itself */
        errno = ELOOP;
        return -1;
    }
    return TAKE_FD(fd);
}

static int open_old(int dir, const char *path, const struct open_how *how)
{
    int flags = (int)how->flags;

    if (how->resolve & RESOLVE_BENEATH && strcmp(path, ".") != 0)
        return walk_beneath(dir, path, flags, (mode_t)how->mode);
    return openat(dir, path, flags, (mode_t)how->mode);
}

/* What is opened for its name alone, or made, cannot block and gives no bytes away. */
static int open_resolved(int dir, const char *path, int flags, mode_t mode, uint64_t resolve,
                         struct err *e)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .mode = flags & O_CREAT ? mode : 0,
                           .resolve = resolve};

    if (!(flags & O_PATH))
        how.flags |= O_NONBLOCK | O_NOCTTY;
    AUTO_FD fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
    if (fd < 0 && errno == ENOSYS)
        fd = open_old(dir, path, &how);
    struct statfs fs;
    if (fd < 0 || fstatfs(fd, &fs) < 0)
        return err_sys(e, "cannot open %s", path);
    if (fs.f_type == PROC_SUPER_MAGIC) {
        errno = EACCES;
        return err_sys(e, "cannot open %s", path);
    }
    return TAKE_FD(fd);
}

int user_open(const char *path, int flags, struct err *e)
{
    return open_resolved(AT_FDCWD, path, flags, 0, RESOLVE_NO_MAGICLINKS, e);
}

int user_open_beneath(int dir, const char *path, int flags, struct err *e)
{
    return open_resolved(dir, *path ? path : ".", flags, 0, BENEATH, e);
}

/* Directories on the way to `path`.  What cannot be made shows when the file is opened. */
static void make_way(int dir, const char *path)
{
    AUTO_FREE char *part = xstrdup(path);

    for (char *slash = strchr(part, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        char *last = strrchr(part, '/');
        if (last)
            *last = '\0';
        AUTO_FD at = user_open_beneath(dir, last ? part : "", O_PATH | O_DIRECTORY, NULL);
        if (at < 0)
            return;
        mkdirat(at, last ? last + 1 : part, 0700);
        if (last)
            *last = '/';
        *slash = '/';
    }
}

int user_make_beneath(int dir, const char *path, int flags, mode_t mode, struct err *e)
{
    int fd = open_resolved(dir, path, flags | O_CREAT, mode, BENEATH, NULL);

    if (fd >= 0 || errno != ENOENT)
        return fd >= 0 ? fd : err_sys(e, "cannot write %s", path);
    make_way(dir, path);
    fd = open_resolved(dir, path, flags | O_CREAT, mode, BENEATH, NULL);
    return fd >= 0 ? fd : err_sys(e, "cannot write %s", path);
}
