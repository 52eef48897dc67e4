/* notify_priv.h - which events are told, to whom, in which words */
#pragma once
#include "dialect/atlas/atlas_priv.h"

struct notice {
    uint64_t event; /* its number */
    char *channel, *text;
};
void notice_done(struct notice *n);

enum notice_kind { NOTICE_NONE, NOTICE_QUEUED, NOTICE_RUNNING, NOTICE_COMPLETED, NOTICE_FAILED };
enum notice_kind notice_kind_of(struct str event); /* "job.queued" … */
/* What is to be said of a job of Atlas.  False: nothing, it is none, is gone, or has no channel. */
bool notice_make(const struct atlas *a, uint64_t job, enum notice_kind kind, struct notice *out);
/* As Slack wants text: &, < and > escaped, no control characters. */
void notice_escape(struct buf *b, struct str s);
