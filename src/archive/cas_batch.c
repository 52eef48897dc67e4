/* cas_batch.c - the new blobs of one call, and the tree they belong to
 *
 * They are written into a directory of the call in tmp/.  At the end all are synced, manifests too,
 * then linked to their names, then those directories are synced, and only then the tree gets its
 * name.  Two calls that bring the same content at once do not disturb each
 * other: the second finds the name taken and goes without.
 *
 * A hard link may not be made without end: ext4 allows 65 000 to one inode.  When a blob is used
 * up, a copy takes its name; the old inode lives on in the images that have it.
 */
#include "archive/cas_priv.h"
#include "base/file.h"
#include "base/rand.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

enum { SYNC_ONE_BY_ONE = 64 }; /* above, one sync of the whole file system is cheaper */

/* The shared lock keeps cas_collect away until batch_done: a blob that this call has found cannot
 * vanish before the tree that needs it has its name. */
int batch_open(struct batch *b, struct cas *c, struct err *e)
{
    uint64_t id;

    *b = (struct batch){.c = c, .lock = -1, .dir = -1};
    random_bytes(&id, sizeof(id));
    snprintf(b->name, sizeof(b->name), "%016llx", (unsigned long long)id);
    if ((b->lock = cas_lock(c, false, e)) < 0)
        return -1;
    if (mkdirat(c->tmp, b->name, 0700) < 0) {
        b->name[0] = '\0';
        return err_sys(e, "cannot create a directory in %s/tmp", c->dir);
    }
    b->dir = openat(c->tmp, b->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return b->dir < 0 ? err_sys(e, "cannot open %s/tmp/%s", c->dir, b->name) : 0;
}

/* Published blobs have a second link below blobs/, so removing the files of tmp/ does not harm
 * them. */
void batch_done(struct batch *b)
{
    if (!b->c)
        return;
    for (unsigned i = 0; i < b->next; i++)
        batch_drop_file(b, i);
    if (b->dir >= 0)
        close(b->dir);
    if (b->name[0])
        unlinkat(b->c->tmp, b->name, AT_REMOVEDIR);
    if (b->lock >= 0)
        close(b->lock);
    vec_free_each(&b->list, free);
    map_str_done(&b->by_name);
    *b = (struct batch){0};
}

static void number_name(unsigned number, char out[16])
{
    snprintf(out, 16, "%u", number);
}

int batch_new_file(struct batch *b, unsigned *number, struct err *e)
{
    char name[16];

    number_name(b->next, name);
    int fd = openat(b->dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, "cannot create a file in %s/tmp", b->c->dir);
    *number = b->next++;
    return fd;
}

void batch_drop_file(struct batch *b, unsigned number)
{
    char name[16];

    number_name(number, name);
    unlinkat(b->dir, name, 0);
}

/* Is a blob of this name in the store, or pending in this batch? */
static bool has_name(struct batch *b, const char *name)
{
    char path[BLOB_NAME + 1];

    blob_path(name, path);
    return map_str_get(&b->by_name, str_of(name)) || faccessat(b->c->blobs, path, F_OK, 0) == 0;
}

bool batch_has(struct batch *b, const char *hash, mode_t mode)
{
    char name[BLOB_NAME];

    blob_name(b->c, hash, mode, name);
    return has_name(b, name);
}

/* Mode and time of the blob are set now; batch_publish gives the file its name.  When the
 * content is there already, the file is dropped. */
static int put_name(struct batch *b, unsigned number, int fd, const char *name, mode_t mode,
                    const struct stat *like, int64_t size, struct err *e)
{
    if (has_name(b, name)) {
        batch_drop_file(b, number);
        return 0;
    }
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
    if (like)
        times[1] = like->st_mtim;
    if (fchmod(fd, mode) < 0 || futimens(fd, times) < 0)
        return err_sys(e, "cannot finish a blob in %s", b->c->dir);
    struct pending *p = xcalloc(1, sizeof(*p));
    snprintf(p->name, sizeof(p->name), "%s", name);
    p->number = number;
    vec_push(&b->list, p);
    map_str_put(&b->by_name, str_of(name), p);
    b->tally.new_blobs++;
    b->tally.new_bytes += size;
    return 0;
}

int batch_put(struct batch *b, unsigned number, int fd, const char *hash, mode_t mode,
              const struct stat *like, int64_t size, struct err *e)
{
    char name[BLOB_NAME];

    blob_name(b->c, hash, mode, name);
    return put_name(b, number, fd, name, blob_mode(b->c, mode), like, size, e);
}

static int open_pending(struct batch *b, const struct pending *p)
{
    char name[16];

    number_name(p->number, name);
    return openat(b->dir, name, O_RDONLY | O_CLOEXEC);
}

/* From this batch or from the store. */
int batch_open_any(struct batch *b, const char *hash, struct err *e)
{
    char name[BLOB_NAME];

    for (unsigned i = 0; i < BLOB_MODES; i++) {
        snprintf(name, sizeof(name), "%s-%03o", hash, blob_mode_at(i));
        const struct pending *p = map_str_get(&b->by_name, str_of(name));
        if (p)
            return open_pending(b, p);
    }
    return blob_open(b->c, hash, e);
}

/* Another inode with the content of `from`, which is checked on the way. */
static int copy_blob(struct batch *b, int from, const char *expected, unsigned *number,
                     int64_t *size, struct err *e)
{
    char hash[CAS_HEX];
    AUTO_FD fd = batch_new_file(b, number, e);

    if (fd < 0 || copy_hashed(from, fd, NULL, hash, size, e) < 0)
        return -1;
    if (strcmp(hash, expected) != 0)
        return err_set(e, ERR_INTERNAL, "the content %.12s in the store %s is damaged", expected,
                       b->c->dir);
    return TAKE_FD(fd);
}

int batch_want(struct batch *b, const char *hash, mode_t mode, const struct stat *like,
               struct err *e)
{
    unsigned number;
    int64_t size;

    if (batch_has(b, hash, mode))
        return 0;
    AUTO_FD from = batch_open_any(b, hash, e);
    AUTO_FD copy = from < 0 ? -1 : copy_blob(b, from, hash, &number, &size, e);
    return copy < 0 ? -1 : batch_put(b, number, copy, hash, mode, like, size, e);
}

/* All links of a blob are used up: its name gets a new inode. */
static int renew_blob(struct batch *b, const char *hash, const char *path, struct err *e)
{
    AUTO_FD from = openat(b->c->blobs, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    unsigned number;
    int64_t size;
    char name[16];

    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(e, "cannot open %s/blobs/%s", b->c->dir, path);
    AUTO_FD copy = copy_blob(b, from, hash, &number, &size, e);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st.st_mtim};
    if (copy < 0)
        return -1;
    number_name(number, name);
    if (fchmod(copy, st.st_mode & 0777) < 0 || futimens(copy, times) < 0 || fsync(copy) < 0 ||
        renameat(b->dir, name, b->c->blobs, path) < 0)
        return err_sys(e, "cannot renew %s/blobs/%s", b->c->dir, path);
    return 0;
}

static int link_pending(struct batch *b, const struct pending *p, int dir, const char *path)
{
    char name[16];

    number_name(p->number, name);
    return linkat(b->dir, name, dir, path, 0);
}

/* A pending blob may be out of links too; the loop then uses the published blob of that name, if
 * there is one.  Three tries, since another call may use up the renewed blob. */
int batch_link(struct batch *b, const char *hash, mode_t mode, int dir, const char *path,
               struct err *e)
{
    char name[BLOB_NAME], blob[BLOB_NAME + 1];

    blob_name(b->c, hash, mode, name);
    blob_path(name, blob);
    const struct pending *p = map_str_get(&b->by_name, str_of(name));
    if (p && link_pending(b, p, dir, path) == 0)
        return 0;
    for (int tries = 0; tries < 3; tries++) {
        if (linkat(b->c->blobs, blob, dir, path, 0) == 0)
            return 0;
        if (errno != EMLINK)
            break;
        if (renew_blob(b, hash, blob, e) < 0)
            return -1;
    }
    if (errno == EXDEV)
        return err_set(e, ERR_INVALID, "the image must be on the same file system as the store %s",
                       b->c->dir);
    return err_sys(e, "cannot link %s", path);
}

int batch_open_blob(struct batch *b, const char *hash, mode_t mode, struct err *e)
{
    char name[BLOB_NAME];

    blob_name(b->c, hash, mode, name);
    const struct pending *p = map_str_get(&b->by_name, str_of(name));
    return p ? open_pending(b, p) : blob_open(b->c, hash, e);
}

/* ---- the end ---- */

static int sync_fd(int fd, struct err *e)
{
    return fsync(fd) < 0 ? err_sys(e, "cannot sync the store") : 0;
}

/* Many small fsyncs cost more than one syncfs of the whole file system. */
static int sync_contents(struct batch *b, struct err *e)
{
    if (b->list.n > SYNC_ONE_BY_ONE)
        return syncfs(b->dir) < 0 ? err_sys(e, "cannot sync the store %s", b->c->dir) : 0;
    for (size_t i = 0; i < b->list.n; i++) {
        AUTO_FD fd = open_pending(b, b->list.p[i]);
        if (fd < 0)
            return err_sys(e, "cannot open a new blob of %s", b->c->dir);
        if (sync_fd(fd, e) < 0)
            return -1;
    }
    return 0;
}

/* EEXIST is success: another call published the same content at the same time. */
static int name_one(struct batch *b, const struct pending *p, struct err *e)
{
    char path[BLOB_NAME + 1], shard[3] = {p->name[0], p->name[1], 0};

    blob_path(p->name, path);
    if (link_pending(b, p, b->c->blobs, path) == 0 || errno == EEXIST)
        return 0;
    if (errno == ENOENT && (mkdirat(b->c->blobs, shard, 0700) == 0 || errno == EEXIST) &&
        (link_pending(b, p, b->c->blobs, path) == 0 || errno == EEXIST))
        return 0;
    if (errno == EMLINK) // so many images inside of this call: the next call brings it again
        return 0;
    return err_sys(e, "cannot create %s/blobs/%s", b->c->dir, path);
}

/* All of them get their names, and the directories of those are synced. */
static int name_blobs(struct batch *b, struct err *e)
{
    bool touched[256] = {0};

    for (size_t i = 0; i < b->list.n; i++) {
        char hex[3] = {b->list.p[i]->name[0], b->list.p[i]->name[1], 0};
        if (name_one(b, b->list.p[i], e) < 0)
            return -1;
        touched[strtoul(hex, NULL, 16) & 0xff] = true;
    }
    for (unsigned i = 0; i < 256; i++) {
        char shard[3];
        if (!touched[i])
            continue;
        snprintf(shard, sizeof(shard), "%02x", i);
        AUTO_FD fd = openat(b->c->blobs, shard, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return err_sys(e, "cannot open %s/blobs/%s", b->c->dir, shard);
        if (sync_fd(fd, e) < 0)
            return -1;
    }
    return b->list.n ? sync_fd(b->c->blobs, e) : 0;
}

/* The manifest of one directory, unless there is such a one. */
static int put_manifest(void *ctx, const struct buf *text, char hash[CAS_HEX], struct err *e)
{
    struct batch *b = ctx;
    struct cas_tally before = b->tally;
    char name[BLOB_NAME];
    unsigned number;
    struct blake2b h;

    blake2b_init(&h);
    blake2b_add(&h, text->p, text->n);
    hash_hex(&h, hash);
    snprintf(name, sizeof(name), "%s-tree", hash);
    if (has_name(b, name))
        return 0;
    AUTO_FD fd = batch_new_file(b, &number, e);
    if (fd < 0 || fd_write_all(fd, text->p, text->n, e) < 0 ||
        put_name(b, number, fd, name, 0400, NULL, 0, e) < 0)
        return -1;
    b->tally = before; // a manifest is not content
    return 0;
}

/* trees/NAME becomes the manifest, whatever it was. */
static int name_tree(struct batch *b, const char *tree, const char *root, struct err *e)
{
    char name[BLOB_NAME], path[BLOB_NAME + 1], temp[16];

    snprintf(name, sizeof(name), "%s-tree", root);
    blob_path(name, path);
    number_name(b->next++, temp);
    int rc = linkat(b->c->blobs, path, b->dir, temp, 0);
    if (rc < 0 && errno == EMLINK) {
        if (renew_blob(b, root, path, e) < 0)
            return -1;
        rc = linkat(b->c->blobs, path, b->dir, temp, 0);
    }
    if (rc < 0)
        return err_sys(e, "cannot link %s/blobs/%s", b->c->dir, path);
    if (renameat(b->dir, temp, b->c->trees, tree) < 0)
        return err_sys(e, "cannot create %s/trees/%s", b->c->dir, tree);
    return sync_fd(b->c->trees, e);
}

/* Contents are synced before they get names, so a name in blobs/ always means a whole blob. */
int batch_publish(struct batch *b, struct err *e)
{
    return sync_contents(b, e) < 0 ? -1 : name_blobs(b, e);
}

int batch_commit(struct batch *b, const char *tree, struct manifest *m, struct err *e)
{
    char root[CAS_HEX];

    if (manifest_write(m, put_manifest, b, root, e) < 0 || batch_publish(b, e) < 0)
        return -1;
    return name_tree(b, tree, root, e);
}
