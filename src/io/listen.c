/* listen.c - listening sockets, and the connections they bring
 *
 * At the limit of connections the listener simply does not accept: libuv stops polling it, and
 * clients wait in the kernel's backlog until one leaves.
 */
#include "io/http_priv.h"
#include "io/unix_addr.h"
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum { BACKLOG = 1024 }; /* a burst of 2 000 streams fills the default 128 at once */

void http_listener_accept(struct http_listener *ln)
{
    struct http_server *s = ln->srv;

    ln->waiting = s->stats.connections_open >= s->lim.connections;
    if (ln->waiting || s->closing)
        return;
    struct http_conn *c = http_conn_new(s, ln->path != NULL);
    if (uv_accept(&ln->io.stream, &c->io.stream) < 0) {
        http_conn_close(c);
        return;
    }
    if (ln->tls)
        c->tls = tls_conn_new(ln->tls);
    http_conn_open(c, false);
}

static void on_connection(uv_stream_t *h, int status)
{
    if (status == 0)
        http_listener_accept((struct http_listener *)h);
}

/* The server may be waiting for its last listener to close; the kick lets the shutdown go on. */
static void listener_on_closed(uv_handle_t *h)
{
    struct http_listener *ln = (struct http_listener *)h;
    struct http_server *s = ln->srv;

    for (struct http_listener **at = &s->listeners; *at; at = &(*at)->next) {
        if (*at == ln) {
            *at = ln->next;
            break;
        }
    }
    tls_ctx_free(ln->tls);
    free(ln->path);
    free(ln);
    http_server_kick(s);
}

static struct http_listener *listener_new(struct http_server *s)
{
    struct http_listener *ln = xcalloc(1, sizeof(*ln));

    ln->srv = s;
    ln->next = s->listeners;
    s->listeners = ln;
    return ln;
}

void http_listeners_close(struct http_server *s)
{
    struct stat st;

    for (struct http_listener *ln = s->listeners; ln; ln = ln->next) {
        if (uv_is_closing(&ln->io.handle))
            continue;
        /* Only our own socket: a successor may have put its own in place. */
        if (ln->path && lstat(ln->path, &st) == 0 && st.st_dev == ln->dev && st.st_ino == ln->ino)
            unlink(ln->path);
        uv_close(&ln->io.handle, listener_on_closed);
    }
}

/* 0: the path is free now.  A socket that refuses connections belongs to nobody. */
static int clear_stale(const char *path, const struct sockaddr_un *a, socklen_t n, struct err *e)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_sys(e, "cannot read the attributes of %s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(e, ERR_CONFLICT, "%s is not a socket; move it away", path);
    AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, "cannot create a socket");
    if (connect(fd, (const struct sockaddr *)a, n) == 0 || errno == EAGAIN)
        return err_set(e, ERR_CONFLICT, "another server answers at %s", path);
    if (errno != ECONNREFUSED)
        return err_sys(e, "cannot tell whether a server answers at %s", path);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_sys(e, "cannot remove the stale socket %s", path);
    return 0;
}

static int bind_unix(const char *path, mode_t mode, int *out_fd, struct stat *out_st, struct err *e)
{
    struct sockaddr_un a;
    socklen_t n;
    AUTO_FD dir = -1;
    AUTO_FD fd = -1;

    if (unix_addr_make(path, &a, &n, &dir, e) < 0 || clear_stale(path, &a, n, e) < 0)
        return -1;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, "cannot create a socket");
    /* The file gets the mode of the descriptor: never wider than asked, not for a moment. */
    if (fchmod(fd, mode & 0700) < 0 || bind(fd, (struct sockaddr *)&a, n) < 0)
        return err_sys(e, "cannot create the socket %s", path);
    if (chmod(path, mode) < 0 || lstat(path, out_st) < 0)
        return err_sys(e, "cannot set the permissions of %s", path);
    *out_fd = TAKE_FD(fd);
    return 0;
}

int http_server_listen_unix(struct http_server *s, const char *path, mode_t mode, struct err *e)
{
    struct stat st;
    AUTO_FD fd = -1;

    if (bind_unix(path, mode, &fd, &st, e) < 0)
        return -1;
    struct http_listener *ln = listener_new(s);
    ln->path = xstrdup(path);
    ln->dev = st.st_dev;
    ln->ino = st.st_ino;
    uv_pipe_init(loop_uv(s->loop), &ln->io.pipe, 0);
    int r = uv_pipe_open(&ln->io.pipe, fd);
    if (r == 0) {
        TAKE_FD(fd);
        r = uv_listen(&ln->io.stream, BACKLOG, on_connection);
    }
    if (r < 0) {
        uv_close(&ln->io.handle, listener_on_closed);
        return err_set(e, ERR_INTERNAL, "cannot listen at %s: %s", path, uv_strerror(r));
    }
    return 0;
}

static int parse_addr(const char *addr, int port, struct sockaddr_storage *out, struct err *e)
{
    if (port < 0 || port > 65535)
        return err_set(e, ERR_INVALID, "port %d is not between 0 and 65535", port);
    if (uv_ip4_addr(addr, port, (struct sockaddr_in *)out) == 0 ||
        uv_ip6_addr(addr, port, (struct sockaddr_in6 *)out) == 0)
        return 0;
    return err_set(e, ERR_INVALID,
                   "'%s' is not a numeric address; write for example 127.0.0.1 or ::1", addr);
}

static int bound_port(const uv_tcp_t *h)
{
    struct sockaddr_storage a = {0};
    int n = sizeof(a);

    uv_tcp_getsockname(h, (struct sockaddr *)&a, &n);
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

int http_server_listen_tcp(struct http_server *s, const char *addr, int port, const char *tls_cert,
                           const char *tls_key, int *out_port, struct err *e)
{
    struct sockaddr_storage a = {0};
    struct tls_ctx *tls = NULL;

    if (parse_addr(addr, port, &a, e) < 0)
        return -1;
    if (tls_cert && !(tls = tls_ctx_new(tls_cert, tls_key, e)))
        return -1;
    struct http_listener *ln = listener_new(s);
    ln->tls = tls;
    uv_tcp_init(loop_uv(s->loop), &ln->io.tcp);
    int r = uv_tcp_bind(&ln->io.tcp, (struct sockaddr *)&a, 0);
    if (r == 0)
        r = uv_listen(&ln->io.stream, BACKLOG, on_connection);
    if (r < 0) {
        uv_close(&ln->io.handle, listener_on_closed);
        err_set(e, r == UV_EADDRINUSE ? ERR_CONFLICT : ERR_INVALID,
                "cannot listen on %s port %d: %s; choose another address or port", addr, port,
                uv_strerror(r));
        if (e)
            e->sys = -r;
        return -1;
    }
    if (out_port)
        *out_port = bound_port(&ln->io.tcp);
    return 0;
}

/* Owns fd from the start: fd is closed on every failure.  A stranger's peer is all zeros, so
 * neither the user id nor the address of the descriptor grants anything. */
static int listener_adopt(struct http_server *s, int fd, bool stranger, struct err *e)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof(a);
    AUTO_FD owned = fd;

    if (getsockname(fd, (struct sockaddr *)&a, &n) < 0)
        return err_sys(e, "descriptor %d is not a socket", fd);
    struct http_conn *c = http_conn_new(s, a.ss_family == AF_UNIX);
    int r = c->peer.is_unix ? uv_pipe_open(&c->io.pipe, fd) : uv_tcp_open(&c->io.tcp, fd);
    if (r < 0) {
        http_conn_close(c);
        return err_set(e, ERR_INTERNAL, "cannot serve descriptor %d: %s", fd, uv_strerror(r));
    }
    TAKE_FD(owned);
    http_conn_open(c, stranger);
    return 0;
}

int http_server_adopt_take(struct http_server *s, int fd, struct err *e)
{
    return listener_adopt(s, fd, false, e);
}

int http_server_adopt_stranger_take(struct http_server *s, int fd, struct err *e)
{
    return listener_adopt(s, fd, true, e);
}
