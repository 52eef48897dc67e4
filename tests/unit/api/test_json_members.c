/* Members of an object as text. */
#include "api/json_members.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int walk(const char *text, char *out, size_t n)
{
    struct json_members m;
    struct json_member one;
    size_t used = 0;
    int rc;

    out[0] = 0;
    json_members_init(&m, str_of(text));
    while ((rc = json_members_next(&m, &one)) == 1)
        used += (size_t)snprintf(out + used, n - used, "%.*s=%.*s;", STR_ARG(one.key),
                                 STR_ARG(one.value));
    return rc;
}

static void test_members(void **state)
{
    char out[256];

    (void)state;
    assert_int_equal(walk(" { \"a\" : 1 , \"b\":{\"c\":[1,\"}\"]} ,\"d\":\"x\\\"y\" } ", out, 256),
                     0);
    assert_string_equal(out, "a=1;b={\"c\":[1,\"}\"]};d=\"x\\\"y\";");
    assert_int_equal(walk("{}", out, 256), 0);
    assert_string_equal(out, "");
    assert_int_equal(walk("{\"t\":true,\"n\":null,\"r\":-1.5e3}", out, 256), 0);
    assert_string_equal(out, "t=true;n=null;r=-1.5e3;");
}

static void test_left_to_the_parser(void **state)
{
    static const char *const bad[] = {
        "",
        "[1]",
        "{",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":1} x",
        "{\"a\":\"x",
        "{\"a\":[1",
        "{\"\\u0061\":1}",
        "{\"a\" 1}",
        "{\"a\":1 2}",
    };
    char out[256];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(walk(bad[i], out, sizeof(out)), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_left_to_the_parser),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
