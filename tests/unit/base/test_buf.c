/* test_buf.c - growable bytes with a maximum */
#include "base/buf.h"
#include "base/util.h"
#include "unit.h"
#include <string.h>

TEST(appends_and_terminates)
{
    AUTO(buf) struct buf b;

    buf_init(&b, 100);
    assert_true(buf_adds(&b, "ab"));
    assert_true(buf_addc(&b, 'c'));
    assert_true(buf_addf(&b, "-%d", 42));
    assert_string_equal(b.p, "abc-42");
    assert_int_equal(buf_str(&b).n, 6);
    buf_consume(&b, 3);
    assert_string_equal(b.p, "-42");
    buf_reset(&b);
    assert_string_equal(b.p, "");
}

TEST(overflow_sticks_and_adds_nothing)
{
    AUTO(buf) struct buf b;

    buf_init(&b, 5);
    assert_true(buf_adds(&b, "12345"));
    assert_false(buf_addc(&b, '6'));
    assert_true(b.overflow);
    assert_string_equal(b.p, "12345");
    buf_consume(&b, 3);
    assert_false(buf_addc(&b, '6'));
    buf_reset(&b);
    assert_true(buf_adds(&b, "abcde"));
    assert_false(buf_addf(&b, "%s", "f"));
    assert_string_equal(b.p, "abcde");
}

TEST(zeroed_means_no_limit)
{
    AUTO(buf) struct buf b = {0};
    char chunk[1000];

    memset(chunk, 'x', sizeof(chunk));
    for (int i = 0; i < 1000; i++)
        assert_true(buf_add(&b, chunk, sizeof(chunk)));
    assert_int_equal(b.n, 1000000);
    assert_int_equal(strlen(b.p), 1000000);
}

TEST(long_formats)
{
    AUTO(buf) struct buf b;
    char word[2000];

    memset(word, 'y', sizeof(word));
    word[sizeof(word) - 1] = '\0';
    buf_init(&b, 2100);
    assert_true(buf_addf(&b, "<%s>", word));
    assert_int_equal(b.n, 2001);
    assert_int_equal(b.p[2000], '>');
    assert_false(buf_addf(&b, "<%s>", word));
    assert_int_equal(b.n, 2001);
}

TEST(take_hands_over)
{
    struct buf b;
    size_t n = 9;

    buf_init(&b, 10);
    AUTO_FREE char *empty = buf_take(&b, &n);
    assert_string_equal(empty, "");
    assert_int_equal(n, 0);
    buf_adds(&b, "x");
    AUTO_FREE char *x = buf_take(&b, NULL);
    assert_string_equal(x, "x");
    assert_int_equal(b.max, 10);
    assert_null(b.p);
    buf_done(&b);
}

TEST(reserve_then_use)
{
    AUTO(buf) struct buf b;

    buf_init(&b, 8);
    char *to = buf_reserve(&b, 8);
    memcpy(to, "12345678", 8);
    b.n += 8;
    assert_int_equal(b.n, 8);
    assert_null(buf_reserve(&b, 1));
    assert_true(b.overflow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_and_terminates),
        cmocka_unit_test(overflow_sticks_and_adds_nothing),
        cmocka_unit_test(zeroed_means_no_limit),
        cmocka_unit_test(long_formats),
        cmocka_unit_test(take_hands_over),
        cmocka_unit_test(reserve_then_use),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
