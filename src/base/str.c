/* str.c - borrowed text: comparing, cutting, numbers, UTF-8, and the nearest known word
 *
 * Numbers are read by the C library in the C locale; the program never calls setlocale, so
 * "0.5" is a half everywhere.
 */
#include "base/str.h"
#include "base/util.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

bool str_ieq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || strncasecmp(a.p, b.p, a.n) == 0);
}

struct str str_strip(struct str s, const char *set)
{
    while (s.n > 0 && is_one_of(s.p[0], set)) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && is_one_of(s.p[s.n - 1], set))
        s.n--;
    return s;
}

struct str str_trim(struct str s)
{
    return str_strip(s, " \t\n\v\f\r");
}

struct str str_cut(struct str s, char sep, struct str *rest)
{
    const char *at = s.n ? memchr(s.p, sep, s.n) : NULL;

    if (!at) {
        *rest = (struct str){s.n ? s.p + s.n : "", 0};
        return s;
    }
    size_t n = (size_t)(at - s.p);
    *rest = (struct str){at + 1, s.n - n - 1};
    return (struct str){s.p, n};
}

bool str_to_i64(struct str s, int64_t *out)
{
    bool negative = s.n > 0 && s.p[0] == '-';
    size_t i = s.n > 0 && (s.p[0] == '-' || s.p[0] == '+');
    int64_t v = 0; /* kept negative: INT64_MIN has no positive twin */

    if (i == s.n)
        return false;
    for (; i < s.n; i++) {
        if (!is_digit(s.p[i]) || __builtin_mul_overflow(v, (int64_t)10, &v) ||
            __builtin_sub_overflow(v, (int64_t)(s.p[i] - '0'), &v))
            return false;
    }
    if (!negative && v == INT64_MIN)
        return false;
    *out = negative ? v : -v;
    return true;
}

static size_t skip_digits(struct str s, size_t i)
{
    while (i < s.n && is_digit(s.p[i]))
        i++;
    return i;
}

/* Decimal with optional sign, point and exponent; strtod alone would take "inf", "0x1p3", " 1". */
static bool is_decimal(struct str s)
{
    size_t i = s.n > 0 && (s.p[0] == '-' || s.p[0] == '+');
    size_t whole = skip_digits(s, i);
    size_t digits = whole - i;

    if (whole < s.n && s.p[whole] == '.') {
        size_t frac = skip_digits(s, whole + 1);
        digits += frac - whole - 1;
        whole = frac;
    }
    if (digits == 0)
        return false;
    if (whole < s.n && (s.p[whole] == 'e' || s.p[whole] == 'E')) {
        whole++;
        if (whole < s.n && (s.p[whole] == '-' || s.p[whole] == '+'))
            whole++;
        size_t end = skip_digits(s, whole);
        if (end == whole)
            return false;
        whole = end;
    }
    return whole == s.n;
}

bool str_to_double(struct str s, double *out)
{
    if (!is_decimal(s))
        return false;
    AUTO_FREE char *text = xstrndup(s.p, s.n);
    double d = strtod(text, NULL);
    if (!isfinite(d))
        return false;
    *out = d;
    return true;
}

size_t utf8_decode(struct str s, uint32_t *out)
{
    /* The lowest code point of each length: a lower one in more bytes is an overlong form, by
     * which checks for '/' or NUL could be evaded. */
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

    if (s.n == 0)
        return 0;
    unsigned char lead = (unsigned char)s.p[0];
    if (lead < 0x80) {
        *out = lead;
        return 1;
    }
    size_t len = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || s.n < len)
        return 0;
    uint32_t cp = lead & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if ((c & 0xC0) != 0x80)
            return 0;
        cp = cp << 6 | (c & 0x3F);
    }
    if (cp < least[len] || cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF))
        return 0;
    *out = cp;
    return len;
}

bool str_is_utf8(struct str s)
{
    uint32_t cp;

    while (s.n > 0) {
        size_t n = utf8_decode(s, &cp);
        if (n == 0)
            return false;
        s.p += n;
        s.n -= n;
    }
    return true;
}

enum { WORD_MAX = 64 };

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Edits to get from a to b; swapping two neighbours counts as one (the commonest typing slip). */
static size_t edit_distance(const char *a, size_t an, const char *b, size_t bn)
{
    /* Three rows of the table are enough: the current one and the two before, for swapped
     * letters. */
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *prev = rows[1], *row = rows[2];

    for (size_t j = 0; j <= bn; j++)
        prev[j] = j;
    for (size_t i = 1; i <= an; i++) {
        row[0] = i;
        for (size_t j = 1; j <= bn; j++) {
            size_t cost = prev[j - 1] + !same_letter(a[i - 1], b[j - 1]);
            cost = MIN(cost, MIN(prev[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
                same_letter(a[i - 2], b[j - 1]))
                cost = MIN(cost, before[j - 2] + 1);
            row[j] = cost;
        }
        size_t *spare = before;
        before = prev;
        prev = row;
        row = spare;
    }
    return prev[bn];
}

const char *str_nearest(const char *word, const char *const *candidates, size_t n)
{
    size_t len = word ? strlen(word) : 0;
    /* One slip in three letters: "lable" suggests "label", "xyz" suggests nothing. */
    size_t best_distance = MIN(len / 3 + 1, (size_t)4);
    const char *best = NULL;

    if (len < 2 || len > WORD_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t cn = candidates[i] ? strlen(candidates[i]) : 0;
        if (cn == 0 || cn > WORD_MAX)
            continue;
        size_t d = edit_distance(word, len, candidates[i], cn);
        if (d < MIN(len, cn) && d < best_distance + !best) {
            best_distance = d;
            best = candidates[i];
        }
    }
    return best;
}
