/* hook_send.h - messages of hooks on their way out of the host */
#pragma once
#include "host/hook_letter.h"

struct host;

/* core's operation `deliver`. */
void hook_deliver(void *host, const struct hook_message *m, hook_sent_fn done, void *arg);

/* hook_post.c: requests to other servers, on the loop. */
struct hook_sender;
struct hook_sender *hook_sender_new(struct loop *l);
/* The host closes: requests are dropped without an answer, so that their messages are sent again
 * by the next daemon.  NULL is fine, as for hook_sender_free. */
void hook_sender_shut(struct hook_sender *s);
void hook_sender_free(struct hook_sender *s);
/* What hooks without a secret use for Slack: the URL of an incoming webhook, or the token of an
 * app. api NULL: Slack's own. */
void hook_slack_default(struct hook_sender *s, const char *secret, const char *api);

/* Worker thread: waits until the mail program has exited.  ERR_UNAVAILABLE when there is no such
 * program or when it fails. */
int hook_mail_send(const struct hook_letter *l, struct str to, const char *id, struct err *e);
/* Loop thread.  Submits the command as a job of the hook's owner; `done` is called after the
 * commit, or at once when the command is no valid job. */
void hook_command_submit(struct host *h, const struct hook_letter *l, const struct hook_message *m,
                         struct str line, hook_sent_fn done, void *arg);
/* Posts to a webhook, or to Slack; target is a URL or a channel.  Loop thread.  The letter is
 * copied, so the caller may free it; `done` may be called before the function returns. */
void hook_post(struct hook_sender *s, const struct hook_letter *l, const struct hook_message *m,
               enum hook_kind kind, struct str target, hook_sent_fn done, void *arg);
