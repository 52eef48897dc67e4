/* berth.c - the daemon's planner (sched/gpu.h) in the simulated world
 *
 * It gets what the daemon would tell it and no more: the facts of a submission, with an estimate
 * that may be wrong; that processes are up; each epoch end with the time the epoch took; stops and
 * ends.  Device memory is such that only pairs which the table says do not fit are refused.
 *
 * The stop flag of a job is looked at when an epoch ends, before the planner hears of that epoch:
 * so it is in the daemon, where the answer is fixed when the first rank reports.
 */
#include "simulate/world_priv.h"
#include <math.h>

enum { PREDICTIONS_MAX = 2000 }; /* asked for at most, spread evenly: each costs a look ahead */
static const int64_t DEVICE_BYTES = INT64_C(16) << 30, JOB_BYTES = INT64_C(3) << 30;

struct berth {
    struct world *w;
    struct gpus *gpus;
    VEC(uint32_t) started; /* since the last turn */
    /* Every so-manyth job is asked for a prediction, so that there are at most PREDICTIONS_MAX. */
    uint32_t predict_every;
    int64_t arrived; /* job whose prediction is to be asked for, -1 = none */
};

static int64_t berth_now_ms(const struct berth *b)
{
    return llround(b->w->now_s * 1000);
}

/* Jobs are numbered from 1 for the planner: 0 is nobody. */
static uint32_t job_of(uint64_t id)
{
    return (uint32_t)(id - 1);
}

/* ---- hands ---- */
static bool berth_start(void *self, uint64_t job, uint32_t node UNUSED,
                        const struct gpu_set *devices, int64_t mem_bytes UNUSED)
{
    struct berth *b = self;

    if (!world_start(b->w, job_of(job), devices))
        return false;
    vec_push(&b->started, job_of(job));
    return true;
}

/* Never at once: no device runs out of memory here. */
static void berth_stop(void *self, uint64_t job, bool now UNUSED)
{
    ((struct berth *)self)->w->actors[job_of(job)].stop = true;
}

static void on_unstop(void *self, uint64_t job)
{
    ((struct berth *)self)->w->actors[job_of(job)].stop = false;
}

static bool on_compatible(void *self, uint64_t a, uint64_t b, int32_t n)
{
    return world_fits(((struct berth *)self)->w, job_of(a), job_of(b), n);
}

/* ---- what the world tells ---- */
static void *open_berth(struct world *w, struct err *e UNUSED)
{
    struct berth *b = xcalloc(1, sizeof(*b));
    const struct sim_conf *c = w->conf;
    struct gpu_conf conf = {.objective = c->objective,
                            .per_device = c->share,
                            .restart_s = c->restart_s,
                            .seed = c->seed};
    struct gpu_hands hands = {.self = b,
                              .start = berth_start,
                              .stop = berth_stop,
                              .unstop = on_unstop,
                              .compatible = on_compatible};
    AUTO_FREE struct gpu_device_state *d = xcalloc((size_t)c->gpus, sizeof(*d));

    b->w = w;
    b->arrived = -1;
    b->predict_every = (uint32_t)(w->n_jobs / PREDICTIONS_MAX) + 1;
    b->gpus = gpus_new(&conf, &hands);
    for (int32_t i = 0; i < c->gpus; i++)
        d[i] = (struct gpu_device_state){.mem_bytes = DEVICE_BYTES, .usable = true};
    gpus_node(b->gpus, 0, 0, d, (size_t)c->gpus, true);
    return b;
}

static void close_berth(void *self)
{
    struct berth *b = self;

    gpus_free(b->gpus);
    vec_done(&b->started);
    free(b);
}

/* The GPU counts the job can run with. */
static void set_counts(const struct world *w, uint32_t job, struct gpu_job *out)
{
    const struct sim_job *j = world_job(w, job);
    const struct sim_table *t = w->conf->table;
    static const int32_t usual[] = {1, 2, 4, 8};
    const int32_t *counts = t ? t->counts : usual;
    int32_t n = t ? t->n_counts : (int32_t)ARRAY_SIZE(usual);
    bool listed = false;

    for (int32_t i = 0; w->conf->elastic && i < n; i++) {
        if (!listed && counts[i] > j->gpus) /* one that is not usual, without a table */
            out->counts[out->n_counts++] = j->gpus, listed = true;
        if (counts[i] <= w->conf->gpus && world_rate(w, job, counts[i], NULL, 0) > 0)
            out->counts[out->n_counts++] = counts[i];
        listed |= counts[i] == j->gpus;
    }
    if (!listed)
        out->counts[out->n_counts++] = j->gpus;
}

static int berth_arrived(void *self, uint32_t job, struct err *e)
{
    struct berth *b = self;
    const struct sim_job *j = world_job(b->w, job);
    const struct actor *a = &b->w->actors[job];
    const struct sim_table *t = b->w->conf->table;
    struct gpu_job g = {.job = job + 1,
                        .ref = j->gpus,
                        .mem_bytes = JOB_BYTES,
                        .estimate_s = a->guess_s,
                        .epochs = a->epochs,
                        .epoch_work = a->epoch_steps,
                        .priority = j->priority,
                        .submitted_ms = berth_now_ms(b),
                        .deadline_ms = llround(j->deadline_s * 1000),
                        .preempt = GPU_PREEMPT_EPOCH,
                        .share = b->w->conf->share > 1};

    if (t)
        /* Jobs of one type are one family: the planner learns from one about the others. */
        g.family = str_of(t->types.p[j->type]);
    else if (b->w->trace->typed)
        g.family = str_of(b->w->trace->types.p[j->type]);
    set_counts(b->w, job, &g);
    if (job % b->predict_every == 0)
        b->arrived = job;
    return gpus_add(b->gpus, berth_now_ms(b), &g, e);
}

static void berth_epoch(void *self, uint32_t job, double epoch_s)
{
    struct berth *b = self;

    gpus_epoch(b->gpus, berth_now_ms(b), job + 1, b->w->actors[job].done, epoch_s);
}

static void berth_halted(void *self, uint32_t job)
{
    struct berth *b = self;

    /* In the daemon the job reads the stop flag first and exits later; here both happen at once. */
    gpus_stop_delivered(b->gpus, berth_now_ms(b), job + 1);
    gpus_stopped(b->gpus, berth_now_ms(b), job + 1, GPU_STOPPED_ASKED);
}

static void berth_finished(void *self, uint32_t job)
{
    struct berth *b = self;

    gpus_remove(b->gpus, berth_now_ms(b), job + 1, true);
}

/* Keeps what is said of the job's end now. */
static void berth_note_forecast(struct berth *b, uint32_t job, int when)
{
    struct sim_outcome *o = &b->w->out->jobs[job];
    struct gpu_view v;

    if (!gpus_view(b->gpus, berth_now_ms(b), job + 1, &v) || v.finish.hi <= 0)
        return;
    o->said_lo_s[when] = (double)v.finish.lo / 1000;
    o->said_hi_s[when] = (double)v.finish.hi / 1000;
}

static int berth_turn(void *self, struct err *e UNUSED)
{
    struct berth *b = self;
    double since = world_timer(b->w);
    struct gpu_problem *p = gpus_plan_begin(b->gpus, berth_now_ms(b));

    if (p) {
        gpu_problem_solve(p);
        gpus_plan_end(b->gpus, berth_now_ms(b), p);
        world_planned(b->w, since);
    }
    gpus_apply(b->gpus, berth_now_ms(b));
    for (size_t i = 0; i < b->started.n; i++) {
        uint32_t job = b->started.p[i];
        gpus_started(b->gpus, berth_now_ms(b), job + 1);
        if (b->w->actors[job].starts == 1 && job % b->predict_every == 0)
            berth_note_forecast(b, job, 1);
    }
    vec_clear(&b->started);
    if (b->arrived >= 0)
        berth_note_forecast(b, (uint32_t)b->arrived, 0);
    b->arrived = -1;
    return 0;
}

/* Never now or earlier: a wake-up at the same moment would not move the clock. */
static double wake(void *self)
{
    const struct berth *b = self;
    int64_t at = gpus_next_wake(b->gpus), now = berth_now_ms(b);

    return at < 0 ? -1 : (double)MAX(at, now + 1) / 1000;
}

const struct policy policy_berth = {open_berth,   close_berth,    berth_arrived, berth_epoch,
                                    berth_halted, berth_finished, berth_turn,    wake};
