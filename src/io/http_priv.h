/* http_priv.h - the inside of the HTTP server, shared by its files
 *
 *   server.c    listeners' connections, limits over time, shutdown
 *   listen.c    the listening sockets
 *   conn.c      one connection: bytes in, phases, closing
 *   out.c       bytes out: what the kernel did not take yet
 *   parse.c     llhttp, checks of a request's head
 *   req.c       what a handler may ask of a request; its memory
 *   reply.c     whole replies        stream.c   chunked replies and server-sent events
 *   share.c     how much each caller has open
 *   reply_file.c  files and ranges   compress.c gzip and zstd       tls.c  OpenSSL as a filter
 *
 * One request at a time per connection: what a client sends ahead waits in `in`, so replies leave
 * in order by construction.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/util.h"
#include "base/vec.h"
#include "io/http_server.h"
#include "io/loop_priv.h"
#include <llhttp.h>
#include <sys/queue.h>

enum {
    HTTP_FIELDS_MAX = 128,           /* header lines of one request; 431 beyond */
    HTTP_AHEAD_BYTES = 64 * 1024,    /* a client may send ahead while it waits for a reply */
    HTTP_KEEP_BYTES = 8 * 1024,      /* buffers up to this size are kept for the next request */
    HTTP_COMPRESS_MIN = 1024,        /* smaller bodies fit one packet anyway */
    HTTP_COMPRESS_HERE = 256 * 1024, /* larger bodies are compressed on a worker thread: zstd -1
                                        takes 1 ms for this much */
    /* How long a refused client may continue to send before the connection is closed. */
    HTTP_LINGER_MS = 2000,
    HTTP_SPARE_MS = 1000, /* an idle connection gives its request memory back after this */
};

/* Where a connection is in the cycle of request and reply; conn.c draws the transitions. */
enum conn_phase {
    CONN_IDLE,   /* nothing of the next request has arrived */
    CONN_HEAD,   /* part of a head has arrived */
    CONN_BODY,   /* the head is complete, the body is not */
    CONN_BUSY,   /* the handler has the request */
    CONN_STREAM, /* a chunked reply is under way */
    CONN_DRAIN,  /* the reply is complete, its bytes are not all sent */
    CONN_LINGER, /* refused: reading away what the client still sends, so that it sees why */
    CONN_CLOSED, /* waiting for libuv to let go of the handle */
};

/* Offsets and lengths, not pointers: head may be reallocated while the request arrives. */
struct http_field {
    uint32_t name, name_n, value, value_n; /* in head */
};

/* Something that goes on for a request after its handler replied: a file being read, a body being
 * compressed.  Embedded as first member. */
struct http_job {
    struct http_req *r;
    void (*drop)(struct http_job *j);    /* the connection went away: end, now or when back */
    void (*drained)(struct http_job *j); /* all bytes handed over were sent; may be NULL */
};

/* Functions of the handler that hear about the request after it was handed over. */
struct http_hooks {
    void (*gone)(void *arg, struct http_req *r); /* the client left */
    void *gone_arg;
    void (*drain)(void *arg, struct http_req *r); /* all bytes of a stream were sent */
    void *drain_arg;
};

/* How far the reply to a request has come. */
struct http_reply_state {
    bool handed;  /* the handler has the request */
    bool replied; /* the handler has replied; it owes nothing more */
    bool chunked; /* stream framing */
    bool cut;     /* the server ended the stream; the handler is told through hooks.gone */
};

/* Where the target of a request and its parts stand in http_req.head. */
struct http_target {
    uint32_t n;            /* of the target as it was sent, from the beginning of head */
    uint32_t path, path_n; /* decoded */
    uint32_t query, query_n;
};

/* One request.  It belongs to its connection and is reused for the next request; when the
 * client leaves before the reply, the request becomes an orphan of the server until the handler
 * replies. */
struct http_req {
    struct http_conn *c; /* NULL: the client left, the handler still owes its reply */
    struct http_server *srv;
    struct http_req *prev, *next; /* among the server's orphans */
    struct buf head;              /* target, then name NUL value NUL …, then the decoded path */
    /* Header lines in the order of arrival; names are in lower case. */
    VEC(struct http_field) fields;
    struct buf body;
    struct buf extra; /* header lines for the reply */
    /* For decoded parameters; emptied when the request is reused. */
    struct arena arena;
    /* Work in the background for the reply (a file, a compression); NULL = none. */
    struct http_job *job;
    /* Free for the handler: http_set_data and http_data. */
    void *data;
    struct http_hooks hooks;
    struct http_peer peer;
    /* Limit of this request's body in bytes; beyond it the answer is 413. */
    size_t body_max;
    uint64_t body_seen; /* bytes of a body in pieces */
    struct http_target target;
    uint8_t method;
    /* in_value: the parser is inside the value of the last header line.  head_done: the head is
     * complete, so a further header line would be a trailer, which is refused. */
    bool http10, keep_alive, in_value, head_done;
    bool line_ended; /* since the last part of a name or a value, in an earlier read */
    bool pieces;     /* its body goes to the handler as it arrives */
    struct http_reply_state reply;
};

/* Bytes that the kernel did not take yet.  The chunk owns p. */
struct http_chunk {
    struct http_chunk *next;
    char *p;
    size_t off, n, cap; /* p[off..n) is unsent */
};

/* The bytes a connection still has to send (out.c). */
struct http_out {
    struct http_chunk *first, *last;
    size_t bytes;     /* in the chunks */
    uint64_t total;   /* ever put into chunks */
    uint64_t taken;   /* of these, taken by the kernel when the sweep last looked */
    int64_t taken_ms; /* when `taken` last grew */
};

/* A socket of either kind as libuv knows it. */
union http_handle {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

/* One connection.  The handle must be the first member, because libuv's callbacks get a pointer
 * to it.  Freed in the close callback and nowhere else. */
struct http_conn {
    union http_handle io;
    uv_write_t write;
    uv_shutdown_t shutdown;
    llhttp_t parser;
    struct http_server *srv;
    LIST_ENTRY(http_conn) entry; /* in http_server.conns */
    struct http_req *req;        /* being read, answered, or kept empty for the next one */
    struct tls_conn *tls;        /* NULL for plain */
    struct buf in;               /* sent ahead by the client; parsed up to in_off */
    size_t in_off;
    struct http_out out;
    /* Monotonic start of the phase; in CONN_BODY the time of the last byte. */
    int64_t since_ms;
    /* Of the head.  used: raw bytes so far; the limit applies before the head is complete, too.
     * part_end: in this read, the end of the last part of a name or a value, or the start of the
     * read. */
    struct {
        size_t used;
        const char *part_end;
    } head;
    struct http_peer peer;
    struct share_use *share; /* where it is counted (share.c); NULL = nowhere */
    /* What a parser callback wants the request refused with; status 0 = nothing. */
    struct {
        int status;
        const char *why;
    } refuse;
    enum conn_phase phase : 8;
    /* complete: the parser met the end of a request.  peer_eof: the client sends no more.
     * reading: libuv reads.  writing: the first chunk of `out` is with libuv and must not be
     * changed.  feeding: the parser runs, so it must not be entered again.  resume: `in` is to
     * be parsed at the next kick.  paused: the handler wants no more of a body for now.
     * refusing: it is beyond its share and is being told so. */
    bool complete, peer_eof, reading, writing, feeding, resume, paused, refusing;
};

/* One listening socket.  The handle must be the first member.  dev and ino are those of the
 * unix socket's file, so that only our own file is removed at the end. */
struct http_listener {
    union http_handle io;
    struct http_server *srv;
    struct http_listener *next;
    /* NULL for plain HTTP.  Owned by the listener. */
    struct tls_ctx *tls;
    char *path; /* of a unix socket */
    dev_t dev;
    ino_t ino;
    bool waiting; /* a connection was not accepted because of the limit */
};

/* All of it belongs to the loop thread. */
LIST_HEAD(http_conn_list, http_conn);
struct http_server {
    struct loop *loop;
    struct http_limits lim;
    struct http_handler h;
    struct http_listener *listeners;
    struct http_conn_list conns;
    struct map_u64 shares; /* key → struct share_use, of the connections in `conns` */
    size_t common;         /* connections of shares without `reserve` */
    size_t refusing;       /* connections beyond their share that are being told so */
    /* Requests whose client left and whose handler has not replied yet. */
    struct http_req *orphans;
    struct http_server_stats stats;
    struct timer *sweep; /* looks for connections past a limit; runs while there are any */
    struct timer *kick;  /* what must not happen inside a handler's call */
    /* Runs during shutdown; when it fires, connections that are left are closed. */
    struct timer *grace;
    struct buf scratch; /* reply heads */
    struct compressor *compressor;
    /* Room for one decrypted TLS record, shared by all connections; NULL until it is needed. */
    char *tls_plain;
    /* The Date header as text, and the second that the text is for. */
    time_t date_s;
    char date[32];
    /* sweeping: the sweep timer runs.  closing: shutdown has begun.  done_called: shutdown is
     * over. */
    bool sweeping, closing, done_called;
    void (*done)(void *arg);
    void *done_arg;
};

/* server.c */
void http_server_conn_closed(struct http_server *s); /* one more may come in; shutdown goes on */
/* Has on_kick run from the loop: it tells orphans, resumes parsing and completes a shutdown. */
void http_server_kick(struct http_server *s);
/* Starts the timer that enforces the time limits; it stops by itself without connections. */
void http_server_sweep_on(struct http_server *s);
const char *http_server_date(struct http_server *s); /* IMF-fixdate of now */

/* listen.c */
/* Accepts the pending connection, unless the limit is reached: the listener is then marked as
 * waiting and asked again when a connection closes. */
void http_listener_accept(struct http_listener *ln);
void http_listeners_close(struct http_server *s);

/* conn.c */
/* In the server's list at once, but not connected: the caller accepts into c->io, then opens it. */
struct http_conn *http_conn_new(struct http_server *s, bool is_unix);
/* After the stream is accepted: finds the peer and its share, and starts reading.  `stranger`: the
 * descriptor says nothing about who is behind it, so the peer stays all zeros. */
void http_conn_open(struct http_conn *c, bool stranger);
/* Closes at once; the request, if any, is told or becomes an orphan.  Memory goes with libuv's
 * close callback. */
void http_conn_close(struct http_conn *c);
void http_conn_feed(struct http_conn *c, const char *p, size_t n); /* plain bytes */
/* The client has closed its sending side (UV_EOF) or the connection broke (another status). */
void http_conn_eof(struct http_conn *c, int status);
/* Parses what the client sent ahead while the previous request was answered. */
void http_conn_resume(struct http_conn *c);
void http_conn_pause(struct http_conn *c, bool paused); /* of a body in pieces */
/* Enforces the time limits on one connection.  May close or refuse it. */
void http_conn_sweep(struct http_conn *c, int64_t now_ms);
/* All bytes of `out` are with the kernel: the next step of the reply, whatever it is, may begin. */
void http_conn_drained(struct http_conn *c);
/* Replies with an error document, stops parsing and closes once the client has it. */
void http_conn_refuse(struct http_conn *c, int status, const char *why);
/* Closes the sending side and discards what the client still sends, for HTTP_LINGER_MS at most. */
void http_conn_linger(struct http_conn *c);
/* The reply of the current request is complete. */
void http_conn_finish(struct http_conn *c);

/* share.c */
/* Counts a new connection.  False: it is beyond its share, and is on its way out. */
bool http_share_open(struct http_conn *c);
void http_share_leave(struct http_conn *c);
void http_share_stream(struct http_conn *c, bool begins);
int64_t http_share_idle_ms(const struct http_conn *c); /* how long it may be idle */

/* out.c: `own`, when not NULL, is the memory of the last buffer and is freed when sent. */
void http_send(struct http_conn *c, const uv_buf_t *bufs, unsigned n, char *own);
/* Bypasses TLS: for bytes that are encrypted already, or on a plain connection. */
void http_send_raw(struct http_conn *c, const uv_buf_t *bufs, unsigned n, char *own);
uint64_t http_out_taken(const struct http_conn *c); /* bytes the kernel has taken so far */
void http_out_free(struct http_conn *c);            /* drops what was not sent */

/* parse.c */
void http_parse_init(struct http_conn *c);
size_t http_parse(struct http_conn *c, const char *p, size_t n); /* bytes used, at least one */

/* req.c */
struct http_req *http_req_new(struct http_conn *c);
/* Makes the request ready for the next one on the same connection; small buffers are kept. */
void http_req_reset(struct http_req *r);
void http_req_free(struct http_req *r); /* also out of the orphans */
/* Detaches r from its connection, which is about to be freed. */
void http_req_orphan(struct http_req *r);
void http_req_tell_gone(struct http_req *r); /* an orphan with a gone callback: ends it */

/* reply.c */
/* Head into the server's scratch.  length < 0: unknown, the caller frames the body. */
struct buf *http_head_begin(struct http_req *r, int status, const char *type, int64_t length);
/* Adds the handler's own header lines, Connection and the empty line. */
void http_head_end(struct http_req *r, struct buf *b);
/* Appends the body of an error: {"error":{"code":…,"message":…}} and a line break. */
void http_error_body(struct buf *b, const char *code, const char *message);
/* Marks the request as replied.  False when the client has left; r may be freed then. */
bool http_reply_claim(struct http_req *r);

/* stream.c */
void http_stream_cut(struct http_req *r); /* ends it for the client; the handler hears `gone` */

/* compress.c */
enum http_coding { CODING_NONE, CODING_GZIP, CODING_ZSTD };
/* The coding that the client prefers, zstd when it has no preference; CODING_NONE when it
 * accepts neither. */
enum http_coding http_coding_pick(struct str accept_encoding);
/* Text and JSON and the like; false for NULL and for what is compressed already. */
bool http_type_compresses(const char *content_type);
const char *http_coding_name(enum http_coding c);
struct compressor *compressor_new(void);
void compressor_free(struct compressor *z);
/* The compressed bytes, yours; NULL when they would not be fewer. */
char *compress_bytes(struct compressor *z, enum http_coding c, struct str in, size_t *out_n);

/* text.c */
/* Decodes %XX (and + when asked) into out, which has room for s.n bytes; false for a broken escape,
 * a NUL or invalid UTF-8. */
bool url_decode(struct str s, bool plus, char *out, size_t *out_n);
void http_date_format(time_t t, char out[32]);
bool http_date_parse(struct str s, time_t *out);
bool http_etag_matches(struct str list, struct str etag); /* weak comparison; "*" matches */
/* 1 = [*from, *to] of a file of `size` bytes, 0 = no usable Range: send it all, -1 = 416. */
int http_range_parse(struct str s, uint64_t size, uint64_t *from, uint64_t *to);

/* tls.c */
/* Loads OpenSSL on first use.  NULL with an error: no library, no key, or the files do not
 * match. */
struct tls_ctx *tls_ctx_new(const char *cert, const char *key, struct err *e);
void tls_ctx_free(struct tls_ctx *ctx);
struct tls_conn *tls_conn_new(struct tls_ctx *ctx);
void tls_conn_free(struct tls_conn *t);
bool tls_conn_ready(const struct tls_conn *t); /* handshake done */
/* Decrypts bytes from the socket and feeds the plain ones to the connection; may close it. */
void tls_input(struct http_conn *c, const char *p, size_t n);
/* Encrypts and sends; the memory of bufs is free again on return.  Closes on failure. */
void tls_send(struct http_conn *c, const uv_buf_t *bufs, unsigned n);
/* Sends the close alert once, so that the client can tell an end from a cut.  May close c. */
void tls_bye(struct http_conn *c);
