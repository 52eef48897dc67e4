/* test_rand.c - the seeded generator */
#include "base/rand.h"
#include "base/util.h"
#include "unit.h"
#include <stdbool.h>
#include <string.h>

TEST(same_seed_same_numbers)
{
    struct rng a, b, c;

    rng_seed(&a, 42);
    rng_seed(&b, 42);
    rng_seed(&c, 43);
    bool differs = false;
    for (int i = 0; i < 100; i++) {
        uint64_t x = rng_next(&a);
        assert_true(x == rng_next(&b));
        differs |= x != rng_next(&c);
    }
    assert_true(differs);
}

/* The published first outputs of xoshiro256** for state {1,2,3,4}. */
TEST(known_sequence)
{
    struct rng r = {{1, 2, 3, 4}};

    assert_true(rng_next(&r) == 11520);
    assert_true(rng_next(&r) == 0);
    assert_true(rng_next(&r) == 1509978240);
    assert_true(rng_next(&r) == 1215971899390074240);
}

TEST(below_stays_below_and_reaches_all)
{
    struct rng r;
    unsigned seen[7] = {0};

    rng_seed(&r, 1);
    for (int i = 0; i < 7000; i++)
        seen[rng_below(&r, 7)]++;
    for (size_t i = 0; i < ARRAY_SIZE(seen); i++)
        assert_in_range(seen[i], 800, 1200);
    for (int i = 0; i < 100; i++) {
        assert_true(rng_below(&r, 1) == 0);
        assert_true(rng_below(&r, UINT64_MAX) < UINT64_MAX);
    }
}

TEST(unit_interval)
{
    struct rng r;
    double sum = 0;

    rng_seed(&r, 9);
    for (int i = 0; i < 10000; i++) {
        double u = rng_unit(&r);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    assert_true(sum > 4800 && sum < 5200);
}

TEST(kernel_bytes_differ)
{
    uint8_t a[64] = {0}, b[64] = {0};

    random_bytes(a, sizeof(a));
    random_bytes(b, sizeof(b));
    assert_true(memcmp(a, b, sizeof(a)) != 0);
    random_bytes(a, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_same_numbers),
        cmocka_unit_test(known_sequence),
        cmocka_unit_test(below_stays_below_and_reaches_all),
        cmocka_unit_test(unit_interval),
        cmocka_unit_test(kernel_bytes_differ),
    };
    return cmocka_run_group_tests_name("rand", tests, NULL, NULL);
}
