/* transfer.h - finished jobs of projects as one file, and back into another home */
#pragma once
#include "archive/watch.h"
#include "base/buf.h"
#include "base/err.h"
#include <stddef.h>

/* Both append a report, one JSON object.  An export may run beside a daemon; for an import the
 * caller holds the lock of the home. */
int host_export(const char *home, const char *const *projects, size_t n, const char *file,
                const struct archive_watch *w, struct buf *report, struct err *e);
/* project NULL: jobs keep the projects they had. */
int host_import(const char *home, const char *file, const char *project, struct buf *report,
                struct err *e);
