/* tally_priv.h - parties (project × queue × user) and how many jobs each has in each state */
#pragma once
#include "base/map.h"
#include "base/vec.h"
#include "model/job.h"
#include "store/db_priv.h"

struct tally_line {
    int64_t n[JOB_STATE_MAX];
    uint32_t dirty; /* bit per state not yet written */
};
struct tally {
    struct map_str parties;       /* key → its number */
    VEC(struct tally_line) lines; /* by party number; 0 is not used */
    VEC(uint64_t) dirty;          /* parties with dirty bits */
};
/* Reads what is committed; also after a rollback, to forget what was not. */
int tally_load(struct tally *t, struct db *d, struct err *e);
void tally_done(struct tally *t);
/* The number of this party, made on first use. */
int tally_party(struct tally *t, struct db *d, struct str project, struct str queue, uint32_t uid,
                struct str user, uint64_t *out, struct err *e);
void tally_add(struct tally *t, uint64_t party, enum job_state state, int64_t delta);
/* Writes what changed; part of the transaction that changed it. */
int tally_write(struct tally *t, struct db *d, struct err *e);
