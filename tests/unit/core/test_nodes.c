/* test_nodes.c - several nodes: where runs go, what a node that is away or refuses means for them
 */
#include "base/util.h"
#include "core/bench.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

static const struct caller owner = {.uid = 1000, .user = "ada", .admin = true};

/* A node that is added is the last host of the world. */
static int open_node(void *arg, struct core_host *h, const struct json *conf,
                     const struct backend_class **cls, struct backend **out, struct err *e)
{
    struct bench *b = arg;
    struct sim_host *last = &b->world.hosts[SIM_HOSTS - 1];

    if (!str_eq_c(json_str(json_get(conf, "url")), "sim://last"))
        return err_set(e, ERR_INVALID, "that is no address");
    last->host = h;
    *cls = &backend_sim;
    return backend_sim.open(out, (const char *)last, NULL, NULL, NULL, NULL, e);
}

static int setup(void **state)
{
    static const struct core_ops ops = {.open_node = open_node};
    struct bench *b = bench_new(&(struct core_conf){.ops = &ops}, 2, 1);

    b->conf.self = b;
    bench_boot(b);
    *state = b;
    return 0;
}

/* Everything on its way arrives; time stands still, and nothing ends by itself. */
static void settle(struct bench *b)
{
    for (int i = 0; i < 40; i++) {
        bench_turn(b);
        for (int k = 0; k < 10; k++) {
            world_deliver_msg(&b->world);
            world_answer(&b->world);
            world_deliver_happening(&b->world);
        }
        for (size_t k = 0; k < b->world.execs.n; k++)
            b->world.execs.p[k].end_at = INT64_MAX;
    }
}

static void on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    struct bench *b = arg;

    assert_null(e);
    b->submitted = *r;
}

static void on_acted(void *arg, const struct err *e, const struct acted *r)
{
    struct bench *b = arg;

    (void)r;
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

static uint64_t submit(struct bench *b, const char *nodes)
{
    struct one *x = xcalloc(1, sizeof(*x));

    x->spec = (struct spec_row){.body = STR("{}"),
                                .name = STR("n"),
                                .project = STR("p"),
                                .queue = STR("default"),
                                .nodes = str_of(nodes),
                                .need = {.slots = 1}};
    x->s = (struct submission){
        .specs = &x->spec, .n_specs = 1, .jobs = &x->job, .n_jobs = 1, .free_fn = free_one};
    core_submit_take(b->core, &x->s, &owner, on_submitted, b);
    settle(b);
    return b->submitted.first;
}

static struct exec *live(struct bench *b, uint64_t job)
{
    for (size_t i = 0; i < b->world.execs.n; i++)
        if (b->world.execs.p[i].live && b->world.execs.p[i].key.job == job)
            return &b->world.execs.p[i];
    return NULL;
}

static enum job_state state_of(struct bench *b, uint64_t job)
{
    return b->disk.jobs.p[job - 1].rec.state;
}

static void explains(struct bench *b, uint64_t job, const char *part)
{
    struct json *j = NULL;
    struct err e;

    assert_int_equal(core_explain(b->core, job, &j, &e), 0);
    AUTO_FREE char *text = json_text(j);
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
    json_free(j);
}

/* ---- where ---- */

static void jobs_go_where_they_may(void **state)
{
    struct bench *b = *state;
    uint64_t one = submit(b, "sim1"), two = submit(b, "sim1"), three = submit(b, ""),
             four = submit(b, "gpu*");

    assert_int_equal(live(b, one)->host, 1);
    assert_null(live(b, two)); /* its node is full, the other is not for it */
    assert_int_equal(live(b, three)->host, 0);
    explains(b, two, "on sim1: 1 of 1 are in use");
    explains(b, four, "is restricted to node 'gpu*', which does not exist");
    world_finish(&b->world, (size_t)(live(b, one) - b->world.execs.p), RUN_END_EXITED, 0);
    settle(b);
    assert_int_equal(live(b, two)->host, 1);
}

static void a_node_that_is_away_gets_nothing(void **state)
{
    struct bench *b = *state;
    uint64_t runs = submit(b, "sim1");

    world_cut(&b->world, 1, true);
    uint64_t waits = submit(b, "sim1"), other = submit(b, "");
    explains(b, waits, "waits: node sim1 is away (cut off)");
    explains(b, runs, "its command is running on sim1, which is away (cut off)");
    assert_int_equal(live(b, other)->host, 0);
    /* What ran there went on. */
    world_finish(&b->world, (size_t)(live(b, runs) - b->world.execs.p), RUN_END_EXITED, 0);
    settle(b);
    assert_int_equal(state_of(b, runs), JOB_RUNNING);
    world_cut(&b->world, 1, false);
    settle(b);
    assert_int_equal(state_of(b, runs), JOB_SUCCEEDED);
    assert_int_equal(live(b, waits)->host, 1);
}

/* ---- refused ---- */

/* Placed while the node was there, which is then gone before the start gets through. */
static void place_and_refuse(struct bench *b, int host)
{
    core_turn(b->core);
    world_cut(&b->world, host, true);
    for (int i = 0; i < 3; i++) {
        disk_seal(&b->disk);
        disk_commit(&b->disk);
    }
    assert_int_not_equal(b->world.hosts[host].channel.n, 0);
    world_refuse(&b->world);
    world_cut(&b->world, host, false);
}

static void a_refused_job_goes_elsewhere(void **state)
{
    struct bench *b = *state;
    uint64_t holds = submit(b, "sim"), job;

    world_cut(&b->world, 1, true);
    job = submit(b, "");
    world_cut(&b->world, 1, false);
    place_and_refuse(b, 1);
    settle(b);
    assert_int_equal(state_of(b, job), JOB_QUEUED);
    assert_int_equal(b->disk.jobs.p[job - 1].rec.tries, 0); /* no fault of its own */
    /* The node is put aside, and the job waits for the other even when it is back. */
    explains(b, job, "on sim: 1 of 1 are in use");
    assert_true(core_node(b->core, 1)->away);
    assert_non_null(
        strstr(core_node(b->core, 1)->trouble, "not used for now: it cannot be reached"));
    assert_true(core_next_wake(b->core) <= b->world.now + 2000);
    world_advance(&b->world, 2000);
    settle(b);
    assert_false(core_node(b->core, 1)->away);
    uint64_t fresh = submit(b, "");
    assert_int_equal(live(b, fresh)->host, 1);
    world_finish(&b->world, (size_t)(live(b, holds) - b->world.execs.p), RUN_END_EXITED, 0);
    settle(b);
    assert_int_equal(live(b, job)->host, 0);
}

static void a_job_nobody_can_take_fails_with_the_reason(void **state)
{
    struct bench *b = *state;
    uint64_t job;

    world_cut(&b->world, 1, true);
    job = submit(b, "sim1");
    world_cut(&b->world, 1, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(state_of(b, job), JOB_QUEUED);
        place_and_refuse(b, 1);
        settle(b);
        assert_int_equal(core_next_wake(b->core), b->world.now + (2000 << i));
        world_advance(&b->world, 2000 << i);
    }
    settle(b);
    assert_int_equal(state_of(b, job), JOB_FAILED);
    /* A start that goes well ends the back-off. */
    job = submit(b, "sim1");
    assert_int_equal(live(b, job)->host, 1);
}

/* ---- over a restart ---- */

static void runs_of_a_node_that_is_away_stay_its_own(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, "sim1");

    world_cut(&b->world, 1, true);
    bench_crash(b);
    bench_boot(b);
    uint64_t other = submit(b, "");
    assert_int_equal(live(b, other)->host, 0); /* the others do not wait for it */
    explains(b, job, "it ran before the restart");
    world_cut(&b->world, 1, false);
    settle(b);
    assert_int_equal(state_of(b, job), JOB_RUNNING);
    assert_int_equal(live(b, job)->key.run, 1);
}

static void a_node_that_is_not_opened_keeps_its_runs(void **state)
{
    struct bench *b = *state;
    uint64_t job = submit(b, "sim1");
    size_t at;

    bench_crash(b);
    b->world.n_hosts = 1;
    bench_boot(b);
    settle(b);
    assert_int_equal(state_of(b, job), JOB_RUNNING);
    assert_non_null(core_node_find(b->core, STR("sim1"), &at));
    assert_true(core_node(b->core, at)->away);
    core_node_remove(b->core, STR("sim1"), false, &owner, on_acted, b);
    assert_int_equal(b->err.code, ERR_CONFLICT);
    core_node_remove(b->core, STR("sim1"), true, &owner, on_acted, b);
    settle(b);
    assert_int_equal(b->err.code, 0);
    assert_int_equal(state_of(b, job), JOB_LOST);
    assert_null(core_node_find(b->core, STR("sim1"), &at));
}

/* ---- added and removed ---- */

static void add_as(struct bench *b, const char *name, const char *text)
{
    struct json *conf = NULL;
    struct err e;

    assert_int_equal(json_parse(str_of(text), "conf", &conf, &e), 0);
    core_node_add(b->core, str_of(name), conf, &owner, on_acted, b);
    json_free(conf);
    settle(b);
}

static void add(struct bench *b, const char *name, const char *url)
{
    AUTO_FREE char *text = xasprintf("{\"url\":\"%s\"}", url);

    add_as(b, name, text);
}

static void nodes_are_added_and_removed(void **state)
{
    struct bench *b = *state;
    const struct caller stranger = {.uid = 2000, .user = "eve"};

    b->world.n_hosts = 3; /* its messages are delivered too */
    add(b, "bad name", "sim://last");
    assert_int_equal(b->err.code, ERR_INVALID);
    add(b, "sim1", "sim://last");
    assert_int_equal(b->err.code, ERR_CONFLICT);
    add(b, "sim2", "nowhere");
    assert_string_equal(b->err.text, "that is no address");
    assert_null(core_node_find(b->core, STR("sim2"), NULL));
    add(b, "sim2", "sim://last");
    assert_int_equal(b->err.code, 0);
    uint64_t job = submit(b, "sim2");
    assert_int_equal(live(b, job)->host, 2);
    core_node_remove(b->core, STR("sim2"), true, &stranger, on_acted, b);
    assert_int_equal(b->err.code, ERR_DENIED);
    core_node_remove(b->core, STR("sim"), true, &owner, on_acted, b);
    assert_int_equal(b->err.code, ERR_CONFLICT); /* this machine */
    core_node_remove(b->core, STR("sim2"), true, &owner, on_acted, b);
    b->world.n_hosts = 2; /* nobody listens to it any more */
    settle(b);
    assert_int_equal(state_of(b, job), JOB_LOST);
    /* Its place is taken by the next. */
    b->world.n_hosts = 3;
    add(b, "sim2", "sim://last");
    assert_int_equal(core_node_count(b->core), 3);
    core_node_remove(b->core, STR("sim2"), false, &owner, on_acted, b);
    b->world.n_hosts = 2;
    settle(b);
    assert_int_equal(b->err.code, 0);
}

static void a_reserved_node_takes_who_names_it(void **state)
{
    struct bench *b = *state;

    b->world.n_hosts = 3;
    add_as(b, "lent", "{\"url\":\"sim://last\",\"reserved\":true}");
    assert_true(core_node(b->core, 2)->reserved);
    uint64_t one = submit(b, ""), two = submit(b, ""), three = submit(b, ""),
             named = submit(b, "len*");
    assert_int_not_equal(live(b, one)->host, 2);
    assert_int_not_equal(live(b, two)->host, 2);
    assert_null(live(b, three)); /* though there is room on it */
    explains(b, three, "1 of 1 are in use");
    assert_int_equal(live(b, named)->host, 2);
}

static void what_is_not_recorded_is_gone_after_a_restart(void **state)
{
    static const char conf[] = "{\"url\":\"sim://last\",\"reserved\":true,\"recorded\":false,"
                               "\"password\":\"word\"}";
    struct bench *b = *state;

    b->world.n_hosts = 3;
    add_as(b, "sim2", conf);
    assert_int_equal(b->err.code, 0);
    uint64_t job = submit(b, "sim2");
    assert_int_equal(live(b, job)->host, 2);
    bench_crash(b);
    b->world.n_hosts = 2;
    bench_boot(b);
    settle(b);
    /* Only its run tells of it, until somebody says anew how it is reached. */
    size_t at;
    assert_non_null(core_node_find(b->core, STR("sim2"), &at));
    assert_null(core_node_conf(b->core, at));
    explains(b, job, "it ran before the restart");
    b->world.n_hosts = 3;
    add_as(b, "sim2", conf);
    assert_int_equal(b->err.code, 0);
    assert_int_equal(state_of(b, job), JOB_RUNNING);
    assert_int_equal(live(b, job)->key.run, 1);
}

static void a_drained_node_starts_nothing(void **state)
{
    struct bench *b = *state;

    core_drain(b->core, STR("sim1"), true, &owner, on_acted, b);
    settle(b);
    uint64_t job = submit(b, "sim1");
    explains(b, job, "sim1 is drained");
    core_drain(b->core, STR("sim7"), true, &owner, on_acted, b);
    assert_int_equal(b->err.code, ERR_NOT_FOUND);
    core_drain(b->core, STR("sim1"), false, &owner, on_acted, b);
    settle(b);
    assert_int_equal(live(b, job)->host, 1);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        T(jobs_go_where_they_may),
        T(a_node_that_is_away_gets_nothing),
        T(a_refused_job_goes_elsewhere),
        T(a_job_nobody_can_take_fails_with_the_reason),
        T(runs_of_a_node_that_is_away_stay_its_own),
        T(a_node_that_is_not_opened_keeps_its_runs),
        T(nodes_are_added_and_removed),
        T(a_reserved_node_takes_who_names_it),
        T(what_is_not_recorded_is_gone_after_a_restart),
        T(a_drained_node_starts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
