/* cas_take.c - the target that unpacks an archive straight into the store
 *
 * No directory is made.  A file of up to a megabyte is gathered in memory until its hash is known:
 * when the store has that content already, nothing is written at all.  A larger file is written
 * once, into the batch; then it becomes a blob, or it is dropped.
 */
#include "archive/cas_priv.h"
#include "archive/unpack_priv.h"
#include "base/file.h"

enum { GATHER_MAX = 1 << 20 };

struct store_target {
    struct unpack_target t;
    struct batch batch;
    struct manifest m;
    struct map_str files; /* path → index into m.entries + 1 */
    char *name;
    struct buf gathered; /* the file under way, or … */
    int fd;              /* … where it is written to */
    unsigned number;
    struct blake2b hash;
    int64_t at; /* bytes of it so far */
    bool have_root;
};

/* The generic target is the first member of struct store_target. */
static struct store_target *store_target_of(struct unpack_target *t)
{
    return (struct store_target *)t;
}

static int no_dir(struct unpack_target *t, const char *path, struct err *e)
{
    (void)t, (void)path, (void)e;
    return 0; // directories come with dir_done
}

/* The entry goes into the manifest now; its hash and size follow in store_file_close. */
static int store_file_open(struct unpack_target *t, const char *path, mode_t mode, int64_t mtime_ns,
                           struct err *e)
{
    struct store_target *s = store_target_of(t);
    struct manifest_entry f = {'f', mode, mtime_ns, 0, "", xstrdup(path), NULL};

    manifest_push(&s->m, f);
    map_str_put(&s->files, str_of(path), (void *)s->m.entries.n); // an index, never 0
    blake2b_init(&s->hash);
    s->at = 0;
    buf_reset(&s->gathered);
    (void)e;
    return 0;
}

/* From memory to the disk. */
static int spill(struct store_target *s, struct err *e)
{
    s->fd = batch_new_file(&s->batch, &s->number, e);
    if (s->fd < 0)
        return -1;
    return fd_write_all(s->fd, s->gathered.n ? s->gathered.p : "", s->gathered.n, e);
}

/* A hole: zeros for the hash, nothing for the disk. */
static void hash_zeros(struct store_target *s, int64_t n)
{
    static char zeros[65536];

    for (s->at += n; n > 0;) {
        size_t take = (size_t)MIN(n, (int64_t)sizeof(zeros));
        blake2b_add(&s->hash, zeros, take);
        n -= (int64_t)take;
    }
}

/* Small files stay in memory; a file that grows above GATHER_MAX moves to the disk. */
static int store_file_write(struct unpack_target *t, const void *p, size_t n, int64_t offset,
                            struct err *e)
{
    struct store_target *s = store_target_of(t);

    hash_zeros(s, offset - s->at);
    blake2b_add(&s->hash, p, n);
    s->at += (int64_t)n;
    if (s->fd < 0 && s->at <= GATHER_MAX) {
        while ((int64_t)s->gathered.n < offset)
            buf_addc(&s->gathered, '\0');
        buf_add(&s->gathered, p, n);
        return 0;
    }
    if (s->fd < 0 && spill(s, e) < 0)
        return -1;
    return unpack_write_at(s->fd, p, n, offset, e);
}

/* An empty file is never stored, and neither is a content that the store has. */
static int store_file_close(struct unpack_target *t, int64_t size, struct err *e)
{
    struct store_target *s = store_target_of(t);
    struct manifest_entry *f = &vec_last(&s->m.entries);
    struct stat like = {.st_mtim = ns_timespec(f->mtime_ns)};

    hash_zeros(s, size - s->at);
    hash_hex(&s->hash, f->hash);
    f->size = size;
    if (s->fd < 0 && (!size || batch_has(&s->batch, f->hash, f->mode)))
        return 0;
    if (s->fd < 0 && spill(s, e) < 0)
        return -1;
    AUTO_FD fd = TAKE_FD(s->fd);
    if (ftruncate(fd, size) < 0)
        return err_sys(e, "cannot finish a file");
    return batch_put(&s->batch, s->number, fd, f->hash, f->mode, &like, size, e);
}

/* The bundle names the content by its hash instead of carrying it. */
static int file_there(struct unpack_target *t, const char *path, mode_t mode, int64_t mtime_ns,
                      const char *hash, int64_t *out_size, struct err *e)
{
    struct store_target *s = store_target_of(t);
    struct stat st, like = {.st_mtim = ns_timespec(mtime_ns)};
    AUTO_FD fd = batch_open_any(&s->batch, hash, NULL);

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, ERR_CONFLICT,
                       "the store no longer has the content of '%.120s'; send the whole bundle",
                       path);
    if (batch_want(&s->batch, hash, mode, &like, e) < 0)
        return -1;
    struct manifest_entry f = {'f', mode, mtime_ns, st.st_size, "", xstrdup(path), NULL};
    memcpy(f.hash, hash, CAS_HEX);
    manifest_push(&s->m, f);
    map_str_put(&s->files, str_of(path), (void *)s->m.entries.n);
    *out_size = st.st_size;
    return 0;
}

/* A hard link becomes a second entry with the same content. */
static int store_hard_link(struct unpack_target *t, const char *path, const char *to, struct err *e)
{
    struct store_target *s = store_target_of(t);
    size_t first = (size_t)map_str_get(&s->files, str_of(to));

    (void)e;
    ASSERT(first > 0);
    struct manifest_entry f = s->m.entries.p[first - 1];
    f.path = xstrdup(path);
    manifest_push(&s->m, f);
    map_str_put(&s->files, str_of(path), (void *)s->m.entries.n);
    return 0;
}

static int add_symlink(struct unpack_target *t, const char *path, const char *to, int64_t mtime_ns,
                       struct err *e)
{
    struct manifest_entry l = {'l', 0777, mtime_ns, 0, "", xstrdup(path), xstrdup(to)};

    (void)e;
    manifest_push(&store_target_of(t)->m, l);
    return 0;
}

/* A directory that was never named has no time; it gets none, so that equal bundles stay equal. */
static int store_dir_done(struct unpack_target *t, const char *path, mode_t mode, int64_t mtime_ns,
                          struct err *e)
{
    struct manifest_entry d = {'d', mode & 0777, MAX(mtime_ns, 0), 0, "", xstrdup(path), NULL};

    (void)e;
    manifest_push(&store_target_of(t)->m, d);
    store_target_of(t)->have_root |= !*path;
    return 0;
}

/* Directories come innermost first, so the manifest is sorted before it is written. */
static int store_target_commit(struct unpack_target *t, struct err *e)
{
    struct store_target *s = store_target_of(t);

    if (!s->have_root)
        store_dir_done(t, "", 0755, -1, e);
    manifest_sort(&s->m);
    return batch_commit(&s->batch, s->name, &s->m, e);
}

static void store_target_free(struct unpack_target *t)
{
    struct store_target *s = store_target_of(t);

    if (s->fd >= 0)
        close(s->fd);
    batch_done(&s->batch);
    manifest_done(&s->m);
    map_str_done(&s->files);
    buf_done(&s->gathered);
    free(s->name);
    free(s);
}

struct unpack_target *unpack_store_new(struct cas *c, const char *name, struct err *e)
{
    if (cas_check_name(name, e) < 0)
        return NULL;
    struct store_target *s = xcalloc(1, sizeof(*s));
    s->t = (struct unpack_target){
        no_dir,          store_file_open, store_file_write, store_file_close,    file_there,
        store_hard_link, add_symlink,     store_dir_done,   store_target_commit, store_target_free};
    s->fd = -1;
    s->name = xstrdup(name);
    if (batch_open(&s->batch, c, e) < 0) {
        store_target_free(&s->t);
        return NULL;
    }
    return &s->t;
}
