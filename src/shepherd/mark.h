/* mark.h - how everything that belongs to one home is marked: environments, cgroup names, limits
 *
 * A run's mark is "<home>.<key>": BERTH_MARK of its processes, and its cgroup is called
 * "berth-" and that.  As a number it is the limit RLIMIT_LOCKS of its processes.  Linux has ignored
 * that limit since 2.4.25, but every process inherits it, also one with an empty environment, a
 * session of its own and no open files, and only a privileged process can raise it.
 */
#pragma once
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* `dir_fd` is $BERTH_HOME/shepherd.  0 when it cannot be asked. */
static inline uint64_t home_mark(int dir_fd)
{
    struct stat st;

    return fstat(dir_fd, &st) < 0 ? 0
                                  : (uint64_t)st.st_ino * 0x9e3779b97f4a7c15u ^ (uint64_t)st.st_dev;
}

/* FNV-1a, in the upper half of what a limit can be: nobody has such a limit by chance. */
static inline uint64_t mark_number(const char *mark)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (; *mark; mark++)
        h = (h ^ (uint8_t)*mark) * 0x100000001b3u;
    return (h >> 2) | (uint64_t)1 << 61;
}
