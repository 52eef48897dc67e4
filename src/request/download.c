/* download.c - see download.h
 *
 * Owns: downloads under way.
 */
#include "request/download.h"
#include "archive/cas.h"
#include "archive/tgz.h"
#include "base/user_rights.h"
#include "base/util.h"
#include "io/loop.h"
#include "request/service.h"
#include <stdio.h>

enum { PIECE = 256 << 10 };

struct download {
    struct request_server *server;
    struct loop *loop;
    struct http_req *req; /* NULL once the client left */
    struct tgz *tgz;
    struct cas *cas; /* or NULL */
    uint32_t uid;    /* whose files are read */
    char *piece;
    size_t n;
    struct err err;
    int rc;
    bool working, begun;
};

static void download_free(struct download *d)
{
    tgz_close(d->tgz);
    cas_close(d->cas);
    free(d->piece);
    free(d);
}

static void download_work(void *arg)
{
    struct download *d = arg;

    d->rc = user_rights_enter(&(struct user_rights){d->uid, USER_NO_GROUP, NULL, 0}, &d->err);
    if (d->rc == 0)
        d->rc = tgz_fill(d->tgz, d->piece, PIECE, &d->n, &d->err);
    user_rights_leave();
}

static void download_done(void *arg);

/* Starts the next piece on a worker thread; one piece is under way at a time. */
static void download_fill(struct download *d)
{
    d->working = true;
    request_server_hold(d->server);
    work_submit(d->loop, download_work, download_done, d);
}

/* Sends the piece.  The next one follows at once, or from download_on_drain when the client is
 * slow. */
static void download_done(void *arg)
{
    struct download *d = arg;

    d->working = false;
    request_server_release(d->server);
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

void download_tgz(struct call *c, struct tgz *take, struct cas *cas, uint32_t uid, const char *name)
{
    struct request_server *server = c->server;
    struct http_req *r = call_take_req(c);

    if (!r) {
        tgz_close(take);
        cas_close(cas);
    } else {
        struct download *d = xcalloc(1, sizeof(*d));
        char text[100];
        *d = (struct download){.server = server,
                               .loop = request_server_loop(server),
                               .req = r,
                               .tgz = take,
                               .cas = cas,
                               .uid = uid,
                               .piece = xmalloc(PIECE)};
        snprintf(text, sizeof(text), "attachment; filename=\"%.60s.tgz\"", name);
        http_reply_header(r, "Content-Disposition", text);
        http_on_gone(r, download_on_gone, d);
        http_on_drain(r, download_on_drain, d);
        download_fill(d);
    }
    call_free(c);
}
