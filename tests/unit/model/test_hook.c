/* test_hook.c - the texts of hooks: what is read, what is refused, with which words */
#include "base/util.h"
#include "model/hook.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_state_that_matters_is_an_event(void **state)
{
    (void)state;
    assert_int_equal(hook_event_of(JOB_RUNNING), HOOK_START);
    assert_int_equal(hook_event_of(JOB_SUCCEEDED), HOOK_SUCCESS);
    assert_int_equal(hook_event_of(JOB_FAILED), HOOK_FAILURE);
    assert_int_equal(hook_event_of(JOB_LOST), HOOK_FAILURE);
    assert_int_equal(hook_event_of(JOB_CANCELLED), HOOK_CANCEL);
    assert_int_equal(hook_event_of(JOB_STARTING), HOOK_EVENTS);
    assert_int_equal(hook_event_of(JOB_HELD), HOOK_EVENTS);
}

static void an_entry_of_notify_is_read(void **state)
{
    struct hook_notify n;
    struct err e = {0};

    (void)state;
    assert_int_equal(hook_notify_parse(STR("failure=mail:me@example.org"), &n, &e), 0);
    assert_int_equal(n.on.events, 1 << HOOK_FAILURE);
    assert_false(n.scope_given);
    assert_true(str_eq_c(n.hook, "mail:me@example.org"));
    assert_int_equal(hook_notify_parse(STR("batch:end,waiting>2h=command:echo a=b"), &n, &e), 0);
    assert_int_equal(n.on.events, 1 << HOOK_END | 1 << HOOK_WAITING);
    assert_int_equal(n.on.wait_ms, 7200000);
    assert_true(n.scope_given && n.on.scope == HOOK_SCOPE_BATCH);
    assert_true(str_eq_c(n.hook, "command:echo a=b"));
    assert_int_equal(hook_notify_parse(STR("end=team"), &n, &e), 0);
    assert_true(str_eq_c(n.hook, "team"));
}

static void refused(const char *text, const char *words)
{
    struct hook_notify n;
    struct err e = {0};

    assert_int_equal(hook_notify_parse(str_of(text), &n, &e), -1);
    if (!strstr(e.text, words))
        fail_msg("%s: %s", text, e.text);
}

static void a_wrong_entry_is_named(void **state)
{
    (void)state;
    refused("failure", "write EVENT=ACTION");
    refused("finished=mail:me@x", "is no event");
    refused("waiting=mail:me@x", "waiting");
    refused("waiting>10ms=mail:me@x", "at least a second");
    refused("study:end=mail:me@x", "job: or batch:");
    refused("end=pager:me", "is no action");
    refused("end=webhook:ftp://x", "is no URL");
    refused("end=slack:https://hooks.slack.com/services/T/B/x", "secret");
    refused("end=a name", "cannot be the name");
}

/* Nothing in an address can begin another header or name a second receiver. */
static void an_address_cannot_add_a_header(void **state)
{
    static const char *const bad[] = {
        "end=mail:a@b\nBcc: c@d", "end=mail:a@b,c@d", "end=mail:<a@b>",    "end=mail:-oQ/tmp@x",
        "end=mail:a@b@c",         "end=mail:a b@c",   "end=mail:a@b\rX: y"};
    struct hook_notify n;
    struct err e;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(hook_notify_parse(str_of(bad[i]), &n, &e), -1);
    assert_int_equal(hook_notify_parse(STR("end=mail:ada"), &n, &e), 0); /* a local user */
}

static void webhooks_of_shared_homes_are_for_admins(void **state)
{
    struct err e;

    (void)state;
    assert_int_equal(hook_action_allowed(STR("webhook:http://x"), STR(""), true, false, &e), -1);
    assert_int_equal(e.code, ERR_DENIED);
    assert_int_equal(hook_action_allowed(STR("webhook:http://x"), STR(""), true, true, &e), 0);
    assert_int_equal(hook_action_allowed(STR("webhook:http://x"), STR(""), false, false, &e), 0);
    assert_int_equal(hook_action_allowed(STR("slack:#x"), STR("http://10.0.0.1/"), true, false, &e),
                     -1);
    assert_int_equal(hook_action_allowed(STR("slack:#x"), STR("https://hooks.slack.com/services/T"),
                                         true, false, &e),
                     0);
    assert_int_equal(hook_action_allowed(STR("slack:#x"), STR("xoxb-1"), true, false, &e), 0);
    assert_int_equal(hook_action_allowed(STR("mail:me@x"), STR(""), true, false, &e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_that_matters_is_an_event),
        cmocka_unit_test(an_entry_of_notify_is_read),
        cmocka_unit_test(a_wrong_entry_is_named),
        cmocka_unit_test(an_address_cannot_add_a_header),
        cmocka_unit_test(webhooks_of_shared_homes_are_for_admins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
