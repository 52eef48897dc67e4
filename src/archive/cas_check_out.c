/* cas_check_out.c - a writable copy of a tree, and the record that makes keeping it cheap */
#include "archive/cas_priv.h"
#include "archive/partial_priv.h"
#include "archive/watch_priv.h"
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

enum { STEP = 8 << 20 };

struct check_out {
    struct cas *c;
    struct manifest m;
    struct partial dest;
    struct buf record;
    struct watch watch;
};

/* Clones the blocks where the file system can, else copies inside the kernel, else through a
 * buffer.  Reports progress and looks for cancelling every 8 MiB. */
static int copy_bytes(struct check_out *o, int from, int to, int64_t size, struct err *e)
{
    int64_t left = size;

    if (fd_clone(from, to) == 0)
        return watch_add(&o->watch, size, 0, e);
    while (left > 0) {
        ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)MIN(left, (int64_t)STEP), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        left -= n;
        if (watch_add(&o->watch, n, 0, e) < 0)
            return -1;
    }
    AUTO_FREE char *chunk = left > 0 ? xmalloc(STEP) : NULL;
    while (left > 0) {
        ssize_t n = read(from, chunk, STEP);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(e, ERR_INTERNAL, "a content in the store %s is too short", o->c->dir);
        if (fd_write_all(to, chunk, (size_t)n, e) < 0 || watch_add(&o->watch, n, 0, e) < 0)
            return -1;
        left -= n;
    }
    return 0;
}

/* The record of the new file (known_note) lets cas_keep_tree skip reading it while it is
 * untouched. */
static int check_out_file(struct check_out *o, const struct manifest_entry *f, struct err *e)
{
    AUTO_FD to = openat(o->dest.fd, f->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, ns_timespec(f->mtime_ns)};
    struct stat st;

    if (to < 0)
        return err_sys(e, "cannot create %s", f->path);
    if (f->size) {
        AUTO_FD from = blob_open(o->c, f->hash, e);
        if (from < 0 || copy_bytes(o, from, to, f->size, e) < 0)
            return err_wrap(e, "writing %s", f->path);
    }
    if (fchmod(to, f->mode) < 0 || futimens(to, times) < 0 || fstat(to, &st) < 0)
        return err_sys(e, "cannot finish %s", f->path);
    known_note(&o->record, &st, f->hash);
    return 0;
}

static int make_entry(struct check_out *o, const struct manifest_entry *n, struct err *e)
{
    if (!*n->path)
        return 0;
    if (n->type == 'f')
        return check_out_file(o, n, e);
    if (n->type == 'd')
        return mkdirat(o->dest.fd, n->path, 0700) < 0 ? err_sys(e, "cannot create %s", n->path) : 0;
    if (symlinkat(n->target, o->dest.fd, n->path) < 0 ||
        path_set_mtime(o->dest.fd, n->path, n->mtime_ns) < 0)
        return err_sys(e, "cannot create link %s", n->path);
    return 0;
}

/* ext4 puts new directories near their parent, where without a journal it passes over inodes freed
 * during the last minutes one by one.  Working directories come and go by the thousand: the 2 000
 * files of one then take 1 s of CPU instead of 0.1 s.  Marked as the top of a hierarchy, the parent
 * has its directories spread over the disk.  Other file systems ignore it, and so do we. */
static void spread_beside(const char *dest)
{
    const char *slash = strrchr(dest, '/');
    AUTO_FREE char *parent = slash > dest ? xstrndup(dest, (size_t)(slash - dest)) : xstrdup(".");
    AUTO_FD fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int flags;

    if (fd >= 0 && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_TOPDIR_FL)) {
        flags |= FS_TOPDIR_FL;
        ioctl(fd, FS_IOC_SETFLAGS, &flags);
    }
}

/* The tree is made under a temporary name and renamed at the end, so a crash leaves no half of
 * it. */
static int check_out_all(struct check_out *o, const char *name, const char *dest, struct err *e)
{
    if (cas_read_manifest(o->c, name, &o->m, e) < 0)
        return -1;
    spread_beside(dest);
    if (partial_open(&o->dest, dest, e) < 0)
        return -1;
    for (size_t i = 0; i < o->m.entries.n; i++)
        if (make_entry(o, &o->m.entries.p[i], e) < 0 || watch_add(&o->watch, 0, 1, e) < 0)
            return -1;
    if (tree_finish_dirs(&o->m, o->dest.fd, e) < 0 ||
        known_save(o->c, o->dest.fd, &o->record, e) < 0)
        return -1;
    return partial_commit(&o->dest, false, e);
}

int cas_check_out(struct cas *c, const char *name, const char *dest, const struct archive_watch *w,
                  struct err *e)
{
    struct check_out o = {.c = c, .dest = {.fd = -1}};
    AUTO_FD lock = cas_lock(c, false, e);

    if (lock < 0)
        return -1;
    watch_init(&o.watch, w);
    int rc = check_out_all(&o, name, dest, e);
    if (rc < 0)
        err_wrap(e, "checking out %s", name);
    partial_done(&o.dest);
    manifest_done(&o.m);
    buf_done(&o.record);
    return rc;
}
