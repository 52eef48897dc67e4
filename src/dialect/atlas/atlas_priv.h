/* atlas_priv.h - what the files of this dialect share
 */
#pragma once
#include "api/api.h"
#include "archive/cas.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/vec.h"
#include "dialect/atlas/atlas.h"
#include "dialect/atlas/home.h"
#include "io/loop.h"
#include "request/service.h"
#include "request/upload.h"
#include "store/query.h"

enum {
    ATLAS_BODY_MAX = 4 << 20,
    ATLAS_FILE_MAX = 256 << 20, /* of an archive, sent by a script on another machine */
    ATLAS_REPLY_MAX = 512 << 20,
    ATLAS_LOG_MAX = 256 << 20, /* of a log as a JSON text; longer ones: their end */
    ATLAS_UPLOADS_MAX = 8,     /* unpacked at once; more wait */
    ATLAS_WORKERS_MAX = 1000,
    ATLAS_LOG_LIMIT = 1 << 30, /* of a job */
};

/* A job whose run has started, and the worker that listings show it on.  Workers are numbers only:
 * the limit of the queue says how many jobs run at once. */
struct atlas_live { /* a job on a worker */
    uint64_t job;
    char id[ATLAS_ID_MAX];
    int32_t worker; /* -1 = none */
};
struct atlas_full { /* a job whose archive waits for space */
    char id[ATLAS_ID_MAX];
    char text[300];
};
struct atlas {
    struct atlas_conf conf; /* texts are copies */
    char addr[64];          /* of the ports of atlas-server; a port 0 is not opened */
    int ports[5];
    struct cas *cas;
    char *archive_dir, *work_dir;
    VEC(struct atlas_live) live;
    VEC(struct atlas_full) full; /* live.c, with its lock */
    VEC(int32_t) workers;        /* their numbers, ascending */
    VEC(struct call *) waiting;  /* for the archive of a job */
    struct upload_line uploads;
    bool notifies; /* there is a token for Slack */
    bool closing;
};

/* What every call has beside its data. */
struct atlas_note {
    uint64_t job;        /* of handlers that ask the controller */
    const char *removed; /* id of the job that atlas_remove removes */
    call_fn then_removed;
};
static inline struct atlas *call_atlas(const struct call *c)
{
    return c->self;
}
static inline struct atlas_note *atlas_note(const struct call *c)
{
    return c->extra;
}

/* ---- dialect.c ---- */
/* call_work with the body kept. */
void atlas_work(struct call *c, call_work_fn work, call_fn then);

/* ---- auth.c ---- */
int atlas_identify(void *self, struct http_req *r, struct who *out, struct err *e);
/* ---- tokens.c ---- */
bool atlas_token_user(const struct atlas *a, struct str token, char *user, size_t n);
void atlas_auth_login(struct call *c);
void atlas_auth_verify(struct call *c);
void atlas_auth_logout(struct call *c);

/* ---- live.c ---- */
/* The job that a worker is running; NULL = the worker is idle. */
const struct atlas_live *atlas_on_worker(struct atlas *a, int32_t worker);
/* A run of the job starts: the job is put on an idle worker. */
void atlas_live_add(struct atlas *a, uint64_t job, const char *id);
/* Has the job ended but for its archive, which waits for space?  Any thread. */
bool atlas_archive_waits(struct atlas *a, const char *id, struct atlas_full *out);
int32_t atlas_workers_set(struct atlas *a, int32_t n); /* makes the list 0 … n - 1 */

/* ---- submit.c ---- */
struct atlas_room { /* what the nodes have */
    int32_t gpus;
    int64_t mem_bytes; /* of the largest */
};
struct atlas_room atlas_room_of(const struct atlas *a);
struct atlas_submission;
struct submit;
/* A submission as the controller takes it; worker thread. */
int atlas_prepare(const struct atlas *a, const struct atlas_submission *s,
                  const struct atlas_room *room, const struct caller *who, struct submit **out,
                  struct err *e);

/* ---- facts.c: a job as Atlas sees it; worker thread ---- */
enum atlas_state { ATLAS_QUEUED, ATLAS_PENDING, ATLAS_RUNNING, ATLAS_COMPLETED, ATLAS_FAILED };
extern const char *const atlas_state_names[];
struct atlas_job {
    uint64_t job;
    struct id job_id;
    char id[ATLAS_ID_MAX]; /* as Atlas writes it */
    enum atlas_state state;
    enum job_state real;
    char *project, *user, *reason;
    int64_t created_ms, started_ms, ended_ms;
    int exit_code;
    uint32_t attempt;
    struct json *extra; /* spec, metadata, gpu_spec; NULL = not one of ours, or unread */
};
void atlas_job_done(struct atlas_job *j); /* AUTO(atlas_job) struct atlas_job j = {0}; */
/* Without extra. */
void atlas_job_fill(const struct job_view *v, struct atlas_job *out);
int atlas_job_extra(const struct call *c, struct atlas_job *j, struct err *e);
/* The number of the job with this id; ERR_NOT_FOUND. */
int atlas_resolve(struct store *s, const char *id, uint64_t *out, struct err *e);
/* The job with this number, without extra. */
int atlas_job_read(const struct call *c, uint64_t job, struct atlas_job *out, struct err *e);
/* The job with this id, with extra; ERR_NOT_FOUND.  *out needs atlas_job_done in any case. */
int atlas_job_find(struct call *c, struct str id, struct atlas_job *out);
/* The same; the beginning of an id is enough if only one job has it.  ERR_CONFLICT: several have.
 */
int atlas_job_find_short(struct call *c, struct str id, struct atlas_job *out);
struct json *atlas_job_json(const struct atlas_job *j);
/* Has it failed for a reason that can be told? */
bool atlas_job_failed(const struct atlas_job *j);
/* The log of a job, or the reason why the job has none; at most ATLAS_LOG_MAX bytes, from the end.
 * Yours. */
char *atlas_job_log(const struct call *c, const struct atlas_job *j, size_t *out_n);
/* The log as a member of the answer, null for a queued job; without a key as a text alone, which is
 * empty for a queued job. */
void atlas_add_log(struct call *c, const char *key, const struct atlas_job *j);
void atlas_time_text(int64_t ms, char out[40]); /* ISO 8601 with the offset of UTC */
void atlas_add_time(struct buf *b, const char *key, int64_t ms); /* the same as JSON; 0 is null */

/* ---- listing.c ---- */
void atlas_listing(struct call *c);
void atlas_overview(struct call *c);
/* ---- tracker.c ---- */
extern const struct route atlas_tracker_routes[];
extern const size_t atlas_tracker_n_routes;

/* ---- jobs.c ---- */
/* Removes the record of atlas_note(c)->job, then the files of the job; then `then` answers. */
void atlas_remove(struct call *c, const char *id, call_fn then);
void atlas_removed(struct call *c); /* answers 204 */

/* ---- handlers ---- */
void atlas_hello(struct call *c);
void atlas_enqueue(struct call *c);
void atlas_queue_list(struct call *c);
void atlas_queue_get(struct call *c);
void atlas_queue_delete(struct call *c);
void atlas_queue_patch(struct call *c);
void atlas_jobs_list(struct call *c);
void atlas_jobs_logs(struct call *c);
void atlas_jobs_container(struct call *c);
void atlas_jobs_stop(struct call *c);
void atlas_jobs_delete(struct call *c);
void atlas_job_get(struct call *c);
void atlas_job_tail(struct call *c);
void atlas_workers_list(struct call *c);
void atlas_workers_add(struct call *c);
void atlas_workers_remove(struct call *c);
void atlas_bundle_get(struct call *c);
void atlas_bundle_delete(struct call *c);
void atlas_contents_ask(struct call *c);
void atlas_archive_file(struct call *c);
void atlas_files_get(struct call *c);
void atlas_files_put(struct call *c);

/* ---- scheduled.c, scheduled_http.c: jobs that run again and again ---- */
struct firing;
void atlas_fire(void *self, struct firing *f); /* see host_part.fire */
/* Imports definitions of earlier versions and removes what a crash left of bundles. */
void atlas_schedules_recover(struct atlas *a);
void atlas_scheduled_list(struct call *c);
void atlas_scheduled_get(struct call *c);
void atlas_scheduled_post(struct call *c);
void atlas_scheduled_put(struct call *c);
void atlas_scheduled_patch(struct call *c);
void atlas_scheduled_delete(struct call *c);

/* ---- notify.c: messages about jobs to Slack ---- */
void atlas_notify_open(struct atlas *a); /* reads the token from the environment */
/* Adds the key `notify` to the form of a job that has a channel.  Any thread. */
void atlas_notify_add(const struct atlas *a, const struct json *metadata, struct json *form);
/* The part's operation `notice`. */
enum part_notice atlas_notice(void *self, uint64_t job, enum hook_event ev, struct buf *out);

/* ---- upload.c ---- */
void atlas_upload_begin(struct call *c);
void atlas_upload_end(struct call *c); /* POST /job_bundle, when its body is complete */

/* ---- download.c ---- */
void atlas_waiting_look(struct atlas *a); /* an archive is complete: requests for it continue */
