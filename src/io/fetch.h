/* fetch.h - the HTTP client of Berth: asynchronous, on the loop
 *
 * A fetcher is one peer with its token and its kept connections; a fetch is one request under way.
 * Every function and every callback belongs to the loop thread.  A fetch ends in exactly one way:
 * its `done` is called, once, or it is cancelled and nothing is called any more.  No callback runs
 * before the function that started the fetch has returned, and callbacks may start, cancel, pause
 * and resume fetches, and free the fetcher.
 *
 * unix:PATH needs nothing but this room.  http:// and https:// go through libcurl, opened on first
 * use: a missing library is an error of those fetches alone.  The proxies of the environment
 * (http_proxy, https_proxy, no_proxy) are used except for this host's own loopback.  Redirects are
 * not followed.
 */
#pragma once
#include "io/http_exchange.h"
#include "io/http_response.h"
#include <stdint.h>

struct loop;
struct fetcher;
struct fetch;

/* target: "unix:/run/…/sock", "http://host:port", "https://host/prefix".  token may be NULL.
 * ca_file may be NULL: the authorities of the system; reading them takes 28 ms of the loop thread
 * at the first TLS connection of each fetcher, so keep a fetcher while its peer may be called
 * again. A target that names no server is an error of each fetch. */
struct fetcher *fetcher_new(struct loop *l, const char *target, const char *token,
                            const char *ca_file);
void fetcher_free(struct fetcher *f); /* cancels its fetches; NULL is fine */

/* 0 = no limit, except where a default is named.  NULL in a call means all zero. */
struct fetch_limits {
    int64_t connect_ms; /* until the connection stands; 0 = 10 s */
    int64_t total_ms;   /* from the start to the last byte; 0 for a watch that stays open */
    int64_t idle_ms;    /* without a byte of the answer; does not count while paused */
    size_t body_bytes;  /* fetch_collect only: ERR_LIMIT beyond; 0 = 64 MiB */
};
struct fetch_fns {
    /* Status and header values, before the first piece of body; or NULL. */
    void (*head)(void *arg, const struct http_response *r);
    /* A piece of body, borrowed until the function returns; or NULL. */
    void (*body)(void *arg, struct str piece);
    /* The last callback.  NULL: the answer arrived whole, whatever its status.  ERR_UNAVAILABLE:
     * no connection (sys is then ECONNREFUSED or another errno, and nothing was sent), a broken
     * one, no HTTP, or a time limit.  ERR_BUSY: the source of the body gave up. */
    void (*done)(void *arg, const struct err *why);
};

/* Starts a request; never NULL.  `q` is copied, except that its body or source and `fns` are
 * borrowed until the fetch has ended.  The token of the fetcher is used unless `q` has one.
 *
 * A kept connection may turn out to be closed by the server.  The request is then sent again on a
 * new one if nothing was received and http_request_repeatable is true. */
struct fetch *fetch_start(struct fetcher *f, const struct http_request *q,
                          const struct fetch_limits *lim, const struct fetch_fns *fns, void *arg);
/* `r` is the whole answer (its body may be moved out, the rest is freed afterwards), or NULL and
 * `why` tells. */
typedef void (*fetch_collected_fn)(void *arg, struct http_response *r, const struct err *why);
struct fetch *fetch_collect(struct fetcher *f, const struct http_request *q,
                            const struct fetch_limits *lim, fetch_collected_fn fn, void *arg);
/* Ends the fetch without a further callback.  x must not be used afterwards.  In `done` x has ended
 * already, and nothing happens; NULL is fine. */
void fetch_cancel(struct fetch *x);
/* While paused nothing more is read, so that a slow consumer slows the server down; up to 64 KiB
 * that were read before may still be handed over. */
void fetch_pause(struct fetch *x, bool paused);
