/* hook.c - messages of hooks: when they are sent, and again after a failure
 *
 * Owns: the messages that are being sent.
 *
 * The store records which messages there are, in the transaction of their event.  Here they are
 * read when they are due, one per hook at a time, and given to ops->deliver; the result is
 * recorded.  A message whose result was not recorded because the daemon died is sent again with the
 * same id, so receivers can drop the second copy.  Each failure of a hook delays its messages by
 * the rule for retries of jobs; a message is dropped when it is a day old.
 */
#include "base/arena.h"
#include "core/core_priv.h"
#include "model/filter.h"
#include "model/vault.h"
#include <stdio.h>

enum {
    HOOK_BACKOFF_MS = 2000, /* before the second try; doubles, at most an hour */
    HOOK_SENDING_MAX = 16,
};

/* A message between ops->deliver and the commit of its result. */
struct hook_sending {
    struct core *c;
    struct arena mem; /* its texts */
    struct hook_message m;
    struct err trouble;       /* code 0: it can be sent */
    core_hook_test_fn tested; /* of a test; NULL = a recorded message */
    void *arg;
};

static struct str hook_keep(struct hook_sending *s, struct str text)
{
    return (struct str){arena_strndup(&s->mem, text.p, text.n), text.n};
}

/* The secret of the hook in the clear; an error stays in s->trouble, and the message is not sent.
 */
static struct str hook_open_secret(struct hook_sending *s, struct str sealed)
{
    char *text = NULL;

    if (!s->c->conf.home.vault)
        return hook_keep(s, sealed);
    if (vault_open_text(s->c->conf.home.vault, VAULT_OF_HOOK, sealed, &text, &s->trouble) < 0)
        return STR("");
    struct str open = hook_keep(s, str_of(text));
    explicit_bzero(text, strlen(text));
    free(text);
    return open;
}

/* Borrowed texts are copied: a message lives for seconds. */
static struct hook_sending *sending_new(struct core *c, const struct delivery_record *d)
{
    struct hook_sending *s = xcalloc(1, sizeof(*s));
    char home[CORE_HOME_ID_MAX];

    s->c = c;
    s->m.d = *d;
    s->m.d.user = hook_keep(s, d->user);
    s->m.d.name = hook_keep(s, d->name);
    s->m.d.action = hook_keep(s, d->action);
    s->m.d.secret = hook_open_secret(s, d->secret);
    core_home_id(c, home);
    /* A summary that is sent again may have grown, so that it is another message. */
    snprintf(s->m.id, sizeof(s->m.id), "%s-%llu-%lld", home, (unsigned long long)d->seq,
             (long long)d->n);
    return s;
}

static void sending_free(struct hook_sending *s)
{
    arena_done(&s->mem);
    free(s);
}

static bool hook_is_sending(const struct core *c, uint64_t hook)
{
    for (size_t i = 0; i < c->hooks.sending.n; i++)
        if (c->hooks.sending.p[i]->m.d.hook == hook)
            return true;
    return false;
}

/* ---- results ---- */

/* The result is durable: until now, read_due still had the message. */
static void hook_on_recorded(void *arg, const struct err *e)
{
    struct hook_sending *s = arg;
    struct core *c = s->c;

    (void)e;
    for (size_t i = 0; i < c->hooks.sending.n; i++)
        if (c->hooks.sending.p[i] == s) {
            vec_remove(&c->hooks.sending, i);
            break;
        }
    c->hooks.look = true;
    sending_free(s);
}

static void hook_gave_up(struct core *c, const struct hook_message *m, const struct err *e)
{
    char text[400];

    if (!c->conf.ops->notice)
        return;
    snprintf(text, sizeof(text), "hook '%.*s': %s: %s", (int)MIN(m->d.name.n, 100), m->d.name.p,
             e->code == ERR_INVALID ? "the receiver refuses a message, which is dropped"
                                    : "messages older than a day are dropped",
             e->text);
    c->conf.ops->notice(c->conf.self, str_of(text));
}

static void hook_on_sent(void *arg, const struct err *e)
{
    struct hook_sending *s = arg;
    struct core *c = s->c;
    const struct delivery_record *d = &s->m.d;
    int64_t now = core_wall(c);

    if (s->tested) {
        s->tested(s->arg, e);
        sending_free(s);
        return;
    }
    if (e && (e->code == ERR_INVALID || d->at_ms < now - HOOK_GIVE_UP_MS))
        hook_gave_up(c, &s->m, e);
    core_stage(c, &(struct change){
                      .kind = CHANGE_DELIVERED,
                      .at_ms = now,
                      .delivered = {.delivery = d->seq,
                                    .hook = d->hook,
                                    .n = d->n,
                                    .bad = d->bad,
                                    .refused = e && e->code == ERR_INVALID,
                                    .error = e ? str_of(e->text) : STR(""),
                                    .retry_ms = now + backoff_delay(HOOK_BACKOFF_MS, d->tries + 1),
                                    .drop_before_ms = now - HOOK_GIVE_UP_MS}});
    core_barrier(c, hook_on_recorded, s);
}

/* ---- sending ---- */

/* A message about a job that waits too long says why it waits. */
static void hook_explain(struct core *c, struct hook_sending *s)
{
    AUTO(json) struct json *why = NULL;
    struct err e;

    if (s->m.d.event == HOOK_WAITING && s->m.d.scope == HOOK_SCOPE_JOB &&
        core_explain(c, s->m.d.subject, &why, &e) == 0)
        s->m.why = hook_keep(s, json_str(json_get(why, "text"))).p;
}

static void hook_send(struct hook_sending *s)
{
    if (s->trouble.code)
        hook_on_sent(s, &s->trouble);
    else
        s->c->conf.ops->deliver(s->c->conf.self, &s->m, hook_on_sent, s);
}

static void hook_on_due(void *arg, const struct delivery_record *d)
{
    struct core *c = arg;

    if (c->hooks.sending.n < HOOK_SENDING_MAX && !hook_is_sending(c, d->hook))
        vec_push(&c->hooks.sending, sending_new(c, d));
}

void hooks_turn(struct core *c)
{
    struct ledger *led = &c->conf.ledger;
    struct core_hooks *h = &c->hooks;
    struct hook_due due = {.next_ms = -1};
    struct err e;

    if (!led->read_due || !c->recovered || !c->conf.ops->deliver || !led->healthy(led->self))
        return;
    uint64_t serial = led->hook_serial(led->self);
    if (serial == h->serial && !h->look && (h->next_ms < 0 || h->next_ms > core_mono(c)))
        return;
    int64_t now = core_wall(c);
    size_t before = h->sending.n;
    /* As many as are being sent may be among those that are read again. */
    if (led->read_due(led->self, now, HOOK_SENDING_MAX * 2, hook_on_due, c, &due, &e) < 0)
        due.next_ms = now + HOOK_BACKOFF_MS;
    h->serial = serial;
    h->pending = due.pending;
    h->look = false;
    h->next_ms = due.next_ms < 0 ? -1 : core_mono(c) + MAX(due.next_ms - now, (int64_t)0);
    if (due.waited)
        core_stage(c, &(struct change){.kind = CHANGE_WAITED, .at_ms = now});
    for (size_t i = before; i < h->sending.n; i++) {
        struct hook_sending *s = h->sending.p[i];
        hook_explain(c, s);
        hook_send(s);
    }
}

bool core_hooks_pending(const struct core *c)
{
    return c->hooks.pending || c->hooks.sending.n;
}

bool core_hooks_busy(const struct core *c)
{
    const struct ledger *led = &c->conf.ledger;

    return c->hooks.sending.n || c->hooks.look ||
           (led->hook_serial && led->hook_serial(led->self) != c->hooks.serial);
}

int64_t hooks_next_wake(const struct core *c)
{
    return c->hooks.next_ms;
}

/* Without their barriers nobody else frees them. */
void hooks_free(struct core *c)
{
    for (size_t i = 0; i < c->hooks.sending.n; i++)
        sending_free(c->hooks.sending.p[i]);
    vec_done(&c->hooks.sending);
}

/* ---- requests ---- */

static int hook_put_check(const struct core *c, const struct change_hook *h,
                          const struct caller *who, struct err *e)
{
    struct arena mem = {0};
    struct filter *filter;
    enum hook_kind kind;
    struct str target;

    /* The hook of an entry of `notify` has its action as its name. */
    if ((!str_eq(h->name, h->action) && hook_name_check(h->name, e) < 0) ||
        hook_action_parse(h->action, &kind, &target, e) < 0 ||
        hook_action_allowed(h->action, h->secret, c->conf.home.multi_user, who->admin, e) < 0 ||
        (h->everyone && admin_only(who, "add a hook for the jobs of everyone", e) < 0))
        return -1;
    int rc = filter_parse(h->filter, core_wall(c), &mem, &filter, e);
    arena_done(&mem);
    if (rc < 0)
        return err_wrap(e, "filter");
    if (h->on.scope != HOOK_SCOPE_JOB && h->on.wait_ms)
        return err_set(e, ERR_INVALID,
                       "waiting is an event of jobs; leave scope out, or write another hook for "
                       "%s",
                       h->on.scope == HOOK_SCOPE_BATCH ? "batches" : "studies");
    if (h->on.scope == HOOK_SCOPE_STUDY &&
        h->on.events & ~(1u << HOOK_SUCCESS | 1u << HOOK_FAILURE | 1u << HOOK_END))
        return err_set(e, ERR_INVALID, "on: a study has the events success, failure and end");
    if (h->on.scope == HOOK_SCOPE_STUDY && h->filter.n)
        return err_set(e, ERR_INVALID, "filter: it is about jobs; leave it out with scope study");
    return 0;
}

void core_hook_put(struct core *c, const struct change_hook *h, struct str owner,
                   const struct caller *who, core_act_fn done, void *arg)
{
    struct change put = {.kind = CHANGE_HOOK, .at_ms = core_wall(c), .user = owner, .hook = *h};
    AUTO_FREE char *sealed = NULL;
    struct err e = {0};

    if (hook_put_check(c, h, who, &e) < 0) {
        done(arg, &e, NULL);
        return;
    }
    if (h->secret.n && c->conf.home.vault) {
        sealed = vault_seal_text(c->conf.home.vault, VAULT_OF_HOOK, h->secret);
        put.hook.secret = str_of(sealed);
    }
    set_and_answer(c, &put, done, arg);
}

void core_hook_remove(struct core *c, uint64_t hook, const struct caller *who, core_act_fn done,
                      void *arg)
{
    set_and_answer(
        c, &(struct change){CHANGE_BY(c, who, CHANGE_HOOK_GONE), .hook_gone = {.hook = hook}}, done,
        arg);
}

struct hook_testing {
    struct core *c;
    struct hook_sending *s;
};

static void hook_on_read(void *arg, const struct delivery_record *d)
{
    struct hook_testing *t = arg;

    t->s = sending_new(t->c, d);
    t->s->m.d.at_ms = core_wall(t->c);
}

void core_hook_test(struct core *c, uint64_t hook, core_hook_test_fn done, void *arg)
{
    struct ledger *led = &c->conf.ledger;
    struct hook_testing t = {.c = c};
    struct err e = {0};

    if (!led->read_hook || !c->conf.ops->deliver)
        err_set(&e, ERR_UNAVAILABLE, "this daemon sends no messages");
    else if (led->read_hook(led->self, hook, hook_on_read, &t, &e) == 0) {
        t.s->tested = done;
        t.s->arg = arg;
        hook_send(t.s);
        return;
    }
    done(arg, &e);
}

/* Entries of `notify` are checked when the job is submitted; whether a hook of that name exists is
 * up to the store. */
int notify_check(const struct core *c, struct str entries, const struct caller *who, struct err *e)
{
    struct hook_notify n;

    while (entries.n)
        if (hook_notify_parse(str_cut(entries, '\n', &entries), &n, e) < 0 ||
            hook_action_allowed(n.hook, STR(""), c->conf.home.multi_user, who->admin, e) < 0)
            return err_wrap(e, "notify");
    return 0;
}
