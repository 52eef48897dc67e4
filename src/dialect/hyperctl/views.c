/* views.c - five pictures of a batch as data
 *
 * Durations are seconds.  Only jobs that ended and whose times are known count; those are sorted by
 * their end.  A box of the timeline holds about as many jobs as every other one and tells the five
 * numbers a box plot is drawn from.
 */
#include "dialect/hyperctl/views.h"
#include <math.h>

typedef VEC(const struct hyper_job *) job_list;

/* The wall clock may have been set back while a job ran: never less than 0. */
static double job_seconds(const struct hyper_job *j)
{
    return (double)MAX(j->ended_ms - j->started_ms, 0) / 1000;
}

static int job_end_cmp(const void *a, const void *b)
{
    const struct hyper_job *x = *(const struct hyper_job *const *)a,
                           *y = *(const struct hyper_job *const *)b;

    if (x->ended_ms != y->ended_ms)
        return x->ended_ms < y->ended_ms ? -1 : 1;
    return x < y ? -1 : x > y; /* the order of the file */
}

/* In the order of their ends. */
static job_list ended_jobs(const struct hyper_batch *b)
{
    job_list list = {0};

    for (size_t i = 0; i < b->jobs.n; i++)
        if (hyper_status_final(b->jobs.p[i].status) && b->jobs.p[i].started_ms)
            vec_push(&list, &b->jobs.p[i]);
    if (list.n)
        qsort(list.p, list.n, sizeof(*list.p), job_end_cmp);
    return list;
}

static void view_set_real(struct json *o, const char *key, double v)
{
    json_set_take(o, key, json_new_real(v));
}

static struct json *status_view(const struct hyper_batch *b)
{
    struct json *o = json_new_object();
    size_t n[HYPER_STATUS_MAX];

    hyper_batch_count(b, n);
    for (int s = 0; s < HYPER_STATUS_MAX; s++)
        json_set_int(o, hyper_status_name(s), (int64_t)n[s]);
    return o;
}

/* The last `tail` jobs that ended, oldest of them first. */
static struct json *tail_view(const job_list *list, size_t tail)
{
    struct json *a = json_new_array();

    for (size_t i = list->n > tail ? list->n - tail : 0; i < list->n; i++) {
        struct json *o = json_new_object();
        json_set_str(o, "name", list->p[i]->name);
        json_set_str(o, "status", hyper_status_name(list->p[i]->status));
        view_set_real(o, "end_datetime", (double)list->p[i]->ended_ms / 1000);
        view_set_real(o, "elapsed", job_seconds(list->p[i]));
        json_push_take(a, o);
    }
    return a;
}

/* Bins of equal width between the shortest and the longest job. */
static struct json *histogram_view(const job_list *list, size_t bins)
{
    struct json *a = json_new_array();
    double low = INFINITY, high = 0;

    for (size_t i = 0; i < list->n; i++) {
        low = fmin(low, job_seconds(list->p[i]));
        high = fmax(high, job_seconds(list->p[i]));
    }
    if (!list->n)
        return a;
    /* All jobs took equally long: one bin, and no division by zero. */
    if (high == low)
        bins = 1;
    AUTO_FREE int64_t *counts = xcalloc(bins, sizeof(*counts));
    double width = high > low ? (high - low) / (double)bins : 1;
    for (size_t i = 0; i < list->n; i++)
        counts[MIN((size_t)((job_seconds(list->p[i]) - low) / width), bins - 1)]++;
    for (size_t i = 0; i < bins; i++) {
        struct json *o = json_new_object();
        view_set_real(o, "from", low + width * (double)i);
        view_set_real(o, "to", i + 1 == bins ? high : low + width * (double)(i + 1));
        json_set_int(o, "count", counts[i]);
        json_push_take(a, o);
    }
    return a;
}

static int double_cmp(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Between the two nearest values, as most programs draw it. */
static double quantile(const double *sorted, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;

    return i + 1 < n ? sorted[i] + (at - (double)i) * (sorted[i + 1] - sorted[i]) : sorted[i];
}

/* The five numbers of a box plot for the jobs from … to - 1. */
static struct json *box(const job_list *list, size_t from, size_t to)
{
    static const struct {
        const char *name;
        double q;
    } marks[] = {{"min", 0}, {"q1", 0.25}, {"median", 0.5}, {"q3", 0.75}, {"max", 1}};
    struct json *o = json_new_object();
    size_t n = to - from;
    AUTO_FREE double *values = xcalloc(n, sizeof(*values));

    for (size_t i = 0; i < n; i++)
        values[i] = job_seconds(list->p[from + i]);
    qsort(values, n, sizeof(*values), double_cmp);
    view_set_real(o, "from", (double)list->p[from]->ended_ms / 1000);
    view_set_real(o, "to", (double)list->p[to - 1]->ended_ms / 1000);
    json_set_int(o, "count", (int64_t)n);
    for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
        view_set_real(o, marks[i].name, quantile(values, n, marks[i].q));
    return o;
}

/* No bin is empty: there are at most as many bins as jobs. */
static struct json *timeline_view(const job_list *list, size_t bins)
{
    struct json *a = json_new_array();

    bins = MIN(bins, list->n);
    for (size_t i = 0; i < bins; i++)
        json_push_take(a, box(list, list->n * i / bins, list->n * (i + 1) / bins));
    return a;
}

/* The entry of a node, made when it is missing; the list keeps it. */
static struct json *node_entry(struct json *nodes, const char *name)
{
    for (size_t i = 0; i < json_len(nodes); i++)
        if (str_eq_c(json_str(json_get(json_at(nodes, i), "node")), name))
            return (struct json *)(uintptr_t)json_at(nodes, i);
    struct json *o = json_new_object();
    json_set_str(o, "node", name);
    json_set_int(o, "running", 0);
    json_set_int(o, "succeed", 0);
    json_set_int(o, "failed", 0);
    json_push_take(nodes, o);
    return o;
}

static struct json *nodes_view(const struct hyper_batch *b)
{
    struct json *nodes = json_new_array();

    for (size_t i = 0; i < b->jobs.n; i++) {
        const struct hyper_job *j = &b->jobs.p[i];
        if (j->status == HYPER_INIT)
            continue;
        struct json *o = node_entry(nodes, j->hostname ? j->hostname : "localhost");
        const char *key = hyper_status_name(j->status);
        json_set_int(o, key, json_int(json_get(o, key)) + 1);
    }
    return nodes;
}

struct json *hyper_views_json(const struct hyper_batch *b, const struct hyper_view_conf *c)
{
    job_list list = ended_jobs(b);
    struct json *o = json_new_object();

    json_set_take(o, "status", status_view(b));
    json_set_take(o, "tail", tail_view(&list, c->tail));
    json_set_take(o, "histogram", histogram_view(&list, c->bins));
    json_set_take(o, "timeline", timeline_view(&list, c->time_bins));
    json_set_take(o, "nodes", nodes_view(b));
    vec_done(&list);
    return o;
}
