/* test_json_in.c - JSON token by token, and values as text */
#include "base/json.h"
#include "base/json_in.h"
#include "base/json_priv.h"
#include "base/util.h"
#include "unit.h"
#include <math.h>
#include <stdio.h>

/* The tokens of a text, a character each, with keys, strings and numbers behind them. */
static void tokens_of(struct json_in *in, struct buf *out)
{
    static const char names[] = ".{[]ksnwTFN";
    int token;

    while ((token = json_in_next(in)) > JSON_IN_END) {
        buf_addc(out, names[token]);
        if (token >= JSON_IN_KEY && token <= JSON_IN_WORD)
            buf_addf(out, "%.*s;", STR_ARG(in->s));
    }
    buf_adds(out, token == JSON_IN_END ? "." : "!");
}

static void check_tokens(struct json_in in, const char *want)
{
    AUTO(buf) struct buf got = {0};

    tokens_of(&in, &got);
    assert_string_equal(got.p, want);
    json_in_done(&in);
}

TEST(tokens)
{
    check_tokens((struct json_in){.text = STR(" { \"a\" : [ 1 , -2.5e3 ,true,false,null ] ,"
                                              "\"b\":{}, \"c\":\"x\"} ")},
                 "{ka;[n1;n-2.5e3;TFN]kb;{]kc;sx;].");
    check_tokens((struct json_in){.text = STR("[]")}, "[].");
    check_tokens((struct json_in){.text = STR("7")}, "n7;.");
    check_tokens((struct json_in){.text = STR("[1,]")}, "[n1;!");
    check_tokens((struct json_in){.text = STR("[1] x")}, "[n1;!");
    check_tokens((struct json_in){.text = STR("{\"a\"}")}, "{ka;!");
    check_tokens((struct json_in){.text = STR("[NaN]")}, "[!");
}

TEST(words_of_python)
{
    check_tokens((struct json_in){.text = STR("[NaN,-Infinity, Infinity,-1]"), .python = true},
                 "[wNaN;w-Infinity;wInfinity;n-1;].");
    check_tokens((struct json_in){.text = STR("[Nan]"), .python = true}, "[!");
    check_tokens((struct json_in){.text = STR("[-Inf]"), .python = true}, "[!");
}

TEST(plain_strings_stay_in_the_text)
{
    AUTO(json_in) struct json_in in = {.text = STR("[\"plain\",\"a\\u0062c\",\"\"]")};

    json_in_next(&in);
    assert_int_equal(json_in_next(&in), JSON_IN_STR);
    assert_ptr_equal(in.s.p, in.text.p + 2);
    assert_false(in.decoded);
    assert_int_equal(json_in_next(&in), JSON_IN_STR);
    assert_true(in.decoded && str_eq_c(in.s, "abc"));
    assert_int_equal(in.start, 9);
    assert_int_equal(json_in_next(&in), JSON_IN_STR);
    assert_true(!in.decoded && in.s.n == 0);
}

static void check_number(const char *text, double want, bool whole, int64_t want_int)
{
    struct json_in in = {.text = str_of(text)};
    int64_t i = 0;

    assert_int_equal(json_in_next(&in), JSON_IN_NUMBER);
    double d = json_number_double(in.s, &in.number);
    if (!(d == want))
        fail_msg("%s is %.17g", text, d);
    assert_int_equal(json_number_int(in.s, &in.number, &i), whole);
    assert_true(!whole || i == want_int);
}

TEST(numbers)
{
    check_number("0", 0, true, 0);
    check_number("-0", 0, true, 0);
    check_number("0.1", 0.1, false, 0);
    check_number("0.000123", 0.000123, false, 0);
    check_number("123456789012345", 123456789012345.0, true, 123456789012345);
    check_number("9007199254740993", 9007199254740992.0, true, 9007199254740993);
    check_number("9223372036854775807", 0x1p63, true, INT64_MAX);
    check_number("-9223372036854775808", -0x1p63, true, INT64_MIN);
    check_number("9223372036854775808", 0x1p63, false, 0);
    check_number("1e22", 1e22, false, 0);
    check_number("1e23", 1e23, false, 0);
    check_number("-1.5E-07", -1.5e-7, false, 0);
    check_number("1e999", INFINITY, false, 0);
    check_number("1e-999999999999", 0, false, 0);
    check_number(
        "0.1000000000000000055511151231257827021181583404541015625000000000000000000000000", 0.1,
        false, 0);
}

/* The elements of a list as text, joined by bars; '!' when it is broken. */
static void check_elements(const char *text, const char *want)
{
    struct err e = {0};
    AUTO(json_in) struct json_in in = {.text = str_of(text), .e = &e};
    AUTO(buf) struct buf got = {0};
    struct str one;
    int rc = -1;

    if (json_in_next(&in) == JSON_IN_ARRAY)
        while ((rc = json_in_raw(&in, &one)) == 1)
            buf_addf(&got, "%.*s|", STR_ARG(one));
    buf_adds(&got, rc < 0 ? "!" : ".");
    assert_string_equal(got.p, want);
    if (rc == 0)
        assert_int_equal(json_in_raw(&in, &one), 0);
    else if (text[0] == '[')
        assert_int_equal(e.code, ERR_INVALID);
}

TEST(elements_as_text)
{
    check_elements(" [ {\"a\":[1,2]} ,\"x,]\\\"\" , 3,[]\n] ", "{\"a\":[1,2]}|\"x,]\\\"\"|3|[]|.");
    check_elements(" [ ] ", ".");
    static const char *const broken[][2] = {
        {"", "!"},      {"{}", "!"},      {"[", "!"},       {"[1", "!"},
        {"[1,", "1|!"}, {"[1,]", "1|!"},  {"[,1]", "!"},    {"[1,,2]", "1|!"},
        {"[1}]", "!"},  {"[1] x", "1|!"}, {"[\"a]", "!"},   {"[\"\\", "!"},
        {"[] []", "!"}, {"[1 2]", "!"},   {"[ 1 \f]", "!"}, {"[[1,2", "!"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(broken); i++)
        check_elements(broken[i][0], broken[i][1]);
}

static void check_members(const char *text, const char *want)
{
    AUTO(json_in) struct json_in in = {.text = str_of(text)};
    AUTO(buf) struct buf got = {0};
    struct str value;
    int token = json_in_next(&in);

    if (token == JSON_IN_OBJECT)
        while ((token = json_in_next(&in)) == JSON_IN_KEY) {
            buf_addf(&got, "%.*s=", STR_ARG(in.s));
            if (json_in_raw(&in, &value) < 0) {
                token = JSON_IN_BAD;
                break;
            }
            buf_addf(&got, "%.*s;", STR_ARG(value));
        }
    buf_adds(&got, token == JSON_IN_CLOSE ? "." : "!");
    assert_string_equal(got.p, want);
}

TEST(members_as_text)
{
    check_members(" { \"a\" : 1 , \"b\":{\"c\":[1,\"}\"]} ,\"d\":\"x\\\"y\" } ",
                  "a=1;b={\"c\":[1,\"}\"]};d=\"x\\\"y\";.");
    check_members("{}", ".");
    check_members("{\"t\":true,\"n\":null,\"r\":-1.5e3}", "t=true;n=null;r=-1.5e3;.");
    check_members("{\"\\u0061\":1}", "a=1;.");
    static const char *const broken[][2] = {
        {"", "!"},
        {"[1]", "!"},
        {"{", "!"},
        {"{\"a\"}", "a=!"},
        {"{\"a\":}", "a=!"},
        {"{\"a\":1,}", "a=1;!"},
        {"{a:1}", "!"},
        {"{\"a\":1} x", "a=1;!"},
        {"{\"a\":\"x", "a=!"},
        {"{\"a\":[1", "a=!"},
        {"{\"a\" 1}", "a=!"},
        {"{\"a\":1 2}", "a=!"},
        {"{\"\\u0000\":1}", "!"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(broken); i++)
        check_members(broken[i][0], broken[i][1]);
}

TEST(a_tree_in_the_middle)
{
    struct err e = {0};
    AUTO(json_in)
    struct json_in in = {
        .text = STR("[1,{\"a\":[2,\"\\n\"]},NaN]"), .name = "t", .python = true, .e = &e};
    AUTO(json) struct json *j = NULL;

    json_in_next(&in);
    json_in_next(&in);
    assert_int_equal(json_in_tree(&in, json_in_next(&in), &j), 0);
    AUTO_FREE char *text = json_text(j);
    assert_string_equal(text, "{\"a\":[2,\"\\n\"]}");
    struct json *none = NULL;
    assert_int_equal(json_in_tree(&in, json_in_next(&in), &none), -1);
    assert_string_equal(e.text, "t:1:19: NaN and Infinity are no JSON");
}

TEST(messages_without_a_place)
{
    struct err e = {0};
    AUTO(json_in) struct json_in in = {.text = STR("[,"), .no_place = true, .e = &e};

    json_in_next(&in);
    assert_int_equal(json_in_next(&in), JSON_IN_BAD);
    assert_string_equal(e.text, "found ',' where a value is expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens),
        cmocka_unit_test(words_of_python),
        cmocka_unit_test(plain_strings_stay_in_the_text),
        cmocka_unit_test(numbers),
        cmocka_unit_test(elements_as_text),
        cmocka_unit_test(members_as_text),
        cmocka_unit_test(a_tree_in_the_middle),
        cmocka_unit_test(messages_without_a_place),
    };
    return cmocka_run_group_tests_name("json_in", tests, NULL, NULL);
}
