/* hook.c - the texts of hooks: events, actions, names, entries of `notify` */
#include "model/hook.h"
#include "base/units.h"
#include "base/util.h"
#include <ctype.h>
#include <stdio.h>

static const char *const event_names[HOOK_EVENTS] = {
#define X(up, low, text) [HOOK_##up] = #low,
    HOOK_EVENT_LIST(X)
#undef X
};
static const char *const event_texts[HOOK_EVENTS] = {
#define X(up, low, text) [HOOK_##up] = text,
    HOOK_EVENT_LIST(X)
#undef X
};
static const char *const scope_names[HOOK_SCOPES] = {
#define X(up, low) [HOOK_SCOPE_##up] = #low,
    HOOK_SCOPE_LIST(X)
#undef X
};
static const char *const kind_names[] = {[HOOK_COMMAND] = "command",
                                         [HOOK_WEBHOOK] = "webhook",
                                         [HOOK_MAIL] = "mail",
                                         [HOOK_SLACK] = "slack"};

const char *hook_event_name(enum hook_event ev)
{
    return ev < HOOK_EVENTS ? event_names[ev] : "unknown";
}

const char *hook_event_text(enum hook_event ev)
{
    return ev < HOOK_EVENTS ? event_texts[ev] : "has changed";
}

enum hook_event hook_event_of(enum job_state state)
{
    switch (state) {
    case JOB_QUEUED:
        return HOOK_QUEUED;
    case JOB_RUNNING:
        return HOOK_START;
    case JOB_SUCCEEDED:
        return HOOK_SUCCESS;
    case JOB_FAILED:
    case JOB_LOST:
        return HOOK_FAILURE;
    case JOB_CANCELLED:
        return HOOK_CANCEL;
    default:
        return HOOK_EVENTS;
    }
}

const char *hook_scope_name(enum hook_scope s)
{
    return s < HOOK_SCOPES ? scope_names[s] : "unknown";
}

bool hook_scope_parse(struct str name, enum hook_scope *out)
{
    for (int i = 0; i < HOOK_SCOPES; i++)
        if (i != HOOK_SCOPE_SUMMARY && str_eq_c(name, scope_names[i])) {
            *out = (enum hook_scope)i;
            return true;
        }
    return false;
}

/* ---- events ---- */

/* `waiting` needs a time, and only one: two hooks can have two. */
static int add_waiting(struct hook_on *on, struct str limit, struct err *e)
{
    int64_t ms;

    if (duration_parse(limit, &ms, e) < 0)
        return err_wrap(e, "waiting>%.*s", (int)MIN(limit.n, 40), limit.p);
    if (ms < 1000)
        return err_set(e, ERR_INVALID, "waiting: write at least a second, as waiting>2h");
    if (on->wait_ms && on->wait_ms != ms)
        return err_set(e, ERR_INVALID,
                       "waiting: one hook has one limit; write a second hook for the other");
    on->wait_ms = ms;
    on->events |= 1u << HOOK_WAITING;
    return 0;
}

int hook_on_add(struct hook_on *on, struct str text, struct err *e)
{
    struct str limit, word;

    text = str_trim(text);
    word = str_cut(text, '>', &limit);
    if (str_eq_c(word, "waiting"))
        return add_waiting(on, limit, e);
    for (int i = 0; i < HOOK_WAITING; i++)
        if (str_eq_c(text, event_names[i])) {
            on->events |= 1u << i;
            return 0;
        }
    return err_set(e, ERR_INVALID,
                   "\"%.*s\" is no event; write queued, start, success, failure, cancel, end or "
                   "waiting>2h",
                   (int)MIN(text.n, 40), text.p);
}

void hook_on_format(const struct hook_on *on, enum hook_event ev, char out[HOOK_ON_MAX])
{
    int64_t s = on->wait_ms / 1000, unit = s % 3600 == 0 ? 3600 : s % 60 == 0 ? 60 : 1;

    if (ev == HOOK_WAITING)
        snprintf(out, HOOK_ON_MAX, "waiting>%lld%s", (long long)(s / unit),
                 unit == 3600 ? "h"
                 : unit == 60 ? "m"
                              : "s");
    else
        snprintf(out, HOOK_ON_MAX, "%s", hook_event_name(ev));
}

/* ---- actions ---- */

/* Nothing that could end a line of a header or of a log. */
static bool one_line(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return false;
    return str_is_utf8(s);
}

/* One address, without what has a meaning in a header: no second address, no comment, no name. */
static bool mail_address_ok(struct str s)
{
    const char *at = memchr(s.p, '@', s.n);

    for (size_t i = 0; i < s.n; i++)
        if (!isalnum((unsigned char)s.p[i]) && !strchr("@._%+-=", s.p[i]))
            return false;
    return s.n <= 254 && s.p[0] != '-' &&
           (!at ||
            (at > s.p && at + 1 < s.p + s.n && !memchr(at + 1, '@', s.n - (size_t)(at + 1 - s.p))));
}

static int target_check(enum hook_kind kind, struct str t, struct err *e)
{
    switch (kind) {
    case HOOK_COMMAND:
        return 0;
    case HOOK_WEBHOOK:
        if (!memchr(t.p, ' ', t.n) &&
            (str_starts(t, STR("https://")) || str_starts(t, STR("http://"))))
            return 0;
        return err_set(e, ERR_INVALID,
                       "webhook: \"%.*s\" is no URL; write webhook:https://host/path",
                       (int)MIN(t.n, 60), t.p);
    case HOOK_MAIL:
        if (mail_address_ok(t))
            return 0;
        return err_set(e, ERR_INVALID,
                       "mail: \"%.*s\" is no address; write one address, as mail:me@example.org",
                       (int)MIN(t.n, 60), t.p);
    case HOOK_SLACK:
        if (!memchr(t.p, '/', t.n))
            return 0;
        return err_set(e, ERR_INVALID,
                       "slack: write the channel, as slack:#team, and give the URL of the incoming "
                       "webhook as the secret of the hook, which is never shown");
    }
    return 0;
}

int hook_action_parse(struct str text, enum hook_kind *kind, struct str *target, struct err *e)
{
    struct str rest, word = str_cut(text, ':', &rest);

    for (size_t i = 0; i < ARRAY_SIZE(kind_names); i++) {
        if (!str_eq_c(word, kind_names[i]))
            continue;
        if (!rest.n || rest.n > HOOK_TARGET_MAX || !one_line(rest))
            return err_set(e, ERR_INVALID,
                           "%s: write the target behind the colon: one line of at most %d bytes",
                           kind_names[i], HOOK_TARGET_MAX);
        if (target_check((enum hook_kind)i, rest, e) < 0)
            return -1;
        *kind = (enum hook_kind)i;
        *target = rest;
        return 0;
    }
    return err_set(e, ERR_INVALID,
                   "\"%.*s\" is no action; write command:LINE, webhook:URL, mail:ADDRESS or "
                   "slack:#CHANNEL",
                   (int)MIN(text.n, 60), text.p);
}

int hook_name_check(struct str name, struct err *e)
{
    bool ok = name.n && name.n <= HOOK_NAME_MAX;

    for (size_t i = 0; ok && i < name.n; i++)
        ok = isalnum((unsigned char)name.p[i]) || strchr("._-", name.p[i]);
    return ok ? 0
              : err_set(e, ERR_INVALID,
                        "\"%.*s\" cannot be the name of a hook; use letters, digits and ._-, at "
                        "most %d",
                        (int)MIN(name.n, 60), name.p, HOOK_NAME_MAX);
}

int hook_action_allowed(struct str action, struct str secret, bool multi_user, bool admin,
                        struct err *e)
{
    if (!multi_user || admin)
        return 0;
    if (str_starts(action, STR("webhook:")))
        return err_set(e, ERR_DENIED,
                       "webhooks of this daemon are for its admins only, because it has several "
                       "users; use mail, slack or command, or ask an admin for a hook with a name");
    if (str_starts(secret, STR("http")) && !str_starts(secret, STR("https://hooks.slack.com/")))
        return err_set(e, ERR_DENIED,
                       "the URL for Slack must begin with https://hooks.slack.com/, because this "
                       "daemon has several users");
    return 0;
}

/* ---- notify ---- */

int hook_notify_parse(struct str text, struct hook_notify *out, struct err *e)
{
    struct hook_notify n = {0};
    enum hook_kind kind;
    struct str hook, events = str_cut(text, '=', &hook), target, rest;

    hook = str_trim(hook);
    if (!hook.n)
        return err_set(e, ERR_INVALID,
                       "\"%.*s\": write EVENT=ACTION, as failure=mail:me@example.org",
                       (int)MIN(text.n, 60), text.p);
    const char *colon = memchr(events.p, ':', events.n);
    if (colon) {
        struct str scope = str_trim(str_cut(events, ':', &rest));
        if (!hook_scope_parse(scope, &n.on.scope) || n.on.scope == HOOK_SCOPE_STUDY)
            return err_set(e, ERR_INVALID,
                           "\"%.*s\": write job: or batch: before the event; for searches there is "
                           "`berth hook add --scope study`",
                           (int)MIN(text.n, 60), text.p);
        n.scope_given = true;
        events = rest;
    }
    do {
        struct str one = str_cut(events, ',', &rest);
        if (hook_on_add(&n.on, one, e) < 0)
            return -1;
        events = rest;
    } while (events.n);
    if (memchr(hook.p, ':', hook.n) ? hook_action_parse(hook, &kind, &target, e) < 0
                                    : hook_name_check(hook, e) < 0)
        return -1;
    n.hook = hook;
    *out = n;
    return 0;
}
