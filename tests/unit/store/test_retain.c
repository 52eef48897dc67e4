/* test_retain.c - removal, retention, backup, and the checks of `berth doctor` */
#include "store/db_priv.h"
#include "unit_store.h"
#include <sys/stat.h>

static int64_t number(struct fixture *f, const char *sql)
{
    struct db d;
    struct err e = {0};
    int64_t v = -1;

    assert_int_equal(db_open(&d, f->path, DB_READER, &e), 0);
    sqlite3_stmt *st = db_query_text(&d, &e, sql, NULL, 0);
    if (st && db_step(&d, st, &e) == 1)
        v = sqlite3_column_int64(st, 0);
    no_err(&e);
    db_done(&d);
    return v;
}

static void test_remove_takes_everything_along(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};

    stage_submit(f, built_new(f, 2, 2));
    run_to_end(f, 1, 1, 0);
    stage_point(f, 1, "loss", 0, 1);
    fixture_stage(f, &(struct change){
                         .kind = CHANGE_TEXT_POINT,
                         .text_point = {.key = {1, 1}, .name = STR("mood"), .text = STR("good")}});
    stage_mark(f, 1, MARK_TAG, "best", -1, "");
    fixture_stage(f,
                  &(struct change){.kind = CHANGE_NOTE, .note = {.job = 1, .text = STR("good")}});
    /* Job 2 still waits: it stays. */
    fixture_stage(f, &(struct change){.kind = CHANGE_REMOVE,
                                      .at_ms = f->now_ms,
                                      .remove = {.first = 1, .last = 2}});
    sync_ok(f);
    assert_int_equal(number(f, "SELECT count(*) FROM job"), 1);
    assert_int_equal(number(f, "SELECT count(*) FROM run"), 0);
    assert_int_equal(number(f, "SELECT count(*) FROM series"), 0);
    assert_int_equal(number(f, "SELECT count(*) FROM block"), 0);
    assert_int_equal(number(f, "SELECT count(*) FROM word"), 0);
    assert_int_equal(number(f, "SELECT count(*) FROM mark"), 0);
    assert_int_equal(number(f, "SELECT count(*) FROM note"), 0);
    assert_int_equal(number(f, "SELECT count(*) FROM project"), 1);
    assert_int_equal(number(f, "SELECT count(*) FROM spec"), 1);
    assert_true(number(f, "SELECT count(*) FROM event WHERE first = 1") > 3);
    assert_int_equal(store_job(f->store, 1, see, &(struct seen){0}, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    check_sound(f);
}

static void test_old_jobs_are_found_and_old_events_go(void **state)
{
    struct fixture *f = *state;
    struct run_key old[10];
    size_t n = 0;
    struct err e = {0};
    int64_t start = f->now_ms;

    submit_n(f, 4);
    run_to_end(f, 1, 1, 0);
    run_to_end(f, 2, 1, 0);
    sync_ok(f);
    f->now_ms += 100000;
    run_to_end(f, 3, 1, 0);
    submit_n(f, 1);
    run_to_end(f, 5, 1, 0);
    sync_ok(f);
    struct ended_span span = {.before_ms = start + 50000};
    assert_int_equal(store_ended(f->store, &span, 1, old, &n, &e), 0);
    assert_int_equal(n, 1);
    assert_int_equal(old[0].job, 1);
    assert_int_equal(old[0].run, 1);
    assert_int_equal(store_ended(f->store, &span, 5, old, &n, &e), 0);
    assert_int_equal(n, 2);
    assert_int_equal(old[1].job, 2);
    store_forget(f->store, start + 50000, 80);
    sync_ok(f);
    assert_int_equal(number(f, "SELECT min(at_ms) FROM event") >= start + 50000, 1);
    /* The newest event stays whatever its age: numbers do not repeat. */
    int64_t last = number(f, "SELECT max(seq) FROM event");
    store_forget(f->store, start + 900000, 80);
    sync_ok(f);
    assert_int_equal(number(f, "SELECT count(*) FROM event"), 1);
    assert_int_equal(number(f, "SELECT max(seq) FROM event"), last);
    span.before_ms = start + 900000;
    assert_int_equal(store_ended(f->store, &span, 8, old, &n, &e), 0);
    assert_int_equal(n, 4);
    assert_true(fixture_reopen(f, &e));
    check_sound(f);
}

static void test_backup_of_a_live_store(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *copy = path_join(f->dir, "copy.db");
    struct err e = {0};
    struct buf findings;
    struct store *s;
    struct seen seen = {0};
    struct stat st;

    submit_n(f, 1000);
    run_to_end(f, 7, 1, 0);
    sync_ok(f);
    assert_int_equal(store_backup(f->store, copy, &e), 0);
    submit_n(f, 10);
    assert_int_equal(stat(copy, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    buf_init(&findings, 1 << 16);
    assert_int_equal(store_check(copy, &findings, &e), 0);
    assert_int_equal(findings.n, 0);
    assert_int_equal(store_open(&s, copy, NULL, NULL, &e), 0);
    assert_int_equal(store_job(s, 1000, see, &seen, &e), 0);
    assert_int_equal(store_job(s, 1001, see, &seen, &e), -1);
    store_close(s);
    e = (struct err){0};
    assert_int_equal(store_backup(f->store, copy, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_int_equal(store_backup(f->store, "/nonexistent/x.db", &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
}

static void spoil(struct fixture *f, const char *sql, const char *finding)
{
    struct db d;
    struct err e = {0};
    struct buf b;

    assert_int_equal(db_open(&d, f->path, DB_WRITER, &e), 0);
    assert_int_equal(db_exec(&d, "PRAGMA foreign_keys=OFF; SAVEPOINT s", &e), 0);
    assert_int_equal(db_exec(&d, sql, &e), 0);
    assert_int_equal(db_exec(&d, "RELEASE s", &e), 0);
    db_done(&d);
    buf_init(&b, 1 << 16);
    assert_int_equal(store_check(f->path, &b, &e), 0);
    if (!strstr(buf_str(&b).p, finding))
        fail_msg("after %s: \"%s\" lacks \"%s\"", sql, buf_str(&b).p, finding);
    buf_done(&b);
}

static void test_check_finds_what_is_wrong(void **state)
{
    struct fixture *f = *state;
    struct built *b = built_new(f, 6, 1);

    built_batch(f, b, "b", 0);
    stage_submit(f, b);
    run_to_end(f, 1, 1, 0);
    stage_run_new(f, 2, 1);
    sync_ok(f);
    check_sound(f);
    spoil(f, "UPDATE job SET state = 2 WHERE seq = 3", "job 3 is running without a run");
    spoil(f, "UPDATE job SET ended_ms = 0 WHERE seq = 1", "job 1 has ended without a time");
    spoil(f, "UPDATE job SET state = 6 WHERE seq = 2", "job 2 has ended, but its run 1 has no");
    spoil(f, "UPDATE job SET spec = 99 WHERE seq = 4", "job 4 has no spec 99");
    spoil(f, "UPDATE spec SET jobs = 3", "spec 1 counts 3 jobs but has 5");
    spoil(f, "DELETE FROM intake", "job 1 has no id");
    spoil(f, "UPDATE tally SET n = n + 1 WHERE state = 0", "party 1 counts");
    spoil(f, "UPDATE batch SET n0 = 99", "batch 1 miscounts its jobs");
    spoil(f, "INSERT INTO dep VALUES(77, 1)", "row of dep refers to a missing job");
    spoil(f, "UPDATE counter SET job = 2", "the next job number 2 was given before");
    spoil(f, "DELETE FROM run WHERE job = 1", "job 1 succeeded without a run");
}

static void test_check_of_a_damaged_file(void **state)
{
    struct fixture *f = *state;
    struct buf b;
    struct err e = {0};

    stage_submit(f, built_new(f, 2000, 1));
    sync_ok(f);
    store_close(f->store);
    f->store = NULL;
    FILE *file = fopen(f->path, "r+");
    assert_non_null(file);
    for (long at = 4096L * 20; at < 4096L * 24; at += 512) {
        fseek(file, at, SEEK_SET);
        fputs("garbage garbage garbage", file);
    }
    fclose(file);
    buf_init(&b, 1 << 16);
    int rc = store_check(f->path, &b, &e);
    assert_true(rc < 0 || b.n > 0);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_remove_takes_everything_along),
        with_store(test_old_jobs_are_found_and_old_events_go),
        with_store(test_backup_of_a_live_store),
        with_store(test_check_finds_what_is_wrong),
        with_store(test_check_of_a_damaged_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
