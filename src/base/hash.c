/* hash.c - SipHash for maps, SHA-256 and HMAC for tokens */
#include "base/hash.h"
#include "base/util.h"
#include <string.h>

static uint64_t load_le64(const uint8_t *p)
{
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static uint64_t rotl64(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl64(v[1], 13) ^ v[0];
    v[0] = rotl64(v[0], 32);
    v[2] += v[3];
    v[3] = rotl64(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl64(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl64(v[1], 17) ^ v[2];
    v[2] = rotl64(v[2], 32);
}

static void sip_add(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    sip_round(v);
    v[0] ^= word;
}

uint64_t siphash24(const uint8_t key[16], const void *p, size_t n)
{
    uint64_t k0 = load_le64(key), k1 = load_le64(key + 8);
    uint64_t v[4] = {k0 ^ 0x736F6D6570736575u, k1 ^ 0x646F72616E646F6Du, k0 ^ 0x6C7967656E657261u,
                     k1 ^ 0x7465646279746573u};
    const uint8_t *at = p;
    uint64_t last = (uint64_t)n << 56;

    for (; n >= 8; n -= 8, at += 8)
        sip_add(v, load_le64(at));
    for (size_t i = 0; i < n; i++)
        last |= (uint64_t)at[i] << (8 * i);
    sip_add(v, last);
    v[2] ^= 0xFF;
    for (int i = 0; i < 4; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The fractional parts of the cube roots of the first 64 primes. */
static const uint32_t sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int k)
{
    return x >> k | x << (32 - k);
}

static void sha_schedule(uint32_t w[64], const uint8_t block[64])
{
    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void sha_block(struct sha256 *s, const uint8_t block[64])
{
    uint32_t w[64], v[8];

    sha_schedule(w, block);
    memcpy(v, s->h, sizeof(v));
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choice + sha_k[i] + w[i];
        uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; i++)
        s->h[i] += v[i];
}

void sha256_init(struct sha256 *s)
{
    *s = (struct sha256){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                               0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *s, const void *p, size_t n)
{
    const uint8_t *at = p;
    size_t have = s->n % 64;

    s->n += n;
    if (have) {
        size_t take = MIN(n, 64 - have);
        memcpy(s->block + have, at, take);
        at += take;
        n -= take;
        if (have + take < 64)
            return;
        sha_block(s, s->block);
    }
    for (; n >= 64; n -= 64, at += 64)
        sha_block(s, at);
    if (n)
        memcpy(s->block, at, n);
}

void sha256_end(struct sha256 *s, uint8_t out[32])
{
    static const uint8_t pad[64] = {0x80};
    uint64_t bits = s->n * 8;
    uint8_t length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    size_t have = s->n % 64;
    /* Padding is 0x80 and zeros up to 8 bytes before the end of a block; the length in bits
     * fills these. */
    sha256_add(s, pad, have < 56 ? 56 - have : 120 - have);
    sha256_add(s, length, 8);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
    explicit_bzero(s, sizeof(*s));
}

void hmac_sha256(const void *key, size_t key_n, const void *p, size_t n, uint8_t out[32])
{
    uint8_t inner[64] = {0}, outer[64];
    struct sha256 s;

    /* By RFC 2104 a key longer than a block is replaced by its hash. */
    if (key_n > 64) {
        sha256_init(&s);
        sha256_add(&s, key, key_n);
        sha256_end(&s, inner);
    } else if (key_n) {
        memcpy(inner, key, key_n);
    }
    for (int i = 0; i < 64; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    sha256_init(&s);
    sha256_add(&s, inner, 64);
    sha256_add(&s, p, n);
    sha256_end(&s, out);
    sha256_init(&s);
    sha256_add(&s, outer, 64);
    sha256_add(&s, out, 32);
    sha256_end(&s, out);
    /* Both blocks are derived from the secret key; a plain memset could be optimised away. */
    explicit_bzero(inner, sizeof(inner));
    explicit_bzero(outer, sizeof(outer));
}

bool equal_const_time(const void *a, const void *b, size_t n)
{
    const volatile uint8_t *x = a, *y = b;
    uint8_t diff = 0;

    for (size_t i = 0; i < n; i++)
        diff |= x[i] ^ y[i];
    return diff == 0;
}
