/* tgz.h - a tree as gzip tar, made piece by piece while somebody reads it
 *
 *   char chunk[65536];
 *   while (tgz_fill(t, chunk, sizeof(chunk), &n, e) == 0 && n > 0) …
 *
 * For downloads: the caller takes as much as its connection can carry.  One tgz belongs to one
 * thread at a time; tgz_fill reads files, so it does not belong on an event loop.
 */
#pragma once
#include "archive/watch.h"
#include "base/err.h"
#include <stddef.h>

struct cas;
struct tgz;

/* A directory as it is on disk, below the name `top` in the tar. */
int tgz_open_dir(const char *dir, const char *top, const struct archive_watch *w, struct tgz **out,
                 struct err *e);
/* A tree kept in the store: with the modes and times it had when it was kept, which the image on
 * disk cannot always show.  ERR_NOT_FOUND when there is none of that name. */
int tgz_open_tree(struct cas *c, const char *name, const char *top, const struct archive_watch *w,
                  struct tgz **out, struct err *e);
/* Up to `cap` bytes; *out_n = 0 is the end.  After an error only tgz_close is left. */
int tgz_fill(struct tgz *t, void *p, size_t cap, size_t *out_n, struct err *e);
void tgz_close(struct tgz *t);
