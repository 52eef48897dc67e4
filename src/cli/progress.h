/* progress.h - how far many jobs are: a bar on a terminal, a line now and then elsewhere */
#pragma once
#include "base/json.h"
#include "base/table.h"

/* The times are monotonic milliseconds.  drawn: a bar is on the terminal and must be cleared before
 * other text.  first: progress_show was not called yet. */
struct progress {
    struct term term;
    const char *name; /* borrowed */
    int64_t start_ms, last_ms;
    int64_t done_at_start; /* what was done before we came says nothing about the pace */
    bool silent, drawn, first;
};
void progress_init(struct progress *p, struct term term, const char *name, bool silent);
/* counts: an object with "total" and a member for each state. */
void progress_show(struct progress *p, const struct json *counts);
void progress_clear(struct progress *p); /* before anything else is printed */
/* The line itself, for tests: no more than `width` cells. */
void progress_line(struct buf *b, const struct json *counts, const char *name, size_t width,
                   int64_t eta_ms, bool colour);
/* The number of jobs in a final state. */
int64_t counts_done(const struct json *counts);
