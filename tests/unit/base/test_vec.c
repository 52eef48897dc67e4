/* test_vec.c - typed growable arrays */
#include "base/vec.h"
#include "unit.h"

TEST(grows_and_keeps_order)
{
    VEC(int) v = {0};

    for (int i = 0; i < 1000; i++)
        vec_push(&v, i * 2);
    assert_int_equal(v.n, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(v.p[i], i * 2);
    assert_int_equal(vec_last(&v), 1998);
    assert_int_equal(vec_pop(&v), 1998);
    assert_int_equal(v.n, 999);
    vec_done(&v);
    assert_null(v.p);
    assert_int_equal(v.cap, 0);
}

TEST(removes_from_the_middle)
{
    VEC(char) v = {0};

    for (char c = 'a'; c <= 'e'; c++)
        vec_push(&v, c);
    vec_remove(&v, 1);
    vec_remove(&v, 3);
    assert_int_equal(v.n, 3);
    assert_memory_equal(v.p, "acd", 3);
    vec_clear(&v);
    assert_int_equal(v.n, 0);
    vec_done(&v);
}

TEST(reserve_does_not_shrink)
{
    VEC(uint64_t) v = {0};

    vec_reserve(&v, 100);
    assert_true(v.cap >= 100);
    size_t cap = v.cap;
    vec_reserve(&v, 10);
    assert_int_equal(v.cap, cap);
    vec_done(&v);
}

static size_t freed;

static void count_and_free(char *text)
{
    freed++;
    free(text);
}

static void count_at(const int *at)
{
    freed += (size_t)*at;
}

TEST(elements_are_freed_with_the_array)
{
    VEC(char *) texts = {0};
    VEC(int) numbers = {0};

    freed = 0;
    vec_push(&texts, xstrdup("a"));
    vec_push(&texts, xstrdup("b"));
    vec_free_each(&texts, count_and_free);
    assert_int_equal(freed, 2);
    assert_null(texts.p);
    assert_int_equal(texts.n, 0);
    vec_free_each(&texts, count_and_free); /* none is left */
    vec_push(&numbers, 40);
    vec_done_each(&numbers, count_at);
    assert_int_equal(freed, 42);
    assert_null(numbers.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_keeps_order),
        cmocka_unit_test(removes_from_the_middle),
        cmocka_unit_test(reserve_does_not_shrink),
        cmocka_unit_test(elements_are_freed_with_the_array),
    };
    return cmocka_run_group_tests_name("vec", tests, NULL, NULL);
}
