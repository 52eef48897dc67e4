/* Which hosts and pages a server accepts requests of. */
#include "request/site.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static bool known(const char *host)
{
    return site_host_known(str_of(host), "gpu.example.org, other.example");
}

static void test_hosts(void **state)
{
    char machine[256] = "";

    (void)state;
    assert_true(known("127.0.0.1:5000"));
    assert_true(known("127.0.0.1"));
    assert_true(known("[::1]:5000"));
    assert_true(known("192.0.2.7:80"));
    assert_true(known("localhost:5000"));
    assert_true(known("LocalHost"));
    assert_true(known("page.localhost:1"));
    assert_true(known("GPU.example.org:443"));
    assert_true(known("other.example"));
    assert_int_equal(gethostname(machine, sizeof(machine) - 1), 0);
    assert_true(known(machine));

    assert_false(known(""));
    assert_false(known("evil.example"));
    assert_false(known("evil.example:5000"));
    assert_false(known("localhost.evil.example"));
    assert_false(known("127.0.0.1.evil.example:5000"));
    assert_false(known("xlocalhost"));
    assert_false(known("gpu.example.org.evil.example"));
    assert_false(known("[::1"));
    assert_false(known("localhost."));
}

static void test_origins(void **state)
{
    const struct str host = STR("127.0.0.1:5000");

    (void)state;
    assert_true(site_origin_same(STR("http://127.0.0.1:5000"), host));
    assert_true(site_origin_same(STR("https://127.0.0.1:5000"), host));
    assert_true(site_origin_same(STR("http://LOCALHOST:1"), STR("localhost:1")));
    assert_false(site_origin_same(STR("http://127.0.0.1:5001"), host));
    assert_false(site_origin_same(STR("http://127.0.0.1"), host));
    assert_false(site_origin_same(STR("http://127.0.0.1:5000.evil.example"), host));
    assert_false(site_origin_same(STR("http://evil.example"), host));
    assert_false(site_origin_same(STR("null"), host));
    assert_false(site_origin_same(STR(""), host));
    assert_false(site_origin_same(STR("http://"), STR("")));
    assert_false(site_origin_same(STR("file://127.0.0.1:5000"), host));
}

static void test_referers(void **state)
{
    const struct str host = STR("127.0.0.1:5000");

    (void)state;
    assert_true(site_referer_same(STR("http://127.0.0.1:5000/"), host));
    assert_true(site_referer_same(STR("http://127.0.0.1:5000/a/b?c=http://x/"), host));
    assert_true(site_referer_same(STR("http://127.0.0.1:5000"), host));
    assert_false(site_referer_same(STR("http://127.0.0.1:5001/"), host));
    assert_false(site_referer_same(STR("http://evil.example/http://127.0.0.1:5000/"), host));
    assert_false(site_referer_same(STR("http://127.0.0.1:5000@evil.example/"), host));
    assert_false(site_referer_same(STR("127.0.0.1:5000"), host));
    assert_false(site_referer_same(STR(""), host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hosts), cmocka_unit_test(test_origins),
                                       cmocka_unit_test(test_referers)};

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
