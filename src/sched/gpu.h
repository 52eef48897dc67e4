/* gpu.h - who gets which GPUs, for how long and next to whom
 *
 * A deterministic object: events in, each with its time, and what is to be done out through
 * `struct gpu_hands`.  It has no clock, no threads and no I/O, so the controller and the simulator
 * drive the same code.  It knows only what a scheduler may know: what jobs were said to need and
 * what was measured at their epoch ends (speed.h).
 *
 * Times are milliseconds of the caller's clock.  A job is known from gpus_add to gpus_remove; in
 * between it waits or holds devices.  Planning is three steps so that a long plan never delays
 * anybody: gpus_plan_begin freezes the question, gpu_problem_solve answers it on any thread,
 * gpus_plan_end takes the answer; what changed meanwhile is looked at again.
 */
#pragma once
#include "base/buf.h"
#include "model/gpu_set.h"
#include "model/spec.h"

struct gpus;
struct gpu_problem;

/* What a plan makes small: the time until jobs end (GPU_JCT), or the time by which jobs miss their
 * deadlines (GPU_TARDINESS). */
enum gpu_objective { GPU_JCT, GPU_TARDINESS };
/* May a running job be stopped to make room for others?  NEVER: the job keeps its devices until it
 * ends.  EPOCH: the job is asked and exits at its next epoch end.  SIGNAL: the job gets its signal.
 */
enum gpu_preempt { GPU_PREEMPT_NEVER, GPU_PREEMPT_EPOCH, GPU_PREEMPT_SIGNAL };
enum { GPU_SHARE_MAX = 4, GPU_COUNTS_MAX = 12 };

struct gpu_conf { /* 0 = the default, in brackets */
    enum gpu_objective objective;
    int32_t per_device;     /* limit of jobs on one device [2], up to GPU_SHARE_MAX */
    int64_t reserve_bytes;  /* of each device, never given to a job [larger of 512 MiB, 3 %] */
    int64_t guard_bytes;    /* with less free memory the newest job must stop [256 MiB] */
    double restart_s;       /* assumed cost of a restart until it is measured [60] */
    double ageing_after_s;  /* a job gains priority after waiting this long [4 h] */
    double reserve_after_s; /* devices are reserved for a job after this wait [24 h] */
    int64_t replan_ms;      /* least time between two plans [1000] */
    double unknown_s;       /* assumed run time of a job without an estimate [24 h] */
    int32_t effort;         /* rounds of the search for a better plan; < 0 = none */
    /* The search draws its random numbers from this seed, so that a simulation can be repeated. */
    uint64_t seed;
};

/* One device of a node as the caller sees it now; gpus_node hands in one entry per device. */
struct gpu_device_state {
    int64_t mem_bytes;     /* 0 = not known: never shared */
    int64_t foreign_bytes; /* held by processes that are not ours */
    bool usable;           /* false: lost, excluded, or taken by others */
};

/* What is known of a job when it is submitted. */
struct gpu_job {
    uint64_t job;
    /* Jobs expected to behave alike; "" = none but itself.  A job whose estimate is more than ten
     * times off what its family said and showed gets another family. */
    struct str family;
    int32_t counts[GPU_COUNTS_MAX]; /* GPU counts it can run with, ascending */
    int32_t n_counts;
    int32_t ref;          /* the count its estimate speaks of */
    int64_t mem_bytes;    /* on each device; 0 = unknown: a whole one until measured */
    double estimate_s;    /* alone on `ref` devices; 0 = unknown */
    int32_t epochs;       /* 0 = does not report them */
    double epoch_work;    /* size of one in a unit its family shares, e.g. steps; 0 = not told */
    int32_t priority;     /* 0 = ordinary; -2 … 2 are the five steps of people, more is allowed */
    int64_t submitted_ms; /* may lie before gpus_add */
    int64_t deadline_ms;  /* 0 = none */
    enum gpu_preempt preempt;
    bool share;     /* may share its devices with other jobs */
    uint64_t nodes; /* those it may run on, see gpu_may_use; 0 = any */
};
/* The bit of a node in gpu_job.nodes.  Nodes from number 63 on share the last bit, so a job that
 * may run on one of them may run on all of them. */
static inline uint64_t gpu_node_bit(size_t node)
{
    return UINT64_C(1) << (node < 63 ? node : 63);
}
/* May a job with this mask run on that node?  A mask of 0 allows every node. */
static inline bool gpu_may_use(uint64_t nodes, size_t node)
{
    return !nodes || nodes & gpu_node_bit(node);
}

/* What the object asks of the world.  Called from gpus_apply, gpus_plan_begin and gpus_plan_end
 * only, on the caller's thread; none of them may call back into the object. */
struct gpu_hands {
    void *self;
    /* Could this waiting job start on that node as far as all else is concerned: queue not paused,
     * batch limit, CPUs and memory of the host?  NULL = always. */
    bool (*may_start)(void *self, uint64_t job, uint32_t node);
    /* Is it free to start as far as it is concerned itself: no back-off, queue not paused, batch
     * below its limit?  Asked when a question is frozen, so that nobody makes room for one that is
     * not.  NULL = always. */
    bool (*ready)(void *self, uint64_t job);
    /* It starts now on these devices, with so much memory reserved on each (0 = all of it).  False:
     * it cannot after all; it waits on. */
    bool (*start)(void *self, uint64_t job, uint32_t node, const struct gpu_set *devices,
                  int64_t mem_bytes);
    /* Ask it to stop at its next epoch end (or by its signal); `now`: it must go at once, devices
     * run out of memory.  gpus_stopped or gpus_remove follows when its processes are gone. */
    void (*stop)(void *self, uint64_t job, bool now);
    void (*unstop)(void *self, uint64_t job); /* the request is withdrawn: it was not delivered */
    /* Keep this text under this name across restarts, "" = forget; see gpus_recall.  May be NULL.
     */
    void (*remember)(void *self, struct str name, struct str text);
    /* May these two share n devices?  Beyond memory, which is looked at here.  NULL = yes. */
    bool (*compatible)(void *self, uint64_t a, uint64_t b, int32_t n);
};

/* Both structs are copied; hands->self must outlive the object.  Values of 0 in conf become the
 * defaults. */
struct gpus *gpus_new(const struct gpu_conf *conf, const struct gpu_hands *hands);
/* Accepts NULL.  No function of gpu_hands is called, so records that were not handed to `remember`
 * are lost. */
void gpus_free(struct gpus *g);

/* ---- events ---- */
/* Tells the state of all n devices of a node; nodes are numbered from 0 and `d` is copied.  n 0
 * takes the node away: runs there stay until they end.  open false: runs go on, nothing new starts.
 */
void gpus_node(struct gpus *g, int64_t now, uint32_t node, const struct gpu_device_state *d,
               size_t n, bool open);
/* What `remember` was given, before the jobs are added. */
void gpus_recall(struct gpus *g, struct str name, struct str text);
/* Makes a job known; it waits from now on.  -1: the job is known already, its statements are not
 * valid, or no node will ever have room; e says which.  A cluster without any device refuses
 * nobody, because devices may still be reported. */
int gpus_add(struct gpus *g, int64_t now, const struct gpu_job *say, struct err *e);
/* After a restart of the caller: this job, just added, holds these devices already.  The call does
 * nothing when the job holds devices, the node is not known, the set is empty, or a device has
 * GPU_SHARE_MAX jobs. */
void gpus_adopt(struct gpus *g, int64_t now, uint64_t job, uint32_t node,
                const struct gpu_set *devices, int64_t mem_bytes);
void gpus_started(struct gpus *g, int64_t now, uint64_t job); /* its processes are up */
/* `done` epochs are complete in all; the last took epoch_s (0 = not told: the object's own
 * measure).  Repeats and smaller numbers are ignored. */
void gpus_epoch(struct gpus *g, int64_t now, uint64_t job, int32_t done, double epoch_s);
/* The next run of a job that waits goes on after `done` epochs: fewer than were reported when the
 * run before it left no snapshot of the last.  Does nothing while the job holds devices. */
void gpus_resumes_at(struct gpus *g, uint64_t job, int32_t done);
/* Memory measured on the fullest of its devices; 0 = not measured. */
void gpus_measured(struct gpus *g, int64_t now, uint64_t job, int64_t mem_bytes);
/* A stop request reached the job: it cannot be withdrawn any more. */
void gpus_stop_delivered(struct gpus *g, int64_t now, uint64_t job);
/* Ends the back-off of all jobs that may_start refused, because something outside has changed. */
void gpus_ask_again(struct gpus *g);
enum gpu_stop {
    GPU_STOPPED_ASKED,     /* preempted at our request */
    GPU_STOPPED_LOST,      /* node, daemon or supervisor failed, not the job */
    GPU_STOPPED_FAILED,    /* the run failed and the job is retried */
    GPU_STOPPED_NO_MEMORY, /* out of device memory: the reservation grows */
    GPU_STOPPED_UNDONE     /* it never ran: the start was taken back */
};
/* The run is over and its devices are free; the job stays known and waits again.  A job that holds
 * no devices is left alone. */
void gpus_stopped(struct gpus *g, int64_t now, uint64_t job, enum gpu_stop how);
/* Finished, failed for good or cancelled. `finished`: what it took teaches its family. */
void gpus_remove(struct gpus *g, int64_t now, uint64_t job, bool finished);
/* Changes the nodes a job may run on, after nodes were added or removed. */
void gpus_set_nodes(struct gpus *g, uint64_t job, uint64_t nodes);

/* ---- planning ---- */
/* Freezes the question into a problem of its own, which gpus_plan_end must get back.  NULL when no
 * plan is due. */
struct gpu_problem *gpus_plan_begin(struct gpus *g, int64_t now);
/* Uses nothing but p, so another thread may run this while events go on reaching the object. */
void gpu_problem_solve(struct gpu_problem *p);
void gpus_plan_end(struct gpus *g, int64_t now, struct gpu_problem *p); /* takes p */
/* Does what the plan in force asks for as far as devices are free; after every event. */
void gpus_apply(struct gpus *g, int64_t now);
/* When the next plan is due, on the caller's clock.  -1 also while a problem is being solved:
 * gpus_plan_end comes first. */
int64_t gpus_next_wake(const struct gpus *g); /* -1 = nothing due */

/* ---- questions ---- */
enum gpu_wait {
    GPU_WAIT_NOTHING, /* runs, or starts as soon as a plan is made */
    GPU_WAIT_GPUS,
    GPU_WAIT_MEMORY,   /* there is room next to others, but not enough device memory */
    GPU_WAIT_CROWDED,  /* every device has its limit of jobs */
    GPU_WAIT_NO_SHARE, /* this job or the running ones do not share devices */
    GPU_WAIT_RESERVED, /* devices are reserved for a job that has waited too long */
    GPU_WAIT_BEHIND,   /* jobs that are shorter or more important go first */
    GPU_WAIT_HOST,     /* may_start said no */
    GPU_WAIT_CLOSED    /* no node is open */
};
/* A predicted time in ms: the median and the bounds of an 80 % interval; 0 = not known. */
struct gpu_span {
    int64_t at, lo, hi;
};

/* What people are told of one job.  node, devices and with are filled in only while the job runs;
 * wait and wait_for only while the job waits. */
struct gpu_view {
    bool running, stopping;
    uint32_t node;
    struct gpu_set devices;
    int64_t reserved_bytes, measured_bytes;
    int32_t epochs_done, epochs;
    double estimate_s;                /* total, alone on the reference count; what it is now */
    double left_s;                    /* at the speed it has now, or would have */
    double service_s, overrun, speed; /* speed: against alone on `ref` */
    uint64_t with[GPU_SHARE_MAX - 1];
    int32_t n_with;
    int32_t attempts, preemptions;
    enum gpu_wait wait;
    uint64_t wait_for; /* the job reserved for, or first in the way; 0 = none */
    struct gpu_span start, finish;
};
/* False: no such job.  May compute all predictions again, at most once a second unless a plan has
 * changed. */
bool gpus_view(struct gpus *g, int64_t now, uint64_t job, struct gpu_view *out);
