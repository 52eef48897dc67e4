/* fault.h - slow, failing and wrong steps on demand, so that tests can see what must not happen
 * then
 *
 * Only in builds with -Dfault_points=true; elsewhere nothing is left of it.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#ifdef BERTH_FAULT_POINTS
/* Sleeps for as many milliseconds as the environment variable says; not at all without it. */
void fault_sleep(const char *variable);
/* True at every call whose number is a multiple of what the environment variable says.  *calls
 * counts them, for one thread. */
bool fault_every(const char *variable, int64_t *calls);
#else
#define fault_sleep(variable) ((void)0)
#define fault_every(variable, calls) ((void)(calls), false)
#endif
