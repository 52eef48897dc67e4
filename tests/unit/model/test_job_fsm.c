/* test_job_fsm.c - the transition table: what is legal, what is not, and that nothing gets stuck */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/job.h"

static enum job_state after(enum job_state s, enum job_event ev)
{
    enum job_state out = JOB_STATE_MAX;

    job_next(s, ev, &out);
    return out;
}

static void the_ordinary_life(void **state)
{
    (void)state;
    assert_int_equal(after(JOB_QUEUED, JOB_EV_PLACED), JOB_STARTING);
    assert_int_equal(after(JOB_STARTING, JOB_EV_STARTED), JOB_RUNNING);
    assert_int_equal(after(JOB_RUNNING, JOB_EV_SUCCEEDED), JOB_SUCCEEDED);
    assert_int_equal(after(JOB_RUNNING, JOB_EV_FAILED), JOB_FAILED);
    assert_int_equal(after(JOB_RUNNING, JOB_EV_LOST), JOB_LOST);
    assert_int_equal(after(JOB_RUNNING, JOB_EV_REQUEUE), JOB_QUEUED);
}

static void a_run_may_end_before_it_was_seen_to_start(void **state)
{
    (void)state;
    assert_int_equal(after(JOB_STARTING, JOB_EV_SUCCEEDED), JOB_SUCCEEDED);
    assert_int_equal(after(JOB_STARTING, JOB_EV_FAILED), JOB_FAILED);
    assert_int_equal(after(JOB_STARTING, JOB_EV_LOST), JOB_LOST);
    assert_int_equal(after(JOB_STARTING, JOB_EV_REQUEUE), JOB_QUEUED);
}

static void stops_go_through_stopping(void **state)
{
    (void)state;
    assert_int_equal(after(JOB_QUEUED, JOB_EV_CANCEL), JOB_CANCELLED);
    assert_int_equal(after(JOB_STARTING, JOB_EV_CANCEL), JOB_STOPPING);
    assert_int_equal(after(JOB_RUNNING, JOB_EV_CANCEL), JOB_STOPPING);
    assert_int_equal(after(JOB_QUEUED, JOB_EV_HOLD), JOB_HELD);
    assert_int_equal(after(JOB_HELD, JOB_EV_RELEASE), JOB_QUEUED);
    assert_int_equal(after(JOB_HELD, JOB_EV_CANCEL), JOB_CANCELLED);
    assert_int_equal(after(JOB_STOPPING, JOB_EV_STARTED), JOB_STOPPING);
    assert_int_equal(after(JOB_STOPPING, JOB_EV_CANCEL), JOB_STOPPING);
    assert_int_equal(after(JOB_STOPPING, JOB_EV_CANCELLED), JOB_CANCELLED);
    assert_int_equal(after(JOB_STOPPING, JOB_EV_REQUEUE), JOB_QUEUED);
}

static void illegal_events_change_nothing(void **state)
{
    enum job_state out = JOB_RUNNING;

    (void)state;
    assert_false(job_next(JOB_QUEUED, JOB_EV_STARTED, &out));
    assert_false(job_next(JOB_QUEUED, JOB_EV_SUCCEEDED, &out));
    assert_false(job_next(JOB_RUNNING, JOB_EV_PLACED, &out));
    assert_false(job_next(JOB_RUNNING, JOB_EV_RETRY, &out));
    assert_false(job_next(JOB_SUCCEEDED, JOB_EV_FAILED, &out));
    assert_false(job_next(JOB_CANCELLED, JOB_EV_CANCEL, &out));
    assert_int_equal(out, JOB_RUNNING);
}

/* Final states are left only by a retry; from every other one some event leads on to an end. */
static void final_states_are_final(void **state)
{
    (void)state;
    for (int s = 0; s < JOB_STATE_MAX; s++) {
        bool final = job_state_final((enum job_state)s), ends = final;
        for (int ev = 0; ev < JOB_EV_MAX; ev++) {
            enum job_state out;
            if (!job_next((enum job_state)s, (enum job_event)ev, &out))
                continue;
            if (final) {
                assert_int_equal(ev, JOB_EV_RETRY);
                assert_int_equal(out, JOB_QUEUED);
            }
            ends = ends || job_state_final(out);
        }
        assert_true(ends);
    }
}

static void names_read_back(void **state)
{
    (void)state;
    for (int s = 0; s < JOB_STATE_MAX; s++) {
        enum job_state out;
        assert_true(job_state_parse(str_of(job_state_name((enum job_state)s)), &out));
        assert_int_equal(out, s);
    }
    enum job_state out;
    assert_false(job_state_parse(STR("Queued"), &out));
    assert_false(job_state_parse(STR(""), &out));
    assert_false(job_state_parse(STR("active"), &out));
    assert_string_equal(job_state_name(JOB_STATE_MAX), "unknown");
}

/* The numbers are on disk: these stay for ever, whatever states come. */
static void numbers_stay(void **state)
{
    static const char *const words[] = {"queued", "starting",  "running", "stopping", "succeeded",
                                        "failed", "cancelled", "lost",    "held"};
    uint32_t seen = 0;

    (void)state;
    for (int s = 0; s < (int)(sizeof(words) / sizeof(*words)); s++)
        assert_string_equal(job_state_name((enum job_state)s), words[s]);
    for (int i = 0; i < JOB_STATE_MAX; i++)
        seen |= 1u << job_states[i];
    assert_int_equal(seen, (1u << JOB_STATE_MAX) - 1);
}

/* A run can end or start only where there is one; a job that waits can be placed or is held. */
static void kinds_agree_with_the_table(void **state)
{
    (void)state;
    for (int i = 0; i < JOB_STATE_MAX; i++) {
        enum job_state s = (enum job_state)i, out;
        assert_int_equal(job_next(s, JOB_EV_SUCCEEDED, &out), job_state_has_run(s));
        assert_int_equal(job_next(s, JOB_EV_RETRY, &out), job_state_final(s));
        assert_false(job_state_has_run(s) && job_state_final(s));
        assert_non_null(strstr(JOB_STATE_WORDS_TEXT, job_state_name(s)));
    }
}

static void words_for_several(void **state)
{
    uint32_t mask, active, finished;

    (void)state;
    assert_true(job_state_set_parse(STR("active"), &active));
    assert_true(job_state_set_parse(STR("finished"), &finished));
    assert_int_equal(active & finished, 0);
    assert_int_equal(active | finished, (1u << JOB_STATE_MAX) - 1);
    for (int s = 0; s < JOB_STATE_MAX; s++) {
        assert_true(job_state_set_parse(str_of(job_state_name((enum job_state)s)), &mask));
        assert_int_equal(mask, 1u << s);
        assert_int_equal((finished & mask) != 0, job_state_final((enum job_state)s));
    }
    assert_false(job_state_set_parse(STR("actives"), &mask));
    assert_false(job_state_set_parse(STR(""), &mask));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ordinary_life),
        cmocka_unit_test(a_run_may_end_before_it_was_seen_to_start),
        cmocka_unit_test(stops_go_through_stopping),
        cmocka_unit_test(illegal_events_change_nothing),
        cmocka_unit_test(final_states_are_final),
        cmocka_unit_test(names_read_back),
        cmocka_unit_test(words_for_several),
        cmocka_unit_test(numbers_stay),
        cmocka_unit_test(kinds_agree_with_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
