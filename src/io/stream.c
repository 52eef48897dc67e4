/* stream.c - replies that go on: chunked bodies, server-sent events
 *
 * A stream holds no memory while it is idle beyond its connection and request.  A reader that falls
 * behind by more than stream_bytes, or takes nothing for write_ms, is cut off: it can come back and
 * resume by id, while we must not collect the world's events for it.
 */
#include "io/http_priv.h"
#include <stdio.h>

void http_stream_begin(struct http_req *r, int status, const char *content_type)
{
    struct http_conn *c = r->c;

    ASSERT(r->reply.handed && !r->reply.replied);
    if (!c || c->phase == CONN_CLOSED)
        return;
    r->reply.chunked = !r->http10 && r->method != HTTP_HEAD;
    if (r->http10)
        r->keep_alive = false; /* the end of the body is the end of the connection */
    bool events = content_type && str_starts(str_of(content_type), STR("text/event-stream"));
    struct buf *b = http_head_begin(r, status, content_type, -1);
    if (!r->http10)
        buf_adds(b, "Transfer-Encoding: chunked\r\n");
    if (events)
        buf_adds(b, "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n");
    http_head_end(r, b);
    buf_done(&r->extra);
    buf_done(&r->body);
    c->phase = CONN_STREAM;
    http_share_stream(c, true);
    uv_buf_t out = {.base = b->p, .len = b->n};
    http_send(c, &out, 1, NULL);
    if (c->phase == CONN_STREAM && c->srv->closing)
        http_stream_cut(r);
}

/* False once the client left or the server ended the stream; writing is then ignored. */
static bool open_for_writing(const struct http_req *r)
{
    return r->c && r->c->phase == CONN_STREAM && !r->reply.cut;
}

bool http_stream_write(struct http_req *r, struct str bytes)
{
    struct http_conn *c = r->c;

    if (!open_for_writing(r))
        return false;
    if (bytes.n == 0 || r->method == HTTP_HEAD)
        return true;
    if (c->out.bytes >= c->srv->lim.stream_bytes) {
        http_conn_close(c);
        return false;
    }
    uv_buf_t body = {.base = (char *)bytes.p, .len = bytes.n};
    if (!r->reply.chunked) {
        http_send(c, &body, 1, NULL);
    } else {
        char size[20];
        int n = snprintf(size, sizeof(size), "%zx\r\n", bytes.n);
        uv_buf_t out[3] = {
            {.base = size, .len = (size_t)n}, body, {.base = (char *)"\r\n", .len = 2}};
        http_send(c, out, 3, NULL);
    }
    return c->phase != CONN_CLOSED;
}

/* The empty chunk.  Without chunks the end of the connection is the end of the stream. */
static void send_end(struct http_req *r)
{
    uv_buf_t end = {.base = (char *)"0\r\n\r\n", .len = 5};

    if (r->reply.chunked)
        http_send(r->c, &end, 1, NULL);
}

void http_stream_end(struct http_req *r)
{
    struct http_conn *c = r->c;

    if (!http_reply_claim(r))
        return;
    if (r->reply.cut)
        return; /* closes by itself once it is drained */
    send_end(r);
    http_conn_finish(c);
}

void http_stream_abort(struct http_req *r)
{
    struct http_conn *c = r->c;

    if (http_reply_claim(r))
        http_conn_close(c);
}

void http_stream_cut(struct http_req *r)
{
    struct http_conn *c = r->c;

    if (r->reply.cut || c->phase != CONN_STREAM)
        return;
    send_end(r);
    r->reply.cut = true;
    if (!c->out.first)
        http_conn_close(c);
}

size_t http_stream_backlog(const struct http_req *r)
{
    return r->c ? r->c->out.bytes : 0;
}

void sse_format(struct buf *b, uint64_t id, const char *kind, struct str data)
{
    buf_addf(b, "id: %llu\nevent: %s\n", (unsigned long long)id, kind);
    do {
        /* CR, LF and CRLF all end a line for the reader. */
        size_t n = 0;
        while (n < data.n && data.p[n] != '\n' && data.p[n] != '\r')
            n++;
        buf_add(b, "data: ", 6);
        buf_add(b, data.p, n);
        buf_addc(b, '\n');
        if (n + 1 < data.n && data.p[n] == '\r' && data.p[n + 1] == '\n')
            n++;
        n = MIN(n + 1, data.n);
        data = (struct str){data.p + n, data.n - n};
    } while (data.n > 0);
    buf_addc(b, '\n');
}

uint64_t sse_resume_id(struct http_req *r)
{
    struct str text = http_header(r, "last-event-id");
    int64_t id;

    if (!text.p)
        text = str_of(http_param(r, "after"));
    return text.n > 0 && str_to_i64(text, &id) && id > 0 ? (uint64_t)id : 0;
}
