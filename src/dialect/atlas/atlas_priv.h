/* atlas_priv.h - what the files of this dialect share
 *
 * A request becomes a `struct atlas_call`, which goes to a worker thread and back, or to the
 * controller and back; only its last step looks whether anybody still waits for the answer.
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
#include "request/auth.h"
#include "store/query.h"

enum {
    ATLAS_BODY_MAX = 4 << 20,
    ATLAS_FILE_MAX = 256 << 20, /* of an archive, sent by a script on another machine */
    ATLAS_REPLY_MAX = 512 << 20,
    ATLAS_LOG_MAX = 256 << 20, /* of a log as a JSON text; longer ones: their end */
    ATLAS_UPLOADS_MAX = 8,     /* unpacked at once; more wait */
    ATLAS_ARGS_MAX = 3,
    ATLAS_WORKERS_MAX = 1000,
    ATLAS_LOG_LIMIT = 1 << 30, /* of a job */
};

struct atlas_live { /* a job with a working directory */
    uint64_t job;
    char id[ATLAS_ID_MAX];
    int32_t worker; /* -1 = none */
    bool archiving;
};
struct atlas {
    struct atlas_conf conf; /* texts are copies */
    struct http_handler next;
    struct cas *cas;
    char *archive_dir, *work_dir;
    VEC(struct atlas_live) live;
    VEC(int32_t) workers;             /* their numbers, ascending */
    VEC(struct atlas_call *) waiting; /* for the archive of a job */
    size_t working;                   /* on worker threads */
    size_t uploads;
    VEC(struct upload *) queued_uploads;
    struct schedules *schedules;
    struct notify *notify; /* NULL = nobody is told */
    bool closing;
};

struct atlas_call;
typedef int (*atlas_work_fn)(struct atlas_call *c);  /* worker thread; fills err when -1 */
typedef void (*atlas_then_fn)(struct atlas_call *c); /* loop thread */
struct atlas_route {
    const char *method, *path; /* "{}" stands for one segment */
    atlas_then_fn handler;
};
struct atlas_call {
    struct atlas *a;
    struct http_req *req; /* NULL once the client left; loop thread only */
    struct caller who;
    struct http_peer peer;
    bool check_peer; /* nobody showed a token: who is at the other end? */
    struct arena mem;
    struct str arg[ATLAS_ARGS_MAX]; /* what stood for {}; NUL-terminated */
    struct str query, body;
    uint64_t *unarchived; /* jobs whose archives are not complete: running, or just ended */
    size_t n_unarchived;
    /* The answer. */
    struct err err;
    int status; /* 200 unless set */
    const char *type;
    struct buf out;
    uint64_t job;        /* of handlers that ask the controller */
    const char *removed; /* id of the job that atlas_remove removes */
    atlas_then_fn then_removed;
    void *data;
    void (*free_data)(void *data);
    atlas_work_fn work;
    atlas_then_fn then;
};

/* ---- dialect.c ---- */
/* `then` NULL: atlas_reply.  When work fails, its error is the answer and `then` is not called. */
void atlas_work(struct atlas_call *c, atlas_work_fn work, atlas_then_fn then);
void atlas_reply(struct atlas_call *c); /* status, type, out; ends the call, as do the next two */
void atlas_fail(struct atlas_call *c, const struct err *e);
void atlas_call_free(struct atlas_call *c);
struct http_req *atlas_take_req(struct atlas_call *c); /* NULL when the client left */
/* Answers 204 (or what is in c->status) once the controller is done, or the error. */
void atlas_acted(void *arg, const struct err *e, const struct acted *r);
char *atlas_param(struct atlas_call *c, const char *name); /* of the query; NULL = absent */
char *atlas_decode(struct atlas_call *c, struct str s);    /* %XX and +; in the call's memory */
struct json *atlas_body(struct atlas_call *c);             /* NULL: err is set */

/* ---- auth.c ---- */
/* Who asks?  -1: refused and answered.  What only a look at the system can tell is left to the
 * worker thread (check_peer). */
int atlas_identify(struct atlas *a, struct http_req *r, struct atlas_call *c);
int atlas_check_peer(const struct atlas *a, const struct http_peer *p, struct err *e); /* worker */
/* ---- tokens.c ---- */
bool atlas_token_user(const struct atlas *a, struct str token, char *user, size_t n);
void atlas_auth_login(struct atlas_call *c);
void atlas_auth_verify(struct atlas_call *c);
void atlas_auth_logout(struct atlas_call *c);

/* ---- live.c ---- */
struct atlas_live *atlas_live_find(struct atlas *a, uint64_t job);
struct atlas_live *atlas_live_add(struct atlas *a, uint64_t job, const char *id);
void atlas_live_look(struct atlas *a);                 /* whatever ended goes to its archive */
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
    char id[ATLAS_ID_MAX];
    enum atlas_state state;
    enum job_state real;
    char *project, *user, *reason;
    int64_t created_ms, started_ms, ended_ms;
    int exit_code;
    uint32_t attempt;
    struct json *extra; /* spec, metadata, gpu_spec; NULL = not one of ours, or unread */
};
void atlas_job_done(struct atlas_job *j);
/* Without extra. */
void atlas_job_fill(const struct atlas_call *c, const struct job_view *v, struct atlas_job *out);
int atlas_job_extra(const struct atlas_call *c, struct atlas_job *j, struct err *e);
/* Its number; ERR_NOT_FOUND. */
int atlas_resolve(struct store *s, const char *id, uint64_t *out, struct err *e);
/* By its id; ERR_NOT_FOUND.  With extra. */
int atlas_job_find(struct atlas_call *c, struct str id, struct atlas_job *out);
struct json *atlas_job_json(const struct atlas_job *j);
/* Its log, or what there is to say instead; at most ATLAS_LOG_MAX bytes, from the end.  Yours. */
char *atlas_job_log(const struct atlas_call *c, const struct atlas_job *j, size_t *out_n);
void atlas_time_text(int64_t ms, char out[40]); /* ISO 8601 with the offset of UTC */

/* ---- listing.c ---- */
void atlas_listing(struct atlas_call *c);
void atlas_overview(struct atlas_call *c);
/* ---- tracker.c ---- */
const struct atlas_route *atlas_tracker_route(struct http_req *r, struct str args[ATLAS_ARGS_MAX],
                                              bool *known);
/* ---- dialect.c: the route of a path; *known: it is in the table, if with another method */
const struct atlas_route *atlas_route_in(const struct atlas_route *table, size_t n,
                                         struct str method, struct str path,
                                         struct str args[ATLAS_ARGS_MAX], bool *known);

/* ---- jobs.c ---- */
/* c->job leaves the records, then all that is kept of its files goes, then `then` answers. */
void atlas_remove(struct atlas_call *c, const char *id, atlas_then_fn then);
void atlas_removed(struct atlas_call *c); /* answers 204 */

/* ---- handlers ---- */
void atlas_hello(struct atlas_call *c);
void atlas_enqueue(struct atlas_call *c);
void atlas_queue_list(struct atlas_call *c);
void atlas_queue_get(struct atlas_call *c);
void atlas_queue_delete(struct atlas_call *c);
void atlas_queue_patch(struct atlas_call *c);
void atlas_jobs_list(struct atlas_call *c);
void atlas_jobs_logs(struct atlas_call *c);
void atlas_jobs_container(struct atlas_call *c);
void atlas_jobs_stop(struct atlas_call *c);
void atlas_jobs_delete(struct atlas_call *c);
void atlas_job_get(struct atlas_call *c);
void atlas_job_tail(struct atlas_call *c);
void atlas_workers_list(struct atlas_call *c);
void atlas_workers_add(struct atlas_call *c);
void atlas_workers_remove(struct atlas_call *c);
void atlas_bundle_get(struct atlas_call *c);
void atlas_bundle_delete(struct atlas_call *c);
void atlas_contents_ask(struct atlas_call *c);
void atlas_archive_file(struct atlas_call *c);
void atlas_files_get(struct atlas_call *c);
void atlas_files_put(struct atlas_call *c);

/* ---- scheduled.c, scheduled_http.c: jobs that run again and again ---- */
int atlas_schedules_open(struct atlas *a, struct err *e);
void atlas_schedules_recover(struct atlas *a);
void atlas_schedules_shut(struct atlas *a);
void atlas_schedules_free(struct schedules *s);
void atlas_scheduled_list(struct atlas_call *c);
void atlas_scheduled_get(struct atlas_call *c);
void atlas_scheduled_post(struct atlas_call *c);
void atlas_scheduled_put(struct atlas_call *c);
void atlas_scheduled_patch(struct atlas_call *c);
void atlas_scheduled_delete(struct atlas_call *c);

/* ---- notify.c: what becomes of jobs is told in Slack ---- */
void atlas_notify_open(struct atlas *a); /* once the store is loaded */
void atlas_notify_look(struct notify *n);
void atlas_notify_shut(struct notify *n);
bool atlas_notify_busy(const struct notify *n);
void atlas_notify_free(struct notify *n);

/* ---- upload.c ---- */
bool atlas_upload_begin(struct atlas *a, struct http_req *r);
void atlas_upload_piece(struct atlas *a, struct http_req *r, struct str bytes);
void atlas_upload_request(struct atlas *a, struct http_req *r);

/* ---- download.c ---- */
void atlas_waiting_look(struct atlas *a); /* an archive is complete: those who wait for it go on */
