/* gunzip.c - what comes out of a gzip file, as its bytes come in */
#include "archive/gzip_priv.h"
#include "base/util.h"
#include <zlib.h>

enum { OUT = 64 << 10 };

struct gunzip {
    gzip_out_fn *out;
    void *ctx;
    z_stream z;
    bool any, inside; /* something came; a member has begun and not ended */
    uint8_t plain[OUT];
};

struct gunzip *gunzip_new(gzip_out_fn *out, void *ctx)
{
    struct gunzip *g = xcalloc(1, sizeof(*g));

    g->out = out;
    g->ctx = ctx;
    int rc = inflateInit2(&g->z, 15 + 16);
    ASSERT(rc == Z_OK);
    return g;
}

void gunzip_free(struct gunzip *g)
{
    if (!g)
        return;
    inflateEnd(&g->z);
    free(g);
}

/* Damage in the first bytes means that the input was never a gzip file. */
static int gunzip_fail(struct gunzip *g, struct err *e)
{
    if (g->z.total_out == 0 && g->z.total_in <= 16)
        return err_set(e, ERR_INVALID, "the archive is not a gzip file");
    return err_set(e, ERR_INVALID, "the archive is damaged (%s)",
                   g->z.msg ? g->z.msg : "gzip data");
}

/* A gzip file may consist of several members; each has its own head and checksum. */
int gunzip_add(struct gunzip *g, const void *p, size_t n, struct err *e)
{
    g->z.next_in = (Bytef *)(uintptr_t)p;
    g->z.avail_in = (uInt)n;
    g->any |= n > 0;
    do {
        if (!g->inside) {
            if (!g->z.avail_in)
                return 0;
            inflateReset(&g->z);
            g->inside = true;
        }
        g->z.next_out = g->plain;
        g->z.avail_out = OUT;
        int rc = inflate(&g->z, Z_NO_FLUSH);
        if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
            return gunzip_fail(g, e);
        size_t made = OUT - g->z.avail_out;
        if (made && g->out(g->ctx, g->plain, made, e) < 0)
            return -1;
        if (rc == Z_STREAM_END)
            g->inside = false;
    } while (g->z.avail_in || g->z.avail_out == 0);
    return 0;
}

int gunzip_end(struct gunzip *g, struct err *e)
{
    if (!g->any)
        return err_set(e, ERR_INVALID, "the archive is empty");
    if (g->inside)
        return err_set(e, ERR_INVALID, "the archive ends too early; send it again");
    return 0;
}
