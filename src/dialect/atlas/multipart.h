/* multipart.h - a multipart/form-data body, read as it arrives
 *
 * Bytes go in in pieces of any size and come out as parts; nothing is held back but what may be the
 * beginning of a boundary.
 */
#pragma once
#include "base/err.h"
#include "base/str.h"
#include <stdbool.h>

enum { MULTIPART_BOUNDARY_MAX = 70, MULTIPART_HEAD_MAX = 8 << 10, MULTIPART_NAME_MAX = 255 };

struct multipart_events {
    /* A part begins; `file` is "" for one that is no file.  Each returns -1 with e set to end it.
     */
    int (*begin)(void *arg, const char *name, const char *file, struct err *e);
    int (*data)(void *arg, struct str bytes, struct err *e);
    int (*end)(void *arg, struct err *e);
    void *arg;
};
/* The state between two pieces.  `matched` counts the bytes of `mark` that ended the last piece;
 * they are content after all when the next byte does not continue the mark. */
struct multipart {
    char mark[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF - - boundary */
    size_t mark_n, matched;
    char head[MULTIPART_HEAD_MAX];
    size_t head_n;
    int state;
};
/* ERR_INVALID: this content type is no multipart/form-data with a boundary. */
int multipart_init(struct multipart *m, struct str content_type, struct err *e);
int multipart_feed(struct multipart *m, struct str bytes, const struct multipart_events *ev,
                   struct err *e);
bool multipart_complete(const struct multipart *m); /* the last boundary was seen */
