/* test_schedule.c - the rules of a schedule, and which of the moments that passed it fires */
#include "base/json.h"
#include "base/util.h"
#include "model/schedule.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static int32_t utc(void *self, int64_t s)
{
    (void)self;
    (void)s;
    return 0;
}

static const struct cron_zone zone = {utc, NULL};

static int read_rules(const char *text, struct schedule_rules *out, struct err *e)
{
    AUTO(json) struct json *j = NULL;

    assert_int_equal(json_parse(str_of(text), "definition", &j, e), 0);
    return schedule_rules_read(j, out, e);
}

static void test_rules(void **state)
{
    struct schedule_rules r;
    struct err e = {0};
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"{\"cron\": 5}", ""},
        {"{\"cron\": \"61 * * * *\"}", "minute '61'"},
        {"{\"cron\": \"0 0 * * *\", \"overlap\": \"never\"}",
         "overlap: must be skip, queue or replace"},
        {"{\"cron\": \"0 0 * * *\", \"catch_up\": 7}", "catch_up: must be latest, all or none"},
        {"{\"cron\": \"0 0 * * *\", \"catch_up\": \"all\", \"overlap\": \"skip\"}",
         "needs the overlap rule queue"},
        {"{\"cron\": \"0 0 * * *\", \"timezone\": 1}", "timezone: must be the name"},
    };

    (void)state;
    assert_int_equal(read_rules("{\"cron\": \"30 6 * * 1-5\"}", &r, &e), 0);
    assert_true(r.timed && r.overlap == OVERLAP_SKIP && r.catch_up == CATCH_UP_LATEST);
    assert_string_equal(r.timezone, "");
    assert_int_equal(read_rules("{\"cron\": \"@daily\", \"catch_up\": \"all\","
                                " \"timezone\": \"Europe/Paris\"}",
                                &r, &e),
                     0);
    assert_int_equal(r.overlap, OVERLAP_QUEUE);
    assert_string_equal(r.timezone, "Europe/Paris");
    assert_int_equal(read_rules("{\"cron\": {}}", &r, &e), 0);
    assert_false(r.timed);
    assert_int_equal(schedule_after(&r, &zone, 0), 0);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(read_rules(bad[i].text, &r, &e), -1);
        if (!strstr(e.text, bad[i].error))
            fail_msg("%s: %s", bad[i].text, e.text);
    }
}

#define AT(h, m, s) (1700000000 / 86400 * 86400 + (h)*3600 + (m)*60 + (s))

static void check_choice(const char *text, int64_t settled, int64_t now, int64_t fire,
                         int64_t settle, int64_t missed)
{
    struct schedule_rules r;
    struct err e = {0};

    assert_int_equal(read_rules(text, &r, &e), 0);
    struct schedule_choice c = schedule_choose(&r, &zone, settled, now);
    assert_int_equal(c.fire_s, fire);
    assert_int_equal(c.settle_s, settle);
    assert_int_equal(c.missed_s, missed);
}

static void test_choice(void **state)
{
    const char *latest = "{\"cron\": \"0 * * * *\"}";
    const char *all = "{\"cron\": \"0 * * * *\", \"catch_up\": \"all\"}";
    const char *none = "{\"cron\": \"0 * * * *\", \"catch_up\": \"none\"}";

    (void)state;
    /* Nothing has come yet; one moment, in time. */
    check_choice(latest, AT(6, 0, 0), AT(6, 59, 59), 0, 0, 0);
    check_choice(latest, AT(6, 0, 0), AT(7, 0, 0), AT(7, 0, 0), AT(7, 0, 0), 0);
    check_choice(none, AT(6, 0, 0), AT(7, 0, 59), AT(7, 0, 0), AT(7, 0, 0), 0);
    /* Several were missed. */
    check_choice(latest, AT(6, 0, 0), AT(9, 30, 0), AT(9, 0, 0), AT(9, 0, 0), AT(7, 0, 0));
    check_choice(all, AT(6, 0, 0), AT(9, 30, 0), AT(7, 0, 0), AT(7, 0, 0), 0);
    check_choice(none, AT(6, 0, 0), AT(9, 30, 0), 0, AT(9, 0, 0), AT(7, 0, 0));
    check_choice(none, AT(6, 0, 0), AT(9, 0, 30), AT(9, 0, 0), AT(9, 0, 0), AT(7, 0, 0));
    /* A year of seconds. */
    check_choice("{\"cron\": {\"second\": \"*\"}}", AT(0, 0, 0) - 365 * 86400, AT(0, 0, 0),
                 AT(0, 0, 0), AT(0, 0, 0), AT(0, 0, 1) - 365 * 86400);
    /* A clock that was set back: nothing, until it is past the settled moment. */
    check_choice(latest, AT(9, 0, 0), AT(6, 30, 0), 0, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
