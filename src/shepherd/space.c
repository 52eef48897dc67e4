/* space.c - was there no room on a disk that a run writes to?
 *
 * A command writes its files itself, so nobody sees its errors; what can be seen is whether the
 * file system has room when the command has ended.  statvfs(2) knows blocks and inodes as the user
 * of the run has them.  A file without a name that gets some blocks knows quotas as well, and file
 * systems that say nothing useful of themselves; it is the better witness where the run has our
 * user id.
 */
#include "shepherd/space.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

/* Less than this is no room: a file and the blocks that name it take a few. */
enum { ROOM_BYTES = 64 << 10 };

bool space_is_full(int sys)
{
    return sys == ENOSPC || sys == EDQUOT;
}

/* -1 = nobody can tell. */
static int space_try(const char *dir)
{
    AUTO_FD fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0)
        return space_is_full(errno) ? errno : -1;
    if (fallocate(fd, 0, 0, ROOM_BYTES) < 0)
        return space_is_full(errno) ? errno : -1;
    return 0;
}

/* Read-only file systems are full by nature, and some others have no blocks. */
static int space_look(const char *dir, bool other_user)
{
    struct statvfs fs;

    if (statvfs(dir, &fs) < 0 || fs.f_flag & ST_RDONLY || !fs.f_blocks)
        return 0;
    bool full = (uint64_t)fs.f_bavail * fs.f_frsize < ROOM_BYTES || (fs.f_files && !fs.f_favail);
    int tried = other_user ? -1 : space_try(dir);
    if (tried >= 0)
        return tried;
    return full ? ENOSPC : 0;
}

int space_missing_for_log(const struct run_start *s, char mem[SPACE_DIR_MAX], const char **out_dir)
{
    const char *slash = s->log_path ? strrchr(s->log_path, '/') : NULL;

    if (!slash || slash - s->log_path >= SPACE_DIR_MAX)
        return 0;
    snprintf(mem, SPACE_DIR_MAX, "%.*s", (int)(slash - s->log_path), s->log_path);
    *out_dir = mem;
    return space_look(mem, s->change_user);
}

int space_missing(const struct run_start *s, char mem[SPACE_DIR_MAX], const char **out_dir)
{
    int sys = space_missing_for_log(s, mem, out_dir);

    if (!sys && s->cwd) {
        *out_dir = s->cwd;
        sys = space_look(s->cwd, s->change_user);
    }
    return sys;
}
