/* What may be asked for: types, limits, defaults, and the words of a refusal. */
#include "../unit.h"
#include "base/util.h"
#include "dialect/gpu/submission.h"
#include <stdio.h>

static struct arena mem;

static int read_text(const char *text, bool options, struct gpu_submission *out, struct err *e)
{
    struct json *j = NULL;

    *e = (struct err){0};
    assert_int_equal(json_parse(str_of(text), "test", &j, e), 0);
    int rc = gpu_submission_read(j, options, &mem, out, e);
    json_free(j);
    return rc;
}

static struct gpu_submission good(const char *more)
{
    AUTO_FREE char *text = xasprintf("{\"jobName\":\"a\",\"scriptPath\":\"/custom/t.py\"%s}", more);
    struct gpu_submission s;
    struct err e;

    if (read_text(text, true, &s, &e) < 0)
        fail_msg("%s: %s", more, e.text);
    return s;
}

static void refused(const char *more, const char *words)
{
    AUTO_FREE char *text = xasprintf("{\"jobName\":\"a\",\"scriptPath\":\"/custom/t.py\"%s}", more);
    struct gpu_submission s;
    struct err e;

    if (read_text(text, true, &s, &e) == 0)
        fail_msg("%s was accepted", more);
    assert_int_equal(e.code, ERR_INVALID);
    if (!strstr(e.text, words))
        fail_msg("%s: \"%s\" does not say \"%s\"", more, e.text, words);
    assert_null(strchr(e.text, '\n'));
}

TEST(defaults)
{
    struct gpu_submission s = good("");

    assert_true(s.single_gpu);
    assert_false(s.no_sharing);
    assert_false(s.launch_gpu);
    assert_int_equal(s.priority, 3);
    assert_int_equal(s.max_retries, 0);
    assert_int_equal(s.memory_mib, 0);
    assert_true(s.est_hours == 0);
    assert_null(s.image);
    assert_null(s.env);
    assert_int_equal(s.n_ports, 0);
}

TEST(everything)
{
    struct gpu_submission s = good(
        ",\"dockerImage\":\"img:1\",\"directoryToMount\":\"/home/a\",\"snapshotsDir\":\"/s\","
        "\"batchSize\":\"32\",\"trainingSetSize\":50000,\"maxEpochs\":9,\"isSingleGPU\":\"No\","
        "\"disableGPUSharing\":1,\"estimatedMemory\":5000,\"portMapping\":\"31346:6006,"
        "31347:7007\",\"estNHours\":\"1.01\",\"priority\":5,\"deadline\":"
        "\"2026-11-20T08:00:00+01:00\",\"maxRetries\":2,\"launch\":\"gpu\","
        "\"env\":{\"A\":\"1\"},\"environment\":{\"PATH\":\"/bin\",\"RANK\":\"3\"},"
        "\"username\":\"alice\"");

    assert_string_equal(s.image, "img:1");
    assert_string_equal(s.custom_dir, "/home/a");
    assert_int_equal(s.batch_size, 32);
    assert_int_equal(s.training_set_size, 50000);
    assert_int_equal(s.max_epochs, 9);
    assert_false(s.single_gpu);
    assert_true(s.no_sharing);
    assert_int_equal(s.memory_mib, 5000);
    assert_int_equal(s.n_ports, 2);
    assert_int_equal(s.port[1].node, 31347);
    assert_int_equal(s.port[1].container, 7007);
    assert_true(s.est_hours > 1.009 && s.est_hours < 1.011);
    assert_string_equal(s.deadline, "2026-11-20T07:00:00.000Z");
    assert_true(s.launch_gpu);
    assert_true(json_has(s.env, "A"));
    assert_true(json_has(s.environment, "PATH"));
    assert_false(json_has(s.environment, "RANK")); /* of the sender's shell, not a wish */
    /* It travels as JSON and comes back the same. */
    struct json *j = gpu_submission_json(&s, false), *again;
    struct gpu_submission t;
    struct err e = {0};
    assert_int_equal(gpu_submission_read(j, false, &mem, &t, &e), 0);
    again = gpu_submission_json(&t, false);
    assert_true(json_equal(j, again));
    json_free(j);
    json_free(again);
    struct json *bare = gpu_submission_json(&s, true);
    assert_false(json_has(bare, "env"));
    assert_false(json_has(bare, "environment"));
    json_free(bare);
    gpu_submission_done(&s);
    gpu_submission_done(&t);
}

TEST(numbers_and_switches)
{
    refused(",\"estNHours\":1", "--est_nhours '1': must be more than 1 hour");
    refused(",\"estNHours\":\"0.5\"", "--est_nhours '0.5'");
    refused(",\"estNHours\":\"nan\"", "--est_nhours 'nan'");
    refused(",\"estNHours\":\"1e9\"", "ten years");
    refused(",\"batchSize\":0", "--batch_size '0'");
    refused(",\"batchSize\":\"12x\"", "--batch_size '12x'");
    refused(",\"batchSize\":1.5", "--batch_size '1.5'");
    refused(",\"maxEpochs\":-3", "--max_epochs '-3'");
    refused(",\"estimatedMemory\":0", "--estimated_memory '0'");
    refused(",\"priority\":6", "--priority '6': must be a whole number from 1 to 5");
    refused(",\"maxRetries\":-1", "--max_retries '-1'");
    refused(",\"isSingleGPU\":\"maybe\"", "--is_single_gpu 'maybe'");
    refused(",\"launch\":\"all\"", "--launch 'all'");
    refused(",\"deadline\":\"tomorrow\"", "--deadline 'tomorrow'");
    assert_false(good(",\"isSingleGPU\":\"FALSE\"").single_gpu);
    assert_true(good(",\"isSingleGPU\":\"Yes\"").single_gpu);
    assert_false(good(",\"isSingleGPU\":0").single_gpu);
    assert_true(good(",\"estNHours\":1.0001").est_hours > 1);
    assert_non_null(good(",\"deadline\":\"2026-11-20\"").deadline);
    assert_non_null(good(",\"deadline\":\"2026-11-20T08:00\"").deadline);
}

TEST(ports)
{
    static const char *const bad[] = {
        "31346",           "0:1",      "31346:70000", "31346:1,31346:2",
        "31346 : 6006",    "31346:1,", ":",           "1:2:3",
        "31346:6006, 2:3", "+1:2",     "-1:2",        "a:b"};

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        AUTO_FREE char *text = xasprintf(",\"portMapping\":\"%s\"", bad[i]);
        refused(text, "--port_mapping");
    }
}

TEST(names)
{
    char longest[GPU_NAME_MAX + 1], text[300];
    struct gpu_submission s;
    struct err e;

    memset(longest, 'x', GPU_NAME_MAX);
    longest[GPU_NAME_MAX] = 0;
    snprintf(text, sizeof(text), "{\"jobName\":\"%s\",\"scriptPath\":\"t\"}", longest);
    assert_int_equal(read_text(text, true, &s, &e), 0);
    snprintf(text, sizeof(text), "{\"jobName\":\"%sx\",\"scriptPath\":\"t\"}", longest);
    assert_int_equal(read_text(text, true, &s, &e), -1);
    assert_non_null(strstr(e.text, "job_name"));
    assert_int_equal(read_text("{\"jobName\":\"a/b\",\"scriptPath\":\"t\"}", true, &s, &e), -1);
    assert_int_equal(read_text("{\"jobName\":\"a\\u0007\",\"scriptPath\":\"t\"}", true, &s, &e),
                     -1);
    assert_int_equal(read_text("{\"jobName\":\"\",\"scriptPath\":\"t\"}", true, &s, &e), -1);
    assert_int_equal(read_text("{\"scriptPath\":\"t\"}", true, &s, &e), -1);
    assert_non_null(strstr(e.text, "job_name is missing"));
    assert_int_equal(read_text("{\"jobName\":\"größe\",\"scriptPath\":\"t\"}", true, &s, &e), 0);
}

TEST(what_goes_together)
{
    struct gpu_submission s;
    struct err e;

    refused(",\"maxEpochs\":3", "--batch_size is missing");
    refused(",\"maxEpochs\":3,\"batchSize\":1", "--training_set_size is missing");
    refused(",\"batchSize\":3,\"trainingSetSize\":9", "--max_epochs is missing");
    assert_int_equal(read_text("{\"jobName\":\"a\"}", true, &s, &e), -1);
    assert_non_null(strstr(e.text, "--script_path is missing"));
    assert_int_equal(read_text("{\"jobName\":\"a\",\"dockerImage\":\"i\"}", true, &s, &e), 0);
    /* Whoever sends keys reads of keys. */
    assert_int_equal(read_text("{\"jobName\":\"a\"}", false, &s, &e), -1);
    assert_non_null(strstr(e.text, "scriptPath is missing"));
    assert_int_equal(
        read_text("{\"jobName\":\"a\",\"scriptPath\":\"t\",\"estNHours\":1}", false, &s, &e), -1);
    assert_non_null(strstr(e.text, "estNHours '1'"));
    assert_int_equal(read_text("{\"jobName\":\"a\",\"scriptPaht\":\"t\"}", false, &s, &e), -1);
    assert_non_null(strstr(e.text, "did you mean scriptPath?"));
    assert_int_equal(read_text("[1]", false, &s, &e), -1);
}

TEST(variables)
{
    static const char *const taken[] = {"MASTER_PORT", "WORLD_SIZE", "TF_CONFIG",      "JOB_UUID",
                                        "NUM_GPUS",    "RANK",       "SCHED_ENDPOINT", "BERTH_RUN"};

    for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
        AUTO_FREE char *text = xasprintf(",\"env\":[\"%s=1\"]", taken[i]);
        refused(text, taken[i]);
        assert_true(gpu_env_reserved(str_of(taken[i])));
    }
    refused(",\"env\":[\"novalue\"]", "--env");
    refused(",\"env\":[\"=x\"]", "--env");
    refused(",\"env\":[3]", "--env");
    refused(",\"env\":{\"A\":1}", "--env");
    struct gpu_submission s = good(",\"env\":[\"A=1=2\",\"B=\"]");
    assert_true(str_eq_c(json_str(json_get(s.env, "A")), "1=2"));
    assert_true(str_eq_c(json_str(json_get(s.env, "B")), ""));
    gpu_submission_done(&s);
}

TEST(directories)
{
    refused(",\"directoryToMount\":\"code\"", "--custom_dir 'code': must be an absolute path");
    refused(",\"snapshotsDir\":\"/a:b\"", "--snapshots_dir '/a:b'");
    refused(",\"directoryToMount\":\"\"", "--custom_dir ''");
    assert_string_equal(good(",\"customDir\":\"/x\"").custom_dir, "/x");
}

static int teardown(void **state)
{
    (void)state;
    arena_done(&mem);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(everything),
        cmocka_unit_test(numbers_and_switches),
        cmocka_unit_test(ports),
        cmocka_unit_test(names),
        cmocka_unit_test(what_goes_together),
        cmocka_unit_test(variables),
        cmocka_unit_test(directories),
    };

    return cmocka_run_group_tests(tests, NULL, teardown);
}
