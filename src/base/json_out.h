/* json_out.h - JSON text written piece by piece into a buf; commas and escapes are the writer's job
 *
 *   jw_object(b, NULL);
 *   jw_text(b, "name", "a");
 *   jw_array(b, "gpus");
 *   jw_int(b, NULL, 0);
 *   jw_int(b, NULL, 1);
 *   jw_end_array(b);
 *   jw_end_object(b);            {"name":"a","gpus":[0,1]}
 *
 * Every function takes the key of a member, or NULL for an element of a list and for a value that
 * stands alone.  Keys are identifiers of the program and go out as they are; a key from outside
 * goes through jw_key, and its value follows with key NULL.
 *
 * The writer keeps no state: a comma is due exactly when the last byte of the buf ends a value
 * (quote, bracket, digit or letter).  So pieces written by different functions fit together,
 * members can be collected without their braces, and a text before the JSON must end in a space, a
 * line break or punctuation.  Overflow is the buf's sticky error.
 */
#pragma once
#include "base/buf.h"
#include "base/id.h"

struct json;

/* Opens an object or a list; the caller closes each with the matching jw_end function. */
void jw_object(struct buf *b, const char *key);
void jw_array(struct buf *b, const char *key);
/* False: the buf overflowed here or earlier, so the text is not complete. */
bool jw_end_object(struct buf *b);
bool jw_end_array(struct buf *b);

void jw_key(struct buf *b, struct str key);
void jw_str(struct buf *b, const char *key, struct str s);         /* broken UTF-8 becomes U+FFFD */
void jw_str_or_null(struct buf *b, const char *key, struct str s); /* empty is null */
void jw_text(struct buf *b, const char *key, const char *s);       /* NULL is "" */
void jw_int(struct buf *b, const char *key, int64_t v);
void jw_int_or_null(struct buf *b, const char *key, int64_t v, bool known);
void jw_double(struct buf *b, const char *key, double v); /* NaN and infinities are null */
void jw_bool(struct buf *b, const char *key, bool v);
void jw_null(struct buf *b, const char *key);
void jw_time(struct buf *b, const char *key, int64_t wall_ms); /* 0 is null */
void jw_id(struct buf *b, const char *key, struct id id);
/* Writes a whole tree in compact form. */
void jw_json(struct buf *b, const char *key, const struct json *j);
void jw_raw(struct buf *b, const char *key, struct str json); /* JSON text of one value */
/* Members that were collected without braces; none is nothing. */
void jw_members(struct buf *b, struct str members);

/* A number as JSON knows it, without a comma before it: the shortest text that reads back the same,
 * in the form of Python's repr (0.1, 1e-05, 100.0).  d is finite. */
bool jw_add_double(struct buf *b, double d);
/* A text with quotes and escapes, without a comma before it; with `ascii` everything outside ASCII
 * is escaped too.  Nothing is added when it does not fit. */
bool jw_add_str(struct buf *b, struct str s, bool ascii);
