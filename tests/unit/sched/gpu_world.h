/* gpu_world.h - a world for tests of the GPU planner: nodes, jobs that train, a clock
 *
 * Jobs run at a speed the test chooses, report epochs, stop at an epoch end when asked, and end.
 * Time passes in steps: world_step moves to the next thing that happens.
 */
#pragma once
#include "base/map.h"
#include "base/util.h"
#include "base/vec.h"
#include "sched/gpu.h"

enum { GW_NODES = 4, GW_DEVICES = 8, GW_JOBS = 4096 };
static const int64_t GW_GIB = INT64_C(1) << 30;

struct gw_job {
    struct gpu_job say;
    bool known, runs, stop, stop_now;
    uint32_t node;
    struct gpu_set devices;
    int64_t mem_bytes; /* reserved */
    int64_t started_ms, epoch_from_ms, epoch_end_ms;
    int32_t done, starts, stops, withdrawn;
    int64_t stopped_ms[64]; /* the last voluntary ones, a ring */
    int64_t first_start_ms;
    double epoch_s; /* alone on ref devices */
};
struct gw {
    struct gpus *gpus;
    int64_t now_ms;
    struct gw_job jobs[GW_JOBS]; /* job i + 1 */
    size_t n_jobs;
    size_t first;          /* those before it are over */
    double company;        /* speed next to somebody */
    uint64_t host_says_no; /* may_start refuses this job */
    struct map_str kept;
    bool broken;
    char why[200];
};

static struct gw_job *gw_at(struct gw *w, uint64_t job)
{
    return &w->jobs[job - 1];
}

static bool gw_may_start(void *self, uint64_t job, uint32_t node)
{
    (void)node;
    return ((struct gw *)self)->host_says_no != job;
}

static int32_t gw_mates(const struct gw *w, const struct gw_job *j)
{
    int32_t n = 0;

    for (size_t i = w->first; i < w->n_jobs; i++)
        n += w->jobs[i].runs && &w->jobs[i] != j && w->jobs[i].node == j->node &&
             gpu_set_overlap(&w->jobs[i].devices, &j->devices);
    return n;
}

static void gw_next_epoch(struct gw *w, struct gw_job *j, int64_t from)
{
    double speed = (double)gpu_set_count(&j->devices) / j->say.ref;

    if (gw_mates(w, j))
        speed *= w->company;
    j->epoch_from_ms = from;
    j->epoch_end_ms = from + (int64_t)(j->epoch_s / speed * 1000) + 1;
}

static bool gw_start(void *self, uint64_t job, uint32_t node, const struct gpu_set *devices,
                     int64_t mem_bytes)
{
    struct gw *w = self;
    struct gw_job *j = gw_at(w, job);

    if (j->runs || gpu_set_empty(devices)) {
        w->broken = true;
        snprintf(w->why, sizeof(w->why), "job %lu was started while it runs, or on nothing", job);
    }
    j->runs = true;
    j->stop = j->stop_now = false;
    j->node = node;
    j->devices = *devices;
    j->mem_bytes = mem_bytes;
    j->started_ms = w->now_ms;
    if (!j->starts++)
        j->first_start_ms = w->now_ms;
    gw_next_epoch(w, j, w->now_ms + 20000);
    return true;
}

static void gw_stop(void *self, uint64_t job, bool now)
{
    struct gw_job *j = gw_at(self, job);

    j->stop = true;
    j->stop_now |= now;
}

static void gw_unstop(void *self, uint64_t job)
{
    gw_at(self, job)->stop = false;
    gw_at(self, job)->withdrawn++;
}

static void gw_remember(void *self, struct str name, struct str text)
{
    struct gw *w = self;

    free(map_str_del(&w->kept, name));
    if (text.n)
        map_str_put(&w->kept, name, xstrndup(text.p, text.n));
}

static const struct gpu_hands *gw_hands(struct gw *w)
{
    static struct gpu_hands h;

    h = (struct gpu_hands){.self = w,
                           .may_start = gw_may_start,
                           .start = gw_start,
                           .stop = gw_stop,
                           .unstop = gw_unstop,
                           .remember = gw_remember};
    return &h;
}

static void gw_init(struct gw *w, const struct gpu_conf *conf)
{
    memset(w, 0, sizeof(*w));
    w->now_ms = 1000000;
    w->company = 0.7;
    w->gpus = gpus_new(conf, gw_hands(w));
}

static void gw_done(struct gw *w)
{
    size_t it = 0;
    struct str key;
    void *val;

    gpus_free(w->gpus);
    while (map_str_next(&w->kept, &it, &key, &val))
        free(val);
    map_str_done(&w->kept);
}

static void gw_node(struct gw *w, uint32_t node, size_t devices, int64_t gib)
{
    struct gpu_device_state d[GW_DEVICES];

    for (size_t i = 0; i < devices; i++)
        d[i] = (struct gpu_device_state){.mem_bytes = gib * GW_GIB, .usable = true};
    gpus_node(w->gpus, w->now_ms, node, d, devices, true);
}

/* An ordinary job: one device, shares, reports epochs of ten minutes. */
static struct gpu_job gw_ordinary(struct gw *w, const char *family, int32_t epochs)
{
    return (struct gpu_job){.job = w->n_jobs + 1,
                            .family = str_of(family),
                            .counts = {1},
                            .n_counts = 1,
                            .ref = 1,
                            .mem_bytes = 3 * GW_GIB,
                            .estimate_s = epochs * 600.0,
                            .epochs = epochs,
                            .submitted_ms = w->now_ms,
                            .preempt = GPU_PREEMPT_EPOCH,
                            .share = true};
}

static uint64_t gw_add(struct gw *w, const struct gpu_job *say)
{
    struct gw_job *j = &w->jobs[w->n_jobs];
    struct err e;

    *j = (struct gw_job){.say = *say, .known = true, .epoch_s = 600};
    if (say->epochs && say->estimate_s > 0)
        j->epoch_s = say->estimate_s / say->epochs;
    w->n_jobs++;
    if (gpus_add(w->gpus, w->now_ms, say, &e) < 0)
        j->known = false;
    return say->job;
}

static inline size_t gw_running(const struct gw *w)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n_jobs; i++)
        n += w->jobs[i].runs;
    return n;
}

static void gw_turn(struct gw *w)
{
    struct gpu_problem *p = gpus_plan_begin(w->gpus, w->now_ms);

    if (p) {
        gpu_problem_solve(p);
        gpus_plan_end(w->gpus, w->now_ms, p);
    }
    gpus_apply(w->gpus, w->now_ms);
    while (w->first < w->n_jobs && !w->jobs[w->first].known)
        w->first++;
    for (size_t i = w->first; i < w->n_jobs; i++)
        if (w->jobs[i].runs && w->jobs[i].started_ms == w->now_ms)
            gpus_started(w->gpus, w->now_ms, i + 1);
}

static void gw_leave(struct gw *w, struct gw_job *j, bool over)
{
    uint64_t id = j->say.job;

    j->runs = false;
    if (over) {
        j->known = false;
        gpus_remove(w->gpus, w->now_ms, id, true);
        return;
    }
    if (!j->stop_now)
        j->stopped_ms[j->stops++ % 64] = w->now_ms;
    gpus_stop_delivered(w->gpus, w->now_ms, id);
    gpus_stopped(w->gpus, w->now_ms, id, GPU_STOPPED_ASKED);
}

/* The earliest end of an epoch, or of a stop at once; NULL: nobody runs. */
static struct gw_job *gw_first(struct gw *w)
{
    struct gw_job *first = NULL;

    for (size_t i = w->first; i < w->n_jobs; i++) {
        struct gw_job *j = &w->jobs[i];
        if (j->runs && j->stop_now)
            j->epoch_end_ms = MIN(j->epoch_end_ms, w->now_ms + 1000);
        if (j->runs && (!first || j->epoch_end_ms < first->epoch_end_ms))
            first = j;
    }
    return first;
}

/* To the next thing that happens, at most to `until`; false when that was reached. */
static bool gw_step(struct gw *w, int64_t until)
{
    struct gw_job *j = gw_first(w);
    int64_t wake = gpus_next_wake(w->gpus), at = until;

    if (wake >= 0)
        at = MIN(at, MAX(wake, w->now_ms + 1));
    if (!j || j->epoch_end_ms > at) {
        w->now_ms = MAX(w->now_ms, at);
        gw_turn(w);
        return w->now_ms < until;
    }
    w->now_ms = MAX(w->now_ms, j->epoch_end_ms);
    if (j->stop_now) {
        gw_leave(w, j, false);
    } else {
        j->done++;
        gpus_epoch(w->gpus, w->now_ms, j->say.job, j->done,
                   (double)(j->epoch_end_ms - j->epoch_from_ms) / 1000);
        if (j->done >= MAX(1, j->say.epochs))
            gw_leave(w, j, true);
        else if (j->stop && j->done + 1 < j->say.epochs)
            gw_leave(w, j, false);
        else
            gw_next_epoch(w, j, w->now_ms);
    }
    gw_turn(w);
    return w->now_ms < until;
}

static void gw_run(struct gw *w, double seconds)
{
    int64_t until = w->now_ms + (int64_t)(seconds * 1000);

    gw_turn(w);
    while (gw_step(w, until))
        ;
}
