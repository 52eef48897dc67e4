/* run_start.c - struct run_start as bytes, and back with every bound checked
 *
 * Members follow each other in the order of the table.  Text travels as length, bytes and a NUL, so
 * that a decoded frame is used in place: argv and envp point into it and no word is copied.  Each
 * kind of member has one start_put_ and one start_take_ function, which the table calls.
 */
#include "shepherd/run_start.h"
#include "base/util.h"

enum {
    TEXT_BYTES_MIN = 5, /* of a text: its length and its NUL */
    LIST_EXTRA = 3,     /* entries of a list besides its words: two spare ones and its NULL */
    IDS_MAX = 65536,
};
#define NO_TEXT UINT32_MAX /* instead of a length: NULL */

/* ---- writing ---- */

static void start_put_u32(struct buf *b, uint32_t v)
{
    buf_add(b, &v, sizeof(v));
}

static void start_put_flag(struct buf *b, bool v)
{
    buf_addc(b, v);
}

static void start_put_key(struct buf *b, struct run_key k)
{
    buf_add(b, &k, sizeof(k));
}

static void start_put_need(struct buf *b, struct resources r)
{
    buf_add(b, &r, sizeof(r));
}

static void start_put_limits(struct buf *b, struct spec_limits l)
{
    buf_add(b, &l, sizeof(l));
}

static void start_put_bytes(struct buf *b, struct str s)
{
    start_put_u32(b, (uint32_t)s.n);
    buf_add(b, s.p ? s.p : "", s.n);
    buf_addc(b, 0);
}

static void start_put_text(struct buf *b, const char *s)
{
    if (s)
        start_put_bytes(b, str_of(s));
    else
        start_put_u32(b, NO_TEXT);
}

static void start_put_words(struct buf *b, char *const *list)
{
    uint32_t n = 0;

    if (!list) {
        start_put_u32(b, NO_TEXT);
        return;
    }
    while (list[n])
        n++;
    start_put_u32(b, n);
    for (uint32_t i = 0; i < n; i++)
        start_put_text(b, list[i]);
}

static void start_put_ids(struct buf *b, struct id_list l)
{
    start_put_u32(b, (uint32_t)l.n);
    if (l.n)
        buf_add(b, l.ids, l.n * sizeof(*l.ids));
}

void run_start_put(struct buf *b, const struct run_start *s)
{
#define PUT_MEMBER(kind, type, name) start_put_##kind(b, s->name);
    RUN_START_FIELDS(PUT_MEMBER)
#undef PUT_MEMBER
}

/* ---- reading ---- */

struct bytes_reader {
    struct str in;
    struct run_start_memory *m;
};

static bool start_take_raw(struct bytes_reader *r, void *out, size_t n)
{
    if (r->in.n < n)
        return false;
    memcpy(out, r->in.p, n);
    r->in.p += n;
    r->in.n -= n;
    return true;
}

static bool start_take_u32(struct bytes_reader *r, uint32_t *out)
{
    return start_take_raw(r, out, sizeof(*out));
}

static bool start_take_flag(struct bytes_reader *r, bool *out)
{
    uint8_t v;

    if (!start_take_raw(r, &v, 1) || v > 1)
        return false;
    *out = v;
    return true;
}

static bool start_take_key(struct bytes_reader *r, struct run_key *out)
{
    return start_take_raw(r, out, sizeof(*out));
}

static bool start_take_need(struct bytes_reader *r, struct resources *out)
{
    return start_take_raw(r, out, sizeof(*out));
}

static bool start_take_limits(struct bytes_reader *r, struct spec_limits *out)
{
    return start_take_raw(r, out, sizeof(*out));
}

static bool start_take_counted(struct bytes_reader *r, uint32_t n, struct str *out)
{
    if (n >= r->in.n || r->in.p[n] != 0)
        return false;
    *out = (struct str){r->in.p, n};
    r->in.p += n + 1;
    r->in.n -= n + 1;
    return true;
}

static bool start_take_bytes(struct bytes_reader *r, struct str *out)
{
    uint32_t n;

    return start_take_u32(r, &n) && start_take_counted(r, n, out);
}

static bool start_take_text(struct bytes_reader *r, const char **out)
{
    struct str s;
    uint32_t n;

    if (!start_take_u32(r, &n))
        return false;
    *out = NULL;
    if (n == NO_TEXT)
        return true;
    if (!start_take_counted(r, n, &s) || memchr(s.p, 0, s.n))
        return false;
    *out = s.p;
    return true;
}

static bool start_take_words(struct bytes_reader *r, char *const **out)
{
    struct run_start_memory *m = r->m;
    uint32_t n;

    if (!start_take_u32(r, &n))
        return false;
    *out = NULL;
    if (n == NO_TEXT)
        return true;
    if (n > r->in.n / TEXT_BYTES_MIN || m->max_words - m->n_words < (size_t)n + LIST_EXTRA)
        return false;
    char **list = m->words + m->n_words + 1;
    m->n_words += (size_t)n + LIST_EXTRA;
    for (uint32_t i = 0; i < n; i++) {
        const char *word;
        if (!start_take_text(r, &word) || !word)
            return false;
        list[i] = (char *)(uintptr_t)word; /* execve wants char *, and does not write */
    }
    list[n] = list[n + 1] = NULL;
    *out = list;
    return true;
}

static bool start_take_ids(struct bytes_reader *r, struct id_list *out)
{
    uint32_t n;

    if (!start_take_u32(r, &n) || n > IDS_MAX || n > r->in.n / sizeof(uint32_t))
        return false;
    *out = (struct id_list){0};
    if (n == 0)
        return true;
    r->m->ids = xrealloc(r->m->ids, n, sizeof(uint32_t));
    *out = (struct id_list){r->m->ids, n};
    return start_take_raw(r, r->m->ids, n * sizeof(uint32_t));
}

bool run_start_get(struct str in, struct run_start_memory *m, struct run_start *out)
{
    struct bytes_reader r = {in, m};
    /* Every word takes TEXT_BYTES_MIN bytes of the input or more, which bounds all lists. */
    size_t want = in.n / TEXT_BYTES_MIN + (size_t)LIST_EXTRA * RUN_START_N_FIELDS;

    if (m->max_words < want) {
        m->words = xrealloc(m->words, want, sizeof(char *));
        m->max_words = want;
    }
    m->n_words = 0;
    *out = (struct run_start){0};
#define TAKE_MEMBER(kind, type, name)                                                              \
    if (!start_take_##kind(&r, &out->name))                                                        \
        return false;
    RUN_START_FIELDS(TAKE_MEMBER)
#undef TAKE_MEMBER
    return r.in.n == 0 && out->argv && out->argv[0] && out->envp;
}

void run_start_memory_done(struct run_start_memory *m)
{
    free(m->words);
    free(m->ids);
    *m = (struct run_start_memory){0};
}
