/* The asynchronous client against our server on the same loop, over a unix socket, TCP and TLS. */
#include "fetch_rig.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { EVENTS = 10000 };

/* ---- what every transport has to do alike ---- */

struct made {
    size_t left, fails_at;
};

static ssize_t make_bytes(void *arg, char *p, size_t n)
{
    struct made *m = arg;

    if (m->fails_at && m->left <= m->fails_at)
        return -1;
    n = MIN(MIN(n, m->left), (size_t)1000);
    memset(p, 'b', n);
    m->left -= n;
    return (ssize_t)n;
}

static void check_bodies(struct world *w, struct fetcher *f)
{
    struct made m = {.left = 300000};
    struct http_source source = {make_bytes, &m};
    AUTO_FREE char *big = xmalloc(300001);
    const char *headers[] = {"X-One: 1", NULL};

    memset(big, 'b', 300000);
    big[300000] = '\0';
    world_collect(w, f, (struct http_request){"GET", "/who"}, 200, "GET|Bearer secret|-");
    world_collect(w, f, (struct http_request){"GET", "/who", headers, "mine"}, 200,
                  "GET|Bearer mine|1");
    world_collect(w, f, (struct http_request){"DELETE", "/who"}, 200, "DELETE|Bearer secret|-");
    world_collect(w, f, (struct http_request){"HEAD", "/who"}, 200, "");
    world_collect(w, f, (struct http_request){"GET", "/nope"}, 404, NULL);
    world_collect(w, f, (struct http_request){"POST", "/echo", .body = STR("{}")}, 200, "{}");
    world_collect(w, f, (struct http_request){"PUT", "/echo", .body = {big, 300000}}, 200, big);
    world_collect(w, f, (struct http_request){"POST", "/echo", .source = &source}, 200, big);
    m = (struct made){.left = 300000, .fails_at = 100000};
    struct got g = {0};
    struct http_request half = {"POST", "/echo", .source = &source};
    fetch_start(f, &half, NULL, &got_fns, &g);
    UNTIL(w, g.ends);
    got_fails(&g, ERR_BUSY, "not produced");
    struct got long_one = {0};
    struct http_request q = {"PUT", "/echo", .body = {big, 300000}};
    fetch_collect(f, &q, &(struct fetch_limits){.body_bytes = 1000}, got_collected, &long_one);
    UNTIL(w, long_one.ends);
    got_fails(&long_one, ERR_LIMIT, "longer than 1000 bytes");
}

static void test_bodies(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3 && w->targets[i]; i++) {
        struct fetcher *f = world_fetcher(w, i);
        struct got g = {0};
        check_bodies(w, f);
        got_start(&g, f, "PUT", "/echo", NULL);
        UNTIL(w, g.ends);
        assert_int_equal(g.err.code, 0);
        assert_string_equal(g.r.etag, "\"e1\"");
        assert_string_equal(g.r.content_type, "application/json");
        fetcher_free(f);
    }
    fetcher_free(NULL);
}

static void test_nobody_there(void **state)
{
    struct world *w = *state;
    AUTO_FREE char *missing = xasprintf("unix:%s/none", w->dir);
    const struct {
        const char *target, *say;
        enum err_code code;
        int sys;
    } cases[] = {
        {missing, "no server answers at", ERR_UNAVAILABLE, ENOENT},
        {"http://127.0.0.1:1", "http://127.0.0.1:1", ERR_UNAVAILABLE, ECONNREFUSED},
        {"ftp://x", "names no server", ERR_INVALID, 0},
        {"", "names no server", ERR_INVALID, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct fetcher *f = fetcher_new(w->loop, cases[i].target, NULL, NULL);
        struct got g = {0};
        got_start(&g, f, "GET", "/", NULL);
        UNTIL(w, g.ends);
        got_fails(&g, cases[i].code, cases[i].say);
        assert_int_equal(g.err.sys, cases[i].sys);
        fetcher_free(f);
    }
    if (!w->targets[2])
        return;
    struct fetcher *f = fetcher_new(w->loop, w->targets[2], NULL, NULL); /* an unknown authority */
    struct got g = {0};
    got_start(&g, f, "GET", "/who", NULL);
    UNTIL(w, g.ends);
    got_fails(&g, ERR_UNAVAILABLE, w->targets[2]);
    fetcher_free(f);
}

/* ---- many, long and slow ---- */

static void test_a_thousand_at_once(void **state)
{
    struct world *w = *state;
    enum { MANY = 1000 };
    struct rlimit lim;

    getrlimit(RLIMIT_NOFILE, &lim);
    lim.rlim_cur = MIN(lim.rlim_max, 4096);
    setrlimit(RLIMIT_NOFILE, &lim);
    if (lim.rlim_cur < 2 * MANY + 100)
        skip(); /* both ends are in this process */
    for (int i = 0; i < 2; i++) {
        struct fetcher *f = world_fetcher(w, i);
        struct got *all = xcalloc(MANY, sizeof(*all));
        w->held_n = 0;
        for (int k = 0; k < MANY; k++)
            got_start(&all[k], f, "GET", "/hold", NULL);
        UNTIL(w, w->held_n == MANY);
        for (int k = 0; k < MANY; k++)
            http_reply(w->held[k], 200, "text/plain", STR("x"));
        for (int k = 0; k < MANY; k++) {
            UNTIL(w, all[k].ends);
            assert_int_equal(all[k].err.code, 0);
            assert_string_equal(all[k].r.body.p, "x");
            buf_done(&all[k].r.body);
        }
        world_collect(w, f, (struct http_request){"GET", "/who"}, 200, NULL);
        free(all);
        fetcher_free(f);
    }
}

static void test_watch(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3 && w->targets[i]; i++) {
        struct fetcher *f = world_fetcher(w, i);
        struct got g = {0};
        size_t bytes = 5;
        w->held_n = 0;
        got_start(&g, f, "GET", "/open", NULL);
        UNTIL(w, g.pieces);
        for (int k = 0; k < EVENTS; k++) {
            AUTO(buf) struct buf b = {0};
            sse_format(&b, (uint64_t)k, "n", STR("x"));
            bytes += b.n;
            http_stream_write(w->held[0], buf_str(&b));
            if (k % 100 == 0)
                loop_run_once(w->loop, true);
            if (k % 2000 == 0) /* other requests go on beside it */
                world_collect(w, f, (struct http_request){"GET", "/who"}, 200, NULL);
        }
        UNTIL(w, g.r.body.n == bytes);
        assert_int_equal(g.ends, 0);
        assert_non_null(strstr(g.r.body.p, "id: 9999\n"));
        http_stream_end(w->held[0]);
        UNTIL(w, g.ends);
        assert_int_equal(g.err.code, 0);
        buf_done(&g.r.body);
        fetcher_free(f);
    }
}

static void test_slow_consumer(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3 && w->targets[i]; i++) {
        struct fetcher *f = world_fetcher(w, i);
        struct got g = {.pause = true};
        w->flooded = 0;
        got_start(&g, f, "GET", "/flood", &(struct fetch_limits){.idle_ms = 1000});
        UNTIL(w, g.pieces);
        world_turns(w, i == 0 ? 1200 : 100); /* idle_ms does not count meanwhile */
        assert_true(w->flooded < FLOOD_BYTES / 2);
        assert_true(g.r.body.n <= 128 << 10);
        int pieces = g.pieces;
        world_turns(w, 20);
        assert_int_equal(g.pieces, pieces);
        while (!g.ends) {
            fetch_pause(g.fetch, false);
            pieces = g.pieces;
            UNTIL(w, g.pieces > pieces || g.ends);
        }
        assert_int_equal(g.err.code, 0);
        assert_int_equal(g.r.body.n, FLOOD_BYTES);
        buf_done(&g.r.body);
        fetcher_free(f);
    }
}

static void test_limits_of_time(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3 && w->targets[i]; i++) {
        struct fetcher *f = world_fetcher(w, i);
        struct got total = {0}, idle = {0}, fine = {0};
        w->gone = w->held_n = 0;
        got_start(&total, f, "GET", "/hold", &(struct fetch_limits){.total_ms = 200});
        UNTIL(w, total.ends);
        got_fails(&total, ERR_UNAVAILABLE, "not answered within 200 ms");
        got_start(&idle, f, "GET", "/open",
                  &(struct fetch_limits){.idle_ms = 700, .total_ms = 60000});
        UNTIL(w, idle.ends);
        assert_string_equal(idle.r.body.p, "first");
        got_fails(&idle, ERR_UNAVAILABLE, "sent nothing for 700 ms");
        UNTIL(w, w->gone); /* the server notices that nobody reads the stream */
        got_start(&fine, f, "GET", "/who",
                  &(struct fetch_limits){.idle_ms = 60000, .total_ms = 60000});
        UNTIL(w, fine.ends);
        assert_int_equal(fine.err.code, 0);
        buf_done(&fine.r.body);
        fetcher_free(f);
    }
}

/* ---- cancel ---- */

static void test_cancel(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3 && w->targets[i]; i++) {
        for (int where = 0; where <= IN_DONE; where++) {
            for (int freed = 0; freed < 2; freed++) {
                struct fetcher *f = world_fetcher(w, i);
                struct got other = {0};
                struct got g = {.cancel_in = where, .free_fetcher = freed, .other = &other};
                w->held_n = 0;
                got_start(&other, f, "GET", "/open", NULL);
                UNTIL(w, other.pieces);
                size_t gone = w->gone;
                got_start(&g, f, "GET", where == IN_DONE ? "/who" : "/open", NULL);
                if (where == 0)
                    got_act(&g, 0); /* before it has begun */
                UNTIL(w, where == 0 || g.heads + (g.pieces > 0) + g.ends >= where);
                UNTIL(w, w->gone > gone);
                assert_int_equal(g.ends, where == IN_DONE);
                assert_int_equal(other.ends, 0);
                assert_int_equal(other.pieces, 1);
                if (!freed) {
                    world_collect(w, f, (struct http_request){"GET", "/who"}, 200, NULL);
                    fetcher_free(f);
                }
                buf_done(&g.r.body);
                buf_done(&other.r.body);
            }
        }
    }
}

/* A request that is started when the one before has ended. */
struct chain {
    struct fetcher *f;
    int left;
};

static void chain_next(void *arg, struct http_response *r, const struct err *why)
{
    struct chain *c = arg;

    assert_null(why);
    assert_int_equal(r->status, 200);
    if (--c->left > 0)
        fetch_collect(c->f, &(struct http_request){"GET", "/who"}, NULL, chain_next, c);
}

/* TCP sockets that a program started by this process would have open. */
static int inherited_sockets(void)
{
    int n = 0;

    for (int fd = 0; fd < 100; fd++) {
        int domain;
        socklen_t size = sizeof(domain);
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain != AF_UNIX)
            n += !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    }
    return n;
}

static void test_close_on_exec(void **state)
{
    struct world *w = *state;
    int before = inherited_sockets();

    for (int i = 1; i < 3 && w->targets[i]; i++) {
        struct fetcher *f = world_fetcher(w, i);
        struct got g = {0};
        w->held_n = 0;
        got_start(&g, f, "GET", "/open", NULL);
        UNTIL(w, g.pieces);
        assert_int_equal(inherited_sockets(), before);
        fetcher_free(f);
        buf_done(&g.r.body);
    }
}

static void test_chain(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3 && w->targets[i]; i++) {
        struct chain c = {world_fetcher(w, i), 50};
        fetch_collect(c.f, &(struct http_request){"GET", "/who"}, NULL, chain_next, &c);
        UNTIL(w, c.left == 0);
        /* All over one connection. */
        assert_int_equal(http_server_stats(w->server).connections_open, 1);
        fetcher_free(c.f);
        UNTIL(w, http_server_stats(w->server).connections_open == 0);
    }
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(test_bodies), T(test_nobody_there),  T(test_a_thousand_at_once),
        T(test_watch),  T(test_slow_consumer), T(test_limits_of_time),
        T(test_cancel), T(test_chain),         T(test_close_on_exec),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
