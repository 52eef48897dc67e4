/* assets.c - files a run needs, on their way to its host
 *
 * Owns: the one upload under way on a connection.  A worker lists what is to be sent and reads the
 * files, piece by piece; the loop puts the pieces into frames while the pipe has room, so orders
 * for other runs pass in between.  START follows the last piece.
 *
 * "from:to": a file, or a directory with all that is in it: empty directories, links as links,
 * permissions.  `from` itself may be a link.  Sockets, pipes and devices are left out.
 *
 * The worker has the rights of the job's user while it lists and reads, so nobody gets a file sent
 * that they could not read themselves.
 */
#include "backend/ssh/ssh_priv.h"
#include "base/file.h"
#include "base/user_rights.h"
#include "base/util.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

enum {
    READ_BYTES = 512 << 10,    /* by the worker, at a time */
    OUT_HIGH = 1 << 20,        /* no more is put into the pipe while so much waits */
    ENTRIES_MAX = 1000 * 1000, /* somebody named / by mistake */
    DEPTH_MAX = 200,
};

/* One file, directory or link to be sent.  All texts belong to it. */
struct entry {
    const char *top; /* what the user named: one of upload.tops */
    char *below;     /* the path from there; "" = that itself */
    char *to;
    enum wire_asset_kind kind;
    mode_t mode;
    char *target; /* of a link */
};
/* The worker and the loop use it in turns: while `working` it belongs to the worker. */
struct upload {
    struct backend *b; /* NULL = aborted; freed when the worker is back */
    struct run_key key;
    char **assets;
    struct user_rights rights; /* of the job's user */
    uint32_t *groups;          /* of rights; NULL = not looked up yet */
    VEC(char *) tops;
    VEC(struct entry) entries;
    size_t at;      /* entry being sent */
    int fd;         /* of it */
    bool first;     /* its first piece is to come */
    bool listed;    /* the worker has made the list */
    bool working;   /* the worker has it now */
    bool file_done; /* the worker met the end of the file */
    char *piece;
    size_t piece_n;
    struct err e;
};

/* ---- names ---- */

/* "a/b" or "a/b:c"; the last colon divides, since a name may have one. */
static void asset_split(const char *asset, char **from, char **to)
{
    const char *colon = strrchr(asset, ':');

    if (!colon) {
        size_t n = strlen(asset);
        while (n > 1 && asset[n - 1] == '/')
            n--;
        const char *slash = memrchr(asset, '/', n);
        *from = xstrdup(asset);
        *to = slash ? xstrndup(slash + 1, (size_t)(asset + n - slash - 1)) : xstrndup(asset, n);
        return;
    }
    *from = xstrndup(asset, (size_t)(colon - asset));
    *to = xstrdup(colon + 1);
}

int assets_check(char *const *assets, struct err *e)
{
    for (; assets && *assets; assets++) {
        AUTO_FREE char *from = NULL, *to = NULL;
        asset_split(*assets, &from, &to);
        if (!from[0])
            return err_set(e, ERR_INVALID, "asset '%.120s' names no file", *assets);
        if (!wire_name_ok(str_of(to)))
            return err_set(e, ERR_INVALID,
                           "asset %.100s cannot go to '%.60s': it must stay below the directory of "
                           "the run",
                           from, to);
    }
    return 0;
}

/* ---- the worker: listing ---- */

/* A failure names the file as the user would. */
static int asset_failed(struct upload *u, const char *top, const char *below)
{
    return err_sys(&u->e, "asset %s%s%s cannot be read", top, *below ? "/" : "", below);
}

/* Links are followed on the way to what the user named, and not below it. */
static int asset_open(const char *top, const char *below, int flags)
{
    if (!*below)
        return user_open(top, flags, NULL);
    AUTO_FD dir = user_open(top, O_PATH | O_DIRECTORY, NULL);
    return dir < 0 ? -1 : user_open_beneath(dir, below, flags, NULL);
}

static int add_path(struct upload *u, int dir, const char *name, struct entry *x, int depth);

/* `of` is the entry of the directory. */
static int add_dir(struct upload *u, const struct entry *of, int depth)
{
    int fd = asset_open(of->top, of->below, O_RDONLY | O_DIRECTORY);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *ent;
    int rc = 0;

    if (!d)
        return asset_failed(u, of->top, of->below);
    while (rc == 0 && (ent = readdir(d))) {
        if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, ".."))
            continue;
        struct entry x = {.top = of->top,
                          .below = path_join(of->below, ent->d_name),
                          .to = strcmp(of->to, ".") ? path_join(of->to, ent->d_name)
                                                    : xstrdup(ent->d_name)};
        rc = add_path(u, fd, ent->d_name, &x, depth + 1);
        FREE_EACH(x.below, x.to);
    }
    closedir(d);
    return rc;
}

/* Takes the texts of `x` when it is to be sent.  `name` is in the directory `dir`; "" = `dir` is it
 * itself. */
static int add_path(struct upload *u, int dir, const char *name, struct entry *x, int depth)
{
    struct stat st;
    char target[PATH_MAX];

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
        return asset_failed(u, x->top, x->below);
    if (depth > DEPTH_MAX || u->entries.n >= ENTRIES_MAX)
        return err_set(&u->e, ERR_LIMIT, "asset %s has more than %d files, or is nested too deeply",
                       x->top, ENTRIES_MAX);
    x->mode = st.st_mode & 0777;
    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
        if (n < 0)
            return asset_failed(u, x->top, x->below);
        x->kind = WIRE_LINK;
        x->target = xstrndup(target, (size_t)n);
    } else if (S_ISDIR(st.st_mode)) {
        x->kind = WIRE_DIR;
    } else if (S_ISREG(st.st_mode)) {
        x->kind = WIRE_FILE;
    } else {
        return 0;
    }
    struct entry sent = *x; /* the vector moves while more is added */
    vec_push(&u->entries, sent);
    x->below = x->to = x->target = NULL;
    return sent.kind == WIRE_DIR ? add_dir(u, &sent, depth) : 0;
}

/* On the worker.  The first failure ends the list and, later, the start of the run. */
static void upload_list(struct upload *u)
{
    for (char **a = u->assets; a && *a && !u->e.code; a++) {
        struct entry x = {.below = xstrdup("")};
        char *top;
        asset_split(*a, &top, &x.to);
        vec_push(&u->tops, top);
        x.top = top;
        AUTO_FD fd = asset_open(top, "", O_PATH);
        if (fd < 0)
            asset_failed(u, top, "");
        else
            add_path(u, fd, "", &x, 0);
        FREE_EACH(x.below, x.to);
    }
    u->listed = true;
}

/* ---- the worker: reading ---- */

/* On the worker.  A file is read until its end, whatever size it had when it was listed. */
static void upload_read_piece(struct upload *u)
{
    const struct entry *x = &u->entries.p[u->at];
    struct stat st;

    u->piece_n = 0;
    if (u->fd < 0) {
        u->fd = asset_open(x->top, x->below, O_RDONLY);
        if (u->fd < 0 || fstat(u->fd, &st) < 0) {
            asset_failed(u, x->top, x->below);
            return;
        }
        if (!S_ISREG(st.st_mode)) { /* it was one when it was listed */
            err_set(&u->e, ERR_INVALID, "asset %s is not a file any more", x->top);
            return;
        }
    }
    while (u->piece_n < READ_BYTES) {
        ssize_t n = read(u->fd, u->piece + u->piece_n, READ_BYTES - u->piece_n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            asset_failed(u, x->top, x->below);
        if (n <= 0) {
            u->file_done = true;
            return;
        }
        u->piece_n += (size_t)n;
    }
}

static void upload_work(void *arg)
{
    struct upload *u = arg;

    if (!u->groups && u->rights.uid != geteuid()) {
        u->rights.n_groups = user_groups(u->rights.uid, u->rights.gid, &u->groups);
        u->rights.groups = u->groups;
    }
    if (user_rights_enter(&u->rights, &u->e) < 0)
        u->listed = true;
    else if (!u->listed)
        upload_list(u);
    else
        upload_read_piece(u);
    user_rights_leave();
}

/* ---- the loop ---- */

static void asset_upload_free(struct upload *u)
{
    for (size_t i = 0; i < u->entries.n; i++)
        FREE_EACH(u->entries.p[i].below, u->entries.p[i].to, u->entries.p[i].target);
    vec_done(&u->entries);
    for (size_t i = 0; i < u->tops.n; i++)
        free(u->tops.p[i]);
    vec_done(&u->tops);
    free(u->groups);
    texts_free(u->assets);
    if (u->fd >= 0)
        close(u->fd);
    free(u->piece);
    free(u);
}

/* The frame always fits: a piece has at most WIRE_PIECE bytes, and a path is far shorter than a
 * frame. */
static void put_piece(struct upload *u, const struct entry *x, struct str bytes)
{
    struct wire_asset a = {
        .key = u->key, .kind = (uint16_t)x->kind, .mode = x->mode, .first = u->first};

    wire_put_asset(&u->b->link.out, &a, str_of(x->to), bytes);
    u->first = false;
}

static void next_entry(struct upload *u)
{
    u->at++;
    u->first = true;
    u->file_done = false;
    if (u->fd >= 0)
        close(TAKE_FD(u->fd));
}

/* All pieces are in link.out, or one could not be read.  Then the next run may have its turn. */
static void upload_finish(struct backend *b)
{
    struct upload *u = TAKE(b->upload);
    struct ssh_run *r = ssh_find(b, u->key);

    if (u->e.code)
        ssh_fail_start(b, u->key, u->e.text);
    else if (r)
        ssh_sent(b, r);
    asset_upload_free(u);
    ssh_start_next(b);
}

/* A file of more than one piece is read while the one before is on its way. */
static void upload_put_file(struct upload *u)
{
    const struct entry *x = &u->entries.p[u->at];
    struct str rest = {u->piece, u->piece_n};

    do {
        struct str part = {rest.p, MIN(rest.n, (size_t)WIRE_PIECE)};
        put_piece(u, x, part);
        rest.p += part.n;
        rest.n -= part.n;
    } while (rest.n > 0);
    if (u->file_done)
        next_entry(u);
}

static void upload_submit(struct upload *u);

void assets_more(struct backend *b)
{
    struct upload *u = b->upload;

    if (!u || u->working)
        return;
    while (!u->e.code && u->at < u->entries.n) {
        const struct entry *x = &u->entries.p[u->at];
        if (b->link.out.n - b->link.out_sent > OUT_HIGH)
            connect_send(b);
        if (b->link.out.n - b->link.out_sent > OUT_HIGH)
            return; /* called again when the pipe took it */
        if (x->kind == WIRE_FILE) {
            upload_submit(u);
            connect_send(b);
            return;
        }
        put_piece(u, x, str_of(x->target));
        next_entry(u);
    }
    upload_finish(b);
    connect_send(b);
}

static void work_done(void *arg)
{
    struct upload *u = arg;

    u->working = false;
    if (!u->b) {
        asset_upload_free(u);
        return;
    }
    if (u->at < u->entries.n && u->piece_n + (size_t)u->file_done > 0 && !u->e.code &&
        u->entries.p[u->at].kind == WIRE_FILE)
        upload_put_file(u);
    u->piece_n = 0;
    assets_more(u->b);
}

static void upload_submit(struct upload *u)
{
    u->working = true;
    work_submit(u->b->loop, upload_work, work_done, u);
}

void assets_begin(struct backend *b, struct ssh_run *r)
{
    struct upload *u = xcalloc(1, sizeof(*u));
    struct wire_op op = {.key = r->key};
    size_t n = 0;

    while (r->assets[n])
        n++;
    u->b = b;
    u->key = r->key;
    u->rights = (struct user_rights){.uid = r->uid, .gid = r->gid};
    u->fd = -1;
    u->first = true;
    u->piece = xmalloc(READ_BYTES);
    u->assets = xcalloc(n + 1, sizeof(*u->assets));
    for (size_t i = 0; i < n; i++)
        u->assets[i] = xstrdup(r->assets[i]);
    b->upload = u;
    wire_put_op_text(&b->link.out, WIRE_STAGE, &op, str_of(r->stage_dir));
    upload_submit(u);
}

/* The worker may be reading: it is left to finish, and work_done frees the upload then. */
void assets_abort(struct backend *b)
{
    struct upload *u = TAKE(b->upload);

    if (!u)
        return;
    u->b = NULL;
    if (!u->working)
        asset_upload_free(u);
}

bool assets_wait(const struct backend *b)
{
    return b->upload && !b->upload->working;
}

bool assets_on_the_way(const struct backend *b, struct run_key key)
{
    return b->upload && run_key_eq(b->upload->key, key);
}
