/* test_stop_asks.c - the file in which processes of a job say that they ask for stops */
#include "base/file.h"
#include "base/stop_asks.h"
#include "base/util.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static char dir[] = "/tmp/berth-asks-XXXXXX", path[64];

static size_t reads(const char *text, pid_t out[STOP_ASKS_MAX])
{
    struct err e;

    if (text)
        assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &e), 0);
    size_t n = stop_asks_read(dir, out);
    unlink(path);
    return n;
}

static void test_lines(void **state)
{
    pid_t out[STOP_ASKS_MAX];

    (void)state;
    assert_int_equal(reads("7\n4711\n", out), 2);
    assert_int_equal(out[0], 7);
    assert_int_equal(out[1], 4711);
    assert_int_equal(reads("7\n47", out), 1); /* a line that is not whole yet */
    assert_int_equal(reads("", out), 0);
    assert_int_equal(reads("-7\n", out), 0);
    assert_int_equal(reads("x\n7\n", out), 0);
    assert_int_equal(reads("1\n0\n7\n", out), 0); /* 1 is nobody's; 0 ends it */
    assert_int_equal(reads("99999999999999999999\n8\n", out), 1);
    assert_int_equal(out[0], 8);
}

static void test_many(void **state)
{
    char text[8192] = "";
    pid_t out[STOP_ASKS_MAX];

    (void)state;
    for (size_t i = 0; i < 1000; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%zu\n", 1000 + i);
    assert_int_equal(reads(text, out), STOP_ASKS_MAX);
    assert_int_equal(out[STOP_ASKS_MAX - 1], 1000 + STOP_ASKS_MAX - 1);
}

/* A job may put anything there: nothing blocks, nothing is followed. */
static void test_no_plain_file(void **state)
{
    pid_t out[STOP_ASKS_MAX];
    struct err e;
    char other[80];

    (void)state;
    assert_int_equal(reads(NULL, out), 0);
    assert_int_equal(stop_asks_read(NULL, out), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(reads(NULL, out), 0);
    snprintf(other, sizeof(other), "%s/other", dir);
    assert_int_equal(file_write_atomic(other, "7\n", 2, 0600, &e), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(reads(NULL, out), 0);
    unlink(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_no_plain_file),
    };

    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof(path), "%s/asks_stop", dir);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(dir);
    return rc;
}
