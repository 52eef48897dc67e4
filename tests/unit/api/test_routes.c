/* Paths and methods to routes. */
#include "api/api_priv.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static enum route_result find(const char *method, const char *path, const char **out_path,
                              struct str *arg, char allow[ROUTE_ALLOW_MAX])
{
    struct route_match m;
    enum route_result res =
        route_find(api_routes, api_n_routes, 0, str_of(method), str_of(path), &m);

    *out_path = m.route ? m.route->path : "";
    *arg = m.args[0];
    memcpy(allow, m.allow, ROUTE_ALLOW_MAX);
    return res;
}

static void test_found(void **state)
{
    const char *path;
    struct str arg;
    char allow[64];

    (void)state;
    assert_int_equal(find("GET", "/v1/jobs", &path, &arg, allow), ROUTE_FOUND);
    assert_string_equal(path, "/v1/jobs");
    assert_int_equal(find("GET", "/v1/jobs/", &path, &arg, allow), ROUTE_FOUND);
    assert_int_equal(find("HEAD", "/healthz", &path, &arg, allow), ROUTE_FOUND);
    assert_int_equal(find("GET", "/v1/jobs/42", &path, &arg, allow), ROUTE_FOUND);
    assert_string_equal(path, "/v1/jobs/{job}");
    assert_true(str_eq_c(arg, "42"));
    assert_int_equal(find("GET", "/v1/jobs/01abc/logs", &path, &arg, allow), ROUTE_FOUND);
    assert_string_equal(path, "/v1/jobs/{job}/logs");
    assert_true(str_eq_c(arg, "01abc"));
    assert_int_equal(find("GET", "/v1/jobs/summary", &path, &arg, allow), ROUTE_FOUND);
    assert_string_equal(path, "/v1/jobs/summary");
    assert_int_equal(find("POST", "/v1/queues/a b/pause", &path, &arg, allow), ROUTE_FOUND);
    assert_true(str_eq_c(arg, "a b"));
}

static void test_wrong_method(void **state)
{
    const char *path;
    struct str arg;
    char allow[64];

    (void)state;
    assert_int_equal(find("PUT", "/v1/jobs", &path, &arg, allow), ROUTE_NO_METHOD);
    assert_string_equal(allow, "POST, GET, HEAD");
    assert_int_equal(find("POST", "/v1/jobs/7", &path, &arg, allow), ROUTE_NO_METHOD);
    assert_string_equal(allow, "GET, HEAD, DELETE");
    /* Not a job called "cancel". */
    assert_int_equal(find("GET", "/v1/jobs/cancel", &path, &arg, allow), ROUTE_NO_METHOD);
    assert_string_equal(allow, "POST");
    assert_int_equal(find("DELETE", "/v1/jobs/summary", &path, &arg, allow), ROUTE_NO_METHOD);
}

static void test_no_path(void **state)
{
    static const char *const bad[] = {
        "",        "/",         "/v2",           "/v1/job", "/v1/jobs//logs", "/v1/jobs/1/2/3",
        "v1/jobs", "//v1/jobs", "/v1//jobs/1/a",
    };
    const char *path;
    struct str arg;
    char allow[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(find("GET", bad[i], &path, &arg, allow), ROUTE_NO_PATH);
}

static void test_nearest(void **state)
{
    (void)state;
    assert_string_equal(route_nearest(api_routes, api_n_routes, str_of("/v1/job")), "/v1/jobs");
    assert_string_equal(route_nearest(api_routes, api_n_routes, str_of("/v1/jobs/17/log")),
                        "/v1/jobs/{job}/logs");
    assert_string_equal(route_nearest(api_routes, api_n_routes, str_of("/healthy")), "/healthz");
    assert_null(
        route_nearest(api_routes, api_n_routes, str_of("/something/else/entirely/and/long")));
}

static void test_table_is_sane(void **state)
{
    (void)state;
    for (size_t i = 0; i < api_n_routes; i++) {
        const struct route *r = &api_routes[i];

        assert_non_null(r->handler);
        assert_true(r->path[0] == '/');
        for (size_t k = i + 1; k < api_n_routes; k++)
            assert_false(!strcmp(r->path, api_routes[k].path) &&
                         !strcmp(r->method, api_routes[k].method));
        /* What changes something needs more than reading. */
        if (strcmp(r->method, "GET") != 0)
            assert_true(r->who == AUTH_WRITE || r->who == AUTH_ADMIN || r->who == AUTH_JOB);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),         cmocka_unit_test(test_wrong_method),
        cmocka_unit_test(test_no_path),       cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_table_is_sane),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
