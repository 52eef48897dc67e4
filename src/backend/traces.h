/* traces.h - what a home knows of the runs on this machine, without a daemon and without a database
 *
 * A restore asks: which runs have a supervisor now, and which have left records in the journals?
 */
#pragma once
#include "base/err.h"
#include "model/job.h"
#include <stddef.h>

struct run_trace {
    struct run_key key;
    uint32_t journal; /* the newest generation with a record of it; 0 = none */
    int64_t pid;      /* of the supervisor that holds its lock, -1 = not to be named, 0 = nobody */
    bool started, ended;
};
/* All traces, ordered by job and run; *out is yours.  A home without a shepherd has none.  Must not
 * be called by a process that holds such a lock itself: closing the file would drop it. */
int run_traces(const char *home, struct run_trace **out, size_t *out_n, struct err *e);
