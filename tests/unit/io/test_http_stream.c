/* Replies that go on, clients that leave, and the end of the server. */
#include "rig.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static struct http_req *begin(struct one *o, int fd, const char *target)
{
    AUTO(buf) struct buf b = {0};
    size_t at = o->rig.held_n;

    buf_addf(&b, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", target);
    rig_send_n(&o->rig, fd, b.p, b.n);
    rig_turn(&o->rig, 5);
    assert_int_equal(o->rig.held_n, at + 1);
    return o->rig.held[at];
}

static void test_stream(void **state)
{
    struct one *o = *state;
    struct http_req *r = begin(o, o->fd, "/stream");

    assert_int_equal(http_server_stats(o->rig.server).streams_open, 1);
    assert_true(http_stream_write(r, STR("data: 1\n\n")));
    assert_true(http_stream_write(r, STR("")));
    assert_true(http_stream_write(r, STR("data: 2\n\n")));
    assert_int_equal(http_stream_backlog(r), 0);
    http_stream_end(r);
    struct answer a = rig_answer(&o->rig, o->fd);
    assert_int_equal(a.status, 200);
    assert_true(a.whole);
    assert_string_equal(buf_str(&a.body).p, "data: 1\n\ndata: 2\n\n");
    AUTO_FREE char *type = answer_header(&a, "Content-Type");
    assert_string_equal(type, "text/event-stream");
    answer_done(&a);
    assert_int_equal(http_server_stats(o->rig.server).streams_open, 0);
    /* the connection goes on */
    assert_int_equal(rig_status(&o->rig, o->fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"), 200);
}

static void test_stream_http10(void **state)
{
    struct one *o = *state;

    rig_send(&o->rig, o->fd, "GET /stream HTTP/1.0\r\n\r\n");
    rig_turn(&o->rig, 5);
    assert_true(http_stream_write(o->rig.held[0], STR("plain")));
    http_stream_end(o->rig.held[0]);
    struct answer a = rig_answer(&o->rig, o->fd);
    assert_string_equal(buf_str(&a.body).p, "plain");
    answer_done(&a);
    assert_true(rig_is_closed(&o->rig, o->fd, 5000));
}

static void test_resume_id(void **state)
{
    struct one *o = *state;
    static const struct {
        const char *request, *id;
    } cases[] = {
        {"GET /resume HTTP/1.1\r\nHost: h\r\nLast-Event-ID: 42\r\n\r\n", "42"},
        {"GET /resume?after=17 HTTP/1.1\r\nHost: h\r\n\r\n", "17"},
        {"GET /resume?after=17 HTTP/1.1\r\nHost: h\r\nLast-Event-ID: 18\r\n\r\n", "18"},
        {"GET /resume?after=-1 HTTP/1.1\r\nHost: h\r\n\r\n", "0"},
        {"GET /resume?after=x HTTP/1.1\r\nHost: h\r\n\r\n", "0"},
        {"GET /resume HTTP/1.1\r\nHost: h\r\n\r\n", "0"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        rig_send(&o->rig, o->fd, cases[i].request);
        struct answer a = rig_answer(&o->rig, o->fd);
        assert_string_equal(buf_str(&a.body).p, cases[i].id);
        answer_done(&a);
    }
}

static void test_slow_reader_is_cut(void **state)
{
    struct one *o = *state;
    struct http_req *r = begin(o, o->fd, "/stream");
    char block[8192];
    int writes = 0;

    memset(block, 'x', sizeof(block));
    while (http_stream_write(r, (struct str){block, sizeof(block)}))
        assert_true(++writes < 1000);
    assert_int_equal(o->rig.gone, 0); /* not inside the call */
    assert_false(http_stream_write(r, STR("more")));
    rig_turn(&o->rig, 5);
    assert_int_equal(o->rig.gone, 1);
    assert_int_equal(http_server_stats(o->rig.server).streams_open, 0);
}

static void test_stalled_reader_is_cut(void **state)
{
    struct one *o = *state;
    struct http_req *r = begin(o, o->fd, "/stream");
    char block[8192];

    memset(block, 'x', sizeof(block));
    while (http_stream_backlog(r) == 0)
        assert_true(http_stream_write(r, (struct str){block, sizeof(block)}));
    for (int i = 0; i < 200000 && o->rig.gone == 0; i++) {
        rig_turn(&o->rig, 50);
        if (o->rig.gone == 0) /* new bytes are no progress of the reader */
            http_stream_write(r, STR("x"));
    }
    assert_int_equal(o->rig.gone, 1);
}

static void test_drain(void **state)
{
    struct one *o = *state;
    struct http_req *r = begin(o, o->fd, "/stream");
    char block[8192];
    size_t n;

    memset(block, 'x', sizeof(block));
    while (http_stream_backlog(r) == 0)
        assert_true(http_stream_write(r, (struct str){block, sizeof(block)}));
    assert_int_equal(o->rig.drained, 0);
    for (int i = 0; i < 200000 && o->rig.drained == 0; i++)
        free(rig_read(&o->rig, o->fd, 20, &n));
    assert_int_equal(o->rig.drained, 1);
    assert_int_equal(http_stream_backlog(r), 0);
}

static void test_client_leaves(void **state)
{
    struct one *o = *state;
    struct http_req *r = begin(o, o->fd, "/stream");

    close(o->fd);
    o->fd = -1;
    rig_turn(&o->rig, 5);
    assert_int_equal(o->rig.gone, 1);
    assert_null(o->rig.held[0]);
    (void)r;
    int fd = rig_connect(&o->rig);
    begin(o, fd, "/hold");
    close(fd);
    rig_turn(&o->rig, 5);
    assert_int_equal(o->rig.gone, 2);
}

/* Without a gone callback the request stays valid until it is answered. */
static void test_orphans(void **state)
{
    struct one *o = *state;

    for (int i = 0; i < 6; i++) {
        int fd = rig_connect(&o->rig);
        begin(o, fd, "/orphan");
        close(fd);
        rig_turn(&o->rig, 5);
    }
    struct err e;
    err_set(&e, ERR_INTERNAL, "too late");
    http_reply_header(o->rig.held[0], "X-A", "b");
    http_reply(o->rig.held[0], 200, "text/plain", STR("x"));
    http_reply_err(o->rig.held[1], &e);
    http_reply_take(o->rig.held[2], 200, "text/plain", xstrdup("x"), 1);
    assert_false(http_not_modified(o->rig.held[3], "\"x\""));
    http_reply_fd_take(o->rig.held[3], dup(0), "text/plain");
    http_stream_begin(o->rig.held[4], 200, "text/plain");
    assert_false(http_stream_write(o->rig.held[4], STR("x")));
    http_stream_end(o->rig.held[4]);
    /* held[5] is never answered: the server's end takes it along */
}

static void count_gone(void *arg, struct http_req *r UNUSED)
{
    ++*(int *)arg;
}

static void reply_in_gone(void *arg, struct http_req *r)
{
    ++*(int *)arg;
    http_reply(r, 200, "text/plain", STR("nobody hears this"));
}

static void test_reply_inside_gone(void **state)
{
    struct one *o = *state;
    int gone = 0;

    http_on_gone(begin(o, o->fd, "/orphan"), reply_in_gone, &gone);
    close(o->fd);
    o->fd = -1;
    rig_turn(&o->rig, 5);
    assert_int_equal(gone, 1);
}

static void test_gone_asked_for_too_late(void **state)
{
    struct one *o = *state;
    int fd = rig_connect(&o->rig);
    struct http_req *r = begin(o, fd, "/orphan");
    int gone = 0;

    close(fd);
    rig_turn(&o->rig, 5);
    http_on_gone(r, count_gone, &gone);
    http_stream_begin(r, 200, "text/event-stream");
    assert_false(http_stream_write(r, STR("x")));
    assert_int_equal(gone, 0);
    rig_turn(&o->rig, 5);
    assert_int_equal(gone, 1);
}

static void test_half_close_gets_its_reply(void **state)
{
    struct one *o = *state;
    struct http_req *r = begin(o, o->fd, "/hold");

    shutdown(o->fd, SHUT_WR);
    rig_turn(&o->rig, 5);
    assert_int_equal(o->rig.gone, 0);
    http_reply(r, 200, "text/plain", STR("still here"));
    struct answer a = rig_answer(&o->rig, o->fd);
    assert_string_equal(buf_str(&a.body).p, "still here");
    answer_done(&a);
    assert_true(rig_is_closed(&o->rig, o->fd, 5000));
}

/* A reply in the moment between the client's leaving and the handler's hearing of it. */
static void test_reply_while_closing(void **state)
{
    struct one *o = *state;
    struct http_req *r = begin(o, o->fd, "/stream");
    char block[8192];

    memset(block, 'x', sizeof(block));
    while (http_stream_write(r, (struct str){block, sizeof(block)}))
        ;
    http_stream_end(r);
    rig_turn(&o->rig, 5);
    assert_int_equal(o->rig.gone, 0); /* its duty was done */
}

static void on_done(void *arg)
{
    *(bool *)arg = true;
}

static void test_shutdown(void **state)
{
    struct one *o = *state;
    int idle = o->fd, busy = rig_connect(&o->rig), stream = rig_connect(&o->rig);
    int stuck = rig_connect(&o->rig);
    struct http_req *r = begin(o, busy, "/hold");

    begin(o, stream, "/stream");
    begin(o, stuck, "/hold");
    http_server_shutdown(o->rig.server, 150, on_done, &o->rig.done);
    assert_true(rig_is_closed(&o->rig, idle, 5000));
    struct answer a = rig_answer(&o->rig, stream);
    assert_true(a.whole); /* ended, not torn */
    answer_done(&a);
    rig_turn(&o->rig, 5);
    assert_int_equal(o->rig.gone, 1);
    http_reply(r, 200, "text/plain", STR("late"));
    a = rig_answer(&o->rig, busy);
    assert_string_equal(buf_str(&a.body).p, "late");
    AUTO_FREE char *connection = answer_header(&a, "Connection");
    assert_string_equal(connection, "close");
    answer_done(&a);
    assert_false(o->rig.done);
    assert_true(rig_until(&o->rig, &o->rig.done, 60000)); /* the stuck one is cut after the grace */
    assert_int_equal(o->rig.gone, 2);
    close(busy);
    close(stream);
    close(stuck);
}

static void test_shutdown_of_nothing(void **state)
{
    struct one *o = *state;

    close(o->fd);
    o->fd = -1;
    rig_turn(&o->rig, 5);
    http_server_shutdown(o->rig.server, 10000, on_done, &o->rig.done);
    assert_false(o->rig.done);
    assert_true(rig_until(&o->rig, &o->rig.done, 60000));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, one_setup, one_teardown)
    const struct CMUnitTest tests[] = {
        T(test_stream),
        T(test_stream_http10),
        T(test_resume_id),
        T(test_slow_reader_is_cut),
        cmocka_unit_test_setup_teardown(test_stalled_reader_is_cut, one_setup_hasty, one_teardown),
        T(test_drain),
        T(test_client_leaves),
        T(test_orphans),
        T(test_reply_inside_gone),
        T(test_gone_asked_for_too_late),
        T(test_half_close_gets_its_reply),
        T(test_reply_while_closing),
        T(test_shutdown),
        T(test_shutdown_of_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
