/* test_many.c - several objectives: the front, levels, and engines on problems with known fronts */
#include "case.h"

static struct tune_study *many_of(const char *engine, const char *items, const bool *maximize,
                                  uint64_t seed)
{
    struct tune_conf conf = {
        .engine = engine, .seed = seed, .budget = 200, .objectives = 2, .maximize_each = maximize};
    struct tune_study *s = NULL;
    struct err e = {0};

    if (tune_study_new(space_of(items, NULL), &conf, &s, &e) < 0)
        fail_msg("%s", e.text);
    return s;
}

static int64_t tell_two(struct tune_study *s, double a, double b)
{
    const double *code, values[2] = {a, b};
    struct err e = {0};
    int64_t id;

    assert_int_equal(tune_study_ask(s, &id, &code, &e), 0);
    assert_int_equal(tune_study_tell_many(s, id, TUNE_DONE, values, 2, &e), 0);
    return id;
}

static void the_front_is_what_nobody_dominates(void **state UNUSED)
{
    static const bool directions[] = {false, true};
    struct tune_study *s = many_of("random", FIVE_FLOATS, directions, 1);
    int64_t ids[9] = {0};

    assert_int_equal(tune_study_front(s, ids, 9), 0);
    tell_two(s, 3, 1); /* 1: cheap wins, high wins */
    tell_two(s, 1, 1); /* 2 dominates 1 */
    tell_two(s, 5, 9); /* 3 */
    tell_two(s, 6, 8); /* 4: behind 3 */
    assert_int_equal(tune_study_front(s, ids, 9), 2);
    assert_true(ids[0] == 2 && ids[1] == 3);
    assert_int_equal(tune_study_front(s, ids, 1), 2); /* counts also what has no room */
    tell_two(s, 1, 1);                                /* 5: as good as 2, both stay */
    tell_two(s, 0, 10);                               /* 6 dominates everything */
    assert_int_equal(tune_study_front(s, ids, 9), 1);
    assert_int_equal(ids[0], 6);
    assert_true(tune_study_values(s, 3)[0] == 5 && tune_study_values(s, 3)[1] == 9);
    assert_int_equal(tune_study_best(s), 0);
    assert_int_equal(tune_study_objectives(s), 2);
    tune_study_free(s);
}

static void results_are_checked(void **state UNUSED)
{
    struct tune_study *s = many_of("nsga2", FIVE_FLOATS, NULL, 1);
    const double *code, bad[2] = {1, NAN}, three[3] = {1, 2, 3};
    struct err e = {0};
    int64_t id;

    assert_int_equal(tune_study_ask(s, &id, &code, &e), 0);
    assert_int_equal(tune_study_tell(s, id, TUNE_DONE, 1, &e), -1);
    assert_string_equal(e.text, "trial 1 has 1 values, the study 2 objectives");
    assert_int_equal(tune_study_tell_many(s, id, TUNE_DONE, three, 3, &e), -1);
    assert_int_equal(tune_study_tell_many(s, id, TUNE_DONE, bad, 2, &e), 0);
    assert_int_equal(tune_study_get(s, id, NULL)->outcome, TUNE_FAILED);
    assert_null(tune_study_values(s, id));
    assert_int_equal(tune_study_tell_many(s, id, TUNE_DONE, three, 2, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_int_equal(tune_study_ask(s, &id, &code, &e), 0);
    assert_int_equal(tune_study_tell(s, id, TUNE_FAILED, 0, &e), 0);
    assert_int_equal(tune_study_front(s, NULL, 0), 0);
    tune_study_free(s);
}

static void engines_of_one_objective_say_so(void **state UNUSED)
{
    struct tune_conf conf = {.engine = "gp", .objectives = 2};
    struct tune_study *s = NULL;
    struct err e = {0};

    assert_int_equal(tune_study_new(space_of(FIVE_FLOATS, NULL), &conf, &s, &e), -1);
    assert_string_equal(
        e.text, "the engine gp has one objective; choose motpe, nsga2, random, sobol or grid");
    conf.engine = "motpe";
    conf.objectives = 9;
    assert_int_equal(tune_study_new(space_of(FIVE_FLOATS, NULL), &conf, &s, &e), -1);
    assert_string_equal(e.text, "there are 9 objectives; at most 8 are possible");
}

/* With one objective nsga2 and motpe are engines as the others. */
static void one_objective_has_a_front_of_one(void **state UNUSED)
{
    struct tune_study *s = study_of("nsga2", FIVE_FLOATS, NULL, -1, 1);
    struct err e = {0};
    int64_t id, front[2];
    const double *code;

    for (int i = 0; i < 30; i++) {
        assert_int_equal(tune_study_ask(s, &id, &code, &e), 0);
        assert_int_equal(tune_study_tell(s, id, TUNE_DONE, 30 - i, &e), 0);
    }
    assert_int_equal(tune_study_front(s, front, 2), 1);
    assert_true(front[0] == 30 && tune_study_best(s) == 30);
    assert_true(*tune_study_values(s, 30) == 1);
    tune_study_free(s);
}

/* ---- quality ---- */
/* ZDT1 (E. Zitzler et al., 2000) with the front f2 = 1 - sqrt(f1) and the optimum of the others
 * at 0.2, off the border.  ZDT2 has a front that is curved the other way. */
static void zdt(const double *x, size_t n, bool second, double *f)
{
    double g = 1;

    for (size_t i = 1; i < n; i++)
        g += 9 * fabs(x[i] - 0.2) / (double)(n - 1);
    f[0] = x[0];
    f[1] = g * (1 - (second ? pow(x[0] / g, 2) : sqrt(x[0] / g)));
}

/* The area that the front dominates, below (1.1, 1.1). */
static double hypervolume(const struct tune_study *s)
{
    int64_t ids[500];
    size_t n = tune_study_front(s, ids, 500);
    double area = 0, f2 = 1.1;

    for (double from = -1;;) { /* by the first objective, rising */
        const double *next = NULL;
        for (size_t i = 0; i < n; i++) {
            const double *v = tune_study_values(s, ids[i]);
            if (v[0] > from && (!next || v[0] < next[0]))
                next = v;
        }
        if (!next)
            return area;
        if (next[0] < 1.1 && next[1] < f2) {
            area += (1.1 - next[0]) * (f2 - next[1]);
            f2 = next[1];
        }
        from = next[0];
    }
}

static double zdt_volume(const char *engine, bool second, uint64_t seed, int flight)
{
    struct tune_study *s = many_of(engine, FIVE_FLOATS, NULL, seed);
    int64_t ids[8];
    double f[8][2];
    struct err e = {0};

    for (int t = 0; t < 200; t += flight) {
        for (int k = 0; k < flight; k++) {
            const double *code;
            assert_int_equal(tune_study_ask(s, &ids[k], &code, &e), 0);
            zdt(code, 5, second, f[k]);
        }
        for (int k = 0; k < flight; k++)
            assert_int_equal(tune_study_tell_many(s, ids[k], TUNE_DONE, f[k], 2, &e), 0);
    }
    double area = hypervolume(s);
    tune_study_free(s);
    return area;
}

/* The mean of five seeds; the whole front would dominate 0.877 and 0.543. */
static double mean_volume(const char *engine, bool second, int flight)
{
    double sum = 0;

    for (uint64_t seed = 1; seed <= 5; seed++)
        sum += zdt_volume(engine, second, seed, flight) / 5;
    return sum;
}

static void engines_beat_random_draws(void **state UNUSED)
{
    for (int second = 0; second < 2; second++) {
        double chance = mean_volume("random", second, 1);
        double nsga = mean_volume("nsga2", second, 1), motpe = mean_volume("motpe", second, 1);
        double eight = mean_volume("motpe", second, 8), self = mean_volume("auto", second, 1);
        print_message("# zdt%d: random %.3f nsga2 %.3f motpe %.3f, 8 in flight %.3f, auto %.3f\n",
                      second + 1, chance, nsga, motpe, eight, self);
        /* How much of what chance leaves open they must win. */
        double open = (second ? 0.543 : 0.877) - chance;
        assert_true(nsga > chance + (second ? 0.15 : 0.5) * open);
        assert_true(motpe > chance + (second ? 0.2 : 0.6) * open);
        assert_true(eight > chance + (second ? 0.2 : 0.6) * open);
        assert_true(self == motpe);
    }
}

/* A study that is made again from its log goes on as the first one. */
static void a_cut_study_goes_on(void **state UNUSED)
{
    static const char *const engines[] = {"nsga2", "motpe", "random", "sobol", "auto"};

    for (size_t k = 0; k < ARRAY_SIZE(engines); k++) {
        struct tune_study *a = many_of(engines[k], MIXED_TREE, NULL, 7);
        struct tune_study *b = many_of(engines[k], MIXED_TREE, NULL, 7);
        size_t n = tune_study_space(a)->n;
        struct err e = {0};
        for (int t = 0; t < 120; t++) {
            const double *code, *kept, *other;
            int64_t id, id_b;
            assert_int_equal(tune_study_ask(a, &id, &code, &e), 0);
            tune_study_get(a, id, &kept);
            if (t < 77) {
                id_b = tune_study_record(b, kept);
            } else {
                const double *code_b;
                assert_int_equal(tune_study_ask(b, &id_b, &code_b, &e), 0);
                tune_study_get(b, id_b, &other);
                for (size_t i = 0; i < n; i++)
                    assert_true(kept[i] == other[i] || (isnan(kept[i]) && isnan(other[i])));
            }
            double y = plain_loss(tune_study_space(a), kept);
            double values[2] = {y, fabs(y - 1) + (double)(t % 5)};
            assert_int_equal(tune_study_tell_many(a, id, TUNE_DONE, values, 2, &e), 0);
            assert_int_equal(tune_study_tell_many(b, id_b, TUNE_DONE, values, 2, &e), 0);
        }
        tune_study_free(a);
        tune_study_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_front_is_what_nobody_dominates),
        cmocka_unit_test(results_are_checked),
        cmocka_unit_test(engines_of_one_objective_say_so),
        cmocka_unit_test(one_objective_has_a_front_of_one),
        cmocka_unit_test(engines_beat_random_draws),
        cmocka_unit_test(a_cut_study_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
