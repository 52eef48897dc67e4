/* events.c - the event stream: GET /v1/events and /v1/jobs/{job}/events
 *
 * Owns: the open streams and how far each has been told.
 *
 * After a commit the new rows are read once, on a worker thread, formatted once, and written to
 * every stream they concern.  A stream that resumes from an older id first reads pages of its own
 * until it has caught up, then joins the others; nothing is skipped or sent twice, because each
 * stream knows the last number it has seen.  Commits that follow each other within
 * READ_EVERY_MS are read together.
 *
 * An idle stream costs its connection, a few words here, and a comment line every PING_MS.
 */
#include "api/api_priv.h"
#include "api/event_page.h"
#include "api/job_json.h"
#include <sys/queue.h>

enum {
    LIVE_PAGE = 1000,   /* events read at once */
    READ_EVERY_MS = 10, /* a busy scheduler commits several hundred times a second */
    PING_MS = 15000,    /* below the idle limit of common proxies */
};

struct stream {
    LIST_ENTRY(stream) entry;
    struct events *ev;
    struct http_req *req; /* NULL when the client left while a page of its own was being read */
    struct event_filter filter;
    uint64_t pos; /* told so far */
    bool behind;  /* reads pages of its own; else it is fed by the common read */
    bool reading; /* one of them is with a worker thread */
};

LIST_HEAD(stream_list, stream);
struct events {
    struct api *api;
    struct stream_list streams;
    size_t n_streams, n_foreign; /* n_foreign: of people who see only their own jobs */
    uint64_t sent;               /* the common read is this far */
    int64_t last_read_ms;
    struct timer *read_timer, *ping_timer;
    /* reading: the common read is with a worker thread.  again: it must be repeated after that. */
    bool reading, again;
};

/* ---- life of a stream ---- */

/* Loop thread.  Without streams nothing is read and no ping is sent, so both timers stop. */
static void stream_free(struct stream *st)
{
    struct events *ev = st->ev;

    LIST_REMOVE(st, entry);
    ev->n_streams--;
    ev->n_foreign -= !st->filter.all;
    if (ev->n_streams == 0) {
        timer_stop(ev->ping_timer);
        timer_stop(ev->read_timer);
    }
    free(st);
}

/* The client left.  A worker thread may still use the stream; catch_up_done frees it then. */
static void on_stream_gone(void *arg, struct http_req *r)
{
    struct stream *st = arg;

    (void)r;
    st->req = NULL;
    if (!st->reading)
        stream_free(st);
}

/* A stream that was cut takes no more; on_stream_gone follows by itself. */
static bool stream_send(struct stream *st, struct str bytes, uint64_t pos)
{
    st->pos = MAX(st->pos, pos);
    return bytes.n == 0 || http_stream_write(st->req, bytes);
}

/* Sends a stream what it may see of a page that was read for all streams. */
static void feed(struct stream *st, const struct event_page *p)
{
    AUTO(buf) struct buf some = {0};

    if (st->pos < p->last)
        stream_send(st, event_page_select(p, &st->filter, st->pos, &some), p->last);
}

/* ---- the common read ---- */

/* live_done and live_start call each other until all pages are read. */
static void live_start(struct events *ev);

/* Loop thread: hands the page to every stream that has caught up. */
static void live_done(void *arg)
{
    struct event_page *p = arg;
    struct events *ev = p->owner;

    request_server_release(ev->api->conf.requests);
    ev->reading = false;
    ev->last_read_ms = loop_mono_ms(ev->api->conf.loop);
    ev->sent = MAX(ev->sent, p->last);
    struct stream *st;
    LIST_FOREACH (st, &ev->streams, entry)
        if (!st->behind)
            feed(st, p);
    if (p->full)
        ev->again = true;
    event_page_free(p);
    if (ev->again)
        live_start(ev);
}

/* Reads the next page for all streams; there is at most one such read at a time. */
static void live_start(struct events *ev)
{
    struct event_page *p;

    ev->again = false;
    if (ev->n_streams == 0 || request_server_closing(ev->api->conf.requests))
        return;
    p = event_page_new(ev->api->conf.store, ev, ev->sent, LIVE_PAGE);
    p->sse = true;
    p->owners = ev->n_foreign > 0;
    ev->reading = true;
    request_server_hold(ev->api->conf.requests);
    work_submit(ev->api->conf.loop, event_page_read, live_done, p);
}

/* Reads now, or right after the read that is under way. */
static void read_soon(struct events *ev)
{
    if (ev->reading)
        ev->again = true;
    else
        live_start(ev);
}

static void on_read_timer(void *arg)
{
    read_soon(arg);
}

void events_committed(struct events *ev)
{
    int64_t since = loop_mono_ms(ev->api->conf.loop) - ev->last_read_ms;

    if (ev->n_streams == 0)
        return;
    if (ev->reading || since >= READ_EVERY_MS)
        read_soon(ev);
    else
        timer_start(ev->read_timer, READ_EVERY_MS - since, 0);
}

/* ---- catching up ---- */

static void catch_up(struct stream *st);

/* Loop thread: sends the page; a stream that is still behind reads on. */
static void catch_up_done(void *arg)
{
    struct event_page *p = arg;
    struct stream *st = p->owner;
    struct events *ev = st->ev;

    request_server_release(ev->api->conf.requests);
    st->reading = false;
    if (!st->req) {
        stream_free(st);
    } else if (p->err.code != ERR_NONE) { /* the client comes back and resumes */
        http_stream_end(TAKE(st->req));
        stream_free(st);
    } else if (stream_send(st, buf_str(&p->text), p->last)) {
        st->behind = p->full || st->pos < ev->sent;
        if (!st->behind)
            read_soon(ev); /* what was committed since nobody listened */
        else if (http_stream_backlog(st->req) == 0)
            catch_up(st); /* else on_stream_drain goes on: a slow reader is not cut off */
    }
    event_page_free(p);
}

/* Reads the next page for this stream alone, from its own position and with its own filter. */
static void catch_up(struct stream *st)
{
    struct event_page *p;

    /* A page that is not full has seen everything committed before it was asked for. */
    p = event_page_new(st->ev->api->conf.store, st, st->pos, LIVE_PAGE);
    p->sse = true;
    p->filter = st->filter;
    p->seen = st->ev->sent;
    st->behind = st->reading = true;
    request_server_hold(st->ev->api->conf.requests);
    work_submit(st->ev->api->conf.loop, event_page_read, catch_up_done, p);
}

/* The client has taken everything: a stream that is behind may read its next page. */
static void on_stream_drain(void *arg, struct http_req *r)
{
    struct stream *st = arg;

    (void)r;
    if (st->behind && !st->reading)
        catch_up(st);
}

/* A client that still has bytes to take gets no ping: those bytes show that the stream lives. */
static void on_ping(void *arg)
{
    struct events *ev = arg;
    struct stream *st;

    LIST_FOREACH (st, &ev->streams, entry)
        if (st->req && http_stream_backlog(st->req) == 0)
            http_stream_write(st->req, STR(": still here\n\n"));
}

/* Takes over the request.  Without `resume` the stream begins with the next event.  An `after`
 * beyond the newest event (the home was restored from a backup) is treated as the newest. */
static void event_stream_open(struct events *ev, struct http_req *r, const struct event_filter *f,
                              bool resume, uint64_t after)
{
    struct stream *st = xcalloc(1, sizeof(*st));
    uint64_t newest = store_last_event(ev->api->conf.store);

    if (ev->n_streams == 0) {
        ev->sent = newest;
        timer_start(ev->ping_timer, PING_MS, PING_MS);
    }
    *st = (struct stream){.ev = ev, .req = r, .filter = *f};
    LIST_INSERT_HEAD(&ev->streams, st, entry);
    ev->n_streams++;
    ev->n_foreign += !f->all;
    http_on_gone(r, on_stream_gone, st);
    http_on_drain(r, on_stream_drain, st);
    http_stream_begin(r, 200, "text/event-stream");
    /* The head of a reply without a body byte may wait in a proxy. */
    http_stream_write(r, STR(": berth\n\n"));
    st->pos = resume ? MIN(after, newest) : MAX(newest, ev->sent);
    if (st->pos < ev->sent)
        catch_up(st);
    else
        read_soon(ev);
}

/* ---- requests ---- */

struct events_call {
    struct event_filter filter;
    uint64_t after;
    size_t limit;
    bool resume, stream, named;
};

/* The answer to a request that does not follow: one page as a JSON object. */
static int page_run(struct call *c, const struct events_call *d)
{
    struct event_page *p = event_page_new(call_api(c)->conf.store, NULL, d->after, d->limit);
    bool ok;

    p->filter = d->filter;
    event_page_read(p);
    ok = p->err.code == ERR_NONE;
    if (ok) {
        jw_object(&c->out, NULL);
        jw_array(&c->out, "items");
        jw_members(&c->out, buf_str(&p->text));
        jw_end_array(&c->out);
        jw_int(&c->out, "next", (int64_t)p->last);
        jw_bool(&c->out, "more", p->full);
        jw_end_object(&c->out);
    } else {
        c->err = p->err;
    }
    event_page_free(p);
    return ok ? 0 : -1;
}

/* Worker thread: resolves the job, and reads the page unless the caller wants a stream. */
static int events_run(struct call *c)
{
    struct events_call *d = c->data;
    struct job_facts f;

    if (d->named) {
        if (job_ref_arg(c, &f) < 0)
            return -1;
        d->filter.job = f.seq;
    }
    return d->stream ? 0 : page_run(c, d);
}

/* Loop thread: sends the page, or turns the request into a stream.  The call ends here either way.
 */
static void events_then(struct call *c)
{
    struct events_call *d = c->data;
    struct http_req *r;

    if (!d->stream) {
        call_reply(c);
        return;
    }
    if (call_closing(c)) {
        call_fail_closing(c);
        return;
    }
    if (call_stream_check(c) < 0)
        return;
    r = call_take_req(c);
    if (r)
        event_stream_open(call_api(c)->events, r, &d->filter, d->resume, d->after);
    call_free(c);
}

/* Both routes: `stream` follows the events, `named` restricts them to the job of arg[0]. */
static void events_start(struct call *c, bool stream, bool named)
{
    struct events_call *d = call_alloc(c, sizeof(*d));
    int64_t limit, after;

    d->filter = (struct event_filter){.all = c->who.caller.admin, .uid = c->who.caller.uid};
    d->stream = stream;
    d->named = named;
    c->data = d;
    if (call_param_int(c, "limit", API_PAGE_DEFAULT, 1, API_PAGE_MAX, &limit, &c->err) < 0 ||
        call_param_int(c, "after", 0, 0, INT64_MAX, &after, &c->err) < 0) {
        call_fail(c, &c->err);
        return;
    }
    d->limit = (size_t)limit;
    d->resume = call_param(c, "after") != NULL || http_header(c->req, "last-event-id").n > 0;
    d->after = stream ? sse_resume_id(c->req) : (uint64_t)after;
    if (named || !stream)
        call_work(c, events_run, events_then);
    else
        events_then(c);
}

void events_of_job(struct call *c)
{
    events_start(c, false, true);
}

/* Streams by default; ?follow=0 asks for one page as JSON. */
void events_get(struct call *c)
{
    const char *job = call_param(c, "job"), *follow = call_param(c, "follow");

    if (job)
        c->arg[0] = str_of(job);
    events_start(c, !follow || strcmp(follow, "0") != 0, job != NULL);
}

/* ---- the room's side ---- */

struct events *events_new(struct api *a)
{
    struct events *ev = xcalloc(1, sizeof(*ev));

    ev->api = a;
    ev->read_timer = timer_new(a->conf.loop, on_read_timer, ev);
    ev->ping_timer = timer_new(a->conf.loop, on_ping, ev);
    return ev;
}

void events_free(struct events *ev)
{
    if (!ev)
        return;
    while (!LIST_EMPTY(&ev->streams))
        stream_free(LIST_FIRST(&ev->streams));
    timer_free(ev->read_timer);
    timer_free(ev->ping_timer);
    free(ev);
}
