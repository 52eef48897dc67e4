/* test_hook_letter.c - what messages of hooks say, and that no text of a user says more */
#include "../store/fixture.h"
#include "host/hook_letter.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static struct fixture fx;

static int setup(void **state)
{
    struct err e = {0};

    (void)state;
    return fixture_open(&fx, &e) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    fixture_close(&fx);
    return 0;
}

/* Made with Python's hmac module. */
static void a_signature_is_what_others_compute(void **state)
{
    char out[HOOK_SIGNATURE_MAX];

    (void)state;
    hook_sign(STR("It's a Secret to Everybody"), 1700000000, STR("{\"event\":\"end\"}"), out);
    assert_string_equal(out,
                        "sha256=75a009ab26239a88c2b199f2d308f32714403726dd82f3378ca91c983d0de95c");
}

static void slack_gets_no_markup_of_users(void **state)
{
    AUTO(buf) struct buf b = {0};

    (void)state;
    buf_init(&b, 1000);
    hook_slack_escape(&b, STR("a<!channel>&`b`\n*"));
    assert_string_equal(buf_str(&b).p, "a&lt;!channel&gt;&amp; b  *");
}

/* A job of this name that failed, as a message. */
static void letter_of(const char *name, enum hook_event ev, struct hook_letter *l)
{
    struct built *b = built_new(&fx, 1, 1);
    struct hook_message m = {.id = "home-1-1",
                             .d = {.seq = 1,
                                   .event = ev,
                                   .subject = b->s.jobs[0].seq,
                                   .n = 1,
                                   .at_ms = fx.now_ms + 7200000,
                                   .name = STR("team")},
                             .why = "waits for a slot"};
    struct err e = {0};

    b->s.specs[0].name = built_str(b, name);
    stage_submit(&fx, b);
    stage_run_new(&fx, m.d.subject, 1);
    stage_run_started(&fx, m.d.subject, 1);
    stage_run_ended(&fx, m.d.subject, 1, 3);
    fixture_sync(&fx);
    assert_int_equal(hook_letter_write(l, fx.store, &m, &e), 0);
}

static void a_letter_has_all_forms(void **state)
{
    struct hook_letter l = {0};

    (void)state;
    letter_of("a<b", HOOK_FAILURE, &l);
    assert_string_equal(buf_str(&l.title).p,
                        "Job 1 (a<b) of project default, submitted by ann, has "
                        "failed after 4ms: exit status 3");
    assert_string_equal(buf_str(&l.slack).p, "Job `1` (a&lt;b) of project `default`, submitted by "
                                             "ann, has failed after 4ms: exit status 3");
    assert_non_null(strstr(buf_str(&l.json).p, "\"event\":\"failure\""));
    assert_non_null(strstr(buf_str(&l.json).p, "\"exit_code\":3"));
    assert_non_null(strstr(buf_str(&l.env).p, "\"BERTH_HOOK_EXIT_CODE\":\"3\""));
    hook_letter_done(&l);
}

static void a_job_that_waits_is_told_with_its_reason(void **state)
{
    struct hook_letter l = {0};

    (void)state;
    letter_of("n", HOOK_WAITING, &l);
    assert_non_null(strstr(buf_str(&l.title).p, "is still waiting after 2h: waits for a slot"));
    hook_letter_done(&l);
}

/* Lines up to the empty one are headers; a name with a line end must not make one more. */
static void a_mail_has_our_headers_only(void **state)
{
    struct hook_letter l = {0};
    AUTO(buf) struct buf mail = {0};

    (void)state;
    letter_of("x\r\nBcc: eve@example.org\r\n\r\nbody", HOOK_FAILURE, &l);
    buf_init(&mail, 1 << 20);
    hook_mail_write(&mail, &l, STR("me@example.org"), "home-1-1");
    struct str rest = buf_str(&mail);
    static const char *const headers[] = {
        "To: me@example.org",         "Subject: Job 1 (x", "Message-ID: <home-1-1@berth>",
        "Auto-Submitted: ",           "MIME-Version: ",    "Content-Type: ",
        "Content-Transfer-Encoding: "};
    for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
        struct str line = str_cut(rest, '\n', &rest);
        assert_true(str_starts(line, str_of(headers[i])));
        assert_null(memchr(line.p, '\r', line.n));
    }
    assert_int_equal(str_cut(rest, '\n', &rest).n, 0);
    hook_letter_done(&l);
}

static void a_removed_job_is_told_by_its_number(void **state)
{
    struct hook_letter l = {0};
    struct hook_message m = {.d = {.subject = 77, .event = HOOK_SUCCESS, .n = 1}};
    struct err e = {0};

    (void)state;
    assert_int_equal(hook_letter_write(&l, fx.store, &m, &e), 0);
    assert_string_equal(buf_str(&l.title).p, "Job 77, which was removed since, has succeeded");
    hook_letter_done(&l);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_signature_is_what_others_compute),
        T(slack_gets_no_markup_of_users),
        T(a_letter_has_all_forms),
        T(a_job_that_waits_is_told_with_its_reason),
        T(a_mail_has_our_headers_only),
        T(a_removed_job_is_told_by_its_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
