/* watch.h - progress, warnings and cancelling of work that takes long
 *
 * Everything may be NULL, and so may the whole struct.  The callbacks run on the thread that does
 * the work.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct archive_watch {
    /* Bytes of file contents and number of entries so far; called every 256 KiB or 256 entries. */
    void (*progress)(void *ctx, int64_t bytes, int64_t entries);
    /* One sentence about something that was left out or changed meanwhile; the work goes on. */
    void (*warn)(void *ctx, const char *sentence);
    void *ctx;
    /* Becomes true (from a signal handler or another thread): the work ends soon with ERR_BUSY
     * "cancelled" and leaves nothing behind. */
    const atomic_bool *cancel;
};
