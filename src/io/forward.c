/* forward.c - a port of this host that leads to a port of one of its processes
 *
 * Owns: the listening socket, the pairs of connections, and their buffers.
 *
 * A held port is a socket that is bound but does not listen: the kernel refuses connections to it.
 * Others must not have it either.  SO_REUSEADDR is needed to bind and to listen in the minute after
 * connections were closed, but while it is set another program may slip in; so it is cleared as
 * long as the port is only held.  Listening cannot be taken back: shutting means closing and
 * binding again at once.
 *
 * Each direction of a pair has one buffer.  It is filled only when it is empty, so a slow reader
 * slows its writer down, and memory is bounded.  The end of one direction is passed on as a
 * half-close; the pair ends when both have ended, or at the first error.
 */
#include "io/forward.h"
#include "base/util.h"
#include "io/loop.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/socket.h>

enum {
    BACKLOG = 128,
    PAIRS_MAX = 256, /* of one forward; further connections wait in the backlog */
    PIECE_BYTES = 32 << 10,
};

/* One side of a connection that is carried.  It owns fd, watch and piece. */
struct end {
    struct pair *pair;
    int fd;
    struct watch *watch;
    char *piece; /* what was read here and is not written there yet */
    size_t at, n;
    bool eof;  /* nothing more comes from here */
    bool shut; /* and the other side was told */
};
/* A connection from outside and the connection to the process that answers it. */
struct pair {
    struct forward *owner;
    struct end ends[2]; /* who connected; the process */
    bool connected;     /* to the process */
    LIST_ENTRY(pair) entry;
};
LIST_HEAD(pair_list, pair);
struct forward {
    struct loop *loop;
    char addr[64];
    int port, to; /* to 0 = held */
    /* The bound or listening socket; -1 = the port was lost to another process. */
    int fd;
    struct watch *watch;
    struct sockaddr_storage lead; /* where it leads; the port is `to` */
    socklen_t lead_n;
    bool (*admit)(void *arg, int fd);
    void *admit_arg;
    struct pair_list pairs;
    size_t n_pairs;
};

/* ---- sockets ---- */

/* The length of the address, 0 when `text` is not a numeric address. */
static socklen_t address(const char *text, int port, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

    memset(out, 0, sizeof(*out));
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        return sizeof(*v4);
    }
    if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        return sizeof(*v6);
    }
    return 0;
}

/* Bound, not listening; -1 with errno. */
static int bound_socket(const char *addr, int port)
{
    struct sockaddr_storage sa;
    socklen_t n = address(addr, port, &sa);
    int on = 1, off = 0;

    if (n == 0) {
        errno = EINVAL;
        return -1;
    }
    AUTO_FD fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (sa.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, (struct sockaddr *)&sa, n) < 0)
        return -1;
    return TAKE_FD(fd);
}

static int held_socket(const char *addr, int port)
{
    int fd = bound_socket(addr, port), off = 0;

    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off));
    return fd;
}

bool port_is_free(const char *addr, int port)
{
    AUTO_FD fd = bound_socket(addr, port);

    return fd >= 0 && listen(fd, 1) == 0; /* a socket that is only bound shows here */
}

/* Starts connecting; -1 with errno. */
static int connecting_socket(const struct forward *f)
{
    struct sockaddr_storage sa = f->lead;
    in_port_t port = htons((uint16_t)f->to);

    if (sa.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&sa)->sin6_port = port;
    else
        ((struct sockaddr_in *)&sa)->sin_port = port;
    AUTO_FD fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || (connect(fd, (struct sockaddr *)&sa, f->lead_n) < 0 && errno != EINPROGRESS))
        return -1;
    return TAKE_FD(fd);
}

/* ---- pairs ---- */

static void on_accept(void *arg, int events, int error);

static void end_done(struct end *d)
{
    watch_free(d->watch);
    if (d->fd >= 0)
        close(d->fd);
    free(d->piece);
}

static void pair_free(struct pair *p)
{
    struct forward *f = p->owner;

    LIST_REMOVE(p, entry);
    end_done(&p->ends[0]);
    end_done(&p->ends[1]);
    free(p);
    if (f->n_pairs-- == PAIRS_MAX && f->watch && f->to)
        watch_start(f->watch, WATCH_READ);
}

static struct end *other(struct end *d)
{
    return &d->pair->ends[d == &d->pair->ends[0]];
}

/* Reads one piece when there is room; false when the connection is broken. */
static bool end_read(struct end *d)
{
    if (d->eof || d->n)
        return true;
    if (!d->piece)
        d->piece = xmalloc(PIECE_BYTES);
    ssize_t n = recv(d->fd, d->piece, PIECE_BYTES, 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    d->eof = n == 0;
    d->n = (size_t)n;
    d->at = 0;
    return true;
}

/* Writes to the other side what was read here. */
static bool end_pass_on(struct end *d)
{
    struct end *to = other(d);

    while (d->n) {
        ssize_t n = send(to->fd, d->piece + d->at, d->n, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        d->at += (size_t)n;
        d->n -= (size_t)n;
    }
    if (d->eof && !d->shut) {
        shutdown(to->fd, SHUT_WR);
        d->shut = true;
    }
    return true;
}

/* Waits to read only with an empty buffer, and to write only with bytes to write: otherwise the
 * level-triggered watch would fire again and again. */
static void end_wait(struct end *d)
{
    int events = (!d->eof && !d->n ? WATCH_READ : 0) | (other(d)->n ? WATCH_WRITE : 0);

    if (events)
        watch_start(d->watch, events);
    else
        watch_stop(d->watch);
}

/* One round in both directions.  False ends the pair: both directions have ended, or one is
 * broken. */
static bool pair_carry(struct pair *p)
{
    for (int i = 0; i < 2; i++)
        if (!end_read(&p->ends[i]) || !end_pass_on(&p->ends[i]))
            return false;
    return !(p->ends[0].shut && p->ends[1].shut);
}

static void on_ready(void *arg, int events, int error)
{
    struct end *d = arg;
    struct pair *p = d->pair;

    (void)events;
    if (!p->connected) {
        int sys = 0;
        socklen_t n = sizeof(sys);
        if (error < 0 || getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &sys, &n) < 0 || sys) {
            pair_free(p); /* nobody listens there yet: the client sees a closed connection */
            return;
        }
        p->connected = true;
    } else if (error < 0) {
        pair_free(p);
        return;
    }
    if (!pair_carry(p)) {
        pair_free(p);
        return;
    }
    end_wait(&p->ends[0]);
    end_wait(&p->ends[1]);
}

static bool pair_watch(struct pair *p)
{
    int on = 1;

    for (int i = 0; i < 2; i++) {
        struct end *d = &p->ends[i];
        setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        d->watch = watch_new(p->owner->loop, d->fd, on_ready, d);
        if (!d->watch)
            return false;
    }
    return true;
}

static void pair_new(struct forward *f, int client)
{
    struct pair *p = xcalloc(1, sizeof(*p));

    p->owner = f;
    p->ends[0] = (struct end){.pair = p, .fd = client};
    p->ends[1] = (struct end){.pair = p, .fd = connecting_socket(f)};
    LIST_INSERT_HEAD(&f->pairs, p, entry);
    f->n_pairs++;
    if (p->ends[1].fd < 0 || !pair_watch(p)) {
        pair_free(p);
        return;
    }
    watch_start(p->ends[1].watch, WATCH_WRITE); /* connected, or not */
}

/* ---- the listening port ---- */

static void on_accept(void *arg, int events, int error)
{
    struct forward *f = arg;

    (void)events;
    (void)error;
    while (f->n_pairs < PAIRS_MAX) {
        int fd = accept4(f->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (f->admit && !f->admit(f->admit_arg, fd))
            close(fd);
        else
            pair_new(f, fd);
    }
    watch_stop(f->watch);
}

static int cannot_have(const struct forward *f, struct err *e)
{
    if (errno == EADDRINUSE)
        return err_set(e, ERR_CONFLICT, "port %d of %s is in use", f->port, f->addr);
    return err_sys(e, "cannot open port %d of %s", f->port, f->addr);
}

int forward_hold(struct forward **out, struct loop *l, const char *addr, int port, struct err *e)
{
    struct forward *f = xcalloc(1, sizeof(*f));

    f->loop = l;
    f->port = port;
    snprintf(f->addr, sizeof(f->addr), "%s", addr);
    f->lead_n = address("127.0.0.1", 0, &f->lead);
    f->fd = port_is_free(addr, port) ? held_socket(addr, port) : -1;
    if (f->fd < 0) {
        cannot_have(f, e);
        free(f);
        return -1;
    }
    *out = f;
    return 0;
}

int forward_lead(struct forward *f, const char *addr, bool (*admit)(void *arg, int fd), void *arg,
                 struct err *e)
{
    struct sockaddr_storage sa;
    socklen_t n = address(addr, 0, &sa);

    if (!n)
        return err_set(e, ERR_INVALID, "'%.60s' is not an address", addr);
    f->lead = sa;
    f->lead_n = n;
    f->admit = admit;
    f->admit_arg = arg;
    return 0;
}

int forward_open(struct forward *f, int to, struct err *e)
{
    int on = 1;

    if (f->to) {
        f->to = to;
        return 0;
    }
    if (f->fd < 0)
        f->fd = bound_socket(f->addr, f->port);
    else
        setsockopt(f->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (f->fd < 0 || listen(f->fd, BACKLOG) < 0)
        return cannot_have(f, e);
    f->watch = watch_new(f->loop, f->fd, on_accept, f);
    if (!f->watch)
        return err_sys(e, "cannot watch port %d", f->port);
    f->to = to;
    watch_start(f->watch, WATCH_READ);
    return 0;
}

static void close_all(struct forward *f)
{
    while (!LIST_EMPTY(&f->pairs))
        pair_free(LIST_FIRST(&f->pairs));
    watch_free(f->watch);
    f->watch = NULL;
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    f->to = 0;
}

int forward_shut(struct forward *f, struct err *e)
{
    if (!f->to && f->fd >= 0)
        return 0;
    close_all(f);
    f->fd = held_socket(f->addr, f->port);
    return f->fd < 0 ? cannot_have(f, e) : 0;
}

void forward_free(struct forward *f)
{
    if (!f)
        return;
    close_all(f);
    free(f);
}
