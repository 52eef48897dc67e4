/* quota.c - a disk quota that is used up: preloaded, what takes space below a directory fails
 *
 * While the file $QUOTA_WHEN exists, every write to a file below $QUOTA_DIR, every allocation for
 * one and every new file there fails with EDQUOT.  Reads go on.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the quota is that of this program: its name begins with $QUOTA_PROGRAM. */
static bool is_meant(void)
{
    const char *program = getenv("QUOTA_PROGRAM");
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

    path[n > 0 ? n : 0] = 0;
    const char *slash = strrchr(path, '/');
    return !program || (slash && strncmp(slash + 1, program, strlen(program)) == 0);
}

static bool used_up(void)
{
    const char *when = getenv("QUOTA_WHEN");
    int saved = errno;
    bool yes = when && access(when, F_OK) == 0 && is_meant();

    errno = saved;
    return yes;
}

/* A relative path is below the directory when the process is. */
static bool is_below(const char *path)
{
    const char *dir = getenv("QUOTA_DIR");
    char here[PATH_MAX] = "";

    if (path[0] != '/' && (!getcwd(here, sizeof(here))))
        return false;
    return dir && strncmp(here[0] ? here : path, dir, strlen(dir)) == 0;
}

static bool refuse_fd(int fd)
{
    char link[64], path[PATH_MAX];
    int saved = errno;

    if (!used_up())
        return false;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = 0;
    bool yes = is_below(path);
    errno = yes ? EDQUOT : saved;
    return yes;
}

static bool refuse_open(const char *path, int flags)
{
    if (!(flags & O_CREAT) && (flags & O_TMPFILE) != O_TMPFILE)
        return false;
    if (!used_up() || !is_below(path) || access(path, F_OK) == (flags & O_CREAT ? 0 : -1))
        return false;
    errno = EDQUOT;
    return true;
}

typedef ssize_t write_fn(int fd, const void *p, size_t n);
ssize_t write(int fd, const void *p, size_t n)
{
    return refuse_fd(fd) ? -1 : ((write_fn *)dlsym(RTLD_NEXT, "write"))(fd, p, n);
}

/* The headers make one name of two, and programs use either. */
typedef ssize_t pwrite_fn(int fd, const void *p, size_t n, off_t at);
#define PWRITE(c_name, name)                                                                       \
    ssize_t c_name(int fd, const void *p, size_t n, off_t at) __asm__(name);                       \
    ssize_t c_name(int fd, const void *p, size_t n, off_t at)                                      \
    {                                                                                              \
        return refuse_fd(fd) ? -1 : ((pwrite_fn *)dlsym(RTLD_NEXT, name))(fd, p, n, at);           \
    }
PWRITE(pwrite_plain, "pwrite")
PWRITE(pwrite_large, "pwrite64")

typedef int allocate_fn(int fd, int mode, off_t at, off_t n);
#define ALLOCATE(c_name, name)                                                                     \
    int c_name(int fd, int mode, off_t at, off_t n) __asm__(name);                                 \
    int c_name(int fd, int mode, off_t at, off_t n)                                                \
    {                                                                                              \
        return refuse_fd(fd) ? -1 : ((allocate_fn *)dlsym(RTLD_NEXT, name))(fd, mode, at, n);      \
    }
ALLOCATE(allocate_plain, "fallocate")
ALLOCATE(allocate_large, "fallocate64")

typedef int open_fn(const char *path, int flags, ...);
#define OPEN(c_name, name)                                                                         \
    int c_name(const char *path, int flags, mode_t mode) __asm__(name);                            \
    int c_name(const char *path, int flags, mode_t mode)                                           \
    {                                                                                              \
        return refuse_open(path, flags) ? -1                                                       \
                                        : ((open_fn *)dlsym(RTLD_NEXT, name))(path, flags, mode);  \
    }
OPEN(open_plain, "open")
OPEN(open_large, "open64")
