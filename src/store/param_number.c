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

enum found { FOUND_NOTHING, FOUND_VALUE, FOUND_ESCAPES };

/* Finds the value of `key` at the top level; *out is its text.  FOUND_ESCAPES: a key before it has
 * an escape, so a comparison of bytes could miss the one asked for. */
static enum found param_find_value(struct str text, struct str key, struct str *out)
{
    const char *end = text.p + text.n, *p = json_skip_space(text.p, end);

    while (p && p < end && *p != '}') {
        p = json_skip_space(p + 1, end); /* behind the brace or comma */
        if (p >= end || *p != '"')
            return FOUND_NOTHING;
        const char *name = p + 1;
        bool escaped = false;
        p = skip_string(name, end, &escaped);
        if (!p)
            return FOUND_NOTHING;
        if (escaped)
            return FOUND_ESCAPES;
        struct str here = {name, (size_t)(p - 1 - name)};
        p = json_skip_space(p, end);
        const char *value = json_skip_space(p + 1, end); /* behind the colon */
        p = skip_value(value, end);
        if (p && str_eq(here, key)) {
            *out = str_trim((struct str){value, (size_t)(p - value)});
            return FOUND_VALUE;
        }
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
