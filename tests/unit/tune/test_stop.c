/* test_stop.c - stopping layers: rungs, brackets, medians, patience, settings, and the bars of asha
 * on learning curves that cross and are noisy */
#include "case.h"
#include "curves.h"

static struct tune_stop_conf conf_of(const char *text)
{
    struct tune_stop_conf c = {0};
    struct err e = {0};
    AUTO(json) struct json *j = NULL;

    assert_int_equal(json_parse(str_of(text), "stop", &j, &e), 0);
    if (tune_stop_parse(j, &c, &e) < 0)
        fail_msg("%s", e.text);
    return c;
}

static struct tune_stop *stop_of(const char *text, bool maximize)
{
    struct tune_stop_conf c = conf_of(text);

    c.maximize = maximize;
    return tune_stop_new(&c);
}

static bool stops(struct tune_stop *s, int64_t trial, int64_t step, double value)
{
    enum tune_verdict v = TUNE_CONTINUE;
    struct err e = {0};

    if (tune_stop_report(s, trial, step, value, &v, &e) < 0)
        fail_msg("%s", e.text);
    return v == TUNE_STOP;
}

static void settings_have_defaults_and_limits(void **state UNUSED)
{
    struct tune_stop_conf c = conf_of("\"asha\"");

    assert_int_equal(c.layers, TUNE_STOP_ASHA);
    assert_true(c.min == 1 && c.max == 0 && c.eta == 3);
    c = conf_of(
        "{\"asha\":{\"min\":2,\"max\":81,\"eta\":4},\"patient\":{\"steps\":7,\"delta\":0.5}}");
    assert_int_equal(c.layers, TUNE_STOP_ASHA | TUNE_STOP_PATIENT);
    assert_true(c.min == 2 && c.max == 81 && c.eta == 4 && c.patience == 7 && c.delta == 0.5);
    assert_int_equal(conf_of("null").layers, 0);
    assert_int_equal(conf_of("\"none\"").layers, 0);
    c = conf_of("{\"median\":{\"warmup\":3,\"startup\":2}}");
    assert_true(c.layers == TUNE_STOP_MEDIAN && c.warmup == 3 && c.startup == 2);
}

static void misspelt(const char *text, const char *want)
{
    struct tune_stop_conf c = {.min = 77};
    struct err e = {0};
    AUTO(json) struct json *j = NULL;

    assert_int_equal(json_parse(str_of(text), "stop", &j, &e), 0);
    assert_int_equal(tune_stop_parse(j, &c, &e), -1);
    assert_string_equal(e.text, want);
    assert_int_equal(c.min, 77);
}

static void what_is_misspelt_is_said(void **state UNUSED)
{
    misspelt("\"ashe\"", "stop: there is no ashe; did you mean asha");
    misspelt("\"zzzzzzz\"",
             "stop: there is no zzzzzzz; choose asha, hyperband, median, patient or none");
    misspelt("3", "stop is a whole number; write asha or {asha: {max: 81}}");
    misspelt("{\"asha\":3}", "stop.asha must be a map of settings, not a whole number");
    misspelt("{\"asha\":{\"eta\":1}}", "stop.asha.eta is 1; use a whole number from 2 to 1000");
    misspelt("{\"asha\":{\"min\":1.5}}",
             "stop.asha.min is 1.5; use a whole number from 1 to 1000000000");
    misspelt("{\"asha\":{\"mim\":1}}", "stop.asha has no setting mim; did you mean min");
    misspelt("{\"asha\":{\"steps\":1}}", "stop.asha has no setting steps; its first is min");
    misspelt("{\"patient\":{\"delta\":-1}}", "stop.patient.delta must be a number of 0 or more");
    misspelt("{\"asha\":{\"min\":9,\"max\":3}}", "stop: max is 3 and min is 9; swap them");
    misspelt("\"hyperband\"", "stop.hyperband needs max, the last step of a whole run: {hyperband: "
                              "{max: 81}}");
    misspelt("{\"asha\":{},\"hyperband\":{\"max\":9}}",
             "stop: asha and hyperband exclude each other; keep one");
}

/* Twenty trials with constant curves, side by side, the better ones first at each rung. */
static void asha_thins_out_rung_by_rung(void **state UNUSED)
{
    struct tune_stop *s = stop_of("{\"asha\":{\"max\":81}}", false);
    int alive = 0, at_9 = 0, at_27 = 0;

    for (int step = 1; step <= 81; step++) {
        for (int t = 1; t <= 20; t++)
            stops(s, t, step, t);
        for (int t = 1; t <= 20; t++) {
            at_9 += step == 9 && !tune_stop_reason(s, t);
            at_27 += step == 27 && !tune_stop_reason(s, t);
            alive += step == 81 && !tune_stop_reason(s, t);
        }
    }
    assert_null(tune_stop_reason(s, 1)); /* the best one runs through */
    assert_string_equal(tune_stop_reason(s, 20), "asha");
    assert_in_range(at_9, 2, 14);
    assert_in_range(at_27, 1, at_9);
    assert_int_equal(alive, at_27); /* at max nobody is stopped */
    tune_stop_free(s);
}

static void not_a_number_is_the_worst(void **state UNUSED)
{
    struct tune_stop *s = stop_of("\"asha\"", true);

    assert_true(stops(s, 1, 1, NAN)); /* also when nobody else is there */
    assert_false(stops(s, 2, 1, -1e300));
    assert_true(stops(s, 3, 1, -INFINITY));
    assert_true(stops(s, 4, 1, INFINITY));
    assert_true(stops(s, 1, 2, 5)); /* stop stays stop */
    tune_stop_free(s);
    s = stop_of("{\"median\":{\"startup\":0}}", false);
    assert_false(stops(s, 1, 1, NAN));
    assert_false(stops(s, 2, 1, 3));
    assert_false(stops(s, 3, 1, 3));
    assert_true(stops(s, 4, 1, NAN));
    tune_stop_free(s);
}

static void bad_numbers_of_trials_and_steps(void **state UNUSED)
{
    struct tune_stop *s = stop_of("\"asha\"", false);
    enum tune_verdict v;
    struct err e = {0};

    assert_int_equal(tune_stop_report(s, 0, 1, 1, &v, &e), -1);
    assert_string_equal(e.text, "there can be no trial 0; trials count from 1");
    assert_int_equal(tune_stop_report(s, 1, -1, 1, &v, &e), -1);
    assert_string_equal(e.text, "trial 1 reports step -1; steps count from 0");
    tune_stop_finished(s, 0); /* ignored */
    assert_null(tune_stop_reason(s, 99));
    tune_stop_free(s);
}

/* The ladders get trials in proportion to 27 : 13.5 : 9 … and the last stops nobody. */
static void hyperband_deals_trials_to_ladders(void **state UNUSED)
{
    struct tune_stop *s = stop_of("{\"hyperband\":{\"max\":27}}", false);
    int stopped = 0, through = 0;

    for (int64_t t = 1; t <= 60; t++)
        for (int64_t step = 1; step <= 27; step++)
            if (stops(s, t, step, (double)t)) { /* each worse than those before */
                stopped++;
                break;
            } else if (step == 27) {
                through++;
            }
    assert_int_equal(stopped + through, 60);
    assert_in_range(through, 4, 25);
    tune_stop_free(s);
    s = stop_of("{\"hyperband\":{\"min\":9,\"max\":9}}", false);
    for (int64_t t = 1; t <= 10; t++) /* a single ladder without rungs */
        assert_false(stops(s, t, 9, (double)t));
    tune_stop_free(s);
}

static void median_waits_for_warmup_and_startup(void **state UNUSED)
{
    struct tune_stop *s = stop_of("{\"median\":{\"warmup\":3,\"startup\":2}}", true);

    for (int64_t t = 1; t <= 3; t++)
        for (int64_t step = 1; step <= 4; step++)
            assert_false(stops(s, t, step, 1.0));
    tune_stop_finished(s, 1);
    assert_false(stops(s, 4, 3, 0.5)); /* one has ended */
    tune_stop_finished(s, 1);          /* counts once */
    assert_false(stops(s, 4, 4, 0.5));
    tune_stop_finished(s, 2);
    assert_false(stops(s, 5, 2, 0.5)); /* still warming up */
    assert_true(stops(s, 5, 3, 0.5));
    assert_string_equal(tune_stop_reason(s, 5), "median");
    assert_false(stops(s, 6, 3, 1.5));
    assert_false(stops(s, 6, 4, 0.1)); /* its best report counts */
    tune_stop_free(s);
}

static void patient_counts_steps_without_gain(void **state UNUSED)
{
    struct tune_stop *s = stop_of("{\"patient\":{\"steps\":3,\"delta\":0.1}}", false);

    assert_false(stops(s, 1, 1, 5));
    assert_false(stops(s, 1, 3, 4.95)); /* too small a gain */
    assert_true(stops(s, 1, 4, 4.94));
    assert_false(stops(s, 2, 1, 5));
    assert_false(stops(s, 2, 3, 4.5));
    assert_false(stops(s, 2, 5, 4.6));
    assert_false(stops(s, 2, 5, 0)); /* a step that was reported: no change */
    assert_true(stops(s, 2, 6, 4.6));
    tune_stop_free(s);
}

/* Small gains must not be lost: many of them are a gain beyond delta. */
static void patient_adds_small_gains_up(void **state UNUSED)
{
    struct tune_stop *s = stop_of("{\"patient\":{\"steps\":3,\"delta\":0.1}}", false);

    for (int64_t step = 1; step < 50; step++)
        assert_false(stops(s, 1, step, 10 - 0.06 * (double)step));
    tune_stop_free(s);
}

static const size_t worker_counts[] = {1, 8, 27};

/* The share of seeds, of 400, in which the best of 27 trials (by its end without noise, of the
 * whole population) was stopped at a rung before the last but one.  Rungs are 1, 3, 9 and 27 of 81
 * steps: stopped at 27 is one rung too early, stopped at 9 or before is more. */
static void asha_keeps_the_best_of_27(void **state UNUSED)
{
    struct tune_stop_conf c = conf_of("{\"asha\":{\"min\":1,\"max\":81,\"eta\":3}}");

    c.maximize = true;
    for (size_t i = 0; i < ARRAY_SIZE(curve_kinds) * ARRAY_SIZE(worker_counts); i++) {
        const struct curve_kind *kind = &curve_kinds[i / ARRAY_SIZE(worker_counts)];
        size_t workers = worker_counts[i % ARRAY_SIZE(worker_counts)];
        int early = 0;
        for (uint64_t seed = 1; seed <= 400; seed++) {
            struct curve_run run;
            curves_run(&run, kind, 27, workers, seed, &c);
            early += run.steps[run.best] < 27;
        }
        print_message("# %s, %zu workers: %d of 400 too early\n", kind->name, workers, early);
        assert_in_range(early, 0, 20);
    }
}

/* A full random search runs 100 trials of 81 steps.  In 95 % of seeds a trial that ran through ends
 * at 95 % or more of the best end of all, and the mean of epochs is a quarter at most. */
static void asha_finds_a_good_end_for_a_quarter(void **state UNUSED)
{
    struct tune_stop_conf c = conf_of("{\"asha\":{\"min\":1,\"max\":81,\"eta\":3}}");

    c.maximize = true;
    for (size_t i = 0; i < ARRAY_SIZE(curve_kinds) * ARRAY_SIZE(worker_counts); i++) {
        const struct curve_kind *kind = &curve_kinds[i / ARRAY_SIZE(worker_counts)];
        size_t workers = worker_counts[i % ARRAY_SIZE(worker_counts)];
        int reached = 0;
        int64_t epochs = 0;
        for (uint64_t seed = 1; seed <= 100; seed++) {
            struct curve_run run;
            curves_run(&run, kind, 100, workers, seed, &c);
            reached += run.found_end >= 0.95 * run.best_end;
            epochs += run.epochs;
        }
        assert_in_range(reached, 95, 100);
        assert_in_range(epochs, 1, 100 * 100 * CURVE_STEPS / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_have_defaults_and_limits),
        cmocka_unit_test(what_is_misspelt_is_said),
        cmocka_unit_test(asha_thins_out_rung_by_rung),
        cmocka_unit_test(not_a_number_is_the_worst),
        cmocka_unit_test(bad_numbers_of_trials_and_steps),
        cmocka_unit_test(hyperband_deals_trials_to_ladders),
        cmocka_unit_test(median_waits_for_warmup_and_startup),
        cmocka_unit_test(patient_counts_steps_without_gain),
        cmocka_unit_test(patient_adds_small_gains_up),
        cmocka_unit_test(asha_keeps_the_best_of_27),
        cmocka_unit_test(asha_finds_a_good_end_for_a_quarter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
