/* train_priv.h - jobs that train, inside the controller
 *
 * A job whose spec asks for GPUs, reports epochs, resumes from a file or names a family has a
 * `struct train` beside its struct job, which stays small for the millions that have none.  What
 * must survive a crash is its record, staged with CHANGE_TRAINING whenever it changes in a way that
 * matters.
 *
 * train.c         the records, and when the planner hears of a job
 * train_spec.c    what the specs of such jobs say, read once per spec
 * train_plan.c    the planner's hands, its clock, planning off the loop
 * train_port.c    the ports of runs
 * train_epoch.c   what running jobs report and are told
 * train_end.c     what the end of an attempt means
 * train_view.c    answers
 */
#pragma once
#include "core/core_priv.h"

/* Shared by the jobs of one spec; counted. */
struct train_spec {
    uint64_t seq;
    size_t users;
    bool read; /* the rest is filled in */
    int32_t gpus, epochs, signal;
    bool resumes; /* it has a checkpoint */
    bool per_gpu; /* one process per GPU */
    bool dialect; /* it came through one, which tells its runs their port */
    int64_t grace_ms;
    struct gpu_job say; /* for the planner; .family is below */
    char *family;
};

struct train {
    uint64_t job;
    struct train_spec *spec;
    struct core_training_past past; /* recorded, as are the next seven */
    uint32_t run;                   /* the attempt they speak of */
    bool stop;                      /* this epoch's answer to has_to_stop; true stays */
    int64_t signalled_ms;           /* wall clock: it was sent its signal; 0 = not */
    int port, n_ports;              /* of the run, see train_port.c; 0 = none */
    bool memory_tried; /* a second chance after running out of device memory was given */
    /* not recorded */
    bool known;             /* to the planner */
    bool raised;            /* the planner wants it to stop at its next epoch end */
    bool asked;             /* somebody was told to stop, or may have been before a restart */
    bool stop_now;          /* it was killed to free device memory */
    bool early;             /* what its end showed, until that is recorded */
    double epoch_s, step_s; /* of the epoch that is about to be reported */
    int64_t reported_ms;    /* planner's clock: the last report of this run; 0 = none yet */
    int64_t kill_ms;        /* monotonic: its grace after the signal is over; 0 = none */
    char *refused;          /* why no node can ever take it; NULL = one can */
};

/* NULL: the job does not train, or is not active. */
static inline struct train *train_of(const struct core *c, uint64_t job)
{
    return map_u64_get(&c->gpu.trains, job);
}

/* The epochs behind its next run, after an end that was judged so. */
static inline int32_t train_resumes_at(const struct train *t, const struct verdict *v)
{
    return v->saved ? t->past.done : t->past.confirmed;
}

/* ---- train_spec.c ---- */
/* One reference per struct train; each is answered by train_spec_unref. */
struct train_spec *train_spec_ref(struct core *c, uint64_t seq);
void train_spec_unref(struct core *c, struct train_spec *s);
/* Reads what `job`, which is durable, has for a spec; once. */
void train_spec_read(struct core *c, struct train_spec *s, uint64_t job);

/* ---- train.c ---- */
/* Records what of t must survive a restart. */
void train_stage(struct core *c, const struct train *t);
/* Its run was not known to the planner, as nothing was known of the devices it is on. */
void train_adopt(struct core *c, struct train *t, const struct job *j);

/* ---- train_plan.c ---- */
int64_t train_now(const struct core *c);                      /* the planner's clock */
int64_t train_wall(const struct core *c, int64_t planner_ms); /* as wall clock; 0 stays 0 */
/* Tells the planner of a job.  t->known says whether the planner took it, t->refused why it never
 * will; neither is set while there is no node for the job, or no device at all. */
void train_add(struct core *c, struct train *t, const struct job *j);

/* ---- train_port.c ---- */
/* For the run that is about to start; t->run is set.  Without enough free ports it gets none. */
void train_ports_take(struct core *c, struct train *t, const struct run *r);
/* They may be given to another run; the record still names them until the next train_stage. */
void train_ports_release(struct core *c, struct train *t);
/* After a restart: t has the ports of its record, and nobody else gets them. */
void train_ports_restore(struct core *c, struct train *t);

/* ---- train_end.c ---- */
/* The signal is sent once its record is durable; the run may have ended by then. */
void train_send_signal(struct core *c, struct train *t, struct run *r);
