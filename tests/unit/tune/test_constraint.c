/* test_constraint.c - relations between parameters: what holds, what is absent, what is misspelt */
#include "case.h"

#define AB                                                                                         \
    "[{\"name\":\"a\",\"type\":\"float\",\"low\":-4,\"high\":4},"                                  \
    "{\"name\":\"b\",\"type\":\"int\",\"low\":0,\"high\":8},"                                      \
    "{\"name\":\"k\",\"type\":\"cat\",\"choices\":[\"x\",\"y\"]},"                                 \
    "{\"name\":\"c\",\"type\":\"float\",\"low\":0,\"high\":1,\"when\":{\"k\":[\"y\"]}}]"

static bool holds(const char *rule, double a, double b)
{
    AUTO_FREE char *list = xasprintf("[\"%s\"]", rule);
    struct tune_space *s = space_of(AB, list);
    double code[4] = {(a + 4) / 8, b, 0, NAN};
    bool ok = tune_space_allows(s, code);

    tune_space_free(s);
    return ok;
}

static void sums_and_comparisons(void **state UNUSED)
{
    assert_true(holds("a < b", 1, 2));
    assert_false(holds("a < b", 2, 2));
    assert_true(holds("a <= b", 2, 2));
    assert_true(holds("a == b", 2, 2));
    assert_false(holds("a != b", 2, 2));
    assert_true(holds("a + 2 * b >= 9", 1, 4));
    assert_false(holds("(a + 2) * b < 9", 1, 4));
    assert_true(holds("-a ** 2 == -4", 2, 0));
    assert_true(holds("2 ** 3 ** 1 - b / 2 > 1e0", 0, 8));
    assert_true(holds("8 - 4 - 2 == b", 0, 2));
    assert_false(holds("a / 0 == a / 0", 0, 0)); /* not a number equals nothing */
}

static void an_absent_parameter_breaks_nothing(void **state UNUSED)
{
    struct tune_space *s = space_of(AB, "[\"c > 5\"]");
    double without[4] = {0, 0, 0, NAN}, with[4] = {0, 0, 1, 0.5};

    assert_true(tune_space_allows(s, without));
    assert_false(tune_space_allows(s, with));
    tune_space_free(s);
}

static void misspelt(const char *rule, const char *want)
{
    AUTO_FREE char *list = xasprintf("[\"%s\"]", rule);
    struct tune_space *s = NULL;
    struct err e = {0};

    assert_int_equal(space_from(AB, list, &s, &e), -1);
    assert_string_equal(e.text, want);
}

static void what_is_misspelt_is_said_with_its_column(void **state UNUSED)
{
    misspelt("a b", "constraint \"a b\", column 3: a comparison is missing: < <= > >= == !=");
    misspelt("a <", "constraint \"a <\", column 4: a number or a parameter is missing");
    misspelt("z < 1", "constraint \"z < 1\", column 1: no parameter has this name");
    misspelt("k < 1", "constraint \"k < 1\", column 1: only numeric parameters can be compared");
    misspelt("(a < 1", "constraint \"(a < 1\", column 4: a ) is missing");
    misspelt("a < 1 < b", "constraint \"a < 1 < b\", column 7: nothing may follow the second sum");
    misspelt("a < 1.2.3", "constraint \"a < 1.2.3\", column 5: this is no number");
}

static void keeps_constraints(const char *engine)
{
    struct tune_study *s = study_of(engine, AB, "[\"a > b - 1\", \"b < 4\"]", 60, 3);
    struct err e = {0};
    const double *code;
    int64_t id;
    int n = 0;

    for (; n < 60 && tune_study_ask(s, &id, &code, &e) == 0; n++) {
        assert_true(tune_dim_value(&tune_study_space(s)->dims[0], code[0]) > code[1] - 1);
        assert_true(code[1] < 4);
        assert_int_equal(tune_study_tell(s, id, TUNE_DONE, code[0] + code[1], &e), 0);
    }
    assert_true(n > 5);
    tune_study_free(s);
}

static void engines_keep_constraints(void **state UNUSED)
{
    each_engine(keeps_constraints);
}

static void an_impossible_space_is_said(void **state UNUSED)
{
    struct tune_study *s = study_of("random", AB, "[\"a > 5\"]", -1, 1);
    struct err e = {0};
    const double *code;
    int64_t id;

    assert_int_equal(tune_study_ask(s, &id, &code, &e), -1);
    assert_string_equal(
        e.text, "2000 random points broke the constraints; the space is empty or nearly so");
    tune_study_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_comparisons),
        cmocka_unit_test(an_absent_parameter_breaks_nothing),
        cmocka_unit_test(what_is_misspelt_is_said_with_its_column),
        cmocka_unit_test(engines_keep_constraints),
        cmocka_unit_test(an_impossible_space_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
