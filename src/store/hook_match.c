/* hook_match.c - events become messages, in the transaction of the event
 *
 * Owns: inserting into the table delivery.
 *
 * event_append notes every new state of jobs (hook_note).  The last step of the transaction
 * (hooks_match) finds the hooks for which these states are events, stored ones by their filter and
 * those of submissions by their range of jobs, and inserts a row of delivery for each.  A home
 * without hooks notes nothing.
 *
 * A hook gets HOOK_RATE_MAX messages in a minute; further events are counted in one summary, which
 * is sent when the minute is over.  So a storm of 100 000 events adds 20 messages and a summary.
 */
#include "base/arena.h"
#include "base/util.h"
#include "store/apply_priv.h"
#include "store/hook.h"
#include "store/query_priv.h"

enum { END_BIT = 1 << HOOK_END, WAITING_BIT = 1 << HOOK_WAITING };
/* Hooks must not fire for the jobs that hooks start. */
#define NOT_OF_HOOKS "p.queue <> '" HOOK_QUEUE "'"

typedef VEC(uint64_t) numbers;
struct notify_row {
    uint64_t hook, first, last;
};
typedef VEC(struct notify_row) notify_rows;

static void rules_clear(struct hook_watch *w)
{
    for (size_t i = 0; i < w->rules.n; i++)
        free(w->rules.p[i].filter);
    vec_clear(&w->rules);
}

void hooks_done(struct hook_watch *w)
{
    rules_clear(w);
    vec_done(&w->rules);
    vec_done(&w->moves);
}

int hooks_reload(struct applier *a, struct err *e)
{
    struct hook_watch *w = &a->hooks;
    int64_t notifies;
    int rc;
    sqlite3_stmt *st = db_query(a->db, e,
                                "SELECT seq, uid, events, wait_ms, scope, everyone, filter,"
                                " seen_job FROM hook WHERE enabled AND events");

    rules_clear(w);
    while ((rc = db_step(a->db, st, e)) == 1) {
        struct str filter = column_str(st, 6);
        vec_push(&w->rules, ((struct hook_rule){.seq = column_u64(st, 0),
                                                .uid = (uint32_t)sqlite3_column_int64(st, 1),
                                                .on = {.events = (uint32_t)column_u64(st, 2),
                                                       .wait_ms = sqlite3_column_int64(st, 3),
                                                       .scope = sqlite3_column_int(st, 4)},
                                                .everyone = sqlite3_column_int(st, 5),
                                                .filter = xstrndup(filter.p, filter.n),
                                                .seen_job = column_u64(st, 7)}));
    }
    if (rc < 0 || db_int(a->db, "SELECT EXISTS(SELECT 1 FROM notify)", &notifies, e) < 0)
        return -1;
    w->notifies = notifies;
    return 0;
}

void hook_note(struct applier *a, enum job_state state, int64_t at_ms, uint64_t first,
               uint64_t last)
{
    struct hook_watch *w = &a->hooks;

    if ((w->rules.n || w->notifies) && hook_event_of(state) != HOOK_EVENTS)
        vec_push(&w->moves, ((struct hook_move){state, first, last, at_ms}));
}

/* ---- messages ---- */

/* How much room a hook has for messages now. */
struct hook_window {
    int64_t start_ms, n, pending, all;
};

/* 1 = the hook is there and enabled. */
static int window_read(struct applier *a, uint64_t hook, int64_t at_ms, struct hook_window *out,
                       struct err *e)
{
    sqlite3_stmt *st = db_query(a->db, e,
                                "SELECT window_ms, window_n, (SELECT count(*) FROM delivery WHERE"
                                " hook = ?1), (SELECT count(*) FROM delivery) FROM hook"
                                " WHERE seq = ?1 AND enabled",
                                INT(hook));
    int rc = db_step(a->db, st, e);

    if (rc != 1)
        return rc;
    *out = (struct hook_window){.start_ms = sqlite3_column_int64(st, 0),
                                .n = sqlite3_column_int64(st, 1),
                                .pending = sqlite3_column_int64(st, 2),
                                .all = sqlite3_column_int64(st, 3)};
    sqlite3_reset(st);
    if (at_ms - out->start_ms >= HOOK_RATE_MS || at_ms < out->start_ms) {
        out->start_ms = at_ms;
        out->n = 0;
    }
    return 1;
}

/* Adds events of the jobs first … last, or of batches (0), to the summary of the hook, or begins
 * one. */
static int summary_add(struct applier *a, uint64_t hook, enum hook_event ev, uint64_t first,
                       uint64_t last, int64_t n, int64_t at_ms, int64_t send_ms, struct err *e)
{
    int64_t bad = ev == HOOK_FAILURE ? n : 0;

    if (db_run(a->db, e,
               "UPDATE delivery SET n = n + ?2, bad = bad + ?3, last = max(last, ?4),"
               " subject = iif(subject, subject, ?6) WHERE hook = ?1 AND scope = ?5",
               INT(hook), INT(n), INT(bad), INT(last), INT(HOOK_SCOPE_SUMMARY), INT(first)) < 0)
        return -1;
    if (sqlite3_changes(a->db->h))
        return 0;
    return db_run(a->db, e,
                  "INSERT INTO delivery(hook, event, scope, subject, last, n, bad, at_ms, next_ms)"
                  " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                  INT(hook), INT(ev), INT(HOOK_SCOPE_SUMMARY), INT(first), INT(last), INT(n),
                  INT(bad), INT(at_ms), INT(send_ms));
}

/* A hook that is named by `notify` and matches by itself gets one message, not two. */
static int message_add(struct applier *a, uint64_t hook, enum hook_event ev, enum hook_scope scope,
                       uint64_t subject, int64_t at_ms, struct err *e)
{
    return db_run(a->db, e,
                  "INSERT INTO delivery(hook, event, scope, subject, last, n, bad, at_ms, next_ms)"
                  " SELECT ?1, ?2, ?3, ?4, ?4, 1, 0, ?5, 0 WHERE NOT EXISTS(SELECT 1 FROM delivery"
                  " WHERE hook = ?1 AND event = ?2 AND scope = ?3 AND subject = ?4 AND at_ms = ?5)",
                  INT(hook), INT(ev), INT(scope), INT(subject), INT(at_ms));
}

/* The event happened to each of these jobs, or batches. */
static int messages_add(struct applier *a, uint64_t hook, enum hook_event ev, enum hook_scope scope,
                        const uint64_t *subjects, size_t n, int64_t at_ms, struct err *e)
{
    bool batch = scope != HOOK_SCOPE_JOB; /* or a study */
    /* The end of a batch comes after those of its jobs and must not drown in their summary. */
    int64_t rate = batch ? 2 * HOOK_RATE_MAX : HOOK_RATE_MAX;
    struct hook_window w;
    int rc = n ? window_read(a, hook, at_ms, &w, e) : 0;
    size_t i = 0;

    if (rc <= 0)
        return rc;
    for (; i < n && w.n < rate && w.pending < HOOK_PENDING_MAX && w.all < HOOK_PENDING_ALL;
         i++, w.n++, w.pending++, w.all++)
        if (message_add(a, hook, ev, scope, subjects[i], at_ms, e) < 0)
            return -1;
    a->hooks.changed = true;
    if (i < n && summary_add(a, hook, ev, batch ? 0 : subjects[i], batch ? 0 : subjects[n - 1],
                             (int64_t)(n - i), at_ms, w.start_ms + HOOK_RATE_MS, e) < 0)
        return -1;
    return db_run(a->db, e, "UPDATE hook SET window_ms = ?2, window_n = ?3 WHERE seq = ?1",
                  INT(hook), INT(w.start_ms), INT(w.n));
}

/* ---- which jobs ---- */

static int take_numbers(struct applier *a, sqlite3_stmt *st, numbers *out, struct err *e)
{
    int rc;

    while ((rc = db_step(a->db, st, e)) == 1)
        vec_push(out, column_u64(st, 0));
    return rc;
}

/* Those of the jobs that are in this state.  One job is not asked for its state: it may have moved
 * on in the same transaction. */
static int jobs_in_state(struct applier *a, uint64_t first, uint64_t last, enum job_state state,
                         numbers *out, struct err *e)
{
    if (first == last) {
        vec_push(out, first);
        return 0;
    }
    return take_numbers(a,
                        db_query(a->db, e,
                                 "SELECT seq FROM job NOT INDEXED WHERE seq BETWEEN ?1 AND ?2"
                                 " AND state = ?3",
                                 INT(first), INT(last), INT(state)),
                        out, e);
}

/* Those of the jobs first … last that the rule is about, at most `limit`.  state -1: in any. */
static int rule_jobs(struct applier *a, const struct hook_rule *r, uint64_t first, uint64_t last,
                     int state, int64_t limit, int64_t now_ms, numbers *out, struct err *e)
{
    struct arena mem = {0};
    struct filter *filter = NULL;
    struct sql q;
    int rc = filter_parse(str_of(r->filter), now_ms, &mem, &filter, e);

    sql_init(&q);
    sql_add(&q, "SELECT j.seq FROM job j NOT INDEXED JOIN party p ON p.seq = j.party WHERE "
                "j.seq BETWEEN ");
    sql_int(&q, (int64_t)first);
    sql_add(&q, " AND ");
    sql_int(&q, (int64_t)last);
    if (state >= 0) {
        sql_add(&q, " AND j.state = ");
        sql_int(&q, state);
    }
    sql_add(&q, " AND " NOT_OF_HOOKS);
    if (!r->everyone) {
        sql_add(&q, " AND p.uid = ");
        sql_int(&q, r->uid);
    }
    if (filter && rc == 0) {
        sql_add(&q, " AND ");
        rc = sql_filter(&q, a->db, filter, now_ms, NULL, e);
    }
    sql_add(&q, " LIMIT ");
    sql_int(&q, limit);
    if (rc == 0)
        rc = take_numbers(a, sql_query(&q, a->db, e), out, e);
    sql_done(&q);
    arena_done(&mem);
    return rc;
}

/* The rule gets messages about those of the jobs it is about.  A filter that SQLite cannot
 * evaluate must not stop all writing: it is an error of the hook. */
static int rule_fire(struct applier *a, const struct hook_rule *r, enum hook_event ev,
                     uint64_t first, uint64_t last, int state, int64_t at_ms, struct err *e)
{
    numbers jobs = {0};
    struct err why = {0};
    int rc;

    if (rule_jobs(a, r, first, last, state, -1, at_ms, &jobs, &why) < 0)
        rc = db_run(a->db, e, "UPDATE hook SET last_error = ?2, last_error_ms = ?3 WHERE seq = ?1",
                    INT(r->seq), TEXT(str_of(why.text)), INT(at_ms));
    else
        rc = messages_add(a, r->seq, ev, HOOK_SCOPE_JOB, jobs.p, jobs.n, at_ms, e);
    vec_done(&jobs);
    return rc;
}

/* ---- entries of `notify` ---- */

static int take_notifies(struct applier *a, sqlite3_stmt *st, notify_rows *out, struct err *e)
{
    int rc;

    while ((rc = db_step(a->db, st, e)) == 1)
        vec_push(out,
                 ((struct notify_row){column_u64(st, 0), column_u64(st, 1), column_u64(st, 2)}));
    return rc;
}

static int notifies_fire(struct applier *a, const notify_rows *rows, enum hook_event ev,
                         uint64_t first, uint64_t last, enum job_state state, int64_t at_ms,
                         struct err *e)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < rows->n; i++) {
        const struct notify_row *r = &rows->p[i];
        numbers jobs = {0};
        rc = jobs_in_state(a, MAX(first, r->first), MIN(last, r->last), state, &jobs, e);
        if (rc == 0)
            rc = messages_add(a, r->hook, ev, HOOK_SCOPE_JOB, jobs.p, jobs.n, at_ms, e);
        vec_done(&jobs);
    }
    return rc;
}

/* Ranges of entries do not overlap, so the last one that begins at or before the first job is where
 * the search begins. */
static int notifies_of_jobs(struct applier *a, const struct hook_move *m, uint32_t events,
                            struct err *e)
{
    notify_rows rows = {0};
    sqlite3_stmt *st =
        db_query(a->db, e,
                 "SELECT hook, first, last FROM notify WHERE scope = ?4 AND first >= ifnull("
                 "(SELECT max(first) FROM notify WHERE scope = ?4 AND first <= ?1), ?1)"
                 " AND first <= ?2 AND last >= ?1 AND events & ?3",
                 INT(m->first), INT(m->last), INT(events), INT(HOOK_SCOPE_JOB));
    int rc = take_notifies(a, st, &rows, e);

    if (rc == 0)
        rc = notifies_fire(a, &rows, hook_event_of(m->state), m->first, m->last, m->state, m->at_ms,
                           e);
    vec_done(&rows);
    return rc;
}

/* ---- batches ---- */

/* The event that the end of this batch is; HOOK_EVENTS: it has not ended. */
static int batch_outcome(struct applier *a, uint64_t batch, enum hook_event *out, uint64_t *first,
                         uint64_t *last, struct err *e)
{
    sqlite3_stmt *st = db_query(
        a->db, e, "SELECT first_job, n_jobs" BATCH_COUNTS " FROM batch WHERE seq = ?1", INT(batch));
    int rc = db_step(a->db, st, e);
    int64_t open = 0, bad = 0, cancelled = 0;

    *out = HOOK_EVENTS;
    if (rc != 1)
        return rc;
    for (int i = 0; i < JOB_STATE_MAX; i++) {
        int64_t n = sqlite3_column_int64(st, 2 + i);
        enum job_state s = job_states[i];
        open += job_state_final(s) ? 0 : n;
        bad += hook_event_of(s) == HOOK_FAILURE ? n : 0;
        cancelled += hook_event_of(s) == HOOK_CANCEL ? n : 0;
    }
    *first = column_u64(st, 0);
    *last = *first + column_u64(st, 1) - 1;
    sqlite3_reset(st);
    if (!open)
        *out = bad ? HOOK_FAILURE : cancelled ? HOOK_CANCEL : HOOK_SUCCESS;
    return 0;
}

/* A stored hook is about a batch if it is about one of the jobs of the batch. */
static int batch_rules(struct applier *a, uint64_t batch, enum hook_event ev, uint64_t first,
                       uint64_t last, int64_t at_ms, struct err *e)
{
    for (size_t i = 0; i < a->hooks.rules.n; i++) {
        const struct hook_rule *r = &a->hooks.rules.p[i];
        numbers found = {0};
        struct err why = {0};
        if (r->on.scope != HOOK_SCOPE_BATCH || !(r->on.events & (1u << ev | END_BIT)))
            continue;
        int rc = rule_jobs(a, r, first, last, -1, 1, at_ms, &found, &why);
        if (rc == 0 && found.n)
            rc = messages_add(a, r->seq, ev, HOOK_SCOPE_BATCH, &batch, 1, at_ms, e);
        else
            rc = 0;
        vec_done(&found);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int batch_fire(struct applier *a, uint64_t batch, int64_t at_ms, struct err *e)
{
    enum hook_event ev;
    uint64_t first, last;
    notify_rows rows = {0};
    int rc = batch_outcome(a, batch, &ev, &first, &last, e);

    if (rc < 0 || ev == HOOK_EVENTS)
        return rc;
    rc = take_notifies(a,
                       db_query(a->db, e,
                                "SELECT hook, first, last FROM notify WHERE scope = ?1"
                                " AND first = ?2 AND events & ?3",
                                INT(HOOK_SCOPE_BATCH), INT(first), INT(1u << ev | END_BIT)),
                       &rows, e);
    for (size_t i = 0; rc == 0 && i < rows.n; i++)
        rc = messages_add(a, rows.p[i].hook, ev, HOOK_SCOPE_BATCH, &batch, 1, at_ms, e);
    vec_done(&rows);
    return rc < 0 ? -1 : batch_rules(a, batch, ev, first, last, at_ms, e);
}

/* The batches of the jobs that ended; each is looked at once per transaction. */
static int batches_match(struct applier *a, const struct hook_move *m, numbers *seen, struct err *e)
{
    numbers found = {0};
    int rc = take_numbers(a,
                          db_query(a->db, e,
                                   "SELECT DISTINCT batch FROM job NOT INDEXED WHERE seq BETWEEN ?1"
                                   " AND ?2 AND batch",
                                   INT(m->first), INT(m->last)),
                          &found, e);

    for (size_t i = 0; rc == 0 && i < found.n; i++) {
        bool again = false;
        for (size_t k = 0; k < seen->n; k++)
            again |= seen->p[k] == found.p[i];
        if (again)
            continue;
        vec_push(seen, found.p[i]);
        rc = batch_fire(a, found.p[i], m->at_ms, e);
    }
    vec_done(&found);
    return rc;
}

static int move_match(struct applier *a, const struct hook_move *m, struct err *e)
{
    enum hook_event ev = hook_event_of(m->state);
    uint32_t events = 1u << ev | (job_state_final(m->state) ? END_BIT : 0);
    int state = m->first == m->last ? -1 : (int)m->state;

    if (a->hooks.notifies && notifies_of_jobs(a, m, events, e) < 0)
        return -1;
    for (size_t i = 0; i < a->hooks.rules.n; i++) {
        const struct hook_rule *r = &a->hooks.rules.p[i];
        if (r->on.scope == HOOK_SCOPE_JOB && r->on.events & events &&
            rule_fire(a, r, ev, m->first, m->last, state, m->at_ms, e) < 0)
            return -1;
    }
    return 0;
}

int hooks_match(struct applier *a, struct err *e)
{
    numbers batches = {0};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < a->hooks.moves.n; i++) {
        const struct hook_move m = a->hooks.moves.p[i];
        rc = move_match(a, &m, e);
        if (rc == 0 && job_state_final(m.state))
            rc = batches_match(a, &m, &batches, e);
    }
    vec_clear(&a->hooks.moves);
    vec_done(&batches);
    return rc;
}

int hooks_of_study(struct applier *a, uint64_t study, uint32_t uid, enum hook_event ev,
                   int64_t at_ms, struct err *e)
{
    for (size_t i = 0; i < a->hooks.rules.n; i++) {
        const struct hook_rule *r = &a->hooks.rules.p[i];
        if (r->on.scope == HOOK_SCOPE_STUDY && r->on.events & (1u << ev | END_BIT) &&
            (r->everyone || r->uid == uid) &&
            messages_add(a, r->seq, ev, HOOK_SCOPE_STUDY, &study, 1, at_ms, e) < 0)
            return -1;
    }
    return 0;
}

/* ---- waiting too long ---- */

/* Jobs are looked at in the order of their numbers, which is that of their submission, up to the
 * first that is not old enough. */
static int rule_waited(struct applier *a, struct hook_rule *r, int64_t now_ms, struct err *e)
{
    uint64_t last = r->seen_job;
    int rc;
    sqlite3_stmt *st =
        db_query(a->db, e, "SELECT seq, created_ms FROM job NOT INDEXED WHERE seq > ?1 ORDER BY 1",
                 INT(r->seen_job));

    while ((rc = db_step(a->db, st, e)) == 1 &&
           sqlite3_column_int64(st, 1) + r->on.wait_ms <= now_ms)
        last = column_u64(st, 0);
    sqlite3_reset(st);
    if (rc < 0)
        return -1;
    if (last == r->seen_job)
        return 0;
    if (rule_fire(a, r, HOOK_WAITING, r->seen_job + 1, last, JOB_QUEUED, now_ms, e) < 0)
        return -1;
    r->seen_job = last;
    a->hooks.changed = true;
    return db_run(a->db, e, "UPDATE hook SET seen_job = ?2 WHERE seq = ?1", INT(r->seq), INT(last));
}

/* An entry with one job must be asked for its state, unlike a move. */
static int notifies_waited(struct applier *a, int64_t now_ms, struct err *e)
{
    notify_rows rows = {0};
    int rc = take_notifies(a,
                           db_query(a->db, e,
                                    "SELECT hook, first, last FROM notify WHERE wait_due_ms > 0"
                                    " AND wait_due_ms <= ?1",
                                    INT(now_ms)),
                           &rows, e);

    for (size_t i = 0; rc == 0 && i < rows.n; i++) {
        numbers jobs = {0};
        rc = take_numbers(a,
                          db_query(a->db, e,
                                   "SELECT seq FROM job NOT INDEXED WHERE seq BETWEEN ?1 AND ?2"
                                   " AND state = ?3",
                                   INT(rows.p[i].first), INT(rows.p[i].last), INT(JOB_QUEUED)),
                          &jobs, e);
        if (rc == 0)
            rc = messages_add(a, rows.p[i].hook, HOOK_WAITING, HOOK_SCOPE_JOB, jobs.p, jobs.n,
                              now_ms, e);
        vec_done(&jobs);
    }
    if (rc == 0 && rows.n) {
        a->hooks.changed = true;
        rc = db_run(a->db, e, "DELETE FROM notify WHERE wait_due_ms > 0 AND wait_due_ms <= ?1",
                    INT(now_ms));
    }
    vec_done(&rows);
    return rc;
}

int apply_waited(struct applier *a, const struct change *c, struct err *e)
{
    for (size_t i = 0; i < a->hooks.rules.n; i++)
        if (a->hooks.rules.p[i].on.events & WAITING_BIT &&
            rule_waited(a, &a->hooks.rules.p[i], c->at_ms, e) < 0)
            return -1;
    return notifies_waited(a, c->at_ms, e);
}
