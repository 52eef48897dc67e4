/* test_buf.c - growable bytes with a maximum */
#include "base/buf.h"
#include "base/util.h"
#include "unit.h"
#include <math.h>
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

static void check_json_str(struct str in, const char *out)
{
    AUTO(buf) struct buf b = {0};

    assert_true(buf_add_json_str(&b, in));
    assert_string_equal(b.p, out);
}

TEST(json_strings)
{
    check_json_str(STR(""), "\"\"");
    check_json_str((struct str){NULL, 0}, "\"\"");
    check_json_str(STR("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"");
    check_json_str(STR("\b\t\n\f\r"), "\"\\b\\t\\n\\f\\r\"");
    check_json_str(STR("\x01\x1f\x7f"), "\"\\u0001\\u001f\x7f\"");
    check_json_str((struct str){"a\0b", 3}, "\"a\\u0000b\"");
    check_json_str(STR("gr\xC3\xBC\xC3\x9F"), "\"gr\xC3\xBC\xC3\x9F\"");
    check_json_str(STR("a\xFFz"), "\"a\xEF\xBF\xBDz\"");
    check_json_str(STR("\xE2\x82"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(json_strings_fit_whole_or_not_at_all)
{
    AUTO(buf) struct buf b;

    buf_init(&b, 8);
    buf_adds(&b, "12");
    assert_false(buf_add_json_str(&b, STR("hello")));
    assert_string_equal(b.p, "12");
    buf_reset(&b);
    assert_true(buf_add_json_str(&b, STR("hello!")));
}

static void check_double(double d, const char *out)
{
    AUTO(buf) struct buf b = {0};

    assert_true(buf_add_json_double(&b, d));
    assert_string_equal(b.p, out);
}

TEST(json_doubles_are_shortest)
{
    check_double(0.1, "0.1");
    check_double(1.0 / 3, "0.3333333333333333");
    check_double(0.1 + 0.2, "0.30000000000000004");
    check_double(1, "1.0");
    check_double(-0.0, "-0.0");
    check_double(1e300, "1e+300");
    check_double(5e-324, "4.94065645841247e-324");
    check_double(NAN, "null");
    check_double(-INFINITY, "null");
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
        cmocka_unit_test(json_strings),
        cmocka_unit_test(json_strings_fit_whole_or_not_at_all),
        cmocka_unit_test(json_doubles_are_shortest),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
