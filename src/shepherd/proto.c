/* proto.c - frames between daemon and shepherd: writing, and reading with every bound checked
 *
 * Text travels as length, bytes, NUL, so that a decoded frame can be used in place: argv and envp
 * point into it and nothing is copied per word.
 */
#include "shepherd/proto.h"
#include "base/util.h"
#include <stddef.h>

/* ---- writing ---- */

static void put_text(struct buf *b, struct str s)
{
    uint32_t n = (uint32_t)s.n;

    buf_add(b, &n, sizeof(n));
    buf_add(b, s.p ? s.p : "", s.n);
    buf_addc(b, 0);
}

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
    struct proto_start_fixed f = s->f;

    f.n_argv = f.n_env = f.n_mounts = 0;
    while (s->argv[f.n_argv])
        f.n_argv++;
    while (s->envp[f.n_env])
        f.n_env++;
    while (s->mounts && s->mounts[f.n_mounts])
        f.n_mounts++;
    frame_begin(b, PROTO_START);
    buf_add(b, &f, sizeof(f));
    buf_add(b, s->groups, f.n_groups * sizeof(uint32_t));
    put_text(b, str_of(s->cwd));
    put_text(b, str_of(s->log_path));
    put_text(b, str_of(s->err_path));
    put_text(b, str_of(s->run_dir));
    put_text(b, s->params);
    for (uint32_t i = 0; i < f.n_argv; i++)
        put_text(b, str_of(s->argv[i]));
    for (uint32_t i = 0; i < f.n_env; i++)
        put_text(b, str_of(s->envp[i]));
    for (uint32_t i = 0; i < f.n_mounts; i++)
        put_text(b, str_of(s->mounts[i]));
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

bool proto_get_start_fixed(struct str body, struct proto_start_fixed *f)
{
    if (body.n < sizeof(*f))
        return false;
    memcpy(f, body.p, sizeof(*f));
    return true;
}

void proto_set_start_offset(struct str frame, uint64_t offset)
{
    size_t at = sizeof(struct proto_head) + offsetof(struct proto_start_fixed, offset);

    ASSERT(frame.n >= sizeof(struct proto_head) + sizeof(struct proto_start_fixed));
    memcpy((char *)(uintptr_t)frame.p + at, &offset, sizeof(offset));
}

/* Takes one text off the front; its NUL is checked, so .p is a C string too (perhaps a shorter
 * one). */
static bool take_text(struct str *in, struct str *out)
{
    uint32_t n;

    if (in->n < sizeof(n))
        return false;
    memcpy(&n, in->p, sizeof(n));
    if (n >= in->n - sizeof(n) || in->p[sizeof(n) + n] != 0)
        return false;
    *out = (struct str){in->p + sizeof(n), n};
    in->p += sizeof(n) + n + 1;
    in->n -= sizeof(n) + n + 1;
    return true;
}

static bool take_words(struct str *in, char **to, uint32_t n)
{
    struct str s;

    for (uint32_t i = 0; i < n; i++) {
        if (!take_text(in, &s))
            return false;
        to[i] = (char *)(uintptr_t)s.p; /* execve wants char *, and does not write */
    }
    to[n] = NULL;
    return true;
}

static bool take_groups(struct str *in, struct proto_start *s)
{
    size_t n = s->f.n_groups * sizeof(uint32_t);

    if (s->f.n_groups > 65536 || n > in->n)
        return false;
    if (n > 0) {
        s->group_ids = xrealloc(s->group_ids, s->f.n_groups, sizeof(uint32_t));
        memcpy(s->group_ids, in->p, n);
    }
    s->groups = s->group_ids;
    in->p += n;
    in->n -= n;
    return true;
}

bool proto_get_start(struct str body, struct proto_start *s)
{
    struct str in = body, cwd, log, err, dir;

    if (!proto_get_start_fixed(in, &s->f))
        return false;
    in.p += sizeof(s->f);
    in.n -= sizeof(s->f);
    if (!take_groups(&in, s) || !take_text(&in, &cwd) || !take_text(&in, &log) ||
        !take_text(&in, &err) || !take_text(&in, &dir) || !take_text(&in, &s->params))
        return false;
    /* Every word takes at least five bytes, which bounds the counts before they are added. */
    if (s->f.n_argv == 0 || s->f.n_argv > in.n / 5 || s->f.n_env > in.n / 5 ||
        s->f.n_mounts > in.n / 5)
        return false;
    size_t want = (size_t)s->f.n_argv + s->f.n_env + s->f.n_mounts + 5;
    if (s->words_cap < want) {
        s->words = xrealloc(s->words, want, sizeof(char *));
        s->words_cap = want;
    }
    char **argv = s->words + 1, **envp = argv + s->f.n_argv + 1, **mounts = envp + s->f.n_env + 2;
    if (!take_words(&in, argv, s->f.n_argv) || !take_words(&in, envp, s->f.n_env) ||
        !take_words(&in, mounts, s->f.n_mounts) || in.n != 0)
        return false;
    envp[s->f.n_env + 1] = NULL;
    s->argv = argv;
    s->envp = envp;
    s->mounts = mounts;
    s->cwd = cwd.p;
    s->log_path = log.p;
    s->err_path = err.p;
    s->run_dir = dir.p;
    return true;
}

void proto_start_done(struct proto_start *s)
{
    free(s->words);
    free(s->group_ids);
    memset(s, 0, sizeof(*s));
}
