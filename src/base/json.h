/* json.h - the one value tree of the program
 *
 * `struct json` is opaque.  Objects keep key order, integers are 64 bits, reals keep their source
 * text (0.1 stays 0.1).  Getters borrow; *_take hand over.  A tree belongs to whoever made it,
 * until json_free.  json_in.h and
 * json_out.h read and write JSON without a tree.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"

struct json;
enum json_type { JSON_NULL, JSON_BOOL, JSON_INT, JSON_REAL, JSON_STR, JSON_ARRAY, JSON_OBJECT };

enum { JSON_DEPTH_MAX = 64 };
/* Strict RFC 8259: one value, no trailing bytes, no repeated keys, nesting and UTF-8 checked.
 * `name` stands in messages: "batch.json:3:14: …".  The caller frees *out.  JSON null is success
 * with *out NULL; on failure *out is unchanged. */
int json_parse(struct str text, const char *name, struct json **out, struct err *e);
/* Frees the value and everything below it; NULL is fine. */
void json_free(struct json *j);
/* A deep copy, which the caller frees. */
struct json *json_copy(const struct json *j);
/* The order of keys in objects does not matter.  An int and a real are never equal, also 1 and
 * 1.0. */
bool json_equal(const struct json *a, const struct json *b);
/* AUTO(json) struct json *j = NULL;  frees the tree at the end of the scope. */
static inline void json_done(struct json **j)
{
    json_free(*j);
}

/* json_out.c: the whole tree as text; json_out.h writes text without a tree. */
enum json_form {
    JSON_COMPACT,         /* one line without spaces */
    JSON_PRETTY,          /* indented by two spaces */
    JSON_PYTHON,          /* as Python's json.dumps: ", " and ": ", ASCII, repr of floats, NaN */
    JSON_PYTHON_INDENTED, /* the same with indent=4 */
};
/* Appends the tree to b.  False: the buf overflowed. */
bool json_write(struct buf *b, const struct json *j, enum json_form form);
char *json_text_as(const struct json *j, enum json_form form); /* yours */
char *json_text(const struct json *j);                         /* compact, yours */

enum json_type json_type(const struct json *j); /* NULL is JSON_NULL */
const char *json_type_name(enum json_type t);   /* "a string", "a whole number", … for messages */
/* Getters never fail: for a value of another type, or NULL, they return false, 0 or "". */
bool json_bool(const struct json *j);
/* Reals are cut towards zero; one that is outside of 64 bits gives INT64_MAX or INT64_MIN. */
int64_t json_int(const struct json *j);
double json_real(const struct json *j); /* ints convert */
/* Borrowed from the tree and NUL-terminated; the text itself may contain NULs. */
struct str json_str(const struct json *j);
size_t json_len(const struct json *j); /* of arrays and objects, else 0 */
/* NULL when i is beyond the end, when the element is null, and when j is no array. */
const struct json *json_at(const struct json *j, size_t i);
const struct json *json_get(const struct json *j, const char *key); /* NULL when absent or null */
/* True also for a member whose value is null, which json_get cannot tell from an absent one. */
bool json_has(const struct json *j, const char *key);
/* The text of a member; "" when it is absent or no text. */
static inline struct str json_get_str(const struct json *j, const char *key)
{
    const struct json *v = json_get(j, key);

    return json_type(v) == JSON_STR ? json_str(v) : STR("");
}
/* for (struct json_it it = {0}; json_next(obj, &it);) it.key, it.val */
struct json_it {
    size_t started; /* members seen so far */
    const char *key;
    const struct json *val;
};
bool json_next(const struct json *obj, struct json_it *it);

/* The caller owns a new value until json_set_take or json_push_take hands it over. */
struct json *json_new_object(void);
struct json *json_new_array(void);
struct json *json_new_str(struct str s);
struct json *json_new_int(int64_t i);
struct json *json_new_real(double d);
struct json *json_new_bool(bool b);
/* An array of n texts. */
struct json *json_new_words(const char *const *words, size_t n);
/* Takes val, also NULL for null.  A value that the key had before is freed. */
void json_set_take(struct json *obj, const char *key, struct json *val);
/* Removes the member, if there is one.  Linear in the number of members. */
void json_del(struct json *obj, const char *key);
void json_push_take(struct json *array, struct json *val);
static inline void json_set_str(struct json *o, const char *k, const char *v)
{
    json_set_take(o, k, v ? json_new_str(str_of(v)) : NULL);
}
static inline void json_set_int(struct json *o, const char *k, int64_t v)
{
    json_set_take(o, k, json_new_int(v));
}
static inline void json_set_bool(struct json *o, const char *k, bool v)
{
    json_set_take(o, k, json_new_bool(v));
}

/* Without the white space around it: the four bytes JSON knows, so no form feeds. */
struct str json_trim(struct str s);
