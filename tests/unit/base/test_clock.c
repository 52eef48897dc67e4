/* test_clock.c - clocks and times as text */
#include "base/clock.h"
#include "base/util.h"
#include "unit.h"

static void check_format(int64_t ms, const char *want)
{
    char text[TIME_TEXT_MAX];

    time_format_utc(ms, text);
    assert_string_equal(text, want);
}

static void check_parse(const char *text, int64_t want)
{
    int64_t got = -12345;

    assert_true(time_parse_utc(str_of(text), &got));
    assert_int_equal(got, want);
}

TEST(formats)
{
    check_format(0, "1970-01-01T00:00:00.000Z");
    check_format(-1, "1969-12-31T23:59:59.999Z");
    check_format(1794775582123, "2026-11-15T20:46:22.123Z");
    check_format(951782400000, "2000-02-29T00:00:00.000Z");
    check_format(4107542400000, "2100-03-01T00:00:00.000Z");
    check_format(253402300799999, "9999-12-31T23:59:59.999Z");
    check_format(INT64_MAX, "292278994-08-17T07:12:55.807Z");
    check_format(INT64_MIN, "-292275055-05-16T16:47:04.192Z");
}

TEST(parses_rfc_3339)
{
    check_parse("1970-01-01T00:00:00Z", 0);
    check_parse("2026-11-15T20:46:22.123Z", 1794775582123);
    check_parse("2026-11-15t20:46:22.123999z", 1794775582123);
    check_parse("2026-11-15 21:46:22.123+01:00", 1794775582123);
    check_parse("2026-11-15T15:16:22.123-05:30", 1794775582123);
    check_parse("2000-02-29T00:00:00Z", 951782400000);
    check_parse("2016-12-31T23:59:60Z", 1483228800000);
    check_parse("1970-01-01T00:00:00.5Z", 500);
}

TEST(refuses_what_is_not_a_time)
{
    static const char *const bad[] = {
        "",
        "2026-11-15",
        "2026-11-15T20:46:22",
        "2026-11-15T20:46Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T20:60:00Z",
        "2026-11-15T20:46:61Z",
        "2026-11-15T20:46:22.Z",
        "2026-11-15T20:46:22Zx",
        "2026-11-15T20:46:22+0100",
        "2026-11-15T20:46:22+24:00",
        "26-11-15T20:46:22Z",
        " 2026-11-15T20:46:22Z",
    };
    int64_t ms = 7;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(time_parse_utc(str_of(bad[i]), &ms));
    assert_int_equal(ms, 7);
}

TEST(round_trips_over_four_centuries)
{
    char text[TIME_TEXT_MAX];

    for (int64_t ms = -3000000000123; ms < 9700000000000; ms += 86400000LL * 13 + 3601001) {
        int64_t back;
        time_format_utc(ms, text);
        assert_true(time_parse_utc(str_of(text), &back));
        assert_int_equal(back, ms);
    }
}

TEST(system_clock_moves_on)
{
    int64_t a = clock_mono(&clock_system);
    int64_t b = clock_mono(&clock_system);

    assert_true(b >= a);
    assert_true(clock_wall(&clock_system) > 1500000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats),
        cmocka_unit_test(parses_rfc_3339),
        cmocka_unit_test(refuses_what_is_not_a_time),
        cmocka_unit_test(round_trips_over_four_centuries),
        cmocka_unit_test(system_clock_moves_on),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
