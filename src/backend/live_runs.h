/* live_runs.h - the runs of a home that have a supervisor now, whoever started them
 *
 * Found by their locks, not by what any database or journal says.  Worker threads; blocks for a
 * little while.
 */
#pragma once
#include "base/err.h"
#include "model/run_key.h"
#include <sys/types.h>

/* A run whose environment cannot be read, or whose command is not there yet, is not told. */
typedef void (*live_run_fn)(void *arg, struct run_key key, pid_t supervisor, pid_t command);
/* `shepherd_dir` is $BERTH_HOME/shepherd.  The caller must hold no lock there. */
int live_runs(const char *shepherd_dir, live_run_fn fn, void *arg, struct err *e);
