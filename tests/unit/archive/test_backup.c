/* test_backup.c - copies of a home: what is linked, what is copied, what comes back */
#include "archive/backup_priv.h"
#include "base/file.h"
#include "base/util.h"
#include "rig.h"
#include "unit.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct place {
    char *home, *dir;
};

static void place_of(struct place *p)
{
    char cwd[4096];

    assert_non_null(getcwd(cwd, sizeof(cwd)));
    p->home = path_join(cwd, "home");
    p->dir = path_join(cwd, "copies");
}

static void place_done(struct place *p)
{
    free(p->home);
    free(p->dir);
}

static int no_database(void *arg, const char *path, struct err *e)
{
    (void)arg;
    return file_write_atomic(path, "db", 2, 0600, e);
}

/* Run 1 of every job has ended. */
static bool first_ended(void *arg, uint64_t job, uint32_t run)
{
    (void)arg;
    (void)job;
    return run == 1;
}

static char *take(const struct place *p, bool copy, struct backup_tally *t)
{
    struct backup_conf conf = {.home = p->home,
                               .dir = p->dir,
                               .copy = copy,
                               .database = no_database,
                               .ended = first_ended};
    struct err e = {0};
    char *path = NULL;

    if (backup_take(&conf, t, &path, &e) < 0)
        fail_msg("%s", e.text);
    return path;
}

static ino_t inode_of(const char *dir, const char *name)
{
    AUTO_FREE char *path = path_join(dir, name);
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_ino;
}

TEST(names_of_runs_are_read)
{
    static const struct {
        const char *path, *rest;
        uint64_t job;
        uint32_t run;
        bool ok;
    } rows[] = {
        {"runs/0/42.1.log", "", 42, 1, true},
        {"runs/0/42.1-1f3a9c2e.log", "", 42, 1, true},
        {"runs/12/12345.10/artifacts/x", "artifacts/x", 12345, 10, true},
        {"runs/0/42.1", "", 42, 1, true},
        {"runs/0/42", NULL, 0, 0, false},
        {"runs/0/x.1.log", NULL, 0, 0, false},
        {"runs/42.1.log", NULL, 0, 0, false},
        {"other/0/42.1.log", NULL, 0, 0, false},
        {"runs/0/42.99999999999.log", NULL, 0, 0, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        uint64_t job;
        uint32_t run;
        const char *rest;
        assert_int_equal(backup_run_of(rows[i].path, &job, &run, &rest), rows[i].ok);
        if (!rows[i].ok)
            continue;
        assert_int_equal(job, rows[i].job);
        assert_int_equal(run, rows[i].run);
        assert_string_equal(rest, rows[i].rest);
    }
}

TEST(only_what_nobody_writes_is_linked)
{
    static const char *const linked[] = {"runs/0/1.1.log", "runs/0/1.1.err",
                                         "runs/0/1.1/artifacts/model",
                                         "snapshots/1000/blobs/ab/cd"};
    static const char *const copied[] = {"runs/0/1.1/work/notes",      "runs/0/1.2.log",
                                         "runs/0/1.2/artifacts/model", "secret",
                                         "snapshots/1000/lock",        "shepherd/journal-00000001"};
    static const char *const not_there[] = {"shepherd/lock",      "log",
                                            "berth.db-wal",       "daemon.lock",
                                            "snapshots/1000/tmp", "before-restore-x"};
    struct backup_tally t;
    struct place p;

    place_of(&p);
    for (size_t i = 0; i < ARRAY_SIZE(linked); i++) {
        AUTO_FREE char *path = path_join("home", linked[i]);
        rig_file(path, "fixed", 0400);
    }
    for (size_t i = 0; i < ARRAY_SIZE(copied); i++) {
        AUTO_FREE char *path = path_join("home", copied[i]);
        rig_file(path, "moving", 0640);
    }
    rig_file("home/shepherd/lock", "", 0600);
    rig_file("home/log", "", 0600);
    rig_file("home/berth.db-wal", "", 0600);
    rig_file("home/daemon.lock", "", 0600);
    rig_file("home/snapshots/1000/tmp/x", "", 0600);
    rig_file("home/before-restore-x/berth.db", "", 0600);
    AUTO_FREE char *one = take(&p, false, &t);
    assert_int_equal(t.linked, ARRAY_SIZE(linked));
    assert_int_equal(t.copied + t.cloned, ARRAY_SIZE(copied));
    for (size_t i = 0; i < ARRAY_SIZE(linked); i++)
        assert_int_equal(inode_of(p.home, linked[i]), inode_of(one, linked[i]));
    for (size_t i = 0; i < ARRAY_SIZE(copied); i++)
        assert_int_not_equal(inode_of(p.home, copied[i]), inode_of(one, copied[i]));
    for (size_t i = 0; i < ARRAY_SIZE(not_there); i++) {
        AUTO_FREE char *path = path_join(one, not_there[i]);
        assert_false(rig_there(path));
    }
    rig_file("home/secret", "another", 0640);
    AUTO_FREE char *two = take(&p, false, &t);
    assert_int_equal(t.previous, ARRAY_SIZE(linked) + ARRAY_SIZE(copied) - 1);
    assert_int_equal(inode_of(one, "runs/0/1.1/work/notes"),
                     inode_of(two, "runs/0/1.1/work/notes"));
    AUTO_FREE char *three = take(&p, true, &t);
    assert_int_equal(t.linked, 0);
    for (size_t i = 0; i < ARRAY_SIZE(linked); i++)
        assert_int_not_equal(inode_of(p.home, linked[i]), inode_of(three, linked[i]));
    place_done(&p);
}

TEST(holes_and_links_stay)
{
    struct backup_tally t;
    struct place p;
    struct stat st;
    char target[16];

    place_of(&p);
    rig_file("home/runs/0/7.2/big", "x", 0644);
    assert_int_equal(truncate("home/runs/0/7.2/big", 64 << 20), 0);
    assert_int_equal(symlink("/etc/passwd", "home/runs/0/7.2/link"), 0);
    assert_int_equal(mkfifo("home/runs/0/7.2/pipe", 0600), 0);
    AUTO_FREE char *copy = take(&p, false, &t);
    AUTO_FREE char *big = path_join(copy, "runs/0/7.2/big"),
                   *link = path_join(copy, "runs/0/7.2/link");
    assert_int_equal(stat(big, &st), 0);
    assert_int_equal(st.st_size, 64 << 20);
    assert_true(st.st_blocks < 1024);
    assert_int_equal(readlink(link, target, sizeof(target)), strlen("/etc/passwd"));
    assert_int_equal(t.left_out, 1);
    place_done(&p);
}

TEST(a_cancelled_backup_leaves_nothing)
{
    const atomic_bool cancel = true;
    const struct archive_watch watch = {.cancel = &cancel};
    struct backup_tally t;
    struct place p;
    struct err e = {0};
    char *path = NULL;

    place_of(&p);
    rig_file("home/runs/0/7.1.log", "x", 0600);
    struct backup_conf conf = {.home = p.home,
                               .dir = p.dir,
                               .database = no_database,
                               .ended = first_ended,
                               .watch = &watch};
    assert_int_equal(backup_take(&conf, &t, &path, &e), -1);
    assert_int_equal(e.code, ERR_BUSY);
    assert_null(path);
    assert_int_equal(rig_entries("copies"), 0);
    place_done(&p);
}

TEST(a_manifest_is_checked)
{
    static const char head[] = "{\"format\":\"berth-backup\",\"version\":1}\n";
    static const struct {
        const char *line, *says;
    } rows[] = {
        {"{\"path\":\"../x\"}\n", "not inside"},
        {"{\"path\":\"/etc/x\"}\n", "not inside"},
        {"{\"path\":\"a\\u0000b\"}\n", "not inside"},
        {"{\"size\":1}\n", "not inside"},
        {"{\"path\":\"a\"}\n{\"path\":\"a\"}\n", "twice"},
        {"nonsense\n", "m:1"},
    };
    struct err e;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO_FREE char *text = xasprintf("%s%s", head, rows[i].line);
        struct backup_list l = {0};
        assert_int_equal(backup_list_parse(&l, str_of(text), "m", &e), -1);
        assert_non_null(strstr(e.text, rows[i].says));
        backup_list_done(&l);
    }
    static const char *const beside[] = {"{\"../x\":\"a\"}", "{\"a/b\":\"a\"}", "{\"\":\"a\"}",
                                         "{\"a\":1}", "{\"a\":\"\"}"};
    for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
        AUTO_FREE char *text =
            xasprintf("{\"format\":\"berth-backup\",\"version\":1,\"beside\":%s}", beside[i]);
        struct backup_list l = {0};
        assert_int_equal(backup_list_parse(&l, str_of(text), "m", &e), -1);
        assert_non_null(strstr(e.text, "beside"));
        backup_list_done(&l);
    }
    struct backup_list l = {0};
    assert_int_equal(
        backup_list_parse(&l, STR("{\"format\":\"berth-backup\",\"version\":2}"), "m", &e), -1);
    assert_non_null(strstr(e.text, "newer berth"));
    assert_int_equal(backup_list_parse(&l, STR("{}"), "m", &e), -1);
    assert_int_equal(backup_list_parse(&l, STR(""), "m", &e), -1);
    backup_list_done(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_runs_are_read),
        cmocka_unit_test_setup_teardown(only_what_nobody_writes_is_linked, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(holes_and_links_stay, rig_open, rig_close),
        cmocka_unit_test_setup_teardown(a_cancelled_backup_leaves_nothing, rig_open, rig_close),
        cmocka_unit_test(a_manifest_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
