/* keep.c - queues that a connection keeps open: POST /v1/queues/{name}/keep
 *
 * Owns: the open streams of keepers.
 *
 * A program whose jobs need it (they ask its port, say) keeps their queue open by a request that
 * does not end.  When the connection goes, however the program ended, nothing more of the queue
 * starts.  The stream also tells of troubles of the machine, which are the other reason why nothing
 * starts.
 */
#include "api/api_priv.h"
#include "core/trouble.h"
#include <sys/queue.h>

enum { KEEP_PING_MS = 15000 }; /* below the idle limit of common proxies */

struct keep {
    LIST_ENTRY(keep) entry;
    struct keeps *all;
    char *queue;
    struct http_req *req; /* NULL until the keeping is durable */
};

LIST_HEAD(keep_list, keep);
struct keeps {
    struct api *api;
    struct keep_list list;
    struct timer *ping;
};

static void keep_end(struct keep *k)
{
    LIST_REMOVE(k, entry);
    core_queue_unkeep(k->all->api->conf.core, str_of(k->queue));
    free(k->queue);
    free(k);
}

static void keep_gone(void *arg, struct http_req *r)
{
    (void)r;
    keep_end(arg);
}

static void keep_tell(struct keep *k, struct str text)
{
    AUTO(buf) struct buf b = {0};

    buf_init(&b, 4096);
    sse_format(&b, 0, "trouble", text);
    http_stream_write(k->req, buf_str(&b));
}

/* The queue is recorded as kept: the stream begins. */
static void keep_recorded(void *arg, const struct err *e, const struct acted *r)
{
    struct call *c = arg;
    struct keep *k = c->data;
    const struct trouble *t = core_in_trouble(call_api(c)->conf.core, NULL);

    (void)r;
    if (e || call_closing(c)) {
        keep_end(k);
        if (e)
            call_fail(c, e);
        else
            call_fail_closing(c);
        return;
    }
    k->req = call_take_req(c);
    if (k->req) {
        http_on_gone(k->req, keep_gone, k);
        http_stream_begin(k->req, 200, "text/event-stream");
        http_stream_write(k->req, STR(": berth\n\n"));
        if (t)
            keep_tell(k, str_of(t->text));
        timer_start(k->all->ping, KEEP_PING_MS, KEEP_PING_MS);
    } else {
        keep_end(k); /* the client has left already */
    }
    call_free(c);
}

void queues_keep(struct call *c)
{
    struct keeps *all = call_api(c)->keeps;

    if (!queue_name_check(c) || call_stream_check(c) < 0)
        return;
    struct keep *k = xcalloc(1, sizeof(*k));
    *k = (struct keep){.all = all, .queue = xstrndup(c->arg[0].p, c->arg[0].n)};
    LIST_INSERT_HEAD(&all->list, k, entry);
    c->data = k;
    core_queue_keep(all->api->conf.core, str_of(k->queue), &c->who.caller, keep_recorded, c);
}

static void keeps_ping(void *arg)
{
    struct keeps *all = arg;
    struct keep *k;

    LIST_FOREACH (k, &all->list, entry)
        if (k->req && http_stream_backlog(k->req) == 0)
            http_stream_write(k->req, STR(": still here\n\n"));
    if (LIST_EMPTY(&all->list))
        timer_stop(all->ping);
}

void keeps_troubled(struct keeps *all, struct str text)
{
    struct keep *k;

    LIST_FOREACH (k, &all->list, entry)
        if (k->req)
            keep_tell(k, text);
}

struct keeps *keeps_new(struct api *a)
{
    struct keeps *all = xcalloc(1, sizeof(*all));

    all->api = a;
    all->ping = timer_new(a->conf.loop, keeps_ping, all);
    return all;
}

/* The core may be gone. */
void keeps_free(struct keeps *all)
{
    struct keep *k;

    if (!all)
        return;
    while ((k = LIST_FIRST(&all->list))) {
        LIST_REMOVE(k, entry);
        free(k->queue);
        free(k);
    }
    timer_free(all->ping);
    free(all);
}
