/* rand.h - a seeded generator handed in wherever chance is needed (xoshiro256**) */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The same seed gives the same numbers on every machine.  A generator has no lock. */
struct rng {
    uint64_t s[4];
};
void rng_seed(struct rng *r, uint64_t seed); /* splitmix64 expansion */
uint64_t rng_next(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* 0 ≤ x < n, unbiased; n > 0 */
double rng_unit(struct rng *r);                /* 0 ≤ x < 1 */
/* From the kernel; aborts if it cannot, for tokens and seeds. */
void random_bytes(void *p, size_t n);
