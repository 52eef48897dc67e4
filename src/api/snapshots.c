/* snapshots.c - directories that clients send for their jobs (archive/snapshot.h)
 *
 * Owns: uploads of snapshots, and the way of a snapshot back to its owner.
 *
 * The body of POST /v1/snapshots is a bundle with the top directory "snapshot".  Each caller has a
 * store of their own, so nobody learns what another user has sent.
 */
#include "api/api_priv.h"
#include "archive/cas.h"
#include "archive/contents.h"
#include "archive/snapshot.h"
#include "archive/tgz.h"
#include "archive/unpack.h"
#include "base/json_out.h"
#include "base/rand.h"
#include "base/user_rights.h"
#include "request/download.h"
#include "request/upload.h"

static struct snapshot_owner owner_of(const struct call *c)
{
    return (struct snapshot_owner){c->who.caller.uid, c->who.caller.gid};
}

/* ---- POST /v1/snapshots/contents ---- */

/* Worker thread.  The client sends the hashes of its files; the answer lists those that the store
 * of the caller lacks, so that the upload may leave the others out. */
static int contents_run(struct call *c)
{
    AUTO(json) struct json *body = body_object(c);
    struct cas *cas;

    if (!body || snapshot_store_open(call_api(c)->conf.home, owner_of(c), &cas, &c->err) < 0)
        return -1;
    int rc = contents_answer(cas, body, &c->out, &c->err);
    cas_close(cas);
    return rc;
}

void snapshots_contents(struct call *c)
{
    call_keep_body(c);
    call_work(c, contents_run, NULL);
}

/* ---- POST /v1/snapshots ---- */

/* One upload.  Pieces come on worker threads, one at a time (request/upload.h).  `cas` and `unpack`
 * are NULL until the first piece. */
struct snapshot_upload {
    const char *home;
    struct snapshot_owner owner;
    char tree[32]; /* its name while it arrives */
    struct cas *cas;
    struct unpack *unpack;
    char id[SNAPSHOT_ID_MAX];
    struct cas_tally size;
};

/* Links out of the directory are kept as they are and never followed: those of a virtual
 * environment lead to its interpreter. */
static int snapshot_begin(struct snapshot_upload *u, struct err *e)
{
    const struct unpack_conf conf = {
        .top = SNAPSHOT_TOP,
        .outside_links = true,
        .contents = true,
        .limits = {.total_bytes = SNAPSHOT_BYTES_MAX, .members = SNAPSHOT_ENTRIES_MAX}};
    uint64_t number;

    random_bytes(&number, sizeof(number));
    snprintf(u->tree, sizeof(u->tree), "upload-%016llx", (unsigned long long)number);
    if (snapshot_store_open(u->home, u->owner, &u->cas, e) < 0)
        return -1;
    if (snapshot_as(u->owner, e) < 0) /* also the thread that unpacks */
        return -1;
    int rc = unpack_open_store(u->cas, u->tree, &conf, &u->unpack, e);
    snapshot_as_self();
    return rc;
}

/* The store is opened with the first piece: a request that is refused before leaves no tree behind.
 */
static int snapshot_feed(void *x, struct str bytes, struct err *e)
{
    struct snapshot_upload *u = x;

    if (!u->cas && snapshot_begin(u, e) < 0)
        return -1;
    if (snapshot_as(u->owner, e) < 0)
        return -1;
    int rc = unpack_feed(u->unpack, bytes.p, bytes.n, e);
    snapshot_as_self();
    return rc;
}

static void snapshot_drop(void *x)
{
    struct snapshot_upload *u = x;

    unpack_free(TAKE(u->unpack));
    cas_close(TAKE(u->cas));
}

/* The bundle is complete.  The tree gets the id of its content as its name; a directory that was
 * sent before thus has the same id and needs no second copy. */
static int snapshot_finish(void *x, struct err *e)
{
    struct snapshot_upload *u = x;

    if (!u->unpack)
        return err_set(e, ERR_INVALID, "the body is empty; send a gzip tar of the directory");
    if (snapshot_as(u->owner, e) < 0)
        return -1;
    int rc = unpack_finish(u->unpack, e);
    if (rc == 0)
        rc = snapshot_adopt(u->cas, u->tree, u->id, e);
    if (rc == 0)
        rc = cas_tree_size(u->cas, u->id, &u->size, e);
    snapshot_as_self();
    if (rc == 0)
        snapshot_drop(u);
    return rc;
}

static void snapshot_json(struct buf *b, const char *key, const char *id,
                          const struct cas_tally *size)
{
    jw_object(b, key);
    jw_text(b, "id", id);
    jw_int(b, "entries", size->entries);
    jw_int(b, "bytes", size->bytes);
    jw_end_object(b);
}

static void snapshot_answer(struct call *c, void *x)
{
    const struct snapshot_upload *u = x;

    c->status = 201;
    snapshot_json(&c->out, NULL, u->id, &u->size);
    call_reply(c);
}

void snapshots_begin(struct call *c)
{
    static const struct upload_ops ops = {snapshot_feed, snapshot_finish, snapshot_drop,
                                          snapshot_answer};
    struct snapshot_upload *u = call_alloc(c, sizeof(*u));

    u->home = call_api(c)->conf.home;
    u->owner = owner_of(c);
    upload_begin(c, &call_api(c)->uploads, &ops, u);
}

void snapshots_add(struct call *c)
{
    upload_end(c, "the body is empty; send a gzip tar of the directory");
}

/* ---- of a job ---- */

int snapshot_of_spec(struct call *c, uint32_t uid, const struct json *spec, struct buf *out)
{
    const struct json *id = json_get(spec, "snapshot");
    struct cas_tally size = {0};
    const struct snapshot_owner owner = {uid, USER_NO_GROUP};
    struct cas *cas;
    struct err gone;

    if (json_type(id) != JSON_STR)
        return jw_null(out, "snapshot"), 0;
    if (snapshot_store_open(call_api(c)->conf.home, owner, &cas, &c->err) < 0)
        return -1;
    if (snapshot_as(owner, &gone) == 0)
        cas_tree_size(cas, json_str(id).p, &size,
                      &gone); /* a size of 0: it is not there any more */
    snapshot_as_self();
    cas_close(cas);
    snapshot_json(out, "snapshot", json_str(id).p, &size);
    return 0;
}

/* Specs of one submission usually name one snapshot, so an id is compared with the one before. */
int snapshot_claim_all(struct call *c, const struct submission *s, atomic_int **out_claims)
{
    struct str last = STR("");
    struct cas *cas = NULL;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < s->n_specs; i++) {
        struct str id = s->specs[i].snapshot;
        if (!id.n || str_eq(id, last))
            continue;
        last = id;
        AUTO_FREE char *text = xstrndup(id.p, id.n);
        if (!*out_claims) {
            *out_claims = &call_api(c)->claims;
            atomic_fetch_add(*out_claims, 1);
        }
        if (!cas)
            rc = snapshot_store_open(call_api(c)->conf.home, owner_of(c), &cas, &c->err);
        if (rc == 0 && (rc = snapshot_as(owner_of(c), &c->err)) == 0)
            rc = snapshot_claim(cas, text, &c->err);
        snapshot_as_self();
    }
    cas_close(cas);
    return rc;
}

/* Opened by the worker thread; download_then hands both to the download, which closes them. */
struct snapshot_download {
    struct cas *cas;
    struct tgz *tgz;
    uint32_t uid; /* of the job's user, with whose rights it is read */
};

/* Who may see the job may have its files. */
static int download_run(struct call *c)
{
    struct snapshot_download *d = c->data;
    AUTO_FREE char *text = NULL;
    AUTO(json) struct json *spec = NULL;
    struct job_facts f;

    if (job_ref_arg(c, &f) < 0 ||
        store_job_spec(call_api(c)->conf.store, f.seq, &text, &c->err) < 0 ||
        json_parse(str_of(text), "spec", &spec, &c->err) < 0)
        return -1;
    const struct json *id = json_get(spec, "snapshot");
    if (json_type(id) != JSON_STR)
        return err_set(&c->err, ERR_NOT_FOUND,
                       "job %llu has no snapshot; submit jobs with --snapshot to keep their files",
                       (unsigned long long)f.seq);
    const struct snapshot_owner owner = {f.uid, USER_NO_GROUP};
    d->uid = geteuid() == 0 ? f.uid : geteuid();
    if (snapshot_store_open(call_api(c)->conf.home, owner, &d->cas, &c->err) < 0)
        return -1;
    int rc = snapshot_as(owner, &c->err);
    if (rc == 0)
        rc = tgz_open_tree(d->cas, json_str(id).p, SNAPSHOT_TOP, NULL, &d->tgz, &c->err);
    snapshot_as_self();
    if (rc == 0)
        return 0;
    cas_close(TAKE(d->cas));
    return -1;
}

static void download_then(struct call *c)
{
    struct snapshot_download *d = c->data;

    download_tgz(c, TAKE(d->tgz), TAKE(d->cas), d->uid, SNAPSHOT_TOP);
}

/* GET /v1/jobs/{job}/snapshot: the directory as the job got it. */
void snapshots_of_job(struct call *c)
{
    c->data = call_alloc(c, sizeof(struct snapshot_download));
    call_work(c, download_run, download_then);
}
