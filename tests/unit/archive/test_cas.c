/* test_cas.c - the store: trees in, images and copies out, nothing twice, nothing lost
 *
 * TMPDIR on btrfs or XFS makes it use clones.
 */
#include "archive/cas.h"
#include "archive/cas_priv.h"
#include "archive/tgz.h"
#include "archive/unpack.h"
#include "base/file.h"
#include "base/util.h"
#include "rig.h"
#include "unit.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct cas_tally keep(const char *name, const char *src, const char *dest, unsigned flags)
{
    struct cas_tally t = {0};
    struct err e = {0};

    if (cas_keep_tree(rig_cas, name, src, dest, flags, NULL, &t, &e) < 0)
        fail_msg("%s", e.text);
    return t;
}

static void check_out(const char *name, const char *dest)
{
    struct err e = {0};

    if (cas_check_out(rig_cas, name, dest, NULL, &e) < 0)
        fail_msg("%s", e.text);
}

static int64_t collect(void)
{
    struct cas_freed freed = {0};
    struct err e = {0};

    if (cas_collect(rig_cas, &freed, &e) < 0)
        fail_msg("%s", e.text);
    return freed.blobs;
}

static void make_tree(const char *dir)
{
    AUTO_FREE char *a = path_join(dir, "main.py"), *b = path_join(dir, "deep/er/data.bin"),
                   *c = path_join(dir, "nothing"), *d = path_join(dir, "link"),
                   *s = path_join(dir, "secret"), *x = path_join(dir, "bad\xff name\n"),
                   *z = path_join(dir, "deep/empty-dir"), *twin = path_join(dir, "deep/twin");

    rig_file(a, "print('hi')\n", 0755);
    rig_fill(b, 300000, 1);
    rig_fill(twin, 300000, 1);
    rig_file(c, "", 0640);
    rig_file(s, "secret", 0600);
    rig_file(x, "odd\n", 0644);
    assert_int_equal(mkdir(z, 0750), 0);
    assert_int_equal(symlink("../outside", d), 0);
}

TEST(image_and_copy_are_the_tree)
{
    struct stat st;

    make_tree("src");
    struct cas_tally t = keep("one", "src", "image", 0);
    assert_int_equal(t.entries, 11);
    assert_int_equal(t.new_blobs, 4); // the twins are one, the empty file is none
    assert_int_equal(t.left_out, 0);
    assert_true(rig_same("src", "image", rig_cas->clones));
    assert_int_equal(stat("image/secret", &st), 0);
    assert_int_equal(st.st_mode & 0077, 0); // what was private stays private
    check_out("one", "copy");
    assert_true(rig_same("src", "copy", true));
    assert_int_equal(rig_entries("store/tmp"), 0);
}

TEST(equal_trees_cost_nothing)
{
    make_tree("src");
    keep("one", "src", "image-1", 0);
    struct cas_tally t = keep("two", "src", "image-2", 0);
    assert_int_equal(t.new_blobs, 0);
    assert_true(rig_same("src", "image-2", false));
    struct stat a, b;
    assert_int_equal(stat("store/trees/one", &a), 0);
    assert_int_equal(stat("store/trees/two", &b), 0);
    assert_int_equal(a.st_ino, b.st_ino); // even the manifest is one
}

TEST(untouched_files_are_not_read_again)
{
    make_tree("src");
    keep("one", "src", NULL, 0);
    check_out("one", "work");
    struct cas_tally t = keep("same", "work", "image-same", 0);
    assert_int_equal(t.hashed_bytes, 0);
    assert_true(rig_same("src", "image-same", false));
    struct stat st; // same size and the old time: the change time tells
    assert_int_equal(stat("work/main.py", &st), 0);
    rig_file("work/main.py", "print('ho')\n", 0755);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, "work/main.py", times, 0), 0);
    rig_file("work/deep/new", "new", 0644);
    assert_int_equal(unlink("work/secret"), 0);
    t = keep("other", "work", "image-other", 0);
    assert_true(t.hashed_bytes > 0 && t.hashed_bytes < 100);
    assert_true(rig_same("work", "image-other", false));
    t = keep("part", "work/deep", "image-part", 0); // found by the directory above it
    assert_true(t.hashed_bytes < 100);
    assert_true(rig_same("work/deep", "image-part", false));
    assert_int_equal(rename("work/deep", "moved"), 0); // it may be called anything by now
    t = keep("moved", "moved", "image-moved", CAS_SOURCE_ENDS);
    assert_int_equal(t.hashed_bytes, 3);
    assert_int_equal(rig_entries("store/known"), 0); // a record ends with its directory
}

TEST(writing_right_after_a_check_out_is_seen)
{
    rig_file("src/f", "aaaa", 0644);
    keep("one", "src", NULL, 0);
    for (int i = 0; i < 30; i++) {
        char text[8];
        snprintf(text, sizeof(text), "%04d", i);
        struct err e = {0};
        check_out("one", "work");
        rig_file("work/f", text, 0644);
        keep("changed", "work", "image", 0);
        AUTO_FREE char *kept = rig_text("image/f");
        assert_string_equal(kept, text);
        assert_int_equal(dir_remove_tree("work", &e), 0);
        assert_int_equal(dir_remove_tree("image", &e), 0);
    }
}

TEST(a_copy_may_be_written)
{
    rig_file("src/f", "one", 0644);
    keep("one", "src", "image", 0);
    check_out("one", "work");
    rig_file("work/f", "two", 0644);
    AUTO_FREE char *kept = rig_text("image/f");
    assert_string_equal(kept, "one");
}

TEST(files_may_become_blobs)
{
    rig_fill("src/big", 200000, 3);
    rig_fill("src/open", 200000, 4);
    AUTO_FD writer = open("src/open", O_WRONLY | O_CLOEXEC); // somebody still writes
    struct cas_tally t = keep("one", "src", "image", CAS_SOURCE_ENDS);
    assert_int_equal(t.new_blobs, 2);
    assert_int_equal(pwrite(writer, "XXXX", 4, 0), 4);
    check_out("one", "copy");
    assert_true(rig_same("copy", "image", false)); // the blob did not change
    AUTO_FREE char *now = rig_text("src/open"), *kept = rig_text("image/open");
    assert_memory_equal(now, "XXXX", 4);
    assert_memory_not_equal(kept, "XXXX", 4);
}

TEST(bundles_go_straight_in)
{
    AUTO(buf) struct buf tar = {0}, packed = {0};
    struct unpack_conf conf = {.top = "job"};
    struct err e = {0};
    struct unpack *u;

    tar_add(&tar,
            (struct tar_member){.name = "job/a/run", .type = '0', .data = "hi", .mode = 0755});
    tar_add(&tar, (struct tar_member){.name = "job/a/also", .type = '1', .link = "job/a/run"});
    tar_add(&tar, (struct tar_member){.name = "job/a-b", .type = '0', .data = ""});
    tar_add(&tar, (struct tar_member){.name = "job/l", .type = '2', .link = "a/run"});
    tar_end(&tar);
    tar_gzip(&tar, &packed);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(unpack_open_store(rig_cas, "bundle-1", &conf, &u, &e), 0);
        assert_int_equal(unpack_feed(u, packed.p, packed.n, &e), 0);
        assert_int_equal(unpack_finish(u, &e), 0);
        unpack_free(u);
    }
    check_out("bundle-1", "work");
    AUTO_FREE char *a = rig_text("work/a/also"), *l = rig_text("work/l");
    assert_string_equal(a, "hi");
    assert_string_equal(l, "hi");
    assert_true(rig_there("work/a-b"));
    struct cas_tally size;
    assert_int_equal(cas_tree_size(rig_cas, "bundle-1", &size, &e), 0);
    assert_int_equal(size.bytes, 4);
    assert_int_equal(size.entries, 6);
}

TEST(downloads_have_the_exact_modes)
{
    AUTO(buf) struct buf whole = {0};
    struct unpack_conf conf = {.top = "top", .outside_links = true};
    struct err e = {0};
    struct unpack *u;
    struct stat st;
    struct tgz *t;
    char piece[5000];
    size_t n;

    make_tree("src");
    keep("one", "src", "image", 0);
    assert_int_equal(tgz_open_tree(rig_cas, "one", "top", NULL, &t, &e), 0);
    while (tgz_fill(t, piece, sizeof(piece), &n, &e) == 0 && n > 0)
        buf_add(&whole, piece, n);
    tgz_close(t);
    assert_int_equal(unpack_open_dir("out", &conf, &u, &e), 0);
    assert_int_equal(unpack_feed(u, whole.p, whole.n, &e), 0);
    assert_int_equal(unpack_finish(u, &e), 0);
    unpack_free(u);
    assert_true(rig_same("src", "out", false));
    assert_int_equal(stat("out/secret", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(tgz_open_tree(rig_cas, "none", "top", NULL, &t, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
}

static void count_and_drop(void *ctx, const char *name)
{
    ++*(int *)ctx;
    assert_int_equal(cas_drop_tree(rig_cas, name, NULL), 0);
}

TEST(trees_are_listed_by_the_beginning_of_their_names)
{
    int n = 0;

    make_tree("src");
    keep("job-1", "src", NULL, 0);
    keep("job-2", "src", NULL, 0);
    keep("other", "src", NULL, 0);
    cas_each_tree(rig_cas, "job-", count_and_drop, &n);
    assert_int_equal(n, 2);
    cas_each_tree(rig_cas, "job-", count_and_drop, &n);
    assert_int_equal(n, 2);
    assert_true(cas_has_tree(rig_cas, "other") && !cas_has_tree(rig_cas, "job-1"));
}

TEST(collecting_takes_only_what_nobody_needs)
{
    struct err e = {0};

    make_tree("src");
    keep("one", "src", "image", 0);
    rig_file("src/more", "more", 0644);
    keep("two", "src", NULL, 0);
    assert_int_equal(collect(), 0);
    assert_int_equal(cas_drop_tree(rig_cas, "two", &e), 0);
    assert_int_equal(collect(), 2); // "more" and the manifest of the top
    assert_true(cas_has_tree(rig_cas, "one") && !cas_has_tree(rig_cas, "two"));
    check_out("one", "copy");
    assert_true(rig_same("image", "copy", false));
    assert_int_equal(cas_drop_tree(rig_cas, "one", &e), 0);
    assert_int_equal(cas_drop_tree(rig_cas, "one", &e), 0);
    collect();
    assert_true(rig_same("copy", "image", false)); // an image outlives its tree
    assert_int_equal(dir_remove_tree("image", &e), 0);
    assert_int_equal(dir_remove_tree("copy", &e), 0);
    collect();
    for (int i = 0; i < 256; i++) {
        char shard[32];
        snprintf(shard, sizeof(shard), "store/blobs/%02x", i);
        assert_true(rig_entries(shard) <= 0);
    }
    rig_file("store/known/from-another-boot", "other\n", 0600);
    rig_file("store/tmp/left-by-a-crash/0", "half", 0600);
    collect();
    assert_int_equal(rig_entries("store/tmp"), 0);
    assert_false(rig_there("store/known/from-another-boot"));
}

TEST(equal_files_are_one)
{
    struct stat a, b;
    struct err e = {0};

    for (int i = 0; i < 2; i++) { // the second time it is there
        assert_int_equal(cas_put_file(rig_cas, STR("listing"), "one", &e), 0);
        assert_int_equal(cas_put_file(rig_cas, STR("listing"), "two", &e), 0);
    }
    AUTO_FREE char *text = rig_text("two");
    assert_string_equal(text, "listing");
    assert_int_equal(stat("one", &a) | stat("two", &b), 0);
    assert_true(rig_cas->clones || a.st_ino == b.st_ino);
    assert_int_equal(rig_entries("store/tmp"), 0);
    assert_int_equal(rig_cas->clones ? 0 : collect(), 0); // a name is enough to stay
    assert_int_equal(unlink("one") | unlink("two"), 0);
    assert_int_equal(collect(), 1);
    assert_int_equal(cas_put_file(rig_cas, STR("x"), "no/where", &e), -1);
}

TEST(failures_leave_nothing)
{
    atomic_bool cancel = true;
    struct archive_watch w = {.cancel = &cancel};
    struct err e = {0};

    make_tree("src");
    assert_int_equal(cas_keep_tree(rig_cas, "x", "src", "image", 0, &w, NULL, &e), -1);
    assert_int_equal(e.code, ERR_BUSY);
    assert_false(rig_there("image") || rig_there(".image.partial") || cas_has_tree(rig_cas, "x"));
    assert_int_equal(cas_keep_tree(rig_cas, "x", "nowhere", "image", 0, NULL, NULL, &e), -1);
    assert_int_equal(cas_keep_tree(rig_cas, "../x", "src", "image", 0, NULL, NULL, &e), -1);
    assert_int_equal(cas_keep_tree(rig_cas, "x", "src", "src", 0, NULL, NULL, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_int_equal(cas_keep_tree(rig_cas, "x", "src", "no/where", 0, NULL, NULL, &e), -1);
    assert_false(cas_has_tree(rig_cas, "x"));
    keep("x", "src", NULL, 0);
    assert_int_equal(cas_check_out(rig_cas, "x", "copy", &w, &e), -1);
    assert_false(rig_there("copy") || rig_there(".copy.partial"));
    assert_int_equal(cas_check_out(rig_cas, "none", "copy", NULL, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_int_equal(rig_entries("store/tmp"), 0);
}

/* A full disk, as the kernel shows it to a process that may write no larger files. */
TEST(a_full_disk_leaves_nothing)
{
    rig_fill("src/big", 3000000, 7);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit small = {1000000, 1000000};
        struct err e = {0};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &small);
        int rc = cas_keep_tree(rig_cas, "x", "src", "image", 0, NULL, NULL, &e);
        _exit(rc < 0 && !rig_there("image") && !rig_there(".image.partial") &&
                      !cas_has_tree(rig_cas, "x") && rig_entries("store/tmp") == 0
                  ? 0
                  : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(collect(), 0); // and no blob without its content
}

TEST(a_blob_whose_links_are_used_up)
{
    struct err e = {0};
    char hash[CAS_HEX], name[BLOB_NAME], path[BLOB_NAME + 1], full[256];
    struct batch b;
    int64_t size;

    if (rig_cas->clones)
        skip();
    rig_file("src/f", "content", 0644);
    keep("one", "src", "image-1", 0);
    AUTO_FD fd = open("src/f", O_RDONLY | O_CLOEXEC);
    assert_int_equal(copy_hashed(fd, -1, NULL, hash, &size, &e), 0);
    blob_name(rig_cas, hash, 0644, name);
    blob_path(name, path);
    snprintf(full, sizeof(full), "store/blobs/%s", path);
    assert_int_equal(mkdir("links", 0755), 0);
    int made = 0;
    for (; made < 66000; made++) {
        char link_name[64];
        snprintf(link_name, sizeof(link_name), "links/%d", made);
        if (link(full, link_name) < 0)
            break;
    }
    if (made == 66000)
        skip(); // this file system has no such limit
    keep("two", "src", "image-2", 0);
    assert_true(rig_same("src", "image-2", false));
    assert_true(rig_same("src", "image-1", false));
    assert_int_equal(batch_open(&b, rig_cas, &e), 0);
    assert_true(batch_has(&b, hash, 0644));
    batch_done(&b);
}

static void *keep_many(void *arg)
{
    int id = *(int *)arg;

    for (int i = 0; i < 6; i++) {
        char name[32], image[32];
        struct err e = {0};
        snprintf(name, sizeof(name), "t%d-%d", id, i);
        snprintf(image, sizeof(image), "i%d-%d", id, i);
        if (cas_keep_tree(rig_cas, name, "src", image, 0, NULL, NULL, &e) < 0)
            return arg;
        struct cas_freed freed;
        if (cas_collect(rig_cas, &freed, &e) < 0 && e.code != ERR_BUSY)
            return arg;
    }
    return NULL;
}

TEST(many_at_once)
{
    pthread_t threads[4];
    int ids[4];

    make_tree("src");
    pid_t pid = fork();
    if (pid == 0) {
        int id = 9;
        _exit(keep_many(&id) ? 1 : 0);
    }
    for (int i = 0; i < 4; i++) {
        ids[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, keep_many, &ids[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *why;
        pthread_join(threads[i], &why);
        assert_null(why);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(rig_same("src", "i0-0", false) && rig_same("src", "i3-5", false) &&
                rig_same("src", "i9-5", false));
    struct cas_tally t = keep("last", "src", NULL, 0);
    assert_int_equal(t.new_blobs, 0);
    check_out("t2-3", "copy");
    assert_true(rig_same("src", "copy", true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_open_cas, rig_close_cas)
        T(image_and_copy_are_the_tree),
        T(equal_trees_cost_nothing),
        T(untouched_files_are_not_read_again),
        T(writing_right_after_a_check_out_is_seen),
        T(a_copy_may_be_written),
        T(files_may_become_blobs),
        T(bundles_go_straight_in),
        T(downloads_have_the_exact_modes),
        T(trees_are_listed_by_the_beginning_of_their_names),
        T(collecting_takes_only_what_nobody_needs),
        T(equal_files_are_one),
        T(failures_leave_nothing),
        T(a_full_disk_leaves_nothing),
        T(a_blob_whose_links_are_used_up),
        T(many_at_once),
#undef T
    };
    return cmocka_run_group_tests_name("cas", tests, NULL, NULL);
}
