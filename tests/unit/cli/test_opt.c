/* test_opt.c - command lines as people type them, on a small table of its own */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/util.h"
#include "cli/opt.h"

struct own {
    bool follow, all;
    const char *name, *form;
    struct opt_list env;
    struct opt_num limit, mem, timeout, cpus;
};
struct shared {
    const char *home;
    bool quiet;
};
static const struct opt own_opts[] = {
    {"follow", 'f', OPT_FLAG, NULL, offsetof(struct own, follow), "go on", 0, NULL},
    {"all", 'a', OPT_FLAG, NULL, offsetof(struct own, all), "all", 0, NULL},
    {"name", 0, OPT_TEXT, "NAME", offsetof(struct own, name), "a name", 0, NULL},
    {"output", 'o', OPT_CHOICE, "FORM", offsetof(struct own, form), "form", COMPLETE_CHOICES,
     "table|json|csv"},
    {"env", 'e', OPT_LIST, "K=V", offsetof(struct own, env), "variable", 0, NULL},
    {"limit", 'n', OPT_INT, "N", offsetof(struct own, limit), "number", 0, NULL},
    {"mem", 0, OPT_SIZE, "SIZE", offsetof(struct own, mem), "memory", 0, NULL},
    {"timeout", 0, OPT_DURATION, "TIME", offsetof(struct own, timeout), "time", 0, NULL},
    {"cpus", 0, OPT_CPUS, "N", offsetof(struct own, cpus), "CPUs", 0, NULL},
};
static const struct opt shared_opts[] = {
    {"home", 0, OPT_TEXT, "DIR", offsetof(struct shared, home), "home", COMPLETE_DIR, NULL},
    {"quiet", 'q', OPT_FLAG, NULL, offsetof(struct shared, quiet), "quiet", 0, NULL},
};
static const struct opt_group own_group = {"Own", own_opts, ARRAY_SIZE(own_opts), false};
static const struct opt_group shared_group = {"Shared", shared_opts, ARRAY_SIZE(shared_opts), true};
static const struct opt_group *const groups[] = {&own_group, &shared_group, NULL};
static const struct command look = {.name = "look",
                                    .summary = "look at things",
                                    .synopsis = "[OPTION…] JOB…",
                                    .groups = groups,
                                    .opts_size = sizeof(struct own),
                                    .operand = "job",
                                    .min_operands = 1,
                                    .max_operands = 2};
static const struct command start = {.name = "start",
                                     .summary = "start things",
                                     .synopsis = "COMMAND",
                                     .flags = COMMAND_STARTS,
                                     .groups = groups,
                                     .opts_size = sizeof(struct own),
                                     .operand = "command",
                                     .max_operands = SIZE_MAX};

static struct own own;
static struct shared shared;
static struct operands ops;
static struct err e;
static bool help;

#define PARSE(cmd, ...) parse(cmd, (const char *[]){__VA_ARGS__, NULL})
static int parse(const struct command *cmd, const char **argv)
{
    opt_done(cmd, &own, &shared, &ops);
    own = (struct own){0};
    shared = (struct shared){0};
    e = (struct err){0};
    return opt_parse(cmd, (char **)argv, &own, &shared, &ops, &help, &e);
}

static void test_forms(void **state)
{
    (void)state;
    assert_int_equal(PARSE(&look, "--name", "x", "--limit=5", "-fa", "7", "-o", "json"), 0);
    assert_string_equal(own.name, "x");
    assert_string_equal(own.form, "json");
    assert_true(own.follow && own.all && own.limit.set);
    assert_int_equal(own.limit.v, 5);
    assert_int_equal(ops.n, 1);
    assert_string_equal(ops.p[0], "7");
    assert_int_equal(PARSE(&look, "-n5", "7", "--home=/h", "-q"), 0);
    assert_int_equal(own.limit.v, 5);
    assert_string_equal(shared.home, "/h");
    assert_true(shared.quiet);
    assert_int_equal(PARSE(&look, "-fn", "3", "7"), 0);
    assert_true(own.follow);
    assert_int_equal(own.limit.v, 3);
    assert_int_equal(PARSE(&look, "--limit", "-3", "7"), 0);
    assert_int_equal(own.limit.v, -3);
    assert_int_equal(PARSE(&look, "-e", "A=1", "--env", "B=2", "-eC=3", "7"), 0);
    assert_int_equal(own.env.n, 3);
    assert_string_equal(own.env.p[2], "C=3");
}

static void test_units(void **state)
{
    (void)state;
    assert_int_equal(PARSE(&look, "--mem", "4G", "--timeout", "1h30m", "--cpus", "0.5", "1"), 0);
    assert_true(own.mem.v == INT64_C(4) << 30);
    assert_int_equal(own.timeout.v, 90 * 60 * 1000);
    assert_int_equal(own.cpus.v, 500);
    assert_int_equal(PARSE(&look, "--mem", "lots", "1"), -1);
    assert_non_null(strstr(e.text, "--mem"));
    assert_int_equal(e.code, ERR_INVALID);
    assert_int_equal(PARSE(&look, "-n", "many", "1"), -1);
    assert_non_null(strstr(e.text, "--limit: 'many' is not a whole number"));
}

static void test_operands(void **state)
{
    (void)state;
    assert_int_equal(PARSE(&look, "-f"), -1);
    assert_non_null(strstr(e.text, "berth look needs a job"));
    assert_int_equal(PARSE(&look, "1", "2", "3"), -1);
    assert_non_null(strstr(e.text, "'3'"));
    assert_int_equal(PARSE(&look, "--", "-f", "--name"), 0);
    assert_int_equal(ops.n, 2);
    assert_true(ops.dashed && !own.follow);
    assert_int_equal(PARSE(&look, "-"), 0);
    assert_string_equal(ops.p[0], "-");
    assert_int_equal(PARSE(&look, "1", "--help", "--nonsense"), 0);
    assert_true(help);
}

static void test_program(void **state)
{
    (void)state;
    assert_int_equal(PARSE(&start, "--name", "a", "python", "train.py", "--name", "b", "-f"), 0);
    assert_string_equal(own.name, "a");
    assert_int_equal(ops.n, 5);
    assert_false(ops.dashed || own.follow);
    assert_int_equal(PARSE(&start, "-f", "--", "sweep.yaml", "--x"), 0);
    assert_true(ops.dashed && own.follow);
    assert_int_equal(ops.n, 2);
    /* A file of jobs is no program: options may follow it. */
    assert_int_equal(PARSE(&start, "sweep.yaml", "-f"), 0);
    assert_true(own.follow);
    assert_int_equal(ops.n, 1);
}

static void test_mistakes(void **state)
{
    (void)state;
    assert_int_equal(PARSE(&look, "--limits", "3", "1"), -1);
    assert_string_equal(e.text, "berth look has no option --limits; did you mean --limit?");
    assert_int_equal(PARSE(&look, "--zzzzzzzz", "1"), -1);
    assert_non_null(strstr(e.text, "berth look --help"));
    assert_int_equal(PARSE(&look, "-x", "1"), -1);
    assert_non_null(strstr(e.text, "no option -x"));
    assert_int_equal(PARSE(&look, "--name"), -1);
    assert_non_null(strstr(e.text, "--name NAME"));
    assert_int_equal(PARSE(&look, "-n"), -1);
    assert_non_null(strstr(e.text, "-n N"));
    assert_int_equal(PARSE(&look, "--follow=yes", "1"), -1);
    assert_non_null(strstr(e.text, "takes no value"));
    assert_int_equal(PARSE(&look, "-o", "xml", "1"), -1);
    assert_non_null(strstr(e.text, "table, json, csv"));
    /* Long names are never abbreviated. */
    assert_int_equal(PARSE(&look, "--fol", "1"), -1);
}

static void test_leading(void **state)
{
    static const struct opt_group *const lead[] = {&shared_group, NULL};
    char *argv[] = {(char *)"--home", (char *)"/x", (char *)"look", (char *)"-f", NULL};
    char **rest;

    (void)state;
    shared = (struct shared){0};
    assert_int_equal(opt_parse_leading(lead, argv, &shared, &rest, &help, &e), 0);
    assert_string_equal(shared.home, "/x");
    assert_string_equal(*rest, "look");
    char *bad[] = {(char *)"--hom", NULL};
    assert_int_equal(opt_parse_leading(lead, bad, &shared, &rest, &help, &e), -1);
    assert_string_equal(e.text, "berth has no option --hom; did you mean --home?");
}

static void test_find(void **state)
{
    static const struct command *const all[] = {&look, &start, NULL};

    (void)state;
    assert_ptr_equal(command_find(all, "start", &e), &start);
    assert_null(command_find(all, "stort", &e));
    assert_non_null(strstr(e.text, "did you mean 'start'?"));
    assert_null(command_find(all, "qqqqqqqqq", &e));
    assert_non_null(strstr(e.text, "berth help"));
}

static int done(void **state)
{
    (void)state;
    opt_done(&look, &own, &shared, &ops);
    return 0;
}

/* ---- the habits of Python's argparse ---- */

struct python_own {
    const char *config, *project, *profile, *secret;
    struct opt_num gpus;
    struct opt_real ram;
    int port;
    bool fail;
};
#define PYTHON_AT(member) offsetof(struct python_own, member)
static const struct opt python_opts[] = {
    {"config", 'c', OPT_REQUIRED, "CONFIG", PYTHON_AT(config), "a file"},
    {"project", 0, OPT_TEXT, "NAME", PYTHON_AT(project), "a name"},
    {"profile", 0, OPT_TEXT, "NAME", PYTHON_AT(profile), "a name"},
    {"gpus", 'g', OPT_INT, "INT", PYTHON_AT(gpus), "a number"},
    {"ram", 0, OPT_REAL, "FLOAT", PYTHON_AT(ram), "a number"},
    {"port", 0, OPT_PORT, "PORT", PYTHON_AT(port), "a port"},
    {"fail", 0, OPT_FLAG, NULL, PYTHON_AT(fail), "a flag"},
    {"secret-fd", 0, OPT_TEXT, "FD", PYTHON_AT(secret), NULL},
};
static const struct opt_group python_group = {NULL, python_opts, ARRAY_SIZE(python_opts), false};
static const struct command python_look = {
    .program = "prog",
    .name = "look",
    .flags = COMMAND_PYTHON,
    .groups = (const struct opt_group *const[]){&python_group, NULL},
    .opts_size = sizeof(struct python_own),
    .min_operands = 1,
    .max_operands = 1,
    .words = (const struct operand_word[]){{"job_id", "a job"}, {0}},
};

static struct python_own python_own;
static int python_try(const char **argv)
{
    free(ops.p);
    python_own = (struct python_own){.port = 80};
    e = (struct err){0};
    return opt_parse(&python_look, (char **)argv, &python_own, NULL, &ops, &help, &e);
}
#define PYTHON(...) python_try((const char *[]){__VA_ARGS__, NULL})

static void test_python_forms(void **state)
{
    (void)state;
    assert_int_equal(PYTHON("-cfile", "7", "--proj=x", "--gpus", "-1", "--ram", "1.5", "--fa"), 0);
    assert_string_equal(python_own.config, "file");
    assert_string_equal(python_own.project, "x");
    assert_true(python_own.gpus.v == -1 && python_own.ram.v == 1.5 && python_own.fail);
    assert_int_equal(python_own.port, 80);
    assert_int_equal(PYTHON("-c", "f", "-3", "--port", "8080"), 0);
    assert_string_equal(ops.p[0], "-3");
    assert_int_equal(python_own.port, 8080);
    assert_int_equal(PYTHON("--he"), 0);
    assert_true(help);
}

static void test_python_mistakes(void **state)
{
    static const struct {
        const char *argv[6], *text;
    } rows[] = {
        {{"7"}, "the following arguments are required: -c/--config"},
        {{NULL}, "the following arguments are required: -c/--config, job_id"},
        {{"-c"}, "argument -c/--config: expected one argument"},
        {{"-c", "--fail"}, "argument -c/--config: expected one argument"},
        {{"--pro", "x"}, "ambiguous option: --pro"},
        {{"-gx"}, "argument -g/--gpus: invalid int value: 'x'"},
        {{"--ram", "x"}, "argument --ram: invalid float value: 'x'"},
        {{"--fail=1"}, "argument --fail: ignored explicit argument '1'"},
        {{"-c", "f", "7", "8", "--no"}, "unrecognized arguments: 8 --no"},
        {{"-c", "f", "7", "--secret", "3"}, "unrecognized arguments: --secret 3"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const char *argv[7] = {NULL};
        memcpy(argv, rows[i].argv, sizeof(rows[i].argv));
        assert_int_equal(python_try(argv), -1);
        assert_string_equal(e.text, rows[i].text);
    }
    /* Only unknown words are reported for the whole program. */
    assert_int_equal(e.code, ERR_NOT_FOUND);
    free(ops.p);
    ops = (struct operands){0};
}

/* Only what was given and asked for, in the order of the names. */
static void test_json(void **state)
{
    (void)state;
    AUTO(json) struct json *j = json_new_object();
    assert_int_equal(PARSE(&look, "--name", "x", "-f", "-e", "A=1", "--mem", "1K", "--timeout",
                           "1500ms", "--cpus", "2", "--limit", "5", "--home", "/h", "7"),
                     0);
    opt_put_json(j, OPTION_GROUPS(&own_group), &own,
                 "timeout|cpus|follow|all|output|env|mem|name|nothing");
    AUTO_FREE char *text = json_text(j);
    assert_string_equal(text, "{\"timeout\":\"1500ms\",\"cpus\":2,\"follow\":true,"
                              "\"env\":[\"A=1\"],\"mem\":1024,\"name\":\"x\"}");
}

static void test_range(void **state)
{
    const struct opt_num low = {0, true}, fits = {5, true}, absent = {0, false};

    (void)state;
    assert_int_equal(opt_range(&fits, "--n", 1, 5, &e), 0);
    assert_int_equal(opt_range(&absent, "--n", 1, 5, &e), 0);
    assert_int_equal(opt_range(&low, "--n", 1, 5, &e), -1);
    assert_string_equal(e.text, "--n must be between 1 and 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_leading),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_python_forms),
        cmocka_unit_test(test_python_mistakes),
    };

    return cmocka_run_group_tests(tests, NULL, done);
}
