/* track.h - what is read of experiments: parameters, metrics, tags, artifacts, notes, projects
 *
 * Every function may be called from any thread; it borrows a read connection for the call.  Only
 * committed state is seen.  Views are borrowed during the callback; a callback that returns false
 * ends the call with success.  Lists of jobs are answered in the order of the list; jobs that are
 * not there have nothing.  What jobs may be seen by whom is the caller's business (job_ref.c).
 */
#pragma once
#include "model/series.h"
#include "store/store.h"

/* ---- what is known once per name: the last value wins ---- */
enum mark_kind {
    MARK_PARAM = 'p',    /* text is the JSON of its value; logged by the job over those submitted */
    MARK_TAG = 't',      /* text, may be empty */
    MARK_ARTIFACT = 'a', /* text is the path of the file */
    MARK_EPOCH = 'e',    /* name "epoch", step is the last one done */
};
struct mark_view {
    uint64_t job;
    enum mark_kind kind;
    struct str name, text;
    int64_t step, at_ms;
    uint32_t run; /* that said so; 0 = a person did */
};
typedef bool (*mark_fn)(void *arg, const struct mark_view *v);
/* Of each job, in the order of their first appearance; kind 0 = all. */
int store_marks(struct store *s, const uint64_t *jobs, size_t n, char kind, mark_fn fn, void *arg,
                struct err *e);
/* The parameters of a job: those it was submitted with under those it logged.  A JSON object. */
int store_params(struct store *s, uint64_t job, struct json **out, struct err *e);

/* ---- metrics ---- */
struct series_view {
    uint64_t job;
    struct str name;
    uint64_t n; /* points in all, texts included */
    /* The point logged last. */
    bool is_text;
    struct str text; /* when is_text */
    double value;    /* NaN when is_text */
    int64_t step, at_ms;
    uint32_t run;
    struct series_stats stats; /* of all numbers; stats.n is how many there are */
};
typedef bool (*series_fn)(void *arg, const struct series_view *v);
/* Every metric of each job, with its last value, in the order of their first appearance. */
int store_series(struct store *s, const uint64_t *jobs, size_t n, series_fn fn, void *arg,
                 struct err *e);
/* One of them; ERR_NOT_FOUND. */
int store_series_one(struct store *s, uint64_t job, struct str name, series_fn fn, void *arg,
                     struct err *e);

struct point_view {
    uint64_t index; /* 0, 1, 2 … in the order logged */
    uint32_t run;
    int64_t step, at_ms;
    double value; /* NaN when is_text */
    bool is_text; /* of texts the last 100 are kept */
    struct str text;
};
/* Points first, first + 1, … of a metric as they were logged, at most `limit` (0 = all). */
int store_points(struct store *s, uint64_t job, struct str name, uint64_t first, size_t limit,
                 bool (*fn)(void *arg, const struct point_view *v), void *arg, struct err *e);
/* The whole metric in a->n buckets (1 … 10 000); out has room for them and is zeroed here.  from >
 * to asks for all of it: the axis is then set to what there is.  ERR_NOT_FOUND: no such metric. */
int store_buckets(struct store *s, uint64_t job, struct str name, struct series_axis *a,
                  struct series_bucket *out, struct err *e);

/* ---- notes and projects ---- */
struct note_view {
    uint64_t seq;
    uint64_t job; /* 0 = about the project */
    struct str project, author, text;
    int64_t at_ms;
};
/* Oldest first.  Those of a job, or with job 0 those about the project itself. */
int store_notes(struct store *s, struct str project, uint64_t job,
                bool (*fn)(void *arg, const struct note_view *v), void *arg, struct err *e);

struct project_view {
    struct str name;
    struct str owner; /* who submitted the first job, or described it first */
    uint32_t uid;     /* theirs */
    int64_t created_ms;
    struct str description; /* Markdown; empty = none */
    uint64_t notes;
    uint64_t counts[JOB_STATE_MAX]; /* its jobs by state */
};
typedef bool (*project_fn)(void *arg, const struct project_view *v);
/* All of them, by name.  A project stays when its last job is removed. */
int store_project_list(struct store *s, project_fn fn, void *arg, struct err *e);
int store_project(struct store *s, struct str name, project_fn fn, void *arg, struct err *e);
