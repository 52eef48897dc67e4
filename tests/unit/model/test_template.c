/* test_template.c - placeholders, and that /bin/sh sees every value exactly, whatever is in it
 *
 * The program starts itself through /bin/sh with "--print", which writes its further arguments back
 * with a NUL after each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/rand.h"
#include "base/util.h"
#include "model/spec.h"
#include "model/template.h"
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

static struct json *tree(const char *text)
{
    struct json *j = NULL;
    struct err e = {0};

    if (json_parse(str_of(text), "test", &j, &e) < 0)
        fail_msg("%s: %s", text, e.text);
    return j;
}

/* ---- word lists ---- */

static void check_word(const char *word, const char *params, const char *wanted)
{
    char *words[] = {(char *)(uintptr_t)word, NULL};
    struct spec_command r = {.argv = words};
    struct json *j = params ? tree(params) : NULL;
    struct arena a = {0};
    char **argv, **env;
    struct err e = {0};

    if (spec_argv(&r, j, &a, &argv, &env, &e) < 0)
        fail_msg("%s: %s", word, e.text);
    assert_string_equal(argv[0], wanted);
    assert_null(argv[1]);
    assert_null(env[0]);
    arena_done(&a);
    json_free(j);
}

static void words(void **state)
{
    const char *p =
        "{\"lr\":0.10,\"n\":3,\"s\":\"a b'\\\"$x\",\"t\":true,\"z\":null,\"l\":[1,{\"a\":2}]}";

    (void)state;
    check_word("--lr={lr}", p, "--lr=0.10");
    check_word("{n}{n}", p, "33");
    check_word("{s}", p, "a b'\"$x");
    check_word("{t} {z} {l}", p, "true null [1,{\"a\":2}]");
    check_word("{{lr}}", p, "{lr}");
    check_word("{{lr}", p, "{lr}");
    check_word("{{}}", p, "{}");
    check_word("{{{n}}}", p, "{3}}");
    check_word("}} {", p, "}} {");
    check_word("{\"a\": {\"b\": 1}}", p, "{\"a\": {\"b\": 1}}");
    check_word("{print $1}", p, "{print $1}");
    check_word("{}", p, "{}");
    check_word("{1..3}", p, "{1..3}");
    check_word("${lr}", p, "${lr}");
    check_word("${{lr}}", p, "${lr}");
}

static void without_params_braces_are_its_own(void **state)
{
    (void)state;
    check_word("{print}", NULL, "{print}");
    check_word("{{x}}", "{}", "{{x}}");
}

/* ---- shell lines: how the reference is written ---- */

static int shell_line(const char *line, const char *params, struct arena *a, char ***argv,
                      char ***env, struct err *e)
{
    struct spec_command r = {.shell = (char *)(uintptr_t)line};
    struct json *j = tree(params);
    int rc = spec_argv(&r, j, a, argv, env, e);

    json_free(j);
    return rc;
}

static void check_shell(const char *line, const char *wanted)
{
    struct arena a = {0};
    char **argv, **env;
    struct err e = {0};

    if (shell_line(line, "{\"v\":\"1\",\"w\":2}", &a, &argv, &env, &e) < 0)
        fail_msg("%s: %s", line, e.text);
    assert_string_equal(argv[0], "/bin/sh");
    assert_string_equal(argv[1], "-c");
    assert_string_equal(argv[2], wanted);
    assert_null(argv[3]);
    arena_done(&a);
}

#define V "${BERTH_PARAM_v}"
static void quoting(void **state)
{
    (void)state;
    check_shell("x {v}", "x \"" V "\"");
    check_shell("x a{v}b", "x a\"" V "\"b");
    check_shell("x \"a{v}b\"", "x \"a" V "b\"");
    check_shell("x 'a{v}b'", "x 'a'\"" V "\"'b'");
    check_shell("x \\\"{v}", "x \\\"\"" V "\"");
    check_shell("x \"\\\"{v}\"", "x \"\\\"" V "\"");
    check_shell("x \"$(y {v})\"", "x \"$(y \"" V "\")\"");
    check_shell("x \"$(y '{v}' | (z))\" {v}", "x \"$(y ''\"" V "\"'' | (z))\" \"" V "\"");
    check_shell("x # it's {v}\ny {v}", "x # it's {v}\ny \"" V "\"");
    check_shell("x a#'{v}'", "x a#''\"" V "\"''");
    check_shell("x \\ #{v}", "x \\ #\"" V "\"");
    check_shell("x ${HOME} {{v}} awk '{print $1}'", "x ${HOME} {v} awk '{print $1}'");
    check_shell("x $((1+2)) {v}", "x $((1+2)) \"" V "\"");
    check_shell("x `y \"` {v}", "x `y \"` \"" V "\"");
    check_shell("cat <<E\na \"{v}\"\nE\nx {v}", "cat <<E\na \"" V "\"\nE\nx \"" V "\"");
    check_shell("cat <<-'E'\n it's\n\tE\nx {v}", "cat <<-'E'\n it's\n\tE\nx \"" V "\"");
    check_shell("cat <<A <<B\n{v}\nA\n{v}\nB\n{v}", "cat <<A <<B\n" V "\nA\n" V "\nB\n\"" V "\"");
    check_shell("x 1<<2\n2\n{v}", "x 1<<2\n2\n\"" V "\"");
    check_shell("x <<<a {v}", "x <<<a \"" V "\"");
    check_shell("f() { y; }; {v}", "f() { y; }; \"" V "\"");
    check_shell("x 'unclosed {v}", "x 'unclosed '\"" V "\"'");
}

static void values_travel_as_variables(void **state)
{
    struct arena a = {0};
    char **argv, **env;
    struct err e = {0};

    (void)state;
    assert_int_equal(
        shell_line("{b} {a} {b}", "{\"a\":0.10,\"b\":\"$(rm x)\",\"c\":1}", &a, &argv, &env, &e),
        0);
    assert_string_equal(env[0], "BERTH_PARAM_b=$(rm x)");
    assert_string_equal(env[1], "BERTH_PARAM_a=0.10");
    assert_null(env[2]);
    arena_done(&a);
}

static void refused(const char *line, const char *params, const char *message)
{
    struct arena a = {0};
    char **argv, **env;
    struct err e = {0};

    assert_int_equal(shell_line(line, params, &a, &argv, &env, &e), -1);
    if (!strstr(e.text, message))
        fail_msg("\"%s\" is not in \"%s\"", message, e.text);
    arena_done(&a);
}

static void places_where_no_value_can_stand(void **state)
{
    (void)state;
    refused("x `y {v}`", "{\"v\":1}", "inside backquotes, where no value can be put; use $(...)");
    refused("x $(({v} + 1))", "{\"v\":1}", "inside $((...))");
    refused("cat <<'E'\n{v}\nE", "{\"v\":1}", "quoted delimiter");
    refused("x {v}", "{\"v\":\"a\\u0000b\"}", "NUL");
}

static void unknown_placeholders(void **state)
{
    struct json *j = tree("{\"command\":[\"x\",\"--lr\",\"{lrr}\"]}"), *p = tree("{\"lr\":1}");
    struct spec *s = NULL;
    struct err e = {0};

    (void)state;
    refused("x {depht}", "{\"depth\":1}",
            "command: {depht} is not a parameter; did you mean {depth}?");
    refused("awk '{print}'", "{\"lr\":1}", "write {{print}} for literal braces");
    assert_int_equal(spec_parse(j, "", &s, &e), 0);
    assert_int_equal(spec_check_placeholders(s, p, "jobs[2].", &e), -1);
    assert_non_null(
        strstr(e.text, "jobs[2].command[2]: {lrr} is not a parameter; did you mean {lr}?"));
    assert_int_equal(spec_check_placeholders(s, NULL, "", &e), 0);
    spec_free(s);
    json_free(j);
    json_free(p);
}

static void params_are_checked(void **state)
{
    struct json *list = tree("[1]"), *nul = tree("{\"a\":\"x\\u0000\"}"), *empty = tree("{\"\":1}"),
                *good = tree("{\"a\":[1],\"b.c\":null}");
    struct err e = {0};

    (void)state;
    assert_int_equal(params_check(NULL, "", &e), 0);
    assert_int_equal(params_check(good, "", &e), 0);
    assert_int_equal(params_check(list, "jobs[1].", &e), -1);
    assert_non_null(strstr(e.text, "jobs[1].params: is"));
    assert_int_equal(params_check(nul, "", &e), -1);
    assert_non_null(strstr(e.text, "params.a: contains a NUL"));
    assert_int_equal(params_check(empty, "", &e), -1);
    json_free(list);
    json_free(nul);
    json_free(empty);
    json_free(good);
}

/* ---- the real shell ---- */

static char self[4096];

static char *run_shell(char **argv, char **env, size_t *out_n)
{
    int fds[2];
    pid_t pid;
    posix_spawn_file_actions_t fa;
    struct err e = {0};
    char *out = NULL;
    int status;

    assert_int_equal(pipe(fds), 0);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, fds[1], 1);
    posix_spawn_file_actions_addclose(&fa, fds[0]);
    assert_int_equal(posix_spawn(&pid, argv[0], &fa, NULL, argv, env), 0);
    posix_spawn_file_actions_destroy(&fa);
    close(fds[1]);
    assert_int_equal(fd_read_all(fds[0], 1 << 20, &out, out_n, &e), 0);
    close(fds[0]);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    return out;
}

/* Expects the shell line to hand on `wanted` as its one argument. */
static void check_value(const char *line, const char *value, struct str wanted)
{
    struct json *params = json_new_object();
    struct spec_command r = {.shell = (char *)(uintptr_t)line};
    struct arena a = {0};
    char **argv, **extra, *env[8] = {0}, *out, own[5000];
    struct err e = {0};
    size_t n, k = 0;

    json_set_str(params, "v", value);
    if (spec_argv(&r, params, &a, &argv, &extra, &e) < 0)
        fail_msg("%s", e.text);
    snprintf(own, sizeof(own), "SELF=%s", self);
    env[k++] = own;
    env[k++] = (char *)(uintptr_t) "ASAN_OPTIONS=detect_leaks=0";
    while (*extra)
        env[k++] = *extra++;
    out = run_shell(argv, env, &n);
    if (n != wanted.n + 1 || memcmp(out, wanted.p, wanted.n))
        fail_msg("%s with <%s> gave <%s>", line, value, out);
    free(out);
    arena_done(&a);
    json_free(params);
}

static void check_all_places(const char *value)
{
    AUTO_FREE char *middle = xasprintf("a%sb", value), *doc = xasprintf("\"%s\"", value);

    check_value("exec \"$SELF\" --print {v}", value, str_of(value));
    check_value("exec \"$SELF\" --print a{v}b", value, str_of(middle));
    check_value("exec \"$SELF\" --print \"a{v}b\"", value, str_of(middle));
    check_value("exec \"$SELF\" --print 'a{v}b'", value, str_of(middle));
    check_value("x={v}; exec \"$SELF\" --print \"$x\"", value, str_of(value));
    /* A command substitution drops trailing newlines; the x keeps them. */
    check_value("y=\"$(printf %s {v}; printf x)\"; exec \"$SELF\" --print \"${y%x}\"", value,
                str_of(value));
    check_value("\"$SELF\" --stdin <<END\n\"{v}\"\nEND\n", value, str_of(doc));
}

static void nasty_values(void **state)
{
    static const char *const values[] = {
        "",           " ",           "a b",      "'",
        "\"",         "''",          "'\"'\"'",  "$(touch /tmp/never)",
        "`id`",       "${HOME}",     "$HOME",    "\\",
        "\\\\",       "\n",          "a\nb\n\n", "\t*?[a-z]",
        "-n",         "--",          "; exit 3", "&& false",
        "| cat",      "> /dev/null", "#x",       "!!",
        "~",          "{v}",         "{{v}}",    "}",
        "é ü 漢字 🚢", "\x01\x7f",    "END",      "\nEND\n",
        "a=b",        "%s%n",        "*",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(values); i++)
        check_all_places(values[i]);
}

/* Random strings over the characters that mean something to a shell. */
static void random_values(void **state)
{
    static const char alphabet[] = "'\"`$(){}\\ \n\t;&|<>#*?[]!~=%-aA1";
    struct rng r;

    (void)state;
    rng_seed(&r, 20261115);
    for (int i = 0; i < 40; i++) {
        char value[24] = "";
        size_t n = rng_below(&r, sizeof(value) - 1);
        for (size_t k = 0; k < n; k++)
            value[k] = alphabet[rng_below(&r, sizeof(alphabet) - 1)];
        check_all_places(value);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(without_params_braces_are_its_own),
        cmocka_unit_test(quoting),
        cmocka_unit_test(values_travel_as_variables),
        cmocka_unit_test(places_where_no_value_can_stand),
        cmocka_unit_test(unknown_placeholders),
        cmocka_unit_test(params_are_checked),
        cmocka_unit_test(nasty_values),
        cmocka_unit_test(random_values),
    };

    if (argc > 1 && !strcmp(argv[1], "--print")) {
        for (int i = 2; i < argc; i++)
            fwrite(argv[i], 1, strlen(argv[i]) + 1, stdout);
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "--stdin")) { /* the last newline is the here-document's */
        char *out = NULL;
        size_t n = 0;
        if (fd_read_all(0, 1 << 20, &out, &n, NULL) < 0 || !n)
            return 1;
        out[n - 1] = '\0';
        fwrite(out, 1, n, stdout);
        free(out);
        return 0;
    }
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
