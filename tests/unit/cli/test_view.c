/* test_view.c - records as people read them, and the exit status they mean */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "cli/view.h"

static struct json *parse(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};

    assert_int_equal(json_parse(str_of(text), "test", &j, &e), 0);
    return j;
}

static int status_of(const char *text)
{
    struct json *j = parse(text);
    int rc = job_exit_status(j);

    json_free(j);
    return rc;
}

static void test_status(void **state)
{
    (void)state;
    assert_int_equal(status_of("{\"state\":\"succeeded\",\"exit_code\":0}"), 0);
    assert_int_equal(status_of("{\"state\":\"failed\",\"exit_code\":3}"), 3);
    assert_int_equal(status_of("{\"state\":\"failed\",\"exit_code\":139}"), 139);
    assert_int_equal(status_of("{\"state\":\"cancelled\",\"exit_code\":143}"), 143);
    assert_int_equal(status_of("{\"state\":\"cancelled\",\"exit_code\":null}"), 130);
    assert_int_equal(status_of("{\"state\":\"cancelled\",\"exit_code\":0}"), 130);
    assert_int_equal(status_of("{\"state\":\"failed\",\"exit_code\":null}"), 127);
    assert_int_equal(status_of("{\"state\":\"failed\",\"exit_code\":0}"), 124);
    assert_int_not_equal(status_of("{\"state\":\"lost\",\"exit_code\":null}"), 0);
}

static void test_times(void **state)
{
    char age[AGE_TEXT_MAX];

    (void)state;
    age_format(0, 400, age);
    assert_string_equal(age, "now");
    age_format(5000, 0, age); /* a clock that was set back */
    assert_string_equal(age, "now");
    age_format(0, 119000, age);
    assert_string_equal(age, "119s ago");
    age_format(0, 121000, age);
    assert_string_equal(age, "2m ago");
    age_format(0, INT64_C(3600000) * 47, age);
    assert_string_equal(age, "47h ago");
    age_format(0, INT64_C(86400000) * 30, age);
    assert_string_equal(age, "30d ago");
}

static void test_runtime(void **state)
{
    struct json *j = parse("{\"state\":\"running\",\"started\":\"1970-01-01T00:00:10.000Z\","
                           "\"duration_ms\":null}");

    (void)state;
    assert_int_equal(job_runtime(j, 12500), 2500);
    assert_int_equal(job_runtime(j, 5000), 0);
    json_free(j);
    j = parse("{\"state\":\"queued\",\"started\":null,\"duration_ms\":null}");
    assert_int_equal(job_runtime(j, 12500), -1);
    json_free(j);
    j = parse("{\"state\":\"failed\",\"duration_ms\":40,\"ran_ms\":90}");
    assert_int_equal(job_runtime(j, 12500), 40);
    json_free(j);
}

#define TRAINS "\"started\":\"1970-01-01T00:00:10.000Z\",\"ran_ms\":1700,\"training\":{},"

/* All its runs, and not the time between them; between two runs it has no exit status. */
static void test_runtime_of_training(void **state)
{
    static const char row[] =
        "[{" TRAINS "\"number\":5,\"name\":\"n\",\"state\":\"queued\",\"exit_code\":0}]";
    struct json *j = parse("{" TRAINS "\"state\":\"queued\",\"duration_ms\":null}");
    AUTO(buf) struct buf b;

    (void)state;
    assert_int_equal(job_runtime(j, 60000), 1700);
    json_free(j);
    j = parse("{" TRAINS "\"state\":\"running\",\"duration_ms\":null}");
    assert_int_equal(job_runtime(j, 12500), 2500 + 1700);
    json_free(j);
    j = parse("{" TRAINS "\"state\":\"succeeded\",\"duration_ms\":40}");
    assert_int_equal(job_runtime(j, 60000), 1700);
    json_free(j);
    j = parse("{\"state\":\"queued\",\"started\":\"1970-01-01T00:00:10.000Z\",\"ran_ms\":9}");
    assert_int_equal(job_runtime(j, 60000), -1); /* to be tried again */
    json_free(j);
    buf_init(&b, 1 << 16);
    j = parse(row);
    view_table(&b, j, job_columns, n_job_columns, 200, false);
    assert_null(strstr(b.p, "EXIT"));
    json_free(j);
}

static void test_texts(void **state)
{
    AUTO(buf) struct buf b;
    char text[200];
    struct json *j = parse("{\"lr\":0.10,\"net\":\"cnn\",\"deep\":[1,2]}");

    (void)state;
    buf_init(&b, 1 << 16);
    params_format(&b, j);
    assert_string_equal(b.p, "lr=0.10 net=cnn deep=[1,2]");
    json_free(j);
    buf_reset(&b);
    j = parse("[\"sh\",\"-c\",\"echo 'a b' > x\",\"\",\"--lr={lr}\"]");
    command_format(&b, j);
    assert_string_equal(b.p, "sh -c 'echo '\\''a b'\\'' > x' '' --lr={lr}");
    json_free(j);
    j = parse("{\"state\":\"failed\",\"exit_code\":3,\"reason\":null}");
    job_outcome_text(j, text, sizeof(text));
    assert_string_equal(text, "failed with exit code 3");
    json_free(j);
    j = parse("{\"state\":\"failed\",\"exit_code\":null,\"reason\":\"command not found: x\"}");
    job_outcome_text(j, text, sizeof(text));
    assert_string_equal(text, "failed: command not found: x");
    json_free(j);
}

static const char rows_text[] =
    "[{\"number\":7,\"name\":\"a-rather-long-name-of-a-job\",\"state\":\"failed\",\"exit_code\":2,"
    "\"duration_ms\":1500,\"created\":\"2026-01-01T00:00:00.000Z\",\"project\":\"default\","
    "\"queue\":\"default\",\"params\":{\"lr\":0.1},\"reason\":null},"
    "{\"number\":8,\"name\":\"b\",\"state\":\"queued\",\"exit_code\":null,\"duration_ms\":null,"
    "\"created\":\"2026-01-01T00:00:00.000Z\",\"project\":\"default\",\"queue\":\"default\","
    "\"params\":{},\"reason\":null}]";

static void test_table(void **state)
{
    AUTO(buf) struct buf b;
    struct json *rows = parse(rows_text);

    (void)state;
    buf_init(&b, 1 << 16);
    view_table(&b, rows, job_columns, n_job_columns, 60, false);
    assert_non_null(strstr(b.p, "JOB"));
    assert_non_null(strstr(b.p, "lr=0.1"));
    assert_null(strstr(b.p, "PROJECT")); /* nothing but "default" in it */
    assert_null(strstr(b.p, "REASON"));
    for (struct str rest = buf_str(&b); rest.n;)
        assert_true(text_width(str_cut(rest, '\n', &rest)) <= 60);
    buf_reset(&b);
    view_table(&b, rows, job_columns, n_job_columns, 200, true);
    assert_non_null(strstr(b.p, colour_start(COLOUR_RED)));
    json_free(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),  cmocka_unit_test(test_times),
        cmocka_unit_test(test_runtime), cmocka_unit_test(test_runtime_of_training),
        cmocka_unit_test(test_texts),   cmocka_unit_test(test_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
