/* test_unpack.c - archives from strangers: each trick is refused, and nothing stays behind */
#include "archive/bundle.h"
#include "archive/cas.h"
#include "archive/gzip_priv.h"
#include "archive/unpack.h"
#include "base/file.h"
#include "base/util.h"
#include "rig.h"
#include "unit.h"
#include <stdio.h>
#include <sys/stat.h>

static int unpack_with(const struct buf *packed, const struct unpack_conf *conf, size_t step,
                       struct err *e)
{
    struct unpack *u;
    int rc = unpack_open_dir("dest", conf, &u, e);

    if (rc < 0)
        return -1;
    for (size_t at = 0; at < packed->n && rc == 0; at += step)
        rc = unpack_feed(u, packed->p + at, MIN(step, packed->n - at), e);
    if (rc == 0)
        rc = unpack_finish(u, e);
    unpack_free(u);
    return rc;
}

static int into_store(const struct buf *packed, const struct unpack_conf *conf, struct err *e)
{
    struct unpack *u;
    struct cas *c;

    assert_int_equal(cas_open("store", &c, e), 0);
    int rc = unpack_open_store(c, "t", conf, &u, e);
    if (rc == 0 && (rc = unpack_feed(u, packed->p, packed->n, e)) == 0)
        rc = unpack_finish(u, e);
    unpack_free(u);
    assert_int_equal(cas_has_tree(c, "t"), rc == 0);
    cas_close(c);
    return rc;
}

/* Refused in both forms, with this in the sentence; nothing is left. */
static void check_refused(struct buf *tar, const struct unpack_conf *conf, const char *why)
{
    AUTO(buf) struct buf packed = {0};
    struct err e = {0};

    tar_end(tar);
    tar_gzip(tar, &packed);
    assert_int_equal(unpack_with(&packed, conf, 1000, &e), -1);
    if (!strstr(e.text, why))
        fail_msg("'%s' does not say '%s'", e.text, why);
    assert_false(rig_there("dest"));
    assert_false(rig_there(".dest.partial"));
    e = (struct err){0};
    assert_int_equal(into_store(&packed, conf, &e), -1);
    assert_non_null(strstr(e.text, why));
    assert_int_equal(rig_entries("store/tmp"), 0);
    assert_int_equal(rig_entries("store/trees"), 0);
    assert_int_equal(rig_entries("store/blobs"), 0);
}

#define REFUSED(why, ...)                                                                          \
    do {                                                                                           \
        const struct tar_member list[] = {__VA_ARGS__};                                            \
        AUTO(buf) struct buf tar = {0};                                                            \
        for (size_t i_ = 0; i_ < ARRAY_SIZE(list); i_++)                                           \
            tar_add(&tar, list[i_]);                                                               \
        check_refused(&tar, &(struct unpack_conf){0}, why);                                        \
    } while (0)

TEST(names_that_lead_out)
{
    rig_file("victim", "old", 0644);
    REFUSED("absolute", {.name = "/tmp/evil", .type = '0', .data = "x"});
    REFUSED("'..'", {.name = "../victim", .type = '0', .data = "x"});
    REFUSED("'..'", {.name = "a/../../victim", .type = '0', .data = "x"});
    REFUSED("'..'", {.name = "a/..", .type = '5'});
    REFUSED("'..'", {.name = "..", .type = '5'});
    REFUSED("absolute", {.name = "//x", .type = '0', .data = "x"});
    AUTO_FREE char *text = rig_text("victim");
    assert_string_equal(text, "old");
}

TEST(names_in_extended_headers)
{
    AUTO(buf) struct buf pax = {0}, gnu = {0}, link = {0};

    tar_add_pax(&pax, "path", "../../evil");
    tar_add(&pax, (struct tar_member){.name = "harmless", .type = '0', .data = "x"});
    check_refused(&pax, &(struct unpack_conf){0}, "'..'");
    tar_add(&gnu, (struct tar_member){.name = "././@LongLink", .type = 'L', .data = "/etc/evil"});
    tar_add(&gnu, (struct tar_member){.name = "harmless", .type = '0', .data = "x"});
    check_refused(&gnu, &(struct unpack_conf){0}, "absolute");
    tar_add_pax(&link, "linkpath", "/etc");
    tar_add(&link, (struct tar_member){.name = "l", .type = '2', .link = "ok"});
    check_refused(&link, &(struct unpack_conf){0}, "link out of the tree");
}

TEST(names_through_links)
{
    REFUSED("through a link", {.name = "d", .type = '2', .link = "x"},
            {.name = "d/evil", .type = '0', .data = "x"});
    REFUSED("through a link", {.name = "d", .type = '2', .link = "."},
            {.name = "d/sub/", .type = '5'});
    REFUSED("through a file", {.name = "d", .type = '0', .data = "x"},
            {.name = "d/evil", .type = '0', .data = "x"});
    REFUSED("two of this name", {.name = "d/", .type = '5'},
            {.name = "d", .type = '2', .link = "x"}, {.name = "d/evil", .type = '0', .data = "x"});
}

TEST(links_that_lead_out)
{
    REFUSED("link out of the tree", {.name = "l", .type = '2', .link = "/etc/passwd"});
    REFUSED("link out of the tree", {.name = "l", .type = '2', .link = ".."});
    REFUSED("link out of the tree", {.name = "a/l", .type = '2', .link = "../../x"});
    REFUSED("link out of the tree", {.name = "a/b/up", .type = '2', .link = "../.."},
            {.name = "out", .type = '2', .link = "a/b/up/.."});
    REFUSED("link to nothing", {.name = "l", .type = '2', .link = ""});
}

TEST(hard_links)
{
    REFUSED("absolute", {.name = "h", .type = '1', .link = "/etc/passwd"});
    REFUSED("'..'", {.name = "h", .type = '1', .link = "../victim"});
    REFUSED("earlier file", {.name = "h", .type = '1', .link = "later"},
            {.name = "later", .type = '0', .data = "x"});
    REFUSED("earlier file", {.name = "l", .type = '2', .link = "x"},
            {.name = "h", .type = '1', .link = "l"});
    REFUSED("earlier file", {.name = "d/", .type = '5'}, {.name = "h", .type = '1', .link = "d"});
}

TEST(devices_and_pipes)
{
    REFUSED("devices", {.name = "null", .type = '3'});
    REFUSED("devices", {.name = "sda", .type = '4'});
    REFUSED("devices", {.name = "pipe", .type = '6'});
}

TEST(names_twice)
{
    REFUSED("two of this name", {.name = "a", .type = '0', .data = "1"},
            {.name = "a", .type = '0', .data = "2"});
    REFUSED("two of this name", {.name = "a", .type = '0', .data = "1"},
            {.name = "./a", .type = '2', .link = "b"});
    REFUSED("two of this name", {.name = "a", .type = '2', .link = "b"},
            {.name = "a", .type = '0', .data = "2"});
    REFUSED("two of this name", {.name = "a", .type = '0', .data = "1"},
            {.name = "a//", .type = '5'});
    REFUSED("two of this name", {.name = ".", .type = '0', .data = "1"});
}

TEST(more_than_one_top)
{
    AUTO(buf) struct buf tar = {0}, bare = {0};

    tar_add(&tar, (struct tar_member){.name = "job/", .type = '5'});
    tar_add(&tar, (struct tar_member){.name = "job/x", .type = '0', .data = "1"});
    tar_add(&tar, (struct tar_member){.name = "other/x", .type = '0', .data = "1"});
    check_refused(&tar, &(struct unpack_conf){.top = "job"}, "in the directory 'job'");
    tar_add(&bare, (struct tar_member){.name = "job", .type = '0', .data = "1"});
    check_refused(&bare, &(struct unpack_conf){.top = "job"}, "two of this name");
}

TEST(limits)
{
    struct unpack_conf few = {.limits.members = 3}, small = {.limits.file_bytes = 10},
                       little = {.limits.total_bytes = 25}, flat = {.limits.depth = 3};
    const struct tar_member four[] = {{.name = "a", .type = '0', .data = "0123456789"},
                                      {.name = "b", .type = '0', .data = "0123456789"},
                                      {.name = "c", .type = '0', .data = "0123456789"},
                                      {.name = "d", .type = '0', .data = "0123456789x"}};
    const struct unpack_conf *confs[] = {&few, &small, &little};
    const char *words[] = {"more than 3 members", "larger than the limit", "larger than the limit"};

    for (size_t i = 0; i < 3; i++) {
        AUTO(buf) struct buf tar = {0};
        for (size_t k = 0; k < ARRAY_SIZE(four); k++)
            tar_add(&tar, four[k]);
        check_refused(&tar, confs[i], words[i]);
    }
    AUTO(buf) struct buf deep = {0}, implied = {0}, sparse = {0};
    tar_add(&deep, (struct tar_member){.name = "a/b/c/d", .type = '0', .data = "1"});
    check_refused(&deep, &flat, "too many directories");
    tar_add(&implied, (struct tar_member){.name = "a/b/c/d", .type = '0', .data = "1"});
    check_refused(&implied, &few, "more than 3 members");
    tar_add(&sparse, (struct tar_member){.name = "huge", .type = '0', .size = 077777777777});
    check_refused(&sparse, &small, "larger than the limit");
}

static int to_buf(void *ctx, const void *p, size_t n, struct err *e)
{
    (void)e;
    buf_add(ctx, p, n);
    return 0;
}

/* Ten gigabytes of zeros: refused long before they are written. */
TEST(a_bomb_is_stopped_early)
{
    AUTO(buf) struct buf tar = {0}, packed = {0};
    struct err e = {0};
    struct stat st;
    static char zeros[1 << 20];
    struct gzip *g = gzip_new(to_buf, &packed);
    struct unpack *u;
    int rc = 0;

    tar_add(&tar, (struct tar_member){.name = "job/zeros", .type = '0', .size = 8000000000});
    assert_int_equal(unpack_open_dir("dest", NULL, &u, &e), 0);
    gzip_add(g, tar.p, tar.n, &e);
    for (int mb = 0; mb < 200 && rc == 0; mb++) {
        gzip_add(g, zeros, sizeof(zeros), &e);
        rc = unpack_feed(u, packed.p, packed.n, &e);
        buf_reset(&packed);
    }
    assert_int_equal(rc, -1);
    assert_int_equal(e.code, ERR_LIMIT);
    assert_non_null(strstr(e.text, "200 times"));
    assert_true(lstat(".dest.partial", &st) < 0);
    assert_int_equal(unpack_feed(u, "x", 1, &e), -1); // and it stays refused
    assert_int_equal(unpack_finish(u, &e), -1);
    unpack_free(u);
    gzip_free(g);
    assert_false(rig_there("dest"));
}

TEST(what_is_no_whole_tar)
{
    AUTO(buf) struct buf tar = {0}, packed = {0}, text = {0}, none = {0};
    struct err e = {0};

    tar_add(&tar, (struct tar_member){.name = "a", .type = '0', .data = "0123456789"});
    tar_end(&tar);
    tar_gzip(&tar, &packed);
    for (size_t cut = 0; cut < packed.n; cut++) {
        struct buf part = {.p = packed.p, .n = cut};
        assert_int_equal(unpack_with(&part, NULL, 7, &e), -1);
        assert_false(rig_there("dest") || rig_there(".dest.partial"));
    }
    assert_int_equal(unpack_with(&tar, NULL, 512, &e), -1);
    assert_string_equal(e.text, "the archive is not a gzip file");
    buf_adds(&text, "This text is long enough to be looked at, but it is not a tar file at all.");
    buf_reset(&packed);
    tar_gzip(&text, &packed);
    assert_int_equal(unpack_with(&packed, NULL, 512, &e), -1);
    assert_non_null(strstr(e.text, "not a tar"));
    buf_reset(&packed);
    tar_gzip(&none, &packed);
    assert_int_equal(unpack_with(&packed, NULL, 512, &e), -1);
    buf_reset(&packed);
    struct buf half = {.p = tar.p, .n = 700}; // whole gzip, half a member
    tar_gzip(&half, &packed);
    assert_int_equal(unpack_with(&packed, NULL, 512, &e), -1);
    assert_false(rig_there("dest") || rig_there(".dest.partial"));
}

TEST(good_ones_come_out)
{
    AUTO(buf) struct buf tar = {0}, packed = {0};
    struct unpack_conf conf = {.top = "job"};
    struct err e = {0};
    struct stat st;

    tar_add(&tar, (struct tar_member){.name = "./job/", .type = '5', .mode = 0555});
    tar_add(&tar,
            (struct tar_member){.name = "job/src/run", .type = '0', .data = "hi", .mode = 06755});
    tar_add(&tar, (struct tar_member){.name = "job/src/", .type = '5', .mode = 0500});
    tar_add(&tar, (struct tar_member){.name = "job/src/", .type = '5', .mode = 0511});
    tar_add(&tar, (struct tar_member){.name = "job/h", .type = '1', .link = "job/src/run"});
    tar_add(&tar, (struct tar_member){.name = "job/l", .type = '2', .link = "src/run"});
    tar_add_pax(&tar, "path", "job/decomposed-e\xcc\x81");
    tar_add(&tar, (struct tar_member){.name = "x", .type = '0', .data = "1"});
    tar_add(&tar, (struct tar_member){.name = "job/\xff\xfe", .type = '0', .data = "2"});
    tar_end(&tar);
    tar_gzip(&tar, &packed);
    assert_int_equal(unpack_with(&packed, &conf, 1, &e), 0);
    AUTO_FREE char *a = rig_text("dest/src/run"), *b = rig_text("dest/h"), *c = rig_text("dest/l");
    assert_string_equal(a, "hi");
    assert_string_equal(b, "hi");
    assert_string_equal(c, "hi");
    assert_true(rig_there("dest/decomposed-e\xcc\x81") && rig_there("dest/\xff\xfe"));
    assert_int_equal(stat("dest/src/run", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755); // neither set-user-id nor set-group-id
    assert_int_equal(st.st_mtime, 1500000000);
    assert_int_equal(st.st_uid, geteuid());
    assert_int_equal(stat("dest/src", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0711);
    assert_int_equal(stat("dest", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(unpack_with(&packed, &conf, 1, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_int_equal(dir_remove_tree("dest", &e), 0);
    assert_int_equal(into_store(&packed, &conf, &e), 0);
    assert_int_equal(dir_remove_tree("store", &e), 0);
}

TEST(links_out_when_allowed)
{
    AUTO(buf) struct buf tar = {0}, packed = {0}, trick = {0};
    struct unpack_conf conf = {.outside_links = true};
    struct err e = {0};

    tar_add(&tar,
            (struct tar_member){.name = "venv/python", .type = '2', .link = "/usr/bin/python3"});
    tar_end(&tar);
    tar_gzip(&tar, &packed);
    assert_int_equal(unpack_with(&packed, &conf, 100, &e), 0);
    assert_int_equal(dir_remove_tree("dest", &e), 0);
    tar_add(&trick, (struct tar_member){.name = "t", .type = '2', .link = "/tmp"});
    tar_add(&trick, (struct tar_member){.name = "t/evil", .type = '0', .data = "x"});
    check_refused(&trick, &conf, "through a link");
    assert_false(rig_there("/tmp/evil"));
}

TEST(giving_up_leaves_nothing)
{
    AUTO(buf) struct buf tar = {0}, packed = {0};
    struct err e = {0};
    struct unpack *u;

    tar_add(&tar, (struct tar_member){.name = "a/b", .type = '0', .data = "0123456789"});
    tar_end(&tar);
    tar_gzip(&tar, &packed);
    assert_int_equal(unpack_open_dir("dest", NULL, &u, &e), 0);
    assert_int_equal(unpack_feed(u, packed.p, packed.n / 2, &e), 0);
    unpack_free(u);
    assert_int_equal(unpack_open_dir("dest", NULL, &u, &e), 0);
    unpack_free(u);
    assert_false(rig_there("dest") || rig_there(".dest.partial"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_lead_out),
        cmocka_unit_test(names_in_extended_headers),
        cmocka_unit_test(names_through_links),
        cmocka_unit_test(links_that_lead_out),
        cmocka_unit_test(hard_links),
        cmocka_unit_test(devices_and_pipes),
        cmocka_unit_test(names_twice),
        cmocka_unit_test(more_than_one_top),
        cmocka_unit_test(limits),
        cmocka_unit_test(a_bomb_is_stopped_early),
        cmocka_unit_test(what_is_no_whole_tar),
        cmocka_unit_test(good_ones_come_out),
        cmocka_unit_test(links_out_when_allowed),
        cmocka_unit_test(giving_up_leaves_nothing),
    };
    return cmocka_run_group_tests_name("unpack", tests, rig_open, rig_close);
}
