/* hook.h - hooks and messages that wait to be sent, as the store knows them
 *
 * The store decides which events become messages, in the transaction of the event: a message is
 * recorded if and only if its event is.  core/hook.c reads what is due, has it sent, and stages
 * CHANGE_DELIVERED.
 */
#pragma once
#include "base/err.h"
#include "model/hook.h"
#include <stdint.h>

#define HOOK_QUEUE "hooks" /* jobs that hooks start wait in this queue and fire no hooks */
enum {
    HOOK_RATE_MS = 60000,   /* in this time ... */
    HOOK_RATE_MAX = 20,     /* ... a hook gets this many single messages, then one summary */
    HOOK_PENDING_MAX = 100, /* messages that wait for one hook, besides its summary */
    HOOK_PENDING_ALL = 10000,
    HOOK_GIVE_UP_MS = 24 * 3600 * 1000, /* a message is dropped when it is older than this */
};

/* A message that is due.  Texts are borrowed for the call. */
struct delivery_record {
    uint64_t seq;  /* of the message; 0 = a test, which is not recorded */
    uint64_t hook; /* its hook, whose facts follow from `uid` on */
    enum hook_event event;
    enum hook_scope scope;
    uint64_t subject; /* job or batch; the first job of a summary, 0 = its events are of batches */
    uint64_t last;    /* last job of a summary */
    int64_t n, bad;   /* events of a summary, and how many of them are failures */
    int64_t at_ms;    /* of the event, wall clock */
    uint32_t tries;   /* failed ones of this hook in a row */
    uint32_t uid, gid;
    struct str user, name, action, secret;
};
typedef void (*delivery_fn)(void *arg, const struct delivery_record *d);
/* When to look again. */
struct hook_due {
    int64_t next_ms; /* wall clock; -1 = only after another commit */
    bool waited;     /* a job may have waited too long: stage CHANGE_WAITED */
    bool pending;    /* there are messages that were not sent yet */
};

/* A hook in listings.  The secret is not part of it. */
struct hook_view {
    uint64_t seq;
    uint32_t uid, gid;
    struct str user, name, action, filter;
    struct hook_on on;
    bool everyone; /* fires for jobs of all users */
    bool enabled;
    bool has_secret;
    int64_t pending, sent, failed;
    int64_t last_ms;       /* of the last message that was sent; 0 = none */
    int64_t last_error_ms; /* 0 = none, or a message was sent since */
    struct str last_error;
};
struct store;
typedef bool (*hook_fn)(void *arg, const struct hook_view *v);
/* By name.  Any thread.  With only_uid: those of the user, and those for everyone. */
int store_hooks(struct store *s, bool only_uid, uint32_t uid, hook_fn fn, void *arg, struct err *e);
/* The user's hook of that name, else one for everyone, else with `any` somebody's; ERR_NOT_FOUND.
 */
int store_hook(struct store *s, uint32_t uid, bool any, struct str name, hook_fn fn, void *arg,
               struct err *e);
