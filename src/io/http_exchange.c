/* http_exchange.c - a request written, and llhttp fed with the answer */
#include "io/http_exchange.h"
#include "base/util.h"
#include <errno.h>
#include <llhttp.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>

/* Bytes per receive; a body up to BODY_INLINE is copied behind the head and leaves in the same
 * send. */
enum { READ_BYTES = 64 << 10, BODY_INLINE = 16 << 10 };
/* Bytes of a chunk of a source, between its size as eight digits and a line's end. */
enum { CHUNK_BYTES = 16 << 10, CHUNK_SIZE_LINE = 10 };

struct http_exchange {
    struct buf head; /* the request line and headers, with a short body behind them; then chunks */
    struct str body; /* a long one */
    size_t sent;     /* bytes of both that are out */
    const struct http_source *source; /* NULL also when its last chunk is in head */
    llhttp_t parser;
    const struct http_exchange_fns *fns;
    void *arg;
    char name[40], value[80]; /* of the current header; longer ones are not reported */
    size_t name_n, value_n;
    bool in_value, complete, stopped, keep_alive, no_body;
    int status;
    char *in; /* made when something is received */
};

/* ---- the request ---- */

bool http_request_has_header(const struct http_request *q, const char *name)
{
    size_t n = strlen(name);

    for (const char *const *h = q->headers; h && *h; h++) {
        if (strncasecmp(*h, name, n) == 0 && (*h)[n] == ':')
            return true;
    }
    return false;
}

bool http_request_repeatable(const struct http_request *q)
{
    return !q->source && ((strcmp(q->method, "POST") != 0 && strcmp(q->method, "PATCH") != 0) ||
                          http_request_has_header(q, "idempotency-key"));
}

static void request_write_head(const struct http_request *q, struct buf *b)
{
    bool may_have_body = strcmp(q->method, "GET") != 0 && strcmp(q->method, "HEAD") != 0;
    const char *const parts[] = {q->method, " ", q->path, " HTTP/1.1\r\nHost: localhost\r\n"};

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        buf_adds(b, parts[i]);
    if (q->close)
        buf_adds(b, "Connection: close\r\n");
    if (q->token && !http_request_has_header(q, "authorization")) {
        buf_adds(b, "Authorization: Bearer ");
        buf_adds(b, q->token);
        buf_adds(b, "\r\n");
    }
    for (const char *const *h = q->headers; h && *h; h++) {
        buf_adds(b, *h);
        buf_adds(b, "\r\n");
    }
    if (q->source)
        buf_adds(b, "Transfer-Encoding: chunked\r\n");
    else if (q->body.n > 0 || may_have_body)
        buf_addf(b, "Content-Length: %zu\r\n", q->body.n);
    if (q->body.n > 0 && !http_request_has_header(q, "content-type"))
        buf_adds(b, "Content-Type: application/json\r\n");
    buf_adds(b, "\r\n");
}

/* Replaces what was sent by the next chunk of the source.  -1: the source gave up. */
static int exchange_next_chunk(struct http_exchange *x, struct err *e)
{
    buf_reset(&x->head);
    x->sent = 0;
    char *p = buf_reserve(&x->head, CHUNK_SIZE_LINE + CHUNK_BYTES + 2);
    ssize_t n = x->source->fill(x->source->arg, p + CHUNK_SIZE_LINE, CHUNK_BYTES);
    if (n < 0)
        return err_set(e, ERR_BUSY, "the body of the request was not produced to its end");
    if (n == 0) {
        x->source = NULL;
        buf_adds(&x->head, "0\r\n\r\n");
        return 0;
    }
    snprintf(p, CHUNK_SIZE_LINE, "%08x\r", (unsigned)n);
    p[CHUNK_SIZE_LINE - 1] = '\n'; /* over the NUL, the data behind it stay */
    x->head.n = CHUNK_SIZE_LINE + (size_t)n;
    buf_adds(&x->head, "\r\n");
    return 0;
}

int http_exchange_send(struct http_exchange *x, int fd, struct err *e)
{
    for (;;) {
        bool in_head = x->sent < x->head.n;
        struct str from = in_head ? buf_str(&x->head) : x->body;
        size_t at = in_head ? x->sent : x->sent - x->head.n;
        if (at == from.n) {
            if (!x->source)
                return 0;
            if (exchange_next_chunk(x, e) < 0)
                return -1;
            continue;
        }
        ssize_t n = send(fd, from.p + at, from.n - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        x->sent += (size_t)n;
    }
}

void http_exchange_rewind(struct http_exchange *x)
{
    ASSERT(!x->source && x->status == 0);
    x->sent = 0;
    llhttp_reset(&x->parser);
}

/* ---- the answer ---- */

/* Reports the header line that is complete.  One that did not fit its array is left out: a cut
 * value could be mistaken for a whole one. */
static void header_end(struct http_exchange *x)
{
    if (x->in_value && x->fns->header && x->name_n < sizeof(x->name) &&
        x->value_n < sizeof(x->value))
        x->fns->header(x->arg, (struct str){x->name, x->name_n},
                       (struct str){x->value, x->value_n});
    x->name_n = x->value_n = 0;
    x->in_value = false;
}

/* Counts on beyond `cap`, so that header_end can tell that the text did not fit. */
static void header_append(char *to, size_t cap, size_t *n, const char *at, size_t add)
{
    if (*n + add < cap)
        memcpy(to + *n, at, add);
    *n += add;
}

static int on_header_name(llhttp_t *p, const char *at, size_t n)
{
    struct http_exchange *x = p->data;

    if (x->in_value)
        header_end(x);
    header_append(x->name, sizeof(x->name), &x->name_n, at, n);
    return 0;
}

static int on_header_value(llhttp_t *p, const char *at, size_t n)
{
    struct http_exchange *x = p->data;

    x->in_value = true;
    header_append(x->value, sizeof(x->value), &x->value_n, at, n);
    return 0;
}

static int on_head_complete(llhttp_t *p)
{
    struct http_exchange *x = p->data;

    header_end(x);
    p->upgrade = 0;
    if (p->status_code < 200)
        return 0; /* an interim answer; the real one follows */
    x->status = p->status_code;
    x->keep_alive = llhttp_should_keep_alive(p);
    if (x->fns->head)
        x->fns->head(x->arg, x->status);
    return x->no_body; /* 1: no body follows whatever its length says */
}

/* HPE_PAUSED makes llhttp return at once; http_exchange_feed then returns 0. */
static int on_body_piece(llhttp_t *p, const char *at, size_t n)
{
    struct http_exchange *x = p->data;

    if (n == 0 || x->fns->body(x->arg, (struct str){at, n}))
        return 0;
    x->stopped = true;
    return HPE_PAUSED;
}

static int on_answer_complete(llhttp_t *p)
{
    struct http_exchange *x = p->data;

    if (p->status_code < 200)
        return 0;
    x->complete = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_header_name,
    .on_header_value = on_header_value,
    .on_headers_complete = on_head_complete,
    .on_body = on_body_piece,
    .on_message_complete = on_answer_complete,
};

struct http_exchange *http_exchange_new(const struct http_request *q,
                                        const struct http_exchange_fns *fns, void *arg)
{
    struct http_exchange *x = xcalloc(1, sizeof(*x));
    bool together = q->body.n <= BODY_INLINE; /* in one send */

    buf_reserve(&x->head, 512 + (together ? q->body.n : 0));
    request_write_head(q, &x->head);
    if (together)
        buf_add(&x->head, q->body.p, q->body.n);
    else
        x->body = q->body;
    x->source = q->source;
    x->no_body = strcmp(q->method, "HEAD") == 0;
    x->fns = fns;
    x->arg = arg;
    llhttp_init(&x->parser, HTTP_RESPONSE, &settings);
    x->parser.data = x;
    return x;
}

void http_exchange_free(struct http_exchange *x)
{
    if (!x)
        return;
    buf_done(&x->head);
    free(x->in);
    free(x);
}

int http_exchange_feed(struct http_exchange *x, const char *p, size_t n, struct err *e)
{
    if (x->complete || x->stopped)
        return 0;
    llhttp_errno_t error = n > 0 ? llhttp_execute(&x->parser, p, n) : llhttp_finish(&x->parser);
    if (x->complete || x->stopped)
        return 0;
    if (n == 0)
        return err_set(e, ERR_UNAVAILABLE, "the server closed the connection early");
    if (error != HPE_OK)
        return err_set(e, ERR_UNAVAILABLE, "the answer is not HTTP: %s", llhttp_errno_name(error));
    return 1;
}

int http_exchange_receive(struct http_exchange *x, int fd, int flags, struct err *e)
{
    if (!x->in)
        x->in = xmalloc(READ_BYTES);
    ssize_t n = recv(fd, x->in, READ_BYTES, flags);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return 1;
    if (n < 0)
        return err_set(e, ERR_UNAVAILABLE, "the connection broke: %s", strerror(errno));
    return http_exchange_feed(x, x->in, (size_t)n, e);
}

int http_exchange_status(const struct http_exchange *x)
{
    return x->status;
}

bool http_exchange_stopped(const struct http_exchange *x)
{
    return x->stopped;
}

bool http_exchange_reusable(const struct http_exchange *x)
{
    return x->complete && x->keep_alive && !x->source && x->sent == x->head.n + x->body.n;
}
