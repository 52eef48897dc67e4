/* hook_letter.h - what a message of a hook says, in each of the forms in which it is sent */
#pragma once
#include "base/buf.h"
#include "core/core.h"
#include "host/part.h"

struct hook_letter {
    struct buf title; /* one line for people */
    struct buf slack; /* the same with Slack's markup */
    struct buf json;  /* an object for programs */
    struct buf env;   /* variables of a command, as members of a JSON object */
    bool silent;      /* a dialect has nothing to say about this event */
};
/* Reads the job or batch, and fills all four; any thread.  A job that was removed meanwhile is told
 * by its number.  -1: the store cannot be read now. */
int hook_letter_write(struct hook_letter *l, struct store *s, const struct hook_message *m,
                      struct err *e);
void hook_letter_done(struct hook_letter *l);

/* "sha256=" and the HMAC of "TIMESTAMP.BODY" in hex. */
enum { HOOK_SIGNATURE_MAX = 80 };
void hook_sign(struct str secret, int64_t timestamp, struct str body, char out[HOOK_SIGNATURE_MAX]);
/* Appends a text as Slack wants it: &, < and > escaped, no control characters and backquotes. */
void hook_slack_escape(struct buf *b, struct str s);
/* The message as a mail with its headers.  `to` was checked by hook_action_parse; no other text can
 * begin a header. */
void hook_mail_write(struct buf *out, const struct hook_letter *l, struct str to, const char *id);
