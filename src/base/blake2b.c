/* blake2b.c - BLAKE2b (RFC 7693), for names of file contents
 *
 * On 64-bit machines without special instructions it is several times as fast as SHA-256, and
 * collisions are as hard to find.
 */
#include "base/hash.h"
#include "base/util.h"
#include <string.h>

static const uint64_t iv[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                               0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                               0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

/* The order in which each of the twelve rounds uses the 16 words of a block. */
static const uint8_t sigma[12][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
};

static inline uint64_t rotr64(uint64_t x, int k)
{
    return x >> k | x << (64 - k);
}

static inline uint64_t load_le64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(v) : v;
}

/* As macros the state stays in registers: half the time of a function with pointers. */
#define MIX(a, b, c, d, x, y)                                                                      \
    do {                                                                                           \
        a += b + (x);                                                                              \
        d = rotr64(d ^ a, 32);                                                                     \
        c += d;                                                                                    \
        b = rotr64(b ^ c, 24);                                                                     \
        a += b + (y);                                                                              \
        d = rotr64(d ^ a, 16);                                                                     \
        c += d;                                                                                    \
        b = rotr64(b ^ c, 63);                                                                     \
    } while (0)
#define ROUND(r)                                                                                   \
    do {                                                                                           \
        const uint8_t *s = sigma[r];                                                               \
        MIX(v0, v4, v8, v12, m[s[0]], m[s[1]]);                                                    \
        MIX(v1, v5, v9, v13, m[s[2]], m[s[3]]);                                                    \
        MIX(v2, v6, v10, v14, m[s[4]], m[s[5]]);                                                   \
        MIX(v3, v7, v11, v15, m[s[6]], m[s[7]]);                                                   \
        MIX(v0, v5, v10, v15, m[s[8]], m[s[9]]);                                                   \
        MIX(v1, v6, v11, v12, m[s[10]], m[s[11]]);                                                 \
        MIX(v2, v7, v8, v13, m[s[12]], m[s[13]]);                                                  \
        MIX(v3, v4, v9, v14, m[s[14]], m[s[15]]);                                                  \
    } while (0)

static void compress(struct blake2b *b, const uint8_t block[128], bool last)
{
    uint64_t m[16];
    uint64_t v0 = b->h[0], v1 = b->h[1], v2 = b->h[2], v3 = b->h[3];
    uint64_t v4 = b->h[4], v5 = b->h[5], v6 = b->h[6], v7 = b->h[7];
    uint64_t v8 = iv[0], v9 = iv[1], v10 = iv[2], v11 = iv[3];
    /* b->n is the number of bytes up to the end of this block.  The upper half of that count is
     * always 0. */
    uint64_t v12 = iv[4] ^ b->n, v13 = iv[5], v14 = last ? ~iv[6] : iv[6], v15 = iv[7];

    for (int i = 0; i < 16; i++)
        m[i] = load_le64(block + 8 * i);
    ROUND(0);
    ROUND(1);
    ROUND(2);
    ROUND(3);
    ROUND(4);
    ROUND(5);
    ROUND(6);
    ROUND(7);
    ROUND(8);
    ROUND(9);
    ROUND(10);
    ROUND(11);
    b->h[0] ^= v0 ^ v8;
    b->h[1] ^= v1 ^ v9;
    b->h[2] ^= v2 ^ v10;
    b->h[3] ^= v3 ^ v11;
    b->h[4] ^= v4 ^ v12;
    b->h[5] ^= v5 ^ v13;
    b->h[6] ^= v6 ^ v14;
    b->h[7] ^= v7 ^ v15;
}

void blake2b_init(struct blake2b *b)
{
    *b = (struct blake2b){0};
    memcpy(b->h, iv, sizeof(iv));
    b->h[0] ^= 0x01010000 ^ 32; // no key, 32 bytes come out
}

void blake2b_add(struct blake2b *b, const void *p, size_t n)
{
    const uint8_t *at = p;

    /* The last block is special, so a full one waits until more comes. */
    while (n > 0) {
        if (b->have == 128) {
            b->n += 128;
            compress(b, b->block, false);
            b->have = 0;
        }
        for (; b->have == 0 && n > 128; n -= 128, at += 128) {
            b->n += 128;
            compress(b, at, false);
        }
        size_t take = MIN(n, 128 - b->have);
        memcpy(b->block + b->have, at, take);
        b->have += take;
        at += take;
        n -= take;
    }
}

void blake2b_end(struct blake2b *b, uint8_t out[32])
{
    memset(b->block + b->have, 0, 128 - b->have);
    b->n += b->have;
    compress(b, b->block, true);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(b->h[i / 8] >> 8 * (i % 8));
}
