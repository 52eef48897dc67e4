/* access.c - may this user read or write a directory?
 *
 * A daemon that serves several users is root and could read everything, so a worker asks with the
 * rights of the user (base/user_rights.h).
 */
#include "base/user_rights.h"
#include "dialect/gpu/dialect_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

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

/* The same with the rights of another user.  -1 with an error: only root may take them. */
static int dir_access_as(const char *path, int mode, uint32_t uid, uint32_t gid, struct err *e)
{
    AUTO_FREE uint32_t *groups = NULL;
    size_t n = user_groups(uid, gid, &groups);

    if (user_rights_enter(&(struct user_rights){uid, gid, groups, n}, e) < 0)
        return -1;
    int sys = dir_access(path, mode);
    user_rights_leave();
    return sys;
}

int gpu_dir_check(const char *path, uint32_t uid, uint32_t gid, int may, struct err *e)
{
    /* A directory without the right to search cannot be used at all, so X_OK is always asked
     * for. */
    int mode = X_OK | (may & GPU_MAY_READ ? R_OK : 0) | (may & GPU_MAY_WRITE ? W_OK : 0);
    int sys = geteuid() == 0 && uid != 0 ? dir_access_as(path, mode, uid, gid, e)
                                         : dir_access(path, mode);

    if (sys <= 0)
        return sys;
    if (sys == EACCES)
        return err_set(e, ERR_INVALID, "'%.120s': you may not %s it", path,
                       may & GPU_MAY_WRITE ? "write to" : "read");
    return err_set(e, ERR_INVALID, "'%.120s': %s", path,
                   sys == ENOENT    ? "there is no such directory"
                   : sys == ENOTDIR ? "is not a directory"
                                    : strerrordesc_np(sys));
}
