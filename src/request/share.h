/* share.h - how much of the server each caller may use at once
 *
 * On the unix socket the kernel says who connects; over TCP a caller is a stranger until it has
 * shown a token, and strangers are bounded as a whole.  The daemon's owner and root have no bound
 * on the unix socket, and a part of all connections is kept for them (io/share.c counts).
 */
#pragma once
#include "io/http_server.h"
#include "request/auth.h"

/* kind, its name in /metrics, 1/part of all connections, who it is in the log */
#define SHARE_LIST(X)                                                                              \
    X(OWNER, "owner", 1, "the owner")                                                              \
    X(USER, "user", 8, "the user with uid")                                                        \
    X(LOOPBACK, "loopback", 4, "callers of this host without a token")                             \
    X(STRANGER, "stranger", 8, "callers of other hosts without a token")                           \
    X(FORWARDED, "forwarded", 4, "jobs on other nodes that have not shown a token yet")            \
    X(TOKEN, "token", 2, "callers with a token of the owner")                                      \
    X(JOB, "job", 4, "jobs and pages of the user with uid")

enum share_kind {
#define X(kind, name, part, who) SHARE_##kind,
    SHARE_LIST(X)
#undef X
        SHARE_KINDS
};
_Static_assert((int)SHARE_KINDS <= (int)AUTH_SHARE_KINDS, "auth.refused has a place for each");
extern const char *const share_names[SHARE_KINDS];

struct request_server;
struct call;
/* For http_handler; self is the request server. */
struct http_share share_of_peer(void *self, const struct http_peer *p);
void share_refused(void *self, const struct http_share *s, size_t most);
/* The caller of `r` is known now.  Fails when the caller has too many connections. */
int share_known(const struct request_server *s, struct http_req *r, const struct who *w,
                struct err *e);
/* Counts a call of the caller of `r` until share_call_end.  Fails when too many are under way,
 * which can be more than the connections: work goes on when its client has left. */
int share_call_begin(struct request_server *s, struct http_req *r, uint64_t *out_key,
                     struct err *e);
void share_call_end(struct request_server *s, uint64_t key);
/* Before the answer becomes a stream.  Fails with the sentence for a caller who has too many. */
int share_stream_check(const struct http_req *r, struct err *e);
