/* archive.h - from a bundle to a working directory, from there to the archive of the job
 *
 * All of it may wait for the disk; works from any thread and from the worker's own process.
 */
#pragma once
#include "base/err.h"
#include <stdatomic.h>
#include <stdbool.h>

struct cas;
/* Names of a job's trees in the store of contents; `out` has room for ATLAS_TREE_MAX. */
enum { ATLAS_TREE_MAX = 64 };
void atlas_bundle_tree(const char *id, char out[ATLAS_TREE_MAX]);
void atlas_archive_tree(const char *id, char out[ATLAS_TREE_MAX]);
/* The link by which TensorBoard finds a job: the first eight characters of its id, and the moment
 * of a scheduled run.  Yours. */
char *atlas_board_link(const char *home, const char *id);

/* Moves everything that is in `from` to the directory `to`.  Files that are there are replaced,
 * directories that are there are merged. */
int atlas_move_entries(const char *from, const char *to, struct err *e);
/* Fills the working directory of a job, which may exist, with its bundle.  The directory itself
 * stays, whatever is in it is removed. */
int atlas_check_out(const char *home, struct cas *c, const char *id, struct err *e);
/* The end of a job: its source becomes archive/<id>/artifacts with a listing beside it, and the
 * working directory goes.  A job that was never prepared is archived as it was sent.  May be called
 * again after a crash at any point.  `cancel` (NULL = never) ends the call soon. */
int atlas_archive_job(const char *home, struct cas *c, const char *id, const atomic_bool *cancel,
                      struct err *e);
/* Everything that is kept of a job's files: bundle, archive, working directory. */
int atlas_discard_job(const char *home, struct cas *c, const char *id, struct err *e);
/* The pickle of a list of texts, as Python 2 and 3 read it (protocol 2). */
struct buf;
void atlas_pickle_list(struct buf *b, const char *const *texts, size_t n);
