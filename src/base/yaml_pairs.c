/* yaml_pairs.c - characters that JSON writes as two \u escapes, around libyaml
 *
 * JSON writes U+1F600 as the surrogate pair "\ud83d\ude00"; libyaml refuses such halves.  Whether
 * \ud83d is an escape or plain text depends on the quotes around it, which only libyaml knows.
 * The pair is therefore masked before libyaml reads it and restored afterwards: the first
 * digit d becomes e, which makes both halves private-use characters (U+E800 to U+EFFF) and keeps
 * every place in the file.  A text with pairs must not contain such characters itself.
 */
#include "base/util.h"
#include "base/yaml_priv.h"

enum { ESCAPE_BYTES = 6 }; /* of \uXXXX */

/* The code of the escape \uXXXX at the start of s, or 0. */
static uint32_t escape_code(struct str s)
{
    uint32_t code = 0;

    if (s.n < ESCAPE_BYTES || s.p[0] != '\\' || s.p[1] != 'u')
        return 0;
    for (size_t i = 2; i < ESCAPE_BYTES; i++) {
        char c = s.p[i], low = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            code = code << 4 | (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            code = code << 4 | (uint32_t)(low - 'a' + 10);
        else
            return 0;
    }
    return code;
}

/* Two escapes at the start of s are the halves of a pair that starts at code `first`. */
static bool is_escaped_pair(struct str s, uint32_t first)
{
    uint32_t high = escape_code(s);

    if (high < first || high >= first + 0x400)
        return false;
    uint32_t low = escape_code((struct str){s.p + ESCAPE_BYTES, s.n - ESCAPE_BYTES});
    return low >= first + 0x400 && low < first + 0x800;
}

static bool is_masked(uint32_t code)
{
    return code >= 0xE800 && code <= 0xEFFF;
}

/* True when the text contains, as a character or as an escape, what a masked half would become. */
static bool has_private(struct str text)
{
    uint32_t cp;

    for (size_t i = 0; i < text.n;
         i += MAX(1, utf8_decode((struct str){text.p + i, text.n - i}, &cp))) {
        struct str rest = {text.p + i, text.n - i};
        if (is_masked(escape_code(rest)) || (utf8_decode(rest, &cp) && is_masked(cp)))
            return true;
    }
    return false;
}

bool yaml_pairs_mask(struct str text, struct buf *out)
{
    if (!memmem(text.p, text.n, "\\ud", 3) && !memmem(text.p, text.n, "\\uD", 3))
        return false;
    if (has_private(text))
        return false;
    buf_add(out, text.p, text.n);
    bool found = false;
    for (size_t i = 0; i < text.n; i++) {
        if (!is_escaped_pair((struct str){text.p + i, text.n - i}, 0xD800))
            continue;
        out->p[i + 2]++; /* d becomes e, D becomes E */
        out->p[i + ESCAPE_BYTES + 2]++;
        found = true;
    }
    if (!found)
        buf_reset(out);
    return found;
}

const char *yaml_pairs_restore(struct str s, struct buf *out)
{
    for (size_t i = 0; i < s.n;) {
        struct str rest = {s.p + i, s.n - i};
        uint32_t cp = 0, low = 0;
        size_t n = utf8_decode(rest, &cp);
        if (is_masked(cp)) {
            size_t m = utf8_decode((struct str){rest.p + n, rest.n - n}, &low);
            if (cp >= 0xEC00 || low < 0xEC00 || low > 0xEFFF)
                return "a surrogate without its pair";
            buf_add_utf8(out, 0x10000 + ((cp - 0xE800) << 10) + (low - 0xEC00));
            i += n + m;
        } else if (is_escaped_pair(rest, 0xE800)) { /* outside double quotes: plain text */
            buf_add(out, rest.p, 2 * ESCAPE_BYTES);
            out->p[out->n - 2 * ESCAPE_BYTES + 2]--;
            out->p[out->n - ESCAPE_BYTES + 2]--;
            i += 2 * ESCAPE_BYTES;
        } else {
            buf_add(out, rest.p, MAX(n, 1));
            i += MAX(n, 1);
        }
    }
    return NULL;
}
