/* run_key.c - keys as text, as numbers and as paths */
#include "model/run_key.h"
#include "base/util.h"
#include <string.h>

enum {
    RUNS_PER_DIR = 1000, /* creating files gets slower in directories of many thousands */
    TAG_DIGITS = 8,
    JOB_BITS = 46, /* so that a key without a tag is below 2^62 */
};
#define TAGGED_IDS (1ull << 62)

static const char hex[] = "0123456789abcdef";

/* The finaliser of MurmurHash3: every bit of the input changes about half of those of the result.
 */
static uint64_t run_key_mix(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

uint32_t run_tag(struct id id)
{
    uint32_t tag = (uint32_t)(run_key_mix(run_key_mix(id.hi) + id.lo) >> 32);

    return tag ? tag : 1;
}

static char *put_number(char *to, uint64_t n)
{
    char digits[24];
    size_t k = 0;

    do {
        digits[k++] = (char)('0' + n % 10);
    } while ((n /= 10) > 0);
    while (k > 0)
        *to++ = digits[--k];
    return to;
}

size_t run_key_format(struct run_key k, char out[RUN_KEY_TEXT_MAX])
{
    char *to = put_number(out, k.job);

    *to++ = '.';
    to = put_number(to, k.run);
    if (k.tag) {
        *to++ = '-';
        for (int shift = 32 - 4; shift >= 0; shift -= 4)
            *to++ = hex[k.tag >> shift & 15];
    }
    *to = 0;
    return (size_t)(to - out);
}

/* Decimal digits at text[*at], `max` at most.  False: none is there, or more than fit. */
static bool take_number(struct str text, size_t *at, uint64_t max, uint64_t *out)
{
    size_t from = *at;

    *out = 0;
    for (; *at < text.n && text.p[*at] >= '0' && text.p[*at] <= '9'; ++*at) {
        *out = *out * 10 + (uint64_t)(text.p[*at] - '0');
        if (*out > max)
            return false;
    }
    return *at > from;
}

static bool take_tag(struct str text, size_t at, uint32_t *out)
{
    uint32_t tag = 0;

    if (text.n - at < TAG_DIGITS)
        return false;
    for (size_t i = at; i < at + TAG_DIGITS; i++) {
        const char *digit = memchr(hex, text.p[i], 16);
        if (!digit)
            return false;
        tag = tag << 4 | (uint32_t)(digit - hex);
    }
    *out = tag;
    return tag != 0;
}

size_t run_key_parse(struct str text, struct run_key *out)
{
    struct run_key k = {0};
    uint64_t run;
    size_t at = 0;

    if (!take_number(text, &at, (1ull << JOB_BITS) - 1, &k.job) || at == text.n ||
        text.p[at++] != '.' || !take_number(text, &at, UINT16_MAX, &run) || !k.job || !run)
        return 0;
    k.run = (uint32_t)run;
    if (at < text.n && text.p[at] == '-') {
        if (!take_tag(text, at + 1, &k.tag))
            return 0;
        at += 1 + TAG_DIGITS;
    }
    *out = k;
    return at;
}

bool run_key_pack(struct run_key k, uint64_t *out)
{
    uint64_t plain = k.job << 16 | (k.run & UINT16_MAX);

    *out = k.tag ? TAGGED_IDS | run_key_mix(run_key_mix(plain) + k.tag) >> 3 : plain;
    return k.job > 0 && k.job < 1ull << JOB_BITS && k.run > 0 && k.run <= UINT16_MAX;
}

char *run_file_path(const char *home, struct run_key k, const char *suffix)
{
    char key[RUN_KEY_TEXT_MAX];

    run_key_format(k, key);
    return xasprintf("%s/runs/%llu/%s%s", home, (unsigned long long)(k.job / RUNS_PER_DIR), key,
                     suffix);
}
