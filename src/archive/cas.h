/* cas.h - contents of files, each kept once: the store behind bundles and archives
 *
 * A *tree* is a directory that was put in, under a name its owner chose (letters, digits, `.`,
 * `_`, `-`; 1 to 200 characters, not starting with `.`; e.g. "bundle-<job>", "archive-<job>").
 * The store remembers of it a manifest: every entry with mode, time, size and the hash of its
 * content.  Equal contents are on disk once, however many trees have them.
 *
 * An *image* of a tree is an ordinary directory anybody can read.  Where the file system can share
 * blocks (btrfs, xfs) its files are clones: the mode and time of each is exact.  Elsewhere they are
 * hard links to the store: read-only, with the time of the first file that had this content; the
 * exact values are in the manifest and come back with cas_check_out and tgz_open_tree.
 *
 * All calls may wait for the disk, work from any thread, and from several processes on one store.
 * A call that fails leaves no tree, no image, and at worst blobs that cas_collect removes.
 */
#pragma once
#include "archive/watch.h"
#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

struct cas;
/* Opens the store in `dir`; makes it when there is none.  Images must be on the same file system.
 */
int cas_open(const char *dir, struct cas **out, struct err *e);
void cas_close(struct cas *c);

struct cas_tally {
    int64_t entries, bytes;       /* of the tree */
    int64_t new_blobs, new_bytes; /* what the store did not have yet */
    int64_t hashed_bytes;         /* what had to be read to know that */
    int64_t left_out;             /* sockets, unreadable files…: each with a warning */
};
enum {
    CAS_SOURCE_ENDS = 1, /* the caller removes `src` afterwards: its files may become the blobs */
};
/* Keeps the directory `src` as the tree `name` and makes its image `dest` (NULL: no image; else it
 * must not exist, its parent must).  A tree of that name is replaced.  When `src` was made by
 * cas_check_out, or is inside of what was, files untouched since then are not read again.  `out`
 * may be NULL. */
int cas_keep_tree(struct cas *c, const char *name, const char *src, const char *dest,
                  unsigned flags, const struct archive_watch *w, struct cas_tally *out,
                  struct err *e);
/* A writable copy of the tree with its modes and times: clones where possible, else copies.
 * `dest` must not exist, its parent must. */
int cas_check_out(struct cas *c, const char *name, const char *dest, const struct archive_watch *w,
                  struct err *e);
bool cas_has_tree(struct cas *c, const char *name);
/* The names of all trees that begin with `prefix`, in no order.  fn may drop the tree. */
void cas_each_tree(struct cas *c, const char *prefix, void (*fn)(void *ctx, const char *name),
                   void *ctx);
/* Entries and bytes by the manifest; ERR_NOT_FOUND without such a tree. */
int cas_tree_size(struct cas *c, const char *name, struct cas_tally *out, struct err *e);
/* Calls for each entry in order of path; type is 'f', 'd' or 'l'.  A result other than 0 ends it
 * and is returned. */
typedef int cas_entry_fn(void *ctx, const char *path, char type, int64_t size, int64_t mtime_ns);
int cas_list_tree(struct cas *c, const char *name, cas_entry_fn *fn, void *ctx, struct err *e);
/* Is this content (64 hexadecimal digits, lower case) there now? */
bool cas_is_hash(const char *text);
bool cas_has_content(struct cas *c, const char *hash);
/* The tree `from` under a second name; a tree of that name is replaced. */
int cas_copy_tree(struct cas *c, const char *from, const char *to, struct err *e);
/* Writes a file of its own, which is replaced.  Equal files share their content, so it is read-only
 * where images are; it belongs to no tree and is needed as long as it has its name. */
int cas_put_file(struct cas *c, struct str bytes, const char *dest, struct err *e);
/* Forgets the tree; no such tree is fine.  Its image is an ordinary directory: dir_remove_tree. */
int cas_drop_tree(struct cas *c, const char *name, struct err *e);
/* Removes the blobs no tree and no image needs any more, and what crashed calls left behind.
 * ERR_BUSY while other calls are under way, an upload for example: try again later. */
struct cas_freed {
    int64_t blobs, bytes;
};
int cas_collect(struct cas *c, struct cas_freed *out, struct err *e);
