/* test_warm.c - a file is read into memory before its pages are checked, within a time */
#include "store/check_priv.h"
#include "unit_store.h"
#include <fcntl.h>

enum { BYTES = 8 << 20 };

/* A file that the kernel was asked to forget; some file systems keep it in memory all the same. */
static int cold_file(const struct fixture *f)
{
    AUTO_FREE char *path = path_join(f->dir, "big"), *zeros = xcalloc(1, BYTES);
    struct err e = {0};
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, zeros, BYTES, &e), 0);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    return fd;
}

static void test_all_of_it(void **state)
{
    AUTO_FD fd = cold_file(*state);

    assert_true(file_warm(fd, BYTES, INT64_MAX));
    assert_true(file_is_warm(fd, BYTES));
    assert_true(file_warm(fd, BYTES, 0)); /* what is there costs no time */
}

static void test_no_time(void **state)
{
    AUTO_FD fd = cold_file(*state);

    if (file_is_warm(fd, BYTES))
        skip();
    assert_false(file_warm(fd, BYTES, 0));
    assert_false(file_is_warm(fd, BYTES));
}

/* Shorter than it was thought to be: the check of the header says so, not this. */
static void test_a_short_file(void **state)
{
    AUTO_FD fd = cold_file(*state);

    assert_false(file_warm(fd, 2 * BYTES, INT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_all_of_it),
        with_store(test_no_time),
        with_store(test_a_short_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
