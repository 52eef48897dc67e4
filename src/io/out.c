/* out.c - bytes on their way to a client
 *
 * What can be written is written at once, straight from the caller's memory; only what the kernel
 * does not take is kept, in chunks, and libuv writes one chunk after the other.  Small pieces of a
 * slow stream are gathered in the last chunk.
 */
#include "io/http_priv.h"

enum { GATHER_BYTES = 16 * 1024 };

static void start_write(struct http_conn *c);

static void on_written(uv_write_t *w, int status)
{
    struct http_conn *c = w->data;
    struct http_chunk *k = c->out.first;

    c->writing = false;
    c->out.first = k->next;
    if (!c->out.first)
        c->out.last = NULL;
    c->out.bytes -= k->n - k->off;
    if (status == 0)
        c->srv->stats.bytes_out += k->n - k->off;
    free(k->p);
    free(k);
    if (c->phase == CONN_CLOSED)
        return;
    if (status < 0)
        http_conn_close(c);
    else if (c->out.first)
        start_write(c);
    else
        http_conn_drained(c);
}

static void start_write(struct http_conn *c)
{
    struct http_chunk *k = c->out.first;
    uv_buf_t b = {.base = k->p + k->off, .len = k->n - k->off};

    c->write.data = c;
    c->writing = true;
    if (uv_write(&c->write, &c->io.stream, &b, 1, on_written) < 0) {
        c->writing = false;
        http_conn_close(c);
    }
}

static void chunk_queue(struct http_conn *c, struct http_chunk *k)
{
    if (!c->out.first) {
        c->out.first = k;
        c->out.taken = c->out.total;
        c->out.taken_ms = loop_mono_ms(c->srv->loop);
    } else {
        c->out.last->next = k;
    }
    c->out.last = k;
    c->out.bytes += k->n - k->off;
    c->out.total += k->n - k->off;
}

/* Appends to the last chunk if there is room, except to a chunk that libuv is writing: growing
 * it would move memory that libuv reads. */
static void queue_copy(struct http_conn *c, const char *p, size_t n)
{
    struct http_chunk *last = c->out.last;

    if (last && (last != c->out.first || !c->writing) && last->n + n <= GATHER_BYTES) {
        if (last->cap < last->n + n) {
            last->cap = MIN(MAX(last->cap * 2, last->n + n), (size_t)GATHER_BYTES);
            last->p = xrealloc(last->p, last->cap, 1);
        }
        memcpy(last->p + last->n, p, n);
        last->n += n;
        c->out.bytes += n;
        c->out.total += n;
        return;
    }
    struct http_chunk *k = xcalloc(1, sizeof(*k));
    k->p = xmalloc(n);
    k->n = k->cap = n;
    memcpy(k->p, p, n);
    chunk_queue(c, k);
}

/* p[off..n) is to be sent; the chunk takes p. */
static void queue_own(struct http_conn *c, char *p, size_t off, size_t n)
{
    struct http_chunk *k = xcalloc(1, sizeof(*k));

    *k = (struct http_chunk){.p = p, .off = off, .n = n, .cap = n};
    chunk_queue(c, k);
}

void http_send_raw(struct http_conn *c, const uv_buf_t *bufs, unsigned n, char *own)
{
    size_t sent = 0;

    if (!c->out.first) {
        int r = uv_try_write(&c->io.stream, bufs, n);
        if (r < 0 && r != UV_EAGAIN) {
            free(own);
            http_conn_close(c);
            return;
        }
        sent = (size_t)MAX(r, 0);
        c->srv->stats.bytes_out += sent;
    }
    for (unsigned i = 0; i < n; i++) {
        size_t skip = MIN(sent, bufs[i].len);
        sent -= skip;
        if (skip == bufs[i].len)
            continue;
        if (own && i == n - 1)
            queue_own(c, TAKE(own), skip, bufs[i].len);
        else
            queue_copy(c, bufs[i].base + skip, bufs[i].len - skip);
    }
    free(own);
    if (c->out.first && !c->writing)
        start_write(c);
}

void http_send(struct http_conn *c, const uv_buf_t *bufs, unsigned n, char *own)
{
    if (c->phase == CONN_CLOSED) {
        free(own);
    } else if (c->tls) {
        tls_send(c, bufs, n);
        free(own);
    } else {
        http_send_raw(c, bufs, n, own);
    }
}

uint64_t http_out_taken(const struct http_conn *c)
{
    size_t left = c->out.bytes;

    if (c->writing) /* libuv knows how much of the chunk under way is left */
        left -= c->out.first->n - c->out.first->off - uv_stream_get_write_queue_size(&c->io.stream);
    return c->out.total - left;
}

void http_out_free(struct http_conn *c)
{
    while (c->out.first) {
        struct http_chunk *k = c->out.first;
        c->out.first = k->next;
        free(k->p);
        free(k);
    }
}
