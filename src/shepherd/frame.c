/* frame.c - writing frames, and reading them with every bound checked */
#include "shepherd/frame.h"
#include <stddef.h>
#include <string.h>

size_t frame_begin(struct buf *b, int type, int version)
{
    struct frame_head h = {.type = (uint16_t)type, .version = (uint16_t)version};
    size_t at = b->n;

    buf_add(b, &h, sizeof(h));
    return at;
}

bool frame_end(struct buf *b, size_t at, size_t max)
{
    size_t n = b->n - at;

    if (b->overflow || n > max) {
        b->n = at;
        b->overflow = false;
        return false;
    }
    uint32_t n32 = (uint32_t)n;
    memcpy(b->p + at + offsetof(struct frame_head, n), &n32, sizeof(n32));
    return true;
}

int frame_next(struct str in, size_t max, int types, struct frame_head *head, struct str *body)
{
    struct frame_head h;

    if (in.n < sizeof(h))
        return 0;
    memcpy(&h, in.p, sizeof(h));
    if (h.n < sizeof(h) || h.n > max || h.type == 0 || h.type >= types)
        return -1;
    if (in.n < h.n)
        return 0;
    *head = h;
    *body = (struct str){in.p + sizeof(h), h.n - sizeof(h)};
    return 1;
}
