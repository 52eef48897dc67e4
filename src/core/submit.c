/* submit.c - jobs come in: numbered, checked against what they wait for, durable, then queued
 *
 * Nobody is told of a job before its commit, and nothing is planned for it either: a refused
 * submission (disk full) leaves no trace but a gap in the numbers.
 */
#include "core/core_priv.h"
#include <errno.h>
#include <stdio.h>

/* A submission on its way to disk. */
struct pending {
    struct core *c;
    core_submit_fn done;
    void *arg;
    struct submitted result;
};

static void on_submitted(void *arg, const struct err *e)
{
    struct pending *p = arg;
    struct core *c = p->c;

    if (e && e->code == ERR_FULL)
        trouble_blames(c, ENOSPC); /* not when only this submission is too large */
    for (uint64_t n = p->result.first; n < p->result.first + p->result.n; n++) {
        struct job *j = core_job(c, n);
        if (e && j && j->run) {
            run_drop(c, j->run); /* submit_outside */
            job_move(c, j, JOB_EV_REQUEUE);
            job_drop(c, j);
            continue;
        }
        if (!j || j->hold != HOLD_COMMIT)
            continue; /* what it waits for failed meanwhile: cancelled already */
        if (e)
            job_drop(c, j);
        else
            job_activate(c, j);
    }
    if (!e)
        c->stats.submitted += p->result.n;
    p->done(p->arg, e, e ? NULL : &p->result);
    free(p);
}

/* Every job waited for must be active or have succeeded. */
static int check_after(struct core *c, const struct job_row *row, struct err *e)
{
    for (size_t i = 0; i < row->n_after; i++) {
        const struct job *other = core_job(c, row->after[i]);
        unsigned long long n = row->after[i];
        struct job_record rec;
        enum job_state state;
        if (other) {
            state = other->state;
        } else {
            struct ledger *led = &c->conf.ledger;
            if (led->read_job(led->self, row->after[i], &rec, e) < 0)
                return err_set(e, ERR_NOT_FOUND, "after: there is no job %llu", n);
            state = rec.state;
        }
        if (job_state_final(state) && state != JOB_SUCCEEDED)
            return err_set(e, ERR_CONFLICT,
                           "after: job %llu ended as %s, so this job could never start; "
                           "retry job %llu first",
                           n, job_state_name(state), n);
    }
    return 0;
}

/* In the words of the trouble that lasts. */
static int trouble_refuse(struct core *c, struct err *e)
{
    enum trouble_kind k;

    trouble_turn(c);
    const struct trouble *t = core_in_trouble(c, &k);
    if (!t)
        return 0;
    core_trouble_hit(c, k, "");
    return err_set(e, trouble_code(k), "%s; nothing was submitted", t->text);
}

/* Refuses at once what could not become durable or could never start. */
static int check(struct core *c, const struct submission *s, const struct caller *who,
                 struct err *e)
{
    struct ledger *led = &c->conf.ledger;

    if ((!led->healthy(led->self) || core_in_trouble(c, NULL)) && trouble_refuse(c, e) < 0)
        return -1;
    for (size_t i = 0; i < s->n_specs; i++)
        if (notify_check(c, s->specs[i].notify, who, e) < 0)
            return -1;
    for (size_t i = 0; i < s->n_jobs; i++)
        if (check_after(c, &s->jobs[i], e) < 0)
            return -1;
    return 0;
}

/* The job is in memory at once, so that later requests of the same turn can name it; HOLD_COMMIT
 * keeps it from starting. */
static void add_job(struct core *c, const struct submission *s, const struct job_row *row,
                    const struct spec_row *spec)
{
    struct job *j = job_new(c, row->seq);

    job_describe(c, j,
                 &(struct job_record){.seq = row->seq,
                                      .id = row->id,
                                      .batch = s->batch.seq,
                                      .batch_slots = s->batch.slots,
                                      .priority = row->priority,
                                      .need = spec->need,
                                      .timeout_ms = spec->timeout_ms,
                                      .backoff_ms = spec->backoff_ms,
                                      .retries = spec->retries,
                                      .retry_lost = spec->retry_lost,
                                      .uid = s->uid,
                                      .queue = spec->queue,
                                      .nodes = spec->nodes});
    if (spec->trains)
        train_new(c, row->seq, spec->seq, STR(""));
    if (spec->hold)
        job_move(c, j, JOB_EV_HOLD);
    j->hold = HOLD_COMMIT;
    j->wait.since_ms = core_mono(c);
    for (size_t i = 0; i < row->n_after; i++) {
        const struct job *other = core_job(c, row->after[i]);
        if (other && !job_state_final(other->state))
            job_wait_for(c, j, row->after[i]);
    }
}

/* jobs[].spec comes in as an index into specs and goes out as the spec's number. */
static struct submitted number_jobs(struct core *c, struct submission *s, const struct caller *who)
{
    int64_t now = core_wall(c);
    struct submitted r = {
        .first = c->jobs.next_job, .n = s->n_jobs, .id = s->jobs[0].id, .held = s->specs[0].hold};

    if (s->n_jobs > 1 || (!r.id.hi && !r.id.lo))
        r.id = id_make(now, &c->rng);
    if (s->n_jobs > 1 || s->batch.name.n) {
        s->batch.seq = r.batch = c->jobs.next_batch++;
        s->batch.id = r.batch_id = id_make(now, &c->rng);
        s->batch.uid = who->uid;
        s->batch.first_job = r.first;
        s->batch.n_jobs = r.n;
    }
    s->uid = who->uid;
    s->gid = who->gid;
    s->user = str_of(who->user);
    for (size_t i = 0; i < s->n_specs; i++) {
        s->specs[i].seq = c->jobs.next_spec++;
        /* Snapshots are on this machine; a job that names nodes itself is told when it starts. */
        if (s->specs[i].snapshot.n && !s->specs[i].nodes.n)
            s->specs[i].nodes = host_our_name(c);
    }
    for (size_t i = 0; i < s->n_jobs; i++) {
        struct job_row *row = &s->jobs[i];
        const struct spec_row *spec = &s->specs[row->spec];
        row->seq = c->jobs.next_job++;
        row->id = id_add(r.id, i);
        row->batch = s->batch.seq;
        row->index = (int64_t)i;
        row->spec = spec->seq;
        add_job(c, s, row, spec);
    }
    return r;
}

void submit_outside(struct core *c, struct submission *s, const struct caller *who,
                    const struct outside_process *outside, core_submit_fn done, void *arg)
{
    struct err e = {0};

    ASSERT(s->n_jobs && s->n_specs);
    if (check(c, s, who, &e) < 0) {
        s->free_fn(s);
        done(arg, &e, NULL);
        return;
    }
    struct pending *p = xcalloc(1, sizeof(*p));
    *p = (struct pending){.c = c, .done = done, .arg = arg};
    for (size_t i = 0; outside && i < s->n_specs; i++)
        s->specs[i].hold = false; /* it runs already, outside of the queue */
    p->result = number_jobs(c, s, who);
    core_stage(c, &(struct change){CHANGE_BY(c, who, CHANGE_SUBMIT), .submission = s});
    core_barrier(c, on_submitted, p);
    if (outside) {
        struct job *j = core_job(c, p->result.first);
        j->hold = HOLD_NONE;
        run_place_outside(c, j, outside);
    }
    c->dirty = true;
}

void core_submit_take(struct core *c, struct submission *s, const struct caller *who,
                      core_submit_fn done, void *arg)
{
    submit_outside(c, s, who, NULL, done, arg);
}
