/* yaml_unquote.c - what stands between quotes
 *
 * libfyaml 0.7 finds where quoted text begins and ends, but leaks memory when it puts together text
 * with several '' in a row, or with escapes and an escaped line break; so both forms are read here.
 * It has checked the syntax before; what it lets pass is refused.
 */
#include "base/util.h"
#include "base/yaml_priv.h"

/* From i, which is at a line break: over all blank lines and the indentation after them.  One
 * break reads as `one`, more as one line break less. */
static size_t fold_breaks(struct buf *out, struct str raw, size_t i, const char *one)
{
    size_t breaks = 0;

    for (; i < raw.n && raw.p[i] && strchr(" \t\r\n", raw.p[i]); i++) {
        bool crlf = raw.p[i] == '\r' && i + 1 < raw.n && raw.p[i + 1] == '\n';
        breaks += raw.p[i] == '\n' || (raw.p[i] == '\r' && !crlf);
    }
    if (breaks == 1)
        buf_adds(out, one);
    while (breaks-- > 1)
        buf_addc(out, '\n');
    return i;
}

static void trim_end(struct buf *out, size_t floor)
{
    while (out->n > floor && (out->p[out->n - 1] == ' ' || out->p[out->n - 1] == '\t'))
        out->n--;
}

void yaml_unquote_single(struct buf *out, struct str raw)
{
    for (size_t i = 0; i < raw.n;) {
        char c = raw.p[i];
        if (c == '\n' || c == '\r') {
            trim_end(out, 0);
            i = fold_breaks(out, raw, i, " ");
            continue;
        }
        buf_addc(out, c);
        i += c == '\'' ? 2 : 1;
    }
}

/* n hexadecimal digits at i. */
static bool hex(struct str raw, size_t i, size_t n, uint32_t *out)
{
    *out = 0;
    if (n > raw.n - i)
        return false;
    for (; n-- > 0; i++) {
        char c = raw.p[i], low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            *out = *out << 4 | (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            *out = *out << 4 | (uint32_t)(low - 'a' + 10);
        else
            return false;
    }
    return true;
}

/* "\x41" and its longer kin; i is at the digits.  Two \u may be the halves of one character, as
 * JSON writes them. */
static const char *unescape_code(struct buf *out, struct str raw, size_t *i, size_t digits)
{
    uint32_t cp, low;

    if (!hex(raw, *i, digits, &cp) || cp > 0x10FFFF)
        return "an escape that is no character";
    *i += digits;
    if (digits == 4 && cp >= 0xD800 && cp <= 0xDBFF && raw.n - *i >= 6 && raw.p[*i] == '\\' &&
        raw.p[*i + 1] == 'u' && hex(raw, *i + 2, 4, &low) && low >= 0xDC00 && low <= 0xDFFF) {
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
        *i += 6;
    }
    if (cp >= 0xD800 && cp <= 0xDFFF)
        return "half of a surrogate pair";
    buf_add_utf8(out, cp);
    return NULL;
}

/* i is after the backslash. */
static const char *unescape(struct buf *out, struct str raw, size_t *i)
{
    static const char names[] = "0abtnvfre \"/\\\tN_LP";
    static const uint32_t codes[] = {0,   7,   8,   9,    10, 11,   12,   13,     27,
                                     ' ', '"', '/', '\\', 9,  0x85, 0xA0, 0x2028, 0x2029};
    char c = *i < raw.n ? raw.p[(*i)++] : '\0';
    const char *at = c ? strchr(names, c) : NULL;

    if (c == '\n' || c == '\r') {
        *i = fold_breaks(out, raw, *i - 1, "");
        return NULL;
    }
    if (c == 'x' || c == 'u' || c == 'U')
        return unescape_code(out, raw, i, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    if (!at)
        return "an escape that YAML does not have";
    buf_add_utf8(out, codes[at - names]);
    return NULL;
}

const char *yaml_unquote_double(struct buf *out, struct str raw)
{
    size_t floor = 0; /* blanks before here were meant */

    for (size_t i = 0; i < raw.n;) {
        char c = raw.p[i];
        if (c == '\n' || c == '\r') {
            trim_end(out, floor);
            i = fold_breaks(out, raw, i, " ");
        } else if (c == '\\') {
            i++;
            const char *why = unescape(out, raw, &i);
            if (why)
                return why;
            floor = out->n;
        } else {
            buf_addc(out, c);
            i++;
        }
    }
    return NULL;
}
