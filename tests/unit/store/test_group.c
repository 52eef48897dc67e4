/* test_group.c - projects, batches, queues and idempotency keys */
#include "store/track.h"
#include "unit_store.h"

struct text {
    char p[2048];
    size_t n;
};

static void add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    t->n += (size_t)vsnprintf(t->p + t->n, sizeof(t->p) - t->n, fmt, ap);
    va_end(ap);
}

static bool add_project(void *arg, const struct project_view *v)
{
    add(arg, "%.*s queued %llu succeeded %llu;", STR_ARG(v->name),
        (unsigned long long)v->counts[JOB_QUEUED], (unsigned long long)v->counts[JOB_SUCCEEDED]);
    return true;
}

static void submit_as(struct fixture *f, const char *project, const char *queue, const char *user,
                      uint32_t uid, size_t n)
{
    struct built *b = built_new(f, n, 1);
    b->s.specs[0].project = built_str(b, project);
    b->s.specs[0].queue = built_str(b, queue);
    b->s.user = built_str(b, user);
    b->s.uid = uid;
    stage_submit(f, b);
    sync_ok(f);
}

static void test_projects(void **state)
{
    struct fixture *f = *state;
    struct text t = {0}, gone = {0};
    struct err e = {0};

    submit_as(f, "vision", "default", "ann", 1000, 3);
    submit_as(f, "vision", "night", "bob", 1001, 2);
    submit_as(f, "audio", "default", "ann", 1000, 1);
    run_to_end(f, 1, 1, 0);
    run_to_end(f, 6, 1, 0);
    sync_ok(f);
    assert_int_equal(store_project_list(f->store, add_project, &t, &e), 0);
    assert_string_equal(t.p, "audio queued 0 succeeded 1;vision queued 4 succeeded 1;");
    fixture_stage(
        f, &(struct change){.kind = CHANGE_REMOVE, .at_ms = f->now_ms, .remove = {.first = 6}});
    sync_ok(f);
    assert_int_equal(store_project_list(f->store, add_project, &gone, &e), 0);
    assert_string_equal(gone.p, "audio queued 0 succeeded 0;vision queued 4 succeeded 1;");
    check_sound(f);
}

static bool add_queue(void *arg, struct str name, bool paused)
{
    add(arg, "%.*s %d;", STR_ARG(name), paused);
    return true;
}

static void test_queues(void **state)
{
    struct fixture *f = *state;
    struct text t = {0};
    struct err e = {0};

    submit_as(f, "p", "night", "ann", 1000, 1);
    submit_as(f, "q", "night", "bob", 1001, 1);
    fixture_stage(f, &(struct change){.kind = CHANGE_QUEUE,
                                      .queue = {.name = STR("night"), .mode = QUEUE_PAUSED}});
    fixture_stage(f, &(struct change){.kind = CHANGE_QUEUE, .queue = {.name = STR("spare")}});
    sync_ok(f);
    assert_int_equal(store_queues(f->store, add_queue, &t, &e), 0);
    assert_string_equal(t.p, "night 1;spare 0;");
}

static bool add_batch(void *arg, const struct batch_view *v)
{
    add(arg, "%llu %.*s jobs %llu-%llu slots %d queued %llu cancelled %llu;",
        (unsigned long long)v->seq, STR_ARG(v->name), (unsigned long long)v->first_job,
        (unsigned long long)(v->first_job + v->n_jobs - 1), v->slots,
        (unsigned long long)v->counts[JOB_QUEUED], (unsigned long long)v->counts[JOB_CANCELLED]);
    return true;
}

static void test_batches(void **state)
{
    struct fixture *f = *state;
    struct text t = {0}, page = {0}, other = {0}, left = {0};
    struct err e = {0};
    uint64_t seq;
    char id[ID_TEXT_MAX];

    for (int i = 0; i < 3; i++) {
        struct built *b = built_new(f, 3, 1);
        built_batch(f, b, i == 1 ? "b" : "a", i);
        id_format(b->s.batch.id, id);
        stage_submit(f, b);
    }
    fixture_stage(
        f, &(struct change){
               .kind = CHANGE_JOB_STATE,
               .at_ms = f->now_ms,
               .job_state = {.first = 3, .last = 5, .from = JOB_QUEUED, .to = JOB_CANCELLED}});
    sync_ok(f);
    assert_int_equal(store_batches(f->store, false, 0, 0, 10, add_batch, &t, &e), 0);
    assert_string_equal(t.p, "3 a jobs 7-9 slots 2 queued 3 cancelled 0;"
                             "2 b jobs 4-6 slots 1 queued 1 cancelled 2;"
                             "1 a jobs 1-3 slots 0 queued 2 cancelled 1;");
    assert_int_equal(store_batches(f->store, true, 1000, 3, 1, add_batch, &page, &e), 0);
    assert_string_equal(page.p, "2 b jobs 4-6 slots 1 queued 1 cancelled 2;");
    assert_int_equal(store_batches(f->store, true, 7, 0, 10, add_batch, &other, &e), 0);
    assert_string_equal(other.p, "");
    assert_int_equal(store_batch_find(f->store, STR("a"), &seq, &e), 0);
    assert_int_equal(seq, 3);
    assert_int_equal(store_batch_find(f->store, STR("2"), &seq, &e), 0);
    assert_int_equal(seq, 2);
    assert_int_equal(store_batch_find(f->store, str_of(id), &seq, &e), 0);
    assert_int_equal(seq, 3);
    assert_int_equal(store_batch_find(f->store, STR("nope"), &seq, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    /* A batch leaves with its last job. */
    fixture_stage(
        f, &(struct change){.kind = CHANGE_JOB_STATE,
                            .at_ms = f->now_ms,
                            .job_state = {.first = 6, .from = JOB_QUEUED, .to = JOB_CANCELLED}});
    fixture_stage(f, &(struct change){.kind = CHANGE_REMOVE,
                                      .at_ms = f->now_ms,
                                      .remove = {.first = 4, .last = 6}});
    sync_ok(f);
    assert_int_equal(store_batches(f->store, false, 0, 0, 10, add_batch, &left, &e), 0);
    assert_null(strstr(left.p, "2 b"));
    check_sound(f);
}

static void test_idempotency(void **state)
{
    struct fixture *f = *state;
    struct built *b = built_new(f, 4, 1), *again;
    struct idempotent made;
    struct err e = {0};

    built_batch(f, b, "once", 0);
    b->s.idempotency_key = STR("key-1");
    b->s.idempotency_print = INT64_MAX;
    stage_submit(f, b);
    sync_ok(f);
    assert_int_equal(store_idempotent(f->store, 1000, STR("key-1"), &made, &e), 1);
    assert_int_equal(made.first, 1);
    assert_int_equal(made.n, 4);
    assert_int_equal(made.batch, 1);
    assert_int_equal(made.print, INT64_MAX);
    assert_int_equal(store_idempotent(f->store, 1000, STR("key-2"), &made, &e), 0);
    assert_int_equal(store_idempotent(f->store, 1001, STR("key-1"), &made, &e), 0);
    /* Two requests raced: the second is refused, alone and without a trace. */
    again = built_new(f, 4, 1);
    again->s.idempotency_key = STR("key-1");
    stage_submit(f, again);
    e = fixture_sync(f);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.text, "idempotency key"));
    assert_true(f->ledger.healthy(f->ledger.self));
    uint64_t counts[JOB_STATE_MAX];
    store_job_counts(f->store, &(struct job_query){0}, counts, &e);
    assert_int_equal(counts[JOB_QUEUED], 4);
    check_sound(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_projects),
        with_store(test_queues),
        with_store(test_batches),
        with_store(test_idempotency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
