/* listing.c - reads the facts of all jobs of a project, and writes them as the tracker's JSON
 *
 * Jobs are read in pages; tags, artifacts and the last values of metrics come with one query for
 * each page, parameters and the points of metrics with one query for each job.
 */
#include "base/clock.h"
#include "base/json_out.h"
#include "base/util.h"
#include "dialect/atlas/listing_priv.h"
#include "io/http_client.h"
#include "store/track.h"
#include <math.h>

enum { PAGE = 500, POINTS_MAX = 1000 };

static void values_done(listed_values *v)
{
    for (size_t i = 0; i < v->n; i++) {
        free(v->p[i].name);
        json_free(v->p[i].value);
        json_free(v->p[i].all);
    }
    vec_done(v);
}

void listing_done(struct listing *l)
{
    for (size_t i = 0; i < l->jobs.n; i++) {
        struct listed_job *j = &l->jobs.p[i];
        atlas_job_done(&j->job);
        values_done(&j->params);
        values_done(&j->metrics);
        values_done(&j->tags);
        for (size_t k = 0; k < j->files.n; k++) {
            free(j->files.p[k].key);
            free(j->files.p[k].path);
        }
        vec_done(&j->files);
    }
    vec_done(&l->jobs);
}

/* Of a running job the time so far; 0 before the start. */
int64_t listed_duration_ms(const struct listing *l, const struct listed_job *j)
{
    const struct atlas_job *a = &j->job;

    if (!a->started_ms)
        return 0;
    return MAX((a->state >= ATLAS_COMPLETED && a->ended_ms ? a->ended_ms : l->now_ms) -
                   a->started_ms,
               (int64_t)0);
}

/* ---- reading ---- */

static bool listing_on_job(void *arg, const struct job_view *v)
{
    struct listing *l = arg;
    struct listed_job j = {0};

    atlas_job_fill(v, &j.job);
    vec_push(&l->jobs, j);
    return true;
}

/* Rows come in the order of the jobs, so this search is rare.  NULL: the job is not on this page.
 */
static struct listed_job *job_at(struct listing *l, size_t from, uint64_t number)
{
    for (size_t i = from; i < l->jobs.n; i++)
        if (l->jobs.p[i].job.job == number)
            return &l->jobs.p[i];
    return NULL;
}

/* State of the callbacks that add facts to the jobs of one page. */
struct reading {
    struct listing *l;
    size_t from; /* of this page */
    size_t at;   /* the job looked at last: they come in order */
};

/* Rows of one job follow each other, so the last job is tried first. */
static struct listed_job *reading_job(struct reading *r, uint64_t number)
{
    if (r->l->jobs.p[r->at].job.job != number) {
        struct listed_job *j = job_at(r->l, r->from, number);
        if (!j)
            return NULL;
        r->at = (size_t)(j - r->l->jobs.p);
    }
    return &r->l->jobs.p[r->at];
}

/* Tags and artifacts are marks of a job; other kinds are not listed. */
static bool on_mark(void *arg, const struct mark_view *v)
{
    struct listed_job *j = reading_job(arg, v->job);

    if (!j)
        return true;
    if (v->kind == MARK_TAG)
        vec_push(&j->tags, ((struct listed_value){.name = xstrndup(v->name.p, v->name.n),
                                                  .value = json_new_str(v->text)}));
    else if (v->kind == MARK_ARTIFACT)
        vec_push(&j->files, ((struct listed_file){xstrndup(v->name.p, v->name.n),
                                                  xstrndup(v->text.p, v->text.n)}));
    return true;
}

/* A whole number is written without a fraction.  JSON has no NaN and no infinity: they are texts
 * that float() of Python and parseFloat() of JavaScript read. */
static struct json *listing_number(double v)
{
    if (!isfinite(v))
        return json_new_str(isnan(v) ? STR("NaN") : v > 0 ? STR("Infinity") : STR("-Infinity"));
    if (v == floor(v) && fabs(v) < 9e15)
        return json_new_int((int64_t)v);
    return json_new_real(v);
}

/* A whole number that is too large for a float arrives as text (python/foundations/_job.py). */
static struct json *listing_text(struct str s)
{
    int64_t whole;

    if (str_to_i64(s, &whole) && (whole > 1LL << 53 || whole < -(1LL << 53)))
        return json_new_int(whole);
    return json_new_str(s);
}

/* The list of all values is filled later, in read_points. */
static bool on_series(void *arg, const struct series_view *v)
{
    struct listed_job *j = reading_job(arg, v->job);

    if (j)
        vec_push(&j->metrics, ((struct listed_value){.name = xstrndup(v->name.p, v->name.n),
                                                     .value = v->is_text ? listing_text(v->text)
                                                                         : listing_number(v->value),
                                                     .all = v->n > 1 ? json_new_array() : NULL}));
    return true;
}

/* arg is the list of the metric. */
static bool on_point(void *arg, const struct point_view *v)
{
    json_push_take(arg, v->is_text ? listing_text(v->text) : listing_number(v->value));
    return true;
}

/* All values of metrics that have several.  Above POINTS_MAX values the steps are cut into that
 * many buckets, and the last value of each bucket is listed. */
static int read_points(struct listing *l, struct listed_job *j, struct err *e)
{
    struct store *store = call_atlas(l->c)->conf.store;

    for (size_t i = 0; i < j->metrics.n; i++) {
        struct listed_value *m = &j->metrics.p[i];
        struct series_axis axis = {.from = 1, .to = 0, .n = POINTS_MAX};
        if (!m->all)
            continue;
        if (store_points(store, j->job.job, str_of(m->name), 0, POINTS_MAX + 1, on_point, m->all,
                         e) < 0)
            return -1;
        if (json_len(m->all) <= POINTS_MAX)
            continue;
        json_free(m->all);
        m->all = json_new_array();
        AUTO_FREE struct series_bucket *b = xcalloc(POINTS_MAX, sizeof(*b));
        int rc = store_buckets(store, j->job.job, str_of(m->name), &axis, b, e);
        for (size_t k = 0; rc == 0 && k < POINTS_MAX; k++)
            if (b[k].n)
                json_push_take(m->all, listing_number(b[k].last));
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* Parameters have no list of all values: `all` stays NULL. */
static int listing_read_params(struct listing *l, struct listed_job *j, struct err *e)
{
    AUTO(json) struct json *all = NULL;

    if (store_params(call_atlas(l->c)->conf.store, j->job.job, &all, e) < 0)
        return -1;
    for (struct json_it it = {0}; json_next(all, &it);)
        vec_push(&j->params, ((struct listed_value){.name = xstrdup(it.key),
                                                    .value = it.val ? json_copy(it.val) : NULL}));
    return 0;
}

/* Reads tags, artifacts, metrics and parameters of the jobs from index `from` on. */
static int read_facts(struct listing *l, size_t from, bool points, struct err *e)
{
    struct store *store = call_atlas(l->c)->conf.store;
    struct reading r = {l, from, from};
    size_t n = l->jobs.n - from;
    AUTO_FREE uint64_t *numbers = xmalloc((n + 1) * sizeof(*numbers));

    for (size_t i = 0; i < n; i++)
        numbers[i] = l->jobs.p[from + i].job.job;
    if (!n)
        return 0;
    if (store_marks(store, numbers, n, 0, on_mark, &r, e) < 0)
        return -1;
    r.at = from;
    if (store_series(store, numbers, n, on_series, &r, e) < 0)
        return -1;
    for (size_t i = from; i < l->jobs.n; i++) {
        struct listed_job *j = &l->jobs.p[i];
        if (atlas_job_extra(l->c, &j->job, e) < 0 || listing_read_params(l, j, e) < 0 ||
            (points && read_points(l, j, e) < 0))
            return -1;
    }
    return 0;
}

static bool listing_on_project(void *arg, const struct project_view *v)
{
    (void)v;
    *(bool *)arg = true;
    return false;
}

/* The whole project is read, because filters and sorts work on all jobs. */
int listing_read(struct listing *l, bool points)
{
    struct call *c = l->c;
    struct job_query q = {.project = l->project, .limit = PAGE, .sort = "id"};
    char *cursor = NULL;
    bool known = false;
    int rc = 0;

    l->now_ms = clock_wall(&clock_system);
    if (store_project(call_atlas(c)->conf.store, str_of(l->project), listing_on_project, &known,
                      &c->err) < 0 &&
        c->err.code != ERR_NOT_FOUND)
        return -1;
    if (!known)
        return err_set(&c->err, ERR_NOT_FOUND, "there is no project '%.100s'", l->project);
    do {
        size_t from = l->jobs.n;
        char *next = NULL;
        q.cursor = cursor;
        rc = store_jobs(call_atlas(c)->conf.store, &q, listing_on_job, l, &next, &c->err);
        free(cursor);
        cursor = next;
        if (rc == 0)
            rc = read_facts(l, from, points, &c->err);
    } while (rc == 0 && cursor);
    free(cursor);
    return rc;
}

/* ---- writing ---- */

/* Names of types as the tracker's clients know them: whole and other numbers are one, and what has
 * no column of its own is unknown. */
static const char *const listing_types[] = {
    [JSON_NULL] = "unknown",   [JSON_BOOL] = "bool",  [JSON_INT] = "number",
    [JSON_REAL] = "number",    [JSON_STR] = "string", [JSON_ARRAY] = "unknown",
    [JSON_OBJECT] = "unknown",
};

static const char *listed_type(const struct json *v)
{
    struct str s = json_type(v) == JSON_STR ? json_str(v) : STR("");
    bool number = str_eq_c(s, "NaN") || str_eq_c(s, "Infinity") || str_eq_c(s, "-Infinity");

    return number ? "number" : listing_types[json_type(v)];
}

/* A metric with several values is listed as an array of all of them. */
static void add_values(struct buf *b, const char *key, const listed_values *v)
{
    jw_array(b, key);
    for (size_t i = 0; i < v->n; i++) {
        const struct listed_value *x = &v->p[i];
        AUTO_FREE char *type = xasprintf("%s%s", x->all ? "array " : "", listed_type(x->value));
        jw_object(b, NULL);
        jw_text(b, "name", x->name);
        jw_json(b, "value", x->all ? x->all : x->value);
        jw_text(b, "type", type);
        jw_end_object(b);
    }
    jw_end_array(b);
}

/* The address is that of the archive server, under the name the client knows this machine by, with
 * the name of the file encoded for a URL. */
static void add_files(struct buf *b, const struct listing *l, const struct listed_job *j)
{
    int port = call_atlas(l->c)->conf.archive_port;

    jw_array(b, "artifacts");
    for (size_t i = 0; i < j->files.n; i++) {
        const struct listed_file *f = &j->files.p[i];
        const char *slash = strrchr(f->path, '/'), *name = slash ? slash + 1 : f->path;
        AUTO(buf) struct buf uri = {0};
        buf_init(&uri, 8192);
        buf_addf(&uri, "http://" STR_FMT ":%d/%s/user_artifacts/", STR_ARG(l->host),
                 port ? port : 5557, j->job.id);
        url_encode(&uri, str_of(name));
        jw_object(b, NULL);
        jw_text(b, "filename", name);
        jw_str(b, "uri", buf_str(&uri));
        jw_text(b, "artifact_type", atlas_artifact_type(name));
        jw_text(b, "archive_key", f->key);
        jw_end_object(b);
    }
    jw_end_array(b);
}

static void listing_add_job(struct buf *b, const struct listing *l, const struct listed_job *j)
{
    const struct atlas_job *a = &j->job;
    char duration[48];

    jw_object(b, NULL);
    jw_text(b, "job_id", a->id);
    jw_text(b, "user", a->user);
    jw_text(b, "project", a->project);
    /* The tracker has no state "pending": a job that is being started is still queued. */
    jw_text(b, "status", atlas_state_names[a->state == ATLAS_PENDING ? ATLAS_QUEUED : a->state]);
    atlas_add_time(b, "start_time", a->started_ms);
    atlas_add_time(b, "completed_time", a->state >= ATLAS_COMPLETED ? a->ended_ms : 0);
    atlas_add_time(b, "creation_time", a->created_ms);
    atlas_duration_format(listed_duration_ms(l, j), duration);
    jw_str_or_null(b, "duration", str_of(a->started_ms ? duration : NULL));
    jw_object(b, "tags");
    for (size_t i = 0; i < j->tags.n; i++) {
        jw_key(b, str_of(j->tags.p[i].name));
        jw_json(b, NULL, j->tags.p[i].value);
    }
    jw_end_object(b);
    add_values(b, "job_parameters", &j->params);
    add_values(b, "output_metrics", &j->metrics);
    add_files(b, l, j);
    jw_end_object(b);
}

/* The names that occur, each once, with the type of its first value. */
static void add_names(struct buf *b, const char *key, const struct listing *l, bool metrics)
{
    struct map_str seen = {0};

    jw_array(b, key);
    for (size_t i = 0; i < l->jobs.n; i++) {
        const listed_values *v = metrics ? &l->jobs.p[i].metrics : &l->jobs.p[i].params;
        for (size_t k = 0; k < v->n; k++) {
            if (map_str_get(&seen, str_of(v->p[k].name)))
                continue;
            map_str_put(&seen, str_of(v->p[k].name), l->c);
            jw_object(b, NULL);
            jw_text(b, "name", v->p[k].name);
            jw_text(b, "type", listed_type(v->p[k].value));
            jw_end_object(b);
        }
    }
    jw_end_array(b);
    map_str_done(&seen);
}

/* Worker thread.  arg[1] and arg[2] are column and direction of the longer route; of the shorter
 * one both are empty. */
static int listing_work(struct call *c)
{
    AUTO(listing)
    struct listing l = {.c = c, .project = c->arg[0].p, .host = str_of((const char *)c->data)};
    struct buf *b = &c->out;
    bool sorted = c->arg[2].n > 0;

    if (listing_read(&l, true) < 0 ||
        listing_select(&l, sorted ? c->arg[1].p : NULL, sorted ? c->arg[2].p : NULL, &c->err) < 0)
        return -1;
    jw_object(b, NULL);
    jw_str(b, "name", c->arg[0]);
    jw_array(b, "jobs");
    for (size_t i = 0; i < l.jobs.n; i++)
        listing_add_job(b, &l, &l.jobs.p[i]);
    jw_end_array(b);
    add_names(b, "output_metric_names", &l, true);
    add_names(b, "parameters", &l, false);
    jw_end_object(b);
    buf_addc(b, '\n');
    return 0;
}

/* GET …/projects/PROJECT/job_listing, with or without /COLUMN/asc or /desc. */
void atlas_listing(struct call *c)
{
    struct str host = http_header(c->req, "host");
    size_t n = host.n;

    while (n > 0 && host.p[n - 1] >= '0' && host.p[n - 1] <= '9')
        n--;
    if (n > 0 && n < host.n && host.p[n - 1] == ':')
        host.n = n - 1;
    /* Over the socket of the home there is no name that means something. */
    if (host.n == 0 || http_peer(c->req)->is_unix)
        host = STR("localhost");
    c->data = (void *)call_copy(c, host).p;
    atlas_work(c, listing_work, NULL);
}

/* ---- overview ---- */

/* Is the name in a list such as "loss|accuracy"?  Without a list every name is. */
static bool is_wanted(const char *list, const char *name)
{
    for (struct str rest = str_of(list); rest.n > 0;)
        if (str_eq_c(str_cut(rest, '|', &rest), name))
            return true;
    return !list;
}

/* The last value of a metric in every job.  The list of jobs has the newest first, the answer the
 * oldest first. */
static void overview_add_metric(struct buf *b, const struct listing *l, const char *name)
{
    jw_object(b, NULL);
    jw_text(b, "metric_name", name);
    jw_array(b, "values");
    for (size_t i = l->jobs.n; i-- > 0;)
        for (size_t k = 0; k < l->jobs.p[i].metrics.n; k++) {
            const struct listed_value *m = &l->jobs.p[i].metrics.p[k];
            if (strcmp(m->name, name) != 0 || !m->value)
                continue;
            jw_array(b, NULL);
            jw_text(b, NULL, l->jobs.p[i].job.id);
            jw_json(b, NULL, m->value);
            jw_end_array(b);
        }
    jw_end_array(b);
    jw_end_object(b);
}

/* Worker thread.  One pass over the jobs writes the names to the answer and the values to a buffer
 * of their own, because the names come first in the answer. */
static int overview_work(struct call *c)
{
    AUTO(listing) struct listing l = {.c = c, .project = c->arg[0].p};
    const char *want = http_query_param(c->query, "metric_name", &c->mem);
    AUTO(buf) struct buf metrics = {0};
    struct map_str seen = {0};

    buf_init(&metrics, ATLAS_REPLY_MAX);
    if (listing_read(&l, false) < 0 || listing_select(&l, NULL, NULL, &c->err) < 0)
        return -1;
    jw_object(&c->out, NULL);
    jw_array(&c->out, "all_metric_names");
    for (size_t i = 0; i < l.jobs.n; i++)
        for (size_t k = 0; k < l.jobs.p[i].metrics.n; k++) {
            const char *name = l.jobs.p[i].metrics.p[k].name;
            if (map_str_get(&seen, str_of(name)))
                continue;
            jw_text(&c->out, NULL, name);
            map_str_put(&seen, str_of(name), &l);
            if (is_wanted(want, name))
                overview_add_metric(&metrics, &l, name);
        }
    jw_end_array(&c->out);
    jw_array(&c->out, "metric_query");
    jw_members(&c->out, buf_str(&metrics));
    jw_end_array(&c->out);
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    map_str_done(&seen);
    return 0;
}

/* GET …/projects/PROJECT/overview_metrics; `metric_name` restricts the metrics. */
void atlas_overview(struct call *c)
{
    atlas_work(c, overview_work, NULL);
}
