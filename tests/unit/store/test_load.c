/* test_load.c - what a restarted controller is told */
#include "unit_store.h"
#include <errno.h>

struct got {
    char text[8192];
    size_t n;
    uint64_t last_seq;
    size_t jobs;
};

static void add(struct got *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct got *g, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    g->n += (size_t)vsnprintf(g->text + g->n, sizeof(g->text) - g->n, fmt, ap);
    va_end(ap);
}

static void on_job(void *arg, const struct job_record *r)
{
    struct got *g = arg;
    assert_true(r->seq > g->last_seq);
    g->last_seq = r->seq;
    if (++g->jobs <= 20)
        add(g, "job %llu %s %u/%u slots %d %.*s%s%.*s;", (unsigned long long)r->seq,
            job_state_name(r->state), r->tries, r->attempt, r->batch_slots, STR_ARG(r->queue),
            r->nodes.n ? " on " : "", STR_ARG(r->nodes));
    if (r->full)
        add(g, "full %u;", r->full);
}

static void on_run(void *arg, const struct run_record *r)
{
    add(arg, "run %llu.%u %.*s pid %lld spool %lld;", (unsigned long long)r->key.job, r->key.run,
        STR_ARG(r->node), (long long)r->pid, (long long)r->spool_offset);
}

static void on_dep(void *arg, const struct dep_record *r)
{
    add(arg, "dep %llu %llu;", (unsigned long long)r->job, (unsigned long long)r->other);
}

static void on_dep_final(void *arg, uint64_t job, uint64_t other, enum job_state state)
{
    add(arg, "doomed %llu %llu %s;", (unsigned long long)job, (unsigned long long)other,
        job_state_name(state));
}

static void on_queue(void *arg, struct str name, enum queue_mode paused)
{
    add(arg, "queue %.*s %d;", STR_ARG(name), paused);
}

static void on_node(void *arg, const struct node_record *r)
{
    add(arg, "node %.*s %d%.*s;", STR_ARG(r->name), r->drained, STR_ARG(r->conf));
}

static void on_counters(void *arg, uint64_t job, uint64_t spec, uint64_t batch, uint64_t event)
{
    add(arg, "next %llu %llu %llu after %llu;", (unsigned long long)job, (unsigned long long)spec,
        (unsigned long long)batch, (unsigned long long)event);
}

static struct got load(struct fixture *f)
{
    struct got g = {0};
    struct err e = {0};
    struct load_sink sink = {on_job,  on_run,       on_dep,      on_queue,
                             on_node, on_dep_final, on_counters, &g};

    if (f->ledger.load(f->ledger.self, &sink, &e) < 0)
        fail_msg("%s", e.text);
    return g;
}

static void test_empty(void **state)
{
    assert_string_equal(load(*state).text, "next 1 1 1 after 0;");
}

static void test_everything_active_comes_back(void **state)
{
    struct fixture *f = *state;
    struct built *b = built_new(f, 4, 1);
    struct err e = {0};

    built_batch(f, b, "b", 3);
    stage_submit(f, b);
    run_to_end(f, 1, 1, 0);
    stage_run_new(f, 2, 1);
    stage_run_started(f, 2, 1);
    fixture_stage(f,
                  &(struct change){.kind = CHANGE_SPOOL, .spool = {.key = {2, 1}, .offset = 512}});
    fixture_stage(f,
                  &(struct change){.kind = CHANGE_SPOOL, .spool = {.key = {2, 1}, .offset = 100}});
    stage_run_new(f, 3, 1);
    fixture_stage(f, &(struct change){.kind = CHANGE_QUEUE,
                                      .queue = {.name = STR("night"), .mode = QUEUE_PAUSED}});
    fixture_stage(f, &(struct change){.kind = CHANGE_NODE_DRAIN,
                                      .node_drain = {.name = STR("local"), .drained = true}});
    sync_ok(f);
    assert_true(fixture_reopen(f, &e));
    assert_string_equal(load(f).text,
                        "next 5 2 2 after 9;queue night 1;node local 1;"
                        "job 2 running 1/1 slots 3 default;job 3 starting 1/1 slots 3 default;"
                        "job 4 queued 0/0 slots 3 default;"
                        "run 2.1 local pid 4242 spool 512;run 3.1 local pid 0 spool 0;");
}

/* A run of job 1 ends; the job is queued again. */
static void stage_repeated(struct fixture *f, uint32_t run, enum run_end why, int sys)
{
    stage_run_new(f, 1, run);
    stage_run_started(f, 1, run);
    fixture_stage(f, &(struct change){.kind = CHANGE_RUN_ENDED,
                                      .at_ms = f->now_ms,
                                      .run_ended = {.key = {1, run},
                                                    .next = JOB_QUEUED,
                                                    .no_try = sys != 0,
                                                    .outcome = {.why = why, .sys = sys}}});
}

/* Starts that found no space are no runs, and one that exited on a disk with space ends the row. */
static void test_runs_that_met_a_full_disk_are_counted(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};

    stage_submit(f, built_new(f, 1, 1));
    stage_repeated(f, 1, RUN_END_EXITED, ENOSPC);
    stage_repeated(f, 2, RUN_END_EXITED, 0);
    stage_repeated(f, 3, RUN_END_EXITED, EDQUOT);
    stage_repeated(f, 4, RUN_END_START_FAILED, ENOSPC);
    stage_repeated(f, 5, RUN_END_EXITED, ENOSPC);
    sync_ok(f);
    assert_true(fixture_reopen(f, &e));
    assert_non_null(strstr(load(f).text, "job 1 queued 1/5"));
    assert_non_null(strstr(load(f).text, "full 2;"));
}

static void test_nodes_come_back_with_how_they_are_reached(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    const struct str conf = STR("{\"url\":\"ssh://h2\"}");

    fixture_stage(f,
                  &(struct change){.kind = CHANGE_NODE_DRAIN, .node_drain = {.name = STR("here")}});
    fixture_stage(f, &(struct change){.kind = CHANGE_NODE_NEW,
                                      .node_new = {.name = STR("h2"), .conf = conf}});
    fixture_stage(f, &(struct change){.kind = CHANGE_NODE_NEW,
                                      .node_new = {.name = STR("h3"), .conf = conf}});
    fixture_stage(f, &(struct change){.kind = CHANGE_NODE_DRAIN,
                                      .node_drain = {.name = STR("h2"), .drained = true}});
    fixture_stage(f, &(struct change){.kind = CHANGE_NODE_GONE, .node_gone = {.name = STR("h3")}});
    sync_ok(f);
    assert_true(fixture_reopen(f, &e));
    assert_string_equal(load(f).text,
                        "next 1 1 1 after 4;node h2 1{\"url\":\"ssh://h2\"};node here 0;");
}

static void test_a_job_keeps_where_it_may_run(void **state)
{
    struct fixture *f = *state;
    struct built *b = built_new(f, 1, 1);
    struct job_record rec;
    struct err e = {0};

    b->s.specs[0].nodes = STR("gpu*,h2");
    stage_submit(f, b);
    sync_ok(f);
    assert_int_equal(f->ledger.read_job(f->ledger.self, 1, &rec, &e), 0);
    assert_true(str_eq_c(rec.nodes, "gpu*,h2"));
    assert_non_null(strstr(load(f).text, "default on gpu*,h2;"));
}

static void submit_after(struct fixture *f, const uint64_t *after, size_t n)
{
    struct built *b = built_new(f, 1, 1);
    b->s.jobs[0].after = memcpy(arena_alloc(&b->a, n * sizeof(*after)), after, n * sizeof(*after));
    b->s.jobs[0].n_after = n;
    stage_submit(f, b);
    sync_ok(f);
}

static void test_dependencies(void **state)
{
    struct fixture *f = *state;
    uint64_t *deps = NULL;
    size_t n = 0;
    struct err e = {0};

    submit_n(f, 3);
    submit_after(f, (uint64_t[]){1, 2, 3}, 3);
    run_to_end(f, 1, 1, 0);
    run_to_end(f, 2, 1, 1);
    sync_ok(f);
    assert_non_null(strstr(load(f).text, "doomed 4 2 failed;dep 4 3;"));
    /* A retry by hand waits for what is active, and is not doomed by what failed. */
    fixture_stage(
        f, &(struct change){
               .kind = CHANGE_JOB_STATE,
               .at_ms = f->now_ms,
               .job_state = {.first = 4, .last = 4, .from = JOB_QUEUED, .to = JOB_CANCELLED}});
    fixture_stage(
        f, &(struct change){.kind = CHANGE_JOB_RETRY, .at_ms = f->now_ms, .job_retry = {.job = 4}});
    sync_ok(f);
    assert_non_null(strstr(load(f).text, "dep 4 3;"));
    assert_null(strstr(load(f).text, "doomed"));
    /* Once it started it waits for nothing. */
    stage_run_new(f, 4, 1);
    fixture_stage(f, &(struct change){.kind = CHANGE_RUN_ENDED,
                                      .run_ended = {.key = {4, 1},
                                                    .next = JOB_QUEUED,
                                                    .outcome = {.why = RUN_END_NEVER_RAN}}});
    sync_ok(f);
    assert_null(strstr(load(f).text, "dep 4"));
    assert_int_equal(f->ledger.read_deps(f->ledger.self, 4, &deps, &n, &e), 0);
    assert_int_equal(n, 3);
    assert_int_equal(deps[2], 3);
    free(deps);
    check_sound(f);
}

/* Few active among many finished: the other way of reading must give the same. */
static void test_few_among_many(void **state)
{
    struct fixture *f = *state;

    submit_n(f, 500);
    fixture_stage(
        f, &(struct change){
               .kind = CHANGE_JOB_STATE,
               .at_ms = f->now_ms,
               .job_state = {.first = 2, .last = 498, .from = JOB_QUEUED, .to = JOB_CANCELLED}});
    stage_run_new(f, 499, 1);
    sync_ok(f);
    assert_string_equal(load(f).text,
                        "next 501 2 1 after 3;job 1 queued 0/0 slots 0 default;"
                        "job 499 starting 1/1 slots 0 default;job 500 queued 0/0 slots 0 default;"
                        "run 499.1 local pid 0 spool 0;");
}

static void test_numbers_never_repeat(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};

    submit_n(f, 2);
    run_to_end(f, 2, 1, 0);
    fixture_stage(
        f, &(struct change){.kind = CHANGE_REMOVE, .at_ms = f->now_ms, .remove = {.first = 2}});
    sync_ok(f);
    assert_true(fixture_reopen(f, &e));
    assert_non_null(strstr(load(f).text, "next 3 2 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_empty),
        with_store(test_everything_active_comes_back),
        with_store(test_runs_that_met_a_full_disk_are_counted),
        with_store(test_nodes_come_back_with_how_they_are_reached),
        with_store(test_a_job_keeps_where_it_may_run),
        with_store(test_dependencies),
        with_store(test_few_among_many),
        with_store(test_numbers_never_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
