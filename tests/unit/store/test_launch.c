/* test_launch.c - what is read to start a job */
#include "unit_store.h"

static void test_launch_shares_its_spec(void **state)
{
    struct fixture *f = *state;
    struct built *b = built_new(f, 3, 1);
    struct launch one = {0}, two = {0};
    struct err e = {0};

    built_batch(f, b, "sweep", 0);
    b->s.jobs[1].name = STR("second");
    struct id id = b->s.jobs[1].id;
    stage_submit(f, b);
    sync_ok(f);
    assert_int_equal(f->ledger.read_launch(f->ledger.self, 1, &one, &e), 0);
    assert_int_equal(f->ledger.read_launch(f->ledger.self, 2, &two, &e), 0);
    assert_ptr_equal(one.spec, two.spec);
    assert_string_equal(one.name, "train");
    assert_string_equal(two.name, "second");
    assert_string_equal(two.batch_name, "sweep");
    assert_string_equal(two.user, "ann");
    assert_int_equal(two.uid, 1000);
    assert_int_equal(two.index, 1);
    assert_int_equal(id_cmp(two.id, id), 0);
    assert_int_equal(json_int(json_get(two.params, "depth")), 1);
    assert_string_equal(one.spec->command.argv[0], "python");
    launch_done(&one);
    assert_string_equal(two.spec->command.argv[0], "python");
    launch_done(&two);
}

/* A launch outlives its place in the cache. */
static void test_many_specs(void **state)
{
    struct fixture *f = *state;
    struct launch held = {0};
    struct err e = {0};

    stage_submit(f, built_new(f, 100, 100));
    sync_ok(f);
    assert_int_equal(f->ledger.read_launch(f->ledger.self, 1, &held, &e), 0);
    for (uint64_t job = 2; job <= 100; job++) {
        struct launch l = {0};
        assert_int_equal(f->ledger.read_launch(f->ledger.self, job, &l, &e), 0);
        launch_done(&l);
    }
    assert_string_equal(held.spec->name, "train");
    launch_done(&held);
}

static void test_own_spec_and_nothing(void **state)
{
    struct fixture *f = *state;
    struct launch l = {0};
    struct json *j = NULL;
    struct err e = {0};

    assert_int_equal(f->ledger.read_launch(f->ledger.self, 9, &l, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    launch_done(&l);
    assert_int_equal(json_parse(STR("{\"command\":[\"true\"]}"), "t", &j, &e), 0);
    assert_int_equal(spec_parse(j, "", &l.spec, &e), 0);
    json_free(j);
    launch_done(&l);
}

static void test_spec_that_no_longer_parses(void **state)
{
    struct fixture *f = *state;
    struct built *b = built_new(f, 1, 1);
    struct launch l = {0};
    struct err e = {0};

    b->s.specs[0].body = STR("{\"command\":17}");
    stage_submit(f, b);
    sync_ok(f);
    assert_int_equal(f->ledger.read_launch(f->ledger.self, 1, &l, &e), -1);
    assert_non_null(strstr(e.text, "spec 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_store(test_launch_shares_its_spec),
        with_store(test_many_specs),
        with_store(test_own_spec_and_nothing),
        with_store(test_spec_that_no_longer_parses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
