/* test_full.c - the disk is full: clear refusals, nothing broken, recovery when space returns
 *
 * Needs a small file system of its own: a tmpfs, which only root may mount.
 */
#include "unit_store.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

static char mount_point[64];

static int mount_small(void **state)
{
    (void)state;
    snprintf(mount_point, sizeof(mount_point), "/tmp/berth-full-XXXXXX");
    if (!mkdtemp(mount_point))
        return -1;
    if (mount("tmpfs", mount_point, "tmpfs", 0, "size=3m") < 0) {
        rmdir(mount_point);
        print_message("# skipped: cannot mount a tmpfs (%s); run as root\n", strerror(errno));
        mount_point[0] = '\0';
    }
    return 0;
}

static int unmount_small(void **state)
{
    (void)state;
    if (mount_point[0]) {
        umount2(mount_point, MNT_DETACH);
        rmdir(mount_point);
    }
    return 0;
}

static char *ballast_path(void)
{
    return path_join(mount_point, "ballast");
}

/* Takes all that is free. */
static void fill_disk(void)
{
    AUTO_FREE char *path = ballast_path();
    AUTO_FD fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    char block[4096];

    assert_true(fd >= 0);
    memset(block, 7, sizeof(block));
    while (write(fd, block, sizeof(block)) > 0)
        ;
}

static void free_disk(void)
{
    AUTO_FREE char *path = ballast_path();
    unlink(path);
}

/* Submits until it is refused; how many jobs were acknowledged. */
static size_t submit_until_full(struct fixture *f, struct err *e)
{
    size_t done = 0;

    for (int i = 0; i < 1000; i++) {
        uint64_t first = f->next_job;
        stage_submit(f, built_new(f, 200, 1));
        *e = fixture_sync(f);
        if (e->code) {
            f->next_job = first; /* a refused submission leaves no trace: its numbers are free */
            return done;
        }
        done += 200;
    }
    return done;
}

static void test_full_and_back(void **state)
{
    struct fixture f;
    struct err e = {0};
    uint64_t n[JOB_STATE_MAX];
    (void)state;

    if (!mount_point[0])
        skip();
    assert_true(fixture_open_in(&f, mount_point, &e));
    submit_n(&f, 100);
    size_t done = 100 + submit_until_full(&f, &e);
    assert_int_equal(e.code, ERR_FULL);
    assert_non_null(strstr(e.text, "no space left for the job store under "));
    assert_non_null(strstr(e.text, "free some and try again"));
    fill_disk();

    /* What has happened cannot be refused: it waits, in order, until there is room. */
    struct heard late = {0}, refused = {0};
    char name[32], text[1024];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    for (uint64_t job = 1; job <= 100; job++) {
        run_to_end(&f, job, 1, 0);
        for (int i = 0; i < 200; i++)
            stage_point(&f, job, "a metric with quite a long name", i, i / 3.0);
        /* 4 MB in all: more than the disk has, whatever of the log can be used again. */
        for (int i = 0; i < 40; i++) {
            snprintf(name, sizeof(name), "tag %d", i);
            stage_mark(&f, job, MARK_TAG, name, -1, text);
        }
    }
    f.ledger.barrier(f.ledger.self, on_heard, &late);
    store_flush(f.store);
    for (int i = 0; i < 60000 && f.ledger.healthy(f.ledger.self); i++)
        usleep(1000);
    assert_false(f.ledger.healthy(f.ledger.self));
    /* A submission meanwhile is refused at once, ahead of what waits. */
    stage_submit(&f, built_new(&f, 10, 1));
    f.next_job -= 10;
    f.ledger.barrier(f.ledger.self, on_heard, &refused);
    store_flush(f.store);
    for (int i = 0; i < 60000 && !refused.called; i++) {
        usleep(1000);
        store_drain(f.store);
    }
    assert_true(refused.called);
    assert_int_equal(refused.e.code, ERR_FULL);
    assert_false(late.called);
    /* Turn after turn more happens: all of it is kept, none of it makes the wait busier. */
    for (int i = 0; i < 300; i++) {
        stage_run_new(&f, 101 + (uint64_t)i, 1);
        store_flush(f.store);
        usleep(500);
    }
    uint64_t commits = store_stats(f.store).commits;
    /* People can still read. */
    assert_int_equal(store_job_counts(f.store, &(struct job_query){0}, n, &e), 0);
    assert_int_equal(n[JOB_QUEUED], done);

    free_disk();
    assert_int_equal(mount("tmpfs", mount_point, "tmpfs", MS_REMOUNT, "size=64m"), 0);
    for (int i = 0; i < 60000 && !late.called; i++) {
        usleep(1000);
        store_drain(f.store);
    }
    assert_true(late.called);
    assert_int_equal(late.e.code, 0);
    assert_true(f.ledger.healthy(f.ledger.self));
    e = (struct err){0};
    assert_int_equal(store_job_counts(f.store, &(struct job_query){0}, n, &e), 0);
    assert_int_equal(n[JOB_SUCCEEDED], 100);
    while (store_busy(f.store)) {
        usleep(1000);
        store_drain(f.store);
    }
    assert_true(store_stats(f.store).commits - commits <= 3);
    assert_int_equal(store_job_counts(f.store, &(struct job_query){0}, n, &e), 0);
    assert_int_equal(n[JOB_STARTING], 300);
    assert_int_equal(n[JOB_QUEUED], done - 400);
    submit_n(&f, 10);
    check_sound(&f);
    assert_true(fixture_reopen(&f, &e));
    check_sound(&f);
    fixture_close(&f);
}

/* Nothing is staged any more, so nothing would show that there is room again: a probe does. */
static void test_recovers_without_being_asked(void **state)
{
    struct fixture f;
    struct err e = {0};
    (void)state;

    if (!mount_point[0])
        skip();
    assert_int_equal(mount("tmpfs", mount_point, "tmpfs", MS_REMOUNT, "size=3m"), 0);
    assert_true(fixture_open_in(&f, mount_point, &e));
    submit_until_full(&f, &e);
    assert_int_equal(e.code, ERR_FULL);
    /* On a small disk the space went to the jobs, not to the write-ahead log. */
    assert_true(store_stats(f.store).db_bytes > 2 * store_stats(f.store).wal_bytes);
    free_disk();
    assert_int_equal(mount("tmpfs", mount_point, "tmpfs", MS_REMOUNT, "size=64m"), 0);
    for (int i = 0; i < 60000 && !f.ledger.healthy(f.ledger.self); i++)
        usleep(1000);
    assert_true(f.ledger.healthy(f.ledger.self));
    submit_n(&f, 1000);
    check_sound(&f);
    fixture_close(&f);
}

/* Closing on a full disk ends in bounded time and leaves a sound file. */
static void test_close_while_full(void **state)
{
    struct fixture f;
    struct err e = {0};
    (void)state;

    if (!mount_point[0])
        skip();
    assert_int_equal(mount("tmpfs", mount_point, "tmpfs", MS_REMOUNT, "size=3m"), 0);
    assert_true(fixture_open_in(&f, mount_point, &e));
    submit_n(&f, 100);
    fill_disk();
    submit_until_full(&f, &e);
    fill_disk();
    run_to_end(&f, 1, 1, 0);
    store_close(f.store);
    f.store = NULL;
    free_disk();
    e = (struct err){0};
    assert_true(fixture_reopen(&f, &e));
    check_sound(&f);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_and_back),
        cmocka_unit_test(test_recovers_without_being_asked),
        cmocka_unit_test(test_close_while_full),
    };
    return cmocka_run_group_tests(tests, mount_small, unmount_small);
}
