/* prop.c - making random cases and shrinking the failing one
 *
 * The choices of a case are recorded.  Shrinking replays edited sequences: blocks cut out (long
 * ones first), then each number lowered by bisection.  A replay that asks for more choices than
 * are left gets zeros.  An edit is kept when the property still fails and the sequence became
 * smaller: shorter, or of equal length and lower at the first difference.  That order has no
 * endless descent, and the number of replays is bounded besides.
 */
#include "prop.h"
#include "base/buf.h"
#include "base/rand.h"
#include "base/util.h"
#include "base/vec.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHOICES_MAX = 1 << 20, REPLAYS_MAX = 20000 };

typedef VEC(uint64_t) choices;

struct prop {
    struct rng rng;
    const choices *replay; /* NULL: draw new choices */
    choices made;
    struct arena arena;
    struct buf notes;
};

struct run {
    prop_fn *fn;
    void *ctx;
    choices best;     /* the smallest failing sequence so far */
    struct buf notes; /* what it said */
    unsigned replays;
};

static unsigned tests_run, tests_failed;

/* ---- generators ---- */

/* `edges` makes the ends of the range likelier than chance would. */
static uint64_t draw(struct rng *r, uint64_t max, bool edges)
{
    if (edges && rng_below(r, 8) == 0)
        return max && rng_below(r, 2) ? max - 1 : max;
    return max == UINT64_MAX ? rng_next(r) : rng_below(r, max + 1);
}

static uint64_t choose(struct prop *p, uint64_t max, bool edges)
{
    uint64_t v = 0;

    ASSERT(p->made.n < CHOICES_MAX);
    if (!p->replay)
        v = draw(&p->rng, max, edges);
    else if (p->made.n < p->replay->n)
        v = MIN(p->replay->p[p->made.n], max);
    vec_push(&p->made, v);
    return v;
}

uint64_t prop_choice(struct prop *p, uint64_t max)
{
    return choose(p, max, false);
}

bool prop_bool(struct prop *p)
{
    return prop_choice(p, 1) == 1;
}

int64_t prop_int(struct prop *p, int64_t lo, int64_t hi)
{
    ASSERT(lo <= hi);
    uint64_t span = (uint64_t)hi - (uint64_t)lo;
    uint64_t v = prop_choice(p, span);
    if (lo >= 0)
        return (int64_t)((uint64_t)lo + v);
    if (hi <= 0)
        return (int64_t)((uint64_t)hi - v);
    /* 0, 1, … hi, then the negative ones from -1 down: small choices are near zero. */
    if (v <= (uint64_t)hi)
        return (int64_t)v;
    return -(int64_t)(v - (uint64_t)hi - 1) - 1;
}

size_t prop_size(struct prop *p, size_t max)
{
    /* A bound drawn first: half of all sizes are below the square root of max. */
    unsigned bits = 0;

    while (bits < 63 && (max >> bits) != 0)
        bits++;
    size_t bound = ((size_t)1 << prop_choice(p, bits)) - 1;
    return (size_t)prop_choice(p, MIN(bound, max));
}

uint64_t prop_u64(struct prop *p)
{
    uint64_t bits = prop_choice(p, 64);

    return choose(p, bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1, true);
}

double prop_unit(struct prop *p)
{
    return (double)prop_choice(p, ((uint64_t)1 << 53) - 1) * 0x1p-53;
}

double prop_double(struct prop *p)
{
    static const double edges[] = {0.0,
                                   1.0,
                                   -1.0,
                                   0.1,
                                   -0.0,
                                   0.5,
                                   1e15,
                                   1e16,
                                   1e17,
                                   123456789.125,
                                   5e-324,
                                   2.2250738585072014e-308,
                                   1.7976931348623157e308};
    uint64_t kind = prop_choice(p, 3);

    if (kind == 0)
        return (double)prop_int(p, -1000, 1000);
    if (kind == 1)
        return PROP_PICK(p, edges);
    if (kind == 2)
        return prop_unit(p);
    uint64_t bits = prop_choice(p, UINT64_MAX);
    if ((bits >> 52 & 0x7FF) == 0x7FF) /* infinity or NaN */
        bits &= ~((uint64_t)1 << 62);
    double d;
    memcpy(&d, &bits, sizeof(d));
    return d;
}

struct str prop_text(struct prop *p, size_t max)
{
    static const char *const awkward[] = {"a",
                                          " ",
                                          "\"",
                                          "\\",
                                          "/",
                                          "'",
                                          "\n",
                                          "\r",
                                          "\t",
                                          "\b",
                                          "\x01",
                                          "\x7f",
                                          ",",
                                          ":",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          "#",
                                          "-",
                                          "\xC3\xA9",
                                          "\xE2\x82\xAC",
                                          "\xE6\x97\xA5",
                                          "\xF0\x9F\x98\x80",
                                          "e\xCC\x81",
                                          "\xC2\x85",
                                          "\xE2\x80\xAE",
                                          "\xEF\xBF\xBD",
                                          "\xEF\xBB\xBF",
                                          "\xE2\x80\xA8"};
    struct buf b = {0};
    size_t n = prop_size(p, max);

    for (size_t i = 0; i < n && b.n < max; i++) {
        uint64_t kind = prop_choice(p, 3);
        const char *piece = PROP_PICK(p, awkward);
        if (kind < 3)
            buf_addc(&b, (char)('a' + prop_choice(p, 25)));
        else if (b.n + strlen(piece) <= max)
            buf_adds(&b, piece);
    }
    struct str s = {arena_strndup(&p->arena, b.p ? b.p : "", b.n), b.n};
    buf_done(&b);
    return s;
}

struct str prop_bytes(struct prop *p, size_t max)
{
    size_t n = prop_size(p, max);
    char *bytes = arena_alloc(&p->arena, n + 1);

    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)prop_choice(p, 255);
    return (struct str){bytes, n};
}

struct arena *prop_arena(struct prop *p)
{
    return &p->arena;
}

/* Notes are comments of the TAP output, line by line. */
static __attribute__((format(printf, 2, 0))) void add_note(struct prop *p, const char *fmt,
                                                           va_list ap)
{
    struct buf text = {0};
    struct str rest;

    buf_vaddf(&text, fmt, ap);
    rest = buf_str(&text);
    do {
        struct str line = str_cut(rest, '\n', &rest);
        buf_addf(&p->notes, "#   " STR_FMT "\n", STR_ARG(line));
    } while (rest.n > 0);
    buf_done(&text);
}

void prop_note(struct prop *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_note(p, fmt, ap);
    va_end(ap);
}

bool prop_check(struct prop *p, bool ok, const char *fmt, ...)
{
    va_list ap;

    if (ok)
        return true;
    va_start(ap, fmt);
    add_note(p, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- running and shrinking ---- */

static void prop_done(struct prop *p)
{
    vec_done(&p->made);
    arena_done(&p->arena);
    buf_done(&p->notes);
}

static void copy_choices(choices *to, const choices *from)
{
    vec_clear(to);
    vec_reserve(to, from->n);
    if (from->n)
        memcpy(to->p, from->p, from->n * sizeof(*to->p));
    to->n = from->n;
}

static bool is_smaller(const choices *a, const choices *b)
{
    if (a->n != b->n)
        return a->n < b->n;
    for (size_t i = 0; i < a->n; i++) {
        if (a->p[i] != b->p[i])
            return a->p[i] < b->p[i];
    }
    return false;
}

/* A failing case becomes the best one. */
static void keep(struct run *r, struct prop *p)
{
    copy_choices(&r->best, &p->made);
    buf_done(&r->notes);
    r->notes = p->notes;
    p->notes = (struct buf){0};
}

/* Replays an edited sequence; true when it still fails and is smaller, and is then the best. */
static bool try_smaller(struct run *r, const choices *edited)
{
    struct prop p = {.replay = edited};

    if (r->replays >= REPLAYS_MAX)
        return false;
    r->replays++;
    bool better = !r->fn(&p, r->ctx) && is_smaller(&p.made, &r->best);
    if (better)
        keep(r, &p);
    prop_done(&p);
    return better;
}

static bool cut_blocks(struct run *r, size_t length)
{
    choices edited = {0};
    bool any = false;

    for (size_t i = 0; i + length <= r->best.n;) {
        copy_choices(&edited, &r->best);
        memmove(edited.p + i, edited.p + i + length, (edited.n - i - length) * sizeof(*edited.p));
        edited.n -= length;
        if (try_smaller(r, &edited))
            any = true;
        else
            i++;
    }
    vec_done(&edited);
    return any;
}

/* Cutting an element out of a list also needs the list's length lowered: do both at once. */
static bool lower_and_cut(struct run *r)
{
    choices edited = {0};
    bool any = false;

    for (size_t i = 0; i < r->best.n; i++) {
        for (size_t length = 1; length <= 4 && i + 1 + length <= r->best.n; length++) {
            if (r->best.p[i] == 0)
                break;
            copy_choices(&edited, &r->best);
            edited.p[i]--;
            memmove(edited.p + i + 1, edited.p + i + 1 + length,
                    (edited.n - i - 1 - length) * sizeof(*edited.p));
            edited.n -= length;
            any |= try_smaller(r, &edited);
        }
    }
    vec_done(&edited);
    return any;
}

static bool set_choice(struct run *r, size_t i, uint64_t v)
{
    choices edited = {0};

    copy_choices(&edited, &r->best);
    edited.p[i] = v;
    bool better = try_smaller(r, &edited);
    vec_done(&edited);
    return better;
}

static bool lower_numbers(struct run *r)
{
    bool any = false;

    for (size_t i = 0; i < r->best.n; i++) {
        if (r->best.p[i] == 0)
            continue;
        if (set_choice(r, i, 0)) {
            any = true;
            continue;
        }
        uint64_t holds = 0; /* below this no failure was seen */
        while (i < r->best.n && r->best.p[i] > holds + 1) {
            uint64_t half = holds + (r->best.p[i] - holds) / 2;
            if (set_choice(r, i, half))
                any = true;
            else
                holds = half;
        }
    }
    return any;
}

static void shrink(struct run *r)
{
    for (bool any = true; any && r->replays < REPLAYS_MAX;) {
        any = false;
        for (size_t length = MIN(r->best.n, 64); length > 0; length /= 2)
            any |= cut_blocks(r, length);
        any |= lower_and_cut(r);
        any |= lower_numbers(r);
    }
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoull(text, NULL, 0) : otherwise;
}

/* The same cases in every run of a commit: PROP_SEED=0 asks for others. */
static uint64_t seed_of_run(void)
{
    uint64_t seed = env_number("PROP_SEED", 1);

    if (seed)
        return seed;
    random_bytes(&seed, sizeof(seed));
    return seed >> 16;
}

static void report(const struct run *r, uint64_t seed, unsigned case_number)
{
    printf("#   case %u of PROP_SEED=%llu failed; smallest case (%zu choices, %u replays):\n",
           case_number, (unsigned long long)seed, r->best.n, r->replays);
    fputs(r->notes.p ? r->notes.p : "#   (the property said nothing)\n", stdout);
}

bool prop_run(const char *name, unsigned cases, prop_fn *fn, void *ctx)
{
    uint64_t seed = seed_of_run();
    struct run r = {.fn = fn, .ctx = ctx};
    unsigned failed = 0;

    cases = (unsigned)env_number("PROP_CASES", cases);
    for (unsigned i = 0; i < cases && !failed; i++) {
        struct prop p = {0};
        rng_seed(&p.rng, seed + i);
        if (!fn(&p, ctx)) {
            failed = i + 1;
            keep(&r, &p);
        }
        prop_done(&p);
    }
    if (failed)
        shrink(&r);
    tests_run++;
    tests_failed += failed != 0;
    printf("%sok %u - %s (%u cases)\n", failed ? "not " : "", tests_run, name,
           failed ? failed : cases);
    if (failed)
        report(&r, seed, failed);
    fflush(stdout);
    vec_done(&r.best);
    buf_done(&r.notes);
    return !failed;
}

int prop_end(void)
{
    printf("1..%u\n", tests_run);
    return tests_failed != 0;
}
