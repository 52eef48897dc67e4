/* yaml_scalar_11.c - what an unquoted YAML scalar means to programs that read YAML 1.1
 *
 * yes, no, on and off are booleans; 017 is octal, 0b11 binary; digits may be grouped by _ and
 * sixties by colons (1:30 is 90); a real number needs a dot, and its exponent a sign: 1e3 and 0o17
 * are text.  Dates stay text.  Infinity and NaN are refused as everywhere.
 */
#include "base/json_priv.h"
#include "base/yaml_priv.h"
#include <ctype.h>
#include <math.h>

static bool is_any(struct str s, const char *const *words)
{
    for (; *words; words++)
        if (str_eq_c(s, *words))
            return true;
    return false;
}

/* How many characters from i on are in `set`. */
static size_t digits_run(struct str s, size_t i, const char *set)
{
    size_t n = 0;

    while (i + n < s.n && s.p[i + n] && strchr(set, s.p[i + n]))
        n++;
    return n;
}

static bool is_sign(char c)
{
    return c == '-' || c == '+';
}

/* The digits without _; s is short, since numbers are. */
static bool squeeze(struct str s, char *out, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '_')
            continue;
        if (n + 1 >= room)
            return false;
        out[n++] = s.p[i];
    }
    out[n] = 0;
    return n > 0;
}

/* Digits of a base that is a power of two; false when they do not fit. */
static bool based(struct str s, unsigned shift, bool negative, struct json **out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < s.n; i++) {
        int c = tolower((unsigned char)s.p[i]);
        if (c == '_')
            continue;
        if (v > (uint64_t)INT64_MAX >> shift)
            return false;
        v = v << shift | (unsigned)(isdigit(c) ? c - '0' : c - 'a' + 10);
    }
    *out = json_new_int(negative ? -(int64_t)v : (int64_t)v);
    return true;
}

/* 190:20:30 and 190:20:30.15: sixties.  `s` without its sign. */
static bool sixties(struct str s, bool negative, struct json **out)
{
    char text[64];
    double total = 0;
    bool whole = true;

    if (!s.n || !memchr(s.p, ':', s.n) || !squeeze(s, text, sizeof(text)))
        return false;
    for (struct str rest = str_of(text); rest.p;) {
        struct str part = str_cut(rest, ':', &rest);
        double d;
        if (!part.n || !isdigit((unsigned char)part.p[0]) ||
            strspn(part.p, "0123456789.:") < part.n)
            return false;
        if (memchr(part.p, '.', part.n))
            whole = false;
        if (!str_to_double(part, &d) || (total > 0 && d >= 60))
            return false;
        total = total * 60 + d;
        if (!rest.n)
            break;
    }
    if (text[strlen(text) - 1] == ':')
        return false;
    if (!isfinite(total))
        return false;
    if (negative)
        total = -total;
    /* Beyond 2^53 the sum is not exact any more. */
    whole = whole && fabs(total) < 9e15;
    *out = whole ? json_new_int((int64_t)total) : json_new_real(total);
    return true;
}

static bool whole_number(struct str s, struct json **out)
{
    bool negative = s.n && s.p[0] == '-';
    struct str t = s.n && is_sign(s.p[0]) ? (struct str){s.p + 1, s.n - 1} : s;
    char text[400];

    if (!t.n)
        return false;
    if (t.n > 2 && str_starts(t, STR("0b")) && digits_run(t, 2, "01_") == t.n - 2)
        return based((struct str){t.p + 2, t.n - 2}, 1, negative, out);
    if (t.n > 2 && str_starts(t, STR("0x")) &&
        digits_run(t, 2, "0123456789abcdefABCDEF_") == t.n - 2)
        return based((struct str){t.p + 2, t.n - 2}, 4, negative, out);
    if (t.n > 1 && t.p[0] == '0' && digits_run(t, 1, "01234567_") == t.n - 1)
        return based((struct str){t.p + 1, t.n - 1}, 3, negative, out);
    /* 08 is no number of YAML 1.1 and becomes text; 0.5 is left to real_number. */
    if (t.n > 1 && t.p[0] == '0')
        return false;
    if (!isdigit((unsigned char)t.p[0]) || digits_run(t, 0, "0123456789_") != t.n)
        return t.p[0] != '0' && isdigit((unsigned char)t.p[0]) && sixties(t, negative, out);
    if (!squeeze(s.p[0] == '+' ? t : s, text, sizeof(text)))
        return false;
    *out = json_new_number(str_of(text));
    return *out != NULL;
}

/* [-+]digits.digits[e±digits] and .digits[e±digits] */
static bool real_number(struct str s, struct json **out)
{
    size_t i = s.n && is_sign(s.p[0]) ? 1 : 0, before;
    char text[400];
    double d;

    before = i < s.n && isdigit((unsigned char)s.p[i]) ? digits_run(s, i, "0123456789_") : 0;
    if (!before && (i || s.n < 2 || !isdigit((unsigned char)s.p[1])))
        return false;
    i += before;
    if (i >= s.n || s.p[i] != '.')
        return false;
    i++;
    i += digits_run(s, i, "0123456789_");
    if (i < s.n && (s.p[i] | 0x20) == 'e') {
        size_t digits = i + 2 < s.n && is_sign(s.p[i + 1]) ? digits_run(s, i + 2, "0123456789") : 0;
        if (!digits)
            return false;
        i += 2 + digits;
    }
    if (i != s.n || !squeeze(s, text, sizeof(text)) || !str_to_double(str_of(text), &d))
        return false;
    *out = json_new_real(d);
    return true;
}

const char *yaml_plain_11(struct str s, struct json **out)
{
    struct str bare = s.n && is_sign(s.p[0]) ? (struct str){s.p + 1, s.n - 1} : s;

    *out = NULL;
    if (!s.n || is_any(s, (const char *const[]){"~", "null", "Null", "NULL", NULL}))
        return NULL;
    if (is_any(s, (const char *const[]){"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On",
                                        "ON", NULL})) {
        *out = json_new_bool(true);
        return NULL;
    }
    if (is_any(s, (const char *const[]){"no", "No", "NO", "false", "False", "FALSE", "off", "Off",
                                        "OFF", NULL})) {
        *out = json_new_bool(false);
        return NULL;
    }
    if (is_any(bare, (const char *const[]){".inf", ".Inf", ".INF", NULL}) ||
        is_any(s, (const char *const[]){".nan", ".NaN", ".NAN", NULL}))
        return "infinity and NaN have no place in JSON: write them in quotes";
    if (!whole_number(s, out) && !real_number(s, out))
        *out = json_new_str(s);
    return NULL;
}
