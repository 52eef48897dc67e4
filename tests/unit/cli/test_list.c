/* test_list.c - words of a command line as one filter, names for several states */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "cli/list.h"

#define FILTER(...)                                                                                \
    filter((const char *[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))
static const char *filter(const char **words, size_t n)
{
    static char *last;
    struct operands ops = {words, n, false};

    free(last);
    last = filter_text(&ops);
    return last;
}

static void test_filter(void **state)
{
    struct operands none = {0};

    (void)state;
    assert_null(filter_text(&none));
    assert_string_equal(FILTER("state:failed and name~cnn"), "state:failed and name~cnn");
    assert_string_equal(FILTER("state:failed", "name~cnn"), "state:failed and name~cnn");
    assert_string_equal(FILTER("state:failed", "or", "name~cnn"), "state:failed or name~cnn");
    assert_string_equal(FILTER("lr", "<", "0.1"), "lr < 0.1");
    assert_string_equal(FILTER("not", "lr<0.1", "lr>=2"), "not lr<0.1 and lr>=2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_filter)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
