/* access.c - may this user read or write a directory?
 *
 * A daemon that serves several users is root and could read everything, so the question must be
 * asked with the user's rights.  On Linux the identity that file access is judged by belongs to a
 * thread: a worker takes the user's for one system call and its own back.  The plain calls are
 * needed; the C library's would change every thread of the process.
 */
#include "dialect/gpu/dialect_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { GROUPS_MAX = 1024 };

/* All groups of a user; the one group that is known when the user database does not answer. */
static int user_groups(uint32_t uid, uint32_t gid, gid_t out[GROUPS_MAX])
{
    char text[4096];
    struct passwd pw, *found = NULL;
    int n = GROUPS_MAX;

    if (getpwuid_r(uid, &pw, text, sizeof(text), &found) != 0 || !found ||
        getgrouplist(pw.pw_name, gid, out, &n) < 0) {
        out[0] = gid;
        return 1;
    }
    return n;
}

/* 0, or errno. */
static int dir_access(const char *path, int mode)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return errno;
    if (!S_ISDIR(st.st_mode))
        return ENOTDIR;
    /* AT_EACCESS: by the identity files are judged by now.  An old kernel cannot say: the start
     * will. */
    if (syscall(SYS_faccessat2, AT_FDCWD, path, mode, AT_EACCESS) < 0 && errno != ENOSYS)
        return errno;
    return 0;
}

/* The same with the rights of another user.  Only root may take them. */
static int dir_access_as(const char *path, int mode, uint32_t uid, uint32_t gid)
{
    gid_t theirs[GROUPS_MAX], ours[GROUPS_MAX];
    int n = user_groups(uid, gid, theirs), had = getgroups(GROUPS_MAX, ours);

    /* setfsgid and setfsuid report no failure, so the call that does comes first. */
    if (had < 0 || syscall(SYS_setgroups, n, theirs) < 0)
        return 0; /* not allowed to ask: the start will tell */
    syscall(SYS_setfsgid, gid);
    syscall(SYS_setfsuid, uid);
    int sys = dir_access(path, mode);
    /* In the reverse order.  A worker that kept the identity of a user would serve others with
     * it. */
    syscall(SYS_setfsuid, 0);
    syscall(SYS_setfsgid, getegid());
    syscall(SYS_setgroups, had, ours);
    return sys;
}

int gpu_dir_check(const char *path, uint32_t uid, uint32_t gid, int may, struct err *e)
{
    /* A directory without the right to search cannot be used at all, so X_OK is always asked
     * for. */
    int mode = X_OK | (may & GPU_MAY_READ ? R_OK : 0) | (may & GPU_MAY_WRITE ? W_OK : 0);
    int sys =
        geteuid() == 0 && uid != 0 ? dir_access_as(path, mode, uid, gid) : dir_access(path, mode);

    if (sys == 0)
        return 0;
    if (sys == EACCES)
        return err_set(e, ERR_INVALID, "'%.120s': you may not %s it", path,
                       may & GPU_MAY_WRITE ? "write to" : "read");
    return err_set(e, ERR_INVALID, "'%.120s': %s", path,
                   sys == ENOENT    ? "there is no such directory"
                   : sys == ENOTDIR ? "is not a directory"
                                    : strerrordesc_np(sys));
}
