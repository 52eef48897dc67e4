/* trace.c - which jobs come when: CSV files of several layouts as one list
 *
 * The header line decides which layout a file has; the order of columns is free and columns that
 * are not known are passed over.  docs/simulate.md describes how each layout is read.
 *
 *   berth         job,arrival,type,gpus,steps,isolated_s [deadline,priority,epochs]
 *   philly        timestamp,duration,num_gpus,gpu_time,cluster
 *   alibaba-2020  job_name,task_name,inst_num,status,start_time,end_time,…,plan_gpu,gpu_type
 *   alibaba-2023  name,…,num_gpu,gpu_milli,…,pod_phase,creation_time,deletion_time,scheduled_time
 *
 * Our own layout is taken at its word: whatever cannot be is an error with its place.  Logs of
 * clusters hold jobs without GPUs and jobs that never ran; those are passed over and counted.
 */
#include "base/clock.h"
#include "base/map.h"
#include "simulate/csv_priv.h"
#include "simulate/sim.h"
#include <math.h>

enum col {
    COL_NAME,
    COL_ARRIVAL,
    COL_TYPE,
    COL_GPUS,
    COL_STEPS,
    COL_ISOLATED,
    COL_DEADLINE,
    COL_PRIORITY,
    COL_EPOCHS,
    COL_STARTED,
    COL_ENDED,
    COL_STATE,
    COL_INSTANCES,
    COL_MAX
};
#define BIT(c) (1u << (c))

struct reader {
    struct sim_trace *t;
    struct csv csv;
    const char *name;
    const struct layout *layout;
    int where[COL_MAX]; /* cell of each column, -1 = not there */
    struct map_str types;
};
/* How one kind of file is read: the header of each column, and which columns must be there. */
struct layout {
    const char *name;
    const char *headers[COL_MAX];
    unsigned needed;
    /* 1 = *j is filled, 0 = passed over */
    int (*read)(struct reader *r, struct sim_job *j, struct err *e);
};

enum { RUN_MAX_S = 1000000000 }; /* 30 years: longer is a mistake in the units */

static struct str trace_cell(const struct reader *r, enum col c)
{
    int i = r->where[c];

    return i < 0 || (size_t)i >= r->csv.n ? (struct str){"", 0} : r->csv.cells[i];
}

/* A cell that is missing is said to be at the end of its row. */
static uint32_t cell_col(const struct reader *r, enum col c)
{
    int i = r->where[c];

    if (i >= 0 && (size_t)i < r->csv.n)
        return r->csv.cols[i];
    return r->csv.cols[r->csv.n - 1] + (uint32_t)r->csv.cells[r->csv.n - 1].n;
}

static int trace_bad_cell(const struct reader *r, enum col c, const char *remedy, struct err *e)
{
    struct str s = trace_cell(r, c);

    return err_set(e, ERR_INVALID, "%s:%u:%u: column %s: \"%.*s\" is not usable; %s", r->name,
                   r->csv.line, cell_col(r, c), r->layout->headers[c], (int)MIN(s.n, (size_t)40),
                   s.p, remedy);
}

static int trace_number(const struct reader *r, enum col c, double lo, double hi, double *out,
                        const char *remedy, struct err *e)
{
    double v;

    if (!str_to_double(trace_cell(r, c), &v) || v < lo || v > hi)
        return trace_bad_cell(r, c, remedy, e);
    *out = v;
    return 0;
}

static int whole(const struct reader *r, enum col c, int64_t lo, int64_t hi, int32_t *out,
                 const char *remedy, struct err *e)
{
    int64_t v;

    if (!str_to_i64(trace_cell(r, c), &v) || v < lo || v > hi)
        return trace_bad_cell(r, c, remedy, e);
    *out = (int32_t)v;
    return 0;
}

/* Numbers the types in the order in which the trace names them. */
static int32_t trace_type(struct reader *r, struct str name)
{
    uintptr_t known = (uintptr_t)map_str_get(&r->types, name);

    if (known)
        return (int32_t)known - 1;
    vec_push(&r->t->types, arena_strndup(&r->t->arena, name.p, name.n));
    map_str_put(&r->types, name, (void *)(uintptr_t)r->t->types.n); /* index + 1: NULL is absent */
    return (int32_t)r->t->types.n - 1;
}

/* A log without names gets j0, j1, … */
static void name_job(struct reader *r, struct sim_job *j, struct str text)
{
    j->name = text.n ? arena_strndup(&r->t->arena, text.p, text.n)
                     : arena_printf(&r->t->arena, "j%zu", r->t->jobs.n);
}

/* ---- our own ---- */
static int read_optional(struct reader *r, struct sim_job *j, struct err *e)
{
    if (trace_cell(r, COL_STEPS).n && trace_number(r, COL_STEPS, 1e-9, 1e18, &j->steps,
                                                   "give the number of steps, above 0", e) < 0)
        return -1;
    if (trace_cell(r, COL_DEADLINE).n &&
        trace_number(r, COL_DEADLINE, 0, 1e12, &j->deadline_s,
                     "give seconds on the clock of the arrivals", e) < 0)
        return -1;
    if (trace_cell(r, COL_PRIORITY).n &&
        whole(r, COL_PRIORITY, -2, 2, &j->priority, "give -2 to 2, 0 is ordinary", e) < 0)
        return -1;
    if (trace_cell(r, COL_EPOCHS).n &&
        whole(r, COL_EPOCHS, 1, 1000000, &j->epochs, "give a whole number, 1 or more", e) < 0)
        return -1;
    return 0;
}

static int read_own(struct reader *r, struct sim_job *j, struct err *e)
{
    name_job(r, j, trace_cell(r, COL_NAME));
    j->type = trace_type(r, trace_cell(r, COL_TYPE));
    if (trace_number(r, COL_ARRIVAL, 0, 1e12, &j->arrival_s, "give seconds, 0 or more", e) < 0 ||
        whole(r, COL_GPUS, 1, GPU_SET_MAX, &j->gpus, "give 1 to 1024", e) < 0 ||
        trace_number(r, COL_ISOLATED, 1e-3, RUN_MAX_S, &j->isolated_s,
                     "give the seconds it runs alone on its GPUs, above 0", e) < 0)
        return -1;
    return read_optional(r, j, e) < 0 ? -1 : 1;
}

/* ---- logs of clusters ---- */
/* Seconds, or "2017-10-03 05:58:42" with or without a zone; empty and "None" are no time. */
static int moment(const struct reader *r, enum col c, double *out, struct err *e)
{
    struct str s = trace_cell(r, c);
    char text[TIME_TEXT_MAX + 8];
    int64_t ms;

    *out = -1;
    if (!s.n || str_eq_c(s, "None") || str_eq_c(s, "nan"))
        return 0;
    if (str_to_double(s, out) && *out >= 0 && *out < 1e13)
        return 0;
    if (s.n >= 19 && s.n < TIME_TEXT_MAX) {
        bool zone = s.p[s.n - 1] == 'Z' || memchr(s.p + 19, '+', s.n - 19) ||
                    memchr(s.p + 19, '-', s.n - 19);
        snprintf(text, sizeof(text), "%.*sT%.*s%s", 10, s.p, (int)s.n - 11, s.p + 11,
                 zone ? "" : "Z");
        if (time_parse_utc(str_of(text), &ms)) {
            *out = (double)ms / 1000;
            return 0;
        }
    }
    return trace_bad_cell(r, c, "give seconds or a time such as 2017-10-03 05:58:42", e);
}

/* GPUs of a log: 0 when the cell is empty. */
static int trace_gpus(const struct reader *r, double *out, struct err *e)
{
    *out = 0;
    return trace_cell(r, COL_GPUS).n
               ? trace_number(r, COL_GPUS, 0, 1e9, out, "give a number, 0 or more", e)
               : 0;
}

/* Logs contain jobs that never ran or used no GPU: 0 skips them.  Fractions of a GPU are rounded
 * up. */
static int take_log_row(struct sim_job *j, double arrival, double run_s, double gpus)
{
    if (arrival < 0 || run_s < 1 || run_s > RUN_MAX_S || gpus <= 0)
        return 0;
    j->arrival_s = arrival;
    j->isolated_s = run_s;
    j->gpus = (int32_t)MIN(ceil(gpus), (double)GPU_SET_MAX);
    return 1;
}

static int read_philly(struct reader *r, struct sim_job *j, struct err *e)
{
    double at, gpus, run_s = 0;

    if (moment(r, COL_ARRIVAL, &at, e) < 0 || trace_gpus(r, &gpus, e) < 0)
        return -1;
    if (trace_cell(r, COL_ISOLATED).n &&
        trace_number(r, COL_ISOLATED, -1e12, 1e12, &run_s, "give the run time in seconds", e) < 0)
        return -1;
    name_job(r, j, (struct str){"", 0});
    return take_log_row(j, at, run_s, gpus);
}

static int read_2020(struct reader *r, struct sim_job *j, struct err *e)
{
    double from, to, percent, inst = 1;

    /* A job that failed or still runs does not tell how long its work takes. */
    if (trace_cell(r, COL_STATE).n && !str_eq_c(trace_cell(r, COL_STATE), "Terminated"))
        return 0;
    if (moment(r, COL_ARRIVAL, &from, e) < 0 || moment(r, COL_ENDED, &to, e) < 0 ||
        trace_gpus(r, &percent, e) < 0)
        return -1;
    if (trace_cell(r, COL_INSTANCES).n &&
        trace_number(r, COL_INSTANCES, 0, 1e6, &inst, "give the number of instances", e) < 0)
        return -1;
    if (r->where[COL_GPUS] < 0)
        percent = 100; /* the table of jobs does not say */
    name_job(r, j, trace_cell(r, COL_NAME));
    return take_log_row(j, from, to < 0 || from < 0 ? 0 : to - from, ceil(percent / 100) * inst);
}

static int read_2023(struct reader *r, struct sim_job *j, struct err *e)
{
    double made, started, gone, gpus;

    if (moment(r, COL_ARRIVAL, &made, e) < 0 || moment(r, COL_ENDED, &gone, e) < 0 ||
        moment(r, COL_STARTED, &started, e) < 0 || trace_gpus(r, &gpus, e) < 0)
        return -1;
    /* A pod without a scheduling time is taken to have started when it was created. */
    if (started < 0)
        started = made;
    name_job(r, j, trace_cell(r, COL_NAME));
    return take_log_row(j, made, gone < 0 || made < 0 ? 0 : gone - started, gpus);
}

static const struct layout layouts[] = {
    {"berth",
     {[COL_NAME] = "job",
      [COL_ARRIVAL] = "arrival",
      [COL_TYPE] = "type",
      [COL_GPUS] = "gpus",
      [COL_STEPS] = "steps",
      [COL_ISOLATED] = "isolated_s",
      [COL_DEADLINE] = "deadline",
      [COL_PRIORITY] = "priority",
      [COL_EPOCHS] = "epochs"},
     BIT(COL_ARRIVAL) | BIT(COL_GPUS) | BIT(COL_ISOLATED),
     read_own},
    {"philly",
     {[COL_ARRIVAL] = "timestamp", [COL_ISOLATED] = "duration", [COL_GPUS] = "num_gpus"},
     BIT(COL_ARRIVAL) | BIT(COL_ISOLATED) | BIT(COL_GPUS),
     read_philly},
    {"alibaba-2023",
     {[COL_NAME] = "name",
      [COL_GPUS] = "num_gpu",
      [COL_ARRIVAL] = "creation_time",
      [COL_ENDED] = "deletion_time",
      [COL_STARTED] = "scheduled_time"},
     BIT(COL_ARRIVAL) | BIT(COL_ENDED) | BIT(COL_GPUS),
     read_2023},
    {"alibaba-2020",
     {[COL_NAME] = "job_name",
      [COL_INSTANCES] = "inst_num",
      [COL_STATE] = "status",
      [COL_ARRIVAL] = "start_time",
      [COL_ENDED] = "end_time",
      [COL_GPUS] = "plan_gpu"},
     BIT(COL_NAME) | BIT(COL_ARRIVAL) | BIT(COL_ENDED),
     read_2020},
};

static int find_cell(const struct csv *c, const char *header)
{
    for (size_t i = 0; header && i < c->n; i++)
        if (str_eq_c(c->cells[i], header))
            return (int)i;
    return -1;
}

/* Which layout has all it needs in this header line? */
static int read_header(struct reader *r, struct err *e)
{
    int got = csv_next(&r->csv, &r->t->arena, r->name, e);

    if (got < 0)
        return -1;
    for (size_t i = 0; got && i < ARRAY_SIZE(layouts); i++) {
        unsigned there = 0;
        for (int c = 0; c < COL_MAX; c++) {
            r->where[c] = find_cell(&r->csv, layouts[i].headers[c]);
            there |= r->where[c] >= 0 ? BIT(c) : 0;
        }
        if ((there & layouts[i].needed) == layouts[i].needed) {
            r->layout = &layouts[i];
            r->t->layout = layouts[i].name;
            r->t->typed = there & BIT(COL_TYPE);
            r->t->log = i > 0;
            return 0;
        }
    }
    return err_set(e, ERR_INVALID,
                   "%s:%u:1: the first line must name the columns of a known layout, such as "
                   "job,arrival,type,gpus,steps,isolated_s (berth help simulate lists them)",
                   r->name, got ? r->csv.line : 1);
}

static int read_rows(struct reader *r, struct err *e)
{
    int got;

    while ((got = csv_next(&r->csv, &r->t->arena, r->name, e)) > 0) {
        struct sim_job j = {.line = r->csv.line, .col = cell_col(r, COL_GPUS)};
        int took = r->layout->read(r, &j, e);
        if (took < 0)
            return -1;
        if (took)
            vec_push(&r->t->jobs, j);
        else
            r->t->skipped++;
    }
    if (got == 0 && !r->t->jobs.n)
        return err_set(e, ERR_INVALID,
                       "%s:%u:1: the trace holds no job that used a GPU; give at "
                       "least one row",
                       r->name, r->csv.line);
    return got;
}

/* Rows of the same moment keep their order in the file. */
static int by_arrival(const void *a, const void *b)
{
    const struct sim_job *x = a, *y = b;

    if (x->arrival_s != y->arrival_s)
        return x->arrival_s < y->arrival_s ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

/* Sorted, and logs begin at 0; our own layout keeps its clock, which deadlines refer to. */
static void set_clock(struct sim_trace *t)
{
    qsort(t->jobs.p, t->jobs.n, sizeof(*t->jobs.p), by_arrival);
    double first = t->log ? t->jobs.p[0].arrival_s : 0;
    for (size_t i = 0; i < t->jobs.n; i++)
        t->jobs.p[i].arrival_s -= first;
}

int sim_trace_parse(struct str text, const char *name, struct sim_trace *out, struct err *e)
{
    struct sim_trace t = {0};
    struct reader r = {.t = &t, .name = name};

    csv_init(&r.csv, text);
    int rc = read_header(&r, e);
    if (rc == 0)
        rc = read_rows(&r, e);
    map_str_done(&r.types);
    if (rc < 0) {
        sim_trace_done(&t);
        return -1;
    }
    set_clock(&t);
    *out = t;
    return 0;
}

void sim_trace_done(struct sim_trace *t)
{
    vec_done(&t->jobs);
    vec_done(&t->types);
    arena_done(&t->arena);
}
