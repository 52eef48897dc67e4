/* manifest_priv.h - what a tree consists of, as text
 *
 *   berth tree 1
 *   d 755 1700000000000000000 .
 *   f 644 1700000000000000000 1234 <64 hexadecimal digits> src/train.py
 *   l 1700000000000000000 ../data src/data
 *
 * Mode (octal), modification time (nanoseconds since 1970), size, hash of the content, path.  In
 * paths and targets a `%`, a blank and control characters are written %41.  The order is that of
 * a walk (walk_priv.h), so equal trees have equal manifests.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include <sys/types.h>

enum { CAS_HEX = 65 };
struct manifest_entry {
    char type;   /* 'd', 'f', 'l' */
    mode_t mode; /* permissions only */
    int64_t mtime_ns, size;
    char hash[CAS_HEX]; /* of a file */
    char *path;         /* "" is the root */
    char *target;       /* of a link */
};
struct manifest {
    VEC(struct manifest_entry) entries;
};
/* Takes path and target. */
void manifest_push(struct manifest *m, struct manifest_entry entry_take);
void manifest_sort(struct manifest *m);
void manifest_done(struct manifest *m);
void manifest_format(const struct manifest *m, struct buf *out);
/* Refuses text that manifest_format cannot have made: paths with `..`, wrong order, … */
int manifest_parse(struct str text, struct manifest *out, struct err *e);
int64_t manifest_bytes(const struct manifest *m);
