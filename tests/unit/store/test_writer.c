/* test_writer.c - the writer thread: order of barriers, group commit, refusals, closing, the log */
#include "store/store_priv.h"
#include "unit_store.h"
#include <sys/statvfs.h>

struct order {
    int calls[64];
    size_t n;
};
struct mark {
    struct order *o;
    int number;
    struct err e;
};

static void on_mark(void *arg, const struct err *e)
{
    struct mark *m = arg;
    if (e)
        m->e = *e;
    m->o->calls[m->o->n++] = m->number;
}

static void wait_idle(struct fixture *f)
{
    while (store_busy(f->store)) {
        usleep(100);
        store_drain(f->store);
    }
}

static void test_barriers_in_order(void **state)
{
    struct fixture *f = *state;
    struct order o = {0};
    struct mark m[30] = {0};

    for (int i = 0; i < 30; i++) {
        m[i] = (struct mark){.o = &o, .number = i};
        stage_submit(f, built_new(f, 2, 1));
        f->ledger.barrier(f->ledger.self, on_mark, &m[i]);
        if (i % 3 == 0)
            store_flush(f->store);
    }
    store_flush(f->store);
    wait_idle(f);
    assert_int_equal(o.n, 30);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(o.calls[i], i);
        assert_int_equal(m[i].e.code, 0);
    }
    struct store_stats st = store_stats(f->store);
    assert_int_equal(st.changes, 30);
    assert_true(st.commits <= 11);
    assert_int_equal(st.last_event, 30);
    assert_true(st.db_bytes > 0 && st.wal_bytes > 0);
}

static void test_barrier_without_changes(void **state)
{
    struct fixture *f = *state;
    sync_ok(f);
    assert_int_equal(store_stats(f->store).last_event, 0);
}

/* A submission at fault itself is refused alone; its neighbours in the transaction hold. */
static void test_one_bad_submission(void **state)
{
    struct fixture *f = *state;
    struct order o = {0};
    struct mark m[3] = {{&o, 0, {0}}, {&o, 1, {0}}, {&o, 2, {0}}};
    struct built *bad;

    stage_submit(f, built_new(f, 2, 1));
    f->ledger.barrier(f->ledger.self, on_mark, &m[0]);
    f->next_job = 2; /* taken */
    bad = built_new(f, 2, 1);
    bad->s.specs[0].project = STR("elsewhere");
    stage_submit(f, bad);
    f->ledger.barrier(f->ledger.self, on_mark, &m[1]);
    f->next_job = 10;
    stage_submit(f, built_new(f, 1, 1));
    run_to_end(f, 10, 1, 0);
    f->ledger.barrier(f->ledger.self, on_mark, &m[2]);
    store_flush(f->store);
    wait_idle(f);
    assert_int_equal(o.n, 3);
    assert_int_equal(m[0].e.code, 0);
    assert_int_equal(m[1].e.code, ERR_CONFLICT);
    assert_int_equal(m[2].e.code, 0);
    assert_int_equal(view_of(f, 10).v.state, JOB_SUCCEEDED);
    assert_int_equal(store_stats(f->store).refused, 1);
    check_sound(f);
}

static void test_invalid_submissions(void **state)
{
    struct fixture *f = *state;
    struct built *b = built_new(f, 1, 1);

    b->s.jobs[0].spec = 999;
    stage_submit(f, b);
    assert_int_equal(fixture_sync(f).code, ERR_INVALID);
    b = built_new(f, 1, 1);
    b->s.n_jobs = 0;
    stage_submit(f, b);
    assert_int_equal(fixture_sync(f).code, ERR_INVALID);
    b = built_new(f, 1, 1);
    b->s.jobs[0].batch = 7;
    stage_submit(f, b);
    assert_int_equal(fixture_sync(f).code, ERR_INVALID);
    check_sound(f);
}

static void never(void *arg, const struct err *e)
{
    (void)arg;
    (void)e;
    fail_msg("a barrier ran in store_close");
}

static void test_close_commits_and_runs_no_barrier(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};

    stage_submit(f, built_new(f, 3, 1));
    f->ledger.barrier(f->ledger.self, never, NULL);
    assert_true(fixture_reopen(f, &e));
    assert_int_equal(view_of(f, 3).v.state, JOB_QUEUED);
    stage_submit(f, built_new(f, 1, 1));
    store_flush(f->store);
    assert_true(fixture_reopen(f, &e));
    assert_int_equal(view_of(f, 4).v.state, JOB_QUEUED);
}

/* Text of changes is copied: what the caller does with its buffers afterwards is its own affair. */
static void test_text_is_copied(void **state)
{
    struct fixture *f = *state;
    char reason[] = "because", user[] = "ann";

    submit_n(f, 1);
    fixture_stage(f, &(struct change){.kind = CHANGE_JOB_STATE,
                                      .at_ms = 1,
                                      .user = str_of(user),
                                      .job_state = {.first = 1,
                                                    .from = JOB_QUEUED,
                                                    .to = JOB_CANCELLED,
                                                    .reason = str_of(reason)}});
    memset(reason, 'x', sizeof(reason) - 1);
    memset(user, 'x', sizeof(user) - 1);
    sync_ok(f);
    assert_string_equal(view_of(f, 1).reason, "because");
}

static void test_idle_checkpoints(void **state)
{
    struct fixture *f = *state;
    int64_t before = store_stats(f->store).db_bytes;

    submit_n(f, 2000);
    store_idle(f->store);
    for (int i = 0; i < 200000 && store_stats(f->store).db_bytes <= before + 100000; i++)
        usleep(1000);
    assert_true(store_stats(f->store).db_bytes > before + 100000);
}

struct reader {
    struct store *store;
    atomic_bool stop;
    size_t reads;
};

static bool sum(void *arg, const struct job_view *v)
{
    *(uint64_t *)arg += v->seq;
    return true;
}

static void *read_on(void *arg)
{
    struct reader *r = arg;
    while (!r->stop) {
        uint64_t total = 0, n[JOB_STATE_MAX], all = 0;
        struct err e = {0};
        struct job_query q = {.limit = 50, .desc = true};
        store_jobs(r->store, &q, sum, &total, NULL, &e);
        store_job_counts(r->store, &q, n, &e);
        for (int i = 0; i < JOB_STATE_MAX; i++)
            all += n[i];
        ASSERT(!e.code && all % 10 == 0);
        r->reads++;
    }
    return NULL;
}

static void test_readers_beside_the_writer(void **state)
{
    struct fixture *f = *state;
    struct reader r[3] = {{f->store, false, 0}, {f->store, false, 0}, {f->store, false, 0}};
    pthread_t t[3];

    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, read_on, &r[i]);
    for (int i = 0; i < 100; i++) {
        uint64_t first = submit_n(f, 10);
        for (uint64_t k = 0; k < 10; k++)
            run_to_end(f, first + k, 1, 0);
        sync_ok(f);
    }
    for (int i = 0; i < 3; i++) {
        r[i].stop = true;
        pthread_join(t[i], NULL);
        assert_true(r[i].reads > 0);
    }
    check_sound(f);
}

/* Constant load and readers that overlap all the time: the log is reused, not grown for ever. */
static void test_log_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct reader r[2] = {{f->store, false, 0}, {f->store, false, 0}};
    pthread_t t[2];
    int64_t most = 0;

    for (int i = 0; i < 2; i++)
        pthread_create(&t[i], NULL, read_on, &r[i]);
    for (int i = 0; i < 120; i++) {
        submit_n(f, 5000);
        most = MAX(most, store_stats(f->store).wal_bytes);
    }
    for (int i = 0; i < 2; i++) {
        r[i].stop = true;
        pthread_join(t[i], NULL);
    }
    print_message("# the log had at most %lld MiB\n", (long long)most >> 20);
    assert_true(most < 96 << 20);
}

/* A log that grows with every commit makes every commit slower: it is lengthened in large steps. */
static void test_log_grows_in_steps(void **state)
{
    struct fixture *f = *state;
    struct statvfs fs;
    int64_t before = 0;
    int steps = 0;

    assert_int_equal(statvfs(f->dir, &fs), 0);
    if ((uint64_t)fs.f_bavail * fs.f_frsize < (uint64_t)4 << 30)
        skip(); /* it is not lengthened where there is little room */
    /* One step is due after the 50th of these commits, and may be seen twice: half done, and done.
     * The next one is due at about the 198th. */
    for (int i = 0; i < 190; i++) {
        submit_n(f, 1);
        int64_t now = store_stats(f->store).wal_bytes;
        steps += i > 50 && now != before;
        before = now;
    }
    assert_true(before > 4 << 20 && before <= 16 << 20);
    assert_true(steps <= 3);
    check_sound(f);
}

/* Somebody else holds the database: nothing is lost, it just takes longer. */
static void test_locked_by_another_program(void **state)
{
    struct fixture *f = *state;
    struct db d;
    struct err e = {0};

    submit_n(f, 1);
    assert_int_equal(db_open(&d, f->path, DB_WRITER, &e), 0);
    assert_int_equal(db_exec(&d, "BEGIN IMMEDIATE", &e), 0);
    run_to_end(f, 1, 1, 0);
    store_flush(f->store);
    usleep(100000);
    assert_true(store_busy(f->store));
    assert_int_equal(db_exec(&d, "ROLLBACK", &e), 0);
    db_done(&d);
    sync_ok(f);
    assert_int_equal(view_of(f, 1).v.state, JOB_SUCCEEDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_barriers_in_order),
        with_store(test_barrier_without_changes),
        with_store(test_one_bad_submission),
        with_store(test_invalid_submissions),
        with_store(test_close_commits_and_runs_no_barrier),
        with_store(test_text_is_copied),
        with_store(test_idle_checkpoints),
        with_store(test_log_is_bounded),
        with_store(test_log_grows_in_steps),
        with_store(test_readers_beside_the_writer),
        with_store(test_locked_by_another_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
