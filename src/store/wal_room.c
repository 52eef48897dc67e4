/* wal_room.c - a log that need not grow
 *
 * Writing behind the end of a file makes every fdatasync write the file's size and blocks as well:
 * 0.86 ms against 0.50 ms for the same bytes inside it (45 KB, median, ext4 on a virtual disk).  So
 * the log is filled with zeros ahead of its use: a first piece when there is nothing else to do,
 * and one more whenever its end comes near, until it has the size at which checkpoints empty it.
 * SQLite takes what lies behind the last valid frame for the rest of an earlier round.
 */
#include "base/util.h"
#include "store/store_priv.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum { PIECE = 64 << 10, SPARE_FACTOR = 64 };

int64_t wal_make_room(const char *db_path, int64_t bytes)
{
    static char zeros[PIECE];
    AUTO_FREE char *path = xasprintf("%s-wal", db_path);
    AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    struct statvfs fs;

    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    if (st.st_size >= bytes || fstatvfs(fd, &fs) < 0 ||
        (uint64_t)fs.f_bavail * fs.f_frsize < (uint64_t)bytes * SPARE_FACTOR)
        return st.st_size; /* only a convenience: never at the price of the last free space */
    for (int64_t at = st.st_size; at < bytes;) {
        size_t n = MIN((size_t)(bytes - at), sizeof(zeros));
        if (pwrite(fd, zeros, n, at) != (ssize_t)n)
            return at;
        at += (int64_t)n;
    }
    fdatasync(fd);
    return bytes;
}
