/* str.h - borrowed text with a length, as it comes from parsers */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The bytes belong to somebody else and need not end in a NUL.  p may be NULL only when n is 0. */
struct str {
    const char *p;
    size_t n;
};

#define STR(lit) ((struct str){(lit), sizeof(lit) - 1})
#define STR_FMT "%.*s"
#define STR_ARG(s) (int)(s).n, (s).p

/* NULL becomes the empty text. */
static inline struct str str_of(const char *c)
{
    return (struct str){c, c ? strlen(c) : 0};
}
static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool str_eq_c(struct str a, const char *b)
{
    return str_eq(a, str_of(b));
}
bool str_ieq(struct str a, struct str b); /* letters of ASCII in either case */
static inline bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_eq((struct str){s.p, prefix.n}, prefix);
}
struct str str_strip(struct str s, const char *set); /* no bytes of the set at either end */
/* Without white space of C (space, \t, \n, \v, \f, \r) at either end. */
struct str str_trim(struct str s);
/* Cuts at the first `sep`: returns what stands before it, *rest becomes what follows (empty when
 * none). */
struct str str_cut(struct str s, char sep, struct str *rest);
/* The whole text must be a decimal number, "+" and "-" allowed, spaces not.  False: it is none,
 * or does not fit; *out is unchanged. */
bool str_to_i64(struct str s, int64_t *out);
/* The same for a decimal fraction with an optional exponent.  The result is finite. */
bool str_to_double(struct str s, double *out);
/* The candidate nearest to `word` by edit distance, or NULL when none is near enough to suggest. */
const char *str_nearest(const char *word, const char *const *candidates, size_t n);
/* The first character of s: its length in bytes (1 to 4) and code point; 0 when s is empty or does
 * not start with valid UTF-8. */
size_t utf8_decode(struct str s, uint32_t *out);
bool str_is_utf8(struct str s);
