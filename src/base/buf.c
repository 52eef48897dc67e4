/* buf.c - growable bytes, and the JSON text forms everything that writes JSON shares
 *
 * A maximum of 0 (a zeroed struct) means no limit.  The terminating NUL is not counted.
 * Once an append did not fit, every later one fails too, so that callers check once at the end.
 */
#include "base/buf.h"
#include "base/util.h"
#include <math.h>
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
static inline char *reserve(struct buf *b, size_t n)
{
    bool fits = n < b->cap - b->n && !b->overflow && (b->max == 0 || b->n + n <= b->max);

    return fits ? b->p + b->n : grow(b, n);
}

char *buf_reserve(struct buf *b, size_t n)
{
    return reserve(b, n);
}

bool buf_add(struct buf *b, const void *p, size_t n)
{
    char *to = reserve(b, n);

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

static void add_escape(struct buf *b, unsigned char c)
{
    static const char shorts[] = "\bb\tt\nn\ff\rr\"\"\\\\";

    for (size_t i = 0; i + 1 < sizeof(shorts); i += 2) {
        if ((unsigned char)shorts[i] == c) {
            buf_add(b, (char[]){'\\', shorts[i + 1]}, 2);
            return;
        }
    }
    buf_addf(b, "\\u%04x", c);
}

bool buf_add_json_str(struct buf *b, struct str s)
{
    size_t start = b->n;
    size_t plain = 0; /* s[plain..i) needs no change and is copied in one go */

    buf_addc(b, '"');
    for (size_t i = 0; i < s.n;) {
        unsigned char c = (unsigned char)s.p[i];
        uint32_t cp;
        size_t len = 1;
        bool valid = true;
        if (c >= 0x80) {
            len = utf8_decode((struct str){s.p + i, s.n - i}, &cp);
            valid = len > 0;
            len = MAX(len, 1);
        }
        if (!valid || c < 0x20 || c == '"' || c == '\\') {
            buf_add(b, s.p + plain, i - plain);
            if (valid)
                add_escape(b, c);
            else
                buf_adds(b, "\xEF\xBF\xBD");
            plain = i + 1;
        }
        i += len;
    }
    if (s.n > plain)
        buf_add(b, s.p + plain, s.n - plain);
    if (buf_addc(b, '"'))
        return true;
    b->n = MIN(start, b->n);
    if (b->p)
        b->p[b->n] = '\0';
    return false;
}

bool buf_add_json_double(struct buf *b, double d)
{
    char text[40];

    if (!isfinite(d))
        return buf_adds(b, "null");
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    /* "1" would read back as a whole number. */
    const char *tail = strpbrk(text, ".e") ? "" : ".0";
    return buf_addf(b, "%s%s", text, tail);
}
