/* unix_addr.c - addresses of unix sockets
 *
 * sun_path holds 107 bytes.  A home directory deep in a scratch file system, or a test's temporary
 * one, is easily longer: then the directory is opened and the socket named as
 * /proc/self/fd/N/name.
 */
#include "io/unix_addr.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

int unix_addr_make(const char *path, struct sockaddr_un *out, socklen_t *out_n, int *out_dir_fd,
                   struct err *e)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    AUTO_FD dir = -1;

    if (n < sizeof(a.sun_path)) {
        memcpy(a.sun_path, path, n);
    } else {
        const char *slash = strrchr(path, '/');
        AUTO_FREE char *parent = xstrndup(path, slash ? (size_t)(slash - path) + 1 : 0);
        dir = open(slash ? parent : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
            return err_sys(e, "cannot open the directory of %s", path);
        int len = snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/%s", dir,
                           slash ? slash + 1 : path);
        if (len < 0 || (size_t)len >= sizeof(a.sun_path))
            return err_set(e, ERR_INVALID, "the name of the socket %s is too long", path);
        n = (size_t)len;
    }
    *out = a;
    *out_n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    *out_dir_fd = TAKE_FD(dir);
    return 0;
}

/* A signal during connect must not look like a server that does not answer. */
int unix_connect(const char *path, int flags)
{
    struct sockaddr_un a;
    socklen_t n;
    AUTO_FD dir = -1;
    AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    int r;

    if (fd < 0 || unix_addr_make(path, &a, &n, &dir, NULL) < 0)
        return -1;
    do
        r = connect(fd, (struct sockaddr *)&a, n);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -1 : TAKE_FD(fd);
}
