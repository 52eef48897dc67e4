/* test_job_column.c - names of columns: what stands in front, figures of metrics, quotes */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "model/job_column.h"

static void test_names(void **state)
{
    static const struct {
        const char *text, *param, *metric;
        enum job_column_kind kind;
        enum job_column_stat stat;
    } rows[] = {
        {"lr", "lr", "lr", JOB_COLUMN_EITHER, JOB_COLUMN_LAST},
        {" acc.max ", "acc.max", "acc", JOB_COLUMN_EITHER, JOB_COLUMN_MAX},
        {"acc.max_step", "acc.max_step", "acc", JOB_COLUMN_EITHER, JOB_COLUMN_MAX_STEP},
        {"opt.name", "opt.name", "opt.name", JOB_COLUMN_EITHER, JOB_COLUMN_LAST},
        {"metric.val/acc.mean", "val/acc.mean", "val/acc", JOB_COLUMN_METRIC, JOB_COLUMN_MEAN},
        {"params.state", "state", "state", JOB_COLUMN_PARAM, JOB_COLUMN_LAST},
        {"tag.best", "best", "best", JOB_COLUMN_TAG, JOB_COLUMN_LAST},
        {"\"a, b\"", "a, b", "a, b", JOB_COLUMN_EITHER, JOB_COLUMN_LAST},
        {"\"loss.min\"", "loss.min", "loss.min", JOB_COLUMN_EITHER, JOB_COLUMN_LAST},
        {"metric.\"a.b\".min", "a.b", "a.b", JOB_COLUMN_METRIC, JOB_COLUMN_MIN},
        {".max", ".max", ".max", JOB_COLUMN_EITHER, JOB_COLUMN_LAST},
    };
    struct arena a = {0};
    struct err e = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct job_column c;
        if (job_column_parse(str_of(rows[i].text), &a, &c, &e) < 0)
            fail_msg("%s: %s", rows[i].text, e.text);
        assert_string_equal(c.param, rows[i].param);
        assert_string_equal(c.metric, rows[i].metric);
        assert_int_equal(c.kind, rows[i].kind);
        assert_int_equal(c.stat, rows[i].stat);
    }
    arena_done(&a);
}

static void test_bad_names(void **state)
{
    static const char *const bad[] = {"", " ", "metric.", "\"a", "\"\"", "\"a\"b", "\"a\".best"};
    struct arena a = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct job_column c;
        struct err e = {0};
        assert_int_equal(job_column_parse(str_of(bad[i]), &a, &c, &e), -1);
        assert_int_equal(e.code, ERR_INVALID);
        assert_non_null(strstr(e.text, "column"));
    }
    arena_done(&a);
}

static void test_lists(void **state)
{
    struct arena a = {0};
    struct err e = {0};
    struct job_column *c = NULL;
    size_t n;
    char many[2 * (JOB_COLUMNS_MAX + 1) + 1];

    (void)state;
    assert_int_equal(job_columns_parse(STR(" lr , ,\"a,b\".max,acc"), &a, &c, &n, &e), 0);
    assert_int_equal(n, 3);
    assert_string_equal(c[1].metric, "a,b");
    assert_string_equal(c[1].text, "\"a,b\".max");
    assert_string_equal(c[2].text, "acc");
    assert_int_equal(job_columns_parse(STR(""), &a, &c, &n, &e), 0);
    assert_int_equal(n, 0);
    for (size_t i = 0; i < sizeof(many) - 1; i++)
        many[i] = i % 2 ? ',' : 'x';
    many[sizeof(many) - 1] = '\0';
    assert_int_equal(job_columns_parse(str_of(many), &a, &c, &n, &e), -1);
    assert_int_equal(e.code, ERR_LIMIT);
    assert_int_equal(n, 0);
    arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_bad_names),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
