/* file.c - whole files, paths and directories
 *
 * Reads are bounded by the caller.  Writes that must survive a crash go through a temporary
 * file beside the target, so that a reader sees the old or the new content, never half of it.
 */
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The caller puts the path before this text with err_wrap. */
static int too_large(size_t max, struct err *e)
{
    char limit[UNIT_TEXT_MAX];

    size_format((int64_t)MIN(max, (size_t)INT64_MAX), limit);
    return err_set(e, ERR_LIMIT, "it is larger than %s", limit);
}

int fd_read_all(int fd, size_t max, char **out, size_t *out_n, struct err *e)
{
    AUTO(buf) struct buf b = {0};
    struct stat st;
    size_t step = 65536;

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        /* One byte more than the size, so that one read gets all and the next one finds the
         * end.  The size is only a hint: a file may grow meanwhile, and /proc reports 0. */
        step = MIN((size_t)st.st_size, max) + 1;
    for (;;) {
        char *to = buf_reserve(&b, step);
        if (!to)
            return too_large(max, e);
        ssize_t n = read(fd, to, step);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "cannot read");
        if (n == 0)
            break;
        b.n += (size_t)n;
        if (b.n > max)
            return too_large(max, e);
        step = MAX(MIN(step, (size_t)1 << 20), 4096);
    }
    char *to = buf_reserve(&b, 0);
    *to = '\0';
    *out = buf_take(&b, out_n);
    return 0;
}

int file_read_all(const char *path, size_t max, char **out, size_t *out_n, struct err *e)
{
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_sys(e, "cannot open %s", path);
    if (fd_read_all(fd, max, out, out_n, e) < 0)
        return err_wrap(e, "reading %s", path);
    return 0;
}

int fd_write_all(int fd, const void *p, size_t n, struct err *e)
{
    const char *at = p;

    while (n > 0) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_sys(e, "cannot write");
        at += done;
        n -= (size_t)done;
    }
    return 0;
}

static char *path_parent(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return xstrdup(".");
    return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

/* Without this fsync a power failure may undo the rename although the content is on disk. */
static int sync_parent(const char *path, struct err *e)
{
    AUTO_FREE char *dir = path_parent(path);
    AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) < 0)
        return err_sys(e, "cannot sync directory %s", dir);
    return 0;
}

static int write_and_rename(int fd, const char *temp, const char *path, struct str bytes,
                            mode_t mode, struct err *e)
{
    /* mkostemp creates with 0600; fchmod is not subject to the umask. */
    if (fchmod(fd, mode) < 0)
        return err_sys(e, "cannot set the mode of %s", temp);
    if (fd_write_all(fd, bytes.p, bytes.n, e) < 0)
        return err_wrap(e, "writing %s", path);
    if (fsync(fd) < 0)
        return err_sys(e, "cannot sync %s", temp);
    if (rename(temp, path) < 0)
        return err_sys(e, "cannot rename %s to %s", temp, path);
    return sync_parent(path, e);
}

int file_write_atomic(const char *path, const void *p, size_t n, mode_t mode, struct err *e)
{
    AUTO_FREE char *temp = xasprintf("%s.XXXXXX", path);
    AUTO_FD fd = mkostemp(temp, O_CLOEXEC);

    if (fd < 0)
        return err_sys(e, "cannot create a file beside %s", path);
    if (write_and_rename(fd, temp, path, (struct str){p, n}, mode, e) < 0) {
        unlink(temp);
        return -1;
    }
    return 0;
}

/* The error of mkdir is not enough: on a read-only file system or without permission mkdir fails
 * also for a directory that exists. */
static int dir_make_one(const char *path, mode_t mode, struct err *e)
{
    struct stat st;

    if (mkdir(path, mode) == 0)
        return 0;
    int why = errno;
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return 0;
        why = ENOTDIR;
    }
    errno = why;
    return err_sys(e, "cannot create directory %s", path);
}

int dir_make_all(const char *path, mode_t mode, struct err *e)
{
    AUTO_FREE char *copy = xstrdup(path);

    if (!*copy)
        return err_set(e, ERR_INVALID, "cannot create a directory without a name");
    for (char *c = copy + 1; *c; c++) {
        if (*c != '/' || c[-1] == '/')
            continue;
        *c = '\0';
        if (dir_make_one(copy, mode, e) < 0)
            return -1;
        *c = '/';
    }
    return dir_make_one(copy, mode, e);
}

char *path_join(const char *dir, const char *name)
{
    if (name[0] == '/' || !dir[0])
        return xstrdup(name);
    return xasprintf("%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", name);
}

bool path_has_dots(struct str path)
{
    while (path.n) {
        struct str name = str_cut(path, '/', &path);
        if (str_eq_c(name, ".") || str_eq_c(name, ".."))
            return true;
    }
    return false;
}

char *path_absolute(const char *path, const char *cwd)
{
    AUTO_FREE char *joined = path_join(cwd, path);
    struct str rest = str_of(joined);
    struct buf out = {0};

    while (rest.n > 0) {
        struct str part = str_cut(rest, '/', &rest);
        if (part.n == 0 || str_eq_c(part, "."))
            continue;
        if (str_eq_c(part, "..")) {
            char *slash = out.p ? strrchr(out.p, '/') : NULL;
            if (slash) {
                *slash = '\0';
                out.n = (size_t)(slash - out.p);
            }
            continue;
        }
        buf_addc(&out, '/');
        buf_add(&out, part.p, part.n);
    }
    if (out.n == 0)
        buf_addc(&out, '/');
    return buf_take(&out, NULL);
}

char *path_from_here(const char *path)
{
    char cwd[4096];

    return path_absolute(path, getcwd(cwd, sizeof(cwd)) ? cwd : "/");
}
