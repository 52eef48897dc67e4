/* base64.h - RFC 4648: tokens, and names with passwords in headers */
#pragma once
#include "base/buf.h"

void base64_add(struct buf *b, struct str bytes);     /* "+/", padded with "=" */
void base64_add_url(struct buf *b, struct str bytes); /* "-_", without padding, as in a JWT */
/* Takes either alphabet, with or without padding; false for anything else, and when `out` is full.
 */
bool base64_decode(struct str text, struct buf *out);
