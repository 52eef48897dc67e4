/* json_priv.h - json-c as json*.c and yaml*.c see it
 *
 * json-c has its own `enum json_type` and `json_bool`; both are renamed while its header is read.
 */
#pragma once
#define json_type jsonc_type
#define json_bool jsonc_bool
#include <json-c/json.h>
#undef json_type
#undef json_bool
#include "base/json.h"

static inline struct json_object *jc(const struct json *j)
{
    return (struct json_object *)(uintptr_t)j;
}

struct json *json_new_real_text(double d, const char *text); /* writes as `text` */
/* Like json_set_take, for a key the object is known not to have. */
void json_add_new(struct json *obj, const char *key, struct json *val);
size_t json_skip_space(struct str s, size_t i); /* the first place from i that is not white space */
/* "name:line:col: " of a place in text; columns count characters. */
void json_place(struct str text, size_t at, const char *name, struct buf *out);
/* Is s a number by the grammar of RFC 8259?  *whole: without fraction and exponent. */
bool json_is_number(struct str s, bool *whole);
/* The value of a number in that grammar; NULL when it is too large for a double. */
struct json *json_new_number(struct str s, bool whole);
