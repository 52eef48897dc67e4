/* partial_priv.h - a directory that appears under its name only when it is whole
 *
 * It is made beside its place as .NAME.partial.  What a crash left under that name is removed by
 * the next attempt.
 */
#pragma once
#include "base/err.h"
#include <stdbool.h>

struct partial {
    char *path, *dest;
    int fd; /* the directory being made */
};
int partial_open(struct partial *p, const char *dest, struct err *e);
/* To its name, if that is still free; durable when `sync`. */
int partial_commit(struct partial *p, bool sync, struct err *e);
void partial_done(struct partial *p); /* removes it unless committed */
