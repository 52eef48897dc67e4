/* file.h - whole files, paths and directories */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <sys/types.h>

/* Reads the whole file.  *out is the caller's to free and has a NUL behind its *out_n bytes.
 * ERR_LIMIT: the file is larger than max bytes.  On failure *out is unchanged. */
int file_read_all(const char *path, size_t max, char **out, size_t *out_n,
                  struct err *e); /* NUL added */
/* The same from the current position of a descriptor, which stays open.  Pipes are read to their
 * end. */
int fd_read_all(int fd, size_t max, char **out, size_t *out_n, struct err *e);
/* Repeats partial writes and EINTR.  A non-blocking descriptor that is full is an error. */
int fd_write_all(int fd, const void *p, size_t n, struct err *e);
/* Writes a temporary file beside it, fsyncs, renames; 0600 stays 0600. */
int file_write_atomic(const char *path, const void *p, size_t n, mode_t mode, struct err *e);
/* Like mkdir -p: missing parents are made with the same mode, existing directories are fine. */
int dir_make_all(const char *path, mode_t mode, struct err *e);
/* Removes a directory with everything in it.  Symbolic links are removed, never followed.  A
 * path that does not exist is success. */
int dir_remove_tree(const char *path, struct err *e);
/* The caller frees the result.  An absolute name is returned as a copy, without dir. */
char *path_join(const char *dir, const char *name);
/* The caller frees the result.  "." and ".." are resolved in the text only: symbolic links are
 * not looked up, and ".." at the root stays at the root. */
char *path_absolute(const char *path, const char *cwd);
/* The same from the current directory of the process, or from / when that one is gone. */
char *path_from_here(const char *path);
/* Is one of its names "." or ".."? */
bool path_has_dots(struct str path);
