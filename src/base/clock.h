/* clock.h - time as a thing that is handed in
 *
 * wall_ms is what people read (and may jump); mono_ms never goes back and is
 * what timeouts and delays use.  Tests drive a fake one.
 */
#pragma once
#include "base/buf.h"
#include <stdint.h>

struct clock {
    int64_t (*wall_ms)(void *self);
    int64_t (*mono_ms)(void *self);
    void *self;
};
extern const struct clock clock_system;
static inline int64_t clock_wall(const struct clock *c)
{
    return c->wall_ms(c->self);
}
static inline int64_t clock_mono(const struct clock *c)
{
    return c->mono_ms(c->self);
}
/* "2026-11-15T20:46:22.123Z" */
enum { TIME_TEXT_MAX = 32 };
void time_format_utc(int64_t wall_ms, char out[TIME_TEXT_MAX]);
bool time_parse_utc(struct str s, int64_t *out_ms); /* RFC 3339, any offset */
