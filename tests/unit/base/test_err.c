/* test_err.c - the one error type */
#include "base/err.h"
#include "unit.h"
#include <errno.h>
#include <string.h>

TEST(sets_code_and_text)
{
    struct err e = {.sys = 3};

    assert_int_equal(err_set(&e, ERR_CONFLICT, "job %d is running", 7), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_int_equal(e.sys, 0);
    assert_string_equal(e.text, "job 7 is running");
}

TEST(null_is_accepted)
{
    assert_int_equal(err_set(NULL, ERR_INVALID, "x"), -1);
    assert_int_equal(err_sys(NULL, "x"), -1);
    assert_int_equal(err_wrap(NULL, "x"), -1);
}

TEST(errno_becomes_a_code)
{
    static const struct {
        int sys;
        enum err_code code;
    } cases[] = {{ENOENT, ERR_NOT_FOUND},
                 {EACCES, ERR_DENIED},
                 {ENOSPC, ERR_FULL},
                 {EDQUOT, ERR_FULL},
                 {EIO, ERR_INTERNAL}};
    struct err e;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        errno = cases[i].sys;
        assert_int_equal(err_sys(&e, "cannot open %s", "x"), -1);
        assert_int_equal(e.code, cases[i].code);
        assert_int_equal(e.sys, cases[i].sys);
        assert_int_equal(errno, cases[i].sys);
    }
    errno = ENOENT;
    err_sys(&e, "cannot open %s", "x");
    assert_string_equal(e.text, "cannot open x: No such file or directory");
}

TEST(wraps_in_front_and_keeps_the_code)
{
    struct err e;

    errno = ENOSPC;
    err_sys(&e, "cannot write");
    err_wrap(&e, "saving %s", "a.db");
    assert_string_equal(e.text, "saving a.db: cannot write: No space left on device");
    assert_int_equal(e.code, ERR_FULL);
    assert_int_equal(e.sys, ENOSPC);
}

TEST(arguments_may_come_from_the_error_itself)
{
    struct err e;

    err_set(&e, ERR_INVALID, "bad value");
    err_set(&e, ERR_CONFLICT, "job 1: %s", e.text);
    assert_string_equal(e.text, "job 1: bad value");
}

TEST(long_text_is_cut_at_a_character)
{
    struct err e;
    char name[400];

    for (size_t pad = 0; pad < 4; pad++) {
        memset(name, 'x', pad);
        for (size_t i = pad; i + 3 < sizeof(name); i += 3)
            memcpy(name + i, "\xE2\x80\xA6", 4);
        err_set(&e, ERR_INVALID, "%s", name);
        size_t n = strlen(e.text);
        assert_true(n < sizeof(e.text) && n >= sizeof(e.text) - 4);
        assert_int_equal((n - pad) % 3, 0);
    }
}

TEST(one_table_for_all_codes)
{
    assert_string_equal(err_code_name(ERR_NOT_FOUND), "not_found");
    assert_int_equal(err_http_status(ERR_NOT_FOUND), 404);
    assert_int_equal(err_exit_code(ERR_INVALID), 2);
    assert_true(err_retryable(ERR_BUSY));
    assert_false(err_retryable(ERR_INVALID));
    for (int code = 0; code < ERR_CODE_MAX; code++)
        assert_true(err_code_name((enum err_code)code)[0] != '\0');
    assert_string_equal(err_code_name((enum err_code)99), "internal");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_code_and_text),
        cmocka_unit_test(null_is_accepted),
        cmocka_unit_test(errno_becomes_a_code),
        cmocka_unit_test(wraps_in_front_and_keeps_the_code),
        cmocka_unit_test(arguments_may_come_from_the_error_itself),
        cmocka_unit_test(long_text_is_cut_at_a_character),
        cmocka_unit_test(one_table_for_all_codes),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
