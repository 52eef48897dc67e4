/* sim.c - one simulated cluster from one seed: random life, random faults, checks after every step
 *
 * Invariants (docs/architecture.md): no acknowledged job is lost; no job runs twice at once; no
 * host is ever over-committed; a batch keeps to its limit; a job starts only after what it waits
 * for succeeded; every job ends exactly once; the queue drains when the faults stop.  A start that
 * was sent ahead is durable before it runs, and leaves no trace when it is taken back.  Of jobs
 * that train: no device is over-committed; what was acknowledged is never computed again and
 * nothing is left out; all ranks hear the same; a run that made room is queued again.  Of jobs with
 * an end step: a run has its outcome on disk only after its step was reported or abandoned.  A job
 * goes only when somebody removes it, and only then a retry or a removal is told that it is gone.
 */
#include "sim/sim.h"
#include <stdio.h>
#include <string.h>

enum { STEPS = 150, MAX_JOBS = 40, DRAIN_STEPS = 6000 };

struct sim {
    struct rng rng;
    struct disk disk;
    struct world world;
    struct core *core;
    struct backend *backends[SIM_HOSTS];
    struct sim_result result;
    VEC(uint64_t) acked;   /* numbers a client was told */
    VEC(uint64_t) leaving; /* numbers of jobs that may go: their removal was not refused */
    bool dying;
    int32_t user_limit; /* running jobs of one user; 0 = no limit */
};

/* Virtual time; the wall clock also jumps. */
static int64_t sim_wall(void *self)
{
    return ((struct sim *)self)->world.now + SIM_EPOCH_MS;
}

static int64_t sim_mono(void *self)
{
    return ((struct sim *)self)->world.now;
}

static void fail(struct sim *s, const char *what, uint64_t job)
{
    if (!s->result.failure[0])
        snprintf(s->result.failure, sizeof(s->result.failure), "%s (job %llu, step %zu)", what,
                 (unsigned long long)job, s->result.steps);
}

/* ---- life ---- */

struct sim_submission {
    struct submission s;
    struct spec_row spec;
    struct job_row jobs[4];
    uint64_t after[2];
    /* training */
    char body[400];
    int32_t epochs, gpus_max;
    int64_t gpu_mem; /* 0 = all of it */
    bool share;
    bool end_step; /* its runs have one */
};

static void free_submission(struct submission *s)
{
    free(s);
}

static void on_ack(void *arg, const struct err *e, const struct submitted *r)
{
    struct sim *s = arg;

    if (s->dying || e)
        return;
    for (uint64_t n = r->first; n < r->first + r->n; n++)
        vec_push(&s->acked, n);
}

/* Elastic or not, sharing or not, stopped at epochs, by a signal, or never. */
static void make_trainer(struct sim *s, struct sim_submission *x)
{
    struct rng *r = &s->rng;
    struct resources *need = &x->spec.need;
    bool by_signal = rng_below(r, 4) == 0;
    int n;

    need->gpus = (int32_t)(1 + rng_below(r, 2));
    x->spec.timeout_ms = 0;
    x->spec.trains = true;
    x->gpus_max = need->gpus + (int32_t)rng_below(r, 3);
    x->gpu_mem = rng_below(r, 3) ? (int64_t)(1 + rng_below(r, 10)) << 30 : 0;
    x->share = x->gpu_mem && rng_below(r, 3);
    x->epochs = by_signal || rng_below(r, 4) == 0 ? 0 : (int32_t)(1 + rng_below(r, MAX_EPOCHS));
    n = snprintf(x->body, sizeof(x->body),
                 "{\"command\":[\"train\",\"%d\",\"%d\",\"%zu\"],\"cwd\":\"/\",\"gpus\":%d,"
                 "\"gpus_max\":%d,\"gpu_share\":%s,\"epochs\":%d,\"estimate\":%llu",
                 x->epochs, 1 + (int)rng_below(r, MAX_RANKS), by_signal ? s->result.jobs + 1 : 0,
                 need->gpus, x->gpus_max, x->share ? "true" : "false", x->epochs,
                 (unsigned long long)rng_below(r, 20));
    if (x->gpu_mem)
        n += snprintf(x->body + n, sizeof(x->body) - (size_t)n, ",\"gpu_mem\":%lld",
                      (long long)x->gpu_mem);
    if (by_signal) {
        x->s.n_jobs = 1; /* each needs a file of its own */
        n += snprintf(x->body + n, sizeof(x->body) - (size_t)n,
                      ",\"preempt_signal\":\"USR1\",\"grace\":\"100ms\","
                      "\"checkpoint\":\"/ckpt/%zu\"",
                      s->result.jobs + 1);
    }
    snprintf(x->body + n, sizeof(x->body) - (size_t)n, "%s}",
             x->end_step ? ",\"dialect\":\"sim\"" : "");
    x->spec.body = str_of(x->body);
}

static void submit(struct sim *s)
{
    struct sim_submission *x = xcalloc(1, sizeof(*x));
    struct rng *r = &s->rng;
    const struct caller who = {
        .uid = 1000 + (uint32_t)(s->result.jobs % 2), .user = "sim", .admin = true};

    x->spec = (struct spec_row){.body = STR("{}"),
                                .name = STR("n"),
                                .project = STR("p"),
                                .queue = STR("default"),
                                .retries = (int32_t)rng_below(r, 3),
                                .retry_lost = (int32_t)rng_below(r, 3),
                                .backoff_ms = (int64_t)rng_below(r, 300),
                                .timeout_ms = rng_below(r, 3) ? 0 : 100,
                                .need = {.slots = 1}};
    if (rng_below(r, 2))
        x->spec.need.mcpu = (int64_t)rng_below(r, 4001);
    x->s = (struct submission){.specs = &x->spec,
                               .n_specs = 1,
                               .jobs = x->jobs,
                               .n_jobs = 1 + rng_below(r, 4),
                               .free_fn = free_submission};
    x->end_step = !rng_below(r, 3);
    if (x->end_step)
        x->spec.body = STR("{\"command\":[\"true\"],\"cwd\":\"/\",\"dialect\":\"sim\"}");
    if (!rng_below(r, 5))
        make_trainer(s, x);
    if (x->s.n_jobs > 1)
        x->s.batch.slots = (int32_t)rng_below(r, 3);
    for (size_t i = 0; i < x->s.n_jobs; i++) {
        x->jobs[i].priority = (int32_t)rng_below(r, 3);
        if (s->acked.n && !rng_below(r, 4)) {
            x->after[0] = s->acked.p[rng_below(r, s->acked.n)];
            x->jobs[i].after = x->after;
            x->jobs[i].n_after = 1;
        }
    }
    s->result.jobs += x->s.n_jobs;
    core_submit_take(s->core, &x->s, &who, on_ack, s);
}

static void on_act(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)e;
    (void)r;
}

/* ---- requests about finished jobs, whose answers are checked ---- */

struct finished_act {
    struct sim *s;
    uint64_t jobs[3];
    size_t n;
    bool removes;
};

static bool job_is_gone(const struct sim *s, uint64_t job)
{
    return !s->disk.jobs.p[job - 1].exists;
}

static void leaving_refused(struct sim *s, uint64_t job)
{
    for (size_t i = 0; i < s->leaving.n; i++)
        if (s->leaving.p[i] == job) {
            vec_remove(&s->leaving, i);
            return;
        }
}

static void on_finished_act(void *arg, const struct err *e, const struct acted *r)
{
    struct finished_act *a = arg;
    uint32_t gone = 0, must = 0, may = 0; /* others may remove what was not acted on meanwhile */

    if (!e) {
        must = r->unknown + (a->removes ? r->done : 0);
        may = (uint32_t)a->n - (a->removes ? 0 : r->done);
    }
    for (size_t i = 0; i < a->n; i++) {
        gone += job_is_gone(a->s, a->jobs[i]);
        if (e && a->removes)
            leaving_refused(a->s, a->jobs[i]);
    }
    if (!a->s->dying && !e && (gone < must || gone > may))
        fail(a->s, a->removes ? "a removal was answered wrongly" : "a retry was answered wrongly",
             a->jobs[0]);
    free(a);
}

static void act_on_finished(struct sim *s, const uint64_t *jobs, size_t n, bool removes)
{
    const struct caller who = {.uid = 1000, .user = "sim", .admin = true};
    struct finished_act *a = xcalloc(1, sizeof(*a));

    *a = (struct finished_act){.s = s, .n = n, .removes = removes};
    memcpy(a->jobs, jobs, n * sizeof(*jobs));
    for (size_t i = 0; removes && i < n; i++)
        vec_push(&s->leaving, jobs[i]);
    (removes ? core_remove : core_retry)(s->core, jobs, n, &who, on_finished_act, a);
}

static void act(struct sim *s)
{
    const struct caller who = {.uid = 1000, .user = "sim", .admin = true};
    uint64_t job[3];
    size_t n = 1 + rng_below(&s->rng, 3);

    if (!s->acked.n)
        return;
    for (size_t i = 0; i < n; i++)
        job[i] = s->acked.p[rng_below(&s->rng, s->acked.n)];
    switch (rng_below(&s->rng, 8)) {
    case 6:
    case 7: /* often at once with a retry of the same jobs */
        act_on_finished(s, job, n, true);
        if (rng_below(&s->rng, 2))
            act_on_finished(s, job, n, !rng_below(&s->rng, 4));
        break;
    case 4:
        core_hold(s->core, job, n, &who, on_act, s);
        break;
    case 5:
        core_release(s->core, job, n, &who, on_act, s);
        break;
    case 0:
        act_on_finished(s, job, n, false);
        break;
    case 1:
        core_pause(s->core, STR("default"), rng_below(&s->rng, 2), &who, on_act, s);
        break;
    default:
        core_cancel(s->core, job, n, &who, on_act, s);
    }
}

/* ---- death and return of the controller ---- */

static int64_t sim_file_time(void *self, const char *path)
{
    return world_file_time(&((struct sim *)self)->world, path);
}

static const struct sim_submission *asked_by(const struct sim *s, uint64_t job)
{
    return (const struct sim_submission *)s->disk.jobs.p[job - 1].submission;
}

static bool sim_end_step(void *self, struct run_key key)
{
    struct sim *s = self;

    return asked_by(s, key.job)->end_step && world_end_step(&s->world, key);
}

static void sim_end_step_cancel(void *self, struct run_key key)
{
    world_end_step_cancel(&((struct sim *)self)->world, key);
}

static void boot(struct sim *s)
{
    static const struct core_ops ops = {.file_time = sim_file_time,
                                        .end_step = sim_end_step,
                                        .end_step_cancel = sim_end_step_cancel};
    struct err e = {0};

    s->disk.dead = false;
    s->core = core_new(&(struct core_conf){.ledger = disk_ledger(&s->disk),
                                           .clock = {sim_wall, sim_mono, s},
                                           .seed = rng_next(&s->rng),
                                           .home = {.dir = "/nonexistent"},
                                           .limits = {.per_user = s->user_limit},
                                           .patience_ms = 1000,
                                           .gpu = {.plan = {.replan_ms = 40, .restart_s = 0.01}},
                                           .ops = &ops,
                                           .self = s,
                                           .lookahead = true});
    s->world.core = s->core;
    world_attach(&s->world, s->backends);
    if (core_recover(s->core, &e) < 0)
        fail(s, e.text, 0);
}

static void crash(struct sim *s)
{
    s->result.crashes++;
    s->dying = s->world.dead_calls = true;
    world_crash_controller(&s->world);
    disk_crash(&s->disk);
    core_free(s->core);
    for (int i = 0; i < s->world.n_hosts; i++)
        backend_sim.close(s->backends[i]);
    s->core = NULL;
    s->dying = s->world.dead_calls = false;
}

/* A supervisor is killed, or all of them (the host reboots). */
static void kill_execs(struct sim *s, bool all)
{
    for (size_t i = 0; i < s->world.execs.n; i++)
        if (s->world.execs.p[i].live && (all || !rng_below(&s->rng, 3))) {
            world_finish(&s->world, i, RUN_END_SUPERVISOR_KILLED, 0);
            if (!all)
                return;
        }
}

/* ---- checks ---- */

static void check_world(struct sim *s)
{
    static const struct gpu_set none;
    struct usage u[SIM_HOSTS] = {0};

    for (size_t i = 0; i < s->world.execs.n; i++) {
        const struct exec *x = &s->world.execs.p[i];
        if (!x->live)
            continue;
        usage_add(&u[x->host], &x->need, &none);
        for (size_t k = i + 1; k < s->world.execs.n; k++)
            if (s->world.execs.p[k].live && s->world.execs.p[k].key.job == x->key.job)
                fail(s, "runs twice at once", x->key.job);
        struct disk_job *j = &s->disk.jobs.p[x->key.job - 1];
        if (j->rec.state == JOB_HELD)
            fail(s, "runs although it is held", x->key.job);
        for (size_t k = 0; k < j->after.n; k++)
            if (!j->by_hand && !s->disk.jobs.p[j->after.p[k] - 1].succeeded_once)
                fail(s, "started before what it waits for had succeeded", x->key.job);
    }
    for (int k = 0; k < SIM_HOSTS; k++)
        if (u[k].slots > s->world.hosts[k].node.slots || u[k].mcpu > s->world.hosts[k].node.mcpu)
            fail(s, "a host is over-committed", (uint64_t)k);
}

/* ---- training ---- */

static const struct disk_run *disk_run_of(const struct sim *s, struct run_key key)
{
    for (size_t i = s->disk.runs.n; i-- > 0;)
        if (run_key_eq(s->disk.runs.p[i].rec.key, key))
            return &s->disk.runs.p[i];
    return NULL;
}

static void check_devices(struct sim *s, int host)
{
    int32_t on[SIM_DEVICES] = {0}, alone[SIM_DEVICES] = {0};
    int64_t mem[SIM_DEVICES] = {0};

    for (size_t i = 0; i < s->world.execs.n; i++) {
        const struct exec *x = &s->world.execs.p[i];
        if (!x->live || !x->need.gpus || x->host != host)
            continue;
        const struct disk_run *run = disk_run_of(s, x->key);
        const struct sim_submission *ask = asked_by(s, x->key.job);
        int32_t n = run ? gpu_set_count(&run->rec.gpus) : 0;
        if (n < x->need.gpus || n > ask->gpus_max)
            fail(s, "it has more or fewer GPUs than it can use", x->key.job);
        for (int d = 0; run && d < SIM_DEVICES; d++) {
            if (!gpu_set_has(&run->rec.gpus, (uint32_t)d))
                continue;
            on[d]++;
            alone[d] += !ask->share;
            mem[d] += ask->gpu_mem;
        }
    }
    for (int d = 0; d < SIM_DEVICES; d++)
        if (on[d] > 2 || (alone[d] && on[d] > 1) || mem[d] > SIM_GPU_BYTES)
            fail(s, "a device is over-committed", (uint64_t)d);
}

/* It goes on where it was: after what was acknowledged, but for the last epoch of a run that did
 * not end well, and not after what was never said.  Whether the weights are there, see trainers.c.
 */
static void check_start(struct sim *s, struct exec *x)
{
    struct journey *j = world_journey(&s->world, x->key.job);
    const struct disk_job *d = &s->disk.jobs.p[x->key.job - 1];

    x->checked = true;
    if (d->by_hand && d->succeeded_once && x->from == 0)
        *j = (struct journey){0}; /* somebody wants it all again */
    if (x->from < j->acked - 1 || x->from < j->obeyed)
        fail(s, "an epoch that is saved is computed again", x->key.job);
    if (x->from > j->reported)
        fail(s, "an epoch was left out", x->key.job);
}

static void check_end(struct sim *s, struct exec *x)
{
    const struct disk_run *run = disk_run_of(s, x->key);
    bool ended_itself = x->outcome.why == RUN_END_EXITED && x->outcome.wait_status == 0;

    if (!run || !run->ended)
        return;
    x->judged = true;
    s->result.stops += x->made_room;
    if (!ended_itself || run->left == JOB_CANCELLED)
        return;
    if (x->made_room && run->left != JOB_QUEUED)
        fail(s, "a run that made room is not queued again", x->key.job);
    if (!x->made_room && run->left != JOB_SUCCEEDED)
        fail(s, "a run that did all is not done", x->key.job);
}

static void check_training(struct sim *s)
{
    for (int k = 0; k < SIM_HOSTS; k++)
        check_devices(s, k);
    for (size_t i = 0; i < s->world.execs.n; i++) {
        struct exec *x = &s->world.execs.p[i];
        if (x->epochs && x->live && !x->checked)
            check_start(s, x);
        if (x->ended && !x->judged && (x->epochs || x->checkpoint))
            check_end(s, x);
    }
    if (s->world.failure[0])
        fail(s, s->world.failure, 0);
}

/* No job ends because a disk was full, with whatever status its command has. */
static void check_full_disks(struct sim *s)
{
    for (size_t i = 0; i < s->world.execs.n; i++) {
        const struct exec *x = &s->world.execs.p[i];
        const struct disk_run *run = x->ended && x->outcome.sys ? disk_run_of(s, x->key) : NULL;
        if (run && run->ended && run->why == RUN_END_EXITED && run->left != JOB_QUEUED &&
            run->left != JOB_CANCELLED)
            fail(s, "a job ended because a disk was full", x->key.job);
    }
}

static void check_batches(struct sim *s)
{
    for (size_t i = 0; i < s->world.execs.n; i++) {
        const struct exec *x = &s->world.execs.p[i];
        const struct job_record *rec = &s->disk.jobs.p[x->key.job - 1].rec;
        int32_t live = 0;
        if (!x->live || !rec->batch_slots)
            continue;
        for (size_t k = 0; k < s->world.execs.n; k++)
            live += s->world.execs.p[k].live &&
                    s->disk.jobs.p[s->world.execs.p[k].key.job - 1].rec.batch == rec->batch;
        if (live > rec->batch_slots)
            fail(s, "a batch runs more than its slots", x->key.job);
    }
}

static void check_users(struct sim *s)
{
    int32_t live[2] = {0};

    for (size_t i = 0; s->user_limit && i < s->world.execs.n; i++) {
        const struct exec *x = &s->world.execs.p[i];
        if (x->live && ++live[s->disk.jobs.p[x->key.job - 1].rec.uid % 2] > s->user_limit)
            fail(s, "a user runs more than users may", x->key.job);
    }
}

static bool removal_asked(const struct sim *s, uint64_t job)
{
    for (size_t i = 0; i < s->leaving.n; i++)
        if (s->leaving.p[i] == job)
            return true;
    return false;
}

static void check_disk(struct sim *s)
{
    for (size_t i = 0; i < s->acked.n; i++) {
        uint64_t n = s->acked.p[i];
        if (n > s->disk.jobs.n || (job_is_gone(s, n) && !removal_asked(s, n)))
            fail(s, "an acknowledged job is gone", n);
        else if (s->disk.jobs.p[n - 1].finals > 1)
            fail(s, "a job ended twice", n);
        else if (s->disk.jobs.p[n - 1].rec.state == JOB_LOST &&
                 s->disk.jobs.p[n - 1].rec.lost <= (uint32_t)s->disk.jobs.p[n - 1].rec.retry_lost)
            fail(s, "a lost run was not repeated", n);
    }
}

/* Starts sent ahead belong to waiting jobs and are no runs; what was taken back leaves no run. */
static void check_ahead(struct sim *s)
{
    for (size_t i = 0; i < s->disk.ahead.n; i++) {
        struct run_key key = s->disk.ahead.p[i].key;
        const struct job_record *rec = &s->disk.jobs.p[key.job - 1].rec;
        if (rec->state != JOB_QUEUED)
            fail(s, "a start was sent ahead for a job that does not wait", key.job);
        if (rec->attempt + 1 != key.run || disk_run_of(s, key))
            fail(s, "a start that was sent ahead counts as an attempt", key.job);
    }
    for (size_t i = 0; i < s->world.execs.n; i++) {
        const struct exec *x = &s->world.execs.p[i];
        bool known = disk_run_of(s, x->key);
        for (size_t k = 0; !known && k < s->disk.ahead.n; k++)
            known = run_key_eq(s->disk.ahead.p[k].key, x->key);
        if (!known)
            fail(s, "runs although no start was recorded", x->key.job);
    }
    for (size_t i = 0; i < s->disk.runs.n; i++) {
        const struct disk_run *r = &s->disk.runs.p[i];
        if (r->ended && r->left == JOB_QUEUED && r->why == RUN_END_CANCELLED &&
            str_eq_c(r->rec.node, "sim") && gpu_set_empty(&r->rec.gpus) &&
            !world_find(&s->world, r->rec.key))
            fail(s, "a start that was taken back left a run", r->rec.key.job);
    }
}

/* The outcome of a run that was started is durable only after its end step. */
static void check_end_steps(struct sim *s)
{
    for (size_t i = 0; i < s->disk.runs.n; i++) {
        const struct disk_run *r = &s->disk.runs.p[i];
        const struct sim_step *x = world_step_of(&s->world, r->rec.key);
        if (!r->ended || r->why == RUN_END_NEVER_RAN || !asked_by(s, r->rec.key.job)->end_step ||
            !world_find(&s->world, r->rec.key))
            continue;
        if (!x || !x->over)
            fail(s, "a job moved on before its end step was reported", r->rec.key.job);
    }
}

static void check(struct sim *s)
{
    check_disk(s);
    if (s->disk.planted != PLANT_EARLY_ACK || !s->result.failure[0]) {
        check_world(s);
        check_full_disks(s);
        check_batches(s);
        check_users(s);
        check_training(s);
        check_ahead(s);
        check_end_steps(s);
    }
}

/* ---- a step ---- */

static void turn(struct sim *s)
{
    if (s->core)
        core_turn(s->core);
    disk_seal(&s->disk);
}

static void fault(struct sim *s)
{
    int host = (int)rng_below(&s->rng, SIM_HOSTS);

    switch (rng_below(&s->rng, 8)) {
    case 0:
        if (s->core)
            crash(s);
        break;
    case 4:
    case 5:
        if (world_far(host))
            world_cut(&s->world, host, !s->world.hosts[host].cut);
        break;
    case 6:
        world_refuse(&s->world);
        break;
    case 1:
        kill_execs(s, false);
        break;
    case 2:
        if (!rng_below(&s->rng, 4))
            kill_execs(s, true);
        break;
    case 3:
        s->disk.full = !s->disk.full && !rng_below(&s->rng, 3);
        break;
    default:
        world_advance(&s->world, 3600 * 1000);
    }
}

static void quiet_step(struct sim *s)
{
    switch (rng_below(&s->rng, 10)) {
    case 9:
        world_end_step_report(&s->world);
        break;
    case 6:
    case 7:
    case 8:
        world_train(&s->world);
        break;
    case 0:
    case 1:
        disk_commit(&s->disk);
        break;
    case 2:
        world_deliver_msg(&s->world);
        break;
    case 3:
        world_deliver_happening(&s->world);
        break;
    case 4:
        world_answer(&s->world);
        break;
    default:
        world_advance(&s->world, (int64_t)rng_below(&s->rng, 60));
    }
}

static void step(struct sim *s)
{
    uint64_t dice = rng_below(&s->rng, 100);

    s->result.steps++;
    if (!s->core && dice < 30)
        boot(s);
    else if (s->core && dice < 12 && s->result.jobs < MAX_JOBS)
        submit(s);
    else if (s->core && dice < 18)
        act(s);
    else if (dice < 23)
        fault(s);
    else
        quiet_step(s);
    turn(s);
    check(s);
}

static void fail_stuck(struct sim *s, uint64_t job)
{
    struct json *why = NULL;
    struct err e;
    char text[250];

    core_explain(s->core, job, &why, &e);
    AUTO_FREE char *reason = json_text(why);
    snprintf(text, sizeof(text), "never came to an end: %s", reason);
    fail(s, text, job);
    json_free(why);
}

/* Faults over: everything that was acknowledged must come to its one end. */
static void drain(struct sim *s)
{
    const struct caller who = {.uid = 1000, .user = "sim", .admin = true};

    s->disk.full = false;
    if (!s->core)
        boot(s);
    for (int i = 0; i < SIM_HOSTS; i++)
        world_cut(&s->world, i, false);
    core_pause(s->core, STR("default"), false, &who, on_act, s);
    core_release(s->core, s->acked.p, s->acked.n, &who, on_act, s);
    turn(s);
    for (int i = 0; i < DRAIN_STEPS && !s->result.failure[0]; i++) {
        struct core_stats st = core_stats(s->core);
        disk_commit(&s->disk);
        world_deliver_msg(&s->world);
        world_answer(&s->world);
        world_deliver_happening(&s->world);
        world_end_step_report(&s->world);
        check_training(s); /* before a run that began now can report, and end */
        for (int k = 0; k < 4; k++)
            world_train(&s->world);
        world_advance(&s->world, 50);
        s->result.steps++;
        turn(s);
        check(s);
        if (!st.queued && !st.starting && !st.running && !st.stopping && !s->disk.ops.n)
            break;
    }
    for (size_t i = 0; i < s->acked.n && !s->result.failure[0]; i++)
        if (!job_is_gone(s, s->acked.p[i]) && s->disk.jobs.p[s->acked.p[i] - 1].finals != 1)
            fail_stuck(s, s->acked.p[i]);
    for (size_t i = 0; i < s->disk.runs.n && !s->result.failure[0]; i++)
        if (!s->disk.runs.p[i].ended)
            fail(s, "a run has no outcome", s->disk.runs.p[i].rec.key.job);
}

struct sim_result sim_run(uint64_t seed, enum planted planted)
{
    struct sim s = {0};

    rng_seed(&s.rng, seed);
    s.user_limit = seed % 3 ? 0 : 2;
    s.disk.planted = planted;
    s.disk.next_job = s.disk.next_spec = s.disk.next_batch = 1;
    world_init(&s.world, &s.rng, planted);
    s.world.full_disks = true;
    boot(&s);
    for (int i = 0; i < STEPS && !s.result.failure[0]; i++)
        step(&s);
    if (!s.result.failure[0])
        drain(&s);
    if (s.core)
        crash(&s);
    memcpy(s.result.kills, s.world.kills, sizeof(s.result.kills));
    disk_done(&s.disk);
    world_done(&s.world);
    vec_done(&s.acked);
    vec_done(&s.leaving);
    return s.result;
}
