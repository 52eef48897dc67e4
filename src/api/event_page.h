/* event_page.h - a page of events read on a worker thread, as text, with what each is about */
#pragma once
#include "base/vec.h"
#include "store/query.h"

/* Which events a reader gets.  Both conditions must hold: the owner and the job. */
struct event_filter {
    bool all;     /* everybody's */
    uint32_t uid; /* else events about this person's jobs only */
    uint64_t job; /* 0 = any */
};
/* One event, or a part of one, in event_page.text: n bytes from `at` on.  It is about the jobs
 * first to last; 0 = about no job. */
struct event_entry {
    uint64_t seq, first, last;
    uint32_t uid;
    bool owned; /* uid is known: all its jobs belong to one person */
    bool part;  /* of an event that also stands here whole, for admins */
    size_t at, n;
};
/* Members above the empty line are set before the read and members below it are results.  A page
 * belongs to one thread at a time: first the loop thread, then a worker, then the loop thread. */
struct event_page {
    struct store *store;
    void *owner; /* the caller's */
    /* The read begins behind this event and gives at most `limit` events. */
    uint64_t after;
    size_t limit;
    struct event_filter filter;
    bool sse;      /* text as server-sent events, else JSON objects with commas between */
    bool owners;   /* find out whose each event is, for event_page_select */
    uint64_t seen; /* everything up to here was committed before the page was asked for */

    struct buf text;
    VEC(struct event_entry) entries;
    uint64_t last; /* the next page begins after this */
    bool full;     /* there may be more */
    struct err err;
};
struct event_page *event_page_new(struct store *s, void *owner, uint64_t after, size_t limit);
/* NULL is fine. */
void event_page_free(struct event_page *p);
void event_page_read(void *page); /* a loop_fn for work_submit; any thread */
/* The part of a page read for all streams that one stream gets, which has seen the events up to
 * `pos`.  Borrowed from the page or from `some`. */
struct str event_page_select(const struct event_page *p, const struct event_filter *f, uint64_t pos,
                             struct buf *some);
/* {"seq":…,"kind":…,"at":…,"job":…,"last":…,"data":{…}} */
void event_json(struct buf *b, const struct event_view *v);
