/* cmd_simulate.c - berth simulate: what would become of these jobs on so many GPUs?
 *
 * Reads the trace and the table, runs each policy in turn, prints what came of it.  The simulation
 * itself and its reports are src/simulate; this file owns files, options and progress.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/view.h"
#include "simulate/sim.h"
#include <time.h>

enum { TRACE_BYTES_MAX = 1 << 30, TABLE_BYTES_MAX = 64 << 20 };
enum { RUNS_MAX = 16, SAY_AFTER_MS = 2000, SAY_EVERY_MS = 10000, DRAW_EVERY_MS = 200 };

struct simulate_opts {
    const char *table, *policy, *objective, *noise, *load, *svg;
    struct opt_num gpus, epoch, restart, share, seed, first, count;
    bool elastic, jobs, json;
};

/* One command: what was read, and the results of each policy in the order they were run. */
struct session {
    struct cli *c;
    const struct simulate_opts *o;
    const char *trace_name, *policy;
    struct sim_table table;
    struct sim_trace trace;
    struct sim_conf conf;
    struct sim_result runs[RUNS_MAX];
    size_t n_runs;
    int64_t start_ms, said_ms;
    bool drawn;
};

/* ---- progress ---- */
/* Real time: the simulation measures how long the planner takes. */
static int64_t timer_us(void *arg UNUSED)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Called often by the simulation; prints at most every 200 ms on a terminal, else every 10 s. */
static void show_progress(void *arg, size_t done, size_t total)
{
    struct session *s = arg;
    int64_t now = clock_mono(&clock_system);
    bool tty = s->c->err.is_tty;
    int64_t every = !s->said_ms ? 0 : tty ? DRAW_EVERY_MS : SAY_EVERY_MS;

    if (now - s->start_ms < SAY_AFTER_MS || now - s->said_ms < every)
        return;
    s->said_ms = now;
    s->drawn = tty;
    fprintf(stderr, "%sberth: policy %s: %zu of %zu jobs are done%s", tty ? "\r\033[K" : "",
            s->policy, done, total, tty ? "" : "\n");
    fflush(stderr);
}

/* Before any other output: the progress line has no line end on a terminal. */
static void clear_progress(struct session *s)
{
    if (s->drawn)
        fputs("\r\033[K", stderr);
    s->drawn = false;
}

/* ---- options ---- */
/* An option that was not given leaves *out as it is; the same holds for int_option. */
static int real_option(const char *text, const char *name, double lo, double hi, double *out,
                       struct err *e)
{
    if (!text)
        return 0;
    if (!str_to_double(str_of(text), out) || *out < lo || *out > hi)
        return err_set(e, ERR_INVALID, "--%s %s is not a number from %g to %g", name, text, lo, hi);
    return 0;
}

static int int_option(struct opt_num n, const char *name, int64_t lo, int64_t hi, int64_t *out,
                      struct err *e)
{
    if (!n.set)
        return 0;
    if (n.v < lo || n.v > hi)
        return err_set(e, ERR_INVALID, "--%s %lld is out of range; give %lld to %lld", name,
                       (long long)n.v, (long long)lo, (long long)hi);
    *out = n.v;
    return 0;
}

/* Options into s->conf, over the defaults of the command.  Milliseconds become seconds. */
static int read_options(struct session *s, struct err *e)
{
    const struct simulate_opts *o = s->o;
    int64_t gpus = 16, share = 2, seed = 0, epoch_ms = 600000, restart_ms = 60000;

    if (int_option(o->gpus, "gpus", 1, GPU_SET_MAX, &gpus, e) < 0 ||
        int_option(o->share, "share", 1, GPU_SHARE_MAX, &share, e) < 0 ||
        int_option(o->seed, "seed", 0, INT64_MAX, &seed, e) < 0 ||
        int_option(o->epoch, "epoch", 1, INT64_C(1) << 40, &epoch_ms, e) < 0 ||
        int_option(o->restart, "restart", 0, INT64_C(1) << 40, &restart_ms, e) < 0 ||
        real_option(o->noise, "noise", 0, 10, &s->conf.noise, e) < 0)
        return -1;
    s->conf.gpus = (int32_t)gpus;
    s->conf.share = (int32_t)share;
    s->conf.seed = (uint64_t)seed;
    s->conf.epoch_s = (double)epoch_ms / 1000;
    s->conf.restart_s = (double)restart_ms / 1000;
    s->conf.elastic = o->elastic;
    s->conf.objective =
        o->objective && !strcmp(o->objective, "tardiness") ? GPU_TARDINESS : GPU_JCT;
    s->conf.record = o->svg != NULL;
    s->conf.timer_us = timer_us;
    s->conf.progress = show_progress;
    s->conf.arg = s;
    return 0;
}

/* ---- files ---- */
static int read_table(struct session *s, struct err *e)
{
    AUTO_FREE char *text = NULL;
    size_t n;

    if (!s->o->table)
        return 0;
    if (file_read_all(s->o->table, TABLE_BYTES_MAX, &text, &n, e) < 0 ||
        sim_table_parse((struct str){text, n}, s->o->table, &s->table, e) < 0)
        return -1;
    s->conf.table = &s->table;
    return 0;
}

/* The order matters: cut the trace, bind its jobs to the table, then scale the load of what is
 * left. */
static int read_trace(struct session *s, struct err *e)
{
    AUTO_FREE char *text = NULL;
    size_t n;
    int64_t first = 0, count = INT64_MAX;
    double load = 0;

    if (int_option(s->o->first, "first", 0, INT64_MAX, &first, e) < 0 ||
        int_option(s->o->count, "count", 1, INT64_MAX, &count, e) < 0 ||
        real_option(s->o->load, "load", 0.001, 1000, &load, e) < 0)
        return -1;
    if (file_read_all(s->trace_name, TRACE_BYTES_MAX, &text, &n, e) < 0 ||
        sim_trace_parse((struct str){text, n}, s->trace_name, &s->trace, e) < 0)
        return -1;
    if (sim_trace_cut(&s->trace, (size_t)first, (size_t)count, e) < 0 ||
        sim_trace_bind(&s->trace, s->conf.table, s->conf.gpus, s->conf.seed, s->trace_name, e) < 0)
        return -1;
    if (load > 0)
        sim_trace_load(&s->trace, s->conf.gpus, load);
    return 0;
}

/* What the reader of the trace has changed, so that nobody compares different sets of jobs. */
static void say_notes(const struct session *s)
{
    const struct sim_trace *t = &s->trace;

    if (t->skipped)
        cli_say("%s (layout %s): skipped %u row%s of jobs that used no GPU or never ended",
                s->trace_name, t->layout, t->skipped, plural_end(t->skipped));
    if (t->clipped)
        cli_say(
            "%s (layout %s): %u job%s had more GPUs than --gpus or the table allows and got fewer",
            s->trace_name, t->layout, t->clipped, plural_end(t->clipped));
}

/* The file is replaced as a whole, or left as it was. */
static int write_chart(const struct sim_report *r, const char *path, struct err *e)
{
    AUTO(buf) struct buf b = {0};

    sim_chart(r, &b);
    if (b.overflow)
        return err_set(e, ERR_LIMIT,
                       "the chart would be larger than 1 GiB; cut the trace with --count");
    return file_write_atomic(path, b.p, b.n, 0644, e);
}

/* ---- the command ---- */
static bool ran_already(const struct session *s, const char *policy)
{
    for (size_t i = 0; i < s->n_runs; i++)
        if (!strcmp(s->runs[i].policy, policy))
            return true;
    return false;
}

static int run_policies(struct session *s, struct err *e)
{
    struct str rest = str_of(s->o->policy ? s->o->policy : "berth,fifo,srtf,las,pack");

    while (rest.n) {
        struct str word = str_trim(str_cut(rest, ',', &rest));
        AUTO_FREE char *name = xstrndup(word.p, word.n);
        if (ran_already(s, name))
            continue;
        s->policy = name;
        s->start_ms = clock_mono(&clock_system);
        s->said_ms = 0;
        int rc = sim_run(&s->trace, &s->conf, name, &s->runs[s->n_runs], e);
        clear_progress(s);
        if (rc < 0)
            return -1;
        s->n_runs++;
    }
    return s->n_runs ? 0
                     : err_set(e, ERR_INVALID,
                               "--policy names no policy; write --policy fifo, for example");
}

static int simulate_answer(struct session *s, struct err *e)
{
    const struct sim_report r = {s->trace_name, &s->trace, &s->conf, s->runs, s->n_runs};
    AUTO(buf) struct buf out = {0};

    if (s->o->svg && write_chart(&r, s->o->svg, e) < 0)
        return -1;
    if (s->o->json || cli_json(s->c))
        sim_report_json(&r, s->o->jobs, &out);
    else if (s->o->jobs)
        sim_report_csv(&r, &out);
    else
        sim_report_table(&r, s->c->out.width, s->c->out.colour, &out);
    if (out.overflow)
        return err_set(e, ERR_LIMIT, "the answer is larger than 1 GiB; cut the trace with --count");
    cli_print(&out);
    return 0;
}

static int simulate_run(struct cli *c, const void *opts, const struct operands *ops)
{
    struct session s = {.c = c, .o = opts, .trace_name = ops->p[0]};
    struct err e = {0};
    int rc = -1;

    if (read_options(&s, &e) == 0 && read_table(&s, &e) == 0 && read_trace(&s, &e) == 0) {
        say_notes(&s);
        rc = run_policies(&s, &e) < 0 ? -1 : simulate_answer(&s, &e);
    }
    for (size_t i = 0; i < s.n_runs; i++)
        sim_result_done(&s.runs[i]);
    sim_trace_done(&s.trace);
    sim_table_done(&s.table);
    return rc < 0 ? cli_fail(&e) : 0;
}

#define OWN(member) offsetof(struct simulate_opts, member)
static const struct opt world_opts[] = {
    {"gpus", 'g', OPT_INT, "N", OWN(gpus), "number of GPUs of the simulated node (default 16)"},
    {"table", 't', OPT_TEXT, "FILE", OWN(table),
     "steps per second of each type of job, alone and in pairs; without it n GPUs are n^0.8 as "
     "fast as one and company costs 38 %",
     COMPLETE_FILE},
    {"epoch", 0, OPT_DURATION, "TIME", OWN(epoch),
     "length of an epoch, at whose end a job can stop (default 10m)"},
    {"restart", 0, OPT_DURATION, "TIME", OWN(restart),
     "duration of a restart; a first start takes half of it (default 60s)"},
    {"noise", 0, OPT_TEXT, "X", OWN(noise),
     "estimates of run times are wrong by a factor of up to e^X either way (default 0)"},
    {"seed", 0, OPT_INT, "N", OWN(seed), "seed of the random numbers (default 0)"},
};
static const struct opt trace_opts[] = {
    {"first", 0, OPT_INT, "N", OWN(first), "begin with job N of the trace, counted from 0"},
    {"count", 'n', OPT_INT, "N", OWN(count), "take at most N jobs"},
    {"load", 0, OPT_TEXT, "X", OWN(load),
     "scale the time between arrivals until the jobs need X times the capacity of the GPUs"},
};
static const struct opt policy_opts[] = {
    {"policy", 'p', OPT_TEXT, "NAMES", OWN(policy),
     "separated by commas: berth, fifo, srtf, las, pack (default all)", COMPLETE_CHOICES,
     "berth|fifo|srtf|las|pack"},
    {"elastic", 0, OPT_FLAG, NULL, OWN(elastic),
     "the policy berth may choose the number of GPUs of a job, among those in the table"},
    {"objective", 0, OPT_CHOICE, "WHAT", OWN(objective),
     "what the policy berth minimises: completion times (jct, the default) or lateness",
     COMPLETE_CHOICES, "jct|tardiness"},
    {"share", 0, OPT_INT, "N", OWN(share),
     "policy berth: largest number of jobs on one GPU (default 2)"},
};
static const struct opt result_opts[] = {
    {"jobs", 'j', OPT_FLAG, NULL, OWN(jobs),
     "one line for each job: submitted, started, ended, attempts, GPU-seconds"},
    {"json", 0, OPT_FLAG, NULL, OWN(json), "the same as -o json"},
    {"svg", 0, OPT_TEXT, "FILE", OWN(svg),
     "draw the schedules and the distribution of completion times", COMPLETE_FILE},
};
static const struct opt_group world_group = OPT_GROUP("The machine", world_opts);
static const struct opt_group trace_group = OPT_GROUP("Which jobs", trace_opts);
static const struct opt_group policy_group = OPT_GROUP("Policies", policy_opts);
static const struct opt_group result_group = OPT_GROUP("Results", result_opts);
const struct command cmd_simulate = {
    BERTH_COMMAND(SECTION_LOOK, "simulate", "[OPTION…] TRACE.csv", simulate_run,
                  "simulate GPU jobs and the planner on a virtual clock"),
    .description = "The simulation runs the daemon's planner with the same information: estimates "
                   "at submission, and epoch times as they are measured. The other policies are "
                   "references: they give every job the GPUs that it asks for.\n\nTRACE.csv has "
                   "the columns job,arrival,type,gpus,steps,isolated_s (times in seconds; "
                   "isolated_s is the run time alone; deadline, priority and epochs may follow). "
                   "The Philly log (timestamp,duration,num_gpus), Alibaba's task table of 2020 "
                   "(job_name,inst_num,status,start_time,end_time,plan_gpu) and its pod list of "
                   "2023 (name,num_gpu,creation_time,deletion_time,scheduled_time) are read too; "
                   "the header line decides the format.",
    OPTIONS(struct simulate_opts, &world_group, &trace_group, &policy_group, &result_group,
            &output_group),
    .examples = EXAMPLES(
        {"berth simulate trace.csv --table v100.json --gpus 8", "all policies, one line each"},
        {"berth simulate trace.csv -t v100.json -p berth,srtf --elastic --noise 1 --json",
         "with estimates that are wrong by a factor of up to e, as JSON"},
        {"berth simulate philly.csv --gpus 64 --count 2000 --load 0.9 --svg out.svg",
         "the first jobs of a cluster's log, with a chart of the schedules"}),
    OPERANDS("trace", 1, 1, COMPLETE_FILE),
};
