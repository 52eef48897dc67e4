/* test_pbt.c - population based training: who copies whom, when, and with which parameters */
#include "case.h"
#include "tune/pbt.h"

static struct tune_pbt_conf pbt_conf(const char *text)
{
    struct tune_pbt_conf c = {.seed = 5};
    struct err e = {0};
    AUTO(json) struct json *j = NULL;

    assert_int_equal(json_parse(str_of(text), "pbt", &j, &e), 0);
    if (tune_pbt_parse(j, &c, &e) < 0)
        fail_msg("%s", e.text);
    return c;
}

/* Members 1 … n at 0.1, 0.2, … of every float. */
static struct tune_pbt *population(const struct tune_space *s, const struct tune_pbt_conf *c, int n)
{
    struct tune_pbt *p = tune_pbt_new(s, c);
    struct err e = {0};

    for (int t = 1; t <= n; t++) {
        double code[8];
        for (size_t i = 0; i < s->n; i++)
            code[i] = 0.1 * t;
        assert_int_equal(tune_pbt_join(p, t, code, &e), 0);
    }
    return p;
}

static struct tune_pbt_step report(struct tune_pbt *p, int64_t trial, int64_t step, double value)
{
    struct tune_pbt_step out;
    struct err e = {0};

    if (tune_pbt_report(p, trial, step, value, &out, &e) < 0)
        fail_msg("%s", e.text);
    return out;
}

static void the_worst_copy_the_best(void **state UNUSED)
{
    struct tune_space *s = space_of(FIVE_FLOATS, NULL);
    struct tune_pbt_conf c = pbt_conf("{\"interval\":5,\"share\":0.25,\"resample\":0}");
    struct tune_pbt *p = population(s, &c, 8);

    for (int t = 1; t <= 8; t++) /* before the first decision nobody copies */
        assert_int_equal(report(p, t, 4, t).copy_from, 0);
    for (int t = 1; t <= 6; t++) /* ranks 1 … 6 of 8 are not among the worst quarter */
        assert_int_equal(report(p, t, 5, t).copy_from, 0);
    for (int t = 7; t <= 8; t++) {
        struct tune_pbt_step got = report(p, t, 5, t);
        assert_in_range(got.copy_from, 1, 2);
        for (size_t i = 0; i < s->n; i++) { /* near the parameters that it took over */
            double from = 0.1 * (double)got.copy_from;
            assert_true(got.code[i] >= 0 && fabs(got.code[i] - from) <= 0.2 + 1e-12);
        }
        assert_true(tune_pbt_code(p, t) == got.code);
    }
    assert_int_equal(report(p, 8, 9, 100).copy_from, 0); /* too early again */
    assert_true(report(p, 8, 10, 100).copy_from > 0);
    assert_int_equal(report(p, 8, 10, 200).copy_from, 0); /* a step that was reported */
    tune_pbt_free(p);
    tune_space_free(s);
}

static void direction_and_nan(void **state UNUSED)
{
    struct tune_space *s = space_of(FIVE_FLOATS, NULL);
    struct tune_pbt_conf c = pbt_conf("{\"interval\":1,\"share\":0.5}");

    c.maximize = true;
    struct tune_pbt *p = population(s, &c, 4);
    assert_int_equal(report(p, 1, 1, NAN).copy_from, 0); /* alone */
    assert_int_equal(report(p, 2, 1, 5).copy_from, 0);
    assert_int_equal(report(p, 1, 2, NAN).copy_from, 2);
    assert_int_equal(report(p, 3, 1, 9).copy_from, 0);
    tune_pbt_leave(p, 3); /* the best has ended: it is copied no more */
    for (int64_t step = 3; step < 20; step++)
        assert_int_not_equal(report(p, 1, step, -INFINITY).copy_from, 3);
    /* Nobody copies one that is as good. */
    assert_int_equal(report(p, 4, 1, 5).copy_from, 0);
    tune_pbt_free(p);
    tune_space_free(s);
}

static void conditions_and_constraints_hold(void **state UNUSED)
{
    struct tune_space *s = space_of(MIXED_TREE, NULL);
    struct tune_pbt_conf c = pbt_conf("{\"interval\":1,\"share\":0.5,\"resample\":0.5}");
    struct tune_pbt *p = tune_pbt_new(s, &c);
    struct err e = {0};
    struct rng r;
    double code[16];
    int copies = 0;

    rng_seed(&r, 3);
    for (int t = 1; t <= 6; t++) {
        assert_true(tune_space_draw(s, code, &r));
        assert_int_equal(tune_pbt_join(p, t, code, &e), 0);
    }
    for (int64_t step = 1; step < 60; step++)
        for (int t = 1; t <= 6; t++) {
            struct tune_pbt_step got = report(p, t, step, plain_loss(s, tune_pbt_code(p, t)));
            for (size_t i = 0; got.code && i < s->n; i++)
                assert_true(tune_space_active(s, got.code, i) == !isnan(got.code[i]));
            copies += got.copy_from > 0;
        }
    assert_in_range(copies, 20, 6 * 59 - 6); /* nobody copies at once, and not everybody always */
    tune_pbt_free(p);
    tune_space_free(s);
}

/* The population gets better than its best start, because copies are changed. */
static void a_population_improves(void **state UNUSED)
{
    struct tune_space *s = space_of(FIVE_FLOATS, NULL);
    struct tune_pbt_conf c = pbt_conf("null");
    double before = INFINITY, after = INFINITY;

    c.interval = 1;
    struct tune_pbt *p = population(s, &c, 2);
    for (int64_t step = 1; step <= 40; step++)
        for (int t = 1; t <= 2; t++) {
            double loss = plain_loss(s, tune_pbt_code(p, t));
            before = step == 1 ? fmin(before, loss) : before;
            after = step == 40 ? fmin(after, loss) : after;
            report(p, t, step, loss);
        }
    assert_true(after < 0.5 * before);
    tune_pbt_free(p);
    tune_space_free(s);
}

static void mistakes_are_said(void **state UNUSED)
{
    struct tune_space *s = space_of(FIVE_FLOATS, NULL);
    struct tune_pbt_conf c = pbt_conf("null");
    struct tune_pbt *p = population(s, &c, 1);
    struct tune_pbt_step out;
    struct err e = {0};
    static const char *const bad[][2] = {
        {"3", "pbt is a whole number; write {interval: 10}"},
        {"{\"interval\":0}", "pbt.interval is 0; use a whole number from 1 to 1e+09"},
        {"{\"share\":0.9}", "pbt.share is 0.9; use a number from 0.01 to 0.5"},
        {"{\"intervall\":1}", "pbt has no setting intervall; did you mean interval"}};

    assert_int_equal(tune_pbt_join(p, 1, tune_pbt_code(p, 1), &e), -1);
    assert_string_equal(e.text, "trial 1 is in the population already");
    assert_int_equal(tune_pbt_report(p, 2, 1, 1, &out, &e), -1);
    assert_string_equal(e.text, "trial 2 is not in the population; let it join first");
    assert_int_equal(tune_pbt_report(p, 1, -1, 1, &out, &e), -1);
    assert_string_equal(e.text, "trial 1 reports step -1; steps count from 0");
    assert_null(tune_pbt_code(p, 0));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        AUTO(json) struct json *j = NULL;
        assert_int_equal(json_parse(str_of(bad[i][0]), "pbt", &j, &e), 0);
        assert_int_equal(tune_pbt_parse(j, &c, &e), -1);
        assert_string_equal(e.text, bad[i][1]);
    }
    tune_pbt_free(p);
    tune_space_free(s);
}

/* A study with the engine: each trial adds what its parameter is worth to the state of its parent.
 */
static void play_members(struct tune_study *s, int rounds, double *state, struct buf *said)
{
    int64_t flying[4];
    struct err e = {0};
    const double *code;

    for (int i = 0; i < 4; i++)
        assert_int_equal(tune_study_ask(s, &flying[i], &code, &e), 0);
    for (int i = 0; i < rounds; i++) {
        int64_t id = flying[(i * 3) % 4], parent = tune_study_parent(s, id);
        assert_true(parent < id && tune_study_get(s, id, &code));
        state[id] = state[parent] + 1 - fabs(code[0] - 0.7);
        buf_addf(said, "%lld<%lld %.12g\n", (long long)id, (long long)parent, code[0]);
        bool failed = i % 11 == 7;
        if (failed)
            state[id] = NAN; /* nobody may go on from it */
        assert_int_equal(
            tune_study_tell(s, id, failed ? TUNE_FAILED : TUNE_DONE, failed ? 0 : state[id], &e),
            0);
        assert_int_equal(tune_study_ask(s, &flying[(i * 3) % 4], &code, &e), 0);
    }
}

static struct tune_study *members(int64_t population)
{
    struct tune_pbt_conf pbt = pbt_conf("{\"interval\":1,\"share\":0.25}");
    struct tune_study *s = NULL;
    struct err e = {0};

    pbt.population = population;
    struct tune_conf conf = {
        .engine = "pbt", .seed = 3, .maximize = true, .budget = -1, .pbt = &pbt};
    assert_int_equal(tune_study_new(space_of(FIVE_FLOATS, NULL), &conf, &s, &e), 0);
    return s;
}

static void trials_continue_better_ones(void **state UNUSED)
{
    struct tune_study *s = members(4), *again = members(4), *busy = members(2);
    AUTO(buf) struct buf one = {0}, two = {0};
    double got[200] = {0}, best = -INFINITY;
    struct err e = {0};
    const double *code;
    int64_t id;

    play_members(s, 120, got, &one);
    for (int i = 1; i <= 120; i++)
        best = fmax(best, isnan(got[i]) ? -INFINITY : got[i]);
    assert_true(best > 22); /* thirty stretches; at random parameters about 0.7 each */
    play_members(again, 120, got, &two);
    assert_string_equal(one.p, two.p);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tune_study_ask(busy, &id, &code, &e), 0);
    assert_int_equal(tune_study_ask(busy, &id, &code, &e), -1);
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    tune_study_free(s);
    tune_study_free(again);
    tune_study_free(busy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worst_copy_the_best),
        cmocka_unit_test(direction_and_nan),
        cmocka_unit_test(conditions_and_constraints_hold),
        cmocka_unit_test(a_population_improves),
        cmocka_unit_test(mistakes_are_said),
        cmocka_unit_test(trials_continue_better_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
