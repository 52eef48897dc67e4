/* proc_stat.c - one line of /proc/PID/stat */
#include "base/proc_stat.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool proc_stat_parse(const char *text, struct proc_stat *out)
{
    const char *name_end = strrchr(text, ')'); /* the name may contain anything */
    int pid, ppid, session;
    char state;
    uint64_t start;

    if (!name_end || sscanf(text, "%d", &pid) != 1)
        return false;
    if (sscanf(name_end + 1,
               " %c %d %*d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
               "%" SCNu64,
               &state, &ppid, &session, &start) != 4)
        return false;
    *out = (struct proc_stat){pid, ppid, session, state, start};
    return true;
}
