/* test_scheduled.c - ids of firings, definitions of earlier versions */
#include "base/file.h"
#include "base/tz.h"
#include "base/util.h"
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

/* What earlier versions wrote becomes a definition for the core. */
static void test_an_old_file(void **state)
{
    static const char text[] =
        "{\"job_id\":\"" UUID "\",\"spec\":{\"command\":[\"main.py\"]},\"metadata\":{},"
        "\"gpu_spec\":{},\"schedule\":\"30 6 * * *\",\"status\":\"paused\",\"done\":1700000000,"
        "\"owner\":{\"uid\":1000,\"gid\":100,\"user\":\"ada\",\"admin\":false}}";
    char dir[] = "/tmp/berth-scheduled-XXXXXX";
    struct scheduled_old x = {0};
    struct schedule_rules rules;
    struct err e = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    AUTO_FREE char *path = xasprintf("%s/%s.json", dir, UUID);
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &e), 0);
    assert_int_equal(scheduled_old_read(path, &x, &e), 0);
    assert_string_equal(x.id, UUID);
    assert_true(x.paused);
    assert_int_equal(x.settled_s, 1700000000);
    assert_int_equal(x.owner.uid, 1000);
    assert_string_equal(x.owner.user, "ada");
    assert_int_equal(schedule_rules_read(x.def, &rules, &e), 0);
    assert_true(rules.timed && rules.overlap == OVERLAP_QUEUE && rules.catch_up == CATCH_UP_NONE);
    AUTO_FREE char *def = json_text(x.def);
    assert_string_equal(def, "{\"dialect\":\"atlas\",\"tree\":\"schedule-" UUID
                             "\",\"overlap\":\"queue\",\"catch_up\":\"none\",\"cron\":"
                             "\"30 6 * * *\",\"job\":{\"job_id\":\"" UUID
                             "\",\"spec\":{\"command\":[\"main.py\"]},\"metadata\":{},"
                             "\"gpu_spec\":{},\"schedule\":\"30 6 * * *\"}}");
    scheduled_old_done(&x);
    /* A file that is none says so. */
    assert_int_equal(file_write_atomic(path, "{}", 2, 0600, &e), 0);
    assert_int_equal(scheduled_old_read(path, &x, &e), -1);
    assert_non_null(strstr(e.text, "job_id is missing"));
    dir_remove_tree(dir, NULL);
}

static int32_t zone_offset(void *self, int64_t utc_s)
{
    return tz_offset(self, utc_s);
}

/* An hour that is missing, one that comes twice: the moments, and the names of their runs. */
static void test_local_time(void **state)
{
    const char *rule = "CET-1CEST,M3.5.0,M10.5.0/3";
    struct cron_zone zone = {zone_offset, NULL};
    struct schedule_rules r;
    struct json *def = json_new_object();
    struct err e = {0};
    char id[ATLAS_ID_MAX];

    (void)state;
    setenv("TZ", rule, 1);
    tzset();
    assert_int_equal(tz_load(rule, (struct tz **)&zone.self, &e), 0);
    json_set_str(def, "cron", "30 2 * * *");
    assert_int_equal(schedule_rules_read(def, &r, &e), 0);
    int64_t t = schedule_after(&r, &zone, 1774699200); /* 2026-03-28 12:00 UTC */
    assert_int_equal(t, 1774746000);                   /* 03:00 CEST, when the gap ends */
    scheduled_run_id(UUID, t, id);
    assert_string_equal(id, UUID "_20260329_030000");
    t = schedule_after(&r, &zone, 1792843200); /* 2026-10-24 12:00 UTC */
    assert_int_equal(t, 1792888200);           /* 02:30 CEST, the first of the two */
    scheduled_run_id(UUID, t, id);
    assert_string_equal(id, UUID "_20261025_023000");
    scheduled_run_id(UUID, schedule_after(&r, &zone, t), id);
    assert_string_equal(id, UUID "_20261026_023000");
    tz_free(zone.self);
    json_free(def);
}

static void test_no_schedule_yet(void **state)
{
    struct schedule_rules r = {.timed = true};
    struct json *job = json_new_object();
    struct err e = {0};

    (void)state;
    json_set_take(job, "schedule", json_new_object());
    struct json *def = scheduled_def_take(job, "tree");
    assert_int_equal(schedule_rules_read(def, &r, &e), 0);
    assert_false(r.timed);
    json_free(def);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_an_old_file),
        cmocka_unit_test(test_local_time),
        cmocka_unit_test(test_no_schedule_yet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
