/* test_json_out.c - commas, keys and escapes of JSON that is written piece by piece */
#include "base/json.h"
#include "base/json_out.h"
#include "base/util.h"
#include "unit.h"
#include <math.h>

static void check_json_str(struct str in, const char *out)
{
    AUTO(buf) struct buf b = {0};

    assert_true(jw_add_str(&b, in, false));
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
    assert_false(jw_add_str(&b, STR("hello"), false));
    assert_string_equal(b.p, "12");
    buf_reset(&b);
    assert_true(jw_add_str(&b, STR("hello!"), false));
}

static void check_double(double d, const char *out)
{
    AUTO(buf) struct buf b = {0};

    jw_double(&b, NULL, d);
    assert_string_equal(b.p, out);
}

TEST(json_doubles_are_shortest)
{
    check_double(0.1, "0.1");
    check_double(1.0 / 3, "0.3333333333333333");
    check_double(0.1 + 0.2, "0.30000000000000004");
    check_double(1, "1.0");
    check_double(-0.0, "-0.0");
    check_double(0.0, "0.0");
    check_double(2.5e-5, "2.5e-05");
    check_double(0.0001, "0.0001");
    check_double(1e15, "1000000000000000.0");
    check_double(1e16, "1e+16");
    check_double(1e300, "1e+300");
    check_double(5e-324, "5e-324");
    check_double(NAN, "null");
    check_double(-INFINITY, "null");
}

TEST(commas_stand_between_values_only)
{
    AUTO(buf) struct buf b = {0};

    jw_object(&b, NULL);
    jw_array(&b, "none");
    jw_end_array(&b);
    jw_array(&b, "all");
    jw_int(&b, NULL, INT64_MIN);
    jw_bool(&b, NULL, true);
    jw_null(&b, NULL);
    jw_str(&b, NULL, STR("{"));
    jw_object(&b, NULL);
    jw_end_object(&b);
    jw_object(&b, NULL);
    jw_double(&b, "x", NAN);
    jw_int_or_null(&b, "y", 7, false);
    jw_int_or_null(&b, "z", 7, true);
    jw_end_object(&b);
    jw_end_array(&b);
    jw_key(&b, STR("a \"key\""));
    jw_text(&b, NULL, NULL);
    jw_str_or_null(&b, "empty", STR(""));
    jw_members(&b, STR(""));
    jw_members(&b, STR("\"m\":1,\"n\":[2]"));
    jw_time(&b, "never", 0);
    jw_raw(&b, "raw", STR("{\"r\":1}"));
    jw_end_object(&b);
    assert_string_equal(
        b.p, "{\"none\":[],\"all\":[-9223372036854775808,true,null,\"{\",{},{\"x\":null,"
             "\"y\":null,\"z\":7}],\"a \\\"key\\\"\":\"\",\"empty\":null,\"m\":1,\"n\":[2],"
             "\"never\":null,\"raw\":{\"r\":1}}");
}

/* A second text begins behind a line break, and members can be collected without braces. */
TEST(texts_follow_each_other)
{
    AUTO(buf) struct buf b = {0};
    struct json *j = json_new_array();

    jw_int(&b, "a", 1);
    jw_int(&b, "b", 2);
    assert_string_equal(b.p, "\"a\":1,\"b\":2");
    buf_adds(&b, "\n");
    jw_json(&b, NULL, j);
    assert_string_equal(b.p, "\"a\":1,\"b\":2\n[]");
    json_free(j);
}

TEST(overflow_sticks)
{
    AUTO(buf) struct buf b;

    buf_init(&b, 8);
    jw_object(&b, NULL);
    jw_int(&b, "a_long_key", 1);
    assert_false(jw_end_object(&b));
    assert_true(b.overflow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_strings),
        cmocka_unit_test(json_strings_fit_whole_or_not_at_all),
        cmocka_unit_test(json_doubles_are_shortest),
        cmocka_unit_test(commas_stand_between_values_only),
        cmocka_unit_test(texts_follow_each_other),
        cmocka_unit_test(overflow_sticks),
    };
    return cmocka_run_group_tests_name("json_out", tests, NULL, NULL);
}
