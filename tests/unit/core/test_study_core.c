/* test_study_core.c - studies in the controller: answers, waits, limits, jobs, removal */
#include "core/study_bench.h"

static void answers_come_after_the_commit(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE ", \"engine\": \"random\", \"trials\": 3}");
    size_t before = t.answers;

    exchange(b, s, NULL, 0, 2, &owner);
    assert_int_equal(t.answers, before);
    bench_settle(b, 0);
    assert_int_equal(t.answers, before + 1);
    assert_int_equal(t.points, 2);
    assert_false(t.exhausted);
    exchange(b, s, NULL, 0, 2, &owner);
    bench_settle(b, 0);
    assert_int_equal(t.points, 1); /* the limit */
    assert_true(t.exhausted);
}

static void results_count_all_or_none(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE ", \"engine\": \"random\"}");
    const struct study_result two[] = {
        {.number = 1, .state = TRIAL_DONE, .values = {0.5}, .n_values = 1},
        {.number = 7, .state = TRIAL_DONE, .values = {0.5}, .n_values = 1}};

    exchange(b, s, NULL, 0, 3, &owner);
    bench_settle(b, 0);
    exchange(b, s, two, 2, 0, &owner);
    bench_settle(b, 0);
    assert_int_equal(t.err.code, ERR_NOT_FOUND);
    assert_int_equal(s->counts[TRIAL_DONE], 0);
    exchange(b, s, two, 1, 1, &owner);
    bench_settle(b, 0);
    assert_int_equal(t.told, 1);
    assert_int_equal(t.first, 4);
    assert_int_equal(s->best.number, 1);
    exchange(b, s, two, 1, 0, &owner);
    bench_settle(b, 0);
    assert_int_equal(t.err.code, ERR_CONFLICT);
}

static void others_may_not(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE "}");

    exchange(b, s, NULL, 0, 1, &stranger);
    assert_int_equal(t.err.code, ERR_DENIED);
    core_study_remove(b->core, s->seq, true, &stranger, on_acted, b);
    assert_int_equal(t.err.code, ERR_DENIED);
    assert_int_equal(core_study_count(b->core), 1);
}

static void requests_wait_for_a_proposal(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE "}"), *other;
    const struct study_result first = {.number = 1, .state = TRIAL_FAILED};
    size_t before;

    exchange(b, s, NULL, 0, 1, &owner);
    bench_settle(b, 0);
    t.hold = true;
    before = t.answers;
    exchange(b, s, NULL, 0, 1, &owner);
    exchange(b, s, &first, 1, 0, &owner);
    bench_settle(b, 0);
    assert_int_equal(t.answers, before);
    t.hold = false; /* another study does not wait */
    other = add(b, "other", SPACE "}");
    exchange(b, other, NULL, 0, 1, &owner);
    bench_settle(b, 0);
    assert_int_equal(t.points, 1);
    before = t.answers;
    let_go(b);
    assert_int_equal(t.answers, before + 2);
    assert_int_equal(t.told, 1);
    assert_int_equal(s->counts[TRIAL_FAILED], 1);
}

/* A result and the point that is asked with it are one commit; cheap engines need no thread. */
static void results_are_recorded_with_the_points(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE ", \"engine\": \"tpe\"}"), *cheap;
    const struct study_result first = {
        .number = 1, .state = TRIAL_DONE, .values = {0.5}, .n_values = 1};

    exchange(b, s, NULL, 0, 1, &owner);
    bench_settle(b, 0);
    t.hold = true;
    exchange(b, s, &first, 1, 1, &owner);
    assert_int_equal(t.held.n, 1);
    assert_int_equal(b->disk.ops.n, 0); /* not staged before the point is there */
    bench_settle(b, 0);
    let_go(b);
    assert_int_equal(t.told, 1);
    assert_int_equal(t.points, 1);
    t.hold = true;
    cheap = add(b, "cheap", SPACE ", \"engine\": \"random\"}");
    exchange(b, cheap, NULL, 0, 64, &owner);
    bench_settle(b, 0);
    assert_int_equal(t.points, 64);
    exchange(b, cheap, NULL, 0, 65, &owner);
    assert_int_equal(t.held.n, 1);
    let_go(b);
    assert_int_equal(t.points, 65);
    t.hold = true; /* jobs do not begin within a call of the core */
    add(b, "jobs", SPACE ", \"engine\": \"random\", \"job\": {\"command\": [\"true\"]}}");
    assert_int_equal(t.held.n, 1);
    assert_int_equal(t.trials, 0);
    let_go(b);
    assert_int_equal(t.trials, 1);
}

static void a_study_that_is_removed_answers_who_waits(void **state)
{
    struct bench *b = *state;
    const struct study *s = add(b, "s", SPACE "}");

    t.hold = true;
    exchange(b, s, NULL, 0, 1, &owner);
    exchange(b, s, NULL, 0, 1, &owner);
    core_study_remove(b->core, s->seq, false, &owner, on_acted, b);
    bench_settle(b, 0);
    size_t before = t.answers;
    let_go(b);
    assert_int_equal(t.answers, before + 2);
    assert_int_equal(t.err.code, ERR_NOT_FOUND);
    assert_int_equal(core_study_count(b->core), 0);
}

static void jobs_fill_what_may_run_at_once(void **state)
{
    struct bench *b = *state;
    const struct study *s =
        add(b, "s", SPACE ", \"trials\": 5, \"parallel\": 2, \"job\": {\"command\": [\"true\"]}}");

    assert_int_equal(s->counts[TRIAL_RUNNING], 2);
    assert_int_equal(t.trials, 2);
    for (int i = 0; i < 400 && study_state_of(s) != STUDY_FINISHED; i++) {
        world_advance(&b->world, 1000);
        bench_settle(b, 0);
    }
    assert_int_equal(study_state_of(s), STUDY_FINISHED);
    assert_int_equal(t.trials, 5);
    /* The simulated disk keeps no metrics: nothing has a result, and each says why. */
    assert_int_equal(s->counts[TRIAL_FAILED], 5);
}

static void a_submission_is_tried_again_or_pauses(void **state)
{
    struct bench *b = *state;

    t.fail = ERR_FULL;
    const struct study *s =
        add(b, "s", SPACE ", \"trials\": 1, \"job\": {\"command\": [\"true\"]}}");
    int tries = t.trials;
    bench_settle(b, 1000);
    assert_true(t.trials > tries);
    assert_int_equal(study_state_of(s), STUDY_RUNNING);
    assert_string_equal(s->trouble, "no such directory");
    t.fail = ERR_INVALID;
    bench_settle(b, 1000);
    assert_int_equal(study_state_of(s), STUDY_PAUSED);
    tries = t.trials;
    bench_settle(b, 1000);
    assert_int_equal(t.trials, tries);
    t.fail = 0;
    core_study_set(b->core, s->seq, &(struct study_change){.set_paused = true}, &owner, on_acted,
                   b);
    bench_settle(b, 0);
    assert_int_equal(s->trials.n, 1); /* the same point */
    assert_true(s->trials.p[0].job > 0);
    assert_null(s->trouble);
}

static void bad_definitions_name_the_member(void **state)
{
    static const struct {
        const char *def, *word;
    } bad[] = {
        {"{\"space\": {\"x\": [1]}}", "objective"},
        {SPACE ", \"trials\": 0}", "trials"},
        {SPACE ", \"trials\": 1.5}", "trials"},
        {SPACE ", \"parallel\": \"x\"}", "parallel"},
        {SPACE ", \"take\": \"mean\"}", "take"},
        {SPACE ", \"engine\": \"magic\"}", "magic"},
        {SPACE ", \"seed\": -1}", "seed"},
        {SPACE ", \"stop\": \"magic\"}", "stop"},
        {"{\"space\": {}, \"objective\": {\"minimize\": \"a\", \"maximize\": \"b\"}}", "objective"},
        {"{\"space\": {}, \"objective\": []}", "objective"},
        {"{\"space\": {}, \"objective\": [{\"minimize\": \"a\"}, {\"maximize\": \"a\"}]}", "twice"},
        {TWO ", \"stop\": \"asha\"}", "leave stop out"},
        {TWO ", \"take\": \"best\"}", "take"},
        {TWO ", \"engine\": \"gp\"}", "motpe"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_null(add(*state, "bad", bad[i].def));
        assert_int_equal(t.err.code, ERR_INVALID);
        if (!strstr(t.err.text, bad[i].word))
            fail_msg("\"%s\" does not name %s", t.err.text, bad[i].word);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(answers_come_after_the_commit),
        T(results_count_all_or_none),
        T(others_may_not),
        T(requests_wait_for_a_proposal),
        T(results_are_recorded_with_the_points),
        T(a_study_that_is_removed_answers_who_waits),
        T(jobs_fill_what_may_run_at_once),
        T(a_submission_is_tried_again_or_pauses),
        T(bad_definitions_name_the_member),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
