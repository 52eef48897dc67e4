/* test_address.c - which URLs name this machine */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "io/address.h"

static void test_this_machine(void **state)
{
    static const char *const urls[] = {"http://localhost", "http://LOCALHOST:8642/x",
                                       "http://127.0.0.1:8642", "https://127.9.9.9/",
                                       "http://[::1]:8642"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(urls); i++)
        assert_true(url_is_loopback(urls[i]));
}

/* Names that begin like a loopback address, and users' names before an '@'. */
static void test_other_machines(void **state)
{
    static const char *const urls[] = {
        "http://localhost.example.org",
        "http://127.example.org/",
        "http://127.0.0.1.example.org",
        "http://localhost@example.org",
        "http://127.0.0.1:x@h.org",
        "http://h.org/?u=://localhost",
        "http://[::1",
        "http://128.0.0.1",
        "localhost",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(urls); i++)
        assert_false(url_is_loopback(urls[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_this_machine),
                                       cmocka_unit_test(test_other_machines)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
