/* A job as JSON: the keys, their order, nulls, and that the text is JSON whatever the values. */
#include "api/job_json.h"
#include "base/json.h"
#include "base/util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct json *as_json(const struct job_view *v)
{
    struct buf b;
    struct json *j = NULL;
    struct err e = {0};

    buf_init(&b, 1 << 20);
    job_json(&b, v);
    if (json_parse(buf_str(&b), "job", &j, &e) < 0)
        fail_msg("%s in %s", e.text, b.p);
    buf_done(&b);
    return j;
}

static struct job_view full_view(void)
{
    return (struct job_view){
        .seq = 42,
        .id = {0x0193300000000000, 7},
        .batch = {3, {0x0193300000000000, 1}, STR("mnist"), 5},
        .name = STR("tr\"ain\n"),
        .project = STR("vision"),
        .queue = STR("default"),
        .user = STR("ann"),
        .params = STR("{\"lr\":0.1}"),
        .reason = STR("exit status 3"),
        .origin.command = STR("[\"python\",\"train.py\"]"),
        .state = JOB_FAILED,
        .exit_code = 3,
        .priority = -5,
        .attempt = 2,
        .created_ms = 1731703582123,
        .started_ms = 1731703583000,
        .ended_ms = 1731703593500,
        .usage.max_rss_bytes = INT64_C(5) << 30,
        .usage.cpu_ms = 1234,
        .need = {.mcpu = 2500, .mem_bytes = INT64_C(4) << 30, .gpus = 1, .slots = 1},
        .cancel_requested = true,
    };
}

static void test_keys_and_order(void **state)
{
    static const char *const keys[] = {
#define X(key) #key,
        JOB_JSON_KEYS(X)
#undef X
    };
    struct job_view v = full_view();
    struct json *j = as_json(&v);
    size_t i = 0;

    (void)state;
    for (struct json_it it = {0}; json_next(j, &it); i++) {
        assert_true(i < ARRAY_SIZE(keys));
        assert_string_equal(it.key, keys[i]);
    }
    assert_int_equal(i, ARRAY_SIZE(keys));
    json_free(j);
}

static void test_values(void **state)
{
    struct job_view v = full_view();
    struct json *j = as_json(&v);

    (void)state;
    assert_int_equal(json_int(json_get(j, "number")), 42);
    assert_int_equal(json_str(json_get(j, "id")).n, ID_TEXT_LEN);
    assert_true(str_eq_c(json_str(json_get(j, "name")), "tr\"ain\n"));
    assert_true(str_eq_c(json_str(json_get(j, "state")), "failed"));
    assert_int_equal(json_int(json_get(j, "exit_code")), 3);
    assert_int_equal(json_int(json_get(j, "priority")), -5);
    assert_int_equal(json_int(json_get(j, "index")), 5);
    assert_int_equal(json_int(json_get(j, "duration_ms")), 10500);
    assert_true(str_eq_c(json_str(json_get(j, "created")), "2024-11-15T20:46:22.123Z"));
    assert_true(json_real(json_get(j, "cpus")) == 2.5);
    assert_int_equal(json_int(json_get(j, "mem_bytes")), INT64_C(4) << 30);
    assert_true(json_bool(json_get(j, "cancel_requested")));
    assert_true(json_real(json_get(json_get(j, "params"), "lr")) == 0.1);
    assert_int_equal(json_len(json_get(j, "command")), 2);
    json_free(j);
}

static void test_nothing_known_yet(void **state)
{
    struct job_view v = {.seq = 1,
                         .name = STR("a"),
                         .project = STR("default"),
                         .queue = STR("default"),
                         .user = STR("u"),
                         .origin.command = STR("\"true\""),
                         .exit_code = -1,
                         .created_ms = 1};
    static const char *const nulls[] = {"exit_code", "reason",  "batch", "batch_name",
                                        "index",     "started", "ended", "duration_ms"};
    struct json *j = as_json(&v);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(nulls); i++) {
        assert_true(json_has(j, nulls[i]));
        assert_int_equal(json_type(json_get(j, nulls[i])), JSON_NULL);
    }
    assert_int_equal(json_type(json_get(j, "params")), JSON_OBJECT);
    assert_true(str_eq_c(json_str(json_get(j, "state")), "queued"));
    json_free(j);
}

static void test_ended_before_it_ran(void **state)
{
    struct job_view v = full_view();
    struct json *j;

    (void)state;
    v.started_ms = 0;
    j = as_json(&v);
    assert_int_equal(json_type(json_get(j, "duration_ms")), JSON_NULL);
    json_free(j);
}

static void check_mcpu(int64_t mcpu, const char *want)
{
    struct buf b;

    buf_init(&b, 100);
    jw_mcpu(&b, NULL, mcpu);
    assert_string_equal(b.p, want);
    buf_done(&b);
}

static void check_int(int64_t v, const char *want)
{
    struct buf b;

    buf_init(&b, 100);
    jw_int(&b, NULL, v);
    assert_string_equal(b.p, want);
    buf_done(&b);
}

static void test_numbers(void **state)
{
    (void)state;
    check_mcpu(0, "0");
    check_mcpu(1000, "1");
    check_mcpu(500, "0.5");
    check_mcpu(1050, "1.05");
    check_mcpu(12001, "12.001");
    check_int(0, "0");
    check_int(-7, "-7");
    check_int(INT64_MIN, "-9223372036854775808");
    check_int(INT64_MAX, "9223372036854775807");
}

static void test_broken_utf8(void **state)
{
    struct job_view v = full_view();
    struct json *j;

    (void)state;
    v.reason = (struct str){"a\xff\xfe b\0c", 7};
    j = as_json(&v); /* parses: that is the test */
    json_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_and_order),    cmocka_unit_test(test_values),
        cmocka_unit_test(test_nothing_known_yet), cmocka_unit_test(test_ended_before_it_ran),
        cmocka_unit_test(test_numbers),           cmocka_unit_test(test_broken_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
