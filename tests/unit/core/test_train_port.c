/* test_train_port.c - the ports of runs: one for each process, nobody else's, kept over a restart
 *
 * Four ports, of which another program has one; three devices.
 */
#include "base/util.h"
#include "core/bench.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { FIRST = 30000, LAST = 30003, TAKEN = 30001, JOBS_MAX = 8 };
static const struct caller owner = {.uid = 1000, .user = "ada"};
/* What the last run of each job was told. */
static struct given {
    int port, n;
} given[JOBS_MAX];

static int note_ports(void *self, const struct launch *l, const struct launch_facts *f,
                      struct launch_extras *out, struct err *e)
{
    (void)self;
    (void)l;
    (void)out;
    (void)e;
    given[f->key.job] = (struct given){f->master_port, f->n_ports};
    return 0;
}

static bool port_free(void *self, int port)
{
    (void)self;
    return port != TAKEN;
}

static int setup(void **state)
{
    static const struct core_ops ops = {.launch = note_ports, .port_free = port_free};
    struct bench *b =
        bench_new(&(struct core_conf){.ops = &ops,
                                      .home = {.program = "/usr/bin/berth"},
                                      .gpu = {.plan = {.replan_ms = 10, .restart_s = 0.001},
                                              .master_port_first = FIRST,
                                              .master_port_last = LAST}},
                  1, 8);

    b->world.hosts[0].node.n_devices = 3;
    b->conf.self = b;
    bench_boot(b);
    *state = b;
    return 0;
}

static void on_submitted(void *arg, const struct err *e, const struct submitted *r)
{
    assert_null(e);
    ((struct bench *)arg)->submitted = *r;
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

static uint64_t submit(struct bench *b, int32_t gpus, const char *body)
{
    struct one *x = xcalloc(1, sizeof(*x));

    x->spec = (struct spec_row){.body = str_of(body),
                                .name = STR("n"),
                                .project = STR("p"),
                                .queue = STR("default"),
                                .need = {.slots = 1, .gpus = gpus},
                                .trains = true};
    x->s = (struct submission){
        .specs = &x->spec, .n_specs = 1, .jobs = &x->job, .n_jobs = 1, .free_fn = free_one};
    core_submit_take(b->core, &x->s, &owner, on_submitted, b);
    bench_settle(b, 10);
    assert_true(b->submitted.first < JOBS_MAX);
    return b->submitted.first;
}

static void end(struct bench *b, uint64_t job)
{
    for (size_t i = 0; i < b->world.execs.n; i++)
        if (b->world.execs.p[i].live && b->world.execs.p[i].key.job == job)
            world_finish(&b->world, i, RUN_END_EXITED, 0);
    bench_settle(b, 10);
    assert_int_equal(b->disk.jobs.p[job - 1].rec.state, JOB_SUCCEEDED);
}

#define BODY(more)                                                                                 \
    "{\"command\":[\"train\",\"0\",\"1\",\"0\"],\"cwd\":\"/w\",\"dialect\":\"some\"" more "}"
static const char two_ranks[] = BODY(",\"gpus\":2,\"launch\":\"gpu\",\"gpu_share\":false");
static const char one_process[] = BODY(",\"gpus\":1,\"gpu_share\":false");
static const char on_cpus[] = BODY(",\"epochs\":3");

static void one_port_for_each_process(void **state)
{
    struct bench *b = *state;
    uint64_t two = submit(b, 2, two_ranks), one = submit(b, 1, one_process);

    /* Two that follow each other: the only ones are behind the one that another program has. */
    assert_int_equal(given[two].port, TAKEN + 1);
    assert_int_equal(given[two].n, 2);
    assert_int_equal(given[one].port, FIRST);
    assert_int_equal(given[one].n, 1);
    uint64_t none = submit(b, 0, on_cpus);
    assert_int_equal(given[none].port, 0);
    end(b, none);
    end(b, one);
    uint64_t next = submit(b, 0, on_cpus);
    assert_int_equal(given[next].port, FIRST);
}

static void ports_are_kept_over_a_restart(void **state)
{
    struct bench *b = *state;
    uint64_t two = submit(b, 2, two_ranks);

    assert_int_equal(given[two].n, 2);
    bench_crash(b);
    bench_boot(b);
    bench_settle(b, 10);
    uint64_t one = submit(b, 1, one_process), none = submit(b, 0, on_cpus);
    assert_int_equal(given[one].port, FIRST);
    assert_int_equal(given[none].port, 0);
    end(b, none);
    end(b, two);
    uint64_t again = submit(b, 2, two_ranks);
    assert_int_equal(given[again].port, TAKEN + 1);
    assert_int_equal(given[again].n, 2);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, bench_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_port_for_each_process),
        TEST(ports_are_kept_over_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
