/* frame.h - the frames of both protocols: daemon and shepherd, daemon and far program
 *
 * A frame is a head and a body.  The integers have the byte order of the machine: the far program
 * is sent to machines of the same kind only.
 */
#pragma once
#include "base/buf.h"
#include "base/str.h"

struct frame_head {
    uint32_t n; /* bytes of the frame, this head included */
    uint16_t type, version;
};
/* Appends the head; the result is its offset, for frame_end. */
size_t frame_begin(struct buf *b, int type, int version);
/* Sets the length of the frame that began at `at`.  False: it is larger than `max` or than the
 * buffer allows; the frame is then taken back, so that the frames before it stay usable. */
bool frame_end(struct buf *b, size_t at, size_t max);
/* A frame at the head of `in`: 1 = *head and *body are set, 0 = not complete yet, -1 = its length
 * is not possible, or its type is not between 1 and types - 1. */
int frame_next(struct str in, size_t max, int types, struct frame_head *head, struct str *body);
