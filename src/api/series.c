/* series.c - GET /v1/jobs/{job}/metrics: every point, or as many buckets as a chart has columns
 *
 * Without `buckets` the points as they were logged, from index `first`, at most `limit` of each
 * metric.  With it the smallest, largest and last value of equal stretches of steps (or times, with
 * by=time), as columns: buckets without a point are left out.  Numbers that JSON cannot write are
 * the words "nan", "inf" and "-inf".
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "store/track.h"
#include <math.h>

enum { BUCKETS_MAX = 10000 };

/* name NULL = all metrics.  limit 0 = all points.  buckets 0 = points as they were logged.  from >
 * to = an axis that covers all points. */
struct series_call {
    const char *name;
    int64_t first, limit, from, to, buckets;
    bool by_time;
    struct call *c;
    VEC(char *) names; /* in the call's memory */
};

void jw_number(struct buf *b, const char *key, double v)
{
    if (isfinite(v))
        jw_double(b, key, v);
    else
        jw_str(b, key, isnan(v) ? STR("nan") : v > 0 ? STR("inf") : STR("-inf"));
}

void jw_step(struct buf *b, const char *key, int64_t step)
{
    if (step >= 0)
        jw_int(b, key, step);
    else
        jw_null(b, key);
}

void jw_value(struct buf *b, bool is_text, struct str text, double number)
{
    if (is_text)
        jw_str(b, "value", text);
    else
        jw_number(b, "value", number);
}

/* ---- points ---- */

static bool series_add_point(void *arg, const struct point_view *v)
{
    struct buf *b = arg;

    jw_object(b, NULL);
    jw_step(b, "step", v->step);
    jw_value(b, v->is_text, v->text, v->value);
    jw_int(b, "run", v->run);
    jw_time(b, "at", v->at_ms);
    return jw_end_object(b);
}

/* The points of one metric as they were logged. */
static int put_points(struct series_call *d, uint64_t job, const char *name)
{
    struct buf *b = &d->c->out;

    jw_array(b, NULL);
    if (store_points(call_api(d->c)->conf.store, job, str_of(name), (uint64_t)d->first,
                     (size_t)d->limit, series_add_point, b, &d->c->err) < 0)
        return -1;
    jw_end_array(b);
    return 0;
}

/* ---- buckets ---- */

/* One member of all buckets that have points. */
static void series_put_column(struct buf *b, const char *key, const struct series_bucket *all,
                              size_t n, size_t offset)
{
    jw_array(b, key);
    for (size_t i = 0; i < n; i++) {
        if (!all[i].n)
            continue;
        double v = *(const double *)(const void *)((const char *)&all[i] + offset);
        if (all[i].min > all[i].max && !isnan(v))
            jw_null(b, NULL); /* nothing but NaNs has neither */
        else
            jw_number(b, NULL, v);
    }
    jw_end_array(b);
}

/* A column of whole numbers: the number of points, or the last step (or time) of each bucket. */
static void put_whole(struct buf *b, const char *key, const struct series_bucket *all, size_t n,
                      bool counts)
{
    jw_array(b, key);
    for (size_t i = 0; i < n; i++) {
        if (!all[i].n)
            continue;
        jw_int(b, NULL, counts ? (int64_t)all[i].n : all[i].last_x);
    }
    jw_end_array(b);
}

static bool add_facts(void *arg, const struct series_view *v)
{
    struct buf *b = arg;

    jw_object(b, NULL);
    jw_int(b, "n", (int64_t)v->n);
    jw_value(b, v->is_text, v->text, v->value);
    jw_step(b, "step", v->step);
    jw_int(b, "run", v->run);
    jw_time(b, "at", v->at_ms);
    return true;
}

/* One metric as columns; the facts of its last point come first. */
static int put_buckets(struct series_call *d, uint64_t job, const char *name)
{
    struct store *s = call_api(d->c)->conf.store;
    struct series_axis a = {
        .by_time = d->by_time, .from = d->from, .to = d->to, .n = (size_t)d->buckets};
    AUTO_FREE struct series_bucket *all = xcalloc(a.n, sizeof(*all));
    struct buf *b = &d->c->out;

    if (store_series_one(s, job, str_of(name), add_facts, b, &d->c->err) < 0 ||
        store_buckets(s, job, str_of(name), &a, all, &d->c->err) < 0)
        return -1;
    jw_int(b, "from", a.from);
    jw_int(b, "to", a.to);
    put_whole(b, "x", all, a.n, false);
    series_put_column(b, "min", all, a.n, offsetof(struct series_bucket, min));
    series_put_column(b, "max", all, a.n, offsetof(struct series_bucket, max));
    series_put_column(b, "last", all, a.n, offsetof(struct series_bucket, last));
    put_whole(b, "count", all, a.n, true);
    jw_end_object(b);
    return 0;
}

/* ---- the request ---- */

static bool keep_name(void *arg, const struct series_view *v)
{
    struct series_call *d = arg;

    vec_push(&d->names, arena_strndup(&d->c->mem, v->name.p, v->name.n));
    return true;
}

/* A name that was asked for is listed without a look at the store. */
static int series_list_names(struct series_call *d, uint64_t job)
{
    if (!d->name)
        return store_series(call_api(d->c)->conf.store, &job, 1, keep_name, d, &d->c->err);
    vec_push(&d->names, arena_strdup(&d->c->mem, d->name));
    return 0;
}

/* Worker thread.  The names are read before the points, because a callback of the store holds its
 * read connection. */
static int metrics_run(struct call *c)
{
    struct series_call *d = c->data;
    struct job_facts f;
    int rc;

    if (job_ref_arg(c, &f) < 0)
        return -1;
    rc = series_list_names(d, f.seq);
    jw_object(&c->out, NULL);
    jw_object(&c->out, "metrics");
    for (size_t i = 0; rc == 0 && i < d->names.n; i++) {
        jw_key(&c->out, str_of(d->names.p[i]));
        rc =
            d->buckets ? put_buckets(d, f.seq, d->names.p[i]) : put_points(d, f.seq, d->names.p[i]);
    }
    jw_end_object(&c->out);
    jw_end_object(&c->out);
    vec_done(&d->names);
    return rc;
}

/* by, from and to; without bounds the axis covers all points, written as from > to. */
static int read_axis(struct call *c, struct series_call *d)
{
    const char *by = call_param(c, "by");

    d->by_time = by && !strcmp(by, "time");
    if (by && !d->by_time && strcmp(by, "step") != 0)
        return err_set(&c->err, ERR_INVALID, "by=%.40s: must be step or time", by);
    if (call_param_int(c, "from", INT64_MIN, INT64_MIN, INT64_MAX, &d->from, &c->err) < 0 ||
        call_param_int(c, "to", INT64_MAX, INT64_MIN, INT64_MAX, &d->to, &c->err) < 0)
        return -1;
    if (d->from > d->to)
        return err_set(&c->err, ERR_INVALID, "from=%lld is after to=%lld; swap them",
                       (long long)d->from, (long long)d->to);
    /* All of it: the axis is what there is. */
    if (d->from == INT64_MIN && d->to == INT64_MAX) {
        d->from = 1;
        d->to = 0;
    }
    return 0;
}

void reports_metrics(struct call *c)
{
    struct series_call *d = call_alloc(c, sizeof(*d));

    c->data = d;
    c->etag.wanted = true;
    d->c = c;
    d->name = call_param(c, "name");
    if (call_param_int(c, "buckets", 0, 1, BUCKETS_MAX, &d->buckets, &c->err) < 0 ||
        call_param_int(c, "first", 0, 0, INT64_MAX, &d->first, &c->err) < 0 ||
        call_param_int(c, "limit", 0, 1, INT64_MAX, &d->limit, &c->err) < 0 || read_axis(c, d) < 0)
        call_fail(c, &c->err);
    else
        call_work(c, metrics_run, NULL);
}
