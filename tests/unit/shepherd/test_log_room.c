/* test_log_room.c - a silent log on a full disk is told from one that was cut off */
#include "base/util.h"
#include "shepherd/log_room.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

/* A disk and a tmpfs. */
static const char *const places[] = {"/var/tmp", "/dev/shm"};

static int log_new(const char *dir, char path[64])
{
    snprintf(path, 64, "%s/berth-room-XXXXXX", dir);
    int fd = mkostemp(path, O_APPEND | O_CLOEXEC);

    if (fd >= 0)
        unlink(path);
    return fd;
}

static struct stat stat_of(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return st;
}

static void test_an_empty_log_with_room_is_whole(void **state)
{
    char path[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        AUTO_FD fd = log_new(places[i], path);
        struct log_room r;
        if (fd < 0)
            continue;
        log_room_init(&r, fd);
        assert_true(log_room_cut(&r)); /* nobody knows whether it wanted to write */
        assert_true(log_room_take(&r));
        if (!r.taken)
            continue; /* this file system cannot allocate in advance */
        assert_int_equal(stat_of(fd).st_size, 0);
        assert_true(stat_of(fd).st_blocks > 0);
        assert_false(log_room_cut(&r));
        log_room_return(&r);
        assert_int_equal(stat_of(fd).st_blocks, 0);
    }
}

static void test_a_log_that_ends_with_a_block_may_be_cut(void **state)
{
    static const char block[4096];
    char path[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        AUTO_FD fd = log_new(places[i], path);
        struct log_room r;
        if (fd < 0)
            continue;
        log_room_init(&r, fd);
        assert_true(log_room_take(&r));
        assert_int_equal(write(fd, "line\n", 5), 5);
        assert_false(log_room_cut(&r));
        assert_int_equal(write(fd, block, sizeof(block) - 5), sizeof(block) - 5);
        assert_true(log_room_cut(&r));
        assert_int_equal(write(fd, "x", 1), 1);
        assert_false(log_room_cut(&r));
        log_room_return(&r); /* what was written stays */
        assert_int_equal(stat_of(fd).st_size, sizeof(block) + 1);
    }
}

/* A log that has output already needs no room. */
static void test_room_is_for_empty_logs(void **state)
{
    char path[64];
    AUTO_FD fd = log_new("/var/tmp", path);
    struct log_room r;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "line\n", 5), 5);
    log_room_init(&r, fd);
    assert_true(log_room_take(&r));
    assert_false(r.taken);
    assert_false(log_room_cut(&r));
}

static void test_what_is_no_file_is_left_alone(void **state)
{
    AUTO_FD fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct log_room r;

    (void)state;
    for (int k = 0; k < 2; k++) {
        log_room_init(&r, k ? fd : -1);
        assert_true(log_room_take(&r));
        assert_false(log_room_cut(&r));
        log_room_return(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_empty_log_with_room_is_whole),
        cmocka_unit_test(test_a_log_that_ends_with_a_block_may_be_cut),
        cmocka_unit_test(test_room_is_for_empty_logs),
        cmocka_unit_test(test_what_is_no_file_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
