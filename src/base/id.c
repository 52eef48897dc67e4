/* id.c - 128-bit time-ordered identifiers in Crockford base32
 *
 * 26 characters hold 130 bits, so the first one is 0 to 7.  Text order, byte order and time
 * order are the same.  As Crockford asks, o reads as 0 and i, l read as 1; u does not occur.
 */
#include "base/id.h"
#include "base/util.h"

static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

/* The low 24 bits stay zero: id_add numbers the members of an array there. */
struct id id_make(int64_t wall_ms, struct rng *r)
{
    uint64_t ms = (uint64_t)MAX(wall_ms, 0) & 0xFFFFFFFFFFFFu;
    struct id id = {
        .hi = ms << 16 | (rng_next(r) & 0xFFFF),
        .lo = rng_next(r) & ~(uint64_t)0xFFFFFF,
    };
    return id;
}

struct id id_add(struct id base, uint64_t k)
{
    struct id sum = {base.hi, base.lo + k};

    if (sum.lo < k)
        sum.hi++;
    return sum;
}

void id_format(struct id id, char out[ID_TEXT_MAX])
{
    out[ID_TEXT_LEN] = '\0';
    for (int i = ID_TEXT_LEN - 1; i >= 0; i--) {
        out[i] = alphabet[id.lo & 31];
        id.lo = id.lo >> 5 | id.hi << 59;
        id.hi >>= 5;
    }
}

/* The value of a base32 character, or -1. */
static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        c = (char)(c - 'A' + 'a');
    if (c == 'o')
        return 0;
    if (c == 'i' || c == 'l')
        return 1;
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

static void push_digit(struct id *id, unsigned digit)
{
    id->hi = id->hi << 5 | id->lo >> 59;
    id->lo = id->lo << 5 | digit;
}

/* ---- as a UUID ---- */

/* Where 8-4-4-4-12 digits have their dashes. */
static bool is_dash_place(size_t i)
{
    return i == 8 || i == 13 || i == 18 || i == 23;
}

void id_format_uuid(struct id id, char out[ID_UUID_MAX])
{
    unsigned nibble = 0;

    for (size_t i = 0; i < ID_UUID_LEN; i++) {
        if (is_dash_place(i)) {
            out[i] = '-';
            continue;
        }
        /* The low half, which is random, is written first. */
        uint64_t half = nibble < 16 ? id.lo : id.hi;
        out[i] = "0123456789abcdef"[half >> (60 - 4 * (nibble % 16)) & 15];
        nibble++;
    }
    out[ID_UUID_LEN] = '\0';
}

static int hex_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool id_parse_uuid_prefix(struct str s, struct id *out_lo, struct id *out_hi)
{
    struct id lo = {0}, hi = {0};
    unsigned nibble = 0;

    if (s.n == 0 || s.n > ID_UUID_LEN)
        return false;
    for (size_t i = 0; i < ID_UUID_LEN; i++) {
        bool given = i < s.n;
        if (is_dash_place(i)) {
            if (given && s.p[i] != '-')
                return false;
            continue;
        }
        /* The low half is written first.  Missing digits are the lowest in `lo`, the highest in
         * `hi`. */
        bool low = nibble++ < 16;
        int digit = given ? hex_of(s.p[i]) : 0;
        if (digit < 0)
            return false;
        uint64_t *a = low ? &lo.lo : &lo.hi, *b = low ? &hi.lo : &hi.hi;
        *a = *a << 4 | (unsigned)digit;
        *b = *b << 4 | (given ? (unsigned)digit : 15);
    }
    *out_lo = lo;
    *out_hi = hi;
    return true;
}

static bool parse_uuid(struct str s, struct id *out)
{
    struct id hi;

    return s.n == ID_UUID_LEN && id_parse_uuid_prefix(s, out, &hi);
}

bool id_parse_prefix(struct str s, struct id *out_lo, struct id *out_hi)
{
    struct id lo = {0}, hi = {0};

    if (s.n == ID_UUID_LEN && parse_uuid(s, &lo)) {
        *out_lo = *out_hi = lo;
        return true;
    }
    if (s.n == 0 || s.n > ID_TEXT_LEN || digit_of(s.p[0]) > 7)
        return false;
    for (size_t i = 0; i < ID_TEXT_LEN; i++) {
        int digit = i < s.n ? digit_of(s.p[i]) : 0;
        if (digit < 0)
            return false;
        push_digit(&lo, (unsigned)digit);
        /* Missing characters are the lowest digit in `lo` and the highest in `hi`. */
        push_digit(&hi, i < s.n ? (unsigned)digit : 31);
    }
    *out_lo = lo;
    *out_hi = hi;
    return true;
}

bool id_parse(struct str s, struct id *out)
{
    struct id hi;

    return (s.n == ID_TEXT_LEN || s.n == ID_UUID_LEN) && id_parse_prefix(s, out, &hi);
}

int id_cmp(struct id a, struct id b)
{
    if (a.hi != b.hi)
        return a.hi < b.hi ? -1 : 1;
    if (a.lo != b.lo)
        return a.lo < b.lo ? -1 : 1;
    return 0;
}

void id_to_bytes(struct id id, uint8_t out[16])
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(id.hi >> (56 - 8 * i));
        out[8 + i] = (uint8_t)(id.lo >> (56 - 8 * i));
    }
}

struct id id_from_bytes(const uint8_t in[16])
{
    struct id id = {0};

    for (int i = 0; i < 8; i++) {
        id.hi = id.hi << 8 | in[i];
        id.lo = id.lo << 8 | in[8 + i];
    }
    return id;
}
