/* summary.c - what came of a simulation, in numbers
 *
 * Completion time (JCT) runs from arrival to end.  Tardiness is how far a job ended behind its
 * deadline, or behind twice its isolated run time when it has none; weighted, a job counts by its
 * priority (1, 1.5, 2, 3, 5 from the least to the most urgent).  Utilisation is the share of
 * device time in which a device had a job, from 0 to the last end.
 */
#include "simulate/sim.h"

static int summary_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* A job without a deadline is due after twice its isolated run time. */
static double sim_job_due_s(const struct sim_job *j)
{
    return j->deadline_s > 0 ? j->deadline_s : j->arrival_s + 2 * j->isolated_s;
}

static void count_tardiness(const struct sim_trace *t, struct sim_result *r)
{
    static const double weights[] = {1, 1.5, 2, 3, 5};
    struct sim_summary *s = &r->summary;
    double n = (double)t->jobs.n;

    for (size_t i = 0; i < t->jobs.n; i++) {
        const struct sim_job *j = &t->jobs.p[i];
        double late = MAX(0, r->jobs[i].end_s - sim_job_due_s(j));
        s->tardiness_s += late / n;
        s->weighted_tardiness_s += late * weights[j->priority + 2] / n;
        s->tardy2x_s += MAX(0, r->jobs[i].end_s - j->arrival_s - 2 * j->isolated_s) / n;
    }
}

/* k = 0: predicted on arrival; k = 1: at the first start. */
static void count_predictions(const struct sim_trace *t, struct sim_result *r)
{
    struct sim_summary *s = &r->summary;

    for (int k = 0; k < 2; k++) {
        int64_t inside = 0;
        for (size_t i = 0; i < t->jobs.n; i++) {
            const struct sim_outcome *o = &r->jobs[i];
            if (o->said_hi_s[k] <= 0)
                continue;
            s->predicted[k]++;
            inside += o->end_s >= o->said_lo_s[k] && o->end_s <= o->said_hi_s[k];
        }
        s->calibration[k] = s->predicted[k] ? (double)inside / (double)s->predicted[k] : 0;
    }
}

void sim_summarise(const struct sim_trace *t, const struct sim_conf *conf, struct sim_result *r)
{
    size_t n = t->jobs.n;
    AUTO_FREE double *jct = xcalloc(n, sizeof(*jct));
    struct sim_summary *s = &r->summary;

    for (size_t i = 0; i < n; i++) {
        const struct sim_outcome *o = &r->jobs[i];
        jct[i] = o->end_s - t->jobs.p[i].arrival_s;
        s->avg_jct_s += jct[i] / (double)n;
        s->makespan_s = MAX(s->makespan_s, o->end_s);
        s->restarts += o->attempts - 1;
    }
    qsort(jct, n, sizeof(*jct), summary_by_size);
    s->median_jct_s = jct[n / 2];
    s->p99_jct_s = jct[MIN(n - 1, n * 99 / 100)];
    s->utilisation = r->busy_s / (s->makespan_s * conf->gpus);
    s->plans = r->plans;
    s->events = r->events;
    s->plan_ms_mean = r->plans ? r->plan_us_sum / 1000 / (double)r->plans : 0;
    s->plan_ms_max = r->plan_us_max / 1000;
    s->stops_per_hour_max = r->stops_per_hour_max;
    count_tardiness(t, r);
    count_predictions(t, r);
}

static void summary_set_real(struct json *o, const char *key, double v)
{
    json_set_take(o, key, json_new_real(v));
}

struct json *sim_summary_json(const struct sim_result *r)
{
    const struct sim_summary *s = &r->summary;
    struct json *o = json_new_object();

    summary_set_real(o, "avg_jct_s", s->avg_jct_s);
    summary_set_real(o, "median_jct_s", s->median_jct_s);
    summary_set_real(o, "p99_jct_s", s->p99_jct_s);
    summary_set_real(o, "makespan_s", s->makespan_s);
    summary_set_real(o, "utilisation", s->utilisation);
    json_set_int(o, "restarts", s->restarts);
    json_set_int(o, "plans", (int64_t)s->plans);
    summary_set_real(o, "plan_ms_mean", s->plan_ms_mean);
    summary_set_real(o, "plan_ms_max", s->plan_ms_max);
    summary_set_real(o, "tardiness_s", s->tardiness_s);
    summary_set_real(o, "weighted_tardiness_s", s->weighted_tardiness_s);
    summary_set_real(o, "tardy2x_s", s->tardy2x_s);
    json_set_int(o, "voluntary_stops_per_job_hour_max", s->stops_per_hour_max);
    json_set_int(o, "events", (int64_t)s->events);
    if (s->predicted[0]) {
        summary_set_real(o, "calibration_80", s->calibration[0]);
        json_set_int(o, "predicted", s->predicted[0]);
    }
    if (s->predicted[1]) {
        summary_set_real(o, "calibration_80_at_start", s->calibration[1]);
        json_set_int(o, "predicted_at_start", s->predicted[1]);
    }
    return o;
}

struct json *sim_jobs_json(const struct sim_trace *t, const struct sim_result *r)
{
    struct json *list = json_new_array();

    for (size_t i = 0; i < t->jobs.n; i++) {
        const struct sim_outcome *o = &r->jobs[i];
        struct json *row = json_new_object();
        json_set_str(row, "job", t->jobs.p[i].name);
        summary_set_real(row, "submit_s", t->jobs.p[i].arrival_s);
        summary_set_real(row, "start_s", o->start_s);
        summary_set_real(row, "end_s", o->end_s);
        json_set_int(row, "attempts", o->attempts);
        summary_set_real(row, "gpu_s", o->gpu_s);
        json_push_take(list, row);
    }
    return list;
}
