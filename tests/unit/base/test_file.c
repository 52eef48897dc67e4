/* test_file.c - whole files, paths and directories */
#include "base/file.h"
#include "base/util.h"
#include "unit.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char root[] = "/tmp/test-file-XXXXXX";

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int drop_root(void **state)
{
    (void)state;
    return dir_remove_tree(root, NULL);
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

TEST(writes_and_reads_back)
{
    AUTO_FREE char *path = path_join(root, "a.txt");
    AUTO_FREE char *text = NULL;
    struct err e;
    size_t n;

    assert_int_equal(file_write_atomic(path, "one", 3, 0600, &e), 0);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(file_write_atomic(path, "twenty", 6, 0640, &e), 0);
    assert_int_equal(mode_of(path), 0640);
    assert_int_equal(file_read_all(path, 6, &text, &n, &e), 0);
    assert_int_equal(n, 6);
    assert_string_equal(text, "twenty");
}

TEST(empty_files_and_optional_length)
{
    AUTO_FREE char *path = path_join(root, "empty");
    AUTO_FREE char *text = NULL;
    struct err e;

    assert_int_equal(file_write_atomic(path, NULL, 0, 0600, &e), 0);
    assert_int_equal(file_read_all(path, 0, &text, NULL, &e), 0);
    assert_string_equal(text, "");
}

TEST(reads_are_bounded)
{
    AUTO_FREE char *path = path_join(root, "big");
    AUTO_FREE char *bytes = xcalloc(1, 100000);
    char *text = NULL;
    struct err e;

    assert_int_equal(file_write_atomic(path, bytes, 100000, 0600, &e), 0);
    assert_int_equal(file_read_all(path, 99999, &text, NULL, &e), -1);
    assert_int_equal(e.code, ERR_LIMIT);
    assert_non_null(strstr(e.text, "/big: it is larger than 98K"));
    assert_null(text);
    size_t n;
    assert_int_equal(file_read_all(path, 100000, &text, &n, &e), 0);
    assert_int_equal(n, 100000);
    free(text);
    text = NULL;
    assert_int_equal(file_read_all("/dev/zero", 1 << 20, &text, NULL, &e), -1);
    assert_int_equal(e.code, ERR_LIMIT);
}

TEST(reads_pipes)
{
    int fds[2];
    AUTO_FREE char *text = NULL;
    struct err e;
    size_t n;

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(fd_write_all(fds[1], "hello", 5, &e), 0);
    close(fds[1]);
    assert_int_equal(fd_read_all(fds[0], 100, &text, &n, &e), 0);
    assert_string_equal(text, "hello");
    close(fds[0]);
}

TEST(errors_name_the_file)
{
    char *text;
    struct err e;

    assert_int_equal(file_read_all("/nowhere/x", 10, &text, NULL, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_string_equal(e.text, "cannot open /nowhere/x: No such file or directory");
    assert_int_equal(file_read_all(root, 10, &text, NULL, &e), -1);
    assert_int_equal(e.sys, EISDIR);
    assert_int_equal(file_write_atomic("/nowhere/x", "", 0, 0600, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
}

TEST(failed_writes_leave_nothing)
{
    AUTO_FREE char *dir = path_join(root, "only");
    AUTO_FREE char *target = path_join(dir, "taken");
    AUTO_FREE char *inner = path_join(target, "x");
    struct err e;

    assert_int_equal(dir_make_all(inner, 0700, &e), 0);
    assert_int_equal(file_write_atomic(target, "x", 1, 0600, &e), -1); /* a directory is there */
    assert_int_equal(dir_remove_tree(target, &e), 0);
    assert_int_equal(rmdir(dir), 0); /* no temporary file stayed behind */
}

TEST(directories_are_made_with_parents)
{
    AUTO_FREE char *path = xasprintf("%s/a//b/c/", root);
    AUTO_FREE char *file = xasprintf("%s/file", root);
    AUTO_FREE char *under = xasprintf("%s/file/x", root);
    struct err e;

    assert_int_equal(dir_make_all(path, 0700, &e), 0);
    assert_int_equal(dir_make_all(path, 0700, &e), 0);
    assert_int_equal(mode_of(path), 0700);
    assert_int_equal(file_write_atomic(file, "", 0, 0600, &e), 0);
    assert_int_equal(dir_make_all(under, 0700, &e), -1);
    assert_int_equal(e.sys, ENOTDIR);
    assert_int_equal(dir_make_all("", 0700, &e), -1);
}

TEST(trees_are_removed_without_following_links)
{
    AUTO_FREE char *keep = xasprintf("%s/keep", root), *kept = xasprintf("%s/keep/f", root);
    AUTO_FREE char *tree = xasprintf("%s/tree", root), *sub = xasprintf("%s/tree/s/t", root);
    AUTO_FREE char *link_in = xasprintf("%s/tree/s/link", root),
                   *locked = xasprintf("%s/tree/s", root);
    struct err e;

    assert_int_equal(dir_make_all(keep, 0700, &e), 0);
    assert_int_equal(file_write_atomic(kept, "x", 1, 0600, &e), 0);
    assert_int_equal(dir_make_all(sub, 0700, &e), 0);
    assert_int_equal(symlink(keep, link_in), 0);
    assert_int_equal(chmod(locked, 0), 0);
    assert_int_equal(dir_remove_tree(tree, &e), 0);
    assert_int_equal(access(tree, F_OK), -1);
    assert_int_equal(access(kept, F_OK), 0);
    assert_int_equal(dir_remove_tree(tree, &e), 0); /* missing is fine */
    assert_int_equal(symlink(keep, tree), 0);
    assert_int_equal(dir_remove_tree(tree, &e), 0); /* the link, not what it names */
    assert_int_equal(access(kept, F_OK), 0);
}

TEST(very_deep_trees_are_removed)
{
    AUTO_FREE char *top = path_join(root, "deep");
    struct err e;

    assert_int_equal(mkdir(top, 0700), 0);
    int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 1100; i++) {
        assert_int_equal(mkdirat(fd, "directory", 0700), 0);
        int next = openat(fd, "directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    close(fd);
    assert_int_equal(dir_remove_tree(top, &e), 0);
    assert_int_equal(access(top, F_OK), -1);
}

static void check_absolute(const char *path, const char *cwd, const char *want)
{
    AUTO_FREE char *got = path_absolute(path, cwd);

    assert_string_equal(got, want);
}

TEST(paths)
{
    AUTO_FREE char *a = path_join("/x", "y"), *b = path_join("/x/", "y");
    AUTO_FREE char *c = path_join("/x", "/y"), *d = path_join("", "y");

    assert_string_equal(a, "/x/y");
    assert_string_equal(b, "/x/y");
    assert_string_equal(c, "/y");
    assert_string_equal(d, "y");
    check_absolute("a/b", "/home/u", "/home/u/a/b");
    check_absolute("./a/../b//c/.", "/home/u", "/home/u/b/c");
    check_absolute("/etc/x", "/home/u", "/etc/x");
    check_absolute("../../../..", "/home/u", "/");
    check_absolute("", "/home/u", "/home/u");
    check_absolute(".", "/", "/");
}

TEST(dots_in_paths)
{
    assert_true(path_has_dots(STR("..")));
    assert_true(path_has_dots(STR("/a/../b")));
    assert_true(path_has_dots(STR("/a/.")));
    assert_true(path_has_dots(STR("./a")));
    assert_false(path_has_dots(STR("")));
    assert_false(path_has_dots(STR("/a/..b/.c/d..")));
    assert_false(path_has_dots(STR("//a//b/")));
}

TEST(paths_from_the_current_directory)
{
    char cwd[4096];
    AUTO_FREE char *a = path_from_here("/x/../y"), *b = path_from_here("z");

    assert_non_null(getcwd(cwd, sizeof(cwd)));
    AUTO_FREE char *want = xasprintf("%s/z", cwd);
    assert_string_equal(a, "/y");
    assert_string_equal(b, want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_and_reads_back),
        cmocka_unit_test(empty_files_and_optional_length),
        cmocka_unit_test(reads_are_bounded),
        cmocka_unit_test(reads_pipes),
        cmocka_unit_test(errors_name_the_file),
        cmocka_unit_test(failed_writes_leave_nothing),
        cmocka_unit_test(directories_are_made_with_parents),
        cmocka_unit_test(trees_are_removed_without_following_links),
        cmocka_unit_test(very_deep_trees_are_removed),
        cmocka_unit_test(paths),
        cmocka_unit_test(dots_in_paths),
        cmocka_unit_test(paths_from_the_current_directory),
    };
    return cmocka_run_group_tests_name("file", tests, make_root, drop_root);
}
