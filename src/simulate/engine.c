/* engine.c - the virtual clock: what happens when, and what jobs make of the devices they hold
 *
 * The job model, the same for every policy:
 *   - a job is a number of steps in epochs of equal length; it may stop at the end of an epoch only
 *     and then goes on where it was;
 *   - each start costs restart_s in which nothing is done, the first one half of that;
 *   - it holds whole devices, alone or with jobs that hold exactly the same ones;
 *   - its speed is that of the table, or without one n^0.8 and 0.62 for company; three or four
 *     together slow each other by the product of the pairs;
 *   - with one epoch left it does not stop any more, as the library in the job does not.
 *
 * Nothing is random here but the estimates, which are drawn before the clock starts and are the
 * same for every policy.
 */
#include "base/heap.h"
#include "simulate/world_priv.h"
#include <math.h>

enum { PROGRESS_EVERY = 4096, IDLE_WAKES_MAX = 100000, EPOCHS_MIN = 2, EPOCHS_MAX = 400 };
static const double PAIR_SPEED = 0.62, SCALING = 0.8;

const struct sim_policy_name sim_policies[] = {
    {"berth", "the planner of the daemon"},
    {"fifo", "in order of arrival, without overtaking or preemption"},
    {"srtf", "shortest remaining time first, preempting longer jobs"},
    {"las", "least attained service: two queues, jobs sink after two device hours"},
    {"pack", "in order of arrival, next to a running job when no device is free"},
    {NULL, NULL},
};
static const struct policy *const policies[] = {&policy_berth, &policy_fifo, &policy_srtf,
                                                &policy_las, &policy_pack};

/* ---- the event heap: earliest first, ties in the order they were made ---- */
static bool event_before(const struct event *a, const struct event *b)
{
    return a->at_s != b->at_s ? a->at_s < b->at_s : a->seq < b->seq;
}

HEAP_DEFINE(event_heap, struct event, event_before, HEAP_NO_PLACE)

/* Sequence numbers make ties deterministic. */
static void event_push(struct world *w, struct event ev)
{
    ev.seq = w->seq++;
    vec_push(&w->heap, ev);
    event_heap_fix(w->heap.p, w->heap.n, w->heap.n - 1);
}

static struct event event_pop(struct world *w)
{
    struct event top = w->heap.p[0];

    event_heap_remove(w->heap.p, &w->heap.n, 0);
    return top;
}

/* ---- truth ---- */
double world_rate(const struct world *w, uint32_t job, int32_t n, const uint32_t *mates,
                  int32_t n_mates)
{
    const struct sim_job *j = world_job(w, job);
    const struct sim_table *t = w->conf->table;

    if (!t) {
        double r = j->steps / j->isolated_s;
        if (n != j->gpus)
            r *= pow((double)n / j->gpus, SCALING);
        return r * (n_mates ? pow(PAIR_SPEED, n_mates) : 1);
    }
    double alone = sim_table_rate(t, (uint32_t)j->type, n, SIM_ALONE), r = alone;
    for (int32_t i = 0; i < n_mates && alone > 0; i++)
        r *= sim_table_rate(t, (uint32_t)j->type, n, world_job(w, mates[i])->type) / alone;
    return r;
}

bool world_fits(const struct world *w, uint32_t a, uint32_t b, int32_t n)
{
    return world_rate(w, a, n, &b, 1) > 0 && world_rate(w, b, n, &a, 1) > 0;
}

double world_timer(const struct world *w)
{
    return w->conf->timer_us ? (double)w->conf->timer_us(w->conf->arg) : 0;
}

void world_planned(struct world *w, double since_us)
{
    double us = world_timer(w) - since_us;

    w->out->plans++;
    w->out->plan_us_sum += us;
    w->out->plan_us_max = MAX(w->out->plan_us_max, us);
}

/* ---- devices ---- */
void world_free_devices(const struct world *w, int32_t n, struct gpu_set *out)
{
    *out = (struct gpu_set){0};
    for (int32_t d = gpu_set_next(&w->free, 0); n > 0 && d >= 0; n--) {
        gpu_set_add(out, (uint32_t)d);
        d = d + 1 < GPU_SET_MAX ? gpu_set_next(&w->free, (uint32_t)d + 1) : -1;
    }
}

/* Called before the number of free devices changes. */
static void count_busy(struct world *w)
{
    w->out->busy_s += (w->now_s - w->busy_to_s) * (w->conf->gpus - w->n_free);
    w->busy_to_s = w->now_s;
}

/* `on`: the job comes to the devices; else it leaves them.  A device is free when nobody is
 * left. */
static void put_on(struct world *w, uint32_t job, const struct gpu_set *devices, bool on)
{
    count_busy(w);
    for (int32_t d = gpu_set_next(devices, 0); d >= 0;
         d = d + 1 < GPU_SET_MAX ? gpu_set_next(devices, (uint32_t)d + 1) : -1) {
        uint32_t *places = w->on[d];
        int k = 0, others = 0;
        while (places[k] != (on ? 0 : job + 1))
            k++;
        places[k] = on ? job + 1 : 0;
        for (int i = 0; i < GPU_SHARE_MAX; i++)
            others += i != k && places[i];
        if (others)
            continue;
        w->n_free += on ? -1 : 1;
        if (on)
            gpu_set_del(&w->free, (uint32_t)d);
        else
            gpu_set_add(&w->free, (uint32_t)d);
    }
}

/* Which part of its lanes is the job's? */
static int32_t place_of(const struct world *w, uint32_t job)
{
    const struct actor *a = &w->actors[job];
    int32_t place = 0;

    for (int32_t i = 0; i < a->n_mates; i++)
        place += a->mates[i] < job;
    return place;
}

/* Ends the bar that was being drawn, and begins the next one now. */
static void draw_bar(struct world *w, uint32_t job, bool halted)
{
    struct actor *a = &w->actors[job];

    if (w->conf->record && w->now_s > a->bar_from_s)
        vec_push(&w->out->bars, ((struct sim_bar){.job = job,
                                                  .from_s = a->bar_from_s,
                                                  .to_s = w->now_s,
                                                  .place = place_of(w, job),
                                                  .places = a->n_mates + 1,
                                                  .halted = halted,
                                                  .devices = a->devices}));
    a->bar_from_s = w->now_s;
}

/* ---- progress of one job ---- */
static void job_advance(struct world *w, uint32_t job)
{
    struct actor *a = &w->actors[job];
    /* Devices that are shared count in equal parts for the jobs on them. */
    double span = w->now_s - a->since_s, held = span * a->n / (a->n_mates + 1);

    a->epoch_left -= MAX(0, w->now_s - MAX(a->since_s, a->ready_s)) * a->rate;
    a->attained_s += held;
    w->out->jobs[job].gpu_s += held;
    a->since_s = w->now_s;
}

/* The event of the old speed stays in the heap; the new generation makes it void. */
static void expect_epoch(struct world *w, uint32_t job)
{
    struct actor *a = &w->actors[job];

    a->rate = world_rate(w, job, a->n, a->mates, a->n_mates);
    ASSERT(a->rate > 0);
    event_push(w,
               (struct event){.at_s = MAX(w->now_s, a->ready_s) + MAX(a->epoch_left, 0) / a->rate,
                              .job = job,
                              .generation = ++a->generation});
}

/* Its company changes: what was done so far was done at the old speed. */
static void change_mate(struct world *w, uint32_t job, uint32_t mate, bool comes)
{
    struct actor *a = &w->actors[job];

    job_advance(w, job);
    draw_bar(w, job, false);
    if (comes) {
        a->mates[a->n_mates++] = mate;
    } else {
        int32_t i = 0;
        while (a->mates[i] != mate)
            i++;
        a->mates[i] = a->mates[--a->n_mates];
    }
    expect_epoch(w, job);
}

/* Keeps the first reason: what follows is usually a consequence. */
static bool world_refuse(struct world *w, uint32_t job, const char *why)
{
    if (!w->broken.code)
        err_set(&w->broken, ERR_INTERNAL, "policy %s started job %s at %.0f s %s", w->out->policy,
                world_job(w, job)->name, w->now_s, why);
    return false;
}

/* Who is on these devices already?  All of them must have the same jobs, and those no others. */
static bool find_mates(struct world *w, uint32_t job, const struct gpu_set *devices)
{
    struct actor *a = &w->actors[job];
    int32_t first = gpu_set_next(devices, 0), n = gpu_set_count(devices);

    if (first < 0 || a->running || a->over || first >= w->conf->gpus)
        return world_refuse(w, job, "though it does not wait, or on no device");
    a->n_mates = 0;
    for (int i = 0; i < GPU_SHARE_MAX; i++) {
        uint32_t mate = w->on[first][i];
        if (!mate)
            continue;
        if (!gpu_set_equal(&w->actors[mate - 1].devices, devices))
            return world_refuse(w, job, "on devices of which another job has only a part");
        if (a->n_mates == WORLD_MATES_MAX || a->n_mates + 1 >= w->share)
            return world_refuse(w, job, "on a device that is full");
        if (!world_fits(w, job, mate - 1, n))
            return world_refuse(w, job, "next to a job it does not fit with");
        a->mates[a->n_mates++] = mate - 1;
    }
    for (int32_t d = first; d >= 0;
         d = d + 1 < GPU_SET_MAX ? gpu_set_next(devices, (uint32_t)d + 1) : -1) {
        if (d >= w->conf->gpus || (!a->n_mates && !gpu_set_has(&w->free, (uint32_t)d)))
            return world_refuse(w, job, "on a device that is taken or does not exist");
    }
    if (world_rate(w, job, n, a->mates, a->n_mates) <= 0)
        return world_refuse(w, job, "on a number of devices it cannot use");
    return true;
}

bool world_start(struct world *w, uint32_t job, const struct gpu_set *devices)
{
    struct actor *a = &w->actors[job];
    struct sim_outcome *o = &w->out->jobs[job];

    if (!find_mates(w, job, devices))
        return false;
    a->devices = *devices;
    a->n = gpu_set_count(devices);
    a->running = true;
    a->stop = false;
    a->started_seq = w->seq++;
    a->since_s = a->bar_from_s = w->now_s;
    a->ready_s = w->now_s + (a->starts ? w->conf->restart_s : w->conf->restart_s / 2);
    a->epoch_from_s = a->ready_s;
    a->epoch_left = a->epoch_steps;
    if (!a->starts++)
        o->start_s = w->now_s;
    o->attempts++;
    put_on(w, job, devices, true);
    w->running_at[job] = (uint32_t)w->running.n;
    vec_push(&w->running, job);
    for (int32_t i = 0; i < a->n_mates; i++)
        change_mate(w, a->mates[i], job, true);
    expect_epoch(w, job);
    return true;
}

/* The job gives its devices back; its neighbours get faster. */
static void job_leave(struct world *w, uint32_t job, bool over)
{
    struct actor *a = &w->actors[job];
    uint32_t at = w->running_at[job], last = vec_last(&w->running);

    draw_bar(w, job, !over);
    put_on(w, job, &a->devices, false);
    /* The last one takes the free place: constant time. */
    w->running.p[at] = last;
    w->running_at[last] = at;
    w->running.n--;
    for (int32_t i = 0; i < a->n_mates; i++)
        change_mate(w, a->mates[i], job, false);
    a->running = a->stop = false;
    a->over = over;
    a->n = a->n_mates = 0;
    /* The epoch that was expected will not end. */
    a->generation++;
    if (over) {
        w->n_over++;
        w->out->jobs[job].end_s = w->now_s;
    }
}

/* How often did it make room in any hour? */
static void count_stop(struct world *w, uint32_t job)
{
    struct actor *a = &w->actors[job];

    w->out->jobs[job].stops++;
    while (a->stops.n && a->stops.p[0] <= w->now_s - 3600)
        vec_remove(&a->stops, 0);
    vec_push(&a->stops, w->now_s);
    w->out->stops_per_hour_max = MAX(w->out->stops_per_hour_max, (int32_t)a->stops.n);
}

/* ---- events ---- */
static void world_on_epoch(struct world *w, uint32_t job)
{
    struct actor *a = &w->actors[job];

    job_advance(w, job);
    a->done++;
    double took = w->now_s - a->epoch_from_s;
    w->policy->epoch(w->policy_self, job, took);
    if (a->done == a->epochs) {
        job_leave(w, job, true);
        w->policy->finished(w->policy_self, job);
    } else if (a->stop && a->done + 1 < a->epochs) {
        count_stop(w, job);
        job_leave(w, job, false);
        w->policy->halted(w->policy_self, job);
    } else {
        a->epoch_left = a->epoch_steps;
        a->epoch_from_s = w->now_s;
        expect_epoch(w, job);
    }
}

/* *idle: the event was void, so the policy need not be asked. */
static int world_on_event(struct world *w, struct event ev, bool *idle, struct err *e)
{
    *idle = false;
    w->out->events++;
    if (ev.arrival) {
        if (++w->next_arrival < w->n_jobs)
            /* Only the next arrival is in the heap: a long trace does not make the heap large. */
            event_push(w, (struct event){.at_s = world_job(w, ev.job + 1)->arrival_s,
                                         .job = ev.job + 1,
                                         .arrival = true});
        return w->policy->arrived(w->policy_self, ev.job, e);
    }
    if (w->actors[ev.job].generation == ev.generation)
        world_on_epoch(w, ev.job);
    else
        *idle = true;
    return 0;
}

static int stuck(const struct world *w, struct err *e)
{
    return err_set(e, ERR_INTERNAL, "policy %s leaves %zu jobs waiting forever at %.0f s",
                   w->out->policy, w->n_jobs - w->n_over, w->now_s);
}

static int play(struct world *w, struct err *e)
{
    /* Wake-ups in a row without an event between them.  A policy that only wakes makes no
     * progress. */
    int idle_wakes = 0;

    event_push(w, (struct event){.at_s = world_job(w, 0)->arrival_s, .arrival = true});
    while (w->n_over < w->n_jobs) {
        double wake = w->policy->wake ? w->policy->wake(w->policy_self) : -1;
        bool idle = false, woken = wake >= 0 && (!w->heap.n || wake < w->heap.p[0].at_s);
        idle_wakes = woken ? idle_wakes + 1 : 0;
        if ((!woken && !w->heap.n) || idle_wakes > IDLE_WAKES_MAX)
            return stuck(w, e);
        if (woken) {
            w->now_s = MAX(w->now_s, wake);
        } else {
            struct event ev = event_pop(w);
            w->now_s = ev.at_s;
            if (world_on_event(w, ev, &idle, e) < 0)
                return -1;
        }
        if (!idle && w->policy->turn(w->policy_self, e) < 0)
            return -1;
        if (w->broken.code) {
            *e = w->broken;
            return -1;
        }
        /* A callback may print; every event would be too often. */
        if (w->conf->progress && w->out->events % PROGRESS_EVERY == 0)
            w->conf->progress(w->conf->arg, w->n_over, w->n_jobs);
    }
    count_busy(w);
    return 0;
}

static void world_init(struct world *w)
{
    const struct sim_conf *c = w->conf;
    struct rng rng;

    rng_seed(&rng, c->seed);
    w->actors = xcalloc(w->n_jobs, sizeof(*w->actors));
    w->running_at = xcalloc(w->n_jobs, sizeof(*w->running_at));
    w->on = xcalloc((size_t)c->gpus, sizeof(*w->on));
    w->out->jobs = xcalloc(w->n_jobs, sizeof(*w->out->jobs));
    for (int32_t d = 0; d < c->gpus; d++)
        gpu_set_add(&w->free, (uint32_t)d);
    w->n_free = c->gpus;
    /* Only berth has `wake`; the references never put more than two jobs on a device. */
    w->share = w->policy->wake ? c->share : 2;
    for (uint32_t i = 0; i < w->n_jobs; i++) {
        const struct sim_job *j = world_job(w, i);
        struct actor *a = &w->actors[i];
        a->epochs = j->epochs;
        if (!a->epochs)
            a->epochs = (int32_t)rint(MAX(EPOCHS_MIN, MIN(EPOCHS_MAX, j->isolated_s / c->epoch_s)));
        a->epoch_steps = j->steps / a->epochs;
        /* Drawn for every job in the order of the trace, so all policies see the same estimates. */
        a->guess_s = j->isolated_s * exp(c->noise * (2 * rng_unit(&rng) - 1));
    }
}

static void world_done(struct world *w)
{
    for (size_t i = 0; i < w->n_jobs; i++)
        vec_done(&w->actors[i].stops);
    free(w->actors);
    free(w->running_at);
    free(w->on);
    vec_done(&w->running);
    vec_done(&w->heap);
}

int sim_run(const struct sim_trace *t, const struct sim_conf *conf, const char *policy,
            struct sim_result *out, struct err *e)
{
    struct world w = {.trace = t, .conf = conf, .out = out, .n_jobs = t->jobs.n};

    *out = (struct sim_result){0};
    for (size_t i = 0; sim_policies[i].name; i++)
        if (!strcmp(sim_policies[i].name, policy)) {
            out->policy = sim_policies[i].name;
            w.policy = policies[i];
        }
    if (!w.policy)
        return err_set(e, ERR_INVALID, "there is no policy %s; use berth, fifo, srtf, las or pack",
                       policy);
    world_init(&w);
    w.policy_self = w.policy->open(&w, e);
    int rc = w.policy_self ? play(&w, e) : -1;
    if (w.policy_self)
        w.policy->close(w.policy_self);
    world_done(&w);
    if (rc < 0)
        sim_result_done(out);
    else
        sim_summarise(t, conf, out);
    return rc;
}

void sim_result_done(struct sim_result *r)
{
    free(r->jobs);
    r->jobs = NULL;
    vec_done(&r->bars);
}
