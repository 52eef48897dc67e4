/* test_sweep.c - grids, lists, arrays: how many, which params, which names, which specs */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "base/yaml.h"
#include "model/sweep.h"

static struct sweep *parsed(const char *yaml)
{
    struct json *j = NULL;
    struct sweep *s = NULL;
    struct err e = {0};

    if (yaml_parse(str_of(yaml), "sweep.yaml", &j, &e) < 0 || sweep_parse(j, &s, &e) < 0)
        fail_msg("%s", e.text);
    json_free(j); /* the sweep keeps nothing of it */
    return s;
}

static void refused(const char *yaml, const char *message)
{
    struct json *j = NULL;
    struct sweep *s = NULL;
    struct err e = {0};

    if (yaml_parse(str_of(yaml), "sweep.yaml", &j, &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(sweep_parse(j, &s, &e), -1);
    assert_null(s);
    if (!strstr(e.text, message))
        fail_msg("\"%s\" is not in \"%s\"", message, e.text);
    json_free(j);
}

static void check_job(const struct sweep *s, size_t i, size_t spec, const char *params,
                      const char *name)
{
    AUTO(buf) struct buf p, n;
    size_t k = 99;

    buf_init(&p, 1 << 20);
    buf_init(&n, 1 << 20);
    sweep_job(s, i, &k, &p, &n);
    assert_int_equal(k, spec);
    assert_string_equal(p.p ? p.p : "", params);
    assert_string_equal(n.p ? n.p : "", name);
}

static void grid(void **state)
{
    struct sweep *s = parsed("name: mnist\n"
                             "command: python train.py --lr {lr} --depth {depth}\n"
                             "params: {lr: [0.1, 0.01], depth: [3, 5], seed: 7}\n"
                             "resources: {cpus: 1, mem: 2G, gpus: 0}\n"
                             "slots: 4\n");

    (void)state;
    assert_int_equal(sweep_count(s), 4);
    assert_int_equal(sweep_slots(s), 4);
    assert_string_equal(sweep_name(s), "mnist");
    assert_int_equal(sweep_n_specs(s), 1);
    assert_int_equal(sweep_spec(s, 0)->need.mcpu, 1000);
    check_job(s, 0, 0, "{\"lr\":0.1,\"depth\":3,\"seed\":7}", "");
    check_job(s, 1, 0, "{\"lr\":0.1,\"depth\":5,\"seed\":7}", "");
    check_job(s, 2, 0, "{\"lr\":0.01,\"depth\":3,\"seed\":7}", "");
    check_job(s, 3, 0, "{\"lr\":0.01,\"depth\":5,\"seed\":7}", "");
    sweep_free(s);
}

static void values_keep_their_text_and_type(void **state)
{
    struct sweep *s =
        parsed("command: [x, '{a}']\n"
               "params: {a: [0.10, \"0.10\", true, null, [1, 2], {b: c}, \"q\\\"\"]}\n");

    (void)state;
    check_job(s, 0, 0, "{\"a\":0.10}", "");
    check_job(s, 1, 0, "{\"a\":\"0.10\"}", "");
    check_job(s, 2, 0, "{\"a\":true}", "");
    check_job(s, 3, 0, "{\"a\":null}", "");
    check_job(s, 4, 0, "{\"a\":[1,2]}", "");
    check_job(s, 5, 0, "{\"a\":{\"b\":\"c\"}}", "");
    check_job(s, 6, 0, "{\"a\":\"q\\\"\"}", "");
    sweep_free(s);
}

static void one_job(void **state)
{
    struct sweep *s = parsed("command: awk '{print}' file\n");

    (void)state;
    assert_int_equal(sweep_count(s), 1);
    assert_int_equal(sweep_slots(s), 0);
    check_job(s, 0, 0, "", "");
    sweep_free(s);
}

static void arrays(void **state)
{
    struct sweep *s = parsed("command: run {index}\narray: 1000000\n");

    (void)state;
    assert_int_equal(sweep_count(s), 1000000);
    check_job(s, 0, 0, "{\"index\":0}", "");
    check_job(s, 999999, 0, "{\"index\":999999}", "");
    sweep_free(s);
    s = parsed("name: 'r{index}-{m}'\ncommand: run {index} {m}\narray: 3\nparams: {m: [a, b]}\n");
    assert_int_equal(sweep_count(s), 6);
    check_job(s, 4, 0, "{\"m\":\"b\",\"index\":1}", "r1-b");
    sweep_free(s);
}

static void list_of_jobs(void **state)
{
    struct sweep *s =
        parsed("name: base\n"
               "command: x {lr}\n"
               "env: {A: 1, B: 2}\n"
               "params: {seed: 1, lr: 9}\n"
               "after: 01abc\n"
               "jobs:\n"
               "- {params: {lr: 0.1}}\n"
               "- {params: {lr: 0.2, seed: [2, 3]}, name: 'two {lr}', after: [x, 7]}\n"
               "- {env: {B: 3}, priority: 5}\n"
               "- {priority: 5, env: {B: 3}}\n"
               "- {env: {B: 3}, priority: 5, params: {lr: 4}}\n");

    (void)state;
    assert_int_equal(sweep_count(s), 5);
    check_job(s, 0, 0, "{\"seed\":1,\"lr\":0.1}", "");
    check_job(s, 1, 0, "{\"seed\":[2,3],\"lr\":0.2}", "two 0.2");
    check_job(s, 2, 1, "{\"seed\":1,\"lr\":9}", "");
    assert_string_equal(sweep_spec(s, 1)->command.env[0], "A=1");
    assert_string_equal(sweep_spec(s, 1)->command.env[1], "B=3");
    assert_int_equal(sweep_spec(s, 1)->priority, 5);
    check_job(s, 4, 1, "{\"seed\":1,\"lr\":4}", "");
    assert_string_equal(json_str(sweep_after(s, 0)).p, "01abc");
    assert_int_equal(json_len(sweep_after(s, 1)), 2);
    assert_string_equal(sweep_name(s), "base");
    sweep_free(s);
    s = parsed("name: 'p-{a}'\njobs:\n- {command: x, params: {a: 1}}\n- {command: y}\n");
    check_job(s, 0, 0, "{\"a\":1}", "p-1");
    check_job(s, 1, 1, "", "");
    sweep_free(s);
}

static void long_names_are_cut_between_characters(void **state)
{
    char yaml[2000] = "command: x\nname: 'n{v}'\nparams: {v: '";
    size_t n = strlen(yaml);
    AUTO(buf) struct buf p, name;
    size_t k;

    (void)state;
    for (int i = 0; i < 150; i++, n += 2)
        memcpy(yaml + n, "\xc3\xa9", 2);
    memcpy(yaml + n, "'}\n", 4);
    struct sweep *s = parsed(yaml);
    buf_init(&p, 1 << 20);
    buf_init(&name, 1 << 20);
    sweep_job(s, 0, &k, &p, &name);
    assert_int_equal(name.n, 199);
    sweep_free(s);
}

static void messages(void **state)
{
    (void)state;
    refused("[]", "a sweep is a map");
    refused("params: {a: 1}", "command: is missing");
    refused("command: x {b}\nparams: {a: [1]}", "command: {b} is not a parameter");
    refused("command: x {indx}\narray: 4", "did you mean {index}?");
    refused("command: x\nname: '{b}'\nparams: {a: 1}", "name: {b} is not a parameter");
    refused("command: x\nparams: {a: []}", "params.a: is an empty list");
    refused("command: x\nparams: [1]", "params: is");
    refused("command: x\nparams: {index: 1}\narray: 2", "params.index: an array has an index");
    refused("command: x\narray: 0", "array: 0 is not a whole number from 1 to 1000000");
    refused("command: x\narray: 1000001", "array: 1000001 is not");
    refused("command: x\nslots: many", "slots: \"many\" is not a whole number from 1");
    refused("command: x\narray: 500001\nparams: {a: [1, 2]}", "more than 1000000 jobs");
    refused("command: x\nafter: {a: 1}", "after: write a job id");
    refused("command: x\njobs: []", "jobs: write a list");
    refused("command: x\njobs: [1]", "jobs[0]: is");
    refused("command: x\njobs: [{}]\narray: 3", "array: cannot be combined with jobs");
    refused("command: x\njobs: [{}]\nparams: {a: [1, 2]}", "params.a: a list means every");
    refused("command: x\ntimout: 3\njobs: [{}]", "timout: unknown key; did you mean \"timeout\"?");
    refused("jobs: [{command: x}, {name: y}]", "jobs[1].command: is missing");
    refused("command: x\njobs: [{}, {cpu: 1}]", "jobs[1].cpu: unknown key; did you mean \"cpus\"?");
    refused("command: x\njobs: [{slots: 1}]", "jobs[0].slots: belongs to the whole sweep");
    refused("command: x\njobs: [{name: ''}]", "jobs[0].name: write a text");
    refused("command: x {q}\njobs: [{params: {a: 1}}]", "jobs[0].command: {q} is not a parameter");
    refused("command: x\nqueu: a\nparams: {a: 1}", "queu: unknown key; did you mean \"queue\"?");
    refused("command: x\njobs: [{after: 1.5}]", "jobs[0].after: write a job id");
}

static void too_many_combinations(void **state)
{
    (void)state;
    refused("command: x\nparams: {a: &l [1,2,3,4,5,6,7,8,9,10], b: *l, c: *l, d: *l, e: *l, f: *l, "
            "g: [1,2]}",
            "params.g: makes more than 1000000 jobs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grid),         cmocka_unit_test(values_keep_their_text_and_type),
        cmocka_unit_test(one_job),      cmocka_unit_test(arrays),
        cmocka_unit_test(list_of_jobs), cmocka_unit_test(long_names_are_cut_between_characters),
        cmocka_unit_test(messages),     cmocka_unit_test(too_many_combinations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
