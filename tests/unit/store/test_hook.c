/* test_hook.c - events become messages: which, how many, and what becomes of them */
#include "fixture.h"
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

/* The messages that are due now, with copies of the texts that tests look at. */
struct due {
    struct delivery_record d[64];
    char name[64][64];
    size_t n;
    struct hook_due when;
};

static void on_due(void *arg, const struct delivery_record *d)
{
    struct due *x = arg;

    assert_in_range(x->n, 0, 63);
    snprintf(x->name[x->n], sizeof(x->name[0]), "%.*s", (int)d->name.n, d->name.p);
    x->d[x->n++] = *d;
}

static struct due look(int64_t now_ms)
{
    struct due x = {0};
    struct err e = {0};

    assert_int_equal(fixture_sync(&fx).code, 0);
    assert_int_equal(fx.ledger.read_due(fx.ledger.self, now_ms, 64, on_due, &x, &x.when, &e), 0);
    return x;
}

static void sent(const struct delivery_record *d, const char *error, int64_t retry_ms)
{
    fixture_stage(&fx, &(struct change){.kind = CHANGE_DELIVERED,
                                        .at_ms = fx.now_ms,
                                        .delivered = {.delivery = d->seq,
                                                      .hook = d->hook,
                                                      .n = d->n,
                                                      .bad = d->bad,
                                                      .error = str_of(error),
                                                      .retry_ms = retry_ms,
                                                      .drop_before_ms = fx.now_ms - 1000}});
}

static void add_hook(const char *name, const char *filter, struct hook_on on, uint32_t uid)
{
    fixture_stage(&fx, &(struct change){.kind = CHANGE_HOOK,
                                        .at_ms = fx.now_ms,
                                        .user = STR("ann"),
                                        .hook = {.uid = uid,
                                                 .gid = uid,
                                                 .name = str_of(name),
                                                 .filter = str_of(filter),
                                                 .action = STR("mail:ann@example.org"),
                                                 .secret = STR("very secret"),
                                                 .on = on,
                                                 .enabled = true}});
}

static uint64_t submit(const char *notify, size_t n)
{
    struct built *b = built_new(&fx, n, 1);
    uint64_t first = b->s.jobs[0].seq;

    b->s.specs[0].notify = built_str(b, notify);
    if (n > 1)
        built_batch(&fx, b, "sweep", 0);
    stage_submit(&fx, b);
    return first;
}

static void end(uint64_t job, int status)
{
    stage_run_new(&fx, job, 1);
    stage_run_started(&fx, job, 1);
    stage_run_ended(&fx, job, 1, status);
}

static void a_failure_is_told_and_a_success_is_not(void **state)
{
    uint64_t good = submit("failure=mail:me@x", 1), bad = submit("failure=mail:me@x", 1);

    (void)state;
    end(good, 0);
    end(bad, 3);
    struct due x = look(fx.now_ms);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.d[0].subject, bad);
    assert_int_equal(x.d[0].event, HOOK_FAILURE);
    assert_string_equal(x.name[0], "mail:me@x");
    sent(&x.d[0], "", 0);
    assert_int_equal(look(fx.now_ms).n, 0);
}

/* The daemon may die at any time after the commit of the event. */
static void a_message_survives_a_crash_until_it_is_confirmed(void **state)
{
    struct err e = {0};

    (void)state;
    end(submit("end=mail:me@x", 1), 0);
    struct due x = look(fx.now_ms);
    assert_int_equal(x.n, 1);
    uint64_t seq = x.d[0].seq;
    assert_true(fixture_reopen(&fx, &e));
    x = look(fx.now_ms);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.d[0].seq, seq);
    sent(&x.d[0], "", 0);
    assert_int_equal(look(fx.now_ms).n, 0);
    assert_true(fixture_reopen(&fx, &e));
    assert_int_equal(look(fx.now_ms).n, 0);
}

static void a_batch_is_told_once_when_its_last_job_ends(void **state)
{
    uint64_t first = submit("end=mail:me@x", 3);

    (void)state;
    end(first, 0);
    end(first + 1, 1);
    assert_int_equal(look(fx.now_ms).n, 0);
    end(first + 2, 0);
    struct due x = look(fx.now_ms);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.d[0].scope, HOOK_SCOPE_BATCH);
    assert_int_equal(x.d[0].event, HOOK_FAILURE);
    sent(&x.d[0], "", 0);
    assert_int_equal(look(fx.now_ms).n, 0);
}

static void a_stored_hook_sees_what_its_filter_and_its_owner_see(void **state)
{
    (void)state;
    add_hook("deep", "depth:0", (struct hook_on){.events = 1 << HOOK_END}, 1000);
    add_hook("theirs", "", (struct hook_on){.events = 1 << HOOK_END}, 2000);
    add_hook("whole", "", (struct hook_on){1 << HOOK_END, 0, HOOK_SCOPE_BATCH}, 1000);
    uint64_t first = submit("", 3); /* depth 0, 1, 2 */
    for (int i = 0; i < 3; i++)
        end(first + (uint64_t)i, 0);
    struct due x = look(fx.now_ms);
    assert_int_equal(x.n, 2);
    assert_string_equal(x.name[0], "deep");
    assert_int_equal(x.d[0].subject, first);
    assert_string_equal(x.name[1], "whole");
    assert_int_equal(x.d[1].event, HOOK_SUCCESS);
}

static void jobs_of_hooks_fire_no_hooks(void **state)
{
    struct built *b = built_new(&fx, 1, 1);
    uint64_t job = b->s.jobs[0].seq;

    (void)state;
    add_hook("all", "", (struct hook_on){.events = 1 << HOOK_END}, 1000);
    b->s.specs[0].queue = STR(HOOK_QUEUE);
    stage_submit(&fx, b);
    end(job, 1);
    assert_int_equal(look(fx.now_ms).n, 0);
}

/* Confirms everything that is due at this time; returns the events that were told. */
static int64_t confirm_all(int64_t now_ms, size_t *messages)
{
    int64_t told = 0;

    for (*messages = 0;; ++*messages) {
        struct due x = look(now_ms);
        if (!x.n)
            return told;
        told += x.d[0].n;
        sent(&x.d[0], "", 0);
    }
}

static void a_storm_becomes_twenty_messages_and_a_summary(void **state)
{
    uint64_t first = submit("job:cancel=mail:me@x\nend=mail:me@x", 1000);
    size_t messages;

    (void)state;
    fixture_stage(&fx, &(struct change){.kind = CHANGE_JOB_STATE,
                                        .at_ms = fx.now_ms,
                                        .job_state = {.first = first,
                                                      .last = first + 999,
                                                      .from = JOB_QUEUED,
                                                      .to = JOB_CANCELLED}});
    /* The end of the batch is a message of its own. */
    assert_int_equal(confirm_all(fx.now_ms, &messages), HOOK_RATE_MAX + 1);
    assert_int_equal(messages, HOOK_RATE_MAX + 1);
    struct due x = look(fx.now_ms);
    assert_int_equal(x.when.next_ms, fx.now_ms + HOOK_RATE_MS);
    x = look(fx.now_ms + HOOK_RATE_MS);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.d[0].scope, HOOK_SCOPE_SUMMARY);
    assert_int_equal(x.d[0].n, 1000 - HOOK_RATE_MAX);
    assert_int_equal(x.d[0].last, first + 999);
}

static void a_summary_that_grows_while_it_is_sent_loses_nothing(void **state)
{
    size_t messages;

    (void)state;
    for (int i = 0; i < HOOK_RATE_MAX + 3; i++)
        end(submit("failure=mail:me@x", 1), 1);
    confirm_all(fx.now_ms, &messages);
    struct due x = look(fx.now_ms + HOOK_RATE_MS + 10);
    assert_int_equal(x.d[0].n, 3);
    assert_int_equal(x.d[0].bad, 3);
    end(submit("failure=mail:me@x", 1), 1); /* still in the same minute */
    sent(&x.d[0], "", 0);
    fx.now_ms += 2 * HOOK_RATE_MS;
    assert_int_equal(confirm_all(fx.now_ms, &messages), 1);
}

static void a_failed_hook_waits_and_old_messages_are_dropped(void **state)
{
    (void)state;
    end(submit("end=mail:me@x", 1), 0);
    end(submit("end=mail:me@x", 1), 0);
    struct due x = look(fx.now_ms);
    assert_int_equal(x.n, 1); /* one at a time */
    sent(&x.d[0], "no route to host", fx.now_ms + 2000);
    x = look(fx.now_ms);
    assert_int_equal(x.n, 0);
    assert_int_equal(x.when.next_ms, fx.now_ms + 2000);
    x = look(fx.now_ms + 2000);
    assert_int_equal(x.n, 1);
    assert_int_equal(x.d[0].tries, 1);
    fx.now_ms += 5000; /* sent() drops what is older than a second */
    sent(&x.d[0], "no route to host", fx.now_ms);
    assert_int_equal(look(fx.now_ms).n, 0);
}

static void a_job_that_waits_too_long_is_told_once(void **state)
{
    struct hook_on on = {.events = 1 << HOOK_WAITING, .wait_ms = 10000};
    uint64_t job, other;
    int64_t start = fx.now_ms;

    (void)state;
    add_hook("slow", "", on, 1000);
    job = submit("waiting>20s=mail:me@x", 1);
    other = submit("", 1);
    end(other, 0);
    struct due x = look(start);
    assert_false(x.when.waited);
    assert_int_equal(x.when.next_ms, start + 10000);
    for (int i = 1; i <= 2; i++) { /* the stored hook, then the one of the submission */
        fx.now_ms = start + i * 10000;
        assert_true(look(fx.now_ms).when.waited);
        fixture_stage(&fx, &(struct change){.kind = CHANGE_WAITED, .at_ms = fx.now_ms});
        x = look(fx.now_ms);
        assert_int_equal(x.n, 1);
        assert_int_equal(x.d[0].event, HOOK_WAITING);
        assert_int_equal(x.d[0].subject, job);
        assert_string_equal(x.name[0], i == 1 ? "slow" : "mail:me@x");
        sent(&x.d[0], "", 0);
        x = look(fx.now_ms);
        assert_true(x.n == 0 && !x.when.waited);
    }
}

static bool count_hook(void *arg, const struct hook_view *v)
{
    assert_true(v->has_secret == !memchr(v->name.p, ':', v->name.n));
    ++*(int *)arg;
    return true;
}

static void hooks_of_submissions_go_with_their_jobs(void **state)
{
    uint64_t job = submit("end=mail:me@x", 1);
    struct err e = {0};
    size_t messages;
    int hooks = 0;

    (void)state;
    add_hook("kept", "", (struct hook_on){0}, 1000);
    end(job, 0);
    confirm_all(fx.now_ms, &messages);
    assert_int_equal(store_hooks(fx.store, true, 1000, count_hook, &hooks, &e), 0);
    assert_int_equal(hooks, 2);
    fixture_stage(&fx, &(struct change){.kind = CHANGE_REMOVE,
                                        .at_ms = fx.now_ms,
                                        .remove = {.first = job, .last = job}});
    assert_int_equal(fixture_sync(&fx).code, ERR_NONE);
    store_forget(fx.store, fx.now_ms + 100, 8);
    assert_int_equal(fixture_sync(&fx).code, ERR_NONE);
    hooks = 0;
    assert_int_equal(store_hooks(fx.store, true, 1000, count_hook, &hooks, &e), 0);
    assert_int_equal(hooks, 1);
}

static void a_name_that_is_no_hook_refuses_the_submission(void **state)
{
    (void)state;
    submit("end=nobody", 1);
    struct err e = fixture_sync(&fx);
    assert_int_equal(e.code, ERR_INVALID);
    assert_non_null(strstr(e.text, "there is no hook 'nobody'"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_failure_is_told_and_a_success_is_not),
        T(a_message_survives_a_crash_until_it_is_confirmed),
        T(a_batch_is_told_once_when_its_last_job_ends),
        T(a_stored_hook_sees_what_its_filter_and_its_owner_see),
        T(jobs_of_hooks_fire_no_hooks),
        T(a_storm_becomes_twenty_messages_and_a_summary),
        T(a_summary_that_grows_while_it_is_sent_loses_nothing),
        T(a_failed_hook_waits_and_old_messages_are_dropped),
        T(a_job_that_waits_too_long_is_told_once),
        T(hooks_of_submissions_go_with_their_jobs),
        T(a_name_that_is_no_hook_refuses_the_submission),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
