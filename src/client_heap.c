/* client_heap.c - malloc of the small client
 *
 * musl's maps a page or two for every size of block and gives them back when the last one is freed:
 * fifteen system calls and as many page faults in a program that lives for a millisecond, a third
 * of its start.  Here blocks are powers of two, carved from a region that is there from the start
 * (its pages come as they are touched) and then from ever larger ones; a freed block waits in the
 * list of its size.  Large blocks are mapped each by itself and grow in place.
 *
 * One thread only, which is all the client has.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    CLASS_MIN = 5,  /* 32 bytes with the header */
    CLASS_MAX = 18, /* 256 KiB; what is larger is mapped by itself */
    FIRST_BYTES = 512 << 10,
    REGION_BYTES = 1 << 20, /* less than a huge page, which would be cleared as a whole */
};

struct block {
    size_t bytes; /* all of it, this header included */
    struct block *next;
};

static _Alignas(16) char first[FIRST_BYTES];
static char *region = first;
static size_t left = sizeof(first);
static struct block *freed[CLASS_MAX + 1];

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* The size of block that holds n bytes and a header; 0 when none is that large. */
static size_t whole_bytes(size_t n)
{
    if (n > PTRDIFF_MAX - 8192)
        return 0;
    n += sizeof(struct block);
    if (n > (size_t)1 << CLASS_MAX)
        return (n + 4095) & ~(size_t)4095;
    return n <= (size_t)1 << CLASS_MIN ? (size_t)1 << CLASS_MIN
                                       : (size_t)1 << (64 - __builtin_clzll(n - 1));
}

static struct block *carve(size_t bytes)
{
    struct block *b;

    if (bytes > left) { /* what is left of the old region is given up */
        char *fresh = map(REGION_BYTES);
        if (!fresh)
            return NULL;
        region = fresh;
        left = REGION_BYTES;
    }
    b = (struct block *)(void *)region;
    region += bytes;
    left -= bytes;
    return b;
}

/* The C library names the parameters its own way. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
void *malloc(size_t n)
{
    size_t bytes = whole_bytes(n);
    struct block *b = NULL;

    if (bytes > (size_t)1 << CLASS_MAX) {
        b = map(bytes);
    } else if (bytes) {
        struct block **list = &freed[__builtin_ctzll(bytes)];
        b = *list;
        if (b)
            *list = b->next;
        else
            b = carve(bytes);
    }
    if (!b) {
        errno = ENOMEM;
        return NULL;
    }
    b->bytes = bytes;
    return b + 1;
}

void free(void *p)
{
    if (!p)
        return;
    struct block *b = (struct block *)p - 1;
    if (b->bytes > (size_t)1 << CLASS_MAX) {
        munmap(b, b->bytes);
        return;
    }
    struct block **list = &freed[__builtin_ctzll(b->bytes)];
    b->next = *list;
    *list = b;
}

void *calloc(size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *p = malloc(bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

void *realloc(void *p, size_t n)
{
    size_t bytes = whole_bytes(n);

    if (!p)
        return malloc(n);
    struct block *b = (struct block *)p - 1;
    if (bytes == b->bytes)
        return p;
    if (bytes > (size_t)1 << CLASS_MAX && b->bytes > (size_t)1 << CLASS_MAX) {
        void *moved = mremap(b, b->bytes, bytes, MREMAP_MAYMOVE);
        if (moved == MAP_FAILED)
            return NULL;
        b = moved;
        b->bytes = bytes;
        return b + 1;
    }
    void *fresh = malloc(n);
    if (!fresh)
        return NULL;
    size_t had = b->bytes - sizeof(*b);
    memcpy(fresh, p, had < n ? had : n);
    free(p);
    return fresh;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
