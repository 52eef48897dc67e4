/* test_sse.c - events out of pieces cut anywhere */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "io/sse.h"

struct seen {
    struct buf text;
    int stop_after;
};

static bool on_event(void *arg, const struct sse_event *ev)
{
    struct seen *s = arg;

    buf_addf(&s->text, "%llu " STR_FMT " " STR_FMT ";", (unsigned long long)ev->id,
             STR_ARG(ev->kind), STR_ARG(ev->data));
    return --s->stop_after != 0;
}

static const char stream[] = ": hello\n\n"
                             "id: 7\nevent: job.queued\ndata: {\"a\":1}\n\n"
                             "id: 8\r\nevent: job.running\r\ndata: one\r\ndata: two\r\n\r\n"
                             "event: empty\n\n"
                             ": ping\n\n"
                             "id:9\ndata:x:y\n\n";
static const char wanted[] = "7 job.queued {\"a\":1};8 job.running one\ntwo;9  x:y;";

static void test_pieces(void **state)
{
    (void)state;
    for (size_t size = 1; size < sizeof(stream); size++) {
        struct seen seen = {0};
        struct sse s;
        buf_init(&seen.text, 1 << 16);
        sse_init(&s, on_event, &seen);
        for (size_t at = 0; at < sizeof(stream) - 1; at += size)
            assert_true(
                sse_feed(&s, (struct str){stream + at, MIN(size, sizeof(stream) - 1 - at)}));
        assert_string_equal(seen.text.p, wanted);
        assert_int_equal(s.last_id, 9);
        sse_done(&s);
        buf_done(&seen.text);
    }
}

static void test_stop(void **state)
{
    struct seen seen = {.stop_after = 1};
    struct sse s;

    (void)state;
    buf_init(&seen.text, 1 << 16);
    sse_init(&s, on_event, &seen);
    assert_false(sse_feed(&s, STR(stream)));
    assert_int_equal(s.last_id, 7);
    sse_done(&s);
    buf_done(&seen.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pieces), cmocka_unit_test(test_stop)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
