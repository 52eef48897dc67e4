/* clock.c - the system clock, and times as text
 *
 * Dates are the proleptic Gregorian calendar in UTC, computed here: no time zone database, no
 * static buffers, any int64 works.
 */
#include "base/clock.h"
#include "base/util.h"
#include <stdio.h>
#include <time.h>

enum { MS_PER_DAY = 86400000 };

static int64_t read_clock(clockid_t which)
{
    struct timespec ts;

    clock_gettime(which, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t system_wall(void *self UNUSED)
{
    return read_clock(CLOCK_REALTIME);
}

static int64_t system_mono(void *self UNUSED)
{
    return read_clock(CLOCK_MONOTONIC);
}

const struct clock clock_system = {.wall_ms = system_wall, .mono_ms = system_mono};

/* Days since 1970-01-01 and back.  Years start in March here, so that the leap day is the last. */
static int64_t days_of_date(int64_t y, int m, int d)
{
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

static void date_of_days(int64_t days, int64_t *y, int *m, int *d)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t doe = days - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *d = (int)(doy - (153 * mp + 2) / 5 + 1);
    *m = (int)(mp < 10 ? mp + 3 : mp - 9);
    *y = yoe + era * 400 + (*m <= 2);
}

void time_format_utc(int64_t wall_ms, char out[TIME_TEXT_MAX])
{
    int64_t days = wall_ms / MS_PER_DAY, rest = wall_ms % MS_PER_DAY;
    int64_t year;
    int month, day;

    /* C division rounds towards zero, so times before 1970 need the day before. */
    if (rest < 0) {
        rest += MS_PER_DAY;
        days--;
    }
    date_of_days(days, &year, &month, &day);
    unsigned ms = (unsigned)rest;
    char text[96];
    snprintf(text, sizeof(text), "%04lld-%02d-%02dT%02u:%02u:%02u.%03uZ", (long long)year, month,
             day, ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
    memcpy(out, text, TIME_TEXT_MAX - 1);
    out[TIME_TEXT_MAX - 1] = '\0';
}

/* Exactly n digits at s[*i], in lo..hi; moves *i past them. */
static bool take_digits(struct str s, size_t *i, size_t n, int lo, int hi, int *out)
{
    int v = 0;

    if (s.n - *i < n)
        return false;
    for (size_t end = *i + n; *i < end; (*i)++) {
        if (s.p[*i] < '0' || s.p[*i] > '9')
            return false;
        v = v * 10 + (s.p[*i] - '0');
    }
    *out = v;
    return v >= lo && v <= hi;
}

static bool time_take_char(struct str s, size_t *i, const char *any_of)
{
    return *i < s.n && s.p[*i] && strchr(any_of, s.p[*i]) && ++*i;
}

static int days_in_month(int y, int m)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return m == 2 && (y % 4 == 0 && (y % 100 != 0 || y % 400 == 0)) ? 29 : days[m - 1];
}

/* The fraction is optional, and "." without digits is an error.  Digits beyond the millisecond
 * are read and ignored. */
static bool take_fraction(struct str s, size_t *i, int *out_ms)
{
    int scale = 100;

    *out_ms = 0;
    if (!time_take_char(s, i, "."))
        return true;
    size_t first = *i;
    for (; *i < s.n && s.p[*i] >= '0' && s.p[*i] <= '9'; (*i)++) {
        *out_ms += (s.p[*i] - '0') * scale;
        scale /= 10;
    }
    return *i > first;
}

/* "Z" or "+02:00".  The result is in minutes and is positive east of UTC. */
static bool take_offset(struct str s, size_t *i, int *out_minutes)
{
    int hours, minutes;

    *out_minutes = 0;
    if (time_take_char(s, i, "Zz"))
        return true;
    bool west = *i < s.n && s.p[*i] == '-';
    if (!time_take_char(s, i, "+-") || !take_digits(s, i, 2, 0, 23, &hours) ||
        !time_take_char(s, i, ":") || !take_digits(s, i, 2, 0, 59, &minutes))
        return false;
    *out_minutes = (hours * 60 + minutes) * (west ? -1 : 1);
    return true;
}

bool time_parse_utc(struct str s, int64_t *out_ms)
{
    int y, mo, d, h, mi, sec, ms, offset;
    size_t i = 0;

    if (!take_digits(s, &i, 4, 0, 9999, &y) || !time_take_char(s, &i, "-") ||
        !take_digits(s, &i, 2, 1, 12, &mo) || !time_take_char(s, &i, "-") ||
        !take_digits(s, &i, 2, 1, days_in_month(y, mo), &d) || !time_take_char(s, &i, "Tt ") ||
        !take_digits(s, &i, 2, 0, 23, &h) || !time_take_char(s, &i, ":") ||
        !take_digits(s, &i, 2, 0, 59, &mi) || !time_take_char(s, &i, ":") ||
        !take_digits(s, &i, 2, 0, 60, &sec) || !take_fraction(s, &i, &ms) ||
        !take_offset(s, &i, &offset) || i != s.n)
        return false;
    int64_t minutes = (int64_t)h * 60 + mi - offset;
    *out_ms = days_of_date(y, mo, d) * MS_PER_DAY + (minutes * 60 + sec) * 1000 + ms;
    return true;
}
