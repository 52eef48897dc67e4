/* apply_submit.c - a submission becomes rows: all of it, or nothing
 *
 * Owns: inserting batch, specs, jobs, dependencies, ids and the idempotency key.
 *
 * 100 000 jobs are one statement stepped 100 000 times; what they share is bound once.  Ids are not
 * stored per job: consecutive numbers with consecutive ids are one row of intake.  Parties are made
 * before the savepoint, so that undoing a submission never leaves the memory of one that is not in
 * the table.
 */
#include "base/util.h"
#include "store/apply_priv.h"
#include "store/query_priv.h"

enum { ID_ROOM_MASK = (1 << 24) - 1 }; /* id_make leaves these bits to the jobs of an array */

/* What was found out about a spec before anything is inserted. */
struct spec_use {
    uint64_t party;
    uint64_t jobs;
};

/* Where in the submission the spec of this number is; -1 = nowhere.  Numbers are usually
 * consecutive, so the first guess is right. */
static int spec_index(const struct submission *s, uint64_t spec, size_t *out)
{
    uint64_t guess = s->n_specs ? spec - s->specs[0].seq : 0;

    if (guess < s->n_specs && s->specs[guess].seq == spec) {
        *out = (size_t)guess;
        return 0;
    }
    for (size_t i = 0; i < s->n_specs; i++) {
        if (s->specs[i].seq == spec) {
            *out = i;
            return 0;
        }
    }
    return -1;
}

/* Counts the jobs of each spec, and refuses a submission whose jobs name a batch or spec outside of
 * it. */
static int count_uses(const struct submission *s, struct spec_use *use, struct err *e)
{
    for (size_t i = 0; i < s->n_jobs; i++) {
        size_t k;
        if (s->jobs[i].batch != s->batch.seq)
            return err_set(e, ERR_INVALID, "job %llu is of batch %llu, which is not submitted",
                           (unsigned long long)s->jobs[i].seq,
                           (unsigned long long)s->jobs[i].batch);
        if (!s->jobs[i].seq || spec_index(s, s->jobs[i].spec, &k) < 0)
            return err_set(e, ERR_INVALID, "job %llu names spec %llu, which is not submitted",
                           (unsigned long long)s->jobs[i].seq, (unsigned long long)s->jobs[i].spec);
        use[k].jobs++;
    }
    return 0;
}

/* Finds or makes the party of each spec.  A party that is new may be the first of its project,
 * which then gets a record too. */
static int make_parties(struct applier *a, const struct submission *s, struct spec_use *use,
                        int64_t at_ms, struct err *e)
{
    for (size_t i = 0; i < s->n_specs; i++) {
        const struct spec_row *r = &s->specs[i], *before = i ? &s->specs[i - 1] : NULL;
        size_t known = a->tally.lines.n;
        if (before && str_eq(before->project, r->project) && str_eq(before->queue, r->queue))
            use[i].party = use[i - 1].party;
        else if (tally_party(&a->tally, a->db, r->project, r->queue, s->uid, s->user, &use[i].party,
                             e) < 0)
            return -1;
        if (a->tally.lines.n > known && project_first(a, r->project, s->uid, s->user, at_ms, e) < 0)
            return -1;
    }
    return 0;
}

/* A spec that no job uses is left out: nobody would ever delete its row. */
static int insert_specs(struct applier *a, const struct submission *s, const struct spec_use *use,
                        struct err *e)
{
    for (size_t i = 0; i < s->n_specs; i++) {
        const struct spec_row *r = &s->specs[i];
        if (!use[i].jobs)
            continue;
        if (db_run(a->db, e,
                   "INSERT INTO spec(seq, party, jobs, gid, mcpu, mem_bytes, gpus, slots,"
                   " timeout_ms, backoff_ms, priority, retries, name, body, nodes,"
                   " retry_lost, schedule, snapshot, sealed)"
                   " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,"
                   " ?16, ?17, ?18, ?19)",
                   INT(r->seq), INT(use[i].party), INT(use[i].jobs), INT(s->gid), INT(r->need.mcpu),
                   INT(r->need.mem_bytes), INT(r->need.gpus), INT(r->need.slots),
                   INT(r->timeout_ms), INT(r->backoff_ms), INT(r->priority), INT(r->retries),
                   TEXT(r->name), TEXT(r->body), TEXT_OR_NULL(r->nodes), INT(r->retry_lost),
                   TEXT_OR_NULL(s->schedule.name), TEXT_OR_NULL(r->snapshot), TEXT(r->sealed)) < 0)
            return -1;
    }
    return 0;
}

static int insert_deps(struct applier *a, const struct job_row *r, struct err *e)
{
    for (size_t i = 0; i < r->n_after; i++)
        if (db_run(a->db, e, "INSERT INTO dep(job, other) VALUES(?1, ?2) ON CONFLICT DO NOTHING",
                   INT(r->seq), INT(r->after[i])) < 0)
            return -1;
    return 0;
}

/* A job that is to be held begins in that state, so it cannot start between submission and hold. */
static enum job_state first_state(const struct spec_row *spec)
{
    return spec->hold ? JOB_HELD : JOB_QUEUED;
}

static int insert_jobs(struct applier *a, const struct submission *s, const struct spec_use *use,
                       int64_t at_ms, struct err *e)
{
    size_t k = 0; /* the spec of the job at hand; mostly that of the one before */

    for (size_t i = 0; i < s->n_jobs; i++) {
        const struct job_row *r = &s->jobs[i];
        if (r->spec != s->specs[k].seq)
            spec_index(s, r->spec, &k);
        if (db_run(a->db, e,
                   "INSERT INTO job(seq, state, party, spec, batch, idx, priority, attempt, tries,"
                   " cancel, deps, created_ms, started_ms, ended_ms, next_try_ms, name, params,"
                   " training) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 0, 0, ?8, ?9, 0, 0, 0, ?10,"
                   " ?11, ?12)",
                   INT(r->seq), INT(first_state(&s->specs[k])), INT(use[k].party), INT(r->spec),
                   INT(r->batch), INT(r->index), INT(r->priority), INT(r->n_after), INT(at_ms),
                   TEXT_OR_NULL(r->name), TEXT_OR_NULL(r->params),
                   s->specs[k].trains ? TEXT(STR("{}")) : NONE) < 0)
            return -1;
        if (r->n_after && insert_deps(a, r, e) < 0)
            return -1;
    }
    return 0;
}

/* An id that somebody chose may lie among those of an array; ours begin where no array reaches. */
static int check_id(struct applier *a, const struct job_row *r, struct err *e)
{
    char text[ID_TEXT_MAX];
    uint64_t taken;

    if (!(r->id.lo & ID_ROOM_MASK))
        return 0;
    if (query_seq_of_id(a->db, r->id, &taken, e) < 0)
        return -1;
    id_format(r->id, text);
    return taken ? err_set(e, ERR_CONFLICT, "the id %s is that of job %llu; choose another", text,
                           (unsigned long long)taken)
                 : 0;
}

/* One row per stretch of consecutive numbers with consecutive ids: usually one in all. */
static int insert_intake(struct applier *a, const struct submission *s, struct err *e)
{
    if (s->n_jobs == 1 && check_id(a, &s->jobs[0], e) < 0)
        return -1;
    for (size_t i = 0, end; i < s->n_jobs; i = end) {
        const struct job_row *r = &s->jobs[i];
        for (end = i + 1; end < s->n_jobs; end++)
            if (s->jobs[end].seq != r->seq + (end - i) ||
                id_cmp(s->jobs[end].id, id_add(r->id, end - i)))
                break;
        if (db_run(a->db, e, "INSERT INTO intake(first, last, id) VALUES(?1, ?2, ?3)", INT(r->seq),
                   INT(s->jobs[end - 1].seq), ID(r->id)) == 0)
            continue;
        if (e && e->code == ERR_CONFLICT)
            err_set(e, ERR_CONFLICT, "another job has the id of job %llu; choose another",
                    (unsigned long long)r->seq);
        return -1;
    }
    return 0;
}

static int insert_batch(struct applier *a, const struct batch_row *b, int64_t at_ms, struct err *e)
{
    return db_run(a->db, e,
                  "INSERT INTO batch(seq, id, name, project, slots, uid, first_job, n_jobs,"
                  " created_ms) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                  INT(b->seq), ID(b->id), TEXT(b->name), TEXT(b->project), INT(b->slots),
                  INT(b->uid), INT(b->first_job), INT(b->n_jobs), INT(at_ms));
}

/* Remembers the answer under the key.  A key that is in use is a conflict of this submission alone
 * (own_fault in writer.c). */
static int insert_key(struct applier *a, const struct submission *s, int64_t at_ms, struct err *e)
{
    if (db_run(a->db, e,
               "INSERT INTO idempotency(uid, key, first, n, batch, at_ms, print)"
               " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
               INT(s->uid), TEXT(s->idempotency_key), INT(s->jobs[0].seq), INT(s->n_jobs),
               INT(s->batch.seq), INT(at_ms), INT((int64_t)s->idempotency_print)) == 0)
        return 0;
    if (e && e->code == ERR_CONFLICT)
        err_set(e, ERR_CONFLICT,
                "the idempotency key was used by another submission; use a new key");
    return -1;
}

/* The next free numbers, which survive the removal of the newest jobs. */
static int raise_counters(struct applier *a, const struct submission *s, struct err *e)
{
    uint64_t job = 0, spec = 0;

    for (size_t i = 0; i < s->n_jobs; i++)
        job = MAX(job, s->jobs[i].seq);
    for (size_t i = 0; i < s->n_specs; i++)
        spec = MAX(spec, s->specs[i].seq);
    return db_run(a->db, e,
                  "UPDATE counter SET job = max(job, ?1), spec = max(spec, ?2),"
                  " batch = max(batch, ?3)",
                  INT(job + 1), INT(spec + 1), INT(s->batch.seq + 1));
}

/* One event for the whole submission, however many jobs it has. */
static int append_event(struct applier *a, const struct submission *s, int64_t at_ms,
                        struct str user, struct err *e)
{
    uint64_t first = s->jobs[0].seq, last = first;
    const struct job_row *r = &s->jobs[0];

    for (size_t i = 1; i < s->n_jobs; i++) {
        first = MIN(first, s->jobs[i].seq);
        last = MAX(last, s->jobs[i].seq);
    }
    data_begin(a, user);
    if (s->batch.seq) {
        data_int(a, "batch", (int64_t)s->batch.seq);
        data_str(a, "name", s->batch.name);
    } else {
        data_str(a, "name", r->name.n ? r->name : s->specs[0].name);
    }
    data_int(a, "jobs", (int64_t)s->n_jobs);
    data_str(a, "schedule", s->schedule.name);
    return event_append(
        a, s->batch.seq ? EVENT_BATCH_SUBMITTED : EVENT_JOB_STATE + first_state(&s->specs[0]),
        at_ms, first, last, e);
}

static int insert_all(struct applier *a, const struct submission *s, const struct spec_use *use,
                      int64_t at_ms, struct str user, struct err *e)
{
    if (s->batch.seq && insert_batch(a, &s->batch, at_ms, e) < 0)
        return -1;
    if (s->idempotency_key.n && insert_key(a, s, at_ms, e) < 0)
        return -1;
    if (insert_specs(a, s, use, e) < 0 || insert_jobs(a, s, use, at_ms, e) < 0 ||
        insert_intake(a, s, e) < 0 || raise_counters(a, s, e) < 0 ||
        notify_insert(a, s, at_ms, e) < 0 || apply_schedule_fired(a, s, e) < 0 ||
        (s->trial.study && apply_trial_submitted(a, s, e) < 0))
        return -1;
    return append_event(a, s, at_ms, user, e);
}

int apply_submit(struct applier *a, const struct submission *s, int64_t at_ms, struct str user,
                 struct err *e)
{
    AUTO_FREE struct spec_use *use = xcalloc(s->n_specs + 1, sizeof(*use));

    if (!s->n_jobs)
        return err_set(e, ERR_INVALID, "a submission needs at least one job");
    if (count_uses(s, use, e) < 0 || make_parties(a, s, use, at_ms, e) < 0)
        return -1;
    if (db_exec(a->db, "SAVEPOINT submission", e) < 0)
        return -1;
    if (insert_all(a, s, use, at_ms, user, e) < 0) {
        /* A full disk may have ended the transaction already; then there is nothing to undo. */
        if (!sqlite3_get_autocommit(a->db->h))
            sqlite3_exec(a->db->h, "ROLLBACK TO submission; RELEASE submission", NULL, NULL, NULL);
        return -1;
    }
    if (db_exec(a->db, "RELEASE submission", e) < 0)
        return -1;
    for (size_t i = 0; i < s->n_specs; i++)
        if (use[i].jobs)
            tally_add(&a->tally, (struct member){use[i].party, s->batch.seq},
                      first_state(&s->specs[i]), (int64_t)use[i].jobs);
    return 0;
}
