/* test_jobspec.c - options and files into the body of a submission */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/util.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "cli/jobspec.h"
#include "cli/view.h"
#include <stdio.h>

static char dir[] = "/tmp/berth-test-XXXXXX";
static struct err e;

#define WORDS(...)                                                                                 \
    (struct operands)                                                                              \
    {                                                                                              \
        (const char *[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),     \
            false                                                                                  \
    }

static struct json *build(const struct job_opts *o, struct operands ops)
{
    struct json *spec = NULL;

    e = (struct err){0};
    if (jobspec_build(o, &ops, &spec, &e) < 0)
        return NULL;
    return spec;
}

static char *file(const char *name, const char *text)
{
    char *path = path_join(dir, name);

    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &e), 0);
    return path;
}

static void has(const struct json *spec, const char *key, const char *want)
{
    AUTO_FREE char *text = json_text(json_get(spec, key));

    assert_string_equal(text ? text : "(absent)", want);
}

static void test_command(void **state)
{
    struct job_opts o = {.name = "a",
                         .cpus = {2000, true},
                         .mem = {INT64_C(4) << 30, true},
                         .limits.timeout = {7200000, true},
                         .priority = {5, true},
                         .limits.retries = {2, true},
                         .project = "p"};
    struct json *spec = build(&o, WORDS("cmd", "a b", "--lr"));

    (void)state;
    assert_non_null(spec);
    has(spec, "command", "[\"cmd\",\"a b\",\"--lr\"]");
    has(spec, "name", "\"a\"");
    has(spec, "project", "\"p\"");
    has(spec, "resources", "{\"cpus\":2,\"mem\":4294967296}");
    has(spec, "timeout", "7200");
    has(spec, "priority", "5");
    has(spec, "retries", "2");
    char cwd[4096];
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_true(str_eq_c(text_of(spec, "cwd"), cwd));
    json_free(spec);
    o = (struct job_opts){0};
    spec = build(&o, WORDS("echo hi; sleep 1"));
    has(spec, "command", "\"echo hi; sleep 1\"");
    json_free(spec);
}

static void test_env(void **state)
{
    struct job_opts o = {0};

    (void)state;
    setenv("BERTH_TEST_SECRET", "no", 1);
    setenv("KEPT", "yes", 1);
    setenv("SHLVL", "3", 1);
    vec_push(&o.env, "SEED=7");
    vec_push(&o.env, "EMPTY=");
    struct json *spec = build(&o, WORDS("x"));
    const struct json *env = json_get(spec, "env");
    assert_true(str_eq_c(text_of(env, "KEPT"), "yes"));
    assert_true(str_eq_c(text_of(env, "SEED"), "7"));
    assert_true(json_has(env, "EMPTY"));
    assert_false(json_has(env, "BERTH_TEST_SECRET"));
    assert_false(json_has(env, "SHLVL"));
    json_free(spec);
    o.clean_env = true;
    spec = build(&o, WORDS("x"));
    assert_false(json_has(json_get(spec, "env"), "KEPT"));
    assert_true(json_has(json_get(spec, "env"), "PATH"));
    assert_true(json_has(json_get(spec, "env"), "SEED"));
    json_free(spec);
    vec_push(&o.env, "novalue");
    assert_null(build(&o, WORDS("x")));
    assert_non_null(strstr(e.text, "NAME=VALUE"));
    vec_done(&o.env);
}

static void test_params(void **state)
{
    struct job_opts o = {0};

    (void)state;
    vec_push(&o.params, "lr=0.1");
    vec_push(&o.params, "net=cnn");
    vec_push(&o.params, "depth=[3,5]");
    vec_push(&o.params, "path=a=b");
    struct json *spec = build(&o, WORDS("x"));
    has(spec, "params", "{\"lr\":0.1,\"net\":\"cnn\",\"depth\":[3,5],\"path\":\"a=b\"}");
    json_free(spec);
    vec_done(&o.params);
}

static void test_file(void **state)
{
    AUTO_FREE char *path = file("sweep.yaml", "name: mnist\n"
                                              "command: python train.py --lr {lr}\n"
                                              "params: {lr: [0.1, 0.01]}\n"
                                              "resources: {cpus: 1, mem: 2G}\n"
                                              "env: {A: 1}\n"
                                              "cwd: sub\n"
                                              "slots: 4\n");
    struct job_opts o = {.mem = {1 << 30, true}};

    (void)state;
    vec_push(&o.params, "depth=[3]");
    struct json *spec = build(&o, WORDS(path));
    assert_non_null(spec);
    has(spec, "slots", "4");
    has(spec, "params", "{\"lr\":[0.1,0.01],\"depth\":[3]}");
    has(spec, "resources", "{\"cpus\":1,\"mem\":1073741824}");
    has(json_get(spec, "env"), "A", "1");
    assert_true(json_has(json_get(spec, "env"), "PATH"));
    AUTO_FREE char *sub = path_join(dir, "sub");
    assert_true(str_eq_c(text_of(spec, "cwd"), sub));
    json_free(spec);
    vec_done(&o.params);
}

static void test_jobs(void **state)
{
    AUTO_FREE char *path = file("list.json", "[{\"command\":\"a\"},"
                                             "{\"command\":\"b\",\"env\":{\"A\":\"1\"}}]");
    struct job_opts o = {0};
    struct json *spec = build(&o, WORDS(path));

    (void)state;
    assert_non_null(spec);
    const struct json *jobs = json_get(spec, "jobs");
    assert_int_equal(json_len(jobs), 2);
    assert_false(json_has(json_at(jobs, 0), "env"));
    const struct json *env = json_get(json_at(jobs, 1), "env");
    assert_true(json_has(env, "PATH") && json_has(env, "A"));
    json_free(spec);
}

static void test_bad_files(void **state)
{
    AUTO_FREE char *scalar = file("bad.yaml", "just text\n");
    AUTO_FREE char *broken = file("broken.yaml", "a: [1,\n");
    struct job_opts o = {0};

    (void)state;
    assert_null(build(&o, WORDS(scalar)));
    assert_non_null(strstr(e.text, "does not describe a job"));
    assert_null(build(&o, WORDS(broken)));
    assert_non_null(strstr(e.text, "broken.yaml:"));
    assert_null(build(&o, WORDS("/nonexistent/x.yaml")));
    assert_int_equal(e.code, ERR_NOT_FOUND);
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return dir_remove_tree(dir, &e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command), cmocka_unit_test(test_env),
        cmocka_unit_test(test_params),  cmocka_unit_test(test_file),
        cmocka_unit_test(test_jobs),    cmocka_unit_test(test_bad_files),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
