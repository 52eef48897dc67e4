/* test_tree.c - finding processes */
#include "base/util.h"
#include "shepherd/tree.h"
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

static void test_stat(void **state)
{
    struct proc_stat st;

    (void)state;
    assert_true(proc_stat_parse("42 (a) b) S 7 40 39 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 "
                                "2",
                                &st));
    assert_int_equal(st.pid, 42);
    assert_int_equal(st.ppid, 7);
    assert_int_equal(st.session, 39);
    assert_int_equal(st.state, 'S');
    assert_int_equal(st.start, 98765);
    assert_false(proc_stat_parse("", &st));
    assert_false(proc_stat_parse("42 (a", &st));
    assert_false(proc_stat_parse("42 (a) S 7", &st));
}

static void wait_all(void)
{
    while (wait(NULL) > 0 || errno == EINTR)
        ;
}

static pid_t shell(const char *text, char *const envp[])
{
    char *argv[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
                    (char *)(uintptr_t)text, NULL};
    int ready[2];
    char byte;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ready[1], 9);
        close(ready[0]);
        close(ready[1]);
        execve(argv[0], argv, envp);
        _exit(127);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1); /* it wrote to descriptor 9 */
    close(ready[0]);
    return pid;
}

static void test_descendants(void **state)
{
    char *envp[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL};

    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    shell("sleep 1000 & (setsid sleep 1000 &); (sh -c 'sleep 1000 & wait' &); sleep 0.1; echo >&9; "
          "exec 9>&-; wait",
          envp);
    assert_true(tree_signal(getpid(), 0) >= 5);
    while (tree_signal(getpid(), SIGKILL) > 0)
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    wait_all();
    assert_int_equal(tree_signal(getpid(), 0), 0);
}

static bool never(void *arg, pid_t pid)
{
    (void)arg;
    (void)pid;
    return false;
}

static size_t kill_orphans(const struct tree_orphans *o)
{
    struct tree_scan *t = tree_scan_new();
    size_t n = tree_kill_orphans(t, o);

    tree_scan_free(t);
    return n;
}

static void test_orphans(void **state)
{
    char mark[TREE_MARK_MAX], other[TREE_MARK_MAX];

    (void)state;
    snprintf(mark, sizeof(mark), "%s=test-%d.7.1", TREE_MARK_NAME, (int)getpid());
    snprintf(other, sizeof(other), "%s=test-%d.7.10", TREE_MARK_NAME, (int)getpid());
    char *envp[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", mark, NULL};
    char *envo[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", other, NULL};
    pid_t mine =
        shell("(env -i setsid sleep 1000 &) ; (setsid sleep 1000 &) ; sleep 0.1; echo >&9; "
              "exec 9>&-; sleep 1000",
              envp);
    pid_t foreign = shell("echo >&9; exec sleep 1000", envo);
    struct tree_orphans o = {.mark = mark, .is_supervisor = never};
    assert_true(kill_orphans(&o) >= 2);
    waitpid(mine, NULL, 0);
    for (int i = 0; i < 30000 && kill_orphans(&o) > 0; i++)
        usleep(2000);
    assert_int_equal(kill_orphans(&o), 0);
    assert_int_equal(kill(foreign, 0), 0); /* 7.10 is not 7.1 */
    /* By session: only when the leader is the process it was. */
    o = (struct tree_orphans){.mark = "BERTH_MARK=none", .leader = foreign, .is_supervisor = never};
    assert_int_equal(kill_orphans(&o), 0);
    o.pid_start = UINT64_MAX;
    assert_int_equal(kill_orphans(&o), 1);
    /* Unknown children of the shepherd: the one that emptied its environment. */
    o = (struct tree_orphans){
        .mark = "BERTH_MARK=none", .shepherd = getpid(), .is_supervisor = never};
    while (kill_orphans(&o) > 0)
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    wait_all();
}

/* Two shells with a child each; the children of the second one are its own affair. */
static void test_children_of_who_asks_are_spared(void **state)
{
    char *envp[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin", NULL};
    int status;

    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    /* The children say that they are there: a child that is not yet a program of its own would take
     * the signal with the trap of its shell. */
    pid_t plain = shell("sh -c 'echo >&9; exec sleep 1000 9>&-' & exec 9>&-; wait", envp);
    pid_t asks = shell("trap : TERM; sh -c 'echo >&9; exec sleep 1000 9>&-' & exec 9>&-; "
                       "while :; do wait; done",
                       envp);
    assert_true(tree_has(getpid(), &asks, 1));
    assert_false(tree_has(getpid(), &plain, 0));
    assert_true(tree_ask(getpid(), &asks, 1));
    assert_int_equal(waitpid(plain, &status, 0), plain);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    /* The orphan of the first one ends too; the second one and its child are left. */
    while (tree_signal(getpid(), 0) > 2)
        waitpid(-1, NULL, WNOHANG);
    assert_int_equal(tree_signal(getpid(), 0), 2);
    kill(asks, SIGKILL);
    assert_int_equal(waitpid(asks, &status, 0), asks);
    assert_false(tree_has(getpid(), &asks, 1));
    assert_false(tree_ask(getpid(), &asks, 1)); /* it has gone: nobody is spared */
    wait_all();
    assert_int_equal(tree_signal(getpid(), 0), 0);
}

/* Who asks is found also while its parent ends and it moves up the tree. */
static void test_who_moves_up_is_found(void **state)
{
    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (int round = 0; round < 100; round++) {
        int told[2];
        pid_t asks;

        assert_int_equal(pipe(told), 0);
        pid_t parent = fork();
        if (parent == 0) {
            pid_t child = fork();
            if (child && write(told[1], &child, sizeof(child)) != sizeof(child))
                _exit(1);
            for (;;)
                pause();
        }
        assert_int_equal(read(told[0], &asks, sizeof(asks)), sizeof(asks));
        close(told[0]);
        close(told[1]);
        kill(parent, SIGKILL);
        for (int look = 0; look < 20; look++)
            assert_true(tree_has(getpid(), &asks, 1));
        assert_int_equal(waitpid(parent, NULL, 0), parent);
        assert_true(tree_has(getpid(), &asks, 1));
        kill(asks, SIGKILL);
        assert_int_equal(waitpid(asks, NULL, 0), asks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stat),
        cmocka_unit_test(test_descendants),
        cmocka_unit_test(test_children_of_who_asks_are_spared),
        cmocka_unit_test(test_who_moves_up_is_found),
        cmocka_unit_test(test_orphans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
