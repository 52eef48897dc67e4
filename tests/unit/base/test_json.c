/* test_json.c - the value tree and its strict reader */
#include "base/json.h"
#include "base/util.h"
#include "unit.h"
#include <stdio.h>
#include <string.h>

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};

    if (json_parse(str_of(text), "t.json", &j, &e) < 0)
        fail_msg("%s", e.text);
    return j;
}

static void check_text(const char *in, const char *out)
{
    struct json *j = parse(in);
    AUTO_FREE char *text = json_text(j);

    assert_string_equal(text, out);
    json_free(j);
}

TEST(round_trips)
{
    check_text("null", "null");
    check_text(" true ", "true");
    check_text("-0", "0");
    check_text("[ ]", "[]");
    check_text("{}", "{}");
    check_text("{\"b\":1,\"a\":[1,2.50,\"x\"],\"c\":null}",
               "{\"b\":1,\"a\":[1,2.50,\"x\"],\"c\":null}");
    check_text("\"\\u00e9\\ud83d\\ude00\\/\\n\\u0000\"", "\"\xC3\xA9\xF0\x9F\x98\x80/\\n\\u0000\"");
    check_text("[\"\xE2\x82\xAC\"]", "[\"\xE2\x82\xAC\"]");
}

TEST(numbers_keep_what_was_written)
{
    check_text("0.1", "0.1");
    check_text("1e5", "1e5");
    check_text("1.000", "1.000");
    check_text("-1E-07", "-1E-07");
    check_text("9223372036854775807", "9223372036854775807");
    check_text("-9223372036854775808", "-9223372036854775808");
    check_text("9223372036854775808", "9223372036854775808");
    struct json *j = parse("9223372036854775808");
    assert_int_equal(json_type(j), JSON_REAL);
    assert_true(json_real(j) == 0x1p63);
    json_free(j);
}

TEST(getters)
{
    struct json *j = parse("{\"i\":7,\"r\":2.5,\"s\":\"text\",\"t\":true,\"n\":null,\"a\":[1,2],"
                           "\"o\":{\"x\":1}}");

    assert_int_equal(json_type(j), JSON_OBJECT);
    assert_int_equal(json_len(j), 7);
    assert_int_equal(json_int(json_get(j, "i")), 7);
    assert_true(json_real(json_get(j, "i")) == 7.0);
    assert_true(json_real(json_get(j, "r")) == 2.5);
    assert_int_equal(json_int(json_get(j, "r")), 2);
    assert_true(str_eq_c(json_str(json_get(j, "s")), "text"));
    assert_true(json_bool(json_get(j, "t")));
    assert_null(json_get(j, "n"));
    assert_true(json_has(j, "n"));
    assert_false(json_has(j, "z"));
    assert_int_equal(json_len(json_get(j, "a")), 2);
    assert_int_equal(json_int(json_at(json_get(j, "a"), 1)), 2);
    assert_null(json_at(json_get(j, "a"), 2));
    json_free(j);
}

TEST(getters_of_the_wrong_type_are_harmless)
{
    struct json *s = json_new_str(STR("12")), *i = json_new_int(3);

    assert_int_equal(json_int(s), 0);
    assert_true(json_real(s) == 0);
    assert_false(json_bool(i));
    assert_int_equal(json_str(i).n, 0);
    assert_non_null(json_str(i).p);
    assert_int_equal(json_len(i), 0);
    assert_null(json_at(i, 0));
    assert_null(json_get(i, "x"));
    assert_false(json_has(NULL, "x"));
    assert_int_equal(json_type(NULL), JSON_NULL);
    struct json_it it = {0};
    assert_false(json_next(s, &it));
    json_free(s);
    json_free(i);
    json_free(NULL);
}

TEST(iterates_in_order)
{
    struct json *j = parse("{\"z\":1,\"y\":null,\"x\":3}");
    char keys[8] = "";
    size_t n = 0;

    for (struct json_it it = {0}; json_next(j, &it);) {
        assert_int_equal(it.val == NULL, it.key[0] == 'y');
        keys[n++] = it.key[0];
    }
    assert_string_equal(keys, "zyx");
    json_free(j);
}

TEST(builds)
{
    struct json *j = json_new_object(), *a = json_new_array();
    AUTO(buf) struct buf b = {0};

    json_set_str(j, "name", "x");
    json_set_int(j, "n", -1);
    json_set_str(j, "none", NULL);
    json_push_take(a, json_new_bool(true));
    json_push_take(a, NULL);
    json_push_take(a, json_new_real(0.1));
    json_set_take(j, "list", a);
    json_set_take(j, "name", json_new_str(STR("y")));
    json_set_int(j, "gone", 1);
    json_del(j, "gone");
    assert_true(json_write(&b, j, JSON_COMPACT));
    assert_string_equal(b.p, "{\"name\":\"y\",\"n\":-1,\"none\":null,\"list\":[true,null,0.1]}");
    buf_reset(&b);
    assert_true(json_write(&b, j, JSON_PRETTY));
    assert_string_equal(b.p,
                        "{\n  \"name\": \"y\",\n  \"n\": -1,\n  \"none\": null,\n  \"list\": [\n"
                        "    true,\n    null,\n    0.1\n  ]\n}");
    json_free(j);
}

TEST(write_reports_overflow)
{
    struct json *j = parse("[1,2,3]");
    AUTO(buf) struct buf b;

    buf_init(&b, 4);
    assert_false(json_write(&b, j, JSON_COMPACT));
    json_free(j);
}

TEST(copies_are_equal_and_independent)
{
    struct json *a = parse("{\"s\":\"a\\u0000b\",\"r\":0.10,\"o\":{\"l\":[1,null,false]}}");
    struct json *b = json_copy(a);
    AUTO_FREE char *ta = json_text(a), *tb = json_text(b);

    assert_string_equal(ta, tb);
    assert_true(json_equal(a, b));
    json_set_int(b, "new", 1);
    assert_false(json_equal(a, b));
    assert_false(json_has(a, "new"));
    json_free(a);
    json_free(b);
    assert_null(json_copy(NULL));
}

TEST(equality)
{
    static const struct {
        const char *a, *b;
        bool equal;
    } cases[] = {
        {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true},
        {"[1,2]", "[2,1]", false},
        {"0.1", "0.10", true},
        {"1", "1.0", false},
        {"null", "null", true},
        {"null", "false", false},
        {"{\"a\":null}", "{\"b\":null}", false},
        {"\"a\\u0000b\"", "\"a\\u0000c\"", false},
        {"[1]", "[1,1]", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct json *a = parse(cases[i].a), *b = parse(cases[i].b);
        assert_int_equal(json_equal(a, b), cases[i].equal);
        json_free(a);
        json_free(b);
    }
}

static void check_refused(struct str text, const char *want)
{
    struct json *j = (struct json *)&j;
    struct err e = {0};

    if (json_parse(text, "t.json", &j, &e) == 0)
        fail_msg("accepted: %.*s", (int)text.n, text.p);
    assert_ptr_equal(j, &j);
    if (!strstr(e.text, want))
        fail_msg("\"%s\" does not say \"%s\"", e.text, want);
}

TEST(refuses_with_place_and_reason)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "t.json:1:1: the text ends where a value is expected"},
        {"  \n ", "t.json:2:2: the text ends"},
        {"{\"a\":1,\n \"b\":}", "t.json:2:6: found '}' where a value"},
        {"{\"\xC3\xA9\": x}", "t.json:1:7: found 'x'"},
        {"[1,]", "1:4: found ']' where a value"},
        {"[1 2]", "1:4: found '2' where a comma or ]"},
        {"{\"a\" 1}", "1:6: found '1' where a colon"},
        {"{a:1}", "1:2: found 'a' where a key in double quotes"},
        {"{\"a\":1,}", "1:8: found '}' where a key"},
        {"{'a':1}", "1:2: found '''"},
        {"{\"a\":1,\"a\":2}", "1:8: key \"a\" is given twice"},
        {"{\"a\":1,\"\\u0061\":2}", "key \"a\" is given twice"},
        {"{\"a\\u0000\":1}", "must not contain"},
        {"\"abc", "1:1: this string has no closing quote"},
        {"\"a\nb\"", "1:3: a line break"},
        {"\"\\x\"", "1:3: found 'x'"},
        {"\"\\u12g4\"", "found 'g' where a hexadecimal digit"},
        {"\"\\ud800\"", "1:2: a high surrogate"},
        {"\"\\ud800\\u0041\"", "1:2: a high surrogate"},
        {"\"\\udc00\"", "1:2: a low surrogate"},
        {"\"\xFF\"", "1:2: this string is not valid UTF-8"},
        {"01", "1:2: found '1' where the end"},
        {"1.", "1:3: the text ends where a digit"},
        {"-", "1:2: the text ends where a digit"},
        {"+1", "found '+' where a value"},
        {".5", "found '.' where a value"},
        {"1e", "the text ends where a digit"},
        {"1e999", "1:1: this number is too large"},
        {"NaN", "found 'N'"},
        {"nul", "found 'n' where a value"},
        {"tru", "found 't' where a value"},
        {"true false", "1:6: found 'f' where the end of the text"},
        {"// x\n1", "found '/'"},
        {"\xEF\xBB\xBF{}", "found byte 0xef"},
        {"[", "1:2: the text ends"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check_refused(str_of(cases[i].text), cases[i].want);
    check_refused((struct str){"1\0", 2}, "found byte 0x00");
    check_refused((struct str){"\"a\0b\"", 5}, "control character");
}

TEST(depth_is_bounded)
{
    char deep[300] = "";
    struct json *j;
    struct err e;

    memset(deep, '[', JSON_DEPTH_MAX);
    memset(deep + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    json_free(parse(deep));
    memset(deep, '[', JSON_DEPTH_MAX + 1);
    memset(deep + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    assert_int_equal(json_parse(str_of(deep), "t", &j, &e), -1);
    assert_int_equal(e.code, ERR_LIMIT);
}

TEST(text_need_not_be_terminated)
{
    struct json *j;
    struct err e;
    char *text = xmalloc(3); /* AddressSanitizer sees a read past it */

    memcpy(text, "[1]", 3);
    assert_int_equal(json_parse((struct str){text, 3}, "t", &j, &e), 0);
    json_free(j);
    for (size_t n = 0; n < 3; n++)
        assert_int_equal(json_parse((struct str){text, n}, "t", &j, &e), -1);
    memcpy(text, "123", 3);
    assert_int_equal(json_parse((struct str){text, 3}, NULL, &j, &e), 0);
    assert_int_equal(json_int(j), 123);
    json_free(j);
    free(text);
}

TEST(without_a_name_the_place_is_in_words)
{
    struct json *j;
    struct err e;

    assert_int_equal(json_parse(STR("[\n1,"), NULL, &j, &e), -1);
    assert_string_equal(e.text, "line 2, column 3: the text ends where a value is expected");
}

TEST(objects_with_many_keys)
{
    enum { MANY = 300 };
    struct json *j = json_new_object();
    char key[16];
    size_t seen = 0;

    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        json_set_int(j, key, i);
    }
    json_set_int(j, "k50", -50);        /* replaced where it stands */
    for (int i = 1; i < MANY; i += 2) { /* down to fewer than an index is kept for, and on */
        snprintf(key, sizeof(key), "k%d", i);
        json_del(j, key);
        assert_false(json_has(j, key));
    }
    json_del(j, "absent");
    assert_int_equal(json_len(j), MANY / 2);
    for (struct json_it it = {0}; json_next(j, &it); seen++) {
        snprintf(key, sizeof(key), "k%zu", 2 * seen);
        assert_string_equal(it.key, key);
        assert_int_equal(json_int(it.val), seen == 25 ? -50 : (int64_t)(2 * seen));
        assert_ptr_equal(json_get(j, key), it.val);
    }
    struct json *copy = json_copy(j);
    assert_true(json_equal(copy, j));
    json_set_str(copy, "k0", "else");
    assert_false(json_equal(copy, j));
    for (int i = 0; i < MANY; i += 2) {
        snprintf(key, sizeof(key), "k%d", i);
        json_del(j, key);
    }
    assert_int_equal(json_len(j), 0);
    json_free(copy);
    json_free(j);
}

TEST(reals_outside_the_whole_numbers_are_cut)
{
    struct json *high = parse("1e300"), *low = parse("-1e300"), *near = parse("-2.9");

    assert_true(json_int(high) == INT64_MAX);
    assert_true(json_int(low) == INT64_MIN);
    assert_int_equal(json_int(near), -2);
    json_free(high);
    json_free(low);
    json_free(near);
}

TEST(names_of_types)
{
    assert_string_equal(json_type_name(JSON_STR), "a string");
    assert_string_equal(json_type_name(JSON_INT), "a whole number");
    assert_string_equal(json_type_name(JSON_OBJECT), "an object");
}

TEST(lists_of_texts)
{
    static const char *const words[] = {"a", "b c"};
    AUTO(json) struct json *list = json_new_words(words, 2), *none = json_new_words(NULL, 0);
    AUTO_FREE char *text = json_text(list), *empty = json_text(none);

    assert_string_equal(text, "[\"a\",\"b c\"]");
    assert_string_equal(empty, "[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(numbers_keep_what_was_written),
        cmocka_unit_test(getters),
        cmocka_unit_test(getters_of_the_wrong_type_are_harmless),
        cmocka_unit_test(iterates_in_order),
        cmocka_unit_test(builds),
        cmocka_unit_test(write_reports_overflow),
        cmocka_unit_test(copies_are_equal_and_independent),
        cmocka_unit_test(equality),
        cmocka_unit_test(refuses_with_place_and_reason),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(text_need_not_be_terminated),
        cmocka_unit_test(without_a_name_the_place_is_in_words),
        cmocka_unit_test(objects_with_many_keys),
        cmocka_unit_test(reals_outside_the_whole_numbers_are_cut),
        cmocka_unit_test(names_of_types),
        cmocka_unit_test(lists_of_texts),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
