/* eio.c - a disk that fails: preloaded, writes and syncs of some files get EIO for a while
 *
 * While the file $EIO_WHEN exists, every write to a file whose path has $EIO_NAME in it fails, and
 * every sync of one; with $EIO_SYNCS_ONLY only syncs fail.  Reads go on.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool fails(int fd)
{
    const char *when = getenv("EIO_WHEN"), *name = getenv("EIO_NAME");
    char link[64], path[4096];
    int saved = errno;
    bool yes = false;

    if (when && name && access(when, F_OK) == 0) {
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, path, sizeof(path) - 1);
        path[n > 0 ? n : 0] = 0;
        yes = strstr(path, name);
    }
    errno = yes ? EIO : saved;
    return yes;
}

static bool write_fails(int fd)
{
    return !getenv("EIO_SYNCS_ONLY") && fails(fd);
}

#define NEXT(fn) ((__typeof__(&fn))dlsym(RTLD_NEXT, #fn))

/* The headers make one name of these two, and SQLite may use either. */
ssize_t pwrite_plain(int fd, const void *p, size_t n, off_t at) __asm__("pwrite");
ssize_t pwrite_plain(int fd, const void *p, size_t n, off_t at)
{
    return write_fails(fd) ? -1
                           : ((__typeof__(&pwrite_plain))dlsym(RTLD_NEXT, "pwrite"))(fd, p, n, at);
}

ssize_t pwrite_large(int fd, const void *p, size_t n, off_t at) __asm__("pwrite64");
ssize_t pwrite_large(int fd, const void *p, size_t n, off_t at)
{
    return write_fails(fd)
               ? -1
               : ((__typeof__(&pwrite_large))dlsym(RTLD_NEXT, "pwrite64"))(fd, p, n, at);
}

ssize_t write(int fd, const void *p, size_t n)
{
    return write_fails(fd) ? -1 : NEXT(write)(fd, p, n);
}

int fsync(int fd)
{
    return fails(fd) ? -1 : NEXT(fsync)(fd);
}

int fdatasync(int fd)
{
    return fails(fd) ? -1 : NEXT(fdatasync)(fd);
}
