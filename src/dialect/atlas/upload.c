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
    struct atlas *a;
    struct http_req *req; /* NULL once the client left */
    struct http_peer peer;
    bool check_peer;
    struct multipart form;
    struct buf gathered, at_work;
    char id[ID_UUID_MAX];
    struct unpack *unpack;
    struct err err; /* why it is refused; what follows is thrown away */
    bool refused, paused, complete, working, finished, slot;
    size_t files;
};

static void upload_free(struct upload *u)
{
    if (u->unpack)
        unpack_free(u->unpack);
    buf_done(&u->gathered);
    buf_done(&u->at_work);
    free(u);
}

static void next_upload(struct atlas *a);

/* Nobody needs it any more, or it was answered. */
static void upload_end(struct upload *u)
{
    struct atlas *a = u->a;
    bool slot = u->slot;

    for (size_t i = 0; i < a->queued_uploads.n; i++)
        if (a->queued_uploads.p[i] == u) {
            vec_remove(&a->queued_uploads, i);
            break;
        }
    upload_free(u);
    if (slot) {
        a->uploads--;
        next_upload(a);
    }
}

/* ---- the form: worker thread ---- */

static int on_part(void *arg, const char *name, const char *file, struct err *e)
{
    struct upload *u = arg;
    size_t n = strlen(file);
    char tree[ATLAS_TREE_MAX];
    uint64_t job;
    struct err gone;

    if (strcmp(name, "job_bundle") != 0)
        return err_set(e, ERR_INVALID, "the field of a bundle is job_bundle, not '%.60s'", name);
    if (u->files++)
        return err_set(e, ERR_INVALID, "one bundle at a time, please");
    if (n != ID_UUID_LEN + 4 || strcmp(file + ID_UUID_LEN, ".tgz") != 0)
        return err_set(e, ERR_INVALID, "the file of a bundle is called <job id>.tgz, not '%.60s'",
                       file);
    memcpy(u->id, file, ID_UUID_LEN);
    u->id[ID_UUID_LEN] = 0;
    if (!atlas_id_ok(u->id))
        return err_set(e, ERR_INVALID, "'%.40s' is no job id; it must be a UUID", u->id);
    if (store_resolve(u->a->conf.store, str_of(u->id), &job, &gone) == 0)
        return err_set(e, ERR_INVALID, "there is a job %s already; choose another id", u->id);
    atlas_bundle_tree(u->id, tree);
    /* A virtual environment links to its interpreter; nothing is written through such a link. */
    const struct unpack_conf conf = {.top = u->id, .outside_links = true, .contents = true};
    return unpack_open_store(u->a->cas, tree, &conf, &u->unpack, e);
}

static int on_data(void *arg, struct str bytes, struct err *e)
{
    return unpack_feed(((struct upload *)arg)->unpack, bytes.p, bytes.n, e);
}

static int on_part_end(void *arg, struct err *e)
{
    struct upload *u = arg;

    if (unpack_finish(u->unpack, e) < 0)
        return -1;
    u->finished = true;
    return 0;
}

static void upload_work(void *arg)
{
    struct upload *u = arg;
    const struct multipart_events ev = {on_part, on_data, on_part_end, u};

    if (!u->refused && u->check_peer && atlas_check_peer(u->a, &u->peer, &u->err) < 0)
        u->refused = true;
    u->check_peer = false;
    if (!u->refused && multipart_feed(&u->form, buf_str(&u->at_work), &ev, &u->err) < 0)
        u->refused = true;
    if (u->refused && u->unpack) {
        unpack_free(u->unpack);
        u->unpack = NULL;
    }
    buf_reset(&u->at_work);
}

/* ---- pieces: loop thread ---- */

static void answer(struct upload *u)
{
    struct http_req *r = TAKE(u->req);

    http_on_gone(r, NULL, NULL);
    if (!u->refused && !u->files)
        err_set(&u->err, ERR_INVALID, "there is no file in the request; send it as job_bundle");
    else if (!u->refused && (!u->finished || !multipart_complete(&u->form)))
        err_set(&u->err, ERR_INVALID, "the request ended in the middle of the bundle");
    if (u->err.code)
        http_reply_err(r, &u->err);
    else
        http_reply(r, 200, "application/json", STR("\"Job bundle uploaded\"\n"));
    upload_end(u);
}

static void go_on(struct upload *u);

static void upload_done(void *arg)
{
    struct upload *u = arg;

    u->a->working--;
    u->working = false;
    if (!u->req) {
        upload_end(u);
        return;
    }
    go_on(u);
}

static void go_on(struct upload *u)
{
    if (u->working || !u->slot)
        return;
    if (u->gathered.n) {
        struct buf t = u->at_work;
        u->at_work = u->gathered;
        u->gathered = t;
        u->working = true;
        u->a->working++;
        work_submit(u->a->conf.loop, upload_work, upload_done, u);
    } else if (u->complete) {
        answer(u);
        return;
    }
    if (u->paused && !u->complete) {
        u->paused = false;
        http_body_pause(u->req, false);
    }
}

static void next_upload(struct atlas *a)
{
    while (a->uploads < ATLAS_UPLOADS_MAX && a->queued_uploads.n) {
        struct upload *u = a->queued_uploads.p[0];
        vec_remove(&a->queued_uploads, 0);
        a->uploads++;
        u->slot = true;
        go_on(u);
    }
}

static void on_gone(void *arg, struct http_req *r)
{
    struct upload *u = arg;

    (void)r;
    u->req = NULL;
    if (!u->working)
        upload_end(u);
}

bool atlas_upload_begin(struct atlas *a, struct http_req *r)
{
    struct upload *u = xcalloc(1, sizeof(*u));
    struct atlas_call who = {.a = a};

    u->a = a;
    u->req = r;
    u->peer = *http_peer(r);
    buf_init(&u->gathered, GATHER_MAX);
    buf_init(&u->at_work, GATHER_MAX);
    if (a->closing)
        u->refused = err_set(&u->err, ERR_UNAVAILABLE, "the server is shutting down; try again");
    else if (atlas_identify(a, r, &who) < 0)
        u->refused = (u->err = who.err, true);
    else if (multipart_init(&u->form, http_header(r, "content-type"), &u->err) < 0)
        u->refused = true;
    u->check_peer = who.check_peer;
    http_set_data(r, u);
    http_on_gone(r, on_gone, u);
    vec_push(&a->queued_uploads, u);
    next_upload(a);
    return true;
}

void atlas_upload_piece(struct atlas *a, struct http_req *r, struct str bytes)
{
    struct upload *u = http_data(r);

    (void)a;
    if (!buf_add(&u->gathered, bytes.p, bytes.n) && !u->refused)
        u->refused = err_set(&u->err, ERR_INTERNAL, "the upload came faster than it could be read");
    if (u->gathered.n >= ENOUGH && !u->paused) {
        u->paused = true;
        http_body_pause(r, true);
    }
    go_on(u);
}

void atlas_upload_request(struct atlas *a, struct http_req *r)
{
    struct upload *u = http_data(r);
    struct err e = {0};

    (void)a;
    if (!u) { /* without a body there were no pieces */
        err_set(&e, ERR_INVALID, "there is no file in the request; send it as job_bundle");
        http_reply_err(r, &e);
        return;
    }
    u->complete = true;
    go_on(u);
}
