/* test_schedule_core.c - schedules in the controller: due, overlapping, missed, changed, crashed */
#include "base/util.h"
#include "core/bench.h"
#include "core/schedule.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct caller owner = {.uid = 1000, .user = "ada"};
static const struct caller stranger = {.uid = 2000, .user = "eve"};

/* The bench begins 20 s past a minute, at 22:30:20: the first full minutes come after 40 and 100 s.
 */
#define START_MS 1020000
#define START_S ((SIM_EPOCH_MS + START_MS) / 1000)

/* What ops->fire does next, and what it did. */
struct fires {
    struct firing *waiting; /* not answered yet */
    bool later;             /* keep the next one in `waiting` */
    enum err_code fail;     /* 0 = make the job */
    VEC(int64_t) moments;   /* of all firings, in order */
    char notice[400];
};
static struct fires fires;

struct one {
    struct submission s;
    struct spec_row spec;
    struct job_row job;
};

static void free_one(struct submission *s)
{
    free(s);
}

static void answer(struct firing *f)
{
    struct one *x = xcalloc(1, sizeof(*x));
    struct err e = {0};

    if (fires.fail) {
        err_set(&e, fires.fail, "no such bundle");
        free(x);
        core_fired_take(f, NULL, &e);
        return;
    }
    x->spec = (struct spec_row){.body = STR("{}"),
                                .name = STR("n"),
                                .project = STR("p"),
                                .queue = STR("default"),
                                .need = {.slots = 1}};
    x->s = (struct submission){
        .specs = &x->spec, .n_specs = 1, .jobs = &x->job, .n_jobs = 1, .free_fn = free_one};
    core_fired_take(f, &x->s, NULL);
}

static void on_fire(void *self, struct firing *f)
{
    (void)self;
    vec_push(&fires.moments, f->at_s);
    if (fires.later)
        fires.waiting = f;
    else
        answer(f);
}

static void on_notice(void *self, struct str text)
{
    (void)self;
    snprintf(fires.notice, sizeof(fires.notice), STR_FMT, STR_ARG(text));
}

static const struct core_ops ops = {.fire = on_fire, .notice = on_notice};

static int setup(void **state)
{
    struct bench *b = bench_new(&(struct core_conf){.ops = &ops}, 1, 2);

    fires = (struct fires){0};
    b->world.now = START_MS;
    bench_boot(b);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    bench_free(*state);
    vec_done(&fires.moments);
    return 0;
}

static void on_acted(void *arg, const struct err *e, const struct acted *r)
{
    struct bench *b = arg;

    (void)r;
    b->answers++;
    b->err = e ? *e : (struct err){0};
}

static void on_run(void *arg, const struct err *e, const struct submitted *r)
{
    struct bench *b = arg;

    b->answers++;
    b->err = e ? *e : (struct err){0};
    if (r)
        b->submitted = *r;
}

/* Adds a schedule; the answer is in b->err. */
static uint64_t add(struct bench *b, const char *name, const char *def, const struct caller *who)
{
    AUTO(json) struct json *j = NULL;
    struct err e;

    assert_int_equal(json_parse(str_of(def), "definition", &j, &e), 0);
    core_schedule_add(b->core, &(struct schedule_request){.name = str_of(name), .def = j}, who,
                      on_acted, b);
    bench_settle(b, 0);
    const struct schedule *s = core_schedule_find(b->core, str_of(name), who->uid);
    return s ? s->seq : 0;
}

static void pass(struct bench *b, int64_t s)
{
    world_advance(&b->world, s * 1000);
    bench_settle(b, 0);
}

/* The moments that fired, in seconds since the start. */
static const char *fired(void)
{
    static char text[400];
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < fires.moments.n; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%lld", i ? " " : "",
                              (long long)(fires.moments.p[i] - START_S));
    return text;
}

static const struct schedule *first(struct bench *b)
{
    return core_schedule_at(b->core, 0);
}

#define MINUTES "\"cron\": \"* * * * *\""

static void test_moments_become_jobs(void **state)
{
    struct bench *b = *state;
    uint64_t seq = add(b, "m", "{" MINUTES ", \"overlap\": \"queue\"}", &owner);

    assert_int_equal(b->err.code, 0);
    assert_true(seq && core_schedules_wait(b->core));
    assert_int_equal(first(b)->next_s, START_S + 40);
    assert_true(core_next_wake(b->core) > b->world.now &&
                core_next_wake(b->core) <= b->world.now + 20000);
    pass(b, 39);
    assert_string_equal(fired(), "");
    pass(b, 1);
    pass(b, 60);
    assert_string_equal(fired(), "40 100");
    assert_int_equal(first(b)->last_job, 2);
    assert_int_equal(b->disk.schedules.p[0].row.settled_s, START_S + 100);
    /* The same again changes nothing, another definition needs another name. */
    assert_int_equal(add(b, "m", "{" MINUTES ", \"overlap\": \"queue\"}", &owner), seq);
    assert_int_equal(b->err.code, 0);
    add(b, "m", "{" MINUTES "}", &owner);
    assert_int_equal(b->err.code, ERR_CONFLICT);
    assert_int_not_equal(add(b, "m", "{" MINUTES "}", &stranger), seq);
    add(b, "bad", "{\"cron\": \"61 * * * *\"}", &owner);
    assert_int_equal(b->err.code, ERR_INVALID);
    add(b, "a/b", "{" MINUTES "}", &owner);
    assert_int_equal(b->err.code, ERR_INVALID);
    assert_int_equal(core_schedule_count(b->core), 2);
}

static enum job_state state_of(struct bench *b, uint64_t job)
{
    return b->disk.jobs.p[job - 1].rec.state;
}

static void end_job(struct bench *b, uint64_t job)
{
    for (size_t i = 0; i < b->world.execs.n; i++)
        if (b->world.execs.p[i].key.job == job && b->world.execs.p[i].live)
            world_finish(&b->world, i, RUN_END_EXITED, 0);
    bench_settle(b, 0);
}

static void test_overlap(void **state)
{
    struct bench *b = *state;

    add(b, "m", "{" MINUTES "}", &owner);
    pass(b, 40);
    assert_int_equal(state_of(b, 1), JOB_RUNNING);
    pass(b, 60);
    assert_string_equal(fired(), "40");
    assert_string_equal(first(b)->trouble,
                        "the run of 2023-11-14 22:32:00 was skipped: job 1 has not ended");
    end_job(b, 1);
    pass(b, 60);
    assert_string_equal(fired(), "40 160");
    assert_null(first(b)->trouble);
    /* Replace: the older job is told to stop, the new one is there at once. */
    AUTO(json) struct json *def = NULL;
    struct err e;
    assert_int_equal(json_parse(STR("{" MINUTES ", \"overlap\": \"replace\"}"), "x", &def, &e), 0);
    core_schedule_set(b->core, first(b)->seq, def, false, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->err.code, 0);
    pass(b, 60);
    assert_string_equal(fired(), "40 160 220");
    assert_true(state_of(b, 2) == JOB_STOPPING || state_of(b, 2) == JOB_CANCELLED);
    assert_int_equal(first(b)->last_job, 3);
}

static void restart(struct bench *b)
{
    bench_crash(b);
    bench_boot(b);
    bench_settle(b, 0);
}

static void test_missed(void **state)
{
    static const struct {
        const char *def, *fired;
    } rules[] = {
        {"{" MINUTES ", \"overlap\": \"queue\"}", "40 220"},
        {"{" MINUTES ", \"catch_up\": \"all\"}", "40 100 160 220"},
        {"{" MINUTES ", \"catch_up\": \"none\", \"overlap\": \"queue\"}", "40 220"},
        {"{\"cron\": \"31 * * * *\", \"catch_up\": \"none\"}", "40"},
        {"{\"cron\": \"31,33 * * * *\", \"overlap\": \"queue\"}", "40 160"},
        {"{\"cron\": \"31,33 * * * *\", \"catch_up\": \"none\"}", "40"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        if (i) {
            teardown(state);
            setup(state);
        }
        struct bench *b = *state;
        add(b, "m", rules[i].def, &owner);
        pass(b, 40);
        world_advance(&b->world, 195 * 1000); /* now 235 s: nobody looked */
        restart(b);
        if (strcmp(fired(), rules[i].fired) != 0)
            fail_msg("%s: %s", rules[i].def, fired());
        restart(b);
        assert_string_equal(fired(), rules[i].fired);
    }
    assert_non_null(strstr(fires.notice, "the run of 2023-11-14 22:33:00 was missed"));
}

/* A crash before the commit leaves no trace; after it, the moment is settled. */
static void test_crash_around_a_firing(void **state)
{
    struct bench *b = *state;

    add(b, "m", "{" MINUTES "}", &owner);
    world_advance(&b->world, 40 * 1000);
    core_turn(b->core); /* staged, not committed */
    assert_string_equal(fired(), "40");
    bench_crash(b);
    assert_int_equal(b->disk.jobs.n, 0);
    bench_boot(b);
    bench_settle(b, 0);
    assert_string_equal(fired(), "40 40");
    assert_int_equal(b->disk.jobs.n, 1);
    restart(b);
    assert_string_equal(fired(), "40 40");
    assert_int_equal(first(b)->last_job, 1);
}

static void test_trouble(void **state)
{
    struct bench *b = *state;

    /* An obstacle that may pass is tried again; anything else settles the moment. */
    add(b, "m", "{" MINUTES ", \"overlap\": \"queue\"}", &owner);
    fires.fail = ERR_UNAVAILABLE;
    pass(b, 40);
    pass(b, 2);
    assert_string_equal(fired(), "40 40");
    fires.fail = ERR_INVALID;
    pass(b, 2);
    assert_string_equal(fired(), "40 40 40");
    assert_string_equal(first(b)->trouble, "no such bundle");
    assert_non_null(strstr(fires.notice, "schedule m: the run of 2023-11-14 22:31:00 cannot be"));
    fires.fail = 0;
    pass(b, 60);
    assert_string_equal(fired(), "40 40 40 100");
    assert_null(first(b)->trouble);
    /* A full disk: the moment waits for it. */
    b->disk.full = true;
    pass(b, 60);
    assert_int_equal(b->disk.jobs.n, 1);
    b->disk.full = false;
    b->disk.unhealthy = false;
    pass(b, 3);
    assert_int_equal(b->disk.jobs.p[b->disk.jobs.n - 1].exists, true);
    assert_int_equal(first(b)->settled_s, START_S + 160);
}

static void test_pause_run_remove(void **state)
{
    struct bench *b = *state;
    uint64_t seq = add(b, "m", "{" MINUTES ", \"overlap\": \"queue\"}", &owner);

    core_schedule_pause(b->core, seq, true, &stranger, on_acted, b);
    assert_int_equal(b->err.code, ERR_DENIED);
    core_schedule_pause(b->core, seq, true, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_int_equal(b->err.code, 0);
    assert_false(core_schedules_wait(b->core));
    pass(b, 100);
    restart(b);
    assert_string_equal(fired(), "");
    /* By hand, also while it is paused. */
    core_schedule_run(b->core, seq, STR("key"), 7, &owner, on_run, b);
    bench_settle(b, 0);
    assert_int_equal(b->err.code, 0);
    assert_int_equal(b->submitted.first, 1);
    assert_int_equal(first(b)->last_job, 1);
    /* Nothing of the pause is made up for. */
    core_schedule_pause(b->core, seq, false, &owner, on_acted, b);
    bench_settle(b, 0);
    assert_string_equal(fired(), "100");
    pass(b, 60);
    assert_string_equal(fired(), "100 160");
    /* Paused or removed while its submission is being made: nothing is submitted. */
    fires.later = true;
    pass(b, 60);
    core_schedule_pause(b->core, seq, true, &owner, on_acted, b);
    answer(fires.waiting);
    bench_settle(b, 0);
    assert_int_equal(b->disk.jobs.n, 2);
    core_schedule_pause(b->core, seq, false, &owner, on_acted, b);
    pass(b, 60);
    core_schedule_remove(b->core, seq, &stranger, on_acted, b);
    assert_int_equal(b->err.code, ERR_DENIED);
    core_schedule_remove(b->core, seq, &owner, on_acted, b);
    answer(fires.waiting);
    bench_settle(b, 0);
    assert_int_equal(b->disk.jobs.n, 2);
    assert_int_equal(b->disk.schedules.n, 0);
    core_schedule_remove(b->core, seq, &owner, on_acted, b);
    assert_int_equal(b->err.code, ERR_NOT_FOUND);
    core_schedule_run(b->core, seq, STR(""), 0, &owner, on_run, b);
    assert_int_equal(b->err.code, ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
        WITH_BENCH(test_moments_become_jobs),
        WITH_BENCH(test_overlap),
        WITH_BENCH(test_missed),
        WITH_BENCH(test_crash_around_a_firing),
        WITH_BENCH(test_trouble),
        WITH_BENCH(test_pause_run_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
