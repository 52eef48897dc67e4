/* base64.c - groups of three bytes as four characters, and back */
#include "dialect/atlas/base64.h"
#include "base/util.h"

static const char plain_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* n bytes fill n + 1 characters of their group; `pad` 0 leaves the rest out. */
static void base64_encode(struct buf *b, struct str s, const char *digits, char pad)
{
    for (size_t i = 0; i < s.n; i += 3) {
        size_t n = MIN(s.n - i, (size_t)3);
        uint32_t v = 0;
        for (size_t k = 0; k < 3; k++)
            v = v << 8 | (k < n ? (uint8_t)s.p[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            if (k <= n || pad)
                buf_addc(b, k <= n ? digits[v >> (18 - 6 * k) & 63] : pad);
    }
}

void base64_add(struct buf *b, struct str bytes)
{
    base64_encode(b, bytes, plain_digits, '=');
}

void base64_add_url(struct buf *b, struct str bytes)
{
    base64_encode(b, bytes, url_digits, 0);
}

/* Both alphabets are read alike, since they differ in two digits only. */
static int base64_value(char c)
{
    const char *at = c ? strchr(plain_digits, c) : NULL;

    return at ? (int)(at - plain_digits) : c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool base64_decode(struct str text, struct buf *out)
{
    uint32_t bits = 0;
    int n_bits = 0;

    while (text.n > 0 && text.p[text.n - 1] == '=')
        text.n--;
    for (size_t i = 0; i < text.n; i++) {
        int v = base64_value(text.p[i]);
        if (v < 0)
            return false;
        bits = bits << 6 | (uint32_t)v;
        n_bits += 6;
        if (n_bits >= 8)
            buf_addc(out, (char)(bits >> (n_bits -= 8) & 255));
    }
    return !out->overflow;
}
