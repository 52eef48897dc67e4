/* sim.h - GPU schedules on a virtual clock
 *
 * A trace says which jobs come when, a table how fast each kind of job is, alone and next to
 * others.  sim_run plays one policy over them: `berth` is the planner of the daemon (sched/gpu.h),
 * which sees only what a scheduler may see; the others are the references it is compared with.
 * Nothing here reads clocks or files: texts, the seed and a timer come from the caller.
 */
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "base/vec.h"
#include "sched/gpu.h"

/* ---- the table: steps per second (table.c) ---- */
enum { SIM_TYPES_MAX = 512, SIM_ALONE = -1 };
/* The rates of all types.  sim_table_parse fills it, and it never changes afterwards. */
struct sim_table {
    struct arena arena;
    VEC(const char *) types;
    int32_t counts[GPU_COUNTS_MAX]; /* GPU counts that occur, ascending */
    int32_t n_counts;
    double *rates; /* [type][count][alone, then each other type]; 0 = cannot run so */
};
/* {"type": {"gpus": {"alone": steps/s, "other type": steps/s}}}; messages name the member. */
int sim_table_parse(struct str text, const char *name, struct sim_table *out, struct err *e);
/* Frees the members; the struct belongs to the caller. */
void sim_table_done(struct sim_table *t);
/* Steps per second on n GPUs; `other` a type or SIM_ALONE.  0: does not fit, or n is unknown. */
double sim_table_rate(const struct sim_table *t, uint32_t type, int32_t n, int32_t other);
int32_t sim_table_find(const struct sim_table *t, const char *type); /* -1 = not there */

/* ---- the trace (trace.c) ---- */
struct sim_job {
    const char *name;
    int32_t type;       /* of the table; without one, of the trace's own list */
    int32_t gpus;       /* asked for */
    double arrival_s;   /* from the first arrival */
    double isolated_s;  /* run time alone on `gpus` devices */
    double steps;       /* in all */
    double deadline_s;  /* on the same clock; 0 = none */
    int32_t epochs;     /* 0 = from isolated_s and the epoch length */
    int32_t priority;   /* -2 … 2, 0 = ordinary */
    uint32_t line, col; /* of the GPU count, for messages */
};
struct sim_trace {
    struct arena arena;
    VEC(struct sim_job) jobs; /* by arrival */
    VEC(const char *) types;  /* as named in the trace */
    const char *layout;       /* "berth", "philly", "alibaba-2020", "alibaba-2023" */
    bool typed;               /* it names the types of its jobs */
    bool log;                 /* of a cluster: not our own layout */
    /* Rows that were no usable GPU job; jobs that got fewer GPUs than they asked for. */
    uint32_t skipped, clipped;
};
/* Which layout it is, the header line tells.  Messages are "name:line:column: …". */
int sim_trace_parse(struct str text, const char *name, struct sim_trace *out, struct err *e);
void sim_trace_done(struct sim_trace *t);
/* Keeps `count` jobs from index `first` on, counted from 0, and moves the clock so that the
 * first of them arrives at 0.  ERR_INVALID: the trace has no such job. */
int sim_trace_cut(struct sim_trace *t, size_t first, size_t count, struct err *e);
/* Stretches the gaps between arrivals so that the work offered is `load` times what the GPUs can
 * do. Deadlines keep their distance from the arrival.  A trace whose jobs all arrive at once is
 * unchanged. */
void sim_trace_load(struct sim_trace *t, int32_t gpus, double load);
/* Resolves types and counts against the table (NULL: none) and the number of GPUs there are. */
int sim_trace_bind(struct sim_trace *t, const struct sim_table *table, int32_t gpus, uint64_t seed,
                   const char *name, struct err *e);

/* ---- a run (engine.c) ---- */
struct sim_conf {
    const struct sim_table *table; /* NULL: n GPUs are n^0.8 as fast, sharing costs 38 % */
    int32_t gpus;
    bool elastic;              /* berth may choose other GPU counts than asked for */
    double noise;              /* estimates are off by e^U(-noise, noise) */
    double epoch_s, restart_s; /* a first start costs half of restart_s */
    enum gpu_objective objective;
    int32_t share; /* jobs on one device at most, for berth */
    uint64_t seed;
    bool record;                    /* keep the bars of the chart */
    int64_t (*timer_us)(void *arg); /* for the time plans take; NULL = not measured */
    void (*progress)(void *arg, size_t done, size_t total); /* now and then; may be NULL */
    void *arg;
};

struct sim_outcome { /* of one job */
    /* Seconds on the clock of the trace; gpu_s counts device seconds, divided among jobs that
     * share. */
    double start_s, end_s, gpu_s;
    int32_t attempts, stops; /* stops: made room at the policy's request */
    /* 80 % intervals of the end as predicted when it came and when it started; hi 0 = none */
    double said_lo_s[2], said_hi_s[2];
};
struct sim_bar { /* one job on its devices, between two changes of anything */
    uint32_t job;
    double from_s, to_s;
    int32_t place, places; /* its part of the lane */
    bool halted;           /* it had to make room */
    struct gpu_set devices;
};
struct sim_summary {
    double avg_jct_s, median_jct_s, p99_jct_s, makespan_s, utilisation;
    /* Means over all jobs.  tardy2x_s ignores deadlines: it is the time beyond twice the
     * isolated run. */
    double tardiness_s, weighted_tardiness_s, tardy2x_s;
    double plan_ms_mean, plan_ms_max;
    uint64_t plans, events;
    int64_t restarts;
    int32_t stops_per_hour_max; /* of one job in any hour */
    double calibration[2];      /* share inside the interval said on arrival, at the start */
    int64_t predicted[2];       /* of so many */
};
struct sim_result {
    /* The name from sim_policies; static. */
    const char *policy;
    struct sim_outcome *jobs; /* as in the trace */
    VEC(struct sim_bar) bars;
    double busy_s; /* device seconds in use */
    uint64_t plans, events;
    double plan_us_sum, plan_us_max;
    int32_t stops_per_hour_max;
    struct sim_summary summary;
};
/* Names of the policies, NULL-terminated, and one line about each. */
struct sim_policy_name {
    const char *name, *text;
};
extern const struct sim_policy_name sim_policies[];
/* Plays one policy to the end of the last job.  ERR_INVALID: no such policy.  ERR_INTERNAL: the
 * policy asked for what cannot be, or left jobs waiting for ever.  On failure *out needs no
 * sim_result_done. */
int sim_run(const struct sim_trace *t, const struct sim_conf *conf, const char *policy,
            struct sim_result *out, struct err *e);
void sim_result_done(struct sim_result *r);

/* ---- what came of it (summary.c, report.c, chart.c) ---- */
void sim_summarise(const struct sim_trace *t, const struct sim_conf *conf, struct sim_result *r);
/* The caller frees the trees. */
struct json *sim_summary_json(const struct sim_result *r);
struct json *sim_jobs_json(const struct sim_trace *t, const struct sim_result *r);
/* The runs of several policies over one trace; everything is borrowed. */
struct sim_report {
    const char *file; /* of the trace */
    const struct sim_trace *trace;
    const struct sim_conf *conf;
    const struct sim_result *runs;
    size_t n;
};
/* For people: one line for each policy.  width 0 = no limit. */
void sim_report_table(const struct sim_report *r, size_t width, bool colour, struct buf *out);
/* One line for each job of each policy. */
void sim_report_csv(const struct sim_report *r, struct buf *out);
void sim_report_json(const struct sim_report *r, bool jobs, struct buf *out);
/* SVG: lanes of every policy over one time axis, and how completion times are distributed. */
void sim_chart(const struct sim_report *r, struct buf *out);
