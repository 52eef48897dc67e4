/* test_list.c - lists: filters, order, pages that stay right while jobs come and go, resolving */
#include "unit_store.h"
#include <math.h>

struct page {
    uint64_t seq[2000];
    size_t n;
};

static bool take(void *arg, const struct job_view *v)
{
    struct page *p = arg;
    p->seq[p->n++] = v->seq;
    return true;
}

/* The numbers that match, as text. */
static char *matches(struct fixture *f, const char *filter)
{
    static char text[512];
    struct arena a = {0};
    struct filter *parsed = NULL;
    struct err e = {0};
    struct page p = {0};
    char *cursor = NULL;

    if (filter_parse(str_of(filter), f->now_ms, &a, &parsed, &e) < 0)
        fail_msg("%s: %s", filter, e.text);
    struct job_query q = {.filter = parsed, .limit = 100};
    if (store_jobs(f->store, &q, take, &p, &cursor, &e) < 0)
        fail_msg("%s: %s", filter, e.text);
    uint64_t *seqs = NULL, counts[JOB_STATE_MAX];
    size_t n = 0, total = 0;
    assert_int_equal(store_job_seqs(f->store, &q, &seqs, &n, &e), 0);
    assert_int_equal(n, p.n);
    assert_int_equal(store_job_counts(f->store, &q, counts, &e), 0);
    for (int i = 0; i < JOB_STATE_MAX; i++)
        total += counts[i];
    assert_int_equal(total, p.n);
    text[0] = '\0';
    for (size_t i = 0, at = 0; i < p.n; i++) {
        assert_int_equal(seqs[i], p.seq[i]);
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%llu", i ? " " : "",
                               (unsigned long long)p.seq[i]);
    }
    free(seqs);
    free(cursor);
    arena_done(&a);
    return text;
}

/* Eight jobs, one in each of several situations. */
static void submit_zoo(struct fixture *f)
{
    struct built *b = built_new(f, 8, 2 + 6);
    static const char *const params[] = {"{\"lr\":0.1,\"net\":\"cnn\"}",
                                         "{\"lr\":0.01,\"net\":\"CNN big\",\"aug\":true}",
                                         "{\"lr\":0.001,\"opt\":{\"name\":\"adam\"}}",
                                         "{\"opt.name\":\"sgd\",\"depth\":5}",
                                         "{\"depth\":\"many\"}",
                                         "{\"aug\":false,\"lr\":1}",
                                         NULL,
                                         "{\"id\":3}"};
    for (size_t i = 0; i < 8; i++) {
        b->s.jobs[i].params = str_of(params[i]);
        b->s.jobs[i].priority = (int32_t)i % 3;
    }
    b->s.jobs[1].name = STR("big one");
    b->s.specs[2].project = STR("vision");
    b->s.specs[3].project = STR("vision");
    b->s.specs[4].queue = STR("night");
    built_batch(f, b, "zoo", 0);
    stage_submit(f, b);
    run_to_end(f, 1, 1, 0);
    run_to_end(f, 2, 1, 7);
    stage_run_new(f, 3, 1);
    stage_run_started(f, 3, 1);
    stage_point(f, 3, "loss", 0, 0.9);
    stage_point(f, 3, "loss", 1, 0.2);
    stage_mark(f, 3, MARK_TAG, "stage", -1, "12");
    fixture_stage(f, &(struct change){.kind = CHANGE_JOB_STATE,
                                      .at_ms = f->now_ms,
                                      .job_state = {.first = 5,
                                                    .last = 5,
                                                    .from = JOB_QUEUED,
                                                    .to = JOB_CANCELLED,
                                                    .reason = STR("cancelled while it waited")}});
    sync_ok(f);
}

/* Whatever valid JSON stands around it, the number under the key is found, and only that. */
static void test_numbers_in_parameters(void **state)
{
    struct fixture *f = *state;
    static const char *const params[] = {
        "{\"lr\":3}",
        "{ \"x\" : {\"lr\":9} ,\n \"lr\" : 3e0 }",
        "{\"s\":\"\\\"lr\\\":1\",\"lr\":3.0}",
        "{\"l\\u0072\":3}",
        "{\"a\":[1,{\"lr\":9},\"}\"],\"lr\":3}",
        "{\"lr\":\"3\"}",
        "{\"lr\":true}",
        "{\"lr\":null}",
        "{\"lrr\":3,\"r\":3}",
        "{}",
        "{\"x\":{\"lr\":3}}",
        "{\"\u00e9\\\\\":1,\"lr\":3}",
    };
    struct built *b = built_new(f, ARRAY_SIZE(params), 1);

    for (size_t i = 0; i < ARRAY_SIZE(params); i++)
        b->s.jobs[i].params = str_of(params[i]);
    built_batch(f, b, "numbers", 0);
    stage_submit(f, b);
    sync_ok(f);
    assert_string_equal(matches(f, "lr>2.5 and lr<3.5"), "1 2 3 4 5 12");
    assert_string_equal(matches(f, "lr<2.5"), "");
    assert_string_equal(matches(f, "lr>=3"), "1 2 3 4 5 12");
}

static void test_filters(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *filter, *want;
    } cases[] = {
        {"state:failed", "2"},
        {"state:failed,running", "2 3"},
        {"state!=queued", "1 2 3 5"},
        {"state~ed and not state:queued", "1 2 5"},
        {"name:train", "1 3 4 5 6 7 8"},
        {"name~BIG", "2"},
        {"name!=train", "2"},
        {"project:vision", "3 4"},
        {"project:vision and state:queued", "4"},
        {"project:vision or state:failed", "2 3 4"},
        {"user:bob", ""},
        {"user:ann and project:vision", "3 4"},
        {"batch:zoo", "1 2 3 4 5 6 7 8"},
        {"batch:other", ""},
        {"exit_code:0", "1"},
        {"exit_code!=0", "2"},
        {"exit_code>=0", "1 2"},
        {"not exit_code:0", "2 3 4 5 6 7 8"},
        {"priority>1", "3 6"},
        {"attempt:1", "1 2 3"},
        {"lr<0.1", "2 3"},
        {"lr<=0.1", "1 2 3"},
        {"lr:0.1,1", "1 6"},
        {"lr!=0.1", "2 3 6"},
        {"net:cnn", "1"},
        {"net~cnn", "1 2"},
        {"aug:true", "2"},
        {"aug:false", "6"},
        {"depth>3", "4"},
        {"depth:many", "5"},
        {"depth:5,many", "4 5"},
        {"params.opt.name:adam", "3"},
        {"params.opt.name:sgd", "4"},
        {"params.id:3", "8"},
        {"nothing:1", ""},
        {"not nothing:1", "1 2 3 4 5 6 7 8"},
        {"metric.loss<0.5", "3"},
        {"metric.loss>0.5", ""},
        {"tag.stage:12", "3"},
        {"tag.stage>9", "3"},
        {"tag.stage>12", ""},
        {"tag:stage", "3"},
        {"tag:best,stage", "3"},
        {"tag!=stage", "1 2 4 5 6 7 8"},
        {"loss<0.5", "3"},
        {"loss:0.2", "3"},
        {"reason~waited", "5"},
        {"number<3", "1 2"},
        {"id:4", "4"},
        {"created>=2020-01-01", "1 2 3 4 5 6 7 8"},
        {"started>2030-01-01", ""},
        {"ended<2030-01-01", "1 2 5"},
        {"duration<1s", "1 2"},
        {"(state:failed or state:running) and lr<0.005", "3"},
    };

    submit_zoo(f);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *got = matches(f, cases[i].filter);
        if (strcmp(got, cases[i].want))
            fail_msg("%s: got \"%s\", want \"%s\"", cases[i].filter, got, cases[i].want);
    }
}

static void test_what_jobs_logged_is_looked_at_first(void **state)
{
    struct fixture *f = *state;
    static const char *const params[] = {"{\"lr\":0.1}", "{\"lr\":0.1,\"amp\":false}", "{}", "{}"};
    static const struct {
        const char *filter, *want;
    } cases[] = {
        {"lr<0.5", "1"},      {"lr>=7", "2"},        {"lr:0.1", "1"},          {"lr:many", "3"},
        {"lr!=0.1", "2 3 4"}, {"lr~man", "3"},       {"amp:true", "2"},        {"amp:false", ""},
        {"lr>0.55", "2 4"},   {"acc>0.9", "1"},      {"acc<=0.9", ""},         {"acc:good", "2"},
        {"acc!=good", "1"},   {"metric.acc>0", "1"}, {"params.opt:adam", "3"}, {"bad>0", ""},
    };
    struct built *b = built_new(f, ARRAY_SIZE(params), 1);

    for (size_t i = 0; i < ARRAY_SIZE(params); i++)
        b->s.jobs[i].params = str_of(params[i]);
    built_batch(f, b, "logged", 0);
    stage_submit(f, b);
    stage_mark(f, 2, MARK_PARAM, "lr", -1, "7");
    stage_mark(f, 2, MARK_PARAM, "amp", -1, "true");
    stage_mark(f, 3, MARK_PARAM, "lr", -1, "\"many\"");
    stage_mark(f, 3, MARK_PARAM, "opt", -1, "\"adam\"");
    stage_point(f, 4, "lr", 0, 0.6); /* a metric, where there is no parameter of that name */
    stage_point(f, 1, "lr", 0, 0.6);
    stage_point(f, 1, "acc", 0, 0.95);
    stage_point(f, 1, "bad", 0, NAN);
    fixture_stage(f, &(struct change){
                         .kind = CHANGE_TEXT_POINT,
                         .text_point = {.key = {2, 1}, .name = STR("acc"), .text = STR("good")}});
    sync_ok(f);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char *got = matches(f, cases[i].filter);
        if (strcmp(got, cases[i].want))
            fail_msg("%s: got \"%s\", want \"%s\"", cases[i].filter, got, cases[i].want);
    }
}

static void test_ids_in_filters(void **state)
{
    struct fixture *f = *state;
    char id[ID_TEXT_MAX], filter[200];

    submit_zoo(f);
    id_format(view_of(f, 6).v.id, id);
    snprintf(filter, sizeof(filter), "id:%s", id);
    assert_string_equal(matches(f, filter), "6");
    snprintf(filter, sizeof(filter), "id:%s,3", id);
    assert_string_equal(matches(f, filter), "3 6");
    snprintf(filter, sizeof(filter), "id:%.10s", id);
    assert_string_equal(matches(f, filter), "1 2 3 4 5 6 7 8");
    snprintf(filter, sizeof(filter), "id!=%s and state:failed", id);
    assert_string_equal(matches(f, filter), "2");
    snprintf(filter, sizeof(filter), "id~%.6s", id + 20);
    assert_string_equal(matches(f, filter), "6");
}

/* Values are data: whatever is written in them, they match or they do not. */
static void test_hostile_values(void **state)
{
    struct fixture *f = *state;

    submit_zoo(f);
    assert_string_equal(matches(f, "name:\"x' OR 1=1 --\""), "");
    assert_string_equal(matches(f, "project:\"'; DROP TABLE job; --\""), "");
    /* Keys that the grammar does not let through, but another front might. */
    static const char *const keys[] = {"a\"b", "\"", "", ".", "a..b", "$", "a[0]", "\\", "'", "é"};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const char *values[] = {"1"};
        struct filter x = {.op = FILTER_EQ,
                           .field = FILTER_F_PARAM,
                           .key = keys[i],
                           .values = values,
                           .n_values = 1,
                           .numeric = true,
                           .number = 1};
        struct page p = {0};
        struct err e = {0};
        if (store_jobs(f->store, &(struct job_query){.filter = &x, .limit = 9}, take, &p, NULL, &e))
            fail_msg("key \"%s\": %s", keys[i], e.text);
        assert_int_equal(p.n, 0);
    }
    assert_int_equal(view_of(f, 8).v.seq, 8);
}

static void test_query_members(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    uint64_t n[JOB_STATE_MAX];
    struct page p = {0};

    submit_zoo(f);
    store_jobs(f->store, &(struct job_query){.project = "vision", .limit = 9}, take, &p, NULL, &e);
    assert_int_equal(p.n, 2);
    p.n = 0;
    store_jobs(f->store, &(struct job_query){.queue = "night", .limit = 9}, take, &p, NULL, &e);
    assert_int_equal(p.n, 1);
    p.n = 0;
    struct built *b = built_new(f, 1, 1); /* job 9, bob's */
    b->s.user = STR("bob");
    b->s.uid = 1001;
    stage_submit(f, b);
    sync_ok(f);
    store_jobs(f->store, &(struct job_query){.only_uid = true, .uid = 1001, .limit = 9}, take, &p,
               NULL, &e);
    assert_int_equal(p.n, 1);
    assert_int_equal(p.seq[0], 9);
    p.n = 0;
    store_jobs(f->store, &(struct job_query){.state_mask = 1u << JOB_QUEUED, .limit = 9}, take, &p,
               NULL, &e);
    assert_int_equal(p.n, 5);
    store_job_counts(f->store, &(struct job_query){.batch = 1}, n, &e);
    assert_int_equal(n[JOB_QUEUED], 4);
    assert_int_equal(n[JOB_SUCCEEDED], 1);
    store_job_counts(f->store, &(struct job_query){.batch = 1, .user = "bob"}, n, &e);
    assert_int_equal(n[JOB_QUEUED], 0);
    assert_int_equal(n[JOB_SUCCEEDED], 0);
    store_job_counts(f->store, &(struct job_query){.user = "bob"}, n, &e);
    assert_int_equal(n[JOB_QUEUED], 1);
    no_err(&e);
    assert_int_equal(
        store_jobs(f->store, &(struct job_query){.limit = 9, .sort = "colour"}, take, &p, NULL, &e),
        -1);
    assert_int_equal(e.code, ERR_INVALID);
    assert_int_equal(store_jobs(f->store, &(struct job_query){.limit = 0}, take, &p, NULL, &e), -1);
    assert_int_equal(e.code, ERR_INVALID);
}

/* All pages of a query, in pages of `limit`. */
static struct page *all_pages(struct fixture *f, struct job_query q, size_t limit)
{
    struct page *p = xcalloc(1, sizeof(*p));
    struct err e = {0};
    char *cursor = NULL;

    q.limit = limit;
    do {
        char *next = NULL;
        q.cursor = cursor;
        if (store_jobs(f->store, &q, take, p, &next, &e) < 0)
            fail_msg("%s", e.text);
        free(cursor);
        cursor = next;
    } while (cursor);
    return p;
}

static void test_every_order_pages_alike(void **state)
{
    struct fixture *f = *state;
    static const char *const sorts[] = {"id",      "name",  "state",    "priority", "created",
                                        "started", "ended", "duration", "exit_code"};

    submit_zoo(f);
    submit_n(f, 30);
    for (uint64_t job = 9; job < 30; job += 3) {
        f->now_ms += 10;
        run_to_end(f, job, 1, (int)(job % 2));
    }
    sync_ok(f);
    for (size_t i = 0; i < ARRAY_SIZE(sorts); i++) {
        for (int desc = 0; desc < 2; desc++) {
            struct job_query q = {.sort = sorts[i], .desc = desc};
            struct page *whole = all_pages(f, q, 1000), *parts = all_pages(f, q, 7);
            assert_int_equal(whole->n, 38);
            assert_int_equal(parts->n, 38);
            assert_memory_equal(whole->seq, parts->seq, 38 * sizeof(uint64_t));
            q.state_mask = 1u << JOB_QUEUED | 1u << JOB_FAILED;
            struct page *lanes = all_pages(f, q, 3);
            for (size_t k = 0, at = 0; k < whole->n && at < lanes->n; k++)
                at += whole->seq[k] == lanes->seq[at];
            assert_int_equal(lanes->n, 27 + 5);
            free(whole);
            free(parts);
            free(lanes);
        }
    }
}

static void test_pages_under_inserts(void **state)
{
    struct fixture *f = *state;
    struct job_query q = {.desc = true, .limit = 10};
    struct page p = {0};
    struct err e = {0};
    char *cursor = NULL, *next = NULL;

    submit_n(f, 30);
    assert_int_equal(store_jobs(f->store, &q, take, &p, &cursor, &e), 0);
    assert_int_equal(p.seq[9], 21);
    /* New jobs arrive, and one that was next is removed. */
    submit_n(f, 5);
    run_to_end(f, 20, 1, 0);
    fixture_stage(
        f, &(struct change){.kind = CHANGE_REMOVE, .at_ms = f->now_ms, .remove = {.first = 20}});
    sync_ok(f);
    q.cursor = cursor;
    p.n = 0;
    assert_int_equal(store_jobs(f->store, &q, take, &p, &next, &e), 0);
    assert_int_equal(p.n, 10);
    assert_int_equal(p.seq[0], 19);
    assert_int_equal(p.seq[9], 10);
    free(cursor);
    free(next);
}

static void test_cursor_is_checked(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"",           "x",         "id",       "id-",
                                      "id-1",       "id-1-2",    "id-1-zz-", "nd-1-2-0",
                                      "id-1-2-3-4", "id-1-2-3 ", "ia-1-2-0"};
    struct page p = {0};
    struct err e;

    submit_n(f, 3);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct job_query q = {.desc = true, .limit = 1, .cursor = bad[i]};
        e = (struct err){0};
        if (store_jobs(f->store, &q, take, &p, NULL, &e) == 0)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_int_equal(e.code, ERR_INVALID);
    }
}

/* More lanes than are merged: the walk must find the same. */
static void test_many_projects(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 60; i++) {
        struct built *b = built_new(f, 2, 1);
        char name[16];
        snprintf(name, sizeof(name), "p%d", i);
        b->s.specs[0].project = built_str(b, name);
        stage_submit(f, b);
    }
    for (uint64_t job = 1; job <= 120; job += 10)
        run_to_end(f, job, 1, 1);
    sync_ok(f);
    struct page *p = all_pages(f, (struct job_query){.state_mask = 1u << JOB_QUEUED}, 17);
    assert_int_equal(p->n, 108);
    assert_int_equal(p->seq[0], 2);
    free(p);
    assert_string_equal(matches(f, "project:p7"), "15 16");
    assert_string_equal(matches(f, "state:failed and project:p5,p10"), "11 21");
    check_sound(f);
}

/* The largest filters that parse, over as many lanes as are merged. */
static void test_long_filters(void **state)
{
    struct fixture *f = *state;
    struct buf b;

    for (int i = 0; i < 15; i++) {
        struct built *x = built_new(f, 1, 1);
        char name[16];
        snprintf(name, sizeof(name), "p%d", i);
        x->s.specs[0].project = built_str(x, name);
        stage_submit(f, x);
    }
    run_to_end(f, 3, 1, 0);
    sync_ok(f);
    buf_init(&b, 1 << 16);
    for (int i = 0; i < FILTER_MAX_TERMS - 2; i++)
        buf_addf(&b, "%sparams.very.long.path.to.a.key%d:%d", i ? " or " : "(", i, i);
    buf_adds(&b, " or lr:0) and state:queued");
    assert_string_equal(matches(f, b.p), "1 2 4 5 6 7 8 9 10 11 12 13 14 15");
    buf_reset(&b);
    for (int i = 0; i < FILTER_MAX_DEPTH / 2 - 2; i++)
        buf_adds(&b, "not (");
    buf_adds(&b, "lr:0");
    for (int i = 0; i < FILTER_MAX_DEPTH / 2 - 2; i++)
        buf_adds(&b, ")");
    assert_string_equal(matches(f, b.p), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
    buf_done(&b);
}

static void test_resolve(void **state)
{
    struct fixture *f = *state;
    char id[ID_TEXT_MAX];
    uint64_t seq = 0;
    struct err e = {0};

    submit_n(f, 3);
    f->now_ms += 3600 * 1000;
    uint64_t lone = submit_n(f, 1);
    assert_int_equal(store_resolve(f->store, STR("2"), &seq, &e), 0);
    assert_int_equal(seq, 2);
    id_format(view_of(f, 3).v.id, id);
    assert_int_equal(store_resolve(f->store, str_of(id), &seq, &e), 0);
    assert_int_equal(seq, 3);
    id[0] = (char)(id[0] >= 'a' ? id[0] - 32 : id[0]);
    assert_int_equal(store_resolve(f->store, str_of(id), &seq, &e), 0);
    assert_int_equal(store_resolve(f->store, (struct str){id, 12}, &seq, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.text, "(job 1)"));
    assert_non_null(strstr(e.text, "(job 2)"));
    id_format(view_of(f, lone).v.id, id);
    assert_int_equal(store_resolve(f->store, (struct str){id, 10}, &seq, &e), 0);
    assert_int_equal(seq, lone);
    static const char *const unknown[] = {
        "99", "0", "-1", "zzzz", "x!", "", "7zzzzzzzzzzzzzzzzzzzzzzzzz", "99999999999999999999"};
    for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
        assert_int_equal(store_resolve(f->store, str_of(unknown[i]), &seq, &e), -1);
        assert_int_equal(e.code, ERR_NOT_FOUND);
    }
    /* As a UUID: the jobs of one submission differ in the last digits of the half that comes first,
     * so a beginning names all three, and more of it one. */
    char uuid[ID_UUID_MAX];
    id_format_uuid(view_of(f, lone).v.id, uuid);
    assert_int_equal(store_resolve(f->store, (struct str){uuid, 8}, &seq, &e), 0);
    assert_int_equal(seq, lone);
    id_format_uuid(view_of(f, 3).v.id, uuid);
    assert_int_equal(store_resolve(f->store, (struct str){uuid, 8}, &seq, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_int_equal(store_resolve(f->store, (struct str){uuid, 18}, &seq, &e), 0);
    assert_int_equal(seq, 3);
    assert_int_equal(store_resolve(f->store, (struct str){uuid, 3}, &seq, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    /* Removed jobs are gone, and a prefix they shared becomes unique. */
    id_format(view_of(f, 1).v.id, id);
    run_to_end(f, 1, 1, 0);
    run_to_end(f, 2, 1, 0);
    fixture_stage(f, &(struct change){.kind = CHANGE_REMOVE,
                                      .at_ms = f->now_ms,
                                      .remove = {.first = 1, .last = 2}});
    sync_ok(f);
    assert_int_equal(store_resolve(f->store, str_of(id), &seq, &e), -1);
    assert_int_equal(store_resolve(f->store, (struct str){id, 10}, &seq, &e), 0);
    assert_int_equal(seq, 3);
    check_sound(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_filters),
        with_store(test_numbers_in_parameters),
        with_store(test_what_jobs_logged_is_looked_at_first),
        with_store(test_ids_in_filters),
        with_store(test_hostile_values),
        with_store(test_query_members),
        with_store(test_every_order_pages_alike),
        with_store(test_pages_under_inserts),
        with_store(test_cursor_is_checked),
        with_store(test_many_projects),
        with_store(test_long_filters),
        with_store(test_resolve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
