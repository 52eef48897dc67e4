/* gzip.c - gzip files through zlib, fast
 *
 * A bundle is packed while somebody waits, so time counts more than the last percent.  zlib's
 * fastest level takes 20 ms of CPU for a megabyte that hardly compresses (pictures, weights of a
 * model), twice as much as for text.  Each piece of 64 KiB is therefore looked at first, and
 * stored as it is when its bytes are spread so evenly that little could be saved.
 */
#include "archive/gzip_priv.h"
#include "base/util.h"
#include <zlib.h>

enum {
    PIECE = 64 << 10,
    SAMPLES = 4096,
    EVEN_SPREAD = 72,      /* like 72 different bytes of equal frequency: 6.2 of 8 bits each */
    WINDOW_BITS = 15 + 16, /* 32 KiB, with the head and tail of gzip */
    MEMORY_LEVEL = 8,
};

struct gzip {
    gzip_out_fn *out;
    void *ctx;
    z_stream z;
    int level;   /* what zlib is set to: 0 stores, 1 compresses */
    size_t have; /* bytes of the piece being filled */
    uint8_t piece[PIECE], packed[PIECE];
};

struct gzip *gzip_new(gzip_out_fn *out, void *ctx)
{
    struct gzip *g = xcalloc(1, sizeof(*g));

    g->out = out;
    g->ctx = ctx;
    g->level = 1;
    int rc =
        deflateInit2(&g->z, g->level, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY);
    ASSERT(rc == Z_OK);
    return g;
}

void gzip_free(struct gzip *g)
{
    if (!g)
        return;
    deflateEnd(&g->z);
    free(g);
}

/* Two bytes taken from the piece at random are equal with a probability under 1/EVEN_SPREAD. */
static bool is_spread_evenly(const uint8_t *p, size_t n)
{
    uint64_t count[256] = {0}, equal = 0;
    size_t stride = n / SAMPLES;

    if (stride == 0)
        return false; /* too little to tell, and too little to matter */
    for (size_t i = 0; i < SAMPLES; i++)
        count[p[i * stride]]++;
    for (size_t i = 0; i < ARRAY_SIZE(count); i++)
        equal += count[i] * count[i];
    return equal * EVEN_SPREAD < (uint64_t)SAMPLES * SAMPLES;
}

/* Runs one call of zlib until it has nothing more to write. */
static int write_packed(struct gzip *g, int flush, struct err *e)
{
    do {
        g->z.next_out = g->packed;
        g->z.avail_out = sizeof(g->packed);
        deflate(&g->z, flush);
        size_t n = sizeof(g->packed) - g->z.avail_out;
        if (n > 0 && g->out(g->ctx, g->packed, n, e) < 0)
            return -1;
    } while (g->z.avail_out == 0);
    return 0;
}

/* Switches zlib between storing and compressing when the piece calls for it. */
static int end_piece(struct gzip *g, int flush, struct err *e)
{
    int level = is_spread_evenly(g->piece, g->have) ? 0 : 1;

    if (level != g->level) {
        if (write_packed(g, Z_BLOCK, e) < 0) /* a level holds for whole blocks */
            return -1;
        g->z.next_out = g->packed;
        g->z.avail_out = sizeof(g->packed);
        int rc = deflateParams(&g->z, level, Z_DEFAULT_STRATEGY);
        ASSERT(rc == Z_OK);
        size_t n = sizeof(g->packed) - g->z.avail_out;
        if (n > 0 && g->out(g->ctx, g->packed, n, e) < 0)
            return -1;
        g->level = level;
    }
    g->z.next_in = g->piece;
    g->z.avail_in = (uInt)g->have;
    g->have = 0;
    return write_packed(g, flush, e);
}

int gzip_add(struct gzip *g, const void *p, size_t n, struct err *e)
{
    const uint8_t *at = p;

    while (n > 0) {
        size_t take = MIN(n, PIECE - g->have);
        memcpy(g->piece + g->have, at, take);
        g->have += take;
        at += take;
        n -= take;
        if (g->have == PIECE && end_piece(g, Z_NO_FLUSH, e) < 0)
            return -1;
    }
    return 0;
}

int gzip_end(struct gzip *g, struct err *e)
{
    return end_piece(g, Z_FINISH, e);
}
