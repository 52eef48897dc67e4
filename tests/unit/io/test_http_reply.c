/* Replies out: whole ones, compressed ones, files and their ranges. */
#include "rig.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

struct served {
    struct rig rig;
    int fd;
    char path[64];
    size_t size;
};

enum { FILE_BYTES = 1000 * 1000 }; /* four pieces */

static char file_byte(size_t i)
{
    return (char)('0' + i * 7 / 13 % 64);
}

static int setup_with(void **state, const struct http_limits *lim)
{
    struct served *o = xcalloc(1, sizeof(*o));

    rig_init(&o->rig, lim);
    o->fd = rig_connect(&o->rig);
    snprintf(o->path, sizeof(o->path), "/tmp/test_http_reply.XXXXXX");
    AUTO_FD fd = mkstemp(o->path);
    AUTO_FREE char *bytes = xmalloc(FILE_BYTES);
    for (size_t i = 0; i < FILE_BYTES; i++)
        bytes[i] = file_byte(i);
    assert_int_equal(write(fd, bytes, FILE_BYTES), FILE_BYTES);
    o->rig.file = o->path;
    *state = o;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, &rig_limits);
}

static int setup_hasty(void **state)
{
    return setup_with(state, &rig_hasty);
}

/* Room for a crowded machine between "slow" and "stopped". */
static int setup_slow(void **state)
{
    struct http_limits lim = rig_limits;

    lim.write_ms = 1000;
    return setup_with(state, &lim);
}

static int teardown(void **state)
{
    struct served *o = *state;

    close(o->fd);
    unlink(o->path);
    rig_done(&o->rig);
    free(o);
    return 0;
}

static struct answer ask(struct served *o, const char *target, const char *headers)
{
    AUTO(buf) struct buf b = {0};

    buf_addf(&b, "GET %s HTTP/1.1\r\nHost: h\r\n%s\r\n", target, headers);
    rig_send_n(&o->rig, o->fd, b.p, b.n);
    return rig_answer(&o->rig, o->fd);
}

static void assert_header(const struct answer *a, const char *name, const char *want)
{
    AUTO_FREE char *value = answer_header(a, name);

    if (!want)
        assert_null(value);
    else if (!value)
        fail_msg("no %s in %s", name, a->head);
    else
        assert_string_equal(value, want);
}

static void test_kinds(void **state)
{
    struct served *o = *state;
    struct answer a = ask(o, "/none", "");

    assert_int_equal(a.status, 204);
    assert_header(&a, "Content-Length", NULL);
    answer_done(&a);
    a = ask(o, "/error", "");
    assert_int_equal(a.status, 409);
    assert_header(&a, "Content-Type", "application/json");
    assert_string_equal(buf_str(&a.body).p,
                        "{\"error\":{\"code\":\"conflict\",\"message\":\"say \\\"please\\\"\"}}\n");
    answer_done(&a);
    a = ask(o, "/etag", "");
    assert_int_equal(a.status, 200);
    assert_header(&a, "ETag", "\"v7\"");
    answer_done(&a);
    a = ask(o, "/etag", "If-None-Match: \"v6\", \"v7\"\r\n");
    assert_int_equal(a.status, 304);
    assert_header(&a, "ETag", "\"v7\"");
    answer_done(&a);
    rig_send(&o->rig, o->fd, "HEAD /text?n=5000 HTTP/1.1\r\nHost: h\r\n\r\n");
    a = rig_answer_head(&o->rig, o->fd);
    assert_int_equal(a.status, 200);
    assert_header(&a, "Content-Length", "5000");
    AUTO_FREE char *date = answer_header(&a, "Date");
    assert_int_equal(strlen(date), 29);
    answer_done(&a);
    a = ask(o, "/x", ""); /* nothing of a body was left on the wire */
    assert_int_equal(a.status, 200);
    answer_done(&a);
}

static void test_header_cannot_split(void **state)
{
    struct served *o = *state;

    rig_send(&o->rig, o->fd, "GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_turn(&o->rig, 5);
    http_reply_header(o->rig.held[0], "Location", "/x\r\nSet-Cookie: evil=1");
    http_reply(o->rig.held[0], 302, "text/plain", STR(""));
    struct answer a = rig_answer(&o->rig, o->fd);
    assert_header(&a, "Location", "/x");
    assert_header(&a, "Set-Cookie", NULL);
    answer_done(&a);
}

/* More than any socket buffer: the rest waits, in order. */
static void test_large(void **state)
{
    struct served *o = *state;
    struct answer a = ask(o, "/text?n=8000000", "");

    assert_true(a.whole);
    assert_int_equal(a.body.n, 8000000);
    for (size_t i = 0; i < a.body.n; i += 997)
        assert_int_equal(a.body.p[i], 'a' + (int)(i / 7 % 26));
    answer_done(&a);
}

static void unzstd(const struct buf *in, char *out, size_t n)
{
    assert_int_equal(ZSTD_decompress(out, n, in->p, in->n), n);
}

static void ungzip(const struct buf *in, char *out, size_t n)
{
    z_stream z = {.next_in = (Bytef *)in->p,
                  .avail_in = (uInt)in->n,
                  .next_out = (Bytef *)out,
                  .avail_out = (uInt)n};

    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(z.total_out, n);
    inflateEnd(&z);
}

static void compressed(struct served *o, size_t n, bool zstd)
{
    char target[64];

    snprintf(target, sizeof(target), "/text?n=%zu", n);
    struct answer a =
        ask(o, target, zstd ? "Accept-Encoding: zstd\r\n" : "Accept-Encoding: gzip\r\n");
    assert_true(a.whole);
    assert_header(&a, "Content-Encoding", zstd ? "zstd" : "gzip");
    assert_header(&a, "Vary", "Accept-Encoding");
    assert_true(a.body.n < n / 2);
    AUTO_FREE char *plain = xmalloc(n);
    (zstd ? unzstd : ungzip)(&a.body, plain, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(plain[i], 'a' + (int)(i / 7 % 26));
    answer_done(&a);
}

static void test_compress(void **state)
{
    struct served *o = *state;

    compressed(o, 1024, true);
    compressed(o, 1024, false);
    compressed(o, 100000, false);
    compressed(o, 100000, true);
    compressed(o, 3000000, true); /* on a worker thread */
    compressed(o, 3000000, false);
    struct answer a = ask(o, "/text?n=1023", "Accept-Encoding: zstd\r\n");
    assert_header(&a, "Content-Encoding", NULL);
    assert_int_equal(a.body.n, 1023);
    answer_done(&a);
    a = ask(o, "/text?n=2000", "Accept-Encoding: br\r\n");
    assert_header(&a, "Content-Encoding", NULL);
    assert_header(&a, "Vary", "Accept-Encoding");
    answer_done(&a);
}

static void until_open(struct served *o, size_t want)
{
    for (int i = 0; i < 200000 && http_server_stats(o->rig.server).connections_open != want; i++)
        rig_turn(&o->rig, 10);
    assert_int_equal(http_server_stats(o->rig.server).connections_open, want);
}

static void test_compress_then_leave(void **state)
{
    struct served *o = *state;
    int fd = rig_connect(&o->rig);

    rig_send(&o->rig, fd,
             "GET /text?n=8000000 HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
    rig_turn(&o->rig, 0);
    close(fd);
    until_open(o, 1);
}

static void assert_part(const struct answer *a, size_t from, size_t n)
{
    assert_true(a->whole);
    assert_int_equal(a->body.n, n);
    for (size_t i = 0; i < n; i++)
        if (a->body.p[i] != file_byte(from + i))
            fail_msg("byte %zu differs", i);
}

static void test_file(void **state)
{
    struct served *o = *state;
    char headers[200];
    struct answer a = ask(o, "/file", "");

    assert_int_equal(a.status, 200);
    assert_header(&a, "Accept-Ranges", "bytes");
    assert_part(&a, 0, FILE_BYTES);
    AUTO_FREE char *etag = answer_header(&a, "ETag");
    AUTO_FREE char *date = answer_header(&a, "Last-Modified");
    answer_done(&a);

    snprintf(headers, sizeof(headers), "If-None-Match: %s\r\n", etag);
    a = ask(o, "/file", headers);
    assert_int_equal(a.status, 304);
    answer_done(&a);
    snprintf(headers, sizeof(headers), "If-Modified-Since: %s\r\n", date);
    a = ask(o, "/file", headers);
    assert_int_equal(a.status, 304);
    answer_done(&a);
    rig_send(&o->rig, o->fd, "HEAD /file HTTP/1.1\r\nHost: h\r\n\r\n");
    a = rig_answer_head(&o->rig, o->fd);
    assert_header(&a, "Content-Length", "1000000");
    answer_done(&a);
    o->rig.file = "/nonexistent";
    a = ask(o, "/file", "");
    assert_int_equal(a.status, 404);
    answer_done(&a);
    o->rig.file = "/tmp"; /* a directory is no file */
    a = ask(o, "/file", "");
    assert_int_equal(a.status, 404);
    answer_done(&a);
}

static void test_ranges(void **state)
{
    struct served *o = *state;
    char headers[200];
    struct answer a = ask(o, "/file", "Range: bytes=10-19\r\n");

    assert_int_equal(a.status, 206);
    assert_header(&a, "Content-Range", "bytes 10-19/1000000");
    assert_part(&a, 10, 10);
    AUTO_FREE char *etag = answer_header(&a, "ETag");
    answer_done(&a);
    a = ask(o, "/file", "Range: bytes=-300001\r\n");
    assert_int_equal(a.status, 206);
    assert_part(&a, FILE_BYTES - 300001, 300001);
    answer_done(&a);
    a = ask(o, "/file", "Range: bytes=1000000-\r\n");
    assert_int_equal(a.status, 416);
    assert_header(&a, "Content-Range", "bytes */1000000");
    answer_done(&a);
    a = ask(o, "/file", "Range: bytes=1-2,4-5\r\n");
    assert_int_equal(a.status, 200);
    answer_done(&a);
    snprintf(headers, sizeof(headers), "Range: bytes=0-0\r\nIf-Range: %s\r\n", etag);
    a = ask(o, "/file", headers);
    assert_int_equal(a.status, 206);
    answer_done(&a);
    a = ask(o, "/file", "Range: bytes=0-0\r\nIf-Range: \"other\"\r\n");
    assert_int_equal(a.status, 200);
    answer_done(&a);
    assert_int_equal(truncate(o->path, 0), 0);
    a = ask(o, "/file", ""); /* empty */
    assert_int_equal(a.status, 200);
    assert_int_equal(a.body.n, 0);
    answer_done(&a);
}

/* The promise cannot be kept: the client must be able to tell. */
static void test_file_shrinks(void **state)
{
    struct served *o = *state;

    rig_send(&o->rig, o->fd, "GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_turn(&o->rig, 20); /* the first pieces wait for the reader */
    assert_int_equal(truncate(o->path, 1000), 0);
    struct answer a = rig_answer(&o->rig, o->fd);
    assert_int_equal(a.status, 200);
    assert_false(a.whole);
    answer_done(&a);
}

static void test_file_then_leave(void **state)
{
    struct served *o = *state;

    for (int ms = 0; ms < 4; ms++) {
        int fd = rig_connect(&o->rig);
        rig_send(&o->rig, fd, "GET /file HTTP/1.1\r\nHost: h\r\n\r\n");
        rig_turn(&o->rig, ms);
        close(fd);
        until_open(o, 1);
    }
}

static void test_reader_that_stops(void **state)
{
    struct served *o = *state;

    rig_send(&o->rig, o->fd, "GET /text?n=8000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    until_open(o, 0);
}

static void test_slow_reader_is_served(void **state)
{
    struct served *o = *state;
    size_t got = 0, n;

    rig_send(&o->rig, o->fd, "GET /text?n=3000000 HTTP/1.1\r\nHost: h\r\n\r\n");
    for (int i = 0; i < 8; i++) { /* longer than write_ms in all, never without progress */
        rig_turn(&o->rig, 200);
        char block[100 * 1024];
        ssize_t r = read(o->fd, block, sizeof(block));
        got += r > 0 ? (size_t)r : 0;
    }
    for (int i = 0; i < 200000 && got < 3000000; i++) {
        free(rig_read(&o->rig, o->fd, 50, &n));
        got += n;
    }
    assert_true(got > 3000000);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_kinds),
        T(test_header_cannot_split),
        T(test_large),
        T(test_compress),
        T(test_compress_then_leave),
        T(test_file),
        T(test_ranges),
        T(test_file_shrinks),
        T(test_file_then_leave),
        cmocka_unit_test_setup_teardown(test_reader_that_stops, setup_hasty, teardown),
        cmocka_unit_test_setup_teardown(test_slow_reader_is_served, setup_slow, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
