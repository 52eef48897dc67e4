/* http_floor.c - the least a server can do: epoll, one read, one write, no parsing
 *
 *   http_floor PORT [SOCKET]
 *
 * Answers anything that arrives with the same 1 KB of JSON.  What our server costs beyond this is
 * ours; the rest is the kernel's loopback of the day.  SIGTERM ends it.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int add(int ep, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
}

static int listen_at(const struct sockaddr *a, socklen_t n)
{
    int fd = socket(a->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, a, n) < 0 || listen(fd, 1024) < 0) {
        perror("http_floor: listen");
        exit(1);
    }
    return fd;
}

static int listen_tcp(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    return listen_at((const struct sockaddr *)&a, sizeof(a));
}

static int listen_unix(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    memcpy(a.sun_path, path, strnlen(path, sizeof(a.sun_path) - 1));
    return listen_at((const struct sockaddr *)&a, sizeof(a));
}

static void accept_all(int ep, int listener)
{
    int fd, one = 1;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        add(ep, fd);
    }
}

int main(int argc, char **argv)
{
    static char in[64 * 1024], out[2048];
    struct epoll_event ready[1024];
    int ep = epoll_create1(EPOLL_CLOEXEC);
    int tcp = listen_tcp(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0);
    int local = argc > 2 ? listen_unix(argv[2]) : -1;

    int head = snprintf(out, sizeof(out),
                        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                        "Content-Type: application/json\r\nContent-Length: 1024\r\n\r\n");
    memset(out + head, 'x', 1024);
    add(ep, tcp);
    if (local >= 0)
        add(ep, local);
    for (;;) {
        int n = epoll_wait(ep, ready, 1024, -1);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == tcp || fd == local) {
                accept_all(ep, fd);
            } else if (read(fd, in, sizeof(in)) <= 0) {
                close(fd);
            } else if (write(fd, out, (size_t)head + 1024) < 0) {
                close(fd);
            }
        }
    }
}
