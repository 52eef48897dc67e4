/* sse.h - server-sent events out of the pieces a stream arrives in */
#pragma once
#include "base/buf.h"

struct sse_event {
    uint64_t id;
    struct str kind, data; /* borrowed during the callback */
};
typedef bool (*sse_fn)(void *arg, const struct sse_event *ev); /* false = stop */
/* line, kind and data hold the event that is being read; an event may arrive in many pieces. */
struct sse {
    struct buf line, kind, data;
    uint64_t id, last_id; /* of the event being read; of the last one delivered */
    sse_fn fn;
    void *arg;
};
/* fn is called inside of sse_feed, for every event that has data. */
void sse_init(struct sse *s, sse_fn fn, void *arg);
void sse_done(struct sse *s);
/* True while more is wanted; the shape http_call_stream asks for. */
bool sse_feed(void *sse, struct str piece);
