/* test_queue.c - order, leaving from the middle, shapes, pauses, batches */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rand.h"
#include "base/util.h"
#include "sched/queue_priv.h"

static const struct resources one = {.slots = 1}, two = {.slots = 2};

static uint32_t shape_of(struct queue *q, const struct resources *need, uint64_t batch,
                         int32_t batch_max, uint32_t queue)
{
    return queue_shape_take(
        q, &(struct shape){.need = *need, .batch = batch, .batch_max = batch_max, .queue = queue});
}

static void order_is_priority_age_number(void **state)
{
    struct wait_item a = {.job = 1, .since_ms = 5, .priority = 0},
                     b = {.job = 2, .since_ms = 9, .priority = 1},
                     c = {.job = 3, .since_ms = 5, .priority = 0},
                     d = {.job = 4, .since_ms = -3, .priority = 0};

    (void)state;
    assert_true(wait_item_before(&b, &a));
    assert_true(wait_item_before(&a, &c));
    assert_true(wait_item_before(&d, &a));
    assert_false(wait_item_before(&a, &a));
}

static void same_facts_same_shape(void **state)
{
    struct queue *q = queue_new(NULL);
    uint32_t a = shape_of(q, &one, 0, 0, 0);

    (void)state;
    assert_int_equal(shape_of(q, &one, 0, 0, 0), a);
    assert_int_equal(shape_of(q, &one, 7, 0, 0), a); /* no limit, no shape of its own */
    assert_int_not_equal(shape_of(q, &two, 0, 0, 0), a);
    assert_int_not_equal(shape_of(q, &one, 7, 3, 0), a);
    assert_int_not_equal(shape_of(q, &one, 0, 0, 1), a);
    assert_int_equal(q->shapes.n, 4);
    assert_int_equal(queue_shape_at(q, a)->need.slots, 1);
    queue_free(q);
}

enum { MANY = 3000 };
/* Random pushes and removals, then everything comes out in order. */
static void comes_out_in_order(void **state)
{
    static struct wait_item items[MANY];
    struct queue *q = queue_new(NULL);
    uint32_t shape = shape_of(q, &one, 0, 0, 0);
    struct rng r;
    size_t left = MANY;

    (void)state;
    rng_seed(&r, 7);
    for (size_t i = 0; i < MANY; i++) {
        items[i] = (struct wait_item){.job = i + 1,
                                      .since_ms = (int64_t)rng_below(&r, 50),
                                      .priority = (int32_t)rng_below(&r, 5),
                                      .shape = shape};
        assert_false(queue_contains(q, &items[i]));
        queue_push(q, &items[i]);
    }
    for (size_t i = 0; i < MANY; i += 3, left--) {
        assert_true(queue_contains(q, &items[i]));
        queue_remove(q, &items[i]);
        assert_false(queue_contains(q, &items[i]));
    }
    assert_int_equal(queue_count(q), left);
    assert_int_equal(queue_count_shape(q, shape), left);
    struct wait_item *last = NULL, *it;
    for (size_t k = 0; (it = queue_head(q, shape)); k++) {
        assert_int_equal(queue_ahead(q, it), 0);
        if (last)
            assert_true(wait_item_before(last, it));
        last = it;
        queue_remove(q, it);
    }
    assert_int_equal(queue_count(q), 0);
    queue_free(q);
}

static void counts_who_is_ahead(void **state)
{
    static struct wait_item items[200];
    struct queue *q = queue_new(NULL);
    uint32_t shapes[2] = {shape_of(q, &one, 0, 0, 0), shape_of(q, &two, 0, 0, 0)};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
        items[i] = (struct wait_item){
            .job = i + 1, .since_ms = (int64_t)(i * 7919 % 200), .shape = shapes[i % 2]};
        queue_push(q, &items[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(items); i++) {
        assert_int_equal(queue_ahead(q, &items[i]), items[i].since_ms);
        assert_true(queue_contains(q, &items[i]));
    }
    queue_free(q);
}

static void pausing(void **state)
{
    struct queue *q = queue_new(NULL);
    uint32_t a = shape_of(q, &one, 0, 0, 3), b = shape_of(q, &one, 0, 0, 4);

    (void)state;
    queue_set_paused(q, 3, true);
    assert_true(queue_paused(q, 3));
    assert_false(queue_paused(q, 4));
    assert_true(queue_refusal(q, a) != NULL);
    assert_false(queue_refusal(q, b) != NULL);
    uint32_t later = shape_of(q, &two, 0, 0, 3);
    assert_true(queue_refusal(q, later) != NULL);
    queue_set_paused(q, 3, false);
    assert_false(queue_refusal(q, a) != NULL);
    assert_false(queue_refusal(q, later) != NULL);
    queue_free(q);
}

static void batches(void **state)
{
    struct queue *q = queue_new(NULL);
    uint32_t a = shape_of(q, &one, 9, 4, 0), b = shape_of(q, &two, 9, 4, 0);

    (void)state;
    queue_count_running(q, a, 1);
    queue_count_running(q, b, 2);
    assert_null(queue_refusal(q, a));
    const struct limit *batch = &q->shapes.p[a].groups[LIMIT_BATCH]->limit;
    assert_int_equal(batch->running, 3);
    queue_count_running(q, a, 1);
    assert_ptr_equal(queue_refusal(q, a), batch);
    assert_ptr_equal(queue_refusal(q, b), batch);
    assert_null(q->shapes.p[a].groups[LIMIT_USER]);
    queue_free(q);
}

/* Users count only when they are limited; then each has shapes and a limit of its own. */
static void users(void **state)
{
    struct queue *q = queue_new(&(struct limit_conf){.per_user = 1});
    uint32_t root = queue_shape_take(q, &(struct shape){.need = one, .uid = 0}),
             ada = queue_shape_take(q, &(struct shape){.need = one, .uid = 1000}),
             more = queue_shape_take(q, &(struct shape){.need = two, .uid = 1000});

    (void)state;
    assert_int_not_equal(root, ada);
    queue_count_running(q, ada, 1);
    assert_int_equal(queue_refusal(q, more)->kind, LIMIT_USER);
    assert_null(queue_refusal(q, root));
    queue_count_running(q, ada, -1);
    assert_null(queue_refusal(q, more));
    queue_shape_drop(q, ada);
    queue_shape_drop(q, more);
    queue_free(q);
}

/* A daemon that sees a million batches must not keep a shape for each. */
static void forgotten_batches_leave_nothing(void **state)
{
    struct queue *q = queue_new(NULL);
    struct wait_item it = {.job = 1};

    (void)state;
    for (uint64_t batch = 1; batch <= 1000; batch++) {
        it.shape = shape_of(q, &one, batch, 2, 0);
        queue_push(q, &it);
        queue_remove(q, &it);
        queue_count_running(q, it.shape, 1);
        queue_count_running(q, it.shape, -1);
        queue_shape_drop(q, it.shape);
    }
    assert_int_equal(q->shapes.n, 1);
    queue_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_priority_age_number),
        cmocka_unit_test(same_facts_same_shape),
        cmocka_unit_test(comes_out_in_order),
        cmocka_unit_test(counts_who_is_ahead),
        cmocka_unit_test(pausing),
        cmocka_unit_test(batches),
        cmocka_unit_test(users),
        cmocka_unit_test(forgotten_batches_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
