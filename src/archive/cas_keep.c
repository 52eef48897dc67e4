/* cas_keep.c - a directory becomes a tree, and an image of it
 *
 * How the content of a file gets in, cheapest first:
 *   1. untouched since cas_check_out: the hash is known, nothing is read;
 *   2. the file system clones: a clone is taken and hashed, so what is hashed is what is kept;
 *   3. it is read once; when the store has that content, that was all;
 *   4. the caller removes `src` anyway, and nobody has the file open for writing (a lease says so,
 *      and would tell if somebody came): the file itself becomes the blob;
 *   5. it is copied and hashed again on the way, so that a file that changes meanwhile gives a
 *      blob that is what its name says.
 */
#include "archive/cas_priv.h"
#include "archive/partial_priv.h"
#include "archive/walk_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>

/* State of one cas_keep_tree.  image.fd is -1 when no image is wanted.  `dev` is the file system of
 * `src`: known_hash must not be asked about files of another one. */
struct keep {
    struct batch batch;
    struct manifest m;
    struct known known;
    struct partial image;
    struct watch watch;
    struct walk *walk;
    dev_t dev;
    unsigned flags;
    int64_t left_out;
};

static int keep_skip(struct keep *k, const struct walk_entry *at, const char *why)
{
    k->left_out++;
    watch_warn(&k->watch, "%s is left out: %s", at->path, why);
    return 0;
}

/* ---- contents ---- */

/* A read lease is granted only while nobody can write.  Its signal is one that does nothing. */
static bool lease_take(int fd)
{
    return fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
}

static bool lease_holds(int fd)
{
    return fcntl(fd, F_GETLEASE) == F_RDLCK;
}

/* The file itself as new file of the batch: 1 = done, 0 = it cannot be, -1. */
static int give_away(struct keep *k, int fd, const struct walk_entry *at, const struct stat *st,
                     const char *hash, struct err *e)
{
    char name[16];
    unsigned number = k->batch.next;
    struct stat now;

    snprintf(name, sizeof(name), "%u", number);
    if (!lease_holds(fd) || linkat(at->dir, at->name, k->batch.dir, name, 0) < 0)
        return 0;
    k->batch.next++;
    bool same = fstatat(k->batch.dir, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
                now.st_ino == st->st_ino && now.st_size == st->st_size && lease_holds(fd);
    if (!same) {
        batch_drop_file(&k->batch, number);
        return 0;
    }
    return batch_put(&k->batch, number, fd, hash, st->st_mode, st, st->st_size, e) < 0 ? -1 : 1;
}

/* Copies the file into the batch.  The copy is what is hashed, so a file that changes meanwhile
 * does no harm. */
static int copy_in(struct keep *k, int fd, const struct stat *st, char hash[CAS_HEX], int64_t *size,
                   struct err *e)
{
    unsigned number;
    AUTO_FD to = batch_new_file(&k->batch, &number, e);

    if (to < 0)
        return -1;
    if (k->batch.c->clones && fd_clone(fd, to) == 0) {
        if (copy_hashed(to, -1, &k->watch, hash, size, e) < 0)
            return -1;
    } else if (copy_hashed(fd, to, &k->watch, hash, size, e) < 0) {
        return -1;
    }
    k->batch.tally.hashed_bytes += *size;
    return batch_put(&k->batch, number, to, hash, st->st_mode, st, *size, e);
}

/* Reads and hashes the file once; copies it only when the store does not have the content. */
static int keep_read(struct keep *k, int fd, const struct walk_entry *at, const struct stat *st,
                     char hash[CAS_HEX], int64_t *size, struct err *e)
{
    bool mine = k->flags & CAS_SOURCE_ENDS && st->st_nlink == 1 && st->st_uid == geteuid();

    if (k->batch.c->clones)
        return copy_in(k, fd, st, hash, size, e);
    bool leased = mine && lease_take(fd);
    if (copy_hashed(fd, -1, &k->watch, hash, size, e) < 0)
        return -1;
    k->batch.tally.hashed_bytes += *size;
    if (batch_has(&k->batch, hash, st->st_mode))
        return 0;
    int given = leased && *size == st->st_size ? give_away(k, fd, at, st, hash, e) : 0;
    return given ? MIN(given, 0) : copy_in(k, fd, st, hash, size, e);
}

/* Makes sure the content of one file is in; 1 = yes, 0 = left out, -1. */
static int take_content(struct keep *k, const struct walk_entry *at, struct manifest_entry *out,
                        struct err *e)
{
    const char *known = at->st.st_dev == k->dev ? known_hash(&k->known, &at->st) : NULL;
    struct stat st;

    if (known && batch_want(&k->batch, known, at->st.st_mode, &at->st, NULL) == 0) {
        memcpy(out->hash, known, CAS_HEX);
        return 1;
    }
    AUTO_FD fd = openat(at->dir, at->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return keep_skip(k, at, errno == ENOENT ? "it vanished meanwhile" : strerror(errno));
    if (!S_ISREG(st.st_mode))
        return keep_skip(k, at, "it was replaced by something else meanwhile");
    out->mode = st.st_mode & 0777;
    out->mtime_ns = stat_mtime_ns(&st);
    return keep_read(k, fd, at, &st, out->hash, &out->size, e) < 0 ? -1 : 1;
}

/* ---- the image ---- */

/* A file of its own, with the exact mode and time: an empty one, or a clone. */
static int image_own_file(struct keep *k, const struct manifest_entry *f, struct err *e)
{
    AUTO_FD to = openat(k->image.fd, f->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (to < 0)
        return err_sys(e, "cannot create %s", f->path);
    if (f->size) {
        AUTO_FD from = batch_open_blob(&k->batch, f->hash, f->mode, e);
        if (from < 0)
            return -1;
        if (fd_clone(from, to) < 0)
            return err_sys(e, "cannot clone %s", f->path);
    }
    if (fchmod(to, f->mode) < 0 || path_set_mtime(k->image.fd, f->path, f->mtime_ns) < 0)
        return err_sys(e, "cannot finish %s", f->path);
    return 0;
}

/* With hard links the image of a file is the blob itself; an empty file is simply created. */
static int image_add(struct keep *k, const struct manifest_entry *n, struct err *e)
{
    int dir = k->image.fd;

    if (dir < 0 || !*n->path)
        return 0;
    if (n->type == 'd')
        return mkdirat(dir, n->path, 0700) < 0 ? err_sys(e, "cannot create %s", n->path) : 0;
    if (n->type == 'l') {
        if (symlinkat(n->target, dir, n->path) < 0 || path_set_mtime(dir, n->path, n->mtime_ns) < 0)
            return err_sys(e, "cannot create link %s", n->path);
        return 0;
    }
    if (!n->size || k->batch.c->clones)
        return image_own_file(k, n, e);
    return batch_link(&k->batch, n->hash, n->mode, dir, n->path, e);
}

/* Modes and times of the directories of the image.  All directories are synced: the image is the
 * archive that users read.  One syncfs is cheaper than many fsyncs. */
static int image_end(struct keep *k, struct err *e)
{
    int dirs = 0;

    if (k->image.fd < 0)
        return 0;
    if (tree_finish_dirs(&k->m, k->image.fd, e) < 0)
        return -1;
    for (size_t i = 0; i < k->m.entries.n; i++)
        dirs += k->m.entries.p[i].type == 'd';
    if (dirs > 16)
        return syncfs(k->image.fd) < 0 ? err_sys(e, "cannot sync %s", k->image.path) : 0;
    for (size_t i = k->m.entries.n; i-- > 0;) {
        const struct manifest_entry *d = &k->m.entries.p[i];
        if (d->type != 'd')
            continue;
        AUTO_FD fd = openat(k->image.fd, *d->path ? d->path : ".", O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) < 0)
            return err_sys(e, "cannot sync directory %s", d->path);
    }
    return 0;
}

/* ---- the tree ---- */

/* One entry of the walk: into the manifest, into the image, and counted. */
static int keep_entry(struct keep *k, const struct walk_entry *at, struct err *e)
{
    char target[PATH_MAX];
    struct manifest_entry n = {.mode = at->st.st_mode & 0777, .mtime_ns = stat_mtime_ns(&at->st)};

    if (strlen(at->path) >= PATH_MAX)
        return keep_skip(k, at, "its path is too long");
    if (S_ISDIR(at->st.st_mode)) {
        n.type = 'd';
    } else if (S_ISLNK(at->st.st_mode)) {
        ssize_t got = readlinkat(at->dir, at->name, target, sizeof(target) - 1);
        if (got < 0)
            return keep_skip(k, at, strerror(errno));
        target[got] = '\0';
        n.type = 'l';
        n.mode = 0777;
        n.target = xstrdup(target);
    } else {
        n.type = 'f';
        n.size = at->st.st_size;
        memcpy(n.hash, hash_of_nothing, CAS_HEX);
        int rc = n.size ? take_content(k, at, &n, e) : 1;
        if (rc <= 0)
            return rc;
    }
    n.path = xstrdup(at->path);
    manifest_push(&k->m, n);
    if (image_add(k, &vec_last(&k->m.entries), e) < 0)
        return -1;
    return watch_add(&k->watch, n.size, 1, e);
}

/* The image appears last: when it cannot be made, the tree is dropped again. */
static int keep_all(struct keep *k, const char *name, const char *src, const char *dest,
                    struct err *e)
{
    struct walk_entry at;
    struct stat st;
    int rc;

    if (walk_open(src, NULL, &k->watch, &k->walk, e) < 0)
        return -1;
    if (stat(src, &st) < 0)
        return err_sys(e, "cannot look at %s", src);
    k->dev = st.st_dev;
    known_load(&k->known, k->batch.c, src);
    if (dest && partial_open(&k->image, dest, e) < 0)
        return -1;
    while ((rc = walk_next(k->walk, &at, e)) > 0)
        if ((rc = keep_entry(k, &at, e)) < 0)
            break;
    if (rc < 0 || image_end(k, e) < 0 || batch_commit(&k->batch, name, &k->m, e) < 0)
        return -1;
    if (dest && partial_commit(&k->image, true, e) < 0) {
        cas_drop_tree(k->batch.c, name, NULL);
        return -1;
    }
    return 0;
}

int cas_keep_tree(struct cas *c, const char *name, const char *src, const char *dest,
                  unsigned flags, const struct archive_watch *w, struct cas_tally *out,
                  struct err *e)
{
    struct keep k = {.flags = flags, .image = {.fd = -1}};

    if (cas_check_name(name, e) < 0)
        return -1;
    watch_init(&k.watch, w);
    int rc = batch_open(&k.batch, c, e);
    if (rc == 0)
        rc = keep_all(&k, name, src, dest, e);
    if (rc < 0)
        err_wrap(e, "keeping %s", src);
    if (rc == 0 && flags & CAS_SOURCE_ENDS)
        known_forget(c, &k.known);
    if (rc == 0 && out) {
        *out = k.batch.tally;
        out->entries = (int64_t)k.m.entries.n;
        out->bytes = manifest_bytes(&k.m);
        out->left_out = k.left_out + walk_left_out(k.walk);
    }
    walk_free(k.walk);
    partial_done(&k.image);
    batch_done(&k.batch);
    manifest_done(&k.m);
    known_done(&k.known);
    return rc;
}
