/* test_outside.c - runs of processes that berth has not started: no node, no room, an end by report
 */
#include "base/util.h"
#include "core/bench.h"
#include "core/core_priv.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static const struct caller owner = {.uid = 1000, .user = "ada", .admin = true};

/* Watches nothing: remembers what core asked for. */
struct fake_watch {
    struct run_key key;
    struct outside_process process;
    int begun, heard, stopped, ended;
};

static bool fake_pid_start(void *self, int64_t pid, int64_t *out)
{
    (void)self;
    *out = pid * 10;
    return true;
}

static void fake_begin(void *self, struct run_key key, const struct outside_process *p)
{
    struct fake_watch *w = self;

    w->begun++;
    w->key = key;
    w->process = *p;
}

static void fake_heard(void *self, struct run_key key)
{
    (void)key;
    ((struct fake_watch *)self)->heard++;
}

static void fake_stop(void *self, struct run_key key)
{
    (void)key;
    ((struct fake_watch *)self)->stopped++;
}

static void fake_end(void *self, struct run_key key)
{
    (void)key;
    ((struct fake_watch *)self)->ended++;
}

static const struct outside_ops fake_ops = {.pid_start = fake_pid_start,
                                            .begin = fake_begin,
                                            .heard = fake_heard,
                                            .stop = fake_stop,
                                            .end = fake_end};

static void commit(struct bench *b)
{
    for (int i = 0; i < 4; i++) {
        core_turn(b->core);
        disk_seal(&b->disk);
        disk_commit(&b->disk);
    }
}

static void on_begun(void *arg, const struct err *e, const struct submitted *r)
{
    struct bench *b = arg;

    b->err = e ? *e : (struct err){0};
    if (r)
        b->submitted = *r;
}

static void on_acted(void *arg, const struct err *e, const struct acted *r)
{
    struct bench *b = arg;

    b->err = e ? *e : (struct err){0};
    if (r)
        b->acted = *r;
}

static uint64_t begin(struct bench *b, int64_t pid)
{
    const struct outside_start o = {.name = "mine", .pid = pid, .silence_ms = 7000};

    core_outside_begin(b->core, &o, &owner, on_begun, b);
    commit(b);
    assert_int_equal(b->err.code, 0);
    return b->submitted.first;
}

static enum job_state state_of(const struct bench *b, uint64_t job)
{
    return b->disk.jobs.p[job - 1].rec.state;
}

static int setup(void **state)
{
    struct bench *b = bench_new(&(struct core_conf){.lookahead = true}, 1, 1);

    bench_boot(b);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    bench_free(*state);
    return 0;
}

static void without_a_watch_it_is_refused(void **state)
{
    struct bench *b = *state;

    core_outside_begin(b->core, &(struct outside_start){.name = "x"}, &owner, on_begun, b);
    assert_int_equal(b->err.code, ERR_UNAVAILABLE);
}

static void it_is_no_node_and_takes_no_room(void **state)
{
    struct bench *b = *state;
    struct fake_watch w = {0};
    size_t nodes = core_node_count(b->core);

    core_track_outside(b->core, &fake_ops, &w);
    uint64_t job = begin(b, 77);
    assert_int_equal(w.begun, 1);
    assert_int_equal(w.key.job, job);
    assert_int_equal(w.process.pid, 77);
    assert_int_equal(w.process.pid_start, 770);
    assert_int_equal(w.process.silence_ms, 7000);
    assert_int_equal(state_of(b, job), JOB_RUNNING);
    assert_int_equal(core_node_count(b->core), nodes);
    assert_null(core_node_find(b->core, STR(OUTSIDE_NODE), NULL));
    for (size_t i = 0; i < nodes; i++) {
        const struct node *n = core_node(b->core, i);
        assert_ptr_equal(n, core_node_find(b->core, str_of(n->name), NULL));
        assert_int_equal(core_usage(b->core, i)->slots, 0);
    }
    core_drain(b->core, STR(OUTSIDE_NODE), true, &owner, on_acted, b);
    assert_int_equal(b->err.code, ERR_NOT_FOUND);
    struct json *why;
    struct err e;
    assert_int_equal(core_explain(b->core, job, &why, &e), 0);
    assert_string_equal(json_str(json_get(why, "text")).p, "its process runs outside of berth");
    json_free(why);
}

static struct run_key key_of(struct bench *b, uint64_t job)
{
    struct run_key key = {0};

    assert_true(core_job_active(b->core, job, &key));
    return key;
}

static void it_ends_by_report_or_is_lost(void **state)
{
    struct bench *b = *state;
    struct fake_watch w = {0};

    core_track_outside(b->core, &fake_ops, &w);
    uint64_t told = begin(b, 5), vanished = begin(b, 0);
    struct run_key key = key_of(b, told);
    core_heard(b->core, key);
    core_heard(b->core, (struct run_key){told, 2, key.tag});
    core_heard(b->core, (struct run_key){told, 1, key.tag + 1}); /* another job of that number */
    assert_int_equal(w.heard, 1);
    core_outside_end(b->core, told, 3, STR("on purpose"), &owner, on_acted, b);
    core_outside_gone(b->core, key_of(b, vanished), STR("gone"));
    commit(b);
    assert_int_equal(state_of(b, told), JOB_FAILED);
    assert_int_equal(state_of(b, vanished), JOB_LOST);
    assert_int_equal(w.ended, 2);
}

static void a_cancelled_one_is_asked_to_exit(void **state)
{
    struct bench *b = *state;
    struct fake_watch w = {0};

    core_track_outside(b->core, &fake_ops, &w);
    uint64_t job = begin(b, 5);
    core_cancel(b->core, &job, 1, &owner, on_acted, b);
    commit(b);
    assert_int_equal(w.stopped, 1);
    core_outside_gone(b->core, key_of(b, job), STR("gone"));
    commit(b);
    assert_int_equal(state_of(b, job), JOB_CANCELLED);
}

static void it_survives_a_restart(void **state)
{
    struct bench *b = *state;
    struct fake_watch before = {0}, after = {0};

    core_track_outside(b->core, &fake_ops, &before);
    uint64_t job = begin(b, 5);
    bench_crash(b);
    bench_boot(b);
    core_track_outside(b->core, &fake_ops, &after);
    commit(b);
    assert_int_equal(after.begun, 1);
    assert_int_equal(after.process.pid, 5);
    assert_int_equal(after.process.pid_start, 50);
    assert_int_equal(state_of(b, job), JOB_RUNNING);
    assert_null(core_node_find(b->core, STR(OUTSIDE_NODE), NULL));
    core_outside_end(b->core, job, 0, STR(""), &owner, on_acted, b);
    commit(b);
    assert_int_equal(state_of(b, job), JOB_SUCCEEDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_watch_it_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_no_node_and_takes_no_room, setup, teardown),
        cmocka_unit_test_setup_teardown(it_ends_by_report_or_is_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_one_is_asked_to_exit, setup, teardown),
        cmocka_unit_test_setup_teardown(it_survives_a_restart, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
