/* core_priv.h - what the files of this room share: the tables of active jobs and runs
 *
 * One table owns jobs, each job owns its run.  A job stays in the table until its final state is
 * durable, so a job that is not here is exactly as the store says.
 */
#pragma once
#include "base/map.h"
#include "base/rand.h"
#include "base/vec.h"
#include "core/core.h"
#include "core/track.h"
#include "core/trouble.h"
#include "sched/plan.h"

enum hold {
    HOLD_NONE,    /* in the queue, or has a run */
    HOLD_COMMIT,  /* submitted, not durable yet: nobody was told of it */
    HOLD_DEPS,    /* waits for other jobs */
    HOLD_BACKOFF, /* waits for due_ms */
    HOLD_PERSON,  /* in state held until somebody releases it */
    HOLD_AHEAD,   /* its next run was sent ahead to a host, which has not said that it started */
};

/* Compact: a million may wait. */
struct job {
    struct wait_item wait; /* number, priority, age, shape */
    int64_t due_ms;        /* monotonic, of HOLD_BACKOFF */
    union {
        struct run *run;
        struct job *next_free; /* while it is nobody's */
    };
    uint32_t attempt; /* runs so far, this one included */
    uint32_t tries;   /* of them, since submit or the last retry by hand */
    uint16_t retries;
    uint8_t retry_lost, lost; /* lost runs that are repeated without a try; lost runs so far */
    uint32_t uid;
    uint32_t backoff_ms;
    uint32_t deps;        /* unmet */
    uint32_t wait_serial; /* of its entries in the lists of those it waits for */
    uint32_t tag;         /* of the keys of its runs */
    uint8_t state, hold;
    bool cancel_requested;
    uint8_t refusals; /* by nodes that could not take it, since it last ran */
    uint8_t full;     /* runs in a row that met a full disk; the store counts them again */
    uint8_t waits;    /* starts in a row that found no space */
};

enum { JOBS_PER_SLAB = 1000 };
/* Jobs are allocated in slabs and reused; see job_take. */
struct job_slab {
    struct job_slab *next;
    struct job jobs[JOBS_PER_SLAB];
};

enum run_phase {
    RUN_RECORDING,  /* placement staged, not durable */
    RUN_SENT,       /* with the backend */
    RUN_UNRESOLVED, /* recorded before a restart; the backend has not said what became of it */
    RUN_ABSENT,     /* the backend has no trace of it; started again when there is room */
    RUN_LIVE,       /* its command is running */
    RUN_OVER,       /* ended; its end step is under way, or the outcome is on its way to disk */
};
/* The place of a run among very short runs of one slot (look_ahead.c).  Only the first run of a
 * chain holds resources; after a restart, until the host has answered, more of them may. */
struct run_chain {
    struct run *next; /* waits in the backend for our end and takes our place */
    struct run *prev; /* whose place we shall take */
    bool ahead;       /* not known to have started: its job is queued, in HOLD_AHEAD */
};
struct run {
    struct run_key key;
    struct job *job;
    struct core_host *host;          /* NULL: berth did not start it, and it has no node */
    struct outside_process *outside; /* then this process; otherwise NULL */
    struct gpu_set gpus;
    /* started_mono_ms is when the run was placed, later when it was sent, later when it started;
     * timeout_ms is 0 until the run is sent, and without a limit; up to spool_offset the spool was
     * staged. */
    int64_t started_mono_ms, timeout_ms, spool_offset;
    struct run_chain chain;
    size_t slot;               /* in core.held, while it holds resources */
    struct draining *drain;    /* its spool is being read; NULL = it is not */
    struct run_ending *ending; /* its end step is under way (run_end.c); NULL = it is not */
    uint32_t journal;
    uint8_t phase;
    bool holds; /* resources are counted for it */
    bool stop_sent;
    bool stop_recorded; /* the request to stop it is durable */
    bool seen;          /* its start was recorded before a restart */
    bool recall;        /* not wanted any more, unless it has started */
    bool read_out;      /* all of its spool is in */
    bool refused;       /* its node could not take it */
    bool unfit;         /* its node lacks its directory */
    bool end_step;      /* its job may have an end step */
};

/* Where runs run: a node with the backend that speaks to it (node_table.c). */
struct core_host {
    struct core *core;
    uint32_t at;     /* its place in core.nodes and core.usage, and its number in the planners */
    uint64_t serial; /* tells it from another that had the same place before */
    const struct backend_class *cls; /* NULL = nobody speaks to it now */
    struct backend *backend;
    bool drained;
    bool reserved;          /* for jobs that name it */
    bool ours;              /* this machine */
    bool opened;            /* its backend was opened by us, from `conf` */
    char *conf;             /* how it is reached, as JSON; NULL = it was not added by a request */
    int64_t aside_until_ms; /* monotonic: put aside until then; 0 = not */
    int64_t aside_ms;       /* for how long; doubles; 0 = the last start went well */
    char aside_why[160];
    size_t unresolved;                    /* runs from before a restart that are not heard of yet */
    VEC(struct run_belief) beliefs;       /* of those, not yet asked for */
    VEC(struct gpu_device_state) devices; /* as last told to the planner of GPUs */
};

struct due { /* entry of the back-off heap; stale when the job moved on */
    int64_t at_ms;
    uint64_t job;
};
struct step_due { /* entry of core.steps; stale when the step was reported */
    struct run_key key;
    int64_t at_ms;
};
struct waiter { /* stale when the job was cancelled, or cancelled and retried, meanwhile */
    uint64_t job;
    uint32_t serial;
};
struct waiters { /* jobs that wait for one other */
    VEC(struct waiter) jobs;
};

/* All nodes.  The three vectors have the same length; a node's number is its place in them.  The
 * place of a removed node stays empty until another node takes it. */
struct cluster {
    char *our_name;                /* see host_our_name; NULL = nobody asked */
    VEC(struct core_host *) hosts; /* NULL where a node was removed */
    VEC(struct node) nodes;        /* what the planner sees of each; without a name: removed */
    VEC(struct usage) usage;       /* what runs hold of each */
    uint64_t serial;               /* of the last host that was made */
};

/* The active jobs, and what those wait for that are not in the queue (job_table.c). */
struct job_table {
    struct job_slab *slabs;
    struct job *free;
    struct map_u64 by_number; /* number → struct job */
    struct map_u64 waiters;   /* number → struct waiters */
    struct map_u64 leaving;   /* numbers of jobs whose removal is on its way to disk */
    VEC(struct due) due;      /* binary heap */
    uint32_t wait_serial;
    uint64_t next_job, next_spec, next_batch; /* the numbers that are given out next */
    uint64_t first_tagged;                    /* the first job whose runs have a tag */
};

/* Messages of hooks (hook.c). */
struct hook_sending;
struct core_hooks {
    VEC(struct hook_sending *) sending;
    uint64_t serial; /* of the ledger when it was asked last */
    int64_t next_ms; /* monotonic: when something is due without a commit; -1 = nothing */
    bool look;       /* ask although nothing else changed: a message has left `sending` */
    bool pending;    /* messages wait, perhaps for a later try */
};
/* Jobs that train, and the planner of GPUs (train_priv.h). */
struct core_gpu {
    struct gpus *planner;
    struct map_u64 trains;     /* job → struct train */
    struct map_u64 specs;      /* number → struct train_spec */
    struct map_u64 ports;      /* given out; a set: the values mean nothing */
    char *endpoint;            /* where jobs report, host:port; NULL = nowhere */
    int64_t epoch_ms, mono_ms; /* the planner's clock when it was made, and ours */
    int64_t kill_due_ms;       /* monotonic: the first grace that ends; 0 = none */
    uint64_t wants_room;       /* GPU job that lacks only room on its host; 0 = none */
    uint32_t wants_room_on;
    bool refused;  /* may_start said no to a job */
    bool planning; /* a plan is being made on another thread */
};

/* Somebody wants to do something to a waiting job whose run was sent ahead.  `j` is NULL when the
 * core ends before the host has answered: then `arg` is only freed. */
typedef void (*ahead_fn)(void *arg, struct job *j);
struct ahead_wish {
    uint64_t job;
    ahead_fn fn;
    void *arg;
};
struct look_ahead {
    double mean_run_ms; /* moving average of recent run lengths */
    int64_t due_ms;     /* monotonic: when a run has waited too long for another; 0 = none waits */
    VEC(struct ahead_wish) wishes;
};

/* The schedules (schedule.c). */
struct schedule_table {
    VEC(struct schedule *) all; /* in the order in which they were made */
    uint64_t next_seq;
    int64_t look_ms; /* monotonic: when the next moment may have come; -1 = none will */
};

/* The studies (study.c). */
struct study_table {
    VEC(struct study *) all; /* in the order in which they were made */
    struct map_u64 by_seq;
    struct map_u64 jobs; /* job of a trial that runs → struct study_job */
    uint64_t next_seq;
    int64_t look_ms; /* monotonic: a submission is tried again, a lease may end; -1 = nothing due */
};

struct core_trouble {
    struct trouble of[TROUBLE_KINDS];
    int64_t probe_ms; /* when the host is asked next, monotonic */
    /* Requests that wait for their commit, the oldest first. */
    struct trouble_wait *first, *last;
};
struct core {
    struct core_conf conf; /* its strings are ours */
    uint8_t secret[32];
    /* secret is what tokens are derived from; rng makes ids. */
    struct rng rng;
    struct cluster cluster;
    const struct outside_ops *outside; /* NULL = foreign processes are not tracked */
    void *outside_self;
    struct job_table jobs;
    struct queue *queue;
    struct map_str queues; /* name → index + 1 */
    struct map_str lanes;  /* name → struct lane_record (lane.c) */
    /* What runs hold, for the planner, in no order; run.slot is the index of a run here. */
    VEC(struct plan_run) held;
    struct core_gpu gpu;
    VEC(uint64_t) absent;       /* jobs whose recorded run left no trace */
    VEC(struct step_due) steps; /* end steps under way, the oldest first */
    struct look_ahead ahead;
    struct schedule_table schedules;
    struct study_table studies;
    struct core_hooks hooks;
    struct core_trouble trouble;
    /* dirty: something has changed that could let a job start, so core_turn plans.  recovered:
     * core_recover has restored the jobs; before, nothing is planned. */
    bool dirty, recovered;
    struct core_stats stats;
};

static inline int64_t core_wall(const struct core *c)
{
    return clock_wall(&c->conf.clock);
}
static inline int64_t core_mono(const struct core *c)
{
    return clock_mono(&c->conf.clock);
}
/* NULL: the job is unknown or its final state is durable; the store tells which. */
static inline struct job *core_job(const struct core *c, uint64_t number)
{
    return map_u64_get(&c->jobs.by_number, number);
}
/* Adds a change to the batch of this turn; its texts are copied. */
static inline void core_stage(struct core *c, const struct change *ch)
{
    c->conf.ledger.stage(c->conf.ledger.self, ch);
}
/* fn is called on the loop thread once everything staged so far is durable; see ledger.barrier for
 * errors. */
static inline void core_barrier(struct core *c, ledger_done_fn fn, void *arg)
{
    c->conf.ledger.barrier(c->conf.ledger.self, fn, arg);
}

static inline struct node *host_node(const struct core_host *h)
{
    return &h->core->cluster.nodes.p[h->at];
}
static inline struct usage *host_usage(const struct core_host *h)
{
    return &h->core->cluster.usage.p[h->at];
}
/* May something start there now? */
static inline bool host_open(const struct core_host *h)
{
    return !host_node(h)->drained && !host_node(h)->away;
}

/* trouble.c */
bool trouble_turn(struct core *c);               /* true: nothing may start now */
int64_t trouble_next_wake(const struct core *c); /* monotonic; -1 = nothing due */
/* The start of a run on this machine failed with this errno value: was it a trouble of the machine,
 * which lasts?  Then it has begun. */
bool trouble_blames(struct core *c, int sys);
/* core_barrier for who waits for an answer: while the store takes no changes, fn gets the error
 * after a second instead, with `meanwhile` behind it.  What was staged is kept and tried again. */
void trouble_barrier(struct core *c, const char *meanwhile, ledger_done_fn fn, void *arg);
/* For requests that have taken effect in memory. */
#define TROUBLE_NOT_RECORDED                                                                       \
    "the request has taken effect; it is recorded when this is over, and lost if the daemon ends " \
    "before"
#define TROUBLE_NOTHING_CHANGED "nothing was changed"

/* core.c: what the planner sees now.  Borrows the tables of the core, so it is good until anything
 * changes. */
struct plan_input core_plan_input(struct core *c, size_t max_starts);

/* node_table.c */
struct core_host *host_find(const struct core *c, struct str name); /* NULL = none */
/* NULL = that host was removed.  For callbacks, which must not keep a pointer to a host. */
struct core_host *host_by_serial(const struct core *c, uint64_t serial);
/* Is the only obstacle to starts on this host that it has not answered yet for all runs from before
 * the restart? */
bool host_being_asked(const struct core_host *h);
/* The name that this machine had first; lives as long as the core.  Empty = there is no such host.
 */
struct str host_our_name(struct core *c);
/* Computes the node anew from what the backend and the core know of it, and tells the planners. */
void host_refresh(struct core_host *h);
/* The host could not take a run: nothing starts there for a while, longer each time in a row. */
void host_put_aside(struct core_host *h, struct str why);
void host_went_well(struct core_host *h);      /* a run started there */
void hosts_due(struct core *c);                /* those put aside long enough come back */
int64_t hosts_next_wake(const struct core *c); /* monotonic; -1 = nothing due */
void host_resolved_one(struct core_host *h);   /* one run from before the restart was heard of */
/* Opens the backend of a host that was added by a request, unless it is open.  A failure becomes
 * the trouble of the node. */
void host_open_backend(struct core_host *h);
void host_adopt(struct core_host *h); /* asks for the runs it is believed to have */
void hosts_free(struct core *c);

/* job_table.c */
/* A job in state queued, not in the queue yet; the number must be new.  job_describe follows,
 * before anything asks for its shape. */
struct job *job_new(struct core *c, uint64_t number);
/* The facts of a record: batch, priority, resources, retries, owner. */
void job_describe(struct core *c, struct job *j, const struct job_record *r);
void job_drop(struct core *c,
              struct job *j); /* forgets it; must be out of queue and without a run */
void job_move(struct core *c, struct job *j, enum job_event ev); /* the transition must be legal */
/* The same, and stages the change with its reason. */
void job_move_recorded(struct core *c, struct job *j, enum job_event ev, struct str reason);
/* Puts a waiting job without a run into the queue, or holds it back: for a person, for other jobs,
 * or for its back-off, in this order. */
void job_activate(struct core *c, struct job *j);
void job_dequeue(struct core *c, struct job *j); /* out of the queue or its hold */
/* j starts only after `other` has succeeded; `other` must be active. */
void job_wait_for(struct core *c, struct job *j, uint64_t other);
/* Cancels a waiting job because `other` ended in `state`, and those that wait for it in turn. */
void job_cancel_dependent(struct core *c, uint64_t job, uint64_t other, enum job_state state);
/* After j became final in memory and its state is staged: the jobs that wait for j go into the
 * queue or are cancelled, and so are those that wait for them in turn. */
void job_settle_waiters(struct core *c, struct job *j);
/* The end of a run, or the final state of j, is staged: once durable the host (its serial) may drop
 * its trace of `key` (job 0 = none) and a job that is final now leaves the table. */
void job_forget_after_commit(struct core *c, struct job *j, struct run_key key, uint64_t host);
/* The node of h refused the job: other nodes are tried first.  The shape of the job changes, so the
 * job must neither be in the queue nor have a run. */
void job_avoid(struct core *c, struct job *j, const struct core_host *h);
/* The same for a node that lacks what the job needs: it is never tried again. */
void job_leave_out(struct core *c, struct job *j, const struct core_host *h);
/* Another node takes this place: jobs that left out the earlier one may use it. */
void jobs_take_in(struct core *c, uint32_t place);
/* The number of a named queue, from 1 on; made on first use and kept for the life of the core. */
uint32_t core_queue_index(struct core *c, struct str name);
/* Jobs whose back-off is over go into the queue. */
void core_release_due(struct core *c);

/* act.c */
int admin_only(const struct caller *who, const char *what, struct err *e);
/* One change, answered after its commit. */
/* The members that all changes have which a person asked for. */
#define CHANGE_BY(c, who, what) .kind = what, .at_ms = core_wall(c), .user = str_of((who)->user)
void set_and_answer(struct core *c, const struct change *ch, core_act_fn done, void *arg);

/* run.c */
/* A planner has decided to start j, which is out of the queue already.  The run holds its resources
 * from now on, is recorded, and is sent once the record is durable. */
void run_place(struct core *c, struct core_host *h, struct job *j, const struct gpu_set *gpus);
/* The run has the next key of j and is j's; nothing of it is counted or recorded yet. */
struct run *run_new(struct core *c, struct job *j, struct core_host *h, const struct gpu_set *gpus);
/* It counts as an attempt from now on, and is staged as one; the job is starting. */
void run_record(struct core *c, struct run *r, int64_t at_ms);
/* Once everything staged so far is durable, it is handed to the backend. */
void run_send_after_commit(struct core *c, struct run *r);
/* A run of a process that berth has not started: recorded like any other, but without a node. */
void run_place_outside(struct core *c, struct job *j, const struct outside_process *p);
void run_hold(struct core *c, struct run *r);   /* counts its resources; outside runs have none */
void run_let_go(struct core *c, struct run *r); /* its resources are free; twice is fine */
/* h is NULL for the run of a process that berth has not started. */
struct run *run_restore(struct core *c, struct core_host *h, struct job *j,
                        const struct run_record *rec);
/* Its command, or its foreign process, is running. */
void run_started(struct core *c, struct run *r, int64_t pid, int64_t pid_start, int64_t at_ms);
void run_discard(struct run *r); /* frees the memory only; NULL is fine */
/* The run is gone from memory and nothing is recorded: its resources are free, and the next run of
 * its chain takes its place. */
void run_drop(struct core *c, struct run *r);
/* Starts those runs again of which the backend has no trace, as far as there is room. */
void run_send_absent(struct core *c);
/* Asks the backend to stop the run, once.  Does nothing for a run that is not with the backend yet:
 * start_now looks at the request itself. */
void run_stop(struct core *c, struct run *r);

/* run_end.c */
enum { RESEND_MS = 1000 }; /* until a start that the backend refused is tried again */
/* The run has an outcome.  Its job moves on now, or when its end step is reported; the run is gone
 * then. */
void run_end(struct core *c, struct run *r, const struct run_outcome *o, struct str detail);
/* The run with this key while its end step is under way; NULL = it is not. */
struct run *run_ending(const struct core *c, struct run_key key);
/* Does not wait for the end step of r any longer: the job moves on with its outcome, and its reason
 * says `why` the step is not complete.  `cancel`: the job is not tried again. */
void run_end_step_abandon(struct core *c, struct run *r, const char *why, bool cancel);
void end_steps_due(struct core *c); /* abandons those that take too long */
/* The wait before try number `tries` + 1: first_ms, doubled with each try, an hour at most. */
int64_t backoff_delay(int64_t first_ms, uint32_t tries);

/* hook.c */
void hooks_turn(struct core *c);
int64_t hooks_next_wake(const struct core *c); /* monotonic; -1 = nothing due */
void hooks_free(struct core *c);
int notify_check(const struct core *c, struct str entries, const struct caller *who, struct err *e);

/* lane.c */
bool lane_recall(struct core *c, struct str name, struct str text); /* false: no fact of ours */
void lane_restored(struct core *c); /* jobs are back, none is in the queue yet */
void lanes_free(struct core *c);

/* schedule.c */
/* The name of a new schedule or study (`what`), of which the caller has `theirs`. */
int definition_check_name(const char *what, struct str name, size_t theirs, size_t max,
                          const struct caller *who, struct err *e);
void schedule_restore(struct core *c, const struct schedule_row *r);
void schedules_fire_due(struct core *c);           /* fires what is due */
int64_t schedules_next_wake(const struct core *c); /* monotonic; -1 = nothing due */
void schedules_free(struct core *c);

/* study.c, study_run.c */
void study_restore(struct core *c, const struct study_row *r);
bool study_sum_restore(struct core *c,
                       const struct study_sum *x); /* true: its trials are needed now */
void trial_restore(struct core *c, const struct trial_row *r);
void studies_restored(struct core *c); /* all jobs are back: engines are made, jobs are looked up */
void studies_turn(struct core *c);     /* submissions that are tried again; trials to ask for */
int64_t studies_next_wake(const struct core *c); /* monotonic; -1 = nothing due */
/* A job has reported points of a metric, packed by series_pack. */
void study_job_points(struct core *c, uint64_t job, struct str name, struct str block);
/* The job is final and its state is staged. */
void study_job_final(struct core *c, const struct job *j);
void studies_free(struct core *c);

/* look_ahead.c */
void ahead_send(struct core *c);        /* after planning: fills the chains */
void ahead_recall_late(struct core *c); /* takes back those that wait behind a long run */
/* Asks the host to take it back, unless it has started, and those that wait behind it. */
void ahead_withdraw(struct run *r);
/* It will not start: it leaves no trace, and its job is back in the queue in `delay_ms`. */
void ahead_withdrawn(struct core *c, struct run *r, int64_t delay_ms);
/* It has begun, or could not: from now on it is a run like any other. */
void ahead_arrived(struct core *c, struct run *r, int64_t at_ms);
/* Takes back the run of j (HOLD_AHEAD) and calls fn once the host has answered, before anything
 * else can happen to j: j is in the queue then, or the run has begun. */
void ahead_then(struct core *c, const struct job *j, ahead_fn fn, void *arg);
void ahead_answered(struct core *c, struct job *j); /* calls those who wait for that */
void ahead_unlink(struct core *c, struct run *r);   /* out of its chain, before it is freed */
/* It waits behind a run that was told to stop or taken back before its turn. */
bool ahead_broken(const struct run *r);
/* Requests that wait for a host are dropped without an answer. */
void ahead_free(struct core *c);

/* launch.c: everything the backend needs, built in the arena */
struct arena;
int launch_build(struct core *c, const struct run *r, const struct launch *l, struct arena *a,
                 struct run_start *out, struct err *e);

/* container.c: a run with an image becomes one of our own program.  Changes *start. */
int container_wrap(const struct core *c, const struct run *r, const struct launch *l,
                   struct arena *a, struct run_start *start, struct err *e);
/* Ports that must be led to the job by us; those the engine opens lead to themselves. */
char **container_ports(const struct spec *s, struct arena *a);

/* train.c: all of these do nothing for jobs that do not train */
struct train;
/* recorded is the text of CHANGE_TRAINING, empty for a new job; a text that cannot be read begins
 * anew. */
void train_new(struct core *c, uint64_t job, uint64_t spec, struct str recorded);
void train_drop(struct core *c, uint64_t job);
void train_ready(struct core *c, struct job *j);         /* nothing but room is lacking now */
void train_unready(struct core *c, const struct job *j); /* somebody holds it: no plans for it */
/* The planner forgets the job; only a job that succeeded teaches its family. */
void train_final(struct core *c, const struct job *j);
void train_placed(struct core *c, const struct run *r); /* its run is about to be staged */
void train_started(struct core *c, const struct run *r);
void train_retried(struct core *c, uint64_t job, enum job_state was);
/* After a restart, once jobs and runs are back. */
void train_restored(struct core *c);
void train_done(struct core *c); /* frees all of it */

/* What is known of its next start; false: it does not train. */
bool train_facts(const struct core *c, uint64_t job, struct launch_facts *f);
/* The file `l` resumes from, absolute, parameters filled in; yours.  NULL = none. */
char *train_checkpoint(const struct launch *l);

/* What the end of a run means: first as for any job, then as for one that trains. */
/* What the end of a run means: first as for any job (judge in run.c sets `ev`), then as for one
 * that trains (train_judge may change all of it). */
struct verdict {
    enum job_event ev;
    bool no_try;  /* not its fault: no retry is used up */
    bool at_once; /* no back-off */
    bool saved;   /* all epochs that the run reported have their snapshot */
    enum gpu_stop how;
    char text[200]; /* why, for people; "" = as the outcome says */
};
void train_judge(struct core *c, const struct run *r, const struct run_outcome *o,
                 struct verdict *v);
/* The processes of the run are gone: its devices are free.  Nothing is staged. */
void train_left(struct core *c, const struct job *j, const struct verdict *v);
void train_ended(struct core *c, const struct job *j, const struct verdict *v);
/* Stops the runs whose grace after their signal is over. */
void train_kill_due(struct core *c);

/* train_plan.c */
void train_open(struct core *c);          /* makes the planner */
void train_attached(struct core_host *h); /* the backend said what devices there are */
void train_node(struct core_host *h);     /* devices, open or not: tells the planner */
void train_devices(void *owner, const struct node *n, const struct run_memory *runs, size_t n_runs);
void train_turn(struct core *c);
int64_t train_next_wake(const struct core *c); /* monotonic; -1 = nothing due */
/* The waiting job that core_gpu.wants_room names, NULL = none or not any more. */
struct wait_item *train_wants_room(struct core *c);

/* train_epoch.c */
void train_reported(struct core *c, uint64_t job, int64_t epochs); /* through the spool */
bool train_stop_requested(const struct core *c, uint64_t job);

/* explain.c: the name of its owner, as recorded; "" = it cannot be read now */
void job_owner_name(struct core *c, const struct job *j, char *out, size_t n);

/* train_view.c */
bool train_explain(struct core *c, struct job *j, struct json *out);

/* submit.c: the job of a process that runs already; its run is recorded with it */
void submit_outside(struct core *c, struct submission *s, const struct caller *who,
                    const struct outside_process *outside, core_submit_fn done, void *arg);

/* outside.c: runs of processes that berth has not started */
#define OUTSIDE_NODE "outside" /* recorded where other runs have the name of their node */
void outside_begun(struct core *c, struct run *r); /* the placement of the run is durable */
void outside_restored(struct core *c);             /* all runs are back: watch those again */
void outside_stop(struct core *c, const struct run *r);
void outside_over(struct core *c, const struct run *r);
void outside_outcome(const struct core *c, int64_t code, struct run_outcome *out);

/* track.c: `done` comes once everything staged so far is durable */
void track_answer(struct core *c, core_act_fn done, void *arg);

/* report.c */
/* More lines are in the file: they are read in the background. */
void report_spooled(struct core *c, struct run *r);
/* What is left in the spool is read, in the background when it is much; then the run ends. */
void report_end(struct core *c, struct run *r, const struct run_outcome *o, struct str detail);
/* At once, up to 16 MiB of it. */
void report_drain_spool(struct core *c, struct run *r);
