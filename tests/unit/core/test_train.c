/* test_train.c - jobs that train: epochs, stops, signals, ends and restarts, one promise at a time
 *
 * The controller with the planner of GPUs, on the disk and the host of the simulation: two devices
 * of 16 GiB.
 */
#include "base/json.h"
#include "base/util.h"
#include "core/bench.h"
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct caller owner = {.uid = 1000, .user = "ada"};

static int64_t file_time(void *self, const char *path)
{
    assert_string_equal(path, "/w/last.pt");
    return ((struct bench *)self)->checkpoint_ms;
}

static int setup(void **state)
{
    static const struct core_ops ops = {.file_time = file_time};
    struct bench *b = bench_new(
        &(struct core_conf){.ops = &ops, .gpu = {.plan = {.replan_ms = 10, .restart_s = 0.001}}}, 1,
        8);

    b->world.hosts[0].node.n_devices = 2;
    b->conf.self = b;
    bench_boot(b);
    *state = b;
    return 0;
}

static void on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    struct bench *b = arg;

    b->err = e ? *e : (struct err){0};
    if (r)
        b->submitted = *r;
}

static void on_acted(void *arg, const struct err *e, const struct acted *r)
{
    struct bench *b = arg;

    (void)r;
    b->answers++;
    b->err = e ? *e : (struct err){0};
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

/* `more` are keys of the job form; the run lasts until the test ends it. */
static uint64_t submit(struct bench *b, int32_t gpus, int32_t priority, const char *body)
{
    struct one *x = xcalloc(1, sizeof(*x));

    x->spec = (struct spec_row){.body = str_of(body),
                                .name = STR("n"),
                                .project = STR("p"),
                                .queue = STR("default"),
                                .need = {.slots = 1, .gpus = gpus},
                                .trains = true};
    x->job.priority = priority;
    x->s = (struct submission){
        .specs = &x->spec, .n_specs = 1, .jobs = &x->job, .n_jobs = 1, .free_fn = free_one};
    core_submit_take(b->core, &x->s, &owner, on_submitted, b);
    bench_settle(b, 10);
    return b->submitted.first;
}

#define EPOCHS(n, more)                                                                            \
    "{\"command\":[\"train\",\"0\",\"1\",\"0\"],\"cwd\":\"/w\",\"epochs\":" #n more "}"
static const char urgent_body[] =
    "{\"command\":[\"train\",\"0\",\"1\",\"0\"],\"gpus\":2,\"gpu_share\":false,\"estimate\":1}";

static enum job_state state_of(struct bench *b, uint64_t job)
{
    return b->disk.jobs.p[job - 1].rec.state;
}

static struct exec *live(struct bench *b, uint64_t job)
{
    for (size_t i = 0; i < b->world.execs.n; i++)
        if (b->world.execs.p[i].live && b->world.execs.p[i].key.job == job)
            return &b->world.execs.p[i];
    return NULL;
}

static void finish(struct bench *b, uint64_t job, enum run_end why, int status)
{
    struct exec *x = live(b, job);

    assert_non_null(x);
    world_finish(&b->world, (size_t)(x - b->world.execs.p), why, status);
    bench_settle(b, 10);
}

static void epoch(struct bench *b, uint64_t job, int64_t done)
{
    core_epoch_done(b->core, job, done, on_acted, b);
    bench_settle(b, 10);
    assert_int_equal(b->err.code, ERR_NONE);
}

static bool has_to_stop(struct bench *b, uint64_t job)
{
    bool known, stop = core_has_to_stop(b->core, job, &known);

    assert_true(known);
    return stop;
}

/* Rank 0 begins its next epoch. */
static void begins(struct bench *b, uint64_t job, int64_t epochs)
{
    core_epoch_begins(b->core, job, epochs);
    bench_settle(b, 10);
}

static struct core_training_past past_of(struct bench *b, uint64_t job)
{
    struct core_training_past p;
    struct err e;

    assert_int_equal(core_training_past(b->core, job, &p, &e), 0);
    return p;
}

/* A job with epochs that was just told to stop, for an urgent one. */
static uint64_t told_to_stop(struct bench *b, uint64_t *urgent)
{
    uint64_t job = submit(b, 2, 0, EPOCHS(9, ",\"gpus\":2"));

    assert_non_null(live(b, job));
    b->world.now += 60000;
    epoch(b, job, 1);
    b->world.now += 60000;
    epoch(b, job, 2);
    assert_false(has_to_stop(b, job));
    *urgent = submit(b, 2, 5, urgent_body);
    assert_false(has_to_stop(b, job)); /* not within an epoch */
    epoch(b, job, 3);
    assert_true(has_to_stop(b, job));
    return job;
}

/* ---- epochs and stops ---- */

static void an_epoch_is_answered_after_its_commit(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 1, 0, EPOCHS(5, ",\"gpus\":1"));

    core_epoch_done(b->core, job, 1, on_acted, b);
    core_turn(b->core);
    assert_int_equal(b->answers, 0);
    bench_settle(b, 10);
    assert_int_equal(b->answers, 1);
    epoch(b, job, 1); /* another rank */
    assert_int_equal(past_of(b, job).done, 1);
}

static void epochs_that_cannot_be(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 1, 0, EPOCHS(5, ",\"gpus\":1"));
    bool known;

    core_epoch_done(b->core, job, 7, on_acted, b);
    assert_int_equal(b->err.code, ERR_INVALID);
    core_epoch_done(b->core, job, -1, on_acted, b);
    assert_int_equal(b->err.code, ERR_INVALID);
    core_epoch_done(b->core, 99, 1, on_acted, b);
    assert_int_equal(b->err.code, ERR_NOT_FOUND);
    assert_false(core_has_to_stop(b->core, 99, &known));
    assert_false(known);
    assert_int_equal(past_of(b, job).done, 0);
}

static void a_stop_is_said_at_the_next_epoch_and_stays(void **state)
{
    struct bench *b = *state;
    uint64_t urgent, job = told_to_stop(b, &urgent);

    assert_true(has_to_stop(b, job));
    epoch(b, job, 4); /* it went on all the same */
    assert_true(has_to_stop(b, job));
    finish(b, job, RUN_END_EXITED, 0);
    assert_int_equal(state_of(b, job), JOB_QUEUED);
    assert_int_equal(b->disk.jobs.p[job - 1].rec.tries, 0);
    assert_int_equal(past_of(b, job).preemptions, 1);
    assert_non_null(live(b, urgent));
    finish(b, urgent, RUN_END_EXITED, 0);
    assert_non_null(live(b, job));
    assert_int_equal(live(b, job)->from, 4);
    assert_false(has_to_stop(b, job));
}

static void a_stop_survives_a_restart(void **state)
{
    struct bench *b = *state;
    uint64_t urgent, job = told_to_stop(b, &urgent);

    bench_crash(b);
    bench_boot(b);
    bench_settle(b, 10);
    assert_true(has_to_stop(b, job));
    finish(b, job, RUN_END_EXITED, 0);
    assert_int_equal(state_of(b, job), JOB_QUEUED);
    assert_non_null(live(b, urgent));
}

static void devices_are_kept_over_a_restart(void **state)
{
    struct bench *b = *state;
    uint64_t a = submit(b, 1, 0, EPOCHS(5, ",\"gpus\":1")), c = submit(b, 1, 0, urgent_body);
    uint64_t d = submit(b, 1, 0, EPOCHS(5, ",\"gpus\":1"));

    assert_non_null(live(b, a));
    bench_crash(b);
    bench_boot(b);
    bench_settle(b, 10);
    assert_non_null(live(b, a));
    const struct usage *u = core_usage(b->core, 0);
    assert_true(u->on_gpu[0] <= 2 && u->on_gpu[1] <= 2);
    finish(b, a, RUN_END_EXITED, 0);
    assert_int_equal(state_of(b, a), JOB_SUCCEEDED);
    assert_true(live(b, c) || live(b, d));
}

/* ---- ends ---- */

static void an_early_end_is_success_with_a_remark(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 1, 0, EPOCHS(5, ",\"gpus\":1"));

    epoch(b, job, 2);
    finish(b, job, RUN_END_EXITED, 0);
    assert_int_equal(state_of(b, job), JOB_SUCCEEDED);
    assert_true(past_of(b, job).early);
    assert_int_equal(past_of(b, job).done, 2);
}

static void a_lost_run_goes_on_where_it_was(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 1, 0, EPOCHS(5, ",\"gpus\":1"));

    epoch(b, job, 3);
    begins(b, job, 3);
    finish(b, job, RUN_END_SUPERVISOR_KILLED, 0);
    bench_settle(b, 10);
    assert_non_null(live(b, job));
    assert_int_equal(live(b, job)->from, 3);
    assert_int_equal(b->disk.jobs.p[job - 1].rec.tries, 1);
    finish(b, job, RUN_END_EXITED, W_EXITCODE(3, 0));
    assert_int_equal(state_of(b, job), JOB_FAILED); /* its own fault, and no retry */
}

/* What a run reported and nobody confirmed may have no snapshot. */
static void an_epoch_without_a_snapshot_is_computed_again(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 1, 0, EPOCHS(5, ",\"gpus\":1"));
    struct gpu_view v;

    epoch(b, job, 1);
    assert_int_equal(past_of(b, job).confirmed, 0);
    finish(b, job, RUN_END_SUPERVISOR_KILLED, 0);
    bench_settle(b, 10);
    assert_int_equal(live(b, job)->from, 0);
    epoch(b, job, 1);
    epoch(b, job, 2); /* the first is confirmed by the second */
    assert_int_equal(past_of(b, job).confirmed, 1);
    assert_int_equal(past_of(b, job).done, 2);
    bench_crash(b);
    bench_boot(b);
    bench_settle(b, 10);
    assert_int_equal(past_of(b, job).confirmed, 1);
    finish(b, job, RUN_END_SUPERVISOR_KILLED, 0);
    bench_settle(b, 10);
    assert_int_equal(live(b, job)->from, 1);
    assert_int_equal(past_of(b, job).done, 1);
    assert_true(core_training(b->core, job, &v));
    assert_int_equal(v.epochs_done, 1); /* what is left to do grows as well */
}

/* Only rank 0 saves; and it speaks of what it has behind it, not of what others have reported. */
static void rank_0_confirms_what_it_has_saved(void **state)
{
    struct bench *b = *state;
    uint64_t one = submit(b, 1, 0, EPOCHS(5, ",\"gpus\":1"));

    epoch(b, one, 2);
    begins(b, one, 1);
    assert_int_equal(past_of(b, one).confirmed, 1);
    begins(b, one, 7);
    assert_int_equal(past_of(b, one).confirmed, 2);
    begins(b, one, 0);
    assert_int_equal(past_of(b, one).confirmed, 2);
    epoch(b, one, 3);
    begins(b, one, -1); /* a library that does not say: on one device there is no other rank */
    assert_int_equal(past_of(b, one).confirmed, 3);
    bench_crash(b); /* and it is kept */
    bench_boot(b);
    bench_settle(b, 10);
    assert_int_equal(past_of(b, one).confirmed, 3);
    finish(b, one, RUN_END_EXITED, 0);
    uint64_t two = submit(b, 2, 0, EPOCHS(5, ",\"gpus\":2"));
    epoch(b, two, 1);
    begins(b, two, -1);
    assert_int_equal(past_of(b, two).confirmed, 0);
    begins(b, two, 1);
    assert_int_equal(past_of(b, two).confirmed, 1);
}

static void a_run_that_ends_well_has_saved(void **state)
{
    struct bench *b = *state;
    uint64_t urgent, job = told_to_stop(b, &urgent);

    assert_int_equal(past_of(b, job).confirmed, 2);
    finish(b, job, RUN_END_EXITED, 0); /* it obeyed */
    finish(b, urgent, RUN_END_EXITED, 0);
    assert_int_equal(live(b, job)->from, 3);
    epoch(b, job, 4);
    finish(b, job, RUN_END_CANCELLED, 0); /* it was made to go at once */
    bench_settle(b, 10);
    assert_int_equal(live(b, job)->from, 3);
    assert_non_null(strstr(b->disk.detail, "after epoch 3 of 9"));
    epoch(b, job, 9);
    finish(b, job, RUN_END_EXITED, 0);
    assert_int_equal(state_of(b, job), JOB_SUCCEEDED);
    assert_int_equal(past_of(b, job).confirmed, 9);
}

/* A request that finds only the last epoch left is over: nobody waits for the job to stop. */
static void the_last_epoch_is_not_stopped(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 2, 0, EPOCHS(4, ",\"gpus\":2"));
    struct gpu_view v;

    b->world.now += 60000;
    epoch(b, job, 1);
    b->world.now += 60000;
    epoch(b, job, 2);
    submit(b, 2, 5, urgent_body);
    assert_true(core_training(b->core, job, &v) && v.stopping);
    epoch(b, job, 3);
    assert_false(has_to_stop(b, job));
    assert_true(core_training(b->core, job, &v));
    assert_false(v.stopping);
}

static void the_times_that_people_see_are_means(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 1, 0, EPOCHS(9, ",\"gpus\":1"));
    const double seconds[] = {1, 1, 1, 1, 1, 4};
    struct err e;

    for (int i = 0; i < 6; i++) {
        const struct core_profile p = {.mean_step_s = seconds[i] / 10, .epoch_s = seconds[i]};
        assert_int_equal(core_profiled(b->core, job, &p, &e), 0);
        epoch(b, job, i + 1);
    }
    assert_true(fabs(past_of(b, job).epoch_s - 1.5) < 1e-6);
    assert_true(fabs(past_of(b, job).step_s - 0.15) < 1e-6);
    bench_crash(b);
    bench_boot(b);
    bench_settle(b, 10);
    assert_true(fabs(past_of(b, job).epoch_s - 1.5) < 1e-5);
}

static void a_retry_by_hand_goes_on_or_begins_anew(void **state)
{
    struct bench *b = *state;
    uint64_t failed = submit(b, 1, 0, EPOCHS(5, ",\"gpus\":1")),
             done = submit(b, 1, 0, EPOCHS(1, ",\"gpus\":1"));

    epoch(b, failed, 2);
    begins(b, failed, 2);
    finish(b, failed, RUN_END_EXITED, W_EXITCODE(1, 0));
    epoch(b, done, 1);
    finish(b, done, RUN_END_EXITED, 0);
    core_retry(b->core, (uint64_t[]){failed, done}, 2, &owner, on_acted, b);
    bench_settle(b, 10);
    assert_int_equal(live(b, failed)->from, 2);
    assert_int_equal(live(b, done)->from, 0);
}

/* ---- signals ---- */

#define BY_SIGNAL                                                                                  \
    "{\"command\":[\"train\",\"0\",\"1\",\"0\"],\"cwd\":\"/w\",\"gpus\":2,\"grace\":\"5s\","       \
    "\"preempt_signal\":\"USR1\",\"checkpoint\":\"last.pt\",\"estimate\":\"2h\"}"

static uint64_t signalled_with(struct bench *b, const char *body)
{
    uint64_t job = submit(b, 2, 0, body);

    assert_non_null(live(b, job));
    b->world.now += 600000;
    submit(b, 2, 5, urgent_body);
    assert_true(strstr(b->disk.jobs.p[job - 1].training, "\"signalled\":") != NULL);
    return job;
}

static uint64_t signalled(struct bench *b)
{
    return signalled_with(b, BY_SIGNAL);
}

static void a_new_checkpoint_means_it_made_room(void **state)
{
    struct bench *b = *state;
    uint64_t job = signalled(b);

    b->checkpoint_ms = b->world.now + SIM_EPOCH_MS;
    finish(b, job, RUN_END_EXITED, 0);
    assert_int_equal(state_of(b, job), JOB_QUEUED);
    assert_int_equal(past_of(b, job).preemptions, 1);
}

static void no_new_checkpoint_means_it_was_done(void **state)
{
    struct bench *b = *state;
    uint64_t job = signalled(b);

    b->checkpoint_ms = b->world.now + SIM_EPOCH_MS - 3600000;
    finish(b, job, RUN_END_EXITED, 0);
    assert_int_equal(state_of(b, job), JOB_SUCCEEDED);
}

/* A file that the submitter cannot reach tells nothing, though root's daemon could look at it. */
static void checkpoints_are_looked_at_as_their_submitter(void **state)
{
    static const struct core_ops none;
    struct bench *b = *state;
    char dir[] = "/tmp/berth-ckpt-XXXXXX", path[64], body[400];
    enum job_state seen[2];

    if (geteuid() != 0)
        skip();
    b->conf.ops = &none;
    bench_crash(b);
    bench_boot(b);
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/last.pt", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    snprintf(
        body, sizeof(body),
        "{\"command\":[\"train\",\"0\",\"1\",\"0\"],\"cwd\":\"/w\",\"gpus\":2,\"grace\":\"5s\","
        "\"preempt_signal\":\"USR1\",\"checkpoint\":\"%s\",\"estimate\":\"2h\"}",
        path);
    for (int open = 0; open < 2; open++) {
        assert_int_equal(chmod(dir, open ? 0755 : 0700), 0);
        uint64_t job = signalled_with(b, body), urgent = b->submitted.first;
        finish(b, job, RUN_END_EXITED, 0);
        seen[open] = state_of(b, job);
        core_cancel(b->core, (uint64_t[]){job, urgent}, 2, &owner, on_acted, b);
        bench_settle(b, 10);
        world_advance(&b->world, 100);
        bench_settle(b, 10);
    }
    unlink(path);
    rmdir(dir);
    assert_int_equal(seen[0], JOB_SUCCEEDED);
    assert_int_equal(seen[1], JOB_QUEUED);
}

static void killed_by_its_signal_made_room(void **state)
{
    struct bench *b = *state;
    uint64_t job = signalled(b);

    finish(b, job, RUN_END_EXITED, SIGUSR1);
    assert_int_equal(state_of(b, job), JOB_QUEUED);
}

static void who_does_not_listen_is_stopped_after_its_grace(void **state)
{
    struct bench *b = *state;
    uint64_t job = signalled(b);

    assert_non_null(live(b, job));
    b->world.now += 6000;
    bench_settle(b, 10); /* TERM; the host ends it within 50 ms */
    world_advance(&b->world, 100);
    bench_settle(b, 10);
    assert_int_equal(past_of(b, job).preemptions, 1);
    assert_int_not_equal(state_of(b, job), JOB_FAILED);
}

static void who_can_do_neither_is_left_alone(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 2, 0, "{\"command\":[\"train\",\"0\",\"1\",\"0\"],\"gpus\":2}"), next;

    b->world.now += 600000;
    next = submit(b, 2, 5, urgent_body);
    b->world.now += 600000;
    bench_settle(b, 10);
    assert_non_null(live(b, job));
    assert_null(live(b, next));
    finish(b, job, RUN_END_EXITED, 0);
    assert_non_null(live(b, next));
}

/* ---- the queue around them ---- */

static void paused_queues_hold_and_let_go(void **state)
{
    struct bench *b = *state;
    const struct caller admin = {.uid = 1000, .user = "ada", .admin = true};
    uint64_t job;

    core_pause(b->core, STR("default"), true, &admin, on_acted, b);
    job = submit(b, 1, 0, EPOCHS(5, ",\"gpus\":1"));
    assert_null(live(b, job));
    core_pause(b->core, STR("default"), false, &admin, on_acted, b);
    bench_settle(b, 10);
    assert_non_null(live(b, job));
}

static void every_wait_has_a_reason(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 2, 0, "{\"command\":[\"train\",\"0\",\"1\",\"0\"],\"gpus\":2}");
    uint64_t next = submit(b, 2, 0, urgent_body), never = submit(b, 3, 0, urgent_body);
    struct json *why = NULL;
    struct err e;

    (void)job;
    assert_int_equal(core_explain(b->core, next, &why, &e), 0);
    assert_true(str_eq_c(json_str(json_get(why, "kind")), "gpus") ||
                str_eq_c(json_str(json_get(why, "kind")), "gpu_no_share"));
    assert_non_null(strstr(json_str(json_get(why, "text")).p, "It starts about"));
    assert_true(json_has(why, "predicted_start"));
    json_free(why);
    assert_int_equal(core_explain(b->core, never, &why, &e), 0);
    assert_true(json_str(json_get(why, "text")).n > 0);
    json_free(why);
}

static void a_cancelled_job_is_forgotten_by_the_planner(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, 2, 0, urgent_body), next = submit(b, 2, 0, urgent_body);
    struct gpu_view v;

    assert_true(core_training(b->core, next, &v));
    core_cancel(b->core, &next, 1, &owner, on_acted, b);
    bench_settle(b, 10);
    assert_false(core_training(b->core, next, &v));
    core_cancel(b->core, &job, 1, &owner, on_acted, b);
    bench_settle(b, 10);
    world_advance(&b->world, 100);
    bench_settle(b, 10);
    assert_int_equal(state_of(b, job), JOB_CANCELLED);
    assert_non_null(live(b, submit(b, 2, 0, urgent_body)));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, bench_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_epoch_is_answered_after_its_commit),
        TEST(epochs_that_cannot_be),
        TEST(a_stop_is_said_at_the_next_epoch_and_stays),
        TEST(a_stop_survives_a_restart),
        TEST(devices_are_kept_over_a_restart),
        TEST(an_early_end_is_success_with_a_remark),
        TEST(a_lost_run_goes_on_where_it_was),
        TEST(an_epoch_without_a_snapshot_is_computed_again),
        TEST(rank_0_confirms_what_it_has_saved),
        TEST(a_run_that_ends_well_has_saved),
        TEST(the_last_epoch_is_not_stopped),
        TEST(the_times_that_people_see_are_means),
        TEST(a_retry_by_hand_goes_on_or_begins_anew),
        TEST(a_new_checkpoint_means_it_made_room),
        TEST(no_new_checkpoint_means_it_was_done),
        TEST(checkpoints_are_looked_at_as_their_submitter),
        TEST(killed_by_its_signal_made_room),
        TEST(who_does_not_listen_is_stopped_after_its_grace),
        TEST(who_can_do_neither_is_left_alone),
        TEST(paused_queues_hold_and_let_go),
        TEST(every_wait_has_a_reason),
        TEST(a_cancelled_job_is_forgotten_by_the_planner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
