/* upload.c - POST /job_bundle: a bundle goes into the store of contents as it arrives
 *
 * The body is a form with one file, which is unpacked piece by piece (request/upload.h).
 */
#include "archive/unpack.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/atlas_priv.h"
#include "dialect/atlas/multipart.h"

static const char no_file[] = "there is no file in the request; send it as job_bundle";

/* One upload.  The functions of the form run on worker threads, one at a time.  `unpack` is NULL
 * until the file begins. */
struct bundle_upload {
    struct atlas *a;
    struct multipart form;
    char id[ID_UUID_MAX];
    struct unpack *unpack;
    bool finished;
    size_t files;
};

/* ---- the form: worker thread ---- */

/* Checks the name of the file before any byte of the bundle is unpacked. */
static int on_part(void *arg, const char *name, const char *file, struct err *e)
{
    struct bundle_upload *u = arg;
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
    if (store_resolve(u->a->conf.store, str_of(u->id), &job, &gone) == 0)
        return err_set(e, ERR_INVALID, "job %s exists already; choose another id", u->id);
    atlas_bundle_tree(u->id, tree);
    /* A virtual environment links to its interpreter; nothing is written through such a link. */
    const struct unpack_conf conf = {.top = u->id, .outside_links = true, .contents = true};
    return unpack_open_store(u->a->cas, tree, &conf, &u->unpack, e);
}

static int on_data(void *arg, struct str bytes, struct err *e)
{
    return unpack_feed(((struct bundle_upload *)arg)->unpack, bytes.p, bytes.n, e);
}

/* The bundle is in the store only when unpack_finish has succeeded. */
static int on_part_end(void *arg, struct err *e)
{
    struct bundle_upload *u = arg;

    if (unpack_finish(u->unpack, e) < 0)
        return -1;
    u->finished = true;
    return 0;
}

static int bundle_feed(void *x, struct str bytes, struct err *e)
{
    struct bundle_upload *u = x;
    const struct multipart_events ev = {on_part, on_data, on_part_end, u};

    return multipart_feed(&u->form, bytes, &ev, e);
}

static void bundle_drop(void *x)
{
    struct bundle_upload *u = x;

    unpack_free(TAKE(u->unpack));
}

/* A body that ended too early must not look like a whole bundle. */
static int bundle_finish(void *x, struct err *e)
{
    struct bundle_upload *u = x;

    if (!u->files)
        return err_set(e, ERR_INVALID, "%s", no_file);
    if (!u->finished || !multipart_complete(&u->form))
        return err_set(e, ERR_INVALID, "the request ended in the middle of the bundle");
    bundle_drop(u);
    return 0;
}

/* ---- the request: loop thread ---- */

static void bundle_answer(struct call *c, void *x)
{
    (void)x;
    buf_adds(&c->out, "\"Job bundle uploaded\"\n");
    call_reply(c);
}

void atlas_upload_begin(struct call *c)
{
    static const struct upload_ops ops = {bundle_feed, bundle_finish, bundle_drop, bundle_answer};
    struct bundle_upload *u = call_alloc(c, sizeof(*u));

    u->a = call_atlas(c);
    if (!c->err.code)
        multipart_init(&u->form, http_header(c->req, "content-type"), &c->err);
    upload_begin(c, &u->a->uploads, &ops, u);
}

void atlas_upload_end(struct call *c)
{
    upload_end(c, no_file);
}
