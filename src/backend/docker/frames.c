/* frames.c - stdout and stderr of a container, as engines send them over one connection
 *
 * Each piece stands behind eight bytes: which stream, three zeros, the length (big-endian).  What
 * was written already is counted for each stream, so that after a broken connection the same
 * streams can be read again from their beginning and only what is new goes out: nothing is lost and
 * nothing comes twice, whatever the engine's clock or its granularity.
 */
#include "backend/docker/docker_priv.h"
#include "base/util.h"

enum { HEAD_BYTES = 8 };

void frames_again(struct frames *f)
{
    memset(f->at, 0, sizeof(f->at));
    f->head_n = 0;
    f->left = 0;
}

/* Streams 0 and 1 are written as stdout, 2 as stderr.  A head that is not valid means that the
 * connection carries something else than output. */
static bool head_ok(const struct frames *f)
{
    return f->head[0] <= 2 && !f->head[1] && !f->head[2] && !f->head[3];
}

static uint32_t head_length(const struct frames *f)
{
    return (uint32_t)f->head[4] << 24 | (uint32_t)f->head[5] << 16 | (uint32_t)f->head[6] << 8 |
           f->head[7];
}

/* Bytes of the frame at hand; what was written before is left out. */
static bool body(struct frames *f, struct str s)
{
    int stream = f->head[0] == 2 ? 2 : 1;
    uint64_t *at = &f->at[stream - 1], *written = &f->written[stream - 1];
    size_t old = *written > *at ? (size_t)MIN(*written - *at, (uint64_t)s.n) : 0;

    *at += s.n;
    if (old == s.n)
        return true;
    *written = *at;
    return f->out(f->arg, stream, (struct str){s.p + old, s.n - old});
}

bool frames_feed(struct frames *f, struct str piece)
{
    while (piece.n > 0) {
        if (f->left == 0) {
            size_t n = MIN(piece.n, HEAD_BYTES - f->head_n);
            memcpy(f->head + f->head_n, piece.p, n);
            f->head_n += n;
            piece = (struct str){piece.p + n, piece.n - n};
            if (f->head_n < HEAD_BYTES)
                return true;
            if (!head_ok(f))
                return false;
            f->left = head_length(f);
            f->head_n = 0;
            continue;
        }
        size_t n = MIN(piece.n, (size_t)f->left);
        f->left -= (uint32_t)n;
        if (!body(f, (struct str){piece.p, n}))
            return false;
        piece = (struct str){piece.p + n, piece.n - n};
    }
    return true;
}
