/* test_heap.c - malloc of the small client, under other names */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#define malloc heap_malloc
#define calloc heap_calloc
#define realloc heap_realloc
#define free heap_free
void *heap_malloc(size_t n);
void *heap_calloc(size_t n, size_t size);
void *heap_realloc(void *p, size_t n);
void heap_free(void *p);
#include "client_heap.c"

#define TEST(name) static void name(void **state __attribute__((unused)))

TEST(freed_blocks_are_used_again)
{
    void *a = malloc(100), *b = malloc(100);

    assert_ptr_not_equal(a, b);
    assert_int_equal((uintptr_t)a % 16, 0);
    free(a);
    assert_ptr_equal(malloc(70), a);
    free(a);
    free(b);
    free(NULL);
}

TEST(calloc_gives_zeros_and_checks_the_product)
{
    char *p = malloc(1000);

    memset(p, 0xFF, 1000);
    free(p);
    p = calloc(10, 100);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(p[i], 0);
    free(p);
    assert_null(calloc(SIZE_MAX / 2, 3));
    assert_int_equal(errno, ENOMEM);
    assert_null(malloc(SIZE_MAX));
    assert_null(malloc(PTRDIFF_MAX));
}

/* Blocks of all sizes, filled, grown, shrunk and freed in a random order; none touches another. */
TEST(blocks_keep_to_themselves)
{
    enum { LIVE = 64, ROUNDS = 20000, LARGEST = 1 << 20 };
    static struct {
        unsigned char *p;
        size_t n;
    } live[LIVE];
    uint64_t x = 88172645463325252u;

    for (int round = 0; round < ROUNDS; round++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        size_t i = x % LIVE, n = (x >> 8) % (x >> 40 & 63 ? 600 : LARGEST) + 1;
        size_t kept = live[i].n < n ? live[i].n : n;
        for (size_t k = 0; k < live[i].n; k += 97)
            assert_int_equal(live[i].p[k], (unsigned char)i);
        if (x >> 32 & 1) {
            live[i].p = realloc(live[i].p, n);
        } else {
            free(live[i].p);
            live[i].p = malloc(n);
            kept = 0;
        }
        assert_non_null(live[i].p);
        for (size_t k = 0; k < kept; k += 97)
            assert_int_equal(live[i].p[k], (unsigned char)i);
        memset(live[i].p, (int)i, n);
        live[i].n = n;
    }
    for (size_t i = 0; i < LIVE; i++)
        free(live[i].p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(freed_blocks_are_used_again),
        cmocka_unit_test(calloc_gives_zeros_and_checks_the_product),
        cmocka_unit_test(blocks_keep_to_themselves),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
