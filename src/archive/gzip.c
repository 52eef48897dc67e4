/* gzip.c - gzip with an eye on what it costs
 *
 * Level 1 of zlib takes 12 ms of CPU for a megabyte of text and makes a third of it, but 28 ms for
 * a megabyte of what is compressed already (images, weights, archives), and wins nothing.  So the
 * input is looked at in pieces of 64 KiB: a piece whose bytes are all about equally frequent is
 * stored as it is, which costs a checksum and a copy.
 *
 * The file is put together from raw deflate: zlib makes the compressed runs, each flushed to a
 * whole byte; the stored blocks between them are written here.  After a stored run zlib starts
 * anew, so it never refers back to bytes it has not seen.
 */
#include "archive/gzip_priv.h"
#include "base/util.h"
#include <math.h>
#include <zlib.h>

enum {
    PIECE = 64 << 10,
    OUT = 64 << 10,
    STORED_MAX = 65535,
    SAMPLE_STEP = 16, /* one byte in sixteen is enough to tell */
};
/* Bits per byte by frequency alone.  Random bytes sampled this way give 7.95, float32 weights 7.3
 * (and compress by a twelfth), machine code 6.3, text 4.5. */
static const double STORE_ABOVE_BITS = 7.2;

struct gzip {
    gzip_out_fn *out;
    void *ctx;
    z_stream z;
    bool started, running; /* the header is out; z has something that is not */
    uint32_t crc;
    uint64_t total;
    size_t have; /* bytes of the piece being filled */
    uint8_t piece[PIECE];
    uint8_t packed[OUT];
};

struct gzip *gzip_new(gzip_out_fn *out, void *ctx)
{
    struct gzip *g = xcalloc(1, sizeof(*g));

    g->out = out;
    g->ctx = ctx;
    int rc = deflateInit2(&g->z, 1, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
    ASSERT(rc == Z_OK); // nothing but memory can be missing
    return g;
}

void gzip_free(struct gzip *g)
{
    if (!g)
        return;
    deflateEnd(&g->z);
    free(g);
}

static bool worth_compressing(const uint8_t *p, size_t n)
{
    uint32_t seen[256] = {0}, samples = 0;
    double bits = 0;

    if (n < 1024)
        return true;
    for (size_t i = 0; i < n; i += SAMPLE_STEP, samples++)
        seen[p[i]]++;
    for (int i = 0; i < 256; i++)
        if (seen[i])
            bits -= seen[i] * log2((double)seen[i] / samples);
    return bits < STORE_ABOVE_BITS * samples;
}

static int deflate_all(struct gzip *g, const void *p, size_t n, int flush, struct err *e)
{
    g->z.next_in = (Bytef *)(uintptr_t)p;
    g->z.avail_in = (uInt)n;
    do {
        g->z.next_out = g->packed;
        g->z.avail_out = OUT;
        int rc = deflate(&g->z, flush);
        ASSERT(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR);
        size_t made = OUT - g->z.avail_out;
        if (made && g->out(g->ctx, g->packed, made, e) < 0)
            return -1;
    } while (g->z.avail_out == 0);
    return 0;
}

static int compress_piece(struct gzip *g, struct err *e)
{
    if (!g->running)
        deflateReset(&g->z);
    g->running = true;
    return deflate_all(g, g->piece, g->have, Z_NO_FLUSH, e);
}

/* To a whole byte, so that a stored block can follow. */
static int end_run(struct gzip *g, struct err *e)
{
    if (!g->running)
        return 0;
    g->running = false;
    return deflate_all(g, NULL, 0, Z_SYNC_FLUSH, e);
}

static int store_piece(struct gzip *g, struct err *e)
{
    if (end_run(g, e) < 0)
        return -1;
    for (size_t at = 0; at < g->have;) {
        size_t n = MIN(g->have - at, (size_t)STORED_MAX);
        uint8_t head[5] = {0, n & 0xff, (uint8_t)(n >> 8), ~n & 0xff, (uint8_t)(~n >> 8)};
        if (g->out(g->ctx, head, sizeof(head), e) < 0 || g->out(g->ctx, g->piece + at, n, e) < 0)
            return -1;
        at += n;
    }
    return 0;
}

static int end_piece(struct gzip *g, struct err *e)
{
    static const uint8_t head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4 /* fastest */, 3 /* Unix */};

    if (!g->started && g->out(g->ctx, head, sizeof(head), e) < 0)
        return -1;
    g->started = true;
    if (!g->have)
        return 0;
    g->crc = (uint32_t)crc32(g->crc, g->piece, (uInt)g->have);
    g->total += g->have;
    int rc = worth_compressing(g->piece, g->have) ? compress_piece(g, e) : store_piece(g, e);
    g->have = 0;
    return rc;
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
        if (g->have == PIECE && end_piece(g, e) < 0)
            return -1;
    }
    return 0;
}

int gzip_end(struct gzip *g, struct err *e)
{
    uint8_t tail[10] = {3, 0}; // an empty last block

    if (end_piece(g, e) < 0 || end_run(g, e) < 0)
        return -1;
    for (int i = 0; i < 4; i++) {
        tail[2 + i] = (uint8_t)(g->crc >> 8 * i);
        tail[6 + i] = (uint8_t)(g->total >> 8 * i);
    }
    return g->out(g->ctx, tail, sizeof(tail), e);
}
