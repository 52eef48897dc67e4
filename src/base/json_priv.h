/* json_priv.h - what json*.c and yaml*.c share */
#pragma once
#include "base/json.h"

struct json *json_new_real_text(double d, const char *text); /* writes as `text` */
/* The text a real was read from; NULL for a computed one and for other values. */
const char *json_real_text(const struct json *j);
/* Like json_set_take, for a key the object is known not to have. */
void json_add_new(struct json *obj, const char *key, struct json *val);
size_t json_skip_space(struct str s, size_t i); /* the first place from i that is not white space */
/* "name:line:col: " of a place in text; columns count characters. */
void json_place(struct str text, size_t at, const char *name, struct buf *out);
/* Is s a number by the grammar of RFC 8259?  *whole: without fraction and exponent. */
bool json_is_number(struct str s, bool *whole);
/* The value of a number in that grammar; NULL when it is too large for a double. */
struct json *json_new_number(struct str s, bool whole);
