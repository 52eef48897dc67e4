/* hash.h - checksums and keyed hashes: CRC-32C, SipHash-2-4, SHA-256, HMAC-SHA-256, BLAKE2b */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t seed, const void *p, size_t n); /* seed 0 to start */
/* The same by table, whatever the processor: for tests that compare the two. */
uint32_t crc32c_portable(uint32_t seed, const void *p, size_t n);
/* A keyed hash for hash maps: who does not know the key cannot choose colliding texts. */
uint64_t siphash24(const uint8_t key[16], const void *p, size_t n);

/* n counts all bytes added so far; `block` holds the last n % 64 of them. */
struct sha256 {
    uint32_t h[8];
    uint64_t n;
    uint8_t block[64];
};
void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t n);
/* Writes the digest and erases the state, because it may hold parts of a secret. */
void sha256_end(struct sha256 *s, uint8_t out[32]);
void hmac_sha256(const void *key, size_t key_n, const void *p, size_t n, uint8_t out[32]);
/* BLAKE2b with 32 bytes of result and no key: names of file contents. */
struct blake2b {
    uint64_t h[8];
    uint64_t n;
    size_t have;
    uint8_t block[128];
};
void blake2b_init(struct blake2b *b);
void blake2b_add(struct blake2b *b, const void *p, size_t n);
void blake2b_end(struct blake2b *b, uint8_t out[32]);
/* The time depends on n only, so that nobody can guess a token byte by byte from response times. */
bool equal_const_time(const void *a, const void *b, size_t n);
