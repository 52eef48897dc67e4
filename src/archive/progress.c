/* progress.c - see progress.h */
#include "archive/progress.h"
#include "base/clock.h"
#include <stdio.h>

enum { SLOW_MS = 2000, REDRAW_MS = 200 };

void archive_progress_begin(struct archive_progress *p, const char *what, bool tty)
{
    *p = (struct archive_progress){.what = what, .tty = tty, .start_ms = clock_mono(&clock_system)};
}

void archive_progress_show(void *arg, int64_t bytes, int64_t entries)
{
    struct archive_progress *p = arg;
    int64_t now = clock_mono(&clock_system);

    if (!p->tty || now - p->start_ms < SLOW_MS || now - p->drawn_ms < REDRAW_MS)
        return;
    p->drawn_ms = now;
    fprintf(stderr, "\r\033[K%s: %lld files, %.1f MB", p->what, (long long)entries,
            (double)bytes / (1 << 20));
    fflush(stderr);
}

void archive_progress_wipe(const struct archive_progress *p)
{
    if (p->drawn_ms)
        fputs("\r\033[K", stderr);
}
