/* prop_units.c - durations, sizes, times and numbers as text, there and back */
#include "base/buf.h"
#include "base/clock.h"
#include "base/json_out.h"
#include "base/units.h"
#include "base/util.h"
#include "prop.h"
#include <stdlib.h>

/* What the text leaves out is smaller than its last unit. */
static bool duration_back(struct prop *p, void *ctx UNUSED)
{
    int64_t ms = (int64_t)(prop_u64(p) >> 1), back = -1;
    char text[UNIT_TEXT_MAX];
    struct err e;

    duration_format(ms, text);
    if (!prop_check(p, duration_parse(str_of(text), &back, &e) == 0, "%s: %s", text, e.text))
        return false;
    int64_t step = ms < 1000       ? 1
                   : ms < 60000    ? 100
                   : ms < 3600000  ? 1000
                   : ms < 86400000 ? 60000
                                   : 3600000;
    return prop_check(p, back <= ms && ms - back < step, "%lld → %s → %lld", (long long)ms, text,
                      (long long)back);
}

static bool duration_sums(struct prop *p, void *ctx UNUSED)
{
    int64_t d = prop_int(p, 0, 1000), h = prop_int(p, 0, 100), m = prop_int(p, 0, 100);
    int64_t s = prop_int(p, 0, 100), ms = prop_int(p, 0, 5000), got = -1;
    const char *text = arena_printf(prop_arena(p), "%lldd%lldh%lldm%llds%lldms", (long long)d,
                                    (long long)h, (long long)m, (long long)s, (long long)ms);
    int64_t want = (((d * 24 + h) * 60 + m) * 60 + s) * 1000 + ms;

    return prop_check(p, duration_parse(str_of(text), &got, NULL) == 0 && got == want,
                      "%s is %lld, not %lld", text, (long long)got, (long long)want);
}

/* Two digits at least are right. */
static bool size_back(struct prop *p, void *ctx UNUSED)
{
    int64_t bytes = (int64_t)(prop_u64(p) >> 2), back = -1;
    char text[UNIT_TEXT_MAX];
    struct err e;

    size_format(bytes, text);
    if (!prop_check(p, size_parse(str_of(text), &back, &e) == 0, "%s: %s", text, e.text))
        return false;
    int64_t slack = bytes < 1024 ? 0 : bytes / 19 + 1;
    return prop_check(p, llabs(back - bytes) <= slack, "%lld → %s → %lld", (long long)bytes, text,
                      (long long)back);
}

static bool time_back(struct prop *p, void *ctx UNUSED)
{
    /* Years 0 to 9999, what RFC 3339 can write. */
    int64_t ms = prop_int(p, -62167219200000, 253402300799999), back;
    char text[TIME_TEXT_MAX];

    time_format_utc(ms, text);
    return prop_check(p, time_parse_utc(str_of(text), &back) && back == ms, "%lld → %s",
                      (long long)ms, text);
}

static bool double_back(struct prop *p, void *ctx UNUSED)
{
    double d = prop_double(p), back = 0;
    struct buf b = {0};

    jw_double(&b, NULL, d);
    bool ok = str_to_double(buf_str(&b), &back) && memcmp(&d, &back, sizeof(d)) == 0;
    prop_check(p, ok, "%.17g → %s → %.17g", d, b.p, back);
    buf_done(&b);
    return ok;
}

static bool anything_may_be_asked(struct prop *p, void *ctx UNUSED)
{
    struct str s = prop_bool(p) ? prop_bytes(p, 30) : prop_text(p, 30);
    int64_t v = -1;
    double d;
    struct err e;

    return prop_check(p, duration_parse(s, &v, &e) < 0 || v >= 0, "duration %lld", (long long)v) &&
           prop_check(p, size_parse(s, &v, &e) < 0 || v >= 0, "size %lld", (long long)v) &&
           prop_check(p, cpus_parse(s, &v, &e) < 0 || v >= 0, "cpus %lld", (long long)v) &&
           (time_parse_utc(s, &v) || str_to_i64(s, &v) || str_to_double(s, &d) || true);
}

int main(void)
{
    prop_run("durations come back within their last unit", 5000, duration_back, NULL);
    prop_run("durations add up", 2000, duration_sums, NULL);
    prop_run("sizes come back to two digits", 5000, size_back, NULL);
    prop_run("times come back exactly", 5000, time_back, NULL);
    prop_run("reals come back exactly", 5000, double_back, NULL);
    prop_run("any bytes may be asked", 5000, anything_may_be_asked, NULL);
    return prop_end();
}
