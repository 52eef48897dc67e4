/* study.h - studies: searches over parameters, whose trials are jobs or points that clients ask for
 *
 * A study has a space, an engine (tune/study.h), an objective and limits.  With a job, the core
 * keeps `parallel` trials of it in the queue until `trials` were asked: each is an ordinary job
 * with the parameters of its point, and the metric that it reported is its result.  Without a job,
 * clients ask for points and tell their results.
 *
 * The engine is made again after a restart by replaying the recorded trials and results in their
 * order, so a study that was cut goes on as the uncut one would have.  Proposals are made on
 * another thread (core_ops.offload); meanwhile requests to the same study wait, others do not.
 */
#pragma once
#include "base/vec.h"
#include "core/core.h"
#include "tune/stop.h"
#include "tune/study.h"

struct study_goal {
    struct str metric; /* borrowed from the definition */
    bool maximize;
};
/* What the definition of a study says, apart from its space. */
struct study_rules {
    struct study_goal goals[TUNE_OBJECTIVES_MAX];
    size_t n_goals;
    bool take_best; /* the best value of the metric counts, not the last one */
    int64_t trials; /* limit; -1 = none */
    int64_t warm;   /* trials that were taken from another study; they do not count against it */
    int32_t parallel;
    bool has_job;
};
enum study_state { STUDY_RUNNING, STUDY_PAUSED, STUDY_FINISHED };
extern const char *const study_state_names[];
extern const char *const trial_state_names[];

struct study_trial {
    uint64_t job;
    double value; /* the first of several; while it runs: what it reported last, to `stop` */
    enum trial_state state;
    int64_t pruned_at; /* the step at which it was asked to stop; -1 = it was not */
    uint32_t hold;     /* how often it was handed out under a lease: who has it names this number */
    int32_t lease_s;   /* of the client that has it; 0 = none */
    uint64_t parent;   /* the trial whose state it continues; 0 = none */
};
struct study_best {
    uint64_t number; /* 0 = none is done, or there are several objectives */
    uint64_t job;
    double value;
    char *params; /* JSON object; NULL without a number */
};
/* A trial that no other is better than in everything. */
struct study_front {
    uint64_t number;
    char *params; /* JSON object */
};
/* A trial whose client must give a sign of life in time. */
struct study_lease {
    uint64_t number;
    int64_t until_ms; /* monotonic */
};
/* One study.  Owned by the core and read on the loop thread; callers must not change it or keep the
 * pointer beyond the current callback. */
struct study {
    uint64_t seq;
    char *name;
    struct caller owner;
    struct json *def; /* space, constraints, engine, seed, objective, take, trials, parallel, job */
    struct study_rules rules;
    struct tune_study *engine; /* NULL = the definition cannot be read; `trouble` says why */
    struct tune_stop *stop;    /* NULL = trials run to their end */
    char *trouble;             /* why nothing is asked; NULL = no reason */
    bool paused;
    bool exhausted;        /* the space has no further point */
    bool gone;             /* removed while a proposal was made */
    enum study_state said; /* the state that the last event told */
    int64_t created_ms;
    uint64_t ops;   /* asked and told so far */
    uint64_t asked; /* trials */
    bool asleep;    /* its trials were not read since the start: only sums of them are here */
    struct study_best best;
    uint64_t counts[TRIAL_WAITING + 1];
    VEC(struct study_trial) trials;  /* trial n at n - 1; none while it is asleep */
    VEC(double) values;              /* of several objectives: n_goals of each trial */
    VEC(struct study_front) front;   /* of several objectives, by number */
    VEC(struct study_lease) leases;  /* of trials that clients have */
    struct study_asking *asking;     /* a proposal or a submission under way */
    VEC(struct study_call *) calls;  /* requests that wait for it, the oldest first */
    VEC(struct study_replay) replay; /* what was recorded, until all of it is read */
};
enum study_state study_state_of(const struct study *s);

/* Reads everything but the space.  Any thread.  The error names the member. */
int study_rules_read(const struct json *def, struct study_rules *out, struct err *e);
/* The layer that stops trials early; *out is NULL when the definition has none.  Any thread. */
int study_stop_new(const struct json *def, const struct study_rules *r, struct tune_stop **out,
                   struct err *e);
/* The engine of a definition, without trials.  Any thread. */
int study_engine_new(const struct json *def, struct tune_study **out, struct err *e);

/* ---- trials that are jobs ---- */

/* One job of a trial on its way, for ops->trial.  Everything is a copy. */
struct trial_launch {
    struct core *core;
    uint64_t study, number;
    char *name; /* of the study */
    struct caller owner;
    struct json *job; /* as POST /v1/jobs reads it, sealed secrets included */
    char *params;     /* JSON object */
    uint64_t asked;
    uint64_t parent;  /* the trial whose state it continues; 0 = none */
    char *parent_dir; /* of the run of the parent's job; NULL with parent 0 */
};
/* The answer to ops->trial, on the loop thread: a submission of one job, which the core takes, or
 * NULL and the reason.  A reason that may pass is tried again; any other pauses the study. */
void core_trial_take(struct trial_launch *t, struct submission *s, const struct err *e);

/* ---- requests ---- */

/* A new study; `def` is copied.  ERR_CONFLICT: the owner has one of this name with another
 * definition; the same again changes nothing.  from: the seq of a study whose results this one
 * begins with, as far as they fit into its space; 0 = none. */
void core_study_add(struct core *c, struct str name, const struct json *def, uint64_t from,
                    const struct caller *who, core_act_fn done, void *arg);
struct study_change {
    bool set_trials, set_parallel, set_paused;
    int64_t trials; /* -1 = no limit */
    int32_t parallel;
    bool paused;
};
void core_study_set(struct core *c, uint64_t seq, const struct study_change *x,
                    const struct caller *who, core_act_fn done, void *arg);
/* Its jobs stay; running ones are an error (ERR_CONFLICT), unless `force` cancels them. */
void core_study_remove(struct core *c, uint64_t seq, bool force, const struct caller *who,
                       core_act_fn done, void *arg);

struct study_point {
    uint64_t number;
    char *params;    /* JSON object */
    uint32_t hold;   /* to be named with the result; 0 = no lease */
    uint64_t parent; /* the trial whose state it continues; 0 = none */
};
struct study_answer { /* borrowed for the call */
    size_t told;
    const struct study_point *points;
    size_t n;
    size_t leased;  /* trials of the study that clients have under a lease */
    bool exhausted; /* there will be no more, also if clients vanish */
};
typedef void (*core_study_fn)(void *arg, const struct err *e, const struct study_answer *r);
struct study_result {
    uint64_t number;
    enum trial_state
        state; /* done, failed or pruned; a value that is not finite counts as failed */
    double values[TUNE_OBJECTIVES_MAX];
    size_t n_values; /* as many as the study has objectives; a failed trial needs none */
    struct str reason;
    uint32_t hold; /* as the trial was handed out; 0 = not named */
    uint64_t job;  /* of a client that runs its trials as jobs: the one that ran this; 0 = none */
};
struct study_ask {
    size_t want;     /* points */
    int32_t lease_s; /* a client that gives no sign for so long has vanished; 0 = never */
};
/* Tells `n` results, all or none, then asks for points.  Answered after the commit.  The results
 * are copied. */
void core_study_exchange(struct core *c, uint64_t seq, const struct study_result *results, size_t n,
                         const struct study_ask *ask, const struct caller *who, core_study_fn done,
                         void *arg);
/* A point chosen by a person is tried next.  The answer has its number. */
void core_study_enqueue(struct core *c, uint64_t seq, const struct json *params,
                        const struct caller *who, core_study_fn done, void *arg);

/* A trial as a client names it; hold 0 = it does not say which handing out it got. */
struct study_holding {
    uint64_t number;
    uint32_t hold;
};
/* A client is alive and evaluates these trials: their leases begin anew.  *out_lost[i] is true of a
 * trial that is not its own any more.  Nothing is recorded. */
int core_study_renew(struct core *c, uint64_t seq, const struct study_holding *held, size_t n,
                     const struct caller *who, bool *out_lost, struct err *e);
/* A client reports how far its trial is: should it stop?  Nothing is recorded, apart from the
 * answer stop.  The lease of the trial begins anew; a trial that another client has should stop. */
int core_study_report(struct core *c, uint64_t seq, struct study_holding held, int64_t step,
                      double value, const struct caller *who, bool *out_stop, struct err *e);

/* `done` comes when all that the core knows of studies is in the store. */
void core_study_recorded(struct core *c, core_act_fn done, void *arg);

/* ---- questions ---- */
/* The values of a trial that is done, one per objective. */
const double *study_values(const struct study *s, uint64_t number);
size_t core_study_count(const struct core *c);
const struct study *core_study_at(const struct core *c, size_t at); /* in the order made */
const struct study *core_study_find(const struct core *c, struct str name, uint32_t uid);
/* Does a study wait to submit a job?  Then the daemon must not exit because it is idle. */
bool core_studies_wait(const struct core *c);
