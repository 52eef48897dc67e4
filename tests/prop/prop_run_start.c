/* prop_run_start.c - the start of a run as bytes: what is written is read, and nothing else is */
#include "../unit/shepherd/run_start_equal.h"
#include "base/arena.h"
#include "base/util.h"
#include "prop.h"
#include "shepherd/proto.h"

static struct run_key any_key(struct prop *p)
{
    return (struct run_key){prop_u64(p), (uint32_t)prop_u64(p), (uint32_t)prop_u64(p)};
}

static uint32_t any_u32(struct prop *p)
{
    return (uint32_t)prop_u64(p);
}

static bool any_flag(struct prop *p)
{
    return prop_bool(p);
}

static const char *any_text(struct prop *p)
{
    struct str s = prop_text(p, 30);

    return prop_bool(p) ? NULL : arena_printf(prop_arena(p), "%.*s", (int)s.n, s.n ? s.p : "");
}

static struct str any_bytes(struct prop *p)
{
    return prop_bytes(p, 50);
}

static char *const *any_words(struct prop *p)
{
    size_t n = prop_size(p, 12);
    char **list = arena_alloc(prop_arena(p), (n + 1) * sizeof(*list));

    if (prop_choice(p, 4) == 4)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const char *word = any_text(p);
        list[i] = arena_printf(prop_arena(p), "%s", word ? word : "");
    }
    list[n] = NULL;
    return list;
}

static struct id_list any_ids(struct prop *p)
{
    size_t n = prop_size(p, 8);
    uint32_t *ids = arena_alloc(prop_arena(p), (n + 1) * sizeof(*ids));

    for (size_t i = 0; i < n; i++)
        ids[i] = any_u32(p);
    return (struct id_list){ids, n};
}

static struct resources any_need(struct prop *p)
{
    return (struct resources){.mcpu = (int64_t)prop_u64(p), .mem_bytes = 7, .gpus = 3, .slots = 1};
}

static struct spec_limits any_limits(struct prop *p)
{
    struct spec_limits l;

    memset(&l, 0, sizeof(l)); /* the padding travels too */
    l.timeout_ms = (int64_t)prop_u64(p);
    l.grace_ms = prop_int(p, -1, 100000);
    l.log_limit_bytes = (int64_t)prop_u64(p);
    return l;
}

/* Every member of the table: one that is new is tried without a change here. */
static struct run_start any_start(struct prop *p)
{
    struct run_start s = {0};
    static char *const command[] = {(char *)(uintptr_t) "true", NULL};

#define ANY_MEMBER(kind, type, name) s.name = any_##kind(p);
    RUN_START_FIELDS(ANY_MEMBER)
#undef ANY_MEMBER
    if (!s.argv || !s.argv[0])
        s.argv = command;
    if (!s.envp)
        s.envp = command + 1;
    return s;
}

static bool round_trip(struct prop *p, void *ctx)
{
    struct run_start_memory *m = ctx; /* the same for all cases, as the shepherd uses it */
    struct run_start s = any_start(p), back;
    AUTO(buf) struct buf b = {0};

    buf_init(&b, PROTO_FRAME_MAX);
    run_start_put(&b, &s);
    return prop_check(p, !b.overflow, "too large") &&
           prop_check(p, run_start_get(buf_str(&b), m, &back), "not read back") &&
           prop_check(p, run_start_equal(&s, &back), "another start came back");
}

static bool cuts_are_refused(struct prop *p, void *ctx)
{
    struct run_start s = any_start(p), back;
    AUTO(buf) struct buf b = {0};

    buf_init(&b, PROTO_FRAME_MAX);
    run_start_put(&b, &s);
    size_t n = (size_t)prop_choice(p, b.n - 1);
    AUTO_FREE char *exact = xmalloc(n + 1); /* so that ASan sees a read too far */
    memcpy(exact, b.p, n);
    bool cut = run_start_get((struct str){exact, n}, ctx, &back);
    buf_addc(&b, 0); /* a member that this version does not know */
    bool more = run_start_get(buf_str(&b), ctx, &back);
    return prop_check(p, !cut, "%zu bytes of %zu were read", n, b.n - 1) &&
           prop_check(p, !more, "a longer one was read");
}

static bool noise_is_survived(struct prop *p, void *ctx)
{
    struct run_start s = any_start(p), back;
    AUTO(buf) struct buf b = {0}, again = {0};

    buf_init(&b, PROTO_FRAME_MAX);
    run_start_put(&b, &s);
    for (int i = 0; i < 3; i++)
        b.p[prop_choice(p, b.n - 1)] = (char)prop_u64(p);
    if (!run_start_get(buf_str(&b), ctx, &back))
        return true;
    buf_init(&again, PROTO_FRAME_MAX);
    run_start_put(&again, &back);
    return prop_check(p, str_eq(buf_str(&b), buf_str(&again)),
                      "what was read is written otherwise");
}

int main(void)
{
    struct run_start_memory m = {0};

    prop_run("a start comes back as it was", 3000, round_trip, &m);
    prop_run("a cut or longer start is refused", 3000, cuts_are_refused, &m);
    prop_run("noise is refused or means one start", 3000, noise_is_survived, &m);
    run_start_memory_done(&m);
    return prop_end();
}
