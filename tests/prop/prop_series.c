/* prop_series.c - blocks of points round-trip; buckets hold what a walk over all points puts there;
 * lines read quickly mean what lines read carefully do */
#include "base/json.h"
#include "base/util.h"
#include "core/report_lines.h"
#include "model/series.h"
#include "prop.h"
#include <math.h>
#include <stdio.h>

enum { POINTS_MAX = 600 };

static double any_value(struct prop *p)
{
    switch (prop_choice(p, 7)) {
    case 0:
        return NAN;
    case 1:
        return INFINITY;
    case 2:
        return -INFINITY;
    case 3:
        return (double)(float)prop_unit(p);
    case 4:
        return prop_unit(p);
    case 5:
        return (double)prop_choice(p, 3);
    default:
        return prop_double(p);
    }
}

/* Mostly as training goes: even steps, times that creep; now and then anything. */
static size_t any_points(struct prop *p, struct series_point *out)
{
    size_t n = 1 + prop_size(p, POINTS_MAX - 1);
    int64_t step = 0, at = 1700000000000;

    for (size_t i = 0; i < n; i++) {
        if (prop_choice(p, 30) == 29)
            step = (int64_t)prop_u64(p);
        if (prop_choice(p, 30) == 29)
            at = (int64_t)prop_u64(p);
        out[i] = (struct series_point){step, at, any_value(p)};
        step = (int64_t)((uint64_t)step + prop_choice(p, 2));
        at = (int64_t)((uint64_t)at + prop_choice(p, 20));
    }
    return n;
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static bool blocks(struct prop *p, void *ctx UNUSED)
{
    static struct series_point in[POINTS_MAX], out[POINTS_MAX];
    size_t n = any_points(p, in);
    AUTO(buf) struct buf b = {0};

    buf_init(&b, 1 << 20);
    series_pack(&b, in, n);
    if (!prop_check(p, series_count(buf_str(&b)) == n, "count of %zu", n) ||
        !prop_check(p, series_unpack(buf_str(&b), out, NULL) == 0, "%zu points", n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!prop_check(p,
                        in[i].step == out[i].step && in[i].at_ms == out[i].at_ms &&
                            same_bits(in[i].value, out[i].value),
                        "point %zu of %zu", i, n))
            return false;
    /* Cut anywhere it is no block any more. */
    size_t cut = (size_t)prop_choice(p, b.n - 1);
    return prop_check(p, series_unpack((struct str){b.p, cut}, out, NULL) < 0, "cut at %zu of %zu",
                      cut, b.n);
}

static bool any_bytes(struct prop *p, void *ctx UNUSED)
{
    struct str s = prop_bytes(p, 300);
    static struct series_point out[SERIES_BLOCK_MAX];

    if (series_count(s))
        series_unpack(s, out, NULL);
    return true;
}

static bool buckets(struct prop *p, void *ctx UNUSED)
{
    static struct series_point in[POINTS_MAX];
    static struct series_bucket got[64];
    size_t n = any_points(p, in);
    int64_t a = (int64_t)prop_u64(p), b = prop_bool(p) ? (int64_t)prop_choice(p, 700) : INT64_MAX;
    struct series_axis x = {.by_time = prop_bool(p),
                            .from = MIN(a, b),
                            .to = MAX(a, b),
                            .n = 1 + (size_t)prop_choice(p, 63)};
    uint64_t inside = 0, counted = 0;

    prop_note(p, "%zu buckets from %lld to %lld by %s", x.n, (long long)x.from, (long long)x.to,
              x.by_time ? "time" : "step");
    for (size_t i = 0; i < MIN(n, (size_t)10); i++)
        prop_note(p, "point at step %lld, time %lld", (long long)in[i].step,
                  (long long)in[i].at_ms);
    memset(got, 0, sizeof(got));
    for (size_t i = 0, k; i < n; i += k) { /* in whatever pieces they come */
        k = 1 + (size_t)prop_choice(p, 99);
        k = MIN(n - i, k);
        series_fill(&x, got, in + i, k);
    }
    for (size_t i = 0; i < x.n; i++) {
        struct series_bucket want = {.min = INFINITY, .max = -INFINITY};
        bool any = false;
        for (size_t k = 0; k < n; k++) {
            int64_t at = x.by_time ? in[k].at_ms : in[k].step;
            if (at < x.from || at > x.to || at < series_edge(&x, i) ||
                (i + 1 < x.n && at >= series_edge(&x, i + 1)))
                continue;
            want.n++;
            want.min = fmin(want.min, in[k].value);
            want.max = fmax(want.max, in[k].value);
            if (!any || at >= want.last_x) {
                want.last_x = at;
                want.last = in[k].value;
            }
            any = true;
        }
        counted += got[i].n;
        if (!prop_check(p, got[i].n == want.n, "bucket %zu has %llu, not %llu", i,
                        (unsigned long long)got[i].n, (unsigned long long)want.n))
            return false;
        if (want.n &&
            !prop_check(p,
                        got[i].min == want.min && got[i].max == want.max &&
                            got[i].last_x == want.last_x && same_bits(got[i].last, want.last),
                        "bucket %zu", i))
            return false;
    }
    for (size_t k = 0; k < n; k++) {
        int64_t at = x.by_time ? in[k].at_ms : in[k].step;
        inside += at >= x.from && at <= x.to;
    }
    return prop_check(p, counted == inside, "%llu of %llu", (unsigned long long)counted,
                      (unsigned long long)inside);
}

/* ---- lines ---- */

static struct str any_number_text(struct prop *p)
{
    static const char *const odd[] = {"0",
                                      "-0",
                                      "1e5",
                                      "-1.5E-3",
                                      "0.1",
                                      "123456789012345678",
                                      "1e22",
                                      "1e23",
                                      "5e-324",
                                      "1.7976931348623157e308",
                                      "0.30000000000000004",
                                      "9007199254740993"};
    if (prop_bool(p))
        return str_of(PROP_PICK(p, odd));
    return str_of(arena_printf(prop_arena(p), "%.*g", (int)prop_choice(p, 17) + 1, prop_double(p)));
}

static bool lines(struct prop *p, void *ctx UNUSED)
{
    AUTO(buf) struct buf quick = {0}, careful = {0};
    size_t n = 1 + prop_size(p, 20);
    struct report_batch a, b;

    buf_init(&quick, 1 << 20);
    buf_init(&careful, 1 << 20);
    for (size_t i = 0; i < n; i++) {
        struct str v = any_number_text(p);
        unsigned name = (unsigned)prop_choice(p, 2), step = (unsigned)prop_choice(p, 1000);
        /* A space makes it a line for the parser. */
        buf_addf(&quick, "{\"k\":\"m\",\"n\":\"m%u\",\"v\":%.*s,\"s\":%u,\"t\":17}\n", name,
                 STR_ARG(v), step);
        buf_addf(&careful, "{ \"k\":\"m\",\"n\":\"m%u\",\"v\":%.*s,\"s\":%u,\"t\":17}\n", name,
                 STR_ARG(v), step);
    }
    report_read(&a, buf_str(&quick), 5);
    report_read(&b, buf_str(&careful), 5);
    /* One that rounds to more than a double holds is refused by both. */
    bool ok = prop_check(p, a.points == b.points, "%llu and %llu of %zu",
                         (unsigned long long)a.points, (unsigned long long)b.points, n) &&
              prop_check(p, a.items.n == b.items.n && a.used == quick.n, "%zu and %zu items",
                         a.items.n, b.items.n);
    for (size_t i = 0; ok && i < a.items.n; i++) {
        static struct series_point x[SERIES_BLOCK_MAX], y[SERIES_BLOCK_MAX];
        size_t k = series_count(a.items.p[i].text);
        ok = prop_check(p,
                        k == series_count(b.items.p[i].text) &&
                            !series_unpack(a.items.p[i].text, x, NULL) &&
                            !series_unpack(b.items.p[i].text, y, NULL),
                        "block %zu", i);
        for (size_t j = 0; ok && j < k; j++)
            ok = prop_check(p, x[j].step == y[j].step && x[j].value == y[j].value,
                            "%.17g read quickly is %.17g read carefully", x[j].value, y[j].value);
    }
    report_batch_done(&a);
    report_batch_done(&b);
    return ok;
}

int main(void)
{
    prop_run("blocks round trip", 1000, blocks, NULL);
    prop_run("any bytes may be a block", 3000, any_bytes, NULL);
    prop_run("buckets are what a walk finds", 400, buckets, NULL);
    prop_run("lines mean the same read either way", 2000, lines, NULL);
    return prop_end();
}
