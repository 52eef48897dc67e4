/* test_columns.c - lists in the order of a parameter or metric, and the values in their columns */
#include "store/db_priv.h"
#include "unit_store.h"
#include <inttypes.h>
#include <math.h>

struct told {
    struct buf text;
    const struct fixture *f;
    const struct job_column *columns;
    size_t n_columns;
};

static void note_value(void *arg, size_t i, const struct job_value *v)
{
    struct buf *b = &((struct told *)arg)->text;

    buf_adds(b, i ? "," : "(");
    switch (v->is) {
    case JOB_VALUE_NOTHING:
        buf_adds(b, "-");
        break;
    case JOB_VALUE_JSON:
        buf_addf(b, "%.*s", STR_ARG(v->text));
        break;
    case JOB_VALUE_NUMBER:
        buf_addf(b, "%g", v->number);
        break;
    case JOB_VALUE_INTEGER:
        buf_addf(b, "#%" PRId64, v->integer);
        break;
    case JOB_VALUE_WORDS:
        buf_addf(b, "'%.*s'", STR_ARG(v->text));
        break;
    }
}

static bool note_job(void *arg, const struct job_view *v)
{
    struct told *s = arg;
    struct err e = {0};

    buf_addf(&s->text, "%s%llu", s->text.n ? " " : "", (unsigned long long)v->seq);
    if (s->n_columns) {
        if (store_columns(s->f->store, v, s->columns, s->n_columns, note_value, s, &e) < 0)
            fail_msg("%s", e.text);
        buf_adds(&s->text, ")");
    }
    return true;
}

/* The numbers in the order of a column ("-" in front: descending), in pages of `limit`, each with
 * its values in `columns`. */
static char *sorted(struct fixture *f, const char *by, const char *filter, size_t limit,
                    const char *columns)
{
    static char out[4096];
    struct arena a = {0};
    struct err e = {0};
    struct job_column key, *cols = NULL;
    struct filter *parsed = NULL;
    struct told seen = {.f = f};
    char *cursor = NULL;
    bool desc = *by == '-';

    if (job_column_parse(str_of(by + desc), &a, &key, &e) < 0 ||
        job_columns_parse(str_of(columns), &a, &cols, &seen.n_columns, &e) < 0 ||
        filter_parse(str_of(filter), f->now_ms, &a, &parsed, &e) < 0)
        fail_msg("%s", e.text);
    seen.columns = cols;
    struct job_query q = {.by = &key, .desc = desc, .filter = parsed, .limit = limit};
    do {
        char *next = NULL;
        q.cursor = cursor;
        if (store_jobs(f->store, &q, note_job, &seen, &next, &e) < 0)
            fail_msg("%s: %s", by, e.text);
        free(cursor);
        cursor = next;
    } while (cursor);
    snprintf(out, sizeof(out), "%.*s", STR_ARG(buf_str(&seen.text)));
    buf_done(&seen.text);
    arena_done(&a);
    return out;
}

/* Eight jobs: parameters of several types, metrics of several kinds. */
static void submit_figures(struct fixture *f)
{
    static const char *const params[] = {"{\"lr\":0.1,\"big\":9007199254740993}",
                                         "{\"lr\":0.01,\"opt\":{\"name\":\"sgd\"}}",
                                         "{\"lr\":\"auto\",\"opt\":{\"name\":\"adam\"}}",
                                         "{\"acc\":7,\"lr\":1e400}",
                                         NULL,
                                         "{\"lr\":2}",
                                         "{\"opt.name\":\"rms\"}",
                                         "{\"a\\\"b\":1,\"lr\":0.5}"};
    static const double acc[][3] = {
        {0.1, 0.9, 0.5}, {0.2, 0.3, 0.7},    {NAN, NAN, NAN},   {0.4, 0.4, 0.4},
        {1, 0, 0.5},     {0, INFINITY, 0.1}, {-INFINITY, 1, 1}, {0}};
    struct built *b = built_new(f, 8, 1);

    for (size_t i = 0; i < 8; i++)
        b->s.jobs[i].params = str_of(params[i]);
    stage_submit(f, b);
    for (uint64_t job = 1; job <= 7; job++) {
        stage_run_new(f, job, 1);
        stage_run_started(f, job, 1);
        for (int64_t i = 0; i < 3; i++) {
            stage_point(f, job, "val", i, acc[job - 1][i]);
            stage_point(f, job, "acc", i, acc[job - 1][i]);
        }
    }
    stage_mark(f, 5, MARK_PARAM, "lr", -1, "0.05");
    stage_mark(f, 5, MARK_TAG, "kind", -1, "good");
    sync_ok(f);
}

static void test_orders(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *by, *filter, *want;
    } rows[] = {
        /* A metric: NaN and nothing come last, in either direction. */
        {"val", "", "6 4 1 5 2 7 3 8"},
        {"-val", "", "7 2 5 1 4 6 8 3"},
        {"val.max", "", "4 2 1 5 7 6 3 8"},
        {"-val.max", "", "6 7 5 1 2 4 8 3"},
        {"val.min", "", "7 5 6 1 2 4 3 8"},
        {"-val.first", "", "5 4 2 1 6 7 8 3"},
        {"-val.mean", "", "6 5 1 4 2 7 8 3"},
        {"val.max_step", "", "4 5 1 6 7 2 3 8"},
        {"-metric.val", "lr<0.2", "2 5 1"},
        {"-val", "state:running", "7 2 5 1 4 6 3"},
        {"-val", "val.max>0.8 and val.max<2", "7 5 1"},
        /* A parameter: numbers, then texts, then nothing; what a job logged counts, too. */
        {"lr", "", "2 5 1 8 6 4 3 7"},
        {"-lr", "", "3 4 6 8 1 5 2 7"},
        {"opt.name", "", "3 7 2 1 4 5 6 8"},
        {"tag.kind", "", "5 1 2 3 4 6 7 8"},
        /* Both: the parameter of a job that has it, else the metric. */
        {"-acc", "", "4 7 2 5 1 6 8 3"},
        {"-metric.acc", "", "7 2 5 1 4 6 8 3"},
    };

    submit_figures(f);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        for (size_t limit = 1; limit < 10; limit += limit < 3 ? 1 : 6) {
            char *got = sorted(f, rows[i].by, rows[i].filter, limit, "");
            if (strcmp(got, rows[i].want) != 0)
                fail_msg("%s in pages of %zu: %s, not %s", rows[i].by, limit, got, rows[i].want);
        }
}

static void test_values(void **state)
{
    struct fixture *f = *state;

    submit_figures(f);
    stage_point_text(f, 2, "mood", "fine");
    sync_ok(f);
    assert_string_equal(sorted(f, "lr", "lr=0.1", 9, "big,lr,val.max,val.max_step,val.mean,nope"),
                        "1(9007199254740993,0.1,0.9,#1,0.5,-)");
    assert_string_equal(
        sorted(f, "lr", "lr=0.01", 9, "opt.name,mood,mood.count,val.first,val.step"),
        "2(\"sgd\",'fine',#1,0.2,#2)");
    assert_string_equal(sorted(f, "lr", "lr=auto", 9, "lr,val,val.max,val.count"),
                        "3(\"auto\",nan,nan,#3)");
    assert_string_equal(sorted(f, "val", "acc=7", 9, "acc,metric.acc,lr"), "4(7,0.4,1e400)");
    assert_string_equal(sorted(f, "lr", "lr=0.05", 9, "lr,tag.kind,params.val"),
                        "5(0.05,'good',-)");
    assert_string_equal(sorted(f, "val", "lr=0.5", 9, "lr,val"), "8(0.5,-)");
    assert_string_equal(sorted(f, "val", "lr=2", 9, "val.max"), "6(inf)");
}

static void test_mistakes(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"ca-1-2-", "ca-1-2-0-r0", "ca-1-2-zz-r0", "cd-1-2-0-n"};
    struct arena a = {0};
    struct err e = {0};
    struct job_column key;
    struct told seen = {.f = f};
    struct job_query q = {.by = &key, .limit = 3};

    submit_n(f, 3);
    stage_point(f, 1, "val", 0, 1);
    sync_ok(f);
    assert_int_equal(job_column_parse(STR("vale"), &a, &key, &e), 0);
    assert_int_equal(store_jobs(f->store, &q, note_job, &seen, NULL, &e), -1);
    assert_int_equal(e.code, ERR_INVALID);
    assert_non_null(strstr(e.text, "'vale'"));
    q.only_uid = true; /* names of other users' parameters are not told */
    assert_int_equal(store_jobs(f->store, &q, note_job, &seen, NULL, &e), 0);
    q.only_uid = false;
    assert_int_equal(job_column_parse(STR("val"), &a, &key, &e), 0);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        q.cursor = bad[i];
        assert_int_equal(store_jobs(f->store, &q, note_job, &seen, NULL, &e), -1);
        assert_int_equal(e.code, ERR_INVALID);
    }
    buf_done(&seen.text);
    arena_done(&a);
}

/* Names of parameters are collected once, and then from new jobs only. */
static void test_a_new_name(void **state)
{
    struct fixture *f = *state;

    submit_figures(f);
    assert_string_equal(sorted(f, "val", "id:4,6,1", 9, ""), "6 4 1");
    struct built *b = built_new(f, 1, 1);
    b->s.jobs[0].params = STR("{\"val\":-5}");
    stage_submit(f, b);
    sync_ok(f);
    assert_string_equal(sorted(f, "val", "id:4,6,9", 9, ""), "9 6 4");
}

/* A file that was written before first, mean and the steps of min and max were kept. */
static void test_figures_of_an_older_file(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct db d;

    submit_figures(f);
    store_close(f->store);
    f->store = NULL;
    assert_int_equal(db_open(&d, f->path, DB_WRITER, &e), 0);
    assert_int_equal(db_exec(&d,
                             "DROP INDEX series_read; ALTER TABLE series DROP COLUMN low_step;"
                             "ALTER TABLE series DROP COLUMN high_step;"
                             "ALTER TABLE series DROP COLUMN first;"
                             "ALTER TABLE series DROP COLUMN sum;"
                             "ALTER TABLE series DROP COLUMN counted;"
                             "CREATE INDEX series_name ON series(name);"
                             "DROP TABLE study_log; ALTER TABLE trial DROP COLUMN parent;"
                             "PRAGMA user_version = 18",
                             &e),
                     0);
    db_done(&d);
    assert_true(fixture_reopen(f, &e));
    assert_string_equal(sorted(f, "-val.mean", "", 9, "val.max_step,val.first"),
                        "6(#1,0) 5(#0,1) 1(#1,0.1) 4(#0,0.4) 2(#2,0.2) 7(#1,-inf) 8(-,-)"
                        " 3(nan,nan)");
    check_sound(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_orders),
        with_store(test_values),
        with_store(test_mistakes),
        with_store(test_a_new_name),
        with_store(test_figures_of_an_older_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
