/* http_client_url.c - blocking calls to URLs: the asynchronous client on a loop of its own
 *
 * The loop is private to the client and turns only while a call is under way.
 */
#include "base/util.h"
#include "io/fetch_priv.h"
#include "io/http_client_priv.h"
#include "io/loop_priv.h"
#include <signal.h>

enum { ASK_MS = 200 }; /* how often `asked` is called */

/* One call.  Lives on the stack of http_url_call. */
struct url_call {
    struct http_client *c;
    struct http_ask *ask;
    struct fetch *fetch;
    bool over;
    int rc;
    struct err *e;
};

static void url_call_over(struct url_call *u, int rc)
{
    u->rc = rc;
    u->over = true;
    loop_stop(u->c->loop);
}

static void url_on_head(void *arg, const struct http_response *r)
{
    struct url_call *u = arg;

    struct buf body = u->ask->out->body; /* collected by on_bytes */

    *u->ask->out = *r;
    u->ask->out->body = body;
    if (u->ask->live_status)
        *u->ask->live_status = r->status;
}

static void url_on_body(void *arg, struct str piece)
{
    struct url_call *u = arg;

    if (u->ask->on_bytes(u->ask->arg, piece))
        return;
    u->ask->stopped = true;
    url_call_over(u, 0);
    fetch_cancel(u->fetch);
}

static void url_on_done(void *arg, const struct err *why)
{
    struct url_call *u = arg;

    if (why && u->e)
        *u->e = *why;
    url_call_over(u, why ? -1 : 0);
}

static void url_on_look(void *arg)
{
    struct url_call *u = arg;

    if (u->over || !u->c->asked(u->c->asked_arg))
        return;
    err_set(u->e, ERR_BUSY, "the call to %s was interrupted", u->c->target);
    url_call_over(u, -1);
    fetch_cancel(u->fetch);
}

/* The loop makes the process ignore SIGPIPE.  A command whose reader left should end by it, as any
 * other; sockets are written to without that signal. */
static void url_open(struct http_client *c)
{
    struct sigaction before;

    sigaction(SIGPIPE, NULL, &before);
    c->loop = loop_new();
    sigaction(SIGPIPE, &before, NULL);
    c->fetcher = fetcher_new(c->loop, c->target, NULL, c->ca_file);
}

int http_url_call(struct http_client *c, struct http_ask *a, struct err *e)
{
    static const struct fetch_fns fns = {url_on_head, url_on_body, url_on_done};
    struct url_call u = {.c = c, .ask = a, .e = e};
    struct timer *look = NULL;
    bool before = loop_slow_is_fine;

    if (!c->loop)
        url_open(c);
    loop_slow_is_fine = true; /* nothing but this call waits */
    u.fetch = fetch_start(c->fetcher, &a->request, NULL, &fns, &u);
    if (c->asked) {
        look = timer_new(c->loop, url_on_look, &u);
        timer_start(look, ASK_MS, ASK_MS);
    }
    while (!u.over)
        loop_run(c->loop);
    timer_free(look);
    loop_slow_is_fine = before;
    return u.rc;
}

void http_url_close(struct http_client *c)
{
    fetcher_free(c->fetcher);
    loop_free(c->loop);
}
