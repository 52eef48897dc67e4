/* json.c - the value tree: a thin layer over json-c
 *
 * Owns: copying, comparing and writing.  json-c's own copy cuts strings at a NUL and its writer
 * passes broken UTF-8 on, so both are done here.  Reading is in json_parse.c.
 *
 * `struct json` is a json_object under another name; JSON null is the NULL pointer, as in
 * json-c.  Exhausted memory aborts, like everywhere in the program.
 */
#include "base/json_priv.h"
#include "base/util.h"

enum { ARRAY_START = 4 }; /* json-c would reserve 32; most lists of parameters are short */

static struct json *checked(struct json_object *o)
{
    ASSERT(o != NULL);
    return (struct json *)o;
}

void json_free(struct json *j)
{
    json_object_put(jc(j));
}

enum json_type json_type(const struct json *j)
{
    switch (json_object_get_type(jc(j))) {
    case json_type_null:
        return JSON_NULL;
    case json_type_boolean:
        return JSON_BOOL;
    case json_type_double:
        return JSON_REAL;
    case json_type_int:
        return JSON_INT;
    case json_type_object:
        return JSON_OBJECT;
    case json_type_array:
        return JSON_ARRAY;
    case json_type_string:
        return JSON_STR;
    }
    return JSON_NULL;
}

const char *json_type_name(enum json_type t)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",        [JSON_BOOL] = "true or false", [JSON_INT] = "a whole number",
        [JSON_REAL] = "a number",    [JSON_STR] = "a string",       [JSON_ARRAY] = "a list",
        [JSON_OBJECT] = "an object",
    };
    return (size_t)t < ARRAY_SIZE(names) ? names[t] : "an unknown value";
}

bool json_bool(const struct json *j)
{
    return json_type(j) == JSON_BOOL && json_object_get_boolean(jc(j));
}

int64_t json_int(const struct json *j)
{
    enum json_type t = json_type(j);

    return t == JSON_INT || t == JSON_REAL ? json_object_get_int64(jc(j)) : 0;
}

double json_real(const struct json *j)
{
    enum json_type t = json_type(j);

    return t == JSON_INT || t == JSON_REAL ? json_object_get_double(jc(j)) : 0;
}

struct str json_str(const struct json *j)
{
    if (json_type(j) != JSON_STR)
        return STR("");
    return (struct str){json_object_get_string(jc(j)), (size_t)json_object_get_string_len(jc(j))};
}

size_t json_len(const struct json *j)
{
    switch (json_type(j)) {
    case JSON_ARRAY:
        return json_object_array_length(jc(j));
    case JSON_OBJECT:
        return (size_t)json_object_object_length(jc(j));
    default:
        return 0;
    }
}

const struct json *json_at(const struct json *j, size_t i)
{
    if (json_type(j) != JSON_ARRAY || i >= json_len(j))
        return NULL;
    return (const struct json *)json_object_array_get_idx(jc(j), i);
}

const struct json *json_get(const struct json *j, const char *key)
{
    struct json_object *val = NULL;

    if (json_type(j) == JSON_OBJECT)
        json_object_object_get_ex(jc(j), key, &val);
    return (const struct json *)val;
}

bool json_has(const struct json *j, const char *key)
{
    return json_type(j) == JSON_OBJECT && json_object_object_get_ex(jc(j), key, NULL);
}

bool json_next(const struct json *obj, struct json_it *it)
{
    if (json_type(obj) != JSON_OBJECT)
        return false;
    struct lh_entry *entry = it->started ? lh_entry_next((struct lh_entry *)it->pos)
                                         : lh_table_head(json_object_get_object(jc(obj)));
    if (!entry)
        return false;
    it->started++;
    it->pos = entry;
    it->key = lh_entry_k(entry);
    it->val = lh_entry_v(entry);
    return true;
}

struct json *json_new_object(void)
{
    return checked(json_object_new_object());
}

struct json *json_new_array(void)
{
    return checked(json_object_new_array_ext(ARRAY_START));
}

struct json *json_new_str(struct str s)
{
    ASSERT(s.n <= INT32_MAX);
    return checked(json_object_new_string_len(s.n ? s.p : "", (int)s.n));
}

struct json *json_new_int(int64_t i)
{
    return checked(json_object_new_int64(i));
}

struct json *json_new_real(double d)
{
    return checked(json_object_new_double(d));
}

struct json *json_new_real_text(double d, const char *text)
{
    return checked(json_object_new_double_s(d, text));
}

struct json *json_new_bool(bool b)
{
    return checked(json_object_new_boolean(b));
}

void json_set_take(struct json *obj, const char *key, struct json *val)
{
    ASSERT(json_type(obj) == JSON_OBJECT);
    int rc = json_object_object_add(jc(obj), key, jc(val));
    ASSERT(rc == 0);
}

void json_add_new(struct json *obj, const char *key, struct json *val)
{
    int rc = json_object_object_add_ex(jc(obj), key, jc(val), JSON_C_OBJECT_ADD_KEY_IS_NEW);
    ASSERT(rc == 0);
}

void json_del(struct json *obj, const char *key)
{
    ASSERT(json_type(obj) == JSON_OBJECT);
    json_object_object_del(jc(obj), key);
}

void json_push_take(struct json *array, struct json *val)
{
    ASSERT(json_type(array) == JSON_ARRAY);
    int rc = json_object_array_add(jc(array), jc(val));
    ASSERT(rc == 0);
}

/* The text a real was read from, or NULL for a computed one. */
static const char *real_text(const struct json *j)
{
    return json_object_get_userdata(jc(j));
}

static struct json *copy_array(const struct json *j)
{
    struct json *copy = json_new_array();

    for (size_t i = 0; i < json_len(j); i++)
        json_push_take(copy, json_copy(json_at(j, i)));
    return copy;
}

static struct json *copy_object(const struct json *j)
{
    struct json *copy = json_new_object();

    for (struct json_it it = {0}; json_next(j, &it);)
        json_add_new(copy, it.key, json_copy(it.val));
    return copy;
}

struct json *json_copy(const struct json *j)
{
    switch (json_type(j)) {
    case JSON_NULL:
        return NULL;
    case JSON_BOOL:
        return json_new_bool(json_bool(j));
    case JSON_INT:
        return json_new_int(json_int(j));
    case JSON_REAL:
        return real_text(j) ? json_new_real_text(json_real(j), real_text(j))
                            : json_new_real(json_real(j));
    case JSON_STR:
        return json_new_str(json_str(j));
    case JSON_ARRAY:
        return copy_array(j);
    case JSON_OBJECT:
        return copy_object(j);
    }
    return NULL;
}

static bool objects_equal(const struct json *a, const struct json *b)
{
    for (struct json_it it = {0}; json_next(a, &it);) {
        if (!json_has(b, it.key) || !json_equal(it.val, json_get(b, it.key)))
            return false;
    }
    return true;
}

bool json_equal(const struct json *a, const struct json *b)
{
    enum json_type t = json_type(a);

    if (a == b)
        return true;
    if (t != json_type(b) || json_len(a) != json_len(b))
        return false;
    switch (t) {
    case JSON_NULL:
        return true;
    case JSON_BOOL:
        return json_bool(a) == json_bool(b);
    case JSON_INT:
        return json_int(a) == json_int(b);
    case JSON_REAL:
        return json_real(a) == json_real(b);
    case JSON_STR:
        return str_eq(json_str(a), json_str(b));
    case JSON_ARRAY:
        for (size_t i = 0; i < json_len(a); i++) {
            if (!json_equal(json_at(a, i), json_at(b, i)))
                return false;
        }
        return true;
    case JSON_OBJECT:
        return objects_equal(a, b);
    }
    return false;
}

static void write_value(struct buf *b, const struct json *j, bool pretty, size_t level);

static void write_break(struct buf *b, bool pretty, size_t level)
{
    if (!pretty)
        return;
    buf_addc(b, '\n');
    for (size_t i = 0; i < level; i++)
        buf_add(b, "  ", 2);
}

static void write_array(struct buf *b, const struct json *j, bool pretty, size_t level)
{
    size_t n = json_len(j);

    buf_addc(b, '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_addc(b, ',');
        write_break(b, pretty, level + 1);
        write_value(b, json_at(j, i), pretty, level + 1);
    }
    if (n)
        write_break(b, pretty, level);
    buf_addc(b, ']');
}

static void write_object(struct buf *b, const struct json *j, bool pretty, size_t level)
{
    buf_addc(b, '{');
    for (struct json_it it = {0}; json_next(j, &it);) {
        if (it.started > 1)
            buf_addc(b, ',');
        write_break(b, pretty, level + 1);
        buf_add_json_str(b, str_of(it.key));
        buf_adds(b, pretty ? ": " : ":");
        write_value(b, it.val, pretty, level + 1);
    }
    if (json_len(j))
        write_break(b, pretty, level);
    buf_addc(b, '}');
}

static void write_value(struct buf *b, const struct json *j, bool pretty, size_t level)
{
    switch (json_type(j)) {
    case JSON_NULL:
        buf_adds(b, "null");
        break;
    case JSON_BOOL:
        buf_adds(b, json_bool(j) ? "true" : "false");
        break;
    case JSON_INT:
        buf_addf(b, "%lld", (long long)json_int(j));
        break;
    case JSON_REAL:
        if (real_text(j))
            buf_adds(b, real_text(j));
        else
            buf_add_json_double(b, json_real(j));
        break;
    case JSON_STR:
        buf_add_json_str(b, json_str(j));
        break;
    case JSON_ARRAY:
        write_array(b, j, pretty, level);
        break;
    case JSON_OBJECT:
        write_object(b, j, pretty, level);
        break;
    }
}

bool json_write(struct buf *b, const struct json *j, bool pretty)
{
    write_value(b, j, pretty, 0);
    return !b->overflow;
}

char *json_text(const struct json *j)
{
    struct buf b = {0};

    json_write(&b, j, false);
    return buf_take(&b, NULL);
}
