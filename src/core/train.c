/* train.c - the records of jobs that train, and when the planner hears of them
 *
 * Owns: the life of a struct train, from submission or restart until its job leaves the table, and
 * the text in which its record is kept.
 *
 * The planner knows a job with GPUs from the moment nothing but room is lacking until its end; what
 * holds it back in between (back-off, a paused queue) it learns by asking.
 */
#include "core/train_priv.h"
#include <math.h>
#include <stdio.h>

enum { RECORD_MAX = 1024 };

/* ---- the record as text ---- */

struct member {
    const char *key;
    int64_t value;
};

void train_stage(struct core *c, const struct train *t)
{
    const struct core_training_past *p = &t->past;
    const struct member members[] = {{"done", p->done},
                                     {"unconfirmed", p->done - p->confirmed},
                                     {"epochs", p->epochs},
                                     {"attempts", p->attempts},
                                     {"preemptions", p->preemptions},
                                     {"measured", p->measured_bytes},
                                     {"reserved", p->reserved_bytes},
                                     {"epoch_us", llround(p->epoch_s * 1e6)},
                                     {"step_us", llround(p->step_s * 1e6)},
                                     {"timed", p->timed},
                                     {"early", p->early},
                                     {"complete", p->complete},
                                     {"run", t->run},
                                     {"stop", t->stop},
                                     {"signalled", t->signalled_ms},
                                     {"port", t->port},
                                     {"ports", t->n_ports > 1 ? t->n_ports : 0},
                                     {"memory_tried", t->memory_tried}};
    AUTO(buf) struct buf b = {0};

    buf_init(&b, RECORD_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        if (members[i].value)
            buf_addf(&b, "%s\"%s\":%lld", b.n ? "," : "{", members[i].key,
                     (long long)members[i].value);
    buf_adds(&b, b.n ? "}" : "{}");
    core_stage(c, &(struct change){.kind = CHANGE_TRAINING,
                                   .at_ms = core_wall(c),
                                   .training = {.job = t->job, .record = buf_str(&b)}});
}

static int64_t train_member_int(const struct json *j, const char *key)
{
    const struct json *v = json_get(j, key);

    return json_type(v) == JSON_INT ? json_int(v) : 0;
}

/* Members that are missing are 0, so records of older versions can be read. */
static bool parse_record(struct str text, struct train *t)
{
    AUTO(json) struct json *j = NULL;
    struct err e;

    if (!text.n || json_parse(text, "training", &j, &e) < 0)
        return false;
    t->past =
        (struct core_training_past){.epochs = (int32_t)train_member_int(j, "epochs"),
                                    .done = (int32_t)train_member_int(j, "done"),
                                    .attempts = (int32_t)train_member_int(j, "attempts"),
                                    .preemptions = (int32_t)train_member_int(j, "preemptions"),
                                    .measured_bytes = train_member_int(j, "measured"),
                                    .reserved_bytes = train_member_int(j, "reserved"),
                                    .epoch_s = (double)train_member_int(j, "epoch_us") / 1e6,
                                    .step_s = (double)train_member_int(j, "step_us") / 1e6,
                                    .timed = (int32_t)train_member_int(j, "timed"),
                                    .early = train_member_int(j, "early"),
                                    .complete = train_member_int(j, "complete")};
    t->past.confirmed = t->past.done - (int32_t)train_member_int(j, "unconfirmed");
    t->run = (uint32_t)train_member_int(j, "run");
    t->stop = train_member_int(j, "stop");
    t->signalled_ms = train_member_int(j, "signalled");
    t->port = (int)train_member_int(j, "port");
    t->n_ports = t->port ? MAX((int)train_member_int(j, "ports"), 1) : 0;
    t->memory_tried = train_member_int(j, "memory_tried");
    return true;
}

bool core_training_parse(struct str text, struct core_training_past *out)
{
    struct train t = {0};

    if (!parse_record(text, &t))
        return false;
    *out = t.past;
    return true;
}

/* ---- made and forgotten ---- */

void train_new(struct core *c, uint64_t job, uint64_t spec, struct str recorded)
{
    struct train *t = xcalloc(1, sizeof(*t));

    t->job = job;
    t->spec = train_spec_ref(c, spec);
    parse_record(recorded, t);
    map_u64_put(&c->gpu.trains, job, t);
}

static void train_free(struct core *c, struct train *t)
{
    train_spec_unref(c, t->spec);
    free(t->refused);
    free(t);
}

void train_drop(struct core *c, uint64_t job)
{
    struct train *t = c->gpu.trains.n ? map_u64_del(&c->gpu.trains, job) : NULL;

    if (!t)
        return;
    if (t->known)
        gpus_remove(c->gpu.planner, train_now(c), job, false);
    train_ports_release(c, t);
    train_free(c, t);
}

void train_done(struct core *c)
{
    void *val;

    for (size_t it = 0; (val = map_u64_each(&c->gpu.trains, &it));)
        train_free(c, val);
    map_u64_done(&c->gpu.trains);
    map_u64_done(&c->gpu.specs);
    map_u64_done(&c->gpu.ports);
    gpus_free(c->gpu.planner);
    free(c->gpu.endpoint);
}

void train_ready(struct core *c, struct job *j)
{
    struct train *t = train_of(c, j->wait.job);

    if (!t)
        return;
    train_spec_read(c, t->spec, t->job);
    if (t->spec->gpus && !t->known)
        train_add(c, t, j);
}

void train_unready(struct core *c, const struct job *j)
{
    struct train *t = train_of(c, j->wait.job);

    if (!t || !t->known || j->state != JOB_HELD)
        return;
    t->known = false;
    gpus_remove(c->gpu.planner, train_now(c), t->job, false);
}

void train_final(struct core *c, const struct job *j)
{
    struct train *t = train_of(c, j->wait.job);

    if (!t || !t->known)
        return;
    t->known = false;
    gpus_remove(c->gpu.planner, train_now(c), t->job, j->state == JOB_SUCCEEDED);
}

/* A job that succeeded begins anew when somebody wants it again; others go on where they were. */
void train_retried(struct core *c, uint64_t job, enum job_state was)
{
    struct train *t = train_of(c, job);

    if (!t)
        return;
    if (was == JOB_SUCCEEDED)
        t->past = (struct core_training_past){.attempts = t->past.attempts,
                                              .preemptions = t->past.preemptions,
                                              .measured_bytes = t->past.measured_bytes};
    t->past.early = t->past.complete = t->memory_tried = false;
    train_stage(c, t);
}

/* ---- attempts ---- */

/* A new attempt: what was said to the attempt before does not count for this one. */
void train_placed(struct core *c, const struct run *r)
{
    struct train *t = train_of(c, r->key.job);

    if (!t)
        return;
    train_spec_read(c, t->spec, t->job);
    t->run = r->key.run;
    t->stop = t->raised = t->asked = t->stop_now = t->early = false;
    t->signalled_ms = t->kill_ms = 0;
    t->epoch_s = t->step_s = 0;
    t->reported_ms = 0;
    t->past.attempts++;
    t->past.epochs = t->spec->epochs;
    t->past.complete = false;
    train_ports_take(c, t, r);
    train_stage(c, t);
}

/* There is something to load when epochs were confirmed, or a checkpoint may have been left.
 * Between two runs all that were reported are confirmed. */
bool train_facts(const struct core *c, uint64_t job, struct launch_facts *f)
{
    const struct train *t = train_of(c, job);

    if (!t)
        return false;
    f->epochs_done = t->past.done;
    f->attempt = t->past.attempts;
    f->restarted = t->past.attempts > 1 && (t->spec->epochs ? t->past.done > 0 : t->spec->resumes);
    f->reserved_mem_bytes = t->past.reserved_bytes;
    f->master_port = t->port;
    f->n_ports = t->n_ports;
    return true;
}

void train_started(struct core *c, const struct run *r)
{
    struct train *t = train_of(c, r->key.job);

    if (t && t->known)
        gpus_started(c->gpu.planner, train_now(c), t->job);
}

/* What the run leaves in the records waits for the end of its job's end step: a verdict that is
 * reached again after a crash must find them as they were. */
void train_left(struct core *c, const struct job *j, const struct verdict *v)
{
    struct train *t = train_of(c, j->wait.job);

    if (!t || !t->known)
        return;
    if (v->ev == JOB_EV_REQUEUE) {
        gpus_stopped(c->gpu.planner, train_now(c), t->job, v->how);
        gpus_resumes_at(c->gpu.planner, t->job, train_resumes_at(t, v));
    } else {
        t->known = false;
        gpus_remove(c->gpu.planner, train_now(c), t->job, v->ev == JOB_EV_SUCCEEDED);
    }
}

void train_ended(struct core *c, const struct job *j, const struct verdict *v)
{
    struct train *t = train_of(c, j->wait.job);

    if (!t)
        return;
    train_ports_release(c, t);
    t->past.done = t->past.confirmed = train_resumes_at(t, v);
    t->past.early = t->early;
    if (v->ev == JOB_EV_REQUEUE && v->how == GPU_STOPPED_ASKED)
        t->past.preemptions++;
    if (v->how == GPU_STOPPED_UNDONE)
        t->past.attempts--;
    if (v->how == GPU_STOPPED_NO_MEMORY)
        t->memory_tried = true;
    t->stop = t->raised = t->asked = false;
    t->signalled_ms = t->kill_ms = 0;
    train_stage(c, t);
    train_left(c, j, v);
}

/* ---- after a restart ---- */

/* Tells the planner what the run holds, and that a stop request has reached it. */
static void book_run(struct core *c, struct train *t, const struct run *r)
{
    if (!t->known)
        return;
    gpus_adopt(c->gpu.planner, train_now(c), t->job, r->host->at, &r->gpus, t->past.reserved_bytes);
    if (t->stop || t->signalled_ms)
        gpus_stop_delivered(c->gpu.planner, train_now(c), t->job);
}

/* The answer of the epoch stays what it was.  Whether it had been asked for is not known: it may
 * have been. */
static void train_restore_run(struct core *c, struct train *t, const struct run *r)
{
    if (t->run != r->key.run) {
        t->run = r->key.run;
        t->stop = false;
        t->signalled_ms = 0;
        t->port = t->n_ports = 0;
    }
    t->asked = t->stop;
    train_ports_restore(c, t);
    if (t->signalled_ms)
        train_send_signal(c, t, (struct run *)(uintptr_t)r);
    book_run(c, t, r);
}

void train_adopt(struct core *c, struct train *t, const struct job *j)
{
    train_add(c, t, j);
    book_run(c, t, j->run);
}

static int run_by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

void train_restored(struct core *c)
{
    VEC(uint64_t) jobs = {0};
    uint64_t key;
    void *val;

    for (size_t it = 0; map_u64_next(&c->gpu.trains, &it, &key, &val);)
        vec_push(&jobs, key);
    if (jobs.n) /* the planner is told in one order, whatever the map's */
        qsort(jobs.p, jobs.n, sizeof(*jobs.p), run_by_number);
    for (size_t i = 0; i < jobs.n; i++) {
        struct train *t = train_of(c, jobs.p[i]);
        const struct job *j = core_job(c, jobs.p[i]);
        if (!j || (!j->run && j->hold != HOLD_NONE && j->hold != HOLD_BACKOFF))
            continue;
        train_spec_read(c, t->spec, t->job);
        if (t->spec->gpus && !t->known)
            train_add(c, t, j);
        if (j->run)
            train_restore_run(c, t, j->run);
    }
    vec_done(&jobs);
}
