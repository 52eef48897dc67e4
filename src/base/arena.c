/* arena.c - a chain of blocks that only grows until it is reset
 *
 * Blocks double up to 1 MiB; a bigger request gets a block of its own.
 */
#include "base/arena.h"
#include "base/util.h"
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_MIN = 4096, BLOCK_MAX = 1 << 20, ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t cap, used;
    alignas(ALIGN) char data[];
};

/* The rest of the block before stays unused: only the newest block serves requests. */
static struct arena_block *block_add(struct arena *a, size_t n)
{
    size_t cap = a->head ? MIN(a->head->cap * 2, (size_t)BLOCK_MAX) : BLOCK_MIN;

    cap = MAX(cap, n);
    struct arena_block *b = xmalloc(sizeof(*b) + cap);
    *b = (struct arena_block){.next = a->head, .cap = cap};
    a->head = b;
    a->total_bytes += cap;
    return b;
}

void *arena_alloc(struct arena *a, size_t n)
{
    ASSERT(n <= SIZE_MAX / 2);
    /* Every size is a multiple of ALIGN, so the next allocation in the block is aligned too. */
    n = (MAX(n, 1) + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    struct arena_block *b = a->head;
    if (!b || b->cap - b->used < n)
        b = block_add(a, n);
    void *p = b->data + b->used;
    b->used += n;
    return memset(p, 0, n);
}

char *arena_strdup(struct arena *a, const char *s)
{
    return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    size_t len = s ? strnlen(s, n) : 0;
    char *copy = arena_alloc(a, len + 1);

    if (len)
        memcpy(copy, s, len);
    return copy;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    ASSERT(n >= 0);
    char *out = arena_alloc(a, (size_t)n + 1);
    vsnprintf(out, (size_t)n + 1, fmt, again);
    va_end(again);
    return out;
}

void arena_reset(struct arena *a)
{
    struct arena_block *keep = a->head;

    if (!keep)
        return;
    for (struct arena_block *b = keep->next, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    keep->next = NULL;
    keep->used = 0;
    a->total_bytes = keep->cap;
}

void arena_done(struct arena *a)
{
    arena_reset(a);
    free(a->head);
    *a = (struct arena){0};
}
