/* http_client_unix.c - HTTP over a unix socket, in a few blocking calls
 *
 * Every command line call takes this way: socket, connect, one send, and receives until llhttp says
 * the message is whole.  Nothing else is loaded or set up.  A kept connection that the server
 * closed meanwhile is noticed before it is used again, so no request is ever sent twice.
 */
#include "base/util.h"
#include "io/http_client_priv.h"
#include "io/unix_addr.h"
#include <errno.h>
#include <llhttp.h>
#include <stdio.h>

enum { READ_BYTES = 64 * 1024, BODY_INLINE = 16 * 1024 };

struct reading {
    struct http_ask *ask;
    char name[40], value[80]; /* of the header at hand; longer ones are of no interest */
    size_t name_n, value_n;
    bool in_value, complete, keep_alive;
};

static void end_header(struct reading *r)
{
    if (r->in_value && r->name_n < sizeof(r->name) && r->value_n < sizeof(r->value))
        http_response_header(r->ask->out, (struct str){r->name, r->name_n},
                             (struct str){r->value, r->value_n});
    r->name_n = r->value_n = 0;
    r->in_value = false;
}

static void append(char *to, size_t cap, size_t *n, const char *at, size_t add)
{
    if (*n + add < cap)
        memcpy(to + *n, at, add);
    *n += add;
}

static int on_name(llhttp_t *p, const char *at, size_t n)
{
    struct reading *r = p->data;

    if (r->in_value)
        end_header(r);
    append(r->name, sizeof(r->name), &r->name_n, at, n);
    return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t n)
{
    struct reading *r = p->data;

    r->in_value = true;
    append(r->value, sizeof(r->value), &r->value_n, at, n);
    return 0;
}

static int on_head(llhttp_t *p)
{
    struct reading *r = p->data;

    end_header(r);
    r->ask->out->status = p->status_code;
    if (r->ask->live_status)
        *r->ask->live_status = p->status_code;
    r->keep_alive = llhttp_should_keep_alive(p);
    p->upgrade = 0;
    return strcmp(r->ask->method, "HEAD") == 0; /* 1: no body follows whatever its length says */
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
    struct reading *r = p->data;

    if (!r->ask->on_bytes(r->ask->arg, (struct str){at, n})) {
        r->ask->stopped = true;
        return -1;
    }
    return 0;
}

static int on_complete(llhttp_t *p)
{
    struct reading *r = p->data;

    if (p->status_code < 200)
        return 0; /* an interim answer; the real one follows */
    r->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_complete,
};

void http_unix_close(struct http_client *c)
{
    if (c->fd >= 0)
        close(TAKE_FD(c->fd));
}

static int unreachable(struct http_client *c, struct err *e)
{
    int sys = errno;

    err_set(e, ERR_UNAVAILABLE, "no server answers at %s (%s)", c->path, strerror(sys));
    if (e)
        e->sys = sys;
    return -1;
}

static int connect_unix(struct http_client *c, struct err *e)
{
    struct sockaddr_un a;
    socklen_t n;
    AUTO_FD dir = -1;
    char byte;

    /* Anything to read on an idle connection can only be its end. */
    if (c->fd >= 0 && (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN))
        http_unix_close(c);
    if (c->fd >= 0)
        return 0;
    if (unix_addr_make(c->path, &a, &n, &dir, e) < 0)
        return unreachable(c, e);
    AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_sys(e, "cannot make a socket");
    int r;
    do
        r = connect(fd, (struct sockaddr *)&a, n);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return unreachable(c, e);
    c->fd = TAKE_FD(fd);
    return 0;
}

static void write_head(struct http_client *c, const struct http_ask *a, struct buf *b)
{
    buf_adds(b, a->method);
    buf_addc(b, ' ');
    buf_adds(b, a->path);
    buf_adds(b, " HTTP/1.1\r\nHost: localhost\r\n");
    if (c->token && !http_ask_has_header(a, "authorization")) {
        buf_adds(b, "Authorization: Bearer ");
        buf_adds(b, c->token);
        buf_adds(b, "\r\n");
    }
    for (const char *const *h = a->headers; h && *h; h++) {
        buf_adds(b, *h);
        buf_adds(b, "\r\n");
    }
    bool may_have_body = strcmp(a->method, "GET") != 0 && strcmp(a->method, "HEAD") != 0;
    if (a->body.n > 0 || may_have_body)
        buf_addf(b, "Content-Length: %zu\r\n", a->body.n);
    if (a->body.n > 0 && !http_ask_has_header(a, "content-type"))
        buf_adds(b, "Content-Type: application/json\r\n");
    buf_adds(b, "\r\n");
}

/* A server that refuses a large body answers and stops reading: a failed send is no error yet, its
 * reason is waiting to be read. */
static void send_bytes(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return;
        p += sent;
        n -= (size_t)sent;
    }
}

static void send_request(struct http_client *c, const struct http_ask *a)
{
    AUTO(buf) struct buf b = {0};
    bool together = a->body.n <= BODY_INLINE;

    buf_reserve(&b, 512 + (together ? a->body.n : 0));
    write_head(c, a, &b);
    if (together)
        buf_add(&b, a->body.p, a->body.n);
    send_bytes(c->fd, b.p, b.n);
    if (!together)
        send_bytes(c->fd, a->body.p, a->body.n);
}

static int receive(struct http_client *c, struct reading *r, struct err *e)
{
    llhttp_t parser;

    llhttp_init(&parser, HTTP_RESPONSE, &settings);
    parser.data = r;
    if (!c->in)
        c->in = xmalloc(READ_BYTES);
    for (;;) {
        ssize_t n = recv(c->fd, c->in, READ_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(e, ERR_UNAVAILABLE, "the connection to %s broke: %s", c->path,
                           strerror(errno));
        /* An end without a length is a whole message only for those that said so. */
        llhttp_errno_t error =
            n > 0 ? llhttp_execute(&parser, c->in, (size_t)n) : llhttp_finish(&parser);
        if (r->complete || r->ask->stopped)
            return 0;
        if (n == 0)
            return err_set(e, ERR_UNAVAILABLE, "the server at %s closed the connection early",
                           c->path);
        if (error != HPE_OK)
            return err_set(e, ERR_UNAVAILABLE, "what answers at %s is not our server: %s", c->path,
                           llhttp_errno_name(error));
    }
}

int http_unix_call(struct http_client *c, struct http_ask *a, struct err *e)
{
    struct reading r = {.ask = a};

    if (connect_unix(c, e) < 0)
        return -1;
    send_request(c, a);
    int result = receive(c, &r, e);
    if (result < 0 || a->stopped || !r.keep_alive)
        http_unix_close(c);
    return result;
}
