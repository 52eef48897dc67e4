/* json_parse.c - JSON text into the tree, strictly by RFC 8259
 *
 * Owns: the reader and places in messages.
 * Comments, NaN, single quotes and trailing commas, which many readers let pass, are refused: what
 * one reader accepts and another refuses is where requests get smuggled.
 *
 * Refused beyond the grammar: repeated keys, keys with a NUL (the tree could not tell them
 * apart), reals too large for a double, nesting deeper than JSON_DEPTH_MAX.  Whole numbers
 * beyond 64 bits become reals that keep their text.
 */
#include "base/json_priv.h"
#include "base/util.h"
#include <math.h>
#include <stdlib.h>

struct parser {
    struct str text;
    size_t at;
    unsigned depth;
    const char *name;
    struct buf scratch; /* a stack: keys of the open objects, then the string being read */
    struct err *e;
};

static int parse_value(struct parser *p, struct json **out);

void json_place(struct str text, size_t at, const char *name, struct buf *out)
{
    size_t line = 1, column = 1;

    for (size_t i = 0; i < at && i < text.n; i++) {
        if (text.p[i] == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)text.p[i] & 0xC0) != 0x80) {
            column++;
        }
    }
    if (name)
        buf_addf(out, "%s:%zu:%zu: ", name, line, column);
    else
        buf_addf(out, "line %zu, column %zu: ", line, column);
}

static int fail_at(struct parser *p, size_t at, enum err_code code, const char *what)
{
    AUTO(buf) struct buf place = {0};

    json_place(p->text, at, p->name, &place);
    return err_set(p->e, code, "%s%s", place.p, what);
}

static int fail(struct parser *p, const char *what)
{
    return fail_at(p, p->at, ERR_INVALID, what);
}

/* The next byte, or -1 at the end; a NUL byte in the text is just an unexpected character. */
static int peek(const struct parser *p)
{
    return p->at < p->text.n ? (unsigned char)p->text.p[p->at] : -1;
}

static int unexpected(struct parser *p, const char *wanted)
{
    char what[96];
    int c = peek(p);

    if (c < 0)
        snprintf(what, sizeof(what), "the text ends where %s is expected", wanted);
    else if (c > 0x20 && c < 0x7F)
        snprintf(what, sizeof(what), "found '%c' where %s is expected", c, wanted);
    else
        snprintf(what, sizeof(what), "found byte 0x%02x where %s is expected", c, wanted);
    return fail(p, what);
}

size_t json_skip_space(struct str s, size_t i)
{
    while (i < s.n && (s.p[i] == ' ' || s.p[i] == '\n' || s.p[i] == '\r' || s.p[i] == '\t'))
        i++;
    return i;
}

struct str json_trim(struct str s)
{
    return str_strip(s, " \n\r\t");
}

static int peek_token(struct parser *p)
{
    p->at = json_skip_space(p->text, p->at);
    return peek(p);
}

static int hex4(struct parser *p, unsigned *out)
{
    unsigned v = 0;

    for (int i = 0; i < 4; i++, p->at++) {
        int c = peek(p);
        if (c >= '0' && c <= '9')
            v = v << 4 | (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            v = v << 4 | (unsigned)((c | 0x20) - 'a' + 10);
        else
            return unexpected(p, "a hexadecimal digit of \\uXXXX");
    }
    *out = v;
    return 0;
}

/* After "\u". */
static int parse_unicode_escape(struct parser *p)
{
    size_t start = p->at - 2;
    unsigned cp = 0, low = 0;

    if (hex4(p, &cp) < 0)
        return -1;
    if (cp >= 0xDC00 && cp <= 0xDFFF)
        return fail_at(p, start, ERR_INVALID, "a low surrogate without its high surrogate");
    if (cp >= 0xD800 && cp <= 0xDBFF) {
        if (peek(p) != '\\' || p->at + 1 >= p->text.n || p->text.p[p->at + 1] != 'u')
            return fail_at(p, start, ERR_INVALID, "a high surrogate without its low surrogate");
        p->at += 2;
        if (hex4(p, &low) < 0)
            return -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return fail_at(p, start, ERR_INVALID, "a high surrogate without its low surrogate");
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    }
    buf_add_utf8(&p->scratch, cp);
    return 0;
}

/* After "\". */
static int parse_escape(struct parser *p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(p);

    if (c == 'u') {
        p->at++;
        return parse_unicode_escape(p);
    }
    const char *found = c > 0 ? strchr(from, c) : NULL;
    if (!found)
        return unexpected(p, "one of \" \\ / b f n r t u after a backslash");
    p->at++;
    buf_addc(&p->scratch, to[found - from]);
    return 0;
}

/* Bytes that stand for themselves: everything from here to a quote, backslash or mistake. */
static int parse_plain_run(struct parser *p)
{
    size_t start = p->at;

    for (;;) {
        int c = peek(p);
        uint32_t cp;
        if (c < 0x20 || c == '"' || c == '\\')
            break;
        size_t len =
            c < 0x80 ? 1 : utf8_decode((struct str){p->text.p + p->at, p->text.n - p->at}, &cp);
        if (len == 0)
            return fail(p, "this string is not valid UTF-8");
        p->at += len;
    }
    buf_add(&p->scratch, p->text.p + start, p->at - start);
    return 0;
}

/* At the opening quote; the decoded string is pushed on the scratch stack. */
static int parse_string(struct parser *p)
{
    size_t start = p->at++;

    for (;;) {
        if (parse_plain_run(p) < 0)
            return -1;
        int c = peek(p);
        if (c < 0)
            return fail_at(p, start, ERR_INVALID, "this string has no closing quote");
        if (c < 0x20)
            return fail(p, "a line break or control character stands in a string: write \\n, \\t "
                           "or \\u00XX");
        p->at++;
        if (c == '"')
            return 0;
        if (parse_escape(p) < 0)
            return -1;
    }
}

static size_t skip_digits(struct str s, size_t i)
{
    while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
        i++;
    return i;
}

/* The end of the number that starts at i, or the place of the first wrong byte with *ok false. */
static size_t scan_number(struct str s, size_t i, bool *ok, bool *whole)
{
    *ok = false;
    *whole = true;
    if (i < s.n && s.p[i] == '-')
        i++;
    size_t end = i < s.n && s.p[i] == '0' ? i + 1 : skip_digits(s, i);
    if (end == i)
        return i;
    i = end;
    if (i < s.n && s.p[i] == '.') {
        end = skip_digits(s, ++i);
        if (end == i)
            return i;
        i = end;
        *whole = false;
    }
    if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
        i++;
        if (i < s.n && (s.p[i] == '+' || s.p[i] == '-'))
            i++;
        end = skip_digits(s, i);
        if (end == i)
            return i;
        i = end;
        *whole = false;
    }
    *ok = true;
    return i;
}

bool json_is_number(struct str s, bool *whole)
{
    bool ok;

    return scan_number(s, 0, &ok, whole) == s.n && ok;
}

struct json *json_new_number(struct str s, bool whole)
{
    int64_t i;

    if (whole && str_to_i64(s, &i))
        return json_new_int(i);
    AUTO_FREE char *text = xstrndup(s.p, s.n);
    double d = strtod(text, NULL);
    return isfinite(d) ? json_new_real_text(d, text) : NULL;
}

static int parse_number(struct parser *p, struct json **out)
{
    size_t start = p->at;
    bool ok, whole;

    p->at = scan_number(p->text, start, &ok, &whole);
    if (!ok)
        return unexpected(p, "a digit");
    *out = json_new_number((struct str){p->text.p + start, p->at - start}, whole);
    if (!*out)
        return fail_at(p, start, ERR_INVALID, "this number is too large");
    return 0;
}

static int parse_word(struct parser *p, struct str word)
{
    struct str rest = {p->text.p + p->at, p->text.n - p->at};

    if (!str_starts(rest, word))
        return unexpected(p, "a value");
    p->at += word.n;
    return 0;
}

static int enter(struct parser *p)
{
    if (++p->depth > JSON_DEPTH_MAX)
        return fail_at(p, p->at, ERR_LIMIT, "lists and objects are nested deeper than 64 levels");
    p->at++;
    return 0;
}

/* 1 = another item follows, 0 = the closing bracket was read. */
static int after_item(struct parser *p, char close, const char *wanted)
{
    int c = peek_token(p);

    if (c != ',' && c != close)
        return unexpected(p, wanted);
    p->at++;
    return c == ',';
}

static int parse_items(struct parser *p, struct json *array)
{
    if (peek_token(p) == ']') {
        p->at++;
        return 0;
    }
    for (int more = 1; more;) {
        struct json *val;
        if (parse_value(p, &val) < 0)
            return -1;
        json_push_take(array, val);
        more = after_item(p, ']', "a comma or ]");
        if (more < 0)
            return -1;
    }
    return 0;
}

/* At the opening quote of a key: checks it and leaves it, NUL-terminated, on the scratch stack. */
static int parse_key(struct parser *p, const struct json *obj)
{
    size_t start = p->at, top = p->scratch.n;

    if (parse_string(p) < 0)
        return -1;
    if (memchr(p->scratch.p + top, '\0', p->scratch.n - top))
        return fail_at(p, start, ERR_INVALID, "a key must not contain \\u0000");
    buf_addc(&p->scratch, '\0');
    if (json_has(obj, p->scratch.p + top)) {
        char what[128];
        snprintf(what, sizeof(what), "key \"%.80s\" is given twice", p->scratch.p + top);
        return fail_at(p, start, ERR_INVALID, what);
    }
    return 0;
}

static int parse_member(struct parser *p, struct json *obj)
{
    size_t top = p->scratch.n;
    struct json *val;

    if (peek_token(p) != '"')
        return unexpected(p, "a key in double quotes");
    if (parse_key(p, obj) < 0)
        return -1;
    if (peek_token(p) != ':')
        return unexpected(p, "a colon after the key");
    p->at++;
    if (parse_value(p, &val) < 0)
        return -1;
    json_add_new(obj, p->scratch.p + top, val);
    p->scratch.n = top;
    return 0;
}

static int parse_members(struct parser *p, struct json *obj)
{
    if (peek_token(p) == '}') {
        p->at++;
        return 0;
    }
    for (int more = 1; more;) {
        if (parse_member(p, obj) < 0)
            return -1;
        more = after_item(p, '}', "a comma or }");
        if (more < 0)
            return -1;
    }
    return 0;
}

static int parse_container(struct parser *p, struct json *made, struct json **out)
{
    bool object = json_type(made) == JSON_OBJECT;

    if (enter(p) < 0 || (object ? parse_members(p, made) : parse_items(p, made)) < 0) {
        json_free(made);
        return -1;
    }
    p->depth--;
    *out = made;
    return 0;
}

static int parse_string_value(struct parser *p, struct json **out)
{
    size_t top = p->scratch.n;

    if (parse_string(p) < 0)
        return -1;
    *out = json_new_str((struct str){p->scratch.p + top, p->scratch.n - top});
    p->scratch.n = top;
    return 0;
}

static int parse_value(struct parser *p, struct json **out)
{
    *out = NULL;
    switch (peek_token(p)) {
    case '{':
        return parse_container(p, json_new_object(), out);
    case '[':
        return parse_container(p, json_new_array(), out);
    case '"':
        return parse_string_value(p, out);
    case 't':
        *out = json_new_bool(true);
        break;
    case 'f':
        *out = json_new_bool(false);
        break;
    case 'n':
        break;
    case '-':
    case '0' ... '9':
        return parse_number(p, out);
    default:
        return unexpected(p, "a value");
    }
    const char *word = !*out ? "null" : json_bool(*out) ? "true" : "false";
    if (parse_word(p, str_of(word)) == 0)
        return 0;
    json_free(TAKE(*out));
    return -1;
}

int json_parse(struct str text, const char *name, struct json **out, struct err *e)
{
    struct parser p = {.text = text, .name = name, .e = e};
    struct json *val = NULL;

    if (text.n > INT32_MAX)
        return err_set(e, ERR_LIMIT, "%s: JSON text is larger than 2 GiB", name ? name : "text");
    int rc = parse_value(&p, &val);
    if (rc == 0 && peek_token(&p) >= 0) {
        rc = unexpected(&p, "the end of the text");
        json_free(val);
    }
    buf_done(&p.scratch);
    if (rc == 0)
        *out = val;
    return rc;
}
