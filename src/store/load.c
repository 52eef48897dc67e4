/* load.c - what the controller must know after a restart
 *
 * Owns: reading active jobs, open runs, dependencies, queues, nodes and counters, in job order.
 *
 * Time and memory grow with the active jobs, not with the finished ones: when most jobs are
 * finished the active ones are found through job_lane, otherwise the table is read from end to end,
 * which is faster per row.  A sweep shares specs, batches and id ranges, so those are looked up
 * once per stretch.  An open run belongs to a job that is starting, running or stopping: no index
 * of open runs is needed.
 */
#include "store/query_priv.h"
#include "store/study_priv.h"

enum { SPEC_SLOTS = 64, SCAN_SHARE = 4 };

/* What a job record takes from its spec; the slot of a spec is its number modulo SPEC_SLOTS. */
struct spec_facts {
    uint64_t seq, party;
    struct resources need;
    int64_t timeout_ms, backoff_ms;
    int32_t retries, retry_lost;
    struct str nodes;
};
struct party_facts {
    struct str queue;
    uint32_t uid;
};
/* State of one load; texts live in the arena until its end. */
struct loader {
    struct db *db;
    const struct load_sink *sink;
    struct arena text;
    VEC(struct party_facts) parties;
    struct spec_facts specs[SPEC_SLOTS];
    uint64_t range_first, range_last; /* of intake */
    struct id range_id;
    uint64_t batch;
    int32_t batch_slots;
    VEC(uint64_t) live, waiting; /* jobs with a run; jobs with dependencies */
};

static int load_parties(struct loader *l, struct err *e)
{
    sqlite3_stmt *st = db_query(l->db, e, "SELECT seq, uid, queue FROM party ORDER BY seq");
    int rc;

    while ((rc = db_step(l->db, st, e)) == 1) {
        struct party_facts p;
        uint64_t seq;
        db_row(st, COL(&seq), COL(&p.uid), COL(&p.queue));
        p.queue.p = arena_strndup(&l->text, p.queue.p, p.queue.n);
        while (l->parties.n <= seq)
            vec_push(&l->parties, (struct party_facts){0});
        l->parties.p[seq] = p;
    }
    return rc;
}

static int loader_find_spec(struct loader *l, uint64_t seq, const struct spec_facts **out,
                            struct err *e)
{
    struct spec_facts *f = &l->specs[seq % SPEC_SLOTS];

    *out = f;
    if (f->seq == seq)
        return 0;
    sqlite3_stmt *st = db_query(l->db, e,
                                "SELECT party, mcpu, mem_bytes, gpus, slots, timeout_ms,"
                                " backoff_ms, retries, nodes, retry_lost FROM spec WHERE seq = ?1",
                                INT(seq));
    int rc = db_step(l->db, st, e);
    if (rc <= 0)
        return rc ? -1
                  : err_set(e, ERR_INTERNAL,
                            "job store %s: spec %llu is missing; run `berth doctor`", l->db->path,
                            (unsigned long long)seq);
    *f = (struct spec_facts){.seq = seq};
    db_row(st, COL(&f->party), COL(&f->need), COL(&f->timeout_ms), COL(&f->backoff_ms),
           COL(&f->retries), COL(&f->nodes), COL(&f->retry_lost));
    f->nodes.p = f->nodes.n ? arena_strndup(&l->text, f->nodes.p, f->nodes.n) : "";
    sqlite3_reset(st);
    return 0;
}

/* The ids of a submission are consecutive, so one row serves all of its jobs. */
static int loader_find_range(struct loader *l, uint64_t seq, struct err *e)
{
    if (seq >= l->range_first && seq <= l->range_last)
        return 0;
    return query_range(l->db, seq, &l->range_first, &l->range_last, &l->range_id, e);
}

static int loader_find_batch(struct loader *l, uint64_t batch, struct err *e)
{
    if (batch == l->batch)
        return 0;
    sqlite3_stmt *st = db_query(l->db, e, "SELECT slots FROM batch WHERE seq = ?1", INT(batch));
    int rc = db_step(l->db, st, e);
    if (rc < 0)
        return -1;
    l->batch = batch;
    l->batch_slots = rc ? sqlite3_column_int(st, 0) : 0;
    sqlite3_reset(st);
    return 0;
}

#define JOB_COLUMNS                                                                                \
    "seq, state, spec, batch, idx, priority, attempt, tries, cancel, deps, created_ms, "           \
    "next_try_ms, training"

/* Tells the sink one job, and notes whether its runs or dependencies have to be read later. */
static int give_job(struct loader *l, sqlite3_stmt *st, struct err *e)
{
    const struct spec_facts *f;
    struct job_record r = {0};
    int64_t deps;

    db_row(st, COL(&r.seq), COL(&r.state), COL(&r.spec), COL(&r.batch), COL(&r.index),
           COL(&r.priority), COL(&r.attempt), COL(&r.tries), COL(&r.cancel_requested), COL(&deps),
           COL(&r.created_ms), COL(&r.next_try_ms), COL(&r.training));
    if (loader_find_spec(l, r.spec, &f, e) < 0 || loader_find_range(l, r.seq, e) < 0)
        return -1;
    if (r.batch && loader_find_batch(l, r.batch, e) < 0)
        return -1;
    r.id = id_add(l->range_id, r.seq - l->range_first);
    r.need = f->need;
    r.timeout_ms = f->timeout_ms;
    r.backoff_ms = f->backoff_ms;
    r.retries = f->retries;
    r.retry_lost = f->retry_lost;
    if (r.retry_lost && r.attempt && query_lost_runs(l->db, r.seq, &r.lost, e) < 0)
        return -1;
    /* A run that met a full disk was no try. */
    if (r.attempt > r.tries && query_full_runs(l->db, r.seq, &r.full, e) < 0)
        return -1;
    r.nodes = f->nodes;
    if (f->party < l->parties.n) {
        r.uid = l->parties.p[f->party].uid;
        r.queue = l->parties.p[f->party].queue;
    }
    r.batch_slots = r.batch ? l->batch_slots : 0;
    if (job_state_has_run(r.state))
        vec_push(&l->live, r.seq);
    else if (deps)
        vec_push(&l->waiting, r.seq);
    l->sink->job(l->sink->arg, &r);
    return 0;
}

static int load_by_scan(struct loader *l, struct err *e)
{
    int rc;
    sqlite3_stmt *st =
        db_query(l->db, e, "SELECT " JOB_COLUMNS " FROM job NOT INDEXED WHERE 1 << state & ?1",
                 INT(JOB_STATES_ACTIVE));
    while ((rc = db_step(l->db, st, e)) == 1) {
        if (give_job(l, st, e) < 0) {
            sqlite3_reset(st);
            return -1;
        }
    }
    return rc;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Through the index the jobs come by state; they are sorted because the sink expects the order of
 * numbers. */
static int load_by_lane(struct loader *l, struct err *e)
{
    VEC(uint64_t) seqs = {0};
    int rc = 0;
    sqlite3_stmt *st;

    for (int s = 0; rc >= 0 && s < JOB_STATE_MAX; s++) {
        if (job_state_final((enum job_state)s))
            continue;
        st = db_query(l->db, e, "SELECT seq FROM job INDEXED BY job_lane WHERE state = ?1", INT(s));
        while ((rc = db_step(l->db, st, e)) == 1)
            vec_push(&seqs, column_u64(st, 0));
    }
    if (seqs.n)
        qsort(seqs.p, seqs.n, sizeof(*seqs.p), compare_u64);
    for (size_t i = 0; rc >= 0 && i < seqs.n; i++) {
        st = db_query(l->db, e, "SELECT " JOB_COLUMNS " FROM job WHERE seq = ?1", INT(seqs.p[i]));
        rc = db_step(l->db, st, e);
        if (rc == 1)
            rc = give_job(l, st, e);
        sqlite3_reset(st);
    }
    vec_done(&seqs);
    return rc;
}

static int loader_load_jobs(struct loader *l, struct err *e)
{
    int64_t active = 0, all = 0;
    int rc;
    sqlite3_stmt *st = db_query(l->db, e, "SELECT state, sum(n) FROM tally GROUP BY state");

    while ((rc = db_step(l->db, st, e)) == 1) {
        int64_t n = sqlite3_column_int64(st, 1);
        all += n;
        if (!job_state_final((enum job_state)sqlite3_column_int(st, 0)))
            active += n;
    }
    if (rc < 0)
        return -1;
    return active * SCAN_SHARE >= all ? load_by_scan(l, e) : load_by_lane(l, e);
}

/* Only runs without an outcome: a job has at most one of them. */
static int load_runs(struct loader *l, struct err *e)
{
    sqlite3_stmt *st;
    int rc;

    for (size_t i = 0; i < l->live.n; i++) {
        st = db_query(
            l->db, e,
            "SELECT run, node, gpus, devices, journal, pid, pid_start, placed_ms, started_ms,"
            " spool_offset FROM run WHERE job = ?1 AND why IS NULL ORDER BY run",
            INT(l->live.p[i]));
        while ((rc = db_step(l->db, st, e)) == 1) {
            struct run_record r = {.key.job = l->live.p[i]};
            db_row(st, COL(&r.key.run), COL(&r.node), COL(&r.gpus), COL(&r.journal), COL(&r.pid),
                   COL(&r.pid_start), COL(&r.placed_ms), COL(&r.started_ms), COL(&r.spool_offset));
            l->sink->run(l->sink->arg, &r);
        }
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* Few rows: starts that hosts have not answered yet, of jobs that are queued. */
static int load_ahead(struct loader *l, struct err *e)
{
    sqlite3_stmt *st = db_query(l->db, e, "SELECT job, run, journal, node FROM ahead ORDER BY job");
    int rc;

    while ((rc = db_step(l->db, st, e)) == 1) {
        struct run_record r = {.ahead = true};
        db_row(st, COL(&r.key.job), COL(&r.key.run), COL(&r.journal), COL(&r.node));
        l->sink->run(l->sink->arg, &r);
    }
    return rc;
}

static int load_deps(struct loader *l, struct err *e)
{
    sqlite3_stmt *st;
    int rc;

    for (size_t i = 0; i < l->waiting.n; i++) {
        st = db_query(l->db, e,
                      "SELECT d.other, j.state, w.deps FROM dep d JOIN job j ON j.seq = d.other"
                      " JOIN job w ON w.seq = d.job WHERE d.job = ?1 ORDER BY d.other",
                      INT(l->waiting.p[i]));
        while ((rc = db_step(l->db, st, e)) == 1) {
            struct dep_record r = {l->waiting.p[i], column_u64(st, 0)};
            enum job_state state = (enum job_state)sqlite3_column_int(st, 1);
            /* A job that was retried by hand does not mind what ended badly before (see deps in
             * migrate.c). */
            bool by_hand = sqlite3_column_int64(st, 2) < 0;
            if (!job_state_final(state))
                l->sink->dep(l->sink->arg, &r);
            else if (state != JOB_SUCCEEDED && !by_hand && l->sink->dep_final)
                l->sink->dep_final(l->sink->arg, r.job, r.other, state);
        }
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int load_queues(struct loader *l, struct err *e)
{
    sqlite3_stmt *st = db_query(l->db, e, "SELECT name, paused FROM queue ORDER BY name");
    int rc;

    while ((rc = db_step(l->db, st, e)) == 1)
        l->sink->queue(l->sink->arg, column_str(st, 0), (enum queue_mode)sqlite3_column_int(st, 1));
    return rc;
}

static int load_nodes(struct loader *l, struct err *e)
{
    sqlite3_stmt *st = db_query(l->db, e, "SELECT name, drained, conf FROM node ORDER BY name");
    int rc;

    while ((rc = db_step(l->db, st, e)) == 1) {
        struct node_record r;
        db_row(st, COL(&r.name), COL(&r.drained), COL(&r.conf));
        l->sink->node(l->sink->arg, &r);
    }
    return rc;
}

static int load_facts(struct loader *l, struct err *e)
{
    sqlite3_stmt *st;
    int rc;

    if (!l->sink->fact)
        return 0;
    st = db_query(l->db, e, "SELECT name, value FROM fact ORDER BY name");
    while ((rc = db_step(l->db, st, e)) == 1)
        l->sink->fact(l->sink->arg, column_str(st, 0), column_str(st, 1));
    return rc;
}

static int load_schedules(struct loader *l, struct err *e)
{
    sqlite3_stmt *st;
    int rc;

    if (!l->sink->schedule)
        return 0;
    st = db_query(l->db, e,
                  "SELECT seq, name, user, uid, gid, def, paused, created_ms, settled_s, last_job,"
                  " last_n, trouble FROM schedule ORDER BY seq");
    while ((rc = db_step(l->db, st, e)) == 1) {
        struct schedule_row r = {0};
        db_row(st, COL(&r.seq), COL(&r.name), COL(&r.user), COL(&r.uid), COL(&r.gid), COL(&r.def),
               COL(&r.paused), COL(&r.created_ms), COL(&r.settled_s), COL(&r.last_job),
               COL(&r.last_n), COL(&r.trouble));
        l->sink->schedule(l->sink->arg, &r);
    }
    return rc;
}

static int load_trials(struct loader *l, uint64_t study, struct err *e)
{
    sqlite3_stmt *st = db_query(l->db, e,
                                "SELECT " TRIAL_COLUMNS " FROM trial WHERE study = ?1"
                                " ORDER BY number",
                                INT(study));
    int rc;

    while ((rc = db_step(l->db, st, e)) == 1) {
        struct trial_row r = trial_row_of(st);
        r.study = study;
        l->sink->trial(l->sink->arg, &r);
    }
    return rc;
}

static int load_studies(struct loader *l, struct err *e)
{
    VEC(uint64_t) seqs = {0};
    sqlite3_stmt *st;
    int rc;

    if (!l->sink->study)
        return 0;
    st = db_query(l->db, e,
                  "SELECT seq, name, user, uid, gid, def, paused, created_ms, ended FROM study"
                  " ORDER BY seq");
    while ((rc = db_step(l->db, st, e)) == 1) {
        struct study_row r = {0};
        db_row(st, COL(&r.seq), COL(&r.name), COL(&r.user), COL(&r.uid), COL(&r.gid), COL(&r.def),
               COL(&r.paused), COL(&r.created_ms), COL(&r.ended));
        l->sink->study(l->sink->arg, &r);
        vec_push(&seqs, r.seq);
    }
    for (size_t i = 0; rc == 0 && i < seqs.n; i++) {
        struct study_sum x = {.seq = seqs.p[i]};
        AUTO_FREE char *metric = NULL, *params = NULL;
        rc = study_sum_read(l->db, &x, &metric, &params, e);
        if (rc == 0 && l->sink->study_sum(l->sink->arg, &x))
            rc = load_trials(l, seqs.p[i], e);
    }
    vec_done(&seqs);
    return rc;
}

static int load_counters(struct loader *l, struct err *e)
{
    sqlite3_stmt *st = db_query(
        l->db, e,
        "SELECT job, spec, batch, (SELECT ifnull(max(seq), 0) FROM event), tagged FROM counter");
    int rc = db_step(l->db, st, e);

    if (rc == 0)
        return err_set(e, ERR_INTERNAL, "job store %s has no counters; run `berth doctor`",
                       l->db->path);
    if (rc < 0)
        return -1;
    l->sink->counters(l->sink->arg, column_u64(st, 0), column_u64(st, 1), column_u64(st, 2),
                      column_u64(st, 3));
    if (l->sink->tagged)
        l->sink->tagged(l->sink->arg, column_u64(st, 4));
    sqlite3_reset(st);
    return 0;
}

int store_load(struct store *s, const struct load_sink *sink, struct err *e)
{
    struct loader l = {.sink = sink};
    int rc = -1;

    l.db = pool_borrow(&s->pool, e);
    if (!l.db)
        return -1;
    if (load_parties(&l, e) == 0 && load_facts(&l, e) == 0 && load_counters(&l, e) == 0 &&
        load_queues(&l, e) == 0 && load_nodes(&l, e) == 0 && loader_load_jobs(&l, e) == 0 &&
        load_deps(&l, e) == 0 && load_runs(&l, e) == 0 && load_ahead(&l, e) == 0 &&
        load_schedules(&l, e) == 0 && load_studies(&l, e) == 0)
        rc = 0;
    pool_return(&s->pool, l.db);
    vec_done(&l.parties);
    vec_done(&l.live);
    vec_done(&l.waiting);
    arena_done(&l.text);
    return rc;
}
