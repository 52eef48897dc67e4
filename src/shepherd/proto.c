/* proto.c - frames between daemon and shepherd: writing, and reading with every bound checked
 *
 * What a START holds of its run is encoded by run_start.c.
 */
#include "shepherd/proto.h"
#include "base/util.h"
#include <stddef.h>

/* ---- writing ---- */

static bool frame_begin(struct buf *b, enum proto_type type)
{
    struct proto_head h = {.type = (uint16_t)type, .version = PROTO_VERSION};

    return buf_add(b, &h, sizeof(h));
}

/* Sets the length of the frame that began at `at`, or takes all of it back. */
static bool frame_end(struct buf *b, size_t at)
{
    size_t n = b->n - at;

    if (b->overflow || n > PROTO_FRAME_MAX) {
        b->n = at;
        b->overflow = false;
        return false;
    }
    uint32_t n32 = (uint32_t)n;
    memcpy(b->p + at + offsetof(struct proto_head, n), &n32, sizeof(n32));
    return true;
}

bool proto_put_start(struct buf *b, const struct proto_start *s)
{
    size_t at = b->n;

    frame_begin(b, PROTO_START);
    buf_add(b, &s->offset, sizeof(s->offset));
    run_start_put(b, &s->run);
    return frame_end(b, at);
}

bool proto_put_op(struct buf *b, enum proto_type type, const struct proto_op *op)
{
    size_t at = b->n;

    frame_begin(b, type);
    buf_add(b, op, sizeof(*op));
    return frame_end(b, at);
}

bool proto_put_text(struct buf *b, enum proto_type type, struct str text)
{
    size_t at = b->n;

    frame_begin(b, type);
    buf_add(b, text.p, text.n);
    return frame_end(b, at);
}

/* ---- reading ---- */

int proto_next(struct str in, struct proto_head *head, struct str *body)
{
    struct proto_head h;

    if (in.n < sizeof(h))
        return 0;
    memcpy(&h, in.p, sizeof(h));
    if (h.n < sizeof(h) || h.n > PROTO_FRAME_MAX || h.type == 0 || h.type >= PROTO_TYPE_MAX)
        return -1;
    if (in.n < h.n)
        return 0;
    *head = h;
    *body = (struct str){in.p + sizeof(h), h.n - sizeof(h)};
    return 1;
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
    ASSERT(frame.n >= sizeof(struct proto_head) + sizeof(offset));
    memcpy((char *)(uintptr_t)frame.p + sizeof(struct proto_head), &offset, sizeof(offset));
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
