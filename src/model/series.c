/* series.c - points of a metric, packed; and the few buckets a chart needs of very many
 *
 * A block: the count, then three columns, each one after the other.
 *   steps, times   the difference of two neighbours mostly repeats, so what is stored is the change
 *                  of the difference, zigzag, with how often it comes in a row: see put_token
 *   values         the bits that differ from the value before, without the zero bytes on either
 *                  side: a byte that says which bytes follow, then those
 * Numbers are varints of 7 bits, lowest first.  Differences wrap around like unsigned numbers do,
 * so every pair of 64-bit numbers has one.
 *
 * Whatever stands in a block is checked while it is read: blocks come from a file.
 */
#include "model/series.h"
#include <math.h>

enum { VARINT_MAX = 10, VALUE_MAX = 9 };

/* ---- writing ---- */

/* The put functions return the place behind what they wrote; series_pack has made room. */
static char *put_varint(char *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (char)(v | 0x80);
        v >>= 7;
    }
    *p++ = (char)v;
    return p;
}

/* Maps 0, -1, 1, -2 … to 0, 1, 2, 3 …, so that small changes of either sign get short varints. */
static uint64_t zigzag(uint64_t v)
{
    return v << 1 ^ -(v >> 63);
}

static uint64_t unzigzag(uint64_t v)
{
    return v >> 1 ^ (~(v & 1) + 1);
}

/* Bit 1: a count of repeats follows.  Bit 0: so do the two top bits of the change, for which these
 * two took the place. */
static char *put_token(char *p, uint64_t change, uint64_t times)
{
    uint64_t z = zigzag(change);

    p = put_varint(p,
                   (z & (UINT64_MAX >> 2)) << 2 | (uint64_t)(times > 1) << 1 | (z >> 62 ? 1 : 0));
    if (z >> 62)
        p = put_varint(p, z >> 62);
    return times > 1 ? put_varint(p, times) : p;
}

static int64_t coordinate(const struct series_point *p, bool time)
{
    return time ? p->at_ms : p->step;
}

static char *put_column(char *out, const struct series_point *p, size_t n, bool time)
{
    /* before: the last value.  slope: the last difference.  change: of the slope, seen `times`
     * in a row. */
    uint64_t before = 0, slope = 0, change = 0, times = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t v = (uint64_t)coordinate(&p[i], time), d = v - before, dd = d - slope;
        before = v;
        slope = d;
        if (times && dd == change) {
            times++;
            continue;
        }
        if (times)
            out = put_token(out, change, times);
        change = dd;
        times = 1;
    }
    return put_token(out, change, times);
}

static char *put_values(char *out, const struct series_point *p, size_t n)
{
    uint64_t before = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t bits, x;
        memcpy(&bits, &p[i].value, sizeof(bits));
        x = bits ^ before;
        before = bits;
        if (!x) {
            *out++ = 0;
            continue;
        }
        /* The lowest and the highest byte that changed. */
        int low = __builtin_ctzll(x) / 8, high = 7 - __builtin_clzll(x) / 8;
        *out++ = (char)(low << 4 | (high - low + 1));
        x >>= low * 8;
        for (int k = low; k <= high; k++, x >>= 8)
            *out++ = (char)x;
    }
    return out;
}

void series_pack(struct buf *out, const struct series_point *p, size_t n)
{
    ASSERT(n > 0 && n <= SERIES_BLOCK_MAX);
    /* At worst two tokens with their escapes and a whole value for each point. */
    char *at = buf_reserve(out, VARINT_MAX + n * (2 * (VARINT_MAX + 2) + VALUE_MAX));
    if (!at)
        return;
    char *end = put_varint(at, n);
    end = put_column(end, p, n, false);
    end = put_column(end, p, n, true);
    end = put_values(end, p, n);
    out->n += (size_t)(end - at);
}

/* ---- reading ---- */

/* bad is sticky: once set, results are meaningless and the block is refused. */
struct reader {
    const uint8_t *p, *end;
    bool bad;
};

static uint64_t get_varint(struct reader *r)
{
    uint64_t v = 0;

    for (int shift = 0; shift < 64; shift += 7) {
        if (r->p == r->end)
            break;
        uint8_t b = *r->p++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) {
            /* The tenth byte has room for one bit; more would be lost silently. */
            r->bad |= shift == 63 && b > 1;
            return v;
        }
    }
    r->bad = true;
    return 0;
}

static void get_column(struct reader *r, struct series_point *out, size_t n, bool time)
{
    uint64_t before = 0, slope = 0;

    for (size_t i = 0; i < n && !r->bad;) {
        uint64_t token = get_varint(r), z = token >> 2;
        if (token & 1)
            z |= get_varint(r) << 62;
        uint64_t times = token & 2 ? get_varint(r) : 1, change = unzigzag(z);
        /* A count from a damaged file must not write beyond out. */
        if (!times || times > n - i) {
            r->bad = true;
            return;
        }
        for (; times; times--, i++) {
            slope += change;
            before += slope;
            *(time ? &out[i].at_ms : &out[i].step) = (int64_t)before;
        }
    }
}

/* The head of a value: the number of its lowest changed byte, and how many bytes follow. */
static void get_values(struct reader *r, struct series_point *out, size_t n)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < n; i++) {
        if (r->p == r->end) {
            r->bad = true;
            return;
        }
        unsigned head = *r->p++, low = head >> 4, len = head & 15;
        if (low + len > 8 || (size_t)(r->end - r->p) < len) {
            r->bad = true;
            return;
        }
        uint64_t x = 0;
        for (unsigned k = 0; k < len; k++)
            x |= (uint64_t)r->p[k] << 8 * k;
        r->p += len;
        if (len)
            bits ^= x << 8 * low;
        memcpy(&out[i].value, &bits, sizeof(bits));
    }
}

/* The count is checked, because callers allocate by it. */
size_t series_count(struct str block)
{
    struct reader r = {(const uint8_t *)block.p, (const uint8_t *)block.p + block.n, false};
    uint64_t n = get_varint(&r);

    return r.bad || n > SERIES_BLOCK_MAX ? 0 : (size_t)n;
}

int series_unpack(struct str block, struct series_point *out, struct err *e)
{
    struct reader r = {(const uint8_t *)block.p, (const uint8_t *)block.p + block.n, false};
    size_t n = (size_t)get_varint(&r);

    if (series_count(block)) {
        get_column(&r, out, n, false);
        get_column(&r, out, n, true);
        get_values(&r, out, n);
        if (!r.bad && r.p == r.end)
            return 0;
    }
    return err_set(e, ERR_INVALID, "a block of points is damaged");
}

/* ---- statistics and buckets ---- */

void series_stats_add(struct series_stats *s, const struct series_point *p, size_t n)
{
    if (!n)
        return;
    if (!s->n)
        *s = (struct series_stats){.step_min = p->step,
                                   .step_max = p->step,
                                   .at_min = p->at_ms,
                                   .at_max = p->at_ms,
                                   .min = INFINITY,
                                   .max = -INFINITY};
    for (size_t i = 0; i < n; i++) {
        s->step_min = MIN(s->step_min, p[i].step);
        s->step_max = MAX(s->step_max, p[i].step);
        s->at_min = MIN(s->at_min, p[i].at_ms);
        s->at_max = MAX(s->at_max, p[i].at_ms);
        if (isnan(p[i].value))
            continue;
        if (p[i].value < s->min || !s->counted) {
            s->min = p[i].value;
            s->low_step = p[i].step;
        }
        if (p[i].value > s->max || !s->counted) {
            s->max = p[i].value;
            s->high_step = p[i].step;
        }
        if (!s->counted++)
            s->first = p[i].value;
        s->sum += p[i].value;
    }
    s->n += n;
}

/* Widths and edges are exact, also where the axis spans all of 64 bits. */
typedef unsigned __int128 wide;

int64_t series_edge(const struct series_axis *a, size_t i)
{
    wide span = (wide)((uint64_t)a->to - (uint64_t)a->from) + 1;

    return (int64_t)((uint64_t)a->from + (uint64_t)((span * i + a->n - 1) / a->n));
}

static size_t bucket_of(const struct series_axis *a, int64_t x)
{
    uint64_t off = (uint64_t)x - (uint64_t)a->from, span = (uint64_t)a->to - (uint64_t)a->from;

    if (span < UINT64_MAX / 16384 / 2) /* the product fits: no division of 128 bits */
        return (size_t)(off * a->n / (span + 1));
    return (size_t)((wide)off * a->n / ((wide)span + 1));
}

static void add_one(struct series_bucket *b, int64_t x, double v)
{
    if (!b->n++) {
        b->min = INFINITY;
        b->max = -INFINITY;
        b->last_x = x;
    }
    if (v < b->min)
        b->min = v;
    if (v > b->max)
        b->max = v;
    if (x >= b->last_x) {
        b->last_x = x;
        b->last = v;
    }
}

void series_fill(const struct series_axis *a, struct series_bucket *b, const struct series_point *p,
                 size_t n)
{
    size_t at = 0;
    int64_t lo = 0, hi = -1; /* of bucket `at`: neighbours mostly share one */

    for (size_t i = 0; i < n; i++) {
        int64_t x = coordinate(&p[i], a->by_time);
        if (x < lo || x > hi) {
            if (x < a->from || x > a->to)
                continue;
            at = bucket_of(a, x);
            lo = series_edge(a, at);
            hi = at + 1 == a->n ? a->to : series_edge(a, at + 1) - 1;
        }
        add_one(&b[at], x, p[i].value);
    }
}
