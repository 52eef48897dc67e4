/* upload.c - POST /job_bundle: a bundle goes into the store of contents as it arrives
 *
 * Owns: uploads under way.
 *
 * The loop collects pieces of the body; a worker thread takes what there is, finds the file in the
 * form and unpacks it; meanwhile the next pieces gather, and when they are too many the connection
 * is paused.  So an upload holds about a megabyte, however large it is, and a slow client holds no
 * thread.  What is refused is read to its end, so that the client hears why.
 */
#include "archive/unpack.h"
#include "base/log.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/atlas_priv.h"
#include "dialect/atlas/multipart.h"

enum { ENOUGH = 1 << 20, GATHER_MAX = 64 << 20 };

struct upload {
    struct call *c;
    struct http_peer peer;
    struct multipart form;
    struct buf gathered, at_work;
    char id[ID_UUID_MAX];
    struct unpack *unpack;
    struct err err; /* why it is refused; what follows is thrown away */
    bool refused, paused, complete, working, finished, slot;
    size_t files;
};

static void atlas_upload_free(void *data)
{
    struct upload *u = data;

    if (u->unpack)
        unpack_free(u->unpack);
    buf_done(&u->gathered);
    buf_done(&u->at_work);
}

static void next_upload(struct atlas *a);

/* Gives its place to the next one; the call must be ended at once. */
static void upload_leave(struct upload *u)
{
    struct atlas *a = call_atlas(u->c);

    for (size_t i = 0; i < a->queued_uploads.n; i++)
        if (a->queued_uploads.p[i] == u) {
            vec_remove(&a->queued_uploads, i);
            break;
        }
    if (u->slot) {
        u->slot = false;
        a->uploads--;
        next_upload(a);
    }
}

/* ---- the form: worker thread ---- */

/* Checks the name of the file before any byte of the bundle is unpacked. */
static int on_part(void *arg, const char *name, const char *file, struct err *e)
{
    struct upload *u = arg;
    size_t n = strlen(file);
    char tree[ATLAS_TREE_MAX];
    uint64_t job;
    struct err gone;

    if (strcmp(name, "job_bundle") != 0)
        return err_set(e, ERR_INVALID, "the form field must be job_bundle, not '%.60s'", name);
    if (u->files++)
        return err_set(e, ERR_INVALID,
                       "a request carries one bundle; send a second bundle with another request");
    if (n != ID_UUID_LEN + 4 || strcmp(file + ID_UUID_LEN, ".tgz") != 0)
        return err_set(e, ERR_INVALID, "the file must be named <job id>.tgz, not '%.60s'", file);
    memcpy(u->id, file, ID_UUID_LEN);
    u->id[ID_UUID_LEN] = 0;
    if (!atlas_id_ok(u->id))
        return err_set(e, ERR_INVALID, "'%.40s' is not a job id: a job id is a UUID", u->id);
    if (store_resolve(call_atlas(u->c)->conf.store, str_of(u->id), &job, &gone) == 0)
        return err_set(e, ERR_INVALID, "job %s exists already; choose another id", u->id);
    atlas_bundle_tree(u->id, tree);
    /* A virtual environment links to its interpreter; nothing is written through such a link. */
    const struct unpack_conf conf = {.top = u->id, .outside_links = true, .contents = true};
    return unpack_open_store(call_atlas(u->c)->cas, tree, &conf, &u->unpack, e);
}

static int on_data(void *arg, struct str bytes, struct err *e)
{
    return unpack_feed(((struct upload *)arg)->unpack, bytes.p, bytes.n, e);
}

/* The bundle is in the store only when unpack_finish has succeeded. */
static int on_part_end(void *arg, struct err *e)
{
    struct upload *u = arg;

    if (unpack_finish(u->unpack, e) < 0)
        return -1;
    u->finished = true;
    return 0;
}

/* The same question that the server asks for every other call before its handler runs. */
static int upload_check_owner(struct upload *u)
{
    struct who *w = &u->c->who;

    if (!w->ask_owner || w->owner_known)
        return 0;
    w->owner_known = auth_peer_owner(&u->peer, &w->owner);
    return auth_owner_allows(request_server_auth(call_atlas(u->c)->conf.requests), w, &u->err);
}

/* After a refusal the bytes are dropped, but the body is read to its end. */
static int atlas_upload_work(struct call *c)
{
    struct upload *u = c->data;
    const struct multipart_events ev = {on_part, on_data, on_part_end, u};

    if (!u->refused && (upload_check_owner(u) < 0 ||
                        multipart_feed(&u->form, buf_str(&u->at_work), &ev, &u->err) < 0))
        u->refused = true;
    if (u->refused && u->unpack) {
        unpack_free(u->unpack);
        u->unpack = NULL;
    }
    buf_reset(&u->at_work);
    return 0;
}

/* ---- pieces: loop thread ---- */

/* A body that ended too early must not look like a whole bundle. */
static void upload_answer(struct upload *u)
{
    struct call *c = u->c;

    if (!u->refused && !u->files)
        err_set(&u->err, ERR_INVALID, "there is no file in the request; send it as job_bundle");
    else if (!u->refused && (!u->finished || !multipart_complete(&u->form)))
        err_set(&u->err, ERR_INVALID, "the request ended in the middle of the bundle");
    upload_leave(u);
    if (u->err.code) {
        call_fail(c, &u->err);
    } else {
        buf_adds(&c->out, "\"Job bundle uploaded\"\n");
        call_reply(c);
    }
}

static void upload_go_on(struct upload *u);

/* The client may have left while the worker thread had the upload. */
static void upload_worked(struct call *c)
{
    struct upload *u = c->data;

    u->working = false;
    if (c->req) {
        upload_go_on(u);
    } else {
        upload_leave(u);
        call_free(c);
    }
}

/* Hands the gathered bytes to a worker thread; at most one is under way for each upload. */
static void upload_go_on(struct upload *u)
{
    if (u->working || !u->slot)
        return;
    if (u->gathered.n) {
        struct buf t = u->at_work;
        u->at_work = u->gathered;
        u->gathered = t;
        u->working = true;
        call_work(u->c, atlas_upload_work, upload_worked);
    } else if (u->complete) {
        upload_answer(u);
        return;
    }
    if (u->paused && !u->complete) {
        u->paused = false;
        http_body_pause(u->c->req, false);
    }
}

/* At most ATLAS_UPLOADS_MAX bundles are unpacked at once. */
static void next_upload(struct atlas *a)
{
    while (a->uploads < ATLAS_UPLOADS_MAX && a->queued_uploads.n) {
        struct upload *u = a->queued_uploads.p[0];
        vec_remove(&a->queued_uploads, 0);
        a->uploads++;
        u->slot = true;
        upload_go_on(u);
    }
}

/* A worker thread that still has the upload ends it in upload_worked. */
static void upload_gone(struct call *c)
{
    struct upload *u = c->data;

    if (u->working)
        return;
    upload_leave(u);
    call_free(c);
}

/* A refused caller's body is still read, so that the client gets the answer. */
void atlas_upload_begin(struct call *c)
{
    struct upload *u = call_alloc(c, sizeof(*u));

    u->c = c;
    u->peer = *http_peer(c->req);
    buf_init(&u->gathered, GATHER_MAX);
    buf_init(&u->at_work, GATHER_MAX);
    c->data = u;
    c->free_data = atlas_upload_free;
    c->gone = upload_gone;
    u->err = c->err;
    c->err = (struct err){0}; /* the call goes on until the body is read */
    u->refused =
        u->err.code || multipart_init(&u->form, http_header(c->req, "content-type"), &u->err) < 0;
    vec_push(&call_atlas(c)->queued_uploads, u);
    next_upload(call_atlas(c));
}

/* Pauses the connection while more than ENOUGH bytes wait for a worker thread. */
void atlas_upload_piece(struct call *c, struct str bytes)
{
    struct upload *u = c->data;

    if (!buf_add(&u->gathered, bytes.p, bytes.n) && !u->refused)
        u->refused = err_set(&u->err, ERR_INTERNAL,
                             "the upload arrived faster than the server could unpack it");
    if (u->gathered.n >= ENOUGH && !u->paused) {
        u->paused = true;
        http_body_pause(c->req, true);
    }
    upload_go_on(u);
}

void atlas_upload_end(struct call *c)
{
    struct upload *u = c->data;

    if (!u) { /* without a body there were no pieces */
        err_set(&c->err, ERR_INVALID, "there is no file in the request; send it as job_bundle");
        call_fail(c, &c->err);
        return;
    }
    u->complete = true;
    upload_go_on(u);
}
