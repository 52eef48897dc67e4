/* tally_priv.h - how many jobs each party (project × queue × user) and batch has in each state */
#pragma once
#include "base/map.h"
#include "base/vec.h"
#include "model/job.h"
#include "store/db_priv.h"

struct tally_line {
    int64_t n[JOB_STATE_MAX];
    uint32_t dirty; /* bit per state not yet written */
};
/* What the counts of a batch have changed by in this transaction, by state. */
struct batch_delta {
    int64_t n[JOB_STATE_MAX];
};
/* What the tally needs to know of a job. */
struct member {
    uint64_t party, batch; /* batch 0 = none */
};
struct tally {
    struct map_str parties;       /* key → its number */
    VEC(struct tally_line) lines; /* by party number; 0 is not used */
    VEC(uint64_t) dirty;          /* parties with dirty bits */
    struct map_u64 batches;       /* number → struct batch_delta, not yet written */
};
/* Reads what is committed; also after a rollback, to forget what was not. */
int tally_load(struct tally *t, struct db *d, struct err *e);
void tally_done(struct tally *t);
/* The number of this party, made on first use. */
int tally_party(struct tally *t, struct db *d, struct str project, struct str queue, uint32_t uid,
                struct str user, uint64_t *out, struct err *e);
/* Counts `delta` jobs more in this state; in memory only, until tally_write. */
void tally_add(struct tally *t, struct member m, enum job_state state, int64_t delta);
/* Writes what changed; part of the transaction that changed it. */
int tally_write(struct tally *t, struct db *d, struct err *e);
