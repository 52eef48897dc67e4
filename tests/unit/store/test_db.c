/* test_db.c - the file itself: mode, statements, migrations, and the plans of the hot queries */
#include "store/migrate_priv.h"
#include "store/query_priv.h"
#include "unit_store.h"
#include <sys/stat.h>

static void test_files_are_private(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *wal = xasprintf("%s-wal", f->path);
    struct stat st;

    submit_n(f, 1);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(wal, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_missing_for_a_reader(void **state)
{
    struct db d;
    struct err e = {0};
    struct buf b;
    (void)state;

    assert_int_equal(db_open(&d, "/nonexistent/berth.db", DB_READER, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    buf_init(&b, 100);
    assert_int_equal(store_check("/nonexistent/berth.db", &b, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
}

static void test_statements_are_kept_and_evicted(void **state)
{
    struct db d;
    struct err e = {0};
    (void)state;

    assert_int_equal(db_open(&d, ":memory:", DB_WRITER, &e), 0);
    static const char literal[] = "SELECT 1";
    sqlite3_stmt *kept = db_query(&d, &e, literal);
    assert_ptr_equal(db_query(&d, &e, literal), kept);
    for (int i = 0; i < 3 * DB_STATEMENTS; i++) {
        AUTO_FREE char *sql = xasprintf("SELECT %d", i);
        sqlite3_stmt *st = db_query_text(&d, &e, sql, NULL, 0);
        assert_non_null(st);
        assert_int_equal(db_step(&d, st, &e), 1);
        assert_int_equal(sqlite3_column_int(st, 0), i);
        sqlite3_reset(st);
        assert_ptr_equal(db_query_text(&d, &e, sql, NULL, 0), st);
    }
    assert_null(db_query_text(&d, &e, "SELECT nonsense FROM nowhere", NULL, 0));
    assert_int_equal(e.code, ERR_INTERNAL);
    db_done(&d);
}

/* ---- migrations ---- */

static int64_t number(struct db *d, const char *sql)
{
    struct err e = {0};
    sqlite3_stmt *st = db_query_text(d, &e, sql, NULL, 0);
    int64_t v = -1;

    if (st && db_step(d, st, &e) == 1)
        v = sqlite3_column_int64(st, 0);
    no_err(&e);
    sqlite3_reset(st);
    return v;
}

static void test_upgrade_keeps_what_is_there(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE struct migration *steps = xcalloc(n_migrations + 2, sizeof(*steps));
    size_t n = n_migrations;
    char text[80];
    struct db d;
    struct err e = {0};

    memcpy(steps, migrations, n * sizeof(steps[0]));
    steps[n] = (struct migration){.sql = "ALTER TABLE job ADD COLUMN colour TEXT;"
                                         "UPDATE job SET colour = 'red' WHERE seq = 3;"};
    steps[n + 1] = (struct migration){.sql = "CREATE TABLE extra(x INTEGER) STRICT;"};

    submit_n(f, 5);
    store_close(f->store);
    f->store = NULL;
    assert_int_equal(db_open(&d, f->path, DB_WRITER, &e), 0);
    assert_int_equal(number(&d, "PRAGMA user_version"), n);
    assert_int_equal(migrate(&d, steps, n + 2, &e), 0);
    assert_int_equal(number(&d, "PRAGMA user_version"), n + 2);
    assert_int_equal(number(&d, "SELECT count(*) FROM job"), 5);
    assert_int_equal(number(&d, "SELECT count(*) FROM job WHERE colour = 'red'"), 1);
    assert_int_equal(migrate(&d, steps, n + 2, &e), 0);
    db_done(&d);
    /* The older program says so and touches nothing. */
    assert_int_equal(store_open(&f->store, f->path, NULL, NULL, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    snprintf(text, sizeof(text), "newer berth (schema %zu, this one knows %zu)", n + 2, n);
    assert_non_null(strstr(e.text, text));
    f->store = NULL;
}

/* A store of the first schema: runs have a bit mask of devices, jobs no training. */
static bool add_gpus(void *arg, const struct run_view *v)
{
    gpu_set_format(&v->gpus, arg);
    buf_addc(arg, ';');
    return true;
}

static void keep_run(void *arg, const struct run_record *r)
{
    gpu_set_format(&r->gpus, arg);
    buf_addc(arg, '.');
}

static void no_job(void *arg, const struct job_record *r)
{
    (void)arg;
    assert_int_equal(r->training.n, 0);
}

static void no_switch(void *arg, struct str name, enum queue_mode on)
{
    (void)arg;
    (void)name;
    (void)on;
}

static void no_node(void *arg, const struct node_record *r)
{
    (void)arg;
    (void)r;
}

static void no_counters(void *arg, uint64_t job, uint64_t spec, uint64_t batch, uint64_t event)
{
    (void)arg;
    (void)spec;
    (void)batch;
    (void)event;
    assert_true(job > 1);
}

/* What steps 4 to 13 made, undone. */
static const char schema_3[] =
    "ALTER TABLE idempotency DROP COLUMN print; ALTER TABLE spec DROP COLUMN sealed;"
    "DROP INDEX spec_snapshot; ALTER TABLE spec DROP COLUMN snapshot;"
    "DROP TABLE study_log; DROP TABLE trial; DROP TABLE study; DROP TABLE delivery; DROP TABLE "
    "notify; DROP TABLE hook;"
    "DROP TABLE schedule; ALTER TABLE spec DROP COLUMN schedule;"
    "DROP TABLE ahead; DROP TABLE block; DROP TABLE word; DROP TABLE series; DROP TABLE mark; DROP "
    "TABLE note;"
    "DROP TABLE project; CREATE TABLE report("
    " job INTEGER NOT NULL REFERENCES job(seq) ON DELETE CASCADE, kind INTEGER NOT NULL,"
    " name TEXT NOT NULL, seq INTEGER NOT NULL, run INTEGER NOT NULL, step INTEGER NOT NULL,"
    " at_ms INTEGER NOT NULL, value REAL, text TEXT,"
    " PRIMARY KEY(job, kind, name, seq)) STRICT, WITHOUT ROWID; ALTER TABLE spec DROP COLUMN nodes;"
    " ALTER TABLE batch DROP COLUMN n8; ALTER TABLE spec DROP COLUMN retry_lost;"
    " ALTER TABLE counter DROP COLUMN tagged; PRAGMA user_version = 3";

static bool add_point_text(void *arg, const struct point_view *v)
{
    buf_addf(arg, "%lld:%g/%u ", (long long)v->step, v->value, v->run);
    return true;
}

static bool add_mark_text(void *arg, const struct mark_view *v)
{
    buf_addf(arg, "%c %.*s=%.*s;", (int)v->kind, STR_ARG(v->name), STR_ARG(v->text));
    return true;
}

static bool add_project_text(void *arg, const struct project_view *v)
{
    buf_addf(arg, "%.*s of %.*s at %lld;", STR_ARG(v->name), STR_ARG(v->owner),
             (long long)v->created_ms);
    return true;
}

static void test_rows_of_reports_become_series(void **state)
{
    struct fixture *f = *state;
    AUTO(buf) struct buf seen = {0};
    struct err e = {0};
    struct db d;
    uint64_t job = submit_n(f, 2);

    buf_init(&seen, 10000);
    store_close(f->store);
    f->store = NULL;
    assert_int_equal(db_open(&d, f->path, DB_WRITER, &e), 0);
    assert_int_equal(db_exec(&d, schema_3, &e), 0);
    assert_int_equal(
        db_exec(&d,
                "INSERT INTO report VALUES(1, 109, 'loss', 11, 1, 0, 5, 0.5, NULL),"
                " (1, 109, 'loss', 12, 1, 1, 6, 0.25, NULL), (1, 109, 'acc', 13, 1, 0, 6, 1, NULL),"
                " (1, 109, 'loss', 14, 2, 0, 7, 4, NULL), (2, 109, 'loss', 15, 1, 0, 8, 9, NULL),"
                " (1, 116, 'kind', 16, 1, -1, 9, NULL, 'a'), (1, 97, 'm', 17, 1, -1, 9, NULL, 'b'),"
                " (1, 116, 'kind', 18, 2, -1, 9, NULL, 'c'), (1, 116, 'bare', 19, 2, -1, 9, NULL,"
                " NULL)",
                &e),
        0);
    db_done(&d);
    assert_true(fixture_reopen(f, &e));
    assert_int_equal(store_points(f->store, 1, STR("loss"), 0, 0, add_point_text, &seen, &e), 0);
    assert_int_equal(store_points(f->store, 2, STR("loss"), 0, 0, add_point_text, &seen, &e), 0);
    assert_int_equal(store_marks(f->store, &job, 1, 0, add_mark_text, &seen, &e), 0);
    assert_int_equal(store_project_list(f->store, add_project_text, &seen, &e), 0);
    assert_string_equal(seen.p, "0:0.5/1 1:0.25/1 0:4/2 0:9/1 t kind=c;a m=b;t bare=;"
                                "default of ann at 1700000000000;");
    check_sound(f);
}

static void test_bit_masks_of_devices_are_read(void **state)
{
    struct fixture *f = *state;
    AUTO(buf) struct buf seen = {0};
    struct load_sink sink = {.job = no_job,
                             .run = keep_run,
                             .queue = no_switch,
                             .node = no_node,
                             .counters = no_counters,
                             .arg = &seen};
    struct err e = {0};
    struct db d;

    buf_init(&seen, 1000);
    submit_n(f, 1);
    stage_run_new(f, 1, 1);
    fixture_sync(f);
    store_close(f->store);
    f->store = NULL;
    assert_int_equal(db_open(&d, f->path, DB_WRITER, &e), 0);
    assert_int_equal(db_exec(&d, schema_3, &e), 0);
    assert_int_equal(db_exec(&d,
                             "UPDATE run SET gpus = (1 << 63) | 5;"
                             "ALTER TABLE run DROP COLUMN devices;"
                             "ALTER TABLE job DROP COLUMN training;"
                             "ALTER TABLE node DROP COLUMN url;"
                             "ALTER TABLE node DROP COLUMN conf;"
                             "DROP TABLE fact; PRAGMA user_version = 1",
                             &e),
                     0);
    db_done(&d);
    assert_true(fixture_reopen(f, &e));
    assert_int_equal(store_runs(f->store, 1, add_gpus, &seen, &e), 0);
    assert_int_equal(f->ledger.load(f->ledger.self, &sink, &e), 0);
    assert_string_equal(seen.p, "0,2,63;0,2,63.");
}

static void test_failed_step_leaves_the_version_before(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE struct migration *steps = xcalloc(n_migrations + 2, sizeof(*steps));
    size_t n = n_migrations;
    char text[40];
    struct db d;
    struct err e = {0};

    memcpy(steps, migrations, n * sizeof(steps[0]));
    steps[n] = (struct migration){
        .sql = "CREATE TABLE extra(x INTEGER) STRICT; INSERT INTO nowhere VALUES(1);"};
    store_close(f->store);
    f->store = NULL;
    assert_int_equal(db_open(&d, f->path, DB_WRITER, &e), 0);
    assert_int_equal(migrate(&d, steps, n + 1, &e), -1);
    snprintf(text, sizeof(text), "schema %zu: ", n + 1);
    assert_non_null(strstr(e.text, text));
    assert_int_equal(number(&d, "PRAGMA user_version"), n);
    assert_int_equal(number(&d, "SELECT count(*) FROM sqlite_schema WHERE name = 'extra'"), 0);
    db_done(&d);
    e = (struct err){0};
    assert_true(fixture_reopen(f, &e));
}

static void test_file_of_another_program(void **state)
{
    struct fixture *f = *state;
    AUTO_FREE char *other = path_join(f->dir, "other.db");
    AUTO_FREE char *text = path_join(f->dir, "text.db");
    struct db d;
    struct store *s;
    struct err e = {0};

    assert_int_equal(db_open(&d, other, DB_WRITER, &e), 0);
    assert_int_equal(db_exec(&d, "CREATE TABLE photos(x)", &e), 0);
    db_done(&d);
    assert_int_equal(store_open(&s, other, NULL, NULL, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.text, "another program"));
    assert_int_equal(file_write_atomic(text, "hello, this is no database at all", 33, 0600, &e), 0);
    assert_int_equal(store_open(&s, text, NULL, NULL, &e), -1);
    assert_int_equal(e.code, ERR_INTERNAL);
    assert_non_null(strstr(e.text, "damaged"));
}

/* ---- plans ---- */

static bool take(void *arg, const struct job_view *v)
{
    (void)arg;
    (void)v;
    return true;
}

/* The plan of each statement that the readers used since they were opened. */
static void read_plans(struct fixture *f, struct buf *out)
{
    struct pool *p = &f->store->pool;
    struct db *d = p->idle[0];

    assert_int_equal(p->n_idle, 1);
    for (size_t i = 0; i < DB_STATEMENTS; i++) {
        sqlite3_stmt *plan = NULL, *st = d->cache[i].st;
        if (!st || strncmp(sqlite3_sql(st), "SELECT", 6))
            continue;
        AUTO_FREE char *sql = xasprintf("EXPLAIN QUERY PLAN %s", sqlite3_sql(st));
        assert_int_equal(sqlite3_prepare_v2(d->h, sql, -1, &plan, NULL), SQLITE_OK);
        buf_addf(out, "-- %.200s\n", sqlite3_sql(st));
        while (sqlite3_step(plan) == SQLITE_ROW)
            buf_addf(out, "%s\n", (const char *)sqlite3_column_text(plan, 3));
        sqlite3_finalize(plan);
    }
}

static void no_plan_has(const struct buf *plans, const char *bad)
{
    if (strstr(plans->p, bad))
        fail_msg("a plan has \"%s\":\n%s", bad, plans->p);
}

static void test_hot_reads_do_not_scan_history(void **state)
{
    struct fixture *f = *state;
    struct filter one = {.op = FILTER_EQ,
                         .field = FILTER_F_STATE,
                         .values = (const char *[]){"failed"},
                         .n_values = 1};
    struct buf plans;
    struct err e = {0};
    char *cursor = NULL;
    uint64_t seq, n[JOB_STATE_MAX], first = submit_n(f, 50);

    run_to_end(f, first, 1, 1);
    sync_ok(f);
    buf_init(&plans, 1 << 20);
    store_jobs(f->store, &(struct job_query){.filter = &one, .limit = 10, .desc = true}, take, NULL,
               &cursor, &e);
    store_jobs(f->store, &(struct job_query){.project = "default", .limit = 10}, take, NULL,
               &cursor, &e);
    store_job_counts(f->store, &(struct job_query){0}, n, &e);
    store_job(f->store, first, take, NULL, &e);
    store_resolve(f->store, STR("7"), &seq, &e);
    store_resolve(f->store, STR("01hf7yat00abc"), &seq, NULL);
    no_err(&e);
    free(cursor);
    read_plans(f, &plans);
    no_plan_has(&plans, "SCAN j\n");
    no_plan_has(&plans, "SCAN job\n");
    no_plan_has(&plans, "SCAN run");
    no_plan_has(&plans, "SCAN spec");
    no_plan_has(&plans, "SCAN intake\n");
    assert_non_null(strstr(plans.p, "USING COVERING INDEX job_lane (state=? AND party=?)"));
    buf_done(&plans);
}

static void test_walk_uses_the_order_of_numbers(void **state)
{
    struct fixture *f = *state;
    struct buf plans;
    struct err e = {0};
    char *cursor = NULL;

    submit_n(f, 50);
    buf_init(&plans, 1 << 20);
    struct job_query q = {.limit = 10, .desc = true};
    store_jobs(f->store, &q, take, NULL, &cursor, &e);
    q.cursor = cursor;
    char *next = NULL;
    store_jobs(f->store, &q, take, NULL, &next, &e);
    no_err(&e);
    read_plans(f, &plans);
    no_plan_has(&plans, "TEMP B-TREE");
    assert_non_null(strstr(plans.p, "SEARCH j USING INTEGER PRIMARY KEY (rowid<?)"));
    buf_done(&plans);
    free(cursor);
    free(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_files_are_private),
        cmocka_unit_test(test_missing_for_a_reader),
        cmocka_unit_test(test_statements_are_kept_and_evicted),
        with_store(test_upgrade_keeps_what_is_there),
        with_store(test_rows_of_reports_become_series),
        with_store(test_bit_masks_of_devices_are_read),
        with_store(test_failed_step_leaves_the_version_before),
        with_store(test_file_of_another_program),
        with_store(test_hot_reads_do_not_scan_history),
        with_store(test_walk_uses_the_order_of_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
