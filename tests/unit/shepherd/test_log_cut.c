/* test_log_cut.c - the middle of a log goes, its ends stay, and no byte written meanwhile is lost
 */
#include "base/log_mark.h"
#include "base/util.h"
#include "shepherd/log_cut.h"
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { LIMIT = 256 << 10, LINE = 64 };

/* Where collapsing works (/tmp, mostly) and where it does not (a tmpfs). */
static const char *const places[] = {"/var/tmp", "/tmp", "/dev/shm"};

struct rig {
    char path[64];
    int append;
    long lines;
    struct log_cut cut;
};

static bool rig_init(struct rig *r, const char *dir)
{
    *r = (struct rig){0};
    snprintf(r->path, sizeof(r->path), "%s/berth-log-XXXXXX", dir);
    r->append = mkostemp(r->path, O_APPEND | O_CLOEXEC);
    if (r->append < 0)
        return false;
    log_cut_open(&r->cut, r->path, LIMIT);
    assert_true(r->cut.fd >= 0);
    return true;
}

static void rig_done(struct rig *r)
{
    close(r->cut.fd);
    close(r->append);
    unlink(r->path);
}

static void say(struct rig *r, long n)
{
    char line[LINE + 1];

    for (long i = 0; i < n; i++) {
        snprintf(line, sizeof(line), "line %-*ld", LINE - 6, r->lines++);
        line[LINE - 1] = '\n';
        assert_int_equal(write(r->append, line, LINE), LINE);
    }
}

/* What a reader sees: everything but holes. */
static char *seen(const struct rig *r, size_t *out_n)
{
    struct stat st;
    AUTO_FD fd = open(r->path, O_RDONLY | O_CLOEXEC);

    assert_int_equal(fstat(fd, &st), 0);
    char *text = xmalloc((size_t)st.st_size + 1);
    size_t n = 0;
    for (off_t at = 0; (at = lseek(fd, at, SEEK_DATA)) >= 0 && at < st.st_size;) {
        off_t end = lseek(fd, at, SEEK_HOLE);
        ssize_t got = pread(fd, text + n, (size_t)(end - at), at);
        assert_true(got > 0);
        n += (size_t)got;
        at += got;
    }
    text[n] = 0;
    *out_n = n;
    return text;
}

/* Lines in order, complete, one notice among them; the first is 0 and the last the newest. */
static void check(const struct rig *r)
{
    size_t n;
    AUTO_FREE char *text = seen(r, &n);
    long last = -1, notices = 0, gaps = 0;

    assert_int_equal(strlen(text), n);
    assert_true(n <= LIMIT);
    for (char *p = text, *nl; p < text + n; p = nl + 1) {
        long number;
        nl = strchr(p, '\n');
        assert_non_null(nl);
        *nl = 0;
        if (strncmp(p, "[berth: ", 8) == 0) {
            notices++;
            assert_non_null(strstr(p, " of output were dropped here to keep the log under 256K]"));
            continue;
        }
        if (p[strspn(p, " ")] == 0)
            continue; /* what the notice did not need */
        assert_int_equal(nl - p, LINE - 1);
        assert_int_equal(sscanf(p, "line %ld", &number), 1);
        assert_true(number > last);
        gaps += number != last + 1;
        last = number;
    }
    assert_int_equal(notices, 1);
    assert_int_equal(gaps, 1);
    assert_int_equal(last, r->lines - 1);
}

static void test_small_stays(void **state)
{
    struct rig r;
    size_t n;

    (void)state;
    assert_true(rig_init(&r, "/tmp"));
    say(&r, LIMIT / LINE);
    assert_false(log_cut(&r.cut));
    AUTO_FREE char *text = seen(&r, &n);
    assert_int_equal(n, LIMIT);
    rig_done(&r);
}

static void test_middle_goes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        struct rig r;
        struct stat st;
        if (!rig_init(&r, places[i]))
            continue;
        for (int round = 0; round < 20; round++) {
            say(&r, 3 * LIMIT / LINE / (round % 3 + 1));
            assert_true(log_cut(&r.cut));
            check(&r);
            assert_false(log_cut(&r.cut));
        }
        assert_int_equal(fstat(r.cut.fd, &st), 0);
        assert_true(st.st_blocks * 512 <= LIMIT);
        rig_done(&r);
    }
}

/* A mark tells readers where the bytes they have not seen yet are now. */
static void test_mark(void **state)
{
    struct rig r;
    char line[LINE + 1] = {0};

    (void)state;
    assert_true(rig_init(&r, "/tmp"));
    say(&r, 2 * LIMIT / LINE);
    assert_true(log_cut(&r.cut));
    if (!r.cut.hole_to) {
        struct log_mark m = log_mark_read(r.cut.fd);
        int64_t pos = (r.lines - 3) * LINE;
        assert_int_equal(m.dropped, r.cut.dropped_bytes);
        assert_int_equal(pread(r.cut.fd, line, LINE, log_mark_place(m, pos)), LINE);
        assert_int_equal(strtol(line + 5, NULL, 10), r.lines - 3);
        assert_int_equal(log_mark_number(m, log_mark_place(m, pos)), pos);
        assert_int_equal(log_mark_place(m, 10), 10);
        assert_int_equal(log_mark_place(m, LIMIT / 2), m.at); /* dropped: the notice */
        /* Who read up to the notice goes on behind it, and is not sent back. */
        assert_int_equal(log_mark_number(m, m.at), m.at + m.dropped);
        assert_int_equal(log_mark_place(m, log_mark_number(m, m.at + 100)), m.at + 100);
    }
    rig_done(&r);
}

static void test_long_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        struct rig r;
        size_t n;
        if (!rig_init(&r, places[i]))
            continue;
        AUTO_FREE char *bar = xmalloc(LIMIT);
        memset(bar, '#', LIMIT);
        for (int k = 0; k < 5; k++)
            assert_int_equal(write(r.append, bar, LIMIT), LIMIT);
        assert_true(log_cut(&r.cut));
        AUTO_FREE char *text = seen(&r, &n);
        assert_int_equal(strlen(text), n);
        assert_true(n <= LIMIT && text[n - 1] == '#');
        assert_non_null(strstr(text, "#\n[berth: "));
        rig_done(&r);
    }
}

struct writer {
    struct rig *r;
    atomic_bool over;
};

static void *write_on(void *arg)
{
    struct writer *w = arg;

    say(w->r, 200000);
    w->over = true;
    return NULL;
}

/* A writer that never waits: what is left is in order and ends with its last line. */
static void test_while_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        struct rig r;
        pthread_t t;
        int cuts = 0;
        if (!rig_init(&r, places[i]))
            continue;
        struct writer w = {.r = &r};
        assert_int_equal(pthread_create(&t, NULL, write_on, &w), 0);
        while (!w.over)
            cuts += log_cut(&r.cut);
        pthread_join(t, NULL);
        say(&r, LIMIT / LINE);
        assert_true(log_cut(&r.cut));
        assert_true(cuts > 1);
        check(&r);
        rig_done(&r);
    }
}

static void test_no_log(void **state)
{
    struct log_cut l;

    (void)state;
    log_cut_open(&l, "", LIMIT);
    assert_false(log_cut(&l));
    log_cut_open(&l, "/tmp/berth-no-such-log", LIMIT);
    assert_false(log_cut(&l));
    log_cut_open(&l, "/dev/null", LIMIT);
    assert_false(log_cut(&l));
    close(l.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_stays),   cmocka_unit_test(test_middle_goes),
        cmocka_unit_test(test_mark),          cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_while_written), cmocka_unit_test(test_no_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
