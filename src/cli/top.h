/* top.h - what the live view knows, and how it is drawn */
#pragma once
#include "base/json.h"
#include "base/table.h"

/* Everything is borrowed for one frame.  `selected` is corrected by top_draw when rows have gone.
 * `message` is shown in the last line; `sort` NULL = running, queued, finished. */
struct top_model {
    const struct json *rows, *counts, *nodes; /* may be NULL before the first answer */
    struct str log;                           /* tail of the shown job's output; in the log view */
    const char *version, *filter, *sort, *message;
    int64_t selected; /* row */
    int64_t first;    /* first row on the screen; kept by top_draw so that selected is visible */
    enum { TOP_LIST, TOP_FILTER, TOP_LOG, TOP_ASK, TOP_HELP } mode;
    int64_t log_job;
};
/* A whole frame for a terminal of this size. */
void top_draw(struct buf *b, struct top_model *m, size_t width, size_t height, bool colour);
