/* cmd_show.c - berth show: everything about a job on one page */
#include "base/clock.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"
#include <math.h>
#include <stdio.h>

enum { SPARK_CELLS = 24 };

static void time_line(struct buf *b, const struct cli *c, const struct json *job, const char *key)
{
    int64_t at = time_of(job, key);
    char stamp[STAMP_TEXT_MAX], age[AGE_TEXT_MAX];

    if (!at)
        return;
    stamp_format(at, stamp);
    age_format(at, clock_wall(&clock_system), age);
    view_linef(b, c, key, "%s (%s)", stamp, age);
}

static void head(struct buf *b, const struct cli *c, const struct json *job)
{
    char text[400];

    job_outcome_text(job, text, sizeof(text));
    colour_addf(b, c->out.colour, COLOUR_BOLD, "job %lld  " STR_FMT,
                (long long)int_of(job, "number"), STR_ARG(text_of(job, "name")));
    buf_adds(b, "  ");
    colour_addf(b, c->out.colour, state_colour(text_of(job, "state")), "%s", text);
    buf_addc(b, '\n');
    view_line(b, c, "id", text_of(job, "id"));
}

static void needs_line(struct buf *b, const struct cli *c, const struct json *job)
{
    double cpus = json_real(json_get(job, "cpus"));
    int64_t mem = int_of(job, "mem_bytes"), gpus = int_of(job, "gpus");
    char size[UNIT_TEXT_MAX];
    AUTO(buf) struct buf t = {0};

    if (cpus > 0)
        buf_addf(&t, "%g CPU%s", cpus, cpus == 1 ? "" : "s");
    if (mem > 0) {
        size_format(mem, size);
        buf_addf(&t, "%s%s memory", t.n ? ", " : "", size);
    }
    if (gpus > 0)
        buf_addf(&t, "%s%lld GPU%s", t.n ? ", " : "", (long long)gpus, plural_end(gpus));
    view_line(b, c, "needs", buf_str(&t));
}

/* Nothing for a job that has not started.  CPU time and memory are left out while the record has
 * none. */
static void used_line(struct buf *b, const struct cli *c, const struct json *job)
{
    int64_t ran = job_runtime(job, clock_wall(&clock_system)), rss = int_of(job, "max_rss_bytes");
    char time[UNIT_TEXT_MAX], cpu[UNIT_TEXT_MAX], mem[UNIT_TEXT_MAX];

    if (ran < 0)
        return;
    duration_format(ran, time);
    duration_format(int_of(job, "cpu_ms"), cpu);
    size_format(rss, mem);
    if (rss)
        view_linef(b, c, "time", "%s, %s of CPU, %s of memory at most", time, cpu, mem);
    else
        view_line(b, c, "time", str_of(time));
}

/* A predicted time with its bounds.  Nothing without a prediction (s NULL or "at" null). */
static void span_line(struct buf *b, const struct cli *c, const char *title, const struct json *s)
{
    int64_t now = clock_wall(&clock_system);
    char at[STAMP_TEXT_MAX], from[STAMP_TEXT_MAX], to[STAMP_TEXT_MAX];

    if (!time_of(s, "at"))
        return;
    clock_format(time_of(s, "at"), now, at);
    clock_format(time_of(s, "from"), now, from);
    clock_format(time_of(s, "to"), now, to);
    view_linef(b, c, title, "about %s (%s-%s)", at, from, to);
}

/* Of a job that trains: epochs, GPUs and what is expected of it. */
static void training_lines(struct buf *b, const struct cli *c, const struct json *job)
{
    const struct json *t = json_get(job, "training"), *g = json_get(job, "gpu");
    const struct json *with = json_get(g, "shares_with");
    int64_t reserved = int_of(t, "reserved_bytes"), measured = int_of(t, "measured_bytes");
    int64_t stops = int_of(t, "preemptions");
    char a[UNIT_TEXT_MAX], m[UNIT_TEXT_MAX];
    AUTO(buf) struct buf gpus = {0};

    if (!t)
        return;
    if (int_of(t, "epochs"))
        view_linef(b, c, "epochs", "%lld of %lld, preempted %lld time%s%s",
                   (long long)int_of(t, "done"), (long long)int_of(t, "epochs"), (long long)stops,
                   plural_end(stops),
                   json_bool(json_get(t, "early")) ? ", ended before the last epoch" : "");
    else if (stops)
        view_linef(b, c, "preempted", "%lld time%s", (long long)stops, plural_end(stops));
    if (text_of(g, "devices").n)
        buf_addf(&gpus, "GPU " STR_FMT, STR_ARG(text_of(g, "devices")));
    for (size_t i = 0; i < json_len(with); i++)
        buf_addf(&gpus, "%s%lld", i ? ", " : ", shared with job ",
                 (long long)json_int(json_at(with, i)));
    view_line(b, c, "devices", buf_str(&gpus));
    size_format(reserved, a);
    size_format(measured, m);
    if (reserved || measured)
        view_linef(b, c, "gpu memory", "%s reserved on each, %s measured", reserved ? a : "all",
                   measured ? m : "nothing");
    span_line(b, c, "starts", text_of(g, "wait").n ? json_get(g, "start") : NULL);
    span_line(b, c, "ends", json_get(g, "finish"));
}

static void snapshot_line(struct buf *b, const struct cli *c, const struct json *snapshot)
{
    char size[UNIT_TEXT_MAX];

    size_format(int_of(snapshot, "bytes"), size);
    if (json_type(snapshot) == JSON_OBJECT)
        view_linef(b, c, "snapshot", STR_FMT ", %lld entries, %s", STR_ARG(text_of(snapshot, "id")),
                   (long long)int_of(snapshot, "entries"), size);
}

static void params_line(struct buf *b, const struct cli *c, const char *label,
                        const struct json *params)
{
    AUTO(buf) struct buf t = {0};

    params_format(&t, params);
    view_line(b, c, label, buf_str(&t));
}

static void show_facts(struct buf *b, const struct cli *c, const struct json *job)
{
    AUTO(buf) struct buf t = {0};
    const struct json *spec = json_get(job, "spec"), *after = json_get(job, "after");

    command_format(&t, json_get(job, "command"));
    view_line(b, c, "command", buf_str(&t));
    view_line(b, c, "directory", text_of(spec, "cwd"));
    snapshot_line(b, c, json_get(job, "snapshot"));
    params_line(b, c, "params", json_get(job, "params"));
    params_line(b, c, "logged", json_get(job, "logged_params"));
    view_linef(b, c, "project", STR_FMT ", queue " STR_FMT ", priority %lld, user " STR_FMT,
               STR_ARG(text_of(job, "project")), STR_ARG(text_of(job, "queue")),
               (long long)int_of(job, "priority"), STR_ARG(text_of(job, "user")));
    if (text_of(job, "batch").n)
        view_linef(b, c, "batch", STR_FMT " (" STR_FMT "), index %lld",
                   STR_ARG(text_of(job, "batch")), STR_ARG(text_of(job, "batch_name")),
                   (long long)int_of(job, "index"));
    view_line(b, c, "schedule", text_of(job, "schedule"));
    needs_line(b, c, job);
    buf_reset(&t);
    for (size_t i = 0; i < json_len(after); i++)
        buf_addf(&t, "%s%lld", i ? ", " : "job ", (long long)json_int(json_at(after, i)));
    view_line(b, c, "after", buf_str(&t));
    time_line(b, c, job, "created");
    time_line(b, c, job, "started");
    time_line(b, c, job, "ended");
    used_line(b, c, job);
    training_lines(b, c, job);
}

/* The last values of the buckets of a metric as a row of blocks. */
static void sparkline(struct buf *b, const struct json *buckets)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const struct json *last = json_get(buckets, "last");
    size_t n = MIN(json_len(last), (size_t)SPARK_CELLS), cells = 0;
    double v[SPARK_CELLS] = {0}, lo = INFINITY, hi = -INFINITY;

    for (size_t i = 0; i < n; i++) {
        const struct json *x = json_at(last, i);
        if (json_type(x) != JSON_INT && json_type(x) != JSON_REAL)
            continue; /* nan, inf */
        v[cells] = json_real(x);
        lo = fmin(lo, v[cells]);
        hi = fmax(hi, v[cells]);
        cells++;
    }
    if (cells < 2)
        return;
    buf_adds(b, "  ");
    /* Halved before the subtraction: hi - lo of two large numbers could overflow to infinity. */
    for (size_t i = 0; i < cells; i++)
        buf_adds(b, blocks[hi > lo ? (int)((v[i] / 2 - lo / 2) / (hi / 2 - lo / 2) * 7.0) : 3]);
}

/* A second request, only for jobs with metrics.  The page is shown without them when it fails. */
static void metrics(struct buf *b, struct cli *c, const struct json *job)
{
    const struct json *last = json_get(job, "metrics");
    AUTO(json) struct json *series = NULL;
    struct err e;

    if (!json_len(last) || cli_getf(c, &series, &e, "/v1/jobs/%lld/metrics?buckets=%d",
                                    (long long)int_of(job, "number"), SPARK_CELLS) < 0)
        return;
    for (struct json_it it = {0}; json_next(last, &it);) {
        AUTO(buf) struct buf t = {0};
        const struct json *v = json_get(it.val, "value");
        if (json_type(v) == JSON_STR)
            buf_addf(&t, "%s " STR_FMT, it.key, STR_ARG(json_str(v)));
        else
            buf_addf(&t, "%s %g", it.key, v ? json_real(v) : NAN);
        if (json_get(it.val, "step"))
            buf_addf(&t, " at step %lld", (long long)int_of(it.val, "step"));
        sparkline(&t, json_get(json_get(series, "metrics"), it.key));
        view_line(b, c, "metric", buf_str(&t));
    }
}

/* A tag is a text; an artifact is an object with a path. */
static void reports(struct buf *b, struct cli *c, const struct json *job)
{
    static const struct {
        const char *member, *label, *value;
    } kinds[] = {{"tags", "tag", "value"}, {"artifacts", "artifact", "path"}};

    metrics(b, c, job);
    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
        for (struct json_it it = {0}; json_next(json_get(job, kinds[k].member), &it);) {
            AUTO(buf) struct buf t = {0};
            struct str text =
                json_type(it.val) == JSON_STR ? json_str(it.val) : text_of(it.val, kinds[k].value);
            buf_addf(&t, "%s%s" STR_FMT, it.key, text.n ? " = " : "", STR_ARG(text));
            view_line(b, c, kinds[k].label, buf_str(&t));
        }
}

/* The page is shown without the notes when they cannot be had. */
static void notes(struct buf *b, struct cli *c, const struct json *job)
{
    AUTO(json) struct json *found = NULL;
    struct err e;

    if (cli_getf(c, &found, &e, "/v1/jobs/%lld/notes", (long long)int_of(job, "number")) < 0)
        return;
    const struct json *items = json_get(found, "items");
    for (size_t i = 0; i < json_len(items); i++)
        view_linef(b, c, "note", STR_FMT " (" STR_FMT ")",
                   STR_ARG(text_of(json_at(items, i), "text")),
                   STR_ARG(text_of(json_at(items, i), "author")));
}

static void runs(struct buf *b, const struct cli *c, const struct json *job)
{
    static const struct column cols[] = {
        {"RUN", "run", CELL_NUMBER, false, NULL},
        {"END", "state", CELL_TEXT, false, NULL},
        {"EXIT", "exit_code", CELL_EXIT, false, ""},
        {"STARTED", "started", CELL_AGE, false, ""},
        {"NODE", "node", CELL_TEXT, true, NULL},
        {"PID", "pid", CELL_NUMBER, false, ""},
        {"MEMORY", "max_rss_bytes", CELL_SIZE, false, ""},
        {"CPU", "cpu_user_ms", CELL_DURATION, false, ""},
        {"DETAIL", "detail", CELL_TEXT, true, ""},
    };

    if (!json_len(json_get(job, "runs")))
        return;
    buf_addc(b, '\n');
    view_table(b, json_get(job, "runs"), cols, ARRAY_SIZE(cols), c->out.width, c->out.colour);
}

static int show_run(struct cli *c, const void *opts UNUSED, const struct operands *ops)
{
    AUTO(json) struct json *all = json_new_array();
    struct err e = {0};

    for (size_t i = 0; i < ops->n; i++) {
        struct json *job = NULL;
        if (resource_get(c, "jobs", ops->p[i], "", &job, &e) < 0)
            return cli_fail(&e);
        json_push_take(all, job);
    }
    if (cli_json(c) || cli_csv(c)) {
        view_rows(c, all, job_columns, n_job_columns);
    } else {
        AUTO(buf) struct buf b = {0};
        for (size_t i = 0; i < json_len(all); i++) {
            const struct json *job = json_at(all, i);
            buf_adds(&b, i ? "\n" : "");
            head(&b, c, job);
            show_facts(&b, c, job);
            reports(&b, c, job);
            notes(&b, c, job);
            runs(&b, c, job);
            cli_print(&b);
        }
    }
    return 0;
}

const struct command cmd_show = {
    BERTH_COMMAND(SECTION_LOOK, "show", "[OPTION…] JOB…", show_run, "show everything about a job"),
    .description = "A job is named by its number, its id, or a beginning of the id that only one "
                   "job has.",
    .groups = OPTION_GROUPS(&output_group, &common_group),
    .examples = EXAMPLES(
        {"berth show 42",
         "command, parameters, times, runs, metrics and the reason for the end of the job"},
        {"berth show 01k9", "by a unique beginning of the job's id"},
        {"berth show 42 -o json | jq '.[0].runs'", "for a program"}),
    OPERANDS("job", 1, SIZE_MAX, COMPLETE_JOB),
};
