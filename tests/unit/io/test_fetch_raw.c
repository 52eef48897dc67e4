/* The asynchronous client against a raw server that says whatever a test wants. */
#include "fetch_rig.h"
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- a raw server ---- */

enum { RAW_MAX = 8 };
struct raw {
    struct world *w;
    int fd, accepted, asked;
    struct watch *watch;
    int conns[RAW_MAX];
    struct watch *watches[RAW_MAX];
    const char *says;  /* to the first request of a connection; NULL: nothing */
    bool closes;       /* afterwards */
    bool closes_later; /* at the second request, without an answer */
    char *target;
};

static void raw_close(struct raw *r, int i)
{
    watch_free(r->watches[i]);
    r->watches[i] = NULL;
    close(r->conns[i]);
}

static void raw_on_bytes(void *arg, int events UNUSED, int error UNUSED)
{
    struct raw *r = arg;
    char block[4096];

    for (int i = 0; i < r->accepted; i++) {
        if (!r->watches[i])
            continue;
        ssize_t n = recv(r->conns[i], block, sizeof(block), MSG_DONTWAIT);
        if (n < 0)
            continue;
        r->asked += n > 0;
        if (n > 0 && r->says)
            send(r->conns[i], r->says, strlen(r->says), MSG_NOSIGNAL);
        if (n == 0 || r->closes)
            raw_close(r, i);
        else if (r->closes_later && i == 0 && r->asked > 1)
            raw_close(r, i);
    }
}

static void raw_on_accept(void *arg, int events UNUSED, int error UNUSED)
{
    struct raw *r = arg;
    int fd = accept4(r->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    assert_true(fd >= 0 && r->accepted < RAW_MAX);
    r->conns[r->accepted] = fd;
    r->watches[r->accepted] = watch_new(r->w->loop, fd, raw_on_bytes, r);
    watch_start(r->watches[r->accepted++], WATCH_READ);
}

static void raw_open(struct raw *r, struct world *w, bool tcp, int backlog)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(in);

    r->w = w;
    r->fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(un.sun_path, sizeof(un.sun_path), "%s/raw", w->dir);
    unlink(un.sun_path);
    assert_int_equal(bind(r->fd, tcp ? (struct sockaddr *)&in : (struct sockaddr *)&un,
                          tcp ? sizeof(in) : sizeof(un)),
                     0);
    if (tcp)
        getsockname(r->fd, (struct sockaddr *)&in, &n);
    assert_int_equal(listen(r->fd, backlog), 0);
    r->target = tcp ? xasprintf("http://127.0.0.1:%d", ntohs(in.sin_port))
                    : xasprintf("unix:%s", un.sun_path);
    r->watch = watch_new(w->loop, r->fd, raw_on_accept, r);
    watch_start(r->watch, WATCH_READ);
}

static void raw_done(struct raw *r)
{
    for (int i = 0; i < r->accepted; i++)
        if (r->watches[i])
            raw_close(r, i);
    watch_free(r->watch);
    close(r->fd);
    if (strncmp(r->target, "unix:", 5) == 0)
        unlink(r->target + 5);
    free(r->target);
}

static void test_garbage(void **state)
{
    static const struct {
        const char *says;
        int status; /* 0: an error */
        const char *body;
    } cases[] = {
        {"", 0, NULL},
        {"SSH-2.0-OpenSSH\r\n", 0, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", 0, NULL},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", 0, NULL},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 0, NULL},
        {"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, "until the end"},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n", 200,
         "x"},
        {"HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
    };
    struct world *w = *state;

    for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
        struct raw r = {.says = cases[i / 2].says, .closes = true};
        struct got g = {0};
        raw_open(&r, w, i % 2, 8);
        struct fetcher *f = fetcher_new(w->loop, r.target, NULL, NULL);
        got_start(&g, f, "GET", "/", NULL);
        UNTIL(w, g.ends);
        if (cases[i / 2].status == 0) {
            got_fails(&g, ERR_UNAVAILABLE, "");
        } else {
            assert_int_equal(g.err.code, 0);
            assert_int_equal(g.r.status, cases[i / 2].status);
            assert_string_equal(buf_str(&g.r.body).p, cases[i / 2].body);
            buf_done(&g.r.body);
        }
        fetcher_free(f);
        raw_done(&r);
    }
}

/* A kept connection that the server closes when the next request arrives. */
static void test_closed_connection(void **state)
{
    static const char *const keyed[] = {"Idempotency-Key: k", NULL};
    static const struct {
        struct http_request q;
        bool fails_over_unix; /* libcurl takes a new connection for those */
    } cases[] = {
        {{"GET", "/"}, false},
        {{"POST", "/", keyed}, false},
        {{"POST", "/"}, true},
    };
    struct world *w = *state;

    for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
        bool tcp = i % 2;
        struct raw r = {.says = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                        .closes_later = true};
        struct got g = {0};
        raw_open(&r, w, tcp, 8);
        struct fetcher *f = fetcher_new(w->loop, r.target, NULL, NULL);
        world_collect(w, f, (struct http_request){"GET", "/"}, 200, "ok");
        r.says = NULL;
        fetch_collect(f, &cases[i / 2].q, NULL, got_collected, &g);
        UNTIL(w, r.asked > 1);
        r.says = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        if (cases[i / 2].fails_over_unix && tcp) /* it waits on the second connection */
            send(r.conns[1], r.says, strlen(r.says), MSG_NOSIGNAL);
        UNTIL(w, g.ends);
        if (cases[i / 2].fails_over_unix && !tcp) {
            got_fails(&g, ERR_UNAVAILABLE, "closed the connection");
            assert_int_equal(r.accepted, 1);
        } else {
            assert_int_equal(g.err.code, 0);
            assert_int_equal(r.accepted, 2);
        }
        buf_done(&g.r.body);
        fetcher_free(f);
        raw_done(&r);
    }
}

static void test_full_backlog(void **state)
{
    struct world *w = *state;
    struct raw r = {.says = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"};
    struct got all[6] = {0}, late = {0};

    raw_open(&r, w, false, 0);
    watch_stop(r.watch);
    struct fetcher *f = fetcher_new(w->loop, r.target, NULL, NULL);
    for (int i = 0; i < 6; i++)
        got_start(&all[i], f, "GET", "/", NULL);
    got_start(&late, f, "GET", "/", &(struct fetch_limits){.connect_ms = 100});
    UNTIL(w, late.ends);
    got_fails(&late, ERR_UNAVAILABLE, "no server answers");
    watch_start(r.watch, WATCH_READ); /* the others waited, and are served */
    for (int i = 0; i < 6; i++) {
        UNTIL(w, all[i].ends);
        assert_int_equal(all[i].err.code, 0);
    }
    fetcher_free(f);
    raw_done(&r);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(test_garbage),
        T(test_full_backlog),
        T(test_closed_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
