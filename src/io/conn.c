/* conn.c - one connection: its bytes in, its phases, its end
 *
 * Owns: struct http_conn, from accept until libuv let go of the handle.
 *
 *   IDLE → HEAD → BODY → BUSY → (STREAM) → (DRAIN) → IDLE …        LINGER, CLOSED from anywhere
 *
 * Closing is always by http_conn_close: it only starts the end.  The request's `gone` is called
 * from the close callback, hence never inside a call of the handler, and until then every http_*
 * call on the request does nothing.
 */
#include "io/http_priv.h"
#include <poll.h>
#include <stdio.h>

/* The only place where a connection is freed.  A request that the handler still has survives as
 * an orphan; any other request is freed with the connection. */
static void conn_on_closed(uv_handle_t *h)
{
    struct http_conn *c = (struct http_conn *)h;
    struct http_server *s = c->srv;
    struct http_req *r = c->req;

    LIST_REMOVE(c, entry);
    if (r && r->job)
        r->job->drop(TAKE(r->job));
    if (r && (r->reply.handed || r->pieces) && !r->reply.replied) {
        http_req_orphan(r);
        if (r->hooks.gone)
            http_req_tell_gone(r);
    } else {
        http_req_free(r);
    }
    tls_conn_free(c->tls);
    http_out_free(c);
    buf_done(&c->in);
    http_share_leave(c);
    s->refusing -= c->refusing;
    free(c);
    s->stats.connections_open--;
    http_server_conn_closed(s);
}

void http_conn_close(struct http_conn *c)
{
    if (c->phase == CONN_CLOSED)
        return;
    if (c->tls && !c->out.first)
        tls_bye(c);
    if (c->phase == CONN_CLOSED)
        return; /* the farewell failed and closed it */
    if (c->phase == CONN_STREAM)
        http_share_stream(c, false);
    c->phase = CONN_CLOSED;
    uv_close(&c->io.handle, conn_on_closed);
}

static void on_alloc(uv_handle_t *h, size_t hint UNUSED, uv_buf_t *b)
{
    struct http_conn *c = (struct http_conn *)h;

    *b = uv_buf_init(loop_read_buf(c->srv->loop), LOOP_READ_BYTES);
}

static void conn_on_read(uv_stream_t *h, ssize_t n, const uv_buf_t *b)
{
    struct http_conn *c = (struct http_conn *)h;

    if (n < 0) {
        http_conn_eof(c, (int)n);
    } else if (n > 0) {
        c->srv->stats.bytes_in += (uint64_t)n;
        if (c->tls)
            tls_input(c, b->base, (size_t)n);
        else
            http_conn_feed(c, b->base, (size_t)n);
    }
}

/* Does nothing while reading is not wanted, so callers need not know why it was stopped. */
static void read_on(struct http_conn *c)
{
    if (c->reading || c->peer_eof || c->paused)
        return;
    if (uv_read_start(&c->io.stream, on_alloc, conn_on_read) < 0)
        http_conn_close(c);
    else
        c->reading = true;
}

static void read_off(struct http_conn *c)
{
    if (c->reading)
        uv_read_stop(&c->io.stream);
    c->reading = false;
}

struct http_conn *http_conn_new(struct http_server *s, bool is_unix)
{
    struct http_conn *c = xcalloc(1, sizeof(*c));

    c->srv = s;
    c->peer.is_unix = is_unix;
    c->since_ms = loop_mono_ms(s->loop);
    if (is_unix)
        uv_pipe_init(loop_uv(s->loop), &c->io.pipe, 0);
    else
        uv_tcp_init(loop_uv(s->loop), &c->io.tcp);
    http_parse_init(c);
    LIST_INSERT_HEAD(&s->conns, c, entry);
    s->stats.connections_open++;
    http_server_sweep_on(s);
    return c;
}

/* The IPv4 form of an address where there is one, so that both families compare. */
static struct in6_addr plain_address(const struct sockaddr_storage *a)
{
    struct in6_addr out = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

    if (a->ss_family == AF_INET6)
        return ((const struct sockaddr_in6 *)a)->sin6_addr;
    memcpy(out.s6_addr + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
    return out;
}

static uint16_t address_port(const struct sockaddr_storage *a)
{
    return ntohs(a->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)a)->sin6_port
                                          : ((const struct sockaddr_in *)a)->sin_port);
}

/* Local: the other end has an address of this host, loopback or the one it called. */
bool http_peer_of(int fd, struct http_peer *out)
{
    static const struct in6_addr v4_loopback = {
        .s6_addr = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
    struct sockaddr_storage here, there;
    socklen_t n = sizeof(here), m = sizeof(there);

    if (getsockname(fd, (struct sockaddr *)&here, &n) < 0 ||
        getpeername(fd, (struct sockaddr *)&there, &m) < 0)
        return false;
    struct in6_addr a = plain_address(&here), b = plain_address(&there);
    *out =
        (struct http_peer){.from = b,
                           .to = a,
                           .from_port = address_port(&there),
                           .to_port = address_port(&here),
                           .local = memcmp(&a, &b, sizeof(a)) == 0 ||
                                    memcmp(&b, &v4_loopback, 13) == 0 || IN6_IS_ADDR_LOOPBACK(&b)};
    return true;
}

void http_conn_open(struct http_conn *c, bool stranger)
{
    struct ucred cred;
    socklen_t n = sizeof(cred);
    uv_os_fd_t fd;

    if (stranger) {
        c->peer = (struct http_peer){0};
    } else if (!c->peer.is_unix) {
        if (uv_fileno(&c->io.handle, &fd) == 0)
            http_peer_of(fd, &c->peer);
        uv_tcp_nodelay(&c->io.tcp, 1);
        uv_tcp_keepalive(&c->io.tcp, 1, 60); /* an idle stream notices that its machine is gone */
    } else if (uv_fileno(&c->io.handle, &fd) < 0 ||
               getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) < 0) {
        http_conn_close(c); /* never guess who is asking */
        return;
    } else {
        c->peer.uid = cred.uid;
        c->peer.gid = cred.gid;
        c->peer.pid = cred.pid;
    }
    c->peer.tls = c->tls != NULL;
    if (http_share_open(c))
        read_on(c);
}

static bool parsing(const struct http_conn *c)
{
    return c->phase == CONN_IDLE || c->phase == CONN_HEAD || c->phase == CONN_BODY;
}

/* Parses at once if nothing waits in `in`; the rest is kept.  A client that sends ahead too
 * much is not read from until its earlier requests are answered. */
void http_conn_feed(struct http_conn *c, const char *p, size_t n)
{
    if (c->in.n == c->in_off && !c->feeding) {
        c->feeding = true;
        while (n > 0 && parsing(c)) {
            size_t used = http_parse(c, p, n);
            p += used;
            n -= used;
        }
        c->feeding = false;
    }
    if (n == 0 || c->phase == CONN_LINGER || c->phase == CONN_CLOSED)
        return;
    buf_add(&c->in, p, n);
    if (c->in.n - c->in_off >= HTTP_AHEAD_BYTES)
        read_off(c);
}

/* What was sent ahead, as far as it goes. */
void http_conn_resume(struct http_conn *c)
{
    c->resume = false;
    c->feeding = true;
    while (c->in_off < c->in.n && parsing(c)) {
        size_t used = http_parse(c, c->in.p + c->in_off, c->in.n - c->in_off);
        if (c->phase == CONN_LINGER)
            break; /* and the bytes are dropped */
        c->in_off += used;
    }
    c->feeding = false;
    if (c->phase == CONN_CLOSED || c->phase == CONN_LINGER)
        return;
    if (c->in_off == c->in.n) {
        buf_done(&c->in);
        c->in_off = 0;
        if (c->peer_eof && parsing(c)) {
            http_conn_close(c);
            return;
        }
    }
    if (c->in.n - c->in_off < HTTP_AHEAD_BYTES)
        read_on(c);
}

void http_conn_pause(struct http_conn *c, bool paused)
{
    if (c->paused == paused)
        return;
    c->paused = paused;
    c->since_ms = loop_mono_ms(c->srv->loop);
    if (paused)
        read_off(c);
    else if (c->in.n - c->in_off < HTTP_AHEAD_BYTES)
        read_on(c);
}

/* A client may close its sending side and still wait for the reply; one that closed the whole
 * socket waits for nothing.  Only unix sockets tell the two apart. */
static bool left_for_good(struct http_conn *c)
{
    struct pollfd p = {.events = POLLOUT};
    uv_os_fd_t fd;

    if (!c->peer.is_unix || uv_fileno(&c->io.handle, &fd) < 0)
        return false;
    p.fd = fd;
    return poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLERR);
}

void http_conn_eof(struct http_conn *c, int status)
{
    bool waits = c->phase == CONN_BUSY || c->phase == CONN_DRAIN;

    c->peer_eof = true;
    read_off(c);
    if (!waits || status != UV_EOF || left_for_good(c))
        http_conn_close(c);
}

/* The reply is with the kernel as a whole. */
static void reply_sent(struct http_conn *c)
{
    bool ahead = c->in_off < c->in.n;

    if (!c->req->keep_alive || c->srv->closing || (c->peer_eof && !ahead)) {
        if (ahead)
            http_conn_linger(c);
        else
            http_conn_close(c);
        return;
    }
    http_req_reset(c->req);
    c->phase = CONN_IDLE;
    c->since_ms = loop_mono_ms(c->srv->loop);
    if (ahead && !c->feeding) {
        /* The next handler must not be called from inside the reply to this one. */
        c->resume = true;
        http_server_kick(c->srv);
    }
}

void http_conn_finish(struct http_conn *c)
{
    if (c->phase == CONN_CLOSED)
        return;
    if (c->phase == CONN_STREAM)
        http_share_stream(c, false);
    c->phase = CONN_DRAIN;
    if (!c->out.first)
        reply_sent(c);
}

void http_conn_drained(struct http_conn *c)
{
    struct http_req *r = c->req;

    if (c->phase == CONN_DRAIN)
        reply_sent(c);
    else if (r && r->job && r->job->drained)
        r->job->drained(r->job);
    else if (c->phase == CONN_STREAM && r->reply.cut)
        http_conn_close(c);
    else if (c->phase == CONN_STREAM && r->hooks.drain)
        r->hooks.drain(r->hooks.drain_arg, r);
}

static void on_shutdown(uv_shutdown_t *u UNUSED, int status UNUSED)
{
}

/* Says that nothing more will come, and reads on for a while: closing with unread bytes would make
 * the kernel reset the connection, and the client would lose the reply. */
void http_conn_linger(struct http_conn *c)
{
    if (c->tls)
        tls_bye(c);
    if (c->phase == CONN_CLOSED)
        return;
    c->phase = CONN_LINGER;
    c->paused = false;
    c->since_ms = loop_mono_ms(c->srv->loop);
    buf_done(&c->in);
    c->in_off = 0;
    if (c->peer_eof || uv_shutdown(&c->shutdown, &c->io.stream, on_shutdown) < 0)
        http_conn_close(c);
    else
        read_on(c);
}

void http_conn_refuse(struct http_conn *c, int status, const char *why)
{
    AUTO(buf) struct buf body = {0};
    const char *code = status == 408 || status == 503                    ? "unavailable"
                       : status == 413 || status == 414 || status == 431 ? "limit"
                                                                         : "invalid";

    c->srv->stats.refused++;
    http_error_body(&body, code, why);
    c->req->keep_alive = false;
    buf_reset(&c->req->extra);
    struct buf *b = http_head_begin(c->req, status, "application/json", (int64_t)body.n);
    http_head_end(c->req, b);
    buf_add(b, body.p, body.n);
    uv_buf_t out = uv_buf_init(b->p, (unsigned)b->n);
    http_send(c, &out, 1, NULL);
    if (c->phase != CONN_CLOSED)
        http_conn_linger(c);
}

/* Has the current phase lasted `limit` milliseconds? */
static bool over(struct http_conn *c, int64_t now, int64_t limit)
{
    return now - c->since_ms >= limit;
}

void http_conn_sweep(struct http_conn *c, int64_t now)
{
    const struct http_limits *lim = &c->srv->lim;
    bool shaking = c->tls && !tls_conn_ready(c->tls);

    if (c->phase == CONN_CLOSED)
        return;
    if (c->out.first) {
        uint64_t taken = http_out_taken(c);
        if (taken != c->out.taken) {
            c->out.taken = taken;
            c->out.taken_ms = now;
        } else if (now - c->out.taken_ms >= lim->write_ms) {
            http_conn_close(c);
            return;
        }
    }
    if (c->phase == CONN_IDLE && over(c, now, shaking ? lim->head_ms : http_share_idle_ms(c)))
        http_conn_close(c);
    else if (c->phase == CONN_IDLE && c->req && over(c, now, HTTP_SPARE_MS))
        http_req_free(TAKE(c->req));
    else if (c->phase == CONN_HEAD && over(c, now, lim->head_ms))
        http_conn_refuse(c, 408, "the head of the request did not arrive in time");
    else if (c->phase == CONN_BODY && !c->paused && over(c, now, lim->body_ms))
        http_conn_refuse(c, 408, "the body of the request did not arrive in time");
    else if (c->phase == CONN_LINGER && over(c, now, HTTP_LINGER_MS))
        http_conn_close(c);
}
