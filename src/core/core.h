/* core.h - the controller: events in, decisions out
 *
 * Deterministic: clock, chance, store and backend are handed in, and nothing here waits.  Requests
 * change the state in memory at once and are answered after their commit.  Whatever changes
 * something marks the core dirty; core_turn at the end of the loop turn plans, records the
 * placements and, once they are durable, hands them to the backend.
 */
#pragma once
#include "backend/backend.h"
#include "base/clock.h"
#include "core/trouble.h"
#include "sched/gpu.h"
#include "sched/limit.h"
#include "sched/queue.h"
#include "store/ledger.h"

struct arena;
struct core;
struct core_host; /* a node and the backend that speaks to it */
struct cron_zone;
struct firing;
struct trial_launch;

/* What is known of a run that is about to start, for those who add variables to it. */
struct launch_facts {
    struct run_key key;
    const struct gpu_set *gpus; /* its devices; empty for jobs without */
    const struct node *node;
    int32_t n_gpus;
    int32_t epochs_done;        /* confirmed */
    int32_t attempt;            /* starts so far, this one included */
    bool restarted;             /* it went on before: there is a snapshot to load */
    int64_t reserved_mem_bytes; /* on each device; 0 = all of it */
    /* n_ports from this one on are the run's own until it ends; 0 = none to be had.  There is one
     * for each of its processes. */
    int master_port, n_ports;
    const char *token;    /* of this run, see core_job_token */
    const char *endpoint; /* host:port where it reports; NULL = nowhere */
    char *const *ports;   /* to open for it, "node:container", ends with NULL; NULL = none */
};
struct env_sink { /* sets a variable of the run, over what it was */
    void *self;
    void (*set)(void *self, const char *key, const char *value);
};

/* What ops->launch may add to a run that starts. */
struct launch_extras {
    struct arena *mem;   /* lives until the run has started */
    char **before;       /* words before the command, a container's too; NULL = none */
    struct env_sink env; /* sets variables, over what they were */
};

/* A message of a hook that is to be sent now. */
struct hook_message {
    char id[64]; /* the same for every try */
    struct delivery_record d;
    const char *why; /* of HOOK_WAITING: why the job waits; NULL = not known */
};
/* e NULL = the receiver has accepted it.  ERR_INVALID: the receiver refuses this message for good;
 * after any other error it is sent again. */
typedef void (*hook_sent_fn)(void *arg, const struct err *e);

/* What the core asks of the program it lives in.  One table, one `self` (core_conf.self).  All of
 * them are called on the loop thread.  A member that may be NULL says what happens then. */
struct core_ops {
    /* Something an operator should read.  NULL: nobody reads it. */
    void (*notice)(void *self, struct str text);
    /* The files of these runs, and of the earlier runs of their jobs, may be deleted; called after
     * the commit that removed the jobs.  The keys are borrowed.  There may be 100 000 of them, so
     * the files should be deleted on another thread.  NULL: the files stay. */
    void (*discard)(void *self, const struct run_key *last, size_t n);
    /* A run of a job that has a `dialect` or ports is about to start; called last of all that
     * builds its environment.  An error fails the start.  NULL: the run starts as it is. */
    int (*launch)(void *self, const struct launch *l, const struct launch_facts *f,
                  struct launch_extras *out, struct err *e);
    /* Runs work(x) on another thread and then done(x) on the loop thread; false: it cannot now.
     * NULL: work is done in place. */
    bool (*offload)(void *self, void (*work)(void *), void (*done)(void *), void *x);
    /* Is this port of this machine free?  Called before a port is given to a run on GPUs.  NULL:
     * all are free. */
    bool (*port_free)(void *self, int port);
    /* When the file was last written, wall clock ms; -1 = there is none.  Called at the end of a
     * run that resumes from a file.  NULL: the file system is asked. */
    int64_t (*file_time)(void *self, const char *path);
    /* Opens the backend of a node that was added with this conf (see core_node_add); called when
     * the node is added and at each start of the daemon.  NULL: nodes cannot be added. */
    int (*open_node)(void *self, struct core_host *h, const struct json *conf,
                     const struct backend_class **cls, struct backend **b, struct err *e);
    /* A job on a node has opened a connection to the daemon (backend_events.call); the callee owns
     * fd.  NULL: the connection is closed. */
    void (*call)(void *self, int fd);
    /* A schedule submits: makes its submission and answers with core_fired_take (schedule.h), now
     * or later.  NULL: schedules never submit. */
    void (*fire)(void *self, struct firing *f);
    /* A study with a job wants a trial: makes its submission and answers with core_trial_take
     * (study.h), now or later.  NULL: studies submit nothing. */
    void (*trial)(void *self, struct trial_launch *t);
    /* The time zone of a schedule; "" = local time.  *out is good for the life of the core.
     * ERR_INVALID: there is no such time zone.  NULL: every schedule counts in UTC. */
    int (*zone)(void *self, const char *name, struct cron_zone *out, struct err *e);
    /* The end step: a run of a job that came through a dialect, or that has a snapshot, has ended,
     * and its files are to be put where they belong before the job moves on (to a final state, or
     * to its next try).  True: the step was begun, and core_end_step_done reports it later, never
     * from inside this call. False: there is nothing to do.  A step must be idempotent: after a
     * crash it is begun again, because the backend keeps the outcome until the job has moved on.
     * Called for every end of a run that was started, also one that is lost, retried or preempted.
     * NULL: no job has one. */
    bool (*end_step)(void *self, struct run_key key);
    /* The core does not wait for this step any longer (somebody cancelled the job, the step took
     * longer than an hour, or the node was removed); its report will be ignored. */
    void (*end_step_cancel)(void *self, struct run_key key);
    /* Does this trouble last?  Called when it may have begun, then every second.  NULL: none does.
     */
    bool (*trouble)(void *self, enum trouble_kind k);
    /* A trouble has begun, or is over: the text of its notice. */
    void (*troubled)(void *self, struct str text);
    /* The run got SIGKILL, or its supervisor did; its container may still exist.  NULL: nobody
     * removes containers. */
    void (*killed)(void *self, struct run_key key);
    /* Sends the message, which lives until `done`.  `done` comes once, on the loop thread, before
     * core_free, or never when the program ends.  NULL: messages wait for a program that sends
     * them. */
    void (*deliver)(void *self, const struct hook_message *m, hook_sent_fn done, void *arg);
};

/* Where the home is and how its jobs reach the daemon. */
struct core_home_conf {
    const char *dir;           /* run files live under this directory */
    const char *socket;        /* the daemon's socket, told to jobs; NULL = none */
    const char *python_path;   /* put on PYTHONPATH of jobs; NULL = none */
    const char *program;       /* our own, to start one process per GPU with; NULL = cannot */
    const uint8_t *secret;     /* 32 bytes; job tokens are derived from it; NULL = zeros */
    const struct vault *vault; /* hides secrets (model/vault.h), borrowed; NULL = cannot */
    uint32_t uid;              /* ours: jobs of others change user (only root can) */
    bool multi_user;           /* other users submit too */
};

/* How GPUs are given out. */
struct core_gpu_conf {
    struct gpu_conf plan;                    /* the planner's; its seed is set by the core */
    int32_t time_scale;                      /* a real second counts as this many; 0 = 1 */
    int master_port_first, master_port_last; /* given to runs on GPUs; 0 = 23000 to 26999 */
};

/* Jobs with an image. */
struct core_container_conf {
    const char *engine;     /* "unix:///run/docker.sock"; NULL = found where engines usually are */
    const char *socket_dir; /* has the daemon's socket, is mounted into containers; NULL = none */
    const char *ports_addr; /* where engines open their ports; NULL = everywhere */
    bool gpus_by_env;       /* variables tell which GPUs; the engine is not asked for devices */
};

/* Strings and the secret are copied by core_new. */
struct core_conf {
    struct ledger ledger;
    struct clock clock;
    uint64_t seed;
    const struct core_ops *ops; /* NULL = every member is NULL */
    void *self;                 /* first argument of every operation */
    struct core_home_conf home;
    struct core_gpu_conf gpu;
    struct core_container_conf containers;
    struct limit_conf limits;
    int64_t patience_ms; /* see sched/plan.h; 0 = five minutes */
    bool lookahead; /* hand the next run of very short jobs to the host before a slot is free */
};

/* Who asks.  An admin may touch everybody's jobs. */
struct caller {
    uint32_t uid, gid;
    char user[64];
    bool admin;
};
/* The one test of what a person may see: admins everything, others what is theirs.  What one may
 * not see one may not change either, so this is also the test for changes.  Nobody else compares a
 * caller with an owner; tests/e2e/test_two_users.py looks for places that do. */
static inline bool caller_sees(const struct caller *who, uint32_t owner)
{
    return who->admin || who->uid == owner;
}

/* Never fails.  conf->ops and conf->self must outlive the core.  Nothing is planned before
 * core_recover. */
struct core *core_new(const struct core_conf *c);
/* Accepts NULL.  Runs go on without the core; backends that the core has opened are closed,
 * requests that still wait for a host are not answered. */
void core_free(struct core *c);
/* The callbacks a backend is opened with; owner is its host. */
extern const struct backend_events core_backend_events;
/* A host called so, or the one there is while nobody speaks to it.  NULL: this machine, named by
 * its backend.  Lives until core_host_remove or core_free. */
struct core_host *core_host_new(struct core *c, const char *name);
/* From now on `b` speaks to it.  What it is believed to run is asked for, at once or by
 * core_recover. */
void core_attach(struct core_host *h, const struct backend_class *cls, struct backend *b);
/* The same; the core closes it when the host is removed, or with core_close_nodes. */
void core_attach_owned(struct core_host *h, const struct backend_class *cls, struct backend *b);
/* The node is gone; its backend is closed, or never was.  Runs on it count as lost. */
void core_host_remove(struct core_host *h);
/* Two steps: restore what was recorded; then ask the backends what happened meanwhile.  -1: the
 * store cannot be read, and the core knows only a part of its jobs. */
int core_recover(struct core *c, struct err *e);
/* Call at the end of each loop turn.  Starts nothing before core_recover and while the store cannot
 * write; the turn after that obstacle plans. */
void core_turn(struct core *c);
/* Monotonic time of the next thing due (a back-off, a schedule), or -1. */
int64_t core_next_wake(const struct core *c);

/* ---- requests; `done` comes after the commit, or at once with an error ---- */
struct submitted {
    uint64_t first, n, batch; /* jobs first … first+n-1 */
    struct id id, batch_id;   /* of the first; the others follow by id_add */
    bool held;                /* the first is */
};
/* r is borrowed for the call, and NULL with an error. */
typedef void (*core_submit_fn)(void *arg, const struct err *e, const struct submitted *r);
/* Takes the submission: numbers, ids, owner and defaults are filled in here.  A single job keeps
 * the id it comes with, if any: one that is taken is ERR_CONFLICT.  jobs[].after are job numbers:
 * an unknown one, or one that ended without success, refuses the submission. */
void core_submit_take(struct core *c, struct submission *s, const struct caller *who,
                      core_submit_fn done, void *arg);

/* What became of the jobs of a request.  For requests about several jobs the four counts add up to
 * the number of jobs. */
struct acted {
    size_t done, already, denied, unknown; /* unknown: no such job */
    const struct run_key *removed;         /* of core_remove: the last run of each, borrowed */
    size_t n_removed;
};
/* r is borrowed for the call.  r is NULL with an error, and without one for a node that is not
 * recorded. */
typedef void (*core_act_fn)(void *arg, const struct err *e, const struct acted *r);
/* Waiting jobs are cancelled at once; runs are told to stop after the commit.  Jobs that are not
 * active, or were cancelled before, count as `already`. */
void core_cancel(struct core *c, const uint64_t *jobs, size_t n, const struct caller *who,
                 core_act_fn done, void *arg);
/* Finished jobs get another attempt; active ones count as `already`. */
void core_retry(struct core *c, const uint64_t *jobs, size_t n, const struct caller *who,
                core_act_fn done, void *arg);
/* Waiting jobs do not start until they are released; those that are held already count as done,
 * those with a run or finished as `already`. */
void core_hold(struct core *c, const uint64_t *jobs, size_t n, const struct caller *who,
               core_act_fn done, void *arg);
/* Held jobs go back to their place in the queue; all others count as `already`. */
void core_release(struct core *c, const uint64_t *jobs, size_t n, const struct caller *who,
                  core_act_fn done, void *arg);
/* Finished jobs only (active ones count as `already`); the files of their runs go after the commit.
 */
void core_remove(struct core *c, const uint64_t *jobs, size_t n, const struct caller *who,
                 core_act_fn done, void *arg);
/* For admins only.  Nothing of a paused queue starts; its runs go on.  The queue need not exist
 * yet. */
void core_pause(struct core *c, struct str queue, bool paused, const struct caller *who,
                core_act_fn done, void *arg);
/* Whoever submits to the queue keeps it open: from now on nothing of it starts while it has no
 * keeper, also after a restart; its runs go on.  Answered after the commit.  Each call, whatever
 * its answer, is followed by one core_queue_unkeep.  core_pause with false and no keeper ends it.
 */
void core_queue_keep(struct core *c, struct str queue, const struct caller *who, core_act_fn done,
                     void *arg);
void core_queue_unkeep(struct core *c, struct str queue);
/* conf is an object with at least `url`, for conf.open_node, and is recorded; no secrets. ERR_LIMIT
 * or ERR_INVALID: it cannot be opened at all.  Whether it can be reached shows later, in its node.
 */
void core_node_add(struct core *c, struct str name, const struct json *conf,
                   const struct caller *who, core_act_fn done, void *arg);
/* ERR_CONFLICT: it has runs, and not `force`; with it they are told to stop and count as lost. */
void core_node_remove(struct core *c, struct str name, bool force, const struct caller *who,
                      core_act_fn done, void *arg);
/* How it is reached, as added; NULL = this machine, or not added by a request.  Borrowed. */
const char *core_node_conf(const struct core *c, size_t at);
/* Closes what conf.open_node opened; before the store is closed. */
void core_close_nodes(struct core *c);
/* ERR_NOT_FOUND: there is no such node. */
void core_drain(struct core *c, struct str node, bool drained, const struct caller *who,
                core_act_fn done, void *arg);

/* ---- hooks (model/hook.h) ---- */
/* Adds the hook, or replaces the one that its owner h->uid has under this name. */
void core_hook_put(struct core *c, const struct change_hook *h, struct str owner,
                   const struct caller *who, core_act_fn done, void *arg);
void core_hook_remove(struct core *c, uint64_t hook, const struct caller *who, core_act_fn done,
                      void *arg);
/* Are there messages that were not sent yet?  Busy: some of them are being sent, or may be due. */
bool core_hooks_pending(const struct core *c);
bool core_hooks_busy(const struct core *c);
/* Sends one message now, whatever the hook waits for; nothing is recorded. */
typedef hook_sent_fn core_hook_test_fn;
void core_hook_test(struct core *c, uint64_t hook, core_hook_test_fn done, void *arg);

/* ---- queues with rules: how many of one run at once, and whether strictly in order ---- */
/* For admins only; others get ERR_DENIED.  Rules are recorded and hold from the next plan on. */
void core_queue_rules(struct core *c, struct str queue, const struct queue_rules *r,
                      const struct caller *who, core_act_fn done, void *arg);
struct queue_rules core_queue_rules_of(const struct core *c, struct str queue);
/* The waiting jobs of a queue, in order; *out is yours. */
size_t core_queue_list(const struct core *c, struct str queue, uint64_t **out);
/* A waiting job takes this place in its queue, counted from 0; beyond the end is the end.
 * ERR_NOT_FOUND: it does not wait (any more). */
void core_queue_move(struct core *c, uint64_t job, size_t place, const struct caller *who,
                     core_act_fn done, void *arg);

/* offset is where the next report must begin, 0 with an error. */
typedef void (*core_report_fn)(void *arg, const struct err *e, int64_t offset);
/* Report lines (JSON, one object each) of a run, from byte `offset` of its spool; what was seen
 * before is skipped, and so are unknown kinds and lines that are not JSON.  `lines` must stay until
 * `done`, because another thread may read them.  ERR_CONFLICT: the run is over. */
void core_report(struct core *c, struct run_key key, int64_t offset, struct str lines,
                 core_report_fn done, void *arg);

/* ---- training: jobs that ask for GPUs, report epochs or resume from a file ---- */
struct core_profile { /* 0 = not told; the ranks and the count: -1 */
    double mean_step_s, epoch_s;
    int64_t mem_bytes; /* on the fullest of its devices */
    int64_t iterations;
    int32_t gpus, rank, local_rank;
};
/* `epochs` are complete in all, says some rank of the current run; `done` comes when that is
 * durable.  ERR_NOT_FOUND: no such job, or it does not run; ERR_INVALID: less than 0 or more than
 * its epochs and one. */
void core_epoch_done(struct core *c, uint64_t job, int64_t epochs, core_act_fn done, void *arg);
/* Rank 0 of the current run begins an epoch and has `epochs` behind it: their snapshot exists.
 * Negative: the caller did not say how many, or which rank it is; that counts for a run on one
 * device, which has no other rank. */
void core_epoch_begins(struct core *c, uint64_t job, int64_t epochs);
/* Must it stop before its next epoch?  One answer for all ranks: it changes only when the first of
 * them reports another epoch.  *known false: no such job, or it does not run. */
bool core_has_to_stop(struct core *c, uint64_t job, bool *known);
/* A heartbeat, or what was measured over an epoch. */
int core_profiled(struct core *c, uint64_t job, const struct core_profile *p, struct err *e);
int core_signal_end(struct core *c, uint64_t job, struct err *e); /* it says that it is complete */
/* How it stands with the planner; false: not an active job with GPUs. Times are wall clock. */
bool core_training(struct core *c, uint64_t job, struct gpu_view *out);
const char *core_wait_name(enum gpu_wait w); /* "gpus", "gpu_memory", … as core_explain has it */
/* What is recorded of the training of a job, for active and finished jobs alike.  `done` are the
 * epochs that were reported, `confirmed` those whose snapshot is known to exist: the two differ
 * only while a run lasts.  measured_bytes is on the fullest of its devices, reserved_bytes on each
 * (0 = all of it). */
struct core_training_past {
    int32_t epochs, done, confirmed;
    int32_t attempts, preemptions;
    int64_t measured_bytes, reserved_bytes;
    int32_t timed;          /* epochs whose length is known */
    double epoch_s, step_s; /* means over these; step_s over the first one while it lasts */
    bool early;             /* it succeeded before its last epoch, by itself */
    bool complete;          /* it said so */
};
int core_training_past(struct core *c, uint64_t job, struct core_training_past *out,
                       struct err *e); /* NOT_FOUND also for a job that does not train */
/* The text that is recorded, see job_record.training; false: it is none. */
bool core_training_parse(struct str text, struct core_training_past *out);
/* The runs that hold devices, in no order; `devices` is borrowed for the call. */
void core_gpu_runs(const struct core *c,
                   void (*fn)(void *arg, struct run_key key, uint32_t uid, size_t node,
                              const struct gpu_set *devices),
                   void *arg);
/* Where jobs report their epochs, host:port; NULL = nowhere. */
void core_set_endpoint(struct core *c, const char *endpoint);

/* Reports the end step that core_ops.end_step began; e NULL = it is complete.  An error becomes a
 * part of the job's reason; the outcome stays as it is. */
void core_end_step_done(struct core *c, struct run_key key, const struct err *e);
/* The step waits for something, such as space on the disk, or begins again: its hour is a new one.
 */
void core_end_step_waits(struct core *c, struct run_key key, bool waits);

/* ---- questions ---- */
/* Has its run ended while the end step is still under way? */
bool core_job_ending(const struct core *c, uint64_t job);
/* Does that step wait for something?  Nothing is added to the output of the run any more. */
bool core_job_end_waits(const struct core *c, uint64_t job);
/* False: the job is final or unknown.  *out_run (may be NULL) has run 0 while there is no run. */
bool core_job_active(const struct core *c, uint64_t job, struct run_key *out_run);
/* Whose it is; false: it has ended and is not in memory. */
bool core_job_owner(const struct core *c, uint64_t job, uint32_t *out);
/* Should the processes of this job exit?  True also for a job that is not active any more. */
bool core_stop_requested(const struct core *c, uint64_t job);
/* Why a job waits and what would let it start, one to three sentences; also for running jobs.  *out
 * is yours.  ERR_NOT_FOUND: the job is final, unknown or not committed yet. */
int core_explain(struct core *c, uint64_t job, struct json **out, struct err *e);
/* The sizes are jobs now, by state; the other numbers count since core_new.  plan_us_* is CPU time
 * of the loop thread in microseconds. */
struct core_stats {
    size_t queued, starting, running, stopping;
    size_t held;    /* of `queued`: those that wait for other jobs or for a retry */
    size_t on_hold; /* in state held */
    uint64_t submitted, started, ended[JOB_STATE_MAX], plans, lost_runs;
    int64_t plan_us_max, plan_us_total;
};
struct core_stats core_stats(const struct core *c);
/* Nodes have places 0 … core_node_count - 1; one that was removed leaves its place empty. */
size_t core_node_count(const struct core *c);
const struct node *core_node(const struct core *c, size_t at); /* NULL = the place is empty */
/* NULL = there is no such node; then *out_at is left alone.  out_at may be NULL. */
const struct node *core_node_find(const struct core *c, struct str name, size_t *out_at);
/* Sets ERR_NOT_FOUND, with the name that comes nearest if there is one. */
int core_node_unknown(const struct core *c, struct str name, struct err *e); /* always -1 */
const struct usage *core_usage(const struct core *c, size_t at); /* of a node that is there */

/* The key of a run of any job, finished or not, whose id is known.  Any thread. */
struct run_key core_run_key(const struct core *c, uint64_t job, struct id id, uint32_t run);
/* Token of one run: opens only that job's record.  "<key>.<40 hex digits>" and the NUL. */
enum { JOB_TOKEN_MAX = 96 };
void core_job_token(const struct core *c, struct run_key key, char out[JOB_TOKEN_MAX]);
/* False: no token of this home, or its job is not there.  True says nothing about whether that run
 * still exists.  Loop thread: may read a row of the store. */
bool core_job_token_check(const struct core *c, struct str token, struct run_key *out);
/* What containers of this home are labelled with; the same for its whole life. */
enum { CORE_HOME_ID_MAX = 17 };
void core_home_id(const struct core *c, char out[CORE_HOME_ID_MAX]);
/* What hides the secrets of submissions; NULL = nothing does.  Any thread may use it. */
const struct vault *core_vault(const struct core *c);
/* Paths of a run's files; yours.  Any thread. */
char *core_log_path(const struct core *c, struct run_key key);
char *core_err_path(const struct core *c, struct run_key key);
char *core_run_dir(const struct core *c, struct run_key key);
char *core_work_dir(const struct core *c, struct run_key key); /* of runs with a snapshot */
