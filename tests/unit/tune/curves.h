/* curves.h - learning curves that cross and are noisy, and a queue of trials that reports them
 *
 * A curve rises from 0.1 to its final quality by 1 - exp(-(t / tau)^0.7), so the last part is slow
 * as in training.  Better trials are slower on average (their learning rates are smaller), which
 * makes curves cross; some fall again from overfitting; every report has noise.  There are several
 * kinds of populations, from fast curves to slow ones whose quality and slowness go together.
 */
#pragma once
#include "base/rand.h"
#include "tune/stop.h"
#include <math.h>

enum { CURVE_STEPS = 81, CURVE_TRIALS_MAX = 128 };
struct curve {
    double top, tau, fall;
};

struct curve_kind {
    const char *name;
    double slowest; /* the decimal logarithm of the largest tau; the smallest is a tenth of it */
    double tied;    /* how much of the slowness follows from the quality */
    double noise;
};
static const struct curve_kind curve_kinds[] = {
    {"rise of 1 to 10 steps", 1, 0.4, 0.02},
    {"rise of 1.6 to 16 steps", 1.2, 0.4, 0.02},
    {"rise of 2.5 to 25 steps, the better the slower", 1.4, 0.7, 0.02},
    {"rise of 1.6 to 16 steps, twice the noise", 1.2, 0.4, 0.04},
};

static inline struct curve curve_draw(const struct curve_kind *kind, struct rng *r)
{
    struct curve c;
    double talent = rng_unit(r), slow = kind->tied * talent + (1 - kind->tied) * rng_unit(r);

    c.top = 0.3 + 0.65 * talent;
    c.tau = pow(10, kind->slowest - 1 + slow);
    c.fall = rng_unit(r) < 0.2 ? 0.1 * rng_unit(r) : 0;
    return c;
}

/* Without noise; t = 1 … CURVE_STEPS. */
static inline double curve_at(const struct curve *c, double t)
{
    return 0.1 + (c->top - 0.1) * (1 - exp(-pow(t / c->tau, 0.7))) - c->fall * t / CURVE_STEPS;
}

/* The sum of twelve draws less six is nearly normal. */
static inline double curve_noise(const struct curve_kind *kind, struct rng *r)
{
    double x = -6;

    for (int i = 0; i < 12; i++)
        x += rng_unit(r);
    return kind->noise * x;
}

struct curve_run {
    struct curve curve[CURVE_TRIALS_MAX];
    int64_t steps[CURVE_TRIALS_MAX]; /* that each trial has run */
    int64_t epochs;                  /* of all */
    size_t best;                     /* the trial with the best end, had all run */
    double best_end, found_end;      /* its end, and the best end among those that ran through */
};

/* `workers` trials at a time, each one step in turn; a free worker takes the next trial. */
static inline void curves_run(struct curve_run *run, const struct curve_kind *kind, size_t n,
                              size_t workers, uint64_t seed, const struct tune_stop_conf *conf)
{
    struct rng r;
    struct tune_stop *stop = tune_stop_new(conf);
    size_t busy[CURVE_TRIALS_MAX], next = 0, running = 0;

    rng_seed(&r, seed);
    *run = (struct curve_run){.best_end = -1, .found_end = -1};
    for (size_t i = 0; i < n; i++) {
        run->curve[i] = curve_draw(kind, &r);
        double end = curve_at(&run->curve[i], CURVE_STEPS);
        if (end > run->best_end) {
            run->best_end = end;
            run->best = i;
        }
    }
    while (next < n || running) {
        while (running < workers && next < n)
            busy[running++] = next++;
        for (size_t w = 0; w < running; w++) {
            size_t i = busy[w];
            enum tune_verdict verdict = TUNE_CONTINUE;
            int64_t step = ++run->steps[i];
            run->epochs++;
            tune_stop_report(stop, (int64_t)i + 1, step,
                             curve_at(&run->curve[i], (double)step) + curve_noise(kind, &r),
                             &verdict, NULL);
            if (verdict == TUNE_CONTINUE && step < CURVE_STEPS)
                continue;
            if (step == CURVE_STEPS)
                run->found_end = fmax(run->found_end, curve_at(&run->curve[i], CURVE_STEPS));
            tune_stop_finished(stop, (int64_t)i + 1);
            busy[w--] = busy[--running];
        }
    }
    tune_stop_free(stop);
}
