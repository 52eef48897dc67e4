/* fuzz_gzip.c - whatever is packed comes out of zlib again
 *
 * The input is repeated and cut up, as its first bytes say, so that matches cross blocks.
 */
#include "archive/gzip_priv.h"
#include "base/buf.h"
#include "base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int to_buf(void *ctx, const void *p, size_t n, struct err *e)
{
    (void)e;
    buf_add(ctx, p, n);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    AUTO(buf) struct buf plain = {0}, packed = {0}, back = {0};
    struct err e = {0};

    if (n < 2)
        return 0;
    size_t times = data[0] < 200 ? 1 : (size_t)(data[0] - 199) * 20, step = data[1] + 1u;
    for (size_t i = 0; i < times && plain.n < 300000; i++)
        buf_add(&plain, data + 2, n - 2);
    struct gzip *g = gzip_new(to_buf, &packed);
    for (size_t at = 0; at < plain.n; at += step * 64)
        ASSERT(gzip_add(g, plain.p + at, MIN(step * 64, plain.n - at), &e) == 0);
    ASSERT(gzip_end(g, &e) == 0);
    gzip_free(g);
    struct gunzip *u = gunzip_new(to_buf, &back);
    ASSERT(gunzip_add(u, packed.p, packed.n, &e) == 0 && gunzip_end(u, &e) == 0);
    gunzip_free(u);
    ASSERT(back.n == plain.n && (back.n == 0 || memcmp(back.p, plain.p, back.n) == 0));
    return 0;
}
