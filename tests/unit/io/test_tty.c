/* test_tty.c - keys out of the bytes a terminal sends */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "io/tty.h"

static void key_is(const char *bytes, int want, size_t want_used)
{
    size_t used = 99;

    assert_int_equal(tty_decode(str_of(bytes), &used), want);
    assert_int_equal(used, want_used);
}

static void test_keys(void **state)
{
    (void)state;
    key_is("", KEY_NONE, 0);
    key_is("q", 'q', 1);
    key_is("jj", 'j', 1);
    key_is("\033", KEY_ESCAPE, 1);
    key_is("\033[A", KEY_UP, 3);
    key_is("\033[Bx", KEY_DOWN, 3);
    key_is("\033OA", KEY_UP, 3);
    key_is("\033[5~", KEY_PAGE_UP, 4);
    key_is("\033[200~", KEY_NONE, 6);
    key_is("\r", KEY_ENTER, 1);
    key_is("\177", KEY_BACKSPACE, 1);
    key_is("\003", KEY_QUIT, 1);
    key_is("\001", KEY_NONE, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
