/* json.c - the value tree
 *
 * Owns: making, looking up, copying, comparing and freeing.  Reading is in json_in.c and
 * json_parse.c, writing in json_out.c.
 *
 * A value is one block of memory: texts lie behind their header, and so does the source text of a
 * real.  JSON null is the NULL pointer.  An object is a list of members in the order they came;
 * beyond INDEX_FROM members an index by key (SipHash: keys come from outside) stands beside it.
 * Exhausted memory aborts, like everywhere in the program.
 */
#include "base/json_priv.h"
#include "base/map.h"
#include "base/util.h"

enum { START = 4, INDEX_FROM = 64 }; /* an environment of usual size is looked through */

struct member {
    char *key;
    struct json *val;
};

struct json {
    enum json_type type;
    bool flag;
    bool has_text; /* of a real: `text` is what it was read from */
    size_t n, cap; /* of a string: bytes; of arrays and objects: elements */
    union {
        int64_t i;
        double d;
        struct json **items;
        struct member *members;
    };
    union {
        struct map_str *index; /* objects only: key → place + 1; NULL while there are few */
        char text[8];          /* longer ones go on behind */
    };
};

/* A zeroed value: false, 0, or an empty array or object. */
static struct json *value_new(enum json_type t)
{
    struct json *j = xcalloc(1, sizeof(*j));

    j->type = t;
    return j;
}

/* A value with a text behind it. */
static struct json *text_new(enum json_type t, struct str s)
{
    size_t at = offsetof(struct json, text);
    struct json *j = xmalloc(MAX(sizeof(*j), at + s.n + 1));

    memset(j, 0, at);
    j->type = t;
    j->n = s.n;
    if (s.n)
        memcpy((char *)j + at, s.p, s.n);
    ((char *)j)[at + s.n] = '\0';
    return j;
}

static void index_free(struct json *obj)
{
    if (obj->index)
        map_str_done(obj->index);
    free(TAKE(obj->index));
}

void json_free(struct json *j)
{
    if (!j)
        return;
    if (j->type == JSON_ARRAY) {
        for (size_t i = 0; i < j->n; i++)
            json_free(j->items[i]);
        free(j->items);
    } else if (j->type == JSON_OBJECT) {
        for (size_t i = 0; i < j->n; i++) {
            free(j->members[i].key);
            json_free(j->members[i].val);
        }
        free(j->members);
        index_free(j);
    }
    free(j);
}

/* ---- looking ---- */

enum json_type json_type(const struct json *j)
{
    return j ? j->type : JSON_NULL;
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
    return json_type(j) == JSON_BOOL && j->flag;
}

/* The nearest 64-bit number towards zero; what lies outside is cut. */
static int64_t whole_of(double d)
{
    if (d >= 0x1p63)
        return INT64_MAX;
    return d >= -0x1p63 ? (int64_t)d : INT64_MIN;
}

int64_t json_int(const struct json *j)
{
    enum json_type t = json_type(j);

    return t == JSON_INT ? j->i : t == JSON_REAL ? whole_of(j->d) : 0;
}

double json_real(const struct json *j)
{
    enum json_type t = json_type(j);

    return t == JSON_INT ? (double)j->i : t == JSON_REAL ? j->d : 0;
}

struct str json_str(const struct json *j)
{
    return json_type(j) == JSON_STR ? (struct str){j->text, j->n} : STR("");
}

const char *json_real_text(const struct json *j)
{
    return json_type(j) == JSON_REAL && j->has_text ? j->text : NULL;
}

size_t json_len(const struct json *j)
{
    enum json_type t = json_type(j);

    return t == JSON_ARRAY || t == JSON_OBJECT ? j->n : 0;
}

const struct json *json_at(const struct json *j, size_t i)
{
    return json_type(j) == JSON_ARRAY && i < j->n ? j->items[i] : NULL;
}

/* The member with this key, or NULL.  The pointer is valid until the object changes. */
static struct member *member_find(const struct json *obj, struct str key)
{
    if (json_type(obj) != JSON_OBJECT)
        return NULL;
    if (obj->index) {
        uintptr_t place = (uintptr_t)map_str_get(obj->index, key);
        return place ? &obj->members[place - 1] : NULL;
    }
    for (size_t i = 0; i < obj->n; i++)
        if (!strncmp(obj->members[i].key, key.p, key.n) && !obj->members[i].key[key.n])
            return &obj->members[i];
    return NULL;
}

const struct json *json_get(const struct json *j, const char *key)
{
    const struct member *m = member_find(j, str_of(key));

    return m ? m->val : NULL;
}

bool json_has(const struct json *j, const char *key)
{
    return member_find(j, str_of(key)) != NULL;
}

bool json_next(const struct json *obj, struct json_it *it)
{
    if (json_type(obj) != JSON_OBJECT || it->started >= obj->n)
        return false;
    const struct member *m = &obj->members[it->started++];
    it->key = m->key;
    it->val = m->val;
    return true;
}

/* ---- making ---- */

struct json *json_new_object(void)
{
    return value_new(JSON_OBJECT);
}

struct json *json_new_array(void)
{
    return value_new(JSON_ARRAY);
}

struct json *json_new_words(const char *const *words, size_t n)
{
    struct json *list = json_new_array();

    for (size_t i = 0; i < n; i++)
        json_push_take(list, json_new_str(str_of(words[i])));
    return list;
}

struct json *json_new_str(struct str s)
{
    return text_new(JSON_STR, s);
}

struct json *json_new_int(int64_t i)
{
    struct json *j = value_new(JSON_INT);

    j->i = i;
    return j;
}

struct json *json_new_real(double d)
{
    struct json *j = value_new(JSON_REAL);

    j->d = d;
    return j;
}

struct json *json_new_real_text(double d, struct str text)
{
    struct json *j = text_new(JSON_REAL, text);

    j->d = d;
    j->has_text = true;
    return j;
}

struct json *json_new_bool(bool b)
{
    struct json *j = value_new(JSON_BOOL);

    j->flag = b;
    return j;
}

/* Makes room for one more element; capacity doubles. */
static void *grown(void *p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return p;
    *cap = *cap ? *cap * 2 : START;
    return xrealloc(p, *cap, size);
}

void json_push_take(struct json *array, struct json *val)
{
    ASSERT(json_type(array) == JSON_ARRAY);
    array->items = grown(array->items, array->n, &array->cap, sizeof(*array->items));
    array->items[array->n++] = val;
}

static void index_put(struct json *obj, size_t i)
{
    map_str_put(obj->index, str_of(obj->members[i].key), (void *)(uintptr_t)(i + 1));
}

/* Builds the index again from the members, or drops it when they are few. */
static void index_make(struct json *obj)
{
    index_free(obj);
    if (obj->n <= INDEX_FROM)
        return;
    obj->index = xcalloc(1, sizeof(*obj->index));
    for (size_t i = 0; i < obj->n; i++)
        index_put(obj, i);
}

/* The object is known not to have the key. */
static void member_add(struct json *obj, struct str key, struct json *val)
{
    obj->members = grown(obj->members, obj->n, &obj->cap, sizeof(*obj->members));
    obj->members[obj->n++] = (struct member){xstrndup(key.p, key.n), val};
    if (obj->index)
        index_put(obj, obj->n - 1);
    else if (obj->n > INDEX_FROM)
        index_make(obj);
}

bool json_add_new(struct json *obj, struct str key)
{
    if (member_find(obj, key))
        return false;
    member_add(obj, key, NULL);
    return true;
}

void json_put_last(struct json *container, struct json *val)
{
    if (container->type == JSON_ARRAY)
        json_push_take(container, val);
    else
        container->members[container->n - 1].val = val;
}

void json_set_take(struct json *obj, const char *key, struct json *val)
{
    ASSERT(json_type(obj) == JSON_OBJECT);
    struct member *m = member_find(obj, str_of(key));
    if (!m) {
        member_add(obj, str_of(key), val);
        return;
    }
    json_free(m->val);
    m->val = val;
}

void json_del(struct json *obj, const char *key)
{
    ASSERT(json_type(obj) == JSON_OBJECT);
    struct member *m = member_find(obj, str_of(key));
    if (!m)
        return;
    size_t i = (size_t)(m - obj->members);
    free(m->key);
    json_free(m->val);
    memmove(m, m + 1, (--obj->n - i) * sizeof(*m));
    index_make(obj); /* the places of all that follow have changed */
}

/* ---- whole trees ---- */

static struct json *copy_array(const struct json *j)
{
    struct json *copy = json_new_array();

    for (size_t i = 0; i < j->n; i++)
        json_push_take(copy, json_copy(j->items[i]));
    return copy;
}

static struct json *copy_object(const struct json *j)
{
    struct json *copy = json_new_object();

    for (size_t i = 0; i < j->n; i++)
        member_add(copy, str_of(j->members[i].key), json_copy(j->members[i].val));
    return copy;
}

struct json *json_copy(const struct json *j)
{
    switch (json_type(j)) {
    case JSON_NULL:
        return NULL;
    case JSON_BOOL:
        return json_new_bool(j->flag);
    case JSON_INT:
        return json_new_int(j->i);
    case JSON_REAL:
        return j->has_text ? json_new_real_text(j->d, (struct str){j->text, j->n})
                           : json_new_real(j->d);
    case JSON_STR:
        return json_new_str(json_str(j));
    case JSON_ARRAY:
        return copy_array(j);
    case JSON_OBJECT:
        return copy_object(j);
    }
    return NULL;
}

static bool arrays_equal(const struct json *a, const struct json *b)
{
    for (size_t i = 0; i < a->n; i++)
        if (!json_equal(a->items[i], b->items[i]))
            return false;
    return true;
}

/* Both have the same number of members and no key twice, so one direction is enough. */
static bool objects_equal(const struct json *a, const struct json *b)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct member *other = member_find(b, str_of(a->members[i].key));
        if (!other || !json_equal(a->members[i].val, other->val))
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
        return a->flag == b->flag;
    case JSON_INT:
        return a->i == b->i;
    case JSON_REAL:
        return a->d == b->d;
    case JSON_STR:
        return str_eq(json_str(a), json_str(b));
    case JSON_ARRAY:
        return arrays_equal(a, b);
    case JSON_OBJECT:
        return objects_equal(a, b);
    }
    return false;
}
