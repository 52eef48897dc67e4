/* units.c - durations, sizes and CPU counts as people write them
 *
 * Arithmetic is in whole numbers: "0.1G" is what a person means, not what a double holds.  A
 * fraction finer than the smallest step (a millisecond, a byte, a thousandth of a CPU) is cut.
 */
#include "base/units.h"
#include "base/util.h"
#include <stdio.h>

struct unit {
    const char *name;
    int64_t factor;
};

static const int64_t ms_per_s = 1000;

static const struct unit durations[] = {
    {"ms", 1},         {"s", 1000},         {"sec", 1000},        {"m", 60000},
    {"min", 60000},    {"h", 3600000},      {"hr", 3600000},      {"d", 86400000},
    {"w", 604800000},  {"day", 86400000},   {"days", 86400000},   {"hours", 3600000},
    {"hour", 3600000}, {"minute", 60000},   {"minutes", 60000},   {"second", 1000},
    {"seconds", 1000}, {"week", 604800000}, {"weeks", 604800000},
};

static const struct unit sizes[] = {
    {"K", 1LL << 10}, {"M", 1LL << 20}, {"G", 1LL << 30}, {"T", 1LL << 40}, {"P", 1LL << 50},
};

/* A number at the start of *s, times `factor` once it is known: kept as digits and scale. */
struct number {
    int64_t whole, frac, scale; /* whole + frac / scale */
};

/* Reads digits with an optional fraction and moves *s past them. */
static bool take_number(struct str *s, struct number *out)
{
    struct number n = {.scale = 1};
    size_t i = 0, digits = 0;

    for (; i < s->n && s->p[i] >= '0' && s->p[i] <= '9'; i++, digits++) {
        if (__builtin_mul_overflow(n.whole, (int64_t)10, &n.whole) ||
            __builtin_add_overflow(n.whole, (int64_t)(s->p[i] - '0'), &n.whole))
            return false;
    }
    if (i < s->n && s->p[i] == '.') {
        for (i++; i < s->n && s->p[i] >= '0' && s->p[i] <= '9'; i++, digits++) {
            /* Digits beyond the ninth are read and ignored. */
            if (n.scale < 1000000000) {
                n.frac = n.frac * 10 + (s->p[i] - '0');
                n.scale *= 10;
            }
        }
    }
    if (digits == 0)
        return false;
    *s = (struct str){s->p + i, s->n - i};
    *out = n;
    return true;
}

/* False when the product does not fit into 64 bits. */
static bool multiply(struct number n, int64_t factor, int64_t *out)
{
    int64_t whole;
    /* frac < scale ≤ 10^9, so the fraction of a factor fits 128 bits with ease. */
    int64_t part = (int64_t)((__int128)n.frac * factor / n.scale);

    return !__builtin_mul_overflow(n.whole, factor, &whole) &&
           !__builtin_add_overflow(whole, part, out);
}

static struct str take_letters(struct str *s)
{
    size_t i = 0;

    while (i < s->n && ((s->p[i] | 0x20) >= 'a' && (s->p[i] | 0x20) <= 'z'))
        i++;
    struct str word = {s->p, i};
    *s = (struct str){s->p + i, s->n - i};
    return word;
}

static int64_t factor_of_duration(struct str unit)
{
    for (size_t i = 0; i < ARRAY_SIZE(durations); i++) {
        if (str_eq_c(unit, durations[i].name))
            return durations[i].factor;
    }
    return 0;
}

static const char duration_rule[] =
    "a duration: write a number with ms, s, m, h or d, like 90s or 1h30m";
static const char size_rule[] =
    "a size: write a number of bytes with K, M, G or T, like 512M or 1.5G";

static int bad_unit(struct str s, const char *rule, struct err *e)
{
    return err_set(e, ERR_INVALID, "\"%.*s\" is not %s", (int)MIN(s.n, 60), s.p, rule);
}

int duration_parse(struct str s, int64_t *out_ms, struct err *e)
{
    struct str rest = s;
    int64_t total = 0;

    if (s.n == 0)
        return bad_unit(s, duration_rule, e);
    while (rest.n > 0) {
        struct number n;
        int64_t part;
        bool first = rest.p == s.p;
        if (!take_number(&rest, &n))
            return bad_unit(s, duration_rule, e);
        struct str unit = take_letters(&rest);
        /* Only a lone number goes without its unit. */
        int64_t factor = first && unit.n == 0 && rest.n == 0 ? ms_per_s : factor_of_duration(unit);
        if (factor == 0)
            return bad_unit(s, duration_rule, e);
        if (!multiply(n, factor, &part) || __builtin_add_overflow(total, part, &total))
            return err_set(e, ERR_INVALID, "duration \"%.*s\" is too long", (int)MIN(s.n, 60), s.p);
    }
    *out_ms = total;
    return 0;
}

/* "" "B" "K" "Ki" "KB" "KiB", either case. */
static int64_t factor_of_size(struct str unit)
{
    if (unit.n > 0 && (unit.p[unit.n - 1] | 0x20) == 'b')
        unit.n--;
    if (unit.n == 0)
        return 1;
    if (unit.n == 2 && (unit.p[1] | 0x20) == 'i')
        unit.n--;
    for (size_t i = 0; unit.n == 1 && i < ARRAY_SIZE(sizes); i++) {
        if ((unit.p[0] & ~0x20) == sizes[i].name[0])
            return sizes[i].factor;
    }
    return 0;
}

int size_parse(struct str s, int64_t *out_bytes, struct err *e)
{
    struct str rest = s;
    struct number n;
    int64_t bytes;

    if (!take_number(&rest, &n))
        return bad_unit(s, size_rule, e);
    struct str unit = take_letters(&rest);
    int64_t factor = factor_of_size(unit);
    if (factor == 0 || rest.n > 0)
        return bad_unit(s, size_rule, e);
    if (!multiply(n, factor, &bytes))
        return err_set(e, ERR_INVALID, "size \"%.*s\" is too large", (int)MIN(s.n, 60), s.p);
    *out_bytes = bytes;
    return 0;
}

int cpus_parse(struct str s, int64_t *out_mcpu, struct err *e)
{
    struct str rest = s;
    struct number n;
    int64_t mcpu;

    if (take_number(&rest, &n)) {
        bool milli = str_eq_c(rest, "m");
        if ((rest.n == 0 || milli) && multiply(n, milli ? 1 : 1000, &mcpu)) {
            *out_mcpu = mcpu;
            return 0;
        }
    }
    return err_set(e, ERR_INVALID,
                   "\"%.*s\" is not a number of CPUs: write 2, 0.5 or 500m (thousandths)",
                   (int)MIN(s.n, 60), s.p);
}

/* "1h30m", and "2h" when the smaller one is 0. */
static void format_two(char out[UNIT_TEXT_MAX], const char *sign, uint64_t big, char big_unit,
                       uint64_t small, char small_unit)
{
    if (small)
        snprintf(out, UNIT_TEXT_MAX, "%s%llu%c%llu%c", sign, (unsigned long long)big, big_unit,
                 (unsigned long long)small, small_unit);
    else
        snprintf(out, UNIT_TEXT_MAX, "%s%llu%c", sign, (unsigned long long)big, big_unit);
}

void duration_format(int64_t ms, char out[UNIT_TEXT_MAX])
{
    const char *sign = ms < 0 ? "-" : "";
    uint64_t v = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
    uint64_t s = v / 1000;

    if (v == 0)
        snprintf(out, UNIT_TEXT_MAX, "0s");
    else if (v < 1000)
        snprintf(out, UNIT_TEXT_MAX, "%s%ums", sign, (unsigned)v);
    else if (s < 60 && v % 1000 >= 100)
        snprintf(out, UNIT_TEXT_MAX, "%s%u.%us", sign, (unsigned)s, (unsigned)(v % 1000 / 100));
    else if (s < 60)
        snprintf(out, UNIT_TEXT_MAX, "%s%us", sign, (unsigned)s);
    else if (s < 3600)
        format_two(out, sign, s / 60, 'm', s % 60, 's');
    else if (s < 86400)
        format_two(out, sign, s / 3600, 'h', s / 60 % 60, 'm');
    else
        format_two(out, sign, s / 86400, 'd', s / 3600 % 24, 'h');
}

void size_format(int64_t bytes, char out[UNIT_TEXT_MAX])
{
    const char *sign = bytes < 0 ? "-" : "";
    uint64_t v = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;

    if (v < 1024) {
        snprintf(out, UNIT_TEXT_MAX, "%s%uB", sign, (unsigned)v);
        return;
    }
    /* Tenths, rounded; 1023.95K is 1.0M already. */
    size_t unit = 0;
    while (unit + 1 < ARRAY_SIZE(sizes) && v >= (uint64_t)sizes[unit + 1].factor)
        unit++;
    for (;; unit++) {
        uint64_t factor = (uint64_t)sizes[unit].factor;
        uint64_t tenths = (uint64_t)(((unsigned __int128)v * 10 + factor / 2) / factor);
        bool whole = tenths >= 100;
        uint64_t shown = whole ? (v + factor / 2) / factor : 0;
        if (shown >= 1024 && unit + 1 < ARRAY_SIZE(sizes))
            continue;
        if (whole)
            snprintf(out, UNIT_TEXT_MAX, "%s%llu%s", sign, (unsigned long long)shown,
                     sizes[unit].name);
        else
            snprintf(out, UNIT_TEXT_MAX, "%s%llu.%llu%s", sign, (unsigned long long)tenths / 10,
                     (unsigned long long)tenths % 10, sizes[unit].name);
        return;
    }
}
