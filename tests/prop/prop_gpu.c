/* prop_gpu.c - what must hold of the GPU planner in random worlds
 *
 * Jobs of all kinds come, train, are cancelled, lose their node or run out of memory; devices come
 * and go.  After every step the devices are counted again from what the planner asked for.
 */
#include <stdio.h>

#include "gpu_world.h"
#include "prop.h"

static const int64_t HOUR_MS = 3600 * 1000;

/* ---- rules ---- */

static int64_t room(int64_t mem)
{
    return mem - MAX(INT64_C(512) << 20, mem * 3 / 100);
}

/* No device has more jobs than allowed, nor more memory reserved than it has; jobs share whole
 * sets of devices or nothing. */
static bool devices_are_kept(struct prop *p, const struct gw *w, int32_t per_device, int64_t mem)
{
    for (size_t i = 0; i < w->n_jobs; i++) {
        const struct gw_job *a = &w->jobs[i];
        int64_t sum = a->mem_bytes;
        int32_t n = 1;
        if (!a->runs)
            continue;
        for (size_t k = 0; k < w->n_jobs; k++) {
            const struct gw_job *b = &w->jobs[k];
            if (k == i || !b->runs || b->node != a->node ||
                !gpu_set_overlap(&a->devices, &b->devices))
                continue;
            n++;
            sum += b->mem_bytes;
            if (!prop_check(p, gpu_set_equal(&a->devices, &b->devices),
                            "jobs %zu and %zu share only some of their devices", i + 1, k + 1) ||
                !prop_check(p, a->say.share && b->say.share && a->mem_bytes && b->mem_bytes,
                            "jobs %zu and %zu must not share", i + 1, k + 1))
                return false;
        }
        bool allowed = false;
        for (int32_t c = 0; c < a->say.n_counts; c++)
            allowed |= a->say.counts[c] == gpu_set_count(&a->devices);
        if (!prop_check(p, allowed, "job %zu got a count it cannot use", i + 1) ||
            !prop_check(p, n <= per_device, "%d jobs on a device", n) ||
            !prop_check(p, n == 1 || sum <= room(mem), "%ld MiB reserved on a device", sum >> 20))
            return false;
    }
    return true;
}

static bool stops_are_rare(struct prop *p, const struct gw *w)
{
    for (size_t i = 0; i < w->n_jobs; i++) {
        const struct gw_job *j = &w->jobs[i];
        if (!prop_check(p, !(j->say.preempt == GPU_PREEMPT_NEVER && (j->stop || j->stops)),
                        "job %zu was stopped and never may be", i + 1))
            return false;
        for (int32_t k = 4; k < MIN(j->stops, 64); k++) {
            int32_t last = j->stops - 1 - (k - 4);
            if (last < 4)
                break;
            int64_t span = j->stopped_ms[last % 64] - j->stopped_ms[(last - 4) % 64];
            if (!prop_check(p, span >= HOUR_MS, "job %zu was stopped 5 times in %ld s", i + 1,
                            span / 1000))
                return false;
        }
    }
    return true;
}

/* ---- any history ---- */

static void some_job(struct prop *p, struct gw *w, size_t devices)
{
    static const char *const families[] = {"a", "b", "net (batch 16)", "net (batch 32)", ""};
    struct gpu_job j = gw_ordinary(w, PROP_PICK(p, families), (int32_t)prop_int(p, 1, 20));
    int32_t max = (int32_t)prop_int(p, 1, (int64_t)devices), c = 1;

    if (w->n_jobs == GW_JOBS)
        return;
    j.n_counts = 0;
    if (prop_bool(p))
        j.counts[j.n_counts++] = max;
    else
        for (; c <= max; c *= 2)
            j.counts[j.n_counts++] = c;
    j.ref = j.counts[0];
    j.mem_bytes = prop_int(p, 0, 9) * GW_GIB;
    j.share = prop_choice(p, 3) != 0;
    j.priority = (int32_t)prop_int(p, -2, 2);
    if (prop_choice(p, 5) == 5)
        j.preempt = GPU_PREEMPT_NEVER;
    if (prop_choice(p, 5) == 5)
        j.epochs = 0;
    if (prop_choice(p, 3) == 3)
        j.estimate_s = 0;
    if (prop_choice(p, 3) == 3)
        j.deadline_ms = w->now_ms + prop_int(p, 1, 20) * HOUR_MS;
    if (!j.epochs)
        j.preempt = GPU_PREEMPT_NEVER;
    gw_add(w, &j);
}

static struct gw_job *some_running(struct prop *p, struct gw *w)
{
    size_t n = w->n_jobs, from = n ? prop_choice(p, n - 1) : 0;

    for (size_t i = 0; i < n; i++)
        if (w->jobs[(from + i) % n].runs)
            return &w->jobs[(from + i) % n];
    return NULL;
}

static void something_happens(struct prop *p, struct gw *w, size_t devices)
{
    static const enum gpu_stop ends[] = {GPU_STOPPED_LOST, GPU_STOPPED_FAILED,
                                         GPU_STOPPED_NO_MEMORY, GPU_STOPPED_UNDONE};
    struct gw_job *j = some_running(p, w);

    switch (prop_choice(p, 7)) {
    case 0:
    case 1:
    case 2:
        some_job(p, w, devices);
        break;
    case 3:
        gw_run(w, (double)prop_int(p, 0, 4000));
        break;
    case 4: /* cancelled */
        if (!j)
            break;
        j->runs = j->known = false;
        gpus_remove(w->gpus, w->now_ms, j->say.job, false);
        break;
    case 5:
        if (!j)
            break;
        j->runs = false;
        gpus_stopped(w->gpus, w->now_ms, j->say.job, PROP_PICK(p, ends));
        break;
    case 6:
        w->host_says_no = prop_choice(p, w->n_jobs);
        break;
    default:
        w->company = 0.2 + 0.8 * prop_unit(p);
    }
    gw_turn(w);
}

static struct gpu_conf some_conf(struct prop *p)
{
    return (struct gpu_conf){.objective = prop_bool(p) ? GPU_TARDINESS : GPU_JCT,
                             .per_device = (int32_t)prop_int(p, 1, 4),
                             .replan_ms = prop_int(p, 1, 3000),
                             .effort = (int32_t)prop_int(p, -1, 2)};
}

static bool views_make_sense(struct prop *p, struct gw *w)
{
    for (size_t i = 0; i < w->n_jobs; i++) {
        struct gpu_view v;
        if (!prop_check(p, gpus_view(w->gpus, w->now_ms, i + 1, &v) == w->jobs[i].known,
                        "job %zu is known to one side only", i + 1))
            return false;
        if (w->jobs[i].known &&
            !prop_check(p,
                        v.running == w->jobs[i].runs && v.finish.lo <= v.finish.at &&
                            v.finish.at <= v.finish.hi && v.left_s > 0,
                        "the view of job %zu contradicts itself", i + 1))
            return false;
    }
    return true;
}

static bool any_history(struct prop *p, void *ctx)
{
    struct gw *w = ctx;
    struct gpu_conf conf = some_conf(p);
    size_t devices = 1 + prop_choice(p, 7), nodes = 1 + prop_choice(p, 2);
    size_t steps = prop_size(p, 60);
    bool ok = true;

    gw_init(w, &conf);
    for (uint32_t k = 0; k < nodes; k++)
        gw_node(w, k, devices, 16);
    for (size_t i = 0; i < steps && ok; i++) {
        something_happens(p, w, devices);
        ok = prop_check(p, !w->broken, "%s", w->why) &&
             devices_are_kept(p, w, conf.per_device, 16 * GW_GIB) && stops_are_rare(p, w) &&
             views_make_sense(p, w);
    }
    gw_done(w);
    return ok;
}

/* ---- nobody starves ---- */

/* Short jobs without end for 48 hours, a quarter more than the devices can do or twice as much; the
 * long ones start soon after their patience is over.  At twice as much the short ones wait as long,
 * and those overdue go one after the other, so it takes some hours more. */
static bool nobody_starves(struct prop *p, void *ctx)
{
    struct gw *w = ctx;
    struct gpu_conf conf = {.seed = prop_choice(p, 3)};
    bool ok = true, share = prop_bool(p);
    int32_t gang = 1 << prop_choice(p, 2);
    int rate = prop_bool(p) ? 3 : 2;

    gw_init(w, &conf);
    gw_node(w, 0, 4, 16);
    for (int64_t end = w->now_ms + 48 * HOUR_MS, t = 0; w->now_ms < end; t++) {
        for (int i = 0; i < rate && w->n_jobs < GW_JOBS; i++) {
            struct gpu_job j = gw_ordinary(w, i ? "short" : "other", 2);
            j.share = share;
            j.estimate_s = 600 + (double)prop_choice(p, 3) * 100;
            gw_add(w, &j);
        }
        if (t % 24 == 3) {
            struct gpu_job j = gw_ordinary(w, "long", 100);
            j.counts[0] = j.ref = gang;
            j.share = share;
            gw_add(w, &j);
        }
        gw_run(w, 300);
    }
    for (size_t i = 0; i < w->n_jobs && ok; i++) {
        const struct gw_job *j = &w->jobs[i];
        int64_t waited = (j->starts ? j->first_start_ms : w->now_ms) - j->say.submitted_ms;
        if (j->say.epochs == 100)
            ok = prop_check(p, waited <= (rate == 3 ? 30 : 26) * HOUR_MS,
                            "long job %zu waited %ld h", i + 1, waited / HOUR_MS);
    }
    ok = ok && stops_are_rare(p, w);
    gw_done(w);
    return ok;
}

/* ---- chance and memory ---- */

static void play(struct gw *w, uint64_t seed, size_t jobs)
{
    gw_init(w, &(struct gpu_conf){.seed = seed});
    gw_node(w, 0, 4, 16);
    for (size_t i = 0; i < jobs; i++) {
        struct gpu_job j = gw_ordinary(w, i % 3 ? "a" : "b", 2 + (int32_t)(i * 7 % 13));
        j.n_counts = i % 2 ? 1 : 2;
        j.counts[1] = 2;
        gw_add(w, &j);
        gw_run(w, 500);
    }
    gw_run(w, 36000);
}

static bool same_seed_same_result(struct prop *p, void *ctx)
{
    struct gw *w = ctx;
    uint64_t seed = prop_choice(p, 1000);
    size_t jobs = 1 + prop_size(p, 20);
    VEC(struct gw_job) first = {0};
    bool ok = true;

    play(w, seed, jobs);
    for (size_t i = 0; i < w->n_jobs; i++)
        vec_push(&first, w->jobs[i]);
    gw_done(w);
    play(w, seed, jobs);
    for (size_t i = 0; i < w->n_jobs && ok; i++)
        ok = prop_check(p,
                        first.p[i].starts == w->jobs[i].starts &&
                            first.p[i].first_start_ms == w->jobs[i].first_start_ms &&
                            first.p[i].started_ms == w->jobs[i].started_ms &&
                            first.p[i].done == w->jobs[i].done &&
                            gpu_set_equal(&first.p[i].devices, &w->jobs[i].devices),
                        "job %zu went another way", i + 1);
    gw_done(w);
    vec_done(&first);
    return ok;
}

/* What one planner kept makes another say the same of every job. */
static bool recalled_is_what_was_kept(struct prop *p, void *ctx)
{
    struct gw *w = ctx;
    size_t jobs = 1 + prop_size(p, 12), it = 0;
    struct str key;
    void *val;
    bool ok = true;

    play(w, 0, jobs);
    struct gpu_job late = gw_ordinary(w, "a", 9);
    gw_add(w, &late);
    gw_run(w, 1500);
    struct gpus *next = gpus_new(&(struct gpu_conf){0}, &(struct gpu_hands){0});
    while (map_str_next(&w->kept, &it, &key, &val))
        gpus_recall(next, key, str_of(val));
    for (size_t i = 0; i < w->n_jobs && ok; i++) {
        struct gpu_view a, b;
        if (!w->jobs[i].known)
            continue;
        gpus_add(next, w->now_ms, &w->jobs[i].say, NULL);
        gpus_view(w->gpus, w->now_ms, i + 1, &a);
        gpus_view(next, w->now_ms, i + 1, &b);
        double off = a.estimate_s / b.estimate_s;
        ok = prop_check(p, a.epochs_done == b.epochs_done && a.attempts == b.attempts,
                        "job %zu: %d epochs became %d", i + 1, a.epochs_done, b.epochs_done) &&
             prop_check(p, off > 0.999 && off < 1.001, "job %zu: %f s became %f s", i + 1,
                        a.estimate_s, b.estimate_s);
    }
    gpus_free(next);
    gw_done(w);
    return ok;
}

int main(void)
{
    static struct gw w;

    prop_run("no device is over-committed, stops are rare, views make sense", 400, any_history, &w);
    prop_run("nobody starves in 48 hours of short jobs", 8, nobody_starves, &w);
    prop_run("same seed, same result", 30, same_seed_same_result, &w);
    prop_run("what is recalled is what was kept", 60, recalled_is_what_was_kept, &w);
    return prop_end();
}
