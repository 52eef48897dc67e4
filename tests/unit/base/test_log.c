/* test_log.c - one line per message */
#include "base/json.h"
#include "base/log.h"
#include "base/util.h"
#include "unit.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int pipe_fds[2];
static char line[20000];

static const char *read_line(void)
{
    ssize_t n = read(pipe_fds[0], line, sizeof(line) - 1);

    line[n > 0 ? n : 0] = '\0';
    return line;
}

static int open_pipe(void **state)
{
    (void)state;
    unsetenv("JOURNAL_STREAM");
    return pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK);
}

static int close_pipe(void **state)
{
    (void)state;
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return 0;
}

TEST(text_lines)
{
    log_setup(LOG_INFO_, false, pipe_fds[1]);
    errno = EIO;
    log_info("core", "job %d ended code=%d", 7, 1);
    assert_int_equal(errno, EIO);
    read_line();
    /* 2026-11-15T20:46:22.123Z info core job 7 ended code=1 */
    assert_int_equal(line[10], 'T');
    assert_int_equal(line[23], 'Z');
    assert_string_equal(line + 24, " info core job 7 ended code=1\n");
}

TEST(levels_below_the_minimum_are_silent)
{
    log_setup(LOG_WARN_, false, pipe_fds[1]);
    log_debug("core", "x");
    log_info("core", "x");
    assert_string_equal(read_line(), "");
    log_error("core", "x");
    assert_non_null(strstr(read_line(), " error core x\n"));
}

TEST(a_message_stays_one_line)
{
    log_setup(LOG_INFO_, false, pipe_fds[1]);
    log_info("api", "%s", "a\nb\x1b[2Jc");
    assert_non_null(strstr(read_line(), " info api a b [2Jc\n"));
}

TEST(json_lines)
{
    struct json *j;
    struct err e;

    log_setup(LOG_DEBUG_, true, pipe_fds[1]);
    log_debug("api", "say \"%s\"", "hi\n");
    read_line();
    assert_int_equal(json_parse(str_trim(str_of(line)), "line", &j, &e), 0);
    assert_true(str_eq_c(json_str(json_get(j, "level")), "debug"));
    assert_true(str_eq_c(json_str(json_get(j, "room")), "api"));
    assert_true(str_eq_c(json_str(json_get(j, "message")), "say \"hi\n\""));
    assert_int_equal(json_str(json_get(j, "time")).n, 24);
    json_free(j);
}

TEST(long_messages_are_cut)
{
    AUTO_FREE char *big = xmalloc(30001);

    memset(big, 'x', 30000);
    big[30000] = '\0';
    log_setup(LOG_INFO_, false, pipe_fds[1]);
    log_info("core", "%s", big);
    read_line();
    assert_in_range(strlen(line), 8000, 8300);
    assert_int_equal(line[strlen(line) - 1], '\n');
}

TEST(journal_gets_priorities)
{
    struct stat st;
    char stream[64];

    assert_int_equal(fstat(pipe_fds[1], &st), 0);
    snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    log_setup(LOG_INFO_, false, pipe_fds[1]);
    log_warn("core", "disk is nearly full");
    assert_memory_equal(read_line(), "<4>2", 4);
    setenv("JOURNAL_STREAM", "1:2", 1); /* somebody else's */
    log_setup(LOG_INFO_, false, pipe_fds[1]);
    log_warn("core", "x");
    assert_memory_equal(read_line(), "2", 1);
}

TEST(level_names)
{
    enum log_level level;

    assert_true(log_level_parse("warn", &level) && level == LOG_WARN_);
    assert_true(log_level_parse("debug", &level) && level == LOG_DEBUG_);
    assert_false(log_level_parse("loud", &level));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_lines, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(levels_below_the_minimum_are_silent, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(a_message_stays_one_line, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(json_lines, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(long_messages_are_cut, open_pipe, close_pipe),
        cmocka_unit_test_setup_teardown(journal_gets_priorities, open_pipe, close_pipe),
        cmocka_unit_test(level_names),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
