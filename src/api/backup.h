/* backup.h - a backup of a home through its open store */
#pragma once
#include "archive/watch.h"
#include "base/buf.h"
#include "base/err.h"

struct backup_places;
struct store;
struct home_backup_conf {
    struct store *store;
    const char *home, *dir;             /* absolute */
    bool copy;                          /* make no hard links to files of the home */
    const struct backup_places *beside; /* NULL = there are none */
    const struct archive_watch *watch;  /* `progress` and `cancel` are used; NULL = nobody */
};
/* Any thread but the loop's.  Appends one JSON object that describes the new copy (its members are
 * in docs/api/openapi.yaml); warnings become part of it. */
int home_backup(const struct home_backup_conf *given, struct buf *out, struct err *e);
