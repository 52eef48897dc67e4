/* listing_priv.h - the jobs of a project as the tracker lists them */
#pragma once
#include "dialect/atlas/atlas_priv.h"

struct listed_value { /* of a parameter, a metric, a tag */
    char *name;
    struct json *value; /* NULL = null; of a metric the last one */
    struct json *all;   /* of a metric with several values, in time order; else NULL */
};
typedef VEC(struct listed_value) listed_values;
struct listed_file {
    char *key, *path;
};
struct listed_job {
    struct atlas_job job;
    listed_values params, metrics, tags;
    VEC(struct listed_file) files;
};
struct listing {
    struct call *c;
    const char *project;
    struct str host; /* as the client calls this machine, without a port */
    int64_t now_ms;
    VEC(struct listed_job) jobs;
};
/* Reads all jobs of the project; ERR_NOT_FOUND: there is no such project. `points`: of metrics all
 * values, not only the last. */
int listing_read(struct listing *l, bool points);
void listing_done(struct listing *l);
int64_t listed_duration_ms(const struct listing *l, const struct listed_job *j);

/* ---- listing_filter.c ---- */
/* Takes out what the query does not ask for, and sorts; `column` and `way` of the path, or NULL. */
int listing_select(struct listing *l, const char *column, const char *way, struct err *e);
/* "MM_DD_YYYY_HH_MM" of UTC, "D_H_M_S". */
bool atlas_date_parse(const char *text, int64_t *out_ms);
bool atlas_duration_parse(const char *text, int64_t *out_ms);
void atlas_duration_format(int64_t ms, char out[48]); /* "0d0h0m5s" */
/* image, audio, video, text, csv, json, pdf, html or unknown, by the end of the name. */
const char *atlas_artifact_type(const char *name);
