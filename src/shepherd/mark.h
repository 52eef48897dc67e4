/* mark.h - how everything that belongs to one home is marked, in environments and cgroup names
 *
 * A run's mark is "<home>.<job>.<run>": BERTH_MARK of its processes, and its cgroup is called
 * "berth-" and that.
 */
#pragma once
#include <stdint.h>
#include <sys/stat.h>

/* `dir_fd` is $BERTH_HOME/shepherd.  0 when it cannot be asked. */
static inline uint64_t home_mark(int dir_fd)
{
    struct stat st;

    return fstat(dir_fd, &st) < 0 ? 0
                                  : (uint64_t)st.st_ino * 0x9e3779b97f4a7c15u ^ (uint64_t)st.st_dev;
}
