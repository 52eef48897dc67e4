/* tally.c - parties and counts, kept in memory by the writer and written with each commit
 *
 * Owns: the tables party and tally, and the counts in batch.
 *
 * A count over a million finished jobs would read a million index entries; this way it reads one
 * row per project and state.  The counts change in the same transaction as the jobs, so readers
 * never see them disagree, and `berth doctor` checks that they do not (check.c).
 */
#include "base/buf.h"
#include "store/tally_priv.h"

/* Forgets everything, uncommitted counts included; line 0 is a placeholder, because 0 is no party.
 */
static void counts_clear(struct tally *t)
{
    map_str_done(&t->parties);
    t->parties = (struct map_str){0};
    vec_clear(&t->lines);
    vec_clear(&t->dirty);
    map_u64_clear(&t->batches, free);
    vec_push(&t->lines, (struct tally_line){0});
}

void tally_done(struct tally *t)
{
    map_str_done(&t->parties);
    vec_done(&t->lines);
    vec_done(&t->dirty);
    map_u64_clear(&t->batches, free);
    map_u64_done(&t->batches);
    *t = (struct tally){0};
}

/* The parts are separated by NUL, which names do not contain; the uid comes last, with a fixed
 * length. */
static void party_key(struct buf *b, struct str project, struct str queue, uint32_t uid,
                      struct str user)
{
    buf_add(b, project.p, project.n);
    buf_addc(b, '\0');
    buf_add(b, queue.p, queue.n);
    buf_addc(b, '\0');
    buf_add(b, user.p, user.n);
    buf_add(b, &uid, sizeof(uid));
}

static void counts_remember(struct tally *t, struct str key, uint64_t party)
{
    while (t->lines.n <= party)
        vec_push(&t->lines, (struct tally_line){0});
    map_str_put(&t->parties, key, (void *)(uintptr_t)party);
}

int tally_load(struct tally *t, struct db *d, struct err *e)
{
    AUTO(buf) struct buf key = {0};
    sqlite3_stmt *st;
    int rc;

    counts_clear(t);
    buf_init(&key, 1 << 20);
    st = db_query(d, e, "SELECT seq, project, queue, uid, user FROM party");
    while ((rc = db_step(d, st, e)) == 1) {
        buf_reset(&key);
        party_key(&key, column_str(st, 1), column_str(st, 2), (uint32_t)sqlite3_column_int64(st, 3),
                  column_str(st, 4));
        counts_remember(t, buf_str(&key), column_u64(st, 0));
    }
    if (rc < 0)
        return -1;
    st = db_query(d, e, "SELECT party, state, n FROM tally");
    while ((rc = db_step(d, st, e)) == 1) {
        uint64_t party = column_u64(st, 0), state = column_u64(st, 1);
        if (party < t->lines.n && state < JOB_STATE_MAX)
            t->lines.p[party].n[state] = sqlite3_column_int64(st, 2);
    }
    return rc;
}

int tally_party(struct tally *t, struct db *d, struct str project, struct str queue, uint32_t uid,
                struct str user, uint64_t *out, struct err *e)
{
    AUTO(buf) struct buf key = {0};
    uint64_t party;

    buf_init(&key, 1 << 20);
    party_key(&key, project, queue, uid, user);
    party = (uint64_t)(uintptr_t)map_str_get(&t->parties, buf_str(&key));
    if (!party) {
        party = t->lines.n;
        if (db_run(d, e,
                   "INSERT INTO party(seq, project, queue, uid, user) VALUES(?1, ?2, ?3, ?4, ?5)",
                   INT(party), TEXT(project), TEXT(queue), INT(uid), TEXT(user)) < 0)
            return -1;
        counts_remember(t, buf_str(&key), party);
    }
    *out = party;
    return 0;
}

void tally_add(struct tally *t, struct member m, enum job_state state, int64_t delta)
{
    struct tally_line *l;
    struct batch_delta *b;

    ASSERT(m.party > 0 && m.party < t->lines.n);
    l = &t->lines.p[m.party];
    l->n[state] += delta;
    if (!l->dirty)
        vec_push(&t->dirty, m.party);
    l->dirty |= 1u << state;
    if (!m.batch)
        return;
    b = map_u64_get(&t->batches, m.batch);
    if (!b) {
        b = xcalloc(1, sizeof(*b));
        map_u64_put(&t->batches, m.batch, b);
    }
    b->n[state] += delta;
}

/* Writes the absolute counts of one party, as they are in memory. */
static int write_line(struct tally *t, struct db *d, uint64_t party, struct err *e)
{
    struct tally_line *l = &t->lines.p[party];

    for (int state = 0; state < JOB_STATE_MAX; state++) {
        if (!(l->dirty & 1u << state))
            continue;
        if (db_run(d, e,
                   "INSERT INTO tally(party, state, n) VALUES(?1, ?2, ?3)"
                   " ON CONFLICT(party, state) DO UPDATE SET n = ?3",
                   INT(party), INT(state), INT(l->n[state])) < 0)
            return -1;
    }
    l->dirty = 0;
    return 0;
}

/* Adds the changes to the counts of each batch.  These are differences, because the counts of
 * batches are not kept in memory. */
static int write_batches(struct tally *t, struct db *d, struct err *e)
{
    uint64_t batch;
    void *delta;
    /* Parameters are numbered as they appear: the states, then the batch. */
#define X(up, low, number, kind) ", n" #number " = n" #number " + :n" #number
    static const char sql[] =
        "UPDATE batch SET n_jobs = n_jobs" JOB_STATE_LIST(X) " WHERE seq = :batch";
#undef X
    struct db_arg args[JOB_STATE_MAX + 1];

    for (size_t it = 0; map_u64_next(&t->batches, &it, &batch, &delta);) {
        const struct batch_delta *b = delta;
        for (int i = 0; i < JOB_STATE_MAX; i++)
            args[i] = INT(b->n[job_states[i]]);
        args[JOB_STATE_MAX] = INT(batch);
        if (db_run_args(d, e, sql, args, JOB_STATE_MAX + 1) < 0)
            return -1;
    }
    map_u64_clear(&t->batches, free);
    return 0;
}

int tally_write(struct tally *t, struct db *d, struct err *e)
{
    if (!t->dirty.n)
        return 0;
    if (t->batches.n && write_batches(t, d, e) < 0)
        return -1;
    for (size_t i = 0; i < t->dirty.n; i++)
        if (write_line(t, d, t->dirty.p[i], e) < 0)
            return -1;
    vec_clear(&t->dirty);
    return 0;
}
