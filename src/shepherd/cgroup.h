/* cgroup.h - limits and measures of one run, where this host lets us
 *
 * Only runs that state memory or CPUs get a group; the others cost nothing here.  Version 2 is
 * preferred, version 1 controllers are used where they are mounted, and a host that offers neither
 * (or does not let us write) runs everything without: limits are then a planning figure only.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CGROUP_PATH_MAX = 512 };

/* Where groups may be made; found once. */
struct cgroup_host {
    int version;                                     /* 0 = nowhere, 1, 2 */
    char mem[CGROUP_PATH_MAX], cpu[CGROUP_PATH_MAX]; /* "" = not available; v2: mem only */
};
/* `proc_dir` is "/proc/self", or a stand-in in tests. */
void cgroup_probe(struct cgroup_host *h, const char *proc_dir);

/* The group of one run.  An empty struct (version 0, both paths "") stands for a run without a
 * group; every function below accepts it and does nothing. */
struct cgroup {
    int version;
    char mem[CGROUP_PATH_MAX], cpu[CGROUP_PATH_MAX]; /* directories of this run, "" = none */
};
struct cgroup_limits {
    int64_t mem_bytes, mcpu; /* 0 = none */
    bool quota;              /* mcpu is a ceiling even when CPUs are idle; otherwise a weight */
};
/* The directories of that name, whether they exist or not. */
void cgroup_name(const struct cgroup_host *h, const char *name, struct cgroup *out);
/* Makes them and writes the limits.  False when no limit could be put in place (c is then empty).
 */
bool cgroup_make(struct cgroup *c, const struct cgroup_limits *l);
/* Moves the calling process in.  Only system calls: used between vfork and exec. */
void cgroup_join(const struct cgroup *c);
int64_t cgroup_peak_bytes(const struct cgroup *c); /* 0 = unknown */
/* Did the kernel kill a process of the group because of the memory limit?  False when unknown. */
bool cgroup_saw_oom(const struct cgroup *c);
/* Kills all members.  How many there were. */
int cgroup_kill(const struct cgroup *c);
/* Removes the directories.  The group must be empty; one that stays busy for about 40 ms is
 * left for cgroup_sweep. */
void cgroup_remove(const struct cgroup *c);
/* Removes empty groups whose name begins with `prefix`, unless they are in use; `rest` is what
 * follows it.  For what was left when all of us were killed. */
typedef bool (*cgroup_in_use_fn)(void *arg, const char *rest);
void cgroup_sweep(const struct cgroup_host *h, const char *prefix, cgroup_in_use_fn in_use,
                  void *arg);
