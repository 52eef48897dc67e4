/* server.c - the server as a whole: its clock, its limits over time, its end
 *
 * Time limits are looked after by one sweep over the connections, a few times within the shortest
 * limit: two thousand idle streams then cost nothing per request and no timer each.  The sweep
 * runs only while there are connections, so an idle server does not wake up.
 */
#include "io/http_priv.h"
#include <time.h>

const struct http_limits http_limits_default = {
    .head_bytes = 32 << 10,
    .body_bytes = 1 << 20,
    .connections = 4096,
    .reserved = 256,
    .head_ms = 10000,
    .body_ms = 30000,
    .idle_ms = 75000,
    .write_ms = 30000,
    .stream_bytes = 1 << 20,
};

/* A quarter of the shortest limit, but at least 5 ms and at most 1 s: so precise are the limits. */
static int64_t sweep_every_ms(const struct http_limits *lim)
{
    int64_t least = MIN(MIN(lim->head_ms, lim->body_ms), MIN(lim->idle_ms, lim->write_ms));

    return MIN(MAX(least / 4, 5), 1000);
}

static void on_sweep(void *arg)
{
    struct http_server *s = arg;
    int64_t now = loop_mono_ms(s->loop);
    struct http_conn *c;

    if (LIST_EMPTY(&s->conns)) {
        timer_stop(s->sweep);
        s->sweeping = false;
        buf_done(&s->scratch);
        compressor_free(TAKE(s->compressor));
        free(TAKE(s->tls_plain));
        return;
    }
    /* Closing only starts here; the list changes in close callbacks alone. */
    LIST_FOREACH (c, &s->conns, entry)
        http_conn_sweep(c, now);
}

void http_server_sweep_on(struct http_server *s)
{
    if (s->sweeping)
        return;
    int64_t every = sweep_every_ms(&s->lim);
    timer_start(s->sweep, every, every);
    s->sweeping = true;
}

/* Requests whose handler asked to be told only after the client had left. */
static void tell_orphans(struct http_server *s)
{
    struct http_req *r = s->orphans;

    while (r) {
        if (!r->hooks.gone) {
            r = r->next;
            continue;
        }
        http_req_tell_gone(r);
        r = s->orphans; /* the callback may have ended others, too */
    }
}

/* From a timer of the loop, hence never inside a call of the handler. */
static void on_kick(void *arg)
{
    struct http_server *s = arg;
    struct http_conn *c;

    tell_orphans(s);

    LIST_FOREACH (c, &s->conns, entry) {
        if (c->resume && c->phase != CONN_CLOSED)
            http_conn_resume(c);
    }
    if (!s->closing || s->done_called || !LIST_EMPTY(&s->conns) || s->listeners)
        return;
    s->done_called = true;
    timer_stop(s->grace);
    timer_stop(s->sweep);
    if (s->done)
        s->done(s->done_arg);
}

void http_server_kick(struct http_server *s)
{
    timer_start(s->kick, 0, 0);
}

void http_server_conn_closed(struct http_server *s)
{
    if (s->closing) {
        http_server_kick(s);
        return;
    }
    for (struct http_listener *ln = s->listeners; ln; ln = ln->next) {
        if (ln->waiting)
            http_listener_accept(ln);
    }
}

static void on_grace_over(void *arg)
{
    struct http_server *s = arg;
    struct http_conn *c;

    LIST_FOREACH (c, &s->conns, entry)
        http_conn_close(c);
}

struct http_server *http_server_new(struct loop *l, const struct http_limits *lim,
                                    struct http_handler h)
{
    struct http_server *s = xcalloc(1, sizeof(*s));

    s->loop = l;
    s->lim = lim ? *lim : http_limits_default;
    s->h = h;
    s->sweep = timer_new(l, on_sweep, s);
    s->kick = timer_new(l, on_kick, s);
    s->grace = timer_new(l, on_grace_over, s);
    return s;
}

void http_server_shutdown(struct http_server *s, int64_t grace_ms, void (*done)(void *), void *arg)
{
    struct http_conn *c;

    if (s->closing)
        return;
    s->closing = true;
    s->done = done;
    s->done_arg = arg;
    http_listeners_close(s);
    LIST_FOREACH (c, &s->conns, entry) {
        if (c->phase == CONN_IDLE || c->phase == CONN_LINGER)
            http_conn_close(c);
        else if (c->phase == CONN_STREAM)
            http_stream_cut(c->req);
    }
    timer_start(s->grace, grace_ms, 0);
    http_server_kick(s);
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    ASSERT(LIST_EMPTY(&s->conns) && !s->listeners);
    while (s->orphans)
        http_req_free(s->orphans);
    timer_free(s->sweep);
    timer_free(s->kick);
    timer_free(s->grace);
    buf_done(&s->scratch);
    compressor_free(s->compressor);
    free(s->tls_plain);
    map_u64_done(&s->shares);
    free(s);
}

struct http_server_stats http_server_stats(const struct http_server *s)
{
    return s->stats;
}

const char *http_server_date(struct http_server *s)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec != s->date_s) {
        s->date_s = now.tv_sec;
        http_date_format(now.tv_sec, s->date);
    }
    return s->date;
}
