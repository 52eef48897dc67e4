/* lanes_priv.h - which (state, party) lanes of job_lane a query needs */
#pragma once
#include "base/vec.h"
#include "store/query_priv.h"

enum { LANES_MAX = 32 };
struct lane {
    enum job_state state;
    uint64_t party;
    uint64_t n; /* jobs in it */
    struct str project;
};
struct lanes {
    VEC(struct lane) all; /* those that match, empty ones left out */
    bool restricted;      /* false: they are all there are */
    struct arena text;
};
/* What the query and the top-level "and"s of its filter say about state, project, user, queue. */
int lanes_find(struct lanes *l, struct db *d, const struct job_query *q, struct err *e);
void lanes_done(struct lanes *l);
