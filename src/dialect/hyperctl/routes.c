/* routes.c - the HTTP API on a batch's port
 *
 * Owns: paths, answers, who may ask, and the requests that wait for a job to end.
 *
 *   /hyperctl                        a greeting
 *   /hyperctl/api/job                all jobs
 *   /hyperctl/api/job/NAME           one job
 *   /hyperctl/api/job/NAME/kill      POST: answered when nothing of the job is left
 *   /hyperctl/api/batch              the summary
 *   /hyperctl/api/batch/views        status, last durations, histogram, timeline, nodes
 *
 * /api/job… and / are what older clients ask for.
 */
#include "dialect/hyperctl/routes.h"
#include "base/arena.h"
#include "base/hash.h"
#include "dialect/hyperctl/layout.h"
#include "dialect/hyperctl/py_json.h"
#include "dialect/hyperctl/views.h"
#include <stdio.h>

struct waiting { /* for the end of a job */
    struct hyper_routes *routes;
    struct http_req *req;
    size_t job;
};
struct hyper_routes {
    struct hyper_routes_conf conf;
    const char *portal;
    VEC(struct waiting *) waiting;
};

/* ---- answers ---- */

static void reply_json(struct http_req *r, int code, struct json *data)
{
    struct json *o = json_new_object();

    json_set_int(o, "code", code);
    json_set_take(o, "data", data);
    char *text = py_json_text(o, 4);
    json_free(o);
    http_reply_take(r, 200, "application/json", text, strlen(text));
}

/* What the original raises as an exception. */
__attribute__((format(printf, 2, 3))) static void reply_error(struct http_req *r, const char *fmt,
                                                              ...)
{
    char text[800];
    struct json *o = json_new_object();
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    json_set_int(o, "code", -1);
    json_set_str(o, "data", text);
    char *body = py_json_text(o, 0);
    json_free(o);
    http_reply_take(r, 200, "application/json", body, strlen(body));
}

static void reply_no_method(struct http_req *r)
{
    reply_error(r, "HTTP 405: Method Not Allowed");
}

static void reply_html(struct http_req *r, int status, const char *what)
{
    char body[200];
    int n = snprintf(body, sizeof(body), "<html><title>%d: %s</title><body>%d: %s</body></html>",
                     status, what, status, what);

    http_reply(r, status, "text/html; charset=UTF-8", (struct str){body, (size_t)n});
}

static void reply_msg(struct http_req *r, int code, const char *msg)
{
    struct json *o = json_new_object();

    json_set_str(o, "msg", msg);
    reply_json(r, code, o);
}

/* ---- kill ---- */

static void on_gone(void *arg, struct http_req *r)
{
    struct waiting *w = arg;
    struct hyper_routes *h = w->routes;

    (void)r;
    for (size_t i = 0; i < h->waiting.n; i++)
        if (h->waiting.p[i] == w) {
            vec_remove(&h->waiting, i);
            break;
        }
    free(w);
}

static void answer_waiting(struct hyper_routes *h, size_t job, const char *refused)
{
    AUTO_FREE char *msg = xasprintf("%s killed", h->conf.batch->jobs.p[job].name);

    for (size_t i = 0; i < h->waiting.n;) {
        struct waiting *w = h->waiting.p[i];
        if (w->job != job) {
            i++;
            continue;
        }
        vec_remove(&h->waiting, i);
        http_on_gone(w->req, NULL, NULL);
        if (refused)
            reply_error(w->req, "%s", refused);
        else
            reply_msg(w->req, 0, msg);
        free(w);
    }
}

void hyper_routes_killed(struct hyper_routes *h, size_t job)
{
    if (h->waiting.n)
        answer_waiting(h, job, NULL);
}

void hyper_routes_refused(struct hyper_routes *h, size_t job, const char *why)
{
    answer_waiting(h, job, why);
}

static void kill_job(struct hyper_routes *h, struct http_req *r, struct str name)
{
    const struct hyper_job *j = hyper_batch_find(h->conf.batch, name);

    if (!j) {
        reply_error(r, "job " STR_FMT " does not exists ", (int)MIN(name.n, 400), name.p);
        return;
    }
    if (j->status != HYPER_RUNNING) {
        reply_error(r, "job %s in not in running status but is %s ", j->name,
                    hyper_status_name(j->status));
        return;
    }
    struct waiting *w = xcalloc(1, sizeof(*w));
    size_t index = (size_t)(j - h->conf.batch->jobs.p);
    *w = (struct waiting){h, r, index};
    vec_push(&h->waiting, w);
    http_on_gone(r, on_gone, w);
    h->conf.kill(h->conf.arg, index);
}

/* ---- routes ---- */

static bool is_get(const struct http_req *r)
{
    return str_eq_c(http_method(r), "GET");
}

static void list_jobs(struct hyper_routes *h, struct http_req *r)
{
    struct json *o = json_new_object(), *jobs = json_new_array();

    for (size_t i = 0; i < h->conf.batch->jobs.n; i++)
        json_push_take(jobs, hyper_job_json(&h->conf.batch->jobs.p[i]));
    json_set_take(o, "jobs", jobs);
    reply_json(r, 0, o);
}

static void show_job(struct hyper_routes *h, struct http_req *r, struct str name)
{
    const struct hyper_job *j = hyper_batch_find(h->conf.batch, name);

    if (j)
        reply_json(r, 0, hyper_job_json(j));
    else
        reply_msg(r, -1, "resource not found");
}

static size_t count_param(struct http_req *r, const char *name, size_t dflt, size_t max)
{
    const char *text = http_param(r, name);
    int64_t n;

    if (!text || !str_to_i64(str_of(text), &n) || n < 1)
        return dflt;
    return MIN((size_t)n, max);
}

static void show_batch(struct hyper_routes *h, struct http_req *r, struct str what)
{
    if (!is_get(r)) {
        reply_no_method(r);
    } else if (str_eq_c(what, "/views")) {
        const struct hyper_view_conf c = {
            count_param(r, "tail", HYPER_TAIL, HYPER_TAIL_MAX),
            count_param(r, "bins", HYPER_BINS, HYPER_BINS_MAX),
            count_param(r, "time_bins", HYPER_BINS, HYPER_BINS_MAX),
        };
        reply_json(r, 0, hyper_views_json(h->conf.batch, &c));
    } else {
        const char *status = hyper_batch_finished(h->conf.batch) ? "FINISHED" : "RUNNING";
        struct json *o = hyper_summary_json(h->conf.batch, status);
        json_set_str(o, "portal", h->portal);
        reply_json(r, 0, o);
    }
}

/* What follows "/api/job/": a name, or a name and what shall be done with it.  The split is at the
 * last slash, as it always was. */
static void route_named(struct hyper_routes *h, struct http_req *r, struct str rest)
{
    const char *slash = memrchr(rest.p, '/', rest.n);

    if (!rest.n || rest.p[rest.n - 1] == '/' || rest.p[0] == '/') {
        reply_html(r, 404, "Not Found");
    } else if (!slash) {
        if (is_get(r))
            show_job(h, r, rest);
        else
            reply_no_method(r);
    } else if (!str_eq_c(http_method(r), "POST")) {
        reply_no_method(r);
    } else {
        struct str name = {rest.p, (size_t)(slash - rest.p)};
        struct str op = {slash + 1, rest.n - name.n - 1};
        if (str_eq_c(op, "kill"))
            kill_job(h, r, name);
        else
            reply_error(r, "unknown operation " STR_FMT " ", (int)MIN(op.n, 400), op.p);
    }
}

static void route(struct hyper_routes *h, struct http_req *r, struct str path)
{
    bool known = true;

    if (str_eq_c(path, "/hyperctl") || str_eq_c(path, "/")) {
        if (is_get(r))
            http_reply(r, 200, "text/html; charset=UTF-8", STR("Welcome to hyperctl."));
        else
            reply_no_method(r);
        return;
    }
    if (str_starts(path, STR("/hyperctl/")))
        path = (struct str){path.p + 9, path.n - 9};
    if (str_eq_c(path, "/api/job")) {
        if (is_get(r))
            list_jobs(h, r);
        else
            reply_no_method(r);
    } else if (str_starts(path, STR("/api/job/"))) {
        route_named(h, r, (struct str){path.p + 9, path.n - 9});
    } else if (str_eq_c(path, "/api/batch") || str_eq_c(path, "/api/batch/views")) {
        show_batch(h, r, (struct str){path.p + 10, path.n - 10});
    } else {
        known = false;
    }
    if (!known)
        reply_html(r, 404, "Not Found");
}

/* Takes "/token" off the front; false when it is not there. */
static bool take_token(const char *token, struct str *path)
{
    size_t n = token ? strlen(token) : 0;

    if (!n || path->n < n + 1 || path->p[0] != '/' || !equal_const_time(path->p + 1, token, n) ||
        (path->n > n + 1 && path->p[n + 1] != '/'))
        return false;
    *path = path->n > n + 1 ? (struct str){path->p + n + 1, path->n - n - 1} : STR("/");
    return true;
}

static void on_request(void *self, struct http_req *r)
{
    struct hyper_routes *h = self;
    struct str path = http_path(r);
    bool proven = take_token(h->conf.token, &path);

    if (h->conf.token_needed && !proven && !http_peer(r)->is_unix)
        reply_html(r, 403, "Forbidden");
    else
        route(h, r, path);
}

struct hyper_routes *hyper_routes_new(const struct hyper_routes_conf *c)
{
    struct hyper_routes *h = xcalloc(1, sizeof(*h));

    h->conf = *c;
    return h;
}

void hyper_routes_set_portal(struct hyper_routes *h, const char *portal)
{
    h->portal = portal;
}

void hyper_routes_free(struct hyper_routes *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->waiting.n; i++)
        free(h->waiting.p[i]);
    vec_done(&h->waiting);
    free(h);
}

struct http_handler hyper_routes_handler(struct hyper_routes *h)
{
    return (struct http_handler){.request = on_request, .self = h};
}
