/* wire.c - frames between daemon and far program: writing, and reading with every bound checked */
#include "backend/ssh/wire.h"
#include "base/util.h"
#include <stddef.h>

/* ---- writing ---- */

static void wire_put_sized(struct buf *b, struct str s)
{
    uint32_t n = (uint32_t)s.n;

    buf_add(b, &n, sizeof(n));
    buf_add(b, s.p ? s.p : "", s.n);
    buf_addc(b, 0);
}

/* The frames that are a struct and the rest. */
static bool wire_put_struct(struct buf *b, enum wire_type type, const void *fixed, size_t n,
                            struct str rest)
{
    size_t at = frame_begin(b, type, WIRE_VERSION);

    buf_add(b, fixed, n);
    buf_add(b, rest.p ? rest.p : "", rest.n);
    return frame_end(b, at, WIRE_FRAME_MAX);
}

bool wire_put_op(struct buf *b, enum wire_type type, const struct wire_op *op)
{
    return wire_put_struct(b, type, op, sizeof(*op), STR(""));
}

bool wire_put_op_text(struct buf *b, enum wire_type type, const struct wire_op *op, struct str text)
{
    return wire_put_struct(b, type, op, sizeof(*op), text);
}

bool wire_put_text(struct buf *b, enum wire_type type, struct str text)
{
    return wire_put_struct(b, type, "", 0, text);
}

bool wire_put_ended(struct buf *b, const struct wire_ended *e, struct str detail)
{
    detail.n = MIN(detail.n, WIRE_DETAIL_MAX);
    return wire_put_struct(b, WIRE_ENDED, e, sizeof(*e), detail);
}

bool wire_put_log(struct buf *b, const struct wire_log *l, struct str bytes)
{
    return wire_put_struct(b, WIRE_LOG, l, sizeof(*l), bytes);
}

bool wire_put_node(struct buf *b, const struct wire_node *n)
{
    return wire_put_struct(b, WIRE_WELCOME, n, sizeof(*n), STR(""));
}

bool wire_put_asset(struct buf *b, const struct wire_asset *a, struct str name, struct str bytes)
{
    size_t at = frame_begin(b, WIRE_ASSET, WIRE_VERSION);

    buf_add(b, a, sizeof(*a));
    wire_put_sized(b, name);
    buf_add(b, bytes.p ? bytes.p : "", bytes.n);
    return frame_end(b, at, WIRE_FRAME_MAX);
}

bool wire_put_start(struct buf *b, const struct wire_start *s)
{
    size_t at = frame_begin(b, WIRE_START, WIRE_VERSION);

    buf_add(b, s->offset, sizeof(s->offset));
    run_start_put(b, &s->run);
    return frame_end(b, at, WIRE_FRAME_MAX);
}

bool wire_put_devices(struct buf *b, const struct node *n, const struct run_memory *runs,
                      size_t n_runs)
{
    struct wire_devices d = {(uint32_t)n->n_devices, (uint32_t)n_runs};
    size_t at = frame_begin(b, WIRE_DEVICES, WIRE_VERSION);

    buf_add(b, &d, sizeof(d));
    if (n->n_devices)
        buf_add(b, n->devices, n->n_devices * sizeof(*n->devices));
    if (n_runs)
        buf_add(b, runs, n_runs * sizeof(*runs));
    return frame_end(b, at, WIRE_FRAME_MAX);
}

/* ---- reading ---- */

/* A frame of another version ends the connection before all of it has come. */
int wire_next(struct str in, struct frame_head *head, struct str *body)
{
    struct frame_head h = {.version = WIRE_VERSION};

    if (in.n >= sizeof(h))
        memcpy(&h, in.p, sizeof(h));
    return h.version == WIRE_VERSION ? frame_next(in, WIRE_FRAME_MAX, WIRE_TYPE_MAX, head, body)
                                     : -1;
}

static bool wire_take_struct(struct str *in, void *out, size_t n)
{
    if (in->n < n)
        return false;
    memcpy(out, in->p, n);
    in->p += n;
    in->n -= n;
    return true;
}

/* Text has a length and a NUL behind it, and no NUL inside, so it is safe to use as a C string. */
static bool wire_take_text(struct str *in, struct str *out)
{
    uint32_t n;

    if (!wire_take_struct(in, &n, sizeof(n)) || n >= in->n || in->p[n] != 0 || memchr(in->p, 0, n))
        return false;
    *out = (struct str){in->p, n};
    in->p += n + 1;
    in->n -= n + 1;
    return true;
}

static bool key_ok(struct run_key key)
{
    uint64_t id;

    return run_key_pack(key, &id);
}

bool wire_get_op(struct str body, struct wire_op *out)
{
    return body.n == sizeof(*out) && wire_take_struct(&body, out, sizeof(*out));
}

bool wire_get_op_text(struct str body, struct wire_op *out, struct str *text)
{
    if (!wire_take_struct(&body, out, sizeof(*out)) || !key_ok(out->key))
        return false;
    *text = body;
    return true;
}

bool wire_name_ok(struct str name)
{
    if (name.n == 0 || name.n >= 4096 || name.p[0] == '/')
        return false;
    for (struct str rest = name; rest.n > 0;) {
        struct str part = str_cut(rest, '/', &rest);
        if (str_eq_c(part, ".."))
            return false;
    }
    return true;
}

bool wire_get_asset(struct str body, struct wire_asset *out, struct str *name, struct str *bytes)
{
    if (!wire_take_struct(&body, out, sizeof(*out)) || !key_ok(out->key) || out->kind > WIRE_LINK ||
        !wire_take_text(&body, name) || !wire_name_ok(*name))
        return false;
    *bytes = body;
    return true;
}

bool wire_get_start(struct str body, struct wire_start *out)
{
    return wire_take_struct(&body, out->offset, sizeof(out->offset)) &&
           run_start_get(body, &out->memory, &out->run) && key_ok(out->run.key);
}

void wire_start_done(struct wire_start *s)
{
    run_start_memory_done(&s->memory);
}

bool wire_get_ended(struct str body, struct wire_ended *out, struct str *detail)
{
    if (!wire_take_struct(&body, out, sizeof(*out)) || !key_ok(out->key) ||
        body.n > WIRE_DETAIL_MAX)
        return false;
    if ((unsigned)out->o.why >= RUN_END_MAX)
        return false;
    *detail = body;
    return true;
}

bool wire_get_log(struct str body, struct wire_log *out, struct str *bytes)
{
    if (!wire_take_struct(&body, out, sizeof(*out)) || !key_ok(out->key) ||
        out->stream >= WIRE_STREAMS || body.n > WIRE_PIECE || out->offset > INT64_MAX - WIRE_PIECE)
        return false;
    *bytes = body;
    return true;
}

bool wire_get_node(struct str body, struct wire_node *out)
{
    if (body.n != sizeof(*out) || !wire_take_struct(&body, out, sizeof(*out)))
        return false;
    out->name[sizeof(out->name) - 1] = 0;
    return out->slots > 0 && out->mcpu > 0 && out->mem_bytes >= 0;
}

/* The bytes come from another host: texts are terminated and enums are brought into range. */
static void tidy_device(struct device *d, size_t i)
{
    d->uuid[sizeof(d->uuid) - 1] = 0;
    d->kind[sizeof(d->kind) - 1] = 0;
    d->trouble[sizeof(d->trouble) - 1] = 0;
    d->index = (int32_t)i;
    if ((unsigned)d->vendor > DEVICE_AMD)
        d->vendor = DEVICE_ANY;
    if ((unsigned)d->state > DEVICE_EXCLUDED)
        d->state = DEVICE_UNSEEN;
}

bool wire_get_devices(struct str body, struct node *n, struct run_memory **runs, size_t *n_runs)
{
    struct wire_devices d;

    if (!wire_take_struct(&body, &d, sizeof(d)) || d.n_devices > NODE_MAX_GPUS ||
        d.n_runs > 1u << 20 ||
        body.n != d.n_devices * sizeof(struct device) + d.n_runs * sizeof(struct run_memory))
        return false;
    for (size_t i = 0; i < d.n_devices; i++) {
        wire_take_struct(&body, &n->devices[i], sizeof(n->devices[i]));
        tidy_device(&n->devices[i], i);
    }
    n->n_devices = d.n_devices;
    *runs = d.n_runs ? xcalloc(d.n_runs, sizeof(**runs)) : NULL;
    if (d.n_runs)
        wire_take_struct(&body, *runs, d.n_runs * sizeof(**runs));
    *n_runs = d.n_runs;
    return true;
}
