/* id.h - 128-bit time-ordered identifiers, written as 26 characters of Crockford base32
 *
 * Top 48 bits are milliseconds since 1970, the rest is random; the members of an array
 * take consecutive values, so they sort in order and share one random part.
 */
#pragma once
#include "base/rand.h"
#include "base/str.h"

struct id {
    uint64_t hi, lo;
};
enum { ID_TEXT_LEN = 26, ID_TEXT_MAX = 27, ID_UUID_LEN = 36, ID_UUID_MAX = 37 };
struct id id_make(int64_t wall_ms, struct rng *r); /* low 24 bits zero: room for an array */
/* The k-th member of an array whose first member is `base`.  k below 2^24 keeps the random part. */
struct id id_add(struct id base, uint64_t k);
void id_format(struct id id, char out[ID_TEXT_MAX]); /* lower case */
/* The same as a UUID, 8-4-4-4-12 hexadecimal digits.  The random half comes first, so that a few
 * characters are enough to tell two apart. */
void id_format_uuid(struct id id, char out[ID_UUID_MAX]);
bool id_parse(struct str s, struct id *out); /* all 26 characters, or a whole UUID; either case */
/* A prefix of 1 to 26 characters names the closed range [lo, hi]; a whole UUID names one. */
bool id_parse_prefix(struct str s, struct id *out_lo, struct id *out_hi);
/* The beginning of a UUID: the ids whose halves lie between those of `out_lo` and `out_hi`. */
bool id_parse_uuid_prefix(struct str s, struct id *out_lo, struct id *out_hi);
/* Negative, 0 or positive, in the order of time. */
int id_cmp(struct id a, struct id b);
void id_to_bytes(struct id id, uint8_t out[16]); /* big-endian, memcmp order = time order */
struct id id_from_bytes(const uint8_t in[16]);
