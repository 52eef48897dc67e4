/* log_cut.h - keeping the log of a run under its limit */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LOG_LIMIT_MIN = 64 << 10 };

/* One log and what was cut from it so far. */
struct log_cut {
    int fd;                   /* read and write, without O_APPEND; -1 = none */
    int64_t limit_bytes;      /* 0 = none */
    int64_t notice_at;        /* where the notice stands, once something was cut */
    int64_t dropped_bytes;    /* in all */
    int64_t hole_at, hole_to; /* what was cut without making the file shorter */
};
/* Opens the log at `path`, which a run writes with O_APPEND.  Nothing is cut when it cannot be
 * opened: a run is worth more than its log. */
void log_cut_open(struct log_cut *l, const char *path, int64_t limit_bytes);
/* Takes the middle out when the log is larger than its limit: its first quarter stays, and of the
 * rest the newest half of the limit.  True when something was cut. */
bool log_cut(struct log_cut *l);
