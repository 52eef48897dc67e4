/* watch.c - progress, warnings and cancelling of long work */
#include "archive/watch_priv.h"
#include <stdarg.h>
#include <stdio.h>

enum { TELL_BYTES = 256 << 10, TELL_ENTRIES = 256 };

void watch_init(struct watch *w, const struct archive_watch *by)
{
    *w = (struct watch){0};
    if (by)
        w->by = *by;
}

/* Reports every 256 KiB or 256 entries, so that a callback costs nothing per file. */
int watch_add(struct watch *w, int64_t bytes, int64_t entries, struct err *e)
{
    w->bytes += bytes;
    w->entries += entries;
    if (w->by.progress &&
        (w->bytes - w->told_bytes >= TELL_BYTES || w->entries - w->told_entries >= TELL_ENTRIES)) {
        w->told_bytes = w->bytes;
        w->told_entries = w->entries;
        w->by.progress(w->by.ctx, w->bytes, w->entries);
    }
    if (w->by.cancel && atomic_load_explicit(w->by.cancel, memory_order_relaxed))
        return err_set(e, ERR_BUSY, "cancelled");
    return 0;
}

void watch_warn(struct watch *w, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    if (!w->by.warn)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    w->by.warn(w->by.ctx, text);
}
