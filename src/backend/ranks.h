/* ranks.h - runs that start one process per GPU
 *
 * A run of such a job is an ordinary run whose command is `berth __ranks N COMMAND…`: the
 * supervisor watches that process, and that process starts the ranks and exits as they did.
 */
#pragma once
#include <stddef.h>

enum { RANKS_MAX = 1024 };
/* Starts n processes of argv and waits for all of them.  The result is the exit status: 0 when all
 * succeeded, else that of the first rank that failed. */
int ranks_run(size_t n, char *const *argv);
