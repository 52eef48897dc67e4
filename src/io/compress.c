/* compress.c - gzip and zstd for replies, as the client accepts
 *
 * Levels are the lowest: 1 KiB to a few MB of JSON shrink five- to tenfold either way, and the loop
 * has other things to do.  The working memory (1 MB) is kept between replies and given back when
 * the last connection closes.
 */
#include "io/http_priv.h"
#include <stdio.h>
#include <zlib.h>
#include <zstd.h>

struct compressor {
    ZSTD_CCtx *zstd;
    z_stream gzip;
    bool gzip_ready;
};

struct compressor *compressor_new(void)
{
    return xcalloc(1, sizeof(struct compressor));
}

void compressor_free(struct compressor *z)
{
    if (!z)
        return;
    ZSTD_freeCCtx(z->zstd);
    if (z->gzip_ready)
        deflateEnd(&z->gzip);
    free(z);
}

/* The quality of one "name;q=0.5" in thousandths. */
static int quality(struct str params)
{
    double q;

    while (params.n > 0) {
        struct str one = str_trim(str_cut(params, ';', &params));
        if (one.n > 2 && (one.p[0] | 0x20) == 'q' && one.p[1] == '=' &&
            str_to_double((struct str){one.p + 2, one.n - 2}, &q))
            return q <= 0 ? 0 : q >= 1 ? 1000 : (int)(q * 1000);
    }
    return 1000;
}

enum http_coding http_coding_pick(struct str accept)
{
    int gzip = 0, zstd = 0;

    while (accept.n > 0) {
        struct str params, name = str_trim(str_cut(str_cut(accept, ',', &accept), ';', &params));
        if (str_ieq(name, STR("zstd")))
            zstd = quality(params);
        else if (str_ieq(name, STR("gzip")) || str_ieq(name, STR("x-gzip")))
            gzip = quality(params);
    }
    if (zstd > 0 && zstd >= gzip)
        return CODING_ZSTD;
    return gzip > 0 ? CODING_GZIP : CODING_NONE;
}

bool http_type_compresses(const char *type)
{
    struct str t, rest;

    if (!type)
        return false;
    t = str_trim(str_cut(str_of(type), ';', &rest));
    return str_starts(t, STR("text/")) || str_eq_c(t, "application/json") ||
           str_eq_c(t, "application/javascript") || str_eq_c(t, "application/yaml") ||
           str_eq_c(t, "application/openmetrics-text") || str_eq_c(t, "image/svg+xml") ||
           (t.n > 5 && memcmp(t.p + t.n - 5, "+json", 5) == 0);
}

const char *http_coding_name(enum http_coding c)
{
    return c == CODING_ZSTD ? "zstd" : "gzip";
}

/* Both return the compressed size, or 0 when it failed or would not fit in `cap`. */
static size_t run_zstd(struct compressor *z, struct str in, char *out, size_t cap)
{
    if (!z->zstd)
        z->zstd = ZSTD_createCCtx();
    if (!z->zstd)
        return 0;
    size_t n = ZSTD_compressCCtx(z->zstd, out, cap, in.p, in.n, 1);
    return ZSTD_isError(n) ? 0 : n;
}

static size_t run_gzip(struct compressor *z, struct str in, char *out, size_t cap)
{
    if (in.n > UINT32_MAX)
        return 0;
    /* 15 + 16: the largest window, in a gzip wrapper */
    int r = z->gzip_ready ? deflateReset(&z->gzip)
                          : deflateInit2(&z->gzip, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    if (r != Z_OK)
        return 0;
    z->gzip_ready = true;
    z->gzip.next_in = (z_const Bytef *)in.p;
    z->gzip.avail_in = (uInt)in.n;
    z->gzip.next_out = (Bytef *)out;
    z->gzip.avail_out = (uInt)cap;
    return deflate(&z->gzip, Z_FINISH) == Z_STREAM_END ? cap - z->gzip.avail_out : 0;
}

char *compress_bytes(struct compressor *z, enum http_coding c, struct str in, size_t *out_n)
{
    size_t cap = in.n - in.n / 16; /* less gain is not worth the client's work */
    AUTO_FREE char *out = xmalloc(cap);
    size_t n = c == CODING_ZSTD ? run_zstd(z, in, out, cap) : run_gzip(z, in, out, cap);

    if (n == 0)
        return NULL;
    *out_n = n;
    return TAKE(out);
}
