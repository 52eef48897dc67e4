/* share.c - how much of the server each caller may use at once
 *
 * Owns: which share a connection has, and the calls under way per share.
 * Does not own: the counts of connections and streams (io/share.c).
 */
#include "request/share.h"
#include "base/clock.h"
#include "base/log.h"
#include "request/request_priv.h"
#include <stdio.h>
#include <unistd.h>

enum {
    KIND_SHIFT = 56,           /* of a key: above every uid */
    STRANGER_IDLE_MS = 10000,  /* a program that connects has something to say */
    REFUSED_AGAIN_MS = 600000, /* after this the log repeats that connections are refused */
};

const char *const share_names[SHARE_KINDS] = {
#define X(kind, name, part, who) name,
    SHARE_LIST(X)
#undef X
};

static struct http_share share_make(enum share_kind kind, uint64_t id)
{
    static const unsigned parts[SHARE_KINDS] = {
#define X(kind, name, part, who) part,
        SHARE_LIST(X)
#undef X
    };
    bool unproved = kind == SHARE_LOOPBACK || kind == SHARE_STRANGER;

    /* 1 +: a key of 0 means that nothing is counted. */
    return (struct http_share){.key = ((uint64_t)kind + 1) << KIND_SHIFT | id,
                               .part = parts[kind],
                               .idle_ms = unproved ? STRANGER_IDLE_MS : 0,
                               .reserve = kind == SHARE_OWNER};
}

struct http_share share_of_peer(void *self, const struct http_peer *p)
{
    const struct auth *a = ((struct request_server *)self)->conf.auth;
    uint32_t owner = a ? a->uid : (uint32_t)geteuid();

    if (p->is_unix)
        return p->uid == owner || p->uid == 0 ? share_make(SHARE_OWNER, 0)
                                              : share_make(SHARE_USER, p->uid);
    if (p->to_port == 0) /* an adopted connection: see http_server_adopt_stranger_take */
        return share_make(SHARE_FORWARDED, 0);
    return share_make(p->local ? SHARE_LOOPBACK : SHARE_STRANGER, 0);
}

/* "the user with uid 1000" */
static void share_who(uint64_t key, char *out, size_t n)
{
    static const char *const texts[SHARE_KINDS] = {
#define X(kind, name, part, who) who,
        SHARE_LIST(X)
#undef X
    };
    enum share_kind kind = (enum share_kind)((key >> KIND_SHIFT) - 1);
    uint64_t id = key & (((uint64_t)1 << KIND_SHIFT) - 1);

    if (kind == SHARE_USER || kind == SHARE_JOB)
        snprintf(out, n, "%s %llu", texts[kind], (unsigned long long)id);
    else
        snprintf(out, n, "%s", texts[kind]);
}

/* One line when it begins; a crowd that stays is worth a line every ten minutes. */
void share_refused(void *self, const struct http_share *is, size_t most)
{
    struct request_server *s = self;
    enum share_kind kind = (enum share_kind)((is->key >> KIND_SHIFT) - 1);
    struct share_refusals *f = &s->refusals[kind];
    int64_t now = clock_mono(&clock_system);
    char who[100];

    f->total++;
    if (s->conf.auth)
        s->conf.auth->refused[kind]++;
    if (f->logged && f->key == is->key && now - f->logged_ms < REFUSED_AGAIN_MS)
        return;
    share_who(is->key, who, sizeof(who));
    log_warn("request",
             "connections are refused: %s may have %zu open at once (%llu refused so far); see "
             "berth_connections_refused_total in /metrics",
             who, most, (unsigned long long)f->total);
    f->logged = true;
    f->logged_ms = now;
    f->key = is->key;
}

/* A token of a job counts for its user: many ranks of one job may connect, and a user with many
 * jobs has no more than one share. */
int share_known(const struct request_server *s, struct http_req *r, const struct who *w,
                struct err *e)
{
    const struct auth *a = s->conf.auth;
    struct http_share is;
    char who[100];

    if ((!w->proved && !w->session) || http_peer(r)->is_unix)
        return 0;
    is = a && w->caller.uid != a->uid ? share_make(SHARE_JOB, w->caller.uid)
                                      : share_make(SHARE_TOKEN, 0);
    if (http_share_move(r, &is))
        return 0;
    share_who(is.key, who, sizeof(who));
    return err_set(e, ERR_BUSY, "%s: too many connections are open; close some and try again", who);
}

/* ---- calls under way ---- */

static bool share_bounded(uint64_t key)
{
    return key && key >> KIND_SHIFT != SHARE_OWNER + 1;
}

/* The owner has no bound, and most requests are the owner's: nothing is looked up for them. */
int share_call_begin(struct request_server *s, struct http_req *r, uint64_t *out_key, struct err *e)
{
    struct http_share_room room = http_share_room(r);
    char who[100];

    if (!share_bounded(room.key))
        return 0;
    size_t n = (size_t)(uintptr_t)map_u64_get(&s->under_way, room.key);
    if (n >= room.connections) {
        share_who(room.key, who, sizeof(who));
        return err_set(e, ERR_BUSY, "%s: %zu requests are under way; wait for their answers", who,
                       n);
    }
    map_u64_put(&s->under_way, room.key, (void *)(uintptr_t)(n + 1));
    *out_key = room.key;
    return 0;
}

void share_call_end(struct request_server *s, uint64_t key)
{
    if (!key)
        return;
    size_t n = (size_t)(uintptr_t)map_u64_get(&s->under_way, key);
    if (n > 1)
        map_u64_put(&s->under_way, key, (void *)(uintptr_t)(n - 1));
    else
        map_u64_del(&s->under_way, key);
}

int share_stream_check(const struct http_req *r, struct err *e)
{
    struct http_share_room room = http_share_room(r);
    char who[100];

    if (room.free)
        return 0;
    share_who(room.key, who, sizeof(who));
    return err_set(e, ERR_BUSY,
                   "%s: %zu event streams and followed logs are open, which is the most; end one "
                   "of them first",
                   who, room.streams);
}
