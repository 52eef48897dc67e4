/* Which part of a page of events a stream gets. */
#include "api/event_page.h"
#include "base/json.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void add(struct event_page *p, uint64_t seq, uint64_t first, uint64_t last, int uid,
                bool part, const char *text)
{
    struct event_entry en = {.seq = seq, .first = first, .last = last, .part = part};

    en.owned = uid >= 0;
    en.uid = (uint32_t)(uid >= 0 ? uid : 0);
    en.at = p->text.n;
    buf_adds(&p->text, text);
    en.n = p->text.n - en.at;
    vec_push(&p->entries, en);
    p->last = seq;
}

static struct event_page *page(void)
{
    struct event_page *p = event_page_new(NULL, NULL, 10, 100);

    p->owners = true;
    add(p, 11, 1, 1, 100, false, "a");
    add(p, 12, 2, 2, 200, false, "b");
    add(p, 13, 1, 2, -1, false, "C"); /* about two people's jobs: whole for admins, */
    add(p, 13, 1, 1, 100, true, "c"); /* in parts for them */
    add(p, 13, 2, 2, 200, true, "d");
    add(p, 14, 0, 0, -1, false, "e"); /* about no job */
    return p;
}

static void check(struct event_filter f, uint64_t pos, const char *want)
{
    struct event_page *p = page();
    struct buf some = {0};
    struct str got = event_page_select(p, &f, pos, &some);

    assert_int_equal(got.n, strlen(want));
    assert_memory_equal(got.p, want, got.n);
    buf_done(&some);
    event_page_free(p);
}

static void test_select(void **state)
{
    (void)state;
    check((struct event_filter){.all = true}, 10, "abCe");
    check((struct event_filter){.all = true}, 12, "Ce");
    check((struct event_filter){.all = true}, 14, "");
    check((struct event_filter){.uid = 100}, 10, "ac");
    check((struct event_filter){.uid = 200}, 11, "bd");
    check((struct event_filter){.uid = 300}, 0, "");
    check((struct event_filter){.all = true, .job = 2}, 10, "bC");
    check((struct event_filter){.uid = 100, .job = 2}, 10, "");
    check((struct event_filter){.uid = 200, .job = 2}, 10, "bd");
}

static void test_plain_page_is_one_piece(void **state)
{
    struct event_page *p = page();
    struct event_filter all = {.all = true};
    struct buf some = {0};
    struct str got;

    (void)state;
    p->owners = false;
    got = event_page_select(p, &all, 11, &some);
    assert_ptr_equal(got.p, p->text.p + 1); /* borrowed, not copied */
    assert_int_equal(got.n, p->text.n - 1);
    assert_null(some.p);
    event_page_free(p);
}

static void test_json(void **state)
{
    struct event_view v = {.seq = 5,
                           .first = 3,
                           .last = 4,
                           .at_ms = 1731703582123,
                           .kind = STR("job.queued"),
                           .data = STR("{\"a\":1}")};
    struct buf b;
    struct json *j = NULL;
    struct err e = {0};

    (void)state;
    buf_init(&b, 1000);
    event_json(&b, &v);
    assert_int_equal(json_parse(buf_str(&b), "event", &j, &e), 0);
    assert_int_equal(json_int(json_get(j, "seq")), 5);
    assert_int_equal(json_int(json_get(j, "job")), 3);
    assert_int_equal(json_int(json_get(j, "last")), 4);
    assert_int_equal(json_int(json_get(json_get(j, "data"), "a")), 1);
    json_free(j);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_plain_page_is_one_piece),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
