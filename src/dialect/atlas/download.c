/* download.c - bundles and files of archives going out
 *
 * Owns: downloads under way, and requests that wait for an archive to be complete.
 *
 * A tgz is made piece by piece on worker threads, the next one when the client has taken the last.
 */
#include "archive/tgz.h"
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/archive.h"
#include "dialect/atlas/atlas_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

enum { PIECE = 256 << 10 };

/* ---- waiting for an archive ---- */

static bool is_unarchived(struct atlas *a, struct str id)
{
    for (size_t i = 0; i < a->live.n; i++)
        if (!core_job_active(a->conf.core, a->live.p[i].job, NULL) &&
            !strcasecmp(a->live.p[i].id, id.p))
            return true;
    return false;
}

static void bundle_start(struct call *c);

void atlas_waiting_look(struct atlas *a)
{
    for (size_t i = 0; i < a->waiting.n;) {
        struct call *c = a->waiting.p[i];
        if (c->req && !a->closing && is_unarchived(a, c->arg[0])) {
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

static void download_fill(struct download *d)
{
    d->working = true;
    request_server_hold(d->a->conf.requests);
    work_submit(d->a->conf.loop, download_work, download_done, d);
}

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
        return; /* cut: `gone` follows */
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

static void download_on_gone(void *arg, struct http_req *r)
{
    struct download *d = arg;

    (void)r;
    d->req = NULL;
    if (!d->working)
        download_free(d);
}

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
    c->data = arena_alloc(&c->mem, sizeof(struct tgz *));
    atlas_work(c, bundle_work, bundle_then);
}

void atlas_bundle_get(struct call *c)
{
    if (is_unarchived(call_atlas(c), c->arg[0]) && !call_closing(c))
        vec_push(&call_atlas(c)->waiting, c);
    else
        bundle_start(c);
}

/* ---- a bundle that was sent for nothing ---- */

static int drop_work(struct call *c)
{
    struct atlas_job j;
    char tree[ATLAS_TREE_MAX];

    if (atlas_job_find(c, c->arg[0], &j) == 0) {
        atlas_job_done(&j);
        return err_set(&c->err, ERR_CONFLICT, "job %.40s was submitted; delete the job instead",
                       c->arg[0].p);
    }
    if (c->err.code != ERR_NOT_FOUND || !atlas_id_ok(c->arg[0].p))
        return -1;
    c->err = (struct err){0};
    atlas_bundle_tree(c->arg[0].p, tree);
    if (!cas_has_tree(call_atlas(c)->cas, tree))
        return err_set(&c->err, ERR_NOT_FOUND, "there is no bundle %.40s", c->arg[0].p);
    c->status = 204;
    return cas_drop_tree(call_atlas(c)->cas, tree, &c->err);
}

void atlas_bundle_delete(struct call *c)
{
    atlas_work(c, drop_work, NULL);
}

/* ---- files of archives ---- */

/* Of what a browser shows; it must not run what a job left behind as a page of ours. */
static const char *download_content_type(const char *path)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        {".png", "image/png"},
        {".jpg", "image/jpeg"},
        {".jpeg", "image/jpeg"},
        {".gif", "image/gif"},
        {".svg", "image/svg+xml"},
        {".wav", "audio/wav"},
        {".mp3", "audio/mpeg"},
        {".mp4", "video/mp4"},
        {".webm", "video/webm"},
        {".pdf", "application/pdf"},
        {".json", "application/json"},
        {".csv", "text/csv; charset=utf-8"},
        {".txt", "text/plain; charset=utf-8"},
        {".log", "text/plain; charset=utf-8"},
        {".html", "text/html; charset=utf-8"},
    };
    size_t n = strlen(path);

    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        size_t m = strlen(types[i].end);
        if (n > m && !strcasecmp(path + n - m, types[i].end))
            return types[i].type;
    }
    return "application/octet-stream";
}

struct served {
    int fd;
};

static void served_free(void *data)
{
    struct served *s = data;

    if (s->fd >= 0)
        close(s->fd);
}

/* Component by component, through no link: jobs write into their archives. */
static int open_below(int dir, struct str path)
{
    int fd = dup(dir);

    while (fd >= 0 && path.n > 0) {
        struct str part = str_cut(path, '/', &path);
        char name[256];
        if (!part.n || part.n >= sizeof(name) || part.p[0] == '.') {
            close(fd);
            errno = ENOENT;
            return -1;
        }
        snprintf(name, sizeof(name), STR_FMT, STR_ARG(part));
        int next = openat(
            fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (path.n ? O_DIRECTORY : 0));
        close(fd);
        fd = next;
    }
    return fd;
}

static int file_work(struct call *c)
{
    struct served *s = c->data;
    struct str id, path = c->arg[0];
    char name[ATLAS_ID_MAX];
    struct stat st;

    id = str_cut(path, '/', &path);
    if (id.n >= sizeof(name) || !path.n)
        return err_set(&c->err, ERR_NOT_FOUND, "there is no such file");
    snprintf(name, sizeof(name), STR_FMT, STR_ARG(id));
    AUTO_FREE char *root = xasprintf("%s/%s", call_atlas(c)->archive_dir, name);
    AUTO_FD dir = atlas_id_ok(name) ? open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    s->fd = dir >= 0 ? open_below(dir, path) : -1;
    if (s->fd < 0 || fstat(s->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(&c->err, ERR_NOT_FOUND, "there is no such file in the archive of job %.40s",
                       name);
    return 0;
}

static void file_then(struct call *c)
{
    struct served *s = c->data;
    struct http_req *r = call_take_req(c);

    if (r) {
        http_reply_header(r, "X-Content-Type-Options", "nosniff");
        http_reply_header(r, "Content-Security-Policy", "sandbox");
        http_reply_fd_take(r, TAKE_FD(s->fd), download_content_type(c->arg[0].p));
    }
    call_free(c);
}

void atlas_archive_file(struct call *c)
{
    struct served *s = arena_alloc(&c->mem, sizeof(*s));

    s->fd = -1;
    c->data = s;
    c->free_data = served_free;
    atlas_work(c, file_work, file_then);
}
