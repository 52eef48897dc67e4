/* requirements.h - what a requirements.txt asks for, and a key of everything that decides it
 *
 * Read as pip reads it: continued lines, comments, `${NAME}`, files named by -r and -c beside the
 * file that names them, paths relative to the working directory.  What this reader does not know
 * makes the list not `fixed`, which costs time and never gives a wrong package.
 */
#pragma once
#include "base/buf.h"
#include "base/hash.h"
#include <stdbool.h>
#include <stddef.h>

struct requirements {
    struct sha256 key; /* of all that was read, see requirements_key */
    /* Every line is one exact version, or files whose contents are in the key. */
    bool fixed;
    bool local;    /* files of this machine are named: pip's cache would know them by name only */
    bool editable; /* a directory is installed in place, so only this job may use the result */
    size_t files;  /* read so far: files may name each other in a circle */
    struct buf names; /* of the packages with an exact version, each between line ends */
};

void requirements_init(struct requirements *r);
void requirements_done(struct requirements *r);
/* Is there a line with the exact version of this package?  `-`, `_` and `.` are the same, and so
 * are large and small letters. */
bool requirements_names(const struct requirements *r, struct str package);
/* Something else that decides what is installed: the interpreter, a setting of pip. */
void requirements_add(struct requirements *r, const char *name, const void *p, size_t n);
/* Reads the file and what it names.  A file that cannot be read is left to pip to complain of. */
void requirements_read(struct requirements *r, const char *path);
/* One file of settings, if there is one. */
void requirements_add_configuration(struct requirements *r, const char *path);
/* The variables and files that pip takes settings from. */
void requirements_add_settings(struct requirements *r, char *const *environment);
/* 64 hexadecimal digits; r stays as it is, so that more can be added. */
void requirements_key(const struct requirements *r, char out[65]);
