/* test_snapshot.c - snapshots: ids, marks, use, the start and the end of a run */
#include "archive/cas.h"
#include "archive/ignore.h"
#include "archive/snapshot.h"
#include "base/file.h"
#include "base/util.h"
#include "rig.h"
#include "unit.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static struct cas *cas;
static char id[SNAPSHOT_ID_MAX];
static int used_answer;

static int used(void *arg, const char *which)
{
    (void)arg;
    assert_string_equal(which, id);
    return used_answer;
}

static struct timespec mtime_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mtim;
}

static int open_store(void **state)
{
    struct err e = {0};

    if (rig_open(state) < 0)
        return -1;
    assert_int_equal(mkdir("home", 0700), 0);
    assert_int_equal(
        snapshot_store_open("home", (struct snapshot_owner){getuid(), getgid()}, &cas, &e), 0);
    rig_file("src/train.py", "print(1)\n", 0644);
    rig_file("src/bin/tool", "#!/bin/sh\n", 0755);
    rig_file("src/empty", "", 0644);
    assert_int_equal(symlink("train.py", "src/link"), 0);
    assert_int_equal(cas_keep_tree(cas, "upload-1", "src", NULL, 0, NULL, NULL, &e), 0);
    assert_int_equal(snapshot_adopt(cas, "upload-1", id, &e), 0);
    return 0;
}

static int close_store(void **state)
{
    cas_close(cas);
    return rig_close(state);
}

static void an_id_is_that_of_the_content(void **state)
{
    char again[SNAPSHOT_ID_MAX], other[SNAPSHOT_ID_MAX];
    struct err e = {0};
    struct stat st;

    (void)state;
    assert_true(snapshot_id_ok(id));
    assert_false(snapshot_id_ok("../../../../../etc/passwd"));
    assert_false(cas_has_tree(cas, "upload-1"));
    assert_int_equal(cas_keep_tree(cas, "upload-2", "src", NULL, 0, NULL, NULL, &e), 0);
    assert_int_equal(snapshot_adopt(cas, "upload-2", again, &e), 0);
    assert_string_equal(again, id);
    rig_file("src/train.py", "print(2)\n", 0644);
    assert_int_equal(cas_keep_tree(cas, "upload-3", "src", NULL, 0, NULL, NULL, &e), 0);
    assert_int_equal(snapshot_adopt(cas, "upload-3", other, &e), 0);
    assert_string_not_equal(other, id);
    AUTO_FREE char *dir = snapshot_store_path("home", getuid());
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
}

static void a_snapshot_lives_as_long_as_somebody_names_it(void **state)
{
    struct err e = {0};

    (void)state;
    used_answer = 0;
    assert_int_equal(snapshot_collect(cas, used, NULL, &e), 0);
    assert_true(cas_has_tree(cas, id)); /* fresh: its job is about to be submitted */
    assert_int_equal(snapshot_claim(cas, id, &e), 0);
    assert_int_equal(snapshot_claim(cas, id, &e), 0); /* a second job */
    used_answer = 1;
    assert_int_equal(snapshot_collect(cas, used, NULL, &e), 0);
    assert_true(cas_has_tree(cas, id));
    used_answer = -1; /* nobody can tell */
    assert_int_equal(snapshot_collect(cas, used, NULL, &e), 0);
    assert_true(cas_has_tree(cas, id));
    used_answer = 0;
    assert_int_equal(snapshot_collect(cas, used, NULL, &e), 0);
    assert_false(cas_has_tree(cas, id));
    assert_int_equal(snapshot_claim(cas, id, &e), -1);
    assert_int_equal(e.code, ERR_INVALID);
}

static void a_run_has_a_copy_of_its_own(void **state)
{
    AUTO_FREE char *store = snapshot_store_path("home", getuid()), *here = getcwd(NULL, 0);
    AUTO_FREE char *full = path_join(here, store), *work = path_join(here, "run");
    struct err e = {0};

    (void)state;
    rig_file("run/left", "of a start that was cut short", 0644);
    assert_int_equal(snapshot_enter(full, id, work, "bin", &e), 0);
    assert_true(rig_there("tool"));
    assert_int_equal(chdir(here), 0);
    assert_true(rig_same("src", "run", true));
    rig_file("run/train.py", "changed", 0644); /* the kept content does not change */
    assert_int_equal(cas_check_out(cas, id, "again", NULL, &e), 0);
    assert_true(rig_same("src", "again", true));
    assert_int_equal(snapshot_enter(full, id, work, "nowhere", &e), -1);
    assert_int_equal(chdir(here), 0);
}

static void only_what_a_run_made_stays(void **state)
{
    struct err e = {0};

    (void)state;
    assert_int_equal(cas_check_out(cas, id, "run", NULL, &e), 0);
    assert_int_equal(snapshot_prune(cas, id, "run", &e), 0);
    assert_false(rig_there("run")); /* nothing was made */
    assert_int_equal(snapshot_prune(cas, id, "run", &e), 0);
    assert_int_equal(cas_check_out(cas, id, "run", NULL, &e), 0);
    rig_file("run/bin/made", "x", 0644);
    rig_file("run/train.py", "print(2)\n", 0644); /* the same size, and the old time */
    const struct timespec old[2] = {{.tv_nsec = UTIME_OMIT}, mtime_of("src/train.py")};
    assert_int_equal(utimensat(AT_FDCWD, "run/train.py", old, 0), 0);
    assert_int_equal(snapshot_prune(cas, id, "run", &e), 0);
    assert_int_equal(snapshot_prune(cas, id, "run", &e), 0); /* after a crash */
    assert_int_equal(rig_entries("run"), 2);
    assert_int_equal(rig_entries("run/bin"), 1);
    assert_true(rig_there("run/bin/made"));
}

static void links_out_of_a_run_are_not_followed(void **state)
{
    struct err e = {0};

    (void)state;
    assert_int_equal(cas_check_out(cas, id, "run", NULL, &e), 0);
    assert_int_equal(cas_check_out(cas, id, "victim", NULL, &e), 0);
    assert_int_equal(dir_remove_tree("run/bin", &e), 0);
    assert_int_equal(symlink("../victim/bin", "run/bin"), 0);
    assert_int_equal(snapshot_prune(cas, id, "run", &e), 0);
    assert_true(rig_same("src", "victim", true));
}

static void ignore_files_and_git_stay_out(void **state)
{
    struct ignore *ig;
    struct err e = {0};

    (void)state;
    assert_int_equal(snapshot_ignore("src", &ig, &e), 0);
    assert_true(ignore_match(ig, ".git", true));
    assert_false(ignore_match(ig, "data", true));
    ignore_free(ig);
    rig_file("src/.foundationsignore", "data\n", 0644);
    assert_int_equal(snapshot_ignore("src", &ig, &e), 0);
    assert_true(ignore_match(ig, "data", true));
    ignore_free(ig);
    rig_file("src/.berthignore", "other\n!.git\n", 0644);
    assert_int_equal(snapshot_ignore("src", &ig, &e), 0);
    assert_false(ignore_match(ig, "data", true));
    assert_true(ignore_match(ig, "other", true));
    assert_false(ignore_match(ig, ".git", true));
    ignore_free(ig);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)
    const struct CMUnitTest tests[] = {
        T(an_id_is_that_of_the_content),        T(a_snapshot_lives_as_long_as_somebody_names_it),
        T(a_run_has_a_copy_of_its_own),         T(only_what_a_run_made_stays),
        T(links_out_of_a_run_are_not_followed), T(ignore_files_and_git_stay_out),
    };
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
