/* test_ignore.c - .foundationsignore; prop_ignore.c compares with git itself */
#include "archive/ignore.h"
#include "base/util.h"
#include "rig.h"
#include "unit.h"

static bool out(const char *text, const char *path, bool is_dir)
{
    struct ignore *ig = ignore_parse(str_of(text));
    bool r = ignore_covers(ig, path, is_dir);

    ignore_free(ig);
    return r;
}

TEST(names_match_anywhere)
{
    assert_true(out("*.o\n", "a.o", false));
    assert_true(out("*.o\n", "x/y/a.o", false));
    assert_false(out("*.o\n", "a.oo", false));
    assert_true(out("data\n", "x/data", true));
    assert_true(out("data\n", "x/data/below", false));
    assert_true(out("f?o", "a/fxo", false));
}

TEST(a_slash_anchors)
{
    assert_true(out("/data\n", "data", true));
    assert_false(out("/data\n", "x/data", true));
    assert_true(out("a/b\n", "a/b", false));
    assert_false(out("a/b\n", "x/a/b", false));
    assert_true(out("a/*.c\n", "a/x.c", false));
    assert_false(out("a/*.c\n", "a/b/x.c", false));
}

TEST(a_trailing_slash_means_directories)
{
    assert_true(out("build/\n", "build", true));
    assert_false(out("build/\n", "build", false));
    assert_true(out("build/\n", "build/x", false));
}

TEST(two_stars_cross_directories)
{
    assert_true(out("**/cache\n", "cache", true));
    assert_true(out("**/cache\n", "a/b/cache", true));
    assert_true(out("a/**/z\n", "a/z", false));
    assert_true(out("a/**/z\n", "a/b/c/z", false));
    assert_true(out("logs/**\n", "logs/a/b", false));
    assert_false(out("logs/**\n", "logs", true));
}

TEST(the_last_rule_decides)
{
    assert_false(out("*.log\n!keep.log\n", "keep.log", false));
    assert_true(out("*.log\n!keep.log\nkeep.*\n", "keep.log", false));
    assert_true(out("logs\n!logs/keep\n", "logs/keep", false)); // its directory is out
    assert_false(out("logs/*\n!logs/keep\n", "logs/keep", false));
}

TEST(sets_and_escapes)
{
    assert_true(out("[a-c]x", "bx", false));
    assert_false(out("[!a-c]x", "bx", false));
    assert_true(out("[[:digit:]]", "7", false));
    assert_true(out("[]]", "]", false));
    assert_false(out("[a", "[a", false));
    assert_true(out("\\#x", "#x", false));
    assert_true(out("\\!x", "!x", false));
    assert_false(out("#x", "#x", false));
    assert_true(out("a\\*", "a*", false));
    assert_false(out("a\\*", "ab", false));
}

TEST(blanks_and_line_ends)
{
    assert_true(out("x  \r\ny\r\n", "x", false));
    assert_true(out("x\\ \n", "x ", false));
    assert_true(out("\xef\xbb\xbfx\n", "x", false));
    assert_false(out("\n\n# only this\n", "x", false));
}

TEST(many_stars_end_soon)
{
    assert_false(
        out("*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false));
    assert_false(out("**/a/**/a/**/a/**/a/**/a/**/a/**/b",
                     "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/c", false));
}

TEST(files_are_optional)
{
    struct ignore *ig = NULL;
    struct err e = {0};

    assert_int_equal(ignore_load("none", &ig, &e), 0);
    assert_null(ig);
    assert_false(ignore_match(ig, "x", false));
    rig_file("some", "x\n", 0644);
    assert_int_equal(ignore_load("some", &ig, &e), 0);
    assert_true(ignore_match(ig, "x", false));
    ignore_free(ig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_match_anywhere),
        cmocka_unit_test(a_slash_anchors),
        cmocka_unit_test(a_trailing_slash_means_directories),
        cmocka_unit_test(two_stars_cross_directories),
        cmocka_unit_test(the_last_rule_decides),
        cmocka_unit_test(sets_and_escapes),
        cmocka_unit_test(blanks_and_line_ends),
        cmocka_unit_test(many_stars_end_soon),
        cmocka_unit_test(files_are_optional),
    };
    return cmocka_run_group_tests_name("ignore", tests, rig_open, rig_close);
}
