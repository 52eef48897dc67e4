/* proto.c - frames between daemon and shepherd: writing, and reading with every bound checked
 *
 * What a START holds of its run is encoded by run_start.c.
 */
#include "shepherd/proto.h"
#include "base/util.h"
#include <stddef.h>

/* ---- writing ---- */

bool proto_put_start(struct buf *b, const struct proto_start *s)
{
    size_t at = frame_begin(b, PROTO_START, PROTO_VERSION);

    buf_add(b, &s->offset, sizeof(s->offset));
    run_start_put(b, &s->run);
    return frame_end(b, at, PROTO_FRAME_MAX);
}

bool proto_put_op(struct buf *b, enum proto_type type, const struct proto_op *op)
{
    size_t at = frame_begin(b, type, PROTO_VERSION);

    buf_add(b, op, sizeof(*op));
    return frame_end(b, at, PROTO_FRAME_MAX);
}

bool proto_put_text(struct buf *b, enum proto_type type, struct str text)
{
    size_t at = frame_begin(b, type, PROTO_VERSION);

    buf_add(b, text.p, text.n);
    return frame_end(b, at, PROTO_FRAME_MAX);
}

/* ---- reading ---- */

int proto_next(struct str in, struct frame_head *head, struct str *body)
{
    return frame_next(in, PROTO_FRAME_MAX, PROTO_TYPE_MAX, head, body);
}

bool proto_get_op(struct str body, struct proto_op *out)
{
    if (body.n != sizeof(*out))
        return false;
    memcpy(out, body.p, sizeof(*out));
    return true;
}

void proto_set_start_offset(struct str frame, uint64_t offset)
{
    ASSERT(frame.n >= sizeof(struct frame_head) + sizeof(offset));
    memcpy((char *)(uintptr_t)frame.p + sizeof(struct frame_head), &offset, sizeof(offset));
}

bool proto_get_start(struct str body, struct proto_start *s)
{
    if (body.n < sizeof(s->offset))
        return false;
    memcpy(&s->offset, body.p, sizeof(s->offset));
    body.p += sizeof(s->offset);
    body.n -= sizeof(s->offset);
    return run_start_get(body, &s->memory, &s->run);
}

void proto_start_done(struct proto_start *s)
{
    run_start_memory_done(&s->memory);
    *s = (struct proto_start){0};
}
