/* pack_priv.h - entries from somewhere become a gzip tar, a step at a time */
#pragma once
#include "archive/bundle.h"
#include "archive/gzip_priv.h"
#include "archive/watch_priv.h"
#include "base/util.h"

/* One entry of the tar.  Everything is borrowed until the next call, but `fd` changes hands. */
struct pack_item {
    const char *path; /* in the tar */
    mode_t mode;      /* with its type: S_IFREG, S_IFDIR, S_IFLNK */
    int64_t mtime_s;
    int64_t size;
    const char *link; /* target of a symbolic link */
    int fd;           /* contents of a file, or -1: `bytes` */
    const char *bytes;
    const char *content; /* its hash: the receiver has it, so size is 0; or NULL */
};
/* Where entries come from.  next: 1 = an item, 0 = the end, -1 = an error. */
struct pack_source {
    int (*next)(struct pack_source *s, struct pack_item *out, struct watch *w, struct err *e);
    void (*free)(struct pack_source *s);
};

struct packer;
/* Takes the source, whatever the result. */
int packer_new(struct pack_source *source_take, const struct archive_watch *w, gzip_out_fn *out,
               void *ctx, struct packer **result, struct err *e);
/* 1 = there is more to do, 0 = the whole tar is out, -1 = an error, after which only free is left.
 * One step is one entry or 256 KiB of one. */
int packer_step(struct packer *p, struct err *e);
void packer_free(struct packer *p);

/* The parts of a bundle as a source; NULL with e set when a part makes no sense. */
struct pack_source *pack_parts_new(const struct bundle *b, struct err *e);
