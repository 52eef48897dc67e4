/* test_tz.c - time zones: rules of POSIX, files of the tz database compared with the C library */
#include "base/file.h"
#include "base/rand.h"
#include "base/tz.h"
#include "base/util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct tz *load(const char *name)
{
    struct tz *t = NULL;
    struct err e = {0};

    if (tz_load(name, &t, &e) < 0)
        fail_msg("%s", e.text);
    return t;
}

/* The same offsets as the C library's, every seventeen hours of 45 years. */
static void same_as_the_library(const char *name)
{
    struct tz *t = load(name);

    setenv("TZ", name, 1);
    tzset();
    for (int64_t s = 0; s < INT64_C(45) * 365 * 86400; s += 17 * 3600 - 1) {
        time_t at = (time_t)(INT64_C(700000000) + s);
        struct tm tm;
        assert_non_null(localtime_r(&at, &tm));
        if (tz_offset(t, at) != tm.tm_gmtoff)
            fail_msg("%s at %lld: %d, not %ld", name, (long long)at, tz_offset(t, at),
                     tm.tm_gmtoff);
    }
    tz_free(t);
}

static void test_rules(void **state)
{
    static const char *const rules[] = {"UTC0",
                                        "CET-1CEST,M3.5.0,M10.5.0/3",
                                        "EST5EDT,M3.2.0,M11.1.0",
                                        "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1",
                                        "AEST-10AEDT,M10.1.0,M4.1.0/3",
                                        "NZST-12NZDT,M9.5.0,M4.1.0/3",
                                        "XXX3:30YYY2:15:10,J60,300/1:30",
                                        "<+0545>-5:45"};
    static const char *const bad[] = {"",
                                      "Nowhere/City",
                                      "AB1",
                                      "CEX",
                                      "CET-1CEST",
                                      "CET-1CEST,M3.",
                                      "../../etc/passwd",
                                      "/etc/passwd",
                                      "CET-1CEST,M13.5.0,M10.5.0",
                                      "CET-1CEST,M3.5.0,M10.5.0x",
                                      "<CET-1"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
        same_as_the_library(rules[i]);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct tz *t = NULL;
        struct err e = {0};
        if (tz_load(bad[i], &t, &e) == 0)
            fail_msg("'%s' is a zone", bad[i]);
        assert_int_equal(e.code, ERR_INVALID);
    }
}

static void test_files(void **state)
{
    static const char *const names[] = {
        "Europe/Paris",      "America/New_York", "Asia/Kathmandu",      "America/Sao_Paulo",
        "Africa/Casablanca", "Asia/Gaza",        "Australia/Lord_Howe", "Europe/Dublin"};

    (void)state;
    if (access("/usr/share/zoneinfo/Europe/Paris", R_OK) < 0) {
        print_message("tzdata is not installed: no files to compare\n");
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        same_as_the_library(names[i]);
}

/* Damaged files are refused or read, and never read beyond their end. */
static void test_damaged_files(void **state)
{
    char dir[] = "/tmp/berth-tz-XXXXXX";
    AUTO_FREE char *bytes = NULL;
    struct err e = {0};
    struct rng rng;
    size_t n;

    (void)state;
    if (file_read_all("/usr/share/zoneinfo/Europe/Paris", 1 << 20, &bytes, &n, &e) < 0)
        return;
    assert_non_null(mkdtemp(dir));
    setenv("TZDIR", dir, 1);
    AUTO_FREE char *path = path_join(dir, "Broken");
    rng_seed(&rng, 3);
    for (int i = 0; i < 300; i++) {
        AUTO_FREE char *copy = xmalloc(n);
        struct tz *t = NULL;
        size_t kept = i % 2 ? n : rng_below(&rng, n);
        memcpy(copy, bytes, n);
        for (int k = 0; k < 4; k++)
            copy[rng_below(&rng, k < 2 ? 100 : n)] ^= (char)(1 << rng_below(&rng, 8));
        assert_int_equal(file_write_atomic(path, copy, kept, 0600, &e), 0);
        if (tz_load("Broken", &t, &e) == 0)
            tz_offset(t, 1800000000);
        tz_free(t);
    }
    unsetenv("TZDIR");
    dir_remove_tree(dir, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_damaged_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
