/* test_retain_clock.c - which readings of the clock are believed */
#include "model/retain_clock.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define DAY INT64_C(86400000)
#define HOUR INT64_C(3600000)

static struct clock_reading at(int64_t wall, int64_t up, const char *boot)
{
    struct clock_reading r = {.wall_ms = 1800000000000 + wall, .up_ms = up};

    strncpy(r.boot, boot, sizeof(r.boot) - 1);
    return r;
}

static bool look(struct retain_clock *k, int64_t wall, int64_t up, const char *boot)
{
    struct clock_reading r = at(wall, up, boot);
    struct buf text;

    /* Whatever is known survives a restart of the daemon. */
    buf_init(&text, 512);
    if (k->known) {
        retain_clock_format(k, &text);
        retain_clock_parse(buf_str(&text), k);
    }
    buf_done(&text);
    return retain_clock_look(k, &r);
}

static void test_time_that_passes_is_believed(void **state)
{
    struct retain_clock k = {0};
    (void)state;

    assert_true(look(&k, 0, HOUR, "a"));
    assert_true(look(&k, HOUR, 2 * HOUR, "a"));
    /* The daemon was down for 90 days; the machine was not. */
    assert_true(look(&k, 90 * DAY, 90 * DAY + HOUR, "a"));
    /* The machine was off over night. */
    assert_true(look(&k, 90 * DAY + 16 * HOUR, 60000, "b"));
}

static void test_a_jump_is_not_believed(void **state)
{
    struct retain_clock k = {0};
    (void)state;

    assert_true(look(&k, 0, HOUR, "a"));
    assert_false(look(&k, 60 * DAY, HOUR + 1000, "a"));
    assert_false(look(&k, 60 * DAY + HOUR, 2 * HOUR, "a"));
    /* Set right again: nothing was removed, and nothing is doubted any more. */
    assert_true(look(&k, 2 * HOUR, 3 * HOUR, "a"));
    assert_true(look(&k, 3 * HOUR, 4 * HOUR, "a"));
    /* One start of the machine with a wrong clock, and an unknown start before. */
    assert_false(look(&k, 60 * DAY, 60000, "b"));
    k = (struct retain_clock){.known = true, .believed = at(0, 0, "")};
    assert_false(look(&k, 60 * DAY, 100 * DAY, "b"));
}

static void test_a_steady_clock_is_believed_after_a_day(void **state)
{
    struct retain_clock k = {0};
    bool believed = false;
    int hours = 0;
    (void)state;

    assert_true(look(&k, 0, HOUR, "a"));
    for (; !believed && hours < 100; hours++) /* off for 60 days, then on */
        believed = look(&k, 60 * DAY + hours * HOUR, (hours + 1) * HOUR, "b");
    assert_int_equal(hours, 25);
    /* A clock that jumps again begins anew. */
    assert_false(look(&k, 200 * DAY, 26 * HOUR, "b"));
    assert_false(look(&k, 200 * DAY + 23 * HOUR, 49 * HOUR, "b"));
    assert_false(look(&k, 300 * DAY, 50 * HOUR, "b"));
    assert_false(look(&k, 300 * DAY + 2 * HOUR, 52 * HOUR, "b"));
}

static void test_a_clock_set_back_is_believed(void **state)
{
    struct retain_clock k = {0};
    (void)state;

    assert_true(look(&k, 0, HOUR, "a"));
    assert_true(look(&k, -500 * DAY, 2 * HOUR, "a"));
    assert_false(look(&k, HOUR, 3 * HOUR, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time_that_passes_is_believed),
        cmocka_unit_test(test_a_jump_is_not_believed),
        cmocka_unit_test(test_a_steady_clock_is_believed_after_a_day),
        cmocka_unit_test(test_a_clock_set_back_is_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
