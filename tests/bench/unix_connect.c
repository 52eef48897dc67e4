/* unix_connect.c - preloaded into a program that speaks TCP only: makes it call a unix socket
 *
 *   CONNECT_TO=/path/of/socket LD_PRELOAD=libunix_connect.so wrk http://127.0.0.1:1/
 *
 * The descriptor stays the same, so the program keeps its flags and its place in epoll.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

typedef int connect_fn(int fd, const struct sockaddr *a, socklen_t n);

static int call_socket(connect_fn *real, int fd, const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(to.sun_path, path, strnlen(path, sizeof(to.sun_path) - 1));
    if (s < 0 || real(s, (const struct sockaddr *)&to, sizeof(to)) < 0 ||
        fcntl(s, F_SETFL, fcntl(fd, F_GETFL)) < 0 || dup2(s, fd) < 0) {
        int error = errno;
        close(s);
        errno = error;
        return -1;
    }
    return close(s);
}

__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *a, socklen_t n)
{
    const char *path = getenv("CONNECT_TO");
    void *found = dlsym(RTLD_NEXT, "connect");
    connect_fn *real;

    memcpy(&real, &found, sizeof(real));
    return path && a->sa_family == AF_INET ? call_socket(real, fd, path) : real(fd, a, n);
}
