/* contents.h - what the files of a directory hold, so that only what is new need be sent
 *
 * A sweep sends the same directory again and again.  Its files are hashed here (those that did not
 * change since the last time: not even read), the receiver is asked which of these contents it has,
 * and a bundle names those instead of holding them (struct bundle, unpack_conf.contents).
 */
#pragma once
#include "archive/ignore.h"
#include "archive/watch.h"
#include "base/err.h"
#include "base/json.h"
#include <stddef.h>

struct contents;
/* `records` is a directory for notes on what was hashed; it is made when it is missing, and may be
 * NULL: then everything is hashed. */
struct contents *contents_new(const char *records);
void contents_free(struct contents *c);
/* Adds the files of a directory, as bundle_write would take them; small ones are left out, because
 * naming them costs as much as sending them. */
int contents_add(struct contents *c, const char *dir, const struct ignore *ig,
                 const struct archive_watch *w, struct err *e);
size_t contents_count(const struct contents *c);
const char *contents_hash(const struct contents *c, size_t i); /* 64 hexadecimal digits */
void contents_set_there(struct contents *c, size_t i);         /* the receiver has it */

/* ---- the question, as JSON ---- */
/* {"contents": [hash, …]}; contents beyond the first 50 000 are sent.  Yours. */
struct json *contents_question(const struct contents *c);
/* {"missing": [hash, …]}: what the answer does not name is there.  The number of those, -1 = this
 * is no such answer. */
int64_t contents_take_answer(struct contents *c, const struct json *answer);
/* The receiver's side: writes the answer to a question.  ERR_INVALID: it is none. */
struct buf;
struct cas;
int contents_answer(struct cas *c, const struct json *question, struct buf *out, struct err *e);
