/* tracker.c - the routes below /api/v2beta: projects, tags, notes, descriptions, TensorBoard
 *
 * The listing itself is in listing.c.  What is changed here is asked of the controller, so it is in
 * the records of every dialect.
 */
#include "base/file.h"
#include "base/json_out.h"
#include "base/util.h"
#include "core/track.h"
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

/* The proxy of the original had the routes of tokens in two places. */
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

static bool tracker_on_project(void *arg, const struct project_view *v)
{
    struct call *c = arg;
    char at[40];

    atlas_time_text(v->created_ms, at);
    buf_adds(&c->out, c->out.n > 1 ? ",{\"name\":" : "{\"name\":");
    jw_str(&c->out, NULL, v->name);
    buf_addf(&c->out, ",\"created_at\":\"%s\",\"owner\":", at);
    jw_str(&c->out, NULL, v->owner);
    buf_addc(&c->out, '}');
    return true;
}

static int projects_work(struct call *c)
{
    buf_addc(&c->out, '[');
    if (store_project_list(call_atlas(c)->conf.store, tracker_on_project, c, &c->err) < 0)
        return -1;
    buf_adds(&c->out, "]\n");
    return 0;
}

static void tracker_projects(struct call *c)
{
    atlas_work(c, projects_work, NULL);
}

/* ---- description ---- */

static bool on_description(void *arg, const struct project_view *v)
{
    struct call *c = arg;

    buf_adds(&c->out, "{\"project_description\":");
    jw_str(&c->out, NULL, v->description.p ? v->description : STR(""));
    buf_adds(&c->out, "}\n");
    return false;
}

static int description_work(struct call *c)
{
    if (store_project(call_atlas(c)->conf.store, c->arg[0], on_description, c, &c->err) < 0 ||
        !c->out.n)
        return err_set(&c->err, ERR_NOT_FOUND, "there is no project '%.100s'", c->arg[0].p);
    return 0;
}

static void description_get(struct call *c)
{
    atlas_work(c, description_work, NULL);
}

/* A text member of the body, which lives as long as the call. */
static int body_text(struct call *c, const struct json *from, const char *key, bool needed,
                     struct str *out)
{
    const struct json *v = json_get(from, key);

    if (!v && !needed) {
        *out = STR("");
        return 0;
    }
    if (json_type(v) != JSON_STR)
        return err_set(&c->err, ERR_INVALID, "%s must be a text", key);
    *out = str_of(arena_strndup(&c->mem, json_str(v).p, json_str(v).n));
    return 0;
}

struct words {
    struct str a, b;
};

static int tracker_put_work(struct call *c)
{
    struct words *w = c->data;
    struct json *j = call_json_body(c);
    int rc = j ? body_text(c, j, "project_description", true, &w->a) : -1;

    json_free(j);
    return rc;
}

static void tracker_put_then(struct call *c)
{
    struct words *w = c->data;

    c->status = 200;
    buf_adds(&c->out, "{\"project_description\":");
    jw_str(&c->out, NULL, w->a);
    buf_adds(&c->out, "}\n");
    core_describe(call_atlas(c)->conf.core, c->arg[0], w->a, &c->who.caller, call_acted, c);
}

static void description_put(struct call *c)
{
    c->data = arena_alloc(&c->mem, sizeof(struct words));
    atlas_work(c, tracker_put_work, tracker_put_then);
}

/* ---- notes ---- */

struct note {
    char *json;
};
struct notes {
    VEC(struct note) all;
};

static bool on_note(void *arg, const struct note_view *v)
{
    struct notes *n = arg;
    AUTO(buf) struct buf b = {0};
    char at[40];

    buf_init(&b, ATLAS_BODY_MAX);
    atlas_time_text(v->at_ms, at);
    buf_addf(&b, "{\"date\":\"%s\",\"message\":", at);
    jw_str(&b, NULL, v->text);
    buf_adds(&b, ",\"author\":");
    jw_str(&b, NULL, v->author);
    buf_addc(&b, '}');
    vec_push(&n->all, ((struct note){buf_take(&b, NULL)}));
    return true;
}

static int notes_work(struct call *c)
{
    struct notes n = {0};
    int rc = store_notes(call_atlas(c)->conf.store, c->arg[0], 0, on_note, &n, &c->err);

    buf_addc(&c->out, '[');
    for (size_t i = n.all.n; i-- > 0;) { /* newest first */
        buf_adds(&c->out, n.all.p[i].json);
        buf_adds(&c->out, i ? "," : "");
        free(n.all.p[i].json);
    }
    buf_adds(&c->out, "]\n");
    vec_done(&n.all);
    return rc;
}

static void notes_get(struct call *c)
{
    atlas_work(c, notes_work, NULL);
}

static int note_work(struct call *c)
{
    struct words *w = c->data;
    struct json *j = call_json_body(c);
    int rc = j && body_text(c, j, "message", true, &w->a) == 0 &&
                     body_text(c, j, "author", false, &w->b) == 0
                 ? 0
                 : -1;

    json_free(j);
    if (rc == 0 && !w->a.n)
        return err_set(&c->err, ERR_INVALID, "message must not be empty");
    return rc;
}

static void tracker_note_then(struct call *c)
{
    struct words *w = c->data;

    c->status = 200;
    buf_adds(&c->out, "\"Note added\"\n");
    core_note(call_atlas(c)->conf.core, c->arg[0], 0, w->a, w->b, &c->who.caller, call_acted, c);
}

static void notes_post(struct call *c)
{
    c->data = arena_alloc(&c->mem, sizeof(struct words));
    atlas_work(c, note_work, tracker_note_then);
}

/* ---- one job of a project ---- */

/* Finds it and sees that it is of that project; atlas_note(c)->job. */
static int tracker_find_job(struct call *c, struct atlas_job *out)
{
    if (atlas_job_find(c, c->arg[1], out) < 0)
        return -1;
    if (strcmp(out->project, c->arg[0].p) != 0) {
        atlas_job_done(out);
        return err_set(&c->err, ERR_NOT_FOUND, "project '%.60s' has no job %.40s", c->arg[0].p,
                       c->arg[1].p);
    }
    atlas_note(c)->job = out->job;
    return 0;
}

static int tag_work(struct call *c)
{
    struct words *w = c->data;
    struct atlas_job j = {0};
    struct json *body = call_json_body(c);
    const struct json *tag = json_get(body, "tag");
    int rc = body && body_text(c, tag, "key", true, &w->a) == 0 &&
                     body_text(c, tag, "value", false, &w->b) == 0
                 ? 0
                 : -1;

    json_free(body);
    if (rc < 0 || tracker_find_job(c, &j) < 0)
        return -1;
    atlas_job_done(&j);
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

static void tag_set(struct call *c)
{
    c->data = arena_alloc(&c->mem, sizeof(struct words));
    atlas_work(c, tag_work, tracker_tag_then);
}

static int find_work(struct call *c)
{
    struct atlas_job j;

    if (tracker_find_job(c, &j) < 0)
        return -1;
    atlas_job_done(&j);
    return 0;
}

static void tracker_untag_then(struct call *c)
{
    c->status = 200;
    buf_adds(&c->out, "\"Tag successfully deleted\"\n");
    core_untag(call_atlas(c)->conf.core, atlas_note(c)->job, c->arg[2], &c->who.caller, call_acted,
               c);
}

static void tag_remove(struct call *c)
{
    atlas_work(c, find_work, tracker_untag_then);
}

static int log_work(struct call *c)
{
    struct atlas_job j;
    size_t n;

    if (tracker_find_job(c, &j) < 0)
        return -1;
    AUTO_FREE char *log = atlas_job_log(c, &j, &n);
    buf_adds(&c->out, "{\"log\":");
    if (j.state == ATLAS_QUEUED)
        buf_adds(&c->out, "null");
    else
        jw_str(&c->out, NULL, (struct str){log, n});
    buf_adds(&c->out, "}\n");
    atlas_job_done(&j);
    return 0;
}

static void job_log(struct call *c)
{
    atlas_work(c, log_work, NULL);
}

static void say_deleted(struct call *c)
{
    c->type = "text/plain; charset=utf-8";
    buf_addf(&c->out, "Job %s successfully deleted\n", c->arg[1].p);
    call_reply(c);
}

/* As DELETE /completed_jobs, for a job of this project; any that does not run. */
static int over_work(struct call *c)
{
    struct atlas_job j;

    if (tracker_find_job(c, &j) < 0)
        return -1;
    enum atlas_state state = j.state;
    atlas_job_done(&j);
    if (state < ATLAS_COMPLETED)
        return err_set(&c->err, ERR_CONFLICT, "job %.40s is %s and cannot be deleted", c->arg[1].p,
                       atlas_state_names[state]);
    return 0;
}

static void tracker_delete_then(struct call *c)
{
    atlas_remove(c, c->arg[1].p, say_deleted);
}

static void job_delete(struct call *c)
{
    atlas_work(c, over_work, tracker_delete_then);
}

/* ---- TensorBoard ---- */

/* One link per job, named by the first eight characters of its id. */
static int link_job(struct call *c, struct str id)
{
    AUTO_FREE char *name = xstrndup(id.p, id.n);

    if (!atlas_id_ok(name))
        return err_set(&c->err, ERR_INVALID, "'%.60s' is no job id", name);
    AUTO_FREE char *from =
        xasprintf("%s/%s/synced_directories/__tensorboard__", call_atlas(c)->archive_dir, name);
    AUTO_FREE char *to = xasprintf("%s/" ATLAS_DIR_TENSORBOARD "/%.8s%s", call_atlas(c)->conf.home,
                                   name, strlen(name) > ID_UUID_LEN ? name + ID_UUID_LEN : "");
    if (access(from, F_OK) < 0)
        return err_set(&c->err, ERR_NOT_FOUND, "job %s has no TensorBoard directory", name);
    if (symlink(from, to) < 0 && errno != EEXIST)
        return err_sys(&c->err, "cannot make %s", to);
    return 0;
}

static int tensorboard_work(struct call *c)
{
    struct json *body = call_json_body(c);
    const struct json *ids = json_get(body, "job_ids");
    int rc = body ? 0 : -1;

    if (body && (json_type(ids) != JSON_ARRAY || !json_len(ids)))
        rc = err_set(&c->err, ERR_INVALID, "job_ids must be a list of job ids");
    for (size_t i = 0; rc == 0 && i < json_len(ids); i++) {
        const struct json *id = json_at(ids, i);
        rc = link_job(c, json_type(id) == JSON_STR ? json_str(id) : STR(""));
    }
    json_free(body);
    if (rc < 0)
        return -1;
    if (!call_atlas(c)->conf.tensorboard_url)
        return err_set(&c->err, ERR_UNAVAILABLE, "TensorBoard was switched off with -t");
    buf_adds(&c->out, "{\"url\":");
    jw_str(&c->out, NULL, str_of(call_atlas(c)->conf.tensorboard_url));
    buf_adds(&c->out, "}\n");
    return 0;
}

static void tensorboard(struct call *c)
{
    atlas_work(c, tensorboard_work, NULL);
}
