/* test_verdict.c - the word a container's process leaves, and what files in its place do */
#include "base/file.h"
#include "base/util.h"
#include "shepherd/verdict.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

static struct journal_record judged(const char *dir, const char *word)
{
    AUTO_FREE char *path = path_join(dir, "container.end");
    struct journal_record r = {
        .kind = JOURNAL_ENDED, .why = RUN_END_EXITED, .wait_status = 125 << 8};
    struct err e;

    if (word)
        assert_int_equal(file_write_atomic(path, word, strlen(word), 0600, &e), 0);
    verdict_read(dir, &r);
    unlink(path);
    return r;
}

static void test_words(void **state)
{
    static const struct {
        const char *word, *text;
        enum run_end why;
    } cases[] = {
        {"oom \n", NULL, RUN_END_OUT_OF_MEMORY},
        {"image a/b:1\n", "image a/b:1 is not here and could not be pulled; see its log",
         RUN_END_START_FAILED},
        {"exec nosuch\n", "command not found: nosuch", RUN_END_START_FAILED},
        {"container i\n", "the container of image i could not be started; see its log",
         RUN_END_START_FAILED},
        {"engine \n",
         "no container engine is reachable; the log of the job lists the tried addresses",
         RUN_END_START_FAILED},
        {"gone berth-x-1-1\n", "container berth-x-1-1 was removed while it ran",
         RUN_END_START_FAILED},
        {"something else\n", NULL, RUN_END_EXITED},
        {"", NULL, RUN_END_EXITED},
        {NULL, NULL, RUN_END_EXITED},
    };
    char dir[] = "/tmp/berth-verdict-XXXXXX", text[200];

    (void)state;
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct journal_record r = judged(dir, cases[i].word);
        assert_int_equal(r.why, cases[i].why);
        if (!cases[i].text)
            continue;
        journal_failure_text(&r, text, sizeof(text));
        assert_string_equal(text, cases[i].text);
    }
    rmdir(dir);
}

/* The directory is the user's: links, pipes and escapes must do nothing. */
static void test_things_in_its_place(void **state)
{
    char dir[] = "/tmp/berth-verdict-XXXXXX", text[200];
    assert_non_null(mkdtemp(dir));
    AUTO_FREE char *path = path_join(dir, "container.end");

    (void)state;
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(judged(dir, NULL).why, RUN_END_EXITED);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(judged(dir, NULL).why, RUN_END_EXITED);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(judged(dir, NULL).why, RUN_END_EXITED);
    rmdir(path);
    struct journal_record r = judged(dir, "image \033[31mred\007\n");
    journal_failure_text(&r, text, sizeof(text));
    assert_null(strchr(text, '\033'));
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_things_in_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
