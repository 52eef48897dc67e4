/* supervisor.h - the process that looks after one run
 *
 * Forked by the shepherd without exec: it starts with the shepherd's memory, its blocked signals
 * and five descriptors, and shares nothing with it afterwards.
 */
#pragma once
#include "shepherd/cgroup.h"
#include "shepherd/journal.h"
#include "shepherd/proto.h"
#include "shepherd/tree.h"

/* Descriptors every supervisor has; all else is closed. */
enum {
    FD_NULL = 0,    /* /dev/null, also the command's stdin */
    FD_TEXT = 2,    /* shepherd/log */
    FD_RUNS = 3,    /* shepherd/runs.lock */
    FD_DAEMON = 4,  /* daemon.lock: held while a daemon lives */
    FD_JOURNAL = 5, /* of this run's generation */
    FD_FIRST_FREE = 6,
};
/* Exit statuses; a supervisor that ended in any other way left no outcome. */
enum {
    SUPERVISOR_RECORDED = 0, /* the outcome is in the journal */
    SUPERVISOR_FENCED = 11,  /* another one has or had this run; nothing was done */
};
/* The shepherd signals a supervisor; the value travels with the signal. */
#define SUPERVISOR_STOP SIGUSR1   /* value: grace in ms, -1 = the run's own */
#define SUPERVISOR_SIGNAL SIGUSR2 /* value: signal for the command's process group */

/* What all runs of one home share. */
struct run_home {
    char mark[20]; /* tells this home's processes from another's */
    uint32_t boot; /* of the machine, for the journal */
    struct cgroup_host cgroups;
};
void run_home_init(struct run_home *h, int dir_fd);
/* "BERTH_MARK=…" of a run, and the name of its cgroup. */
void run_home_mark(const struct run_home *h, struct run_key k, char out[TREE_MARK_MAX]);
void run_home_cgroup(const struct run_home *h, struct run_key k, struct cgroup *out);
/* Removes the cgroups of runs that nobody supervises any more.  Needs FD_RUNS. */
void run_home_sweep(const struct run_home *h);

/* Appends, again and again until it holds, and makes it durable unless a daemon will. */
void record_end(int journal_fd, struct journal_record *r);
/* One try.  0, or -1 with errno. */
int record_end_once(int journal_fd, struct journal_record *r);

/* The life of a supervisor: runs in the forked child and exits with one of the statuses above. */
_Noreturn void supervisor_run(const struct run_home *h, struct proto_start *s);
