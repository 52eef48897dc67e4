/* test_study_log.c - logs of libraries of searches: numbered by the writer, kept apart, removed */
#include "store/study_log.h"
#include "unit_store.h"

struct shown {
    char text[500];
    size_t n;
};

static bool show_line(void *arg, uint64_t number, struct str text)
{
    struct shown *x = arg;

    x->n += (size_t)snprintf(x->text + x->n, sizeof(x->text) - x->n, "%llu " STR_FMT ";",
                             (unsigned long long)number, STR_ARG(text));
    return true;
}

static void stage_lines(struct fixture *f, enum change_kind kind, uint32_t uid, const char *name,
                        const char *lines)
{
    fixture_stage(f, &(struct change){.kind = kind,
                                      .at_ms = 1,
                                      .study_log = {uid, str_of(name), str_of(lines)}});
}

static const char *lines_of(struct fixture *f, uint32_t uid, const char *name, uint64_t after,
                            size_t limit)
{
    static struct shown x;
    struct err e = {0};

    x = (struct shown){0};
    assert_int_equal(store_study_log(f->store, uid, str_of(name), after, limit, show_line, &x, &e),
                     0);
    return x.text;
}

static const char *logs_of(struct fixture *f, uint32_t uid)
{
    static struct shown x;
    struct err e = {0};

    x = (struct shown){0};
    assert_int_equal(store_study_logs(f->store, uid, show_line, &x, &e), 0);
    return x.text;
}

static void test_lines_are_numbered(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};

    stage_lines(f, CHANGE_STUDY_LOG, 1000, "a", "{1}\n{2}\n");
    stage_lines(f, CHANGE_STUDY_LOG, 1000, "b", "{other}\n");
    stage_lines(f, CHANGE_STUDY_LOG, 2000, "a", "{of another user}\n");
    sync_ok(f);
    stage_lines(f, CHANGE_STUDY_LOG, 1000, "a", "{3}\n");
    stage_lines(f, CHANGE_STUDY_LOG, 1000, "a", "");
    sync_ok(f);
    assert_true(fixture_reopen(f, &e));
    assert_string_equal(lines_of(f, 1000, "a", 0, 10), "1 {1};2 {2};3 {3};");
    assert_string_equal(lines_of(f, 1000, "a", 1, 1), "2 {2};");
    assert_string_equal(lines_of(f, 1000, "a", 3, 10), "");
    assert_string_equal(lines_of(f, 2000, "a", 0, 10), "1 {of another user};");
    assert_string_equal(lines_of(f, 1000, "none", 0, 10), "");
    assert_string_equal(logs_of(f, 1000), "3 a;1 b;");
}

static void test_removed(void **state)
{
    struct fixture *f = *state;

    stage_lines(f, CHANGE_STUDY_LOG, 1000, "a", "{1}\n");
    stage_lines(f, CHANGE_STUDY_LOG, 2000, "a", "{2}\n");
    stage_lines(f, CHANGE_STUDY_LOG_GONE, 1000, "a", "");
    stage_lines(f, CHANGE_STUDY_LOG_GONE, 1000, "none", "");
    sync_ok(f);
    assert_string_equal(logs_of(f, 1000), "");
    assert_string_equal(logs_of(f, 2000), "1 a;");
    stage_lines(f, CHANGE_STUDY_LOG, 1000, "a", "{again}\n");
    sync_ok(f);
    assert_string_equal(lines_of(f, 1000, "a", 0, 10), "1 {again};");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_lines_are_numbered),
        with_store(test_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
