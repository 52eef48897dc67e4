/* cas_priv.h - inside of the store
 *
 *   blobs/ab/cdef…-444   contents; the name is the hash (BLAKE2b, 256 bits) and the permissions.
 *                        With hard links the image of a file is this inode, so there is one blob
 *                        for each kind of permissions; with clones there is -400 only
 *   blobs/ab/cdef…-tree  the manifest of a directory
 *   trees/NAME           hard link to the manifest of the top directory of the tree NAME
 *   known/DEV-INO        what cas_check_out wrote into which directory, by its inode
 *   tmp/NAME/            one for each call under way
 *   lock                 held shared by every call under way, alone by cas_collect
 *
 * A blob gets its name only after its content was synced, a tree only after all its blobs.  So
 * after a crash a name means a whole blob, and a tree means all of them.
 */
#pragma once
#include "archive/cas.h"
#include "archive/manifest_priv.h"
#include "archive/watch_priv.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/util.h"
#include "base/vec.h"
#include <sys/stat.h>

struct cas {
    char *dir;
    int fd, blobs, trees, known, tmp;
    bool clones; /* the file system can share blocks */
};

/* ---- cas.c ---- */
int cas_check_name(const char *name, struct err *e);
int cas_read_manifest(struct cas *c, const char *name, struct manifest *out, struct err *e);
/* The same, with another way to get at the directories below (cas_get_manifest; ctx is the cas). */
int cas_walk_manifest(struct cas *c, const char *name, manifest_get_fn *get, void *ctx,
                      struct manifest *out, struct err *e);
int cas_get_manifest(void *ctx, const char *hash, char **text, size_t *n, struct err *e);
/* flock; the descriptor is the lock. */
int cas_lock(struct cas *c, bool alone, struct err *e);
struct timespec ns_timespec(int64_t ns);
int64_t stat_mtime_ns(const struct stat *st);
/* utimensat without following a link; the access time stays.  -1 with errno. */
int path_set_mtime(int dir, const char *path, int64_t mtime_ns);
/* Modes and times of the directories of a tree that was made below `root`.  The innermost come
 * first, because making an entry changes the time of its directory; the owner may always enter. */
int tree_finish_dirs(const struct manifest *m, int root, struct err *e);
void hash_hex(struct blake2b *b, char out[CAS_HEX]);
/* The hash of no bytes: such files are never stored, they are simply made. */
extern const char hash_of_nothing[CAS_HEX];

/* ---- cas_blob.c: names and bytes ---- */
enum { BLOB_NAME = CAS_HEX + 8, BLOB_MODES = 32 };
/* With hard links a blob has the permissions of its images, without the right to write. */
mode_t blob_mode(const struct cas *c, mode_t mode);
mode_t blob_mode_at(unsigned i); /* all that blob_mode can give, i < BLOB_MODES */
void blob_name(const struct cas *c, const char *hash, mode_t mode, char out[BLOB_NAME]);
void blob_path(const char *name, char out[BLOB_NAME + 1]); /* "abcd…-444" → "ab/cd…-444" */
/* Any blob of this content, for reading. */
int blob_open(struct cas *c, const char *hash, struct err *e);
/* Bytes from one descriptor to another, hashed on the way (to < 0: hashed only).  `w` may be NULL;
 * it can end the copying, and counts nothing. */
int copy_hashed(int from, int to, struct watch *w, char hash[CAS_HEX], int64_t *out_size,
                struct err *e);
int fd_clone(int from, int to); /* FICLONE; -1 with errno */

/* ---- cas_batch.c ---- */
/* The new blobs of one call.  They are in tmp/ until batch_commit. */
struct pending {
    char name[BLOB_NAME]; /* hash and suffix, as in blobs/ without the slash */
    unsigned number;      /* file name in the batch's directory */
};
struct batch {
    struct cas *c;
    int lock, dir;
    char name[40]; /* of the directory in tmp/ */
    unsigned next;
    VEC(struct pending *) list;
    struct map_str by_name;
    struct cas_tally tally;
};
int batch_open(struct batch *b, struct cas *c, struct err *e);
void batch_done(struct batch *b); /* removes what was not committed; accepts a zeroed one */
/* An empty file to fill; number names it. */
int batch_new_file(struct batch *b, unsigned *number, struct err *e);
void batch_drop_file(struct batch *b, unsigned number);
/* Is this content there with these permissions, or new in this batch? */
bool batch_has(struct batch *b, const char *hash, mode_t mode);
/* File `number` (fd) holds this content: it becomes a blob, unless there is one. */
int batch_put(struct batch *b, unsigned number, int fd, const char *hash, mode_t mode,
              const struct stat *like, int64_t size, struct err *e);
/* Makes sure the content, which is there with any permissions, is there with these. */
int batch_want(struct batch *b, const char *hash, mode_t mode, const struct stat *like,
               struct err *e);
/* The content under another name: a hard link or a clone. */
int batch_link(struct batch *b, const char *hash, mode_t mode, int dir, const char *path,
               struct err *e);
int batch_open_any(struct batch *b, const char *hash, struct err *e); /* whatever permissions */
int batch_open_blob(struct batch *b, const char *hash, mode_t mode, struct err *e);
/* The new blobs durable and under their names. */
int batch_publish(struct batch *b, struct err *e);
/* The same for all of a tree; then it gets its name. */
int batch_commit(struct batch *b, const char *tree, struct manifest *m, struct err *e);

/* ---- cas_known.c: files whose content is known without reading them ---- */
struct known {
    struct map_u64 by_inode;
    char *names; /* of the records this came from, or NULL */
};
void known_load(struct known *k, struct cas *c, const char *src);
void known_done(struct known *k);
const char *known_hash(const struct known *k, const struct stat *st); /* NULL = read it */
void known_note(struct buf *record, const struct stat *st, const char *hash);
/* The record of what is in the directory `dir`, which was just made. */
int known_save(struct cas *c, int dir, const struct buf *record, struct err *e);
void known_forget(struct cas *c, const struct known *k);
/* Records elsewhere: the path of that of the directory `dir` in `records` (yours; NULL when there
 * is no such directory); reading (false = there is none) and writing one; removing what is old. */
char *known_path(const char *records, const char *dir);
bool known_read(struct known *k, const char *path);
int known_write(const char *path, const char *names, const struct buf *record, struct err *e);
void known_clean(const char *records);
