/* dialect.c - Atlas' interface put together: which path goes where, the life of a call
 *
 * Owns: the table of routes, struct atlas_call from the request to its answer, opening and closing.
 *
 * Every path answers on every port (the original had a proxy for each, and clients know them all);
 * on the port of archives a path that is none of ours names a file of an archive.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/atlas_priv.h"
#include <stdio.h>

static const struct atlas_route routes[] = {
    {"GET", "/", atlas_hello},
    {"GET", "/job_bundle/{}", atlas_bundle_get},
    {"DELETE", "/job_bundle/{}", atlas_bundle_delete},
    {"POST", "/job_bundle/contents", atlas_contents_ask},
    {"POST", "/queued_jobs", atlas_enqueue},
    {"GET", "/queued_jobs", atlas_queue_list},
    {"GET", "/queued_jobs/{}", atlas_queue_get},
    {"DELETE", "/queued_jobs/{}", atlas_queue_delete},
    {"PATCH", "/queued_jobs/{}", atlas_queue_patch},
    {"GET", "/running_jobs", atlas_jobs_list},
    {"GET", "/completed_jobs", atlas_jobs_list},
    {"GET", "/failed_jobs", atlas_jobs_list},
    {"GET", "/running_jobs/{}/logs", atlas_jobs_logs},
    {"GET", "/completed_jobs/{}/logs", atlas_jobs_logs},
    {"GET", "/failed_jobs/{}/logs", atlas_jobs_logs},
    {"GET", "/running_jobs/{}/container_id", atlas_jobs_container},
    {"DELETE", "/running_jobs/{}", atlas_jobs_stop},
    {"DELETE", "/completed_jobs/{}", atlas_jobs_delete},
    {"DELETE", "/failed_jobs/{}", atlas_jobs_delete},
    {"GET", "/jobs/{}", atlas_job_get},
    {"GET", "/jobs/{}/logs", atlas_job_tail},
    {"GET", "/workers", atlas_workers_list},
    {"POST", "/workers", atlas_workers_add},
    {"DELETE", "/workers/{}", atlas_workers_remove},
    {"GET", "/scheduled_jobs", atlas_scheduled_list},
    {"POST", "/scheduled_jobs", atlas_scheduled_post},
    {"GET", "/scheduled_jobs/{}", atlas_scheduled_get},
    {"PUT", "/scheduled_jobs/{}", atlas_scheduled_put},
    {"PATCH", "/scheduled_jobs/{}", atlas_scheduled_patch},
    {"DELETE", "/scheduled_jobs/{}", atlas_scheduled_delete},
};

/* ---- calls ---- */

static void on_gone(void *arg, struct http_req *r)
{
    (void)r;
    ((struct atlas_call *)arg)->req = NULL;
}

static struct str copied(struct arena *mem, struct str s)
{
    return (struct str){arena_strndup(mem, s.p ? s.p : "", s.n), s.n};
}

static struct atlas_call *call_new(struct atlas *a, struct http_req *r)
{
    struct atlas_call *c = xcalloc(1, sizeof(*c));

    c->a = a;
    c->req = r;
    c->peer = *http_peer(r);
    buf_init(&c->out, ATLAS_REPLY_MAX);
    http_on_gone(r, on_gone, c);
    return c;
}

struct http_req *atlas_take_req(struct atlas_call *c)
{
    struct http_req *r = c->req;

    if (r)
        http_on_gone(r, NULL, NULL);
    c->req = NULL;
    return r;
}

void atlas_call_free(struct atlas_call *c)
{
    atlas_take_req(c);
    if (c->free_data)
        c->free_data(c->data);
    free(c->unarchived);
    buf_done(&c->out);
    arena_done(&c->mem);
    free(c);
}

void atlas_reply(struct atlas_call *c)
{
    struct http_req *r = atlas_take_req(c);

    if (r && c->out.overflow) {
        err_set(&c->err, ERR_LIMIT, "the answer is too large; ask for less of it");
        http_reply_err(r, &c->err);
    } else if (r) {
        size_t n;
        char *p = buf_take(&c->out, &n);
        http_reply_take(r, c->status ? c->status : 200, c->type ? c->type : "application/json", p,
                        n);
    }
    atlas_call_free(c);
}

void atlas_fail(struct atlas_call *c, const struct err *e)
{
    struct http_req *r = atlas_take_req(c);
    struct err copy = *e;

    if (r) {
        if (err_retryable(e->code))
            http_reply_header(r, "Retry-After", "1");
        http_reply_err(r, &copy);
    }
    atlas_call_free(c);
}

static void on_work(void *arg)
{
    struct atlas_call *c = arg;

    if (c->check_peer && atlas_check_peer(c->a, &c->peer, &c->err) < 0)
        return;
    c->check_peer = false;
    if (c->work(c) < 0 && !c->err.code)
        err_set(&c->err, ERR_INTERNAL, "a request failed without a reason; this is a bug");
}

static void on_worked(void *arg)
{
    struct atlas_call *c = arg;

    c->a->working--;
    if (c->err.code)
        atlas_fail(c, &c->err);
    else
        (c->then ? c->then : atlas_reply)(c);
}

void atlas_work(struct atlas_call *c, atlas_work_fn work, atlas_then_fn then)
{
    struct atlas *a = c->a;

    c->work = work;
    c->then = then;
    free(c->unarchived);
    c->n_unarchived = 0;
    c->unarchived = xmalloc((a->live.n + 1) * sizeof(*c->unarchived));
    /* Also those that run now: one may have ended by the time the worker thread reads it. */
    for (size_t i = 0; i < a->live.n; i++)
        c->unarchived[c->n_unarchived++] = a->live.p[i].job;
    a->working++;
    work_submit(a->conf.loop, on_work, on_worked, c);
}

void atlas_acted(void *arg, const struct err *e, const struct acted *r)
{
    struct atlas_call *c = arg;

    if (e) {
        atlas_fail(c, e);
    } else if (r->denied || r->unknown || (!r->done && r->already)) {
        err_set(&c->err, r->denied ? ERR_DENIED : ERR_NOT_FOUND,
                r->denied ? "this job is another user's" : "there is no such job any more");
        atlas_fail(c, &c->err);
    } else {
        c->status = c->status ? c->status : 204;
        atlas_reply(c);
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

char *atlas_decode(struct atlas_call *c, struct str s)
{
    char *out = arena_alloc(&c->mem, s.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        bool escape = s.p[i] == '%' && i + 2 < s.n && hex_digit(s.p[i + 1]) >= 0 &&
                      hex_digit(s.p[i + 2]) >= 0;
        if (escape) {
            out[n++] = (char)(hex_digit(s.p[i + 1]) << 4 | hex_digit(s.p[i + 2]));
            i += 2;
        } else {
            out[n++] = s.p[i] == '+' ? ' ' : s.p[i];
        }
    }
    out[n] = 0; /* a NUL inside was refused with the request */
    return out;
}

char *atlas_param(struct atlas_call *c, const char *name)
{
    struct str rest = c->query; /* a copy, so that this works on any thread */

    while (rest.n > 0) {
        struct str value, key = str_cut(str_cut(rest, '&', &rest), '=', &value);
        if (str_eq_c(key, name))
            return atlas_decode(c, value);
    }
    return NULL;
}

struct json *atlas_body(struct atlas_call *c)
{
    struct json *j = NULL;

    if (json_parse(c->body, "body", &j, &c->err) < 0)
        return NULL;
    if (!j)
        err_set(&c->err, ERR_INVALID, "the body of the request is empty");
    return j;
}

/* ---- requests ---- */

/* Does the path fit?  What stands for {} is put into args. */
static bool path_fits(const char *pattern, struct str path, struct str args[ATLAS_ARGS_MAX])
{
    struct str want = str_of(pattern);
    size_t n = 0;

    for (;;) {
        struct str a = str_cut(want, '/', &want), b = str_cut(path, '/', &path);
        if (str_eq_c(a, "{}")) {
            if (!b.n)
                return false;
            args[n++] = b;
        } else if (!str_eq(a, b)) {
            return false;
        }
        if (!want.n || !path.n)
            return !want.n && !path.n;
    }
}

const struct atlas_route *atlas_route_in(const struct atlas_route *table, size_t n,
                                         struct str method, struct str path,
                                         struct str args[ATLAS_ARGS_MAX], bool *known)
{
    if (str_eq_c(method, "HEAD"))
        method = STR("GET");
    for (size_t i = 0; i < n; i++) {
        if (!path_fits(table[i].path, path, args))
            continue;
        *known = true;
        if (str_eq_c(method, table[i].method))
            return &table[i];
    }
    return NULL;
}

static struct str path_of(struct http_req *r)
{
    struct str path = http_path(r);

    while (path.n > 1 && path.p[path.n - 1] == '/')
        path.n--; /* flask_restful took both */
    return path;
}

static bool is_upload(struct http_req *r)
{
    return str_eq_c(path_of(r), "/job_bundle") && str_eq_c(http_method(r), "POST");
}

static bool on_archive_port(const struct atlas *a, struct http_req *r)
{
    const struct http_peer *p = http_peer(r);

    return !p->is_unix && a->conf.archive_port && p->to_port == a->conf.archive_port;
}

/* What follows these is a path of its own. */
static const struct atlas_route archive_route = {"GET", "/archive/…", atlas_archive_file},
                                files_get = {"GET", "/api/v2beta/jobs/…", atlas_files_get},
                                files_put = {"PUT", "/api/v2beta/jobs/…", atlas_files_put};

static const struct atlas_route *route_of(const struct atlas *a, struct http_req *r,
                                          struct str args[ATLAS_ARGS_MAX], bool *known)
{
    struct str path = path_of(r), prefix = STR("/archive/");
    const struct atlas_route *found =
        atlas_route_in(routes, ARRAY_SIZE(routes), http_method(r), path, args, known);

    if (found || *known)
        return found;
    bool reads = str_eq_c(http_method(r), "GET") || str_eq_c(http_method(r), "HEAD");
    if (reads && str_starts(path, prefix)) {
        args[0] = (struct str){path.p + prefix.n, path.n - prefix.n};
        return &archive_route;
    }
    if (reads && on_archive_port(a, r)) {
        args[0] = (struct str){path.p + 1, path.n - 1};
        return &archive_route;
    }
    struct str jobs = STR("/api/v2beta/jobs/");
    if (str_starts(path, jobs)) {
        args[0] = (struct str){path.p + jobs.n, path.n - jobs.n};
        *known = true;
        return reads ? &files_get : str_eq_c(http_method(r), "PUT") ? &files_put : NULL;
    }
    return atlas_tracker_route(r, args, known);
}

static void refuse(struct http_req *r, enum err_code code, const char *text)
{
    struct err e = {0};

    err_set(&e, code, "%s", text);
    http_reply_err(r, &e);
}

static void on_request(void *self, struct http_req *r)
{
    struct atlas *a = self;
    struct str args[ATLAS_ARGS_MAX] = {0};
    bool known = false;

    if (is_upload(r)) {
        atlas_upload_request(a, r);
        return;
    }
    const struct atlas_route *route = route_of(a, r, args, &known);
    if (!route && !known) {
        a->next.request(a->next.self, r);
        return;
    }
    if (!route || a->closing) {
        if (!route)
            http_reply(
                r, 405, "application/json",
                STR("{\"error\":{\"code\":\"invalid\",\"message\":\"not with this method\"}}\n"));
        else
            refuse(r, ERR_UNAVAILABLE, "the server is shutting down; try again in a moment");
        return;
    }
    struct atlas_call *c = call_new(a, r);
    for (size_t i = 0; i < ATLAS_ARGS_MAX; i++)
        c->arg[i] = copied(&c->mem, args[i]);
    c->body = copied(&c->mem, http_body(r));
    c->query = copied(&c->mem, http_query(r));
    if (atlas_identify(a, r, c) < 0)
        atlas_fail(c, &c->err);
    else
        route->handler(c);
}

static size_t on_body_max(void *self, struct http_req *r)
{
    struct atlas *a = self;
    struct str args[ATLAS_ARGS_MAX];
    bool known = false;

    if (is_upload(r))
        return SIZE_MAX / 2; /* what is unpacked has limits of its own */
    const struct atlas_route *route = route_of(a, r, args, &known);
    if (route == &files_put)
        return ATLAS_FILE_MAX;
    if (route || known)
        return ATLAS_BODY_MAX;
    return a->next.body_max ? a->next.body_max(a->next.self, r) : ATLAS_BODY_MAX;
}

static bool on_in_pieces(void *self, struct http_req *r)
{
    return is_upload(r) && atlas_upload_begin(self, r);
}

static void on_piece(void *self, struct http_req *r, struct str bytes)
{
    atlas_upload_piece(self, r, bytes);
}

struct http_handler atlas_handler(struct atlas *a, struct http_handler next)
{
    a->next = next;
    return (struct http_handler){.request = on_request,
                                 .body_max = on_body_max,
                                 .self = a,
                                 .in_pieces = on_in_pieces,
                                 .piece = on_piece};
}

void atlas_hello(struct atlas_call *c)
{
    c->type = "text/plain; charset=utf-8";
    buf_adds(&c->out, "Foundations Atlas scheduler: see /queued_jobs, /running_jobs, "
                      "/completed_jobs and /api/v2beta/projects\n");
    atlas_reply(c);
}

/* ---- life ---- */

int atlas_open(const struct atlas_conf *c, struct atlas **out, struct err *e)
{
    struct atlas *a = xcalloc(1, sizeof(*a));
    AUTO_FREE char *contents = path_join(c->home, ATLAS_DIR_CONTENTS);

    a->conf = *c;
    a->conf.home = xstrdup(c->home);
    a->conf.program = xstrdup(c->program);
    a->conf.python = xstrdup(c->python);
    a->conf.archive_url = xstrdup(c->archive_url);
    a->conf.tensorboard_url = xstrdup(c->tensorboard_url);
    a->archive_dir = path_join(c->home, ATLAS_DIR_ARCHIVE);
    a->work_dir = path_join(c->home, ATLAS_DIR_WORK);
    if (atlas_home_make(c->home, 0, NULL, NULL, e) < 0 || cas_open(contents, &a->cas, e) < 0 ||
        atlas_schedules_open(a, e) < 0) {
        atlas_free(a);
        return err_wrap(e, "opening the Atlas home");
    }
    *out = a;
    return 0;
}

void atlas_shut(struct atlas *a)
{
    a->closing = true;
    atlas_schedules_shut(a);
    atlas_notify_shut(a->notify);
    atlas_waiting_look(a);
}

bool atlas_busy(const struct atlas *a)
{
    return a->working > 0 || atlas_notify_busy(a->notify);
}

void atlas_free(struct atlas *a)
{
    if (!a)
        return;
    atlas_schedules_free(a->schedules);
    atlas_notify_free(a->notify);
    if (a->cas)
        cas_close(a->cas);
    vec_done(&a->live);
    vec_done(&a->workers);
    vec_done(&a->waiting);
    vec_done(&a->queued_uploads);
    free(a->archive_dir);
    free(a->work_dir);
    free((char *)a->conf.home);
    free((char *)a->conf.program);
    free((char *)a->conf.python);
    free((char *)a->conf.archive_url);
    free((char *)a->conf.tensorboard_url);
    free(a);
}
