/* test_progress.c - the line of a sweep under way, in terminals of any width */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "cli/progress.h"

static void test_line(void **state)
{
    struct json *j = NULL;
    struct err e = {0};
    const char *text = "{\"total\":40,\"queued\":24,\"running\":4,\"starting\":0,\"stopping\":0,"
                       "\"succeeded\":10,\"failed\":1,\"cancelled\":1,\"lost\":0}";

    (void)state;
    assert_int_equal(json_parse(str_of(text), "t", &j, &e), 0);
    assert_int_equal(counts_done(j), 12);
    for (size_t width = 55; width < 200; width++) {
        AUTO(buf) struct buf b;
        buf_init(&b, 4096);
        progress_line(&b, j, "mnist", width, 90000, false);
        assert_true(text_width(buf_str(&b)) <= width);
        assert_non_null(strstr(b.p, "12/40, 4 running, 1 failed, 1m30s left"));
    }
    AUTO(buf) struct buf plain;
    buf_init(&plain, 4096);
    progress_line(&plain, j, "mnist", 0, 0, false);
    assert_string_equal(plain.p, "mnist 12/40, 4 running, 1 failed");
    json_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_line)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
