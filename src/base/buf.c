/* buf.c - growable bytes
 *
 * A maximum of 0 (a zeroed struct) means no limit.  The terminating NUL is not counted.
 * Once an append did not fit, every later one fails too, so that callers check once at the end.
 */
#include "base/buf.h"
#include "base/util.h"
#include <stdio.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_done(struct buf *b)
{
    free(b->p);
    *b = (struct buf){.max = b->max};
}

void buf_reset(struct buf *b)
{
    b->n = 0;
    b->overflow = false;
    if (b->p)
        b->p[0] = '\0';
}

/* The slow path of buf_room: refuses what is beyond the maximum, else allocates.  Capacity
 * doubles, so that many small appends cost linear time, but never exceeds the maximum and the
 * NUL. */
static char *grow(struct buf *b, size_t n)
{
    size_t max = b->max ? b->max : SIZE_MAX / 2;

    if (b->overflow || n > max || b->n > max - n) {
        b->overflow = true;
        return NULL;
    }
    size_t need = b->n + n + 1;
    if (need > b->cap) {
        size_t cap = MAX(need, MIN(MAX(b->cap * 2, 64), max + 1));
        b->p = xrealloc(b->p, cap, 1);
        b->cap = cap;
        b->p[b->n] = '\0';
    }
    return b->p + b->n;
}

/* Almost every append finds room, so that is asked first and without a call. */
static inline char *buf_room(struct buf *b, size_t n)
{
    bool fits = n < b->cap - b->n && !b->overflow && (b->max == 0 || b->n + n <= b->max);

    return fits ? b->p + b->n : grow(b, n);
}

char *buf_reserve(struct buf *b, size_t n)
{
    return buf_room(b, n);
}

bool buf_add(struct buf *b, const void *p, size_t n)
{
    char *to = buf_room(b, n);

    if (!to)
        return false;
    if (n)
        memcpy(to, p, n);
    b->n += n;
    to[n] = '\0';
    return true;
}

bool buf_adds(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

bool buf_addc(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

bool buf_add_utf8(struct buf *b, uint32_t cp)
{
    if (cp < 0x80)
        return buf_addc(b, (char)cp);
    size_t len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    char bytes[4];
    for (size_t i = len; i-- > 1; cp >>= 6)
        bytes[i] = (char)(0x80 | (cp & 0x3F));
    /* The lead byte of a sequence of `len` bytes starts with `len` one bits and a zero bit. */
    bytes[0] = (char)((0xF00u >> len & 0xF0) | cp);
    return buf_add(b, bytes, len);
}

bool buf_vaddf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    char small[256];

    va_copy(again, ap);
    int n = vsnprintf(small, sizeof(small), fmt, ap);
    ASSERT(n >= 0);
    bool ok;
    if ((size_t)n < sizeof(small)) {
        ok = buf_add(b, small, (size_t)n);
    } else {
        /* The text did not fit into `small`.  Its length is known now, so the second pass writes
         * in place. */
        char *to = buf_reserve(b, (size_t)n);
        ok = to != NULL;
        if (ok) {
            vsnprintf(to, (size_t)n + 1, fmt, again);
            b->n += (size_t)n;
        }
    }
    va_end(again);
    return ok;
}

bool buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    bool ok = buf_vaddf(b, fmt, ap);
    va_end(ap);
    return ok;
}

void buf_consume(struct buf *b, size_t n)
{
    ASSERT(n <= b->n);
    if (n == 0)
        return;
    memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
    b->p[b->n] = '\0';
}

char *buf_take(struct buf *b, size_t *out_n)
{
    char *p = b->p ? b->p : xstrdup("");

    if (out_n)
        *out_n = b->n;
    b->p = NULL;
    buf_done(b);
    return p;
}
