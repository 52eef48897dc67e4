/* log_mark.h - the mark on a log file whose middle was cut out while it was being written
 *
 * Whoever reads along counts bytes as they were written: `dropped` bytes are missing at `at`, and
 * what came behind them now stands that much earlier.  The mark says `moving` before blocks are
 * taken out and tells the new sum afterwards, so who finds the same mark before and after reading
 * has read from the right place.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define LOG_MARK_ATTR "user.berth.cut"
enum { LOG_MARK_MAX = 48 };
struct log_mark {
    int64_t at, dropped; /* dropped 0 = nothing was cut */
    bool moving;         /* another cut is under way: nothing can be said about places now */
};
int log_mark_format(struct log_mark m, char out[LOG_MARK_MAX]); /* its length */
/* A zeroed mark when the file has none, when the file system has no attributes, or when the text
 * of the mark is not plausible. */
struct log_mark log_mark_read(int fd);
/* Where the byte that was written as number `pos` is now; one that was dropped: where the notice
 * stands. */
int64_t log_mark_place(struct log_mark m, int64_t pos);
/* The other way round; what stands behind the notice, and the notice itself, counts as written
 * after all that was dropped. */
int64_t log_mark_number(struct log_mark m, int64_t place);
