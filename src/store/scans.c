/* scans.c - which scans of the index job_lane a query needs
 *
 * The index keeps the jobs of each combination of state and party in order of their numbers; a
 * party is one (project, queue, user) that jobs were submitted for.  One scan reads one
 * combination.
 *
 * Owns: reading tally × party and matching each combination with what a query demands of state,
 * project, user and queue: in the members of the query, and in its filter as far as the filter is a
 * plain "and" at the top.  The whole filter is evaluated later for each job; this file only leaves
 * out the combinations in which no job can match.
 */
#include "store/scans_priv.h"

/* Is s one of the values that the term compares with? */
static bool filter_names_value(struct str s, const struct filter *f)
{
    for (size_t i = 0; i < f->n_values; i++)
        if (str_eq_c(s, f->values[i]))
            return true;
    return false;
}

/* One combination of state and party, as far as a query can ask about it. */
struct facts {
    enum job_state state;
    uint32_t uid;
    struct str project, queue, user;
};

/* Could a job of this combination match?  True when the filter alone does not tell. */
static bool filter_allows(const struct filter *f, const struct facts *x, bool *narrows)
{
    bool allowed;

    if (!f)
        return true;
    if (f->op == FILTER_AND) {
        allowed = filter_allows(f->left, x, narrows);
        return filter_allows(f->right, x, narrows) && allowed;
    }
    if (f->op != FILTER_EQ && f->op != FILTER_IN)
        return true;
    if (f->field == FILTER_F_STATE)
        allowed = filter_names_value(str_of(job_state_name(x->state)), f);
    else if (f->field == FILTER_F_PROJECT)
        allowed = filter_names_value(x->project, f);
    else if (f->field == FILTER_F_USER)
        allowed = filter_names_value(x->user, f);
    else
        return true;
    *narrows = true;
    return allowed;
}

/* The same for the members of the query outside of its filter. */
static bool query_allows(const struct job_query *q, const struct facts *x)
{
    if (q->state_mask && !(q->state_mask & 1u << x->state))
        return false;
    if (q->only_uid && q->uid != x->uid)
        return false;
    return (!q->project || str_eq_c(x->project, q->project)) &&
           (!q->user || str_eq_c(x->user, q->user)) && (!q->queue || str_eq_c(x->queue, q->queue));
}

int scans_find(struct job_scans *l, struct db *d, const struct job_query *q, struct err *e)
{
    int rc;
    sqlite3_stmt *st =
        db_query(d, e,
                 "SELECT t.state, t.party, t.n, p.uid, p.project, p.queue, p.user FROM tally t"
                 " JOIN party p ON p.seq = t.party WHERE t.n > 0");
    *l = (struct job_scans){.restricted =
                                q->state_mask || q->only_uid || q->project || q->user || q->queue};
    while ((rc = db_step(d, st, e)) == 1) {
        struct facts x;
        uint64_t party, n;
        db_row(st, COL(&x.state), COL(&party), COL(&n), COL(&x.uid), COL(&x.project), COL(&x.queue),
               COL(&x.user));
        if (x.state >= JOB_STATE_MAX || !query_allows(q, &x) ||
            !filter_allows(q->filter, &x, &l->restricted))
            continue;
        vec_push(&l->all,
                 ((struct job_scan){
                     .state = x.state,
                     .party = party,
                     .n = n,
                     .project = {arena_strndup(&l->text, x.project.p, x.project.n), x.project.n}}));
    }
    if (rc < 0)
        scans_done(l);
    return rc;
}

void scans_done(struct job_scans *l)
{
    vec_done(&l->all);
    arena_done(&l->text);
}
