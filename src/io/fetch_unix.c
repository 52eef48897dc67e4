/* fetch_unix.c - fetches over a unix socket: our own exchange on a watch
 *
 * Needs no library, so that a home's own socket can be used wherever Berth runs.  A connection
 * carries one request at a time.  Afterwards it is kept, up to KEPT_MAX of them, and looked at
 * before it is used again: anything to read on an idle connection can only be its end.
 */
#include "base/util.h"
#include "io/fetch_priv.h"
#include "io/loop_priv.h"
#include "io/unix_addr.h"
#include <errno.h>

enum {
    KEPT_MAX = 8,
    FULL_MS = 20, /* before the next attempt when the server's backlog is full */
};

/* f->via: the kept connections. */
struct unix_kept {
    int fds[KEPT_MAX];
    size_t n;
};
/* x->via: one request and its connection. */
struct unix_fetch {
    struct http_exchange *exchange;
    bool repeatable;
    int fd; /* -1 before the connection */
    struct watch *watch;
    bool kept;    /* the connection has carried a request before */
    bool heard;   /* a byte was received */
    bool sending; /* the socket did not take the whole request yet */
};

static void unix_wait(struct fetch *x)
{
    struct unix_fetch *u = x->via;
    int events = (x->paused ? 0 : WATCH_READ) | (u->sending ? WATCH_WRITE : 0);

    if (!u->watch)
        return;
    if (events)
        watch_start(u->watch, events);
    else
        watch_stop(u->watch);
}

static void unix_disconnect(struct unix_fetch *u)
{
    watch_free(u->watch);
    u->watch = NULL;
    if (u->fd >= 0)
        close(TAKE_FD(u->fd));
}

/* ---- the answer ---- */

static void unix_on_header(void *arg, struct str name, struct str value)
{
    http_response_header(&((struct fetch *)arg)->answer, name, value);
}

static void unix_on_head(void *arg, int status)
{
    fetch_got_head(arg, status);
}

static bool unix_on_body(void *arg, struct str piece)
{
    return fetch_got_piece(arg, piece);
}

static const struct http_exchange_fns unix_fns = {unix_on_header, unix_on_head, unix_on_body};

/* 1 = more is expected, 0 = the answer is whole, -1 = broken. */
static int unix_receive(struct fetch *x, struct err *e)
{
    struct unix_fetch *u = x->via;
    char *in = loop_read_buf(x->owner->loop);
    ssize_t n = recv(u->fd, in, LOOP_READ_BYTES, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (n < 0)
        return err_set(e, ERR_UNAVAILABLE, "the connection broke: %s", strerror(errno));
    u->heard |= n > 0;
    return http_exchange_feed(u->exchange, in, (size_t)n, e);
}

static int unix_step(struct fetch *x, int events, struct err *e)
{
    struct unix_fetch *u = x->via;

    if (events & WATCH_WRITE) {
        int more = http_exchange_send(u->exchange, u->fd, e);
        if (more < 0)
            return -1;
        u->sending = more;
    }
    return events == WATCH_WRITE ? 1 : unix_receive(x, e);
}

static void unix_on_ready(void *arg, int events, int error)
{
    struct fetch *x = arg;
    struct unix_fetch *u = x->via;
    struct fetcher *f = x->owner;
    struct err e = {0};

    if (x->cancelled)
        return;
    fetcher_enter(f);
    int more = unix_step(x, error ? WATCH_READ : events, &e);
    if (more < 0 && !x->cancelled && u->kept && !u->heard && u->repeatable) {
        unix_disconnect(u);
        http_exchange_rewind(u->exchange);
        fetch_begin_again(x);
    } else if (!x->cancelled && more <= 0) {
        if (more < 0)
            err_wrap(&e, "the server at %s", f->target + 5);
        fetch_finish(x, more < 0 ? &e : NULL);
    } else if (!x->cancelled) {
        unix_wait(x);
    }
    fetcher_leave(f);
}

/* ---- the connection ---- */

static bool unix_take_kept(struct fetcher *f, int *out)
{
    struct unix_kept *k = f->via;
    char byte;

    while (k && k->n) {
        int fd = k->fds[--k->n];
        if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN) {
            *out = fd;
            return true;
        }
        close(fd);
    }
    return false;
}

/* ---- the transport ---- */

static void unix_prepare(struct fetch *x, const struct http_request *q)
{
    struct unix_fetch *u = x->via = xcalloc(1, sizeof(*u));

    u->fd = -1;
    u->repeatable = http_request_repeatable(q);
    u->exchange = http_exchange_new(q, &unix_fns, x);
}

/* Connects, unless a connection was kept, and sends what the socket takes. */
static int unix_begin(struct fetch *x, struct err *e)
{
    struct unix_fetch *u = x->via;
    struct fetcher *f = x->owner;
    const char *path = f->target + 5;

    u->kept = unix_take_kept(f, &u->fd);
    if (!u->kept)
        u->fd = unix_connect(path, SOCK_NONBLOCK);
    if (u->fd < 0) {
        int sys = errno;
        if (sys == EAGAIN && loop_mono_ms(f->loop) - x->started_ms < x->limits.connect_ms) {
            fetcher_kick(f, FULL_MS); /* the server's backlog is full */
            return 1;
        }
        err_set(e, ERR_UNAVAILABLE, "no server answers at %s (%s)", path, strerror(sys));
        e->sys = sys;
        return -1;
    }
    u->watch = watch_new(f->loop, u->fd, unix_on_ready, x);
    ASSERT(u->watch);
    int more = http_exchange_send(u->exchange, u->fd, e);
    u->sending = more > 0;
    unix_wait(x);
    return MIN(more, 0);
}

static void unix_end(struct fetch *x, bool whole)
{
    struct unix_fetch *u = x->via;
    struct fetcher *f = x->owner;

    if (whole && http_exchange_reusable(u->exchange)) {
        struct unix_kept *k = f->via ? f->via : (f->via = xcalloc(1, sizeof(*k)));
        if (k->n < KEPT_MAX)
            k->fds[k->n++] = TAKE_FD(u->fd);
    }
    unix_disconnect(u);
    http_exchange_free(u->exchange);
    free(TAKE(x->via));
}

static void unix_close(struct fetcher *f)
{
    struct unix_kept *k = f->via;

    while (k && k->n)
        close(k->fds[--k->n]);
    free(k);
}

const struct fetch_transport fetch_over_unix = {unix_prepare, unix_begin, unix_wait,
                                                unix_wait,    unix_end,   unix_close};
