/* test_crash.c - what was acknowledged is there, whenever the process is killed
 *
 * A child submits, runs and cancels jobs as fast as it can and writes the number of each job to a
 * pipe once its commit was acknowledged.  It is killed at a random moment; the parent opens the
 * store and looks for every number it read.  50 rounds on the same store.
 */
#include "unit_store.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

enum { ROUNDS = 50 };

struct ack {
    uint64_t job;
    uint64_t state; /* it had at least reached */
};

static void report(int fd, uint64_t job, enum job_state state)
{
    struct ack a = {job, state};
    if (write(fd, &a, sizeof(a)) != sizeof(a))
        _exit(3);
}

static void set_counters(void *arg, uint64_t job, uint64_t spec, uint64_t batch, uint64_t event)
{
    struct fixture *f = arg;
    (void)event;
    f->next_job = job;
    f->next_spec = spec;
    f->next_batch = batch;
}
static void skip_job(void *arg, const struct job_record *r)
{
    (void)arg;
    (void)r;
}
static void skip_run(void *arg, const struct run_record *r)
{
    (void)arg;
    (void)r;
}
static void skip_dep(void *arg, const struct dep_record *r)
{
    (void)arg;
    (void)r;
}
static void skip_switch(void *arg, struct str name, enum queue_mode on)
{
    (void)arg;
    (void)name;
    (void)on;
}

static void skip_node(void *arg, const struct node_record *r)
{
    (void)arg;
    (void)r;
}

static void read_counters(struct fixture *f)
{
    struct err e = {0};
    struct load_sink sink = {.job = skip_job,
                             .run = skip_run,
                             .dep = skip_dep,
                             .queue = skip_switch,
                             .node = skip_node,
                             .counters = set_counters,
                             .arg = f};
    if (f->ledger.load(f->ledger.self, &sink, &e) < 0)
        fail_msg("%s", e.text);
}

static _Noreturn void child(struct fixture *f, int fd)
{
    struct err e = {0};

    if (!fixture_reopen(f, &e))
        _exit(2);
    read_counters(f);
    report(fd, 0, JOB_QUEUED); /* ready */
    for (size_t i = 0;; i++) {
        size_t n = i % 7 == 3 ? 2000 : 1 + i % 5;
        uint64_t first = f->next_job;
        struct built *b = built_new(f, n, 1);
        if (n > 1)
            built_batch(f, b, "crash", 0);
        stage_submit(f, b);
        if (fixture_sync(f).code)
            _exit(4);
        for (size_t k = 0; k < n; k++)
            report(fd, first + k, JOB_QUEUED);
        run_to_end(f, first, 1, 0);
        if (fixture_sync(f).code)
            _exit(5);
        report(fd, first, JOB_SUCCEEDED);
        if (i % 3 == 0)
            store_idle(f->store);
    }
}

static void verify(struct fixture *f, const struct ack *acks, size_t n)
{
    struct err e = {0};

    assert_true(fixture_reopen(f, &e));
    for (size_t i = 0; i < n; i++) {
        struct seen s = {0};
        if (store_job(f->store, acks[i].job, see, &s, &e) < 0)
            fail_msg("acknowledged job %llu is lost: %s", (unsigned long long)acks[i].job, e.text);
        if (acks[i].state == JOB_SUCCEEDED)
            assert_int_equal(s.v.state, JOB_SUCCEEDED);
    }
    read_counters(f);
    store_close(f->store);
    f->store = NULL;
}

static void test_kill_at_random(void **state)
{
    struct fixture *f = *state;
    struct rng rng;
    size_t total = 0;

    rng_seed(&rng, 1);
    store_close(f->store);
    f->store = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        VEC(struct ack) acks = {0};
        struct ack a;
        int fds[2];
        assert_int_equal(pipe(fds), 0);
        fcntl(fds[0], F_SETPIPE_SZ, 1 << 20); /* the child must not wait for us to read */
        pid_t pid = fork();
        if (pid == 0) {
            close(fds[0]);
            child(f, fds[1]);
        }
        close(fds[1]);
        assert_int_equal(read(fds[0], &a, sizeof(a)), sizeof(a));
        usleep((useconds_t)rng_below(&rng, 60000));
        kill(pid, SIGKILL);
        while (read(fds[0], &a, sizeof(a)) == sizeof(a))
            vec_push(&acks, a);
        close(fds[0]);
        int status;
        waitpid(pid, &status, 0);
        assert_true(WIFSIGNALED(status));
        verify(f, acks.p, acks.n);
        total += acks.n;
        vec_done(&acks);
    }
    check_sound(f);
    print_message("# %zu acknowledgements, none lost\n", total);
    assert_true(total > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {with_store(test_kill_at_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
