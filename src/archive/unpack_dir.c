/* unpack_dir.c - the target that unpacks a tree as a directory
 *
 * Every file is opened below one descriptor with openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS):
 * even if the checks in unpack_check.c had a hole, no name could lead out of the directory.  The
 * directory has a temporary name (partial_priv.h) until dir_commit.
 */
#include "archive/cas_priv.h"
#include "archive/partial_priv.h"
#include "archive/unpack_priv.h"
#include "base/file.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

struct dir_target {
    struct unpack_target t;
    struct partial partial;
    int fd; /* the file under way */
    mode_t mode;
    int64_t mtime_ns;
};

static struct dir_target *dir_target_of(struct unpack_target *t)
{
    return (struct dir_target *)t;
}

/* The kernel refuses names that lead out of the directory or through a link. */
static int open_beneath(int dir, const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
                           .mode = flags & O_CREAT ? mode : 0,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

    if (fd < 0 && errno == ENOSYS) // before Linux 5.6, and under some sandboxes
        fd = openat(dir, path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
    return (int)fd;
}

/* The directory a path is in, and its last component. */
static int open_parent(struct dir_target *d, const char *path, const char **name, struct err *e)
{
    const char *slash = strrchr(path, '/');
    AUTO_FREE char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
    int fd = open_beneath(d->partial.fd, parent, O_PATH | O_DIRECTORY, 0);

    *name = slash ? slash + 1 : path;
    return fd < 0 ? err_sys(e, "cannot open directory %s", parent) : fd;
}

static int target_make_dir(struct unpack_target *t, const char *path, struct err *e)
{
    const char *name;
    AUTO_FD parent = open_parent(dir_target_of(t), path, &name, e);

    if (parent < 0)
        return -1;
    return mkdirat(parent, name, 0700) < 0 ? err_sys(e, "cannot create directory %s", path) : 0;
}

static int target_file_open(struct unpack_target *t, const char *path, mode_t mode,
                            int64_t mtime_ns, struct err *e)
{
    struct dir_target *d = dir_target_of(t);

    d->fd = open_beneath(d->partial.fd, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    d->mode = mode;
    d->mtime_ns = mtime_ns;
    return d->fd < 0 ? err_sys(e, "cannot create %s", path) : 0;
}

int unpack_write_at(int fd, const void *p, size_t n, int64_t offset, struct err *e)
{
    const char *at = p;

    while (n > 0) {
        ssize_t done = pwrite(fd, at, n, offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_sys(e, "cannot write");
        at += done;
        offset += done;
        n -= (size_t)done;
    }
    return 0;
}

static int target_file_write(struct unpack_target *t, const void *p, size_t n, int64_t offset,
                             struct err *e)
{
    return unpack_write_at(dir_target_of(t)->fd, p, n, offset, e);
}

/* Mode and time are set at the end: writing would change the time. */
static int target_file_close(struct unpack_target *t, int64_t size, struct err *e)
{
    struct dir_target *d = dir_target_of(t);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, ns_timespec(d->mtime_ns)};
    AUTO_FD fd = TAKE_FD(d->fd);

    if (ftruncate(fd, size) < 0 || fchmod(fd, d->mode) < 0 || futimens(fd, times) < 0)
        return err_sys(e, "cannot finish a file");
    return 0;
}

static int target_hard_link(struct unpack_target *t, const char *path, const char *to,
                            struct err *e)
{
    const char *name, *to_name;
    AUTO_FD parent = open_parent(dir_target_of(t), path, &name, e);
    AUTO_FD to_parent = parent < 0 ? -1 : open_parent(dir_target_of(t), to, &to_name, e);

    if (parent < 0 || to_parent < 0)
        return -1;
    return linkat(to_parent, to_name, parent, name, 0) < 0 ? err_sys(e, "cannot link %s", path) : 0;
}

static int make_symlink(struct unpack_target *t, const char *path, const char *to, int64_t mtime_ns,
                        struct err *e)
{
    const char *name;
    AUTO_FD parent = open_parent(dir_target_of(t), path, &name, e);

    if (parent < 0)
        return -1;
    if (symlinkat(to, parent, name) < 0 || path_set_mtime(parent, name, mtime_ns) < 0)
        return err_sys(e, "cannot create link %s", path);
    return 0;
}

/* A negative time means that the archive did not name the directory; it keeps the time of now. */
static int target_dir_done(struct unpack_target *t, const char *path, mode_t mode, int64_t mtime_ns,
                           struct err *e)
{
    AUTO_FD fd =
        open_beneath(dir_target_of(t)->partial.fd, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, ns_timespec(MAX(mtime_ns, 0))};

    if (fd < 0 || fchmod(fd, mode) < 0 || (mtime_ns >= 0 && futimens(fd, times) < 0))
        return err_sys(e, "cannot finish directory %s", path);
    return 0;
}

static int dir_commit(struct unpack_target *t, struct err *e)
{
    return partial_commit(&dir_target_of(t)->partial, false, e);
}

static void dir_free(struct unpack_target *t)
{
    struct dir_target *d = dir_target_of(t);

    if (d->fd >= 0)
        close(d->fd);
    partial_done(&d->partial);
    free(d);
}

struct unpack_target *unpack_dir_new(const char *dest, struct err *e)
{
    struct dir_target *d = xcalloc(1, sizeof(*d));

    d->t = (struct unpack_target){
        target_make_dir,  target_file_open, target_file_write, target_file_close, NULL,
        target_hard_link, make_symlink,     target_dir_done,   dir_commit,        dir_free};
    d->fd = -1;
    if (partial_open(&d->partial, dest, e) < 0) {
        free(d);
        return NULL;
    }
    if (fchmod(d->partial.fd, 0755) < 0) {
        err_sys(e, "cannot set the mode of %s", dest);
        dir_free(&d->t);
        return NULL;
    }
    return &d->t;
}
