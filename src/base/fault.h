/* fault.h - slow steps on demand, so that tests can see what must not wait for them
 *
 * Only in builds with -Dfault_points=true; elsewhere nothing is left of it.
 */
#pragma once

#ifdef BERTH_FAULT_POINTS
/* Sleeps for as many milliseconds as the environment variable says; not at all without it. */
void fault_sleep(const char *variable);
#else
#define fault_sleep(variable) ((void)0)
#endif
