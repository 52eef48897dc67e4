/* test_foundations.c - the arguments of foundations, and what is written from its tables */
#include "dialect/help_python.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/util.h"
#include "dialect/atlas/foundations.h"
#include <fcntl.h>
#include <stdio.h>

static const struct found_command *command(const char *path)
{
    for (size_t i = 0; i < n_found_commands; i++)
        if (!strcmp(found_commands[i].cmd.name, path))
            return &found_commands[i];
    fail_msg("there is no %s", path);
    return NULL;
}

/* Parses with stdout and stderr put aside; 0 or the exit status + 1. */
static int parse(const char *path, struct found_opts *o, bool *debug, char **argv)
{
    struct foundations f = {.log_fd = -1};
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);

    fflush(stdout);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    free(o->ops.p);
    *o = (struct found_opts){0};
    int rc = python_parse(&command(path)->cmd, found_usage, argv, o, &f, &o->ops);
    fflush(stderr);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    close(null);
    *debug = f.debug;
    return rc;
}
#define PARSE(path, o, debug, ...) parse(path, o, debug, (char *[]){__VA_ARGS__, NULL})
#define WORD(text) ((char[]){text})

static void test_submit_grammar(void **state)
{
    struct found_opts o = {0};
    bool debug;

    (void)state;
    assert_int_equal(PARSE("submit", &o, &debug, WORD("--ram"), WORD("2"), WORD("scheduler"),
                           WORD("--project-name=p"), WORD("."), WORD("main.py"), WORD("--ram"),
                           WORD("9"), WORD("--"), WORD("-h")),
                     0);
    assert_true(o.ram.set && o.ram.v == 2);
    assert_string_equal(o.project_name, "p");
    assert_string_equal(o.ops.p[0], "scheduler");
    assert_string_equal(o.ops.p[1], ".");
    const char *rest[] = {"main.py", "--ram", "9", "--", "-h"};
    for (size_t i = 0; i < ARRAY_SIZE(rest); i++)
        assert_string_equal(o.ops.p[2 + i], rest[i]);
    assert_null(o.ops.p[2 + ARRAY_SIZE(rest)]);
    assert_false(debug);
    /* A negative number is a value; whether it makes sense is asked later. */
    assert_int_equal(PARSE("submit", &o, &debug, WORD("--num-gpus"), WORD("-1"), WORD("--debug"),
                           WORD("s"), WORD("d")),
                     0);
    assert_true(o.num_gpus.set && o.num_gpus.v == -1);
    assert_true(debug);
    assert_null(o.ops.p[2]);
    /* Unique beginnings are enough. */
    assert_int_equal(PARSE("submit", &o, &debug, WORD("--proj"), WORD("x"), WORD("--fail"),
                           WORD("s"), WORD("d")),
                     0);
    assert_string_equal(o.project_name, "x");
    assert_true(o.fail_on_job_error);
    free(o.ops.p);
}

static void test_mistakes(void **state)
{
    struct found_opts o = {0};
    bool debug;

    (void)state;
    assert_int_equal(PARSE("submit", &o, &debug, WORD("s")), 3);
    assert_int_equal(PARSE("submit", &o, &debug, WORD("--ram"), WORD("s"), WORD("d")), 3);
    assert_int_equal(PARSE("submit", &o, &debug, WORD("--ram=nan"), WORD("s"), WORD("d")), 3);
    assert_int_equal(PARSE("submit", &o, &debug, WORD("--num-gpus=1.5"), WORD("s"), WORD("d")), 3);
    assert_int_equal(PARSE("submit", &o, &debug, WORD("--fail-on-job-error=1"), WORD("s")), 3);
    assert_int_equal(PARSE("submit", &o, &debug, WORD("--no-such"), WORD("s"), WORD("d")), 3);
    assert_int_equal(PARSE("get logs", &o, &debug, WORD("a"), WORD("b"), WORD("c")), 3);
    assert_int_equal(PARSE("get job", &o, &debug, WORD("--s"), WORD("x"), WORD("a"), WORD("b")), 3);
    assert_int_equal(PARSE("login", &o, &debug, WORD("-u")), 3);
    assert_int_equal(PARSE("login", &o, &debug, WORD("--help")), 1);
    free(o.ops.p);
}

static void test_letters(void **state)
{
    struct found_opts o = {0};
    bool debug;

    (void)state;
    assert_int_equal(PARSE("login", &o, &debug, WORD("-ume"), WORD("host"), WORD("-p"), WORD("x")),
                     0);
    assert_string_equal(o.username, "me");
    assert_string_equal(o.password, "x");
    assert_string_equal(o.ops.p[0], "host");
    free(o.ops.p);
}

static void test_pages(void **state)
{
    AUTO(buf) struct buf man = {0}, completion = {0}, help = {0};

    (void)state;
    buf_init(&man, 1 << 20);
    buf_init(&completion, 1 << 20);
    buf_init(&help, 1 << 20);
    found_man(&man, "1.2.3");
    found_completion(&completion);
    found_help(&help);
    assert_null(strstr(man.p, "(null)"));
    assert_null(strstr(completion.p, "(null)"));
    for (size_t i = 0; i < n_found_commands; i++) {
        const struct found_command *c = &found_commands[i];
        AUTO_FREE char *quoted = xasprintf("    '%s') words=", c->cmd.name);
        assert_non_null(strstr(completion.p, quoted));
        assert_non_null(strstr(help.p, c->cmd.summary));
        for (const struct opt_group *const *g = c->cmd.groups; *g; g++)
            for (size_t k = 0; k < (*g)->n; k++) {
                assert_non_null(strstr(completion.p, (*g)->opts[k].name));
                assert_true((*g)->opts[k].arg || (*g)->opts[k].type == OPT_FLAG);
            }
        AUTO(buf) struct buf one = {0};
        buf_init(&one, 1 << 20);
        python_help(&one, &c->cmd);
        assert_null(strstr(one.p, "(null)"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_submit_grammar),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_letters),
        cmocka_unit_test(test_pages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
