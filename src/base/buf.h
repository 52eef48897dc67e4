/* buf.h - growable bytes with a maximum; overflow is a sticky error, not a bigger buffer */
#pragma once
#include "base/str.h"
#include <stdarg.h>
#include <stdbool.h>

struct buf {
    char *p; /* NUL-terminated whenever not NULL */
    /* n: bytes in use, without the NUL.  cap: bytes allocated.  max: the most that n may become;
     * 0 = no limit. */
    size_t n, cap, max;
    bool overflow; /* an append did not fit; nothing of it was added */
};

/* Does not free: for a buf that holds memory, call buf_done first. */
void buf_init(struct buf *b, size_t max);
/* Frees the memory and keeps the maximum.  A zeroed struct is accepted. */
void buf_done(struct buf *b);
/* Empties the buf and clears `overflow`.  The memory is kept for the next use. */
void buf_reset(struct buf *b);
/* The add functions return false when the bytes do not fit below the maximum; they then add
 * nothing. The pointer p must not point into the buf: growing may move its memory. */
bool buf_add(struct buf *b, const void *p, size_t n);
bool buf_adds(struct buf *b, const char *s);
bool buf_addc(struct buf *b, char c);
bool buf_add_utf8(struct buf *b, uint32_t cp); /* up to 0x1FFFFF, surrogates as they are */
bool buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool buf_vaddf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Room for n more bytes and their NUL, or NULL when they do not fit.  The caller writes at the
 * result, adds the bytes it used to b->n, and keeps the text NUL-terminated. */
char *buf_reserve(struct buf *b, size_t n);
/* Drops the first n bytes; n is at most b->n.  The rest is moved to the front, which costs time
 * proportional to the rest. */
void buf_consume(struct buf *b, size_t n);
/* Hands the memory to the caller, who frees it.  The result is never NULL, and the buf is empty
 * afterwards.  out_n may be NULL. */
char *buf_take(struct buf *b, size_t *out_n);
/* Borrows the content until the next change of the buf. */
static inline struct str buf_str(const struct buf *b)
{
    return (struct str){b->p ? b->p : "", b->n};
}
