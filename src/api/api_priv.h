/* api_priv.h - what the files of this room share */
#pragma once
#include "api/api.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "core/core.h"
#include "io/loop.h"
#include "request/service.h"
#include "request/upload.h"
#include "store/query.h"
#include <stdatomic.h>

enum {
    API_LIST_BODY_MAX = 4 << 20,     /* lists of jobs to act on: 100 000 ids */
    API_REPORT_BODY_MAX = 4 << 20,   /* one piece of a spool */
    API_SUBMIT_BODY_MAX = 256 << 20, /* bulk submit */
    API_YAML_BODY_MAX = 16 << 20,    /* YAML is read as a whole tree */
    /* Rows of one page of a list: without `limit`, and at most. */
    API_PAGE_DEFAULT = 100,
    API_PAGE_MAX = 10000,
    API_UPLOADS_MAX = 4, /* snapshots unpacked at once; more wait */
};

struct call;
struct events;
struct follows;
struct api {
    struct api_conf conf; /* texts are copies */
    struct http_server *server;
    struct events *events;   /* events.c */
    struct follows *follows; /* follow.c */
    struct keeps *keeps;     /* keep.c */
    /* The answer of GET /v1 for admins is kept until the next event (meta.c). */
    uint64_t counts[JOB_STATE_MAX]; /* of all jobs, as of event counts_at - 1; 0 = never asked */
    uint64_t counts_at;
    struct upload_line uploads; /* of snapshots */
    atomic_bool leaving;        /* the daemon ends: long work on other threads gives up */
    struct {                    /* of backups under way, for GET /v1/backup */
        atomic_int running;
        atomic_llong files, bytes;
    } backup;
    atomic_int claims; /* submissions with snapshots that are not recorded yet */
};

/* For handlers of this room only: call.self of other services is something else. */
static inline struct api *call_api(const struct call *c)
{
    return c->self;
}

/* ---- job_live.c ---- */
struct job_view;
/* A place in the answer where `null` will be replaced.  The spots lie in call.mem. */
struct live_spot {
    size_t at; /* of the null in call.out */
    uint64_t seq;
    struct live_spot *next;
};
/* `n` counts the spots.  The list is in the order of the places, so job_live_reply copies once. */
struct job_live { /* first in the data of the calls that use these two functions */
    struct live_spot *first, *last;
    size_t n;
};
/* Worker thread: the null of this job's "gpu" stands at `at`, behind all noted before. */
void job_live_note(struct call *c, const struct job_view *v, size_t at);
/* Loop thread: fills them in and replies. */
void job_live_reply(struct call *c);

/* ---- jobs_act.c: route.arg of its rows ---- */
struct action;
extern const struct action act_cancel, act_hold, act_release, act_retry, act_remove, act_delete;

/* ---- routes.c ---- */
/* Grouped by resource; request_server finds the row.  meta_routes sends this table. */
extern const struct route api_routes[];
extern const size_t api_n_routes;

/* ---- body.c: the members of a JSON body.  Any thread, after call_keep_body. ---- */
struct json;
/* The body, which must be an object.  Yours; NULL: c->err says what is wrong. */
struct json *body_object(struct call *c);
/* ERR_INVALID names a member that is not one of `keys`, and the nearest key. */
int body_check_keys(const struct json *body, const char *const *keys, size_t n, struct err *e);
/* A text; absent is empty.  Borrowed from the body. */
int body_text(struct call *c, const struct json *body, const char *key, struct str *out);
/* A whole number from min to max; absent leaves *out alone. */
int body_int(struct call *c, const struct json *body, const char *key, int64_t min, int64_t max,
             int64_t *out);
/* Sets c->err to "key: must be `wanted`, not …"; always -1. */
int body_wrong_type(struct call *c, const char *key, const struct json *v, const char *wanted);
enum { BODY_NUMBER_MAX = 24 };
/* The reference to a job that a number or a text stands for; *out borrows from v or `number`. */
int body_job_ref(const struct json *v, char number[BODY_NUMBER_MAX], struct str *out,
                 struct err *e);
struct acted;
/* Answers with the first `members` of done, already, denied and unknown, or with the error. */
void acted_reply(struct call *c, const struct err *e, const struct acted *r, size_t members);

/* ---- jobs_submit.c ---- */
/* The answer to a submission of several jobs; batch 0 = none. */
void submitted_many_json(struct buf *b, uint64_t batch, struct id batch_id, uint64_t first,
                         uint64_t n, struct id first_id);

/* ---- job_ref.c: jobs by the names people use, within what the caller may see ---- */
/* What a handler needs to know of a job before it acts.  The copy may be outdated when the loop
 * thread uses it: the core checks state and owner again before it changes a job. */
struct job_facts {
    uint64_t seq;
    struct id id;
    uint32_t uid, attempt;
    enum job_state state;
};
/* Worker thread.  A job of somebody else is NOT_FOUND in the same words as one that is not there.
 */
int job_ref_resolve(struct call *c, struct str ref, struct job_facts *out, struct err *e);
/* The job that stands for {job} in the path of the request.  Runs on a worker thread, as
 * job_ref_resolve does.  A failure sets c->err. */
int job_ref_arg(struct call *c, struct job_facts *out);
/* A query for one of the jobs that the caller may see: every list begins with it. */
struct job_query visible_jobs(const struct call *c);
/* Worker thread.  The jobs that match, by state and in all.  A failure sets c->err. */
int visible_counts(struct call *c, const struct job_query *q, uint64_t counts[JOB_STATE_MAX],
                   uint64_t *total);
/* Worker thread: the project of the path is one that the caller may see, or with `or_new` one that
 * does not exist yet.  A failure sets c->err, in the same words for both. */
int project_ref_arg(struct call *c, bool or_new);
/* The query of the list parameters (filter, project, state, user, queue, batch, sort); texts are
 * copied.  Loop thread, since it reads the request. */
/* NULL = the parameter was not given.  `state` is a list with commas, `sort` may begin with '-',
 * `cursor` is the `next` of the page before. */
struct list_params {
    const char *filter, *project, *state, *user, *queue, *batch, *sort, *cursor;
    size_t limit;
};
int list_params_read(struct call *c, struct list_params *out, struct err *e);
/* Worker thread: parsed into a query restricted to what the caller may see. */
int list_params_query(struct call *c, const struct list_params *p, struct job_query *out,
                      struct err *e);

/* ---- snapshots.c: worker thread ---- */
/* Adds the member `snapshot` of a job: null, or id and size of the snapshot its spec names. */
int snapshot_of_spec(struct call *c, uint32_t uid, const struct json *spec, struct buf *out);
/* The snapshots of a submission exist, and are kept from now on while a job names them. */
int snapshot_claim_all(struct call *c, const struct submission *s, atomic_int **out_claims);

/* ---- events.c ---- */
/* Loop thread.  The server ends the streams when it is shut down; one whose page is still with a
 * worker thread is freed when the page comes back.  events_free must wait for that:
 * request_server_busy. */
struct events *events_new(struct api *a);
void events_free(struct events *ev);

/* ---- keep.c: connections that keep a queue open ---- */
struct keeps *keeps_new(struct api *a);
void keeps_free(struct keeps *all);
void keeps_troubled(struct keeps *all, struct str text);
void events_committed(struct events *ev);
/* ---- nodes.c ---- */
/* The node, with the jobs on its devices that `who` may know of; NULL = without. */
void node_json(struct buf *b, struct core *core, size_t at, const struct caller *who);
/* A core_act_fn: answers the call with the node its path names. */
void nodes_answer(void *arg, const struct err *e, const struct acted *r);

/* ---- series.c ---- */
/* As jw_double, but "nan", "inf" and "-inf" in quotes. */
void jw_number(struct buf *b, const char *key, double v);
void jw_step(struct buf *b, const char *key, int64_t step); /* null when there is none */
/* The member "value" of a point: its text, or its number. */
void jw_value(struct buf *b, bool is_text, struct str text, double number);

/* ---- definition.c: jobs that schedules and studies submit ---- */
struct submit;
/* Reads the job of a definition (`whose`: "a schedule") as POST /v1/jobs would.  Any thread.  *out
 * goes to submit_free or to the core. */
int definition_read_job(const struct json *job, const char *whose, const struct caller *who,
                        const struct vault *vault, struct submit **out, struct err *e);
/* The secrets of def.job are sealed. */
int definition_seal_job(struct json *def, const struct vault *vault, struct err *e);
/* Makes a submission for the controller: `read` fills x or err on a worker thread, `take` hands it
 * over on the loop thread, exactly once. */
struct definition_job {
    struct api *a;
    void *of; /* a struct firing or trial_launch */
    void (*read)(struct definition_job *w);
    void (*take)(void *of, struct submission *s, const struct err *e);
    struct submit *x; /* NULL once the controller has it */
    struct err err;
};
void definition_submit(struct api *a, void *of, void (*read)(struct definition_job *w),
                       void (*take)(void *of, struct submission *s, const struct err *e));

/* ---- handlers, in the order of the table ---- */
/* Each handler is called on the loop thread and owns its call until call_reply, call_fail or
 * call_free. */

/* meta.c, metrics.c */
void meta_health(struct call *c);
void metrics_get(struct call *c);
void meta_get(struct call *c);
void meta_routes(struct call *c);
void meta_openapi(struct call *c);
void session_begin(struct call *c);
void session_end(struct call *c);
void meta_schema_job(struct call *c);
void meta_schema_sweep(struct call *c);
void meta_backup(struct call *c);
void meta_backup_state(struct call *c);
void meta_shutdown(struct call *c);
/* jobs_*.c, logs.c */
void jobs_submit(struct call *c);
void jobs_list(struct call *c);
void jobs_summary(struct call *c);
void jobs_act_one(struct call *c);
void jobs_act_many(struct call *c);
void jobs_get(struct call *c);
void jobs_spec(struct call *c);
void jobs_explain(struct call *c);
void jobs_control(struct call *c);
void logs_get(struct call *c);
/* reports.c, series.c */
void reports_post(struct call *c);
void reports_metrics(struct call *c);
/* tracking.c */
void tags_set(struct call *c);
void tags_remove(struct call *c);
void notes_of_job(struct call *c);
void notes_add_to_job(struct call *c);
void artifacts_list(struct call *c);
void artifacts_get(struct call *c);
/* snapshots.c */
void snapshots_begin(struct call *c); /* service.begin */
void snapshots_add(struct call *c);
void snapshots_contents(struct call *c);
void snapshots_of_job(struct call *c);
/* outside.c */
void outside_begin(struct call *c);
void outside_end(struct call *c);
/* events.c: JSON pages, or a stream of server-sent events */
void events_of_job(struct call *c);
void events_get(struct call *c);
/* queues.c, nodes.c, node_add.c */
void queues_list(struct call *c);
void queues_set_paused(struct call *c);
void queues_keep(struct call *c);      /* keep.c */
bool queue_name_check(struct call *c); /* false: the call has failed */
void nodes_list(struct call *c);
void nodes_add(struct call *c);
void nodes_get(struct call *c);
void nodes_remove(struct call *c);
void nodes_set_drained(struct call *c);
/* hooks.c */
void hooks_list(struct call *c);
void hooks_define(struct call *c);
void hooks_get(struct call *c);
void hooks_remove(struct call *c);
void hooks_set_paused(struct call *c);
void hooks_test(struct call *c);
/* schedules.c */
void schedules_list(struct call *c);
void schedules_add(struct call *c);
void schedules_get(struct call *c);
void schedules_put(struct call *c);
void schedules_remove(struct call *c);
void schedules_set_paused(struct call *c);
void schedules_run(struct call *c);
/* studies.c */
/* The body of a request: small, or lists of numbers.  Yours; NULL: c->err says why. */
struct json *study_body(struct call *c);
/* The study in the path that the caller may see, their own first; 0: c->err says why. */
uint64_t study_seq_of_path(struct call *c);
void studies_list(struct call *c);
void studies_add(struct call *c);
void studies_get(struct call *c);
void studies_change(struct call *c);
void studies_remove(struct call *c);

/* study_trials.c */
void studies_ask(struct call *c);
void studies_tell(struct call *c);
void studies_enqueue(struct call *c);
void studies_report(struct call *c);
void studies_renew(struct call *c);
void studies_trials(struct call *c);
void studies_ask(struct call *c);
void studies_tell(struct call *c);
void studies_enqueue(struct call *c);
void studies_report(struct call *c);
void study_logs_list(struct call *c);
void study_logs_read(struct call *c);
void study_logs_append(struct call *c);
void study_logs_remove(struct call *c);
/* projects.c; notes are in tracking.c */
void projects_list(struct call *c);
void project_get(struct call *c);
void project_describe(struct call *c);
void notes_of_project(struct call *c);
void notes_add_to_project(struct call *c);
void batches_list(struct call *c);
