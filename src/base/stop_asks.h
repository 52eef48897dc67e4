/* stop_asks.h - which processes of a run want to be told of a stop, and end their children
 * themselves
 *
 * A process that asks `berth.should_stop()` writes its pid into the file asks_stop of its run's
 * directory (python/berth).  Its children, such as the workers of a data loader, must not get the
 * SIGTERM of a stop: they would die before it has saved.  The file is written by the job and is
 * believed only about processes of that job.
 */
#pragma once
#include <stddef.h>
#include <sys/types.h>

enum { STOP_ASKS_MAX = 256 };
/* How many pids were read.  run_dir NULL, no file or nonsense in it: 0. */
size_t stop_asks_read(const char *run_dir, pid_t out[STOP_ASKS_MAX]);
