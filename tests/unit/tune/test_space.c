/* test_space.c - kinds of parameters, their codes and values, and what is wrong with bad spaces */
#include "case.h"

static void bad(const char *items, const char *want)
{
    struct tune_space *s = NULL;
    struct err e = {0};

    assert_int_equal(space_from(items, NULL, &s, &e), -1);
    assert_string_equal(e.text, want);
    assert_int_equal(e.code, ERR_INVALID);
    assert_null(s);
}

static void codes_and_values_of_numbers(void **state UNUSED)
{
    struct tune_space *s =
        space_of("[{\"name\":\"x\",\"type\":\"float\",\"low\":-5,\"high\":10},"
                 "{\"name\":\"lr\",\"type\":\"float\",\"low\":1e-6,\"high\":1,\"log\":true},"
                 "{\"name\":\"n\",\"type\":\"int\",\"low\":10,\"high\":20,\"step\":4},"
                 "{\"name\":\"w\",\"type\":\"int\",\"low\":1,\"high\":8,\"log\":true},"
                 "{\"name\":\"q\",\"type\":\"float\",\"low\":0,\"high\":1,\"step\":0.3}]",
                 NULL);

    assert_true(tune_dim_value(&s->dims[0], 0.2) == -2);
    assert_true(fabs(tune_dim_value(&s->dims[1], 0.5) - 1e-3) < 1e-12);
    assert_true(tune_dim_value(&s->dims[1], 1) == 1);
    assert_true(s->dims[2].count == 3 && tune_dim_value(&s->dims[2], 2) == 18);
    assert_true(s->dims[2].high == 18);
    assert_true(s->dims[4].count == 4 && fabs(tune_dim_value(&s->dims[4], 3) - 0.9) < 1e-12);
    /* Cells of integers on the logarithm lie side by side, and small ones are wider. */
    double lo, hi, last = 0, width = 1;
    for (double k = 0; k < 8; k++) {
        tune_dim_cell(&s->dims[3], k, &lo, &hi);
        assert_true(fabs(lo - last) < 1e-12 && hi - lo < width);
        assert_true(tune_dim_code(&s->dims[3], (lo + hi) / 2) == k);
        last = hi;
        width = hi - lo;
    }
    assert_true(fabs(last - 1) < 1e-12);
    assert_false(s->finite);
    tune_space_free(s);
}

static void conditions_decide_what_exists(void **state UNUSED)
{
    struct tune_space *s = space_of(MIXED_TREE, NULL);
    double code[7] = {0, 0.5, 1, 2, 3, 1, 0};
    struct rng r;
    AUTO(buf) struct buf out = {0};

    rng_seed(&r, 1);
    tune_space_settle(s, code, &r);
    tune_space_write(s, code, NULL, &out);
    assert_string_equal(out.p, "{\"kind\":\"svm\",\"c\":1.0,\"size\":null,\"drop\":0.3,\"epochs\":{"
                               "\"n\":10}}");
    code[0] = 1;
    code[2] = 0; /* depth 1: no width */
    tune_space_settle(s, code, &r);
    assert_true(isnan(code[1]) && code[2] == 0 && isnan(code[3]));
    code[2] = 1;
    tune_space_settle(s, code, &r); /* the missing width is drawn */
    assert_true(code[3] >= 0 && code[3] <= 504);
    tune_space_free(s);
}

static void counting_visits_every_point_once(void **state UNUSED)
{
    struct tune_space *s =
        space_of("[{\"name\":\"a\",\"type\":\"cat\",\"choices\":[1,2,3]},"
                 "{\"name\":\"b\",\"type\":\"int\",\"low\":1,\"high\":4,\"when\":{\"a\":[1]}},"
                 "{\"name\":\"c\",\"type\":\"int\",\"low\":1,\"high\":2,\"when\":{\"b\":[2,3]}}]",
                 NULL);
    double code[3];
    int n = 0;

    /* a=1: b=1, b=2 and 3 with two c each, b=4; a=2; a=3 */
    for (bool more = tune_space_count_on(s, NULL, code, true); more;
         more = tune_space_count_on(s, NULL, code, false))
        n++;
    assert_int_equal(n, 8);
    assert_true(s->finite && s->conditional);
    tune_space_free(s);
}

static void params_come_back_as_codes(void **state UNUSED)
{
    struct tune_space *s = space_of(MIXED_TREE, NULL);
    struct rng r;
    struct err e = {0};
    double code[7], back[7];

    rng_seed(&r, 7);
    for (int i = 0; i < 500; i++) {
        AUTO(buf) struct buf out = {0};
        struct json *j = NULL;
        assert_true(tune_space_draw(s, code, &r));
        tune_space_write(s, code, NULL, &out);
        tune_space_canonical(s, code);
        assert_int_equal(json_parse(buf_str(&out), "p", &j, &e), 0);
        if (tune_space_read(s, j, back, &e) < 0)
            fail_msg("%s: %s", out.p, e.text);
        for (size_t k = 0; k < 7; k++)
            assert_true(code[k] == back[k] || (isnan(code[k]) && isnan(back[k])));
        json_free(j);
    }
    tune_space_free(s);
}

static void wrong_params(const struct tune_space *s, const char *params, const char *want)
{
    struct json *j = NULL;
    struct err e = {0};
    double code[7];

    assert_int_equal(json_parse(str_of(params), "p", &j, &e), 0);
    assert_int_equal(tune_space_read(s, j, code, &e), -1);
    assert_string_equal(e.text, want);
    json_free(j);
}

static void params_that_are_wrong(void **state UNUSED)
{
    struct tune_space *s = space_of(MIXED_TREE, NULL);

    wrong_params(s, "{\"kind\":\"tree\"}", "parameter kind has no choice \"tree\"");
    wrong_params(s, "{\"kind\":\"svm\"}", "params lacks the parameter c");
    wrong_params(s, "{\"kind\":\"svm\",\"c\":\"x\"}", "parameter c takes a number, not a string");
    wrong_params(s, "{\"kind\":\"svm\",\"c\":1e4}",
                 "parameter c is 10000; its range is 0.001 to 1000");
    wrong_params(s, "{\"kind\":\"svm\",\"c\":1,\"depth\":1}",
                 "params has the parameter depth, whose condition does not hold");
    wrong_params(s, "{\"kind\":\"svm\",\"c\":1,\"size\":1,\"drop\":0.4,\"epochs\":{\"n\":10}}",
                 "parameter drop is 0.4, which is no step of 0.3 from 0");
    wrong_params(s,
                 "{\"kind\":\"svm\",\"c\":1,\"size\":1,\"drop\":0,\"epochs\":{\"n\":10},\"z\":1}",
                 "params has z, which the space does not know");
    wrong_params(s, "[]", "params must be an object such as {\"lr\": 0.1}");
    tune_space_free(s);
}

static void bad_spaces_are_named(void **state UNUSED)
{
#define P(rest) "[{\"name\":\"x\"," rest "}]"
    bad("{}", "space must be a list with at least one parameter");
    bad("[3]", "space[0] is a whole number; a parameter is an object");
    bad("[{\"type\":\"float\"}]", "space[0] has no name; add \"name\": \"…\"");
    bad(P("\"type\":\"double\""),
        "parameter x: type must be float, int, cat, ordinal, const or expr");
    bad(P("\"type\":\"float\",\"lo\":1"), "parameter x: unknown key lo; did you mean low");
    bad(P("\"type\":\"float\",\"low\":0"), "parameter x: high must be a finite number");
    bad(P("\"type\":\"float\",\"low\":1,\"high\":0"), "parameter x: low is above high; swap them");
    bad(P("\"type\":\"float\",\"low\":0,\"high\":1,\"log\":true"),
        "parameter x: log needs low above 0");
    bad(P("\"type\":\"float\",\"low\":0,\"high\":1,\"step\":0"),
        "parameter x: step must be above 0");
    bad(P("\"type\":\"float\",\"low\":1,\"high\":2,\"log\":true,\"step\":1"),
        "parameter x: log and step exclude each other");
    bad(P("\"type\":\"float\",\"low\":-1.7e308,\"high\":1.7e308"),
        "parameter x: the range from low to high is too wide");
    bad(P("\"type\":\"int\",\"low\":0.5,\"high\":2"),
        "parameter x: low, high and step of an int must be whole numbers");
    bad(P("\"type\":\"cat\",\"choices\":[]"),
        "parameter x: choices must be a list with at least one value");
    bad(P("\"type\":\"cat\",\"choices\":[1,2,1.0]"),
        "parameter x: two choices are equal; remove one");
    bad(P("\"type\":\"cat\",\"choices\":[1],\"low\":1"),
        "parameter x: low, high, log and step belong to float and int");
    bad(P("\"type\":\"const\""), "parameter x: a const has a value and no choices");
    bad(P("\"type\":\"const\",\"value\":1,\"when\":{\"y\":[1]}"),
        "parameter x: when names y, which is no parameter before it");
    bad("[" UNIT_FLOAT("x") "," UNIT_FLOAT("x") "]", "two parameters have the name x; rename one");
    bad("[" UNIT_FLOAT(
            "y") ",{\"name\":\"x\",\"type\":\"const\",\"value\":1,\"when\":{\"y\":0.5}}]",
        "parameter x: when needs a parent with finitely many values, and y is continuous");
    bad("[{\"name\":\"y\",\"type\":\"cat\",\"choices\":[1]},"
        "{\"name\":\"x\",\"type\":\"const\",\"value\":1,\"when\":{\"y\":[2]}}]",
        "parameter x: when: parameter y has no choice 2");
    bad("[{\"name\":\"y\",\"type\":\"cat\",\"choices\":[1]},"
        "{\"name\":\"x\",\"type\":\"const\",\"value\":1,\"when\":{\"y\":[]}}]",
        "parameter x: a list of when is empty, so the parameter would never exist");
#undef P
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_and_values_of_numbers),
        cmocka_unit_test(conditions_decide_what_exists),
        cmocka_unit_test(counting_visits_every_point_once),
        cmocka_unit_test(params_come_back_as_codes),
        cmocka_unit_test(params_that_are_wrong),
        cmocka_unit_test(bad_spaces_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
