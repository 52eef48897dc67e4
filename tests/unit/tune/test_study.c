/* test_study.c - studies of every engine: replay, order of results, exhaustion, failed trials */
#include "case.h"
#include "tune/sobol.h"

enum { TRIALS = 120, CUT = 77 };

/* One turn with four trials in flight; the oldest or the youngest ends, some of them failed. */
static bool turn(struct tune_study *s, int n)
{
    const struct tune_space *space = tune_study_space(s);
    int64_t id, end = 0, flying = 0;
    const double *code;
    struct err e = {0};

    if (tune_study_ask(s, &id, &code, &e) < 0) {
        assert_int_equal(e.code, ERR_NOT_FOUND);
        return false;
    }
    for (int64_t i = id; i > 0 && i > id - 12; i--)
        if (tune_study_get(s, i, NULL)->outcome == TUNE_PENDING) {
            end = n % 3 || !end ? i : end;
            flying++;
        }
    if (flying >= 4) {
        tune_study_get(s, end, &code);
        enum tune_outcome how = n % 11 == 7 ? TUNE_FAILED : TUNE_DONE;
        assert_int_equal(tune_study_tell(s, end, how, plain_loss(space, code), &e), 0);
    }
    return true;
}

static void same_points(const struct tune_study *a, const struct tune_study *b, const char *engine)
{
    const double *x, *y;
    size_t dims = tune_study_space(a)->n;

    assert_int_equal(tune_study_count(a), tune_study_count(b));
    for (size_t i = 1; i <= tune_study_count(a); i++) {
        tune_study_get(a, (int64_t)i, &x);
        tune_study_get(b, (int64_t)i, &y);
        for (size_t k = 0; k < dims; k++)
            if (x[k] != y[k] && !(isnan(x[k]) && isnan(y[k])))
                fail_msg("%s: trial %zu, parameter %zu: %.17g and %.17g", engine, i, k, x[k], y[k]);
    }
}

/* What a program that keeps a log does after a restart: the calls up to CUT again, but with record
 * instead of ask. */
static struct tune_study *rebuilt(const char *engine, const char *items)
{
    struct tune_study *first = study_of(engine, items, NULL, TRIALS, 5);
    struct tune_study *again = study_of(engine, items, NULL, TRIALS, 5);
    struct err e = {0};

    for (int n = 0; n < CUT; n++) {
        size_t before = tune_study_count(first);
        enum tune_outcome was[TRIALS + 1];
        for (size_t i = 1; i <= before; i++)
            was[i] = tune_study_get(first, (int64_t)i, NULL)->outcome;
        was[before + 1] = TUNE_PENDING;
        if (!turn(first, n))
            break;
        const double *code;
        tune_study_get(first, (int64_t)before + 1, &code);
        assert_int_equal(tune_study_record(again, code), before + 1);
        for (size_t i = 1; i <= before + 1; i++) {
            const struct tune_trial *t = tune_study_get(first, (int64_t)i, NULL);
            if (t->outcome != was[i])
                assert_int_equal(tune_study_tell(again, (int64_t)i, t->outcome, t->value, &e), 0);
        }
    }
    tune_study_free(first);
    return again;
}

static void cut_and_continued(const char *engine)
{
    static const char *const spaces[] = {FIVE_FLOATS, MIXED_TREE};

    for (size_t k = 0; k < ARRAY_SIZE(spaces); k++) {
        struct tune_study *uncut = study_of(engine, spaces[k], NULL, TRIALS, 5);
        struct tune_study *cut = rebuilt(engine, spaces[k]);
        bool more = true;
        for (int n = 0; n < TRIALS && more; n++)
            more = turn(uncut, n);
        more = tune_study_count(cut) == CUT;
        for (int n = CUT; n < TRIALS && more; n++)
            more = turn(cut, n);
        same_points(uncut, cut, engine);
        assert_int_equal(tune_study_best(uncut), tune_study_best(cut));
        tune_study_free(uncut);
        tune_study_free(cut);
    }
}

static void a_cut_study_equals_the_uncut_one(void **state UNUSED)
{
    each_engine(cut_and_continued);
}

static void another_seed(const char *engine)
{
    struct tune_study *a = study_of(engine, FIVE_FLOATS, NULL, 40, 1);
    struct tune_study *b = study_of(engine, FIVE_FLOATS, NULL, 40, 2);
    const double *x, *y;
    int same = 0;

    for (int64_t i = 0; i < 40; i++) {
        if (!turn(a, (int)i))
            break;
        turn(b, (int)i);
        tune_study_get(a, i + 1, &x);
        tune_study_get(b, i + 1, &y);
        same += x[0] == y[0];
    }
    if (strcmp(engine, "grid") != 0)
        assert_true(same < 5);
    tune_study_free(a);
    tune_study_free(b);
}

static void seeds_differ(void **state UNUSED)
{
    each_engine(another_seed);
}

static void all_failed(const char *engine)
{
    struct tune_study *s = study_of(engine, MIXED_TREE, NULL, 60, 1);
    const double *code;
    struct err e = {0};
    int64_t id;

    for (int i = 0; i < 60 && tune_study_ask(s, &id, &code, &e) == 0; i++)
        assert_int_equal(tune_study_tell(s, id, TUNE_DONE, i % 2 ? NAN : -INFINITY, &e), 0);
    assert_int_equal(tune_study_best(s), 0);
    assert_int_equal(tune_study_get(s, 1, NULL)->outcome, TUNE_FAILED);
    tune_study_free(s);
}

static void failed_trials_are_survived(void **state UNUSED)
{
    each_engine(all_failed);
}

static void a_random_finite_space_is_used_up(void **state UNUSED)
{
    struct tune_study *s =
        study_of("random",
                 "[{\"name\":\"a\",\"type\":\"int\",\"low\":1,\"high\":30},"
                 "{\"name\":\"b\",\"type\":\"cat\",\"choices\":[1,2,3]},"
                 "{\"name\":\"c\",\"type\":\"int\",\"low\":1,\"high\":10,\"when\":{\"b\":[3]}}]",
                 NULL, 1000, 9);
    struct err e = {0};
    const double *code;
    int64_t id;
    char seen[30][3][11] = {{{0}}};

    while (tune_study_ask(s, &id, &code, &e) == 0) {
        char *at = &seen[(int)code[0]][(int)code[1]][isnan(code[2]) ? 10 : (int)code[2]];
        assert_int_equal(*at, 0);
        *at = 1;
    }
    assert_int_equal(tune_study_count(s), 30 * (1 + 1 + 10));
    assert_string_equal(e.text, "every point of the space has been asked; 360 trials");
    tune_study_free(s);
}

static void results_that_cannot_be(void **state UNUSED)
{
    struct tune_study *s = study_of("random", FIVE_FLOATS, NULL, 10, 1);
    struct err e = {0};
    const double *code;
    int64_t id;

    assert_int_equal(tune_study_ask(s, &id, &code, &e), 0);
    assert_int_equal(tune_study_tell(s, 7, TUNE_DONE, 1, &e), -1);
    assert_string_equal(e.text, "there is no trial 7; the last one is 1");
    assert_int_equal(tune_study_tell(s, id, TUNE_DONE, 1, &e), 0);
    assert_int_equal(tune_study_tell(s, id, TUNE_DONE, 1, &e), -1);
    assert_string_equal(e.text, "trial 1 has a result already");
    tune_study_free(s);
}

static void the_best_is_that_of_the_direction(void **state UNUSED)
{
    for (int maximize = 0; maximize < 2; maximize++) {
        struct tune_conf conf = {.engine = "random", .maximize = maximize, .budget = -1};
        struct tune_study *s = NULL;
        struct err e = {0};
        const double *code;
        int64_t id;
        assert_int_equal(tune_study_new(space_of(FIVE_FLOATS, NULL), &conf, &s, &e), 0);
        for (int i = 0; i < 9; i++) {
            tune_study_ask(s, &id, &code, &e);
            tune_study_tell(s, id, TUNE_DONE, (i - 4) * (i - 4), &e);
        }
        assert_int_equal(tune_study_best(s), maximize ? 1 : 5);
        tune_study_free(s);
    }
}

/* Every coordinate, also beyond the table: 2^k points, one in each of 2^k cells. */
static void sobol_points_are_even(void **state UNUSED)
{
    for (size_t dim = 0; dim < 50; dim++)
        for (uint32_t n = 1; n <= 256; n *= 2) {
            bool cell[256] = {0};
            for (uint32_t i = 0; i < n; i++) {
                double x = sobol_unit(42, i, dim);
                assert_true(x >= 0 && x < 1);
                size_t at = (size_t)(x * n);
                assert_false(cell[at]);
                cell[at] = true;
            }
        }
    /* Pairs: the first 256 points fill 16 × 16 cells nearly evenly, never more than four in one. */
    for (size_t a = 0; a < 8; a++)
        for (size_t b = a + 1; b < 8; b++) {
            int hits[256] = {0};
            for (uint32_t i = 0; i < 256; i++)
                assert_true(++hits[(size_t)(sobol_unit(1, i, a) * 16) * 16 +
                                   (size_t)(sobol_unit(1, i, b) * 16)] <= 4);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cut_study_equals_the_uncut_one),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(failed_trials_are_survived),
        cmocka_unit_test(a_random_finite_space_is_used_up),
        cmocka_unit_test(results_that_cannot_be),
        cmocka_unit_test(the_best_is_that_of_the_direction),
        cmocka_unit_test(sobol_points_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
