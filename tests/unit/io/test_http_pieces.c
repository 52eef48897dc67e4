/* Bodies that are not kept: pieces, pauses, clients that leave on the way. */
#include "base/clock.h"
#include "rig.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static struct loop *loop;
static struct http_server *server;
static struct buf got;
static struct http_req *live;
static size_t pieces, gone, requests;
static bool pause_at_once, down;

static void on_gone(void *arg UNUSED, struct http_req *r UNUSED)
{
    gone++;
    live = NULL;
}

static bool in_pieces(void *self UNUSED, struct http_req *r)
{
    if (!str_eq_c(http_path(r), "/pieces"))
        return false;
    live = r;
    http_on_gone(r, on_gone, NULL);
    return true;
}

static void on_piece(void *self UNUSED, struct http_req *r, struct str bytes)
{
    pieces++;
    buf_add(&got, bytes.p, bytes.n);
    if (pause_at_once)
        http_body_pause(r, true);
}

static void on_request(void *self UNUSED, struct http_req *r)
{
    char text[80];

    requests++;
    snprintf(text, sizeof(text), "%zu %zu", got.n, http_body(r).n);
    http_reply(r, 200, "text/plain", str_of(text));
}

static void on_down(void *arg UNUSED)
{
    down = true;
}

static void turn(int ms)
{
    int64_t end = clock_mono(&clock_system) + ms;

    while (clock_mono(&clock_system) < end) {
        loop_run_once(loop, false);
        usleep(1000);
    }
}

static int setup(void **state UNUSED)
{
    struct http_limits lim = rig_limits;

    lim.body_bytes = 1 << 20;
    lim.body_ms = 300;
    buf_init(&got, 4 << 20);
    pieces = gone = requests = 0;
    pause_at_once = down = false;
    loop = loop_new();
    server = http_server_new(
        loop, &lim,
        (struct http_handler){.request = on_request, .in_pieces = in_pieces, .piece = on_piece});
    return 0;
}

static int teardown(void **state UNUSED)
{
    http_server_shutdown(server, 0, on_down, NULL);
    while (!down)
        turn(1);
    http_server_free(server);
    loop_free(loop);
    buf_done(&got);
    return 0;
}

static int client(void)
{
    int sv[2];
    struct err e;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
    assert_int_equal(http_server_adopt_take(server, sv[1], &e), 0);
    return sv[0];
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void expect(int fd, const char *what)
{
    char text[4096] = "";
    size_t n = 0;

    for (int i = 0; i < 10000 && !strstr(text, what); i++) {
        ssize_t r = recv(fd, text + n, sizeof(text) - 1 - n, MSG_DONTWAIT);
        if (r > 0)
            n += (size_t)r;
        text[n] = 0;
        turn(1);
    }
    if (!strstr(text, what))
        fail_msg("'%s' is not in '%s'", what, text);
}

static void test_whole(void **state UNUSED)
{
    int fd = client();

    say(fd, "POST /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    turn(20);
    assert_string_equal(got.p, "abc");
    assert_int_equal(requests, 0);
    say(fd, "def");
    expect(fd, "6 0"); /* six bytes came, and the request has none */
    say(fd, "POST /other HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxy");
    expect(fd, "6 2"); /* the next one on this connection is an ordinary one */
    assert_int_equal(gone, 0);
    close(fd);
    turn(20);
}

static void test_chunked(void **state UNUSED)
{
    int fd = client();

    say(fd, "POST /pieces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
    expect(fd, "7 0");
    assert_string_equal(got.p, "abcdefg");
    close(fd);
}

static void test_client_leaves(void **state UNUSED)
{
    int fd = client();

    say(fd, "POST /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    turn(20);
    close(fd);
    turn(50);
    assert_int_equal(gone, 1);
    assert_int_equal(requests, 0);
}

static void test_too_much(void **state UNUSED)
{
    int fd = client();

    say(fd, "POST /pieces HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 200000 && !gone; i++) {
        char piece[4200];
        int n = snprintf(piece, sizeof(piece), "1000\r\n%4096s\r\n", "x");
        if (send(fd, piece, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            i--;
        turn(1);
    }
    expect(fd, " 413 ");
    close(fd);
    turn(50);
    assert_int_equal(gone, 1);
    assert_true(got.n <= 1 << 20);
}

/* A paused body takes no more bytes, and its time limit stands still. */
static void test_pause(void **state UNUSED)
{
    int fd = client();

    pause_at_once = true;
    say(fd, "POST /pieces HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc");
    turn(20);
    say(fd, "def");
    turn(1500);
    assert_string_equal(got.p, "abc");
    assert_int_equal(gone, 0);
    pause_at_once = false;
    http_body_pause(live, false);
    expect(fd, "6 0");
    close(fd);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_whole), T(test_chunked), T(test_client_leaves), T(test_too_much), T(test_pause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
