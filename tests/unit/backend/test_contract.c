/* test_contract.c - what core may expect of any backend class (backend/backend.h)
 *
 * Takes the name of the class.  The first group of tests holds for every class; the second needs a
 * class that executes the command, which all but `null` do.
 */
#include "base/util.h"
#include "rig.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static const struct backend_class *cls;

static void test_node(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    const struct node *n = cls->node(r.b);
    assert_true(n->slots >= 1 && n->mcpu > 0 && n->mem_bytes > 0 && n->name[0]);
    assert_true(cls->journal(r.b) >= 1);
    assert_ptr_equal(backend_find(cls->name), cls);
    assert_null(backend_find("nowhere"));
    rig_done(&r);
}

/* started() at most once, then ended() exactly once: rig.c asserts the order at every event. */
static void test_events(void **state)
{
    struct rig r;
    char *argv[] = {(char *)(uintptr_t) "/bin/true", NULL};

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.argv = argv});
    assert_int_equal(rig_seen(&r, 1, 1)->started, 0); /* never from within start() */
    const struct seen *s = rig_wait_ended(&r, 1, 1);
    assert_int_equal(s->started, 1);
    assert_int_equal(s->outcome.why, RUN_END_EXITED);
    assert_int_equal(s->outcome.wait_status, 0);
    assert_true(s->outcome.started_ms > 0 && s->outcome.ended_ms >= s->outcome.started_ms);
    cls->stop(r.b, (struct run_key){1, 1}, 0);
    cls->stop(r.b, (struct run_key){99, 1}, 0);
    cls->signal(r.b, (struct run_key){99, 1}, SIGTERM);
    rig_turn(&r, 100);
    assert_int_equal(s->started + s->ended, 2);
    assert_int_equal(rig_seen(&r, 99, 1)->ended, 0);
    rig_done(&r);
}

/* Of three starts with one key, and of one more after the end, one is reported. */
static void test_one_end_per_key(void **state)
{
    struct rig r;
    char *argv[] = {(char *)(uintptr_t) "/bin/true", NULL};

    (void)state;
    rig_init(&r, cls);
    r.settle = false;
    for (int i = 0; i < 3; i++)
        rig_start(&r, 1, 1, &(struct rig_run){.argv = argv});
    rig_wait_ended(&r, 1, 1);
    rig_start(&r, 1, 1, &(struct rig_run){.argv = argv});
    rig_start(&r, 1, 2, &(struct rig_run){.argv = argv}); /* the next run of the job is another */
    rig_wait_ended(&r, 1, 2);
    assert_int_equal(rig_seen(&r, 1, 1)->started, 1);
    assert_int_equal(rig_seen(&r, 1, 1)->ended, 1);
    rig_done(&r);
}

static void test_stop_at_once(void **state)
{
    struct rig r;
    char *argv[] = {(char *)(uintptr_t) "/bin/sleep", (char *)(uintptr_t) "1000", NULL};

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.argv = argv});
    cls->stop(r.b, (struct run_key){1, 1}, 100);
    assert_int_equal(rig_wait_ended(&r, 1, 1)->outcome.why, RUN_END_CANCELLED);
    rig_done(&r);
}

/* A run that left no trace is absent, and the same key can then be started. */
static void test_adopt_absent(void **state)
{
    struct rig r;
    char *argv[] = {(char *)(uintptr_t) "/bin/true", NULL};

    (void)state;
    rig_init(&r, cls);
    rig_adopt(&r, 4, 1, cls->journal(r.b), 0);
    rig_wait_absent(&r, 4, 1);
    assert_int_equal(rig_seen(&r, 4, 1)->started + rig_seen(&r, 4, 1)->ended, 0);
    rig_start(&r, 4, 1, &(struct rig_run){.argv = argv});
    rig_wait_ended(&r, 4, 1);
    assert_int_equal(rig_seen(&r, 4, 1)->absent, 1);
    rig_done(&r);
}

static void test_exit_status(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "echo out; echo err >&2; exit 7"});
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "kill -USR1 $$"});
    rig_start(&r, 3, 1, &(struct rig_run){.shell = "true"});
    const struct seen *s = rig_wait_ended(&r, 1, 1);
    assert_int_equal(s->started, 1);
    assert_int_equal(s->outcome.why, RUN_END_EXITED);
    assert_true(WIFEXITED(s->outcome.wait_status));
    assert_int_equal(WEXITSTATUS(s->outcome.wait_status), 7);
    assert_true(s->outcome.started_ms > 0 && s->outcome.ended_ms >= s->outcome.started_ms);
    assert_true(s->outcome.max_rss_bytes > 0);
    s = rig_wait_ended(&r, 2, 1);
    assert_true(WIFSIGNALED(s->outcome.wait_status));
    assert_int_equal(WTERMSIG(s->outcome.wait_status), SIGUSR1);
    s = rig_wait_ended(&r, 3, 1);
    assert_int_equal(s->outcome.wait_status, 0);
    AUTO_FREE char *log = rig_log(&r, 1, 1);
    assert_string_equal(log, "out\nerr\n");
    rig_done(&r);
}

static void test_start_fails(void **state)
{
    struct rig r;
    char *missing[] = {(char *)(uintptr_t) "no-such-command-here", NULL};
    char *passwd[] = {(char *)(uintptr_t) "/etc/passwd", NULL};
    char *dir[] = {(char *)(uintptr_t) "/tmp", NULL};

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.argv = missing});
    rig_start(&r, 2, 1, &(struct rig_run){.argv = passwd});
    rig_start(&r, 3, 1, &(struct rig_run){.shell = "true", .cwd = "/no/such/dir"});
    rig_start(&r, 4, 1, &(struct rig_run){.argv = dir});
    const struct seen *s = rig_wait_ended(&r, 1, 1);
    assert_int_equal(s->started, 0);
    assert_int_equal(s->outcome.why, RUN_END_START_FAILED);
    assert_int_equal(s->outcome.sys, ENOENT);
    assert_string_equal(s->detail, "command not found: no-such-command-here");
    s = rig_wait_ended(&r, 2, 1);
    assert_int_equal(s->outcome.why, RUN_END_START_FAILED);
    assert_int_equal(s->outcome.sys, EACCES);
    s = rig_wait_ended(&r, 3, 1);
    assert_int_equal(s->outcome.why, RUN_END_START_FAILED);
    assert_string_equal(s->detail, "working directory does not exist: /no/such/dir");
    s = rig_wait_ended(&r, 4, 1);
    assert_int_equal(s->outcome.sys, EACCES);
    rig_done(&r);
}

static void test_stop(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "sleep 1000"});
    rig_start(&r, 2, 1,
              &(struct rig_run){.shell = "trap '' TERM; echo set; while :; do sleep 0.02; done"});
    rig_start(
        &r, 3, 1,
        &(struct rig_run){.shell = "trap 'exit 3' TERM; echo set; while :; do sleep 0.02; done"});
    rig_wait_started(&r, 1, 1);
    rig_wait_log(&r, 2, 1, "set\n");
    rig_wait_log(&r, 3, 1, "set\n");
    /* Only the one that ignores TERM needs its grace time. */
    for (uint64_t j = 1; j <= 3; j++)
        cls->stop(r.b, (struct run_key){j, 1}, j == 2 ? 300 : 60000);
    const struct seen *s = rig_wait_ended(&r, 1, 1);
    assert_int_equal(s->outcome.why, RUN_END_CANCELLED);
    assert_int_equal(WTERMSIG(s->outcome.wait_status), SIGTERM);
    s = rig_wait_ended(&r, 3, 1);
    assert_int_equal(s->outcome.why, RUN_END_CANCELLED);
    assert_int_equal(WEXITSTATUS(s->outcome.wait_status), 3);
    s = rig_wait_ended(&r, 2, 1);
    assert_int_equal(s->outcome.why, RUN_END_CANCELLED);
    assert_int_equal(WTERMSIG(s->outcome.wait_status), SIGKILL);
    cls->stop(r.b, (struct run_key){99, 1}, 0); /* unknown: nothing happens */
    rig_done(&r);
}

static void test_stop_before_start(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "sleep 1000"});
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "echo ran", .after = {1, 1}});
    rig_start(&r, 3, 1, &(struct rig_run){.shell = "echo ran", .after = {2, 1}});
    cls->stop(r.b, (struct run_key){2, 1}, -1);
    const struct seen *s = rig_wait_ended(&r, 2, 1);
    assert_int_equal(s->outcome.why, RUN_END_CANCELLED);
    assert_int_equal(s->started, 0);
    rig_turn(&r, 100);
    assert_int_equal(rig_seen(&r, 3, 1)->started, 0); /* it waits for 1 now */
    cls->stop(r.b, (struct run_key){1, 1}, -1);
    rig_wait_ended(&r, 3, 1);
    assert_int_equal(rig_seen(&r, 1, 1)->ended, 1);
    AUTO_FREE char *log = rig_log(&r, 3, 1);
    assert_string_equal(log, "ran\n");
    rig_done(&r);
}

static void test_after(void **state)
{
    struct rig r;
    enum { N = 40 };

    (void)state;
    rig_init(&r, cls);
    for (uint32_t i = 1; i <= N; i++)
        rig_start(
            &r, i, 1,
            &(struct rig_run){.shell = "date +%s%N; sleep 0.005; date +%s%N", .after = {i - 1, 1}});
    long long last = 0;
    for (uint32_t i = 1; i <= N; i++) {
        rig_wait_ended(&r, i, 1);
        AUTO_FREE char *log = rig_log(&r, i, 1);
        char *end;
        long long from = strtoll(log, &end, 10), to = strtoll(end, NULL, 10);
        assert_true(from > last);
        assert_true(to > from);
        last = to;
    }
    /* After something that is unknown means now. */
    rig_start(&r, 100, 1, &(struct rig_run){.shell = "true", .after = {77, 7}});
    rig_wait_ended(&r, 100, 1);
    rig_done(&r);
}

static void test_same_key_runs_once(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    r.settle = false;
    for (int i = 0; i < 3; i++)
        rig_start(&r, 1, 1, &(struct rig_run){.shell = "echo ran; sleep 0.1"});
    rig_wait_ended(&r, 1, 1);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "echo ran again"});
    rig_turn(&r, 200);
    AUTO_FREE char *log = rig_log(&r, 1, 1);
    assert_string_equal(log, "ran\n");
    assert_int_equal(rig_seen(&r, 1, 1)->ended, 1);
    rig_done(&r);
}

static void test_timeout(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "sleep 1000", .timeout_ms = 150});
    const struct seen *s = rig_wait_ended(&r, 1, 1);
    assert_int_equal(s->outcome.why, RUN_END_TIMEOUT);
    assert_true(s->outcome.ended_ms - s->outcome.started_ms >= 140);
    rig_done(&r);
}

static void test_signal(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    rig_start(
        &r, 1, 1,
        &(struct rig_run){.shell = "trap 'exit 9' USR1; echo set; while :; do sleep 0.02; done"});
    rig_wait_started(&r, 1, 1);
    for (int i = 0; i < 500; i++) {
        AUTO_FREE char *log = rig_log(&r, 1, 1);
        if (log[0])
            break;
        rig_turn(&r, 10);
    }
    cls->signal(r.b, (struct run_key){1, 1}, SIGUSR1);
    const struct seen *s = rig_wait_ended(&r, 1, 1);
    assert_int_equal(s->outcome.why, RUN_END_EXITED);
    assert_int_equal(WEXITSTATUS(s->outcome.wait_status), 9);
    rig_done(&r);
}

static void test_adopt(void **state)
{
    struct rig r;

    (void)state;
    rig_init(&r, cls);
    uint32_t journal = cls->journal(r.b);
    rig_start(&r, 1, 1, &(struct rig_run){.shell = "sleep 0.5; exit 5"});
    rig_start(&r, 2, 1, &(struct rig_run){.shell = "exit 6"});
    rig_start(&r, 3, 1, &(struct rig_run){.shell = "sleep 1000"});
    rig_wait_started(&r, 1, 1);
    rig_wait_started(&r, 3, 1);
    r.settle = false;
    rig_close(&r);
    for (size_t i = 0; i < r.seen.n; i++)
        r.seen.p[i]->started = r.seen.p[i]->ended = 0;
    rig_open(&r);
    r.settle = true;
    rig_adopt(&r, 1, 1, journal, rig_seen(&r, 1, 1)->pid);
    rig_adopt(&r, 2, 1, journal, 0);
    rig_adopt(&r, 3, 1, journal, 0);
    rig_adopt(&r, 4, 1, journal, 0);
    rig_wait_absent(&r, 4, 1);
    rig_start(&r, 4, 1, &(struct rig_run){.shell = "exit 8"});
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 1, 1)->outcome.wait_status), 5);
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 2, 1)->outcome.wait_status), 6);
    assert_int_equal(WEXITSTATUS(rig_wait_ended(&r, 4, 1)->outcome.wait_status), 8);
    assert_int_equal(rig_seen(&r, 1, 1)->started, 1);
    rig_wait_started(&r, 3, 1);
    cls->stop(r.b, (struct run_key){3, 1}, 100);
    assert_int_equal(rig_wait_ended(&r, 3, 1)->outcome.why, RUN_END_CANCELLED);
    rig_done(&r);
}

static void test_thousand(void **state)
{
    struct rig r;
    char *argv[] = {(char *)(uintptr_t) "/bin/true", NULL};

    (void)state;
    rig_init(&r, cls);
    for (uint32_t i = 1; i <= 1000; i++)
        rig_start(&r, i, 1, &(struct rig_run){.argv = argv, .after = {i > 8 ? i - 8 : 0, 1}});
    for (uint32_t i = 1; i <= 1000; i++)
        assert_int_equal(rig_wait_ended(&r, i, 1)->outcome.wait_status, 0);
    rig_done(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest every_class[] = {
        cmocka_unit_test(test_node),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_one_end_per_key),
        cmocka_unit_test(test_stop_at_once),
        cmocka_unit_test(test_adopt_absent),
        cmocka_unit_test(test_thousand),
    };
    const struct CMUnitTest executing[] = {
        cmocka_unit_test(test_exit_status), cmocka_unit_test(test_start_fails),
        cmocka_unit_test(test_stop),        cmocka_unit_test(test_stop_before_start),
        cmocka_unit_test(test_after),       cmocka_unit_test(test_same_key_runs_once),
        cmocka_unit_test(test_timeout),     cmocka_unit_test(test_signal),
        cmocka_unit_test(test_adopt),
    };
    struct CMUnitTest tests[ARRAY_SIZE(every_class) + ARRAY_SIZE(executing)];

    cls = backend_find(argc > 1 ? argv[1] : "local");
    if (!cls)
        return 77;
    if (cls == &backend_null)
        return cmocka_run_group_tests(every_class, NULL, NULL);
    memcpy(tests, every_class, sizeof(every_class));
    memcpy(tests + ARRAY_SIZE(every_class), executing, sizeof(executing));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
