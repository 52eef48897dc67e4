/* test_lines.c - the protocol of berth tune, line by line */
#include "case.h"
#include "tune/lines.h"

#define CREATE                                                                                     \
    "{\"op\":\"create\",\"seed\":1,\"direction\":\"minimize\",\"n_trials\":3,\"space\":"           \
    "[{\"name\":\"x\",\"type\":\"int\",\"low\":1,\"high\":3}]}"

static void says(struct tune_lines *t, const char *line, const char *want)
{
    AUTO(buf) struct buf out = {0};

    assert_true(tune_lines_answer(t, str_of(line), &out));
    assert_string_equal(out.p, want);
}

static void a_whole_study(void **state UNUSED)
{
    struct tune_lines t = {.engine = "grid"};
    AUTO(buf) struct buf out = {0};

    says(&t, CREATE, "{\"ok\":true}\n");
    says(&t, "{\"op\":\"ask\"}", "{\"id\":1,\"params\":{\"x\":1}}\n");
    says(&t, "{\"op\":\"ask\"}", "{\"id\":2,\"params\":{\"x\":2}}\n");
    says(&t, "{\"op\":\"tell\",\"id\":2,\"value\":0.5}", "{\"ok\":true}\n");
    says(&t, " {\"value\": NaN, \"id\": 1, \"op\": \"tell\"} ", "{\"ok\":true}\n");
    says(&t, "{\"op\":\"ask\"}", "{\"id\":3,\"params\":{\"x\":3}}\n");
    says(&t, "{\"op\":\"tell\",\"id\":3,\"state\":\"failed\"}", "{\"ok\":true}\n");
    says(&t, "{\"op\":\"ask\"}",
         "{\"error\":\"every point of the grid has been asked; 3 "
         "trials\",\"code\":\"not_found\"}\n");
    says(&t, "{\"op\":\"record\",\"params\":{\"x\":3}}", "{\"id\":4}\n");
    assert_int_equal(tune_study_best(t.study), 2);
    assert_int_equal(tune_study_get(t.study, 1, NULL)->outcome, TUNE_FAILED);
    assert_false(tune_lines_answer(&t, STR("{\"op\":\"close\"}"), &out));
    assert_int_equal(out.n, 0);
    tune_lines_done(&t);
}

/* A space as in YAML, and a trial with two values. */
static void several_objectives(void **state UNUSED)
{
    struct tune_lines t = {.engine = "grid"};

    says(&t,
         "{\"op\":\"create\",\"directions\":[\"minimize\",\"maximize\"],"
         "\"space\":{\"net\":{\"x\":{\"int\":[1,3]}},\"o\":[\"a\"]}}",
         "{\"ok\":true}\n");
    says(&t, "{\"op\":\"ask\"}", "{\"id\":1,\"params\":{\"net.x\":1,\"o\":\"a\"}}\n");
    says(&t, "{\"op\":\"tell\",\"id\":1,\"value\":0.5}",
         "{\"error\":\"trial 1 has 1 values, the study 2 objectives\",\"code\":\"invalid\"}\n");
    says(&t, "{\"op\":\"tell\",\"id\":1,\"values\":[0.5,2]}", "{\"ok\":true}\n");
    says(&t, "{\"op\":\"ask\"}", "{\"id\":2,\"params\":{\"net.x\":2,\"o\":\"a\"}}\n");
    says(&t, "{\"op\":\"tell\",\"id\":2,\"values\":[NaN,2]}", "{\"ok\":true}\n");
    assert_int_equal(tune_study_get(t.study, 2, NULL)->outcome, TUNE_FAILED);
    assert_int_equal(tune_study_front(t.study, NULL, 0), 1);
    tune_lines_done(&t);
}

#define ERROR(text, code) "{\"error\":\"" text "\",\"code\":\"" code "\"}\n"
static void mistakes_are_answered_and_survived(void **state UNUSED)
{
    struct tune_lines t = {.engine = "random"};

    says(&t, "{\"op\":\"ask\"}", ERROR("there is no study yet; send create first", "conflict"));
    says(&t, "[]",
         ERROR("a line must be an object; try {\\\"op\\\":\\\"create\\\",\\\"space\\\":[…]}",
               "invalid"));
    says(&t, "{\"op\":\"aks\"}", ERROR("op must be create, ask, tell, record or close", "invalid"));
    says(&t, "{\"op\":\"create\"}",
         ERROR("space must be a list with at least one parameter", "invalid"));
    says(&t, "{\"op\":\"create\",\"direction\":\"up\"}",
         ERROR("direction must be minimize or maximize", "invalid"));
    says(&t, "{\"op\":\"create\",\"n_trials\":-2}",
         ERROR("n_trials must not be negative", "invalid"));
    says(&t, CREATE, "{\"ok\":true}\n");
    says(&t, CREATE, ERROR("the study exists already; start another process", "conflict"));
    says(&t, "{\"op\":\"tell\",\"value\":1}", ERROR("tell needs the id of the trial", "invalid"));
    says(&t, "{\"op\":\"tell\",\"id\":1}",
         ERROR("tell needs the value, or \\\"state\\\":\\\"failed\\\"", "invalid"));
    says(&t, "{\"op\":\"tell\",\"id\":1,\"value\":2}",
         ERROR("there is no trial 1; the last one is 0", "not_found"));
    says(&t, "{\"op\":\"tell\",\"id\":1.5,\"value\":2}",
         ERROR("id must be a whole number", "invalid"));
    says(&t, "{\"op\":\"tell\",\"id\":1,\"value\":\"a\"}",
         ERROR("value must be a number, or null for a failed trial", "invalid"));
    says(&t, "{\"op\":\"record\",\"params\":{\"x\":9}}",
         ERROR("parameter x is 9; its range is 1 to 3", "invalid"));
    says(&t, "{\"op\":\"ask\"",
         ERROR("line:1:12: the text ends where a comma or } is expected", "invalid"));
    tune_lines_done(&t);
    t.engine = "best";
    AUTO_FREE char *want =
        xasprintf(ERROR("there is no engine best; choose one of %s", "invalid"), tune_engine_names);
    says(&t, CREATE, want);
    assert_null(t.study);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_study),
        cmocka_unit_test(several_objectives),
        cmocka_unit_test(mistakes_are_answered_and_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
