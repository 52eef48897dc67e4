/* Requests in: the grammar, its limits, and what must never be understood in two ways. */
#include "rig.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Room for a crowded machine between "goes on" and "stopped". */
static int setup_steady(void **state)
{
    struct http_limits lim = rig_limits;

    lim.body_ms = 1000;
    return one_setup_with(state, &lim);
}

static void assert_body(struct one *o, const char *request, const char *body)
{
    rig_send(&o->rig, o->fd, request);
    struct answer a = rig_answer(&o->rig, o->fd);
    assert_int_equal(a.status, 200);
    assert_true(a.whole);
    assert_string_equal(buf_str(&a.body).p, body);
    answer_done(&a);
}

static void refused(struct one *o, const char *request, int status)
{
    int fd = rig_connect(&o->rig);
    size_t before = o->rig.requests;

    rig_send(&o->rig, fd, request);
    struct answer a = rig_answer(&o->rig, fd);
    if (a.status != status)
        fail_msg("%s: %d instead of %d", request, a.status, status);
    AUTO_FREE char *connection = answer_header(&a, "Connection");
    assert_string_equal(connection, "close");
    assert_non_null(strstr(buf_str(&a.body).p, "\"message\":\""));
    answer_done(&a);
    assert_true(rig_is_closed(&o->rig, fd, 5000));
    assert_int_equal(o->rig.requests, before); /* the handler never saw it */
    close(fd);
}

static void test_plain(void **state)
{
    struct one *o = *state;

    assert_body(o, "GET /a%20b/%C3%A9?x=1&p=a+b%26 HTTP/1.1\r\nHost: h\r\nX-Test:  v w \t\r\n\r\n",
                "GET /a b/\xC3\xA9 [x=1&p=a+b%26] a b& v w");
    /* and again on the same connection, with other headers */
    assert_body(o, "DELETE / HTTP/1.1\r\nHost: h\r\nX-Empty:\r\n\r\n", "DELETE / [] - ");
    assert_body(o, "GET http://h:80/x?p HTTP/1.1\r\nHost: h\r\n\r\n", "GET /x [p]  ");
    assert_body(o, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * [] - ");
    assert_body(o, "GET /../etc HTTP/1.1\r\nHost: h\r\n\r\n", "GET /../etc [] - ");
}

static void test_bytewise(void **state)
{
    struct one *o = *state;
    const char *request = "POST /echo?a=b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";

    for (const char *p = request; *p; p++) {
        rig_send_n(&o->rig, o->fd, p, 1);
        rig_turn(&o->rig, 0);
    }
    struct answer a = rig_answer(&o->rig, o->fd);
    assert_int_equal(a.status, 200);
    assert_string_equal(buf_str(&a.body).p, "hello");
    answer_done(&a);
}

static void test_chunked(void **state)
{
    struct one *o = *state;

    assert_body(o,
                "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
                "5\r\nhello\r\n1;ext=1\r\n \r\n5\r\nworld\r\n0\r\n\r\n",
                "hello world");
    assert_body(o, "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "");
}

static void test_pipelined(void **state)
{
    struct one *o = *state;
    AUTO(buf) struct buf b = {0};

    for (int i = 0; i < 300; i++)
        buf_addf(&b, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n%03d", i);
    rig_send_n(&o->rig, o->fd, b.p, b.n);
    for (int i = 0; i < 300; i++) {
        char want[8];
        snprintf(want, sizeof(want), "%03d", i);
        struct answer a = rig_answer(&o->rig, o->fd);
        assert_string_equal(buf_str(&a.body).p, want);
        answer_done(&a);
    }
}

static void test_pipelined_later(void **state)
{
    struct one *o = *state;

    /* The second waits until the first is answered; both answers come in order. */
    rig_send(&o->rig, o->fd,
             "GET /hold HTTP/1.1\r\nHost: h\r\n\r\nGET /hold HTTP/1.1\r\nHost: h\r\n\r\n"
             "GET /after HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_turn(&o->rig, 5);
    assert_int_equal(o->rig.held_n, 1);
    http_reply(o->rig.held[0], 200, "text/plain", STR("one"));
    assert_int_equal(o->rig.held_n, 1); /* never from inside the reply */
    rig_turn(&o->rig, 5);
    assert_int_equal(o->rig.held_n, 2);
    http_reply(o->rig.held[1], 200, "text/plain", STR("two"));
    const char *want[] = {"one", "two", "GET /after [] - "};
    for (int i = 0; i < 3; i++) {
        struct answer a = rig_answer(&o->rig, o->fd);
        assert_string_equal(buf_str(&a.body).p, want[i]);
        answer_done(&a);
    }
}

static void test_ahead_is_bounded(void **state)
{
    struct one *o = *state;
    char block[4096];
    size_t sent = 0;

    memset(block, 'x', sizeof(block));
    rig_send(&o->rig, o->fd, "GET /hold HTTP/1.1\r\nHost: h\r\n\r\n");
    for (int i = 0; i < 1000; i++) {
        ssize_t n = send(o->fd, block, sizeof(block), MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        rig_turn(&o->rig, 0);
    }
    assert_true(sent < 1024 * 1024); /* socket buffers and 64 KB, not 4 MB */
    http_reply(o->rig.held[0], 200, "text/plain", STR("ok"));
    struct answer a = rig_answer(&o->rig, o->fd);
    assert_int_equal(a.status, 200);
    answer_done(&a);
    a = rig_answer(&o->rig, o->fd);
    assert_true(a.status >= 400); /* xxxx is no request */
    answer_done(&a);
}

static void test_keep_alive(void **state)
{
    struct one *o = *state;
    int fd = rig_connect(&o->rig);

    assert_int_equal(
        rig_status(&o->rig, fd, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), 200);
    assert_true(rig_is_closed(&o->rig, fd, 5000));
    close(fd);
    fd = rig_connect(&o->rig);
    rig_send(&o->rig, fd, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    struct answer a = rig_answer(&o->rig, fd);
    AUTO_FREE char *connection = answer_header(&a, "Connection");
    assert_string_equal(connection, "keep-alive");
    answer_done(&a);
    assert_int_equal(rig_status(&o->rig, fd, "GET / HTTP/1.0\r\n\r\n"), 200);
    assert_true(rig_is_closed(&o->rig, fd, 5000));
    close(fd);
}

static void test_upgrade_is_ignored(void **state)
{
    struct one *o = *state;

    assert_body(o,
                "GET /u HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                "Upgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
                "GET /u [] - ");
    assert_body(o, "GET /v HTTP/1.1\r\nHost: h\r\n\r\n", "GET /v [] - ");
}

static void test_ambiguous(void **state)
{
    struct one *o = *state;
    static const struct {
        const char *head;
        int status;
    } cases[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400}, /* no Host */
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
         "0\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
         "0\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\nabc", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nabc", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked"
         "\r\n\r\n0\r\n\r\n",
         400},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXX0\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
         "fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost:\rX: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\nHost: a\n\n", 400},
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX\x01: b\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"GET / HTTP/3.7\r\nHost: a\r\n\r\n", 505},
        {"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
        {"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 501},
        {"\x16\x03\x01\x02\x05\x01", 501}, /* TLS where none is spoken */
        {"GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /%ff%fe HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /%c0%af HTTP/1.1\r\nHost: a\r\n\r\n", 400}, /* overlong '/' */
        {"GET /%2 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /?a=%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", 417},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        refused(o, cases[i].head, cases[i].status);
}

/* A value that goes on in the next line is read in two ways: as one value, or as a line of its own.
 * Whatever the pieces in which it arrives. */
static void test_folded(void **state)
{
    static const char *const folded[] = {
        "GET / HTTP/1.1\r\nHost: h\r\nX-Test: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX-Test: a\r\n\tb\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX-Test: a\r\n \r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX-Test:\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX-Test: \r\n\t b\r\nX-More: c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n evil\r\n\r\n",
    };
    struct one *o = *state;

    for (size_t i = 0; i < ARRAY_SIZE(folded); i++) {
        refused(o, folded[i], 400);
        for (size_t cut = 1; cut < strlen(folded[i]) - 4; cut++) {
            int fd = rig_connect(&o->rig);
            rig_send_n(&o->rig, fd, folded[i], cut);
            rig_turn(&o->rig, 0);
            rig_send(&o->rig, fd, folded[i] + cut);
            struct answer a = rig_answer(&o->rig, fd);
            if (a.status != 400)
                fail_msg("%s cut at %zu: %d", folded[i], cut, a.status);
            answer_done(&a);
            close(fd);
        }
    }
    /* Values in pieces are not folded. */
    const char *whole = "GET / HTTP/1.1\r\nX-Empty:\r\nHost: h\r\nX-Test: v  w \r\n\r\n";
    for (size_t cut = 1; cut < strlen(whole); cut++) {
        rig_send_n(&o->rig, o->fd, whole, cut);
        rig_turn(&o->rig, 0);
        assert_body(o, whole + cut, "GET / [] - v  w");
    }
}

static void test_head_limits(void **state)
{
    struct one *o = *state;
    AUTO(buf) struct buf b = {0};

    buf_adds(&b, "GET / HTTP/1.1\r\nHost: h\r\nX-Long: ");
    for (int i = 0; i < 5000; i++)
        buf_addc(&b, 'x');
    buf_adds(&b, "\r\n\r\n");
    refused(o, b.p, 431);
    buf_reset(&b); /* the same without an end */
    buf_adds(&b, "GET /");
    for (int i = 0; i < 5000; i++)
        buf_addc(&b, 'x');
    refused(o, b.p, 431);
    buf_reset(&b); /* blanks that no callback ever sees */
    buf_adds(&b, "GET / HTTP/1.1\r\nHost: h\r\nX:");
    for (int i = 0; i < 5000; i++)
        buf_addc(&b, ' ');
    refused(o, b.p, 431);
    buf_reset(&b);
    buf_adds(&b, "GET / HTTP/1.1\r\nHost: h\r\n");
    for (int i = 0; i < 130; i++)
        buf_adds(&b, "a: b\r\n");
    buf_adds(&b, "\r\n");
    refused(o, b.p, 431);
}

static void test_body_limits(void **state)
{
    struct one *o = *state;
    size_t n = 64 * 1024;
    AUTO_FREE char *body = xmalloc(n);

    memset(body, 'b', n);
    refused(o, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 65537\r\n\r\n", 413);
    refused(o,
            "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 65537\r\n\r\n",
            413);
    /* Exactly the limit is fine; the limit of another path is larger. */
    rig_send(&o->rig, o->fd, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\n");
    rig_send_n(&o->rig, o->fd, body, n);
    struct answer a = rig_answer(&o->rig, o->fd);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.body.n, n);
    answer_done(&a);
    rig_send(&o->rig, o->fd, "POST /large HTTP/1.1\r\nHost: h\r\nContent-Length: 131072\r\n\r\n");
    rig_send_n(&o->rig, o->fd, body, n);
    rig_send_n(&o->rig, o->fd, body, n);
    a = rig_answer(&o->rig, o->fd);
    assert_int_equal(a.status, 200);
    answer_done(&a);
    /* Chunks add up to more than allowed: told so while still sending. */
    int fd = rig_connect(&o->rig);
    rig_send(&o->rig, fd, "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 40; i++) {
        rig_send(&o->rig, fd, "1000\r\n");
        rig_send_n(&o->rig, fd, body, 4096);
        rig_send(&o->rig, fd, "\r\n");
    }
    a = rig_answer(&o->rig, fd);
    assert_int_equal(a.status, 413);
    answer_done(&a);
    close(fd);
}

static void test_expect_continue(void **state)
{
    struct one *o = *state;

    rig_send(&o->rig, o->fd,
             "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
    struct answer a = rig_answer(&o->rig, o->fd);
    assert_int_equal(a.status, 100);
    answer_done(&a);
    rig_send(&o->rig, o->fd, "hi");
    a = rig_answer(&o->rig, o->fd);
    assert_int_equal(a.status, 200);
    assert_string_equal(buf_str(&a.body).p, "hi");
    answer_done(&a);
}

static void test_slow(void **state)
{
    struct one *o = *state;
    int head = rig_connect(&o->rig), body = rig_connect(&o->rig), idle = rig_connect(&o->rig);

    rig_send(&o->rig, head, "GET / HTTP/1.1\r\nHost");
    rig_send(&o->rig, body, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
    struct answer a = rig_answer(&o->rig, head);
    assert_int_equal(a.status, 408);
    answer_done(&a);
    a = rig_answer(&o->rig, body);
    assert_int_equal(a.status, 408);
    answer_done(&a);
    assert_true(rig_is_closed(&o->rig, idle, 5000)); /* silently: nothing was asked */
    assert_true(rig_is_closed(&o->rig, head, 5000));
    close(head);
    close(body);
    close(idle);
}

static void test_steady_body_is_not_slow(void **state)
{
    struct one *o = *state;

    rig_send(&o->rig, o->fd, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\n");
    for (int i = 0; i < 6; i++) { /* in all longer than body_ms */
        rig_turn(&o->rig, 200);
        rig_send(&o->rig, o->fd, "x");
    }
    struct answer a = rig_answer(&o->rig, o->fd);
    assert_int_equal(a.status, 200);
    answer_done(&a);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, one_setup, one_teardown)
    const struct CMUnitTest tests[] = {
        T(test_plain),
        T(test_bytewise),
        T(test_chunked),
        T(test_pipelined),
        T(test_pipelined_later),
        T(test_ahead_is_bounded),
        T(test_keep_alive),
        T(test_upgrade_is_ignored),
        T(test_ambiguous),
        T(test_folded),
        T(test_head_limits),
        T(test_body_limits),
        T(test_expect_continue),
        cmocka_unit_test_setup_teardown(test_slow, one_setup_hasty, one_teardown),
        cmocka_unit_test_setup_teardown(test_steady_body_is_not_slow, setup_steady, one_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
