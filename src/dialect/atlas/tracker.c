/* tracker.c - the routes below /api/v2beta: projects, tags, notes, descriptions, TensorBoard
 *
 * The listing of jobs itself is in listing.c.  The controller makes every change, so projects, tags
 * and notes are the same for Atlas, for the API and for every other dialect.
 */
#include "base/file.h"
#include "base/json_out.h"
#include "base/util.h"
#include "core/track.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/atlas_priv.h"
#include "store/track.h"
#include <errno.h>
#include <stdio.h>

#define V2 "/api/v2beta"
#define PROJECT V2 "/projects/{project}"
#define LISTING PROJECT "/job_listing"

static void tracker_projects(struct call *c);
static void description_get(struct call *c);
static void description_put(struct call *c);
static void notes_get(struct call *c);
static void notes_post(struct call *c);
static void tag_set(struct call *c);
static void tag_remove(struct call *c);
static void job_log(struct call *c);
static void job_delete(struct call *c);
static void tensorboard(struct call *c);

/* The proxy of the original server had the routes of tokens in two places; clients use both. */
const struct route atlas_tracker_routes[] = {
    {"GET", V2 "/auth/cli_login", atlas_auth_login, AUTH_PUBLIC},
    {"GET", V2 "/auth/login", atlas_auth_login, AUTH_PUBLIC},
    {"GET", V2 "/auth/logout", atlas_auth_logout, AUTH_PUBLIC},
    {"GET", V2 "/auth/verify", atlas_auth_verify, AUTH_PUBLIC},
    {"GET", "/auth/cli_login", atlas_auth_login, AUTH_PUBLIC},
    {"GET", "/auth/login", atlas_auth_login, AUTH_PUBLIC},
    {"GET", "/auth/logout", atlas_auth_logout, AUTH_PUBLIC},
    {"GET", "/auth/verify", atlas_auth_verify, AUTH_PUBLIC},
    {"GET", V2 "/projects", tracker_projects, AUTH_READ},
    {"GET", LISTING, atlas_listing, AUTH_READ},
    {"GET", LISTING "/{job}/logs", job_log, AUTH_READ},
    {"POST", LISTING "/{job}/tags", tag_set, AUTH_WRITE},
    {"GET", LISTING "/{column}/{way}", atlas_listing, AUTH_READ},
    {"DELETE", LISTING "/{job}", job_delete, AUTH_WRITE},
    {"DELETE", LISTING "/{job}/tags/{tag}", tag_remove, AUTH_WRITE},
    {"GET", PROJECT "/description", description_get, AUTH_READ},
    {"PUT", PROJECT "/description", description_put, AUTH_WRITE},
    {"GET", PROJECT "/note_listing", notes_get, AUTH_READ},
    {"POST", PROJECT "/note_listing", notes_post, AUTH_WRITE},
    {"GET", PROJECT "/overview_metrics", atlas_overview, AUTH_READ},
    {"POST", V2 "/upload_to_tensorboard", tensorboard, AUTH_WRITE},
};
const size_t atlas_tracker_n_routes = ARRAY_SIZE(atlas_tracker_routes);

/* ---- projects ---- */

/* One project of the answer. */
static bool tracker_on_project(void *arg, const struct project_view *v)
{
    struct buf *b = arg;

    jw_object(b, NULL);
    jw_str(b, "name", v->name);
    atlas_add_time(b, "created_at", v->created_ms);
    jw_str(b, "owner", v->owner);
    jw_end_object(b);
    return true;
}

static int projects_work(struct call *c)
{
    jw_array(&c->out, NULL);
    int rc = store_project_list(call_atlas(c)->conf.store, tracker_on_project, &c->out, &c->err);
    jw_end_array(&c->out);
    buf_addc(&c->out, '\n');
    return rc;
}

/* GET /api/v2beta/projects. */
static void tracker_projects(struct call *c)
{
    atlas_work(c, projects_work, NULL);
}

/* ---- description ---- */

/* {"KEY": "text"}: what several routes answer. */
static void add_text_object(struct call *c, const char *key, struct str text)
{
    jw_object(&c->out, NULL);
    jw_str(&c->out, key, text);
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
}

static bool on_description(void *arg, const struct project_view *v)
{
    add_text_object(arg, "project_description", v->description);
    return false;
}

/* Worker thread.  c->out stays empty when the callback was not called. */
static int description_work(struct call *c)
{
    if (store_project(call_atlas(c)->conf.store, c->arg[0], on_description, c, &c->err) < 0 &&
        c->err.code != ERR_NOT_FOUND)
        return -1;
    if (!c->out.n)
        return err_set(&c->err, ERR_NOT_FOUND, "there is no project '%.100s'", c->arg[0].p);
    return 0;
}

/* GET …/projects/PROJECT/description. */
static void description_get(struct call *c)
{
    atlas_work(c, description_work, NULL);
}

/* A text member of the body; the copy lives as long as the call. */
static int tracker_body_text(struct call *c, const struct json *from, const char *key, bool needed,
                             struct str *out)
{
    const struct json *v = json_get(from, key);

    if (json_type(v) != JSON_STR && (v || needed))
        return err_set(&c->err, ERR_INVALID, "%s must be a string", key);
    *out = v ? str_of(call_copy(c, json_str(v)).p) : STR("");
    return 0;
}

/* The one or two texts of a body that changes something. */
struct words {
    struct str a, b;
};

/* Reads the body on a worker thread with `work`, then changes something with `then`. */
static void words_start(struct call *c, call_work_fn work, call_fn then)
{
    c->data = call_alloc(c, sizeof(struct words));
    atlas_work(c, work, then);
}

static int tracker_put_work(struct call *c)
{
    struct words *w = c->data;
    AUTO(json) struct json *j = call_json_body(c);

    return j ? tracker_body_text(c, j, "project_description", true, &w->a) : -1;
}

/* The answer is ready; call_acted sends it once the controller has committed the change. */
static void tracker_put_then(struct call *c)
{
    struct words *w = c->data;

    c->status = 200;
    add_text_object(c, "project_description", w->a);
    core_describe(call_atlas(c)->conf.core, c->arg[0], w->a, &c->who.caller, call_acted, c);
}

/* PUT …/projects/PROJECT/description: {"project_description": text}. */
static void description_put(struct call *c)
{
    words_start(c, tracker_put_work, tracker_put_then);
}

/* ---- notes ---- */

typedef VEC(char *) note_texts;

static bool on_note(void *arg, const struct note_view *v)
{
    note_texts *all = arg;
    AUTO(buf) struct buf b = {0};

    buf_init(&b, ATLAS_BODY_MAX);
    jw_object(&b, NULL);
    atlas_add_time(&b, "date", v->at_ms);
    jw_str(&b, "message", v->text);
    jw_str(&b, "author", v->author);
    jw_end_object(&b);
    vec_push(all, buf_take(&b, NULL));
    return true;
}

/* The store gives the oldest note first; the answer lists the newest first. */
static int notes_work(struct call *c)
{
    note_texts all = {0};
    int rc = store_notes(call_atlas(c)->conf.store, c->arg[0], 0, on_note, &all, &c->err);

    jw_array(&c->out, NULL);
    for (size_t i = all.n; i-- > 0;) {
        jw_raw(&c->out, NULL, str_of(all.p[i]));
        free(all.p[i]);
    }
    jw_end_array(&c->out);
    buf_addc(&c->out, '\n');
    vec_done(&all);
    return rc;
}

/* GET …/projects/PROJECT/note_listing. */
static void notes_get(struct call *c)
{
    atlas_work(c, notes_work, NULL);
}

/* Worker thread: message and author.  Without an author the controller takes the name of the
 * caller. */
static int note_work(struct call *c)
{
    struct words *w = c->data;
    AUTO(json) struct json *j = call_json_body(c);

    if (!j || tracker_body_text(c, j, "message", true, &w->a) < 0 ||
        tracker_body_text(c, j, "author", false, &w->b) < 0)
        return -1;
    return w->a.n ? 0 : err_set(&c->err, ERR_INVALID, "message must not be empty");
}

static void tracker_note_then(struct call *c)
{
    struct words *w = c->data;

    c->status = 200;
    buf_adds(&c->out, "\"Note added\"\n");
    core_note(call_atlas(c)->conf.core, c->arg[0], 0, w->a, w->b, &c->who.caller, call_acted, c);
}

/* POST …/projects/PROJECT/note_listing: {"message": text, "author": name}. */
static void notes_post(struct call *c)
{
    words_start(c, note_work, tracker_note_then);
}

/* ---- one job of a project ---- */

/* Finds the job of the path, checks that it is of the project of the path, and puts its number into
 * atlas_note(c)->job. */
static int tracker_find_job(struct call *c, struct atlas_job *out)
{
    if (atlas_job_find(c, c->arg[1], out) < 0)
        return -1;
    if (strcmp(out->project, c->arg[0].p) != 0)
        return err_set(&c->err, ERR_NOT_FOUND, "project '%.60s' has no job %.40s", c->arg[0].p,
                       c->arg[1].p);
    atlas_note(c)->job = out->job;
    return 0;
}

static int find_work(struct call *c)
{
    AUTO(atlas_job) struct atlas_job j = {0};

    return tracker_find_job(c, &j);
}

/* Worker thread: key and value of the tag, and the number of the job. */
static int tag_work(struct call *c)
{
    struct words *w = c->data;
    AUTO(json) struct json *body = call_json_body(c);
    const struct json *tag = json_get(body, "tag");

    if (!body || tracker_body_text(c, tag, "key", true, &w->a) < 0 ||
        tracker_body_text(c, tag, "value", false, &w->b) < 0 || find_work(c) < 0)
        return -1;
    return w->a.n ? 0 : err_set(&c->err, ERR_INVALID, "tag.key must not be empty");
}

static void tracker_tag_then(struct call *c)
{
    struct words *w = c->data;

    c->status = 200;
    buf_adds(&c->out, "\"Tag successfully set\"\n");
    core_tag(call_atlas(c)->conf.core, atlas_note(c)->job, w->a, w->b, &c->who.caller, call_acted,
             c);
}

/* POST …/job_listing/JOB/tags: {"tag": {"key": name, "value": text}}. */
static void tag_set(struct call *c)
{
    words_start(c, tag_work, tracker_tag_then);
}

static void tracker_untag_then(struct call *c)
{
    c->status = 200;
    buf_adds(&c->out, "\"Tag successfully deleted\"\n");
    core_untag(call_atlas(c)->conf.core, atlas_note(c)->job, c->arg[2], &c->who.caller, call_acted,
               c);
}

/* DELETE …/job_listing/JOB/tags/TAG. */
static void tag_remove(struct call *c)
{
    atlas_work(c, find_work, tracker_untag_then);
}

static int log_work(struct call *c)
{
    AUTO(atlas_job) struct atlas_job j = {0};

    if (tracker_find_job(c, &j) < 0)
        return -1;
    jw_object(&c->out, NULL);
    atlas_add_log(c, "log", &j);
    jw_end_object(&c->out);
    buf_addc(&c->out, '\n');
    return 0;
}

/* GET …/job_listing/JOB/logs. */
static void job_log(struct call *c)
{
    atlas_work(c, log_work, NULL);
}

static void tracker_reply_deleted(struct call *c)
{
    c->type = "text/plain; charset=utf-8";
    buf_addf(&c->out, "Job %s successfully deleted\n", c->arg[1].p);
    call_reply(c);
}

/* The same as DELETE /completed_jobs, for a job of this project. */
static int over_work(struct call *c)
{
    AUTO(atlas_job) struct atlas_job j = {0};

    if (tracker_find_job(c, &j) < 0)
        return -1;
    if (j.state < ATLAS_COMPLETED)
        return err_set(&c->err, ERR_CONFLICT, "job %.40s is %s and cannot be deleted", c->arg[1].p,
                       atlas_state_names[j.state]);
    return 0;
}

static void tracker_delete_then(struct call *c)
{
    atlas_remove(c, c->arg[1].p, tracker_reply_deleted);
}

/* DELETE …/job_listing/JOB. */
static void job_delete(struct call *c)
{
    atlas_work(c, over_work, tracker_delete_then);
}

/* ---- TensorBoard ---- */

/* Makes one link per job below the directory that TensorBoard shows. */
static int link_job(struct call *c, struct str id)
{
    AUTO_FREE char *name = xstrndup(id.p, id.n);

    if (!atlas_id_ok(name))
        return err_set(&c->err, ERR_INVALID, "'%.60s' is not a job id", name);
    AUTO_FREE char *from =
        xasprintf("%s/%s/synced_directories/__tensorboard__", call_atlas(c)->archive_dir, name);
    AUTO_FREE char *to = atlas_board_link(call_atlas(c)->conf.home, name);
    if (access(from, F_OK) < 0)
        return err_set(&c->err, ERR_NOT_FOUND, "job %s has no TensorBoard directory", name);
    if (symlink(from, to) < 0 && errno != EEXIST)
        return err_sys(&c->err, "cannot create the link %s", to);
    return 0;
}

static int tensorboard_work(struct call *c)
{
    AUTO(json) struct json *body = call_json_body(c);
    const struct json *ids = json_get(body, "job_ids");

    if (!body)
        return -1;
    if (json_type(ids) != JSON_ARRAY || !json_len(ids))
        return err_set(&c->err, ERR_INVALID, "job_ids must be a list of job ids");
    for (size_t i = 0; i < json_len(ids); i++) {
        const struct json *id = json_at(ids, i);
        if (link_job(c, json_type(id) == JSON_STR ? json_str(id) : STR("")) < 0)
            return -1;
    }
    if (!call_atlas(c)->conf.tensorboard_url)
        return err_set(&c->err, ERR_UNAVAILABLE,
                       "this server was started with -t, without TensorBoard");
    add_text_object(c, "url", str_of(call_atlas(c)->conf.tensorboard_url));
    return 0;
}

/* POST …/upload_to_tensorboard: {"job_ids": [id, …]} is answered by the address of TensorBoard. */
static void tensorboard(struct call *c)
{
    atlas_work(c, tensorboard_work, NULL);
}
