/* cas_collect.c - removes the contents that no tree and no image needs
 *
 * The collection holds the lock of the store alone.  It reads the manifests of all trees, then
 * removes every blob that is in none of them and has no image (its only link is its name).
 * Manifests go the same way: those of top directories are linked to their trees, those below are
 * named in others.
 */
#include "archive/cas_priv.h"
#include "base/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

struct collect {
    struct cas *c;
    struct map_u64 needed; /* first 64 bits of each hash that is in a tree */
    struct map_u64 tops;   /* inodes of manifests already read: equal trees share one */
    struct cas_freed freed;
};

typedef int entry_fn(struct collect *k, int dir, const char *name, struct err *e);

/* Calls fn for every entry of a directory of the store; names that begin with a dot are skipped. */
static int for_each(struct collect *k, int dir, const char *name, entry_fn *fn, struct err *e)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int rc = 0;

    if (!d) {
        if (fd >= 0)
            close(fd);
        return err_sys(e, "cannot list %s in the store %s", name, k->c->dir);
    }
    while (rc == 0 && (errno = 0, entry = readdir(d)))
        if (entry->d_name[0] != '.')
            rc = fn(k, dirfd(d), entry->d_name, e);
    if (rc == 0 && errno)
        rc = err_sys(e, "cannot list %s in the store %s", name, k->c->dir);
    closedir(d);
    return rc;
}

/* Two contents with the same first 64 bits are both kept when one is needed, which does no harm. */
static uint64_t collect_key(const char *hash)
{
    uint64_t key = 0;

    for (int i = 0; i < 16; i++)
        key = key << 4 | (uint64_t)(hash[i] <= '9' ? hash[i] - '0' : hash[i] - 'a' + 10);
    return key;
}

/* A directory that was seen in another tree has been marked with all that is in it. */
static int mark_below(void *ctx, const char *hash, char **text, size_t *n, struct err *e)
{
    struct collect *k = ctx;

    if (map_u64_get(&k->needed, collect_key(hash)))
        return 1;
    map_u64_put(&k->needed, collect_key(hash), k);
    return cas_get_manifest(k->c, hash, text, n, e);
}

/* Marks every content that a tree needs.  An unreadable manifest ends the collection: what it
 * needs is not known. */
static int mark_tree(struct collect *k, int dir, const char *name, struct err *e)
{
    struct manifest m;
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(e, "cannot look at tree %s", name);
    if (map_u64_get(&k->tops, st.st_ino))
        return 0;
    map_u64_put(&k->tops, st.st_ino, k);
    struct err why = {0};
    if (cas_walk_manifest(k->c, name, mark_below, k, &m, &why) < 0) {
        if (why.code == ERR_NOT_FOUND) // dropped meanwhile
            return 0;
        *e = why; // what it needs is not known, so nothing may go
        return -1;
    }
    for (size_t i = 0; i < m.entries.n; i++)
        if (m.entries.p[i].type == 'f')
            map_u64_put(&k->needed, collect_key(m.entries.p[i].hash), k);
    manifest_done(&m);
    return 0;
}

/* A blob with a second link has an image, or is the manifest of a tree. */
static int sweep_blob(struct collect *k, int dir, const char *shard, const char *name,
                      struct err *e)
{
    char hash[CAS_HEX + 16];
    struct stat st;

    snprintf(hash, sizeof(hash), "%.2s%.78s", shard, name);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "cannot look at blob %s", name);
    if (st.st_nlink > 1 || map_u64_get(&k->needed, collect_key(hash)))
        return 0;
    if (unlinkat(dir, name, 0) < 0)
        return err_sys(e, "cannot remove blob %s", name);
    k->freed.blobs++;
    k->freed.bytes += st.st_size;
    return 0;
}

static int sweep_shard(struct collect *k, int dir, const char *shard, struct err *e)
{
    AUTO_FD fd = openat(dir, shard, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int list = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = list < 0 ? NULL : fdopendir(list);
    struct dirent *entry;
    int rc = 0;

    if (!d)
        return err_sys(e, "cannot list blobs/%s in the store %s", shard, k->c->dir);
    while (rc == 0 && (entry = readdir(d)))
        if (entry->d_name[0] != '.')
            rc = sweep_blob(k, fd, shard, entry->d_name, e);
    closedir(d);
    return rc;
}

/* The lock is held alone, so everything in tmp/ was left by a crash. */
static int sweep_temporary(struct collect *k, int dir, const char *name, struct err *e)
{
    AUTO_FREE char *path = xasprintf("%s/tmp/%s", k->c->dir, name);

    (void)dir;
    return dir_remove_tree(path, e);
}

int cas_collect(struct cas *c, struct cas_freed *out, struct err *e)
{
    struct collect k = {.c = c};
    struct err why = {0};
    AUTO_FD lock = cas_lock(c, true, e);

    if (lock < 0)
        return -1;
    int rc = for_each(&k, c->tmp, ".", sweep_temporary, &why);
    if (rc == 0)
        rc = for_each(&k, c->trees, ".", mark_tree, &why);
    if (rc == 0)
        rc = for_each(&k, c->blobs, ".", sweep_shard, &why);
    AUTO_FREE char *records = path_join(c->dir, "known");
    known_clean(records);
    map_u64_done(&k.needed);
    map_u64_done(&k.tops);
    if (rc < 0 && e)
        *e = why;
    if (rc == 0 && out)
        *out = k.freed;
    return rc;
}
