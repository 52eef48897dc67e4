/* tree.h - finding and signalling every process of a run
 *
 * While its supervisor lives, a run is what descends from it: the supervisor is a subreaper, so
 * no double fork and no setsid leads out.  When the supervisor was killed, what remains is known by
 * the marker in its environment and in its limits (mark.h), by its session, by having become a
 * child of the shepherd (which is a subreaper too), and by descending from one of those.
 */
#pragma once
#include "base/proc_stat.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { TREE_MARK_MAX = 64 };
#define TREE_MARK_NAME "BERTH_MARK"

/* Signals all descendants of `root`, not root itself.  How many were found alive. */
size_t tree_signal(pid_t root, int signo);
/* SIGTERM to all descendants of `root` but those below one of `asks`, who end their own children.
 * True when one of `asks` is among them and lives. */
bool tree_ask(pid_t root, const pid_t *asks, size_t n);
/* Is one of `asks` a descendant of `root`, and alive? */
bool tree_has(pid_t root, const pid_t *asks, size_t n);

/* All processes as they are now, for looking for the orphans of several runs at once. */
struct tree_scan;
struct tree_scan *tree_scan_new(void);
void tree_scan_free(struct tree_scan *t);

struct tree_orphans {
    const char *mark;   /* "BERTH_MARK=…" as given to the command */
    pid_t leader;       /* the command's pid and session, 0 = unknown */
    uint64_t pid_start; /* it did not start later than this, in clock ticks since boot */
    pid_t shepherd;     /* unknown children of it are orphans of a killed supervisor; 0 = none */
    bool (*is_supervisor)(void *arg, pid_t pid);
    void *arg;
};
/* Kills what is left of a run without supervisor.  How many were found alive: take a new scan, a
 * few milliseconds later, until none are. */
size_t tree_kill_orphans(const struct tree_scan *t, const struct tree_orphans *o);
