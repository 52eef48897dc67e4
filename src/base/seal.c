/* seal.c - ChaCha20, Poly1305 and the two together
 *
 * Written for clarity: what is sealed has a few dozen bytes.  There is no table lookup and no
 * branch that depends on secret data.
 */
#include "base/seal.h"
#include "base/hash.h"
#include "base/util.h"
#include <stdlib.h>

static uint32_t load32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void store32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static void store64(uint8_t *p, uint64_t v)
{
    store32(p, (uint32_t)v);
    store32(p + 4, (uint32_t)(v >> 32));
}

/* ---- ChaCha20: RFC 8439, section 2.3 ---- */

static uint32_t rotl(uint32_t v, int n)
{
    return v << n | v >> (32 - n);
}

static void chacha_quarter(uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d)
{
    *a += *b;
    *d = rotl(*d ^ *a, 16);
    *c += *d;
    *b = rotl(*b ^ *c, 12);
    *a += *b;
    *d = rotl(*d ^ *a, 8);
    *c += *d;
    *b = rotl(*b ^ *c, 7);
}

static void chacha_block(const uint8_t key[SEAL_KEY_BYTES], uint32_t counter,
                         const uint8_t nonce[SEAL_NONCE_BYTES], uint8_t out[64])
{
    uint32_t start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, x[16];

    for (int i = 0; i < 8; i++)
        start[4 + i] = load32(key + 4 * i);
    start[12] = counter;
    for (int i = 0; i < 3; i++)
        start[13 + i] = load32(nonce + 4 * i);
    memcpy(x, start, sizeof(x));
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 4; i++) /* columns */
            chacha_quarter(&x[i], &x[4 + i], &x[8 + i], &x[12 + i]);
        for (int i = 0; i < 4; i++) /* diagonals */
            chacha_quarter(&x[i], &x[4 + (i + 1) % 4], &x[8 + (i + 2) % 4], &x[12 + (i + 3) % 4]);
    }
    for (int i = 0; i < 16; i++)
        store32(out + 4 * i, x[i] + start[i]);
    explicit_bzero(x, sizeof(x));
    explicit_bzero(start, sizeof(start));
}

/* Block 0 is the key of the tag; the text begins with block 1. */
static void chacha_xor(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES],
                       const uint8_t *in, size_t n, uint8_t *out)
{
    uint8_t block[64];

    for (size_t at = 0; at < n; at += sizeof(block)) {
        chacha_block(key, (uint32_t)(at / sizeof(block)) + 1, nonce, block);
        for (size_t i = 0; i < sizeof(block) && at + i < n; i++)
            out[at + i] = in[at + i] ^ block[i];
    }
    explicit_bzero(block, sizeof(block));
}

/* ---- Poly1305: RFC 8439, section 2.5; numbers modulo 2^130 - 5 in five limbs of 26 bits ---- */

enum { LIMBS = 5, LIMB_BITS = 26, LIMB_MASK = (1 << LIMB_BITS) - 1 };

struct poly {
    uint32_t r[LIMBS], h[LIMBS];
    uint8_t s[16];
};

/* 16 bytes and `top`, the bit 2^128, as limbs. */
static void poly_limbs(const uint8_t in[16], uint32_t top, uint32_t out[LIMBS])
{
    uint32_t a = load32(in), b = load32(in + 4), c = load32(in + 8), d = load32(in + 12);

    out[0] = a & LIMB_MASK;
    out[1] = (a >> 26 | b << 6) & LIMB_MASK;
    out[2] = (b >> 20 | c << 12) & LIMB_MASK;
    out[3] = (c >> 14 | d << 18) & LIMB_MASK;
    out[4] = d >> 8 | top << 24;
}

static void poly_init(struct poly *p, const uint8_t key[32])
{
    uint8_t r[16];

    memcpy(r, key, sizeof(r));
    for (int i = 3; i < 16; i += 4)
        r[i] &= 15;
    for (int i = 4; i < 16; i += 4)
        r[i] &= 252;
    *p = (struct poly){0};
    poly_limbs(r, 0, p->r);
    memcpy(p->s, key + 16, sizeof(p->s));
    explicit_bzero(r, sizeof(r));
}

/* h = (h + block) * r.  What a product has above 2^130 comes back times 5. */
static void poly_block(struct poly *p, const uint8_t in[16])
{
    uint32_t m[LIMBS];
    uint64_t d[LIMBS] = {0}, carry = 0;

    poly_limbs(in, 1, m);
    for (int i = 0; i < LIMBS; i++)
        m[i] += p->h[i];
    for (int i = 0; i < LIMBS; i++)
        for (int k = 0; k < LIMBS; k++)
            d[(i + k) % LIMBS] += (uint64_t)m[i] * p->r[k] * (i + k >= LIMBS ? 5 : 1);
    for (int i = 0; i < LIMBS; i++) {
        d[i] += carry;
        carry = d[i] >> LIMB_BITS;
        p->h[i] = (uint32_t)d[i] & LIMB_MASK;
    }
    d[0] = p->h[0] + carry * 5;
    p->h[0] = (uint32_t)d[0] & LIMB_MASK;
    p->h[1] += (uint32_t)(d[0] >> LIMB_BITS);
}

/* Zeros fill the last block. */
static void poly_add(struct poly *p, const uint8_t *in, size_t n)
{
    uint8_t last[16] = {0};

    for (; n >= 16; in += 16, n -= 16)
        poly_block(p, in);
    if (!n)
        return;
    memcpy(last, in, n);
    poly_block(p, last);
    explicit_bzero(last, sizeof(last));
}

static void poly_carry(uint32_t h[LIMBS])
{
    uint32_t carry = 0;

    for (int i = 0; i < LIMBS; i++) {
        h[i] += carry;
        carry = h[i] >> LIMB_BITS;
        h[i] &= LIMB_MASK;
    }
    h[0] += carry * 5;
}

static void poly_end(struct poly *p, uint8_t tag[16])
{
    uint32_t g[LIMBS], carry = 5, keep, words[4];
    uint64_t sum = 0;

    poly_carry(p->h);
    poly_carry(p->h);
    /* g = h - (2^130 - 5); it is the result when it did not become negative. */
    for (int i = 0; i < LIMBS; i++) {
        g[i] = p->h[i] + carry;
        carry = g[i] >> LIMB_BITS;
        g[i] &= LIMB_MASK;
    }
    keep = carry - 1; /* all ones: h < 2^130 - 5 */
    for (int i = 0; i < LIMBS; i++)
        p->h[i] = (p->h[i] & keep) | (g[i] & ~keep);
    words[0] = p->h[0] | p->h[1] << 26;
    words[1] = p->h[1] >> 6 | p->h[2] << 20;
    words[2] = p->h[2] >> 12 | p->h[3] << 14;
    words[3] = p->h[3] >> 18 | p->h[4] << 8;
    for (int i = 0; i < 4; i++) {
        sum += (uint64_t)words[i] + load32(p->s + 4 * i);
        store32(tag + 4 * i, (uint32_t)sum);
        sum >>= 32;
    }
    explicit_bzero(p, sizeof(*p));
}

/* ---- both ---- */

static void seal_tag(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES],
                     struct str bound, const uint8_t *text, size_t n, uint8_t tag[SEAL_TAG_BYTES])
{
    uint8_t block[64], lengths[16];
    struct poly p;

    chacha_block(key, 0, nonce, block);
    poly_init(&p, block);
    poly_add(&p, (const uint8_t *)bound.p, bound.n);
    poly_add(&p, text, n);
    store64(lengths, bound.n);
    store64(lengths + 8, n);
    poly_add(&p, lengths, sizeof(lengths));
    poly_end(&p, tag);
    explicit_bzero(block, sizeof(block));
}

void seal_lock(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES],
               struct str bound, struct str in, uint8_t *out, uint8_t tag[SEAL_TAG_BYTES])
{
    chacha_xor(key, nonce, (const uint8_t *)in.p, in.n, out);
    seal_tag(key, nonce, bound, out, in.n, tag);
}

bool seal_unlock(const uint8_t key[SEAL_KEY_BYTES], const uint8_t nonce[SEAL_NONCE_BYTES],
                 struct str bound, struct str in, const uint8_t tag[SEAL_TAG_BYTES], uint8_t *out)
{
    uint8_t want[SEAL_TAG_BYTES];

    seal_tag(key, nonce, bound, (const uint8_t *)in.p, in.n, want);
    if (!equal_const_time(want, tag, sizeof(want))) {
        if (in.n)
            memset(out, 0, in.n);
        return false;
    }
    chacha_xor(key, nonce, (const uint8_t *)in.p, in.n, out);
    return true;
}

void seal_derive(const uint8_t secret[32], const char *label, uint8_t out[SEAL_KEY_BYTES])
{
    static const uint8_t no_salt[32];
    AUTO_FREE char *info = xasprintf("%s\x01", label); /* the 1 counts the first block */
    uint8_t prk[32];

    hmac_sha256(no_salt, sizeof(no_salt), secret, 32, prk);
    hmac_sha256(prk, sizeof(prk), info, strlen(info), out);
    explicit_bzero(prk, sizeof(prk));
}

/* ---- texts ---- */

/* The keyed hash of name and value: a nonce repeats only with the whole text.  HMAC-SHA-256 and
 * ChaCha20 have nothing in common, so both may use the key. */
static void seal_nonce(const uint8_t key[SEAL_KEY_BYTES], struct str name, struct str value,
                       uint8_t out[SEAL_NONCE_BYTES])
{
    uint8_t mac[32], *all = xmalloc(8 + name.n + value.n);

    store64(all, name.n);
    if (name.n)
        memcpy(all + 8, name.p, name.n);
    if (value.n)
        memcpy(all + 8 + name.n, value.p, value.n);
    hmac_sha256(key, SEAL_KEY_BYTES, all, 8 + name.n + value.n, mac);
    memcpy(out, mac, SEAL_NONCE_BYTES);
    explicit_bzero(all, 8 + name.n + value.n);
    free(all);
}

char *seal_text(const uint8_t key[SEAL_KEY_BYTES], struct str name, struct str value)
{
    size_t mark = strlen(SEAL_MARK), n = SEAL_NONCE_BYTES + value.n + SEAL_TAG_BYTES;
    AUTO_FREE uint8_t *raw = xmalloc(n);
    char *text = xmalloc(mark + 2 * n + 1);

    seal_nonce(key, name, value, raw);
    seal_lock(key, raw, name, value, raw + SEAL_NONCE_BYTES, raw + SEAL_NONCE_BYTES + value.n);
    memcpy(text, SEAL_MARK, mark);
    for (size_t i = 0; i < n; i++) {
        text[mark + 2 * i] = "0123456789abcdef"[raw[i] >> 4];
        text[mark + 2 * i + 1] = "0123456789abcdef"[raw[i] & 15];
    }
    text[mark + 2 * n] = 0;
    return text;
}

bool seal_is_text(struct str text)
{
    return str_starts(text, STR(SEAL_MARK));
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *seal_open_text(const uint8_t key[SEAL_KEY_BYTES], struct str name, struct str text)
{
    size_t mark = strlen(SEAL_MARK), n = seal_is_text(text) ? (text.n - mark) / 2 : 0;

    if (n < SEAL_NONCE_BYTES + SEAL_TAG_BYTES || text.n != mark + 2 * n)
        return NULL;
    AUTO_FREE uint8_t *raw = xmalloc(n);
    for (size_t i = 0; i < n; i++) {
        int hi = hex_digit(text.p[mark + 2 * i]), lo = hex_digit(text.p[mark + 2 * i + 1]);
        if (hi < 0 || lo < 0)
            return NULL;
        raw[i] = (uint8_t)(hi << 4 | lo);
    }
    size_t value_n = n - SEAL_NONCE_BYTES - SEAL_TAG_BYTES;
    char *value = xmalloc(value_n + 1);
    struct str body = {(char *)raw + SEAL_NONCE_BYTES, value_n};
    if (!seal_unlock(key, raw, name, body, raw + n - SEAL_TAG_BYTES, (uint8_t *)value)) {
        free(value);
        return NULL;
    }
    value[value_n] = 0;
    return value;
}
