/* Rows of scheduler-state: names of states, reasons to wait, and that a row is JSON. */
#include "../unit.h"
#include "base/util.h"
#include "dialect/gpu/state.h"

static struct gpu_job_facts facts(enum job_state s)
{
    static char name[] = "a \"name\"", user[] = "alice", empty[] = "";

    return (struct gpu_job_facts){.number = 7,
                                  .id = {1, 2},
                                  .name = name,
                                  .user = user,
                                  .reason = empty,
                                  .node = empty,
                                  .state = s,
                                  .exit_code = -1};
}

TEST(states)
{
    struct gpu_job_facts f = facts(JOB_QUEUED);

    assert_string_equal(gpu_job_state(&f), "pending");
    f.runs.starts = 1;
    f.runs.ended = true;
    f.runs.why = RUN_END_EXITED;
    f.runs.exit_code = 0;
    assert_string_equal(gpu_job_state(&f), "preempted"); /* it made room */
    f.runs.exit_code = 3;
    assert_string_equal(gpu_job_state(&f), "pending"); /* it failed and is tried again */
    f.runs.why = RUN_END_SUPERVISOR_KILLED;
    assert_string_equal(gpu_job_state(&f), "preempted");
    f.state = JOB_STARTING;
    assert_string_equal(gpu_job_state(&f), "preempted");
    f = facts(JOB_RUNNING);
    assert_string_equal(gpu_job_state(&f), "running");
    f.has_view = f.view.stopping = true;
    assert_string_equal(gpu_job_state(&f), "stopping");
    f = facts(JOB_STOPPING);
    assert_string_equal(gpu_job_state(&f), "stopping");
    f = facts(JOB_SUCCEEDED);
    assert_string_equal(gpu_job_state(&f), "finished");
    f = facts(JOB_FAILED);
    assert_string_equal(gpu_job_state(&f), "failed");
    f = facts(JOB_LOST);
    assert_string_equal(gpu_job_state(&f), "failed");
    f = facts(JOB_CANCELLED);
    assert_string_equal(gpu_job_state(&f), "cancelled");
}

TEST(reasons)
{
    static const char *const words[] = {[GPU_WAIT_NOTHING] = "next plan",
                                        [GPU_WAIT_GPUS] = "no GPU:",
                                        [GPU_WAIT_MEMORY] = "memory:",
                                        [GPU_WAIT_CROWDED] = "memory:",
                                        [GPU_WAIT_NO_SHARE] = "sharing off:",
                                        [GPU_WAIT_RESERVED] = "reservation:",
                                        [GPU_WAIT_BEHIND] = "others come first:",
                                        [GPU_WAIT_HOST] = "the host:",
                                        [GPU_WAIT_CLOSED] = "the node takes no jobs:"};
    struct gpu_job_facts f = facts(JOB_QUEUED);
    char text[200];

    f.has_view = true;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        f.view.wait = (enum gpu_wait)i;
        gpu_wait_text(&f, text, sizeof(text));
        assert_non_null(strstr(text, words[i]));
    }
    f.view.wait = GPU_WAIT_RESERVED;
    f.wait_for = (struct id){0x11, 0x22};
    gpu_wait_text(&f, text, sizeof(text));
    assert_non_null(strstr(text, "00000000-0000-0022-0000-000000000011"));
    f.state = JOB_RUNNING;
    gpu_wait_text(&f, text, sizeof(text));
    assert_string_equal(text, "");
}

static struct json *row(const struct gpu_job_facts *f)
{
    struct json *j = NULL;
    struct err e = {0};
    struct buf b;

    buf_init(&b, 1 << 20);
    gpu_job_json(&b, f, 100000);
    if (json_parse(buf_str(&b), "row", &j, &e) < 0)
        fail_msg("%s: %s", b.p, e.text);
    buf_done(&b);
    return j;
}

TEST(rows)
{
    struct gpu_job_facts f = facts(JOB_RUNNING);
    struct err e;

    f.has_view = f.has_past = true;
    gpu_set_add(&f.view.devices, 1);
    gpu_set_add(&f.view.devices, 3);
    f.view.running = true;
    f.view.n_with = 1;
    f.with[0] = (struct id){3, 4};
    f.view.reserved_bytes = INT64_C(5000) << 20;
    f.view.left_s = 60;
    f.past = (struct core_training_past){.epochs = 5, .done = 2, .preemptions = 1};
    f.view.epochs = 5;
    f.view.epochs_done = 2;
    f.runs.ran_ms = 10000;
    f.runs.running_since_ms = 95000;
    f.runs.starts = 2;
    assert_int_equal(
        json_parse(STR("{\"extra\":{\"batchSize\":8,\"isSingleGPU\":true}}"), "spec", &f.spec, &e),
        0);
    struct json *j = row(&f);
    assert_true(str_eq_c(json_str(json_get(j, "epochs")), "2/5"));
    assert_true(str_eq_c(json_str(json_get(j, "gpus")), "2s"));
    assert_true(str_eq_c(json_str(json_get(j, "name")), "a \"name\""));
    assert_true(json_real(json_get(j, "runtime_s")) == 15);
    assert_true(json_real(json_get(j, "left_s")) == 60);
    assert_int_equal(json_int(json_get(j, "reserved")), 5000);
    assert_int_equal(json_int(json_get(j, "batch_size")), 8);
    assert_int_equal(json_int(json_get(j, "attempts")), 2);
    assert_int_equal(json_int(json_get(j, "priority")), 3);
    assert_int_equal(json_len(json_get(j, "shares_with")), 1);
    assert_null(json_get(j, "exit"));
    json_free(j);
    json_free(f.spec);
    f = facts(JOB_SUCCEEDED); /* a job of another interface, long over */
    f.exit_code = 0;
    j = row(&f);
    assert_null(json_get(j, "epochs"));
    assert_null(json_get(j, "gpus"));
    assert_int_equal(json_int(json_get(j, "exit")), 0);
    assert_false(json_bool(json_get(j, "early")));
    json_free(j);
    f.state = JOB_QUEUED; /* between two runs: that of the last is not its own */
    j = row(&f);
    assert_null(json_get(j, "exit"));
    json_free(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states),
        cmocka_unit_test(reasons),
        cmocka_unit_test(rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
