/* disk.c - a store for the simulation: exact about what is durable, free about when */
#include "sim/sim.h"
#include <stdio.h>
#include <string.h>

static struct disk_job *job_at(struct disk *d, uint64_t number)
{
    ASSERT(number);
    while (d->jobs.n < number)
        vec_push(&d->jobs, (struct disk_job){0});
    return &d->jobs.p[number - 1];
}

static struct disk_run *run_at(struct disk *d, struct run_key key)
{
    for (size_t i = 0; i < d->runs.n; i++)
        if (run_key_eq(d->runs.p[i].rec.key, key))
            return &d->runs.p[i];
    return NULL;
}

/* ---- applying changes ---- */

static struct gpu_set set_of(struct str text)
{
    struct gpu_set s = {0};

    ASSERT(gpu_set_parse(text, &s));
    return s;
}

/* Names of hosts are few, and outlive the change. */
static struct str name_of(struct str name)
{
    static const char *const names[] = {"sim", "sim1", "sim2", "outside"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_eq_c(name, names[i]))
            return str_of(names[i]);
    return STR("nowhere");
}

/* ---- schedules ---- */

static struct schedule_row *schedule_at(struct disk *d, uint64_t seq)
{
    for (size_t i = 0; i < d->schedules.n; i++)
        if (d->schedules.p[i].row.seq == seq)
            return &d->schedules.p[i].row;
    return NULL;
}

static void schedule_free_texts(struct schedule_row *r)
{
    free((char *)r->name.p);
    free((char *)r->user.p);
    free((char *)r->def.p);
}

static void apply_schedule(struct disk *d, const struct schedule_row *new)
{
    struct schedule_row *r = schedule_at(d, new->seq), was = {0};

    if (r) {
        was = *r;
        schedule_free_texts(r);
    } else {
        vec_push(&d->schedules, (struct disk_schedule){0});
        r = &vec_last(&d->schedules).row;
    }
    *r = *new;
    r->name.p = xstrndup(new->name.p, new->name.n);
    r->user.p = xstrndup(new->user.p, new->user.n);
    r->def.p = xstrndup(new->def.p, new->def.n);
    r->last_job = was.last_job;
    r->last_n = was.last_n;
}

static void apply_schedule_settled(struct disk *d, uint64_t seq, int64_t settled_s)
{
    struct schedule_row *r = schedule_at(d, seq);

    if (r)
        r->settled_s = MAX(r->settled_s, settled_s);
}

static void apply_schedule_gone(struct disk *d, uint64_t seq)
{
    for (size_t i = d->schedules.n; i-- > 0;)
        if (d->schedules.p[i].row.seq == seq) {
            schedule_free_texts(&d->schedules.p[i].row);
            vec_remove(&d->schedules, i);
        }
}

static void apply_submit(struct disk *d, const struct change *c)
{
    struct submission *s = c->submission;
    struct schedule_row *schedule = schedule_at(d, s->schedule.seq);

    if (schedule) {
        apply_schedule_settled(d, s->schedule.seq, s->schedule.settled_s);
        schedule->last_job = s->jobs[0].seq;
        schedule->last_n = s->n_jobs;
    }

    for (size_t i = 0; i < s->n_jobs; i++) {
        const struct job_row *row = &s->jobs[i];
        const struct spec_row *spec = &s->specs[0];
        struct disk_job *j = job_at(d, row->seq);
        *j = (struct disk_job){.exists = true, .submission = s};
        if (spec->trains)
            j->training = xstrdup("{}");
        j->rec = (struct job_record){.seq = row->seq,
                                     .spec = row->spec,
                                     .batch = row->batch,
                                     .id = row->id,
                                     .index = row->index,
                                     .created_ms = c->at_ms,
                                     .priority = row->priority,
                                     .need = spec->need,
                                     .timeout_ms = spec->timeout_ms,
                                     .backoff_ms = spec->backoff_ms,
                                     .retries = spec->retries,
                                     .retry_lost = spec->retry_lost,
                                     .uid = s->uid,
                                     .state = spec->hold ? JOB_HELD : JOB_QUEUED,
                                     .queue = spec->queue,
                                     .batch_slots = s->batch.slots};
        for (size_t k = 0; k < row->n_after; k++)
            vec_push(&j->after, row->after[k]);
        d->next_job = MAX(d->next_job, row->seq + 1);
    }
    d->next_spec = MAX(d->next_spec, s->specs[0].seq + 1);
    d->next_batch = MAX(d->next_batch, s->batch.seq + 1);
    vec_push(&d->owned, s);
}

static void set_state(struct disk_job *j, enum job_state s)
{
    if (job_state_final(s) && !job_state_final(j->rec.state))
        j->finals++;
    j->succeeded_once |= s == JOB_SUCCEEDED;
    j->rec.state = s;
}

static void apply_ended(struct disk *d, const struct change *c)
{
    const struct change_run_ended *x = &c->run_ended;
    struct disk_job *j = job_at(d, x->key.job);
    struct disk_run *r = run_at(d, x->key);

    ASSERT(r && !r->ended);
    r->ended = true;
    r->why = x->outcome.why;
    r->left = x->next;
    set_state(j, x->next);
    j->rec.next_try_ms = x->next_try_ms;
    if (x->no_try || !run_end_is_a_try(x->outcome.why))
        j->rec.tries--;
    j->rec.lost += run_end_is_lost(x->outcome.why);
    if (x->outcome.why == RUN_END_EXITED)
        j->rec.full = x->outcome.sys ? j->rec.full + 1 : 0;
    if (job_state_final(x->next))
        j->rec.cancel_requested = false;
}

/* Forgets the start that was sent ahead for this job, if there is one. */
static void ahead_gone(struct disk *d, uint64_t job)
{
    for (size_t i = d->ahead.n; i-- > 0;)
        if (d->ahead.p[i].key.job == job)
            vec_remove(&d->ahead, i);
}

static char *text_new(struct str s)
{
    return s.n ? xstrndup(s.p, s.n) : NULL;
}

static void apply_fact(struct disk *d, const struct change_fact *f)
{
    size_t i = 0;

    while (i < d->facts.n && !str_eq_c(f->name, d->facts.p[i].name))
        i++;
    if (i < d->facts.n) {
        free(d->facts.p[i].name);
        free(d->facts.p[i].text);
        vec_remove(&d->facts, i);
    }
    if (f->value.n)
        vec_push(&d->facts, ((struct disk_fact){text_new(f->name), text_new(f->value)}));
}

static void apply_training(struct disk *d, const struct change_training *t)
{
    struct disk_job *j = job_at(d, t->job);

    if (!j->exists || d->planted == PLANT_AMNESIA)
        return;
    free(j->training);
    j->training = text_new(t->record);
}

static void apply_started(struct disk *d, const struct change *c)
{
    const struct change_run_started *x = &c->run_started;
    struct disk_job *j = job_at(d, x->key.job);
    enum job_state next = j->rec.state;

    run_at(d, x->key)->rec.pid = x->pid;
    run_at(d, x->key)->rec.pid_start = x->pid_start;
    run_at(d, x->key)->rec.started_ms = c->at_ms;
    job_next(j->rec.state, JOB_EV_STARTED, &next);
    set_state(j, next);
}

static void apply(struct disk *d, struct disk_op *op)
{
    const struct change *c = &op->change;

    switch (c->kind) {
    case CHANGE_SUBMIT:
        apply_submit(d, c);
        disk_study_submitted(d, c->submission);
        break;
    case CHANGE_STUDY:
    case CHANGE_STUDY_GONE:
    case CHANGE_STUDY_SAID:
    case CHANGE_TRIAL:
    case CHANGE_TRIAL_TOLD:
        disk_study_apply(d, c);
        break;
    case CHANGE_AHEAD:
        ahead_gone(d, c->ahead.key.job);
        vec_push(&d->ahead,
                 ((struct run_record){
                     .key = c->ahead.key, .node = name_of(c->ahead.node), .ahead = true}));
        break;
    case CHANGE_AHEAD_GONE:
        ahead_gone(d, c->ahead_gone.job);
        break;
    case CHANGE_RUN_NEW:
        ASSERT(!run_at(d, c->run_new.key));
        vec_push(&d->runs, ((struct disk_run){.rec = {.key = c->run_new.key,
                                                      .node = name_of(c->run_new.node),
                                                      .gpus = set_of(c->run_new.devices),
                                                      .placed_ms = c->at_ms}}));
        job_at(d, c->run_new.key.job)->rec.attempt = c->run_new.key.run;
        job_at(d, c->run_new.key.job)->rec.tries++;
        set_state(job_at(d, c->run_new.key.job), JOB_STARTING);
        break;
    case CHANGE_RUN_STARTED:
        apply_started(d, c);
        break;
    case CHANGE_RUN_ENDED:
        apply_ended(d, c);
        snprintf(d->detail, sizeof(d->detail), STR_FMT, STR_ARG(c->run_ended.detail));
        break;
    case CHANGE_JOB_STATE:
        for (uint64_t n = c->job_state.first; n <= c->job_state.last; n++)
            if (job_at(d, n)->exists && job_at(d, n)->rec.state == c->job_state.from)
                set_state(job_at(d, n), c->job_state.to);
        break;
    case CHANGE_JOB_CANCEL:
        job_at(d, c->job_cancel.job)->rec.cancel_requested = true;
        set_state(job_at(d, c->job_cancel.job), JOB_STOPPING);
        break;
    case CHANGE_JOB_RETRY: {
        struct disk_job *j = job_at(d, c->job_retry.job);
        if (!j->exists)
            break;
        j->rec.state = JOB_QUEUED;
        j->rec.tries = 0;
        j->rec.next_try_ms = 0;
        j->finals--;
        j->by_hand = true;
        break;
    }
    case CHANGE_REMOVE:
        for (uint64_t n = c->remove.first; n <= c->remove.last; n++)
            if (job_state_final(job_at(d, n)->rec.state))
                job_at(d, n)->exists = false;
        break;
    case CHANGE_QUEUE:
        d->queue_paused = c->queue.mode;
        break;
    case CHANGE_FACT:
        apply_fact(d, &c->fact);
        break;
    case CHANGE_TRAINING:
        apply_training(d, &c->training);
        break;
    case CHANGE_SCHEDULE:
        apply_schedule(d, &c->schedule.row);
        break;
    case CHANGE_SCHEDULE_SETTLED:
        apply_schedule_settled(d, c->schedule_settled.seq, c->schedule_settled.settled_s);
        break;
    case CHANGE_SCHEDULE_GONE:
        apply_schedule_gone(d, c->schedule_gone.seq);
        break;
    default:
        break;
    }
}

/* ---- the ledger ---- */

/* Frees the texts that stage() copied. */
static void op_done(struct disk_op *op)
{
    struct str *texts[CHANGE_TEXTS_MAX];
    size_t n = change_texts(&op->change, texts);

    for (size_t i = 0; i < n; i++)
        free((char *)texts[i]->p);
}

static void stage(void *self, const struct change *c)
{
    struct disk *d = self;

    if (d->dead) {
        if (c->kind == CHANGE_SUBMIT)
            c->submission->free_fn(c->submission);
        return;
    }
    struct disk_op op = {.change = *c};
    struct str *texts[CHANGE_TEXTS_MAX];
    size_t n = change_texts(&op.change, texts);
    for (size_t i = 0; i < n; i++)
        texts[i]->p = text_new(*texts[i]);
    vec_push(&d->ops, op);
}

static void barrier(void *self, ledger_done_fn fn, void *arg)
{
    struct disk *d = self;

    if (d->dead)
        fn(arg, &(struct err){.code = ERR_UNAVAILABLE});
    else if (d->planted == PLANT_EARLY_ACK)
        fn(arg, NULL);
    else
        vec_push(&d->ops, ((struct disk_op){.fn = fn, .arg = arg}));
}

void disk_seal(struct disk *d)
{
    d->sealed = d->ops.n;
}

/* On a full disk submissions and removals are refused, with the barrier that follows each; the rest
 * waits. */
static void refuse_what_may_be(struct disk *d)
{
    const struct err full = {.code = ERR_FULL, .text = "disk full"};
    VEC(struct disk_op) keep = {0}, refused = {0};
    bool after_refused = false;

    for (size_t i = 0; i < d->ops.n; i++) {
        struct disk_op op = d->ops.p[i];
        bool submits = !op.fn && op.change.kind == CHANGE_SUBMIT;
        if (submits || (!op.fn && op.change.kind == CHANGE_REMOVE)) {
            if (submits)
                op.change.submission->free_fn(op.change.submission);
            op_done(&op);
            after_refused = true;
        } else if (op.fn && after_refused) {
            vec_push(&refused, op);
            after_refused = false;
        } else {
            vec_push(&keep, op);
        }
    }
    vec_clear(&d->ops);
    for (size_t i = 0; i < keep.n; i++)
        vec_push(&d->ops, keep.p[i]);
    d->sealed = d->ops.n;
    d->unhealthy = true;
    for (size_t i = 0; i < refused.n; i++)
        refused.p[i].fn(refused.p[i].arg, &full);
    vec_done(&keep);
    vec_done(&refused);
}

void disk_commit(struct disk *d)
{
    size_t n = d->sealed;
    VEC(struct disk_op) batch = {0};

    if (!n)
        return;
    if (d->full) {
        refuse_what_may_be(d);
        return;
    }
    d->unhealthy = false;
    for (size_t i = 0; i < n; i++)
        vec_push(&batch, d->ops.p[i]);
    memmove(d->ops.p, d->ops.p + n, (d->ops.n - n) * sizeof(*d->ops.p));
    d->ops.n -= n;
    d->sealed = 0;
    for (size_t i = 0; i < n; i++)
        if (!batch.p[i].fn) {
            apply(d, &batch.p[i]);
            op_done(&batch.p[i]);
        }
    for (size_t i = 0; i < n; i++)
        if (batch.p[i].fn)
            batch.p[i].fn(batch.p[i].arg, NULL);
    vec_done(&batch);
}

void disk_crash(struct disk *d)
{
    const struct err gone = {.code = ERR_UNAVAILABLE};

    d->dead = true; /* what the dying controller still says is not heard */
    for (size_t i = 0; i < d->ops.n; i++) {
        struct disk_op op = d->ops.p[i];
        if (op.fn)
            op.fn(op.arg, &gone);
        else if (op.change.kind == CHANGE_SUBMIT)
            op.change.submission->free_fn(op.change.submission);
        op_done(&op);
    }
    vec_clear(&d->ops);
    d->sealed = 0;
    d->unhealthy = false;
}

static struct job_record record_of(const struct disk_job *j)
{
    struct job_record rec = j->rec;

    if (j->training)
        rec.training = str_of(j->training);
    return rec;
}

static int load(void *self, const struct load_sink *sink, struct err *e)
{
    struct disk *d = self;

    (void)e;
    for (size_t i = 0; i < d->facts.n; i++)
        sink->fact(sink->arg, str_of(d->facts.p[i].name), str_of(d->facts.p[i].text));
    for (size_t i = 0; i < d->jobs.n; i++)
        if (d->jobs.p[i].exists && !job_state_final(d->jobs.p[i].rec.state)) {
            struct job_record rec = record_of(&d->jobs.p[i]);
            sink->job(sink->arg, &rec);
        }
    for (size_t i = 0; i < d->runs.n; i++)
        if (!d->runs.p[i].ended)
            sink->run(sink->arg, &d->runs.p[i].rec);
    for (size_t i = 0; i < d->ahead.n; i++)
        sink->run(sink->arg, &d->ahead.p[i]);
    for (size_t i = 0; i < d->jobs.n; i++)
        for (size_t k = 0; d->jobs.p[i].exists && k < d->jobs.p[i].after.n; k++)
            sink->dep(sink->arg, &(struct dep_record){i + 1, d->jobs.p[i].after.p[k]});
    sink->queue(sink->arg, STR("default"), d->queue_paused);
    sink->counters(sink->arg, d->next_job, d->next_spec, d->next_batch, 0);
    for (size_t i = 0; i < d->schedules.n; i++)
        sink->schedule(sink->arg, &d->schedules.p[i].row);
    disk_study_load(d, sink);
    return 0;
}

static int read_launch(void *self, uint64_t job, struct launch *out, struct err *e)
{
    struct disk *d = self;
    struct disk_job *dj = job_at(d, job);
    struct str body = dj->exists ? dj->submission->specs[0].body : STR("");
    struct json *j = NULL;

    if (!dj->exists)
        return err_set(e, ERR_NOT_FOUND, "no job %llu", (unsigned long long)job);
    if (body.n <= 2) /* jobs of which nothing is said */
        body = STR("{\"command\":[\"true\"],\"cwd\":\"/\"}");
    if (json_parse(body, "sim", &j, e) < 0 || spec_parse(j, "", &out->spec, e) < 0)
        return -1;
    json_free(j);
    out->spec->limits.timeout_ms = dj->rec.timeout_ms;
    out->spec->need = dj->rec.need;
    out->id = dj->rec.id;
    out->uid = out->gid = dj->rec.uid;
    return 0;
}

static int read_job(void *self, uint64_t job, struct job_record *out, struct err *e)
{
    struct disk *d = self;

    if (!job || job > d->jobs.n || !d->jobs.p[job - 1].exists)
        return err_set(e, ERR_NOT_FOUND, "no job %llu", (unsigned long long)job);
    *out = record_of(&d->jobs.p[job - 1]);
    return 0;
}

static int read_deps(void *self, uint64_t job, uint64_t **out, size_t *out_n, struct err *e)
{
    struct disk_job *j = job_at(self, job);

    (void)e;
    *out = xcalloc(j->after.n + 1, sizeof(**out));
    *out_n = j->after.n;
    for (size_t i = 0; i < j->after.n; i++)
        (*out)[i] = j->after.p[i];
    return 0;
}

static bool healthy(void *self)
{
    return !((struct disk *)self)->unhealthy;
}

struct ledger disk_ledger(struct disk *d)
{
    return (struct ledger){.self = d,
                           .stage = stage,
                           .barrier = barrier,
                           .load = load,
                           .read_launch = read_launch,
                           .read_job = read_job,
                           .read_deps = read_deps,
                           .read_trials = disk_read_trials,
                           .healthy = healthy};
}

void disk_done(struct disk *d)
{
    for (size_t i = 0; i < d->jobs.n; i++) {
        vec_done(&d->jobs.p[i].after);
        free(d->jobs.p[i].training);
    }
    for (size_t i = 0; i < d->facts.n; i++) {
        free(d->facts.p[i].name);
        free(d->facts.p[i].text);
    }
    vec_done(&d->facts);
    while (d->schedules.n)
        apply_schedule_gone(d, d->schedules.p[0].row.seq);
    vec_done(&d->schedules);
    disk_study_done(d);
    for (size_t i = 0; i < d->owned.n; i++)
        d->owned.p[i]->free_fn(d->owned.p[i]);
    vec_done(&d->jobs);
    vec_done(&d->runs);
    vec_done(&d->ahead);
    vec_done(&d->ops);
    vec_done(&d->owned);
}
