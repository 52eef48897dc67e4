/* sse.c - server-sent events out of the pieces a stream arrives in
 *
 * Lines end in LF or CRLF; an empty one ends an event; a line that begins with a colon is a sign of
 * life and carries nothing.
 */
#include "io/sse.h"

/* Bytes of a longer line are dropped, so that a broken server cannot fill the memory. */
enum { SSE_LINE_MAX = 4 << 20 };

void sse_init(struct sse *s, sse_fn fn, void *arg)
{
    *s = (struct sse){.fn = fn, .arg = arg};
    buf_init(&s->line, SSE_LINE_MAX);
    buf_init(&s->kind, 256);
    buf_init(&s->data, SSE_LINE_MAX);
}

void sse_done(struct sse *s)
{
    buf_done(&s->line);
    buf_done(&s->kind);
    buf_done(&s->data);
}

/* An event without data is no event, by the standard.  The id stays for the next event. */
static bool deliver(struct sse *s)
{
    struct sse_event ev = {s->id, buf_str(&s->kind), buf_str(&s->data)};
    bool more = true;

    if (s->data.n) {
        s->last_id = s->id;
        more = s->fn(s->arg, &ev);
    }
    buf_reset(&s->kind);
    buf_reset(&s->data);
    return more;
}

/* False: the callback wants no more.  A comment has an empty key and is skipped. */
static bool take_line(struct sse *s, struct str line)
{
    struct str value;
    int64_t n;

    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (!line.n)
        return deliver(s);
    struct str key = str_cut(line, ':', &value);
    if (value.n && value.p[0] == ' ')
        value = (struct str){value.p + 1, value.n - 1};
    if (str_eq_c(key, "id")) {
        if (str_to_i64(value, &n))
            s->id = (uint64_t)n;
    } else if (str_eq_c(key, "event")) {
        buf_reset(&s->kind);
        buf_add(&s->kind, value.p, value.n);
    } else if (str_eq_c(key, "data")) {
        if (s->data.n)
            buf_addc(&s->data, '\n');
        buf_add(&s->data, value.p, value.n);
    }
    return true;
}

bool sse_feed(void *sse, struct str piece)
{
    struct sse *s = sse;

    while (piece.n) {
        const char *nl = memchr(piece.p, '\n', piece.n);
        if (!nl) {
            buf_add(&s->line, piece.p, piece.n);
            return true;
        }
        size_t n = (size_t)(nl - piece.p);
        buf_add(&s->line, piece.p, n);
        bool more = take_line(s, buf_str(&s->line));
        buf_reset(&s->line);
        if (!more)
            return false;
        piece = (struct str){nl + 1, piece.n - n - 1};
    }
    return true;
}
