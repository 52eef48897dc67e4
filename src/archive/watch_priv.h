/* watch_priv.h - reports progress to the caller, and asks whether the caller has cancelled */
#pragma once
#include "archive/watch.h"
#include "base/err.h"
#include <sys/types.h>

struct watch {
    struct archive_watch by; /* all NULL when nobody watches */
    int64_t bytes, entries;  /* so far */
    int64_t told_bytes, told_entries;
};
void watch_init(struct watch *w, const struct archive_watch *by);
/* Counts, and reports now and then; -1 with ERR_BUSY once the caller has cancelled. */
int watch_add(struct watch *w, int64_t bytes, int64_t entries, struct err *e);
void watch_warn(struct watch *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
