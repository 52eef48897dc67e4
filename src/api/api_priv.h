/* api_priv.h - what the files of this room share
 *
 * A request becomes a `struct call` (call.c), which outlives the connection it came on: it goes to
 * a worker thread and back, or to the controller and back, and only its last step looks whether
 * anybody still waits for the answer.
 */
#pragma once
#include "api/api.h"
#include "api/auth.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "core/core.h"
#include "io/loop.h"
#include "store/query.h"

enum {
    API_BODY_MAX = 1 << 20,          /* of a request without a limit of its own */
    API_LIST_BODY_MAX = 4 << 20,     /* lists of jobs to act on: 100 000 ids */
    API_REPORT_BODY_MAX = 4 << 20,   /* one piece of a spool */
    API_SUBMIT_BODY_MAX = 256 << 20, /* bulk submit */
    API_YAML_BODY_MAX = 16 << 20,    /* YAML is read as a whole tree */
    API_REPLY_MAX = 512 << 20,       /* a page of 10 000 jobs with large params */
    API_PAGE_DEFAULT = 100,
    API_PAGE_MAX = 10000,
    API_KEY_MAX = 200, /* Idempotency-Key */
};

struct call;
struct events;
struct follows;
struct api {
    struct api_conf conf; /* texts are copies */
    struct http_server *server;
    struct auth_conf auth;
    struct call *calls;      /* all under way */
    size_t working;          /* of them, with a worker thread */
    struct map_str keys;     /* idempotency keys under way → struct key_wait (jobs_submit.c) */
    struct events *events;   /* events.c */
    struct follows *follows; /* follow.c */
    uint64_t counts[JOB_STATE_MAX]; /* of all jobs, as of event counts_at - 1; 0 = never asked */
    uint64_t counts_at;
    bool closing;
};

typedef void (*call_fn)(struct call *c);     /* loop thread */
typedef int (*call_work_fn)(struct call *c); /* worker thread; fills c->err when it returns -1 */

struct route {
    const char *method, *path; /* "{job}" stands for one segment, kept in call.arg */
    call_fn handler;
    enum auth_class auth;
    size_t body_max; /* 0 = API_BODY_MAX */
};

struct live_spot {
    size_t at; /* of the null in `out` */
    uint64_t seq;
};
struct call {
    struct api *api;
    struct http_req *req; /* NULL when the client left; loop thread only */
    const struct route *route;
    struct who who;
    struct arena mem; /* lives as long as the call */
    struct str arg;   /* what stands for {job} or {name} */
    void *data;       /* the handler's, usually in mem */
    void (*free_data)(void *data);

    /* The answer. */
    struct err err;
    int status; /* 200 unless set */
    const char *type;
    struct buf out;
    bool etag;     /* an ETag of the body, and 304 when the client has it */
    size_t etag_n; /* of its first so many bytes only; 0 = all */

    VEC(struct live_spot) live; /* where the planner's view of a job goes, ascending */

    /* call.c's own */
    char etag_text[40];
    call_work_fn run;
    call_fn then;
    struct call *prev, *next;
    bool on_worker;
};

/* ---- job_live.c ---- */
struct job_view;
/* Worker thread: the null of this job's "gpu" stands at `at`. */
void job_live_note(struct call *c, const struct job_view *v, size_t at);
/* Loop thread: fills them in and replies. */
void job_live_reply(struct call *c);

/* ---- call.c ---- */
struct call *call_new(struct api *a, struct http_req *r, const struct route *route,
                      const struct who *who, struct str arg);
/* run on a worker thread, then `then` on the loop thread (NULL: call_reply).  When run fails, the
 * error is the answer and `then` is not called. */
void call_work(struct call *c, call_work_fn run, call_fn then);
/* The same at once, for what takes less time than a worker needs to wake up. */
void call_here(struct call *c, call_work_fn run, call_fn then);
/* Each of these three ends the call. */
void call_reply(struct call *c); /* status, type, out */
void call_fail(struct call *c, const struct err *e);
void call_free(struct call *c); /* answers nothing */
/* Takes the request out of the call, for streams and files: NULL when the client left. */
struct http_req *call_take_req(struct call *c);
/* Decoded query parameter, copied; NULL when absent or empty.  Loop thread. */
const char *call_param(struct call *c, const char *name);
/* Whole number within [min, max]; `dflt` when absent.  Loop thread. */
int call_param_int(struct call *c, const char *name, int64_t dflt, int64_t min, int64_t max,
                   int64_t *out, struct err *e);
struct str call_copy(struct call *c, struct str s);
static inline void *call_alloc(struct call *c, size_t n)
{
    return arena_alloc(&c->mem, n);
}

/* ---- routes.c ---- */
extern const struct route api_routes[];
extern const size_t api_n_routes;
enum route_result { ROUTE_FOUND, ROUTE_NO_PATH, ROUTE_NO_METHOD };
/* ROUTE_NO_METHOD: *allow (at least 64 bytes) lists what the path takes.  HEAD is GET. */
enum route_result route_find(struct str method, struct str path, const struct route **out,
                             struct str *out_arg, char *allow, size_t allow_n);
const char *route_nearest(struct str path); /* "GET /v1/jobs", or NULL */

/* ---- job_ref.c: jobs by the names people use, within what the caller may see ---- */
struct job_facts {
    uint64_t seq;
    struct id id;
    uint32_t uid, attempt;
    enum job_state state;
};
/* Worker thread.  A job of somebody else is NOT_FOUND in the same words as one that is not there.
 */
int job_ref_resolve(struct call *c, struct str ref, struct job_facts *out, struct err *e);
/* The path's {job}. */
int job_ref_arg(struct call *c, struct job_facts *out);
/* The query of the list parameters (filter, project, state, user, queue, batch, sort); texts are
 * copied.  Loop thread, since it reads the request. */
struct list_params {
    const char *filter, *project, *state, *user, *queue, *batch, *sort, *cursor;
    size_t limit;
};
int list_params_read(struct call *c, struct list_params *out, struct err *e);
/* Worker thread: parsed into a query restricted to what the caller may see. */
int list_params_query(struct call *c, const struct list_params *p, struct job_query *out,
                      struct err *e);

/* ---- jobs_submit.c ---- */
void submit_keys_done(struct api *a);
/* ---- events.c ---- */
struct events *events_new(struct api *a);
void events_free(struct events *ev);
void events_committed(struct events *ev);
void events_end(struct events *ev);
/* ---- nodes.c ---- */
/* The node, with the jobs on its devices that `who` may know of; NULL = without. */
void node_json(struct buf *b, struct core *core, size_t at, const struct caller *who);
/* A core_act_fn: answers the call with the node its path names. */
void nodes_answer(void *arg, const struct err *e, const struct acted *r);

/* ---- series.c ---- */
/* As put_double; "nan", "inf" and "-inf" in quotes. */
void put_number(struct buf *b, const char *key, double v);
void put_step(struct buf *b, const char *key, int64_t step); /* null when there is none */

/* ---- handlers, in the order of the table ---- */
void meta_health(struct call *c);
void metrics_get(struct call *c);
void meta_get(struct call *c);
void meta_routes(struct call *c);
void meta_openapi(struct call *c);
void meta_schema_job(struct call *c);
void meta_schema_sweep(struct call *c);
void meta_backup(struct call *c);
void meta_shutdown(struct call *c);
void jobs_submit(struct call *c);
void jobs_list(struct call *c);
void jobs_summary(struct call *c);
void jobs_cancel_many(struct call *c);
void jobs_retry_many(struct call *c);
void jobs_remove_many(struct call *c);
void jobs_get(struct call *c);
void jobs_remove(struct call *c);
void jobs_spec(struct call *c);
void jobs_explain(struct call *c);
void jobs_cancel(struct call *c);
void jobs_retry(struct call *c);
void jobs_control(struct call *c);
void logs_get(struct call *c);
void reports_post(struct call *c);
void reports_metrics(struct call *c);
void tags_set(struct call *c);
void tags_remove(struct call *c);
void notes_of_job(struct call *c);
void notes_add_to_job(struct call *c);
void artifacts_list(struct call *c);
void artifacts_get(struct call *c);
void outside_begin(struct call *c);
void outside_end(struct call *c);
void events_of_job(struct call *c);
void events_get(struct call *c);
void queues_list(struct call *c);
void queues_pause(struct call *c);
void queues_resume(struct call *c);
void nodes_list(struct call *c);
void nodes_add(struct call *c);
void nodes_get(struct call *c);
void nodes_remove(struct call *c);
void nodes_drain(struct call *c);
void nodes_undrain(struct call *c);
void projects_list(struct call *c);
void project_get(struct call *c);
void project_describe(struct call *c);
void notes_of_project(struct call *c);
void notes_add_to_project(struct call *c);
void batches_list(struct call *c);
