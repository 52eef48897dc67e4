/* contents_priv.h - how a bundle names a content it does not hold
 *
 * A file of size 0 with an extended attribute that is the hash.  Any tar program reads such a
 * bundle; only a receiver that said it has the content is sent one.
 */
#pragma once
#include "archive/contents.h"
#include <sys/stat.h>

#define CONTENT_ATTRIBUTE "user.berth.content"
/* The hash of this file, if the receiver has its content and the file did not change since it was
 * hashed; else NULL. */
const char *contents_find(const struct contents *c, const struct stat *st);
