/* The asynchronous client against our server on the same loop, over a unix socket, TCP and TLS, and
 * against a raw server that says whatever a test wants. */
#include "base/clock.h"
#include "base/log.h"
#include "io/fetch.h"
#include "rig.h"
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { HELD_MAX = 1100, EVENTS = 10000, FLOOD_BYTES = 16 << 20, WAIT_MS = 20000 };

struct world {
    struct loop *loop;
    struct timer *tick; /* so that a blocking turn of the loop ends */
    struct http_server *server;
    char dir[64], cert[96], key[96];
    char *targets[3]; /* unix, http, https; NULL: no openssl command here */
    struct http_req *held[HELD_MAX];
    size_t held_n, gone;
    size_t flooded;
    bool down;
};

/* ---- the server ---- */

static void on_gone(void *arg, struct http_req *r)
{
    struct world *w = arg;

    w->gone++;
    for (size_t i = 0; i < w->held_n; i++)
        if (w->held[i] == r)
            w->held[i] = NULL;
}

static void flood_more(void *arg, struct http_req *r)
{
    static char block[64 << 10];
    struct world *w = arg;

    memset(block, 'f', sizeof(block));
    while (w->flooded < FLOOD_BYTES && http_stream_backlog(r) == 0) {
        w->flooded += sizeof(block);
        http_stream_write(r, (struct str){block, sizeof(block)});
    }
    if (w->flooded == FLOOD_BYTES)
        http_stream_end(r);
}

static void hold(struct world *w, struct http_req *r)
{
    assert_true(w->held_n < HELD_MAX);
    http_on_gone(r, on_gone, w);
    w->held[w->held_n++] = r;
}

static void on_request(void *self, struct http_req *r)
{
    struct world *w = self;
    struct str path = http_path(r);
    struct err e;

    if (str_eq_c(path, "/echo")) {
        http_reply_header(r, "ETag", "\"e1\"");
        http_reply(r, 200, "application/json", http_body(r));
    } else if (str_eq_c(path, "/who")) {
        struct str auth = http_header(r, "authorization"), one = http_header(r, "x-one");
        AUTO(buf) struct buf b = {0};
        buf_addf(&b, STR_FMT "|%s|%s", STR_ARG(http_method(r)), auth.p ? auth.p : "-",
                 one.p ? one.p : "-");
        http_reply(r, 200, "text/plain", buf_str(&b));
    } else if (str_eq_c(path, "/hold")) {
        hold(w, r);
    } else if (str_eq_c(path, "/open")) {
        hold(w, r);
        http_stream_begin(r, 200, "text/event-stream");
        http_stream_write(r, STR("first"));
    } else if (str_eq_c(path, "/flood")) {
        http_on_gone(r, on_gone, w);
        http_on_drain(r, flood_more, w);
        http_stream_begin(r, 200, "application/octet-stream");
        flood_more(w, r);
    } else {
        err_set(&e, ERR_NOT_FOUND, "there is no " STR_FMT, STR_ARG(path));
        http_reply_err(r, &e);
    }
}

static void on_tick(void *arg UNUSED)
{
}

static void on_down(void *arg)
{
    ((struct world *)arg)->down = true;
}

static bool make_cert(struct world *w)
{
    AUTO_FREE char *cmd = xasprintf(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 "
        "-keyout %s -out %s 2>/dev/null",
        w->key, w->cert);
    FILE *f = popen(cmd, "r");

    return f && pclose(f) == 0;
}

static int setup(void **state)
{
    struct world *w = xcalloc(1, sizeof(*w));
    struct http_limits lim = http_limits_default;
    int port;
    struct err e;

    log_setup(LOG_ERROR_, false, 2);
    lim.connections = 2000;
    snprintf(w->dir, sizeof(w->dir), "/tmp/test_fetch.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    snprintf(w->cert, sizeof(w->cert), "%s/cert.pem", w->dir);
    snprintf(w->key, sizeof(w->key), "%s/key.pem", w->dir);
    w->loop = loop_new();
    w->tick = timer_new(w->loop, on_tick, w);
    timer_start(w->tick, 5, 5);
    w->server =
        http_server_new(w->loop, &lim, (struct http_handler){.request = on_request, .self = w});
    w->targets[0] = xasprintf("unix:%s/sock", w->dir);
    assert_int_equal(http_server_listen_unix(w->server, w->targets[0] + 5, 0600, &e), 0);
    assert_int_equal(http_server_listen_tcp(w->server, "127.0.0.1", 0, NULL, NULL, &port, &e), 0);
    w->targets[1] = xasprintf("http://127.0.0.1:%d/", port);
    if (make_cert(w)) {
        assert_int_equal(
            http_server_listen_tcp(w->server, "127.0.0.1", 0, w->cert, w->key, &port, &e), 0);
        w->targets[2] = xasprintf("https://localhost:%d", port);
    }
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    http_server_shutdown(w->server, 0, on_down, w);
    while (!w->down)
        loop_run_once(w->loop, true);
    http_server_free(w->server);
    timer_free(w->tick);
    loop_free(w->loop);
    for (int i = 0; i < 3; i++)
        free(w->targets[i]);
    unlink(w->cert);
    unlink(w->key);
    rmdir(w->dir);
    free(w);
    return 0;
}

/* Turns the loop until the condition holds. */
#define UNTIL(w, condition)                                                                        \
    do {                                                                                           \
        int64_t end_ = clock_mono(&clock_system) + WAIT_MS;                                        \
        while (!(condition)) {                                                                     \
            if (clock_mono(&clock_system) > end_)                                                  \
                fail_msg("waited too long for %s", #condition);                                    \
            loop_run_once((w)->loop, true);                                                        \
        }                                                                                          \
    } while (0)

static void turns(struct world *w, int ms)
{
    int64_t end = clock_mono(&clock_system) + ms;

    while (clock_mono(&clock_system) < end)
        loop_run_once(w->loop, true);
}

/* ---- what a fetch brought ---- */

enum { IN_HEAD = 1, IN_BODY, IN_DONE };
struct got {
    struct fetcher *fetcher;
    struct fetch *fetch;
    int heads, pieces, ends;
    struct http_response r; /* of the head; body: what arrived */
    struct err err;         /* code 0: whole */
    int cancel_in;          /* one of the above */
    bool free_fetcher;      /* instead of cancel */
    bool pause;             /* after every piece */
    struct got *other;      /* cancelled too */
};

static void got_act(struct got *g, int where)
{
    if (g->cancel_in != where)
        return;
    if (g->other)
        fetch_cancel(g->other->fetch);
    if (g->free_fetcher)
        fetcher_free(g->fetcher);
    else
        fetch_cancel(g->fetch);
}

static void got_head(void *arg, const struct http_response *r)
{
    struct got *g = arg;

    assert_int_equal(g->pieces, 0);
    assert_int_equal(g->heads++, 0);
    g->r = *r;
    g->r.body = (struct buf){0};
    got_act(g, IN_HEAD);
}

static void got_body(void *arg, struct str piece)
{
    struct got *g = arg;

    assert_int_equal(g->heads, 1);
    assert_int_equal(g->ends, 0);
    g->pieces++;
    buf_add(&g->r.body, piece.p, piece.n);
    if (g->pause)
        fetch_pause(g->fetch, true);
    got_act(g, IN_BODY);
}

static void got_done(void *arg, const struct err *why)
{
    struct got *g = arg;

    assert_int_equal(g->ends++, 0);
    if (why)
        g->err = *why;
    got_act(g, IN_DONE);
}

static const struct fetch_fns got_fns = {got_head, got_body, got_done};

static void got_start(struct got *g, struct fetcher *f, const char *method, const char *path,
                      const struct fetch_limits *lim)
{
    struct http_request q = {method, path};

    g->fetcher = f;
    g->fetch = fetch_start(f, &q, lim, &got_fns, g);
    assert_int_equal(g->heads + g->ends, 0);
}

static void got_fails(struct got *g, enum err_code code, const char *say)
{
    assert_int_equal(g->ends, 1);
    assert_int_equal(g->err.code, code);
    if (!strstr(g->err.text, say))
        fail_msg("'%s' does not say '%s'", g->err.text, say);
    buf_done(&g->r.body);
}

static void got_collected(void *arg, struct http_response *r, const struct err *why)
{
    struct got *g = arg;

    g->ends++;
    if (why) {
        g->err = *why;
        return;
    }
    g->r = *r;
    r->body = (struct buf){0}; /* moved */
}

/* One whole request. */
static void collect(struct world *w, struct fetcher *f, struct http_request q, int status,
                    const char *want)
{
    struct got g = {0};

    fetch_collect(f, &q, NULL, got_collected, &g);
    UNTIL(w, g.ends);
    if (g.err.code)
        fail_msg("%s %s: %s", q.method, q.path, g.err.text);
    assert_int_equal(g.r.status, status);
    if (want)
        assert_string_equal(buf_str(&g.r.body).p, want);
    buf_done(&g.r.body);
}

static struct fetcher *fetcher_of(struct world *w, int i)
{
    return w->targets[i] ? fetcher_new(w->loop, w->targets[i], "secret", w->cert) : NULL;
}

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
    collect(w, f, (struct http_request){"GET", "/who"}, 200, "GET|Bearer secret|-");
    collect(w, f, (struct http_request){"GET", "/who", headers, "mine"}, 200, "GET|Bearer mine|1");
    collect(w, f, (struct http_request){"DELETE", "/who"}, 200, "DELETE|Bearer secret|-");
    collect(w, f, (struct http_request){"HEAD", "/who"}, 200, "");
    collect(w, f, (struct http_request){"GET", "/nope"}, 404, NULL);
    collect(w, f, (struct http_request){"POST", "/echo", .body = STR("{}")}, 200, "{}");
    collect(w, f, (struct http_request){"PUT", "/echo", .body = {big, 300000}}, 200, big);
    collect(w, f, (struct http_request){"POST", "/echo", .source = &source}, 200, big);
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
        struct fetcher *f = fetcher_of(w, i);
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
        struct fetcher *f = fetcher_of(w, i);
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
        collect(w, f, (struct http_request){"GET", "/who"}, 200, NULL);
        free(all);
        fetcher_free(f);
    }
}

static void test_watch(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3 && w->targets[i]; i++) {
        struct fetcher *f = fetcher_of(w, i);
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
                collect(w, f, (struct http_request){"GET", "/who"}, 200, NULL);
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
        struct fetcher *f = fetcher_of(w, i);
        struct got g = {.pause = true};
        w->flooded = 0;
        got_start(&g, f, "GET", "/flood", &(struct fetch_limits){.idle_ms = 1000});
        UNTIL(w, g.pieces);
        turns(w, i == 0 ? 1200 : 100); /* idle_ms does not count meanwhile */
        assert_true(w->flooded < FLOOD_BYTES / 2);
        assert_true(g.r.body.n <= 128 << 10);
        int pieces = g.pieces;
        turns(w, 20);
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
        struct fetcher *f = fetcher_of(w, i);
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
                struct fetcher *f = fetcher_of(w, i);
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
                    collect(w, f, (struct http_request){"GET", "/who"}, 200, NULL);
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

static void test_chain(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 3 && w->targets[i]; i++) {
        struct chain c = {fetcher_of(w, i), 50};
        fetch_collect(c.f, &(struct http_request){"GET", "/who"}, NULL, chain_next, &c);
        UNTIL(w, c.left == 0);
        /* All over one connection. */
        assert_int_equal(http_server_stats(w->server).connections_open, 1);
        fetcher_free(c.f);
        UNTIL(w, http_server_stats(w->server).connections_open == 0);
    }
}

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
        collect(w, f, (struct http_request){"GET", "/"}, 200, "ok");
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
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_bodies),
        T(test_nobody_there),
        T(test_a_thousand_at_once),
        T(test_watch),
        T(test_slow_consumer),
        T(test_limits_of_time),
        T(test_cancel),
        T(test_chain),
        T(test_garbage),
        T(test_full_backlog),
        T(test_closed_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
