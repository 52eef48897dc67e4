/* test_change.c - what each change does to jobs, runs, reports and the event log */
#include "unit_store.h"

struct log {
    char text[4096];
    size_t n, events;
};

static bool add_event(void *arg, const struct event_view *v)
{
    struct log *l = arg;
    l->events++;
    l->n +=
        (size_t)snprintf(l->text + l->n, sizeof(l->text) - l->n, "%llu %.*s %llu-%llu %.*s\n",
                         (unsigned long long)v->seq, STR_ARG(v->kind), (unsigned long long)v->first,
                         (unsigned long long)v->last, STR_ARG(v->data));
    return true;
}

static struct log events_of(struct fixture *f, uint64_t job)
{
    struct log l = {0};
    struct err e = {0};

    assert_int_equal(store_events(f->store, 0, 100, job, add_event, &l, &e), 0);
    return l;
}

static void test_submit_is_one_event(void **state)
{
    struct fixture *f = *state;
    struct built *b = built_new(f, 3, 1);

    built_batch(f, b, "mnist", 2);
    stage_submit(f, b);
    sync_ok(f);
    struct seen s = view_of(f, 2);
    assert_int_equal(s.v.state, JOB_QUEUED);
    assert_int_equal(s.v.batch.index, 1);
    assert_int_equal(s.v.created_ms, f->now_ms);
    assert_int_equal(s.v.exit_code, -1);
    assert_int_equal(s.v.need.mcpu, 1000);
    assert_string_equal(s.name, "train");
    assert_string_equal(s.params, "{\"lr\":0.001,\"depth\":1}");
    assert_string_equal(s.batch_name, "mnist");
    assert_string_equal(s.command, "[\"python\",\"train.py\",\"--lr\",\"{lr}\"]");
    assert_string_equal(events_of(f, 0).text,
                        "1 batch.submitted 1-3 "
                        "{\"user\":\"ann\",\"batch\":1,\"name\":\"mnist\",\"jobs\":3}\n");
    check_sound(f);
}

static void test_a_chosen_id_must_be_free(void **state)
{
    struct fixture *f = *state;
    struct built *many = built_new(f, 5, 1), *first, *middle, *fresh;
    struct id base = many->s.jobs[0].id, own = {0x0123456789abcdef, 0x8899aabbccddeeff};
    uint64_t seq;
    char text[ID_TEXT_MAX];
    struct err e;

    stage_submit(f, many);
    sync_ok(f);
    first = built_new(f, 1, 1);
    first->s.jobs[0].id = base;
    stage_submit(f, first);
    e = fixture_sync(f);
    assert_int_equal(e.code, ERR_CONFLICT);
    middle = built_new(f, 1, 1);
    middle->s.jobs[0].id = id_add(base, 3);
    stage_submit(f, middle);
    e = fixture_sync(f);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.text, "is that of job 4"));
    fresh = built_new(f, 1, 1);
    fresh->s.jobs[0].id = own;
    stage_submit(f, fresh);
    sync_ok(f);
    id_format(own, text);
    no_err(&(struct err){.code = store_resolve(f->store, str_of(text), &seq, &e) < 0});
    assert_int_equal(seq, f->next_job - 1);
    check_sound(f);
}

static void test_life_of_a_run(void **state)
{
    struct fixture *f = *state;
    uint64_t job = submit_n(f, 1);

    stage_run_new(f, job, 1);
    sync_ok(f);
    assert_int_equal(view_of(f, job).v.state, JOB_STARTING);
    stage_run_started(f, job, 1);
    sync_ok(f);
    assert_int_equal(view_of(f, job).v.state, JOB_RUNNING);
    assert_int_equal(view_of(f, job).v.started_ms, f->now_ms + 1);
    stage_run_ended(f, job, 1, 3);
    sync_ok(f);
    struct seen s = view_of(f, job);
    assert_int_equal(s.v.state, JOB_FAILED);
    assert_int_equal(s.v.exit_code, 3);
    assert_int_equal(s.v.ended_ms, f->now_ms + 5);
    assert_int_equal(s.v.usage.max_rss_bytes, 1 << 20);
    assert_int_equal(s.v.usage.cpu_ms, 4);
    assert_true(s.reason[0]);
    assert_non_null(
        strstr(events_of(f, job).text, "job.starting 1-1 {\"run\":1,\"node\":\"local\"}"));
    assert_non_null(strstr(events_of(f, job).text, "job.running 1-1 {\"run\":1,\"pid\":4242}"));
    assert_non_null(strstr(events_of(f, job).text, "job.failed 1-1"));
    check_sound(f);
}

static void test_requeue_retry_and_tries(void **state)
{
    struct fixture *f = *state;
    uint64_t job = submit_n(f, 1);
    struct job_record r;
    struct err e = {0};

    stage_run_new(f, job, 1);
    fixture_stage(
        f, &(struct change){.kind = CHANGE_RUN_ENDED,
                            .at_ms = f->now_ms,
                            .run_ended = {.key = {job, 1},
                                          .next = JOB_QUEUED,
                                          .next_try_ms = f->now_ms + 1000,
                                          .outcome = {.why = RUN_END_EXITED, .wait_status = 256}}});
    sync_ok(f);
    assert_int_equal(f->ledger.read_job(f->ledger.self, job, &r, &e), 0);
    assert_int_equal(r.attempt, 1);
    assert_int_equal(r.tries, 1);
    assert_int_equal(r.next_try_ms, f->now_ms + 1000);
    assert_int_equal(r.state, JOB_QUEUED);
    assert_int_equal(r.retries, 2);
    assert_true(str_eq_c(r.queue, "default"));
    /* A run that never ran does not count as a try. */
    stage_run_new(f, job, 2);
    fixture_stage(f, &(struct change){.kind = CHANGE_RUN_ENDED,
                                      .at_ms = f->now_ms,
                                      .run_ended = {.key = {job, 2},
                                                    .next = JOB_QUEUED,
                                                    .outcome = {.why = RUN_END_NEVER_RAN}}});
    sync_ok(f);
    assert_int_equal(f->ledger.read_job(f->ledger.self, job, &r, &e), 0);
    assert_int_equal(r.attempt, 2);
    assert_int_equal(r.tries, 1);
    /* Nor does a lost run that is repeated; it is counted by itself. */
    assert_int_equal(r.retry_lost, 1);
    assert_int_equal(r.lost, 0);
    stage_run_new(f, job, 3);
    fixture_stage(f, &(struct change){.kind = CHANGE_RUN_ENDED,
                                      .at_ms = f->now_ms,
                                      .run_ended = {.key = {job, 3},
                                                    .next = JOB_QUEUED,
                                                    .no_try = true,
                                                    .outcome = {.why = RUN_END_NODE_LOST}}});
    sync_ok(f);
    assert_int_equal(f->ledger.read_job(f->ledger.self, job, &r, &e), 0);
    assert_int_equal(r.lost, 1);
    assert_int_equal(r.tries, 1);
    run_to_end(f, job, 4, 1);
    fixture_stage(f, &(struct change){
                         .kind = CHANGE_JOB_RETRY, .at_ms = f->now_ms, .job_retry = {.job = job}});
    sync_ok(f);
    assert_int_equal(f->ledger.read_job(f->ledger.self, job, &r, &e), 0);
    assert_int_equal(r.state, JOB_QUEUED);
    assert_int_equal(r.tries, 0);
    assert_int_equal(r.attempt, 4);
    assert_int_equal(f->ledger.read_job(f->ledger.self, 99, &r, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    check_sound(f);
}

static void test_stop_crosses_start(void **state)
{
    struct fixture *f = *state;
    uint64_t job = submit_n(f, 1);

    stage_run_new(f, job, 1);
    fixture_stage(f, &(struct change){.kind = CHANGE_JOB_CANCEL,
                                      .at_ms = f->now_ms,
                                      .user = STR("ann"),
                                      .job_cancel = {.job = job}});
    stage_run_started(f, job, 1);
    sync_ok(f);
    assert_int_equal(view_of(f, job).v.state, JOB_STOPPING);
    assert_true(view_of(f, job).v.cancel_requested);
    fixture_stage(f, &(struct change){
                         .kind = CHANGE_RUN_ENDED,
                         .at_ms = f->now_ms,
                         .run_ended = {.key = {job, 1},
                                       .next = JOB_CANCELLED,
                                       .outcome = {.why = RUN_END_CANCELLED, .wait_status = 15}}});
    sync_ok(f);
    assert_int_equal(view_of(f, job).v.state, JOB_CANCELLED);
    assert_false(view_of(f, job).v.cancel_requested);
    check_sound(f);
}

static void test_range_touches_only_its_state(void **state)
{
    struct fixture *f = *state;
    uint64_t first = submit_n(f, 10);

    stage_run_new(f, first + 4, 1);
    fixture_stage(f, &(struct change){.kind = CHANGE_JOB_STATE,
                                      .at_ms = f->now_ms + 9,
                                      .user = STR("ann"),
                                      .job_state = {.first = first,
                                                    .last = first + 8,
                                                    .from = JOB_QUEUED,
                                                    .to = JOB_CANCELLED,
                                                    .reason = STR("cancelled while it waited")}});
    sync_ok(f);
    assert_int_equal(view_of(f, first).v.state, JOB_CANCELLED);
    assert_int_equal(view_of(f, first).v.ended_ms, f->now_ms + 9);
    assert_string_equal(view_of(f, first).reason, "cancelled while it waited");
    assert_int_equal(view_of(f, first + 4).v.state, JOB_STARTING);
    assert_int_equal(view_of(f, first + 9).v.state, JOB_QUEUED);
    /* One event for the range, found through any job in it. */
    assert_non_null(strstr(events_of(f, first + 3).text, "job.cancelled 1-9 {\"user\":\"ann\","
                                                         "\"reason\":\"cancelled while it waited\","
                                                         "\"jobs\":8}"));
    assert_null(strstr(events_of(f, first + 9).text, "job.cancelled"));
    assert_int_equal(events_of(f, 0).events, 3);
    check_sound(f);
}

static void test_unknown_jobs_are_ignored(void **state)
{
    struct fixture *f = *state;

    run_to_end(f, 77, 1, 0);
    fixture_stage(f, &(struct change){.kind = CHANGE_JOB_CANCEL, .job_cancel = {.job = 77}});
    fixture_stage(f, &(struct change){.kind = CHANGE_JOB_RETRY, .job_retry = {.job = 77}});
    fixture_stage(f, &(struct change){.kind = CHANGE_REMOVE, .remove = {.first = 77}});
    stage_mark(f, 77, MARK_TAG, "best", -1, "");
    stage_point(f, 77, "loss", 1, 0.5);
    fixture_stage(f, &(struct change){.kind = CHANGE_NOTE, .note = {.job = 77, .text = STR("x")}});
    fixture_stage(f,
                  &(struct change){.kind = CHANGE_SPOOL, .spool = {.key = {77, 1}, .offset = 9}});
    sync_ok(f);
    assert_int_equal(events_of(f, 0).events, 0);
    check_sound(f);
}

static bool add_mark(void *arg, const struct mark_view *v)
{
    struct log *l = arg;
    l->n += (size_t)snprintf(l->text + l->n, sizeof(l->text) - l->n, "%c %.*s %lld %.*s;",
                             (int)v->kind, STR_ARG(v->name), (long long)v->step, STR_ARG(v->text));
    return true;
}

static void test_the_last_mark_of_a_name_counts(void **state)
{
    struct fixture *f = *state;
    uint64_t job = submit_n(f, 1);
    struct log l = {0}, tags = {0};
    struct err e = {0};

    stage_run_new(f, job, 1);
    stage_mark(f, job, MARK_TAG, "arch", -1, "cnn \"deep\"");
    stage_mark(f, job, MARK_EPOCH, "epoch", 3, NULL);
    stage_mark(f, job, MARK_ARTIFACT, "model", -1, "out/model.pt");
    stage_mark(f, job, MARK_PARAM, "lr", -1, "0.5");
    stage_mark(f, job, MARK_EPOCH, "epoch", 4, NULL);
    stage_mark(f, job, MARK_TAG, "arch", -1, "rnn");
    sync_ok(f);
    assert_int_equal(store_marks(f->store, &job, 1, 0, add_mark, &l, &e), 0);
    assert_string_equal(l.text, "t arch -1 rnn;e epoch 4 ;a model -1 out/model.pt;p lr -1 0.5;");
    assert_non_null(strstr(events_of(f, job).text, "report.tag 1-1 {\"run\":1,\"name\":\"arch\","
                                                   "\"text\":\"cnn \\\"deep\\\"\"}"));
    fixture_stage(
        f, &(struct change){.kind = CHANGE_MARK_GONE,
                            .user = STR("ann"),
                            .mark_gone = {.job = job, .kind = MARK_TAG, .name = STR("arch")}});
    sync_ok(f);
    assert_int_equal(store_marks(f->store, &job, 1, MARK_TAG, add_mark, &tags, &e), 0);
    assert_string_equal(tags.text, "");
    assert_non_null(strstr(events_of(f, job).text, "\"name\":\"arch\",\"removed\":true}"));
    check_sound(f);
}

static void test_switches(void **state)
{
    struct fixture *f = *state;

    fixture_stage(f, &(struct change){.kind = CHANGE_QUEUE,
                                      .at_ms = 5,
                                      .queue = {.name = STR("night"), .mode = QUEUE_PAUSED}});
    fixture_stage(
        f, &(struct change){.kind = CHANGE_QUEUE, .at_ms = 6, .queue = {.name = STR("night")}});
    fixture_stage(f, &(struct change){.kind = CHANGE_NODE_DRAIN,
                                      .at_ms = 7,
                                      .node_drain = {.name = STR("local"), .drained = true}});
    sync_ok(f);
    assert_string_equal(events_of(f, 0).text, "1 queue.paused 0-0 {\"queue\":\"night\"}\n"
                                              "2 queue.resumed 0-0 {\"queue\":\"night\"}\n"
                                              "3 node.drained 0-0 {\"node\":\"local\"}\n");
}

static bool add_run(void *arg, const struct run_view *v)
{
    struct log *l = arg;
    AUTO(buf) struct buf gpus = {0};

    buf_init(&gpus, 1000);
    gpu_set_format(&v->gpus, &gpus);
    l->n += (size_t)snprintf(l->text + l->n, sizeof(l->text) - l->n, "%u %s%d %.*s " STR_FMT ";",
                             v->key.run, v->ended ? run_end_name(v->why) : "open ", v->exit_code,
                             STR_ARG(v->detail), STR_ARG(buf_str(&gpus)));
    return true;
}

static void test_runs(void **state)
{
    struct fixture *f = *state;
    uint64_t job = submit_n(f, 1);
    struct log l = {0};
    struct err e = {0};

    fixture_stage(f,
                  &(struct change){.kind = CHANGE_RUN_NEW,
                                   .run_new = {.key = {job, 1}, .devices = STR("0,63,1000-1023")}});
    fixture_stage(
        f, &(struct change){.kind = CHANGE_RUN_ENDED,
                            .run_ended = {.key = {job, 1},
                                          .next = JOB_QUEUED,
                                          .detail = STR("no such directory"),
                                          .outcome = {.why = RUN_END_START_FAILED, .sys = 2}}});
    stage_run_new(f, job, 2);
    sync_ok(f);
    assert_int_equal(store_runs(f->store, job, add_run, &l, &e), 0);
    assert_string_equal(l.text, "1 start_failed127 no such directory 0,63,1000-1023;2 open -1  ;");
}

static void keep_ahead(void *arg, const struct run_record *r)
{
    struct log *l = arg;

    l->n += (size_t)snprintf(l->text + l->n, sizeof(l->text) - l->n, "%llu.%u %s" STR_FMT " %u;",
                             (unsigned long long)r->key.job, r->key.run,
                             r->ahead ? "ahead on " : "", STR_ARG(r->node), r->journal);
}

static void keep_fact(void *arg, struct str name, struct str text)
{
    struct log *l = arg;

    l->n += (size_t)snprintf(l->text + l->n, sizeof(l->text) - l->n, STR_FMT "=" STR_FMT ";",
                             STR_ARG(name), STR_ARG(text));
}

static void keep_training(void *arg, const struct job_record *r)
{
    keep_fact(arg, STR("job"), r->training);
}

static void no_switch(void *arg, struct str name, enum queue_mode on)
{
    (void)arg;
    (void)name;
    (void)on;
}

static void no_node(void *arg, const struct node_record *r)
{
    (void)arg;
    (void)r;
}

static void no_counters(void *arg, uint64_t job, uint64_t spec, uint64_t batch, uint64_t event)
{
    (void)arg;
    assert_true(job && spec && batch && event);
}

static void stage_fact(struct fixture *f, const char *name, const char *text)
{
    fixture_stage(f, &(struct change){.kind = CHANGE_FACT,
                                      .fact = {.name = str_of(name), .value = str_of(text)}});
}

static void no_job(void *arg, const struct job_record *r)
{
    (void)arg;
    assert_int_equal(r->state, JOB_QUEUED);
    assert_int_equal(r->attempt, 0);
}

/* Recovery finds it; nobody else does. */
static void test_start_sent_ahead(void **state)
{
    struct fixture *f = *state;
    uint64_t job = submit_n(f, 2);
    struct log l = {0}, runs = {0};
    const struct load_sink sink = {.job = no_job,
                                   .run = keep_ahead,
                                   .queue = no_switch,
                                   .node = no_node,
                                   .counters = no_counters,
                                   .arg = &l};
    struct err e = {0};

    for (uint64_t n = job; n < job + 3; n++) /* the last one does not exist */
        fixture_stage(f, &(struct change){.kind = CHANGE_AHEAD,
                                          .ahead = {{n, 1}, .node = STR("here"), .journal = 7}});
    fixture_stage(f, &(struct change){.kind = CHANGE_AHEAD_GONE, .ahead_gone = {.job = job + 1}});
    sync_ok(f);
    assert_int_equal(f->ledger.load(f->ledger.self, &sink, &e), 0);
    assert_string_equal(l.text, "1.1 ahead on here 7;");
    assert_int_equal(store_runs(f->store, job, add_run, &runs, &e), 0);
    assert_string_equal(runs.text, "");
}

static void test_facts_and_training(void **state)
{
    struct fixture *f = *state;
    struct built *b = built_new(f, 2, 2);
    struct log l = {0};
    const struct load_sink sink = {.job = keep_training,
                                   .queue = no_switch,
                                   .node = no_node,
                                   .counters = no_counters,
                                   .fact = keep_fact,
                                   .arg = &l};
    struct job_record rec;
    struct err e = {0};

    b->s.specs[0].trains = true;
    stage_submit(f, b);
    stage_fact(f, "b", "1");
    stage_fact(f, "a", "2");
    stage_fact(f, "b", "3");
    stage_fact(f, "c", "4");
    stage_fact(f, "c", "");
    fixture_stage(f, &(struct change){.kind = CHANGE_TRAINING,
                                      .training = {.job = 1, .record = STR("{\"done\":3}")}});
    fixture_stage(
        f, &(struct change){.kind = CHANGE_TRAINING, .training = {.job = 9, .record = STR("{}")}});
    sync_ok(f);
    assert_int_equal(f->ledger.load(f->ledger.self, &sink, &e), 0);
    assert_string_equal(l.text, "a=2;b=3;job={\"done\":3};job=;");
    assert_int_equal(f->ledger.read_job(f->ledger.self, 1, &rec, &e), 0);
    assert_true(str_eq_c(rec.training, "{\"done\":3}"));
    assert_int_equal(view_of(f, 2).v.training.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_submit_is_one_event),
        with_store(test_a_chosen_id_must_be_free),
        with_store(test_life_of_a_run),
        with_store(test_requeue_retry_and_tries),
        with_store(test_stop_crosses_start),
        with_store(test_range_touches_only_its_state),
        with_store(test_unknown_jobs_are_ignored),
        with_store(test_the_last_mark_of_a_name_counts),
        with_store(test_switches),
        with_store(test_runs),
        with_store(test_start_sent_ahead),
        with_store(test_facts_and_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
