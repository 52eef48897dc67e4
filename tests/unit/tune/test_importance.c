/* test_importance.c - shares of variance of functions whose shares are known */
#include "case.h"
#include "tune/importance.h"

enum { SEED = 7 };

/* A study whose trials are random points of a space. */
struct sampled {
    struct tune_space *space;
    struct tune_view view;
    double *codes, *values;
    enum tune_outcome *outcomes;
};
typedef double sample_fn(const struct tune_space *s, const double *code, struct rng *r);

static struct sampled sample_of(const char *items, size_t n, sample_fn *fn)
{
    struct sampled s = {.space = space_of(items, NULL)};
    struct rng r;

    s.codes = xcalloc(n * s.space->n + 1, sizeof(double));
    s.values = xcalloc(n + 1, sizeof(double));
    s.outcomes = xcalloc(n + 1, sizeof(*s.outcomes));
    rng_seed(&r, 99);
    for (size_t i = 0; i < n; i++) {
        assert_true(tune_space_draw(s.space, s.codes + i * s.space->n, &r));
        s.values[i] = fn(s.space, s.codes + i * s.space->n, &r);
        s.outcomes[i] = TUNE_DONE;
    }
    s.view = (struct tune_view){.space = s.space,
                                .n = n,
                                .codes = s.codes,
                                .values = s.values,
                                .outcomes = s.outcomes,
                                .n_goals = 1};
    return s;
}

static void sampled_done(struct sampled *s)
{
    tune_space_free(s->space);
    FREE_EACH(s->codes, s->values, s->outcomes);
}

static void near(double got, double want, double by)
{
    if (!(fabs(got - want) <= by))
        fail_msg("%g is not %g within %g", got, want, by);
}

/* ---- functions ---- */
/* Variances are as the squares of the weights: 16/21, 4/21, 1/21. */
static double weighted_sum(const struct tune_space *s UNUSED, const double *x, struct rng *r UNUSED)
{
    return 4 * x[0] + 2 * x[1] + x[2];
}

/* 1 + x y of centred x, y in -1 … 1: nothing alone, everything together. */
static double product_of_two(const struct tune_space *s UNUSED, const double *x,
                             struct rng *r UNUSED)
{
    return (2 * x[0] - 1) * (2 * x[1] - 1);
}

/* Ishigami's function, a = 7, b = 0.1: S1 = 0.314, S2 = 0.442, S13 = 0.244, all else 0. */
static double ishigami(const struct tune_space *s, const double *x, struct rng *r UNUSED)
{
    double a = tune_dim_value(&s->dims[0], x[0]), b = tune_dim_value(&s->dims[1], x[1]);
    double c = tune_dim_value(&s->dims[2], x[2]);

    return sin(a) + 7 * sin(b) * sin(b) + 0.1 * c * c * c * c * sin(a);
}

static double only_noise(const struct tune_space *s UNUSED, const double *x UNUSED, struct rng *r)
{
    return rng_unit(r);
}

static double half_noise(const struct tune_space *s UNUSED, const double *x, struct rng *r)
{
    return x[0] + rng_unit(r);
}

static double always_three(const struct tune_space *s UNUSED, const double *x UNUSED,
                           struct rng *r UNUSED)
{
    return 3;
}

/* Two of five categories are good; the others do nothing. */
static double sets_of_choices(const struct tune_space *s UNUSED, const double *x,
                              struct rng *r UNUSED)
{
    return (x[0] == 1 || x[0] == 3) + 0.001 * x[1];
}

/* kind = svm: 2 + c, else 0: kind has 1 / (1 + 1/24) of the variance, c what it does within svm. */
static double branch_value(const struct tune_space *s UNUSED, const double *x, struct rng *r UNUSED)
{
    return x[0] == 0 ? 2 + x[1] : 0;
}

/* ---- tests ---- */
static void shares_of_a_sum_are_the_squares_of_its_weights(void **state UNUSED)
{
    struct sampled s = sample_of(FIVE_FLOATS, 2000, weighted_sum);
    struct tune_importance m;

    tune_importance_find(&s.view, 0, SEED, &m);
    near(m.single[0], 16.0 / 21, 0.03);
    near(m.single[1], 4.0 / 21, 0.02);
    near(m.single[2], 1.0 / 21, 0.02);
    for (size_t i = 3; i < 5; i++)
        near(m.total[i], 0, 0.005);
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < i; j++)
            near(tune_importance_pair(&m, i, j), 0, 0.02);
    near(m.fit, 1, 0.05);
    assert_int_equal(m.n_trials, 2000);
    AUTO_FREE size_t *order = tune_importance_order(&m);
    assert_true(order[0] == 0 && order[1] == 1 && order[2] == 2);
    tune_importance_done(&m);
    sampled_done(&s);
}

static void an_interaction_belongs_to_the_pair(void **state UNUSED)
{
    struct sampled s = sample_of(FIVE_FLOATS, 2000, product_of_two);
    struct tune_importance m;

    tune_importance_find(&s.view, 0, SEED, &m);
    near(tune_importance_pair(&m, 0, 1), 1, 0.05);
    assert_true(tune_importance_pair(&m, 0, 1) == tune_importance_pair(&m, 1, 0));
    near(m.single[0], 0, 0.03);
    near(m.single[1], 0, 0.03);
    near(m.total[0], 1, 0.03);
    near(m.total[2], 0, 0.03);
    tune_importance_done(&m);
    sampled_done(&s);
}

static void ishigami_has_its_known_shares(void **state UNUSED)
{
    const char *box =
        "[{\"name\":\"a\",\"type\":\"float\",\"low\":-3.14159265,\"high\":3.14159265},"
        "{\"name\":\"b\",\"type\":\"float\",\"low\":-3.14159265,\"high\":3.14159265},"
        "{\"name\":\"c\",\"type\":\"float\",\"low\":-3.14159265,\"high\":3.14159265}]";
    struct sampled s = sample_of(box, 8000, ishigami);
    struct tune_importance m;

    tune_importance_find(&s.view, 0, SEED, &m);
    near(m.single[0], 0.314, 0.03);
    near(m.single[1], 0.442, 0.05);
    near(m.single[2], 0, 0.02);
    near(tune_importance_pair(&m, 0, 2), 0.244, 0.03);
    near(tune_importance_pair(&m, 0, 1), 0, 0.02);
    near(m.total[2], 0.244, 0.03);
    tune_importance_done(&m);
    sampled_done(&s);
}

static void noise_is_not_an_effect(void **state UNUSED)
{
    struct sampled s = sample_of(FIVE_FLOATS, 1000, half_noise);
    struct tune_importance m;

    /* Half of the variance is noise; a forest that learns it by heart would give it to parameters.
     */
    tune_importance_find(&s.view, 0, SEED, &m);
    near(m.single[0], 1, 0.05);
    for (size_t i = 1; i < 5; i++)
        near(m.total[i], 0, 0.05);
    near(m.fit, 0.5, 0.15);
    tune_importance_done(&m);
    sampled_done(&s);
    s = sample_of(FIVE_FLOATS, 500, only_noise);
    tune_importance_find(&s.view, 0, SEED, &m);
    near(m.fit, 0, 0.02); /* says that the shares say nothing */
    tune_importance_done(&m);
    sampled_done(&s);
}

static void categories_are_divided_as_sets(void **state UNUSED)
{
    struct sampled s =
        sample_of("[{\"name\":\"o\",\"type\":\"cat\",\"choices\":[\"a\",\"b\",\"c\",\"d\",\"e\"]},"
                  "{\"name\":\"x\",\"type\":\"int\",\"low\":1,\"high\":200,\"log\":true}]",
                  400, sets_of_choices);
    struct tune_importance m;

    tune_importance_find(&s.view, 0, SEED, &m);
    near(m.single[0], 1, 0.05);
    tune_importance_done(&m);
    sampled_done(&s);
}

static void thousands_of_categories_are_bounded(void **state UNUSED)
{
    AUTO(buf) struct buf b = {0};
    struct tune_importance m;

    buf_adds(&b, "[{\"name\":\"o\",\"type\":\"cat\",\"choices\":[0");
    for (int i = 1; i < 5000; i++)
        buf_addf(&b, ",%d", i);
    buf_adds(&b, "]},{\"name\":\"x\",\"type\":\"float\",\"low\":0,\"high\":1}]");
    struct sampled s = sample_of(b.p, 3000, only_noise);
    for (size_t i = 0; i < s.view.n; i++)
        s.values[i] = s.codes[2 * i + 1];
    tune_importance_find(&s.view, 0, SEED, &m);
    near(m.single[1], 1, 0.01);
    tune_importance_done(&m);
    sampled_done(&s);
}

static void a_condition_is_the_share_of_its_parent(void **state UNUSED)
{
    struct sampled s =
        sample_of("[{\"name\":\"kind\",\"type\":\"cat\",\"choices\":[\"svm\",\"mlp\"]},"
                  "{\"name\":\"c\",\"type\":\"float\",\"low\":0,\"high\":1,"
                  "\"when\":{\"kind\":\"svm\"}},"
                  "{\"name\":\"w\",\"type\":\"float\",\"low\":0,\"high\":1,"
                  "\"when\":{\"kind\":\"mlp\"}}]",
                  1000, branch_value);
    struct tune_importance m;

    tune_importance_find(&s.view, 0, SEED, &m);
    assert_true(m.single[0] > 0.9);
    assert_true(m.total[1] > 0.005 && m.total[1] < 0.1);
    near(m.total[2], 0, 0.001);
    tune_importance_done(&m);
    sampled_done(&s);
}

static void constants_and_equal_values_have_no_share(void **state UNUSED)
{
    struct sampled s = sample_of(FIVE_FLOATS, 100, always_three);
    struct tune_importance m;

    tune_importance_find(&s.view, 0, SEED, &m);
    for (size_t i = 0; i < 5; i++)
        assert_true(m.single[i] == 0 && m.total[i] == 0);
    assert_true(m.fit == 0);
    tune_importance_done(&m);
    sampled_done(&s);
    s = sample_of(MIXED_TREE, 500, half_noise);
    tune_importance_find(&s.view, 0, SEED, &m);
    assert_true(m.single[6] == 0 && m.total[6] == 0); /* epochs, a constant */
    tune_importance_done(&m);
    sampled_done(&s);
}

/* Scale, sign and origin of the values do not matter; nor do trials without a result. */
static void shares_are_invariant(void **state UNUSED)
{
    struct sampled s = sample_of(FIVE_FLOATS, 300, weighted_sum);
    struct tune_importance a, b;

    tune_importance_find(&s.view, 0, SEED, &a);
    tune_importance_find(&s.view, 0, SEED, &b);
    assert_memory_equal(a.single, b.single, 5 * sizeof(double));
    assert_memory_equal(a.pairs, b.pairs, 10 * sizeof(double));
    tune_importance_done(&b);
    for (size_t i = 0; i < s.view.n; i++)
        s.values[i] = 1e200 * (5 - s.values[i]);
    tune_importance_find(&s.view, 0, SEED, &b);
    for (size_t i = 0; i < 5; i++)
        near(b.total[i], a.total[i], 0.02);
    tune_importance_done(&b);
    /* One diverged trial, one failed and two without a number. */
    s.values[3] = -1e300;
    s.outcomes[4] = TUNE_FAILED;
    s.values[5] = NAN;
    s.values[6] = INFINITY;
    tune_importance_find(&s.view, 0, SEED, &b);
    assert_int_equal(b.n_trials, 297);
    assert_true(b.total[0] > b.total[1] && b.total[1] > b.total[2] && b.total[2] > b.total[3]);
    tune_importance_done(&a);
    tune_importance_done(&b);
    sampled_done(&s);
}

static void few_trials_have_no_shares(void **state UNUSED)
{
    struct tune_importance m;

    for (size_t n = 0; n < 12; n++) {
        struct sampled s = sample_of(MIXED_TREE, n, half_noise);
        tune_importance_find(&s.view, 0, SEED, &m);
        assert_int_equal(m.n_trials, n);
        for (size_t i = 0; i < m.n; i++)
            assert_true(n >= 4 || m.total[i] == 0);
        tune_importance_done(&m);
        sampled_done(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_of_a_sum_are_the_squares_of_its_weights),
        cmocka_unit_test(an_interaction_belongs_to_the_pair),
        cmocka_unit_test(ishigami_has_its_known_shares),
        cmocka_unit_test(noise_is_not_an_effect),
        cmocka_unit_test(categories_are_divided_as_sets),
        cmocka_unit_test(thousands_of_categories_are_bounded),
        cmocka_unit_test(a_condition_is_the_share_of_its_parent),
        cmocka_unit_test(constants_and_equal_values_have_no_share),
        cmocka_unit_test(shares_are_invariant),
        cmocka_unit_test(few_trials_have_no_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
