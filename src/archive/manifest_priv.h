/* manifest_priv.h - what a tree consists of, as text
 *
 * One text for each directory, so that directories which did not change are shared between trees:
 *
 *   berth tree 1
 *   d 755 1700000000000000000 .
 *   f 644 1700000000000000000 1234 <hash of the content> train.py
 *   l 1700000000000000000 ../data data
 *   t <hash of the text of that directory> src
 *
 * Mode (octal), modification time (nanoseconds since 1970), size, hash (64 hexadecimal digits),
 * name.  In names and targets a `%`, a blank and control characters are written %41.  Names are
 * sorted by their bytes, so equal trees have equal texts.
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

/* Hands out the text of every directory, the innermost first; `put` says what its hash is. */
typedef int manifest_put_fn(void *ctx, const struct buf *text, char hash[CAS_HEX], struct err *e);
int manifest_write(const struct manifest *m, manifest_put_fn *put, void *ctx, char root[CAS_HEX],
                   struct err *e);
/* From the text of the root; `get` fetches those below: 0 = *text is it (to be freed), 1 = leave
 * that directory out, -1.  Refuses what manifest_write cannot have made. */
typedef int manifest_get_fn(void *ctx, const char *hash, char **text, size_t *n, struct err *e);
int manifest_read(struct str root, manifest_get_fn *get, void *ctx, struct manifest *out,
                  struct err *e);
int64_t manifest_bytes(const struct manifest *m);
