/* test_core.c - the controller, one promise at a time, on the disk and the host of the simulation
 */
#include "base/util.h"
#include "core/bench.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static const struct caller owner = {.uid = 1000, .user = "ada"};
static const struct caller stranger = {.uid = 2000, .user = "eve"};

static int setup(void **state)
{
    struct bench *b = bench_new(
        &(struct core_conf){.home = {.secret = (const uint8_t *)"0123456789abcdef0123456789abcdef"},
                            .lookahead = true},
        1, 2);

    bench_boot(b);
    *state = b;
    return 0;
}

static void on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    struct bench *b = arg;

    b->answers++;
    b->err = e ? *e : (struct err){0};
    if (r)
        b->submitted = *r;
}

static void on_acted(void *arg, const struct err *e, const struct acted *r)
{
    struct bench *b = arg;

    b->answers++;
    b->err = e ? *e : (struct err){0};
    if (r)
        b->acted = *r;
}

struct one {
    struct submission s;
    struct spec_row spec;
    struct job_row jobs[8];
    uint64_t after;
};

static void free_one(struct submission *s)
{
    free(s);
}

static struct one *make(size_t n)
{
    struct one *x = xcalloc(1, sizeof(*x));

    x->spec = (struct spec_row){.body = STR("{}"),
                                .name = STR("n"),
                                .project = STR("p"),
                                .queue = STR("default"),
                                .need = {.slots = 1}};
    x->s = (struct submission){
        .specs = &x->spec, .n_specs = 1, .jobs = x->jobs, .n_jobs = n, .free_fn = free_one};
    return x;
}

static void send(struct bench *b, struct one *x)
{
    core_submit_take(b->core, &x->s, &owner, on_submitted, b);
}

static uint64_t submit(struct bench *b)
{
    send(b, make(1));
    bench_settle(b, 0);
    return b->submitted.first;
}

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
    bench_settle(b, 0);
}

/* ---- promises ---- */

static void a_single_job_keeps_the_id_it_comes_with(void **state)
{
    struct bench *b = *state;
    struct one *x = make(1), *two = make(2);
    struct id mine = {0x1234, 0x5678};

    x->jobs[0].id = two->jobs[0].id = mine;
    send(b, x);
    bench_settle(b, 0);
    assert_int_equal(id_cmp(b->submitted.id, mine), 0);
    send(b, two);
    bench_settle(b, 0);
    assert_int_not_equal(id_cmp(b->submitted.id, mine), 0);
    assert_true(b->submitted.id.hi || b->submitted.id.lo);
}

static void a_job_is_answered_after_its_commit(void **state)
{
    struct bench *b = *state;

    send(b, make(1));
    core_turn(b->core);
    assert_int_equal(b->answers, 0);
    disk_seal(&b->disk);
    disk_commit(&b->disk);
    assert_int_equal(b->answers, 1);
    assert_int_equal(b->err.code, ERR_NONE);
    assert_true(b->disk.jobs.p[0].exists);
}

static void nothing_starts_before_its_placement_is_durable(void **state)
{
    struct bench *b = *state;

    send(b, make(1));
    bench_turn(b);
    core_turn(b->core); /* placed, staged */
    assert_int_equal(b->world.hosts[0].channel.n, 0);
    disk_seal(&b->disk);
    disk_commit(&b->disk);
    assert_int_equal(b->world.hosts[0].channel.n, 1);
}

static void success_and_failure(void **state)
{
    struct bench *b = *state;
    uint64_t good = submit(b), bad = submit(b);

    finish(b, good, RUN_END_EXITED, 0);
    finish(b, bad, RUN_END_EXITED, W_EXITCODE(3, 0));
    assert_int_equal(state_of(b, good), JOB_SUCCEEDED);
    assert_int_equal(state_of(b, bad), JOB_FAILED);
    assert_false(core_job_active(b->core, good, NULL));
}

static void retries_wait_longer_each_time(void **state)
{
    struct bench *b = *state;
    struct one *x = make(1);

    x->spec.retries = 2;
    x->spec.backoff_ms = 1000;
    send(b, x);
    bench_settle(b, 0);
    finish(b, 1, RUN_END_EXITED, W_EXITCODE(1, 0));
    assert_int_equal(state_of(b, 1), JOB_QUEUED);
    assert_int_equal(core_next_wake(b->core), b->world.now + 1000);
    b->world.now += 999;
    bench_settle(b, 0);
    assert_null(live(b, 1));
    b->world.now += 1;
    bench_settle(b, 0);
    finish(b, 1, RUN_END_EXITED, W_EXITCODE(1, 0));
    assert_int_equal(core_next_wake(b->core), b->world.now + 2000);
    b->world.now += 2000;
    bench_settle(b, 0);
    finish(b, 1, RUN_END_EXITED, W_EXITCODE(1, 0));
    assert_int_equal(state_of(b, 1), JOB_FAILED);
    assert_int_equal(b->disk.jobs.p[0].rec.attempt, 3);
}

static void a_missing_command_is_not_retried(void **state)
{
    struct bench *b = *state;
    struct one *x = make(1);
    struct run_outcome o = {.why = RUN_END_START_FAILED, .sys = ENOENT};

    x->spec.retries = 5;
    send(b, x);
    bench_settle(b, 0);
    struct run_key key = {0}, other;
    assert_true(core_job_active(b->core, 1, &key));
    other = key;
    other.tag ^= 1; /* the run of another job that had this number */
    core_backend_events.ended(b->world.hosts[0].host, other, &o, STR("no such file"));
    bench_settle(b, 0);
    assert_int_not_equal(state_of(b, 1), JOB_FAILED);
    core_backend_events.ended(b->world.hosts[0].host, key, &o, STR("no such file"));
    bench_settle(b, 0);
    assert_int_equal(state_of(b, 1), JOB_FAILED);
}

static void a_killed_supervisor_means_lost(void **state)
{
    struct bench *b = *state;
    uint64_t n = submit(b);

    finish(b, n, RUN_END_SUPERVISOR_KILLED, 0);
    assert_int_equal(state_of(b, n), JOB_LOST);
    assert_int_equal(core_usage(b->core, 0)->slots, 0);
}

/* A repeated lost run is no try, in memory and on disk, and the count survives a restart. */
static void lost_runs_are_repeated_as_often_as_asked(void **state)
{
    struct bench *b = *state;
    struct one *x = make(1);

    x->spec.retry_lost = 2;
    x->spec.backoff_ms = 1000;
    send(b, x);
    bench_settle(b, 0);
    finish(b, 1, RUN_END_SUPERVISOR_KILLED, 0);
    assert_int_equal(state_of(b, 1), JOB_QUEUED);
    assert_int_equal(b->disk.jobs.p[0].rec.tries, 0);
    bench_crash(b);
    bench_boot(b);
    b->world.now += 1000;
    bench_settle(b, 0);
    finish(b, 1, RUN_END_NODE_LOST, 0);
    assert_int_equal(state_of(b, 1), JOB_QUEUED);
    bench_crash(b);
    bench_boot(b);
    b->world.now += 1000;
    bench_settle(b, 0);
    finish(b, 1, RUN_END_SUPERVISOR_KILLED, 0);
    assert_int_equal(state_of(b, 1), JOB_LOST);
    assert_int_equal(b->disk.jobs.p[0].rec.attempt, 3);
}

static void a_repeated_lost_run_uses_up_no_retry(void **state)
{
    struct bench *b = *state;
    struct one *x = make(1);

    x->spec.retry_lost = x->spec.retries = 1;
    send(b, x);
    bench_settle(b, 0);
    finish(b, 1, RUN_END_SUPERVISOR_KILLED, 0);
    bench_settle(b, 0);
    finish(b, 1, RUN_END_EXITED, W_EXITCODE(1, 0));
    assert_non_null(live(b, 1));
    finish(b, 1, RUN_END_EXITED, W_EXITCODE(1, 0));
    assert_int_equal(state_of(b, 1), JOB_FAILED);
}

/* The run of job 1 ends while the disk is full. */
static void finish_on_a_full_disk(struct bench *b, int status, int sys)
{
    live(b, 1)->outcome.sys = sys;
    finish(b, 1, RUN_END_EXITED, status);
    assert_int_equal(state_of(b, 1), JOB_QUEUED);
    assert_int_equal(b->disk.jobs.p[0].rec.tries, 0);
}

/* The next run does not begin before `ms` are over, and then it does. */
static void runs_again_after(struct bench *b, int64_t ms)
{
    b->world.now += ms - 1;
    bench_settle(b, 0);
    assert_null(live(b, 1));
    b->world.now += 1;
    bench_settle(b, 0);
    assert_non_null(live(b, 1));
}

/* Neither failed nor succeeded, however often it happens; the pause doubles up to an hour, and
 * a restart forgets nothing. */
static void nothing_ends_because_a_disk_was_full(void **state)
{
    struct bench *b = *state;
    int64_t pause = 1000;

    send(b, make(1));
    bench_settle(b, 0);
    for (int k = 1; k <= 20; k++) {
        finish_on_a_full_disk(b, k % 3 ? W_EXITCODE(1, 0) : 0, k % 2 ? ENOSPC : EDQUOT);
        assert_non_null(strstr(b->disk.detail, "was full"));
        if (k % 5 == 0) {
            bench_crash(b);
            bench_boot(b);
        }
        runs_again_after(b, pause);
        pause = MIN(2 * pause, (int64_t)3600 * 1000);
    }
    assert_non_null(strstr(b->disk.detail, "20 times in a row; it runs again when there is space"));
    finish(b, 1, RUN_END_EXITED, W_EXITCODE(7, 0));
    assert_int_equal(state_of(b, 1), JOB_FAILED);
}

/* A run that failed on a disk with space in between: what was before is forgotten. */
static void full_disks_count_in_a_row(void **state)
{
    struct bench *b = *state;
    struct one *x = make(1);

    x->spec.retries = 1;
    x->spec.backoff_ms = 10;
    send(b, x);
    bench_settle(b, 0);
    finish_on_a_full_disk(b, W_EXITCODE(1, 0), ENOSPC);
    runs_again_after(b, 1000);
    finish_on_a_full_disk(b, W_EXITCODE(1, 0), ENOSPC);
    runs_again_after(b, 2000);
    finish(b, 1, RUN_END_EXITED, W_EXITCODE(1, 0));
    runs_again_after(b, 10);
    live(b, 1)->outcome.sys = ENOSPC;
    finish(b, 1, RUN_END_EXITED, W_EXITCODE(1, 0));
    runs_again_after(b, 1000);
    finish(b, 1, RUN_END_EXITED, W_EXITCODE(1, 0));
    assert_int_equal(state_of(b, 1), JOB_FAILED);
}

static void dependencies_order_and_fail_together(void **state)
{
    struct bench *b = *state;
    uint64_t first = submit(b);
    struct one *x = make(2);

    x->after = first;
    x->jobs[0].after = &x->after;
    x->jobs[0].n_after = 1;
    send(b, x);
    bench_settle(b, 0);
    assert_null(live(b, 2)); /* waits */
    assert_non_null(live(b, 3));
    struct one *y = make(1);
    y->after = 2;
    y->jobs[0].after = &y->after;
    y->jobs[0].n_after = 1;
    send(b, y);
    bench_settle(b, 0);
    finish(b, first, RUN_END_EXITED, W_EXITCODE(1, 0));
    assert_int_equal(state_of(b, 2), JOB_CANCELLED);
    assert_int_equal(state_of(b, 4), JOB_CANCELLED); /* and what waits for that */
    struct one *z = make(1);
    z->after = first;
    z->jobs[0].after = &z->after;
    z->jobs[0].n_after = 1;
    send(b, z);
    assert_int_equal(b->err.code, ERR_CONFLICT); /* it could never start */
}

static void an_unknown_dependency_is_refused(void **state)
{
    struct bench *b = *state;
    struct one *x = make(1);

    x->after = 99;
    x->jobs[0].after = &x->after;
    x->jobs[0].n_after = 1;
    send(b, x);
    assert_int_equal(b->err.code, ERR_NOT_FOUND);
    assert_int_equal(core_stats(b->core).queued, 0);
}

static void cancel_reaches_waiting_and_running(void **state)
{
    struct bench *b = *state;
    uint64_t jobs[4] = {submit(b), submit(b), submit(b), 77};

    core_cancel(b->core, jobs, 4, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.done, 3);
    assert_int_equal(b->acted.already, 1);
    assert_int_equal(state_of(b, jobs[2]), JOB_CANCELLED);
    assert_int_equal(state_of(b, jobs[0]), JOB_STOPPING);
    world_advance(&b->world, 100);
    bench_settle(b, 0);
    assert_int_equal(state_of(b, jobs[0]), JOB_CANCELLED);
    assert_int_equal(state_of(b, jobs[1]), JOB_CANCELLED);
}

/* A crash before the commit would leave a run that was stopped for no reason that anybody knows. */
static void a_run_is_stopped_after_the_commit(void **state)
{
    struct bench *b = *state;
    const struct sim_host *h = &b->world.hosts[0];
    uint64_t n;

    send(b, make(1));
    while (!h->channel.n)
        bench_turn(b);
    n = b->submitted.first;
    core_cancel(b->core, &n, 1, &owner, on_acted, b);
    world_deliver_msg(&b->world); /* the start */
    while (h->read < h->journal.n)
        world_deliver_happening(&b->world);
    assert_int_equal(h->channel.n, 0);
    bench_turn(b);
    assert_int_equal(h->channel.n, 1);
    assert_true(h->channel.p[0].stop);
    bench_settle(b, 0);
    world_advance(&b->world, 100);
    bench_settle(b, 0);
    assert_int_equal(state_of(b, n), JOB_CANCELLED);
}

static void a_job_that_is_being_removed_is_gone(void **state)
{
    struct bench *b = *state;
    uint64_t n = submit(b);

    finish(b, n, RUN_END_EXITED, 0);
    core_remove(b->core, &n, 1, &owner, on_acted, b);
    core_retry(b->core, &n, 1, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.unknown, 1);
    assert_int_equal(b->acted.done, 0);
    assert_null(live(b, n));
}

/* Nobody is told that a job is gone before the store has agreed. */
static void a_refused_removal_leaves_the_job(void **state)
{
    struct bench *b = *state;
    uint64_t n = submit(b);

    finish(b, n, RUN_END_EXITED, 0);
    b->answers = 0;
    b->disk.full = true;
    core_remove(b->core, &n, 1, &owner, on_acted, b);
    core_retry(b->core, &n, 1, &owner, on_acted, b);
    bench_turn(b);
    assert_int_equal(b->answers, 2);
    assert_int_equal(b->err.code, ERR_FULL);
    assert_true(b->disk.jobs.p[n - 1].exists);
    b->disk.full = false;
    core_retry(b->core, &n, 1, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.done, 1);
    assert_non_null(live(b, n));
}

/* Readers may see the end before the core hears of its commit. */
static void a_retry_waits_for_the_end_to_be_durable(void **state)
{
    struct bench *b = *state;
    const struct sim_host *h = &b->world.hosts[0];
    uint64_t n = submit(b);

    world_finish(&b->world, (size_t)(live(b, n) - b->world.execs.p), RUN_END_EXITED, 0);
    while (h->read < h->journal.n)
        world_deliver_happening(&b->world);
    core_retry(b->core, &n, 1, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.done, 1);
    assert_non_null(live(b, n));
}

static void strangers_touch_nothing(void **state)
{
    struct bench *b = *state;
    uint64_t n = submit(b);

    core_cancel(b->core, &n, 1, &stranger, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.denied, 1);
    assert_non_null(live(b, n));
    finish(b, n, RUN_END_EXITED, 0);
    core_retry(b->core, &n, 1, &stranger, on_acted, b);
    core_remove(b->core, &n, 1, &stranger, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.denied, 1);
    assert_int_equal(state_of(b, n), JOB_SUCCEEDED);
    core_pause(b->core, STR("default"), true, &stranger, on_acted, b);
    assert_int_equal(b->err.code, ERR_DENIED);
}

static void retry_by_hand_gives_a_new_run(void **state)
{
    struct bench *b = *state;
    uint64_t n = submit(b);

    core_retry(b->core, &n, 1, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.already, 1);
    finish(b, n, RUN_END_EXITED, W_EXITCODE(1, 0));
    core_retry(b->core, &n, 1, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.done, 1);
    assert_int_equal(live(b, n)->key.run, 2);
}

static void a_paused_queue_starts_nothing(void **state)
{
    struct bench *b = *state;
    const struct caller admin = {.admin = true, .user = "root"};

    core_pause(b->core, STR("default"), true, &admin, on_acted, b);
    uint64_t n = submit(b);
    assert_null(live(b, n));
    bench_crash(b);
    bench_boot(b); /* it is remembered */
    bench_settle(b, 0);
    assert_null(live(b, n));
    core_pause(b->core, STR("default"), false, &admin, on_acted, b);
    bench_settle(b, 0);
    assert_non_null(live(b, n));
}

static void a_refused_submission_leaves_nothing(void **state)
{
    struct bench *b = *state;

    b->disk.full = true;
    send(b, make(3));
    bench_settle(b, 0);
    assert_int_equal(b->err.code, ERR_FULL);
    assert_int_equal(core_stats(b->core).queued, 0);
    send(b, make(1)); /* refused at once while the store is unhealthy */
    assert_int_equal(b->err.code, ERR_FULL);
}

static void running_jobs_are_adopted_after_a_crash(void **state)
{
    struct bench *b = *state;
    uint64_t a = submit(b), c = submit(b), waiting = submit(b);

    bench_crash(b);
    struct exec *x = live(b, c);
    world_finish(&b->world, (size_t)(x - b->world.execs.p), RUN_END_EXITED, W_EXITCODE(7, 0));
    bench_boot(b);
    core_turn(b->core);
    assert_int_equal(b->world.hosts[0].channel.n, 0); /* nothing before the host has answered */
    bench_settle(b, 0);
    assert_int_equal(state_of(b, c), JOB_FAILED);
    assert_int_equal(state_of(b, a), JOB_RUNNING);
    assert_non_null(live(b, waiting));
}

static void a_run_without_trace_starts_again_under_its_key(void **state)
{
    struct bench *b = *state;

    send(b, make(1));
    bench_turn(b);
    bench_turn(b); /* recorded and sent, not received */
    assert_int_equal(b->world.hosts[0].channel.n, 1);
    bench_crash(b);
    vec_clear(&b->world.hosts[0].stale);
    bench_boot(b);
    bench_settle(b, 0);
    assert_non_null(live(b, 1));
    assert_int_equal(live(b, 1)->key.run, 1);
}

static void short_jobs_are_handed_over_ahead(void **state)
{
    struct bench *b = *state;
    struct one *x = make(8);

    send(b, x);
    bench_settle(b, 0);
    finish(b, 1, RUN_END_EXITED, 0);
    assert_int_equal(b->world.hosts[0].gated.n, 5); /* two chains, */
    struct msg *m = b->world.hosts[0].gated.p;
    assert_true(m[0].after.job != m[1].after.job); /* filled in turn */
    finish(b, 2, RUN_END_EXITED, 0);
    assert_int_equal(core_usage(b->core, 0)->slots, 2);
    assert_int_equal(b->world.hosts[0].gated.n, 4);
    /* What was taken for short turns out long: those behind it go back. */
    b->world.now += 1000;
    bench_settle(b, 0);
    assert_int_equal(b->world.hosts[0].gated.n, 0);
    assert_int_equal(core_usage(b->core, 0)->slots, 2);
    assert_int_equal(b->disk.jobs.p[4].rec.tries, 0);
    assert_int_equal(b->disk.jobs.p[4].rec.attempt, 0);
    assert_int_equal(b->disk.ahead.n, 0);
    assert_int_equal(core_stats(b->core).queued, 4);
}

/* Until the host says that it runs, it is a waiting job to everybody. */
static void what_was_sent_ahead_still_waits(void **state)
{
    struct bench *b = *state;
    struct one *x = make(8);
    const uint64_t jobs[] = {4, 5, 6};

    send(b, x);
    bench_settle(b, 0);
    finish(b, 1, RUN_END_EXITED, 0);
    assert_int_equal(b->world.hosts[0].gated.n, 5);
    assert_int_equal(b->disk.ahead.n, 5);
    assert_int_equal(core_stats(b->core).queued, 5);
    core_hold(b->core, jobs, 2, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.done, 2);
    core_cancel(b->core, &jobs[2], 1, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.done, 1);
    assert_int_equal(b->disk.jobs.p[3].rec.state, JOB_HELD);
    assert_int_equal(b->disk.jobs.p[4].rec.state, JOB_HELD);
    assert_int_equal(b->disk.jobs.p[5].rec.state, JOB_CANCELLED);
    assert_int_equal(b->disk.runs.n, 3); /* the one that ended and the two that run */
    assert_int_equal(core_usage(b->core, 0)->slots, 2);
    core_release(b->core, jobs, 2, &owner, on_acted, b);
    for (size_t i = 0; i < b->world.execs.n; i++)
        if (b->world.execs.p[i].live)
            finish(b, b->world.execs.p[i].key.job, RUN_END_EXITED, 0);
    for (uint64_t n = 1; n <= 8; n++)
        assert_int_equal(b->disk.jobs.p[n - 1].rec.attempt, n != 6);
}

/* It starts while somebody asks to hold it: then it is not held. */
static void a_start_sent_ahead_wins_against_a_late_hold(void **state)
{
    struct bench *b = *state;
    struct one *x = make(4);
    const uint64_t job = 4;

    send(b, x);
    bench_settle(b, 0);
    finish(b, 1, RUN_END_EXITED, 0);
    assert_int_equal(b->world.hosts[0].gated.n, 1);
    core_hold(b->core, &job, 1, &owner, on_acted, b);
    /* Before the host hears of the request: */
    finish(b, b->world.hosts[0].gated.p[0].after.job, RUN_END_EXITED, 0);
    assert_int_equal(b->acted.already, 1);
    assert_int_equal(b->disk.jobs.p[3].rec.state, JOB_RUNNING);
    assert_int_equal(b->disk.jobs.p[3].rec.attempt, 1);
}

static void tokens_open_their_own_job_only(void **state)
{
    struct bench *b = *state;
    char token[JOB_TOKEN_MAX];
    struct run_key key = {0}, now = {0};
    uint64_t n = submit(b);

    assert_true(core_job_active(b->core, n, &now) && now.tag);
    core_job_token(b->core, now, token);
    assert_true(core_job_token_check(b->core, str_of(token), &key));
    assert_true(run_key_eq(key, now));
    token[0]++;
    assert_false(core_job_token_check(b->core, str_of(token), &key));
    /* That of another job which had the number, in another life of the home. */
    core_job_token(b->core, (struct run_key){now.job, now.run, now.tag ^ 1}, token);
    assert_false(core_job_token_check(b->core, str_of(token), &key));
    core_job_token(b->core, (struct run_key){now.job, now.run, 0}, token);
    assert_false(core_job_token_check(b->core, str_of(token), &key));
    core_job_token(b->core, (struct run_key){12, 3, now.tag}, token); /* no such job */
    assert_false(core_job_token_check(b->core, str_of(token), &key));
    assert_false(core_job_token_check(b->core, STR(""), &key));
    assert_false(core_job_token_check(b->core, STR("12.3."), &key));
    assert_false(core_job_token_check(b->core, STR("12.3"), &key));
}

static void on_reported(void *arg, const struct err *e, int64_t offset)
{
    struct bench *b = arg;

    b->answers++;
    b->err = e ? *e : (struct err){0};
    b->offset = offset;
}

static void a_report_counts_once(void **state)
{
    struct bench *b = *state;
    uint64_t n = submit(b);
    struct run_key key = {0};
    assert_true(core_job_active(b->core, n, &key));
    struct str lines =
        STR("{\"k\":\"m\",\"n\":\"loss\",\"v\":0.5,\"s\":1}\n{\"k\":\"e\",\"s\":1}\n{\"k\":");
    size_t whole = lines.n - 5;

    core_report(b->core, key, 0, lines, on_reported, b);
    size_t staged = b->disk.ops.n;
    bench_settle(b, 0);
    assert_int_equal(b->offset, whole); /* the half line waits for its rest */
    assert_true(staged >= 4);           /* two reports, the offset, the barrier */
    core_report(b->core, key, 0, lines, on_reported, b);
    assert_int_equal(b->disk.ops.n, 1); /* only the barrier: nothing new */
    bench_settle(b, 0);
    assert_int_equal(b->offset, whole);
    core_report(b->core, (struct run_key){n, 9, key.tag}, 0, lines, on_reported, b);
    assert_int_equal(b->err.code, ERR_CONFLICT);
}

static void every_wait_has_a_reason(void **state)
{
    struct bench *b = *state;
    struct err e;
    struct json *why = NULL;

    submit(b);
    submit(b);
    uint64_t n = submit(b);
    assert_int_equal(core_explain(b->core, n, &why, &e), 0);
    assert_string_equal(json_str(json_get(why, "kind")).p, "slots");
    json_free(why);
    assert_int_equal(core_explain(b->core, 1, &why, &e), 0);
    assert_string_equal(json_str(json_get(why, "kind")).p, "running");
    json_free(why);
    assert_int_equal(core_explain(b->core, 1234, &why, &e), -1);
}

static void a_wait_knows_when_runs_end(void **state)
{
    struct bench *b = *state;
    struct err e;
    struct json *why = NULL;

    for (int i = 0; i < 2; i++) {
        struct one *x = make(1);
        x->spec.timeout_ms = 100000;
        send(b, x);
        bench_settle(b, 0);
    }
    uint64_t n = submit(b);
    for (int booted = 0; booted < 2; booted++) { /* the same after a restart */
        assert_int_equal(core_explain(b->core, n, &why, &e), 0);
        assert_string_equal(json_str(json_get(why, "kind")).p, "slots");
        assert_in_range(json_int(json_get(why, "in_ms")), 100000, 200000); /* limit and grace */
        json_free(why);
        bench_crash(b);
        bench_boot(b);
        bench_settle(b, 0);
    }
}

/* A held job waits, also over a restart; dependencies and cancel reach it all the same. */
static void a_held_job_waits_for_its_release(void **state)
{
    struct bench *b = *state;
    struct json *why;
    struct err e;

    uint64_t first = submit(b);
    struct one *x = make(1);
    x->spec.hold = true;
    x->after = first;
    x->jobs[0].after = &x->after;
    x->jobs[0].n_after = 1;
    send(b, x);
    bench_settle(b, 0);
    uint64_t job = b->submitted.first;
    core_hold(b->core, &first, 1, &owner, on_acted, b); /* it runs */
    bench_settle(b, 0);
    assert_int_equal(b->acted.already, 1);
    finish(b, first, RUN_END_EXITED, 0);
    for (int booted = 0; booted < 2; booted++) {
        assert_null(live(b, job));
        assert_int_equal(b->disk.jobs.p[job - 1].rec.state, JOB_HELD);
        assert_int_equal(core_stats(b->core).on_hold, 1);
        assert_int_equal(core_explain(b->core, job, &why, &e), 0);
        assert_string_equal(json_str(json_get(why, "kind")).p, "held");
        json_free(why);
        bench_crash(b);
        bench_boot(b);
        bench_settle(b, 0);
    }
    core_release(b->core, &job, 1, &stranger, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.denied, 1);
    core_release(b->core, &job, 1, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.done, 1);
    assert_non_null(live(b, job));
    core_release(b->core, &job, 1, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->acted.already, 1);
    finish(b, job, RUN_END_EXITED, 0);

    first = submit(b);
    x = make(1);
    x->after = first;
    x->jobs[0].after = &x->after;
    x->jobs[0].n_after = 1;
    send(b, x);
    bench_settle(b, 0);
    job = b->submitted.first;
    core_hold(b->core, &job, 1, &owner, on_acted, b);
    core_hold(b->core, &job, 1, &owner, on_acted, b); /* again: it is held, as wanted */
    bench_settle(b, 0);
    assert_int_equal(b->acted.done, 1);
    finish(b, first, RUN_END_EXITED, 0);
    assert_null(live(b, job));
    core_cancel(b->core, &job, 1, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->disk.jobs.p[job - 1].rec.state, JOB_CANCELLED);
    assert_int_equal(core_stats(b->core).on_hold, 0);
}

/* A strict queue of one: in order, as people put it, also after a restart. */
static void a_queue_with_rules(void **state)
{
    static const struct caller admin = {.uid = 0, .user = "root", .admin = true};
    struct bench *b = *state;
    struct queue_rules rules = {.strict = true, .limit = 1};
    uint64_t jobs[4], *list;

    core_queue_rules(b->core, STR("default"), &rules, &owner, on_acted, b);
    assert_int_equal(b->err.code, ERR_DENIED);
    core_queue_rules(b->core, STR("default"), &rules, &admin, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->err.code, ERR_NONE);
    for (size_t i = 0; i < 4; i++)
        jobs[i] = submit(b);
    assert_non_null(live(b, jobs[0]));
    assert_null(live(b, jobs[1])); /* there is a second slot */
    core_queue_move(b->core, jobs[3], 0, &owner, on_acted, b);
    bench_settle(b, 0);
    for (int booted = 0; booted < 2; booted++) {
        assert_int_equal(core_queue_list(b->core, STR("default"), &list), 3);
        assert_int_equal(list[0], jobs[3]);
        assert_int_equal(list[1], jobs[1]);
        assert_int_equal(list[2], jobs[2]);
        free(list);
        assert_int_equal(core_queue_rules_of(b->core, STR("default")).limit, 1);
        bench_crash(b);
        bench_boot(b);
        bench_settle(b, 0);
    }
    core_queue_move(b->core, jobs[0], 0, &owner, on_acted, b); /* it runs */
    assert_int_equal(b->err.code, ERR_NOT_FOUND);
    core_queue_move(b->core, jobs[2], 0, &stranger, on_acted, b);
    assert_int_equal(b->err.code, ERR_DENIED);
    finish(b, jobs[0], RUN_END_EXITED, 0);
    assert_non_null(live(b, jobs[3]));
    assert_null(live(b, jobs[1]));
    core_queue_move(b->core, jobs[1], 99, &owner, on_acted, b);
    bench_settle(b, 0);
    finish(b, jobs[3], RUN_END_EXITED, 0);
    assert_non_null(live(b, jobs[2]));
    rules.limit = 2;
    core_queue_rules(b->core, STR("default"), &rules, &admin, on_acted, b);
    bench_settle(b, 0);
    assert_non_null(live(b, jobs[1]));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        T(a_single_job_keeps_the_id_it_comes_with),
        T(a_job_is_answered_after_its_commit),
        T(nothing_starts_before_its_placement_is_durable),
        T(success_and_failure),
        T(retries_wait_longer_each_time),
        T(lost_runs_are_repeated_as_often_as_asked),
        T(a_repeated_lost_run_uses_up_no_retry),
        T(nothing_ends_because_a_disk_was_full),
        T(full_disks_count_in_a_row),
        T(a_missing_command_is_not_retried),
        T(a_killed_supervisor_means_lost),
        T(dependencies_order_and_fail_together),
        T(an_unknown_dependency_is_refused),
        T(cancel_reaches_waiting_and_running),
        T(a_run_is_stopped_after_the_commit),
        T(a_job_that_is_being_removed_is_gone),
        T(a_refused_removal_leaves_the_job),
        T(a_retry_waits_for_the_end_to_be_durable),
        T(strangers_touch_nothing),
        T(retry_by_hand_gives_a_new_run),
        T(a_paused_queue_starts_nothing),
        T(a_refused_submission_leaves_nothing),
        T(running_jobs_are_adopted_after_a_crash),
        T(a_run_without_trace_starts_again_under_its_key),
        T(short_jobs_are_handed_over_ahead),
        T(what_was_sent_ahead_still_waits),
        T(a_start_sent_ahead_wins_against_a_late_hold),
        T(tokens_open_their_own_job_only),
        T(a_report_counts_once),
        T(every_wait_has_a_reason),
        T(a_wait_knows_when_runs_end),
        T(a_held_job_waits_for_its_release),
        T(a_queue_with_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
