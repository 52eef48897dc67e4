/* conn.c - the daemon's end of the line
 *
 * Any number may connect, one is the daemon: a HELLO ends all earlier connections, after what they
 * had sent completely has been carried out, so nothing an old daemon committed is lost and nothing
 * of it is carried out later.  Only our own user and root may connect.
 */
#include "base/log.h"
#include "shepherd/shepherd_priv.h"
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Bytes per read; a larger input buffer is given back once it is empty. */
enum { READ_BYTES = 64 << 10, KEEP_BYTES = 256 << 10 };

static void conn_close(struct shepherd *s, struct conn *c)
{
    if (c->closed)
        return;
    c->closed = true;
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    c->fd = -1;
}

void conn_sweep(struct shepherd *s)
{
    for (size_t i = s->conns.n; i-- > 0;) {
        struct conn *c = s->conns.p[i];
        if (!c->closed)
            continue;
        buf_done(&c->in);
        buf_done(&c->out);
        free(c);
        vec_remove(&s->conns, i);
    }
}

void conn_done(struct shepherd *s)
{
    for (size_t i = 0; i < s->conns.n; i++)
        conn_close(s, s->conns.p[i]);
    conn_sweep(s);
    vec_done(&s->conns);
}

void conn_accept(struct shepherd *s)
{
    struct ucred peer;
    socklen_t n = sizeof(peer);
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 ||
        (peer.uid != geteuid() && peer.uid != 0)) {
        log_warn("shepherd", "refused a connection from user %u", (unsigned)peer.uid);
        close(fd);
        return;
    }
    struct conn *c = xcalloc(1, sizeof(*c));
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    *c = (struct conn){.source = SOURCE_CONN, .fd = fd};
    buf_init(&c->in, PROTO_FRAME_MAX + READ_BYTES);
    buf_init(&c->out, 1 << 20);
    vec_push(&s->conns, c);
    if (epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
        conn_close(s, c);
}

/* ---- sending; little is ever said, so a full socket just waits for EPOLLOUT ---- */

static void conn_flush(struct shepherd *s, struct conn *c)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};

    while (c->out.n > 0 && !c->closed) {
        ssize_t n = send(c->fd, c->out.p, c->out.n, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            conn_close(s, c);
        if (n < 0)
            break;
        buf_consume(&c->out, (size_t)n);
    }
    if (!c->closed) {
        ev.events |= c->out.n ? EPOLLOUT : 0;
        epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, c->fd, &ev);
    }
}

void conn_notice(struct shepherd *s, const char *fmt, ...)
{
    char text[512];

    FORMAT_ARGS(text, fmt);
    log_warn("shepherd", "%s", text);
    for (size_t i = 0; i < s->conns.n; i++) {
        struct conn *c = s->conns.p[i];
        if (c->closed || !c->greeted)
            continue;
        proto_put_text(&c->out, PROTO_NOTICE, str_of(text));
        conn_flush(s, c);
    }
}

/* ---- receiving ---- */

static void conn_on_hello(struct shepherd *s, struct conn *c);

static bool conn_on_frame(struct shepherd *s, struct conn *c, const struct frame_head *h,
                          struct str frame, struct str body)
{
    struct proto_op op = {0};

    /* HELLO and RETIRE are understood across versions, so that a daemon after an upgrade can
     * tell an old shepherd to exit. */
    if (h->version != PROTO_VERSION && h->type != PROTO_HELLO && h->type != PROTO_RETIRE)
        return false;
    if (h->type != PROTO_START && !proto_get_op(body, &op))
        return false;
    if (!c->greeted && h->type != PROTO_HELLO)
        return false;
    switch ((enum proto_type)h->type) {
    case PROTO_HELLO:
        conn_on_hello(s, c);
        return true;
    case PROTO_START:
        return runs_start(s, frame, body);
    case PROTO_STOP:
        runs_stop(s, op.key, op.value);
        return true;
    case PROTO_WITHDRAW:
        runs_withdraw(s, op.key);
        return true;
    case PROTO_SIGNAL:
        runs_signal(s, op.key, op.value);
        return true;
    case PROTO_ADOPT:
        runs_adopt(s, &op);
        return true;
    case PROTO_FORGET:
        runs_forget(s, op.journal);
        return true;
    case PROTO_RETIRE:
        log_info("shepherd", "another version of the shepherd takes over; exiting");
        s->leave = true;
        return true;
    case PROTO_WELCOME:
    case PROTO_NOTICE:
    case PROTO_TYPE_MAX:
        break;
    }
    return false;
}

/* Carries out every complete frame.  False when the stream makes no sense. */
static bool conn_frames(struct shepherd *s, struct conn *c)
{
    struct str rest = buf_str(&c->in), body;
    struct frame_head head;
    int got;

    while ((got = proto_next(rest, &head, &body)) == 1) {
        if (!conn_on_frame(s, c, &head, (struct str){rest.p, head.n}, body))
            return false;
        rest.p += head.n;
        rest.n -= head.n;
    }
    buf_consume(&c->in, c->in.n - rest.n);
    if (c->in.n == 0 && c->in.cap > KEEP_BYTES) { /* every fork would copy its page table */
        buf_done(&c->in);
        buf_init(&c->in, PROTO_FRAME_MAX + READ_BYTES);
    }
    return got == 0;
}

/* Reads and carries out what is there.  False at the end of the stream or when it is broken. */
static bool conn_drain(struct shepherd *s, struct conn *c)
{
    for (;;) {
        char *to = buf_reserve(&c->in, READ_BYTES);
        if (!to)
            return false;
        ssize_t n = read(c->fd, to, READ_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        if (n == 0)
            return false;
        c->in.n += (size_t)n;
        c->in.p[c->in.n] = 0;
        if (!conn_frames(s, c)) {
            log_error("shepherd", "a daemon sent a malformed frame; closing its connection");
            return false;
        }
        if (n < READ_BYTES)
            return true; /* level-triggered: what came meanwhile wakes us again */
    }
}

static void conn_on_hello(struct shepherd *s, struct conn *c)
{
    struct proto_op welcome = {.value = getpid()};

    c->greeted = true;
    for (size_t i = 0; i < s->conns.n; i++) {
        struct conn *old = s->conns.p[i];
        if (old == c || old->closed || !old->greeted)
            continue;
        conn_drain(s, old);
        conn_close(s, old);
    }
    proto_put_op(&c->out, PROTO_WELCOME, &welcome);
    conn_flush(s, c);
}

void conn_event(struct shepherd *s, struct conn *c, uint32_t events)
{
    if (c->closed)
        return;
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !conn_drain(s, c))
        conn_close(s, c);
    else if (events & EPOLLOUT)
        conn_flush(s, c);
}
