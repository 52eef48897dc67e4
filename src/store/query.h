/* query.h - what is read for people: jobs, runs, events; of experiments see track.h
 *
 * Every function may be called from any thread; it borrows a read connection for the call.  Only
 * committed state is seen.  Views are borrowed during the callback.
 */
#pragma once
#include "model/filter.h"
#include "model/job_column.h"
#include "store/store.h"

/* Between the two, what this thread reads of this store is of one committed state: that of the
 * first read.  Not nested; a read inside the callback of another may see a newer state. */
void store_snapshot_begin(struct store *s);
void store_snapshot_end(struct store *s);

/* What the last run of a job used. */
struct job_usage {
    int64_t max_rss_bytes, cpu_ms;
};

/* What was submitted, and by whom if not by a person. */
struct job_origin {
    struct str command;  /* JSON text of the spec's command member */
    struct str schedule; /* that submitted it; empty = none did */
};

/* The batch of a job and its place there.  All zero without a batch. */
struct job_batch {
    uint64_t seq;
    struct id id;
    struct str name;
    int64_t index;
};

/* One job as people see it.  Texts are borrowed until the callback returns. */
struct job_view {
    uint64_t seq;
    struct id id;
    struct job_batch batch;
    struct str name, project, queue, user, params /* JSON or empty */, reason;
    struct str training; /* JSON object, see core_training_parse; empty = it does not train */
    struct job_origin origin;
    uint32_t uid;
    enum job_state state;
    int exit_code; /* -1 = none */
    int32_t priority;
    uint32_t attempt;
    int64_t created_ms, started_ms, ended_ms; /* 0 = not yet */
    int64_t ran_ms;                           /* running time of the runs that have ended */
    struct job_usage usage;
    struct resources need;
    bool cancel_requested;
};
/* Sort keys: id (default, newest first with desc), name, state, priority, created, started, ended,
 * duration, exit_code. */
struct job_query {
    const struct filter *filter; /* NULL = all */
    const char *project, *user, *queue;
    uint32_t state_mask; /* bit per enum job_state; 0 = all */
    uint64_t batch;      /* 0 = any */
    bool only_uid;       /* restrict to `uid` */
    uint32_t uid;
    const char *sort;
    const struct job_column *by; /* sort by this instead; jobs without a value come last */
    bool desc;
    size_t limit;       /* 1 … 10000 */
    const char *cursor; /* opaque, from the last page; NULL = first */
};
typedef bool (*job_view_fn)(void *arg, const struct job_view *v); /* false = stop */
/* *out_cursor: yours, NULL when this was the last page. */
int store_jobs(struct store *s, const struct job_query *q, job_view_fn fn, void *arg,
               char **out_cursor, struct err *e);
/* The value a job has in a column. */
struct job_value {
    enum {
        JOB_VALUE_NOTHING,
        JOB_VALUE_JSON,
        JOB_VALUE_NUMBER,
        JOB_VALUE_INTEGER,
        JOB_VALUE_WORDS
    } is;
    struct str text; /* JSON: of a parameter, as it was written.  WORDS: of a tag or a metric */
    double number;   /* NUMBER, may be NaN or infinite */
    int64_t integer; /* INTEGER */
};
/* What the job has in each of the columns, in their order; texts are borrowed until fn returns. */
int store_columns(struct store *s, const struct job_view *v, const struct job_column *columns,
                  size_t n, void (*fn)(void *arg, size_t i, const struct job_value *v), void *arg,
                  struct err *e);
int store_job_seqs(struct store *s, const struct job_query *q, uint64_t **out, size_t *out_n,
                   struct err *e); /* all matches, no limit */
int store_job(struct store *s, uint64_t seq, job_view_fn fn, void *arg,
              struct err *e); /* NOT_FOUND */
/* How many matching jobs are in each state; limit, sort and cursor of the query are ignored. */
int store_job_counts(struct store *s, const struct job_query *q, uint64_t out[JOB_STATE_MAX],
                     struct err *e);
/* "42" (number), a 26-character id or a unique prefix of one, a UUID or at least four characters
 * of one (eight, if they are all digits).  Ambiguous → CONFLICT naming two candidates. */
int store_resolve(struct store *s, struct str text, uint64_t *out_seq, struct err *e);
/* The JSON of the job's spec as it was accepted; *out_json is yours. */
int store_job_spec(struct store *s, uint64_t seq, char **out_json, struct err *e);
/* The same; *out_old: it was stored before secrets were hidden, and may hold some in the clear. */
int store_job_spec_age(struct store *s, uint64_t seq, char **out_json, bool *out_old,
                       struct err *e);
/* Does a job or a schedule name this snapshot?  1 = yes, 0 = no, -1 = the store cannot tell. */
int store_snapshot_used(struct store *s, const char *id, struct err *e);
/* The numbers of the jobs it waits or waited for, ascending; *out is yours.  A job that is not
 * there has none. */
int store_job_deps(struct store *s, uint64_t seq, uint64_t **out, size_t *out_n, struct err *e);

/* One attempt of a job.  exit_code is -1 while the run has not ended, and when its outcome has no
 * code; times are wall clock ms, 0 = not yet. */
struct run_view {
    struct run_key key;
    struct str node, detail;
    enum run_end why;
    bool ended;
    int exit_code;
    struct gpu_set gpus;
    int64_t pid, placed_ms, started_ms, ended_ms, max_rss_bytes, cpu_user_ms, cpu_sys_ms;
};
/* All runs of the job, oldest first; a job that is not there has none. */
int store_runs(struct store *s, uint64_t job, bool (*fn)(void *arg, const struct run_view *v),
               void *arg, struct err *e);

struct event_view {
    uint64_t seq, first, last; /* jobs it is about; 0 = none */
    int64_t at_ms;
    struct str kind; /* "job.queued" "job.starting" "job.running" "job.stopping" "job.succeeded" …
                        "batch.submitted" "queue.paused" "report.metric" … */
    struct str data; /* JSON object */
};
/* Events with a number above `after`, ascending; limit 0 = all.  With `job` also events about a
 * range of jobs that includes it. */
int store_events(struct store *s, uint64_t after, size_t limit, uint64_t job /* 0 = any */,
                 bool (*fn)(void *arg, const struct event_view *v), void *arg, struct err *e);

/* What an idempotency key made: the jobs first … first+n-1.  batch may be 0; print is that of the
 * submission, 0 = unknown. */
struct idempotent {
    uint64_t first, n, batch, print;
};
/* 1 = known, 0 = new key. */
int store_idempotent(struct store *s, uint32_t uid, struct str key, struct idempotent *out,
                     struct err *e);
/* Newest first, those before batch number `before` (0 = from the newest); at most `limit`. */
struct batch_view {
    uint64_t seq;
    struct id id;
    struct str name, project;
    uint32_t uid;
    int32_t slots;
    uint64_t first_job, n_jobs;
    int64_t created_ms;
    uint64_t counts[JOB_STATE_MAX];
};
int store_batches(struct store *s, bool only_uid, uint32_t uid, uint64_t before, size_t limit,
                  bool (*fn)(void *arg, const struct batch_view *v), void *arg, struct err *e);
/* Every named queue there is a record of: used by a spec, or paused once. */
int store_queues(struct store *s, bool (*fn)(void *arg, struct str name, bool paused), void *arg,
                 struct err *e);
/* The newest batch of that name, else the batch of that number, else the newest whose id begins so;
 * ERR_NOT_FOUND. */
int store_batch_find(struct store *s, struct str name_or_id, uint64_t *out_seq, struct err *e);
