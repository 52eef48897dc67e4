/* clock.h - time as a thing that is handed in
 *
 * wall_ms is what people read (and may jump); mono_ms never goes back and is
 * what timeouts and delays use.  Tests drive a fake one.
 */
#pragma once
#include "base/buf.h"
#include <stdint.h>

/* Both functions return milliseconds: wall_ms since 1970-01-01 UTC, mono_ms since an unspecified
 * moment.  A difference of two mono_ms values is the only use of mono_ms. */
struct clock {
    int64_t (*wall_ms)(void *self);
    int64_t (*mono_ms)(void *self);
    void *self;
};
/* CLOCK_REALTIME and CLOCK_MONOTONIC of the kernel; any thread may use it. */
extern const struct clock clock_system;
static inline int64_t clock_wall(const struct clock *c)
{
    return c->wall_ms(c->self);
}
static inline int64_t clock_mono(const struct clock *c)
{
    return c->mono_ms(c->self);
}
/* The form is "2026-11-15T20:46:22.123Z".  TIME_TEXT_MAX includes the NUL. */
enum { TIME_TEXT_MAX = 32 };
void time_format_utc(int64_t wall_ms, char out[TIME_TEXT_MAX]);
/* Reads an RFC 3339 time with any offset; the offset is required.  False: s is no such time, and
 * *out_ms is unchanged. */
bool time_parse_utc(struct str s, int64_t *out_ms);
