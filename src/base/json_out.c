/* json_out.c - the one writer of JSON text: piece by piece, or a whole tree
 *
 * Bytes go straight into the buf, without printf for whole numbers: a page of 10 000 jobs is
 * 250 000 members.  Broken UTF-8 is mended on the way out, so what leaves is always JSON.  Reals of
 * a tree are written as they were read; Python's forms write them as Python would.
 */
#include "base/json_out.h"
#include "base/clock.h"
#include "base/json_priv.h"
#include "base/util.h"
#include <math.h>
#include <stdio.h>

/* ---- numbers ---- */

/* REPR_DIGITS always read back; a double with DBL_SURE digits or fewer reads back from so many.
 * Python writes exponents from FIXED_FROM up to, not including, FIXED_TO without an e. */
enum { DBL_SURE = 15, REPR_DIGITS = 17, FIXED_FROM = -4, FIXED_TO = 16, INT_TEXT_MAX = 24 };

/* The unsigned negation is defined also for INT64_MIN. */
static bool add_int(struct buf *b, int64_t v)
{
    char text[INT_TEXT_MAX];
    size_t at = sizeof(text);
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

    do {
        text[--at] = (char)('0' + u % 10);
        u /= 10;
    } while (u > 0);
    if (v < 0)
        text[--at] = '-';
    return buf_add(b, text + at, sizeof(text) - at);
}

/* The fewest digits that read back as d, which is positive or 0, and the exponent of the first. */
static int shortest_digits(double d, char digits[REPR_DIGITS + 1], int *out_exp)
{
    char text[40];

    /* Numbers below the normal range have fewer digits than DBL_SURE to be sure of. */
    for (int n = isnormal(d) ? DBL_SURE : 1; n <= REPR_DIGITS; n++) {
        snprintf(text, sizeof(text), "%.*e", n - 1, d);
        if (strtod(text, NULL) == d)
            break;
    }
    const char *e = strchr(text, 'e');
    int n = 0;
    for (const char *p = text; p < e; p++)
        if (*p != '.')
            digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    *out_exp = (int)strtol(e + 1, NULL, 10);
    return n;
}

static bool add_fixed(struct buf *b, const char *digits, int n, int exp)
{
    if (exp < 0) {
        buf_add(b, "0.0000", (size_t)(1 - exp));
        return buf_add(b, digits, (size_t)n);
    }
    for (int i = 0; i <= exp; i++)
        buf_addc(b, i < n ? digits[i] : '0');
    if (n <= exp + 1)
        return buf_add(b, ".0", 2); /* "1" would read back as a whole number */
    buf_addc(b, '.');
    return buf_add(b, digits + exp + 1, (size_t)(n - exp - 1));
}

bool jw_add_double(struct buf *b, double d)
{
    char digits[REPR_DIGITS + 1];
    int exp;

    if (signbit(d))
        buf_addc(b, '-');
    int n = shortest_digits(fabs(d), digits, &exp);
    if (exp >= FIXED_FROM && exp < FIXED_TO)
        return add_fixed(b, digits, n, exp);
    buf_addc(b, digits[0]);
    if (n > 1) {
        buf_addc(b, '.');
        buf_add(b, digits + 1, (size_t)n - 1);
    }
    return buf_addf(b, "e%c%02d", exp < 0 ? '-' : '+', abs(exp));
}

/* ---- texts ---- */

static void add_escape(struct buf *b, uint32_t c)
{
    static const char shorts[] = "\bb\tt\nn\ff\rr\"\"\\\\";

    for (size_t i = 0; i + 1 < sizeof(shorts); i += 2) {
        if ((unsigned char)shorts[i] == c) {
            buf_add(b, (char[]){'\\', shorts[i + 1]}, 2);
            return;
        }
    }
    if (c >= 0x10000) {
        buf_addf(b, "\\u%04x", 0xD800 + ((c - 0x10000) >> 10));
        c = 0xDC00 + ((c - 0x10000) & 0x3FF);
    }
    buf_addf(b, "\\u%04x", c);
}

bool jw_add_str(struct buf *b, struct str s, bool ascii)
{
    size_t start = b->n;
    size_t plain = 0; /* s[plain..i) needs no change and is copied in one go */
    unsigned char last = ascii ? 0x7E : 0x7F;

    buf_addc(b, '"');
    for (size_t i = 0; i < s.n;) {
        uint32_t c = (unsigned char)s.p[i];
        size_t len = 1;
        bool mend = false;
        if (c >= 0x20 && c <= last && c != '"' && c != '\\') {
            i++;
            continue;
        }
        if (c >= 0x80) {
            len = utf8_decode((struct str){s.p + i, s.n - i}, &c);
            mend = len == 0;
            if (mend) {
                len = 1;
                c = 0xFFFD;
            }
        }
        if (mend || ascii || c < 0x80) {
            buf_add(b, s.p + plain, i - plain);
            if (ascii || c < 0x80)
                add_escape(b, c);
            else
                buf_add_utf8(b, c);
            plain = i + len;
        }
        i += len;
    }
    if (s.n > plain)
        buf_add(b, s.p + plain, s.n - plain);
    if (buf_addc(b, '"'))
        return true;
    /* The text did not fit: half a string would be broken JSON, so all of it is removed again. */
    b->n = MIN(start, b->n);
    if (b->p)
        b->p[b->n] = '\0';
    return false;
}

/* ---- pieces ---- */

/* Does the last byte end a value?  What begins or separates is punctuation or white space. */
static bool comma_due(const struct buf *b)
{
    if (b->n == 0)
        return false;
    switch (b->p[b->n - 1]) {
    case '"':
    case '}':
    case ']':
    case '0' ... '9':
    case 'A' ... 'Z':
    case 'a' ... 'z':
        return true;
    default:
        return false;
    }
}

/* The comma before a piece, and its key when it has one. */
static void piece_begin(struct buf *b, const char *key)
{
    size_t n = key ? strlen(key) : 0;
    char *to;

    if (comma_due(b))
        buf_addc(b, ',');
    if (!key)
        return;
    to = buf_reserve(b, n + 3);
    if (!to)
        return;
    *to++ = '"';
    memcpy(to, key, n);
    memcpy(to + n, "\":", 3); /* with the NUL that ends a buf */
    b->n += n + 3;
}

void jw_object(struct buf *b, const char *key)
{
    piece_begin(b, key);
    buf_addc(b, '{');
}

void jw_array(struct buf *b, const char *key)
{
    piece_begin(b, key);
    buf_addc(b, '[');
}

bool jw_end_object(struct buf *b)
{
    return buf_addc(b, '}');
}

bool jw_end_array(struct buf *b)
{
    return buf_addc(b, ']');
}

void jw_key(struct buf *b, struct str key)
{
    jw_str(b, NULL, key);
    buf_addc(b, ':');
}

void jw_str(struct buf *b, const char *key, struct str s)
{
    piece_begin(b, key);
    jw_add_str(b, s, false);
}

void jw_str_or_null(struct buf *b, const char *key, struct str s)
{
    if (s.n > 0)
        jw_str(b, key, s);
    else
        jw_null(b, key);
}

void jw_text(struct buf *b, const char *key, const char *s)
{
    jw_str(b, key, str_of(s));
}

void jw_int(struct buf *b, const char *key, int64_t v)
{
    piece_begin(b, key);
    add_int(b, v);
}

void jw_int_or_null(struct buf *b, const char *key, int64_t v, bool known)
{
    if (known)
        jw_int(b, key, v);
    else
        jw_null(b, key);
}

void jw_double(struct buf *b, const char *key, double v)
{
    if (!isfinite(v)) {
        jw_null(b, key);
        return;
    }
    piece_begin(b, key);
    jw_add_double(b, v);
}

void jw_bool(struct buf *b, const char *key, bool v)
{
    jw_raw(b, key, v ? STR("true") : STR("false"));
}

void jw_null(struct buf *b, const char *key)
{
    jw_raw(b, key, STR("null"));
}

/* A text that is known to need no escapes. */
static void plain_write(struct buf *b, const char *key, struct str s)
{
    piece_begin(b, key);
    buf_addc(b, '"');
    buf_add(b, s.p, s.n);
    buf_addc(b, '"');
}

void jw_time(struct buf *b, const char *key, int64_t wall_ms)
{
    char text[TIME_TEXT_MAX];

    if (wall_ms == 0) {
        jw_null(b, key);
        return;
    }
    time_format_utc(wall_ms, text);
    plain_write(b, key, str_of(text));
}

void jw_id(struct buf *b, const char *key, struct id id)
{
    char text[ID_TEXT_MAX];

    id_format(id, text);
    plain_write(b, key, (struct str){text, ID_TEXT_LEN});
}

void jw_json(struct buf *b, const char *key, const struct json *j)
{
    piece_begin(b, key);
    json_write(b, j, JSON_COMPACT);
}

void jw_raw(struct buf *b, const char *key, struct str json)
{
    piece_begin(b, key);
    buf_add(b, json.p, json.n);
}

void jw_members(struct buf *b, struct str members)
{
    if (members.n)
        jw_raw(b, NULL, members);
}

/* ---- trees ---- */

/* One row for each enum json_form: everything in which the forms differ. */
struct form_rules {
    size_t indent;           /* spaces a level; 0 = one line */
    struct str comma, colon; /* between items, behind keys */
    bool python;             /* ASCII only, numbers as Python writes them */
};
static const struct form_rules forms[] = {
    [JSON_COMPACT] = {0, {",", 1}, {":", 1}, false},
    [JSON_PRETTY] = {2, {",", 1}, {": ", 2}, false},
    [JSON_PYTHON] = {0, {", ", 2}, {": ", 2}, true},
    [JSON_PYTHON_INDENTED] = {4, {",", 1}, {": ", 2}, true},
};

static void line_break(struct buf *b, const struct form_rules *f, size_t level)
{
    if (!f->indent)
        return;
    buf_addc(b, '\n');
    for (size_t i = 0; i < f->indent * level; i++)
        buf_addc(b, ' ');
}

static void write_real(struct buf *b, const struct json *j, const struct form_rules *f)
{
    const char *text = json_real_text(j);
    double d = json_real(j);

    /* Python too keeps the digits of a whole number beyond 64 bits. */
    if (text && (!f->python || !strpbrk(text, ".eE")))
        buf_adds(b, text);
    else if (isfinite(d))
        jw_add_double(b, d);
    else if (f->python)
        buf_adds(b, isnan(d) ? "NaN" : d < 0 ? "-Infinity" : "Infinity");
    else
        buf_adds(b, "null");
}

static void write_value(struct buf *b, const struct json *j, const struct form_rules *f,
                        size_t level);

/* Recursion is bounded: neither reader builds a tree deeper than JSON_DEPTH_MAX. */
static void write_items(struct buf *b, const struct json *j, const struct form_rules *f,
                        size_t level)
{
    struct json_it it = {0};
    bool object = json_type(j) == JSON_OBJECT;
    size_t n = json_len(j);

    buf_addc(b, object ? '{' : '[');
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_add(b, f->comma.p, f->comma.n);
        line_break(b, f, level + 1);
        if (object && json_next(j, &it)) {
            jw_add_str(b, str_of(it.key), f->python);
            buf_add(b, f->colon.p, f->colon.n);
        }
        write_value(b, object ? it.val : json_at(j, i), f, level + 1);
    }
    if (n)
        line_break(b, f, level);
    buf_addc(b, object ? '}' : ']');
}

static void write_value(struct buf *b, const struct json *j, const struct form_rules *f,
                        size_t level)
{
    switch (json_type(j)) {
    case JSON_NULL:
        buf_adds(b, "null");
        break;
    case JSON_BOOL:
        buf_adds(b, json_bool(j) ? "true" : "false");
        break;
    case JSON_INT:
        add_int(b, json_int(j));
        break;
    case JSON_REAL:
        write_real(b, j, f);
        break;
    case JSON_STR:
        jw_add_str(b, json_str(j), f->python);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        write_items(b, j, f, level);
        break;
    }
}

bool json_write(struct buf *b, const struct json *j, enum json_form form)
{
    write_value(b, j, &forms[form], 0);
    return !b->overflow;
}

char *json_text_as(const struct json *j, enum json_form form)
{
    struct buf b = {0};

    json_write(&b, j, form);
    return buf_take(&b, NULL);
}

char *json_text(const struct json *j)
{
    return json_text_as(j, JSON_COMPACT);
}
