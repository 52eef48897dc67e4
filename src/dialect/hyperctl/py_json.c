/* py_json.c - JSON and numbers written the way Python's json module writes them */
#include "dialect/hyperctl/py_json.h"
#include "base/util.h"
#include <math.h>
#include <stdio.h>

enum { TEXT_MAX = 512 << 20, REPR_DIGITS = 17, FIXED_FROM = -4, FIXED_TO = 16 };

/* The fewest digits that read back as d: "d.ddde±xx" taken apart. */
static int shortest(double d, char digits[REPR_DIGITS + 1], int *out_exp)
{
    char text[40];

    for (int n = 1; n <= REPR_DIGITS; n++) {
        double back;
        snprintf(text, sizeof(text), "%.*e", n - 1, d);
        if (str_to_double(str_of(text), &back) && back == d)
            break;
    }
    const char *e = strchr(text, 'e');
    int n = 0;
    for (const char *p = text; p < e; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    digits[n] = 0;
    int64_t exp = 0;
    str_to_i64(str_of(e[1] == '+' ? e + 2 : e + 1), &exp);
    *out_exp = (int)exp;
    return n;
}

static bool write_fixed(struct buf *b, const char *digits, int n, int exp)
{
    if (exp < 0) {
        buf_adds(b, "0.");
        for (int i = -1; i > exp; i--)
            buf_addc(b, '0');
        return buf_add(b, digits, (size_t)n);
    }
    for (int i = 0; i <= exp; i++)
        buf_addc(b, i < n ? digits[i] : '0');
    if (n <= exp + 1)
        return buf_adds(b, ".0");
    buf_addc(b, '.');
    return buf_add(b, digits + exp + 1, (size_t)(n - exp - 1));
}

bool py_float_write(struct buf *b, double d)
{
    char digits[REPR_DIGITS + 1];
    int exp;

    if (isnan(d))
        return buf_adds(b, "NaN");
    if (isinf(d))
        return buf_adds(b, d < 0 ? "-Infinity" : "Infinity");
    if (signbit(d))
        buf_addc(b, '-');
    int n = shortest(fabs(d), digits, &exp);
    if (exp >= FIXED_FROM && exp < FIXED_TO)
        return write_fixed(b, digits, n, exp);
    buf_addc(b, digits[0]);
    if (n > 1) {
        buf_addc(b, '.');
        buf_add(b, digits + 1, (size_t)n - 1);
    }
    return buf_addf(b, "e%c%02d", exp < 0 ? '-' : '+', abs(exp));
}

static bool write_real(struct buf *b, const struct json *j)
{
    AUTO_FREE char *text = json_text(j);

    if (!strpbrk(text, ".eEnN")) /* a whole number beyond 64 bits keeps its digits */
        return buf_adds(b, text);
    return py_float_write(b, json_real(j));
}

static bool write_escape(struct buf *b, uint32_t c)
{
    static const struct {
        char c;
        const char *text;
    } named[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\n', "\\n"}, {'\r', "\\r"},
                 {'\t', "\\t"}, {'\f', "\\f"},  {'\b', "\\b"}};

    for (size_t i = 0; i < ARRAY_SIZE(named); i++)
        if (c == (uint32_t)named[i].c)
            return buf_adds(b, named[i].text);
    if (c < 0x10000)
        return buf_addf(b, "\\u%04x", c);
    c -= 0x10000;
    return buf_addf(b, "\\u%04x\\u%04x", 0xd800 + (c >> 10), 0xdc00 + (c & 0x3ff));
}

static bool write_text(struct buf *b, struct str s)
{
    buf_addc(b, '"');
    while (s.n) {
        uint32_t c;
        size_t n = utf8_decode(s, &c);
        if (!n) { /* what is not UTF-8 cannot be told apart any more */
            c = 0xfffd;
            n = 1;
        }
        if (c >= ' ' && c < 0x7f && c != '"' && c != '\\')
            buf_addc(b, (char)c);
        else
            write_escape(b, c);
        s = (struct str){s.p + n, s.n - n};
    }
    return buf_addc(b, '"');
}

static bool new_line(struct buf *b, int indent, int depth)
{
    buf_addc(b, '\n');
    for (int i = 0; i < indent * depth; i++)
        buf_addc(b, ' ');
    return !b->overflow;
}

/* Between two members: a line of its own each, or one line. */
static void separate(struct buf *b, bool first, int indent, int depth)
{
    if (!first)
        buf_addc(b, ',');
    if (indent)
        new_line(b, indent, depth);
    else if (!first)
        buf_addc(b, ' ');
}

static bool write_value(struct buf *b, const struct json *j, int indent, int depth)
{
    bool first = true;

    switch (json_type(j)) {
    case JSON_NULL:
        return buf_adds(b, "null");
    case JSON_BOOL:
        return buf_adds(b, json_bool(j) ? "true" : "false");
    case JSON_INT:
        return buf_addf(b, "%lld", (long long)json_int(j));
    case JSON_REAL:
        return write_real(b, j);
    case JSON_STR:
        return write_text(b, json_str(j));
    case JSON_ARRAY:
        buf_addc(b, '[');
        for (size_t i = 0; i < json_len(j); i++, first = false) {
            separate(b, first, indent, depth + 1);
            write_value(b, json_at(j, i), indent, depth + 1);
        }
        break;
    case JSON_OBJECT:
        buf_addc(b, '{');
        for (struct json_it it = {0}; json_next(j, &it); first = false) {
            separate(b, first, indent, depth + 1);
            write_text(b, str_of(it.key));
            buf_adds(b, ": ");
            write_value(b, it.val, indent, depth + 1);
        }
        break;
    }
    if (indent && !first)
        new_line(b, indent, depth);
    return buf_addc(b, json_type(j) == JSON_ARRAY ? ']' : '}');
}

bool py_json_write(struct buf *b, const struct json *j, int indent)
{
    return write_value(b, j, indent, 0) && !b->overflow;
}

char *py_json_text(const struct json *j, int indent)
{
    struct buf b;

    buf_init(&b, TEXT_MAX);
    py_json_write(&b, j, indent);
    return buf_take(&b, NULL);
}

bool py_str_write(struct buf *b, const struct json *j)
{
    switch (json_type(j)) {
    case JSON_STR:
        return buf_add(b, json_str(j).p, json_str(j).n);
    case JSON_BOOL:
        return buf_adds(b, json_bool(j) ? "True" : "False");
    case JSON_NULL:
        return buf_adds(b, "None");
    default:
        return write_value(b, j, 0, 0);
    }
}
