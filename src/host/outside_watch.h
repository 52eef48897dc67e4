/* outside_watch.h - watches processes that berth has not started, for core/track.h
 *
 * A process of this machine is watched by its pid and start time.  Any other process is known only
 * by its requests: after a long silence it counts as lost.  Everything happens on the loop thread.
 */
#pragma once
#include "core/track.h"

struct loop;
struct outside_watch;

/* The operations core calls; their `self` is the watch. */
extern const struct outside_ops outside_watch_ops;
/* A watched process that is gone is reported with core_outside_gone(c, …), always from the loop. */
struct outside_watch *outside_watch_new(struct loop *l, struct core *c);
void outside_watch_free(struct outside_watch *w); /* the processes are left alone */
