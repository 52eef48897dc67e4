/* The life of a call: answered, failed, its client gone, its server closing, its key in use. */
#include "base/util.h"
#include "io/loop.h"
#include "request/once.h"
#include "request/service.h"
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct rig {
    struct loop *loop;
    struct request_server *requests;
    struct http_server *http;
    struct call *held;
    size_t freed, gone, worked;
    bool down;
};

static void count_freed(void *data)
{
    ((struct rig *)data)->freed++;
}

static void on_echo(struct call *c)
{
    const char *q = call_param(c, "q");

    call_keep_body(c);
    buf_addf(&c->out, "%s|%s|%s|" STR_FMT, c->arg[0].p, c->arg[1].p, q ? q : "-", STR_ARG(c->body));
    call_reply(c);
}

static int work_ok(struct call *c)
{
    buf_adds(&c->out, "worked");
    return 0;
}

static int work_fails(struct call *c)
{
    return err_set(&c->err, ERR_NOT_FOUND, "there is no such thing");
}

static int work_forgets(struct call *c)
{
    (void)c;
    return -1;
}

static void on_worked(struct call *c)
{
    ((struct rig *)c->self)->worked++;
    call_reply(c);
}

static void on_work(struct call *c)
{
    struct str what = c->arg[0];

    c->data = c->self;
    c->free_data = count_freed;
    call_work(c,
              str_eq_c(what, "ok")   ? work_ok
              : str_eq_c(what, "no") ? work_fails
                                     : work_forgets,
              on_worked);
}

static void on_gone(struct call *c)
{
    ((struct rig *)c->self)->gone++;
}

static void on_hold(struct call *c)
{
    struct rig *r = c->self;

    c->data = r;
    c->free_data = count_freed;
    c->gone = on_gone;
    r->held = c;
}

static void on_once(struct call *c)
{
    call_run_once(c, on_hold);
}

static const struct route table[] = {
    {"POST", "/echo/{a}/{b}", on_echo, AUTH_WRITE, 16},
    {"GET", "/task/{what}", on_work, AUTH_READ},
    {"GET", "/hold", on_hold, AUTH_READ},
    {"POST", "/once", on_once, AUTH_WRITE},
    {"GET", "/admin", on_hold, AUTH_ADMIN},
};

static int identify(void *self, struct http_req *r, struct who *out, struct err *e)
{
    (void)self;
    if (http_header(r, "x-stranger").p)
        return err_set(e, ERR_UNAUTHENTICATED, "who are you?");
    *out = (struct who){.caller = {.uid = 7, .user = "me"}, .known = true};
    return 0;
}

static int setup(void **state)
{
    struct rig *r = xcalloc(1, sizeof(*r));

    r->loop = loop_new();
    r->requests = request_server_new(&(struct request_conf){.loop = r->loop});
    request_server_add(r->requests, &(struct service){.routes = table,
                                                      .n_routes = ARRAY_SIZE(table),
                                                      .self = r,
                                                      .identify = identify});
    r->http = http_server_new(r->loop, &http_limits_default, request_server_handler(r->requests));
    *state = r;
    return 0;
}

static void on_down(void *arg)
{
    ((struct rig *)arg)->down = true;
}

static int teardown(void **state)
{
    struct rig *r = *state;

    request_server_shut(r->requests);
    http_server_shutdown(r->http, 100, on_down, r);
    while (!r->down || request_server_busy(r->requests))
        loop_run_once(r->loop, false);
    http_server_free(r->http);
    request_server_free(r->requests);
    loop_free(r->loop);
    free(r);
    return 0;
}

static void turn(struct rig *r)
{
    loop_run_once(r->loop, false);
    usleep(500);
}

/* Both ends of a connection over loopback, whose client can break it off. */
static void tcp_pair(int fds[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger hard = {.l_onoff = 1};
    socklen_t n = sizeof(a);
    AUTO_FD listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listener, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fds[1], (struct sockaddr *)&a, n), 0);
    assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
    fds[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fds[0] >= 0);
}

/* Sends a request; the descriptor to read the answer from. */
static int send_request_by(struct rig *r, bool stranger, const char *line, const char *more,
                           const char *body)
{
    AUTO_FREE char *text = xasprintf(
        "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
        line, more, strlen(body), body);
    int fds[2];
    struct err e;

    if (stranger)
        tcp_pair(fds);
    else
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
                         0);
    assert_int_equal(http_server_adopt_take(r->http, fds[0], &e), 0);
    assert_int_equal(write(fds[1], text, strlen(text)), (ssize_t)strlen(text));
    return fds[1];
}

static int send_request(struct rig *r, const char *line, const char *more, const char *body)
{
    return send_request_by(r, false, line, more, body);
}

static bool answer_whole(const char *text)
{
    const char *body = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "content-length: ");

    return body && length && strlen(body + 4) >= strtoul(length + 16, NULL, 10);
}

static char *receive(struct rig *r, int fd)
{
    static char out[4096];
    size_t n = 0;

    for (out[0] = 0; !answer_whole(out);) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        turn(r);
        if (poll(&p, 1, 0) <= 0)
            continue;
        ssize_t got = read(fd, out + n, sizeof(out) - 1 - n);
        assert_true(got > 0);
        n += (size_t)got;
        out[n] = 0;
    }
    close(fd);
    return out;
}

static char *ask(struct rig *r, const char *line, const char *more, const char *body)
{
    return receive(r, send_request(r, line, more, body));
}

#define assert_has(text, part) assert_non_null(strstr(text, part))

static void wait_held(struct rig *r)
{
    while (!r->held)
        turn(r);
}

static void test_answers(void **state)
{
    struct rig *r = *state;
    char *got = ask(r, "POST /echo/a%20b/c?q=x%2By", "", "body");

    assert_has(got, "HTTP/1.1 200");
    assert_has(got, "a b|c|x+y|body");
    assert_has(ask(r, "POST /echo/a/b", "", "longer than sixteen bytes"), " 413 ");
    got = ask(r, "PUT /echo/a/b", "", "");
    assert_has(got, " 405 ");
    assert_has(got, "Allow: POST");
    got = ask(r, "GET /hald", "", "");
    assert_has(got, " 404 ");
    assert_has(got, "did you mean /hold?");
}

static void test_who(void **state)
{
    struct rig *r = *state;

    /* A stranger is not told which paths there are. */
    assert_has(ask(r, "GET /task/ok", "X-Stranger: 1\r\n", ""), " 401 ");
    assert_has(ask(r, "GET /nowhere", "X-Stranger: 1\r\n", ""), " 401 ");
    assert_has(ask(r, "PUT /hold", "X-Stranger: 1\r\n", ""), " 401 ");
    assert_has(ask(r, "GET /admin", "", ""), " 403 ");
    assert_null(r->held);
}

static void test_worker(void **state)
{
    struct rig *r = *state;

    assert_has(ask(r, "GET /task/ok", "", ""), "worked");
    assert_int_equal(r->worked, 1);
    assert_has(ask(r, "GET /task/no", "", ""), "there is no such thing");
    assert_has(ask(r, "GET /task/bug", "", ""), "GET /task/{what} failed without a reason");
    assert_int_equal(r->worked, 1); /* `then` is not called after a failure */
    assert_int_equal(r->freed, 3);
}

/* The work is finished all the same; the answer is dropped. */
static void test_client_leaves(void **state)
{
    struct rig *r = *state;
    int fd = send_request(r, "GET /hold", "", "");

    wait_held(r);
    close(fd);
    while (!r->gone)
        turn(r);
    assert_null(r->held->req);
    call_work(r->held, work_ok, on_worked);
    while (!r->freed)
        turn(r);
    assert_int_equal(r->worked, 1);
}

static void test_closing(void **state)
{
    struct rig *r = *state;

    request_server_shut(r->requests);
    assert_has(ask(r, "POST /echo/a/b", "", ""), "the daemon is shutting down");
    assert_has(ask(r, "GET /task/ok", "", ""), "worked"); /* reading goes on */
    close(send_request(r, "GET /hold", "", ""));          /* teardown drops the call */
}

static void test_key_in_use(void **state)
{
    struct rig *r = *state;
    int first = send_request(r, "POST /once", "Idempotency-Key: k\r\n", "");

    wait_held(r);
    struct call *c = TAKE(r->held);
    int second = send_request(r, "POST /once", "Idempotency-Key: k\r\n", "");
    int other = send_request(r, "POST /once", "Idempotency-Key: another\r\n", "");
    wait_held(r); /* not the second: its key is held */
    assert_true(str_eq_c(call_once_key(r->held), "another"));
    call_reply(TAKE(r->held));
    assert_has(receive(r, other), " 200 ");
    call_reply(c);
    assert_has(receive(r, first), " 200 ");
    wait_held(r); /* now the second */
    assert_true(str_eq_c(call_once_key(r->held), "k"));
    call_reply(r->held);
    assert_has(receive(r, second), " 200 ");
    char line[300];
    snprintf(line, sizeof(line), "Idempotency-Key: %0250d\r\n", 1);
    assert_has(ask(r, "POST /once", line, ""), "at most 200 are allowed");
}

/* Work goes on when its client has left, so requests under way are bounded beside connections: of
 * strangers, but not of the owner. */
static void test_left_calls_are_bounded(void **state)
{
    struct rig *r = *state;
    size_t most = http_limits_default.connections / 4;

    for (size_t i = 0; i < most; i++) {
        int fd = send_request_by(r, true, "GET /hold", "", "");
        wait_held(r);
        r->held = NULL;
        close(fd);
        while (r->gone <= i)
            turn(r);
    }
    char *got = receive(r, send_request_by(r, true, "GET /hold", "", ""));
    assert_has(got, " 429 ");
    assert_has(got, "1024 requests are under way");
    int mine = send_request(r, "GET /hold", "", "");
    wait_held(r);
    call_reply(TAKE(r->held));
    assert_has(receive(r, mine), " 200 ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(answers),
        TEST(who),
        TEST(worker),
        TEST(client_leaves),
        TEST(closing),
        TEST(key_in_use),
        TEST(left_calls_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
