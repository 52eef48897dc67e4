/* hook.h - hooks: which events of jobs and batches are told to whom, and how
 *
 * A hook is written as a name, a list of events and one action.  A submission may bring its own
 * hooks in its key `notify`.  Everything here is text and numbers; core/hook.c decides when a
 * message is sent, and host/hook_send.c sends it.
 */
#pragma once
#include "base/err.h"
#include "base/str.h"
#include "model/job.h"

/* Events as bits of hook_on.events; the numbers are on disk, so new rows go to the end.  `end`
 * comes with every final state, in addition to the event of that state. */
#define HOOK_EVENT_LIST(X)                                                                         \
    X(QUEUED, queued, "is queued")                                                                 \
    X(START, start, "is running")                                                                  \
    X(SUCCESS, success, "has succeeded")                                                           \
    X(FAILURE, failure, "has failed")                                                              \
    X(CANCEL, cancel, "was cancelled")                                                             \
    X(END, end, "has ended")                                                                       \
    X(WAITING, waiting, "is still waiting")                                                        \
    X(TEST, test, "is a test")
enum hook_event {
#define X(up, low, text) HOOK_##up,
    HOOK_EVENT_LIST(X)
#undef X
        HOOK_EVENTS
};
const char *hook_event_name(enum hook_event ev);
const char *hook_event_text(enum hook_event ev); /* "has failed" */
/* The event that a job's new state is; HOOK_EVENTS = none. */
enum hook_event hook_event_of(enum job_state state);

/* What a hook watches; the numbers are on disk.  HOOK_SUMMARY is not watched: a message of this
 * scope stands for many events that came too fast. */
#define HOOK_SCOPE_LIST(X) X(JOB, job) X(BATCH, batch) X(SUMMARY, summary) X(STUDY, study)
enum hook_scope {
#define X(up, low) HOOK_SCOPE_##up,
    HOOK_SCOPE_LIST(X)
#undef X
        HOOK_SCOPES
};
const char *hook_scope_name(enum hook_scope s);
bool hook_scope_parse(struct str name, enum hook_scope *out); /* job, batch and study */

/* When a hook fires. */
struct hook_on {
    uint32_t events;       /* 1 << enum hook_event */
    int64_t wait_ms;       /* of HOOK_WAITING: longer in the queue than this */
    enum hook_scope scope; /* of jobs one by one, or of whole batches or studies */
};
/* Adds "failure", "end" or "waiting>2h" to *on. */
int hook_on_add(struct hook_on *on, struct str text, struct err *e);
/* One event of the set as text, as hook_on_add reads it. */
enum { HOOK_ON_MAX = 48 };
void hook_on_format(const struct hook_on *on, enum hook_event ev, char out[HOOK_ON_MAX]);

enum hook_kind { HOOK_COMMAND, HOOK_WEBHOOK, HOOK_MAIL, HOOK_SLACK };
/* Reads "mail:me@example.org" and checks the target for its kind.  *target is borrowed. */
int hook_action_parse(struct str text, enum hook_kind *kind, struct str *target, struct err *e);
/* Names of hooks consist of letters, digits and ._- and have at most HOOK_NAME_MAX bytes. */
enum { HOOK_NAME_MAX = 64, HOOK_TARGET_MAX = 2000, HOOK_NOTIFY_MAX = 16 };
int hook_name_check(struct str name, struct err *e);

/* One entry of `notify`: "failure,waiting>2h=mail:me@example.org", "end=NAME".  In front of the
 * events, "job:" or "batch:" says which scope; without it, scope_given is false and on.scope is
 * HOOK_SCOPE_JOB. */
struct hook_notify {
    struct hook_on on;
    bool scope_given;
    struct str hook; /* the name of a stored hook, or an action, which contains ':'; borrowed */
};
int hook_notify_parse(struct str text, struct hook_notify *out, struct err *e);

/* May this person use that action with this secret?  In a home of several users, only admins choose
 * addresses, because the daemon can reach addresses that the user cannot: ERR_DENIED for a webhook
 * of anybody else, and for a URL for Slack that is not one of Slack. */
int hook_action_allowed(struct str action, struct str secret, bool multi_user, bool admin,
                        struct err *e);
