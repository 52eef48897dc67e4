/* A port that is held, opened towards another, and shut again. */
#include "base/log.h"
#include "io/forward.h"
#include "rig.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

static int setup(void **state)
{
    log_setup(LOG_ERROR_, false, 2);
    *state = loop_new();
    return 0;
}

static int teardown(void **state)
{
    loop_free(*state);
    return 0;
}

static int listener(int *out_port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&sa, n), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &n), 0);
    *out_port = ntohs(sa.sin_port);
    return fd;
}

static int free_port(void)
{
    int port;

    close(listener(&port));
    return port;
}

/* Connected, or -1. */
static int caller(int port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void turn_until_readable(struct loop *l, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    for (int i = 0; i < 200000 && poll(&p, 1, 1) == 0; i++)
        loop_run_once(l, false);
    assert_true(p.revents & (POLLIN | POLLHUP));
}

static void test_held_ports_are_refused_to_all(void **state)
{
    struct forward *f = NULL, *g = NULL;
    struct err e = {0};
    int port = free_port();

    assert_true(port_is_free("127.0.0.1", port));
    assert_int_equal(forward_hold(&f, *state, "127.0.0.1", port, &e), 0);
    assert_false(port_is_free("127.0.0.1", port));
    assert_int_equal(forward_hold(&g, *state, "127.0.0.1", port, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    assert_non_null(strstr(e.text, "is in use"));
    assert_int_equal(caller(port), -1);
    assert_int_equal(errno, ECONNREFUSED);
    forward_free(f);
    assert_true(port_is_free("127.0.0.1", port));
    assert_int_equal(forward_hold(&g, *state, "no address", port, &e), -1);
}

static void test_bytes_go_both_ways(void **state)
{
    struct forward *f = NULL;
    struct err e = {0};
    int to, door = free_port(), server = listener(&to);
    char buf[64];

    assert_int_equal(forward_hold(&f, *state, "127.0.0.1", door, &e), 0);
    assert_int_equal(forward_open(f, to, &e), 0);
    int client = caller(door);
    assert_true(client >= 0);
    assert_int_equal(send(client, "hello", 5, 0), 5);
    turn_until_readable(*state, server);
    int job = accept(server, NULL, NULL);
    turn_until_readable(*state, job);
    assert_int_equal(recv(job, buf, sizeof(buf), 0), 5);
    assert_memory_equal(buf, "hello", 5);
    shutdown(client, SHUT_WR); /* a half-close arrives as one, and the answer still comes */
    turn_until_readable(*state, job);
    assert_int_equal(recv(job, buf, sizeof(buf), 0), 0);
    assert_int_equal(send(job, "bye", 3, 0), 3);
    close(job);
    turn_until_readable(*state, client);
    assert_int_equal(recv(client, buf, 3, MSG_WAITALL), 3);
    assert_memory_equal(buf, "bye", 3);
    turn_until_readable(*state, client);
    assert_int_equal(recv(client, buf, sizeof(buf), 0), 0);
    close(client);
    close(server);
    forward_free(f);
}

static void test_a_slow_reader_slows_its_writer(void **state)
{
    enum { TOTAL = 8 << 20, PIECE = 64 << 10 };
    struct forward *f = NULL;
    struct err e = {0};
    int to, door = free_port(), server = listener(&to);
    size_t sent = 0, got = 0;
    static char piece[PIECE];

    for (size_t i = 0; i < sizeof(piece); i++)
        piece[i] = (char)(i * 7);
    assert_int_equal(forward_hold(&f, *state, "127.0.0.1", door, &e), 0);
    assert_int_equal(forward_open(f, to, &e), 0);
    int client = caller(door);
    turn_until_readable(*state, server);
    int job = accept(server, NULL, NULL);
    for (int i = 0; i < 2000000 && got < TOTAL; i++) {
        size_t want = MIN((size_t)PIECE - sent % PIECE, TOTAL - sent);
        ssize_t n = want ? send(client, piece + sent % PIECE, want, MSG_DONTWAIT) : 0;
        sent += n > 0 ? (size_t)n : 0;
        loop_run_once(*state, false);
        char back[4096];
        n = recv(job, back, sizeof(back), MSG_DONTWAIT);
        for (ssize_t k = 0; k < n; k++, got++)
            if (back[k] != piece[got % PIECE])
                fail_msg("byte %zu is wrong", got);
    }
    assert_int_equal(got, TOTAL);
    close(job);
    close(client);
    close(server);
    forward_free(f);
}

static void test_shut_cuts_and_keeps_the_port(void **state)
{
    struct forward *f = NULL;
    struct err e = {0};
    int to, door = free_port(), server = listener(&to);
    char c;

    assert_int_equal(forward_hold(&f, *state, "127.0.0.1", door, &e), 0);
    assert_int_equal(forward_shut(f, &e), 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(forward_open(f, to, &e), 0);
        int client = caller(door);
        assert_true(client >= 0);
        turn_until_readable(*state, server);
        int job = accept(server, NULL, NULL);
        assert_int_equal(forward_shut(f, &e), 0);
        turn_until_readable(*state, client);
        assert_true(recv(client, &c, 1, 0) <= 0);
        assert_int_equal(caller(door), -1);
        assert_false(port_is_free("127.0.0.1", door));
        close(job);
        close(client);
    }
    forward_free(f);
    close(server);
}

static void test_nobody_behind_the_door(void **state)
{
    struct forward *f = NULL;
    struct err e = {0};
    int door = free_port(), to = free_port();
    char c;

    assert_int_equal(forward_hold(&f, *state, "127.0.0.1", door, &e), 0);
    assert_int_equal(forward_open(f, to, &e), 0);
    int client = caller(door);
    turn_until_readable(*state, client);
    assert_true(recv(client, &c, 1, 0) <= 0);
    close(client);
    forward_free(f);
}

static bool admit_second(void *arg, int fd)
{
    int *calls = arg;

    (void)fd;
    return ++*calls == 2;
}

static void test_another_address_for_some(void **state)
{
    struct forward *f = NULL;
    struct err e = {0};
    int calls = 0, to, door = free_port(), server = listener(&to);
    char c;

    assert_int_equal(forward_hold(&f, *state, "127.0.0.1", door, &e), 0);
    assert_int_equal(forward_lead(f, "localhost", NULL, NULL, &e), -1); /* numbers only */
    assert_int_equal(forward_lead(f, "127.0.0.1", admit_second, &calls, &e), 0);
    assert_int_equal(forward_open(f, to, &e), 0);
    int refused = caller(door);
    turn_until_readable(*state, refused);
    assert_true(recv(refused, &c, 1, 0) <= 0);
    int taken = caller(door);
    assert_int_equal(send(taken, "x", 1, 0), 1);
    turn_until_readable(*state, server);
    int job = accept(server, NULL, NULL);
    turn_until_readable(*state, job);
    assert_int_equal(recv(job, &c, 1, 0), 1);
    assert_int_equal(calls, 2);
    close(job);
    close(taken);
    close(refused);
    close(server);
    forward_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_held_ports_are_refused_to_all, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_address_for_some, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bytes_go_both_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_slow_reader_slows_its_writer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shut_cuts_and_keeps_the_port, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_behind_the_door, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
