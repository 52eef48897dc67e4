/* test_gpu.c - the GPU planner, one promise at a time */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "gpu_world.h"

static struct gw w;

static int setup(void **state)
{
    (void)state;
    gw_init(&w, &(struct gpu_conf){0});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gw_done(&w);
    return 0;
}

static uint64_t add(const char *family, int32_t epochs)
{
    struct gpu_job j = gw_ordinary(&w, family, epochs);

    return gw_add(&w, &j);
}

static struct gpu_view view(uint64_t job)
{
    struct gpu_view v;

    assert_true(gpus_view(w.gpus, w.now_ms, job, &v));
    return v;
}

static void starts_on_free_devices(void **state)
{
    (void)state;
    gw_node(&w, 0, 2, 16);
    uint64_t a = add("a", 10), b = add("b", 10);
    gw_turn(&w);
    assert_true(view(a).running && view(b).running);
    assert_false(gpu_set_overlap(&w.jobs[0].devices, &w.jobs[1].devices));
    assert_int_equal(view(a).reserved_bytes, 3 * GW_GIB);
}

static void keeps_to_the_nodes_it_may_use(void **state)
{
    struct gpu_job j = gw_ordinary(&w, "a", 10);
    struct err e;

    (void)state;
    gw_node(&w, 0, 4, 16);
    gw_node(&w, 1, 1, 16);
    j.share = false;
    j.nodes = gpu_node_bit(1);
    uint64_t first = gw_add(&w, &j);
    j.job++;
    uint64_t second = gw_add(&w, &j);
    gw_turn(&w);
    assert_true(view(first).running);
    assert_int_equal(gw_at(&w, first)->node, 1);
    assert_false(view(second).running); /* although there are four on the other */
    gpus_set_nodes(w.gpus, second, 0);
    w.now_ms += 10000;
    gw_turn(&w);
    assert_true(view(second).running);
    assert_int_equal(gw_at(&w, second)->node, 0);
    j.job = 999;
    j.counts[0] = j.ref = 2;
    assert_int_equal(gpus_add(w.gpus, w.now_ms, &j, &e), -1);
    assert_non_null(strstr(e.text, "the largest node has 1"));
}

static void two_share_under_memory_and_the_third_waits(void **state)
{
    (void)state;
    gw_node(&w, 0, 1, 16);
    for (int i = 0; i < 3; i++) {
        struct gpu_job j = gw_ordinary(&w, "a", 20);
        j.mem_bytes = 6 * GW_GIB;
        gw_add(&w, &j);
    }
    gw_turn(&w);
    gw_run(&w, 5);
    assert_int_equal(gw_running(&w), 2);
    assert_true(gpu_set_equal(&w.jobs[0].devices, &w.jobs[1].devices));
    assert_int_equal(view(1).n_with, 1);
    assert_int_equal(view(1).with[0], 2);
    assert_false(view(3).running);
    assert_int_equal(view(3).wait, GPU_WAIT_MEMORY);
}

static void who_will_not_share_is_alone(void **state)
{
    (void)state;
    gw_node(&w, 0, 1, 16);
    struct gpu_job j = gw_ordinary(&w, "a", 4);
    j.share = false;
    gw_add(&w, &j);
    gw_turn(&w);
    add("a", 4);
    gw_run(&w, 1200);
    assert_true(view(1).running);
    assert_false(view(2).running);
    assert_int_equal(view(2).wait, GPU_WAIT_NO_SHARE);
    gw_run(&w, 6000);
    assert_int_equal(w.jobs[1].done, 4);
}

static void what_fits_nowhere_is_refused(void **state)
{
    (void)state;
    struct gpu_job j = gw_ordinary(&w, "a", 4);
    struct err e;

    gw_node(&w, 0, 4, 16);
    j.counts[0] = j.ref = 8;
    assert_int_equal(gpus_add(w.gpus, w.now_ms, &j, &e), -1);
    assert_non_null(strstr(e.text, "8 GPUs"));
    j.counts[0] = j.ref = 1;
    j.mem_bytes = 17 * GW_GIB;
    assert_int_equal(gpus_add(w.gpus, w.now_ms, &j, &e), -1);
    assert_non_null(strstr(e.text, "17408 MiB"));
    j.mem_bytes = 0;
    j.n_counts = 0;
    assert_int_equal(gpus_add(w.gpus, w.now_ms, &j, &e), -1);
}

static void a_gang_stays_on_one_node(void **state)
{
    (void)state;
    gw_node(&w, 0, 2, 16);
    gw_node(&w, 1, 4, 16);
    for (int i = 0; i < 2; i++) {
        struct gpu_job j = gw_ordinary(&w, "a", 5);
        j.counts[0] = j.ref = 2 + 2 * i;
        gw_add(&w, &j);
    }
    gw_run(&w, 5);
    assert_true(view(1).running && view(2).running);
    assert_int_equal(w.jobs[1].node, 1);
    assert_int_equal(gpu_set_count(&w.jobs[1].devices), 4);
}

static void elastic_grows_alone_and_shrinks_in_company(void **state)
{
    (void)state;
    gw_node(&w, 0, 4, 16);
    struct gpu_job j = gw_ordinary(&w, "a", 100);
    j.n_counts = 3;
    j.counts[1] = 2;
    j.counts[2] = 4;
    j.share = false;
    gw_add(&w, &j);
    gw_turn(&w);
    assert_int_equal(gpu_set_count(&w.jobs[0].devices), 4);
    gw_run(&w, 3600);
    for (int i = 0; i < 3; i++) {
        j = gw_ordinary(&w, "b", 12);
        j.share = false;
        gw_add(&w, &j);
    }
    gw_run(&w, 1800);
    assert_int_equal(gw_running(&w), 4);
    assert_int_equal(gpu_set_count(&w.jobs[0].devices), 1);
    assert_true(view(1).preemptions >= 1);
}

static void the_urgent_one_gets_the_device(void **state)
{
    (void)state;
    gw_node(&w, 0, 1, 16);
    struct gpu_job j = gw_ordinary(&w, "a", 6);
    j.share = false;
    gw_add(&w, &j);
    gw_turn(&w);
    gw_run(&w, 100);
    j = gw_ordinary(&w, "b", 50);
    j.share = false;
    j.priority = 2;
    gw_add(&w, &j);
    gw_run(&w, 700); /* within one epoch, long before its minimum */
    assert_false(view(1).running);
    assert_true(view(2).running);
}

static void who_may_not_be_stopped_is_not(void **state)
{
    (void)state;
    gw_node(&w, 0, 1, 16);
    struct gpu_job j = gw_ordinary(&w, "a", 50);
    j.share = false;
    j.preempt = GPU_PREEMPT_NEVER;
    gw_add(&w, &j);
    gw_turn(&w);
    j = gw_ordinary(&w, "b", 2);
    j.share = false;
    j.priority = 2;
    gw_add(&w, &j);
    gw_run(&w, 3 * 3600);
    assert_true(view(1).running);
    assert_int_equal(w.jobs[0].stops, 0);
    assert_false(w.jobs[0].stop);
}

static void the_estimate_is_replaced(void **state)
{
    (void)state;
    gw_node(&w, 0, 1, 16);
    struct gpu_job j = gw_ordinary(&w, "a", 10);
    gw_add(&w, &j);
    w.jobs[0].epoch_s = 60; /* said: 600 */
    gw_turn(&w);
    assert_true(view(1).estimate_s > 5000);
    gw_run(&w, 100);
    assert_true(view(1).estimate_s < 1200);
    gw_run(&w, 200);
    assert_true(view(1).estimate_s < 700 && view(1).estimate_s > 500);
}

static void the_reservation_follows_the_measurement(void **state)
{
    (void)state;
    gw_node(&w, 0, 1, 16);
    struct gpu_job j = gw_ordinary(&w, "a", 20);
    j.mem_bytes = 2 * GW_GIB;
    gw_add(&w, &j);
    gw_turn(&w);
    gpus_measured(w.gpus, w.now_ms, 1, 9 * GW_GIB);
    assert_true(view(1).reserved_bytes >= 9 * GW_GIB + 9 * GW_GIB / 10);
    gpus_measured(w.gpus, w.now_ms, 1, 0); /* not measured: nothing shrinks */
    assert_true(view(1).reserved_bytes >= 9 * GW_GIB + 9 * GW_GIB / 10);
    j = gw_ordinary(&w, "b", 20);
    j.mem_bytes = 8 * GW_GIB;
    gw_add(&w, &j);
    gw_run(&w, 1200);
    assert_false(view(2).running && view(1).running);
}

static void a_full_device_loses_its_youngest_at_once(void **state)
{
    (void)state;
    gw_node(&w, 0, 1, 16);
    add("a", 20);
    gw_run(&w, 30);
    add("b", 20);
    gw_run(&w, 30);
    assert_true(view(1).running && view(2).running);
    gpus_measured(w.gpus, w.now_ms, 1, 8 * GW_GIB);
    gpus_measured(w.gpus, w.now_ms, 2, 8 * GW_GIB);
    gw_turn(&w);
    assert_true(w.jobs[1].stop_now);
    assert_false(w.jobs[0].stop_now);
}

static void out_of_memory_grows_the_reservation(void **state)
{
    (void)state;
    gw_node(&w, 0, 1, 16);
    add("a", 20);
    gw_turn(&w);
    w.jobs[0].runs = false;
    gpus_stopped(w.gpus, w.now_ms, 1, GPU_STOPPED_NO_MEMORY);
    assert_true(view(1).reserved_bytes > 4 * GW_GIB);
    for (int i = 0; i < 8; i++) { /* until only a whole device will do */
        gw_run(&w, 2);
        w.jobs[0].runs = false;
        gpus_stopped(w.gpus, w.now_ms, 1, GPU_STOPPED_NO_MEMORY);
    }
    gw_run(&w, 2);
    assert_true(view(1).running);
}

static void a_refused_host_does_not_idle_the_device(void **state)
{
    (void)state;
    gw_node(&w, 0, 1, 16);
    struct gpu_job j = gw_ordinary(&w, "a", 2);
    j.share = false;
    w.host_says_no = gw_add(&w, &j);
    j = gw_ordinary(&w, "b", 20);
    j.share = false;
    gw_add(&w, &j);
    gw_run(&w, 5);
    assert_false(view(1).running);
    assert_true(view(2).running);
    assert_int_equal(view(1).wait, GPU_WAIT_HOST);
}

static void a_closed_node_takes_nobody(void **state)
{
    (void)state;
    struct gpu_device_state d = {.mem_bytes = 16 * GW_GIB, .usable = true};

    gpus_node(w.gpus, w.now_ms, 0, &d, 1, false);
    add("a", 3);
    gw_run(&w, 5);
    assert_int_equal(view(1).wait, GPU_WAIT_CLOSED);
    gpus_node(w.gpus, w.now_ms, 0, &d, 1, true);
    gw_run(&w, 5);
    assert_true(view(1).running);
    gpus_node(w.gpus, w.now_ms, 0, NULL, 0, true); /* it goes; what runs stays */
    gw_run(&w, 5);
    assert_true(view(1).running);
}

static void a_restart_of_the_caller_changes_nothing(void **state)
{
    (void)state;
    gw_node(&w, 0, 2, 16);
    add("a", 20);
    add("b", 20);
    gw_run(&w, 4000);
    struct gpu_view before = view(1);
    struct gpus *old = w.gpus;
    size_t it = 0;
    struct str key;
    void *val;
    w.gpus = gpus_new(&(struct gpu_conf){0}, gw_hands(&w));
    while (map_str_next(&w.kept, &it, &key, &val))
        gpus_recall(w.gpus, key, str_of(val));
    gw_node(&w, 0, 2, 16);
    for (size_t i = 0; i < w.n_jobs; i++) {
        assert_int_equal(gpus_add(w.gpus, w.now_ms, &w.jobs[i].say, NULL), 0);
        gpus_adopt(w.gpus, w.now_ms, i + 1, 0, &w.jobs[i].devices, w.jobs[i].mem_bytes);
    }
    struct gpu_view after = view(1);
    assert_int_equal(after.epochs_done, before.epochs_done);
    assert_true(after.estimate_s > before.estimate_s * 0.99 &&
                after.estimate_s < before.estimate_s * 1.01);
    assert_true(gpu_set_equal(&after.devices, &before.devices));
    assert_int_equal(after.attempts, before.attempts);
    gpus_free(old);
    gw_run(&w, 10 * 3600);
    assert_int_equal(w.jobs[0].done, 20);
    assert_int_equal(w.jobs[1].done, 20);
}

/* After a restart a run that is about to end can hold some of the devices of another. */
static void adopted_runs_may_overlap_in_part(void **state)
{
    (void)state;
    struct gpu_set one = {0}, both = {0};

    gpu_set_add(&one, 1);
    gpu_set_add(&both, 0);
    gpu_set_add(&both, 1);
    gw_node(&w, 0, 2, 16);
    for (uint64_t i = 1; i <= 2; i++) {
        struct gpu_job j = gw_ordinary(&w, "a", 4);
        j.job = i;
        j.counts[0] = i == 1 ? 2 : 1;
        assert_int_equal(gpus_add(w.gpus, w.now_ms, &j, NULL), 0);
        gpus_adopt(w.gpus, w.now_ms, i, 0, i == 1 ? &both : &one, GW_GIB);
    }
    assert_int_equal(view(1).n_with, 1);
    assert_int_equal(view(2).n_with, 1);
    gpus_remove(w.gpus, w.now_ms, 1, false);
    assert_int_equal(view(2).n_with, 0);
    gpus_remove(w.gpus, w.now_ms, 2, false);
}

static void predictions_have_order(void **state)
{
    (void)state;
    gw_node(&w, 0, 1, 16);
    for (int i = 0; i < 4; i++) {
        struct gpu_job j = gw_ordinary(&w, "a", 4 + 3 * i);
        j.share = false;
        gw_add(&w, &j);
    }
    gw_run(&w, 5);
    for (uint64_t i = 1; i <= 4; i++) {
        struct gpu_view v = view(i);
        assert_true(v.finish.lo <= v.finish.at && v.finish.at <= v.finish.hi);
        assert_true(v.finish.at > w.now_ms);
        if (i > 1)
            assert_true(v.start.at > w.now_ms && v.finish.at > view(i - 1).finish.at);
    }
}

static void a_deadline_decides_when_that_is_the_objective(void **state)
{
    (void)state;
    gpus_free(w.gpus);
    w.gpus = gpus_new(&(struct gpu_conf){.objective = GPU_TARDINESS}, gw_hands(&w));
    gw_node(&w, 0, 1, 16);
    for (int i = 0; i < 2; i++) { /* the longer one is due first */
        struct gpu_job j = gw_ordinary(&w, "a", i ? 12 : 8);
        j.share = false;
        j.deadline_ms = w.now_ms + (i ? 3 : 40) * INT64_C(3600000);
        gw_add(&w, &j);
    }
    gw_run(&w, 5);
    assert_true(view(2).running);
    assert_false(view(1).running);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(starts_on_free_devices),
        T(keeps_to_the_nodes_it_may_use),
        T(two_share_under_memory_and_the_third_waits),
        T(who_will_not_share_is_alone),
        T(what_fits_nowhere_is_refused),
        T(a_gang_stays_on_one_node),
        T(elastic_grows_alone_and_shrinks_in_company),
        T(the_urgent_one_gets_the_device),
        T(who_may_not_be_stopped_is_not),
        T(the_estimate_is_replaced),
        T(the_reservation_follows_the_measurement),
        T(a_full_device_loses_its_youngest_at_once),
        T(out_of_memory_grows_the_reservation),
        T(a_refused_host_does_not_idle_the_device),
        T(a_closed_node_takes_nobody),
        T(a_restart_of_the_caller_changes_nothing),
        T(adopted_runs_may_overlap_in_part),
        T(predictions_have_order),
        T(a_deadline_decides_when_that_is_the_objective),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
