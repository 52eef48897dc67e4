/* test_schedule.c - schedules as rows: defined, settled with their jobs or without, removed */
#include "unit_store.h"

struct kept {
    char text[1000];
    size_t n;
};

static void keep_schedule(void *arg, const struct schedule_row *r)
{
    struct kept *k = arg;

    k->n += (size_t)snprintf(k->text + k->n, sizeof(k->text) - k->n,
                             "%llu " STR_FMT " of " STR_FMT " %u:%u " STR_FMT
                             "%s made %lld settled %lld last %llu+%llu " STR_FMT ";",
                             (unsigned long long)r->seq, STR_ARG(r->name), STR_ARG(r->user), r->uid,
                             r->gid, STR_ARG(r->def), r->paused ? " paused" : "",
                             (long long)r->created_ms, (long long)r->settled_s,
                             (unsigned long long)r->last_job, (unsigned long long)r->last_n,
                             STR_ARG(r->trouble));
}

static void skip_job(void *arg, const struct job_record *r)
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

static void skip_counters(void *arg, uint64_t job, uint64_t spec, uint64_t batch, uint64_t event)
{
    (void)arg;
    (void)job;
    (void)spec;
    (void)batch;
    (void)event;
}

/* All schedules, read by a store that was opened again. */
static const char *schedules(struct fixture *f)
{
    static struct kept k;
    const struct load_sink sink = {.job = skip_job,
                                   .queue = skip_switch,
                                   .node = skip_node,
                                   .counters = skip_counters,
                                   .schedule = keep_schedule,
                                   .arg = &k};
    struct err e = {0};

    k = (struct kept){0};
    assert_true(fixture_reopen(f, &e));
    assert_int_equal(f->ledger.load(f->ledger.self, &sink, &e), 0);
    return k.text;
}

static void stage_schedule(struct fixture *f, uint64_t seq, const char *name, bool paused,
                           int64_t settled_s)
{
    fixture_stage(f, &(struct change){.kind = CHANGE_SCHEDULE,
                                      .at_ms = 1,
                                      .schedule.row = {.seq = seq,
                                                       .name = str_of(name),
                                                       .user = STR("ann"),
                                                       .uid = 1000,
                                                       .gid = 100,
                                                       .def = STR("{}"),
                                                       .paused = paused,
                                                       .created_ms = 5,
                                                       .settled_s = settled_s}});
}

static struct built *fired(struct fixture *f, uint64_t schedule, const char *name,
                           int64_t settled_s)
{
    struct built *b = built_new(f, 2, 1);

    b->s.schedule.seq = schedule;
    b->s.schedule.name = built_str(b, name);
    b->s.schedule.settled_s = settled_s;
    return b;
}

static bool take_schedule(void *arg, const struct job_view *v)
{
    struct kept *k = arg;

    k->n += (size_t)snprintf(k->text + k->n, sizeof(k->text) - k->n, "%llu:" STR_FMT ";",
                             (unsigned long long)v->seq, STR_ARG(v->origin.schedule));
    return true;
}

static void test_rows(void **state)
{
    struct fixture *f = *state;

    stage_schedule(f, 1, "nightly", false, 100);
    stage_schedule(f, 2, "hourly", true, 200);
    sync_ok(f);
    assert_string_equal(schedules(f),
                        "1 nightly of ann 1000:100 {} made 5 settled 100 last 0+0 ;"
                        "2 hourly of ann 1000:100 {} paused made 5 settled 200 last 0+0 ;");
    stage_schedule(f, 3, "hourly", false, 300); /* the name is taken: left out */
    /* A moment without a job; a settled moment never goes back but by a new definition. */
    fixture_stage(f, &(struct change){.kind = CHANGE_SCHEDULE_SETTLED,
                                      .schedule_settled = {1, 150, STR("job 7 has not ended")}});
    fixture_stage(f, &(struct change){.kind = CHANGE_SCHEDULE_SETTLED,
                                      .schedule_settled = {2, 150, STR("")}});
    sync_ok(f);
    assert_string_equal(
        schedules(f),
        "1 nightly of ann 1000:100 {} made 5 settled 150 last 0+0 job 7 has not ended;"
        "2 hourly of ann 1000:100 {} paused made 5 settled 200 last 0+0 ;");
    stage_schedule(f, 1, "nightly", false, 120);
    fixture_stage(f, &(struct change){.kind = CHANGE_SCHEDULE_GONE, .schedule_gone = {.seq = 2}});
    sync_ok(f);
    assert_string_equal(schedules(f), "1 nightly of ann 1000:100 {} made 5 settled 120 last 0+0 ;");
}

/* Jobs and moment are one: both, or neither. */
static void test_jobs_settle_their_moment(void **state)
{
    struct fixture *f = *state;
    struct kept views = {0};
    struct arena a = {0};
    struct filter *filter = NULL;
    struct err e = {0};

    stage_schedule(f, 1, "nightly", false, 100);
    stage_submit(f, fired(f, 1, "nightly", 160));
    stage_submit(f, built_new(f, 1, 1));
    sync_ok(f);
    assert_string_equal(schedules(f), "1 nightly of ann 1000:100 {} made 5 settled 160 last 1+2 ;");
    for (uint64_t n = 1; n <= 3; n++)
        assert_int_equal(store_job(f->store, n, take_schedule, &views, &e), 0);
    assert_string_equal(views.text, "1:nightly;2:nightly;3:;");
    views = (struct kept){0};
    assert_int_equal(filter_parse(STR("cron:nightly"), 0, &a, &filter, &e), 0);
    assert_int_equal(store_jobs(f->store, &(struct job_query){.filter = filter, .limit = 9},
                                take_schedule, &views, &(char *){NULL}, &e),
                     0);
    assert_string_equal(views.text, "1:nightly;2:nightly;");
    arena_done(&a);
    /* The submission is refused because its key is taken: the moment stays unsettled. */
    struct built *other = built_new(f, 1, 1), *again = fired(f, 1, "nightly", 170);
    other->s.idempotency_key = again->s.idempotency_key = STR("k");
    stage_submit(f, other);
    sync_ok(f);
    stage_submit(f, again);
    assert_int_equal(fixture_sync(f).code, ERR_CONFLICT);
    assert_string_equal(schedules(f), "1 nightly of ann 1000:100 {} made 5 settled 160 last 1+2 ;");
    /* By hand: no moment is settled.  A schedule that is gone does not stop its last jobs. */
    stage_submit(f, fired(f, 1, "nightly", 0));
    stage_submit(f, fired(f, 9, "gone", 500));
    sync_ok(f);
    assert_string_equal(schedules(f), "1 nightly of ann 1000:100 {} made 5 settled 160 last 7+2 ;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_rows),
        with_store(test_jobs_settle_their_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
