/* test_gpu_family.c - what jobs of one family tell about each other, and where a job's own epochs
 * win
 *
 * A family here is one script: its epochs take STEP_S for each step.  Predictions are compared with
 * what the world really does.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "gpu_world.h"

static const double STEP_S = 0.5;
static struct gw w;

static int setup(void **state)
{
    (void)state;
    gw_init(&w, &(struct gpu_conf){0});
    gw_node(&w, 0, 1, 16);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gw_done(&w);
    return 0;
}

static struct gpu_view view(uint64_t job)
{
    struct gpu_view v;

    assert_true(gpus_view(w.gpus, w.now_ms, job, &v));
    return v;
}

static void assert_within(double factor, double said, double real)
{
    if (!(said > real / factor && said < real * factor))
        print_error("said %.1f, it is %.1f\n", said, real);
    assert_true(said > real / factor && said < real * factor);
}

/* A job of so many steps each epoch, which take slow * STEP_S; its owner says estimate_s, 0 =
 * nothing.
 */
static uint64_t add(int32_t epochs, double steps, double slow, double estimate_s)
{
    struct gpu_job j = gw_ordinary(&w, "python train.py 32", epochs);

    j.epoch_work = steps;
    j.estimate_s = estimate_s;
    gw_add(&w, &j);
    w.jobs[j.job - 1].epoch_s = steps * STEP_S * slow;
    return j.job;
}

/* A trial: three epochs of ten steps. */
static void try_it(void)
{
    uint64_t trial = add(3, 10, 1, 0);

    gw_run(&w, 300);
    assert_false(w.jobs[trial - 1].known);
}

static void figures_of_a_family_scale_with_the_steps(void **state)
{
    (void)state;
    try_it();
    uint64_t job = add(40, 1000, 1, 0);
    assert_within(1.2, view(job).left_s, 40 * 1000 * STEP_S);
    gw_run(&w, 600); /* its first epoch */
    assert_int_equal(view(job).epochs_done, 1);
    assert_within(1.1, view(job).left_s, 39 * 1000 * STEP_S);
}

/* After one epoch, in company or alone, waiting or running, whatever the family showed. */
static void own_epochs_come_before_the_family(void **state)
{
    static const double slow[] = {0.01, 0.3, 1, 5, 100};

    for (size_t i = 0; i < ARRAY_SIZE(slow); i++) {
        try_it();
        uint64_t job = add(40, 1000, slow[i], 0);
        double epoch_s = 1000 * STEP_S * slow[i];
        struct gpu_job urgent = gw_ordinary(&w, "urgent", 3);
        urgent.share = false;
        urgent.priority = 2;
        gw_run(&w, 30 + 1.5 * epoch_s);
        assert_true(view(job).epochs_done >= 1);
        assert_within(1.2, view(job).left_s, (40 - view(job).epochs_done) * epoch_s);
        gw_add(&w, &urgent); /* and once it waits, after a stop */
        while (view(job).running)
            gw_run(&w, epoch_s / 4);
        assert_within(1.2, view(job).left_s, (40 - view(job).epochs_done) * epoch_s);
        teardown(state);
        setup(state);
    }
}

/* The only epochs of the job were in company.  What they leave open the family may tell, as long as
 * that can be true: the family's steps took `slow` times less. */
static void measured_in_company(double company, double slow)
{
    w.company = company;
    try_it();
    struct gpu_job other = gw_ordinary(&w, "other", 400);
    uint64_t beside = gw_add(&w, &other);
    w.jobs[beside - 1].epoch_s = 60000;
    gw_run(&w, 10);
    uint64_t job = add(40, 1000, slow, 0);
    double epoch_s = 1000 * STEP_S * slow;
    gw_run(&w, 60 + 1.1 * epoch_s / w.company);
    assert_int_equal(view(job).n_with, 1);
    assert_true(view(job).epochs_done >= 1);
    double left = (40 - view(job).epochs_done) * epoch_s;
    assert_within(1.2, view(job).left_s, left / w.company);
    struct gpu_job urgent = gw_ordinary(&w, "urgent", 3);
    urgent.share = false;
    urgent.priority = 2;
    gw_add(&w, &urgent);
    while (view(job).running)
        gw_run(&w, 1000);
    left = (40 - view(job).epochs_done) * epoch_s;
    assert_within(1.5, view(job).left_s, left); /* alone, which it never was */
}

static void an_epoch_in_company_refutes_a_family(void **state)
{
    static const struct {
        double company, slow;
    } cases[] = {{0.7, 100}, {0.7, 0.05}, {0.7, 1}, {1, 1}, {1, 0.8}, {0.55, 1}, {0.6, 10}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        measured_in_company(cases[i].company, cases[i].slow);
        teardown(state);
        setup(state);
    }
}

static void a_wild_estimate_starts_a_family(void **state)
{
    (void)state;
    try_it(); /* a step takes half a second: 40 epochs of 10 steps are 200 s */
    uint64_t nine = add(40, 10, 1, 9 * 200), wild = add(40, 10, 30, 30 * 200);
    assert_true(view(nine).estimate_s < 2 * 200); /* the family is believed */
    assert_within(1.3, view(wild).estimate_s, 30 * 200);
    while (w.jobs[wild - 1].known)
        gw_run(&w, 1000);
    uint64_t again = add(80, 10, 30, 60 * 200), none = add(40, 10, 1, 0);
    assert_within(1.2, view(again).estimate_s, 60 * 200); /* of the second family */
    assert_within(1.2, view(none).estimate_s, 200);       /* which the first does not hear of */
}

/* Whoever always says a day is no reason for a family each time. */
static void the_same_wrong_estimate_is_the_same_family(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        uint64_t job = add(10, 100, 1, 24 * 3600);
        if (i)
            assert_true(view(job).estimate_s < 2 * 10 * 100 * STEP_S);
        while (w.jobs[job - 1].known)
            gw_run(&w, 100);
    }
}

static void restart(void)
{
    struct gpus *old = w.gpus;
    size_t it = 0;
    struct str key;
    void *val;

    w.gpus = gpus_new(&(struct gpu_conf){0}, gw_hands(&w));
    while (map_str_next(&w.kept, &it, &key, &val))
        gpus_recall(w.gpus, key, str_of(val));
    gw_node(&w, 0, 1, 16);
    for (size_t i = 0; i < w.n_jobs; i++) {
        if (!w.jobs[i].known)
            continue;
        assert_int_equal(gpus_add(w.gpus, w.now_ms, &w.jobs[i].say, NULL), 0);
        if (w.jobs[i].runs)
            gpus_adopt(w.gpus, w.now_ms, i + 1, 0, &w.jobs[i].devices, w.jobs[i].mem_bytes);
    }
    gpus_free(old);
}

static void families_and_steps_survive_a_restart(void **state)
{
    (void)state;
    try_it();
    uint64_t wild = add(40, 10, 30, 30 * 200);
    gw_run(&w, 30 + 10 * 10 * STEP_S * 30);
    struct gpu_view before = view(wild);
    assert_true(before.epochs_done >= 5);
    restart();
    assert_within(1.01, view(wild).estimate_s, before.estimate_s);
    uint64_t again = add(80, 10, 30, 60 * 200), none = add(40, 1000, 1, 0);
    assert_within(1.2, view(again).estimate_s, 60 * 200);
    assert_within(1.2, view(none).estimate_s, 40 * 1000 * STEP_S);
}

/* A record of an older version counts epochs, not steps. */
static void records_of_older_versions_are_converted(void **state)
{
    (void)state;
    uint64_t job = 1;
    gpus_recall(w.gpus, STR("gpu.job.1"), STR("{\"done\":2,\"own\":[[1,-6.2146,1]]}")); /* 500 s */
    assert_int_equal(add(40, 1000, 1, 0), job);
    assert_within(1.1, view(job).estimate_s, 40 * 500);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(figures_of_a_family_scale_with_the_steps),   T(own_epochs_come_before_the_family),
        T(an_epoch_in_company_refutes_a_family),       T(a_wild_estimate_starts_a_family),
        T(the_same_wrong_estimate_is_the_same_family), T(families_and_steps_survive_a_restart),
        T(records_of_older_versions_are_converted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
