/* gpu_predict.c - when will it start, when will it end
 *
 * The present plan is played forward: who runs goes on at its present speed, who waits takes the
 * devices that become free first, in the order of the last plan.  That leaves out jobs to come,
 * stops and company, so what is said is corrected by experience: for each length of time said, of
 * waiting and of running jobs apart, three quantiles of log(actual / said) are tracked.  A job that
 * ends moves each of them a step up or down, so that 10, 50 and 90 % come to lie below.
 */
#include "sched/gpu_priv.h"

#include <math.h>

enum { EVERY_MS = 1000 };
static const double QUANTILES[3] = {0.1, 0.5, 0.9};

/* kind 0 = the job waited when the prediction was made, 1 = the job ran.  Each class of lengths is
 * twice as long as the one before it; the last class takes all that is longer. */
static struct gpu_spread *spread_of(struct gpus *g, int kind, double said_s)
{
    int b = (int)(log2(MAX(said_s, 1) / 225)); /* 7.5 min, 15 min, 30 min … */

    return &g->trust.spread[kind][MAX(0, MIN(b, GPU_SPREADS - 1))];
}

static struct gpu_span span(struct gpus *g, int kind, int64_t now, double said_s)
{
    const struct gpu_spread *s = spread_of(g, kind, said_s);
    double ms = said_s * 1000;

    return (struct gpu_span){.lo = now + (int64_t)(ms * exp(s->q[0])),
                             .at = now + (int64_t)(ms * exp(s->q[1])),
                             .hi = now + (int64_t)(ms * exp(s->q[2]))};
}

static double running_left_s(struct gpus *g, struct gjob *j, int64_t now)
{
    struct speed_key k = gpu_key(j);
    double speed = gpu_speed(g, j, &k);

    return gpu_left_s(g, j, now) / MAX(speed, 0.01);
}

/* Order in which waiting jobs get devices in the forecast: price per device, as in the last plan.
 */
static int dearest(const void *a, const void *b)
{
    const struct gjob *x = *(struct gjob *const *)a, *y = *(struct gjob *const *)b;
    double p = x->plan.price / x->say.counts[0], q = y->plan.price / y->say.counts[0];

    if (p != q)
        return p > q ? -1 : 1;
    return x->serial < y->serial ? -1 : 1;
}

/* Device times are kept ascending: the first n are replaced by `to`. */
static void occupy(double *free_at, size_t n_dev, size_t n, double to)
{
    size_t i = n;

    while (i < n_dev && free_at[i] < to)
        i++;
    memmove(free_at, free_at + n, (i - n) * sizeof(*free_at));
    for (size_t k = i - n; k < i; k++)
        free_at[k] = to;
}

/* Only the first prediction of each kind is kept: its error is what gpu_predict_learn measures. */
static void forecast_note(struct gjob *j, int kind, int64_t now, double said_s)
{
    if (j->forecast.said_s[kind] > 0)
        return;
    j->forecast.said_s[kind] = said_s;
    j->forecast.said_ms[kind] = now;
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Fills free_at with the seconds from now until each usable device is free, ascending; returns how
 * many devices there are. */
static size_t play_running(struct gpus *g, int64_t now, double *free_at)
{
    size_t n = 0;

    for (size_t k = 0; k < g->nodes.n; k++)
        for (size_t i = 0; i < g->nodes.p[k].dev.n; i++) {
            const struct gpu_device *d = &g->nodes.p[k].dev.p[i];
            double at = 0;
            if (!d->state.usable)
                continue;
            for (int32_t m = 0; m < d->n_jobs; m++)
                at = MAX(at, d->jobs[m]->forecast.left_at);
            free_at[n++] = at;
        }
    (void)now;
    qsort(free_at, n, sizeof(*free_at), by_time);
    return n;
}

/* Gives a waiting job the devices that are free first, and occupies them for its expected run time.
 * A job that needs more devices than there are gets no forecast. */
static void play_waiting(struct gpus *g, struct gjob *j, int64_t now, double *free_at, size_t n)
{
    size_t need = (size_t)j->say.counts[0];
    double start, run;

    if (need > n)
        return;
    for (int32_t i = 0; i < j->say.n_counts && j->say.counts[i] <= j->say.ref; i++)
        need = MIN((size_t)j->say.counts[i], n);
    struct speed_key k = {.n = (int32_t)need};
    start = free_at[need - 1];
    run = gpu_restart_s(g, j) + gpu_left_s(g, j, now) / MAX(gpu_speed(g, j, &k), 0.01);
    occupy(free_at, n, need, start + run);
    j->forecast.finish = span(g, 0, now, start + run);
    struct gpu_span s = span(g, 0, now, start + 1);
    j->forecast.start = start <= 0 ? (struct gpu_span){now, now, MAX(now, s.hi)} : s;
    forecast_note(j, 0, now, start + run);
}

void gpu_predict(struct gpus *g, int64_t now)
{
    VEC(struct gjob *) waiting = {0};
    size_t n_dev = 0;

    if (g->prediction.made == g->prediction.wanted && now - g->prediction.made_ms < EVERY_MS &&
        now >= g->prediction.made_ms)
        return;
    g->prediction.made = g->prediction.wanted;
    g->prediction.made_ms = now;
    for (size_t i = 0; i < g->jobs.n; i++) {
        struct gjob *j = g->jobs.p[i];
        j->forecast.start = j->forecast.finish = (struct gpu_span){0};
        if (!j->run.holds) {
            vec_push(&waiting, j);
            continue;
        }
        j->forecast.left_at = running_left_s(g, j, now);
        j->forecast.finish = span(g, 1, now, j->forecast.left_at);
        forecast_note(j, 1, now, j->forecast.left_at);
        j->forecast.start = (struct gpu_span){j->run.start_ms, j->run.start_ms, j->run.start_ms};
    }
    for (size_t i = 0; i < g->nodes.n; i++)
        n_dev += g->nodes.p[i].dev.n;
    AUTO_FREE double *free_at = xcalloc(n_dev + 1, sizeof(*free_at));
    n_dev = play_running(g, now, free_at);
    if (waiting.n)
        qsort(waiting.p, waiting.n, sizeof(waiting.p[0]), dearest);
    for (size_t i = 0; i < waiting.n; i++)
        play_waiting(g, waiting.p[i], now, free_at, n_dev);
    vec_done(&waiting);
}

void gpu_predict_learn(struct gpus *g, struct gjob *j, int64_t now)
{
    for (int kind = 0; kind < 2; kind++) {
        if (j->forecast.said_s[kind] <= 0)
            continue;
        double took = (double)(now - j->forecast.said_ms[kind]) / 1000;
        double x = log(MAX(took, 1) / j->forecast.said_s[kind]);
        struct gpu_spread *s = spread_of(g, kind, j->forecast.said_s[kind]);
        double step = MAX(0.05, 0.6 / (1 + (double)s->n));
        s->n++;
        for (int i = 0; i < 3; i++)
            s->q[i] += step * (x > s->q[i] ? QUANTILES[i] : QUANTILES[i] - 1);
        s->q[1] = MAX(s->q[0], MIN(s->q[1], s->q[2]));
        g->unsaved = true;
    }
}
