/* json_priv.h - what json*.c and yaml*.c share */
#pragma once
#include "base/json.h"

struct json_number;

struct json *json_new_real_text(double d, struct str text); /* writes as `text` */
/* The text a real was read from; NULL for a computed one and for other values. */
const char *json_real_text(const struct json *j);
/* A member with this key and null, behind the others; false when the object has the key. */
bool json_add_new(struct json *obj, struct str key);
/* Appends to an array; gives the member added last its value. */
void json_put_last(struct json *container, struct json *val);
/* "name:line:col: " of a place in text; columns count characters. */
void json_place(struct str text, size_t at, const char *name, struct buf *out);

/* The end of the number that starts at i, by the grammar of RFC 8259; with *ok false the place of
 * the first wrong byte. */
size_t json_number_scan(struct str s, size_t i, struct json_number *out, bool *ok);
/* The value of a number that json_number_scan accepted; `text` is exactly its bytes.  False: the
 * number has a fraction or an exponent, or is beyond 64 bits. */
bool json_number_int(struct str text, const struct json_number *x, int64_t *out);
/* The nearest double; infinite when the number is too large. */
double json_number_double(struct str text, const struct json_number *x);
/* Is all of s a number by that grammar? */
bool json_is_number(struct str s);
/* The value of such a number; NULL when it is too large for a double. */
struct json *json_new_number(struct str s);
