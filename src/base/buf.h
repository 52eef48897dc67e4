/* buf.h - growable bytes with a maximum; overflow is a sticky error, not a bigger buffer */
#pragma once
#include "base/str.h"
#include <stdarg.h>
#include <stdbool.h>

struct buf {
    char *p; /* NUL-terminated whenever not NULL */
    size_t n, cap, max;
    bool overflow; /* an append did not fit; nothing of it was added */
};

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);  /* frees; accepts a zeroed struct */
void buf_reset(struct buf *b); /* keeps the memory */
bool buf_add(struct buf *b, const void *p, size_t n);
bool buf_adds(struct buf *b, const char *s);
bool buf_addc(struct buf *b, char c);
bool buf_add_utf8(struct buf *b, uint32_t cp); /* up to 0x1FFFFF, surrogates as they are */
bool buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool buf_vaddf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
char *buf_reserve(struct buf *b, size_t n); /* room for n more bytes, or NULL; then b->n += used */
void buf_consume(struct buf *b, size_t n);  /* drops the first n bytes */
char *buf_take(struct buf *b, size_t *out_n); /* never NULL; the buf is empty afterwards */
static inline struct str buf_str(const struct buf *b)
{
    return (struct str){b->p ? b->p : "", b->n};
}
