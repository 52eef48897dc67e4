/* scans_priv.h - which scans of the index job_lane a query needs */
#pragma once
#include "base/vec.h"
#include "store/query_priv.h"

enum { SCANS_MAX = 32 }; /* a query that needs more walks the whole table instead */

/* One combination of state and party: a stretch of the index in the order of job numbers. */
struct job_scan {
    enum job_state state;
    uint64_t party;
    uint64_t n; /* jobs of this combination */
    struct str project;
};

/* The scans of one query; scans_done frees them. */
struct job_scans {
    VEC(struct job_scan) all; /* those that may match; combinations without a job are left out */
    bool restricted;          /* false: the query excludes no combination */
    struct arena text;
};
/* Finds the scans from what the query and the top-level "and"s of its filter say about state,
 * project, user and queue.  0, or -1 with `l` empty. */
int scans_find(struct job_scans *l, struct db *d, const struct job_query *q, struct err *e);
void scans_done(struct job_scans *l);
