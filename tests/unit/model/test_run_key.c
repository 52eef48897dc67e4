/* test_run_key.c - the forms of a run's name: text, number, path */
#include "base/rand.h"
#include "base/util.h"
#include "model/run_key.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static void texts(void **state)
{
    static const struct {
        struct run_key key;
        const char *text;
    } rows[] = {
        {{42, 1, 0}, "42.1"},
        {{42, 1, 0x1f3a9c2e}, "42.1-1f3a9c2e"},
        {{1, 65535, 1}, "1.65535-00000001"},
        {{(1ull << 46) - 1, 7, UINT32_MAX}, "70368744177663.7-ffffffff"},
    };
    char text[RUN_KEY_TEXT_MAX];
    struct run_key back;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_int_equal(run_key_format(rows[i].key, text), strlen(rows[i].text));
        assert_string_equal(text, rows[i].text);
        assert_int_equal(run_key_parse(str_of(text), &back), strlen(text));
        assert_true(run_key_eq(back, rows[i].key));
    }
    assert_int_equal(run_key_parse(STR("42.1/child"), &back), 4);
    assert_int_equal(run_key_parse(STR("42.1-1f3a9c2e\n"), &back), 13);
}

static void no_texts(void **state)
{
    static const char *const rows[] = {"",
                                       "42",
                                       "42.",
                                       ".1",
                                       "0.1",
                                       "42.0",
                                       "42.65536",
                                       "-1.1",
                                       "42.1-",
                                       "42.1-1f3a",
                                       "42.1-1F3A9C2E",
                                       "42.1-00000000",
                                       "70368744177664.1",
                                       "x"};
    struct run_key back = {9, 9, 9};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_int_equal(run_key_parse(str_of(rows[i]), &back), 0);
    assert_true(run_key_eq(back, (struct run_key){9, 9, 9}));
}

static void numbers(void **state)
{
    uint64_t a, b;

    (void)state;
    assert_true(run_key_pack((struct run_key){5, 7, 0}, &a));
    assert_int_equal(a, 5 << 16 | 7); /* the lock of a run that an earlier version started */
    assert_true(run_key_pack((struct run_key){5, 7, 1}, &a) && a >= 1ull << 62 && a < 1ull << 63);
    assert_true(run_key_pack((struct run_key){5, 7, 2}, &b) && a != b);
    assert_true(run_key_pack((struct run_key){5, 8, 1}, &b) && a != b);
    assert_true(run_key_pack((struct run_key){6, 7, 1}, &b) && a != b);
    assert_false(run_key_pack((struct run_key){0, 1, 1}, &a));
    assert_false(run_key_pack((struct run_key){1, 0, 1}, &a));
    assert_false(run_key_pack((struct run_key){1, 65536, 1}, &a));
    assert_false(run_key_pack((struct run_key){1ull << 46, 1, 0}, &a));
}

/* Tags are in names on disk: these must never change.  Consecutive ids have unrelated tags. */
static void tags(void **state)
{
    struct id id = {0x0123456789abcdef, 0xfedcba9876543210};
    size_t equal = 0;

    (void)state;
    assert_int_equal(run_tag(id), 0x46833464);
    for (uint64_t i = 1; i < 1000; i++)
        equal += run_tag(id_add(id, i)) == run_tag(id);
    assert_int_equal(equal, 0);
    assert_int_not_equal(run_tag((struct id){0, 0}), 0);
}

static void paths(void **state)
{
    AUTO_FREE char *a = run_file_path("/h", (struct run_key){42, 1, 0x1f3a9c2e}, ".log"),
                   *b = run_file_path("/h", (struct run_key){4200, 3, 0}, "");

    (void)state;
    assert_string_equal(a, "/h/runs/0/42.1-1f3a9c2e.log");
    assert_string_equal(b, "/h/runs/4/4200.3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts), cmocka_unit_test(no_texts), cmocka_unit_test(numbers),
        cmocka_unit_test(tags),  cmocka_unit_test(paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
