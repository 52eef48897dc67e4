/* test_map.c - hash maps: growth, deletion without tombstones, iteration */
#include "base/map.h"
#include "base/util.h"
#include "unit.h"
#include <stdio.h>

static void *ptr(uint64_t v)
{
    return (void *)(uintptr_t)(v + 1);
}

TEST(u64_put_get_del)
{
    struct map_u64 m = {0};

    assert_null(map_u64_get(&m, 0));
    assert_null(map_u64_del(&m, 0));
    map_u64_put(&m, 0, ptr(0));
    map_u64_put(&m, UINT64_MAX, ptr(1));
    map_u64_put(&m, 0, ptr(2));
    assert_int_equal(m.n, 2);
    assert_ptr_equal(map_u64_get(&m, 0), ptr(2));
    assert_ptr_equal(map_u64_del(&m, 0), ptr(2));
    assert_null(map_u64_get(&m, 0));
    assert_ptr_equal(map_u64_get(&m, UINT64_MAX), ptr(1));
    map_u64_done(&m);
}

TEST(u64_many_with_deletions)
{
    enum { N = 20000 };
    struct map_u64 m = {0};

    for (uint64_t k = 0; k < N; k++)
        map_u64_put(&m, k << 20, ptr(k));
    for (uint64_t k = 0; k < N; k += 3)
        assert_ptr_equal(map_u64_del(&m, k << 20), ptr(k));
    for (uint64_t k = 0; k < N; k++)
        assert_ptr_equal(map_u64_get(&m, k << 20), k % 3 ? ptr(k) : NULL);
    size_t it = 0, seen = 0;
    uint64_t key, sum = 0;
    void *val;
    while (map_u64_next(&m, &it, &key, &val)) {
        assert_ptr_equal(val, ptr(key >> 20));
        seen++;
        sum += key >> 20;
    }
    assert_int_equal(seen, m.n);
    assert_true(sum == (uint64_t)N * (N - 1) / 2 - 3 * (uint64_t)(6666 * 6667 / 2));
    map_u64_done(&m);
}

TEST(u64_churn_does_not_grow)
{
    struct map_u64 m = {0};

    for (uint64_t k = 0; k < 100000; k++) {
        map_u64_put(&m, k, ptr(k));
        if (k >= 10)
            assert_ptr_equal(map_u64_del(&m, k - 10), ptr(k - 10));
    }
    assert_int_equal(m.n, 10);
    assert_int_equal(m.cap, 16);
    map_u64_done(&m);
}

TEST(u64_clear_releases_every_value)
{
    struct map_u64 m = {0};
    size_t it = 0;

    for (uint64_t k = 0; k < 100; k++)
        map_u64_put(&m, k, malloc(1)); /* a value that is not released is a leak */
    map_u64_clear(&m, free);
    assert_null(map_u64_each(&m, &it));
    map_u64_put(&m, 7, ptr(7)); /* the map can be used again */
    assert_ptr_equal(map_u64_each(&m, &it), ptr(7));
    map_u64_done(&m);
}

TEST(str_put_get_del)
{
    struct map_str m = {0};
    char key[8] = "abc";

    assert_null(map_str_get(&m, STR("abc")));
    map_str_put(&m, str_of(key), ptr(1));
    key[0] = 'x'; /* the map has its own copy */
    assert_ptr_equal(map_str_get(&m, STR("abc")), ptr(1));
    map_str_put(&m, STR(""), ptr(2));
    map_str_put(&m, (struct str){"a\0b", 3}, ptr(3));
    map_str_put(&m, (struct str){"a\0c", 3}, ptr(4));
    assert_int_equal(m.n, 4);
    assert_ptr_equal(map_str_get(&m, (struct str){"a\0b", 3}), ptr(3));
    assert_ptr_equal(map_str_get(&m, (struct str){NULL, 0}), ptr(2));
    assert_ptr_equal(map_str_del(&m, STR("")), ptr(2));
    assert_null(map_str_del(&m, STR("")));
    map_str_done(&m);
}

TEST(str_many_with_deletions)
{
    enum { N = 5000 };
    struct map_str m = {0};
    char key[32];

    for (uint64_t k = 0; k < N; k++) {
        snprintf(key, sizeof(key), "job-%u", (unsigned)k);
        map_str_put(&m, str_of(key), ptr(k));
    }
    for (uint64_t k = 0; k < N; k += 2) {
        snprintf(key, sizeof(key), "job-%u", (unsigned)k);
        assert_ptr_equal(map_str_del(&m, str_of(key)), ptr(k));
    }
    for (uint64_t k = 0; k < N; k++) {
        snprintf(key, sizeof(key), "job-%u", (unsigned)k);
        assert_ptr_equal(map_str_get(&m, str_of(key)), k % 2 ? ptr(k) : NULL);
    }
    size_t it = 0, seen = 0;
    struct str name;
    void *val;
    while (map_str_next(&m, &it, &name, &val)) {
        assert_int_equal(name.p[name.n], '\0');
        seen++;
    }
    assert_int_equal(seen, N / 2);
    map_str_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(u64_put_get_del),         cmocka_unit_test(u64_many_with_deletions),
        cmocka_unit_test(u64_churn_does_not_grow), cmocka_unit_test(u64_clear_releases_every_value),
        cmocka_unit_test(str_put_get_del),         cmocka_unit_test(str_many_with_deletions),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
