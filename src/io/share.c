/* share.c - how much of a server each caller has open
 *
 * Owns: the counts of connections and streams per share, and the question whether one more fits.
 * Does not own: who has which share.  The handler says so (http_handler.share).
 *
 * A share with `reserve` may use all connections of the server.  All others together leave
 * http_limits.reserved connections free, so whatever they do, who has the reserve gets in.  A
 * connection beyond its share is accepted, hears 503 and is closed: left in the kernel's backlog it
 * would keep out those behind it.
 */
#include "io/http_priv.h"

struct share_use {
    struct http_share is;
    size_t connections, streams;
};

static size_t share_most(const struct http_server *s, const struct http_share *is)
{
    return MAX(s->lim.connections / MAX(is->part, 1), 1);
}

/* Half of the connections, so that a caller who follows as much as possible can still ask. */
static size_t share_most_streams(const struct http_server *s, const struct http_share *is)
{
    return is->reserve ? s->lim.connections : MAX(share_most(s, is) / 2, 1);
}

static bool share_has_room(const struct http_server *s, const struct http_share *is,
                           const struct share_use *u, bool counted)
{
    if (is->reserve)
        return true; /* the limit of the server is the listener's matter */
    return (!u || u->connections < share_most(s, is)) &&
           (counted || s->common < s->lim.connections - MIN(s->lim.reserved, s->lim.connections));
}

/* False: the share is full, and nothing has changed. */
static bool share_enter(struct http_conn *c, const struct http_share *is)
{
    struct http_server *s = c->srv;
    struct share_use *u = map_u64_get(&s->shares, is->key);
    bool counted = c->share && !c->share->is.reserve;

    if (!share_has_room(s, is, u, counted))
        return false;
    if (!u) {
        u = xcalloc(1, sizeof(*u));
        map_u64_put(&s->shares, is->key, u);
    }
    u->is = *is;
    u->connections++;
    s->common += !is->reserve;
    http_share_leave(c);
    c->share = u;
    return true;
}

void http_share_leave(struct http_conn *c)
{
    struct share_use *u = TAKE(c->share);

    if (!u)
        return;
    c->srv->common -= !u->is.reserve;
    if (--u->connections == 0) {
        ASSERT(u->streams == 0);
        free(map_u64_del(&c->srv->shares, u->is.key));
    }
}

bool http_share_open(struct http_conn *c)
{
    struct http_server *s = c->srv;
    struct http_share is;

    if (!s->h.share)
        return true;
    is = s->h.share(s->h.self, &c->peer);
    if (share_enter(c, &is))
        return true;
    if (s->h.refused)
        s->h.refused(s->h.self, &is, share_most(s, &is));
    /* Only so many may stay until they have read why; and TLS has no keys yet. */
    if (c->tls || s->refusing >= s->lim.reserved / 4) {
        http_conn_close(c);
        return false;
    }
    s->refusing++;
    c->refusing = true;
    c->req = http_req_new(c);
    http_conn_refuse(c, 503, "too many connections are open; close some, or try again later");
    return false;
}

bool http_share_move(struct http_req *r, const struct http_share *is)
{
    struct http_conn *c = r->c;

    if (!c || !c->share || c->share->is.key == is->key)
        return true;
    return share_enter(c, is);
}

struct http_share_room http_share_room(const struct http_req *r)
{
    const struct http_conn *c = r->c;

    if (!c || !c->share)
        return (struct http_share_room){.connections = SIZE_MAX, .streams = SIZE_MAX, .free = true};
    size_t streams = share_most_streams(c->srv, &c->share->is);
    return (struct http_share_room){.key = c->share->is.key,
                                    .connections = share_most(c->srv, &c->share->is),
                                    .streams = streams,
                                    .free = c->share->streams < streams};
}

void http_share_stream(struct http_conn *c, bool begins)
{
    if (begins)
        c->srv->stats.streams_open++;
    else
        c->srv->stats.streams_open--;
    if (c->share && begins)
        c->share->streams++;
    else if (c->share)
        c->share->streams--;
}

int64_t http_share_idle_ms(const struct http_conn *c)
{
    return c->share && c->share->is.idle_ms ? c->share->is.idle_ms : c->srv->lim.idle_ms;
}
