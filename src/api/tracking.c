/* tracking.c - what people add to experiments: tags, notes, descriptions; and files jobs keep
 *
 * POST /v1/jobs/{job}/tags {"name":…,"value":…}   DELETE /v1/jobs/{job}/tags?name=…
 * GET and POST /v1/jobs/{job}/notes               GET and POST /v1/projects/{name}/notes
 * PUT /v1/projects/{name} {"description":…}
 * GET /v1/jobs/{job}/artifacts                    GET /v1/jobs/{job}/artifact?name=…, with Range
 *
 * An artifact is a path the job named.  It is served only when it lies in the directory of a run of
 * that job, where the job keeps its copies, and is a plain file: a job cannot make the daemon hand
 * out what only the daemon may read.
 */
#include "api/api_priv.h"
#include "api/job_json.h"
#include "base/json.h"
#include "base/user_rights.h"
#include "core/track.h"
#include "store/track.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

struct tracking_call {
    struct job_facts f;
    struct json *json; /* the body */
    const char *name;  /* of the query */
    int fd;            /* of the artifact that is sent; -1 = none */
    const char *type;
};

static void tracking_free(void *data)
{
    struct tracking_call *d = data;

    json_free(d->json);
    if (d->fd >= 0)
        close(d->fd);
}

/* Work on a worker thread, then the rest on the loop thread. */
static void tracking_start(struct call *c, call_work_fn run, call_fn then)
{
    struct tracking_call *d = call_alloc(c, sizeof(*d));

    d->fd = -1;
    d->name = call_param(c, "name");
    c->data = d;
    c->free_data = tracking_free;
    call_keep_body(c);
    call_work(c, run, then);
}

/* The same for requests about one named thing; `missing` is the answer to a request without. */
static void tracking_start_named(struct call *c, const char *missing, call_work_fn run,
                                 call_fn then)
{
    if (call_param(c, "name")) {
        tracking_start(c, run, then);
        return;
    }
    err_set(&c->err, ERR_INVALID, "%s", missing);
    call_fail(c, &c->err);
}

/* Worker thread.  The body must be an object; tracking_free frees it. */
static int tracking_read_body(struct call *c)
{
    struct tracking_call *d = c->data;

    d->json = body_object(c);
    return d->json ? 0 : -1;
}

static int tracking_text(struct call *c, const char *key, struct str *out)
{
    return body_text(c, ((struct tracking_call *)c->data)->json, key, out);
}

static void tracking_on_done(void *arg, const struct err *e, const struct acted *r)
{
    acted_reply(arg, e, r, 1);
}

/* ---- tags ---- */

/* Worker thread: the job of the path and the body. */
static int tracking_read_both(struct call *c)
{
    struct tracking_call *d = c->data;

    return job_ref_arg(c, &d->f) < 0 || tracking_read_body(c) < 0 ? -1 : 0;
}

static void tags_set_then(struct call *c)
{
    struct tracking_call *d = c->data;
    struct str name, value;

    if (tracking_text(c, "name", &name) < 0 || tracking_text(c, "value", &value) < 0)
        call_fail(c, &c->err);
    else
        core_tag(call_api(c)->conf.core, d->f.seq, name, value, &c->who.caller, tracking_on_done,
                 c);
}

void tags_set(struct call *c)
{
    tracking_start(c, tracking_read_both, tags_set_then);
}

static int tracking_read_job(struct call *c)
{
    return job_ref_arg(c, &((struct tracking_call *)c->data)->f);
}

static void tags_remove_then(struct call *c)
{
    struct tracking_call *d = c->data;

    core_untag(call_api(c)->conf.core, d->f.seq, str_of(d->name), &c->who.caller, tracking_on_done,
               c);
}

void tags_remove(struct call *c)
{
    tracking_start_named(c, "name: say which tag to remove, as in ?name=best", tracking_read_job,
                         tags_remove_then);
}

/* ---- notes ---- */

static bool add_note(void *arg, const struct note_view *v)
{
    struct buf *b = arg;

    jw_object(b, NULL);
    jw_int(b, "number", (int64_t)v->seq);
    jw_time(b, "at", v->at_ms);
    jw_str(b, "author", v->author);
    jw_str(b, "text", v->text);
    return jw_end_object(b);
}

/* The notes of a job, or with job 0 those about the project. */
static int put_notes(struct call *c, struct str project, uint64_t job)
{
    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    if (store_notes(call_api(c)->conf.store, project, job, add_note, &c->out, &c->err) < 0)
        return -1;
    jw_end_array(&c->out);
    jw_end_object(&c->out);
    return 0;
}

static int job_notes_run(struct call *c)
{
    struct tracking_call *d = c->data;

    return job_ref_arg(c, &d->f) < 0 ? -1 : put_notes(c, STR(""), d->f.seq);
}

void notes_of_job(struct call *c)
{
    tracking_start(c, job_notes_run, NULL);
}

/* Both kinds of notes.  For a project f.seq is 0, and the core takes arg[0] as the project's name.
 */
static void notes_add_then(struct call *c)
{
    struct tracking_call *d = c->data;
    struct str text, author;

    if (tracking_text(c, "text", &text) < 0 || tracking_text(c, "author", &author) < 0)
        call_fail(c, &c->err);
    else
        core_note(call_api(c)->conf.core, c->arg[0], d->f.seq, text, author, &c->who.caller,
                  tracking_on_done, c);
}

void notes_add_to_job(struct call *c)
{
    tracking_start(c, tracking_read_both, notes_add_then);
}

static int project_notes_run(struct call *c)
{
    return project_ref_arg(c, false) < 0 ? -1 : put_notes(c, c->arg[0], 0);
}

void notes_of_project(struct call *c)
{
    tracking_start(c, project_notes_run, NULL);
}

static int project_read_body(struct call *c)
{
    return project_ref_arg(c, true) < 0 ? -1 : tracking_read_body(c);
}

void notes_add_to_project(struct call *c)
{
    tracking_start(c, project_read_body, notes_add_then);
}

static void describe_then(struct call *c)
{
    struct str text;

    if (tracking_text(c, "description", &text) < 0)
        call_fail(c, &c->err);
    else
        core_describe(call_api(c)->conf.core, c->arg[0], text, &c->who.caller, tracking_on_done, c);
}

void project_describe(struct call *c)
{
    tracking_start(c, project_read_body, describe_then);
}

/* ---- artifacts ---- */

/* By its ending, in either case; what a browser could run is only text. */
static const struct {
    const char *ending, *kind, *type;
} file_types[] = {
    {"png", "image", "image/png"},
    {"jpg", "image", "image/jpeg"},
    {"jpeg", "image", "image/jpeg"},
    {"gif", "image", "image/gif"},
    {"svg", "image", "image/svg+xml"},
    {"webp", "image", "image/webp"},
    {"wav", "audio", "audio/wav"},
    {"mp3", "audio", "audio/mpeg"},
    {"mp4", "video", "video/mp4"},
    {"webm", "video", "video/webm"},
    {"txt", "text", "text/plain; charset=utf-8"},
    {"log", "text", "text/plain; charset=utf-8"},
    {"md", "text", "text/plain; charset=utf-8"},
    {"csv", "csv", "text/csv; charset=utf-8"},
    {"json", "json", "application/json"},
    {"pdf", "pdf", "application/pdf"},
    {"html", "html", "text/html; charset=utf-8"},
};

/* ARRAY_SIZE(file_types) when the ending is not known. */
static size_t file_type_find(struct str path)
{
    for (size_t i = 0; i < ARRAY_SIZE(file_types); i++) {
        size_t n = strlen(file_types[i].ending);
        if (path.n > n && path.p[path.n - n - 1] == '.' &&
            !strncasecmp(path.p + path.n - n, file_types[i].ending, n))
            return i;
    }
    return ARRAY_SIZE(file_types);
}

/* "/runs/0/42.1-1f3a9c2e": the home itself may lie below such a name. */
static const char *last_part(const char *dir)
{
    const char *tail = dir, *next;

    while ((next = strstr(tail + 1, "/runs/")))
        tail = next;
    return tail;
}

/* The part of `path` below the directory of some run of the job, or NULL.  A run on another host
 * names its directory there, which ends as ours does: "…/runs/0/42.1-1f3a9c2e"; what was in it is
 * here. */
static const char *artifact_inside(const struct core *core, const struct job_facts *f,
                                   const char *path, char **out_dir)
{
    for (uint32_t run = f->attempt; run > 0; run--) {
        char *dir = core_run_dir(core, core_run_key(core, f->seq, f->id, run));
        size_t n = strlen(dir);
        const char *tail = last_part(dir), *there = strstr(path, tail);
        if (!strncmp(path, dir, n) && path[n] == '/') {
            *out_dir = dir;
            return path + n + 1;
        }
        if (there && there[strlen(tail)] == '/') {
            *out_dir = dir;
            return there + strlen(tail) + 1;
        }
        free(dir);
    }
    return NULL;
}

/* Never through a link, never out of the directory, and with the rights of the job's user, whose
 * directory it is: a second name of a file that only the daemon may read opens nothing either. */
static int open_inside(const char *dir, const char *rel)
{
    AUTO_FD top = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (top < 0 || !*rel || user_rights_enter_owner(top, NULL) < 0)
        return -1;
    AUTO_FD fd = user_open_beneath(top, rel, O_RDONLY, NULL);
    user_rights_leave();
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    return TAKE_FD(fd);
}

/* The search of one request.  want NULL: all artifacts are listed. */
struct artifact_list {
    struct call *c;
    struct job_facts *f;
    const char *want; /* one of them: opened */
    bool found;
};

/* A descriptor, or -1 when the path lies outside of the run directories of the job. */
static int open_artifact(struct artifact_list *l, const struct mark_view *v)
{
    AUTO_FREE char *path = xstrndup(v->text.p, v->text.n);
    AUTO_FREE char *dir = NULL;
    const char *rel = artifact_inside(call_api(l->c)->conf.core, l->f, path, &dir);

    return rel ? open_inside(dir, rel) : -1;
}

/* The file is opened to learn its size with the same checks as for sending it. */
static bool add_artifact(void *arg, const struct mark_view *v)
{
    struct artifact_list *l = arg;
    struct buf *b = &l->c->out;
    size_t type = file_type_find(v->text);
    AUTO_FD fd = open_artifact(l, v);
    struct stat st;

    jw_object(b, NULL);
    jw_str(b, "name", v->name);
    jw_str(b, "path", v->text);
    jw_text(b, "kind", type < ARRAY_SIZE(file_types) ? file_types[type].kind : "unknown");
    jw_int_or_null(b, "bytes", st.st_size,
                   fd >= 0 && fstat(fd, &st) == 0); /* it is not with the job, or not any more */
    jw_int(b, "run", v->run);
    jw_time(b, "at", v->at_ms);
    return jw_end_object(b);
}

static int artifacts_run(struct call *c)
{
    struct tracking_call *d = c->data;
    struct artifact_list l = {.c = c, .f = &d->f};

    if (job_ref_arg(c, &d->f) < 0)
        return -1;
    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    if (store_marks(call_api(c)->conf.store, &d->f.seq, 1, MARK_ARTIFACT, add_artifact, &l,
                    &c->err) < 0)
        return -1;
    jw_end_array(&c->out);
    jw_end_object(&c->out);
    return 0;
}

void artifacts_list(struct call *c)
{
    tracking_start(c, artifacts_run, NULL);
}

/* store_marks calls this for every artifact until the wanted one is found. */
static bool take_artifact(void *arg, const struct mark_view *v)
{
    struct artifact_list *l = arg;
    struct tracking_call *d = l->c->data;
    size_t type;

    if (!str_eq_c(v->name, l->want))
        return true;
    l->found = true;
    type = file_type_find(v->text);
    d->type = type < ARRAY_SIZE(file_types) ? file_types[type].type : "application/octet-stream";
    d->fd = open_artifact(l, v);
    return false;
}

/* Worker thread.  Two different answers for a user who looks for a file: the job named no such
 * artifact, or its file is not where the daemon may read it. */
static int artifact_run(struct call *c)
{
    struct tracking_call *d = c->data;
    struct artifact_list l = {.c = c, .f = &d->f, .want = d->name};
    unsigned long long job;

    if (job_ref_arg(c, &d->f) < 0 || store_marks(call_api(c)->conf.store, &d->f.seq, 1,
                                                 MARK_ARTIFACT, take_artifact, &l, &c->err) < 0)
        return -1;
    job = d->f.seq;
    if (!l.found)
        return err_set(&c->err, ERR_NOT_FOUND,
                       "job %llu has no artifact '%.60s'; `berth show %llu` lists its artifacts",
                       job, d->name, job);
    if (d->fd < 0)
        return err_set(&c->err, ERR_NOT_FOUND,
                       "artifact '%.60s' of job %llu is not in the directory of its run; "
                       "berth.save_artifact() keeps a copy there",
                       d->name, job);
    return 0;
}

static void artifact_then(struct call *c)
{
    struct tracking_call *d = c->data;
    struct http_req *r = call_take_req(c);

    if (r) {
        /* A page from a job is not ours: it may neither run scripts here nor ask in our name. */
        http_reply_header(r, "Content-Security-Policy",
                          "sandbox; default-src 'none'; style-src "
                          "'unsafe-inline'; img-src data:");
        http_reply_fd_take(r, TAKE_FD(d->fd), d->type);
    }
    call_free(c);
}

void artifacts_get(struct call *c)
{
    tracking_start_named(c, "name: say which artifact, as in ?name=model", artifact_run,
                         artifact_then);
}
