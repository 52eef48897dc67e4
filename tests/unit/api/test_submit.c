/* Bodies of submit requests: the three shapes, sharing, borrowing, and messages with their path. */
#include "api/submit_parse.h"
#include "base/json.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const struct caller ann = {.uid = 100, .gid = 100, .user = "ann"};

static int resolve(void *arg, struct str ref, uint64_t *out, struct err *e)
{
    int64_t n;

    ++*(int *)arg;
    if (!str_to_i64(ref, &n) || n > 100)
        return err_set(e, ERR_NOT_FOUND, "there is no job '" STR_FMT "'", STR_ARG(ref));
    *out = (uint64_t)n;
    return 0;
}

static struct submit *parse_as(const char *text, bool yaml, struct err *e, int *lookups)
{
    struct submit *x = submit_new_take(xstrdup(text), strlen(text), &ann, NULL);

    *e = (struct err){0};
    *lookups = 0;
    if (submit_prepare(x, yaml, e) == 0 && submit_parse(x, resolve, lookups, e) == 0)
        return x;
    submit_free(x);
    return NULL;
}

static struct submit *parse(const char *text)
{
    struct err e;
    int lookups;
    struct submit *x = parse_as(text, false, &e, &lookups);

    if (!x)
        fail_msg("%s", e.text);
    return x;
}

static void refuse(const char *text, enum err_code code, const char *part)
{
    struct err e;
    int lookups;
    struct submit *x = parse_as(text, false, &e, &lookups);

    if (x)
        fail_msg("accepted %s", text);
    if (e.code != code || !strstr(e.text, part))
        fail_msg("%s: got %s '%s', wanted '%s'", text, err_code_name(e.code), e.text, part);
}

static void check_str(struct str got, const char *want)
{
    if (!str_eq_c(got, want))
        fail_msg("got '%.*s', wanted '%s'", STR_ARG(got), want);
}

static bool inside(const struct submit *x, struct str s)
{
    return s.p >= x->body && s.p + s.n <= x->body + x->body_n;
}

static void test_one(void **state)
{
    struct submit *x =
        parse("{ \"command\": [\"echo\", \"{lr}\"], \"name\": \"n\", \"priority\": 7,\n"
              "  \"params\": { \"lr\": 0.1 }, \"cpus\": 2, \"timeout\": \"2h\" }");

    (void)state;
    assert_true(x->single);
    assert_int_equal(x->s.n_jobs, 1);
    assert_int_equal(x->s.n_specs, 1);
    check_str(x->s.jobs[0].params, "{ \"lr\": 0.1 }");
    check_str(x->s.specs[0].name, "n");
    check_str(x->s.specs[0].project, "default");
    check_str(x->s.specs[0].body,
              "{\"name\":\"n\",\"command\":[\"echo\", \"{lr}\"],\"priority\":7,\"cpus\":2,"
              "\"timeout\":\"2h\"}");
    assert_int_equal(x->s.jobs[0].priority, 7);
    assert_int_equal(x->s.specs[0].need.mcpu, 2000);
    assert_int_equal(x->s.specs[0].timeout_ms, 7200000);
    assert_true(inside(x, x->s.specs[0].body) && inside(x, x->s.jobs[0].params));
    x->s.free_fn(&x->s);
}

static void test_whole_text_is_kept(void **state)
{
    struct submit *x = parse("  {\"command\":\"true\", \"name\":\"a\"}\n");

    (void)state;
    check_str(x->s.specs[0].body, "{\"command\":\"true\", \"name\":\"a\"}");
    check_str(x->s.jobs[0].params, "");
    assert_null(x->s.jobs[0].name.p);
    submit_free(x);
}

static void test_array_shares(void **state)
{
    struct submit *x = parse("[{\"command\":\"t {a}\",\"params\":{\"a\":1}},"
                             "{\"command\":\"t {a}\",\"params\":{\"a\":2}},"
                             "{\"command\": \"t {a}\", \"params\":{\"a\":3}},"
                             "{\"command\":\"other\"},"
                             "{\"command\":\"other\",\"params\":{}}]");

    (void)state;
    assert_false(x->single);
    assert_int_equal(x->s.n_jobs, 5);
    assert_int_equal(x->s.n_specs, 2);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(x->s.jobs[i].spec, 0);
    assert_int_equal(x->s.jobs[3].spec, 1);
    assert_int_equal(x->s.jobs[4].spec, 1);
    check_str(x->s.jobs[2].params, "{\"a\":3}");
    check_str(x->s.jobs[4].params, "");
    check_str(x->s.specs[0].body, "{\"command\":\"t {a}\"}");
    submit_free(x);
}

static void test_names_of_shared_specs(void **state)
{
    struct submit *x =
        parse("[{\"name\":\"a\",\"command\":\"t\"},{\"name\":\"b\",\"command\":\"t\"},"
              "{\"name\":\"a\",\"command\":\"t\"},{\"command\":\"t\"},"
              "{\"name\":\"\\u0061\",\"command\":\"t\"}]");

    (void)state;
    assert_int_equal(x->s.n_specs, 3);
    assert_null(x->s.jobs[0].name.p); /* the spec's */
    check_str(x->s.jobs[1].name, "b");
    assert_null(x->s.jobs[2].name.p);
    check_str(x->s.specs[1].name, "t"); /* no name given: not the one of its neighbour */
    check_str(x->s.specs[2].name, "a"); /* an escaped name is read by the real parser */
    submit_free(x);
}

static void test_after(void **state)
{
    struct err e;
    int lookups;
    struct submit *x = parse_as("[{\"command\":\"t\",\"after\":[3,\"4\"]},"
                                "{\"command\":\"t\",\"after\":[3,\"4\"]},"
                                "{\"command\":\"t\",\"after\":5},{\"command\":\"t\",\"after\":[]}]",
                                false, &e, &lookups);

    (void)state;
    assert_non_null(x);
    assert_int_equal(lookups, 3); /* the second list is that of the first */
    assert_int_equal(x->s.jobs[1].n_after, 2);
    assert_int_equal(x->s.jobs[1].after[0], 3);
    assert_int_equal(x->s.jobs[1].after[1], 4);
    assert_int_equal(x->s.jobs[2].after[0], 5);
    assert_int_equal(x->s.jobs[3].n_after, 0);
    submit_free(x);
    refuse("[{\"command\":\"t\"},{\"command\":\"t\",\"after\":[1,999]}]", ERR_NOT_FOUND,
           "[1].after[1]: there is no job '999'");
    refuse("{\"command\":\"t\",\"after\":[true]}", ERR_INVALID, "after[0]");
}

static void test_sweep(void **state)
{
    struct submit *x = parse("{\"name\":\"mnist\",\"command\":\"t {lr} {d}\",\"slots\":4,"
                             "\"params\":{\"lr\":[0.1,0.01],\"d\":[3,5]},\"after\":[9]}");

    (void)state;
    assert_false(x->single);
    assert_int_equal(x->s.n_jobs, 4);
    assert_int_equal(x->s.n_specs, 1);
    check_str(x->s.batch.name, "mnist");
    assert_int_equal(x->s.batch.slots, 4);
    check_str(x->s.jobs[1].params, "{\"lr\":0.1,\"d\":5}");
    assert_int_equal(x->s.jobs[3].after[0], 9);
    submit_free(x);
    x = parse("{\"command\":\"t {index}\",\"array\":1000}");
    assert_int_equal(x->s.n_jobs, 1000);
    submit_free(x);
}

static void test_yaml(void **state)
{
    struct err e;
    int lookups;
    struct submit *x =
        parse_as("command: [echo, hi]\nname: y\nresources: {mem: 2G}\n", true, &e, &lookups);

    (void)state;
    assert_non_null(x);
    assert_true(x->single);
    check_str(x->s.specs[0].name, "y");
    assert_int_equal(x->s.specs[0].need.mem_bytes, INT64_C(2) << 30);
    submit_free(x);
    x = parse_as("- command: a\n- command: b\n", true, &e, &lookups);
    assert_non_null(x);
    assert_int_equal(x->s.n_jobs, 2);
    submit_free(x);
    assert_null(parse_as("a: [", true, &e, &lookups));
    assert_int_equal(e.code, ERR_INVALID);
}

static void test_refused(void **state)
{
    (void)state;
    refuse("", ERR_INVALID, "empty");
    refuse("  \n", ERR_INVALID, "empty");
    refuse("7", ERR_INVALID, "an object");
    refuse("[]", ERR_INVALID, "empty");
    refuse("{", ERR_INVALID, "body:");
    refuse("[{\"command\":\"t\"},", ERR_INVALID, "after job 1");
    refuse("[{\"command\":\"t\"}] x", ERR_INVALID, "after job 1");
    refuse("[{\"command\":\"t\"},7]", ERR_INVALID, "[1]");
    refuse("[{\"command\":\"t\"},{\"command\":\"t\",}]", ERR_INVALID, "job 1 of the list");
    refuse("{\"comand\":\"t\"}", ERR_INVALID, "did you mean \"command\"");
    refuse("[{\"command\":\"t\"},{\"command\":\"t\",\"resources\":{\"cpu\":1}}]", ERR_INVALID,
           "[1].resources.cpu: unknown key");
    refuse("[{\"command\":\"t\",\"params\":[1]}]", ERR_INVALID, "params");
    refuse("[{\"command\":\"t\",\"params\":{\"a\":}}]", ERR_INVALID, "[0].params");
    refuse("[{\"command\":\"t\",\"params\":{},\"params\":{}}]", ERR_INVALID, "twice");
    refuse("[{\"command\":\"t\",\"command\":\"u\"}]", ERR_INVALID, "command");
    refuse("[{\"command\":\"t\",\"slots\":2}]", ERR_INVALID, "[0].slots: belongs to a sweep");
    refuse("[{\"command\":\"t\",\"array\":2}]", ERR_INVALID, "[0].array");
    refuse("[{\"command\":[\"t\",\"{x}\"],\"params\":{\"y\":1}}]", ERR_INVALID, "x");
    refuse("[{\"command\":[\"t\",\"{y}\"],\"params\":{\"y\":1}},"
           "{\"command\":[\"t\",\"{y}\"],\"params\":{\"z\":1}}]",
           ERR_INVALID, "[1]");
}

static void test_escaped_key(void **state)
{
    struct submit *x = parse("{\"comm\\u0061nd\":\"t {a}\",\"par\\u0061ms\":{\"a\":1}}");

    (void)state;
    check_str(x->s.jobs[0].params, "{\"a\":1}");
    check_str(x->s.specs[0].body, "{\"command\":\"t {a}\"}");
    submit_free(x);
}

/* 20 000 elements, each with a command of its own: rows borrow everything from the body. */
static void test_bulk_borrows(void **state)
{
    struct buf b;
    struct submit *x;

    (void)state;
    buf_init(&b, 64 << 20);
    buf_addc(&b, '[');
    for (int i = 0; i < 20000; i++)
        buf_addf(&b, "%s{\"name\":\"job-%d\",\"command\":[\"run\",\"%d\"],\"params\":{\"i\":%d}}",
                 i ? "," : "", i, i, i);
    buf_addc(&b, ']');
    x = parse(b.p);
    buf_done(&b);
    assert_int_equal(x->s.n_jobs, 20000);
    assert_int_equal(x->s.n_specs, 20000);
    assert_int_equal(x->mem.total_bytes, 0);
    check_str(x->s.specs[19999].name, "job-19999");
    check_str(x->s.specs[19999].body, "{\"name\":\"job-19999\",\"command\":[\"run\",\"19999\"]}");
    check_str(x->s.jobs[19999].params, "{\"i\":19999}");
    submit_free(x);
}

static void add_element(struct buf *b, int i, const char *rest)
{
    if (i % 4 == 0)
        buf_addf(b, "{\"name\":\"j%d\",\"params\":{\"i\":%d},%s}", i, i, rest);
    else if (i % 4 == 1)
        buf_addf(b, "{ \"params\" : {\"i\":%d} , \"name\" : \"j%d\", %s }", i, i, rest);
    else
        buf_addf(b, "{%s,\"name\":\"j%d\",\"%s\":{\"i\":%d}}", rest, i,
                 i % 4 == 2 ? "params" : "p\\u0061rams", i);
}

/* Megabytes that say the same again: each element in another order and way of writing, now and then
 * a spec of its own.  Every text is right, and little of the body is kept. */
static void test_bulk_gives_back(void **state)
{
    enum { N = 20000 };
    char rest[400], name[32], params[32];
    struct buf b;

    (void)state;
    buf_init(&b, 64 << 20);
    for (int i = 0; i < N; i++) {
        snprintf(rest, sizeof(rest), "\"command\":[\"run\",\"%d\"],\"cwd\":\"/%0300d\"", i / 1000,
                 7);
        buf_addc(&b, i ? ',' : '[');
        add_element(&b, i, rest);
    }
    buf_addc(&b, ']');
    struct submit *x = parse(b.p);
    buf_done(&b);
    assert_int_equal(x->s.n_jobs, N);
    assert_int_equal(x->s.n_specs, N / 1000);
    for (int i = 0; i < N; i++) {
        const struct job_row *j = &x->s.jobs[i];
        snprintf(name, sizeof(name), "j%d", i);
        snprintf(params, sizeof(params), "{\"i\":%d}", i);
        check_str(j->params, params);
        check_str(j->name.p ? j->name : x->s.specs[j->spec].name, name);
    }
    for (int i = 0; i < N / 1000; i++) {
        snprintf(rest, sizeof(rest),
                 "{\"name\":\"j%d\",\"command\":[\"run\",\"%d\"],\"cwd\":\"/%0300d\"}", i * 1000, i,
                 7);
        check_str(x->s.specs[i].body, rest);
    }
    assert_true(x->kept < x->body_n / 10 && x->released > x->body_n / 2);
    submit_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_whole_text_is_kept),
        cmocka_unit_test(test_array_shares),
        cmocka_unit_test(test_names_of_shared_specs),
        cmocka_unit_test(test_after),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_escaped_key),
        cmocka_unit_test(test_bulk_borrows),
        cmocka_unit_test(test_bulk_gives_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
