/* test_supervisor.c - one supervisor by itself: the lock, the fence, signals, the daemon's absence
 */
#include "base/util.h"
#include "shepherd/run_lock.h"
#include "shepherd/supervisor.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmocka.h>

struct rig {
    struct run_home home;
    struct proto_start start;
    int journal, runs;
    char *words[8];
};

static int temp_file(void)
{
    char path[] = "/tmp/berth-supervisor-XXXXXX";
    int fd = mkostemp(path, O_APPEND | O_CLOEXEC);

    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

static char *W(const char *s)
{
    return (char *)(uintptr_t)s;
}

static void rig_init(struct rig *r, const char *shell)
{
    *r = (struct rig){.journal = temp_file(), .runs = temp_file()};
    AUTO_FD dir = open("/tmp", O_RDONLY | O_CLOEXEC);
    run_home_init(&r->home, dir);
    r->words[1] = W("/bin/sh");
    r->words[2] = W("-c");
    r->words[3] = W(shell);
    r->start = (struct proto_start){.run = {.key = {5, 1},
                                            .limits = {.grace_ms = 2000},
                                            .argv = r->words + 1,
                                            .envp = r->words + 5},
                                    .memory = {.words = r->words}};
}

static void rig_done(struct rig *r)
{
    close(r->journal);
    close(r->runs);
}

/* As the shepherd does it: signals blocked, five descriptors. */
static pid_t supervise(struct rig *r)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    int journal = fcntl(r->journal, F_DUPFD_CLOEXEC, 50),
        runs = fcntl(r->runs, F_DUPFD_CLOEXEC, 50);
    int lock = fcntl(temp_file(), F_DUPFD_CLOEXEC, 50);
    dup3(runs, FD_RUNS, O_CLOEXEC);
    dup3(lock, FD_DAEMON, O_CLOEXEC);
    dup3(journal, FD_JOURNAL, O_CLOEXEC);
    supervisor_run(&r->home, &r->start);
}

static int exit_code(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static struct journal_record last_record(struct rig *r, size_t *n)
{
    struct journal_reader reader;
    struct journal_record rec, last = {0};

    *n = 0;
    journal_reader_init(&reader, r->journal, 0);
    while (journal_read(&reader, &rec, NULL) == 1) {
        last = rec;
        ++*n;
    }
    journal_reader_done(&reader);
    return last;
}

static void test_nice(void **state)
{
    struct rig r;
    size_t n;

    (void)state;
    rig_init(&r, "exit $(nice)");
    r.start.run.limits.nice = 7;
    assert_int_equal(exit_code(supervise(&r)), SUPERVISOR_RECORDED);
    struct journal_record end = last_record(&r, &n);
    assert_int_equal(end.why, RUN_END_EXITED);
    assert_true(WEXITSTATUS(end.wait_status) >= 7); /* the test itself may run niced */
    rig_done(&r);
}

static void test_nice_that_is_not_permitted(void **state)
{
    struct rig r;
    size_t n;
    char text[200];
    const struct rlimit none = {0, 0};

    (void)state;
    rig_init(&r, "true");
    r.start.run.limits.nice = -20; /* the level this test was started with may be negative */
    r.start.run.change_user = geteuid() == 0; /* root may; whether others may is a limit */
    r.start.run.uid = r.start.run.gid = 65534;
    setrlimit(RLIMIT_NICE, &none);
    assert_int_equal(exit_code(supervise(&r)), SUPERVISOR_RECORDED);
    struct journal_record end = last_record(&r, &n);
    assert_int_equal(end.why, RUN_END_START_FAILED);
    journal_failure_text(&end, text, sizeof(text));
    assert_non_null(strstr(text, "nice level is not permitted"));
    rig_done(&r);
}

static void test_outcome(void **state)
{
    struct rig r;
    size_t n;

    (void)state;
    rig_init(&r, "exit 3");
    assert_int_equal(exit_code(supervise(&r)), SUPERVISOR_RECORDED);
    struct journal_record end = last_record(&r, &n);
    assert_int_equal(n, 2);
    assert_int_equal(end.kind, JOURNAL_ENDED);
    assert_int_equal(WEXITSTATUS(end.wait_status), 3);
    assert_int_equal(end.boot, r.home.boot);
    assert_true(end.pid > 0 && end.started_ms > 0);
    /* The same order again: it ran already. */
    assert_int_equal(exit_code(supervise(&r)), SUPERVISOR_FENCED);
    last_record(&r, &n);
    assert_int_equal(n, 2);
    rig_done(&r);
}

static void test_fence(void **state)
{
    struct rig r;
    struct journal_record empty = {.job = 5, .run = 1, .kind = JOURNAL_VOID};
    size_t n;

    (void)state;
    rig_init(&r, "exit 3");
    assert_int_equal(journal_append(r.journal, &empty), 0);
    assert_int_equal(exit_code(supervise(&r)), SUPERVISOR_FENCED); /* sent before the VOID */
    r.start.offset = JOURNAL_RECORD_BYTES;
    assert_int_equal(exit_code(supervise(&r)), SUPERVISOR_RECORDED); /* sent after it */
    last_record(&r, &n);
    assert_int_equal(n, 3);
    rig_done(&r);
}

static void test_lock(void **state)
{
    struct rig r;
    uint64_t id;

    (void)state;
    rig_init(&r, "exit 3");
    assert_true(run_key_pack((struct run_key){5, 1}, &id));
    assert_int_equal(run_lock_take(r.runs, id), 0);
    assert_int_equal(exit_code(supervise(&r)), SUPERVISOR_FENCED);
    run_lock_drop(r.runs, id);
    assert_int_equal(run_lock_holder(r.runs, id), 0);
    assert_int_equal(exit_code(supervise(&r)), SUPERVISOR_RECORDED);
    rig_done(&r);
}

static void test_two_at_once(void **state)
{
    struct rig r;
    size_t n;

    (void)state;
    rig_init(&r, "sleep 0.05");
    pid_t pids[8];
    int recorded = 0, fenced = 0;
    for (int i = 0; i < 8; i++)
        pids[i] = supervise(&r);
    for (int i = 0; i < 8; i++) {
        int code = exit_code(pids[i]);
        recorded += code == SUPERVISOR_RECORDED;
        fenced += code == SUPERVISOR_FENCED;
    }
    assert_int_equal(recorded, 1);
    assert_int_equal(fenced, 7);
    last_record(&r, &n);
    assert_int_equal(n, 2);
    rig_done(&r);
}

static void wait_records(struct rig *r, size_t want)
{
    size_t n = 0;

    for (int i = 0; i < 200000 && n < want; i++) {
        last_record(r, &n);
        usleep(2000);
    }
    assert_int_equal(n, want);
}

static void test_signals(void **state)
{
    static const struct {
        int signo, value;
        enum run_end why;
    } cases[] = {
        {SUPERVISOR_STOP, 100, RUN_END_CANCELLED},
        {SUPERVISOR_STOP, -1, RUN_END_CANCELLED},
        {SUPERVISOR_SIGNAL, SIGUSR1, RUN_END_EXITED},
        {SIGTERM, 0, RUN_END_SUPERVISOR_KILLED},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct rig r;
        size_t n;
        rig_init(&r, "sleep 1000");
        pid_t pid = supervise(&r);
        wait_records(&r, 1);
        assert_int_equal(sigqueue(pid, cases[i].signo, (union sigval){.sival_int = cases[i].value}),
                         0);
        assert_int_equal(exit_code(pid), SUPERVISOR_RECORDED);
        assert_int_equal(last_record(&r, &n).why, cases[i].why);
        rig_done(&r);
    }
}

static void test_stop_before_the_command(void **state)
{
    struct rig r;
    size_t n;
    sigset_t set, old;

    (void)state;
    rig_init(&r, "exit 3");
    r.start.run.run_dir = "/tmp";
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, &old); /* inherited: the signal waits for the supervisor */
    pid_t pid = supervise(&r);
    sigqueue(pid, SUPERVISOR_STOP, (union sigval){.sival_int = 0});
    sigprocmask(SIG_SETMASK, &old, NULL);
    assert_int_equal(exit_code(pid), SUPERVISOR_RECORDED);
    assert_int_equal(last_record(&r, &n).why, RUN_END_CANCELLED);
    rig_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outcome),
        cmocka_unit_test(test_nice),
        cmocka_unit_test(test_nice_that_is_not_permitted),
        cmocka_unit_test(test_fence),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_stop_before_the_command),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
