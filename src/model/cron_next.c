/* cron_next.c - when a schedule comes next
 *
 * First without zones: the next local time whose fields fit (next_local).  Then where that is on
 * the time line.  Local time l belongs to the first moment at which the clock on the wall has
 * reached l: for a time the clock jumps over that is the end of the gap, and for one it shows twice
 * the first of the two.  So a local time counts as past once the clock has ever shown it or more,
 * and the moments of ascending local times ascend too.
 *
 * The zone is a function, asked every quarter of an hour: no two changes are closer in any zone.
 */
#include "base/util.h"
#include "model/cron_priv.h"
#include <time.h>

/* STEP_S: how often the zone is asked.  SPAN_S: how far apart a local time and its moment may
 * be. */
enum { DAY_S = 86400, SPAN_S = 26 * 3600, STEP_S = 900, YEARS = 60 };

/* ---- fields ---- */

/* The lowest set bit at or above `from`, or -1. */
static int next_bit(uint64_t bits, int from)
{
    bits = from < 64 ? bits >> from << from : 0;
    return bits ? __builtin_ctzll(bits) : -1;
}

/* The first time of day at or after `from`, in seconds. */
static bool next_in_day(const struct cron *c, int from, int *out)
{
    for (int h = next_bit(c->hour, from / 3600); h >= 0; h = next_bit(c->hour, h + 1)) {
        int rest = MAX(from - h * 3600, 0);
        for (int m = next_bit(c->minute, rest / 60); m >= 0; m = next_bit(c->minute, m + 1)) {
            int s = next_bit(c->second, MAX(rest - m * 60, 0));
            if (s >= 0) {
                *out = h * 3600 + m * 60 + s;
                return true;
            }
        }
    }
    return false;
}

/* tm_mon counts from 0, tm_year from 1900. */
static int month_length(const struct tm *tm)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int y = tm->tm_year + 1900;
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;

    return lengths[tm->tm_mon] + (tm->tm_mon == 1 && leap);
}

/* Index 5 of nth is the last such weekday of the month: no further one fits into the month. */
static bool day_fits(const struct cron *c, const struct tm *tm, int length)
{
    int d = tm->tm_mday;
    bool by_date = c->day >> d & 1 || (c->last_day && d == length) ||
                   c->nth[(d - 1) / 7] >> tm->tm_wday & 1 ||
                   (d + 7 > length && c->nth[5] >> tm->tm_wday & 1);
    bool by_week = c->weekday >> tm->tm_wday & 1;

    return c->either ? by_date || by_week : by_date && by_week;
}

/* The first local time after `from` that fits. */
static bool next_local(const struct cron *c, int64_t from, int64_t *out)
{
    int64_t day = (from + 1) / DAY_S, last = day + YEARS * 366;
    int at = (int)((from + 1) % DAY_S);

    if (at < 0) {
        day--;
        at += DAY_S;
    }
    for (int64_t next; day < last; day = next, at = 0) {
        time_t begins = (time_t)(day * DAY_S);
        struct tm tm;
        gmtime_r(&begins, &tm);
        int length = month_length(&tm);
        /* A month that does not fit is skipped as a whole: 60 years stay cheap. */
        if (!(c->month >> (tm.tm_mon + 1) & 1)) {
            next = day + length - tm.tm_mday + 1;
            continue;
        }
        next = day + 1;
        if (day_fits(c, &tm, length) && next_in_day(c, at, &at)) {
            *out = day * DAY_S + at;
            return true;
        }
    }
    return false;
}

bool cron_possible(const struct cron *c)
{
    int64_t any;

    return next_local(c, 0, &any);
}

/* ---- zones ---- */

/* The zone is a callback; the clamp keeps the spans below valid whatever it returns. */
static int64_t offset_at(const struct cron_zone *z, int64_t t)
{
    int64_t o = z->offset(z->self, t);

    return o > DAY_S ? DAY_S : o < -DAY_S ? -DAY_S : o;
}

/* The first moment after `from` with another offset, at most `to`. */
static int64_t piece_end(const struct cron_zone *z, int64_t from, int64_t to)
{
    int64_t o = offset_at(z, from), lo = from, hi = from;

    while (hi < to && offset_at(z, hi) == o) {
        lo = hi;
        hi = MIN(hi + STEP_S, to);
    }
    if (offset_at(z, hi) == o)
        return to;
    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (offset_at(z, mid) == o)
            lo = mid;
        else
            hi = mid;
    }
    return hi;
}

/* The latest local time that the clock has shown up to the moment t.  SPAN_S covers the largest
 * change of offset, so no earlier moment can have shown more. */
static int64_t reached(const struct cron_zone *z, int64_t t)
{
    int64_t most = t + offset_at(z, t);

    for (int64_t p = t - SPAN_S, q; p <= t; p = q) {
        q = piece_end(z, p, t + 1);
        int64_t shown = q - 1 + offset_at(z, p);
        most = MAX(most, shown);
    }
    return most;
}

bool cron_next(const struct cron *c, const struct cron_zone *z, int64_t after_s, int64_t *out_s)
{
    int64_t local;

    if (!next_local(c, reached(z, after_s), &local))
        return false;
    for (int64_t p = MAX(after_s + 1, local - SPAN_S), q;; p = q) {
        /* Within a piece of constant offset the local time has exactly one moment.  A moment
         * before the piece means that the clock has jumped over it: the start of the piece
         * stands for it. */
        int64_t t = local - offset_at(z, p);
        t = MAX(t, p);
        q = piece_end(z, p, t + 1);
        if (t < q) {
            *out_s = t;
            return true;
        }
    }
}
