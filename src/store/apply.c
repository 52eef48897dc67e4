/* apply.c - a change becomes rows and one event
 *
 * Owns: what each change does to job, run, queue and node.  Submissions, removals and what is said
 * of experiments have their own files.
 *
 * A change says what happened; nothing here decides.  It is applied to what is there: a change
 * about a job that is gone, or was refused when the disk was full, does nothing, so that what was
 * staged can always be replayed and never blocks what comes after it.
 */
#include "base/fault.h"
#include "base/util.h"
#include "store/apply_priv.h"
#include "store/query_priv.h"

int applier_reload(struct applier *a, struct err *e)
{
    int64_t last;

    if (tally_load(&a->tally, a->db, e) < 0 ||
        db_int(a->db, "SELECT ifnull(max(seq), 0) FROM event", &last, e) < 0)
        return -1;
    a->last_event = (uint64_t)last;
    vec_clear(&a->hooks.moves);
    a->hooks.changed = false;
    return hooks_reload(a, e);
}

int applier_init(struct applier *a, struct db *d, struct err *e)
{
    *a = (struct applier){.db = d};
    buf_init(&a->data, 1 << 20);
    if (query_functions(d, e) < 0 || applier_reload(a, e) < 0) {
        applier_done(a);
        return -1;
    }
    return 0;
}

void applier_done(struct applier *a)
{
    tally_done(&a->tally);
    hooks_done(&a->hooks);
    buf_done(&a->data);
}

int apply_finish(struct applier *a, struct err *e)
{
    static int64_t commits; /* the writer thread's */

    fault_sleep("BERTH_FAULT_COMMIT_MS");
    if (fault_every("BERTH_FAULT_COMMIT_FAILS", &commits))
        return err_set(e, ERR_FULL, "this commit fails on demand (BERTH_FAULT_COMMIT_FAILS)");
    /* Hooks of batches look at the counts that the tally writes. */
    return tally_write(&a->tally, a->db, e) < 0 ? -1 : hooks_match(a, e);
}

/* State and counters of a job before the change at hand. */
struct job_now {
    enum job_state state;
    struct member member;
};

/* Reads the state and the counters of a job.  1 = found, 0 = there is no such job, -1 = error. */
static int find_job(struct applier *a, uint64_t seq, struct job_now *out, struct err *e)
{
    sqlite3_stmt *st =
        db_query(a->db, e, "SELECT state, party, batch FROM job WHERE seq = ?1", INT(seq));
    int rc = db_step(a->db, st, e);

    if (rc == 1) {
        out->state = (enum job_state)sqlite3_column_int(st, 0);
        out->member = (struct member){column_u64(st, 1), column_u64(st, 2)};
        sqlite3_reset(st);
    }
    return rc;
}

/* Moves a job from one counter to the other; the counters are written once per commit. */
static void move(struct applier *a, const struct job_now *j, enum job_state to)
{
    if (j->state == to)
        return;
    tally_add(&a->tally, j->member, j->state, -1);
    tally_add(&a->tally, j->member, to, 1);
}

/* No event and no word in the job's row: nobody but recovery may notice (load.c). */
static int apply_ahead(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_ahead *r = &c->ahead;

    return db_run(a->db, e,
                  "INSERT OR REPLACE INTO ahead(job, run, journal, node)"
                  " SELECT seq, ?2, ?3, ?4 FROM job WHERE seq = ?1",
                  INT(r->key.job), INT(r->key.run), INT(r->journal), TEXT(r->node));
}

static int apply_ahead_gone(struct applier *a, const struct change *c, struct err *e)
{
    return db_run(a->db, e, "DELETE FROM ahead WHERE job = ?1", INT(c->ahead_gone.job));
}

/* A job was placed: a row for the run, and the job is starting.  `tries` counts a run once, however
 * often the change is replayed. */
static int apply_run_new(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_run_new *r = &c->run_new;
    struct job_now j = {0};
    int rc = find_job(a, r->key.job, &j, e);

    if (rc <= 0)
        return rc;
    if (db_run(a->db, e,
               "INSERT INTO run(job, run, placed_ms, journal, gpus, devices, node)"
               " VALUES(?1, ?2, ?3, ?4, 0, ?5, ?6) ON CONFLICT DO NOTHING",
               INT(r->key.job), INT(r->key.run), INT(c->at_ms), INT(r->journal),
               TEXT_OR_NULL(r->devices), TEXT(r->node)) < 0)
        return -1;
    if (db_run(a->db, e,
               "UPDATE job SET state = ?3, tries = tries + (attempt < ?2),"
               " attempt = max(attempt, ?2), deps = 0, started_ms = 0, ended_ms = 0,"
               " next_try_ms = 0, exit_code = NULL, reason = NULL WHERE seq = ?1",
               INT(r->key.job), INT(r->key.run), INT(JOB_STARTING)) < 0)
        return -1;
    move(a, &j, JOB_STARTING);
    data_begin(a, c->user);
    data_int(a, "run", r->key.run);
    data_str(a, "node", r->node);
    if (r->devices.n)
        data_str(a, "gpus", r->devices);
    return event_append(a, EVENT_JOB_STATE + JOB_STARTING, c->at_ms, r->key.job, r->key.job, e);
}

/* The command of a run is executing. */
static int apply_run_started(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_run_started *r = &c->run_started;
    struct job_now j = {0};
    enum job_state next;
    int rc = find_job(a, r->key.job, &j, e);

    if (rc <= 0)
        return rc;
    if (db_run(a->db, e,
               "UPDATE run SET pid = ?3, pid_start = ?4, started_ms = ?5"
               " WHERE job = ?1 AND run = ?2",
               INT(r->key.job), INT(r->key.run), INT(r->pid), INT(r->pid_start), INT(c->at_ms)) < 0)
        return -1;
    /* A request to stop may have crossed this report: then it stays stopping. */
    next = j.state;
    job_next(j.state, JOB_EV_STARTED, &next);
    if (db_run(a->db, e, "UPDATE job SET state = ?2, started_ms = ?3 WHERE seq = ?1",
               INT(r->key.job), INT(next), INT(c->at_ms)) < 0)
        return -1;
    move(a, &j, next);
    data_begin(a, c->user);
    data_int(a, "run", r->key.run);
    data_int(a, "pid", r->pid);
    return event_append(a, EVENT_JOB_STATE + next, c->at_ms, r->key.job, r->key.job, e);
}

/* Records the outcome of the run.  The start time of the outcome replaces the recorded one, if the
 * outcome has one. */
static int end_run(struct applier *a, const struct change_run_ended *r, int64_t ended_ms,
                   struct err *e)
{
    const struct run_outcome *o = &r->outcome;

    return db_run(a->db, e,
                  "UPDATE run SET why = ?3, wait_status = ?4, sys = ?5, ended_ms = ?6,"
                  " started_ms = iif(?7 > 0, ?7, started_ms), max_rss_bytes = ?8,"
                  " cpu_user_ms = ?9, cpu_sys_ms = ?10, detail = ?11 WHERE job = ?1 AND run = ?2",
                  INT(r->key.job), INT(r->key.run), INT(o->why), INT(o->wait_status), INT(o->sys),
                  INT(ended_ms), INT(o->started_ms), INT(o->max_rss_bytes), INT(o->cpu_user_ms),
                  INT(o->cpu_sys_ms), TEXT_OR_NULL(r->detail));
}

/* The run has ended: its row gets the outcome, the job its next state.  A run that was not the
 * job's fault gives its try back.  A final state also ends a request to cancel. */
static int apply_run_ended(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_run_ended *r = &c->run_ended;
    int64_t ended_ms = r->outcome.ended_ms ? r->outcome.ended_ms : c->at_ms;
    int code = run_outcome_exit_code(&r->outcome);
    char text[256] = "";
    struct str reason = r->detail;
    struct job_now j = {0};
    int rc = find_job(a, r->key.job, &j, e);

    if (rc <= 0)
        return rc;
    if (end_run(a, r, ended_ms, e) < 0)
        return -1;
    if (r->next == JOB_SUCCEEDED) {
        reason = (struct str){NULL, 0};
    } else if (!reason.n) {
        run_outcome_text(&r->outcome, text, sizeof(text));
        reason = str_of(text);
    }
    if (db_run(a->db, e,
               "UPDATE job SET state = ?2, ended_ms = ?3, next_try_ms = ?4, exit_code = ?5,"
               " reason = ?6, started_ms = iif(?7 > 0, ?7, started_ms),"
               " tries = max(0, tries - ?8), cancel = iif(?9, 0, cancel) WHERE seq = ?1",
               INT(r->key.job), INT(r->next), INT(job_state_final(r->next) ? ended_ms : 0),
               INT(r->next_try_ms), code >= 0 ? INT(code) : NONE, TEXT_OR_NULL(reason),
               INT(r->outcome.started_ms), INT(r->no_try || !run_end_is_a_try(r->outcome.why)),
               INT(job_state_final(r->next))) < 0)
        return -1;
    move(a, &j, r->next);
    data_begin(a, c->user);
    data_int(a, "run", r->key.run);
    data_str(a, "why", str_of(run_end_name(r->outcome.why)));
    if (code >= 0)
        data_int(a, "exit_code", code);
    data_str(a, "reason", reason);
    return event_append(a, EVENT_JOB_STATE + r->next, c->at_ms, r->key.job, r->key.job, e);
}

/* Counts n jobs of the same party and batch in their new state. */
static void move_members(struct applier *a, struct member m, const struct change_job_state *c,
                         int64_t n)
{
    tally_add(&a->tally, m, c->from, -n);
    tally_add(&a->tally, m, c->to, n);
}

/* Jobs of a range may belong to several parties and batches: count them before they move.
 * Neighbours are mostly alike, so counting stretches is faster than letting SQLite group them. */
static int move_range(struct applier *a, const struct change_job_state *c, uint64_t last,
                      int64_t *out_n, struct err *e)
{
    struct member at = {0};
    int64_t n = 0;
    int rc;
    sqlite3_stmt *st = db_query(a->db, e,
                                "SELECT party, batch FROM job NOT INDEXED"
                                " WHERE seq BETWEEN ?1 AND ?2 AND state = ?3",
                                INT(c->first), INT(last), INT(c->from));
    while ((rc = db_step(a->db, st, e)) == 1) {
        struct member m = {column_u64(st, 0), column_u64(st, 1)};
        if (n && (m.party != at.party || m.batch != at.batch)) {
            move_members(a, at, c, n);
            n = 0;
        }
        at = m;
        n++;
        ++*out_n;
    }
    if (n)
        move_members(a, at, c, n);
    return rc;
}

/* Moves those jobs of a range that are still in state `from`.  One event stands for the whole
 * range; a range in which no job was left in that state makes none. */
static int apply_job_state(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_job_state *s = &c->job_state;
    uint64_t last = MAX(s->first, s->last);
    int64_t n = 0;

    if (move_range(a, s, last, &n, e) < 0)
        return -1;
    if (!n)
        return 0;
    if (db_run(a->db, e,
               "UPDATE job NOT INDEXED SET state = ?4, ended_ms = ?5, reason = ?6"
               " WHERE seq BETWEEN ?1 AND ?2 AND state = ?3",
               INT(s->first), INT(last), INT(s->from), INT(s->to),
               INT(job_state_final(s->to) ? c->at_ms : 0), TEXT_OR_NULL(s->reason)) < 0)
        return -1;
    data_begin(a, c->user);
    data_str(a, "reason", s->reason);
    if (n > 1)
        data_int(a, "jobs", n);
    return event_append(a, EVENT_JOB_STATE + s->to, c->at_ms, s->first, last, e);
}

/* Counts the job in its new state and appends the event that says so. */
static int job_moved(struct applier *a, const struct change *c, uint64_t job,
                     const struct job_now *j, enum job_state to, struct str reason, struct err *e)
{
    move(a, j, to);
    data_begin(a, c->user);
    data_str(a, "reason", reason);
    return event_append(a, EVENT_JOB_STATE + to, c->at_ms, job, job, e);
}

/* A running job was asked to stop.  The end of its run follows as a change of its own. */
static int apply_job_cancel(struct applier *a, const struct change *c, struct err *e)
{
    struct job_now j = {0};
    uint64_t seq = c->job_cancel.job;
    int rc = find_job(a, seq, &j, e);

    if (rc <= 0)
        return rc;
    if (db_run(a->db, e, "UPDATE job SET state = ?2, cancel = 1 WHERE seq = ?1", INT(seq),
               INT(JOB_STOPPING)) < 0)
        return -1;
    return job_moved(a, c, seq, &j, JOB_STOPPING, STR(""), e);
}

/* A finished job goes back to the queue with a fresh count of tries; it waits for its dependencies
 * again. */
static int apply_job_retry(struct applier *a, const struct change *c, struct err *e)
{
    struct job_now j = {0};
    uint64_t seq = c->job_retry.job;
    int rc = find_job(a, seq, &j, e);

    if (rc <= 0)
        return rc;
    if (db_run(a->db, e,
               "UPDATE job SET state = ?2, tries = 0, cancel = 0, deps = -EXISTS(SELECT 1 FROM"
               " dep WHERE job = ?1), started_ms = 0,"
               " ended_ms = 0, next_try_ms = 0, exit_code = NULL, reason = NULL WHERE seq = ?1",
               INT(seq), INT(JOB_QUEUED)) < 0)
        return -1;
    return job_moved(a, c, seq, &j, JOB_QUEUED, STR("retry"), e);
}

/* Pauses, resumes or keeps a queue, which may not have a row yet. */
static int apply_queue(struct applier *a, const struct change *c, struct err *e)
{
    if (db_run(a->db, e,
               "INSERT INTO queue(name, paused) VALUES(?1, ?2)"
               " ON CONFLICT(name) DO UPDATE SET paused = ?2",
               TEXT(c->queue.name), INT(c->queue.mode)) < 0)
        return -1;
    data_begin(a, c->user);
    data_str(a, "queue", c->queue.name);
    return event_append(a, c->queue.mode == QUEUE_PAUSED ? EVENT_QUEUE_PAUSED : EVENT_QUEUE_RESUMED,
                        c->at_ms, 0, 0, e);
}

/* Facts make no event: only the controller reads them. */
static int apply_fact(struct applier *a, const struct change *c, struct err *e)
{
    const struct change_fact *f = &c->fact;

    if (!f->value.n)
        return db_run(a->db, e, "DELETE FROM fact WHERE name = ?1", TEXT(f->name));
    return db_run(a->db, e,
                  "INSERT INTO fact(name, value) VALUES(?1, ?2)"
                  " ON CONFLICT(name) DO UPDATE SET value = ?2",
                  TEXT(f->name), TEXT(f->value));
}

/* No event: the record changes with every epoch. */
static int apply_training(struct applier *a, const struct change *c, struct err *e)
{
    return db_run(a->db, e, "UPDATE job SET training = ?2 WHERE seq = ?1", INT(c->training.job),
                  TEXT_OR_NULL(c->training.record));
}

int apply_change(struct applier *a, const struct change *c, struct err *e)
{
    switch (c->kind) {
    case CHANGE_SUBMIT:
        return apply_submit(a, c->submission, c->at_ms, c->user, e);
    case CHANGE_AHEAD:
        return apply_ahead(a, c, e);
    case CHANGE_AHEAD_GONE:
        return apply_ahead_gone(a, c, e);
    case CHANGE_RUN_NEW:
        return apply_run_new(a, c, e);
    case CHANGE_RUN_STARTED:
        return apply_run_started(a, c, e);
    case CHANGE_RUN_ENDED:
        return apply_run_ended(a, c, e);
    case CHANGE_JOB_STATE:
        return apply_job_state(a, c, e);
    case CHANGE_JOB_CANCEL:
        return apply_job_cancel(a, c, e);
    case CHANGE_JOB_RETRY:
        return apply_job_retry(a, c, e);
    case CHANGE_QUEUE:
        return apply_queue(a, c, e);
    case CHANGE_NODE_NEW:
        return apply_node_new(a, c, e);
    case CHANGE_NODE_DRAIN:
        return apply_node_drain(a, c, e);
    case CHANGE_NODE_GONE:
        return apply_node_gone(a, c, e);
    case CHANGE_MARK:
        return apply_mark(a, c, e);
    case CHANGE_MARK_GONE:
        return apply_mark_gone(a, c, e);
    case CHANGE_POINTS:
        return apply_points(a, c, e);
    case CHANGE_TEXT_POINT:
        return apply_text_point(a, c, e);
    case CHANGE_SPOOL:
        return apply_spool(a, c, e);
    case CHANGE_NOTE:
        return apply_note(a, c, e);
    case CHANGE_PROJECT:
        return apply_project(a, c, e);
    case CHANGE_REMOVE:
        return apply_remove(a, c, e);
    case CHANGE_SCHEDULE:
        return apply_schedule(a, c, e);
    case CHANGE_SCHEDULE_SETTLED:
        return apply_schedule_settled(a, c, e);
    case CHANGE_SCHEDULE_GONE:
        return apply_schedule_gone(a, c, e);
    case CHANGE_FACT:
        return apply_fact(a, c, e);
    case CHANGE_TRAINING:
        return apply_training(a, c, e);
    case CHANGE_FORGET:
        return apply_forget(a, c, e);
    case CHANGE_HOOK:
        return apply_hook(a, c, e);
    case CHANGE_HOOK_GONE:
        return apply_hook_gone(a, c, e);
    case CHANGE_DELIVERED:
        return apply_delivered(a, c, e);
    case CHANGE_WAITED:
        return apply_waited(a, c, e);
    case CHANGE_STUDY:
        return apply_study(a, c, e);
    case CHANGE_STUDY_GONE:
        return apply_study_gone(a, c, e);
    case CHANGE_TRIAL:
        return apply_trial(a, &c->trial.row, e);
    case CHANGE_TRIAL_TOLD:
        return apply_trial_told(a, c, e);
    case CHANGE_STUDY_SAID:
        return apply_study_said(a, c, e);
    case CHANGE_STUDY_LOG:
        return apply_study_log(a, c, e);
    case CHANGE_STUDY_LOG_GONE:
        return apply_study_log_gone(a, c, e);
    case CHANGE_KINDS:
        break;
    }
    return 0;
}
