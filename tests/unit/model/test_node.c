/* test_node.c - fitting, what is lacking, devices, and that usage returns to nothing */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/node.h"

static struct device devices[3] = {{.index = 0}, {.index = 2}, {.index = 5}};
static const struct node node = {.name = "here",
                                 .slots = 4,
                                 .mcpu = 8000,
                                 .mem_bytes = 1000,
                                 .devices = devices,
                                 .n_devices = 3};

static void unstated_takes_only_a_slot(void **state)
{
    struct usage u = {.slots = 3, .mcpu = 8000, .mem_bytes = 1000, .gpus = {{0x7}}};

    (void)state;
    assert_true(resources_fit(&node, &u, &(struct resources){.slots = 1}));
    assert_false(resources_fit(&node, &u, &(struct resources){.slots = 2}));
    assert_false(resources_fit(&node, &u, &(struct resources){.slots = 1, .mcpu = 1}));
    assert_false(resources_fit(&node, &u, &(struct resources){.slots = 1, .mem_bytes = 1}));
    assert_false(resources_fit(&node, &u, &(struct resources){.slots = 1, .gpus = 1}));
}

static void never_means_an_empty_node_is_too_small(void **state)
{
    (void)state;
    assert_true(resources_ever_fit(&node, &(struct resources){8000, 1000, 3, 4}));
    assert_false(resources_ever_fit(&node, &(struct resources){8001, 0, 0, 1}));
    assert_false(resources_ever_fit(&node, &(struct resources){0, 1001, 0, 1}));
    assert_false(resources_ever_fit(&node, &(struct resources){0, 0, 4, 1}));
    assert_false(resources_ever_fit(&node, &(struct resources){0, 0, 0, 5}));
}

static void lacking(void **state)
{
    struct usage u = {.slots = 4, .mcpu = 7000, .mem_bytes = 900, .gpus = {{0x6}}};
    struct resources lack = resources_missing(&node, &u, &(struct resources){2500, 300, 2, 1});

    (void)state;
    assert_int_equal(lack.slots, 1);
    assert_int_equal(lack.mcpu, 1500);
    assert_int_equal(lack.mem_bytes, 200);
    assert_int_equal(lack.gpus, 1);
}

static void devices_by_place_lowest_first(void **state)
{
    struct gpu_set all = node_gpus(&node), some = {{0x24}};

    (void)state;
    assert_int_equal(all.w[0], 0x7);
    assert_int_equal(gpu_set_lowest(&all, 2).w[0], 0x3);
    assert_int_equal(gpu_set_lowest(&all, 0).w[0], 0);
    assert_int_equal(gpu_set_lowest(&some, 9).w[0], 0x24);
    struct node only_count = {.n_devices = 1024};
    all = node_gpus(&only_count);
    assert_int_equal(gpu_set_count(&all), 1024);
}

static void usage_returns_to_nothing(void **state)
{
    struct usage u = {0}, zero = {0};
    const struct gpu_set one = {{0x1}}, two = {{0x24}};
    struct resources a = {1500, 10, 1, 1}, b = {0, 0, 2, 3};

    (void)state;
    usage_add(&u, &a, &one);
    usage_add(&u, &b, &two);
    assert_int_equal(u.slots, 4);
    assert_int_equal(u.gpus.w[0], 0x25);
    assert_int_equal(u.runs, 2);
    usage_sub(&u, &a, &one);
    usage_sub(&u, &b, &two);
    assert_memory_equal(&u, &zero, sizeof(u));
}

static void users_of_a_node(void **state)
{
    const uint32_t uids[] = {0, 1000};
    struct node_users some = {uids, 2, false}, all = {.all = true}, none = {0};

    (void)state;
    assert_true(node_admits(&(struct node){0}, 7));
    assert_true(node_admits(&(struct node){.users = &some}, 1000));
    assert_false(node_admits(&(struct node){.users = &some}, 7));
    assert_true(node_admits(&(struct node){.users = &all}, 7));
    assert_false(node_admits(&(struct node){.users = &none}, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unstated_takes_only_a_slot),
        cmocka_unit_test(never_means_an_empty_node_is_too_small),
        cmocka_unit_test(lacking),
        cmocka_unit_test(devices_by_place_lowest_first),
        cmocka_unit_test(usage_returns_to_nothing),
        cmocka_unit_test(users_of_a_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
