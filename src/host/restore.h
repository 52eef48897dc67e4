/* restore.h - a backup becomes the home again */
#pragma once
#include "archive/watch.h"
#include "base/buf.h"
#include "base/err.h"
#include <stdbool.h>

struct host_restore_conf {
    const char *backup; /* a directory of berth backup, one copy in it, or a database alone */
    const char *home;   /* absolute; the caller holds its lock unless dry_run */
    bool dry_run;       /* change nothing and report what would change */
    const struct archive_watch *watch; /* progress only; NULL = nobody */
};
/* Appends the report, one JSON object, whose members docs/backup.md lists.  When it fails, the
 * home has its database as before, and files that were replaced are in the directory that the
 * error names; repeating the restore continues it. */
int host_restore(const struct host_restore_conf *conf, struct buf *report, struct err *e);
/* The report in words, one line per fact. */
struct json;
void restore_report_text(struct buf *b, const struct json *j);
/* Makes the home and takes its lock, which lasts until *out_fd is closed.  With `stop` a daemon
 * that serves the home is asked to end first; without, it is ERR_CONFLICT.  *out_fd must be -1. */
int host_restore_lock(const char *home, bool stop, int *out_fd, struct err *e);
