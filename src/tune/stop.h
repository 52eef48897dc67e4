/* stop.h - stopping trials early by what they report: asha, hyperband, median, patient
 *
 * A layer that works with every engine: trials report (step, value) while they run, and each report
 * is answered by go on or stop.  The answers follow from the order of the calls alone, so a layer
 * that is fed the recorded calls again is in the same state.  No clock, no chance.
 *
 * asha: rungs at the steps min, min·eta, min·eta², …  A trial that reaches a rung goes on if it is
 *   among the best of all that have reached it: most at the first rungs, in the end one of eta per
 *   rung.  It is judged by its level, and at the first rungs also by where its curve is likely to
 *   end, because curves that begin low and rise fast cross others later.  The level is the mean of
 *   the reports in the last third before the rung, which takes off noise.
 * hyperband: several such ladders, of which each begins a rung later and the last never stops a
 *   trial.  The number of a trial says which one judges it.
 * median: stops a trial whose best report is worse than the median of the others' means so far.
 * patient: stops a trial that has not improved upon itself for a number of steps.
 */
#pragma once
#include "base/err.h"
#include <stdint.h>

struct json;
enum tune_verdict { TUNE_CONTINUE, TUNE_STOP };
enum {
    TUNE_STOP_ASHA = 1,
    TUNE_STOP_HYPERBAND = 2,
    TUNE_STOP_MEDIAN = 4,
    TUNE_STOP_PATIENT = 8,
};

struct tune_stop_conf {
    unsigned layers; /* TUNE_STOP_…, together; 0 = nothing is ever stopped */
    bool maximize;   /* tune_stop_parse leaves it as it is: the objective says so */
    int64_t min;     /* asha, hyperband: the step of the first rung */
    int64_t max;     /* the last step of a whole run, where no trial is stopped; 0 = not known */
    int64_t eta;     /* one of so many goes on */
    int64_t warmup;  /* median: no trial is stopped before this step */
    int64_t startup; /* median: nor before so many trials have ended */
    int64_t patience;
    double delta; /* patient: a smaller gain is none */
};

/* "asha", {"asha": {"min": 1, "max": 81, "eta": 3}}, {"median": {"warmup": 5, "startup": 5}},
 * {"patient": {"steps": 10, "delta": 0}}, several keys at once, "none" or null.  The error names
 * the key, the value and the remedy. */
int tune_stop_parse(const struct json *j, struct tune_stop_conf *out, struct err *e);

struct tune_stop;
struct tune_stop *tune_stop_new(const struct tune_stop_conf *conf);
void tune_stop_free(struct tune_stop *s);
/* A report of trial 1, 2, …  Steps of a trial rise; a report of an earlier step changes nothing and
 * gets the last answer again, and stop stays stop.  NaN and infinities count as worse than every
 * number. */
int tune_stop_report(struct tune_stop *s, int64_t trial, int64_t step, double value,
                     enum tune_verdict *out, struct err *e);
/* The trial has ended, on its own or because it was stopped. */
void tune_stop_finished(struct tune_stop *s, int64_t trial);
/* The name of the layer that stopped the trial, or NULL. */
const char *tune_stop_reason(const struct tune_stop *s, int64_t trial);
