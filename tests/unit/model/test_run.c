/* test_run.c - exit codes and sentences of every way a run can end */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/job.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#define EXIT_STATUS(n) ((n) << 8)

static void check(struct run_outcome o, struct run_facts f, int code, const char *text)
{
    char out[200];

    run_outcome_describe(&o, &f, out, sizeof(out));
    assert_string_equal(out, text);
    assert_int_equal(run_outcome_exit_code(&o), code);
}

static void exits(void **state)
{
    struct run_facts none = {0};

    (void)state;
    check((struct run_outcome){RUN_END_EXITED, EXIT_STATUS(0)}, none, 0, "");
    check((struct run_outcome){RUN_END_EXITED, EXIT_STATUS(3)}, none, 3, "exit status 3");
    check((struct run_outcome){RUN_END_EXITED, EXIT_STATUS(255)}, none, 255, "exit status 255");
    check((struct run_outcome){RUN_END_EXITED, EXIT_STATUS(127)}, none, 127,
          "exit status 127 (usually: command not found)");
    check((struct run_outcome){RUN_END_EXITED, SIGKILL}, none, 137, "killed by signal 9 (KILL)");
    check((struct run_outcome){RUN_END_EXITED, SIGSEGV | 0x80}, none, 139,
          "killed by signal 11 (SEGV), core dumped");
}

static void limits(void **state)
{
    struct run_facts f = {.timeout_ms = 7200000, .mem_bytes = INT64_C(4) << 30};

    (void)state;
    check((struct run_outcome){RUN_END_TIMEOUT, SIGKILL}, f, 137,
          "ran longer than its limit of 2h");
    check((struct run_outcome){RUN_END_TIMEOUT, SIGTERM}, (struct run_facts){0}, 143,
          "ran longer than its limit");
    char size[64], out[200];
    struct run_outcome oom = {RUN_END_OUT_OF_MEMORY, SIGKILL};
    run_outcome_describe(&oom, &f, out, sizeof(out));
    assert_int_equal(sscanf(out, "out of memory (limit %60[0-9.]G)", size), 1);
    check(oom, (struct run_facts){0}, 137, "out of memory");
}

static void no_start(void **state)
{
    struct run_facts f = {.detail = STR("command not found: pythn")};

    (void)state;
    check((struct run_outcome){RUN_END_START_FAILED, .sys = ENOENT}, f, 127,
          "command not found: pythn");
    check((struct run_outcome){RUN_END_START_FAILED, .sys = ENOENT}, (struct run_facts){0}, 127,
          "command not found");
    check((struct run_outcome){RUN_END_START_FAILED, .sys = EACCES}, (struct run_facts){0}, 126,
          "could not start: Permission denied");
}

static void no_outcome_of_its_own(void **state)
{
    struct run_facts none = {0};

    (void)state;
    check((struct run_outcome){RUN_END_SUPERVISOR_KILLED}, none, -1, "supervisor was killed");
    check((struct run_outcome){RUN_END_NEVER_RAN}, none, -1,
          "never ran: no trace of it was found after a crash");
    check((struct run_outcome){RUN_END_NODE_LOST}, none, -1,
          "the machine it ran on went away or rebooted");
    check((struct run_outcome){RUN_END_CANCELLED}, none, -1, "cancelled before it started");
    check((struct run_outcome){RUN_END_CANCELLED, SIGTERM, .started_ms = 1}, none, 143,
          "cancelled");
}

static void text_is_cut_to_fit(void **state)
{
    struct run_outcome o = {RUN_END_EXITED, EXIT_STATUS(3)};
    char out[6];

    (void)state;
    run_outcome_text(&o, out, sizeof(out));
    assert_string_equal(out, "exit ");
}

static void names_and_keys(void **state)
{
    (void)state;
    for (int i = 0; i < RUN_END_MAX; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(run_end_name((enum run_end)i), run_end_name((enum run_end)k));
    assert_string_equal(run_end_name(RUN_END_MAX), "unknown");
    assert_true(run_key_eq((struct run_key){1, 2}, (struct run_key){1, 2}));
    assert_false(run_key_eq((struct run_key){1, 2}, (struct run_key){1, 3}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exits),
        cmocka_unit_test(limits),
        cmocka_unit_test(no_start),
        cmocka_unit_test(no_outcome_of_its_own),
        cmocka_unit_test(text_is_cut_to_fit),
        cmocka_unit_test(names_and_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
