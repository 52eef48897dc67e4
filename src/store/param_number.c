/* param_number.c - param_number(params, key): the number a job has under that key, or NULL
 *
 * A filter such as lr<0.1 asks this of every job it passes.  The text is an object that was checked
 * when it was submitted, so a scan that stops at the key is enough; json_extract reads all of it,
 * and twice for a comparison.  A key written with escapes sends the whole text to the real reader.
 */
#include "base/json.h"
#include "store/query_priv.h"
#include <string.h>

static const char *json_skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* From behind the opening quote to behind the closing one; NULL when there is none. */
static const char *skip_string(const char *p, const char *end, bool *out_escaped)
{
    for (; p < end; p++) {
        if (*p == '"')
            return p + 1;
        if (*p == '\\') {
            *out_escaped = true;
            p++;
        }
    }
    return NULL;
}

/* To the comma or brace that ends the value. */
static const char *skip_value(const char *p, const char *end)
{
    bool escaped;
    int depth = 0;

    while (p && p < end) {
        if (*p == '"') {
            p = skip_string(p + 1, end, &escaped);
            continue;
        }
        if (*p == '{' || *p == '[')
            depth++;
        else if (depth == 0 && (*p == ',' || *p == '}'))
            return p;
        else if (*p == '}' || *p == ']')
            depth--;
        p++;
    }
    return p;
}

/* A walk over the members of an object at the top level; zeroed but for the text at first. */
struct param_walk {
    const char *p, *end;
};

/* The next member; false = there is none.  *escaped is set when its name has an escape, so that a
 * comparison of bytes could miss it. */
static bool param_next(struct param_walk *w, struct str *name, struct str *value, bool *escaped)
{
    const char *p = w->p ? json_skip_space(w->p, w->end) : w->end;

    if (p >= w->end || *p == '}')
        return false;
    p = json_skip_space(p + 1, w->end); /* behind the brace or comma */
    if (p >= w->end || *p != '"')
        return false;
    name->p = p + 1;
    p = skip_string(p + 1, w->end, escaped);
    if (!p)
        return false;
    name->n = (size_t)(p - 1 - name->p);
    p = json_skip_space(p, w->end);
    value->p = json_skip_space(p + 1, w->end); /* behind the colon */
    w->p = skip_value(value->p, w->end);
    if (!w->p)
        return false;
    *value = str_trim((struct str){value->p, (size_t)(w->p - value->p)});
    return true;
}

bool param_keys(struct str params, void (*fn)(void *arg, struct str name), void *arg)
{
    struct param_walk w = {params.p, params.p + params.n};
    struct str name, value;
    bool escaped = false;

    while (!escaped && param_next(&w, &name, &value, &escaped))
        fn(arg, name);
    return !escaped;
}

/* Names written with escapes are passed over. */
static bool raw_member(struct str object, struct str name, struct str *out)
{
    struct param_walk w = {object.p, object.p + object.n};
    struct str here;
    bool escaped = false;

    for (; param_next(&w, &here, out, &escaped); escaped = false)
        if (!escaped && str_eq(here, name))
            return true;
    return false;
}

int param_raw(struct str params, struct str name, struct str *out)
{
    if (raw_member(params, name, out))
        return 1;
    for (size_t i = 1; i + 1 < name.n; i++) {
        struct str top = {name.p, i}, below = {name.p + i + 1, name.n - i - 1}, inner;
        if (name.p[i] == '.' && raw_member(params, top, &inner) && inner.n && *inner.p == '{' &&
            param_raw(inner, below, out))
            return 1;
    }
    return 0;
}

enum found { FOUND_NOTHING, FOUND_VALUE, FOUND_ESCAPES };

/* Finds the value of `key` at the top level; *out is its text.  FOUND_ESCAPES: a name before it has
 * an escape. */
static enum found param_find_value(struct str text, struct str key, struct str *out)
{
    struct param_walk w = {text.p, text.p + text.n};
    struct str name;
    bool escaped = false;

    while (param_next(&w, &name, out, &escaped)) {
        if (escaped)
            return FOUND_ESCAPES;
        if (str_eq(name, key))
            return FOUND_VALUE;
    }
    return FOUND_NOTHING;
}

/* Parses the whole text; the result stays NULL when the value is no number. */
static void result_slowly(sqlite3_context *ctx, struct str text, const char *key)
{
    AUTO(json) struct json *j = NULL;
    struct err e;

    if (json_parse(text, "params", &j, &e) == 0) {
        const struct json *v = json_get(j, key);
        if (json_type(v) == JSON_INT || json_type(v) == JSON_REAL)
            sqlite3_result_double(ctx, json_real(v));
    }
}

void sql_param_number(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    const char *text = (const char *)sqlite3_value_text(v[0]);
    const char *key = (const char *)sqlite3_value_text(v[1]);
    struct str all = {text, (size_t)sqlite3_value_bytes(v[0])}, value;
    double number;

    (void)n;
    if (!text || !key)
        return; /* no parameters: NULL */
    switch (param_find_value(all, str_of(key), &value)) {
    case FOUND_VALUE:
        if (str_to_double(value, &number))
            sqlite3_result_double(ctx, number);
        break;
    case FOUND_ESCAPES:
        result_slowly(ctx, all, key);
        break;
    case FOUND_NOTHING:
        break;
    }
}
