/* backup_file.c - one entry of a home on its way into a backup or out of it
 *
 * Sources are opened through the directory that holds them and never through a link, because in a
 * home of several users a job's directory belongs to its user, who may exchange entries meanwhile.
 */
#include "archive/backup_priv.h"
#include "archive/cas_priv.h"
#include "base/file.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>

enum { COPY_STEP = 8 << 20, CHUNK = 256 << 10 };

/* Digits only, at most 18 of them. */
static bool take_number(const char **p, uint64_t *out)
{
    const char *from = *p;

    for (*out = 0; **p >= '0' && **p <= '9' && *p - from < 18; ++*p)
        *out = *out * 10 + (uint64_t)(**p - '0');
    return *p > from;
}

bool backup_run_of(const char *path, uint64_t *job, uint32_t *run, const char **rest)
{
    uint64_t dir, n;
    const char *p = path;

    if (strncmp(p, "runs/", 5) != 0)
        return false;
    p += 5;
    if (!take_number(&p, &dir) || *p++ != '/' || !take_number(&p, job) || *p++ != '.' ||
        !take_number(&p, &n) || n > UINT32_MAX)
        return false;
    const char *slash = strchr(p, '/');
    *rest = slash ? slash + 1 : "";
    *run = (uint32_t)n;
    return true;
}

/* Like the data in `from`, without its holes: logs under a limit and sparse results stay small. */
static int copy_range(int from, int to, int64_t at, int64_t end, struct err *e)
{
    AUTO_FREE char *chunk = NULL;
    off_t in = at, out = at;

    while (in < end) {
        size_t want = (size_t)MIN(end - in, (int64_t)COPY_STEP);
        ssize_t n = chunk ? -1 : copy_file_range(from, &in, to, &out, want, 0);
        if (n < 0 && !chunk) {
            if (errno == EINTR)
                continue;
            if (errno == ENOSPC || errno == EDQUOT)
                return err_sys(e, "cannot write");
            chunk = xmalloc(CHUNK); /* not between these file systems */
        }
        if (chunk) {
            n = pread(from, chunk, MIN(want, (size_t)CHUNK), in);
            if (n < 0)
                return err_sys(e, "cannot read");
            if (n > 0 && pwrite(to, chunk, (size_t)n, out) != n)
                return err_sys(e, "cannot write");
            in += n;
            out += n;
        }
        if (n == 0)
            return 0; /* it became shorter meanwhile */
    }
    return 0;
}

static int copy_data(int from, int to, int64_t size, struct err *e)
{
    for (int64_t at = 0; at < size;) {
        off_t data = lseek(from, at, SEEK_DATA), hole;
        if (data < 0 && errno == ENXIO)
            break; /* a hole up to the end */
        if (data < 0)
            return copy_range(from, to, at, size, e);
        hole = lseek(from, data, SEEK_HOLE);
        int64_t end = hole < 0 ? size : MIN((int64_t)hole, size);
        if (data < end && copy_range(from, to, data, end, e) < 0)
            return -1;
        at = MAX(end, (int64_t)data);
    }
    return ftruncate(to, size) < 0 ? err_sys(e, "cannot write") : 0;
}

int backup_copy_in(int dir, const char *name, int to, const char *path, enum backup_how *how,
                   int64_t *out_bytes, struct err *e)
{
    AUTO_FD from = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (from < 0 && (errno == ENOENT || errno == ELOOP))
        return err_set(e, ERR_NOT_FOUND, "it vanished meanwhile");
    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(e, "cannot read %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_NOT_FOUND, "it is no file any more");
    AUTO_FD fd = openat(to, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, "cannot create %s", path);
    *how = fd_clone(from, fd) == 0 ? BACKUP_CLONE : BACKUP_COPY;
    if (*how == BACKUP_COPY && copy_data(from, fd, st.st_size, e) < 0)
        return err_wrap(e, "copying %s", path);
    /* Only root may give files away; of others every file is their own already.  The owner comes
     * first, because the kernel drops set-user-id bits with a change of owner. */
    if ((st.st_uid != geteuid() || st.st_gid != getegid()) && fchown(fd, st.st_uid, st.st_gid) < 0)
        errno = 0;
    fchmod(fd, st.st_mode & 07777);
    futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim});
    *out_bytes = st.st_size;
    return 0;
}

int backup_copy_file(const char *from, const char *to, struct err *e)
{
    enum backup_how how;
    int64_t bytes;

    return backup_copy_in(AT_FDCWD, from, AT_FDCWD, to, &how, &bytes, e);
}

int backup_copy_link(int dir, const char *name, int to, const char *path, struct err *e)
{
    char target[4096];
    ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);
    struct stat st;

    if (n < 0)
        return err_set(e, ERR_NOT_FOUND, "it vanished meanwhile");
    target[n] = '\0';
    if (symlinkat(target, to, path) < 0)
        return err_sys(e, "cannot create %s", path);
    if (geteuid() == 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        fchownat(to, path, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        errno = 0; /* the link itself is what matters */
    return 0;
}

int backup_make_dir(int to, const char *path, const struct stat *st, struct err *e)
{
    if (mkdirat(to, path, 0700) < 0)
        return errno == EEXIST ? 0 : err_sys(e, "cannot create directory %s", path);
    AUTO_FD fd = openat(to, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "cannot open directory %s", path);
    if (geteuid() == 0 && fchown(fd, st->st_uid, st->st_gid) < 0)
        return err_sys(e, "cannot set the owner of %s", path);
    if (fchmod(fd, (st->st_mode & 07777) | 0700) < 0)
        return err_sys(e, "cannot set the mode of %s", path);
    return 0;
}
