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
#include "model/job.h"
#include "model/spec.h"

struct spec_row { /* planning facts beside the text */
    uint64_t seq;
    struct str body; /* JSON, as accepted by spec_parse */
    struct str name, project, queue;
    struct str nodes; /* where it may run, see nodes_match; empty = anywhere */
    struct resources need;
    int64_t timeout_ms;
    int64_t backoff_ms;
    int32_t priority, retries;
    bool trains; /* spec_trains: its jobs have a training record */
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
struct batch_row {
    uint64_t seq;
    struct id id;
    struct str name, project;
    int32_t slots; /* 0 = no limit */
    uint32_t uid;
    uint64_t first_job, n_jobs;
};
/* All of one submit request; freed by free_fn once durable or refused. */
struct submission {
    struct batch_row batch; /* seq 0 = none */
    struct spec_row *specs;
    size_t n_specs;
    struct job_row *jobs;
    size_t n_jobs;
    struct str idempotency_key; /* empty = none */
    struct str user;            /* the owner */
    uint32_t uid, gid;
    void (*free_fn)(struct submission *s);
};

enum change_kind {
    CHANGE_SUBMIT,      /* submission (pointer; the store owns it until commit) */
    CHANGE_RUN_NEW,     /* key, node, text (its devices, see gpu_set_format), journal, at: the run
                           row; job → starting */
    CHANGE_RUN_STARTED, /* key, pid, pid_start, at; job → running */
    CHANGE_RUN_ENDED,   /* key, outcome, state (job's next), at, detail; next_try_ms when requeued;
                           flag: it was not its fault, so this was no try */
    CHANGE_JOB_STATE, /* jobs first…last, only those whose state is from_state: state, at, reason */
    CHANGE_JOB_CANCEL, /* job: cancel requested while it runs (state → stopping) */
    CHANGE_JOB_RETRY,  /* job: back to queued, next attempt; at */
    CHANGE_QUEUE,      /* name, paused */
    CHANGE_NODE,       /* name, drained; text: it was added, this is how it is reached (JSON) */
    CHANGE_NODE_GONE,  /* name: it was removed */
    CHANGE_REPORT,     /* key (run 0: a person says so), report_kind, name, step, text, at; flag: it
                          is taken back */
    CHANGE_POINTS,  /* key, name: text is a block (series_pack); flag: text is one point that is a
                       text, with step and at */
    CHANGE_SPOOL,   /* key, offset: reports up to here are in; text: members of the event that tells
                       what they brought, JSON; none = no event */
    CHANGE_NOTE,    /* key.job, or name (a project) when that is 0; text, author, uid, at */
    CHANGE_PROJECT, /* name, text: its description; uid, at */
    CHANGE_REMOVE, /* jobs first…last: delete the finished ones with runs and reports; events stay
                    */
    CHANGE_FACT,   /* name, text: kept under that name; no text = forgotten */
    CHANGE_TRAINING, /* job: text is how far its training got */
    CHANGE_FORGET,   /* events and idempotency keys older than at_ms; at most `step` events */
};
struct change {
    enum change_kind kind;
    int64_t at_ms; /* wall clock */
    struct run_key key;
    struct submission *submission;
    uint64_t first, last; /* job numbers; `last` may be 0 where there is only one */
    enum job_state state, from_state;
    struct run_outcome outcome;
    struct str name;   /* queue, node, metric, tag, artifact */
    struct str text;   /* reason, detail, tag value, artifact path */
    struct str user;   /* who asked; for the audit trail */
    struct str author; /* of a note */
    uint32_t uid;      /* of `user` */
    uint32_t journal;  /* generation of the host journal this run reports to */
    int64_t pid, pid_start;
    int64_t next_try_ms; /* wall clock; 0 = at once */
    int64_t step, offset;
    bool flag;
    char report_kind; /* enum mark_kind of store/track.h */
};

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
    struct resources need; /* of its spec, as are the next four */
    int64_t timeout_ms, backoff_ms;
    int32_t retries;
    uint32_t uid;
    struct str queue, nodes;
    int32_t batch_slots;
    struct str training; /* as last recorded (CHANGE_TRAINING); {NULL, 0} = it does not train */
};
struct run_record { /* every run without an outcome */
    struct run_key key;
    struct str node;
    struct gpu_set gpus;
    uint32_t journal;
    int64_t pid, pid_start, placed_ms, started_ms; /* started 0 = only placed */
    int64_t spool_offset;
};
struct node_record {
    struct str name;
    struct str conf; /* how it is reached, as JSON; empty = this machine */
    bool drained;
};
struct dep_record { /* job waits for other, which is not final */
    uint64_t job, other;
};
struct load_sink {
    void (*job)(void *arg, const struct job_record *r);
    void (*run)(void *arg, const struct run_record *r);
    void (*dep)(void *arg, const struct dep_record *r);
    void (*queue)(void *arg, struct str name, bool paused);
    void (*node)(void *arg, const struct node_record *r);
    /* May be NULL.  Job waits for other, which ended while nobody could tell the job: what
     * core_dep_final is for.  Those that succeeded are not reported. */
    void (*dep_final)(void *arg, uint64_t job, uint64_t other, enum job_state state);
    void (*counters)(void *arg, uint64_t next_job, uint64_t next_spec, uint64_t next_batch,
                     uint64_t last_event);
    void *arg;
    /* What CHANGE_FACT keeps, before everything else; may be NULL. */
    void (*fact)(void *arg, struct str name, struct str text);
};
/* What is needed to start a job; read when it is placed, so that waiting jobs cost no memory for
 * it. */
struct launch {
    struct spec *spec;
    struct json *params; /* NULL when none */
    char *name, *batch_name;
    struct id id;
    uint64_t batch;
    int64_t index;
    uint32_t uid, gid;
    char *user;
    struct launch_spec *shared; /* the store's count of `spec`; NULL = spec is the launch's own */
};
/* On the loop thread. */
void launch_done(struct launch *l);
