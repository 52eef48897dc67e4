/* test_speed.c - what measurements say about what was not measured */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "sched/speed.h"

static struct speeds *s;

static int setup(void **state)
{
    (void)state;
    s = speeds_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    speeds_free(s);
    return 0;
}

#define NEAR(x, want, tolerance) assert_true(fabs((x) - (want)) <= (tolerance))

static double ratio(uint32_t a, uint32_t b)
{
    struct speed_key k = speed_key_make(1, &b, 1);

    return exp(speeds_company(s, a, &k).log);
}

static void learn_pair(uint32_t a, uint32_t b, double r)
{
    struct speed_key k = speed_key_make(1, &b, 1);

    speeds_learn_company(s, a, &k, log(r), 1);
}

static void nothing_known_is_the_prior(void **state)
{
    (void)state;
    uint32_t a = speeds_family(s, STR("a")), b = speeds_family(s, STR("b"));

    NEAR(ratio(a, b), 0.62, 0.001);
    NEAR(speeds_scale(s, a, 4, 1).log, 0.8 * log(4), 1e-9);
    NEAR(speeds_restart(s, a, 60), 60, 1e-9);
    assert_int_equal(speeds_family(s, STR("a")), a);
    assert_int_equal(speeds_family(s, STR("")), SPEED_NO_FAMILY);
}

static void measured_pairs_are_believed(void **state)
{
    (void)state;
    uint32_t a = speeds_family(s, STR("a")), b = speeds_family(s, STR("b"));

    learn_pair(a, b, 0.9);
    NEAR(ratio(a, b), 0.9, 0.03);
    learn_pair(b, a, 0.1);
    NEAR(ratio(b, a), 0.1, 0.03);
}

static void one_pair_informs_others(void **state)
{
    (void)state;
    uint32_t a = speeds_family(s, STR("a")), b = speeds_family(s, STR("b"));
    uint32_t c = speeds_family(s, STR("c")), d = speeds_family(s, STR("d"));
    double before = ratio(a, d);

    learn_pair(a, b, 0.98);
    learn_pair(a, c, 0.97);
    assert_true(ratio(a, d) > before + 0.05); /* a does not suffer */
    learn_pair(b, c, 0.3);
    learn_pair(d, c, 0.3);
    assert_true(ratio(a, c) > 0.9);
    struct speed_terms t = speeds_terms(s, c);
    assert_true(t.disturbs < 0);
}

static void repetition_does_not_run_away(void **state)
{
    (void)state;
    uint32_t a = speeds_family(s, STR("a")), b = speeds_family(s, STR("b"));

    for (int i = 0; i < 500; i++) {
        struct speed_key k = speed_key_make(1, &b, 1);
        speeds_learn_company(s, a, &k, log(0.8), 40);
    }
    NEAR(ratio(a, b), 0.8, 0.01);
    assert_true(speeds_terms(s, a).mean > -1 && speeds_terms(s, a).mean < 0);
}

static void kin_is_the_first_guess(void **state)
{
    (void)state;
    uint32_t a = speeds_family(s, STR("net (batch 16)")), b = speeds_family(s, STR("other"));
    uint32_t kin = speeds_family(s, STR("net (batch 32)"));
    uint32_t stranger = speeds_family(s, STR("lm (batch 32)"));

    for (int i = 0; i < 3; i++)
        learn_pair(a, b, 0.3);
    assert_true(ratio(kin, b) < ratio(stranger, b) - 0.05);
}

static void scaling_is_fitted(void **state)
{
    (void)state;
    uint32_t a = speeds_family(s, STR("a")), b = speeds_family(s, STR("b"));

    speeds_learn_alone(s, a, 1, log(10));
    speeds_learn_alone(s, a, 2, log(10 * pow(2, 0.4)));
    NEAR(speeds_scale(s, a, 2, 1).log, 0.4 * log(2), 1e-9);
    assert_true(speeds_scale(s, a, 4, 1).log < 0.8 * log(4)); /* drawn to its own exponent */
    assert_true(speeds_scale(s, b, 4, 1).log < 0.8 * log(4)); /* others learn a little, too */
    struct speed_guess g;
    assert_true(speeds_alone(s, a, 4, &g));
    assert_true(g.log > log(10));
    assert_false(speeds_alone(s, b, 4, &g));
    speeds_learn_scale(s, b, 4, 1, log(3)); /* known by ratio only */
    NEAR(speeds_scale(s, b, 4, 1).log, log(3), 1e-9);
    assert_false(speeds_alone(s, b, 4, &g));
}

static void saved_is_what_is_loaded(void **state)
{
    (void)state;
    uint32_t a = speeds_family(s, STR("a \"b\"")), b = speeds_family(s, STR("c"));
    struct speeds *t = speeds_new();
    struct buf one, two;
    struct json *j = NULL;
    uint32_t dirty;
    int n = 0;

    speeds_learn_alone(s, a, 1, -1.25);
    speeds_learn_alone(s, a, 4, 0.5);
    learn_pair(a, b, 0.85);
    speeds_learn_restart(s, a, 42);
    while (speeds_take_dirty(s, &dirty))
        n++;
    assert_int_equal(n, 1);
    buf_init(&one, 1 << 16);
    buf_init(&two, 1 << 16);
    speeds_save(s, a, &one);
    assert_int_equal(json_parse(buf_str(&one), "x", &j, NULL), 0);
    assert_int_equal(speeds_load(t, STR("a \"b\""), j, NULL), 0);
    speeds_save(t, speeds_family(t, STR("a \"b\"")), &two);
    assert_string_equal(one.p, two.p);
    NEAR(speeds_restart(t, speeds_family(t, STR("a \"b\"")), 60), 42, 1e-9);
    json_free(j);
    buf_done(&one);
    buf_done(&two);
    speeds_free(t);
}

static void damaged_texts_do_no_harm(void **state)
{
    (void)state;
    static const char *const texts[] = {"{}", "[]", "{\"alone\":[[1]],\"company\":[[1,2]]}",
                                        "{\"alone\":[[1,1e300,1,0,1]],\"company\":[[0,0,1,\"b\"]]}",
                                        "{\"alone\":7,\"restart\":[-1,-1]}"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct json *j = NULL;
        assert_int_equal(json_parse(str_of(texts[i]), "x", &j, NULL), 0);
        (void)speeds_load(s, STR("a"), j, NULL);
        json_free(j);
    }
    NEAR(ratio(speeds_family(s, STR("a")), speeds_family(s, STR("b"))), 0.62, 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_known_is_the_prior, setup, teardown),
        cmocka_unit_test_setup_teardown(measured_pairs_are_believed, setup, teardown),
        cmocka_unit_test_setup_teardown(one_pair_informs_others, setup, teardown),
        cmocka_unit_test_setup_teardown(repetition_does_not_run_away, setup, teardown),
        cmocka_unit_test_setup_teardown(kin_is_the_first_guess, setup, teardown),
        cmocka_unit_test_setup_teardown(scaling_is_fitted, setup, teardown),
        cmocka_unit_test_setup_teardown(saved_is_what_is_loaded, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_texts_do_no_harm, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
