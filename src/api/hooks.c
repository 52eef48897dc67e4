/* hooks.c - /v1/hooks: who is told of which events, and what became of the messages
 *
 * A user has hooks of their own; an admin may add hooks for the jobs of everyone.  Secrets are
 * written and never read: answers say only whether there is one.  A webhook without a given secret
 * gets one, which only the answer to that request shows.
 */
#include "api/api_priv.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/rand.h"
#include "store/hook.h"

/* HOOKS_MAX counts the hooks of one user.  The secret of a Slack hook may be a URL, hence its size.
 */
enum { HOOK_SECRET_BYTES = 24, HOOKS_MAX = 1000, HOOK_FILTER_MAX = 4000, HOOK_SECRET_MAX = 4000 };

/* A hook that is being added, changed or acted on.  hook_begin fills in the caller as the owner;
 * hook_take replaces that by the hook of the path, so an admin who changes the hook of another user
 * does not become its owner. */
struct hook_call {
    struct change_hook h; /* texts are copies in call.mem */
    struct str owner;
    uint64_t seq;                         /* 0 = it is not there yet */
    char made[2 * HOOK_SECRET_BYTES + 1]; /* secret that was made for it; "" = none */
    size_t count;                         /* hooks of the user */
};

/* May the caller see the target of the hook and change it? */
static bool hook_is_mine(const struct call *c, uint32_t uid)
{
    return caller_sees(&c->who.caller, uid);
}

/* ---- answers ---- */

/* Of a hook for everyone, others learn its kind and not its target.  A secret that was made for
 * this request is part of its answer and is never shown again. */
static void hook_json(struct call *c, const struct hook_view *v)
{
    struct buf *b = &c->out;
    char text[HOOK_ON_MAX];
    struct str rest;

    jw_object(b, NULL);
    jw_str(b, "name", v->name);
    jw_str(b, "user", v->user);
    jw_array(b, "on");
    for (int ev = 0; ev < HOOK_TEST; ev++)
        if (v->on.events & 1u << ev) {
            hook_on_format(&v->on, (enum hook_event)ev, text);
            jw_text(b, NULL, text);
        }
    jw_end_array(b);
    jw_text(b, "scope", hook_scope_name(v->on.scope));
    jw_str(b, "filter", v->filter);
    jw_str(b, "do", hook_is_mine(c, v->uid) ? v->action : str_cut(v->action, ':', &rest));
    jw_bool(b, "everyone", v->everyone);
    jw_bool(b, "paused", !v->enabled);
    jw_bool(b, "has_secret", v->has_secret);
    jw_int(b, "pending", v->pending);
    jw_int(b, "sent", v->sent);
    jw_int(b, "failed", v->failed);
    jw_time(b, "last_sent", v->last_ms);
    jw_str_or_null(b, "last_error", v->last_error);
    jw_time(b, "last_error_at", v->last_error_ms);
    const struct hook_call *h = c->data;
    if (h && h->made[0])
        jw_text(b, "secret", h->made);
    jw_end_object(b);
}

static bool hook_add_json(void *arg, const struct hook_view *v)
{
    struct call *c = arg;

    hook_json(c, v);
    return !c->out.overflow;
}

/* Worker thread.  An admin gets the hooks of all users, other users their own and those for
 * everyone. */
static int hooks_list_work(struct call *c)
{
    jw_object(&c->out, NULL);
    jw_array(&c->out, "items");
    if (store_hooks(call_api(c)->conf.store, !c->who.caller.admin, c->who.caller.uid, hook_add_json,
                    c, &c->err) < 0)
        return -1;
    jw_end_array(&c->out);
    jw_end_object(&c->out);
    return 0;
}

void hooks_list(struct call *c)
{
    call_work(c, hooks_list_work, NULL);
}

static int hook_get_work(struct call *c)
{
    return store_hook(call_api(c)->conf.store, c->who.caller.uid, c->who.caller.admin, c->arg[0],
                      hook_add_json, c, &c->err);
}

void hooks_get(struct call *c)
{
    call_work(c, hook_get_work, NULL);
}

/* After the commit of a change: the hook as it is now.  The hook is read from the store by its name
 * in arg[0], which hook_put sets for a new hook. */
static void hook_answer(void *arg, const struct err *e, const struct acted *r UNUSED)
{
    call_then(arg, e, hooks_get);
}

/* ---- definitions ---- */

/* One event may be given as a text instead of a list.  A list that is given replaces all events of
 * the hook; without the member the events stay. */
static int hook_read_on(struct call *c, const struct json *on, struct hook_on *out)
{
    bool one = json_type(on) == JSON_STR;

    if (!on)
        return 0;
    if (!one && json_type(on) != JSON_ARRAY)
        return body_wrong_type(c, "on", on, "a list of events");
    out->events = 0;
    out->wait_ms = 0;
    for (size_t i = 0; i < (one ? 1 : json_len(on)); i++) {
        const struct json *v = one ? on : json_at(on, i);
        if (json_type(v) != JSON_STR)
            return body_wrong_type(c, "on", v, "a list of events");
        if (hook_on_add(out, json_str(v), &c->err) < 0)
            return err_wrap(&c->err, "on");
    }
    return 0;
}

static int hook_read_bool(struct call *c, const struct json *body, const char *key, bool *out)
{
    const struct json *v = json_get(body, key);

    if (v && json_type(v) != JSON_BOOL)
        return body_wrong_type(c, key, v, "true or false");
    *out = v ? json_bool(v) : *out;
    return 0;
}

/* A text that is given replaces the one of the hook; without the member *out stays.  NUL bytes are
 * refused, because the text goes into headers and command lines. */
static int hook_read_text(struct call *c, const struct json *body, const char *key, size_t max,
                          struct str *out)
{
    struct str s;

    if (!json_get(body, key))
        return 0;
    if (body_text(c, body, key, &s) < 0)
        return -1;
    if (s.n > max || memchr(s.p, '\0', s.n))
        return err_set(&c->err, ERR_INVALID, "%s: must have at most %zu bytes", key, max);
    *out = call_copy(c, s);
    return 0;
}

static int hook_read_scope(struct call *c, const struct json *body, struct hook_on *on)
{
    struct str scope;

    if (body_text(c, body, "scope", &scope) < 0)
        return -1;
    if (scope.n && !hook_scope_parse(scope, &on->scope))
        return err_set(&c->err, ERR_INVALID, "scope: \"%.*s\" is none of job, batch and study",
                       (int)MIN(scope.n, 40), scope.p);
    return 0;
}

/* Worker thread.  Lays the members of the body over x->h, which has the defaults of a new hook or
 * the present state of the hook of the path.  The core checks the name, the action and the
 * filter. */
static int hook_read_body(struct call *c, const struct json *body)
{
    static const char *const keys[] = {"name", "on",       "scope",  "filter",
                                       "do",   "everyone", "paused", "secret"};
    struct hook_call *x = c->data;
    struct change_hook *h = &x->h;
    struct str name = {0}, secret = {0};
    bool paused = !h->enabled;

    if (body_check_keys(body, keys, ARRAY_SIZE(keys), &c->err) < 0 ||
        hook_read_text(c, body, "name", HOOK_TARGET_MAX, &name) < 0 ||
        hook_read_on(c, json_get(body, "on"), &h->on) < 0 || hook_read_scope(c, body, &h->on) < 0 ||
        hook_read_text(c, body, "filter", HOOK_FILTER_MAX, &h->filter) < 0 ||
        hook_read_text(c, body, "do", HOOK_TARGET_MAX + 20, &h->action) < 0 ||
        hook_read_bool(c, body, "everyone", &h->everyone) < 0 ||
        hook_read_bool(c, body, "paused", &paused) < 0 ||
        hook_read_text(c, body, "secret", HOOK_SECRET_MAX, &secret) < 0)
        return -1;
    h->enabled = !paused;
    if (x->seq && name.n && !str_eq(name, h->name))
        return err_set(&c->err, ERR_INVALID, "name: a hook cannot be renamed; leave `name` out");
    if (!x->seq)
        h->name = name;
    if (secret.n) {
        h->secret = str_trim(secret);
        h->keep_secret = false;
    }
    return 0;
}

/* Makes the hook of the store the one to change.  The store does not give the secret out, so
 * keep_secret says that the old secret stays. */
static bool hook_take(void *arg, const struct hook_view *v)
{
    struct call *c = arg;
    struct hook_call *x = c->data;

    x->seq = v->seq;
    x->owner = call_copy(c, v->user);
    x->h = (struct change_hook){.uid = v->uid,
                                .gid = v->gid,
                                .name = call_copy(c, v->name),
                                .filter = call_copy(c, v->filter),
                                .action = call_copy(c, v->action),
                                .on = v->on,
                                .everyone = v->everyone,
                                .enabled = v->enabled,
                                .keep_secret = true};
    return false;
}

/* Worker thread: the hook of the path, which the caller must be allowed to change. */
static int hook_find_work(struct call *c)
{
    struct hook_call *x = c->data;

    if (store_hook(call_api(c)->conf.store, c->who.caller.uid, c->who.caller.admin, c->arg[0],
                   hook_take, c, &c->err) < 0)
        return -1;
    return hook_is_mine(c, x->h.uid)
               ? 0
               : err_set(&c->err, ERR_DENIED, "the hook '%.*s' belongs to another user",
                         STR_ARG(c->arg[0]));
}

/* Counts the hooks of the caller and refuses a name that is taken.  Hooks for everyone are listed
 * too, hence the comparison of uids. */
static bool hook_count(void *arg, const struct hook_view *v)
{
    struct call *c = arg;
    struct hook_call *x = c->data;

    x->count += v->uid == c->who.caller.uid;
    if (v->uid == c->who.caller.uid && str_eq(v->name, x->h.name))
        err_set(&c->err, ERR_CONFLICT,
                "there is a hook '%.*s'; change it with PUT, or remove it first",
                (int)MIN(v->name.n, 100), v->name.p);
    return !c->err.code;
}

static void hook_make_secret(struct hook_call *x)
{
    uint8_t bytes[HOOK_SECRET_BYTES];

    random_bytes(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(x->made + 2 * i, 3, "%02x", bytes[i]);
    x->h.secret = str_of(x->made);
}

/* Worker thread.  With a name in the path the hook must exist and is changed; without one it is
 * new. */
static int hook_define_work(struct call *c)
{
    struct hook_call *x = c->data;
    AUTO(json) struct json *body = NULL;

    if (c->arg[0].n && hook_find_work(c) < 0)
        return -1;
    body = body_object(c);
    if (!body || hook_read_body(c, body) < 0)
        return -1;
    if (x->seq)
        return 0;
    if (store_hooks(call_api(c)->conf.store, true, x->h.uid, hook_count, c, &c->err) < 0 ||
        c->err.code)
        return -1;
    if (x->count >= HOOKS_MAX)
        return err_set(&c->err, ERR_LIMIT, "you have %d hooks; remove some first", HOOKS_MAX);
    if (!x->h.secret.n && str_starts(x->h.action, STR("webhook:")))
        hook_make_secret(x);
    return 0;
}

/* Loop thread.  The core records the hook and calls hook_answer after the commit. */
static void hook_put(struct call *c)
{
    struct hook_call *x = c->data;

    if (!x->seq) {
        c->status = 201;
        c->arg[0] = x->h.name;
    }
    core_hook_put(call_api(c)->conf.core, &x->h, x->owner, &c->who.caller, hook_answer, c);
}

static void hook_begin(struct call *c)
{
    struct hook_call *x = c->data = call_alloc(c, sizeof(*x));

    *x = (struct hook_call){
        .h = {.uid = c->who.caller.uid, .gid = c->who.caller.gid, .enabled = true},
        .owner = str_of(c->who.caller.user)};
}

/* POST /v1/hooks, and PUT /v1/hooks/{name} with what is to change. */
void hooks_define(struct call *c)
{
    hook_begin(c);
    call_keep_body(c);
    call_work(c, hook_define_work, hook_put);
}

/* ---- actions ---- */

static void hook_remove(struct call *c)
{
    struct hook_call *x = c->data;

    core_hook_remove(call_api(c)->conf.core, x->seq, &c->who.caller, call_acted, c);
}

void hooks_remove(struct call *c)
{
    hook_begin(c);
    call_work(c, hook_find_work, hook_remove);
}

static void hook_pause(struct call *c)
{
    struct hook_call *x = c->data;

    x->h.enabled = !*(const bool *)c->route->arg;
    hook_put(c);
}

/* Two rows of the table share this handler; route.arg says whether to pause or to resume. */
void hooks_set_paused(struct call *c)
{
    hook_begin(c);
    call_work(c, hook_find_work, hook_pause);
}

/* What happened is the answer: a receiver that fails is no failure of this request. */
static void hook_tested(void *arg, const struct err *e)
{
    struct call *c = arg;

    jw_object(&c->out, NULL);
    jw_bool(&c->out, "sent", !e);
    jw_str_or_null(&c->out, "error", str_of(e ? e->text : ""));
    jw_end_object(&c->out);
    call_reply(c);
}

/* The call waits for the receiver, which may take as long as the time limit of its kind. */
static void hook_test(struct call *c)
{
    struct hook_call *x = c->data;

    core_hook_test(call_api(c)->conf.core, x->seq, hook_tested, c);
}

void hooks_test(struct call *c)
{
    hook_begin(c);
    call_work(c, hook_find_work, hook_test);
}
