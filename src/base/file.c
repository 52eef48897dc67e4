/* file.c - whole files, paths and directories
 *
 * Reads are bounded by the caller.  Writes that must survive a crash go through a temporary
 * file beside the target, so that a reader sees the old or the new content, never half of it.
 */
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return xstrdup(".");
    return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

static int sync_parent(const char *path, struct err *e)
{
    AUTO_FREE char *dir = parent_of(path);
    AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) < 0)
        return err_sys(e, "cannot sync directory %s", dir);
    return 0;
}

static int write_and_rename(int fd, const char *temp, const char *path, struct str bytes,
                            mode_t mode, struct err *e)
{
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

static int make_one(const char *path, mode_t mode, struct err *e)
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
        if (make_one(copy, mode, e) < 0)
            return -1;
        *c = '/';
    }
    return make_one(copy, mode, e);
}

/* A job may leave a tree deeper than there are descriptors: below this many levels a directory is
 * first moved up beside the top and emptied there. */
enum { REMOVE_DEPTH = 32 };

struct removal {
    int top;
    unsigned moved;
    struct err *e;
};

static int remove_children(struct removal *r, int dir_take, unsigned depth);

/* Makes a directory of ours readable again; through its descriptor, so that a link put in its
 * place meanwhile is not followed. */
static int unlock_dir_at(int dir, const char *name)
{
    AUTO_FD fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char proc[64];

    if (fd < 0)
        return -1;
    snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
    return chmod(proc, 0700);
}

static int open_dir_at(int dir, const char *name)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(dir, name, flags);

    if (fd >= 0 || errno != EACCES)
        return fd;
    if (unlock_dir_at(dir, name) < 0)
        return -1;
    return openat(dir, name, flags);
}

static int move_up(struct removal *r, int dir, const char *name)
{
    char to[64];

    for (;;) {
        snprintf(to, sizeof(to), ".removing-%u", r->moved++);
        if (renameat2(dir, name, r->top, to, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return err_sys(r->e, "cannot move directory %s away", name);
    }
}

static int remove_dir_at(struct removal *r, int dir, const char *name, unsigned depth)
{
    if (depth >= REMOVE_DEPTH)
        return move_up(r, dir, name);
    int fd = open_dir_at(dir, name);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_sys(r->e, "cannot open directory %s", name);
    if (remove_children(r, fd, depth + 1) < 0)
        return -1;
    if (unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_sys(r->e, "cannot remove directory %s", name);
    return 0;
}

static int remove_entry(struct removal *r, int dir, const char *name, unsigned depth)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno == EACCES && fchmod(dir, 0700) == 0 && unlinkat(dir, name, 0) == 0)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return err_sys(r->e, "cannot remove %s", name);
    return remove_dir_at(r, dir, name, depth);
}

static int remove_children(struct removal *r, int dir_take, unsigned depth)
{
    DIR *d = fdopendir(dir_take);
    int rc = 0;

    if (!d) {
        err_sys(r->e, "cannot list a directory");
        close(dir_take);
        return -1;
    }
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(d);
        if (!entry) {
            if (errno)
                rc = err_sys(r->e, "cannot list a directory");
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        rc = remove_entry(r, dirfd(d), entry->d_name, depth);
        if (rc < 0)
            break;
    }
    closedir(d);
    return rc;
}

int dir_remove_tree(const char *path, struct err *e)
{
    AUTO_FD top = open_dir_at(AT_FDCWD, path);

    if (top < 0) {
        if (errno == ENOENT || ((errno == ENOTDIR || errno == ELOOP) && unlink(path) == 0))
            return 0;
        return err_sys(e, "cannot remove %s", path);
    }
    struct removal r = {.top = top, .e = e};
    for (;;) {
        unsigned moved = r.moved;
        int again = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (again < 0)
            return err_sys(e, "cannot open directory %s", path);
        if (remove_children(&r, again, 1) < 0)
            return err_wrap(e, "removing %s", path);
        if (r.moved == moved)
            break;
    }
    if (rmdir(path) < 0 && errno != ENOENT)
        return err_sys(e, "cannot remove directory %s", path);
    return 0;
}

char *path_join(const char *dir, const char *name)
{
    if (name[0] == '/' || !dir[0])
        return xstrdup(name);
    return xasprintf("%s%s%s", dir, dir[strlen(dir) - 1] == '/' ? "" : "/", name);
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
