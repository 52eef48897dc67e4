/* text.c - the small grammars of HTTP: escapes, dates, entity tags, ranges, lists
 *
 * Pure functions over borrowed text; anything malformed is "not there", never a guess.
 */
#include "io/http_priv.h"
#include <stdio.h>
#include <strings.h>
#include <time.h>

/* -1 when c is not a hexadecimal digit. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool url_decode(struct str s, bool plus, char *out, size_t *out_n)
{
    size_t n = 0;
    bool plain = true;

    for (size_t i = 0; i < s.n; i++) {
        char ch = s.p[i];
        if (ch == '%') {
            int hi = s.n - i > 2 ? hex_value(s.p[i + 1]) : -1;
            int lo = s.n - i > 2 ? hex_value(s.p[i + 2]) : -1;
            if (hi < 0 || lo < 0)
                return false;
            ch = (char)(hi << 4 | lo);
            i += 2;
        } else if (ch == '+' && plus) {
            ch = ' ';
        }
        if (ch == '\0')
            return false;
        plain &= (unsigned char)ch < 0x80;
        out[n++] = ch;
    }
    *out_n = n;
    return plain || str_is_utf8((struct str){out, n});
}

static const char days[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

void http_date_format(time_t t, char out[32])
{
    struct tm tm;

    gmtime_r(&t, &tm);
    snprintf(out, 32, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT", days + (size_t)tm.tm_wday * 3,
             (unsigned)tm.tm_mday % 100, months + (size_t)tm.tm_mon * 3,
             (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
             (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
}

/* Two digits, or -1. */
static int two(const char *p)
{
    return p[0] >= '0' && p[0] <= '9' && p[1] >= '0' && p[1] <= '9' ? (p[0] - '0') * 10 + p[1] - '0'
                                                                    : -1;
}

/* Only the form we send: "Sun, 06 Nov 1994 08:49:37 GMT".  The two obsolete ones are no match. */
bool http_date_parse(struct str s, time_t *out)
{
    const char *p = s.p;

    if (s.n != 29 || memcmp(p + 3, ", ", 2) != 0 || memcmp(p + 25, " GMT", 4) != 0 || p[7] != ' ' ||
        p[11] != ' ' || p[16] != ' ' || p[19] != ':' || p[22] != ':')
        return false;
    int month = -1;
    for (int i = 0; i < 12; i++) {
        if (memcmp(p + 8, months + (size_t)i * 3, 3) == 0)
            month = i;
    }
    int century = two(p + 12), year = two(p + 14), day = two(p + 5);
    int hour = two(p + 17), min = two(p + 20), sec = two(p + 23);
    if (month < 0 || century < 0 || year < 0 || day < 1 || hour < 0 || min < 0 || sec < 0)
        return false;
    struct tm tm = {.tm_year = century * 100 + year - 1900,
                    .tm_mon = month,
                    .tm_mday = day,
                    .tm_hour = hour,
                    .tm_min = min,
                    .tm_sec = sec};
    *out = timegm(&tm);
    return true;
}

/* Without the W/ of a weak tag: If-None-Match compares weakly. */
static struct str etag_opaque(struct str s)
{
    if (s.n >= 2 && s.p[0] == 'W' && s.p[1] == '/')
        return (struct str){s.p + 2, s.n - 2};
    return s;
}

bool http_etag_matches(struct str list, struct str etag)
{
    etag = etag_opaque(etag);
    while (list.n > 0) {
        struct str one = str_trim(str_cut(list, ',', &list));
        if (str_eq_c(one, "*") || (one.n > 0 && str_eq(etag_opaque(one), etag)))
            return true;
    }
    return false;
}

/* Digits only: str_to_i64 would also take a sign. */
static bool decimal_parse(struct str s, uint64_t *out)
{
    int64_t v;

    if (s.n == 0 || s.p[0] < '0' || s.p[0] > '9' || !str_to_i64(s, &v))
        return false;
    *out = (uint64_t)v;
    return true;
}

int http_range_parse(struct str s, uint64_t size, uint64_t *from, uint64_t *to)
{
    uint64_t a, b;

    /* Other units are unknown to us, several ranges would need multipart: both mean "all". */
    if (!str_starts(s, STR("bytes=")))
        return 0;
    s = str_trim((struct str){s.p + 6, s.n - 6});
    if (s.n > 0 && memchr(s.p, ',', s.n))
        return 0;
    if (s.n == 0 || !memchr(s.p, '-', s.n))
        return -1;
    struct str last, first = str_cut(s, '-', &last);
    if (first.n == 0) {
        if (!decimal_parse(last, &b) || b == 0 || size == 0)
            return -1;
        *from = size - MIN(b, size);
        *to = size - 1;
        return 1;
    }
    if (!decimal_parse(first, &a) || a >= size)
        return -1;
    if (last.n == 0)
        b = size - 1;
    else if (!decimal_parse(last, &b) || b < a)
        return -1;
    *from = a;
    *to = MIN(b, size - 1);
    return 1;
}
