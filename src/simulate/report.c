/* report.c - the results of several policies as a table, as CSV and as JSON */
#include "base/table.h"
#include "base/units.h"
#include "base/util.h"
#include "simulate/sim.h"
#include <math.h>

static void duration_cell(struct table *t, double seconds)
{
    char text[UNIT_TEXT_MAX];

    duration_format((int64_t)llround(seconds) * 1000, text);
    table_cell(t, str_of(text), COLOUR_NONE);
}

static void report_number_cell(struct table *t, int decimals, double v)
{
    char text[32];

    snprintf(text, sizeof(text), "%.*f", decimals, v);
    table_cell(t, str_of(text), COLOUR_NONE);
}

void sim_report_table(const struct sim_report *r, size_t width, bool colour, struct buf *out)
{
    static const char *const titles[] = {"POLICY",   "AVG-JCT", "MEDIAN",   "P99",    "MAKESPAN",
                                         "LATE(2×)", "UTIL",    "RESTARTS", "MS/PLAN"};
    struct table *t = table_new();

    for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
        table_column(t, titles[i], i ? TABLE_RIGHT : TABLE_LEFT, false);
    for (size_t i = 0; i < r->n; i++) {
        const struct sim_summary *s = &r->runs[i].summary;
        const double times[] = {s->avg_jct_s, s->median_jct_s, s->p99_jct_s, s->makespan_s,
                                s->tardy2x_s};
        table_cell(t, str_of(r->runs[i].policy), COLOUR_BOLD);
        for (size_t k = 0; k < ARRAY_SIZE(times); k++)
            duration_cell(t, times[k]);
        report_number_cell(t, 3, s->utilisation);
        report_number_cell(t, 0, (double)s->restarts);
        report_number_cell(t, 3, s->plan_ms_mean);
    }
    table_render(t, width, colour, out);
    table_free(t);
    for (size_t i = 0; i < r->n; i++) {
        const struct sim_summary *s = &r->runs[i].summary;
        if (s->predicted[0])
            buf_addf(out,
                     "%s: %.0f %% of jobs ended in the 80 %% interval said at their arrival, "
                     "%.0f %%\n       in that said at their start\n",
                     r->runs[i].policy, 100 * s->calibration[0], 100 * s->calibration[1]);
    }
}

void sim_report_csv(const struct sim_report *r, struct buf *out)
{
    buf_adds(out, "policy,job,submit_s,start_s,end_s,attempts,gpu_s\n");
    for (size_t k = 0; k < r->n; k++)
        for (size_t i = 0; i < r->trace->jobs.n; i++) {
            const struct sim_outcome *o = &r->runs[k].jobs[i];
            const struct sim_job *j = &r->trace->jobs.p[i];
            buf_addf(out, "%s,", r->runs[k].policy);
            csv_add_field(out, str_of(j->name));
            buf_addf(out, ",%.1f,%.1f,%.1f,%d,%.1f\n", j->arrival_s, o->start_s, o->end_s,
                     o->attempts, o->gpu_s);
        }
}

void sim_report_json(const struct sim_report *r, bool jobs, struct buf *out)
{
    AUTO(json) struct json *top = json_new_object();
    struct json *all = json_new_object(), *t = json_new_object();

    json_set_str(t, "file", r->file);
    json_set_str(t, "layout", r->trace->layout);
    json_set_int(t, "jobs", (int64_t)r->trace->jobs.n);
    json_set_int(t, "gpus", r->conf->gpus);
    json_set_int(t, "skipped", r->trace->skipped);
    json_set_int(t, "clipped", r->trace->clipped);
    json_set_take(top, "trace", t);
    for (size_t i = 0; i < r->n; i++) {
        struct json *p = sim_summary_json(&r->runs[i]);
        if (jobs)
            json_set_take(p, "jobs", sim_jobs_json(r->trace, &r->runs[i]));
        json_set_take(all, r->runs[i].policy, p);
    }
    json_set_take(top, "policies", all);
    json_write(out, top, JSON_PRETTY);
    buf_addc(out, '\n');
}
