/* test_json.c - JSON and tables, byte for byte as users' programs know them */
#include "../../base/unit.h"
#include "base/util.h"
#include "dialect/hyperctl/grid.h"
#include "dialect/hyperctl/py_str.h"
#include <math.h>

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};

    if (json_parse(str_of(text), "t", &j, &e) < 0)
        fail_msg("%s", e.text);
    return j;
}

static void check(const char *json, int indent, const char *want)
{
    struct json *j = parse(json);
    AUTO_FREE char *got = json_text_as(j, indent ? JSON_PYTHON_INDENTED : JSON_PYTHON);

    assert_string_equal(got, want);
    json_free(j);
}

TEST(one_line)
{
    check("{\"a\":[1,2.5,null,true,false,\"x\"],\"b\":{}}", 0,
          "{\"a\": [1, 2.5, null, true, false, \"x\"], \"b\": {}}");
    check("[]", 0, "[]");
    check("{}", 0, "{}");
    check("[[],{}]", 0, "[[], {}]");
    check("-7", 0, "-7");
}

TEST(indented)
{
    check("{\"a\":[1,{\"b\":[]}],\"c\":{}}", 4,
          "{\n    \"a\": [\n        1,\n        {\n            \"b\": []\n        }\n    ],\n"
          "    \"c\": {}\n}");
    check("[]", 4, "[]");
    check("[1]", 4, "[\n    1\n]");
}

TEST(text_is_ascii)
{
    check("\"\\u00e9\\ud83d\\ude00\\u0001\\n\\t\\\"\\\\/\\u007f\"", 0,
          "\"\\u00e9\\ud83d\\ude00\\u0001\\n\\t\\\"\\\\/\\u007f\"");
}

static void check_float(double d, const char *want)
{
    AUTO(json) struct json *j = json_new_real(d);
    AUTO_FREE char *got = json_text_as(j, JSON_PYTHON);

    assert_string_equal(got, want);
}

TEST(floats)
{
    check_float(0.1, "0.1");
    check_float(1.0, "1.0");
    check_float(-0.0, "-0.0");
    check_float(0.0, "0.0");
    check_float(100.0, "100.0");
    check_float(1e15, "1000000000000000.0");
    check_float(1e16, "1e+16");
    check_float(1.5e16, "1.5e+16");
    check_float(0.0001, "0.0001");
    check_float(0.00001, "1e-05");
    check_float(1.25e-7, "1.25e-07");
    check_float(1e22, "1e+22");
    check_float(1e-300, "1e-300");
    check_float(123456.789, "123456.789");
    check_float(0.30000000000000004, "0.30000000000000004");
    check_float(5e-324, "5e-324");
    check_float(1.7976931348623157e308, "1.7976931348623157e+308");
    check_float(NAN, "NaN");
    check_float(-INFINITY, "-Infinity");
    check("[1e3,1E-7,123456789012345678901234567890,1.0]", 0,
          "[1000.0, 1e-07, 123456789012345678901234567890, 1.0]");
}

TEST(words)
{
    static const char *const cases[][2] = {
        {"\"a b\"", "a b"}, {"true", "True"}, {"false", "False"}, {"1.50", "1.5"}, {"7", "7"}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct json *j = parse(cases[i][0]);
        AUTO(buf) struct buf b = {0};
        buf_init(&b, 100);
        py_str_write(&b, j);
        assert_string_equal(b.p, cases[i][1]);
        json_free(j);
    }
}

TEST(grids)
{
    static const char *const titles[] = {"name", "status"};
    static const char *const cells[] = {"long", "running", "b", "init", "odd", "x"};
    AUTO(buf) struct buf b = {0};
    struct grid *g = grid_new(titles, 2);

    buf_init(&b, 10000);
    grid_render(g, &b);
    assert_string_equal(b.p, "+------+--------+\n"
                             "| name | status |\n"
                             "+------+--------+\n"
                             "+------+--------+\n");
    buf_reset(&b);
    for (size_t i = 0; i < ARRAY_SIZE(cells); i++)
        grid_cell(g, str_of(cells[i]));
    grid_render(g, &b);
    assert_string_equal(b.p, "+------+---------+\n"
                             "| name |  status |\n"
                             "+------+---------+\n"
                             "| long | running |\n"
                             "|  b   |   init  |\n"
                             "| odd  |    x    |\n"
                             "+------+---------+\n");
    grid_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line), cmocka_unit_test(indented), cmocka_unit_test(text_is_ascii),
        cmocka_unit_test(floats),   cmocka_unit_test(words),    cmocka_unit_test(grids),
    };
    return cmocka_run_group_tests_name("hyperctl_json", tests, NULL, NULL);
}
