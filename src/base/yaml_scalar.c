/* yaml_scalar.c - what a YAML scalar means: the core schema of YAML 1.2
 *
 * yes, no, on and off are text, as are dates and 12:30:45.  Numbers are 7, -7, 0x1F, 0o17, 0.5
 * and 1e-4; reals keep their spelling where JSON has it.  Infinity and NaN are refused: no JSON
 * could carry them on.
 */
#include "base/json_priv.h"
#include "base/util.h"
#include "base/yaml_priv.h"

static bool is_any(struct str s, const char *const *words)
{
    for (; *words; words++) {
        if (str_eq_c(s, *words))
            return true;
    }
    return false;
}

static bool is_null(struct str s)
{
    return s.n == 0 || is_any(s, (const char *const[]){"~", "null", "Null", "NULL", NULL});
}

/* 0x1F and 0o17; false when it is neither or does not fit. */
static bool based_int(struct str s, int64_t *out)
{
    unsigned shift = str_starts(s, STR("0x")) ? 4 : str_starts(s, STR("0o")) ? 3 : 0;
    uint64_t v = 0;

    if (shift == 0 || s.n < 3)
        return false;
    for (size_t i = 2; i < s.n; i++) {
        char c = s.p[i], low = (char)(c | 0x20);
        unsigned digit = c >= '0' && c <= '9'       ? (unsigned)(c - '0')
                         : low >= 'a' && low <= 'f' ? (unsigned)(low - 'a' + 10)
                                                    : 16;
        if (digit >> shift || v > (uint64_t)INT64_MAX >> shift)
            return false;
        v = v << shift | digit;
    }
    *out = (int64_t)v;
    return true;
}

/* A number of the core schema, or NULL.  Forms JSON does not have (+1, .5, 1., 007) lose their
 * spelling, the others keep it. */
static struct json *scalar_number(struct str s, bool *too_large)
{
    int64_t i;
    double d;

    *too_large = false;
    if (str_to_i64(s, &i) || based_int(s, &i))
        return json_new_int(i);
    if (json_is_number(s)) {
        struct json *j = json_new_number(s);
        *too_large = !j;
        return j;
    }
    return str_to_double(s, &d) ? json_new_real(d) : NULL;
}

static bool is_non_finite(struct str s)
{
    if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+'))
        s = (struct str){s.p + 1, s.n - 1};
    return is_any(s, (const char *const[]){".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN", NULL});
}

const char *yaml_plain(struct str s, struct json **out)
{
    bool too_large;

    *out = NULL;
    if (is_null(s))
        return NULL;
    if (is_any(s, (const char *const[]){"true", "True", "TRUE", NULL})) {
        *out = json_new_bool(true);
        return NULL;
    }
    if (is_any(s, (const char *const[]){"false", "False", "FALSE", NULL})) {
        *out = json_new_bool(false);
        return NULL;
    }
    if (is_non_finite(s))
        return "infinity and NaN have no place in parameters: write them in quotes";
    *out = scalar_number(s, &too_large);
    if (too_large)
        return "this number is too large";
    if (!*out)
        *out = json_new_str(s);
    return NULL;
}

const char *yaml_tagged(struct str tag, struct str s, struct json **out)
{
    static const char prefix[] = "tag:yaml.org,2002:";
    static const struct {
        const char *name;
        enum json_type type;
    } known[] = {{"int", JSON_INT}, {"float", JSON_REAL}, {"bool", JSON_BOOL}, {"null", JSON_NULL}};

    *out = NULL;
    struct str name = str_starts(tag, STR(prefix))
                          ? (struct str){tag.p + sizeof(prefix) - 1, tag.n - sizeof(prefix) + 1}
                          : STR("");
    if (str_eq_c(tag, "!") || str_eq_c(name, "str")) {
        *out = json_new_str(s);
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (!str_eq_c(name, known[i].name))
            continue;
        const char *why = yaml_plain(s, out);
        if (why)
            return why;
        /* !!float also takes 1, which the plain reader makes an int. */
        if (known[i].type == JSON_REAL && json_type(*out) == JSON_INT) {
            struct json *real = json_new_real(json_real(*out));
            json_free(*out);
            *out = real;
        }
        if (json_type(*out) == known[i].type)
            return NULL;
        json_free(TAKE(*out));
        return "the value does not have the type its tag says";
    }
    return "this tag is not known: only !!str, !!int, !!float, !!bool and !!null are";
}
