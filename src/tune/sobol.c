/* sobol.c - the engine sobol, and the sequence itself
 *
 * Direction numbers of the first 21 coordinates are those of S. Joe and F. Y. Kuo (2008).  Each
 * coordinate is scrambled as A. Owen described, with a hash of the bits above instead of a stored
 * tree (B. Burley, 2020): every bit is flipped or not depending on all higher bits.  Coordinates
 * beyond 21 use the same numbers again with the order of the points shuffled in the same way, so
 * each block of 21 coordinates is even in itself and unrelated to the others.
 */
#include "tune/sobol.h"
#include "tune/study_priv.h"
#include <math.h>

enum { SOBOL_DIMS = 21, SOBOL_BITS = 32, DEGREE_MAX = 7 };

/* Degree and inner coefficients of a primitive polynomial, and the first direction numbers. */
static const struct {
    uint8_t degree, inner, m[DEGREE_MAX];
} directions[SOBOL_DIMS] = {
    {0, 0, {1}},
    {1, 0, {1}},
    {2, 1, {1, 3}},
    {3, 1, {1, 3, 1}},
    {3, 2, {1, 1, 1}},
    {4, 1, {1, 1, 3, 3}},
    {4, 4, {1, 3, 5, 13}},
    {5, 2, {1, 1, 5, 5, 17}},
    {5, 4, {1, 1, 5, 5, 5}},
    {5, 7, {1, 1, 7, 11, 19}},
    {5, 11, {1, 1, 5, 1, 1}},
    {5, 13, {1, 1, 1, 3, 11}},
    {5, 14, {1, 3, 5, 5, 31}},
    {6, 1, {1, 3, 3, 9, 7, 49}},
    {6, 13, {1, 1, 1, 15, 21, 21}},
    {6, 16, {1, 3, 1, 13, 27, 49}},
    {6, 19, {1, 1, 1, 15, 7, 5}},
    {6, 22, {1, 3, 1, 15, 13, 25}},
    {6, 25, {1, 1, 5, 5, 19, 61}},
    {7, 1, {1, 3, 7, 11, 23, 15, 103}},
    {7, 4, {1, 3, 7, 13, 13, 15, 69}},
};

static uint32_t reverse_bits(uint32_t x)
{
    x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
    x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
    x = (x & 0x0F0F0F0Fu) << 4 | (x >> 4 & 0x0F0F0F0Fu);
    return __builtin_bswap32(x);
}

/* A permutation in which each bit depends on itself and the higher ones only. */
static uint32_t owen_scramble(uint32_t x, uint32_t seed)
{
    x = reverse_bits(x);
    x += seed;
    x ^= x * 0x6C50B47Cu;
    x ^= x * 0xB82F1E52u;
    x ^= x * 0xC7AFE638u;
    x ^= x * 0x8D22F6E6u;
    return reverse_bits(x);
}

static uint32_t sobol_hash(uint64_t seed, uint64_t what)
{
    uint64_t z = (seed + what * 0x9E3779B97F4A7C15u) ^ 0x5851F42D4C957F2Du;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)(z >> 32);
}

/* The direction number of each bit of the index, from the recurrence of the polynomial. */
static uint32_t sobol_bits(uint32_t index, size_t dim)
{
    uint32_t v[SOBOL_BITS], x = 0;
    unsigned degree = directions[dim].degree;

    for (unsigned i = 0; i < SOBOL_BITS && index >> i; i++) {
        if (degree == 0) {
            v[i] = 1u << (31 - i);
        } else if (i < degree) {
            v[i] = (uint32_t)directions[dim].m[i] << (31 - i);
        } else {
            v[i] = v[i - degree] ^ (v[i - degree] >> degree);
            for (unsigned k = 1; k < degree; k++)
                if (directions[dim].inner >> (degree - 1 - k) & 1)
                    v[i] ^= v[i - k];
        }
        if (index >> i & 1)
            x ^= v[i];
    }
    return x;
}

double sobol_unit(uint64_t seed, uint32_t index, size_t dim)
{
    size_t block = dim / SOBOL_DIMS;

    if (block > 0) /* a run of 2^k points stays one, so it is still even */
        index = owen_scramble(index, sobol_hash(seed, block));
    uint32_t x = sobol_bits(index, dim % SOBOL_DIMS);
    return (double)owen_scramble(x, sobol_hash(seed, 1000 + dim)) * 0x1p-32;
}

/* A point that breaks a constraint, or was asked before, gives way to a random one. */
int study_spread(struct tune_study *s, int64_t id, double *code, struct err *e)
{
    struct rng r;

    study_rng(s, id, DRAW_POINT, &r);
    for (size_t i = 0; i < s->space->n; i++) {
        double u = sobol_unit(s->seed, (uint32_t)(id - 1), i);
        code[i] = tune_space_active(s->space, code, i) ? tune_dim_code(&s->space->dims[i], u) : NAN;
    }
    if (tune_space_allows(s->space, code) && !study_issued(s, code))
        return 0;
    return study_draw_new(s, &r, code, e);
}

static int sobol_propose(void *state UNUSED, struct tune_study *s, int64_t id, double *code,
                         struct err *e)
{
    return study_spread(s, id, code, e);
}

const struct tune_engine tune_sobol = {
    .name = "sobol", .propose = sobol_propose, .many = true, .cheap = true};
