/* test_bundle.c - what goes into a bundle, and that it comes out again */
#include "archive/bundle.h"
#include "archive/tgz.h"
#include "archive/unpack.h"
#include "base/file.h"
#include "base/util.h"
#include "rig.h"
#include "unit.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

struct seen {
    char warnings[4096];
    int64_t bytes, calls;
};

static void on_warn(void *ctx, const char *sentence)
{
    struct seen *s = ctx;
    size_t n = strlen(s->warnings);

    snprintf(s->warnings + n, sizeof(s->warnings) - n, "%s\n", sentence);
}

static void on_progress(void *ctx, int64_t bytes, int64_t entries)
{
    struct seen *s = ctx;

    (void)entries;
    assert_true(bytes >= s->bytes);
    s->bytes = bytes;
    s->calls++;
}

static int to_buf(void *ctx, const void *p, size_t n, struct err *e)
{
    return buf_add(ctx, p, n) ? 0 : err_set(e, ERR_FULL, "no room");
}

static void unpack_buf(const struct buf *packed, const char *dest, const char *top)
{
    struct unpack_conf conf = {.top = top, .outside_links = true};
    struct err e = {0};
    struct unpack *u;

    assert_int_equal(unpack_open_dir(dest, &conf, &u, &e), 0);
    if (unpack_feed(u, packed->p, packed->n, &e) < 0 || unpack_finish(u, &e) < 0)
        fail_msg("%s", e.text);
    unpack_free(u);
}

static void pack_parts(const struct bundle_part *parts, size_t n, struct buf *out,
                       struct seen *seen)
{
    struct archive_watch w = {.warn = on_warn, .progress = on_progress, .ctx = seen};
    struct bundle b = {.top = "job-1", .parts = parts, .count = n, .wall_s = 1600000000};
    struct err e = {0};

    if (bundle_write(&b, to_buf, out, &w, &e) < 0)
        fail_msg("%s", e.text);
}

static void make_tree(const char *dir)
{
    AUTO_FREE char *long_name = xmalloc(251);
    struct timespec at[2] = {{.tv_sec = 1400000000}, {.tv_sec = 1400000000}};

    memset(long_name, 'n', 250);
    long_name[250] = '\0';
    AUTO_FREE char *a = path_join(dir, "main.py"), *b = path_join(dir, "deep/er/data.bin"),
                   *c = path_join(dir, "empty"), *d = path_join(dir, "link"),
                   *l = path_join(dir, long_name), *x = path_join(dir, "bad\xff name\n"),
                   *z = path_join(dir, ".hidden"), *abs = path_join(dir, "abs");
    AUTO_FREE char *very_long = path_join(dir, "p");
    for (int i = 0; i < 12; i++) {
        char *more = xasprintf("%s/%.40s%d", very_long, long_name, i);
        free(very_long);
        very_long = more;
    }
    rig_file(a, "print('hi')\n", 0755);
    rig_fill(b, 300000, 1);
    rig_file(z, "", 0600);
    rig_file(l, "long\n", 0644);
    rig_file(x, "odd\n", 0444);
    rig_file(very_long, "very\n", 0644);
    assert_int_equal(mkdir(c, 0755), 0);
    assert_int_equal(symlink("deep/er", d), 0);
    assert_int_equal(symlink("/nowhere", abs), 0);
    assert_int_equal(utimensat(AT_FDCWD, a, at, 0), 0);
}

TEST(a_tree_comes_back)
{
    struct bundle_part part = {.name = "job_source", .tree = "tree"};
    AUTO(buf) struct buf packed = {0}, again = {0};
    struct seen seen = {0};
    struct stat st;

    make_tree("tree");
    pack_parts(&part, 1, &packed, &seen);
    assert_string_equal(seen.warnings, "");
    unpack_buf(&packed, "back", "job-1");
    assert_true(rig_same("tree", "back/job_source", false));
    assert_int_equal(stat("back/job_source/main.py", &st), 0);
    assert_int_equal(st.st_mtime, 1400000000);
    assert_int_equal(st.st_mode & 0777, 0755);
    pack_parts(&part, 1, &again, &seen);
    assert_int_equal(packed.n, again.n); // equal trees, equal bundles
    assert_memory_equal(packed.p, again.p, packed.n);
}

TEST(parts_and_their_order)
{
    rig_file("code/foundations_job_parameters.json", "{\"old\": 1}", 0644);
    rig_file("code/run.sh", "run", 0755);
    rig_file("sdk/foundations/__init__.py", "sdk", 0644);
    struct bundle_part parts[] = {
        {.name = "job_source", .tree = "code"},
        {.name = "job_source/foundations_job_parameters.json", .bytes = STR("{\"new\": 2}")},
        {.name = "run.env", .bytes = STR("export A=1\n"), .mode = 0600},
        {.name = "", .tree = "sdk"},
        {.name = "some/where/else", .bytes = STR("")},
    };
    AUTO(buf) struct buf packed = {0};
    struct seen seen = {0};
    struct stat st;

    pack_parts(parts, ARRAY_SIZE(parts), &packed, &seen);
    unpack_buf(&packed, "parts", "job-1"); // which refuses a name that is there twice
    AUTO_FREE char *params = rig_text("parts/job_source/foundations_job_parameters.json");
    AUTO_FREE char *env = rig_text("parts/run.env");
    AUTO_FREE char *sdk = rig_text("parts/foundations/__init__.py");
    assert_string_equal(params, "{\"new\": 2}");
    assert_string_equal(env, "export A=1\n");
    assert_string_equal(sdk, "sdk");
    assert_true(rig_there("parts/some/where/else") && rig_there("parts/job_source/run.sh"));
    assert_int_equal(stat("parts/run.env", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_mtime, 1600000000);
}

TEST(later_trees_win)
{
    rig_file("one/a", "1", 0644);
    rig_file("one/dir/b", "1", 0644);
    rig_file("one/only", "1", 0644);
    rig_file("two/a", "2", 0644);
    rig_file("two/dir", "2", 0644);
    struct bundle_part parts[] = {{.name = "x", .tree = "one"}, {.name = "x", .tree = "two"}};
    AUTO(buf) struct buf packed = {0};
    struct seen seen = {0};

    pack_parts(parts, 2, &packed, &seen);
    unpack_buf(&packed, "won", "job-1");
    AUTO_FREE char *a = rig_text("won/x/a"), *d = rig_text("won/x/dir"),
                   *o = rig_text("won/x/only");
    assert_string_equal(a, "2");
    assert_string_equal(d, "2");
    assert_string_equal(o, "1");
}

TEST(ignored_files_stay_out)
{
    struct ignore *ig = ignore_parse(STR("*.tmp\n/data/\n!keep.tmp\n"));
    struct bundle_part part = {.name = "s", .tree = "ign", .ignore = ig};
    struct bundle_size size;
    AUTO(buf) struct buf packed = {0};
    struct seen seen = {0};
    struct err e = {0};

    rig_file("ign/a.tmp", "12345", 0644);
    rig_file("ign/keep.tmp", "12345", 0644);
    rig_file("ign/data/big", "1234567890", 0644);
    rig_file("ign/sub/data/x", "1", 0644);
    pack_parts(&part, 1, &packed, &seen);
    unpack_buf(&packed, "ign-out", "job-1");
    assert_false(rig_there("ign-out/s/a.tmp") || rig_there("ign-out/s/data"));
    assert_true(rig_there("ign-out/s/keep.tmp") && rig_there("ign-out/s/sub/data/x"));
    assert_int_equal(bundle_estimate("ign", ig, NULL, &size, &e), 0);
    assert_int_equal(size.bytes, 6);
    assert_int_equal(bundle_estimate("ign", NULL, NULL, &size, &e), 0);
    assert_int_equal(size.bytes, 21);
    assert_int_equal(bundle_estimate("nowhere", NULL, NULL, &size, &e), -1);
    ignore_free(ig);
}

TEST(odd_files_are_named_and_left_out)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "odd/socket"};
    struct bundle_part part = {.name = "s", .tree = "odd"};
    AUTO(buf) struct buf packed = {0};
    struct seen seen = {0};
    AUTO_FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    rig_file("odd/plain", "1", 0644);
    assert_int_equal(mkfifo("odd/pipe", 0644), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    pack_parts(&part, 1, &packed, &seen);
    assert_non_null(strstr(seen.warnings, "odd/pipe is left out: it is a pipe"));
    assert_non_null(strstr(seen.warnings, "odd/socket is left out: it is a socket"));
    unpack_buf(&packed, "odd-out", "job-1");
    assert_int_equal(rig_entries("odd-out/s"), 1);
}

/* A sink that changes the file being read, in the middle of it. */
struct meddler {
    struct buf out;
    const char *path;
    off_t to;
    bool done;
};

static int meddle(void *ctx, const void *p, size_t n, struct err *e)
{
    struct meddler *m = ctx;

    (void)e;
    buf_add(&m->out, p, n);
    if (m->out.n > 100000 && !m->done) {
        m->done = true;
        assert_int_equal(truncate(m->path, m->to), 0);
    }
    return 0;
}

static void check_meddled(off_t to, const char *word, off_t expected)
{
    struct bundle_part part = {.name = "s", .tree = "moving"};
    struct bundle b = {.top = "j", .parts = &part, .count = 1};
    struct seen seen = {0};
    struct archive_watch w = {.warn = on_warn, .ctx = &seen};
    struct meddler m = {.path = "moving/file", .to = to};
    struct err e = {0};
    struct stat st;

    rig_fill("moving/file", 2000000, 9);
    rig_file("moving/next", "still here", 0644);
    assert_int_equal(bundle_write(&b, meddle, &m, &w, &e), 0);
    assert_non_null(strstr(seen.warnings, word));
    unpack_buf(&m.out, "moved", "j");
    assert_int_equal(stat("moved/s/file", &st), 0);
    assert_int_equal(st.st_size, expected);
    AUTO_FREE char *next = rig_text("moved/s/next");
    assert_string_equal(next, "still here");
    assert_int_equal(dir_remove_tree("moved", &e), 0);
    buf_done(&m.out);
}

TEST(files_that_change_meanwhile)
{
    check_meddled(1000000, "shrank while it was packed", 2000000);
    check_meddled(3000000, "grew while it was packed", 2000000);
}

TEST(holes_stay_holes)
{
    struct bundle_part part = {.name = "s", .tree = "holes"};
    AUTO(buf) struct buf packed = {0};
    struct seen seen = {0};
    struct stat st;

    rig_file("holes/f", "", 0644);
    AUTO_FD fd = open("holes/f", O_WRONLY | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)10 << 30), 0); // also more than old tars can say
    assert_int_equal(pwrite(fd, "end", 3, ((off_t)9 << 30) + 5), 3);
    if (fstat(fd, &st) < 0 || (off_t)st.st_blocks * 512 > st.st_size / 2)
        skip(); // no holes on this file system
    pack_parts(&part, 1, &packed, &seen);
    assert_true(packed.n < 100000);
    unpack_buf(&packed, "holes-out", "job-1");
    assert_int_equal(stat("holes-out/s/f", &st), 0);
    assert_int_equal(st.st_size, (off_t)10 << 30);
    assert_true(st.st_blocks < 1000);
    AUTO_FD back = open("holes-out/s/f", O_RDONLY | O_CLOEXEC);
    char text[4] = "";
    assert_int_equal(pread(back, text, 3, ((off_t)9 << 30) + 5), 3);
    assert_string_equal(text, "end");
}

static atomic_bool cancelled;

static void cancel_soon(void *ctx, int64_t bytes, int64_t entries)
{
    (void)ctx, (void)entries;
    if (bytes > 500000)
        atomic_store(&cancelled, true);
}

/* Nothing may come after that, not even zeros instead of the rest. */
static int to_buf_until_cancelled(void *ctx, const void *p, size_t n, struct err *e)
{
    assert_false(atomic_load(&cancelled));
    return to_buf(ctx, p, n, e);
}

TEST(progress_and_cancelling)
{
    struct bundle_part part = {.name = "s", .tree = "big"};
    struct bundle b = {.top = "j", .parts = &part, .count = 1};
    struct archive_watch w = {.progress = cancel_soon, .cancel = &cancelled};
    AUTO(buf) struct buf packed = {0}, whole = {0};
    struct seen seen = {0};
    struct err e = {0};

    rig_fill("big/file", 3000000, 4);
    pack_parts(&part, 1, &whole, &seen);
    assert_true(seen.calls > 5 && seen.bytes > 2500000);
    assert_int_equal(bundle_write(&b, to_buf_until_cancelled, &packed, &w, &e), -1);
    assert_string_equal(e.text, "cancelled");
    assert_true(packed.n < 1500000);
}

TEST(a_sink_may_refuse)
{
    struct bundle_part part = {.name = "s", .tree = "big"};
    struct bundle b = {.top = "j", .parts = &part, .count = 1};
    AUTO(buf) struct buf small = {0};
    struct err e = {0};

    buf_init(&small, 100000);
    assert_int_equal(bundle_write(&b, to_buf, &small, NULL, &e), -1);
    assert_string_equal(e.text, "no room");
    b.top = "../x";
    assert_int_equal(bundle_write(&b, to_buf, &small, NULL, &e), -1);
    b.top = "j";
    part.tree = "nowhere";
    assert_int_equal(bundle_write(&b, to_buf, &small, NULL, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
}

TEST(a_download_in_pieces)
{
    AUTO(buf) struct buf whole = {0};
    struct err e = {0};
    struct tgz *t;
    char piece[977];
    size_t n;

    assert_int_equal(tgz_open_dir("tree", "top", NULL, &t, &e), 0);
    do {
        assert_int_equal(tgz_fill(t, piece, sizeof(piece), &n, &e), 0);
        buf_add(&whole, piece, n);
    } while (n > 0);
    assert_int_equal(tgz_fill(t, piece, sizeof(piece), &n, &e), 0);
    assert_int_equal(n, 0);
    tgz_close(t);
    unpack_buf(&whole, "tgz-out", "top");
    assert_true(rig_same("tree", "tgz-out", false));
    assert_int_equal(tgz_open_dir("nowhere", "top", NULL, &t, &e), -1);
    assert_int_equal(tgz_open_dir("tree/main.py", "top", NULL, &t, &e), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_comes_back),
        cmocka_unit_test(parts_and_their_order),
        cmocka_unit_test(later_trees_win),
        cmocka_unit_test(ignored_files_stay_out),
        cmocka_unit_test(odd_files_are_named_and_left_out),
        cmocka_unit_test(files_that_change_meanwhile),
        cmocka_unit_test(holes_stay_holes),
        cmocka_unit_test(progress_and_cancelling),
        cmocka_unit_test(a_sink_may_refuse),
        cmocka_unit_test(a_download_in_pieces),
    };
    return cmocka_run_group_tests_name("bundle", tests, rig_open, rig_close);
}
