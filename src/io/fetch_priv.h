/* fetch_priv.h - what the two transports of the client share */
#pragma once
#include "base/vec.h"
#include "io/fetch.h"
#include "io/loop.h"
#include <sys/queue.h>

TAILQ_HEAD(fetch_list, fetch);

/* How requests travel.  None of the functions calls back before it returns, except `resume`. */
struct fetch_transport {
    /* Copies what it needs of the request; nothing is sent. */
    void (*prepare)(struct fetch *x, const struct http_request *q);
    /* 0 = under way, 1 = cannot begin yet, the transport calls fetcher_kick, -1 = failed. */
    int (*begin)(struct fetch *x, struct err *e);
    void (*pause)(struct fetch *x);  /* x->paused was set; NULL: that is enough */
    void (*resume)(struct fetch *x); /* x->paused was cleared */
    /* Frees x->via.  whole: the answer arrived whole, and the connection may be kept. */
    void (*end)(struct fetch *x, bool whole);
    void (*close)(struct fetcher *f); /* kept connections, and f->via */
};
extern const struct fetch_transport fetch_over_unix, fetch_over_curl;

struct fetcher {
    struct loop *loop;
    const struct fetch_transport *over;
    char *target, *token, *ca_file;
    void *via; /* of the transport */
    /* Every fetch is in one of the two lists until it has ended.  `todo`: something is left to do
     * that cannot be done inside a callback (begin, resume, free); the kick timer does it. */
    struct fetch_list todo, live;
    struct timer *kick;
    int inside; /* depth of callbacks of the loop that use this fetcher */
    bool freed; /* by its owner, inside a callback */
};

struct fetch {
    struct fetcher *owner;
    TAILQ_ENTRY(fetch) entry;
    bool in_todo, begun, paused, cancelled, ended;
    void *via;                   /* of the transport */
    const struct fetch_fns *fns; /* NULL: collected */
    fetch_collected_fn collected;
    void *arg;
    struct fetch_limits limits;
    struct timer *timer; /* of total_ms and idle_ms; NULL without them */
    bool looked;         /* for the last time, after a limit has run out */
    int64_t started_ms, heard_ms;
    struct http_response answer; /* status and values, body only when collected */
};

/* Around everything that a callback of the loop does with a fetcher: its owner may free the fetcher
 * in between, which then happens in fetcher_leave. */
void fetcher_enter(struct fetcher *f);
void fetcher_leave(struct fetcher *f);
void fetcher_kick(struct fetcher *f, int64_t after_ms); /* looks at todo again */

/* What a transport reports.  fetch_got_piece is false when no more is wanted.  fetch_finish ends x;
 * it must not be called for a cancelled fetch, nor inside a call of libcurl. */
void fetch_got_head(struct fetch *x, int status);
bool fetch_got_piece(struct fetch *x, struct str piece);
void fetch_begin_again(struct fetch *x); /* calls `begin` once more, soon */
void fetch_finish(struct fetch *x, const struct err *why);
