/* test_cron.c - schedules as people write them, and when they come: against an oracle that looks at
 * every minute */
#include "base/json.h"
#include "base/rand.h"
#include "base/util.h"
#include "model/cron.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

enum { MINUTE = 60, HOUR = 3600, DAY = 86400 };

/* ---- zones ---- */

struct jumps { /* offsets from moments on; the first holds before, too */
    int n;
    int64_t at[8];
    int32_t offset[8];
};

static int32_t jumps_offset(void *self, int64_t t)
{
    const struct jumps *j = self;
    int i = 0;

    while (i + 1 < j->n && t >= j->at[i + 1])
        i++;
    return j->offset[i];
}

static struct jumps utc = {1, {0}, {0}};

static int64_t at(const char *text) /* "2026-03-29 02:30:00", as if it were UTC */
{
    struct tm tm = {0};

    assert_int_equal(sscanf(text, "%d-%d-%d %d:%d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                            &tm.tm_hour, &tm.tm_min, &tm.tm_sec),
                     6);
    tm.tm_year -= 1900;
    tm.tm_mon--;
    return timegm(&tm);
}

static const char *stamp(int64_t t)
{
    static char text[4][40];
    static int turn;
    time_t s = (time_t)t;
    struct tm tm;

    turn = (turn + 1) % 4;
    gmtime_r(&s, &tm);
    strftime(text[turn], sizeof(text[turn]), "%Y-%m-%d %H:%M:%S", &tm);
    return text[turn];
}

static struct cron read_one(const char *schedule)
{
    struct cron c = {0};
    struct err e = {0};
    struct json *j = NULL;

    if (schedule[0] == '{')
        assert_int_equal(json_parse(str_of(schedule), "schedule", &j, &e), 0);
    int rc = j ? cron_from_json(j, &c, &e) : cron_parse(str_of(schedule), &c, &e);
    json_free(j);
    if (rc < 0)
        fail_msg("%s: %s", schedule, e.text);
    return c;
}

static int64_t next_in(const char *schedule, struct jumps *j, int64_t after)
{
    struct cron c = read_one(schedule);
    const struct cron_zone z = {jumps_offset, j};
    int64_t t;

    assert_true(cron_next(&c, &z, after, &t));
    return t;
}

static void check(const char *schedule, const char *after, const char *want)
{
    int64_t t = next_in(schedule, &utc, at(after));

    if (t != at(want))
        fail_msg("%s after %s: %s, not %s", schedule, after, stamp(t), want);
}

/* ---- words ---- */

static void test_fields(void **state)
{
    (void)state;
    /* 2026-11-16 is a Monday. */
    check("* * * * *", "2026-11-16 06:49:08", "2026-11-16 06:50:00");
    check("* * * * *", "2026-11-16 06:50:00", "2026-11-16 06:51:00");
    check("*/15 * * * *", "2026-11-16 06:49:08", "2026-11-16 07:00:00");
    check("5-10/5 6 * * *", "2026-11-16 06:06:00", "2026-11-16 06:10:00");
    check("10/20 * * * *", "2026-11-16 06:11:00", "2026-11-16 06:30:00");
    check("0,30 8 * * *", "2026-11-16 08:00:00", "2026-11-16 08:30:00");
    check("30 6 * * mon-fri", "2026-11-20 06:30:00", "2026-11-23 06:30:00");
    check("0 0 * * 7", "2026-11-16 00:00:00", "2026-11-22 00:00:00");
    check("0 0 * * SUN", "2026-11-16 00:00:00", "2026-11-22 00:00:00");
    check("0 0 * * sat-sun", "2026-11-21 00:00:00", "2026-11-22 00:00:00");
    check("0 0 1 January *", "2026-11-16 00:00:00", "2027-01-01 00:00:00");
    check("0 12 29 2 *", "2026-11-16 00:00:00", "2028-02-29 12:00:00");
    check("0 0 last * *", "2027-02-01 00:00:00", "2027-02-28 00:00:00");
    check("@hourly", "2026-11-16 06:49:08", "2026-11-16 07:00:00");
    check("@Weekly", "2026-11-16 06:49:08", "2026-11-22 00:00:00");
    check("@yearly", "2026-11-16 06:49:08", "2027-01-01 00:00:00");
    check("\t0  0 1\t* * ", "2026-11-16 06:49:08", "2026-12-01 00:00:00");
}

static void test_day_or_weekday(void **state)
{
    (void)state;
    /* Both given: either will do.  With a star in front only the other counts. */
    check("0 0 13 * fri", "2026-11-16 00:00:00", "2026-11-20 00:00:00");
    check("0 0 13 * fri", "2026-12-12 00:00:00", "2026-12-13 00:00:00");
    check("0 0 */2 * fri", "2026-11-16 00:00:00", "2026-11-27 00:00:00");
    check("0 0 13 * */2", "2026-11-16 00:00:00", "2026-12-13 00:00:00");
}

static void test_named_fields(void **state)
{
    (void)state;
    check("{\"hour\": 6}", "2026-11-16 06:49:08", "2026-11-17 06:00:00");
    check("{\"minute\": \"*/10\"}", "2026-11-16 06:49:08", "2026-11-16 06:50:00");
    check("{\"second\": \"*/2\"}", "2026-11-16 06:49:08", "2026-11-16 06:49:10");
    check("{\"month\": \"feb\"}", "2026-11-16 06:49:08", "2027-02-01 00:00:00");
    check("{\"day_of_week\": 0, \"hour\": 5}", "2026-11-16 06:49:08", "2026-11-23 05:00:00");
    check("{\"day_of_week\": \"sat-sun\"}", "2026-11-16 06:49:08", "2026-11-21 00:00:00");
    /* All fields must fit. */
    check("{\"day\": 13, \"day_of_week\": \"fri\"}", "2026-11-16 00:00:00", "2027-08-13 00:00:00");
    check("{\"day\": \"last\"}", "2026-11-16 00:00:00", "2026-11-30 00:00:00");
    check("{\"day\": \"2nd fri, last mon\"}", "2026-11-16 00:00:00", "2026-11-30 00:00:00");
    check("{\"day\": \"2nd fri, last mon\"}", "2026-11-30 00:00:00", "2026-12-11 00:00:00");
    check("{\"day\": \"5th sun\", \"hour\": \"1\"}", "2026-11-16 00:00:00", "2026-11-29 01:00:00");
    check("{\"year\": \"*\", \"week\": \"*\", \"hour\": 1, \"start_date\": null}",
          "2026-11-16 00:00:00", "2026-11-16 01:00:00");
}

static void refuse(const char *schedule, const char *part)
{
    struct cron c = {.minute = 77};
    struct err e = {0};
    struct json *j = NULL;
    bool text = schedule[0] != '{' && schedule[0] != '[' && schedule[0] != '"';

    if (!text)
        assert_int_equal(json_parse(str_of(schedule), "schedule", &j, &e), 0);
    int rc = text ? cron_parse(str_of(schedule), &c, &e) : cron_from_json(j, &c, &e);
    json_free(j);
    if (rc == 0)
        fail_msg("'%s' was accepted", schedule);
    assert_int_equal(e.code, ERR_INVALID);
    if (!strstr(e.text, part) || strncmp(e.text, "schedule", 8) != 0 || strchr(e.text, '\n'))
        fail_msg("'%s': %s", schedule, e.text);
    assert_int_equal(c.minute, 77); /* untouched */
}

static void test_refusals(void **state)
{
    (void)state;
    refuse("", "five fields");
    refuse("* * * *", "five fields");
    refuse("* * * * * *", "five fields");
    refuse("60 * * * *", "minute '60' is outside of 0 to 59");
    refuse("* 24 * * *", "hour '24' is outside of 0 to 23");
    refuse("* * 0 * *", "day '0' is outside of 1 to 31");
    refuse("* * * 13 *", "month '13' is outside of 1 to 12");
    refuse("* * * * 8", "day_of_week '8' is outside of 0 to 7");
    refuse("*/0 * * * *", "step");
    refuse("*/60 * * * *", "1 to 59");
    refuse("5-1 * * * *", "backwards");
    refuse("1-2-3 * * * *", "not understood");
    refuse("-5 * * * *", "not understood");
    refuse("+5 * * * *", "not understood");
    refuse("1,, * * * *", "comma");
    refuse("1,,2 * * * *", "not understood");
    refuse(", * * * *", "comma");
    refuse("mon * * * *", "minute 'mon' is not understood");
    refuse("* * * * monn", "day_of_week");
    refuse("99999999999999999999 * * * *", "minute");
    refuse("* * 30 feb *", "no such date");
    refuse("0 0 31 4,6,9,11 *", "no such date");
    refuse("@reboot", "@hourly");
    refuse("* * * * \x01", "five fields");
    refuse("[1]", "not a list");
    refuse("{}", "no field is given");
    refuse("{\"hour\": null}", "no field is given");
    refuse("{\"hour\": 24}", "hour '24' is outside of 0 to 23");
    refuse("{\"hour\": true}", "hour must be");
    refuse("{\"hour\": \"1\\n2\"}", "hour must be");
    refuse("{\"day_of_week\": 7}", "outside of 0 to 6");
    refuse("{\"day\": \"1,\"}", "comma");
    refuse("{\"day\": \"6th mon\"}", "not understood");
    refuse("{\"day\": 30, \"month\": 2}", "no such date");
    refuse("{\"hours\": 3}", "did you mean hour");
    refuse("{\"week\": 3}", "week can only be");
    refuse("{\"timezone\": \"UTC\", \"hour\": 1}", "'timezone' is no field");
}

/* ---- changes of the clock ---- */

/* Central Europe in 2026: an hour forward at 01:00 UTC on 29 March, back on 25 October. */
static struct jumps europe(void)
{
    return (struct jumps){
        3, {0, at("2026-03-29 01:00:00"), at("2026-10-25 01:00:00")}, {HOUR, 2 * HOUR, HOUR}};
}

static void test_the_hour_that_is_missing(void **state)
{
    struct jumps z = europe();
    int64_t gap = at("2026-03-29 01:00:00");

    (void)state;
    /* 02:30 does not exist: once, right after the gap; then at its time again. */
    int64_t t = next_in("30 2 * * *", &z, at("2026-03-28 12:00:00"));
    assert_int_equal(t, gap);
    assert_int_equal(next_in("30 2 * * *", &z, t), at("2026-03-30 00:30:00"));
    /* All twelve of the missing hour are one. */
    t = next_in("*/5 * * * *", &z, gap - 1);
    assert_int_equal(t, gap);
    assert_int_equal(next_in("*/5 * * * *", &z, t), gap + 300);
    assert_int_equal(next_in("30 * * * *", &z, gap - 1), gap);
    assert_int_equal(next_in("30 * * * *", &z, gap), gap + 1800);
    assert_int_equal(next_in("0 3 * * *", &z, gap - 1), gap);
}

static void test_the_hour_that_comes_twice(void **state)
{
    struct jumps z = europe();
    int64_t back = at("2026-10-25 01:00:00"), first = back - 1800;

    (void)state;
    int64_t t = next_in("30 2 * * *", &z, first - 1);
    assert_int_equal(t, first);
    assert_int_equal(next_in("30 2 * * *", &z, t), first + 25 * HOUR);
    assert_int_equal(next_in("30 2 * * *", &z, back + 60), first + 25 * HOUR);
    /* Nothing happens again until the clock shows what it has not shown. */
    assert_int_equal(next_in("*/5 * * * *", &z, back - 300), back + HOUR);
}

/* ---- the oracle ---- */

struct any { /* a field as a set of values, and as text */
    bool has[64];
    bool star;
    char text[80];
};

static void make_any(struct rng *r, int lo, int hi, struct any *out)
{
    char *p = out->text;
    int terms = 1 + (int)rng_below(r, 3);

    *out = (struct any){.star = rng_below(r, 3) == 0};
    if (out->star) {
        int step = rng_below(r, 2) ? 1 : 1 + (int)rng_below(r, (uint64_t)hi);
        snprintf(p, sizeof(out->text), step > 1 ? "*/%d" : "*", step);
        for (int i = lo; i <= hi; i += step)
            out->has[i] = true;
        return;
    }
    for (int k = 0; k < terms; k++) {
        int a = lo + (int)rng_below(r, (uint64_t)(hi - lo + 1));
        int b = a + (int)rng_below(r, (uint64_t)(hi - a + 1)), step = 1;
        bool range = rng_below(r, 2);
        if (range)
            step = 1 + (int)rng_below(r, 4);
        p += snprintf(p, 24, "%s%d", k ? "," : "", a);
        if (range)
            p += snprintf(p, 24, "-%d/%d", b, step);
        for (int i = a; i <= (range ? b : a); i += step)
            out->has[i] = true;
    }
}

struct expr {
    struct any minute, hour, day, month, weekday;
};

static bool fits(const struct expr *x, int64_t local)
{
    time_t s = (time_t)local;
    struct tm tm;

    gmtime_r(&s, &tm);
    bool date = x->day.has[tm.tm_mday],
         week = x->weekday.has[tm.tm_wday] || (tm.tm_wday == 0 && x->weekday.has[7]);
    bool day = x->day.star || x->weekday.star ? date && week : date || week;
    return x->minute.has[tm.tm_min] && x->hour.has[tm.tm_hour] && x->month.has[tm.tm_mon + 1] &&
           day;
}

/* Minute by minute: whatever the clock shows for the first time, or has jumped over. */
static int64_t oracle(const struct expr *x, struct jumps *j, int64_t after, int64_t limit)
{
    int64_t shown = 0;

    for (int64_t t = after - 2 * DAY; t <= after; t += MINUTE) {
        int64_t l = t + jumps_offset(j, t);
        shown = MAX(shown, l);
    }
    for (int64_t t = after + MINUTE; t < limit; t += MINUTE) {
        int64_t now = t + jumps_offset(j, t);
        for (int64_t l = shown + MINUTE; l <= now; l += MINUTE)
            if (fits(x, l))
                return t;
        shown = MAX(shown, now);
    }
    return -1;
}

static void make_zone(struct rng *r, int64_t around, struct jumps *out)
{
    static const int32_t steps[] = {-24 * HOUR, -2 * HOUR, -HOUR,    -1800,
                                    1800,       HOUR,      2 * HOUR, 24 * HOUR};
    int64_t t = around - 3 * DAY;

    *out = (struct jumps){.n = 1 + (int)rng_below(r, 5)};
    out->offset[0] = (int32_t)((int64_t)rng_below(r, 49) - 24) * 1800;
    for (int i = 1; i < out->n; i++) {
        t += (int64_t)(1 + rng_below(r, 60)) * 1800 + 27 * HOUR;
        out->at[i] = t / MINUTE * MINUTE;
        int32_t o = out->offset[i - 1] + steps[rng_below(r, ARRAY_SIZE(steps))];
        out->offset[i] = o > 14 * HOUR ? 14 * HOUR : o < -12 * HOUR ? -12 * HOUR : o;
    }
}

static void test_against_every_minute(void **state)
{
    struct rng r;
    int found = 0;

    (void)state;
    rng_seed(&r, 20261116);
    for (int round = 0; round < 400; round++) {
        struct expr x;
        struct jumps j;
        struct cron c;
        struct err e = {0};
        char text[500];
        make_any(&r, 0, 59, &x.minute);
        make_any(&r, 0, 23, &x.hour);
        make_any(&r, 1, 31, &x.day);
        make_any(&r, 1, 12, &x.month);
        make_any(&r, 0, 7, &x.weekday);
        snprintf(text, sizeof(text), "%s %s %s %s %s", x.minute.text, x.hour.text, x.day.text,
                 x.month.text, x.weekday.text);
        int64_t after = at("2024-01-01 00:00:00") + (int64_t)rng_below(&r, 4 * 365 * 1440) * MINUTE;
        make_zone(&r, after, &j);
        if (cron_parse(str_of(text), &c, &e) < 0)
            continue; /* 31 February; the fields themselves are right */
        const struct cron_zone z = {jumps_offset, &j};
        for (int k = 0; k < 3; k++) {
            int64_t t, limit = after + 40 * DAY, want = oracle(&x, &j, after, limit);
            assert_true(cron_next(&c, &z, after, &t));
            if (want >= 0 ? t != want : t < limit)
                fail_msg("%s after %s: %s, not %s", text, stamp(after), stamp(t),
                         want < 0 ? "that early" : stamp(want));
            found += want >= 0;
            after = t;
        }
    }
    assert_true(found > 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_day_or_weekday),
        cmocka_unit_test(test_named_fields),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_the_hour_that_is_missing),
        cmocka_unit_test(test_the_hour_that_comes_twice),
        cmocka_unit_test(test_against_every_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
