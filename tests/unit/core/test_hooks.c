/* test_hooks.c - messages of hooks on a virtual clock and a real store: due, repeated, given up */
#include "../store/fixture.h"
#include "core/core.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* What the program around the core was asked to send, and how it answers. */
struct hook_bench {
    struct fixture f;
    struct core *core;
    int64_t now_ms;                    /* of both clocks */
    VEC(struct hook_message) messages; /* without their texts */
    char why[400];
    hook_sent_fn done; /* of the message that is being sent; NULL = none */
    void *arg;
    bool tested, notice;
    struct err test_err, err;
    uint64_t job;
};

static int64_t bench_time(void *self)
{
    return ((struct hook_bench *)self)->now_ms;
}

static void bench_deliver(void *self, const struct hook_message *m, hook_sent_fn done, void *arg)
{
    struct hook_bench *b = self;

    assert_null(b->done);
    vec_push(&b->messages, *m);
    snprintf(b->why, sizeof(b->why), "%s", m->why ? m->why : "");
    b->done = done;
    b->arg = arg;
}

static void bench_notice(void *self, struct str text)
{
    (void)text;
    ((struct hook_bench *)self)->notice = true;
}

static const struct core_ops ops = {.deliver = bench_deliver, .notice = bench_notice};

/* Turns of the loop until nothing moves; the clock stands still. */
static void settle(struct hook_bench *b)
{
    for (int i = 0; i < 5; i++) {
        core_turn(b->core);
        fixture_sync(&b->f);
    }
}

static void core_begin(struct hook_bench *b)
{
    struct err e = {0};

    b->core = core_new(&(struct core_conf){.ledger = b->f.ledger,
                                           .clock = {bench_time, bench_time, b},
                                           .seed = 1,
                                           .ops = &ops,
                                           .self = b,
                                           .home = {.multi_user = true}});
    assert_int_equal(core_recover(b->core, &e), 0);
}

static int setup(void **state)
{
    struct hook_bench *b = xcalloc(1, sizeof(*b));
    struct err e = {0};

    if (!fixture_open(&b->f, &e))
        return -1;
    b->now_ms = b->f.now_ms;
    core_begin(b);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct hook_bench *b = *state;

    core_free(b->core);
    fixture_close(&b->f);
    vec_done(&b->messages);
    free(b);
    return 0;
}

static void on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    struct hook_bench *b = arg;

    b->err = e ? *e : (struct err){0};
    b->job = r ? r->first : 0;
}

static const struct caller ann = {.uid = 1000, .gid = 1000, .user = "ann"};

/* There is no node: the job waits. */
static void submit(struct hook_bench *b, const char *notify)
{
    struct built *x = built_new(&b->f, 1, 1);

    x->s.specs[0].notify = built_str(x, notify);
    x->s.jobs[0].spec = 0;
    core_submit_take(b->core, &x->s, &ann, on_submitted, b);
    settle(b);
}

static void on_cancelled(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)r;
    assert_null(e);
}

static void answer(struct hook_bench *b, const char *error)
{
    struct err e = {.code = ERR_UNAVAILABLE};
    hook_sent_fn done = TAKE(b->done);

    assert_non_null(done);
    snprintf(e.text, sizeof(e.text), "%s", error ? error : "");
    done(b->arg, error ? &e : NULL);
    settle(b);
}

/* The clock moves to what the core waits for. */
static int64_t advance(struct hook_bench *b)
{
    int64_t at = core_next_wake(b->core), before = b->now_ms;

    assert_true(at >= b->now_ms);
    b->now_ms = at;
    settle(b);
    return at - before;
}

static void a_failed_message_is_sent_again_later_and_later(void **state)
{
    struct hook_bench *b = *state;

    submit(b, "cancel=mail:ann@example.org");
    core_cancel(b->core, &b->job, 1, &ann, on_cancelled, NULL);
    settle(b);
    assert_int_equal(b->messages.n, 1);
    assert_int_equal(b->messages.p[0].d.subject, b->job);
    for (int64_t wait = 2000, i = 1; i <= 3; i++, wait *= 2) {
        answer(b, "no answer");
        assert_int_equal(b->messages.n, i);
        assert_int_equal(advance(b), wait);
        assert_int_equal(b->messages.n, i + 1);
        assert_string_equal(b->messages.p[i].id, b->messages.p[0].id);
    }
    answer(b, NULL);
    assert_int_equal(core_next_wake(b->core), -1);
    assert_int_equal(b->messages.n, 4);
}

static void a_message_is_dropped_after_a_day_with_a_notice(void **state)
{
    struct hook_bench *b = *state;
    int64_t start = b->now_ms;

    submit(b, "cancel=mail:ann@example.org");
    core_cancel(b->core, &b->job, 1, &ann, on_cancelled, NULL);
    settle(b);
    for (int i = 0; !b->notice; i++) {
        assert_in_range(i, 0, 100);
        answer(b, "no answer");
        if (!b->notice)
            advance(b);
    }
    assert_in_range(b->now_ms - start, HOOK_GIVE_UP_MS, HOOK_GIVE_UP_MS + 2 * 3600 * 1000);
    settle(b);
    assert_null(b->done);
}

static void a_message_that_was_not_confirmed_is_sent_again_after_a_crash(void **state)
{
    struct hook_bench *b = *state;

    submit(b, "cancel=mail:ann@example.org");
    core_cancel(b->core, &b->job, 1, &ann, on_cancelled, NULL);
    settle(b);
    assert_int_equal(b->messages.n, 1);
    core_free(b->core);
    b->done = NULL;
    core_begin(b);
    settle(b);
    assert_int_equal(b->messages.n, 2);
    assert_string_equal(b->messages.p[1].id, b->messages.p[0].id);
    answer(b, NULL);
}

static void a_job_that_waits_too_long_is_told_with_the_reason(void **state)
{
    struct hook_bench *b = *state;

    submit(b, "waiting>2h=mail:ann@example.org");
    assert_int_equal(b->messages.n, 0);
    assert_int_equal(advance(b), 7200000);
    assert_int_equal(b->messages.n, 1);
    assert_int_equal(b->messages.p[0].d.event, HOOK_WAITING);
    assert_true(strlen(b->why) > 10);
    answer(b, NULL);
    b->now_ms += 7200000;
    settle(b);
    assert_int_equal(b->messages.n, 1);
    assert_int_equal(core_next_wake(b->core), -1);
}

static void a_webhook_of_a_stranger_is_refused(void **state)
{
    struct hook_bench *b = *state;

    submit(b, "end=webhook:http://127.0.0.1:1/");
    assert_int_equal(b->err.code, ERR_DENIED);
}

static void on_tested(void *arg, const struct err *e)
{
    struct hook_bench *b = arg;

    b->tested = true;
    b->test_err = e ? *e : (struct err){0};
}

static void a_test_is_sent_at_once_and_leaves_no_record(void **state)
{
    struct hook_bench *b = *state;

    submit(b, "end=mail:ann@example.org"); /* makes hook 1 */
    core_hook_test(b->core, 1, on_tested, b);
    assert_int_equal(b->messages.p[0].d.event, HOOK_TEST);
    answer(b, "no such host");
    assert_true(b->tested);
    assert_string_equal(b->test_err.text, "no such host");
    core_hook_test(b->core, 99, on_tested, b);
    assert_int_equal(b->test_err.code, ERR_NOT_FOUND);
    assert_int_equal(core_next_wake(b->core), -1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_failed_message_is_sent_again_later_and_later),
        T(a_message_is_dropped_after_a_day_with_a_notice),
        T(a_message_that_was_not_confirmed_is_sent_again_after_a_crash),
        T(a_job_that_waits_too_long_is_told_with_the_reason),
        T(a_webhook_of_a_stranger_is_refused),
        T(a_test_is_sent_at_once_and_leaves_no_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
