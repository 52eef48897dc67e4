/* Patterns of paths: several placeholders, the rest of a path, methods, what is near. */
#include "base/util.h"
#include "request/route.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void none(struct call *c)
{
    (void)c;
}

static const struct route table[] = {
    {"GET", "/", none, AUTH_PUBLIC},
    {"GET", "/jobs", none, AUTH_READ},
    {"POST", "/jobs/cancel", none, AUTH_WRITE},
    {"GET", "/jobs/{job}", none, AUTH_READ},
    {"DELETE", "/jobs/{job}", none, AUTH_WRITE},
    {"GET", "/jobs/{job}/artifacts/{name}", none, AUTH_READ},
    {"GET", "/a/{x}/{y}/{z}", none, AUTH_READ},
    {"PUT", "/files/{job}/{file...}", none, AUTH_WRITE},
    {"GET", "/{file...}", none, AUTH_READ, 0, ROUTE_PORT},
    {"GET", "/late/{x}", none, AUTH_READ},
};

static enum route_result find(unsigned without, const char *method, const char *path,
                              struct route_match *out)
{
    return route_find(table, ARRAY_SIZE(table), without, str_of(method), str_of(path), out);
}

static void assert_found(const char *path, const char *pattern, const char *a, const char *b,
                         const char *c)
{
    const char *want[ROUTE_ARGS_MAX] = {a, b, c};
    struct route_match m;
    const char *method = str_starts(str_of(path), STR("/files")) ? "PUT" : "GET";

    assert_int_equal(find(ROUTE_PORT, method, path, &m), ROUTE_FOUND);
    assert_string_equal(m.route->path, pattern);
    for (size_t i = 0; i < ROUTE_ARGS_MAX; i++)
        assert_true(want[i] ? str_eq_c(m.args[i], want[i]) : m.args[i].n == 0);
}

static void test_arguments(void **state)
{
    (void)state;
    assert_found("/", "/", NULL, NULL, NULL);
    assert_found("/jobs/7", "/jobs/{job}", "7", NULL, NULL);
    assert_found("/jobs/7/", "/jobs/{job}", "7", NULL, NULL);
    assert_found("/jobs/7/artifacts/a b", "/jobs/{job}/artifacts/{name}", "7", "a b", NULL);
    assert_found("/a/1/2/3", "/a/{x}/{y}/{z}", "1", "2", "3");
    assert_found("/files/7/x", "/files/{job}/{file...}", "7", "x", NULL);
    assert_found("/files/7/x/y//z", "/files/{job}/{file...}", "7", "x/y//z", NULL);
    assert_found("/late/{x}", "/late/{x}", "{x}", NULL, NULL);
}

static void test_no_path(void **state)
{
    static const char *const bad[] = {
        "",       "jobs",       "//jobs",   "/jobs//artifacts/x", "/jobs/7/artifacts",
        "/a/1/2", "/a/1/2/3/4", "/files/7", "/files/7//x",        "/files//x",
        "/job",
    };
    struct route_match m;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(find(ROUTE_PORT, "GET", bad[i], &m), ROUTE_NO_PATH);
}

static void test_methods(void **state)
{
    struct route_match m;

    (void)state;
    assert_int_equal(find(ROUTE_PORT, "HEAD", "/jobs", &m), ROUTE_FOUND);
    assert_int_equal(find(ROUTE_PORT, "POST", "/jobs/7", &m), ROUTE_NO_METHOD);
    assert_string_equal(m.allow, "GET, HEAD, DELETE");
    assert_null(m.route);
    /* The first pattern that fits decides: this is not the job "cancel". */
    assert_int_equal(find(ROUTE_PORT, "GET", "/jobs/cancel", &m), ROUTE_NO_METHOD);
    assert_string_equal(m.allow, "POST");
}

/* A row of a port takes what stands behind it in the table, but refuses no method. */
static void test_port(void **state)
{
    struct route_match m;

    (void)state;
    assert_int_equal(find(0, "GET", "/late/1", &m), ROUTE_FOUND);
    assert_string_equal(m.route->path, "/{file...}");
    assert_true(str_eq_c(m.args[0], "late/1"));
    assert_int_equal(find(ROUTE_PORT, "GET", "/late/1", &m), ROUTE_FOUND);
    assert_string_equal(m.route->path, "/late/{x}");
    assert_int_equal(find(0, "PUT", "/some/where", &m), ROUTE_NO_PATH);
    assert_int_equal(find(0, "PUT", "/late/1", &m), ROUTE_NO_METHOD);
}

static void test_nearest(void **state)
{
    (void)state;
    assert_string_equal(route_nearest(table, ARRAY_SIZE(table), str_of("/job")), "/jobs");
    assert_string_equal(route_nearest(table, ARRAY_SIZE(table), str_of("/jobs/17/artifact/{name}")),
                        "/jobs/{job}/artifacts/{name}");
    assert_null(route_nearest(table, ARRAY_SIZE(table), str_of("/something/else/entirely")));
}

/* Whatever is put for the placeholders comes back, and only from its own pattern. */
static void test_round_trip(void **state)
{
    static const char letters[] = "ab7.{}%-_ ";
    uint64_t seed = 42;
    char path[200], arg[3][20];
    struct route_match m;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        for (int a = 0; a < 3; a++) {
            size_t n = 1 + (size_t)(round + a) % 9;
            for (size_t i = 0; i < n; i++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                arg[a][i] = letters[(seed >> 33) % (sizeof(letters) - 1)];
            }
            arg[a][n] = 0;
        }
        snprintf(path, sizeof(path), "/a/%s/%s/%s%s", arg[0], arg[1], arg[2], round % 2 ? "/" : "");
        assert_int_equal(find(ROUTE_PORT, "GET", path, &m), ROUTE_FOUND);
        assert_string_equal(m.route->path, "/a/{x}/{y}/{z}");
        for (int a = 0; a < 3; a++)
            assert_true(str_eq_c(m.args[a], arg[a]));
        snprintf(path, sizeof(path), "/files/%s/%s/%s", arg[0], arg[1], arg[2]);
        assert_int_equal(find(ROUTE_PORT, "PUT", path, &m), ROUTE_FOUND);
        assert_true(str_eq_c(m.args[1], path + strlen("/files//") + strlen(arg[0])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_no_path),
        cmocka_unit_test(test_methods),   cmocka_unit_test(test_port),
        cmocka_unit_test(test_nearest),   cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
