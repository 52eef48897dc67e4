/* bundle.h - the gzip tar that carries a job: a directory, and files beside it, below one top name
 *
 * A bundle is written as a stream: no temporary file, memory does not grow with its size.  What
 * does not compress is stored, so that packing costs little more than reading.
 *
 * Symbolic links stay links.  Sockets, devices, pipes and files that cannot be read are left out
 * with a warning.  A file that shrinks while it is read is filled up with zeros, one that grows is
 * cut; both with a warning, and the tar is valid in any case.
 */
#pragma once
#include "archive/contents.h"
#include "archive/ignore.h"
#include "archive/watch.h"
#include "base/err.h"
#include "base/str.h"
#include <stddef.h>
#include <sys/types.h>

/* What bundle_write would read of this directory: the sum of the sizes of its regular files (links
 * are not followed and count nothing) and the number of entries. */
struct bundle_size {
    int64_t bytes, entries;
};
int bundle_estimate(const char *dir, const struct ignore *ig, const struct archive_watch *w,
                    struct bundle_size *out, struct err *e);

/* One thing that goes in: a directory with all that is in it, or a file made of bytes.  When two
 * parts bring the same name, the later one is in the bundle and the earlier one is not. */
struct bundle_part {
    const char *name;            /* where, below the top: "job_source", "run.env", "" = the top */
    const char *tree;            /* a directory on disk; NULL = `bytes` */
    const struct ignore *ignore; /* for a tree; borrowed */
    struct str bytes;            /* borrowed */
    mode_t mode;                 /* of a file made of bytes; 0 = 0644 */
};
struct bundle {
    const char *top; /* the one top directory, e.g. the job id */
    const struct bundle_part *parts;
    size_t count;
    int64_t wall_s; /* modification time of members made of bytes and of the top; 0 = now */
    const struct contents *contents; /* those the receiver has are named, not held; or NULL */
};

/* Gets every byte of the bundle in order; -1 with e set ends the writing with that error. */
typedef int bundle_sink_fn(void *ctx, const void *p, size_t n, struct err *e);
int bundle_write(const struct bundle *b, bundle_sink_fn *sink, void *sink_ctx,
                 const struct archive_watch *w, struct err *e);

/* The same for a caller that reads: a thread packs meanwhile.  `b` and `w` are borrowed until
 * bundle_stream_close. */
struct bundle_stream;
int bundle_stream_open(const struct bundle *b, const struct archive_watch *w,
                       struct bundle_stream **out, struct err *e);
/* As read(2).  0 = that was all of it; -1 = packing failed or was cancelled. */
ssize_t bundle_stream_read(struct bundle_stream *s, char *p, size_t n);
/* At any time.  -1 with why packing failed, if the stream was read that far. */
int bundle_stream_close(struct bundle_stream *s, struct err *e);
