/* progress.h - long work on files says how far it is, on the terminal of a command */
#pragma once
#include "archive/watch.h"

struct archive_progress {
    const char *what; /* "Sending bundle" */
    bool tty;         /* stderr is a terminal; otherwise nothing is printed */
    int64_t start_ms, drawn_ms;
};
/* Begins a line; short work prints nothing, because the line appears after two seconds. */
void archive_progress_begin(struct archive_progress *p, const char *what, bool tty);
void archive_progress_show(void *arg, int64_t bytes, int64_t entries); /* for archive_watch */
void archive_progress_wipe(const struct archive_progress *p);          /* before other text */
