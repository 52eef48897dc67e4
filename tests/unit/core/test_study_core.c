/* test_study_core.c - studies in the controller: answers, waits, limits, jobs, removal */
#include "base/util.h"
#include "core/bench.h"
#include "core/study.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct caller owner = {.uid = 1000, .user = "ada"};
static const struct caller stranger = {.uid = 2000, .user = "eve"};
#define SPACE "{\"space\": {\"x\": {\"uniform\": [0, 1]}}, \"objective\": {\"minimize\": \"loss\"}"

/* Proposals that wait for the test, and what ops->trial does. */
struct held {
    void (*work)(void *), (*done)(void *);
    void *x;
};
static struct {
    VEC(struct held) held;
    bool hold;          /* keep proposals */
    enum err_code fail; /* 0 = make the job */
    int trials;         /* calls of ops->trial */
    /* Of the last answer. */
    size_t told, points, answers;
    uint64_t first; /* its first point */
    uint32_t turn;  /* its hold */
    size_t leased;
    char params[80];
    bool exhausted;
    struct err err;
} t;

static bool on_offload(void *self, void (*work)(void *), void (*done)(void *), void *x)
{
    (void)self;
    if (t.hold)
        vec_push(&t.held, ((struct held){work, done, x}));
    return t.hold;
}

static void let_go(struct bench *b)
{
    t.hold = false;
    while (t.held.n) {
        struct held h = t.held.p[0];
        vec_remove(&t.held, 0);
        h.work(h.x);
        h.done(h.x);
    }
    bench_settle(b, 0);
}

struct one {
    struct submission s;
    struct spec_row spec;
    struct job_row job;
};

static void free_one(struct submission *s)
{
    free(s);
}

static void on_trial(void *self, struct trial_launch *l)
{
    struct one *x = xcalloc(1, sizeof(*x));
    struct err e = {0};

    (void)self;
    t.trials++;
    if (t.fail) {
        err_set(&e, t.fail, "no such directory");
        free(x);
        core_trial_take(l, NULL, &e);
        return;
    }
    x->spec = (struct spec_row){.body = STR("{}"),
                                .name = STR("n"),
                                .project = STR("p"),
                                .queue = STR("default"),
                                .need = {.slots = 1}};
    x->s = (struct submission){
        .specs = &x->spec, .n_specs = 1, .jobs = &x->job, .n_jobs = 1, .free_fn = free_one};
    core_trial_take(l, &x->s, NULL);
}

static const struct core_ops ops = {.offload = on_offload, .trial = on_trial};

static int setup(void **state)
{
    struct bench *b = bench_new(&(struct core_conf){.ops = &ops}, 1, 2);

    memset(&t, 0, sizeof(t));
    bench_boot(b);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    bench_free(*state);
    vec_done(&t.held);
    return 0;
}

static void on_acted(void *arg, const struct err *e, const struct acted *r)
{
    (void)arg;
    (void)r;
    t.answers++;
    t.err = e ? *e : (struct err){0};
}

static void on_answer(void *arg, const struct err *e, const struct study_answer *r)
{
    (void)arg;
    t.answers++;
    t.err = e ? *e : (struct err){0};
    t.told = r ? r->told : 0;
    t.points = r ? r->n : 0;
    t.first = r && r->n ? r->points[0].number : 0;
    t.turn = r && r->n ? r->points[0].hold : 0;
    t.leased = r ? r->leased : 0;
    snprintf(t.params, sizeof(t.params), "%s", r && r->n ? r->points[0].params : "");
    t.exhausted = r && r->exhausted;
}

static const struct study *add(struct bench *b, const char *name, const char *def)
{
    AUTO(json) struct json *j = NULL;
    struct err e;

    assert_int_equal(json_parse(str_of(def), "definition", &j, &e), 0);
    core_study_add(b->core, str_of(name), j, 0, &owner, on_acted, b);
    bench_settle(b, 0);
    return core_study_find(b->core, str_of(name), owner.uid);
}

static void exchange(struct bench *b, const struct study *s, const struct study_result *r, size_t n,
                     size_t want, const struct caller *who)
{
    core_study_exchange(b->core, s->seq, r, n, &(struct study_ask){want, 0}, who, on_answer, b);
}

/* Asks for a trial under a lease of ten seconds. */
static void ask_leased(struct bench *b, const struct study *s)
{
    core_study_exchange(b->core, s->seq, NULL, 0, &(struct study_ask){1, 10}, &owner, on_answer, b);
    bench_settle(b, 0);
}

static void tell_held(struct bench *b, const struct study *s, uint64_t number, uint32_t hold)
{
    struct study_result r = {
        .number = number, .state = TRIAL_DONE, .values = {1}, .n_values = 1, .hold = hold};

    exchange(b, s, &r, 1, 0, &owner);
    bench_settle(b, 0);
}

static bool renew_held(struct bench *b, const struct study *s, uint64_t number, uint32_t hold)
{
    bool lost = false;
    struct err e;

    assert_int_equal(core_study_renew(b->core, s->seq, &(struct study_holding){number, hold}, 1,
                                      &owner, &lost, &e),
                     0);
    return !lost;
}

static void pass_seconds(struct bench *b, int n)
{
    world_advance(&b->world, n * 1000);
    bench_settle(b, 0);
}

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
    assert_int_equal(s->best, 1);
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

#define TWO                                                                                        \
    "{\"space\": {\"x\": {\"uniform\": [0, 1]}}, \"objective\": [{\"minimize\": \"loss\"}, "       \
    "{\"maximize\": \"acc\"}]"

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
    assert_int_equal(s->best, 0);
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
        T(a_study_that_is_removed_answers_who_waits),
        T(jobs_fill_what_may_run_at_once),
        T(a_submission_is_tried_again_or_pauses),
        T(a_vanished_client_loses_its_trial),
        T(a_late_client_keeps_what_nobody_took),
        T(a_trial_that_ends_its_clients_fails),
        T(no_lease_no_end),
        T(several_objectives_have_a_front),
        T(a_warm_start_has_as_many_objectives),
        T(bad_definitions_name_the_member),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
