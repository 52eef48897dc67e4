/* cas.c - the store as a whole: opening, locking, trees by name */
#include "archive/cas.h"
#include "archive/cas_priv.h"
#include "base/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

enum { NAME_MAX_CHARS = 200, MANIFEST_MAX = 1 << 30 };

const char hash_of_nothing[CAS_HEX] =
    "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8";

/* Negative times (before 1970) keep a positive part of a second, as the kernel wants it. */
struct timespec ns_timespec(int64_t ns)
{
    int64_t rest = ns % 1000000000;

    if (rest < 0)
        rest += 1000000000;
    return (struct timespec){(time_t)((ns - rest) / 1000000000), rest};
}

int64_t stat_mtime_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

int path_set_mtime(int dir, const char *path, int64_t mtime_ns)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, ns_timespec(mtime_ns)};

    return utimensat(dir, path, times, AT_SYMLINK_NOFOLLOW);
}

int tree_finish_dirs(const struct manifest *m, int root, struct err *e)
{
    for (size_t i = m->entries.n; i-- > 0;) {
        const struct manifest_entry *d = &m->entries.p[i];
        const char *path = *d->path ? d->path : ".";
        if (d->type == 'd' && (fchmodat(root, path, d->mode | 0700, 0) < 0 ||
                               path_set_mtime(root, path, d->mtime_ns) < 0))
            return err_sys(e, "cannot set mode and time of directory %s", path);
    }
    return 0;
}

void hash_hex(struct blake2b *b, char out[CAS_HEX])
{
    uint8_t raw[32];

    blake2b_end(b, raw);
    for (int i = 0; i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", raw[i]);
}

/* Opens one of the directories of the store and creates the directory when it is missing. */
static int open_part(struct cas *c, const char *name, struct err *e)
{
    if (mkdirat(c->fd, name, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "cannot create directory %s/%s", c->dir, name);
    int fd = openat(c->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(e, "cannot open directory %s/%s", c->dir, name) : fd;
}

/* Tries it, on two files nobody else sees. */
static bool can_clone(struct cas *c)
{
    AUTO_FD a = openat(c->tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    AUTO_FD b = openat(c->tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    char page[4096] = "x";

    return a >= 0 && b >= 0 && write(a, page, sizeof(page)) == sizeof(page) && fd_clone(a, b) == 0;
}

static int open_parts(struct cas *c, struct err *e)
{
    c->fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->fd < 0)
        return err_sys(e, "cannot open the store %s", c->dir);
    if ((c->blobs = open_part(c, "blobs", e)) < 0 || (c->trees = open_part(c, "trees", e)) < 0 ||
        (c->known = open_part(c, "known", e)) < 0 || (c->tmp = open_part(c, "tmp", e)) < 0)
        return -1;
    AUTO_FD lock = openat(c->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0)
        return err_sys(e, "cannot create %s/lock", c->dir);
    c->clones = can_clone(c);
    return 0;
}

int cas_open(const char *dir, struct cas **out, struct err *e)
{
    if (dir_make_all(dir, 0700, e) < 0)
        return -1;
    struct cas *c = xcalloc(1, sizeof(*c));
    *c = (struct cas){
        .dir = xstrdup(dir), .fd = -1, .blobs = -1, .trees = -1, .known = -1, .tmp = -1};
    return HAND_OUT(open_parts(c, e), out, c, cas_close);
}

void cas_close(struct cas *c)
{
    if (!c)
        return;
    int fds[] = {c->fd, c->blobs, c->trees, c->known, c->tmp};
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(c->dir);
    free(c);
}

/* Every call opens the lock file anew: flock belongs to the open file, so two threads of one
 * process exclude each other too. */
int cas_lock(struct cas *c, bool alone, struct err *e)
{
    AUTO_FD fd = openat(c->fd, "lock", O_RDWR | O_CLOEXEC);
    int rc;

    if (fd < 0)
        return err_sys(e, "cannot open %s/lock", c->dir);
    do
        rc = flock(fd, alone ? LOCK_EX | LOCK_NB : LOCK_SH);
    while (rc < 0 && errno == EINTR);
    if (rc < 0 && errno == EWOULDBLOCK)
        return err_set(e, ERR_BUSY, "the store %s is in use; try again later", c->dir);
    return rc < 0 ? err_sys(e, "cannot lock %s/lock", c->dir) : TAKE_FD(fd);
}

int cas_check_name(const char *name, struct err *e)
{
    size_t n = strlen(name);
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

    if (n == 0 || n > NAME_MAX_CHARS || name[0] == '.' || strspn(name, allowed) != n)
        return err_set(e, ERR_INVALID,
                       "'%.60s' cannot be the name of a tree: use letters, digits, '.', '_', '-'",
                       name);
    return 0;
}

/* A manifest_get_fn: the text of a directory below the top, by its hash. */
int cas_get_manifest(void *ctx, const char *hash, char **text, size_t *n, struct err *e)
{
    struct cas *c = ctx;
    char name[BLOB_NAME], path[BLOB_NAME + 1];

    snprintf(name, sizeof(name), "%s-tree", hash);
    blob_path(name, path);
    AUTO_FD fd = openat(c->blobs, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "cannot open %s/blobs/%s", c->dir, path);
    return fd_read_all(fd, MANIFEST_MAX, text, n, e);
}

int cas_read_manifest(struct cas *c, const char *name, struct manifest *out, struct err *e)
{
    return cas_walk_manifest(c, name, cas_get_manifest, c, out, e);
}

int cas_walk_manifest(struct cas *c, const char *name, manifest_get_fn *get, void *ctx,
                      struct manifest *out, struct err *e)
{
    AUTO_FREE char *text = NULL;
    size_t n;

    if (cas_check_name(name, e) < 0)
        return -1;
    AUTO_FD fd = openat(c->trees, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "the store has no tree '%s'", name);
    if (fd < 0)
        return err_sys(e, "cannot open %s/trees/%s", c->dir, name);
    if (fd_read_all(fd, MANIFEST_MAX, &text, &n, e) < 0 ||
        manifest_read((struct str){text, n}, get, ctx, out, e) < 0)
        return err_wrap(e, "reading %s/trees/%s", c->dir, name);
    return 0;
}

bool cas_has_tree(struct cas *c, const char *name)
{
    return cas_check_name(name, NULL) == 0 && faccessat(c->trees, name, F_OK, 0) == 0;
}

void cas_each_tree(struct cas *c, const char *prefix, void (*fn)(void *ctx, const char *name),
                   void *ctx)
{
    int fd = openat(c->trees, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    for (struct dirent *entry; d && (entry = readdir(d));)
        if (str_starts(str_of(entry->d_name), str_of(prefix)))
            fn(ctx, entry->d_name);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

int cas_tree_size(struct cas *c, const char *name, struct cas_tally *out, struct err *e)
{
    struct manifest m;

    if (cas_read_manifest(c, name, &m, e) < 0)
        return -1;
    *out = (struct cas_tally){.entries = (int64_t)m.entries.n, .bytes = manifest_bytes(&m)};
    manifest_done(&m);
    return 0;
}

int cas_list_tree(struct cas *c, const char *name, cas_entry_fn *fn, void *ctx, struct err *e)
{
    struct manifest m;
    int rc = 0;

    if (cas_read_manifest(c, name, &m, e) < 0)
        return -1;
    for (size_t i = 0; i < m.entries.n && rc == 0; i++) {
        const struct manifest_entry *n = &m.entries.p[i];
        rc = fn(ctx, n->path, n->type, n->size, n->mtime_ns);
    }
    manifest_done(&m);
    return rc;
}

int cas_drop_tree(struct cas *c, const char *name, struct err *e)
{
    if (cas_check_name(name, e) < 0)
        return -1;
    if (unlinkat(c->trees, name, 0) < 0 && errno != ENOENT)
        return err_sys(e, "cannot remove %s/trees/%s", c->dir, name);
    return 0;
}
