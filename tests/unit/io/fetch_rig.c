#include "fetch_rig.h"
#include "base/log.h"
#include <stdio.h>
#include <string.h>

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

int world_setup(void **state)
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

int world_teardown(void **state)
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

void world_turns(struct world *w, int ms)
{
    int64_t end = clock_mono(&clock_system) + ms;

    while (clock_mono(&clock_system) < end)
        loop_run_once(w->loop, true);
}

/* ---- what a fetch brought ---- */

void got_act(struct got *g, int where)
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

const struct fetch_fns got_fns = {got_head, got_body, got_done};

void got_start(struct got *g, struct fetcher *f, const char *method, const char *path,
               const struct fetch_limits *lim)
{
    struct http_request q = {method, path};

    g->fetcher = f;
    g->fetch = fetch_start(f, &q, lim, &got_fns, g);
    assert_int_equal(g->heads + g->ends, 0);
}

void got_fails(struct got *g, enum err_code code, const char *say)
{
    assert_int_equal(g->ends, 1);
    assert_int_equal(g->err.code, code);
    if (!strstr(g->err.text, say))
        fail_msg("'%s' does not say '%s'", g->err.text, say);
    buf_done(&g->r.body);
}

void got_collected(void *arg, struct http_response *r, const struct err *why)
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

void world_collect(struct world *w, struct fetcher *f, struct http_request q, int status,
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

struct fetcher *world_fetcher(struct world *w, int i)
{
    return w->targets[i] ? fetcher_new(w->loop, w->targets[i], "secret", w->cert) : NULL;
}
