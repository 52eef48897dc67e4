/* test_units.c - durations, sizes and CPU counts */
#include "base/units.h"
#include "base/util.h"
#include "unit.h"
#include <string.h>

struct good {
    const char *text;
    int64_t want;
};

typedef int parse_fn(struct str s, int64_t *out, struct err *e);

static void check_good(parse_fn *parse, const struct good *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t got = -1;
        struct err e = {0};
        assert_int_equal(parse(str_of(cases[i].text), &got, &e), 0);
        assert_int_equal(got, cases[i].want);
    }
}

static void check_bad(parse_fn *parse, const char *const *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t got = 7;
        struct err e = {0};
        assert_int_equal(parse(str_of(cases[i]), &got, &e), -1);
        assert_int_equal(e.code, ERR_INVALID);
        assert_non_null(strstr(e.text, "\""));
        assert_int_equal(got, 7);
    }
}

TEST(durations)
{
    static const struct good good[] = {
        {"90", 90000},      {"90s", 90000},
        {"2h", 7200000},    {"1h30m", 5400000},
        {"500ms", 500},     {"1d", 86400000},
        {"1.5h", 5400000},  {"0", 0},
        {"0.1s", 100},      {"2min", 120000},
        {"1w", 604800000},  {"1d12h", 129600000},
        {"1m500ms", 60500}, {"0.0004s", 0},
        {"1h0m", 3600000},  {"106751991167d", 9223372036828800000},
    };
    static const char *const bad[] = {"",
                                      "s",
                                      "-1s",
                                      "1x",
                                      "1h 30m",
                                      "1h30",
                                      "abc",
                                      "1..5s",
                                      ".",
                                      "1s2",
                                      "2 ",
                                      "+1s",
                                      "1e3s",
                                      "106751991168d",
                                      "9223372036854775808s",
                                      "99999999999999999999"};

    check_good(duration_parse, good, ARRAY_SIZE(good));
    check_bad(duration_parse, bad, ARRAY_SIZE(bad));
}

TEST(sizes)
{
    static const struct good good[] = {
        {"4096", 4096},      {"4G", 4LL << 30}, {"512M", 512LL << 20}, {"1Gi", 1LL << 30},
        {"1.5G", 3LL << 29}, {"1k", 1024},      {"2TiB", 2LL << 40},   {"10KB", 10240},
        {"7B", 7},           {"0", 0},          {"0.1G", 107374182},   {"8191P", 8191LL << 50},
    };
    static const char *const bad[] = {"",    "G",  "-1G", "4X",  "4 G",   "4Gx",
                                      "4ii", "4i", "4GG", "1e9", "8192P", "99999999999999999999"};

    check_good(size_parse, good, ARRAY_SIZE(good));
    check_bad(size_parse, bad, ARRAY_SIZE(bad));
}

TEST(cpus)
{
    static const struct good good[] = {{"2", 2000}, {"0.5", 500},  {"500m", 500},
                                       {"0", 0},    {"64", 64000}, {"1.2345", 1234}};
    static const char *const bad[] = {"", "m", "-1", "2x", "2 ", "half", "99999999999999999999"};

    check_good(cpus_parse, good, ARRAY_SIZE(good));
    check_bad(cpus_parse, bad, ARRAY_SIZE(bad));
}

static void check_duration(int64_t ms, const char *want)
{
    char out[UNIT_TEXT_MAX];

    duration_format(ms, out);
    assert_string_equal(out, want);
}

TEST(durations_as_text)
{
    check_duration(0, "0s");
    check_duration(350, "350ms");
    check_duration(1000, "1s");
    check_duration(2500, "2.5s");
    check_duration(59999, "59.9s");
    check_duration(60000, "1m");
    check_duration(90000, "1m30s");
    check_duration(5400000, "1h30m");
    check_duration(7200000, "2h");
    check_duration(187200000, "2d4h");
    check_duration(-2500, "-2.5s");
    check_duration(INT64_MAX, "106751991167d7h");
    check_duration(INT64_MIN, "-106751991167d7h");
}

static void check_size(int64_t bytes, const char *want)
{
    char out[UNIT_TEXT_MAX];

    size_format(bytes, out);
    assert_string_equal(out, want);
}

TEST(sizes_as_text)
{
    check_size(0, "0B");
    check_size(1023, "1023B");
    check_size(1024, "1.0K");
    check_size(17 * 1024, "17K");
    check_size(4LL << 30, "4.0G");
    check_size(512LL << 20, "512M");
    check_size((1LL << 20) - 1, "1.0M");
    check_size(10239, "10K");
    check_size(10 * 1024 - 60, "9.9K");
    check_size(-2048, "-2.0K");
    check_size(INT64_MAX, "8192P");
    check_size(INT64_MIN, "-8192P");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations),     cmocka_unit_test(sizes),
        cmocka_unit_test(cpus),          cmocka_unit_test(durations_as_text),
        cmocka_unit_test(sizes_as_text),
    };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
