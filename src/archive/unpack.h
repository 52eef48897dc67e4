/* unpack.h - unpacks a gzip tar from an untrusted sender as it arrives
 *
 * Bytes are pushed in (unpack_feed) until unpack_finish.  Nothing appears under its final name
 * before unpack_finish returned 0: until then it is below a temporary name beside it, and
 * unpack_free removes that.  An archive is refused as a whole, with one sentence that names the
 * member, for:
 *
 *   absolute names, `..`, names below a link or a file of the same archive, a name twice,
 *   symbolic links that lead out of the tree (unless allowed), hard links to anything but an
 *   earlier file of the archive, devices, pipes and sockets, more than the limits below, anything
 *   that is not a whole gzip tar.
 *
 * The owner is the user who unpacks; set-user-id, set-group-id and sticky bits are dropped;
 * directories can always be entered by their owner.
 */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cas;
struct unpack;

struct unpack_limits {
    int64_t total_bytes; /* unpacked contents of all files; 0 = 64 GiB */
    int64_t file_bytes;  /* of one file; 0 = total_bytes */
    int64_t members;     /* 0 = 1 000 000 */
    unsigned depth;      /* components of a name; 0 = 160 */
    unsigned ratio;      /* unpacked bytes for each packed one, once 64 MiB came out; 0 = 200 */
};
struct unpack_conf {
    struct unpack_limits limits;
    bool contents;      /* files may be named by their content (contents.h): only into a store, and
                         * ERR_CONFLICT when it does not have one of them */
    bool outside_links; /* symbolic links may lead out of the tree, as those of a virtual
                         * environment do; they are kept as they are and never followed */
    const char *top;    /* not NULL: everything must be below this one directory, which is left out:
                         * "a/b" of top "a" becomes "b" */
};

/* Into the directory `dest`, which must not exist yet (its parent must). */
int unpack_open_dir(const char *dest, const struct unpack_conf *conf, struct unpack **out,
                    struct err *e);
/* Into the store as the tree `name` (cas.h): each file goes straight to its blob. */
int unpack_open_store(struct cas *c, const char *name, const struct unpack_conf *conf,
                      struct unpack **out, struct err *e);
/* Both may wait for the disk: not for an event loop.  One thread at a time.  After an error
 * the archive is refused; further calls give the same error. */
int unpack_feed(struct unpack *u, const void *p, size_t n, struct err *e);
int unpack_finish(struct unpack *u, struct err *e);
void unpack_free(struct unpack *u); /* any time; accepts NULL */
