/* backup.h - a backup of a home through its open store */
#pragma once
#include "archive/watch.h"
#include "base/buf.h"
#include "base/err.h"

struct store;
/* Any thread but the loop's.  Appends one JSON object that describes the new copy (its members are
 * in docs/api/openapi.yaml).  `progress` and `cancel` of `watch` are used; warnings become part of
 * the object.  watch may be NULL. */
int home_backup(struct store *s, const char *home, const char *dir, bool copy,
                const struct archive_watch *watch, struct buf *out, struct err *e);
