/* download.c - GET and DELETE /job_bundle: the archive of a job as a tgz
 *
 * Owns: downloads under way, and requests that wait for an archive to be complete.
 *
 * Worker threads make the tgz piece by piece: the next piece when the client has taken the last.
 */
#include "archive/tgz.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/atlas_priv.h"
#include <stdio.h>

enum { PIECE = 256 << 10 };

/* ---- waiting for an archive ---- */

static void bundle_start(struct call *c);

/* Goes through the requests that wait for an archive; those of clients that left are dropped. */
void atlas_waiting_look(struct atlas *a)
{
    for (size_t i = 0; i < a->waiting.n;) {
        struct call *c = a->waiting.p[i];
        if (c->req && !a->closing && core_job_ending(a->conf.core, atlas_note(c)->job)) {
            i++;
            continue;
        }
        vec_remove(&a->waiting, i);
        if (!c->req)
            call_free(c);
        else
            bundle_start(c);
    }
}

/* ---- a tgz ---- */

struct download {
    struct atlas *a;
    struct http_req *req; /* NULL once the client left */
    struct tgz *tgz;
    char *piece;
    size_t n;
    struct err err;
    int rc;
    bool working, begun;
};

static void download_free(struct download *d)
{
    if (d->tgz)
        tgz_close(d->tgz);
    free(d->piece);
    free(d);
}

static void download_work(void *arg)
{
    struct download *d = arg;

    d->rc = tgz_fill(d->tgz, d->piece, PIECE, &d->n, &d->err);
}

static void download_done(void *arg);

/* Starts the next piece on a worker thread; one piece is under way at a time. */
static void download_fill(struct download *d)
{
    d->working = true;
    request_server_hold(d->a->conf.requests);
    work_submit(d->a->conf.loop, download_work, download_done, d);
}

/* Sends the piece.  The next one follows at once, or from download_on_drain when the client is
 * slow. */
static void download_done(void *arg)
{
    struct download *d = arg;

    d->working = false;
    request_server_release(d->a->conf.requests);
    if (!d->req) {
        download_free(d);
        return;
    }
    if (d->rc < 0 || !d->n) {
        struct http_req *r = TAKE(d->req);
        http_on_gone(r, NULL, NULL);
        http_on_drain(r, NULL, NULL);
        if (d->rc < 0 && !d->begun)
            http_reply_err(r, &d->err);
        else if (d->rc < 0)
            http_stream_abort(r); /* an archive cut short must not look like a whole one */
        else
            http_stream_end(r);
        download_free(d);
        return;
    }
    if (!d->begun) {
        d->begun = true;
        http_stream_begin(d->req, 200, "application/gzip");
    }
    struct http_req *r = d->req;
    if (d->req && !http_stream_write(r, (struct str){d->piece, d->n}))
        return; /* the connection is cut: download_on_gone follows */
    if (d->req && !http_stream_backlog(r))
        download_fill(d);
}

static void download_on_drain(void *arg, struct http_req *r)
{
    struct download *d = arg;

    (void)r;
    if (!d->working)
        download_fill(d);
}

/* A worker thread may still have the download; then download_done frees it. */
static void download_on_gone(void *arg, struct http_req *r)
{
    struct download *d = arg;

    (void)r;
    d->req = NULL;
    if (!d->working)
        download_free(d);
}

/* The tar has the id of the job as its top directory. */
static int bundle_work(struct call *c)
{
    struct tgz **out = c->data;
    char tree[ATLAS_TREE_MAX];

    if (!atlas_id_ok(c->arg[0].p))
        return err_set(&c->err, ERR_NOT_FOUND, "there is no job '%.60s'", c->arg[0].p);
    atlas_archive_tree(c->arg[0].p, tree);
    if (tgz_open_tree(call_atlas(c)->cas, tree, c->arg[0].p, NULL, out, &c->err) < 0) {
        if (c->err.code == ERR_NOT_FOUND)
            err_set(&c->err, ERR_NOT_FOUND, "job %.40s has no archive", c->arg[0].p);
        return -1;
    }
    return 0;
}

/* From here on the download owns the request and outlives the call. */
static void bundle_then(struct call *c)
{
    struct tgz *t = TAKE(*(struct tgz **)c->data);
    struct http_req *r = call_take_req(c);

    if (!r) {
        tgz_close(t);
    } else {
        struct download *d = xcalloc(1, sizeof(*d));
        char name[100];
        *d = (struct download){.a = call_atlas(c), .req = r, .tgz = t, .piece = xmalloc(PIECE)};
        snprintf(name, sizeof(name), "attachment; filename=\"%s.tgz\"", c->arg[0].p);
        http_reply_header(r, "Content-Disposition", name);
        http_on_gone(r, download_on_gone, d);
        http_on_drain(r, download_on_drain, d);
        download_fill(d);
    }
    call_free(c);
}

static void bundle_start(struct call *c)
{
    c->data = call_alloc(c, sizeof(struct tgz *));
    atlas_work(c, bundle_work, bundle_then);
}

/* An id without a job has no archive either; bundle_work says so. */
static int bundle_find(struct call *c)
{
    struct err unknown;

    atlas_resolve(call_atlas(c)->conf.store, c->arg[0].p, &atlas_note(c)->job, &unknown);
    return 0;
}

static void bundle_found(struct call *c)
{
    vec_push(&call_atlas(c)->waiting, c);
    atlas_waiting_look(call_atlas(c));
}

/* GET /job_bundle/JOB.  While the archive is being made, the request waits. */
void atlas_bundle_get(struct call *c)
{
    atlas_work(c, bundle_find, bundle_found);
}

/* ---- a bundle whose job was never submitted ---- */

static int drop_work(struct call *c)
{
    AUTO(atlas_job) struct atlas_job j = {0};
    char tree[ATLAS_TREE_MAX];

    if (atlas_job_find(c, c->arg[0], &j) == 0)
        return err_set(&c->err, ERR_CONFLICT, "job %.40s was submitted; delete the job instead",
                       c->arg[0].p);
    if (c->err.code != ERR_NOT_FOUND || !atlas_id_ok(c->arg[0].p))
        return -1;
    c->err = (struct err){0};
    atlas_bundle_tree(c->arg[0].p, tree);
    if (!cas_has_tree(call_atlas(c)->cas, tree))
        return err_set(&c->err, ERR_NOT_FOUND, "there is no bundle %.40s", c->arg[0].p);
    c->status = 204;
    return cas_drop_tree(call_atlas(c)->cas, tree, &c->err);
}

/* DELETE /job_bundle/JOB: clients take a bundle back when the submission failed. */
void atlas_bundle_delete(struct call *c)
{
    atlas_work(c, drop_work, NULL);
}
