/* test_table.c - tables on a terminal, and CSV */
#include "base/table.h"
#include "base/util.h"
#include "unit.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static struct table *sample(void)
{
    struct table *t = table_new();

    table_column(t, "ID", TABLE_RIGHT, false);
    table_column(t, "NAME", TABLE_LEFT, true);
    table_column(t, "STATE", TABLE_LEFT, false);
    table_cell(t, STR("7"), COLOUR_NONE);
    table_cell(t, STR("train-resnet"), COLOUR_NONE);
    table_cell(t, STR("running"), COLOUR_GREEN);
    table_cell(t, STR("128"), COLOUR_NONE);
    table_cell(t, STR("eval"), COLOUR_NONE);
    table_cell(t, STR("failed"), COLOUR_RED);
    return t;
}

static void check(size_t width, bool colour, const char *want)
{
    struct table *t = sample();
    AUTO(buf) struct buf b = {0};

    table_render(t, width, colour, &b);
    assert_string_equal(b.p, want);
    table_free(t);
}

TEST(as_wide_as_the_content)
{
    check(0, false,
          " ID  NAME          STATE\n"
          "  7  train-resnet  running\n"
          "128  eval          failed\n");
    check(80, false,
          " ID  NAME          STATE\n"
          "  7  train-resnet  running\n"
          "128  eval          failed\n");
}

TEST(shrinks_what_may_shrink)
{
    check(22, false,
          " ID  NAME      STATE\n"
          "  7  train-r…  running\n"
          "128  eval      failed\n");
}

TEST(cuts_the_line_when_nothing_helps)
{
    check(9, false, " ID  NAME\n  7  tra…\n128  eval\n");
    check(1, false, "…\n7\n…\n");
}

TEST(colours_surround_text_only)
{
    check(0, true,
          " \033[1mID\033[0m  \033[1mNAME\033[0m          \033[1mSTATE\033[0m\n"
          "  7  train-resnet  \033[32mrunning\033[0m\n"
          "128  eval          \033[31mfailed\033[0m\n");
}

TEST(widths_of_characters)
{
    assert_int_equal(text_width(STR("abc")), 3);
    assert_int_equal(text_width(STR("gr\xC3\xBC\xC3\x9F")), 4);
    assert_int_equal(text_width(STR("\xE6\x97\xA5\xE6\x9C\xAC")), 4); /* 日本 */
    assert_int_equal(text_width(STR("e\xCC\x81")), 1);                /* e + combining acute */
    assert_int_equal(text_width(STR("\xF0\x9F\x98\x80")), 2);         /* emoji */
    assert_int_equal(text_width(STR("a\nb\x1b[31m")), 8);             /* each shown as ? */
    assert_int_equal(text_width(STR("\xFF\xFE")), 2);
    assert_int_equal(text_width(STR("")), 0);
}

TEST(hostile_text_is_shown_not_obeyed)
{
    struct table *t = table_new();
    AUTO(buf) struct buf b = {0};

    table_column(t, "NAME", TABLE_LEFT, true);
    table_cell(t, STR("a\x1b[2J\r\n\xC2\x9B\xE2\x80\xAE\xFFz"), COLOUR_NONE);
    table_render(t, 0, false, &b);
    assert_string_equal(b.p, "NAME\na?[2J?????z\n");
    table_free(t);
}

TEST(wide_characters_are_not_halved)
{
    struct table *t = table_new();
    AUTO(buf) struct buf b = {0};

    table_column(t, "X", TABLE_LEFT, true);
    table_column(t, "Y", TABLE_LEFT, false);
    table_cell(t, STR("\xE6\x97\xA5\xE6\x97\xA5\xE6\x97\xA5\xE6\x97\xA5"), COLOUR_NONE);
    table_cell(t, STR("end"), COLOUR_NONE);
    table_render(t, 11, false, &b);
    assert_string_equal(b.p, "X       Y\n\xE6\x97\xA5\xE6\x97\xA5…   end\n");
    table_free(t);
}

TEST(rows_and_incomplete_rows)
{
    struct table *t = sample();
    AUTO(buf) struct buf b = {0};

    assert_int_equal(table_rows(t), 2);
    table_cell(t, STR("9"), COLOUR_NONE);
    assert_int_equal(table_rows(t), 3);
    table_render(t, 0, false, &b);
    assert_non_null(strstr(b.p, "failed\n  9\n"));
    buf_reset(&b);
    table_render_csv(t, &b);
    assert_non_null(strstr(b.p, "failed\r\n9,,\r\n"));
    table_free(t);
    table_free(NULL);
}

TEST(csv_quotes_what_needs_it)
{
    struct table *t = table_new();
    AUTO(buf) struct buf b = {0};

    table_column(t, "a", TABLE_LEFT, false);
    table_column(t, "b,c", TABLE_LEFT, false);
    table_cell(t, STR("plain"), COLOUR_RED);
    table_cell(t, STR("say \"hi\""), COLOUR_NONE);
    table_cell(t, STR("two\nlines"), COLOUR_NONE);
    table_cell(t, STR(""), COLOUR_NONE);
    table_render_csv(t, &b);
    assert_string_equal(b.p, "a,\"b,c\"\r\nplain,\"say \"\"hi\"\"\"\r\n\"two\nlines\",\r\n");
    table_free(t);
}

TEST(pipes_have_no_width_and_no_colour)
{
    AUTO_FD fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct term term = term_detect(fd);

    assert_false(term.is_tty);
    assert_false(term.colour);
    assert_int_equal(term.width, 0);
}

TEST(terminals_have_both)
{
    AUTO_FD master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
        skip();
    AUTO_FD slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        skip();
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    setenv("COLUMNS", "33", 1);
    unsetenv("LINES");
    struct term term = term_detect(slave);
    assert_true(term.is_tty && term.colour);
    assert_int_equal(term.width, 33);
    assert_int_equal(term.height, 24);
    setenv("NO_COLOR", "1", 1);
    setenv("COLUMNS", "wide", 1);
    term = term_detect(slave);
    assert_false(term.colour);
    assert_int_equal(term.width, 80);
}

TEST(coloured_texts)
{
    AUTO(buf) struct buf b = {0};

    assert_true(colour_addf(&b, true, COLOUR_RED, "%d", 7));
    assert_true(colour_addf(&b, false, COLOUR_RED, " %s", "plain"));
    assert_true(colour_addf(&b, true, COLOUR_NONE, " none"));
    assert_string_equal(b.p, "\033[31m7\033[0m plain none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_wide_as_the_content),
        cmocka_unit_test(shrinks_what_may_shrink),
        cmocka_unit_test(cuts_the_line_when_nothing_helps),
        cmocka_unit_test(colours_surround_text_only),
        cmocka_unit_test(widths_of_characters),
        cmocka_unit_test(hostile_text_is_shown_not_obeyed),
        cmocka_unit_test(wide_characters_are_not_halved),
        cmocka_unit_test(rows_and_incomplete_rows),
        cmocka_unit_test(csv_quotes_what_needs_it),
        cmocka_unit_test(pipes_have_no_width_and_no_colour),
        cmocka_unit_test(terminals_have_both),
        cmocka_unit_test(coloured_texts),
    };
    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
