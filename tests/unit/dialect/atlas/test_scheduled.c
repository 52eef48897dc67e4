/* test_scheduled.c - ids of firings, definitions on disk, words for Slack */
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/notify_priv.h"
#include "dialect/atlas/scheduled_priv.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#define UUID "0b6f4c2e-9a51-4d0f-8a77-3c1f6f2b9e10"
#define RUN UUID "_20261116_063000"

static void test_ids(void **state)
{
    struct id plain, run, upper, other;
    char text[ATLAS_ID_MAX];
    static const char *const bad[] = {"",
                                      UUID "_20261116_06300",
                                      UUID "_20261116-063000",
                                      UUID "_2026111a_063000",
                                      UUID "_20261116_0630000",
                                      UUID "/20261116_063000",
                                      UUID "_../../../etc/pas",
                                      "0b6f4c2e-9a51-4d0f-8a77-3c1f6f2b9e1g_20261116_063000"};

    (void)state;
    assert_true(atlas_id_parse(UUID, &plain) && atlas_id_parse(RUN, &run));
    assert_true(id_cmp(plain, run) != 0);
    assert_true(atlas_id_parse("0B6F4C2E-9A51-4D0F-8A77-3C1F6F2B9E10_20261116_063000", &upper));
    assert_int_equal(id_cmp(run, upper), 0);
    assert_true(atlas_id_parse(UUID "_20261116_063001", &other) && id_cmp(run, other) != 0);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (atlas_id_ok(bad[i]))
            fail_msg("'%s' is an id", bad[i]);
    /* Its name tells a firing, but only the one it is made of. */
    atlas_id_format(run, STR(RUN), text);
    assert_string_equal(text, RUN);
    atlas_id_format(plain, STR(RUN), text);
    assert_string_equal(text, UUID);
    atlas_id_format(plain, STR("main.py"), text);
    assert_string_equal(text, UUID);
}

static struct scheduled *make(const char *body)
{
    struct scheduled *x = xcalloc(1, sizeof(*x));
    struct err e = {0};

    assert_int_equal(json_parse(str_of(body), "body", &x->def, &e), 0);
    snprintf(x->id, sizeof(x->id), "%s", UUID);
    snprintf(x->owner.user, sizeof(x->owner.user), "ada");
    x->owner.uid = 1000;
    return x;
}

static void test_a_file_and_back(void **state)
{
    char dir[] = "/tmp/berth-scheduled-XXXXXX";
    struct scheduled *x = make("{\"job_id\":\"" UUID "\",\"spec\":{\"command\":[\"main.py\"]},"
                               "\"metadata\":{},\"gpu_spec\":{}}"),
                     *y = NULL;
    struct json *when = json_new_str(STR("30 6 * * *"));
    struct err e = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(scheduled_set_times(x, when, &e), 0);
    x->paused = true;
    x->done_s = 1700000000;
    assert_int_equal(scheduled_write(dir, x, &e), 0);
    AUTO_FREE char *path = xasprintf("%s/%s.json", dir, UUID);
    assert_int_equal(scheduled_read(path, &y, &e), 0);
    assert_true(y->paused && y->timed && json_equal(x->def, y->def));
    assert_int_equal(y->done_s, x->done_s);
    assert_int_equal(y->owner.uid, 1000);
    assert_string_equal(y->owner.user, "ada");
    assert_memory_equal(&x->cron, &y->cron, sizeof(x->cron));
    scheduled_free(y);
    /* A file that is none says so. */
    assert_int_equal(file_write_atomic(path, "{}", 2, 0600, &e), 0);
    assert_int_equal(scheduled_read(path, &y, &e), -1);
    assert_non_null(strstr(e.text, "job_id is missing"));
    json_free(when);
    scheduled_free(x);
    dir_remove_tree(dir, NULL);
}

/* Real zones, through the C library: an hour that is missing, one that comes twice. */
static void test_local_time(void **state)
{
    struct scheduled *x = make("{}");
    struct json *when = json_new_str(STR("30 2 * * *"));
    struct err e = {0};
    char id[ATLAS_ID_MAX];

    (void)state;
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    assert_int_equal(scheduled_set_times(x, when, &e), 0);
    int64_t t = scheduled_after(x, 1774699200); /* 2026-03-28 12:00 UTC */
    assert_int_equal(t, 1774746000);            /* 03:00 CEST, when the gap ends */
    scheduled_run_id(x, t, id);
    assert_string_equal(id, UUID "_20260329_030000");
    t = scheduled_after(x, 1792843200); /* 2026-10-24 12:00 UTC */
    assert_int_equal(t, 1792888200);    /* 02:30 CEST, the first of the two */
    scheduled_run_id(x, t, id);
    assert_string_equal(id, UUID "_20261025_023000");
    scheduled_run_id(x, scheduled_after(x, t), id);
    assert_string_equal(id, UUID "_20261026_023000");
    json_free(when);
    scheduled_free(x);
}

static void test_no_schedule_yet(void **state)
{
    struct scheduled *x = make("{}");
    struct json *empty = json_new_object();
    struct err e = {0};

    (void)state;
    assert_int_equal(scheduled_set_times(x, NULL, &e), 0);
    assert_false(x->timed);
    assert_int_equal(scheduled_set_times(x, empty, &e), 0);
    assert_false(x->timed);
    assert_int_equal(scheduled_after(x, 1700000000), 0);
    json_free(empty);
    scheduled_free(x);
}

static void test_words_for_slack(void **state)
{
    AUTO(buf) struct buf b = {0};

    (void)state;
    buf_init(&b, 100);
    notice_escape(&b, STR("<!here> a&b\n`c`"));
    assert_string_equal(b.p, "&lt;!here&gt; a&amp;b  c ");
    assert_int_equal(notice_kind_of(STR("job.queued")), NOTICE_QUEUED);
    assert_int_equal(notice_kind_of(STR("job.lost")), NOTICE_FAILED);
    assert_int_equal(notice_kind_of(STR("job.starting")), NOTICE_NONE);
    assert_int_equal(notice_kind_of(STR("report.metric")), NOTICE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_a_file_and_back),
        cmocka_unit_test(test_local_time),
        cmocka_unit_test(test_no_schedule_yet),
        cmocka_unit_test(test_words_for_slack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
