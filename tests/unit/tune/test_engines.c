/* test_engines.c - engines that learn: better than chance, not stuck in a choice, apart in flight
 *
 * The seeds are fixed, so every run sees the same proposals.
 */
#include "case.h"

enum { TRIALS = 100, SEEDS = 3 };
/* auto is gp here: fewer results than it needs to go on with others. */
static const char *const learners[] = {"auto", "tpe", "cmaes"};
enum { ALL = ARRAY_SIZE(learners), OF_BRANCHES = 2 }; /* cmaes knows no branches */

typedef double loss_fn(const struct tune_space *s, const double *code);

static double bowl(const struct tune_space *s, const double *code)
{
    double sum = 0;

    for (size_t i = 0; i < s->n; i++)
        sum += (code[i] - 0.2 - 0.1 * (double)i) * (code[i] - 0.2 - 0.1 * (double)i);
    return sum;
}

/* The best choice of each is the last one; the number matters more at first. */
static double choices(const struct tune_space *s UNUSED, const double *code)
{
    return 4 * (code[0] - 0.7) * (code[0] - 0.7) + 0.3 * fabs(code[1] - 3) +
           0.2 * fabs(code[2] - 2);
}

/* The right branch is worse than the other until both of its parameters are right. */
static double branches(const struct tune_space *s UNUSED, const double *code)
{
    if (code[0] == 0)
        return 0.2 + 0.1 * fabs(code[1] - 0.5);
    double a = code[2] - 0.25, b = code[3] - 0.75;
    return 4 * a * a + 4 * b * b;
}

/* The right branch is flat but for one place, so that its first trials are all alike. */
static double plateau(const struct tune_space *s UNUSED, const double *code)
{
    if (code[0] == 0)
        return 0.2 + 0.1 * fabs(code[1] - 0.5);
    double a = code[2] - 0.25, b = code[3] - 0.75;
    return 0.4 * (1 - exp(-20 * (a * a + b * b)));
}

#define CHOICES                                                                                    \
    "[" UNIT_FLOAT("x") ",{\"name\":\"a\",\"type\":\"cat\",\"choices\":[\"p\",\"q\",\"r\",\"s\"]}" \
                        ",{\"name\":\"b\",\"type\":\"cat\",\"choices\":[1,2,3]}]"
#define BRANCHES                                                                                   \
    "[{\"name\":\"k\",\"type\":\"cat\",\"choices\":[\"u\",\"v\"]},"                                \
    "{\"name\":\"x\",\"type\":\"float\",\"low\":0,\"high\":1,\"when\":{\"k\":\"u\"}},"             \
    "{\"name\":\"y\",\"type\":\"float\",\"low\":0,\"high\":1,\"when\":{\"k\":\"v\"}},"             \
    "{\"name\":\"z\",\"type\":\"float\",\"low\":0,\"high\":1,\"when\":{\"k\":\"v\"}}]"

/* The best loss after TRIALS with `flying` in flight; the oldest ends first. */
static double best_of(const char *engine, const char *items, loss_fn *fn, uint64_t seed, int flying)
{
    struct tune_study *s = study_of(engine, items, NULL, TRIALS, seed);
    const double *code;
    struct err e = {0};
    int64_t id;

    for (int64_t n = 1; n <= TRIALS + flying - 1; n++) {
        if (n <= TRIALS)
            assert_int_equal(tune_study_ask(s, &id, &code, &e), 0);
        if (n < flying)
            continue;
        int64_t end = n - flying + 1;
        tune_study_get(s, end, &code);
        assert_int_equal(tune_study_tell(s, end, TUNE_DONE, fn(tune_study_space(s), code), &e), 0);
    }
    double best = tune_study_get(s, tune_study_best(s), NULL)->value;
    tune_study_free(s);
    return best;
}

static void learn(size_t n, const char *items, loss_fn *fn, int flying, double bar)
{
    for (size_t k = 0; k < n; k++) {
        int good = 0;
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            good += best_of(learners[k], items, fn, seed, flying) < bar;
        if (good < SEEDS - 1)
            fail_msg("%s is below %g in %d of %d seeds only", learners[k], bar, good, SEEDS);
    }
}

/* Random search ends near 0.12 here, so the bar says what is learned. */
static void a_bowl_is_found(void **state UNUSED)
{
    double chance = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        chance += best_of("random", FIVE_FLOATS, bowl, seed, 1) / SEEDS;
    assert_true(chance > 0.05);
    learn(ALL, FIVE_FLOATS, bowl, 1, 0.02);
    learn(ALL, FIVE_FLOATS, bowl, 8, 0.03);
}

static void no_choice_is_final(void **state UNUSED)
{
    learn(ALL, CHOICES, choices, 1, 0.02);
}

static void no_branch_is_given_up_early(void **state UNUSED)
{
    learn(OF_BRANCHES, BRANCHES, branches, 1, 0.1);
    learn(OF_BRANCHES, BRANCHES, plateau, 1, 0.1);
}

static void trials_in_flight_keep_apart(void **state UNUSED)
{
    for (size_t k = 0; k < ARRAY_SIZE(learners); k++) {
        struct tune_study *s = study_of(learners[k], FIVE_FLOATS, NULL, 200, 4);
        const double *a, *b;
        struct err e = {0};
        int64_t id;
        for (int64_t n = 1; n <= 90; n++) {
            assert_int_equal(tune_study_ask(s, &id, &a, &e), 0);
            for (int64_t i = MAX(1, id - 8); i < id; i++) {
                double far = 0;
                tune_study_get(s, i, &b);
                for (size_t j = 0; j < 5; j++)
                    far = fmax(far, fabs(a[j] - b[j]));
                assert_true(far > 1e-6);
            }
            if (id > 8) {
                tune_study_get(s, id - 8, &b);
                tune_study_tell(s, id - 8, TUNE_DONE, bowl(tune_study_space(s), b), &e);
            }
        }
        tune_study_free(s);
    }
}

/* A finite space is used up without a repetition, and then that is said. */
static void a_small_space_is_used_up(void **state UNUSED)
{
    for (size_t k = 0; k < ARRAY_SIZE(learners); k++) {
        struct tune_study *s = study_of(learners[k],
                                        "[{\"name\":\"a\",\"type\":\"int\",\"low\":1,\"high\":5},"
                                        "{\"name\":\"b\",\"type\":\"cat\",\"choices\":[1,2,3]}]",
                                        NULL, 100, 2);
        const double *code;
        struct err e = {0};
        int64_t id, n = 0;
        bool seen[15] = {0};
        for (; tune_study_ask(s, &id, &code, &e) == 0; n++) {
            size_t at = (size_t)(code[0] * 3 + code[1]);
            assert_false(seen[at]);
            seen[at] = true;
            tune_study_tell(s, id, TUNE_DONE, code[0] + code[1], &e);
        }
        assert_int_equal(n, 15);
        tune_study_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bowl_is_found),
        cmocka_unit_test(no_choice_is_final),
        cmocka_unit_test(no_branch_is_given_up_early),
        cmocka_unit_test(trials_in_flight_keep_apart),
        cmocka_unit_test(a_small_space_is_used_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
