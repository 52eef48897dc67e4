/* http_server.h - HTTP/1.1 on the loop: requests in, replies now or later
 *
 * One handler gets every request once its head and body are complete (bodies up to the limit that
 * `body_max` answers for that head).  It must cause exactly one reply: http_reply*, or
 * http_stream_begin … http_stream_end; either before it returns or any time later (commit before
 * reply).  A request stays valid until its reply was sent or its connection went away; after
 * `on_gone` it must not be touched.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <netinet/in.h>
#include <sys/types.h>

struct arena;
struct loop;
struct http_server;
struct http_req;

struct http_limits {
    size_t head_bytes;   /* request line and headers; 431 beyond */
    size_t body_bytes;   /* default body limit; 413 beyond */
    size_t connections;  /* accepted at once; more wait in the backlog */
    size_t reserved;     /* of them, for shares with `reserve` only */
    int64_t head_ms;     /* time to send a whole head (408) */
    int64_t body_ms;     /* without a byte of body */
    int64_t idle_ms;     /* keep-alive */
    int64_t write_ms;    /* a reader that takes nothing for so long is cut off */
    size_t stream_bytes; /* unsent bytes a slow stream may pile up before it is cut off */
};
extern const struct http_limits http_limits_default;

struct http_peer {
    bool is_unix;
    uid_t uid; /* peer credentials; only with is_unix */
    gid_t gid;
    pid_t pid;
    bool local; /* over TCP: from this very host */
    bool tls;
    /* Over TCP: both ends, as IPv6 (IPv4 as ::ffff:a.b.c.d). */
    struct in6_addr from, to;
    uint16_t from_port, to_port;
};

/* What a caller may have open at once.  Connections with the same key are counted together; half of
 * them may be streams. */
struct http_share {
    uint64_t key;
    unsigned part;   /* 1/part of the server's connections */
    int64_t idle_ms; /* instead of the server's limit when shorter is wanted; 0 = the server's */
    bool reserve;    /* may use all connections, and those that are kept back from others */
};
/* How much the caller of a request may have, and whether one more stream fits. */
struct http_share_room {
    uint64_t key; /* 0 = nothing is counted */
    size_t connections, streams;
    bool free;
};

/* Both ends of a TCP connection, and `local`; false: it is none, or gone. */
bool http_peer_of(int fd, struct http_peer *out);

/* What the server calls, always on the loop thread.  `self` is passed through. */
struct http_handler {
    void (*request)(void *self, struct http_req *r);
    /* Larger or smaller body limit for this path; may be NULL. */
    size_t (*body_max)(void *self, struct http_req *r);
    void *self;
    /* May be NULL.  True: the body of this request is not kept; `piece` gets it as it arrives, and
     * `request` follows with an empty one when it is complete.  Asked when the head is there.  Who
     * says true sets http_on_gone before: it is called when the client leaves on the way. */
    bool (*in_pieces)(void *self, struct http_req *r);
    /* Must not reply.  http_body_pause keeps more from coming, except what was read already. */
    void (*piece)(void *self, struct http_req *r, struct str bytes);
    /* May be NULL: then nobody is counted.  Asked once for every new connection. */
    struct http_share (*share)(void *self, const struct http_peer *p);
    /* May be NULL.  A connection was refused because `s` has `most` of them open, or because those
     * that are left are kept for others. */
    void (*refused)(void *self, const struct http_share *s, size_t most);
};

struct http_server *http_server_new(struct loop *l, const struct http_limits *lim,
                                    struct http_handler h);
/* Unix socket: made with `mode`; a stale one (nobody answers) is replaced, a live one is
 * ERR_CONFLICT. */
int http_server_listen_unix(struct http_server *s, const char *path, mode_t mode, struct err *e);
/* Numeric address; port 0 picks one, *out_port tells.  tls_cert/tls_key NULL for plain. */
int http_server_listen_tcp(struct http_server *s, const char *addr, int port, const char *tls_cert,
                           const char *tls_key, int *out_port, struct err *e);
/* Serves one connected socket (tests, socket pairs, inherited descriptors); takes fd. */
int http_server_adopt_take(struct http_server *s, int fd, struct err *e);
/* The same for a unix socket behind which a stranger is, such as a job on another host: nothing is
 * believed of the descriptor, so only a token opens anything. */
int http_server_adopt_stranger_take(struct http_server *s, int fd, struct err *e);
/* Stops accepting, lets replies under way finish for at most grace_ms, ends streams, then calls
 * done. */
void http_server_shutdown(struct http_server *s, int64_t grace_ms, void (*done)(void *), void *arg);
void http_server_free(struct http_server *s); /* after shutdown's done */
/* Counters since the server was made; the two *_open are current numbers, bytes include TLS. */
struct http_server_stats {
    uint64_t requests, connections_open, streams_open, bytes_in, bytes_out, refused;
};
struct http_server_stats http_server_stats(const struct http_server *s);

/* ---- reading a request: all borrowed, valid as long as the request ---- */
struct str http_method(const struct http_req *r);
struct str http_path(
    const struct http_req *r); /* percent-decoded; %00 and invalid UTF-8 were refused with 400 */
struct str http_query(const struct http_req *r); /* raw, without '?' */
/* Decoded value of a query parameter, or NULL.  Lives in the request's arena. */
const char *http_param(struct http_req *r, const char *name);
/* The same for a copy of a query, on any thread; the value lives in `mem`. */
const char *http_query_param(struct str query, const char *name, struct arena *mem);
/* The next pair of a query, decoded; false: there is none left. */
bool http_query_next(struct str *rest, struct arena *mem, char **out_key, char **out_value);
struct str http_header(const struct http_req *r,
                       const char *name); /* {NULL,0} when absent; name lower case */
struct str http_body(const struct http_req *r);
char *http_body_take(struct http_req *r, size_t *out_n); /* moves the body out, for big ones */
/* While paused nothing more is read of a body in pieces, and its time limit does not count. */
void http_body_pause(struct http_req *r, bool paused);
const struct http_peer *http_peer(const struct http_req *r);
/* The caller has shown who it is: the connection counts there from now on.  False: that share is
 * full, and nothing has changed. */
bool http_share_move(struct http_req *r, const struct http_share *s);
struct http_share_room http_share_room(const struct http_req *r);
/* Free slot for the api room: who is asking. */
void http_set_data(struct http_req *r, void *data);
void *http_data(const struct http_req *r);
/* fn is called once if the client leaves before the reply (or a stream was cut), from the loop and
 * never inside a call of the handler; r ends when fn returns.  Until then every call on r is safe
 * and does nothing.  Without fn a request whose client left stays valid until it is replied to, so
 * a handler that only commits and replies needs none. */
void http_on_gone(struct http_req *r, void (*fn)(void *arg, struct http_req *r), void *arg);

/* ---- replying ---- */
void http_reply_header(struct http_req *r, const char *name,
                       const char *value); /* before the reply */
/* Copies body.  Compressed (zstd, gzip as the client accepts) when text or JSON of 1 KiB or more.
 * HEAD sends no body. 304 and 204 neither. */
void http_reply(struct http_req *r, int status, const char *content_type, struct str body);
void http_reply_take(struct http_req *r, int status, const char *content_type, char *body,
                     size_t n);
/* {"error":{"code":"not_found","message":"…"}} with the status of the code. */
void http_reply_err(struct http_req *r, const struct err *e);
/* Adds the ETag; true when the client has this version: 304 was sent and r is done with.  etag with
 * its quotes. */
bool http_not_modified(struct http_req *r, const char *etag);
/* A regular file: Range (one range → 206, bad → 416), If-None-Match, Last-Modified; read in pieces
 * on worker threads.  Missing → 404. Takes fd. */
void http_reply_fd_take(struct http_req *r, int fd, const char *content_type);

/* ---- streams: server-sent events and followed logs ---- */
/* Chunked reply head goes out at once.  For SSE content_type is "text/event-stream". */
void http_stream_begin(struct http_req *r, int status, const char *content_type);
/* False when the peer is too slow or gone: the stream was cut and on_gone was or will be called. */
bool http_stream_write(struct http_req *r, struct str bytes);
/* Ends the stream in order; counts as the reply, so r must not be used afterwards, and no callback
 * follows. */
void http_stream_end(struct http_req *r);
/* Breaks it off so that the client sees that something is missing; instead of http_stream_end. */
void http_stream_abort(struct http_req *r);
size_t http_stream_backlog(const struct http_req *r); /* unsent bytes */
/* fn is called each time the backlog of a stream has gone down to nothing: whoever has much to send
 * writes a piece, and the next one from fn. */
void http_on_drain(struct http_req *r, void (*fn)(void *arg, struct http_req *r), void *arg);
/* "id: N\nevent: kind\ndata: …\n\n" into b; data may hold newlines. */
void sse_format(struct buf *b, uint64_t id, const char *kind, struct str data);
/* Last-Event-ID header or ?after=N; 0 when neither. */
uint64_t sse_resume_id(struct http_req *r);
