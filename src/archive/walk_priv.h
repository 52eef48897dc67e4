/* walk_priv.h - every entry of a directory tree, in order, links never followed
 *
 * Depth first; the names of a directory sorted by their bytes; a directory before what is in it.
 * This is the order of manifests and bundles, so equal trees give equal bytes.
 */
#pragma once
#include "archive/ignore.h"
#include "archive/watch_priv.h"
#include "base/err.h"
#include <sys/stat.h>

struct walk;
struct walk_entry {
    const char *path; /* relative to the root; "" is the root itself */
    int dir;          /* the directory it is in, or AT_FDCWD, and … */
    const char *name; /* … its name there: for openat and the like */
    struct stat st;   /* regular file, directory or link; others are left out with a warning */
};
/* `ig` and `w` are borrowed; `ig` may be NULL. */
int walk_open(const char *dir, const struct ignore *ig, struct watch *w, struct walk **out,
              struct err *e);
/* 1 = an entry, valid until the next call; 0 = the end; -1 = an error of the root directory.  What
 * cannot be read below is left out with a warning. */
int walk_next(struct walk *k, struct walk_entry *out, struct err *e);
/* Leaves out what is in the directory that walk_next just gave. */
void walk_skip(struct walk *k);
int64_t walk_left_out(const struct walk *k); /* entries that got a warning */
void walk_free(struct walk *k);
