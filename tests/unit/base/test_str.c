/* test_str.c - borrowed text */
#include "base/str.h"
#include "base/util.h"
#include "unit.h"
#include <math.h>

TEST(compares)
{
    assert_true(str_eq(STR("abc"), STR("abc")));
    assert_false(str_eq(STR("abc"), STR("abd")));
    assert_false(str_eq(STR("abc"), STR("ab")));
    assert_true(str_eq((struct str){NULL, 0}, STR("")));
    assert_true(str_eq_c(STR("x"), "x"));
    assert_true(str_starts(STR("job-1"), STR("job")));
    assert_false(str_starts(STR("jo"), STR("job")));
    assert_true(str_starts(STR(""), STR("")));
}

TEST(trims_and_cuts)
{
    struct str rest;

    assert_true(str_eq(str_trim(STR(" \t a b\r\n")), STR("a b")));
    assert_true(str_eq(str_trim(STR("   ")), STR("")));
    assert_true(str_eq(str_cut(STR("a=b=c"), '=', &rest), STR("a")));
    assert_true(str_eq(rest, STR("b=c")));
    assert_true(str_eq(str_cut(STR("abc"), '=', &rest), STR("abc")));
    assert_int_equal(rest.n, 0);
    assert_true(str_eq(str_cut(STR("=x"), '=', &rest), STR("")));
    assert_true(str_eq(rest, STR("x")));
    str_cut((struct str){NULL, 0}, '=', &rest);
    assert_non_null(rest.p);
}

TEST(whole_numbers)
{
    int64_t v = 5;

    assert_true(str_to_i64(STR("0"), &v) && v == 0);
    assert_true(str_to_i64(STR("-17"), &v) && v == -17);
    assert_true(str_to_i64(STR("+17"), &v) && v == 17);
    assert_true(str_to_i64(STR("9223372036854775807"), &v) && v == INT64_MAX);
    assert_true(str_to_i64(STR("-9223372036854775808"), &v) && v == INT64_MIN);
    v = 5;
    static const char *const bad[] = {"",
                                      "-",
                                      "+",
                                      " 1",
                                      "1 ",
                                      "1a",
                                      "0x10",
                                      "1.0",
                                      "--1",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(str_to_i64(str_of(bad[i]), &v));
    assert_int_equal(v, 5);
}

TEST(reals)
{
    double d = 5;

    assert_true(str_to_double(STR("0.5"), &d) && d == 0.5);
    assert_true(str_to_double(STR("-1e-4"), &d) && d == -1e-4);
    assert_true(str_to_double(STR(".5"), &d) && d == 0.5);
    assert_true(str_to_double(STR("5."), &d) && d == 5);
    assert_true(str_to_double(STR("1e-400"), &d) && d == 0);
    d = 5;
    static const char *const bad[] = {"",   ".",   "-",  "inf", "nan",   "0x1p3", " 1",
                                      "1 ", "1,5", "1e", "1e+", "1e999", "e5",    "1_000"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(str_to_double(str_of(bad[i]), &d));
    assert_true(d == 5);
}

TEST(utf8)
{
    uint32_t cp;

    assert_int_equal(utf8_decode(STR("a"), &cp), 1);
    assert_int_equal(cp, 'a');
    assert_int_equal(utf8_decode(STR("\xC3\xA9"), &cp), 2);
    assert_int_equal(cp, 0xE9);
    assert_int_equal(utf8_decode(STR("\xE2\x82\xAC!"), &cp), 3);
    assert_int_equal(cp, 0x20AC);
    assert_int_equal(utf8_decode(STR("\xF0\x9F\x98\x80"), &cp), 4);
    assert_int_equal(cp, 0x1F600);
    assert_int_equal(utf8_decode(STR(""), &cp), 0);
    static const char *const bad[] = {"\x80",
                                      "\xC0\x80",
                                      "\xC1\xBF",
                                      "\xC3",
                                      "\xE0\x80\x80",
                                      "\xED\xA0\x80",
                                      "\xF0\x80\x80\x80",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xFF",
                                      "\xE2\x82",
                                      "\xE2\x28\xA1"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(utf8_decode(str_of(bad[i]), &cp), 0);
        assert_false(str_is_utf8(str_of(bad[i])));
    }
    assert_true(str_is_utf8(STR("gr\xC3\xBC\xC3\x9F")));
    assert_true(str_is_utf8(STR("")));
}

TEST(suggests_the_nearest_word)
{
    static const char *const keys[] = {"command", "params", "priority", "retries",
                                       "timeout", "name",   "queue"};
#define NEAREST(word) str_nearest(word, keys, ARRAY_SIZE(keys))
    assert_string_equal(NEAREST("comand"), "command");
    assert_string_equal(NEAREST("comamnd"), "command");
    assert_string_equal(NEAREST("param"), "params");
    assert_string_equal(NEAREST("Priority"), "priority");
    assert_string_equal(NEAREST("tiemout"), "timeout");
    assert_string_equal(NEAREST("nmae"), "name");
    assert_null(NEAREST("gpu"));
    assert_null(NEAREST("zebra"));
    assert_null(NEAREST(""));
    assert_null(NEAREST("x"));
    assert_null(NEAREST(NULL));
    assert_null(str_nearest("word", NULL, 0));
#undef NEAREST
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compares),      cmocka_unit_test(trims_and_cuts),
        cmocka_unit_test(whole_numbers), cmocka_unit_test(reals),
        cmocka_unit_test(utf8),          cmocka_unit_test(suggests_the_nearest_word),
    };
    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
