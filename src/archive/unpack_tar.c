/* unpack_tar.c - the tar reader: libarchive reads the headers, the checks decide
 *
 * libarchive knows the dialects (ustar, pax, GNU, old), long names, sparse files and large sizes.
 * It never writes to the disk here.  Links are made after all files, so while files are made there
 * is no link a name could lead through.
 */
#include "archive/cas.h"
#include "archive/contents_priv.h"
#include "archive/lib_priv.h"
#include "archive/manifest_priv.h"
#include "archive/unpack_priv.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

struct reader {
    const struct lib *lib;
    struct archive *tar;
    tar_read_fn *read;
    void *ctx;
    struct members *m;
    struct unpack_target *t;
};

/* The callback by which libarchive pulls its input. */
static la_ssize_t tar_on_read(struct archive *a, void *ctx, const void **out)
{
    struct reader *r = ctx;
    ssize_t n = r->read(r->ctx, out);

    if (n < 0)
        r->lib->set_error(a, EIO, "the archive ends too early");
    return n;
}

static int tar_fail(struct reader *r, const char *path, struct err *e)
{
    const char *why = r->lib->error_string(r->tar);

    if (!path)
        return err_set(e, ERR_INVALID, "the archive is not a tar file (%s)",
                       why ? why : "no reason given");
    return err_set(e, ERR_INVALID, "the archive is damaged at member '%.120s' (%s)", path,
                   why ? why : "no reason given");
}

/* One file: its bytes in order, with holes where the archive has holes. */
static int tar_take_file(struct reader *r, struct archive_entry *entry, const struct member *file,
                         struct err *e)
{
    int64_t size = r->lib->entry_size(entry), offset, end = 0;
    const void *p;
    size_t n;
    int rc;

    if (members_count_bytes(r->m, file->path, size, e) < 0 ||
        r->t->file_open(r->t, file->path, file->mode, file->mtime_ns, e) < 0)
        return -1;
    while ((rc = r->lib->read_data_block(r->tar, &p, &n, &offset)) == ARCHIVE_OK) {
        if (offset < end || n > (uint64_t)size || offset > size - (int64_t)n)
            return err_set(e, ERR_INVALID, "member '%.120s' has data outside of its size",
                           file->path);
        if (n && r->t->file_write(r->t, p, n, offset, e) < 0)
            return -1;
        end = offset + (int64_t)n;
    }
    return rc == ARCHIVE_EOF ? r->t->file_close(r->t, size, e) : tar_fail(r, file->path, e);
}

/* Does the member name its content by a hash instead of holding it?  1 = yes, 0 = no, -1. */
static int content_of(struct reader *r, struct archive_entry *entry, const char *path,
                      char hash[CAS_HEX], struct err *e)
{
    const char *name;
    const void *value;
    size_t n;

    if (!r->m->contents || !r->t->file_there)
        return 0;
    r->lib->entry_xattr_reset(entry);
    while (r->lib->entry_xattr_next(entry, &name, &value, &n) == ARCHIVE_OK) {
        if (!name || strcmp(name, CONTENT_ATTRIBUTE) != 0)
            continue;
        snprintf(hash, CAS_HEX, "%.*s", (int)MIN(n, (size_t)CAS_HEX), (const char *)value);
        if (n == CAS_HEX - 1 && cas_is_hash(hash) && r->lib->entry_size(entry) == 0)
            return 1;
        return err_set(e, ERR_INVALID, "member '%.120s' is refused: it names no content", path);
    }
    return 0;
}

/* The content is not in the archive, and its size counts all the same. */
static int take_there(struct reader *r, const struct member *file, const char *hash, struct err *e)
{
    int64_t size;

    if (r->t->file_there(r->t, file->path, file->mode, file->mtime_ns, hash, &size, e) < 0)
        return -1;
    return members_count_bytes(r->m, file->path, size, e);
}

static int take_hard_link(struct reader *r, const char *path, const char *to, struct err *e)
{
    AUTO_FREE char *first = NULL;

    if (members_path(r->m, to, &first, e) < 0)
        return err_wrap(e, "'%.60s' is a hard link", path);
    struct member *target = map_str_get(&r->m->by_path, str_of(first));
    if (!target || target->type != 'f')
        return err_set(e, ERR_INVALID,
                       "member '%.120s' is refused: it is a hard link to something that is not an "
                       "earlier file of the archive",
                       path);
    if (!members_add(r->m, r->t, path, 'f', e))
        return -1;
    return r->t->hard_link(r->t, path, first, e);
}

/* The link is recorded now and made after all files, in take_rest. */
static int take_symlink(struct reader *r, const char *path, const char *to, int64_t mtime_ns,
                        struct err *e)
{
    if (members_check_link(r->m, path, to ? to : "", e) < 0)
        return -1;
    struct member *link = members_add(r->m, r->t, path, 'l', e);
    if (!link)
        return -1;
    link->link = xstrdup(to);
    link->mtime_ns = mtime_ns;
    return 0;
}

static int take_dir(struct reader *r, const char *path, mode_t mode, int64_t mtime_ns,
                    struct err *e)
{
    bool new = !map_str_get(&r->m->by_path, str_of(path));
    struct member *dir;

    if (!*path && new) { // the top itself, which is there already
        dir = xcalloc(1, sizeof(*dir));
        *dir = (struct member){.type = 'd', .path = xstrdup("")};
        vec_push(&r->m->list, dir);
        map_str_put(&r->m->by_path, STR(""), dir);
    } else if (!(dir = members_add(r->m, r->t, path, 'd', e)) ||
               (new && r->t->dir(r->t, path, e) < 0)) {
        return -1;
    }
    dir->mode = mode | 0700;
    dir->mtime_ns = mtime_ns;
    dir->told = true;
    return 0;
}

/* Clamped, so that seconds times 10^9 cannot overflow. */
static int64_t entry_time(struct reader *r, struct archive_entry *entry)
{
    const int64_t far = INT64_MAX / 1000000000 - 1;
    int64_t s = r->lib->entry_mtime(entry);

    return (s < 0 ? 0 : MIN(s, far)) * 1000000000 + r->lib->entry_mtime_nsec(entry);
}

/* Decides by type; anything but files, directories and links is refused. */
static int take_entry(struct reader *r, struct archive_entry *entry, struct err *e)
{
    const char *name = r->lib->entry_pathname(entry), *hard = r->lib->entry_hardlink(entry);
    mode_t mode = r->lib->entry_perm(entry) & 0777, type = r->lib->entry_filetype(entry);
    int64_t mtime_ns = entry_time(r, entry);
    AUTO_FREE char *path = NULL;
    char hash[CAS_HEX];

    if (members_path(r->m, name ? name : "", &path, e) < 0)
        return -1;
    if (hard)
        return take_hard_link(r, path, hard, e);
    if (type == AE_IFDIR)
        return take_dir(r, path, mode, mtime_ns, e);
    if (type == AE_IFLNK)
        return take_symlink(r, path, r->lib->entry_symlink(entry), mtime_ns, e);
    if (type != AE_IFREG)
        return err_set(
            e, ERR_INVALID,
            "member '%.120s' is refused: an archive may not hold devices, pipes or sockets", path);
    struct member *file = members_add(r->m, r->t, path, 'f', e);
    if (!file)
        return -1;
    file->mode = mode;
    file->mtime_ns = mtime_ns;
    int there = content_of(r, entry, path, hash, e);
    if (there != 0)
        return there < 0 ? -1 : take_there(r, file, hash, e);
    return tar_take_file(r, entry, file, e);
}

static int take_all(struct reader *r, struct err *e)
{
    struct archive_entry *entry;
    AUTO_FREE char *last = NULL;
    int rc;

    /* A warning is about a name that is not UTF-8 or the like: names are bytes here. */
    while ((rc = r->lib->read_next_header(r->tar, &entry)) == ARCHIVE_OK || rc == ARCHIVE_WARN) {
        if (take_entry(r, entry, e) < 0)
            return -1;
        const char *name = r->lib->entry_pathname(entry);
        free(last);
        last = xstrdup(name ? name : "");
    }
    if (rc != ARCHIVE_EOF)
        return tar_fail(r, last, e);
    if (!r->m->list.n)
        return err_set(e, ERR_INVALID, "the archive has no members");
    return 0;
}

/* Links, then times and modes of directories, innermost first: making a link touches both. */
static int take_rest(struct members *m, struct unpack_target *t, struct err *e)
{
    for (size_t i = 0; i < m->list.n; i++) {
        const struct member *l = m->list.p[i];
        if (l->type == 'l' && t->symlink(t, l->path, l->link, l->mtime_ns, e) < 0)
            return -1;
    }
    for (size_t i = m->list.n; i-- > 0;) {
        const struct member *d = m->list.p[i];
        if (d->type == 'd' && t->dir_done(t, d->path, d->mode, d->told ? d->mtime_ns : -1, e) < 0)
            return -1;
    }
    return 0;
}

int unpack_tar(tar_read_fn *read, void *ctx, struct members *m, struct unpack_target *t,
               struct err *e)
{
    const struct lib *lib = lib_get(e);

    if (!lib)
        return -1;
    struct reader r = {lib, lib->read_new(), read, ctx, m, t};
    if (!r.tar)
        return err_set(e, ERR_INTERNAL, "libarchive cannot create a reader");
    locale_t before = uselocale(lib->for_reading);
    int rc = -1;
    if (lib->read_support_format_tar(r.tar) != ARCHIVE_OK ||
        lib->read_open(r.tar, &r, NULL, tar_on_read, NULL) != ARCHIVE_OK)
        tar_fail(&r, NULL, e);
    else
        rc = take_all(&r, e);
    lib->read_free(r.tar);
    uselocale(before);
    return rc < 0 ? -1 : take_rest(m, t, e);
}
