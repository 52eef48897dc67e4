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
#include "base/hash.h"
#include "dialect/hyperctl/layout.h"
#include "dialect/hyperctl/views.h"
#include "request/service.h"
#include <stdio.h>
#include <unistd.h>

struct waiting { /* for the end of a job */
    struct call *call;
    size_t job;
};
/* Belongs to the loop thread, as all calls do. */
struct hyper_routes {
    struct hyper_routes_conf conf;
    struct request_server *requests;
    struct auth *auth; /* knows whose batch it is; there are no tokens in it */
    const char *portal;
    VEC(struct waiting) waiting;
};

static inline struct hyper_routes *call_hyper(const struct call *c)
{
    return c->self;
}

/* ---- answers ---- */

/* Takes `data`. */
static void reply_json(struct call *c, int code, struct json *data)
{
    AUTO(json) struct json *o = json_new_object();

    json_set_int(o, "code", code);
    json_set_take(o, "data", data);
    json_write(&c->out, o, JSON_PYTHON_INDENTED);
    call_reply(c);
}

static void reply_msg(struct call *c, int code, const char *msg)
{
    struct json *o = json_new_object();

    json_set_str(o, "msg", msg);
    reply_json(c, code, o);
}

/* What the original raises as an exception, on one line.  Yours. */
static char *routes_error_text(const char *what)
{
    AUTO(json) struct json *o = json_new_object();

    json_set_int(o, "code", -1);
    json_set_str(o, "data", what);
    return json_text_as(o, JSON_PYTHON);
}

__attribute__((format(printf, 2, 3))) static void reply_error(struct call *c, const char *fmt, ...)
{
    char what[800];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    AUTO_FREE char *text = routes_error_text(what);
    buf_adds(&c->out, text);
    call_reply(c);
}

/* A path or a caller that is refused: a page, as the original's framework sent it. */
static void routes_fail(struct http_req *r, int status, const struct err *e)
{
    const char *what = status == 404 ? "Not Found" : status == 403 ? "Forbidden" : e->text;
    char body[600];

    if (status == 405) {
        char *text = routes_error_text("HTTP 405: Method Not Allowed");
        http_reply_take(r, 200, "application/json", text, strlen(text));
        return;
    }
    int n = snprintf(body, sizeof(body), "<html><title>%d: %s</title><body>%d: %s</body></html>",
                     status, what, status, what);
    http_reply(r, status, "text/html; charset=UTF-8",
               (struct str){body, MIN((size_t)n, sizeof(body) - 1)});
}

/* ---- kill ---- */

/* The client has hung up: nobody waits for the answer any more. */
static void waiting_gone(struct call *c)
{
    struct hyper_routes *h = call_hyper(c);

    for (size_t i = 0; i < h->waiting.n; i++)
        if (h->waiting.p[i].call == c) {
            vec_remove(&h->waiting, i);
            break;
        }
    call_free(c);
}

/* Answers all requests to kill this job: it has ended, or the scheduler refused. */
static void answer_waiting(struct hyper_routes *h, size_t job, const char *refused)
{
    AUTO_FREE char *msg = xasprintf("%s killed", h->conf.batch->jobs.p[job].name);

    for (size_t i = 0; i < h->waiting.n;) {
        struct waiting w = h->waiting.p[i];
        if (w.job != job) {
            i++;
            continue;
        }
        vec_remove(&h->waiting, i);
        if (refused)
            reply_error(w.call, "%s", refused);
        else
            reply_msg(w.call, 0, msg);
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

/* The answer waits until the job has ended: hyper_routes_killed sends it. */
static void kill_job(struct call *c, struct str name)
{
    struct hyper_routes *h = call_hyper(c);
    const struct hyper_job *j = hyper_batch_find(h->conf.batch, name);

    if (!j) {
        reply_error(c, "job " STR_FMT " does not exists ", (int)MIN(name.n, 400), name.p);
        return;
    }
    if (j->status != HYPER_RUNNING) {
        reply_error(c, "job %s in not in running status but is %s ", j->name,
                    hyper_status_name(j->status));
        return;
    }
    /* Registered before the kill is asked for: its result may arrive at once. */
    size_t index = (size_t)(j - h->conf.batch->jobs.p);
    vec_push(&h->waiting, ((struct waiting){c, index}));
    c->gone = waiting_gone;
    h->conf.kill(h->conf.arg, index);
}

/* ---- handlers ---- */

static void routes_hello(struct call *c)
{
    c->type = "text/html; charset=UTF-8";
    buf_adds(&c->out, "Welcome to hyperctl.");
    call_reply(c);
}

static void routes_jobs(struct call *c)
{
    const struct hyper_batch *b = call_hyper(c)->conf.batch;
    struct json *o = json_new_object(), *jobs = json_new_array();

    for (size_t i = 0; i < b->jobs.n; i++)
        json_push_take(jobs, hyper_job_json(&b->jobs.p[i]));
    json_set_take(o, "jobs", jobs);
    reply_json(c, 0, o);
}

static void routes_job(struct call *c)
{
    const struct hyper_job *j = hyper_batch_find(call_hyper(c)->conf.batch, c->arg[0]);

    if (j)
        reply_json(c, 0, hyper_job_json(j));
    else
        reply_msg(c, -1, "resource not found");
}

/* A name and what shall be done with it.  The split is at the last slash, as it always was: names
 * may hold others. */
static void routes_job_act(struct call *c)
{
    struct str all = c->arg[0];
    const char *slash = memrchr(all.p, '/', all.n);
    struct str op = {slash + 1, (size_t)(all.p + all.n - slash - 1)};

    if (call_closing(c))
        call_fail_closing(c);
    else if (str_eq_c(op, "kill"))
        kill_job(c, (struct str){all.p, (size_t)(slash - all.p)});
    else
        reply_error(c, "unknown operation " STR_FMT " ", (int)MIN(op.n, 400), op.p);
}

static void routes_batch(struct call *c)
{
    struct hyper_routes *h = call_hyper(c);
    const char *status = hyper_batch_finished(h->conf.batch) ? "FINISHED" : "RUNNING";
    struct json *o = hyper_summary_json(h->conf.batch, status);

    json_set_str(o, "portal", h->portal);
    reply_json(c, 0, o);
}

/* A number that cannot be read counts as absent; one above the limit counts as the limit. */
static size_t count_param(struct call *c, const char *name, size_t dflt, size_t max)
{
    const char *text = call_param(c, name);
    int64_t n;

    if (!text || !str_to_i64(str_of(text), &n) || n < 1)
        return dflt;
    return MIN((size_t)n, max);
}

static void routes_views(struct call *c)
{
    const struct hyper_view_conf v = {
        count_param(c, "tail", HYPER_TAIL, HYPER_TAIL_MAX),
        count_param(c, "bins", HYPER_BINS, HYPER_BINS_MAX),
        count_param(c, "time_bins", HYPER_BINS, HYPER_BINS_MAX),
    };

    reply_json(c, 0, hyper_views_json(call_hyper(c)->conf.batch, &v));
}

/* A name alone takes no POST: the row of GET stands first and has it. */
static const struct route routes[] = {
    {"GET", "/", routes_hello, AUTH_READ},
    {"GET", "/api/job", routes_jobs, AUTH_READ},
    {"GET", "/api/job/{name}", routes_job, AUTH_READ},
    {"POST", "/api/job/{name...}", routes_job_act, AUTH_WRITE},
    {"GET", "/api/batch", routes_batch, AUTH_READ},
    {"GET", "/api/batch/views", routes_views, AUTH_READ},
};

/* ---- paths and callers ---- */

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

/* Without the token and "/hyperctl".  A slash at the end was never taken. */
static struct str routes_path(void *self, struct str path)
{
    const struct hyper_routes *h = self;
    struct str prefix = STR("/hyperctl");

    take_token(h->conf.token, &path);
    if (path.n > 1 && path.p[path.n - 1] == '/')
        return STR("");
    if (str_eq(path, prefix))
        return STR("/");
    if (str_starts(path, STR("/hyperctl/")))
        return (struct str){path.p + prefix.n, path.n - prefix.n};
    return path;
}

/* Everybody who gets this far may do everything: a batch has one user.  Of a caller on loopback the
 * kernel is asked whether it is that user, or root. */
static int routes_identify(void *self, struct http_req *r, struct who *out, struct err *e)
{
    const struct hyper_routes *h = self;
    struct str path = http_path(r);

    bool proved = take_token(h->conf.token, &path);

    if (!proved && h->conf.token_needed && !http_peer(r)->is_unix)
        return err_set(e, ERR_DENIED, "the token of the batch must stand in front of the path");
    *out = (struct who){.caller = {.user = "hyperctl"},
                        .known = true,
                        .proved = proved,
                        .ask_owner = !proved && http_peer(r)->local};
    return 0;
}

/* ---- life ---- */

struct hyper_routes *hyper_routes_new(const struct hyper_routes_conf *c)
{
    struct hyper_routes *h = xcalloc(1, sizeof(*h));

    h->conf = *c;
    h->auth = auth_new(NULL, "", (uint32_t)geteuid(), false);
    h->requests = request_server_new(&(struct request_conf){.loop = c->loop, .auth = h->auth});
    request_server_add(h->requests, &(struct service){.routes = routes,
                                                      .n_routes = ARRAY_SIZE(routes),
                                                      .self = h,
                                                      .path = routes_path,
                                                      .identify = routes_identify,
                                                      .fail = routes_fail});
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
    request_server_free(h->requests);
    auth_free(h->auth);
    vec_done(&h->waiting);
    free(h);
}

void hyper_routes_shut(struct hyper_routes *h)
{
    if (h)
        request_server_shut(h->requests);
}

bool hyper_routes_busy(const struct hyper_routes *h)
{
    return h && request_server_busy(h->requests);
}

struct http_handler hyper_routes_handler(struct hyper_routes *h)
{
    return request_server_handler(h->requests);
}
