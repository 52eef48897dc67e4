/* test_snapshot.c - several reads of one committed state */
#include "unit_store.h"

static void test_reads_agree(void **state)
{
    struct fixture *f = *state;
    uint64_t job = submit_n(f, 1);

    store_snapshot_begin(f->store);
    assert_int_equal(view_of(f, job).v.state, JOB_QUEUED);
    run_to_end(f, job, 1, 0);
    sync_ok(f);
    assert_int_equal(view_of(f, job).v.state, JOB_QUEUED);
    store_snapshot_end(f->store);
    assert_int_equal(view_of(f, job).v.state, JOB_SUCCEEDED);
}

/* What is committed between the beginning and the first read is seen. */
static void test_begins_with_the_first_read(void **state)
{
    struct fixture *f = *state;
    uint64_t job = submit_n(f, 1);

    store_snapshot_begin(f->store);
    run_to_end(f, job, 1, 0);
    sync_ok(f);
    assert_int_equal(view_of(f, job).v.state, JOB_SUCCEEDED);
    store_snapshot_end(f->store);
    store_snapshot_begin(f->store);
    store_snapshot_end(f->store); /* without any read */
}

static void test_missing_job_ends_nothing(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    uint64_t job = submit_n(f, 1);

    store_snapshot_begin(f->store);
    assert_int_equal(store_job(f->store, job + 1, see, &(struct seen){0}, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    submit_n(f, 1);
    e = (struct err){0};
    assert_int_equal(store_job(f->store, job + 1, see, &(struct seen){0}, &e), -1);
    assert_int_equal(view_of(f, job).v.state, JOB_QUEUED);
    store_snapshot_end(f->store);
    assert_int_equal(view_of(f, job + 1).v.state, JOB_QUEUED);
}

struct within {
    struct fixture *f;
    int seen;
};

static bool read_within(void *arg, const struct job_view *v)
{
    struct within *w = arg;
    struct seen inner =
        view_of(w->f, 2); /* the same statement, while the outer one stands on a row */

    assert_int_equal(v->seq, 1);
    assert_int_equal(inner.v.seq, 2);
    w->seen++;
    return true;
}

static void test_read_within_a_read(void **state)
{
    struct fixture *f = *state;
    struct within w = {.f = f};
    struct err e = {0};

    submit_n(f, 2);
    store_snapshot_begin(f->store);
    assert_int_equal(store_job(f->store, 1, read_within, &w, &e), 0);
    assert_int_equal(view_of(f, 1).v.seq, 1);
    store_snapshot_end(f->store);
    assert_int_equal(w.seen, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_reads_agree),
        with_store(test_begins_with_the_first_read),
        with_store(test_missing_job_ends_nothing),
        with_store(test_read_within_a_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
