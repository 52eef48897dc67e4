/* gzip.c - the gzip file around deflate: head, checksum, length */
#include "archive/deflate_priv.h"
#include "archive/gzip_priv.h"
#include "base/util.h"
#include <zlib.h>

struct gzip {
    gzip_out_fn *out;
    void *ctx;
    struct deflate *deflate;
    bool started; /* the head is out */
    uint32_t crc;
    uint64_t total;
    size_t have; /* bytes of the piece being filled */
    uint8_t packed[DEFLATE_OUT];
};

struct gzip *gzip_new(gzip_out_fn *out, void *ctx)
{
    struct gzip *g = xcalloc(1, sizeof(*g));

    g->out = out;
    g->ctx = ctx;
    g->deflate = deflate_new();
    return g;
}

void gzip_free(struct gzip *g)
{
    if (!g)
        return;
    deflate_free(g->deflate);
    free(g);
}

static int end_piece(struct gzip *g, struct err *e)
{
    static const uint8_t head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4 /* fastest */, 3 /* Unix */};

    if (!g->started && g->out(g->ctx, head, sizeof(head), e) < 0)
        return -1;
    g->started = true;
    if (!g->have)
        return 0;
    g->crc = (uint32_t)crc32(g->crc, deflate_room(g->deflate), (uInt)g->have);
    g->total += g->have;
    size_t n = deflate_block(g->deflate, g->have, g->packed);
    g->have = 0;
    return n ? g->out(g->ctx, g->packed, n, e) : 0;
}

int gzip_add(struct gzip *g, const void *p, size_t n, struct err *e)
{
    const uint8_t *at = p;

    while (n > 0) {
        size_t take = MIN(n, DEFLATE_PIECE - g->have);
        memcpy(deflate_room(g->deflate) + g->have, at, take);
        g->have += take;
        at += take;
        n -= take;
        if (g->have == DEFLATE_PIECE && end_piece(g, e) < 0)
            return -1;
    }
    return 0;
}

int gzip_end(struct gzip *g, struct err *e)
{
    uint8_t tail[8];

    if (end_piece(g, e) < 0)
        return -1;
    size_t n = deflate_finish(g->deflate, g->packed);
    if (g->out(g->ctx, g->packed, n, e) < 0)
        return -1;
    for (int i = 0; i < 4; i++) {
        tail[i] = (uint8_t)(g->crc >> 8 * i);
        tail[4 + i] = (uint8_t)(g->total >> 8 * i);
    }
    return g->out(g->ctx, tail, sizeof(tail), e);
}
