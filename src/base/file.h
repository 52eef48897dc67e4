/* file.h - whole files, paths and directories */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <sys/types.h>

int file_read_all(const char *path, size_t max, char **out, size_t *out_n,
                  struct err *e); /* NUL added */
int fd_read_all(int fd, size_t max, char **out, size_t *out_n, struct err *e);
int fd_write_all(int fd, const void *p, size_t n, struct err *e);
/* Writes a temporary file beside it, fsyncs, renames; 0600 stays 0600. */
int file_write_atomic(const char *path, const void *p, size_t n, mode_t mode, struct err *e);
int dir_make_all(const char *path, mode_t mode, struct err *e); /* mkdir -p */
int dir_remove_tree(const char *path, struct err *e);   /* never follows links; missing is fine */
char *path_join(const char *dir, const char *name);     /* name absolute → copy of name */
char *path_absolute(const char *path, const char *cwd); /* no . or .. resolution beyond text */
