/* rig.h - a directory for the test, files in it, and tars written by hand */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include <sys/types.h>

int rig_open(void **state);  /* a new directory becomes the current one */
int rig_close(void **state); /* and goes */
extern struct cas *rig_cas;
int rig_open_cas(void **state); /* the same with a store of contents in it */
int rig_close_cas(void **state);
void rig_file(const char *path, const char *text, mode_t mode); /* directories above are made */
void rig_fill(const char *path, size_t n, unsigned seed);       /* n bytes that do not compress */
char *rig_text(const char *path); /* content of a file; NULL when there is none */
bool rig_there(const char *path);
int rig_entries(const char *path); /* names in a directory, hidden ones too */
/* Are the two trees alike: names, types, contents, link targets, and with `exact` modes and times?
 * What differs is printed. */
bool rig_same(const char *a, const char *b, bool exact);

/* ---- tars ---- */
struct tar_member {
    const char *name;
    char type; /* '0' file, '1' hard link, '2' symbolic link, '3' device, '5' directory, '6' pipe …
                */
    const char *link;
    const char *data;
    unsigned mode;
    long long size; /* when it is not that of data */
};
/* One header of 512 bytes and the padded data. */
void tar_add(struct buf *tar, struct tar_member m);
void tar_end(struct buf *tar);
/* "path=…" and the like, for the member that follows. */
void tar_add_pax(struct buf *tar, const char *key, const char *value);
void tar_gzip(const struct buf *tar, struct buf *out);
