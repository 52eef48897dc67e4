/* gpu_priv.h - what the files of the GPU planner share
 *
 * gpu_book.c      jobs, nodes and events        gpu_problem.c  freezing the question
 * gpu_learn.c     what an epoch end teaches     gpu_columns.c  who may share what, and its worth
 * gpu_estimate.c  what is left, what it weighs  gpu_solve.c    the search for the best plan
 * gpu_place.c     devices                       gpu_apply.c    carrying a plan out
 * gpu_predict.c   when it starts and ends       gpu_view.c     answers
 * gpu_memory.c    what is kept across restarts  gpu_hold.c     devices for who waited too long
 */
#pragma once
#include "base/map.h"
#include "base/rand.h"
#include "base/vec.h"
#include "sched/gpu.h"
#include "sched/speed.h"

enum {
    GPU_STOPS_PER_HOUR = 4, /* voluntary ones of one job */
    GPU_MIN_EPOCHS = 2,     /* a job runs so long before a voluntary stop … */
    GPU_MIN_RESTARTS = 10,  /* … and so many times the cost of a restart */
    GPU_URGENT = 2,         /* from this priority on a job goes before all below it */
    GPU_SEGMENTS = 4,
    GPU_SPREADS = 8
};

struct gjob;
/* Jobs that share hold exactly the same devices (gpu_place.c), so `jobs` is the same set on each
 * device of a run. */
struct gpu_device {
    struct gpu_device_state state;
    struct gjob *jobs[GPU_SHARE_MAX];
    int32_t n_jobs;
};
struct gpu_node {
    VEC(struct gpu_device) dev;
    bool open;
    int32_t usable, free; /* devices; free: usable and nobody on them */
};

/* Part of the present epoch, spent in one configuration. */
struct gpu_segment {
    struct speed_key key;
    double seconds;
};
/* What the plan in force has for a job. */
struct gpu_want {
    uint64_t plan; /* number of that plan; others are out of date */
    uint32_t column;
};

/* How far a job has come, up to gjob_run.mark_ms. */
struct gjob_progress {
    /* Complete epochs as the job reported them; after a stop, those the caller says its next run
     * goes on from.  The fraction goes back to 0 when the run stops. */
    int32_t done;     /* epochs */
    double frac;      /* of the present epoch */
    double service_s; /* on devices with its processes up */
    double ref_s;     /* the same in seconds alone on the reference count */
    int64_t waited_ms, waits_since_ms;
};

/* How fast a job runs: its own measurements and the guess made from them. */
struct gjob_pace {
    struct speed_own own;
    struct speed_guess base; /* log rate alone on the reference count */
    /* base_version says for which state of the family `base` was computed; own_version grows with
     * the job's own measurements. */
    uint64_t base_version, own_version;
    bool judged; /* the user's estimate was compared with the measured time */
    double last_total_s;
};

/* The present run of a job; `holds` says whether there is one. */
struct gjob_run {
    /* holds: devices are booked.  up: the processes run, so service counts.  stopping: a stop
     * request is out.  stop_now: the request is for device memory and cannot be withdrawn.
     * delivered: the job has seen the request.  adopted: the run began before a restart of the
     * caller. */
    bool holds, up, stopping, stop_now, delivered, adopted;
    uint32_t node;
    int32_t n; /* devices */
    struct gpu_set devices;
    struct gjob *with[SPEED_WITH_MAX]; /* jobs on the same devices */
    int32_t n_with;
    int64_t start_ms, mark_ms, epoch_ms; /* epoch_ms: start of the present one, 0 = not known */
    int32_t epochs_here;                 /* ended in this run */
    struct gpu_segment seg[GPU_SEGMENTS];
    int32_t n_seg;
};

/* What the runs of a job so far have cost. */
struct gjob_history {
    int32_t attempts, preemptions;
    int64_t stopped_ms[GPU_STOPS_PER_HOUR]; /* the latest preemptions, a ring */
    uint32_t n_stopped;
};

/* What the planner noted about a job at the last plan. */
struct gjob_plan {
    struct gpu_want want;
    int32_t at_problem; /* index of the job in the problem being frozen */
    bool in_question;
    int64_t refused_until; /* no start is tried before this time: may_start said no */
    int32_t refusals;
    double price, left_s;
    bool was_in; /* when the problem was frozen, the job ran in the column it has now */
};

/* When a job is expected to start and end. */
struct gjob_forecast {
    struct gpu_span start, finish;
    double left_at;   /* seconds until the job ends, if it keeps running */
    double said_s[2]; /* seconds to the end, as first predicted waiting and running */
    int64_t said_ms[2];
};

struct gjob {
    struct gpu_job say; /* .family is not kept */
    uint32_t family;
    size_t at;                         /* index in gpus.jobs */
    uint64_t serial;                   /* order of gpus_add */
    int64_t measured_bytes, mem_bytes; /* mem_bytes: the reservation, 0 = whole devices */
    bool apart;                        /* it is in a family that its estimate started */
    bool overfull;                     /* its devices run out of memory: the job has to stop */
    bool dirty;                        /* its record has to be saved again */
    struct gjob_progress progress;
    struct gjob_pace pace;
    struct gjob_run run;
    struct gjob_history history;
    struct gjob_plan plan;
    struct gjob_forecast forecast;
};

struct gpu_column { /* of the plan in force */
    uint64_t jobs[GPU_SHARE_MAX];
    int32_t n_jobs, n;
    uint32_t node;
    bool anchored; /* it keeps the devices of those of it who run */
    bool hold;     /* devices are held for jobs[0], which cannot start yet */
    double density;
};

/* Quantiles of log(actual / predicted), tracked. */
struct gpu_spread {
    double q[3]; /* at 10, 50 and 90 % */
    int64_t n;   /* jobs seen */
};

/* How far predictions were off in the past. */
struct gpu_trust {
    double said_var, said_weight;             /* users' estimates: variance of log(actual / said) */
    struct gpu_spread spread[2][GPU_SPREADS]; /* for waiting, running jobs; by length */
};

/* Predictions of starts and ends are made anew only when a plan has changed something. */
struct gpu_prediction {
    uint64_t wanted, made; /* serial numbers: of the last change, of the last prediction */
    int64_t made_ms;
};

struct gpus {
    struct gpu_conf conf;
    struct gpu_hands hands;
    struct speeds *speeds;
    struct speed_fact *facts; /* what of them the planner looks up; see gpu_problem.c */
    size_t facts_cap;
    uint64_t facts_version;
    VEC(struct gpu_node) nodes;
    VEC(struct gjob *) jobs;
    struct map_u64 by_id;
    struct map_u64 saved; /* records of jobs that were recalled and not added yet: char * */
    uint64_t serial;
    size_t n_running;
    /* The plan in force.  planned_ms is when the last problem was frozen; tick_ms is when the next
     * plan is due although nothing has happened, -1 = never. */
    bool due;     /* a full plan is wanted */
    bool solving; /* a problem is out */
    bool unsaved; /* the record of all has changed */
    int64_t planned_ms, tick_ms;
    uint64_t plan;
    VEC(struct gpu_column) columns;
    VEC(uint64_t) forgotten, changed; /* jobs whose record has to be kept anew */
    struct gpu_trust trust;
    struct gpu_prediction prediction;
};

/* ---- gpu_book.c ---- */
/* NULL when no such job was added.  The pointer is good until gpus_remove. */
struct gjob *gpu_find(const struct gpus *g, uint64_t job);
/* Asks for a full plan.  Plans stay replan_ms apart, so a burst of events makes one plan. */
void gpu_due(struct gpus *g);
/* Begins a run: ends the waiting time and resets what is counted per run.  gpu_hold follows. */
void gpu_begin_run(struct gjob *j, int64_t now);
/* Brings progress up to now; called before anything about a run changes. */
void gpu_mark(struct gpus *g, struct gjob *j, int64_t now);

/* ---- gpu_learn.c ---- */
/* An epoch of a running job has ended; epoch_s is its length as the job reported it, 0 = not
 * reported.  Call gpu_mark first, and count the epoch afterwards. */
void gpu_learn_epoch(struct gpus *g, struct gjob *j, int64_t now, double epoch_s);

/* ---- gpu_estimate.c ---- */
/* The present configuration of a running job: its device count and the families beside it. */
struct speed_key gpu_key(const struct gjob *j);
/* Work of one epoch in the unit of the family; 1 when the job did not state any. */
double gpu_work(const struct gjob *j);
/* The family of a job that is new: the one it names, or one of those that were started beside it
 * because an estimate did not go with what the family said and showed. */
uint32_t gpu_family(struct gpus *g, const struct gpu_job *say, bool *apart);
/* Computes pace.base again when the job or its family has learnt something since. */
void gpu_base_update(const struct gpus *g, struct gjob *j);
/* Logarithm of the work per second in that configuration: measured, as far as it was. */
double gpu_log_rate(const struct gpus *g, struct gjob *j, const struct speed_key *k);
/* The same rate relative to the job alone on its reference count. */
double gpu_speed(const struct gpus *g, struct gjob *j, const struct speed_key *k);
/* Seconds of the whole job, and of what is left of it, alone on the reference count; at least 1 s
 * is left of a job that has not ended. */
double gpu_total_s(const struct gpus *g, struct gjob *j);
double gpu_left_s(const struct gpus *g, struct gjob *j, int64_t now);
/* Service so far as a share of the whole: above 1 the job runs longer than expected. */
double gpu_overrun(const struct gpus *g, struct gjob *j);
/* What one second of delay of this job costs in the plan: priority, raised by a long wait and
 * lowered by an overrun. */
double gpu_weight(const struct gpus *g, struct gjob *j, int64_t now);
/* Seconds that a restart of this job costs: measured, or the configured assumption. */
double gpu_restart_s(const struct gpus *g, const struct gjob *j);
/* May the job be preempted now?  urgent: for a job of priority GPU_URGENT or above, which need not
 * wait until the run has paid for its own start. */
bool gpu_may_stop(const struct gpus *g, struct gjob *j, int64_t now, bool urgent);

/* ---- gpu_place.c ---- */
/* Bytes of a device that reservations may use; only of a device whose memory is known. */
int64_t gpu_room(const struct gpus *g, const struct gpu_device *d);
/* Picks n free devices of the node with room for mem bytes each, the smallest ones first: large
 * devices stay for the jobs that need them.  False leaves *out alone. */
bool gpu_pick(const struct gpus *g, uint32_t node, int32_t n, int64_t mem, struct gpu_set *out);
/* Is there memory for j next to host and the jobs beside host?  False when one of them has no
 * reservation, since such a job owns its devices whole. */
bool gpu_memory_fits(const struct gpus *g, const struct gjob *j, const struct gjob *host);
/* The same, and all of them share devices and stay within the limit of jobs per device. */
bool gpu_fits_with(const struct gpus *g, const struct gjob *j, const struct gjob *host);
/* Puts a job on devices, and takes it off again.  Both tell the jobs beside it. */
void gpu_hold(struct gpus *g, struct gjob *j, int64_t now, uint32_t node, const struct gpu_set *s);
void gpu_release(struct gpus *g, struct gjob *j, int64_t now);
/* Counts the usable and the free devices of a node again after their states changed. */
void gpu_count_free(struct gpus *g, uint32_t node);

/* ---- gpu_apply.c ---- */
/* Marks a job on every shared device that is about to run out of memory; gpus_apply stops it. */
void gpu_guard(struct gpus *g, int64_t now);

/* ---- gpu_predict.c ---- */
void gpu_predict(struct gpus *g, int64_t now);
void gpu_predict_learn(struct gpus *g, struct gjob *j, int64_t now);

/* ---- gpu_memory.c ---- */
void gpu_keep(struct gpus *g); /* hands what changed to `remember` */
void gpu_recall_job(struct gpus *g, struct gjob *j);
