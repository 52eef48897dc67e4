/* test_top.c - frames of the live view: right size, selected row visible, output made harmless */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "cli/top.h"

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};

    assert_int_equal(json_parse(str_of(text), "test", &j, &e), 0);
    return j;
}

static struct json *many_rows(int n)
{
    AUTO(buf) struct buf b;

    buf_init(&b, 1 << 20);
    buf_addc(&b, '[');
    for (int i = 1; i <= n; i++)
        buf_addf(&b,
                 "%s{\"number\":%d,\"name\":\"job-%d\",\"state\":\"running\",\"exit_code\":null,"
                 "\"created\":\"2026-01-01T00:00:00.000Z\",\"params\":{}}",
                 i > 1 ? "," : "", i, i);
    buf_addc(&b, ']');
    return parse(b.p);
}

static size_t lines_in(const struct buf *b)
{
    size_t n = 1;

    for (const char *p = b->p; (p = strstr(p, "\r\n")); p += 2)
        n++;
    return n;
}

static void test_list(void **state)
{
    struct json *rows = many_rows(50);
    struct json *counts = parse("{\"total\":50,\"running\":50}");
    struct json *nodes =
        parse("[{\"name\":\"box\",\"slots\":8,\"used_slots\":7,\"cpus\":8,"
              "\"used_cpus\":2.5,\"mem_bytes\":17179869184,\"used_mem_bytes\":0}]");

    (void)state;
    for (int64_t sel = 0; sel < 50; sel += 7)
        for (size_t h = 8; h < 60; h += 13)
            for (size_t w = 20; w < 200; w += 45) {
                struct top_model m = {.rows = rows,
                                      .counts = counts,
                                      .nodes = nodes,
                                      .version = "1",
                                      .selected = sel};
                AUTO(buf) struct buf b;
                AUTO_FREE char *name = xasprintf("job-%lld ", (long long)sel + 1);
                buf_init(&b, 1 << 20);
                top_draw(&b, &m, w, h, true);
                assert_int_equal(lines_in(&b), h);
                const char *reversed = strstr(b.p, "\033[7m");
                assert_non_null(reversed);
                if (w > 100)
                    assert_non_null(strstr(reversed, name));
            }
    json_free(rows);
    json_free(counts);
    json_free(nodes);
}

static void test_several_nodes(void **state)
{
    struct json *nodes =
        parse("[{\"name\":\"a\",\"slots\":8,\"used_slots\":7,\"cpus\":8,\"used_cpus\":2.5},"
              "{\"name\":\"b\",\"slots\":4,\"used_slots\":1,\"cpus\":2,\"used_cpus\":1},"
              "{\"name\":\"c\",\"state\":\"away\",\"slots\":100,\"used_slots\":0}]");
    struct top_model m = {.version = "1", .nodes = nodes};
    AUTO(buf) struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    top_draw(&b, &m, 120, 24, false);
    assert_non_null(strstr(b.p, "3 nodes, 1 away"));
    assert_non_null(strstr(b.p, " 8/12 "));
    assert_non_null(strstr(b.p, " 3.5/10 "));
    json_free(nodes);
}

static void test_log(void **state)
{
    struct top_model m = {.version = "1",
                          .mode = TOP_LOG,
                          .log =
                              STR("first\n10%\r20%\r100%\nevil \033[2Jred \033[31mx\007\nlast\n")};
    AUTO(buf) struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    top_draw(&b, &m, 80, 20, false);
    assert_int_equal(lines_in(&b), 20);
    assert_non_null(strstr(b.p, "100%"));
    assert_null(strstr(b.p, "20%"));
    assert_null(strstr(b.p, "\033[2J"));
    assert_null(strchr(b.p, '\007'));
    assert_non_null(strstr(b.p, "evil red x"));
    assert_non_null(strstr(b.p, "last"));
}

static void test_empty(void **state)
{
    struct top_model m = {.version = "1", .message = "no daemon"};
    AUTO(buf) struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    top_draw(&b, &m, 80, 24, false);
    assert_int_equal(lines_in(&b), 24);
    assert_non_null(strstr(b.p, "no daemon"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list),
                                       cmocka_unit_test(test_several_nodes),
                                       cmocka_unit_test(test_log), cmocka_unit_test(test_empty)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
