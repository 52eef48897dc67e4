/* rand.c - xoshiro256** for what must be replayable, getrandom for what must be secret */
#include "base/rand.h"
#include "base/util.h"
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

/* splitmix64 spreads similar seeds, such as 1 and 2, over unrelated states and yields no zero
 * state. */
void rng_seed(struct rng *r, uint64_t seed)
{
    for (size_t i = 0; i < ARRAY_SIZE(r->s); i++) {
        uint64_t z = seed += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        r->s[i] = z ^ (z >> 31);
    }
}

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    ASSERT(n > 0);
    /* The lowest 2^64 mod n values would make small results likelier: draw again. */
    uint64_t skip = -n % n;
    for (;;) {
        uint64_t x = rng_next(r);
        if (x >= skip)
            return x % n;
    }
}

/* The upper 53 bits: as many as a double holds, so each result is exact. */
double rng_unit(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

void random_bytes(void *p, size_t n)
{
    char *at = p;

    while (n > 0) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            perror("berth: cannot get random bytes from the kernel");
            abort();
        }
        at += got;
        n -= (size_t)got;
    }
}
