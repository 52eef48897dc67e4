/* json_in.c - the one reader of JSON text, token by token
 *
 * Owns: the grammar of RFC 8259 and places in messages.  The tree is built from these tokens in
 * json_parse.c.
 *
 * Comments, NaN, single quotes and trailing commas, which many readers let pass, are refused: what
 * one reader accepts and another refuses is where requests get smuggled.
 */
#include "base/json_in.h"
#include "base/json_priv.h"
#include "base/util.h"
#include <math.h>
#include <stdlib.h>

/* What may come next.  A zeroed reader expects a value. */
enum { EXPECT_VALUE, EXPECT_FIRST, EXPECT_COLON, EXPECT_NEXT, EXPECT_END };

/* ---- errors ---- */

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

int json_in_fail(struct json_in *in, size_t at, enum err_code code, const char *what)
{
    AUTO(buf) struct buf place = {0};

    if (!in->e)
        return -1;
    if (!in->no_place)
        json_place(in->text, at, in->name, &place);
    return err_set(in->e, code, STR_FMT "%s", STR_ARG(buf_str(&place)), what);
}

static int fail_here(struct json_in *in, const char *what)
{
    return json_in_fail(in, in->at, ERR_INVALID, what);
}

/* The next byte, or -1 at the end; a NUL byte in the text is just an unexpected character. */
static inline int peek(const struct json_in *in)
{
    return in->at < in->text.n ? (unsigned char)in->text.p[in->at] : -1;
}

/* Control and non-ASCII bytes are shown in hexadecimal, so that a message is safe on a terminal. */
static int unexpected(struct json_in *in, const char *wanted)
{
    char what[96];
    int c = peek(in);

    if (c < 0)
        snprintf(what, sizeof(what), "the text ends where %s is expected", wanted);
    else if (c > 0x20 && c < 0x7F)
        snprintf(what, sizeof(what), "found '%c' where %s is expected", c, wanted);
    else
        snprintf(what, sizeof(what), "found byte 0x%02x where %s is expected", c, wanted);
    return fail_here(in, what);
}

/* ---- white space ---- */

static inline int peek_token(struct json_in *in)
{
    for (;; in->at++) {
        int c = peek(in);
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return c;
    }
}

struct str json_trim(struct str s)
{
    return str_strip(s, " \n\r\t");
}

/* ---- strings ---- */

static int hex4(struct json_in *in, unsigned *out)
{
    unsigned v = 0;

    for (int i = 0; i < 4; i++, in->at++) {
        int c = peek(in);
        if (c >= '0' && c <= '9')
            v = v << 4 | (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            v = v << 4 | (unsigned)((c | 0x20) - 'a' + 10);
        else
            return unexpected(in, "a hexadecimal digit of \\uXXXX");
    }
    *out = v;
    return 0;
}

/* After "\u". */
static int unicode_escape(struct json_in *in)
{
    size_t start = in->at - 2;
    unsigned cp = 0, low = 0;

    if (hex4(in, &cp) < 0)
        return -1;
    if (cp >= 0xDC00 && cp <= 0xDFFF)
        return json_in_fail(in, start, ERR_INVALID, "a low surrogate without its high surrogate");
    if (cp >= 0xD800 && cp <= 0xDBFF) {
        bool follows = peek(in) == '\\' && in->at + 1 < in->text.n && in->text.p[in->at + 1] == 'u';
        in->at += follows ? 2 : 0;
        if (follows && hex4(in, &low) < 0)
            return -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return json_in_fail(in, start, ERR_INVALID,
                                "a high surrogate without its low surrogate");
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    }
    buf_add_utf8(&in->scratch, cp);
    return 0;
}

/* After "\". */
static int escape(struct json_in *in)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(in);

    if (c == 'u') {
        in->at++;
        return unicode_escape(in);
    }
    const char *found = c > 0 ? strchr(from, c) : NULL;
    if (!found)
        return unexpected(in, "one of \" \\ / b f n r t u after a backslash");
    in->at++;
    buf_addc(&in->scratch, to[found - from]);
    return 0;
}

/* Moves to the next quote, backslash or control character; -1 = the bytes before are not UTF-8. */
static inline int plain_run(struct json_in *in)
{
    const char *p = in->text.p + in->at, *end = in->text.p + in->text.n;
    uint32_t cp;

    for (;;) {
        while (p < end && (signed char)*p >= 0x20 && *p != '"' && *p != '\\')
            p++;
        if (p == end || (signed char)*p >= 0)
            break;
        size_t n = utf8_decode((struct str){p, (size_t)(end - p)}, &cp);
        if (n == 0) {
            in->at = (size_t)(p - in->text.p);
            return fail_here(in, "this string is not valid UTF-8");
        }
        p += n;
    }
    in->at = (size_t)(p - in->text.p);
    return 0;
}

/* At the opening quote.  A string without escapes stays where it is. */
static int string_read(struct json_in *in)
{
    size_t run = ++in->at;

    in->decoded = false;
    for (;;) {
        if (plain_run(in) < 0)
            return -1;
        int c = peek(in);
        if (c < 0)
            return json_in_fail(in, in->start, ERR_INVALID, "this string has no closing quote");
        if (c < 0x20)
            return fail_here(
                in, "a line break or control character is not allowed in a string: write \\n, "
                    "\\t or \\u00XX");
        struct str plain = {in->text.p + run, in->at++ - run};
        if (c == '"' && !in->decoded) {
            in->s = plain;
            return 0;
        }
        if (!in->decoded)
            buf_reset(&in->scratch);
        in->decoded = true;
        buf_add(&in->scratch, plain.p, plain.n);
        if (c == '"') {
            in->s = buf_str(&in->scratch);
            return 0;
        }
        if (escape(in) < 0)
            return -1;
        run = in->at;
    }
}

/* Keys are kept as C strings in the tree, so a NUL in a key would cut it. */
static int key_read(struct json_in *in)
{
    in->start = in->at;
    if (peek(in) != '"')
        return unexpected(in, "a key in double quotes");
    if (string_read(in) < 0)
        return -1;
    if (in->decoded && memchr(in->s.p, '\0', in->s.n))
        return json_in_fail(in, in->start, ERR_INVALID, "a key must not contain \\u0000");
    in->expect = EXPECT_COLON;
    return JSON_IN_KEY;
}

/* ---- numbers ---- */

/* Only 19 digits fit into 64 bits; x->n still counts all, so that callers see when digits are
 * lost. */
static inline size_t digits_read(struct str s, size_t i, struct json_number *x)
{
    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++) {
        if (x->n < 19)
            x->digits = x->digits * 10 + (uint64_t)(s.p[i] - '0');
        x->n += x->n || s.p[i] != '0';
    }
    return i;
}

/* Adds to *exp.  Returns the place behind the digits, or 0 when there is no digit. */
static size_t exponent_read(struct str s, size_t i, int *exp)
{
    bool minus = i < s.n && s.p[i] == '-';
    int v = 0;

    i += i < s.n && (s.p[i] == '-' || s.p[i] == '+');
    size_t from = i;
    for (; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
        v = MIN(v * 10 + (s.p[i] - '0'), 100000); /* far beyond any double */
    *exp += minus ? -v : v;
    return i > from ? i : 0;
}

size_t json_number_scan(struct str s, size_t i, struct json_number *out, bool *ok)
{
    struct json_number x = {.whole = true};

    *ok = false;
    x.minus = i < s.n && s.p[i] == '-';
    i += x.minus;
    size_t end = i < s.n && s.p[i] == '0' ? i + 1 : digits_read(s, i, &x);
    if (end == i)
        return i;
    i = end;
    if (i < s.n && s.p[i] == '.') {
        end = digits_read(s, ++i, &x);
        if (end == i)
            return i;
        x.exp = -(int)(end - i);
        x.whole = false;
        i = end;
    }
    if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
        end = exponent_read(s, i + 1, &x.exp);
        if (!end)
            return i + 1 + (i + 1 < s.n && (s.p[i + 1] == '+' || s.p[i + 1] == '-'));
        x.whole = false;
        i = end;
    }
    *out = x;
    *ok = true;
    return i;
}

bool json_number_int(struct str text, const struct json_number *x, int64_t *out)
{
    /* Up to 18 digits fit into 64 bits for sure; str_to_i64 checks longer ones. */
    if (!x->whole || x->n > 18)
        return x->whole && str_to_i64(text, out);
    *out = x->minus ? -(int64_t)x->digits : (int64_t)x->digits;
    return true;
}

/* What 53 bits and one operation on exact numbers give is exact; the rest is left to the C
 * library. */
double json_number_double(struct str text, const struct json_number *x)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

    if (x->n <= 15 && x->exp >= -22 && x->exp <= 22) {
        double m = (double)x->digits;
        m = x->exp < 0 ? m / tens[-x->exp] : m * tens[x->exp];
        return x->minus ? -m : m;
    }
    char small[64];
    AUTO_FREE char *large = text.n < sizeof(small) ? NULL : xstrndup(text.p, text.n);
    if (!large) {
        memcpy(small, text.p, text.n);
        small[text.n] = '\0';
    }
    return strtod(large ? large : small, NULL);
}

static int number_read(struct json_in *in)
{
    bool ok;

    in->at = json_number_scan(in->text, in->start, &in->number, &ok);
    if (!ok)
        return unexpected(in, "a digit");
    in->s = (struct str){in->text.p + in->start, in->at - in->start};
    return JSON_IN_NUMBER;
}

/* ---- tokens ---- */

static inline bool in_object(const struct json_in *in)
{
    return in->depth > 0 && (in->objects >> (in->depth - 1) & 1);
}

static inline void value_ended(struct json_in *in)
{
    in->expect = in->depth ? EXPECT_NEXT : EXPECT_END;
}

/* The limit keeps `objects` at one bit per level and bounds recursion of those who walk the
 * tree. */
static int in_enter(struct json_in *in, bool object)
{
    if (in->depth == JSON_DEPTH_MAX)
        return json_in_fail(in, in->at, ERR_LIMIT,
                            "lists and objects are nested deeper than 64 levels");
    /* The bit may still be set by an earlier container at the same depth. */
    in->objects &= ~(1ULL << in->depth);
    in->objects |= (uint64_t)object << in->depth;
    in->depth++;
    in->at++;
    in->expect = EXPECT_FIRST;
    return object ? JSON_IN_OBJECT : JSON_IN_ARRAY;
}

/* At the closing bracket.  Behind the last one nothing may follow. */
static int in_leave(struct json_in *in)
{
    in->start = in->at++;
    in->depth--;
    value_ended(in);
    if (in->depth == 0 && peek_token(in) >= 0)
        return unexpected(in, "the end of the text");
    return JSON_IN_CLOSE;
}

/* Moves to where the next key or value begins: the token itself for all but a value, for which the
 * answer is JSON_IN_NULL. */
static inline int item_find(struct json_in *in)
{
    int c = peek_token(in);

    switch (in->expect) {
    case EXPECT_END:
        return c < 0 ? JSON_IN_END : unexpected(in, "the end of the text");
    case EXPECT_COLON:
        if (c != ':')
            return unexpected(in, "a colon after the key");
        in->at++;
        peek_token(in);
        return JSON_IN_NULL;
    case EXPECT_FIRST:
    case EXPECT_NEXT: {
        bool object = in_object(in);
        if (c == (object ? '}' : ']'))
            return in_leave(in);
        if (in->expect == EXPECT_NEXT) {
            if (c != ',')
                return unexpected(in, object ? "a comma or }" : "a comma or ]");
            in->at++;
            peek_token(in);
        }
        return object ? key_read(in) : JSON_IN_NULL;
    }
    default:
        return JSON_IN_NULL;
    }
}

static int word_read(struct json_in *in, struct str word, int token)
{
    if (!str_starts((struct str){in->text.p + in->at, in->text.n - in->at}, word))
        return unexpected(in, "a value");
    in->s = (struct str){in->text.p + in->at, word.n};
    in->at += word.n;
    return token;
}

static int scalar_read(struct json_in *in, int c)
{
    switch (c) {
    case '"':
        return string_read(in) < 0 ? -1 : JSON_IN_STR;
    case 't':
        return word_read(in, STR("true"), JSON_IN_TRUE);
    case 'f':
        return word_read(in, STR("false"), JSON_IN_FALSE);
    case 'n':
        return word_read(in, STR("null"), JSON_IN_NULL);
    case '-':
        if (in->python && in->at + 1 < in->text.n && in->text.p[in->at + 1] == 'I')
            return word_read(in, STR("-Infinity"), JSON_IN_WORD);
        return number_read(in);
    case '0' ... '9':
        return number_read(in);
    case 'N':
    case 'I':
        if (in->python)
            return word_read(in, c == 'N' ? STR("NaN") : STR("Infinity"), JSON_IN_WORD);
        return unexpected(in, "a value");
    default:
        return unexpected(in, "a value");
    }
}

int json_in_next(struct json_in *in)
{
    int token = item_find(in);

    if (token != JSON_IN_NULL)
        return token;
    int c = peek(in);
    in->start = in->at;
    if (c == '{' || c == '[')
        return in_enter(in, c == '{');
    token = scalar_read(in, c);
    if (token > 0)
        value_ended(in);
    return token;
}

/* ---- values as text ---- */

/* From the opening quote to behind the closing one; the end of the text when there is none. */
static size_t string_skip(struct str s, size_t i)
{
    for (i++; i < s.n; i++) {
        if (s.p[i] == '\\')
            i++;
        else if (s.p[i] == '"')
            return i + 1;
    }
    return s.n;
}

/* The end of the value that starts at i, found by brackets and quotes only. */
static size_t value_skip(struct str s, size_t i)
{
    size_t depth = 0;

    while (i < s.n) {
        switch (s.p[i]) {
        case '"':
            i = string_skip(s, i);
            if (depth == 0)
                return i;
            continue;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            if (depth == 0)
                return i;
            if (--depth == 0)
                return i + 1;
            break;
        case ',':
        case ' ':
        case '\t':
        case '\n':
        case '\r':
            if (depth == 0)
                return i;
            break;
        default:
            break;
        }
        i++;
    }
    return i;
}

int json_in_raw(struct json_in *in, struct str *out)
{
    int token = item_find(in);

    if (token == JSON_IN_CLOSE || token == JSON_IN_END)
        return 0;
    if (token == JSON_IN_BAD)
        return -1;
    ASSERT(token == JSON_IN_NULL); /* a key is read by json_in_next */
    in->start = in->at;
    in->at = value_skip(in->text, in->at);
    if (in->at == in->start)
        return unexpected(in, "a value");
    *out = (struct str){in->text.p + in->start, in->at - in->start};
    value_ended(in);
    /* What must follow is looked at now, so that a value cut off by the end is not handed out. */
    int c = peek_token(in), close = in_object(in) ? '}' : ']';
    if (in->depth ? c != ',' && c != close : c >= 0)
        return unexpected(in, !in->depth     ? "the end of the text"
                              : close == '}' ? "a comma or }"
                                             : "a comma or ]");
    return 1;
}

void json_in_done(struct json_in *in)
{
    buf_done(&in->scratch);
}
