/* retain_clock.h - may the clock be believed when jobs are removed by their age?
 *
 * One reading of the wall clock is not enough: a clock that is 60 days ahead for one start would
 * remove every job.  So a reading is compared with the last one that was believed and with the time
 * that the machine was seen to be up since.  A jump of more than a day ahead is not believed until
 * the machine was up for a day with a steady clock.  Pure: readings are arguments.
 */
#pragma once
#include "base/buf.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

enum { BOOT_ID_MAX = 37 };
struct clock_reading {
    int64_t wall_ms;
    int64_t up_ms;          /* since the machine was started, sleep included */
    char boot[BOOT_ID_MAX]; /* which start of the machine; "" = unknown */
};
struct retain_clock {
    bool known, doubted;
    struct clock_reading believed;
    struct clock_reading last; /* while doubted */
    int64_t steady_ms;         /* time that was seen to pass since the doubt began */
};
/* How far `now` is ahead of what `from` and the time that surely passed since allow. */
int64_t clock_reading_jump(const struct clock_reading *from, const struct clock_reading *now);
/* True: jobs may be removed by their age.  A clock without a believed reading believes `now`. */
bool retain_clock_look(struct retain_clock *k, const struct clock_reading *now);
/* As text, to be kept between starts.  A text that is not one makes an unknown clock. */
void retain_clock_format(const struct retain_clock *k, struct buf *out);
void retain_clock_parse(struct str text, struct retain_clock *out);
