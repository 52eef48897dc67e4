/* test_grid.c - the points of grids, row by row as the rules of grid.c give them */
#include "case.h"

#define U(name, lo, hi) "{\"name\":\"" name "\",\"type\":\"float\",\"low\":" lo ",\"high\":" hi "}"
#define Q(name, lo, hi, q)                                                                         \
    "{\"name\":\"" name "\",\"type\":\"float\",\"low\":" lo ",\"high\":" hi ",\"step\":" q "}"
#define I(name, lo, hi) "{\"name\":\"" name "\",\"type\":\"int\",\"low\":" lo ",\"high\":" hi "}"
#define C(name, list) "{\"name\":\"" name "\",\"type\":\"cat\",\"choices\":" list "}"

/* All points as JSON, one after the other. */
static void grid_is(const char *items, int64_t budget, const char *want)
{
    struct tune_study *s = study_of("grid", items, NULL, budget, 1);
    AUTO(buf) struct buf out = {0};
    struct err e = {0};
    const double *code;
    int64_t id;

    while (tune_study_ask(s, &id, &code, &e) == 0)
        tune_space_write(tune_study_space(s), code, NULL, &out);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_string_equal(out.p, want);
    tune_study_free(s);
}

static size_t grid_size(const char *items, int64_t budget)
{
    struct tune_study *s = study_of("grid", items, NULL, budget, 1);
    const double *code;
    int64_t id;

    while (tune_study_ask(s, &id, &code, NULL) == 0)
        ;
    size_t n = tune_study_count(s);
    tune_study_free(s);
    return n;
}

static void values_of_one_parameter(void **state UNUSED)
{
    grid_is("[" U("x", "0.95", "1") "]", 5,
            "{\"x\":0.95},{\"x\":0.9624999999999999},{\"x\":0.975},{\"x\":0.9875},{\"x\":1.0}");
    grid_is("[" U("x", "0", "1") "]", 1, "{\"x\":0.5}");
    grid_is("[" U("x", "0", "1") "]", 0, "{\"x\":0.5}");
    grid_is("[" Q("x", "0", "1", "0.3") "]", -1, "{\"x\":0.0},{\"x\":0.3},{\"x\":0.6},{\"x\":0.9}");
    grid_is("[" Q("x", "0", "1", "0.3") "]", 3, "{\"x\":0.0},{\"x\":0.6},{\"x\":0.9}");
    grid_is("[" C("x", "[1,2,3,4,5]") "]", 2, "{\"x\":1},{\"x\":2},{\"x\":3},{\"x\":4},{\"x\":5}");
    grid_is("[{\"name\":\"x\",\"type\":\"const\",\"value\":7}]", 5, "{\"x\":7}");
    grid_is("[" I("x", "3", "3") "]", 5, "{\"x\":3}");
    grid_is("[{\"name\":\"x\",\"type\":\"float\",\"low\":1e-4,\"high\":0.1,\"log\":true}]", 4,
            "{\"x\":0.0001},{\"x\":0.001},{\"x\":0.01},{\"x\":0.1}");
}

static void budgets_are_shared(void **state UNUSED)
{
    grid_is("[" I("a", "1", "3") "," C("b", "[\"x\",\"y\"]") "]", 4,
            "{\"a\":1,\"b\":\"x\"},{\"a\":1,\"b\":\"y\"},{\"a\":3,\"b\":\"x\"},{\"a\":3,\"b\":"
            "\"y\"}");
    assert_int_equal(grid_size("[" U("a", "0", "1") "," U("b", "0", "10") "]", 20), 20);
#define Z C("z", "[1,2,3,4,5]")
    assert_int_equal(grid_size("[" U("x", "-10", "100") "," U("y", "-10", "20") "," Z "]", 1000),
                     945);
    assert_int_equal(
        grid_size("[" U("x", "-10", "100") "," Q("y", "-10", "20", "30") "," Z "]", 1000), 1000);
    assert_int_equal(
        grid_size("[" U("x", "-10", "100") "," Q("y", "-10", "20", "30") "," Z "]", 11), 10);
    assert_int_equal(
        grid_size("[" I("x", "-10", "100") "," Q("y", "-10", "20", "30") "," Z "]", -1), 1110);
    assert_int_equal(
        grid_size("[" I("x", "-10", "100") "," Q("y", "-10", "20", "30") "," Z "]", 10000), 1110);
}

static void a_continuous_grid_needs_a_budget(void **state UNUSED)
{
    struct tune_conf conf = {.engine = "grid", .budget = -1};
    struct tune_study *s = NULL;
    struct err e = {0};

    assert_int_equal(tune_study_new(space_of("[" U("x", "0", "1") "]", NULL), &conf, &s, &e), -1);
    assert_string_equal(
        e.text, "the grid of x, which is continuous, needs the number of trials (n_trials)");
}

static void conditions_leave_no_point_twice(void **state UNUSED)
{
    grid_is("[" C("a", "[0,1]") ",{\"name\":\"b\",\"type\":\"int\",\"low\":1,\"high\":3,\"when\":{"
                                "\"a\":[1]}}]",
            -1, "{\"a\":0},{\"a\":1,\"b\":1},{\"a\":1,\"b\":2},{\"a\":1,\"b\":3}");
}

/* Results come back in another order, and a person adds a point of the grid: still all, once. */
static void every_point_once_whatever_the_order(void **state UNUSED)
{
    struct tune_study *s =
        study_of("grid", "[" I("x", "0", "9") "," I("y", "0", "9") "]", NULL, -1, 1);
    bool seen[100] = {0};
    const double *code;
    struct err e = {0};
    int64_t id;

    for (int64_t n = 0; tune_study_ask(s, &id, &code, &e) == 0; n++) {
        size_t at = (size_t)(code[0] * 10 + code[1]);
        assert_false(seen[at]);
        seen[at] = true;
        if (n % 4 == 3)
            for (int64_t back = id; back > id - 4; back--)
                assert_int_equal(tune_study_tell(s, back, TUNE_DONE, 1, &e), 0);
    }
    assert_int_equal(tune_study_count(s), 100);
    tune_study_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_one_parameter),
        cmocka_unit_test(budgets_are_shared),
        cmocka_unit_test(a_continuous_grid_needs_a_budget),
        cmocka_unit_test(conditions_leave_no_point_twice),
        cmocka_unit_test(every_point_once_whatever_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
