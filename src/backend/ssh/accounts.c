/* accounts.c - a node over SSH: whose runs go through which login there
 *
 * Owns: the logins of one node, and which of them has which run.
 *
 * A daemon of one user has one login, and everything passes through it.  With several users, the
 * owner's login runs the owner's jobs only; a job of another user runs under the account that the
 * setting `as` names for that user, or not at all:
 *
 *   alice=al@gpu7     user alice runs as al on gpu7; without @host, on the host of the node
 *   %u, %u@gpu7       every other user runs under their own name
 *
 * Capacity, devices and reachability are those that the owner's login tells.  Another login is
 * opened when a run needs it and stays open until the node is closed.
 */
#include "backend/ssh/as_rule.h"
#include "backend/ssh/ssh_link.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/util.h"
#include "base/vec.h"
#include "shepherd/proto.h"
#include <errno.h>
#include <stdio.h>

/* One login.  The first one is the owner's, and its events go to core directly. */
struct account {
    struct backend *of;
    char *url; /* "" = that of the node */
    struct backend *link;
};
struct backend {
    struct loop *loop;
    const struct backend_events *ev;
    void *owner;
    char *home, *name;
    struct json *conf;
    bool several; /* users; else every run is the owner's */
    uint32_t owner_uid;
    struct as_rules rules;
    VEC(struct account *) accounts;
    /* By uid: the name service is asked once for each user, since it may be slow.  A name that
     * changes counts from the next start of the daemon. */
    struct map_u64 by_user;
    struct map_u64 runs; /* by run_key_pack → struct account of another user */
    bool recalled;       /* core has named the runs from before */
};

static struct backend *owners_link(const struct backend *b)
{
    return b->accounts.p[0]->link;
}

/* Runs that are in no map are the owner's. */
static struct account *account_of(const struct backend *b, struct run_key key)
{
    uint64_t id;
    struct account *a = run_key_pack(key, &id) ? map_u64_get(&b->runs, id) : NULL;

    return a ? a : b->accounts.p[0];
}

static void account_forget(struct backend *b, struct run_key key)
{
    uint64_t id;

    if (run_key_pack(key, &id))
        map_u64_del(&b->runs, id);
}

static void account_keep(struct backend *b, struct run_key key, struct account *a)
{
    uint64_t id;

    if (a != b->accounts.p[0] && run_key_pack(key, &id) && !map_u64_get(&b->runs, id))
        map_u64_put(&b->runs, id, a);
}

/* ---- what the logins of other users tell ---- */

static void account_started(void *owner, struct run_key key, int64_t pid, int64_t pid_start,
                            int64_t at_ms)
{
    const struct backend *b = ((struct account *)owner)->of;

    b->ev->started(b->owner, key, pid, pid_start, at_ms);
}

static void account_ended(void *owner, struct run_key key, const struct run_outcome *o,
                          struct str detail)
{
    const struct backend *b = ((struct account *)owner)->of;

    b->ev->ended(b->owner, key, o, detail);
}

static void account_absent(void *owner, struct run_key key)
{
    struct backend *b = ((struct account *)owner)->of;

    b->ev->absent(b->owner, key);
}

static void account_notice(void *owner, struct str text)
{
    const struct backend *b = ((struct account *)owner)->of;

    b->ev->notice(b->owner, text);
}

static void account_spooled(void *owner, struct run_key key)
{
    const struct backend *b = ((struct account *)owner)->of;

    if (b->ev->spooled)
        b->ev->spooled(b->owner, key);
}

/* When the node itself is away, the run may go to another one.  A login that does not work while
 * the owner's does is a fault of that account: the job fails with the reason, and the node stays
 * open to others. */
static void account_refused(void *owner, struct run_key key, int sys, struct str why)
{
    const struct account *a = owner;
    struct backend *b = a->of;
    struct run_outcome o = {
        .why = RUN_END_START_FAILED, .sys = EHOSTUNREACH, .ended_ms = clock_wall(&clock_system)};
    char text[240];

    account_forget(b, key);
    bool full = sys == ENOSPC || sys == EDQUOT;
    if ((ssh_link.node(owners_link(b))->away || full) && b->ev->refused) {
        b->ev->refused(b->owner, key, sys, why);
        return;
    }
    snprintf(text, sizeof(text), "node %s cannot be used as %s: " STR_FMT, b->name, a->url,
             (int)MIN(why.n, (size_t)150), why.p);
    b->ev->ended(b->owner, key, &o, str_of(text));
}

static void account_call(void *owner, int fd)
{
    const struct backend *b = ((struct account *)owner)->of;

    if (b->ev->call)
        b->ev->call(b->owner, fd);
    else
        close(fd);
}

static const struct backend_events account_events = {
    .started = account_started,
    .ended = account_ended,
    .absent = account_absent,
    .notice = account_notice,
    .spooled = account_spooled,
    .refused = account_refused,
    .call = account_call,
};

/* ---- logins ---- */

static void account_free(struct account *a)
{
    if (a->link)
        ssh_link.close(a->link);
    free(a->url);
    free(a);
}

/* Two users may share a login, but a login is opened once: its far program holds its files. */
static struct account *account_open(struct backend *b, const char *url,
                                    const struct backend_events *ev, struct err *e)
{
    for (size_t i = 0; i < b->accounts.n; i++)
        if (!strcmp(b->accounts.p[i]->url, url))
            return b->accounts.p[i];
    struct account *a = xcalloc(1, sizeof(*a));
    AUTO(json) struct json *conf = json_copy(b->conf);
    a->of = b;
    a->url = xstrdup(url);
    if (*url) {
        /* The name is part of that of the directory there: two logins may be one account. */
        struct str host, login = str_cut(str_of(url + strlen("ssh://")), '@', &host);
        AUTO_FREE char *name = xasprintf(STR_FMT "@%s", STR_ARG(login), b->name);
        json_set_str(conf, "url", url);
        json_set_str(conf, "name", name);
    }
    if (ssh_link.open(&a->link, b->home, conf, b->loop, ev ? ev : &account_events,
                      ev ? b->owner : a, e) < 0) {
        account_free(a);
        return NULL;
    }
    if (b->recalled)
        ssh_link.adopt(a->link, NULL, 0);
    vec_push(&b->accounts, a);
    return a;
}

/* NULL with an error: that user has no account on this node. */
static struct account *account_for(struct backend *b, uint32_t uid, struct err *e)
{
    if (!b->several || uid == b->owner_uid)
        return b->accounts.p[0];
    struct account *known = map_u64_get(&b->by_user, uid);
    if (known)
        return known;
    const struct json *url = json_get(b->conf, "url");
    AUTO_FREE char *to = as_rules_url(&b->rules, uid, json_str(url), e);
    if (!to) {
        err_wrap(e, "node %s has no account for the user of this job", b->name);
        return NULL;
    }
    known = account_open(b, to, NULL, e);
    if (known)
        map_u64_put(&b->by_user, uid, known);
    return known;
}

/* ---- the class ---- */

static void accounts_close(struct backend *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->accounts.n; i++)
        account_free(b->accounts.p[i]);
    vec_done(&b->accounts);
    map_u64_done(&b->by_user);
    map_u64_done(&b->runs);
    as_rules_done(&b->rules);
    json_free(b->conf);
    FREE_EACH(b->home, b->name, b);
}

static int accounts_open(struct backend **out, const char *home, const struct json *conf,
                         struct loop *l, const struct backend_events *ev, void *owner,
                         struct err *e)
{
    struct backend *b = xcalloc(1, sizeof(*b));
    const struct json *name = json_get(conf, "name");

    b->loop = l;
    b->ev = ev;
    b->owner = owner;
    b->home = xstrdup(home);
    b->conf = json_copy(conf);
    b->name = xstrndup(json_str(name).p, json_str(name).n);
    b->several = json_bool(json_get(conf, "several_users"));
    b->owner_uid = (uint32_t)json_int(json_get(conf, "owner_uid"));
    if (as_rules_read(&b->rules, json_get(conf, "as"), b->owner_uid, e) < 0 ||
        !account_open(b, "", ev, e)) {
        accounts_close(b);
        return -1;
    }
    *out = b;
    return 0;
}

static const struct node *accounts_node(struct backend *b)
{
    return ssh_link.node(owners_link(b));
}

static const struct node_users *accounts_users(struct backend *b)
{
    return b->several ? &b->rules.users : NULL;
}

/* A number for a file of each login: one that a login does not have yet is made there. */
static uint32_t accounts_journal(struct backend *b)
{
    return ssh_link.journal(owners_link(b));
}

static int accounts_start(struct backend *b, const struct run_start *r, struct err *e)
{
    struct account *a = account_for(b, r->uid, e);

    if (!a || ssh_link.start(a->link, r, e) < 0)
        return -1;
    account_keep(b, r->key, a);
    return 0;
}

static void accounts_stop(struct backend *b, struct run_key key, int64_t grace_ms)
{
    ssh_link.stop(account_of(b, key)->link, key, grace_ms);
}

static void accounts_signal(struct backend *b, struct run_key key, int signo)
{
    ssh_link.signal(account_of(b, key)->link, key, signo);
}

/* A run of a user without an account was started through the owner's login, by a daemon that did
 * not know of accounts. */
static struct account *account_adopting(struct backend *b, uint32_t uid)
{
    struct err e = {0};
    struct account *a = account_for(b, uid, &e);

    return a ? a : b->accounts.p[0];
}

/* Each login is told of its own runs, the owner's in any case.  What a login of another user still
 * has of runs that nobody asks for is dropped when the login is next used. */
static void accounts_adopt(struct backend *b, const struct run_belief *runs, size_t n)
{
    struct run_belief *part = xcalloc(n + 1, sizeof(*part));

    for (size_t i = 0; i < n; i++)
        account_keep(b, runs[i].key, account_adopting(b, runs[i].uid));
    for (size_t k = 0; k < b->accounts.n; k++) {
        size_t m = 0;
        for (size_t i = 0; i < n; i++)
            if (account_of(b, runs[i].key) == b->accounts.p[k])
                part[m++] = runs[i];
        if (m || k == 0)
            ssh_link.adopt(b->accounts.p[k]->link, part, m);
    }
    b->recalled = true;
    free(part);
}

static void accounts_settled(struct backend *b, struct run_key key)
{
    ssh_link.settled(account_of(b, key)->link, key);
    account_forget(b, key);
}

const struct backend_class backend_ssh = {
    .name = "ssh",
    .by_url = true,
    .keys = ssh_conf_keys,
    .n_keys = SSH_CONF_KEYS,
    .open = accounts_open,
    .close = accounts_close,
    .node = accounts_node,
    .users = accounts_users,
    .journal = accounts_journal,
    .start = accounts_start,
    .stop = accounts_stop,
    .signal = accounts_signal,
    .adopt = accounts_adopt,
    .settled = accounts_settled,
};
