/* pack.c - the tar writer: libarchive makes the headers, gzip.c the compression
 *
 * A file is read after its size was written down.  When it is shorter by then, libarchive fills
 * the rest with zeros; what was added meanwhile is not read.  Holes of large files are found with
 * SEEK_HOLE and kept as holes.
 *
 * Times are whole seconds and owners 0: what differs between two packings of equal directories is
 * only what a user would call a difference.
 */
#include "archive/contents_priv.h"
#include "archive/lib_priv.h"
#include "archive/pack_priv.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { CHUNK = 256 << 10, SPARSE_FROM = 1 << 20 };

struct packer {
    const struct lib *lib;
    struct archive *tar;
    struct archive_entry *entry;
    struct gzip *gzip;
    struct pack_source *source;
    struct watch watch;
    struct err *e;    /* of the call under way, for the callback */
    bool failed;      /* the sink said no; its reason is in e already */
    int fd;           /* the file being read, or -1 */
    int64_t at, size; /* of it: how far, how long */
    bool sparse;      /* it has holes; the data at or behind `at` are … */
    int64_t data_from, data_to;
    char *path;
    char chunk[CHUNK];
};

static la_ssize_t on_tar_bytes(struct archive *a, void *ctx, const void *p, size_t n)
{
    struct packer *k = ctx;

    if (!k->failed && gzip_add(k->gzip, p, n, k->e) == 0)
        return (la_ssize_t)n;
    k->failed = true;
    k->lib->set_error(a, EPIPE, "the receiver has ended");
    return -1;
}

/* Always -1.  An error of the sink is in e already and is not replaced by libarchive's. */
static int pack_fail(struct packer *p, struct err *e)
{
    const char *why = p->lib->error_string(p->tar);

    if (p->failed)
        return -1;
    return err_set(e, ERR_INTERNAL, "cannot pack %s: %s", p->path ? p->path : "the bundle",
                   why ? why : "libarchive gives no reason");
}

/* Zero bytes per block: libarchive hands its output on as it comes, and gzip.c gathers it. */
int packer_new(struct pack_source *source_take, const struct archive_watch *w, gzip_out_fn *out,
               void *ctx, struct packer **result, struct err *e)
{
    const struct lib *lib = lib_get(e);

    if (!lib) {
        source_take->free(source_take);
        return -1;
    }
    struct packer *p = xcalloc(1, sizeof(*p));
    p->lib = lib;
    p->source = source_take;
    p->fd = -1;
    p->e = e;
    watch_init(&p->watch, w);
    p->gzip = gzip_new(out, ctx);
    p->tar = lib->write_new();
    p->entry = lib->entry_new();
    bool ready = p->tar && p->entry && lib->write_set_format_pax_restricted(p->tar) == ARCHIVE_OK &&
                 lib->write_set_bytes_per_block(p->tar, 0) == ARCHIVE_OK &&
                 lib->write_open(p->tar, p, NULL, on_tar_bytes, NULL) == ARCHIVE_OK;
    return HAND_OUT(ready ? 0 : pack_fail(p, e), result, p, packer_free);
}

void packer_free(struct packer *p)
{
    if (!p)
        return;
    p->lib->entry_free(p->entry);
    p->failed = true; // nothing more goes out: it would still write the rest of what was begun
    if (p->tar)
        p->lib->write_free(p->tar);
    if (p->fd >= 0)
        close(p->fd);
    gzip_free(p->gzip);
    p->source->free(p->source);
    free(p->path);
    free(p);
}

/* Tells libarchive where the data are, so that holes need no room in the tar. */
static void note_holes(struct packer *p)
{
    struct stat st;

    if (p->size < SPARSE_FROM || fstat(p->fd, &st) < 0 || (int64_t)st.st_blocks * 512 >= p->size)
        return;
    for (off_t at = 0; at < p->size;) {
        off_t from = lseek(p->fd, at, SEEK_DATA);
        off_t to = from < 0 ? -1 : lseek(p->fd, from, SEEK_HOLE);
        if (from >= p->size || (from < 0 && errno == ENXIO))
            break;
        if (from < 0 || to < 0)
            return; // this file system does not know
        p->lib->entry_sparse_add_entry(p->entry, from, MIN(to, p->size) - from);
        at = to;
    }
    p->lib->entry_sparse_add_entry(p->entry, p->size, 0); // so that the end is known
    p->sparse = true;
}

/* libarchive writes a pax record where ustar has no room for a name or a size. */
static int write_header(struct packer *p, const struct pack_item *item, struct err *e)
{
    const struct lib *lib = p->lib;
    bool is_dir = S_ISDIR(item->mode);
    AUTO_FREE char *dir_path = is_dir ? xasprintf("%s/", item->path) : NULL;

    lib->entry_clear(p->entry);
    lib->entry_copy_pathname(p->entry, is_dir ? dir_path : item->path);
    lib->entry_set_filetype(p->entry, item->mode & S_IFMT);
    lib->entry_set_perm(p->entry, item->mode & 07777);
    lib->entry_set_mtime(p->entry, (time_t)item->mtime_s, 0);
    lib->entry_set_size(p->entry, S_ISREG(item->mode) ? item->size : 0);
    if (S_ISLNK(item->mode))
        lib->entry_copy_symlink(p->entry, item->link);
    if (p->fd >= 0)
        note_holes(p);
    if (item->content)
        lib->entry_xattr_add_entry(p->entry, CONTENT_ATTRIBUTE, item->content,
                                   strlen(item->content));
    int rc = lib->write_header(p->tar, p->entry);
    return rc == ARCHIVE_OK || rc == ARCHIVE_WARN ? 0 : pack_fail(p, e);
}

static int write_bytes(struct packer *p, const void *bytes, size_t n, struct err *e)
{
    for (const char *at = bytes; n > 0;) {
        la_ssize_t done = p->lib->write_data(p->tar, at, n);
        if (done <= 0)
            return pack_fail(p, e);
        at += done;
        n -= (size_t)done;
    }
    return 0;
}

/* An item made of bytes is written at once; a file is read piece by piece in later steps. */
static int begin_item(struct packer *p, const struct pack_item *item, struct err *e)
{
    free(p->path);
    p->path = xstrdup(item->path);
    p->fd = S_ISREG(item->mode) ? item->fd : -1;
    p->at = p->data_from = p->data_to = 0;
    p->sparse = false;
    p->size = S_ISREG(item->mode) ? item->size : 0;
    if (write_header(p, item, e) < 0)
        return -1;
    if (p->fd < 0 && p->size && write_bytes(p, item->bytes, (size_t)p->size, e) < 0)
        return -1;
    if (p->fd < 0 && p->lib->write_finish_entry(p->tar) < ARCHIVE_WARN)
        return pack_fail(p, e);
    return watch_add(&p->watch, p->fd < 0 ? p->size : 0, 1, e);
}

static int end_file(struct packer *p, struct err *e)
{
    close(TAKE_FD(p->fd));
    return p->lib->write_finish_entry(p->tar) < ARCHIVE_WARN ? pack_fail(p, e) : 0;
}

/* Looks for the next data of a file with holes. */
static void find_data(struct packer *p)
{
    off_t from = lseek(p->fd, p->at, SEEK_DATA);
    off_t to = from < 0 ? -1 : lseek(p->fd, from, SEEK_HOLE);

    p->data_from = from < 0 ? p->size : MIN((int64_t)from, p->size);
    p->data_to = to < 0 ? p->size : (int64_t)to;
}

/* The next bytes of the open file at *out; -1 with errno set.  Holes are not read: what they would
 * give is known, and libarchive leaves them out anyway. */
static ssize_t read_some(struct packer *p, const char **out)
{
    static char zeros[CHUNK];
    size_t want = (size_t)MIN((int64_t)CHUNK, p->size - p->at);
    ssize_t n;

    if (p->sparse && p->at >= p->data_to)
        find_data(p);
    if (p->sparse && p->at < p->data_from) {
        *out = zeros;
        return (ssize_t)MIN((int64_t)want, p->data_from - p->at);
    }
    if (p->sparse)
        want = (size_t)MIN((int64_t)want, p->data_to - p->at);
    *out = p->chunk;
    do
        n = pread(p->fd, p->chunk, want, p->at);
    while (n < 0 && errno == EINTR);
    return n;
}

static int continue_file(struct packer *p, struct err *e)
{
    if (p->at == p->size) {
        struct stat st;
        if (fstat(p->fd, &st) == 0 && st.st_size > p->size)
            watch_warn(&p->watch, "%s grew while it was packed; its new end is left out", p->path);
        return end_file(p, e);
    }
    const char *bytes;
    ssize_t n = read_some(p, &bytes);
    if (n <= 0) {
        watch_warn(&p->watch, "%s %s while it was packed; the missing part is filled with zeros",
                   p->path, n == 0 ? "shrank" : "could not be read");
        return end_file(p, e);
    }
    p->at += n;
    if (write_bytes(p, bytes, (size_t)n, e) < 0)
        return -1;
    return watch_add(&p->watch, n, 0, e);
}

/* One piece of work: a chunk of the open file, or the next entry, or the end of the archive. */
static int pack_step(struct packer *p, struct err *e)
{
    struct pack_item item = {.fd = -1};

    if (p->fd >= 0)
        return continue_file(p, e) < 0 ? -1 : 1;
    int rc = p->source->next(p->source, &item, &p->watch, e);
    if (rc < 0)
        return -1;
    if (rc > 0)
        return begin_item(p, &item, e) < 0 ? -1 : 1;
    if (p->lib->write_close(p->tar) != ARCHIVE_OK)
        return pack_fail(p, e);
    return gzip_end(p->gzip, e);
}

/* libarchive translates names by the locale of the thread, so every step sets that locale. */
int packer_step(struct packer *p, struct err *e)
{
    locale_t before = uselocale(p->lib->for_writing);

    p->e = e;
    int rc = pack_step(p, e);
    uselocale(before);
    return rc;
}
