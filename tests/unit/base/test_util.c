/* test_util.c - ownership macros, allocation, assertions that end the process */
#include "base/util.h"
#include "unit.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

TEST(strings_are_copied)
{
    AUTO_FREE char *a = xstrdup("berth");
    AUTO_FREE char *b = xstrndup("berth", 3);
    AUTO_FREE char *c = xstrndup("be", 10);
    AUTO_FREE char *d = xasprintf("%s-%d", "job", 7);

    assert_string_equal(a, "berth");
    assert_string_equal(b, "ber");
    assert_string_equal(c, "be");
    assert_string_equal(d, "job-7");
    assert_null(xstrdup(NULL));
}

TEST(nothing_is_still_an_allocation)
{
    AUTO_FREE void *a = xmalloc(0);
    AUTO_FREE void *b = xcalloc(0, 8);
    AUTO_FREE void *c = xrealloc(NULL, 0, 8);

    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
}

TEST(take_leaves_nothing_behind)
{
    char *p = xstrdup("x");
    AUTO_FREE char *q = TAKE(p);
    int fd = 7;

    assert_null(p);
    assert_string_equal(q, "x");
    assert_int_equal(TAKE_FD(fd), 7);
    assert_int_equal(fd, -1);
}

TEST(auto_fd_closes)
{
    int raw;
    {
        AUTO_FD fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        raw = fd;
        assert_true(fcntl(raw, F_GETFD) >= 0);
    }
    assert_true(fcntl(raw, F_GETFD) < 0);
}

/* Runs fn in a child whose stderr goes nowhere; the signal it died of, or 0. */
static int signal_of(void (*fn)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        fn();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void break_promise(void)
{
    assert_context = "job 7";
    ASSERT(1 + 1 == 3);
}

static void keep_promise(void)
{
    ASSERT(1 + 1 == 2);
}

static void overflow_multiplication(void)
{
    volatile size_t n = SIZE_MAX / 2;

    free(xrealloc(NULL, n, 4));
}

TEST(broken_promises_abort)
{
    assert_int_equal(signal_of(break_promise), SIGABRT);
    assert_int_equal(signal_of(keep_promise), 0);
    assert_int_equal(signal_of(overflow_multiplication), SIGABRT);
}

static int make_text(const char *text, int made, char **out)
{
    char *copy = xstrdup(text);

    return HAND_OUT(made, out, copy, free);
}

/* What a constructor could not finish is freed, and *out stays as it was. */
TEST(what_is_made_is_handed_out)
{
    char *out = NULL;

    assert_int_equal(make_text("half", -1, &out), -1);
    assert_null(out);
    assert_int_equal(make_text("whole", 0, &out), 0);
    assert_string_equal(out, "whole");
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_copied),
        cmocka_unit_test(nothing_is_still_an_allocation),
        cmocka_unit_test(take_leaves_nothing_behind),
        cmocka_unit_test(auto_fd_closes),
        cmocka_unit_test(broken_promises_abort),
        cmocka_unit_test(what_is_made_is_handed_out),
    };
    return cmocka_run_group_tests_name("util", tests, NULL, NULL);
}
