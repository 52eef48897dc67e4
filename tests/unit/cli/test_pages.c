/* test_pages.c - everything that is written from the real command tables: help, man, completions */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/table.h"
#include "base/util.h"
#include "cli/cli.h"
#include "dialect/dialect.h"
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

extern char **environ;

static struct program program = {.version = "1.2.3", .dialects = dialects};

static void each_line_fits(struct str text, size_t width, const char *of)
{
    while (text.n) {
        struct str line = str_cut(text, '\n', &text);
        /* Examples are for copying and are not broken. */
        if (!str_starts(line, STR("  berth ")) && !str_starts(line, STR("  id=")) &&
            !str_starts(line, STR("  source ")) && !str_starts(line, STR("  run-scheduler ")) &&
            text_width(line) > width)
            fail_msg("%s: line of %zu: " STR_FMT, of, text_width(line), STR_ARG(line));
    }
}

static void test_help(void **state)
{
    (void)state;
    for (const struct command *const *c = program.commands; *c; c++)
        for (size_t width = 60; width <= 100; width += 20) {
            AUTO(buf) struct buf b;
            buf_init(&b, 1 << 20);
            help_command(&b, *c, width, false);
            assert_non_null(
                strstr(b.p, (*c)->flags & COMMAND_PROGRAM ? "Usage: " : "Usage: berth "));
            assert_non_null(strstr(b.p, "--help"));
            if (!((*c)->flags & COMMAND_HIDDEN) && strcmp((*c)->name, "version"))
                assert_non_null(strstr(b.p, "Examples:"));
            each_line_fits(buf_str(&b), width, (*c)->name);
            assert_null(strchr(b.p, '\033'));
        }
}

/* Tables are data: what a person would notice by reading them all, a loop notices sooner. */
static void test_tables(void **state)
{
    (void)state;
    for (const struct command *const *c = program.commands; *c; c++) {
        bool seen[128] = {false};
        const char *names[96];
        size_t n = 0;

        seen['h'] = true;
        assert_true(strlen((*c)->summary) <= 60);
        for (const struct opt_group *const *g = (*c)->groups; *g; g++)
            for (size_t i = 0; i < (*g)->n; i++) {
                const struct opt *o = &(*g)->opts[i];
                if (o->letter && seen[(int)o->letter])
                    fail_msg("%s: -%c stands for two options", (*c)->name, o->letter);
                seen[(int)o->letter] = o->letter != 0;
                for (size_t k = 0; k < n; k++)
                    if (!strcmp(names[k], o->name))
                        fail_msg("%s: --%s is there twice", (*c)->name, o->name);
                names[n++] = o->name;
                assert_int_equal(o->arg == NULL, o->type == OPT_FLAG);
                assert_int_equal(o->complete == COMPLETE_CHOICES, o->choices != NULL);
                if (!(*g)->shared)
                    assert_true((*g)->base + o->offset < (*c)->opts_size);
            }
        for (const struct example *x = (*c)->examples; x && x->line; x++) {
            char want[64];
            /* Some commands are programs of their own too and are shown as such. */
            snprintf(want, sizeof(want), "%s%s", (*c)->flags & COMMAND_PROGRAM ? "" : "berth ",
                     (*c)->name);
            if (!strstr(x->line, want))
                fail_msg("%s: its example is of something else: %s", (*c)->name, x->line);
        }
    }
}

static void test_overview(void **state)
{
    AUTO(buf) struct buf b;

    (void)state;
    buf_init(&b, 1 << 20);
    help_overview(&b, &program, false);
    for (const struct command *const *c = program.commands; *c; c++) {
        AUTO_FREE char *name = xasprintf("\n  %s ", (*c)->name);
        AUTO_FREE char *summary = xasprintf("%s\n", (*c)->summary);
        const char *at = strstr(b.p, name);
        assert_int_equal(at != NULL, !((*c)->flags & COMMAND_HIDDEN));
        if (!at)
            continue;
        at += strlen(name);
        assert_true(str_starts(str_of(at + strspn(at, " ")), str_of(summary)));
    }
    each_line_fits(buf_str(&b), 80, "overview");
}

/* Runs a program with text as its input; what it says on both streams. -1: it is not here. */
static int filter(char *const argv[], struct str input, char *out, size_t size)
{
    char name[] = "/tmp/berth-test-XXXXXX";
    posix_spawn_file_actions_t fa;
    int p[2], status = 0, in = mkstemp(name);
    pid_t pid;
    size_t n = 0;
    struct err e;

    assert_true(in >= 0 && pipe2(p, O_CLOEXEC) == 0);
    unlink(name);
    assert_int_equal(fd_write_all(in, input.p, input.n, &e), 0);
    lseek(in, 0, SEEK_SET);
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, in, 0);
    posix_spawn_file_actions_adddup2(&fa, p[1], 1);
    posix_spawn_file_actions_adddup2(&fa, p[1], 2);
    int rc = posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    close(in);
    close(p[1]);
    while (rc == 0 && n + 1 < size) {
        ssize_t got = read(p[0], out + n, size - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    out[n] = 0;
    close(p[0]);
    if (rc != 0)
        return -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void test_man(void **state)
{
    char *groff[] = {(char *)"groff",
                     (char *)"-man",
                     (char *)"-Tutf8",
                     (char *)"-ww",
                     (char *)"-Kutf8",
                     (char *)"-z",
                     NULL};
    static char said[1 << 16];

    (void)state;
    for (const struct command *const *c = program.commands;; c++) {
        AUTO(buf) struct buf b;
        buf_init(&b, 1 << 20);
        man_page(&b, *c, program.commands, leading_groups, "1.2.3");
        assert_true(str_starts(buf_str(&b), STR(".\\\"")));
        assert_non_null(strstr(b.p, "\n.TH \"BERTH"));
        int rc = filter(groff, buf_str(&b), said, sizeof(said));
        if (rc == -1) {
            print_message("# groff is not installed: roff not checked\n");
            skip();
        }
        if (rc != 0 || said[0])
            fail_msg("%s: groff says: %s", *c ? (*c)->name : "berth", said);
        if (!*c)
            break;
    }
}

/* What they do in the shells: tests/e2e/test_completion.py. */
static void test_completion(void **state)
{
    static const struct {
        const char *shell, *before, *after; /* around the name of each command */
    } scripts[] = {
        {"bash", "\n    ", ")\n"},
        {"zsh", "\n        ", ")\n"},
        {"fish", "'__berth_in no-command' -f -a ", " -d "},
    };
    struct err e = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
        AUTO(buf) struct buf b;
        buf_init(&b, 1 << 20);
        assert_int_equal(
            completion_script(&b, scripts[i].shell, program.commands, leading_groups, &e), 0);
        for (const struct command *const *c = program.commands; *c; c++) {
            AUTO_FREE char *mark =
                xasprintf("%s%s%s", scripts[i].before, (*c)->name, scripts[i].after);
            assert_int_equal(strstr(b.p, mark) == NULL, (bool)((*c)->flags & COMMAND_HIDDEN));
        }
        /* Without this first line zsh does not find it in fpath. */
        assert_int_equal(str_starts(buf_str(&b), STR("#compdef berth\n")),
                         !strcmp(scripts[i].shell, "zsh"));
    }
    AUTO(buf) struct buf none;
    buf_init(&none, 1 << 10);
    assert_int_equal(completion_script(&none, "tcsh", program.commands, leading_groups, &e), -1);
    assert_non_null(strstr(e.text, "bash, zsh and fish"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help),       cmocka_unit_test(test_tables),
        cmocka_unit_test(test_overview),   cmocka_unit_test(test_man),
        cmocka_unit_test(test_completion),
    };

    program.commands = dialects_commands();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
