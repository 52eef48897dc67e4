/* world_priv.h - devices, jobs and the clock of one simulation, as policies see them
 *
 * The world knows the truth (rates of the table, steps left); a policy is told of arrivals, epoch
 * ends and ends, and answers by starting jobs on devices and by asking them to stop.  What it may
 * look at is said at each member.
 */
#pragma once
#include "base/rand.h"
#include "simulate/sim.h"

enum { WORLD_MATES_MAX = GPU_SHARE_MAX - 1 };

/* The first measured epoch of a job. */
struct actor_measure {
    bool known; /* an epoch was measured */
    double rate;
    bool paired; /* the job shared its devices then */
};

struct actor { /* a job in the world */
    /* what a scheduler may know */
    double guess_s; /* the estimate given at submission */
    int32_t epochs, done;
    double attained_s; /* device seconds held so far */
    /* stop: the job is asked to make room at the end of its epoch.  over: it has ended for good. */
    bool running, stop, over;
    int32_t n; /* devices it holds; 0 = none */
    struct gpu_set devices;
    uint32_t mates[WORLD_MATES_MAX]; /* jobs on the same devices */
    int32_t n_mates, starts;
    uint64_t started_seq; /* the order of starts */
    /* the truth */
    double epoch_steps, epoch_left; /* of one epoch; of the one it is in */
    double rate;                    /* steps per second now */
    double since_s, ready_s;        /* counted up to; does nothing before */
    double epoch_from_s;            /* when the epoch it is in began */
    double bar_from_s;
    uint32_t generation; /* of its epoch event: older ones are void */
    VEC(double) stops;   /* moments of the last hour at which it made room */
    /* the policy's */
    struct actor_measure first;
    double key; /* place of the job among the waiting */
};

/* An arrival, or the end of an epoch of `job`.  `seq` orders events of the same moment. */
struct event {
    double at_s;
    uint64_t seq;
    uint32_t job, generation;
    bool arrival;
};

struct world;
/* Told in this order at one moment: what happened, then `turn`. */
struct policy {
    /* NULL with e set on failure.  What open returns is passed to all others as self. */
    void *(*open)(struct world *w, struct err *e);
    void (*close)(void *self);
    /* 0 or -1, as turn; -1 ends the simulation. */
    int (*arrived)(void *self, uint32_t job, struct err *e);
    /* One more epoch is complete; it took so long.  The job goes on, stops or ends after this. */
    void (*epoch)(void *self, uint32_t job, double epoch_s);
    void (*halted)(void *self, uint32_t job);   /* it stopped as asked */
    void (*finished)(void *self, uint32_t job); /* and its devices are free */
    int (*turn)(void *self, struct err *e);
    double (*wake)(void *self); /* next moment it wants a turn; < 0 = none; may be NULL */
};
extern const struct policy policy_fifo, policy_srtf, policy_las, policy_pack, policy_berth;

struct world {
    const struct sim_trace *trace;
    const struct sim_conf *conf;
    /* Filled while the simulation runs; the caller of sim_run owns it. */
    struct sim_result *out;
    const struct policy *policy;
    void *policy_self;
    double now_s;
    struct actor *actors;
    size_t n_jobs, n_over, next_arrival;
    /* Indices of running jobs, in no particular order; running_at finds a job in it. */
    VEC(uint32_t) running;
    uint32_t *running_at;          /* place of each job in it */
    uint32_t (*on)[GPU_SHARE_MAX]; /* jobs on each device + 1; 0 = free place */
    struct gpu_set free;
    int32_t n_free, share; /* share: jobs on one device at most */
    /* Up to here the busy device seconds have been counted. */
    double busy_to_s;
    VEC(struct event) heap;
    uint64_t seq;
    struct err broken; /* a policy asked for what cannot be */
};

/* Starts a waiting job on devices that are free, or whose jobs hold exactly these devices.
 * False: the request cannot be; w->broken then says why, and the simulation ends with that
 * error. */
bool world_start(struct world *w, uint32_t job, const struct gpu_set *devices);
/* The lowest n free devices. */
void world_free_devices(const struct world *w, int32_t n, struct gpu_set *out);
/* Steps per second of a job on n devices next to these; 0 = they do not fit together. */
double world_rate(const struct world *w, uint32_t job, int32_t n, const uint32_t *mates,
                  int32_t n_mates);
/* Can both jobs make progress side by side on n devices? */
bool world_fits(const struct world *w, uint32_t a, uint32_t b, int32_t n);
/* Plans are timed: double t = world_timer(w); …; world_planned(w, t); */
double world_timer(const struct world *w);
void world_planned(struct world *w, double since_us);
static inline const struct sim_job *world_job(const struct world *w, uint32_t job)
{
    return &w->trace->jobs.p[job];
}
