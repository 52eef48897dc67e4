/* test_end_step.c - the step between the end of a run and the next state of its job */
#include "base/util.h"
#include "core/bench.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static const struct caller owner = {.uid = 1000, .user = "ada"};

/* What the core asked for; the bench is the `self` of the operations. */
static int begun, cancelled;
static struct run_key last;
static bool has_step;

static bool step_begin(void *self, struct run_key key)
{
    (void)self;
    begun += has_step;
    last = key;
    return has_step;
}

static void step_cancel(void *self, struct run_key key)
{
    (void)self;
    assert_true(run_key_eq(key, last));
    cancelled++;
}

static const struct core_ops ops = {.end_step = step_begin, .end_step_cancel = step_cancel};

static int setup(void **state)
{
    struct bench *b = bench_new(&(struct core_conf){.ops = &ops}, 1, 1);

    begun = cancelled = 0;
    has_step = true;
    bench_boot(b);
    *state = b;
    return 0;
}

static void on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    assert_null(e);
    ((struct bench *)arg)->submitted = *r;
}

static void on_acted(void *arg, const struct err *e, const struct acted *r)
{
    assert_null(e);
    ((struct bench *)arg)->acted = *r;
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

static uint64_t submit(struct bench *b, int32_t retries, bool dialect)
{
    struct one *x = xcalloc(1, sizeof(*x));

    x->spec = (struct spec_row){
        .body =
            dialect ? STR("{\"command\":[\"true\"],\"cwd\":\"/\",\"dialect\":\"d\"}") : STR("{}"),
        .name = STR("n"),
        .project = STR("p"),
        .queue = STR("default"),
        .retries = retries,
        .need = {.slots = 1}};
    x->s = (struct submission){
        .specs = &x->spec, .n_specs = 1, .jobs = &x->job, .n_jobs = 1, .free_fn = free_one};
    core_submit_take(b->core, &x->s, &owner, on_submitted, b);
    bench_settle(b, 0);
    return b->submitted.first;
}

static enum job_state state_of(struct bench *b, uint64_t job)
{
    return b->disk.jobs.p[job - 1].rec.state;
}

static bool is_live(struct bench *b, uint64_t job)
{
    for (size_t i = 0; i < b->world.execs.n; i++)
        if (b->world.execs.p[i].live && b->world.execs.p[i].key.job == job)
            return true;
    return false;
}

static void finish(struct bench *b, uint64_t job, enum run_end why, int status)
{
    for (size_t i = 0; i < b->world.execs.n; i++)
        if (b->world.execs.p[i].live && b->world.execs.p[i].key.job == job)
            world_finish(&b->world, i, why, status);
    bench_settle(b, 0);
}

static void report(struct bench *b, const char *trouble)
{
    struct err e = {0};

    if (trouble)
        err_set(&e, ERR_FULL, "%s", trouble);
    core_end_step_done(b->core, last, trouble ? &e : NULL);
    bench_settle(b, 0);
}

/* ---- promises ---- */

static void the_job_moves_on_when_the_step_is_reported(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 0, true), next = submit(b, 0, false);
    struct json *why = NULL;
    struct err e;

    assert_false(is_live(b, next)); /* one slot */
    finish(b, job, RUN_END_EXITED, 0);
    assert_int_equal(begun, 1);
    assert_int_equal(state_of(b, job), JOB_RUNNING);
    assert_true(core_job_ending(b->core, job));
    assert_true(is_live(b, next)); /* the slot is free already */
    assert_int_equal(core_explain(b->core, job, &why, &e), 0);
    assert_non_null(strstr(json_str(json_get(why, "text")).p, "its files are being archived"));
    json_free(why);
    report(b, NULL);
    assert_int_equal(state_of(b, job), JOB_SUCCEEDED);
    assert_false(core_job_ending(b->core, job));
    report(b, NULL); /* a second report is ignored */
    assert_int_equal(b->disk.jobs.p[job - 1].finals, 1);
}

static void a_failed_step_leaves_the_outcome(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 0, true);

    finish(b, job, RUN_END_EXITED, 0);
    report(b, "the disk is full");
    assert_int_equal(state_of(b, job), JOB_SUCCEEDED);
    assert_string_equal(b->disk.detail, "the end step is not complete: the disk is full");
    job = submit(b, 0, true);
    finish(b, job, RUN_END_EXITED, W_EXITCODE(3, 0));
    report(b, "the disk is full");
    assert_int_equal(state_of(b, job), JOB_FAILED);
    assert_non_null(strstr(b->disk.detail, "; the end step is not complete: the disk is full"));
}

static void a_crash_repeats_the_step(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 0, true);

    finish(b, job, RUN_END_EXITED, 0);
    assert_int_equal(begun, 1);
    for (int i = 0; i < 3; i++) {
        bench_crash(b);
        bench_boot(b);
        bench_settle(b, 0);
        assert_int_equal(begun, 2 + i);
        assert_int_equal(state_of(b, job), JOB_RUNNING);
    }
    report(b, NULL);
    assert_int_equal(state_of(b, job), JOB_SUCCEEDED);
    assert_int_equal(b->disk.jobs.p[job - 1].finals, 1);
}

static void cancelling_gives_up_the_step_only(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 0, true);

    finish(b, job, RUN_END_EXITED, 0);
    core_cancel(b->core, &job, 1, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.done, 1);
    assert_int_equal(cancelled, 1);
    assert_int_equal(state_of(b, job), JOB_SUCCEEDED);
    assert_non_null(strstr(b->disk.detail, "it was cancelled"));
    report(b, NULL); /* too late */
    assert_int_equal(b->disk.jobs.p[job - 1].finals, 1);
}

static void a_step_has_an_hour(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 0, true);

    finish(b, job, RUN_END_EXITED, 0);
    assert_true(core_next_wake(b->core) > 0);
    world_advance(&b->world, 3600 * 1000 - 1);
    bench_settle(b, 0);
    assert_int_equal(state_of(b, job), JOB_RUNNING);
    world_advance(&b->world, 1);
    bench_settle(b, 0);
    assert_int_equal(state_of(b, job), JOB_SUCCEEDED);
    assert_int_equal(cancelled, 1);
    assert_non_null(strstr(b->disk.detail, "longer than an hour"));
    assert_int_equal(core_next_wake(b->core), -1);
}

static void a_step_that_waits_gets_another_hour(void **state)
{
    struct bench *b = *state;
    uint64_t first = submit(b, 0, true), second = submit(b, 0, true);
    const int64_t hour = 3600 * 1000;

    finish(b, first, RUN_END_EXITED, 0);
    struct run_key waiting = last;
    world_advance(&b->world, hour / 4);
    bench_settle(b, 0);
    finish(b, second, RUN_END_EXITED, 0);
    world_advance(&b->world, hour / 4);
    assert_false(core_job_end_waits(b->core, first));
    core_end_step_waits(b->core, waiting, true);
    assert_true(core_job_end_waits(b->core, first) && !core_job_end_waits(b->core, second));
    world_advance(&b->world, 3 * hour / 4); /* from now on the second has had its hour */
    bench_settle(b, 0);
    assert_int_equal(state_of(b, first), JOB_RUNNING);
    assert_int_equal(state_of(b, second), JOB_SUCCEEDED);
    last = waiting;
    world_advance(&b->world, hour / 4);
    bench_settle(b, 0);
    assert_int_equal(state_of(b, first), JOB_SUCCEEDED);
}

/* Each run of a job has a step of its own; the next try waits for it. */
static void a_retry_waits_for_the_step(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 1, true);

    finish(b, job, RUN_END_EXITED, W_EXITCODE(1, 0));
    assert_int_equal(begun, 1);
    assert_false(is_live(b, job));
    report(b, NULL);
    assert_true(is_live(b, job));
    finish(b, job, RUN_END_SUPERVISOR_KILLED, 0); /* lost */
    assert_int_equal(begun, 2);
    report(b, NULL);
    assert_int_equal(state_of(b, job), JOB_LOST);
}

static void a_job_cancelled_in_the_step_is_not_tried_again(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 5, true);

    finish(b, job, RUN_END_EXITED, W_EXITCODE(1, 0));
    core_cancel(b->core, &job, 1, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(state_of(b, job), JOB_CANCELLED);
    assert_int_equal(b->disk.jobs.p[job - 1].finals, 1);
    assert_false(is_live(b, job));
}

static void jobs_without_a_step_move_on_at_once(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 0, false);

    finish(b, job, RUN_END_EXITED, 0);
    assert_int_equal(begun, 0);
    assert_int_equal(state_of(b, job), JOB_SUCCEEDED);
    has_step = false; /* its dialect has nothing to do */
    job = submit(b, 0, true);
    finish(b, job, RUN_END_EXITED, 0);
    assert_int_equal(state_of(b, job), JOB_SUCCEEDED);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        T(the_job_moves_on_when_the_step_is_reported),
        T(a_failed_step_leaves_the_outcome),
        T(a_crash_repeats_the_step),
        T(cancelling_gives_up_the_step_only),
        T(a_step_has_an_hour),
        T(a_step_that_waits_gets_another_hour),
        T(a_retry_waits_for_the_step),
        T(a_job_cancelled_in_the_step_is_not_tried_again),
        T(jobs_without_a_step_move_on_at_once),
    };
    return cmocka_run_group_tests_name("end_step", tests, NULL, NULL);
}
