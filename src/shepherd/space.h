/* space.h - was there no room on a disk that a run writes to? */
#pragma once
#include "shepherd/run_start.h"

/* ENOSPC, or EDQUOT of our own user, when a directory that the run writes to (that of its log, its
 * working directory) is on a file system without room for one more small file; *out_dir is then
 * that directory, in memory of `mem`.  0: there is room, or nobody can tell. */
enum { SPACE_DIR_MAX = 4096 };
int space_missing(const struct run_start *s, char mem[SPACE_DIR_MAX], const char **out_dir);
/* The same for the directory of its log alone. */
int space_missing_for_log(const struct run_start *s, char mem[SPACE_DIR_MAX], const char **out_dir);
/* Is this errno that of a full disk, or of a quota? */
bool space_is_full(int sys);
