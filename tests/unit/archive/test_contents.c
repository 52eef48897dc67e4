/* test_contents.c - bundles that name what the receiver has, and records that must not be wrong */
#include "archive/bundle.h"
#include "archive/cas.h"
#include "archive/cas_priv.h"
#include "archive/contents_priv.h"
#include "archive/unpack.h"
#include "base/file.h"
#include "base/util.h"
#include "rig.h"
#include "unit.h"
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

static struct contents *hashed(const char *dir, const char *records)
{
    struct contents *c = contents_new(records);
    struct err e = {0};

    if (contents_add(c, dir, NULL, NULL, &e) < 0)
        fail_msg("%s", e.text);
    return c;
}

static int to_buf(void *ctx, const void *p, size_t n, struct err *e)
{
    (void)e;
    buf_add(ctx, p, n);
    return 0;
}

static void pack(const char *dir, const struct contents *c, struct buf *out)
{
    struct bundle_part part = {.name = "job_source", .tree = dir};
    struct bundle b = {.top = "job", .parts = &part, .count = 1, .wall_s = 1, .contents = c};
    struct err e = {0};

    if (bundle_write(&b, to_buf, out, NULL, &e) < 0)
        fail_msg("%s", e.text);
}

static int take(const char *name, const struct buf *packed, bool contents, struct err *e)
{
    struct unpack_conf conf = {.top = "job", .contents = contents};
    struct unpack *u;

    *e = (struct err){0};
    assert_int_equal(unpack_open_store(rig_cas, name, &conf, &u, e), 0);
    int rc = unpack_feed(u, packed->p, packed->n, e);
    if (rc == 0)
        rc = unpack_finish(u, e);
    unpack_free(u);
    return rc;
}

/* What the store says it has. */
static size_t ask(struct contents *c)
{
    size_t there = 0;

    for (size_t i = 0; i < contents_count(c); i++)
        if (cas_has_content(rig_cas, contents_hash(c, i))) {
            contents_set_there(c, i);
            there++;
        }
    return there;
}

static void make_tree(void)
{
    rig_fill("src/big", 500000, 1);
    rig_fill("src/deep/twin", 500000, 1);
    rig_fill("src/deep/other", 100000, 2);
    rig_file("src/small", "small", 0644);
    rig_file("src/empty", "", 0600);
    assert_int_equal(chmod("src/big", 0755), 0);
    assert_int_equal(symlink("big", "src/link"), 0);
}

TEST(a_second_bundle_is_a_list)
{
    AUTO(buf) struct buf whole = {0}, list = {0};
    struct err e;

    make_tree();
    struct contents *c = hashed("src", NULL);
    assert_int_equal(contents_count(c), 3); // the small ones are not worth it
    assert_int_equal(ask(c), 0);
    pack("src", c, &whole);
    assert_true(whole.n > 600000);
    assert_int_equal(take("one", &whole, true, &e), 0);
    assert_int_equal(ask(c), 3);
    pack("src", c, &list);
    assert_true(list.n < 8192);
    assert_int_equal(take("two", &list, true, &e), 0);
    assert_int_equal(cas_check_out(rig_cas, "one", "out-1", NULL, &e), 0);
    assert_int_equal(cas_check_out(rig_cas, "two", "out-2", NULL, &e), 0);
    assert_true(rig_same("src", "out-2/job_source", false));
    assert_true(rig_same("out-1", "out-2", true)); // modes and times too
    contents_free(c);
}

TEST(what_changed_after_the_question_is_sent)
{
    AUTO(buf) struct buf whole = {0}, list = {0};
    struct err e;

    make_tree();
    struct contents *c = hashed("src", NULL);
    pack("src", NULL, &whole);
    assert_int_equal(take("one", &whole, true, &e), 0);
    assert_int_equal(ask(c), 3);
    rig_fill("src/deep/other", 100000, 3); // same size
    pack("src", c, &list);
    assert_true(list.n > 100000 && list.n < 110000);
    assert_int_equal(take("two", &list, true, &e), 0);
    assert_int_equal(cas_check_out(rig_cas, "two", "out", NULL, &e), 0);
    assert_true(rig_same("src", "out/job_source", false));
    contents_free(c);
}

TEST(what_is_not_there_is_refused)
{
    AUTO(buf) struct buf list = {0}, odd = {0}, packed = {0};
    struct err e;

    make_tree();
    struct contents *c = hashed("src", NULL);
    for (size_t i = 0; i < contents_count(c); i++)
        contents_set_there(c, i); // it is not
    pack("src", c, &list);
    assert_int_equal(take("one", &list, true, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.text, "'job_source/big'"));
    assert_false(cas_has_tree(rig_cas, "one"));
    assert_int_equal(take("one", &list, false, &e), 0); // who did not offer it sees a plain tar
    static const char *const bad[] = {"../../../../etc/passwd", "", "ABCDEF"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        buf_reset(&odd);
        buf_reset(&packed);
        tar_add_pax(&odd, "SCHILY.xattr." CONTENT_ATTRIBUTE, bad[i]);
        tar_add(&odd, (struct tar_member){.name = "job/x", .type = '0', .data = ""});
        tar_end(&odd);
        tar_gzip(&odd, &packed);
        assert_int_equal(take("odd", &packed, true, &e), -1);
        assert_int_equal(e.code, ERR_INVALID);
    }
    contents_free(c);
}

TEST(contents_count_towards_the_limits)
{
    AUTO(buf) struct buf whole = {0}, list = {0};
    struct unpack_conf conf = {.top = "job", .contents = true, .limits.total_bytes = 1000000};
    struct unpack *u;
    struct err e;

    make_tree();
    struct contents *c = hashed("src", NULL);
    pack("src", NULL, &whole);
    assert_int_equal(take("one", &whole, true, &e), 0);
    ask(c);
    pack("src", c, &list);
    assert_int_equal(unpack_open_store(rig_cas, "two", &conf, &u, &e), 0);
    int rc = unpack_feed(u, list.p, list.n, &e);
    assert_int_equal(rc < 0 ? rc : unpack_finish(u, &e), -1);
    assert_int_equal(e.code, ERR_LIMIT);
    unpack_free(u);
    contents_free(c);
}

static void age(const char *path, int64_t by_s)
{
    struct stat st;

    /* The change time cannot be set: the record is told that the file is old by waiting it out. */
    for (;;) {
        assert_int_equal(stat(path, &st), 0);
        if (time(NULL) - st.st_ctime >= by_s)
            return;
        usleep(50000);
    }
}

TEST(records_spare_the_reading_but_never_lie)
{
    struct stat st;

    make_tree();
    contents_free(hashed("src", "records"));
    assert_int_equal(rig_entries("records"), 0); // too young: the next change might look the same
    age("src/big", 2);
    age("src/deep/twin", 2);
    age("src/deep/other", 2);
    struct contents *a = hashed("src", "records");
    assert_int_equal(rig_entries("records"), 1);
    AUTO_FREE char *path = known_path("records", "src"), *text = rig_text(path);
    struct contents *b = hashed("src", "records");
    for (size_t i = 0; i < contents_count(a); i++)
        assert_string_equal(contents_hash(a, i), contents_hash(b, i));
    /* It is the record that is used: with another hash in it, that one comes back. */
    char *at = strstr(text, contents_hash(a, 0));
    assert_non_null(at);
    at[0] = at[0] == '0' ? '1' : '0';
    rig_file(path, text, 0600);
    struct contents *c = hashed("src", "records");
    assert_string_not_equal(contents_hash(a, 0), contents_hash(c, 0));
    /* Same size, the old time: read again. */
    assert_int_equal(stat("src/big", &st), 0);
    rig_fill("src/big", 500000, 9);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, "src/big", times, 0), 0);
    struct contents *d = hashed("src", "records"), *fresh = hashed("src", NULL);
    assert_string_equal(contents_hash(d, 0), contents_hash(fresh, 0));
    assert_string_not_equal(contents_hash(a, 0), contents_hash(d, 0));
    contents_free(a);
    contents_free(b);
    contents_free(c);
    contents_free(d);
    contents_free(fresh);
}

/* ---- a file that changes while it is archived ---- */

static atomic_bool enough;

static void *rewrite(void *arg)
{
    AUTO_FD fd = open("src/busy", O_WRONLY | O_CLOEXEC);
    char page[4096];

    for (unsigned i = 0; !atomic_load(&enough); i++) {
        memset(page, 'a' + (int)(i % 26), sizeof(page));
        for (int k = 0; k < 64; k++)
            if (pwrite(fd, page, sizeof(page), k * 4096) < 0)
                return arg;
    }
    return NULL;
}

static void check_blob(const char *path)
{
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    char hash[CAS_HEX];
    const char *name = strrchr(path, '/') + 1;
    struct err e = {0};
    int64_t size;

    assert_int_equal(copy_hashed(fd, -1, NULL, hash, &size, &e), 0);
    assert_memory_equal(hash, name - 3, 2); // "ab/cdef…"
    assert_memory_equal(hash + 2, name, CAS_HEX - 3);
}

TEST(a_file_that_changes_is_kept_under_its_own_hash)
{
    pthread_t thread;
    struct err e = {0};

    rig_fill("src/busy", 64 * 4096, 5);
    atomic_store(&enough, false);
    assert_int_equal(pthread_create(&thread, NULL, rewrite, NULL), 0);
    for (int i = 0; i < 40; i++) {
        char name[16], image[16];
        snprintf(name, sizeof(name), "t%d", i);
        snprintf(image, sizeof(image), "i%d", i);
        assert_int_equal(
            cas_keep_tree(rig_cas, name, "src", image, i & 1 ? CAS_SOURCE_ENDS : 0, NULL, NULL, &e),
            0);
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    glob_t blobs = {0};
    assert_int_equal(glob("store/blobs/*/*-[0-7][0-7][0-7]", 0, NULL, &blobs), 0);
    for (size_t i = 0; i < blobs.gl_pathc; i++)
        check_blob(blobs.gl_pathv[i]);
    globfree(&blobs);
    for (int i = 0; i < 40; i++) {
        char name[16], image[16], out[16];
        snprintf(name, sizeof(name), "t%d", i);
        snprintf(image, sizeof(image), "i%d", i);
        snprintf(out, sizeof(out), "o%d", i);
        assert_int_equal(cas_check_out(rig_cas, name, out, NULL, &e), 0);
        assert_true(rig_same(image, out, false));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_open_cas, rig_close_cas)
        T(a_second_bundle_is_a_list),
        T(what_changed_after_the_question_is_sent),
        T(what_is_not_there_is_refused),
        T(contents_count_towards_the_limits),
        T(records_spare_the_reading_but_never_lie),
        T(a_file_that_changes_is_kept_under_its_own_hash),
#undef T
    };
    return cmocka_run_group_tests_name("contents", tests, NULL, NULL);
}
