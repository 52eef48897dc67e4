/* json_parse.c - the tree from the tokens of json_in.c
 *
 * Refused beyond the grammar: repeated keys, reals too large for a double.  Whole numbers beyond
 * 64 bits become reals that keep their text.
 */
#include "base/json_in.h"
#include "base/json_priv.h"
#include "base/util.h"
#include <math.h>

bool json_is_number(struct str s)
{
    struct json_number x;
    bool ok;

    return json_number_scan(s, 0, &x, &ok) == s.n && ok;
}

static struct json *number_new(struct str s, const struct json_number *x)
{
    int64_t i;

    if (json_number_int(s, x, &i))
        return json_new_int(i);
    double d = json_number_double(s, x);
    return isfinite(d) ? json_new_real_text(d, s) : NULL;
}

struct json *json_new_number(struct str s)
{
    struct json_number x;
    bool ok;

    json_number_scan(s, 0, &x, &ok);
    return ok ? number_new(s, &x) : NULL;
}

/* Adds the key with null for now; json_put_last replaces the null once the value is read. */
static int key_add(struct json_in *in, struct json *obj)
{
    char what[128];

    if (json_add_new(obj, in->s))
        return 0;
    snprintf(what, sizeof(what), "key \"%.*s\" is given twice", (int)MIN(in->s.n, 80), in->s.p);
    return json_in_fail(in, in->start, ERR_INVALID, what);
}

/* The value of one token; containers are made empty.  -1 = no value, or one that cannot be. */
static int value_of_token(struct json_in *in, int token, struct json **out)
{
    *out = NULL;
    switch (token) {
    case JSON_IN_NULL:
        return 0;
    case JSON_IN_OBJECT:
        *out = json_new_object();
        return 0;
    case JSON_IN_ARRAY:
        *out = json_new_array();
        return 0;
    case JSON_IN_STR:
        *out = json_new_str(in->s);
        return 0;
    case JSON_IN_TRUE:
    case JSON_IN_FALSE:
        *out = json_new_bool(token == JSON_IN_TRUE);
        return 0;
    case JSON_IN_NUMBER:
        *out = number_new(in->s, &in->number);
        return *out ? 0 : json_in_fail(in, in->start, ERR_INVALID, "this number is too large");
    case JSON_IN_WORD:
        return json_in_fail(in, in->start, ERR_INVALID, "NaN and Infinity are no JSON");
    default:
        return -1;
    }
}

int json_in_tree(struct json_in *in, int token, struct json **out)
{
    struct json *open[JSON_DEPTH_MAX]; /* each belongs to the one before */
    size_t n = 0;
    AUTO(json) struct json *root = NULL;

    do {
        struct json *val;
        /* A wrong token ends the loop in value_of_token; depth is bounded by the reader. */
        if (token == JSON_IN_CLOSE) {
            n--;
        } else if (token == JSON_IN_KEY) {
            if (key_add(in, open[n - 1]) < 0)
                return -1;
        } else {
            if (value_of_token(in, token, &val) < 0)
                return -1;
            if (n == 0)
                root = val;
            else
                json_put_last(open[n - 1], val);
            if (token == JSON_IN_OBJECT || token == JSON_IN_ARRAY)
                open[n++] = val;
        }
    } while (n && ((token = json_in_next(in)), true));
    *out = TAKE(root);
    return 0;
}

int json_parse(struct str text, const char *name, struct json **out, struct err *e)
{
    AUTO(json_in) struct json_in in = {.text = text, .name = name, .e = e};
    AUTO(json) struct json *val = NULL;

    if (text.n > INT32_MAX)
        return err_set(e, ERR_LIMIT, "%s: JSON text is larger than 2 GiB", name ? name : "text");
    if (json_in_tree(&in, json_in_next(&in), &val) < 0 || json_in_next(&in) != JSON_IN_END)
        return -1;
    *out = TAKE(val);
    return 0;
}
