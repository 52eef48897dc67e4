/* restore.h - makes the database of a backup fit the home it comes back to
 *
 * Between the backup and now jobs went on.  To run them again would be worse than to remember: so a
 * job that was active in the backup, or that has more runs now, keeps the state, the runs and the
 * metrics that the present database has of it.  Everything else is as the backup has it.  Numbers
 * that the home has used are not used again.
 */
#pragma once
#include "base/err.h"
#include "model/job.h"
#include <stddef.h>
#include <stdint.h>

/* A run that left a trace on this machine, newest run of its job; see backend/traces.h. */
struct restore_trace {
    struct run_key key;
    uint32_t journal; /* 0 = it has no record yet */
};
struct restore_job {
    uint64_t job;
    enum job_state state;
};
struct store_restored {
    uint64_t next_job;         /* the number of the next job */
    int64_t jobs;              /* in the restored database */
    int64_t returned;          /* in the backup, and not in the present database: removed since */
    struct restore_job *newer; /* in the present database only, by number */
    size_t n_newer;
    /* Jobs whose present state was kept, or that were active in the backup; by number. */
    uint64_t *went_on;
    size_t n_went_on;
    bool present_read; /* false: there is none, or it cannot be read; `trouble` says why */
    char trouble[240];
};
struct store_restore_conf {
    const char *copy;                   /* a copy of the backup's database, which is changed */
    const char *present;                /* the home's database, read only; NULL = none */
    uint64_t used_job;                  /* the highest number that files, locks and journals name */
    const struct restore_trace *traces; /* used without a present database */
    size_t n_traces;
    int64_t wall_ms;
};
/* Checks the copy first: a damaged one is refused.  The caller calls store_restored_done, also
 * after a failure. */
int store_restore(const struct store_restore_conf *conf, struct store_restored *out, struct err *e);
void store_restored_done(struct store_restored *r);
