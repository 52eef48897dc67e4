/* log_room.c - room for the first output of a run that has said nothing yet
 *
 * Owns: the rule by which a cut log is told from a whole one.
 *
 * A command writes its log itself, and many do not look whether they could: `echo result` in a
 * shell fails on a full disk, and the script ends with 0.  A write fills the last block and fails
 * for the next one, so a log that ends at the end of a block while the disk is full was cut off, or
 * it ends there by chance, one in thousands.
 *
 * That holds of an empty log too, but many commands have nothing to say, and train for a day.  For
 * them a block is allocated when they have run for a while: what fits there is never lost, and an
 * empty log is then the truth.  Runs that are shorter do without, because they are cheap to repeat
 * and an allocation that is not used costs more than their log.
 */
#include "shepherd/log_room.h"
#include "shepherd/space.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { FIRST_BYTES = 4096, UNIT_MIN_BYTES = 512 };

void log_room_init(struct log_room *r, int fd)
{
    struct stat st;

    *r = (struct log_room){.fd = fd};
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
        r->fd = -1;
}

bool log_room_take(struct log_room *r)
{
    struct stat st;

    if (r->fd < 0 || r->taken || fstat(r->fd, &st) < 0 || st.st_size)
        return true;
    if (fallocate(r->fd, FALLOC_FL_KEEP_SIZE, 0, FIRST_BYTES) < 0)
        return !space_is_full(errno);
    /* ZFS says yes and allocates nothing. */
    r->taken = fstat(r->fd, &st) == 0 && st.st_blocks > 0;
    return true;
}

/* Larger blocks are written by pages, and cut there. */
static int64_t log_unit(int fd)
{
    struct statvfs fs;

    if (fstatvfs(fd, &fs) < 0 || fs.f_frsize < UNIT_MIN_BYTES || fs.f_frsize > FIRST_BYTES)
        return FIRST_BYTES;
    return (int64_t)fs.f_frsize;
}

bool log_room_cut(const struct log_room *r)
{
    struct stat st;

    return r->fd >= 0 && fstat(r->fd, &st) == 0 && (!r->taken || st.st_size >= FIRST_BYTES) &&
           st.st_size % log_unit(r->fd) == 0;
}

/* Truncating to the same size frees what lies behind it; punching a hole there does not. */
void log_room_return(struct log_room *r)
{
    struct stat st;

    if (r->taken && fstat(r->fd, &st) == 0 && st.st_size == 0)
        (void)!ftruncate(r->fd, 0);
    r->taken = false;
}
