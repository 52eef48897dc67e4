/* test_arena.c - memory of one request */
#include "base/arena.h"
#include "unit.h"
#include <string.h>

TEST(memory_is_zeroed_and_aligned)
{
    struct arena a = {0};

    for (size_t n = 0; n < 300; n++) {
        unsigned char *p = arena_alloc(&a, n);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xAA, n);
    }
    arena_done(&a);
    assert_null(a.head);
}

TEST(big_requests_get_their_own_block)
{
    struct arena a = {0};

    char *small = arena_strdup(&a, "small");
    char *big = arena_alloc(&a, 5 << 20);
    memset(big, 1, 5 << 20);
    assert_string_equal(small, "small");
    assert_true(a.total_bytes >= 5 << 20);
    arena_done(&a);
}

TEST(reset_keeps_one_block_and_zeroes_again)
{
    struct arena a = {0};

    for (int i = 0; i < 1000; i++)
        memset(arena_alloc(&a, 100), 0xFF, 100);
    arena_reset(&a);
    size_t kept = a.total_bytes;
    unsigned char *p = arena_alloc(&a, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(p[i], 0);
    assert_int_equal(a.total_bytes, kept);
    arena_done(&a);
    arena_reset(&a);
    arena_done(&a);
}

TEST(text_helpers)
{
    struct arena a = {0};

    assert_string_equal(arena_strndup(&a, "abcdef", 3), "abc");
    assert_string_equal(arena_printf(&a, "%d/%s", 3, "x"), "3/x");
    assert_null(arena_strdup(&a, NULL));
    arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(big_requests_get_their_own_block),
        cmocka_unit_test(reset_keeps_one_block_and_zeroes_again),
        cmocka_unit_test(text_helpers),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
