/* test_study_trials.c - trials of studies: leases, several objectives, studies that sleep */
#include "core/study_bench.h"

static void a_vanished_client_loses_its_trial(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE ", \"engine\": \"random\", \"trials\": 1}");
    char first[80];

    ask_leased(b, s);
    memcpy(first, t.params, sizeof(first));
    assert_int_equal(t.turn, 1);
    for (int i = 0; i < 3; i++) { /* signs of life */
        pass_seconds(b, 9);
        assert_true(renew_held(b, s, 1, 1));
    }
    assert_int_equal(s->counts[TRIAL_RUNNING], 1);
    ask_leased(b, s); /* nothing is left, but the trial may come back */
    assert_int_equal(t.points, 0);
    assert_int_equal(t.leased, 1);
    assert_false(t.exhausted);
    pass_seconds(b, 11);
    assert_int_equal(s->counts[TRIAL_WAITING], 1);
    assert_int_equal(study_state_of(s), STUDY_RUNNING);
    ask_leased(b, s);
    assert_int_equal(t.first, 1);
    assert_int_equal(t.turn, 2);
    assert_string_equal(t.params, first);
    /* The first client comes back: the trial is another's. */
    assert_false(renew_held(b, s, 1, 1));
    tell_held(b, s, 1, 1);
    assert_int_equal(t.err.code, ERR_CONFLICT);
    assert_non_null(strstr(t.err.text, "another client"));
    tell_held(b, s, 1, 0);
    assert_int_equal(t.err.code, ERR_CONFLICT);
    tell_held(b, s, 1, 2);
    assert_int_equal(t.told, 1);
    assert_int_equal(study_state_of(s), STUDY_FINISHED);
    tell_held(b, s, 1, 2);
    assert_int_equal(t.err.code, ERR_CONFLICT);
    ask_leased(b, s);
    assert_true(t.exhausted);
}

static void a_late_client_keeps_what_nobody_took(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE ", \"engine\": \"random\", \"trials\": 2}");

    ask_leased(b, s);
    ask_leased(b, s);
    pass_seconds(b, 11);
    assert_int_equal(s->counts[TRIAL_WAITING], 2);
    tell_held(b, s, 1, 1); /* late, but nobody else has it */
    assert_int_equal(t.told, 1);
    assert_true(renew_held(b, s, 2, 1));
    assert_int_equal(s->counts[TRIAL_RUNNING], 1);
    assert_int_equal(s->counts[TRIAL_WAITING], 0);
    pass_seconds(b, 9);
    tell_held(b, s, 2, 0); /* it was handed out once: there is nobody to mix it up with */
    assert_int_equal(t.told, 1);
    assert_int_equal(s->counts[TRIAL_DONE], 2);
}

static void a_trial_that_ends_its_clients_fails(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE ", \"engine\": \"random\", \"trials\": 1}");

    for (int i = 1; i <= 4; i++) {
        ask_leased(b, s);
        assert_int_equal(t.first, 1);
        assert_int_equal(t.turn, i);
        pass_seconds(b, 11);
    }
    assert_int_equal(s->counts[TRIAL_FAILED], 1);
    assert_int_equal(study_state_of(s), STUDY_FINISHED);
    ask_leased(b, s);
    assert_true(t.exhausted);
}

static void a_report_is_a_sign_of_life(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE ", \"engine\": \"random\", \"stop\": \"median\"}");
    struct err e = {0};
    bool stop = false;

    ask_leased(b, s);
    for (uint32_t i = 1; i <= 4; i++) { /* whether it names the hold or not */
        pass_seconds(b, 9);
        assert_int_equal(core_study_report(b->core, s->seq, (struct study_holding){1, i % 2}, i, 1,
                                           &owner, &stop, &e),
                         0);
        assert_false(stop);
    }
    assert_int_equal(s->counts[TRIAL_RUNNING], 1);
    pass_seconds(b, 11);
    ask_leased(b, s); /* another client has it now: the first should stop */
    assert_int_equal(
        core_study_report(b->core, s->seq, (struct study_holding){1, 1}, 5, 1, &owner, &stop, &e),
        0);
    assert_true(stop);
}

/* Trials without a lease are their client's for ever, and its results need no hold. */
static void no_lease_no_end(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE ", \"trials\": 1}");

    exchange(b, s, NULL, 0, 1, &owner);
    pass_seconds(b, 1000000);
    assert_int_equal(t.turn, 0);
    assert_int_equal(s->counts[TRIAL_RUNNING], 1);
    tell_held(b, s, 1, 0);
    assert_int_equal(t.told, 1);
}

static void tell_two(struct bench *b, const struct study *s, uint64_t number, double loss,
                     double acc)
{
    struct study_result r = {
        .number = number, .state = TRIAL_DONE, .values = {loss, acc}, .n_values = 2};

    exchange(b, s, &r, 1, 0, &owner);
    bench_settle(b, 0);
    assert_int_equal(t.told, 1);
}

static void several_objectives_have_a_front(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", TWO ", \"engine\": \"nsga2\", \"trials\": 9}");
    const struct study_result bad[] = {
        {.number = 6, .state = TRIAL_DONE, .values = {1}, .n_values = 1},
        {.number = 6, .state = TRIAL_PRUNED, .values = {1, 1}, .n_values = 2}};

    exchange(b, s, NULL, 0, 6, &owner);
    bench_settle(b, 0);
    tell_two(b, s, 2, 0.5, 0.5);
    tell_two(b, s, 1, 0.4, 0.4);
    assert_int_equal(s->front.n, 2);
    assert_int_equal(s->front.p[0].number, 1); /* in the order in which they were asked */
    tell_two(b, s, 3, 0.6, 0.5);               /* nowhere better than 2 */
    assert_int_equal(s->front.n, 2);
    tell_two(b, s, 4, 0.4, 0.6); /* better than both */
    assert_int_equal(s->front.n, 1);
    assert_int_equal(s->front.p[0].number, 4);
    assert_non_null(strstr(s->front.p[0].params, "\"x\""));
    tell_two(b, s, 5, 0.1, NAN); /* half a result is none */
    assert_int_equal(s->counts[TRIAL_FAILED], 1);
    assert_int_equal(s->front.n, 1);
    assert_int_equal(s->best.number, 0);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        exchange(b, s, &bad[i], 1, 0, &owner);
        bench_settle(b, 0);
        assert_int_equal(t.err.code, ERR_INVALID);
        assert_non_null(strstr(t.err.text, "trial 6"));
    }
}

static void a_warm_start_has_as_many_objectives(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "two", TWO "}"), *other = add(b, "one", SPACE "}");
    AUTO(json) struct json *j = NULL;
    struct err e;

    exchange(b, s, NULL, 0, 1, &owner);
    bench_settle(b, 0);
    tell_two(b, s, 1, 1, 2);
    assert_int_equal(json_parse(STR(TWO ", \"seed\": 5}"), "definition", &j, &e), 0);
    core_study_add(b->core, STR("next"), j, other->seq, &owner, on_acted, b);
    assert_int_equal(t.err.code, ERR_INVALID);
    core_study_add(b->core, STR("next"), j, s->seq, &owner, on_acted, b);
    bench_settle(b, 0);
    s = core_study_find(b->core, STR("next"), owner.uid);
    assert_int_equal(s->front.n, 1);
    assert_true(study_values(s, 1)[1] == 2);
}

/* Asks and tells in an order that is always the same.  The controller is killed before every round
 * in `cut`, a bit each. */
static void play(struct bench *b, const char *name, int rounds, uint32_t cut, struct buf *out)
{
    const struct study *s = core_study_find(b->core, str_of(name), owner.uid);

    for (int i = 0; i < rounds; i++) {
        if (cut >> i & 1) {
            struct study_best best = s->best;
            AUTO_FREE char *params = best.params ? xstrdup(best.params) : NULL;
            uint64_t done = s->counts[TRIAL_DONE], asked = s->asked, n_ops = s->ops;
            bench_crash(b);
            bench_boot(b);
            bench_settle(b, 0);
            s = core_study_find(b->core, str_of(name), owner.uid);
            assert_true(s->asleep && !s->trials.n); /* and yet all of this is known */
            assert_true(s->counts[TRIAL_DONE] == done && s->asked == asked && s->ops == n_ops);
            assert_true(s->best.number == best.number && s->best.value == best.value);
            assert_string_equal(s->best.params, params);
        }
        exchange(b, s, NULL, 0, 1, &owner);
        bench_settle(b, 0);
        assert_false(s->asleep);
        buf_addf(out, "%llu %s\n", (unsigned long long)t.first, t.params);
        struct study_result r = {.number = t.first,
                                 .state = i % 7 == 3 ? TRIAL_FAILED : TRIAL_DONE,
                                 .values = {fmod(t.first * 0.37, 1)},
                                 .n_values = 1};
        exchange(b, s, &r, 1, 0, &owner);
        bench_settle(b, 0);
        assert_int_equal(t.told, 1);
    }
}

static void a_study_sleeps_until_it_is_needed(void **state)
{
    static const char *const engines[] = {"random", "tpe", "auto", "cmaes", "sobol", "gp"};
    struct bench *b = *state;

    for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
        AUTO_FREE char *def = xasprintf(SPACE ", \"engine\": \"%s\", \"seed\": 3}", engines[i]);
        AUTO_FREE char *whole = xasprintf("whole-%s", engines[i]);
        AUTO_FREE char *cut = xasprintf("cut-%s", engines[i]);
        AUTO(buf) struct buf one = {0}, two = {0};
        add(b, whole, def);
        add(b, cut, def);
        play(b, whole, 24, 0, &one);
        play(b, cut, 24, 1 << 5 | 1 << 6 | 1 << 20, &two);
        assert_string_equal(one.p, two.p);
    }
}

/* Requests come while the trials are read, reports cannot wait, and the study may be removed. */
static void waking_takes_time(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE ", \"stop\": \"median\"}");
    AUTO(buf) struct buf said = {0};
    struct err e = {0};
    bool stop;

    play(b, "s", 5, 0, &said);
    exchange(b, s, NULL, 0, 1, &owner);
    bench_settle(b, 0);
    for (int removed = 0; removed < 2; removed++) {
        bench_crash(b);
        bench_boot(b);
        s = core_study_find(b->core, STR("s"), owner.uid);
        t.hold = true;
        size_t before = t.answers;
        tell_held(b, s, 6, 0);
        assert_int_equal(t.answers, before);
        assert_int_equal(s->counts[TRIAL_RUNNING], 1);
        assert_int_equal(core_study_report(b->core, s->seq, (struct study_holding){6, 0}, 1, 2,
                                           &owner, &stop, &e),
                         -1);
        assert_int_equal(e.code, ERR_UNAVAILABLE);
        if (removed)
            core_study_remove(b->core, s->seq, false, &owner, on_acted, b);
        let_go(b);
        assert_int_equal(t.answers, before + 1 + removed);
        if (!removed) {
            assert_int_equal(t.told, 1);
            assert_int_equal(s->counts[TRIAL_DONE], 5);
            exchange(b, s, NULL, 0, 1, &owner);
            bench_settle(b, 0);
            assert_int_equal(t.first, 7);
            tell_held(b, s, 7, 0);
            exchange(b, s, NULL, 0, 1, &owner);
            bench_settle(b, 0);
        }
    }
    assert_int_equal(core_study_count(b->core), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_vanished_client_loses_its_trial),
        T(a_late_client_keeps_what_nobody_took),
        T(a_trial_that_ends_its_clients_fails),
        T(a_report_is_a_sign_of_life),
        T(no_lease_no_end),
        T(several_objectives_have_a_front),
        T(a_warm_start_has_as_many_objectives),
        T(a_study_sleeps_until_it_is_needed),
        T(waking_takes_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
