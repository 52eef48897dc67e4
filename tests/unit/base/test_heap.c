/* test_heap.c - the binary heap */
#include "base/heap.h"
#include "base/util.h"
#include "base/vec.h"
#include "unit.h"

struct thing {
    int key;
    size_t pos;
};

static bool thing_before(struct thing *const *a, struct thing *const *b)
{
    return (*a)->key < (*b)->key;
}

static void thing_placed(struct thing *const *t, size_t at)
{
    (*t)->pos = at;
}

static bool int_before(const int *a, const int *b)
{
    return *a < *b;
}

HEAP_DEFINE(things, struct thing *, thing_before, thing_placed)
HEAP_DEFINE(ints, int, int_before, HEAP_NO_PLACE)

TEST(comes_out_in_order)
{
    VEC(int) v = {0};

    for (int i = 0; i < 500; i++) {
        vec_push(&v, i * 7919 % 500);
        ints_fix(v.p, v.n, v.n - 1);
    }
    for (int i = 0; i < 500; i++) {
        assert_int_equal(v.p[0], i);
        ints_remove(v.p, &v.n, 0);
    }
    assert_int_equal(v.n, 0);
    vec_done(&v);
}

TEST(orders_an_array)
{
    int p[] = {5, 3, 9, 1, 1, 8};
    size_t n = ARRAY_SIZE(p);

    ints_make(p, n);
    for (int last = 0; n > 0; ints_remove(p, &n, 0)) {
        assert_true(p[0] >= last);
        last = p[0];
    }
    ints_make(p, 0);
}

TEST(elements_know_their_places)
{
    struct thing all[20];
    VEC(struct thing *) v = {0};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        all[i].key = (int)(i * 13 % 20);
        vec_push(&v, &all[i]);
        things_fix(v.p, v.n, v.n - 1);
    }
    for (size_t i = 0; i < v.n; i++)
        assert_int_equal(v.p[i]->pos, i);
    things_remove(v.p, &v.n, all[7].pos);
    all[3].key = -1; /* to the front */
    things_fix(v.p, v.n, all[3].pos);
    assert_ptr_equal(v.p[0], &all[3]);
    all[3].key = 100; /* and to the back */
    things_fix(v.p, v.n, 0);
    assert_ptr_not_equal(v.p[0], &all[3]);
    assert_int_equal(v.n, 19);
    for (size_t i = 0; i < v.n; i++)
        assert_int_equal(v.p[i]->pos, i);
    vec_done(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_out_in_order),
        cmocka_unit_test(orders_an_array),
        cmocka_unit_test(elements_know_their_places),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
