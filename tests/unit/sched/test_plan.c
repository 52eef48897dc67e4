/* test_plan.c - who starts, where, on which devices, and who must wait */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cluster.h"

static struct world w;

static int setup(void **state)
{
    (void)state;
    world_init(&w);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_done(&w);
    return 0;
}

/* The jobs decided on, in order; 0 ends the list. */
static void started(const uint64_t *jobs)
{
    size_t n = 0;

    world_plan(&w);
    while (jobs[n])
        n++;
    assert_int_equal(w.out.n, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(w.out.p[i].job, jobs[i]);
    }
}
#define STARTED(...) started((const uint64_t[]){__VA_ARGS__ __VA_OPT__(, ) 0})

static const struct resources slot = {.slots = 1};

static void oldest_first_until_slots_are_full(void **state)
{
    (void)state;
    world_node(&w, 2, 8, 1000, 0);
    for (int i = 0; i < 4; i++)
        world_job(&w, slot);
    STARTED(1, 2);
    STARTED();
    world_end(&w, 0);
    STARTED(3);
    assert_int_equal(queue_count(w.queue), 1);
}

static void priority_before_age(void **state)
{
    (void)state;
    world_node(&w, 2, 8, 1000, 0);
    world_job(&w, slot);
    world_add(&w, slot, 5, 0, 0, 0);
    world_add(&w, (struct resources){.slots = 1, .mcpu = 1}, 9, 0, 0, 0);
    STARTED(3, 2);
}

static void a_large_one_is_overtaken_while_patience_lasts(void **state)
{
    (void)state;
    world_node(&w, 8, 4, 1000, 0);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 3000});
    STARTED(1);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 4000});
    world_job(&w, (struct resources){.slots = 1, .mcpu = 1000});
    STARTED(3);
}

static void room_is_kept_when_patience_is_over(void **state)
{
    (void)state;
    world_node(&w, 8, 4, 1000, 0);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 3000});
    STARTED(1);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 4000});
    w.now_ms += w.patience_ms + 5000;
    world_job(&w, (struct resources){.slots = 1, .mcpu = 1000}); /* would take what job 2 needs */
    world_job(&w, slot);                                         /* takes no CPU: harmless */
    STARTED(4);
    world_end(&w, 0); /* the large run */
    STARTED(2);
    world_end(&w, 1);
    STARTED(3);
}

static void the_reservation_lets_pass_what_surely_ends_before(void **state)
{
    struct wait_item *quick, *slow;

    (void)state;
    world_node(&w, 8, 4, 1000, 0);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 3000})->limit_s = 1000;
    STARTED(1);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 4000});
    w.now_ms += w.patience_ms + 5000; /* job 1 ends in 695 s */
    slow = world_job(&w, (struct resources){.slots = 1, .mcpu = 600});
    slow->limit_s = 696;
    quick = world_job(&w, (struct resources){.slots = 1, .mcpu = 500});
    quick->limit_s = 694;
    STARTED(4);
}

/* Who frees the GPU frees a slot with it, so no slot stands empty for the job that waits for it. */
static void no_slot_stands_empty_for_a_job_that_waits_for_a_gpu(void **state)
{
    (void)state;
    world_node(&w, 4, 8, 1000, 1);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 2000, .gpus = 1});
    STARTED(1);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 5000, .gpus = 1});
    w.now_ms += w.patience_ms * 2;
    for (int i = 0; i < 4; i++)
        world_job(&w, slot);
    STARTED(3, 4, 5);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 4000}); /* job 2 would lack CPUs */
    world_end(&w, 1);
    STARTED(6);
    world_end(&w, 0);
    STARTED(2);
}

static void a_job_that_never_fits_holds_up_nobody(void **state)
{
    (void)state;
    world_node(&w, 2, 4, 1000, 0);
    world_add(&w, (struct resources){.slots = 1, .mem_bytes = 5000}, 100, 0, 0, 0);
    w.now_ms += w.patience_ms * 2;
    world_job(&w, slot);
    STARTED(2);
}

static void paused_queues_start_nothing(void **state)
{
    (void)state;
    world_node(&w, 2, 4, 1000, 0);
    world_add(&w, slot, 9, 0, 0, 1);
    world_add(&w, slot, 0, 0, 0, 2);
    queue_set_paused(w.queue, 1, true);
    STARTED(2);
    queue_set_paused(w.queue, 1, false);
    STARTED(1);
}

static void batch_limits_count_what_this_pass_starts(void **state)
{
    struct resources other = {.slots = 1, .mcpu = 1000};

    (void)state;
    world_node(&w, 8, 8, 1000, 0);
    for (int i = 0; i < 3; i++)
        world_add(&w, slot, 0, 7, 2, 0);
    world_add(&w, other, 0, 7, 2, 0);
    world_add(&w, slot, 0, 0, 0, 0);
    STARTED(1, 2, 5);
    STARTED();
    world_end(&w, 0);
    STARTED(3);
    world_end(&w, 0);
    STARTED(4);
}

static void drained_nodes_start_nothing(void **state)
{
    (void)state;
    world_node(&w, 2, 4, 1000, 0)->drained = true;
    world_job(&w, slot);
    STARTED();
    world_node(&w, 2, 4, 1000, 0);
    STARTED(1);
    assert_int_equal(w.out.p[0].node, 1);
}

static void devices_lowest_first(void **state)
{
    (void)state;
    world_node(&w, 8, 8, 1000, 4);
    gpu_set_add(&w.usage[0].gpus, 1);
    world_job(&w, (struct resources){.slots = 1, .gpus = 2});
    world_job(&w, (struct resources){.slots = 1, .gpus = 1});
    world_job(&w, (struct resources){.slots = 1, .gpus = 1});
    STARTED(1, 2);
    assert_int_equal(w.out.p[0].gpus.w[0], 0x5);
    assert_int_equal(w.out.p[1].gpus.w[0], 0x8);
}

static void gpu_nodes_are_left_to_who_needs_them(void **state)
{
    (void)state;
    world_node(&w, 4, 8, 1000, 2);
    world_node(&w, 4, 8, 1000, 0);
    world_job(&w, slot);
    STARTED(1);
    assert_int_equal(w.out.p[0].node, 1);
}

static void no_more_than_max_starts(void **state)
{
    (void)state;
    world_node(&w, 8, 8, 1000, 0);
    for (int i = 0; i < 5; i++)
        world_job(&w, slot);
    w.max_starts = 0;
    STARTED();
    w.max_starts = 3;
    STARTED(1, 2, 3);
}

static void one_reservation_per_node(void **state)
{
    struct resources big = {.slots = 1, .mcpu = 8000}, small = {.slots = 1, .mcpu = 1000};

    (void)state;
    world_node(&w, 8, 8, 1000, 0);
    world_node(&w, 8, 8, 1000, 0);
    world_job(&w, small);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 7500});
    STARTED(1, 2);
    world_add(&w, big, 3, 0, 0, 0);
    world_add(&w, (struct resources){.slots = 1, .mcpu = 7900}, 2, 0, 0, 0);
    w.now_ms += w.patience_ms * 2;
    world_job(&w, small);
    STARTED();
}

static void strict_queues_go_in_order(void **state)
{
    struct resources big = {.slots = 1, .mcpu = 8000}, small = {.slots = 1, .mcpu = 1000};

    (void)state;
    world_node(&w, 8, 8, 1000, 0);
    queue_set_rules(w.queue, 3, &(struct queue_rules){.strict = true});
    world_add(&w, small, 0, 0, 0, 3);
    world_add(&w, big, 0, 0, 0, 3);
    world_add(&w, small, 0, 0, 0, 3); /* would fit, but comes third */
    world_add(&w, small, 0, 0, 0, 4); /* of another queue */
    STARTED(1, 4);
    assert_true(queue_may_start(w.queue, &w.items[1]));
    assert_false(queue_may_start(w.queue, &w.items[2]));
    queue_set_rules(w.queue, 3, &(struct queue_rules){.strict = true, .backfill = true});
    STARTED(3);
}

static void a_queue_runs_as_many_as_it_may(void **state)
{
    struct resources other = {.slots = 1, .mcpu = 500};

    (void)state;
    world_node(&w, 8, 8, 1000, 0);
    queue_set_rules(w.queue, 3, &(struct queue_rules){.strict = true, .limit = 2});
    world_add(&w, slot, 0, 0, 0, 3);
    world_add(&w, other, 0, 0, 0, 3);
    world_add(&w, slot, 0, 0, 0, 3);
    STARTED(1, 2);
    STARTED();
    world_end(&w, 0);
    STARTED(3);
}

/* A job that is planned elsewhere holds up those behind it all the same. */
static void strict_order_over_gpus(void **state)
{
    struct plan_input s;

    (void)state;
    world_node(&w, 8, 8, 1000, 2);
    queue_set_rules(w.queue, 3, &(struct queue_rules){.strict = true});
    world_add(&w, slot, 0, 0, 0, 3);
    world_add(&w, (struct resources){.slots = 1, .gpus = 1}, 0, 0, 0, 3);
    world_add(&w, slot, 0, 0, 0, 3);
    s = world_input(&w);
    s.gpus_elsewhere = true;
    vec_clear(&w.out);
    plan(&s, &w.out);
    assert_int_equal(w.out.n, 1);
    assert_int_equal(w.out.p[0].job, 1);
    assert_true(queue_may_start(w.queue, &w.items[1]));
    assert_int_equal(plan_explain(&s, &w.items[2]).kind, WAIT_TURN);
    assert_int_equal(plan_explain(&s, &w.items[2]).other, 2);
}

static void a_user_runs_as_many_as_users_may(void **state)
{
    (void)state;
    world_limit_users(&w, 2);
    world_node(&w, 8, 8, 1000, 0);
    for (size_t i = 0; i < 3; i++)
        world_job(&w, slot);
    w.uid = 7;
    world_job(&w, slot);
    world_job(&w, (struct resources){.slots = 1, .mcpu = 500}); /* of another shape */
    world_job(&w, slot);
    STARTED(1, 2, 4, 5);
    struct plan_input s = world_input(&w);
    struct wait_reason r = plan_explain(&s, &w.items[5]);
    assert_int_equal(r.kind, WAIT_LIMIT);
    assert_int_equal(r.limit.kind, LIMIT_USER);
    assert_false(queue_may_start(w.queue, &w.items[5]));
    world_end(&w, 3);
    STARTED(6);
}

static void nothing_to_run_on(void **state)
{
    (void)state;
    world_job(&w, slot);
    STARTED();
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(oldest_first_until_slots_are_full),
        TEST(priority_before_age),
        TEST(a_large_one_is_overtaken_while_patience_lasts),
        TEST(room_is_kept_when_patience_is_over),
        TEST(the_reservation_lets_pass_what_surely_ends_before),
        TEST(no_slot_stands_empty_for_a_job_that_waits_for_a_gpu),
        TEST(a_job_that_never_fits_holds_up_nobody),
        TEST(paused_queues_start_nothing),
        TEST(batch_limits_count_what_this_pass_starts),
        TEST(drained_nodes_start_nothing),
        TEST(devices_lowest_first),
        TEST(gpu_nodes_are_left_to_who_needs_them),
        TEST(no_more_than_max_starts),
        TEST(one_reservation_per_node),
        TEST(strict_queues_go_in_order),
        TEST(a_queue_runs_as_many_as_it_may),
        TEST(strict_order_over_gpus),
        TEST(a_user_runs_as_many_as_users_may),
        TEST(nothing_to_run_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
