/* change.h - what the controller asks the store to make durable, as data
 *
 * Changes of one loop turn form one transaction.  Text is borrowed: store_stage copies what it
 * keeps, except inside a submission, which the store holds until its commit.  Replaying changes in
 * order gives the same state.
 */
#pragma once
#include "base/id.h"
#include "base/json.h"
#include "model/gpu_set.h"
#include "model/hook.h"
#include "model/job.h"
#include "model/spec.h"

/* One specification of a submission.  The members beside `body` repeat what the planner needs, so
 * that nobody has to parse the text again. */
struct spec_row { /* planning facts beside the text */
    uint64_t seq;
    struct str body;   /* JSON, as accepted by spec_parse */
    struct str sealed; /* JSON: name → sealed value of its secrets (model/vault.h); empty = none */
    struct str name, project, queue;
    struct str nodes;    /* where it may run, see nodes_match; empty = anywhere */
    struct str snapshot; /* of the directory its runs start in; empty = none */
    struct str notify;   /* its own hooks, see spec.notify; empty = none */
    struct resources need;
    int64_t timeout_ms;
    int64_t backoff_ms;
    int32_t priority, retries, retry_lost;
    bool trains; /* spec_trains: its jobs have a training record */
    bool hold;   /* its jobs are held until somebody releases them */
};
struct job_row {
    uint64_t seq; /* the job's number: 1, 2, 3 … */
    struct id id;
    uint64_t spec, batch; /* batch 0 = none */
    int64_t index;        /* within the batch */
    struct str name;      /* {NULL,0}: the spec's */
    struct str params;    /* JSON object text or empty */
    int32_t priority;
    uint32_t n_after;
    const uint64_t *after; /* job numbers it waits for */
};
/* Jobs that were submitted together; they have the numbers first_job … first_job + n_jobs - 1. */
struct batch_row {
    uint64_t seq;
    struct id id;
    struct str name, project;
    int32_t slots; /* 0 = no limit */
    uint32_t uid;
    uint64_t first_job, n_jobs;
};
/* One trial of a study.  `asked` and `told` count the operations of the study: replaying them in
 * this order gives the engine that made them (tune/study.h). */
enum trial_state { TRIAL_RUNNING, TRIAL_DONE, TRIAL_FAILED, TRIAL_PRUNED, TRIAL_WAITING };
struct trial_row {
    uint64_t study;         /* seq; 0 = none */
    uint64_t number;        /* 1, 2, 3 … within the study */
    uint64_t job;           /* 0 = a client runs it */
    struct str params;      /* JSON object */
    uint64_t asked, told;   /* told 0 = no result yet */
    enum trial_state state; /* waiting: chosen by a person, not handed out yet */
    double value;           /* NaN = none; the first of several */
    struct str values;      /* JSON array, of a study with several objectives; empty = none */
    struct str reason;      /* why it failed or was pruned; empty = nothing to say */
    uint64_t parent;        /* the trial whose state it continues; 0 = none */
    uint32_t hold;          /* how often it was handed out under a lease; 0 = never */
    int32_t lease_s;        /* of the client that has it; 0 = it may take for ever */
};
/* All of one submit request; freed by free_fn once durable or refused. */
struct submission {
    struct batch_row batch; /* seq 0 = none */
    struct spec_row *specs;
    size_t n_specs;
    struct job_row *jobs;
    size_t n_jobs;
    struct str idempotency_key; /* empty = none */
    uint64_t idempotency_print; /* hash of the request that has the key; 0 = unknown */
    struct str user;            /* the owner */
    uint32_t uid, gid;
    /* The schedule that submits this.  Its moment is settled in the same transaction as the jobs
     * appear, so that no crash can come between the two. */
    struct {
        uint64_t seq;      /* 0 = no schedule */
        struct str name;   /* borrowed until the commit */
        int64_t settled_s; /* moments up to this one are settled; 0 = none is (run by hand) */
    } schedule;
    /* The trial of a study whose job this is (seq 0 = none): recorded in the same transaction. */
    struct trial_row trial;
    void (*free_fn)(struct submission *s);
};

/* ---- changes: one struct per kind, named after what it says ---- */
enum change_kind {
    CHANGE_SUBMIT,
    CHANGE_AHEAD,
    CHANGE_AHEAD_GONE,
    CHANGE_RUN_NEW,
    CHANGE_RUN_STARTED,
    CHANGE_RUN_ENDED,
    CHANGE_JOB_STATE,
    CHANGE_JOB_CANCEL,
    CHANGE_JOB_RETRY,
    CHANGE_QUEUE,
    CHANGE_NODE_NEW,
    CHANGE_NODE_DRAIN,
    CHANGE_NODE_GONE,
    CHANGE_MARK,
    CHANGE_MARK_GONE,
    CHANGE_POINTS,
    CHANGE_TEXT_POINT,
    CHANGE_SPOOL,
    CHANGE_NOTE,
    CHANGE_PROJECT,
    CHANGE_REMOVE,
    CHANGE_FACT,
    CHANGE_TRAINING,
    CHANGE_FORGET,
    CHANGE_SCHEDULE,
    CHANGE_SCHEDULE_SETTLED,
    CHANGE_SCHEDULE_GONE,
    CHANGE_HOOK,
    CHANGE_HOOK_GONE,
    CHANGE_DELIVERED,
    CHANGE_WAITED,
    CHANGE_STUDY,
    CHANGE_STUDY_GONE,
    CHANGE_TRIAL,
    CHANGE_TRIAL_TOLD,
    CHANGE_STUDY_SAID,
    CHANGE_STUDY_LOG,
    CHANGE_STUDY_LOG_GONE,
    /* The count of kinds, not a kind.  A new kind needs a case in apply_change and, with texts, a
     * row in change.c. */
    CHANGE_KINDS
};
/* The next run of a waiting job was sent ahead to a host.  Only recovery reads this: the job stays
 * queued and has no such run until CHANGE_RUN_NEW says so. */
struct change_ahead {
    struct run_key key;
    struct str node;
    uint32_t journal; /* as in change_run_new */
};
/* The host has answered: the run has begun, or never will. */
struct change_ahead_gone {
    uint64_t job;
};
/* A job was placed: the run is recorded and the job is starting. */
struct change_run_new {
    struct run_key key;
    struct str node;
    struct str devices; /* its GPUs, see gpu_set_format; empty = none */
    uint32_t journal;   /* generation of the host journal this run reports to */
};
/* The command runs.  The job is running, or stays stopping when a request to stop it was first. */
struct change_run_started {
    struct run_key key;
    int64_t pid, pid_start;
};
/* The run has an outcome; the job is final or queued again. */
struct change_run_ended {
    struct run_key key;
    struct run_outcome outcome;
    enum job_state next; /* of the job: a final state, or queued */
    struct str detail;   /* empty: the outcome says it all */
    int64_t next_try_ms; /* wall clock, when next is queued; 0 = at once */
    bool no_try;         /* the run does not count against the job's retries */
};
/* Those of the jobs first … last whose state is `from` are now in state `to`. */
struct change_job_state {
    uint64_t first, last; /* last 0 = only the first */
    enum job_state from, to;
    struct str reason;
};
/* The job's run is asked to stop because somebody cancelled the job; the job is stopping. */
struct change_job_cancel {
    uint64_t job;
};
/* A finished job is queued again; its retries count from the start. */
struct change_job_retry {
    uint64_t job;
};
/* A queue was paused, resumed or kept; a queue to which nothing of this ever happened has no row.
 * Stored on disk: the numbers stay. */
enum queue_mode {
    QUEUE_OPEN,
    QUEUE_PAUSED,
    QUEUE_KEPT, /* nothing starts while nobody keeps it open; older programs take it for paused */
};
struct change_queue {
    struct str name;
    enum queue_mode mode;
};
struct change_node_new {
    struct str name;
    struct str conf; /* how it is reached, JSON */
    bool drained;
};
/* Also tells that this machine has a name, when no user asked. */
struct change_node_drain {
    struct str name;
    bool drained;
};
/* The node was removed.  Records of runs keep its name. */
struct change_node_gone {
    struct str name;
};
/* A parameter, tag, artifact or epoch: known once per name, the last value stays. */
struct change_mark {
    struct run_key key; /* run 0: a person reports it */
    char kind;          /* enum mark_kind of store/track.h */
    struct str name, text;
    int64_t step; /* -1 = none */
};
/* Removes a mark, in practice a tag; without such a mark nothing happens and there is no event. */
struct change_mark_gone {
    uint64_t job;
    char kind; /* as above */
    struct str name;
};
/* Points of one metric, packed by series_pack. */
struct change_points {
    struct run_key key;
    struct str name, block;
};
/* One point of a metric whose value is a text; its time is that of the change. */
struct change_text_point {
    struct run_key key;
    struct str name, text;
    int64_t step;
};
/* Reports of a run up to this offset of its spool were staged. */
struct change_spool {
    struct run_key key;
    int64_t offset;
    struct str summary; /* members of the event that lists the new points, JSON; empty = no event */
};
/* A remark of a person about a job or a project. */
struct change_note {
    uint64_t job; /* 0 = the note is about the project */
    struct str project, author, text;
    uint32_t uid; /* of the user who asked */
};
/* Describes a project; a project that is not there yet comes into being. */
struct change_project {
    struct str name, description;
    uint32_t uid; /* of the user who asked */
};
/* Deletes those of the jobs first … last that are finished, with runs and reports; events stay. */
struct change_remove {
    uint64_t first, last; /* last 0 = only the first */
};
/* Text that the controller keeps for itself under a name. */
struct change_fact {
    struct str name, value; /* empty value = forget it */
};
/* How far the training of a job got. */
struct change_training {
    uint64_t job;
    struct str record; /* JSON */
};
/* Deletes events and idempotency keys older than before_ms, at most max_events events. */
struct change_forget {
    int64_t before_ms;
    int64_t max_events;
};
/* A schedule as it is recorded.  last_job and last_n are the jobs that it submitted last. */
struct schedule_row {
    uint64_t seq;
    struct str name; /* unique among the schedules of its owner */
    struct str user; /* the owner */
    uint32_t uid, gid;
    struct str def; /* JSON: cron, timezone, overlap, catch_up, job, dialect */
    bool paused;
    int64_t created_ms;
    int64_t settled_s; /* the last settled moment, see model/schedule.h */
    uint64_t last_job, last_n;
    struct str trouble; /* why the last moment submitted nothing; empty = it did */
};
/* A schedule is new, or has another definition.  last_job, last_n and trouble are not written: the
 * first two belong to submissions, and a new definition has no trouble yet. */
struct change_schedule {
    struct schedule_row row;
};
/* Moments up to settled_s were settled without a job. */
struct change_schedule_settled {
    uint64_t seq;
    int64_t settled_s;
    struct str trouble;
};
struct change_schedule_gone {
    uint64_t seq;
};
/* A hook was added or changed, in all its members.  change.user is the owner's name. */
struct change_hook {
    uint32_t uid, gid; /* the owner */
    struct str name, filter, action, secret;
    struct hook_on on;
    bool everyone, enabled;
    bool keep_secret; /* `secret` is empty because the hook keeps the one it has */
};
/* The hook leaves with its messages; `notify` entries that name it have no effect any more. */
struct change_hook_gone {
    uint64_t hook;
};
/* The result of sending a message.  Without an error, the message is done.  With one, its hook is
 * tried again at retry_ms, and messages of events before drop_before_ms are dropped. */
struct change_delivered {
    uint64_t delivery, hook;
    int64_t n, bad;   /* of a summary: what was sent; events that came since stay */
    struct str error; /* empty = it was sent */
    int64_t retry_ms, drop_before_ms;
    bool refused; /* the receiver does not want this message: it is dropped, the next may be sent */
};
/* A study as it is recorded.  `def` is all that a person said of it. */
struct study_row {
    uint64_t seq;
    struct str name; /* unique among the studies of its owner */
    struct str user; /* the owner */
    uint32_t uid, gid;
    struct str def; /* JSON, see core/study.h */
    bool paused;
    bool ended; /* read only: its end was said last */
    int64_t created_ms;
};
/* What a list says of a study, without its trials. */
struct study_sum {
    uint64_t seq;
    uint64_t counts[TRIAL_WAITING + 1];
    uint64_t ops;    /* asked and told so far */
    uint64_t leased; /* trials that clients have under a lease */
    uint64_t best;   /* number of the trial; 0 = none is done, or there are several objectives */
    uint64_t best_job;
    double value;      /* of the best */
    struct str params; /* of the best */
};
/* A study is new, or its definition or `paused` has changed. */
struct change_study {
    struct study_row row;
};
/* Something happened to a study that people want to know: an event, and perhaps messages. */
enum study_said {
    STUDY_SAID_CREATED,
    STUDY_SAID_BEST,
    STUDY_SAID_ENDED,
    STUDY_SAID_PAUSED,
    STUDY_SAID_RESUMED,
    STUDY_SAID_REMOVED
};
struct change_study_said {
    uint64_t seq;
    uint32_t uid; /* the owner */
    enum study_said what;
    bool good; /* of its end: a trial has a result */
    struct str name, owner;
    struct str data; /* further members of the event */
};
/* The study leaves with its trials; jobs stay. */
struct change_study_gone {
    uint64_t seq;
};
/* A trial without a job is new, was handed out, or has lost its client. */
struct change_trial {
    struct trial_row row;
};
/* The result of a trial: number, told, state, value, values and reason of the row. */
struct change_trial_told {
    struct trial_row row;
};
/* Lines at the end of a log, each with its line feed; of CHANGE_STUDY_LOG_GONE without any. */
struct change_study_log {
    uint32_t uid;
    struct str name, lines;
};
/* One change as it is staged.  `kind` selects the member of the union. */
struct change {
    enum change_kind kind;
    int64_t at_ms;   /* wall clock */
    struct str user; /* who asked, for the event; empty = nobody */
    union {
        struct submission *submission; /* CHANGE_SUBMIT; the store owns it until its commit */
        struct change_ahead ahead;
        struct change_ahead_gone ahead_gone;
        struct change_run_new run_new;
        struct change_run_started run_started;
        struct change_run_ended run_ended;
        struct change_job_state job_state;
        struct change_job_cancel job_cancel;
        struct change_job_retry job_retry;
        struct change_queue queue;
        struct change_node_new node_new;
        struct change_node_drain node_drain;
        struct change_node_gone node_gone;
        struct change_mark mark;
        struct change_mark_gone mark_gone;
        struct change_points points;
        struct change_text_point text_point;
        struct change_spool spool;
        struct change_note note;
        struct change_project project;
        struct change_remove remove;
        struct change_fact fact;
        struct change_training training;
        struct change_forget forget;
        struct change_schedule schedule;
        struct change_schedule_settled schedule_settled;
        struct change_schedule_gone schedule_gone;
        struct change_hook hook;
        struct change_hook_gone hook_gone;
        struct change_study study;
        struct change_study_gone study_gone;
        struct change_study_said study_said;
        struct change_trial trial;
        struct change_trial_told trial_told;
        struct change_study_log study_log;
        struct change_delivered delivered; /* CHANGE_WAITED has no member: at_ms is all it says */
    };
};
/* The borrowed texts of a change, so that whoever keeps the change can copy them.  Returns how
 * many there are. */
enum { CHANGE_TEXTS_MAX = 5 };
size_t change_texts(struct change *c, struct str *out[CHANGE_TEXTS_MAX]);

/* ---- what is read back at start, in job number order ---- */
struct job_record { /* every job that is not final */
    uint64_t seq, spec, batch;
    struct id id;
    int64_t index, created_ms, next_try_ms;
    enum job_state state;
    int32_t priority;
    uint32_t attempt; /* runs so far */
    uint32_t
        tries; /* runs since submit or the last `berth retry`: what retries are counted against */
    bool cancel_requested;
    struct resources need; /* of its spec, as are timeout_ms to retry_lost */
    int64_t timeout_ms, backoff_ms;
    int32_t retries, retry_lost;
    uint32_t lost; /* its lost runs; counted only when retry_lost is not 0 */
    uint32_t full; /* runs in a row that met a full disk, of a job that waits; counted at start */
    uint32_t uid;
    struct str queue, nodes;
    int32_t batch_slots;
    struct str training; /* as last recorded (CHANGE_TRAINING); {NULL, 0} = it does not train */
};
struct run_record { /* every run without an outcome, and every one that was sent ahead */
    struct run_key key;
    struct str node;
    struct gpu_set gpus;
    uint32_t journal;
    int64_t pid, pid_start, placed_ms, started_ms; /* started 0 = only placed */
    int64_t spool_offset;
    bool ahead; /* from CHANGE_AHEAD: its job is queued */
};
struct node_record {
    struct str name;
    struct str conf; /* how it is reached, as JSON; empty = this machine */
    bool drained;
};
struct dep_record { /* job waits for other, which is not final */
    uint64_t job, other;
};
/* Receives what store_load reads, in this order: facts, counters, queues, nodes, jobs,
 * dependencies, runs, schedules, studies.  All texts are borrowed for the call; the functions run
 * on the thread of the load. */
struct load_sink {
    void (*job)(void *arg, const struct job_record *r);
    void (*run)(void *arg, const struct run_record *r);
    void (*dep)(void *arg, const struct dep_record *r);
    void (*queue)(void *arg, struct str name, enum queue_mode mode);
    void (*node)(void *arg, const struct node_record *r);
    /* May be NULL.  Job waits for other, which ended while nobody could tell the job: what
     * core_dep_final is for.  Those that succeeded are not reported. */
    void (*dep_final)(void *arg, uint64_t job, uint64_t other, enum job_state state);
    void (*counters)(void *arg, uint64_t next_job, uint64_t next_spec, uint64_t next_batch,
                     uint64_t last_event);
    void *arg;
    /* What CHANGE_FACT keeps, before everything else; may be NULL. */
    void (*fact)(void *arg, struct str name, struct str text);
    /* Runs of jobs from this number on have a tag in their key; with the counters.  May be NULL. */
    void (*tagged)(void *arg, uint64_t first);
    /* Every schedule; may be NULL. */
    void (*schedule)(void *arg, const struct schedule_row *r);
    /* Every study, then the sum of each.  If it returns true, the trials of the study follow in the
     * order of their numbers.  May be NULL. */
    void (*study)(void *arg, const struct study_row *r);
    bool (*study_sum)(void *arg, const struct study_sum *x);
    void (*trial)(void *arg, const struct trial_row *r);
};
/* What is needed to start a job; read when it is placed, so that waiting jobs cost no memory for
 * it. */
struct launch {
    struct spec *spec;
    struct json *params;       /* NULL when none */
    const struct json *sealed; /* name → sealed value; NULL when none; as long as `spec` */
    char *name, *batch_name;
    struct id id;
    uint64_t batch;
    int64_t index;
    uint32_t uid, gid;
    char *user;
    struct launch_spec *shared; /* the store's count of `spec`; NULL = spec is the launch's own */
};
/* Frees what read_launch filled in and zeroes the struct; accepts a zeroed one.  On the loop
 * thread, because the count of a shared spec has no lock. */
void launch_done(struct launch *l);
