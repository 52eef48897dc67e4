/* picture.h - what holds for every picture: well-formed SVG without scripts, lines that fit */
#pragma once
#include "base/str.h"
#include "base/table.h"
#include "base/util.h"

/* NULL: all tags are known ones, closed in order, and texts hold no markup, nor characters that XML
 * forbids, nor numbers that are none.  Else what is wrong. */
static inline const char *svg_fault(struct str s)
{
    static const char *const known[] = {"svg", "title", "style", "rect", "text", "line", "path"};
    const char *stack[8];
    size_t depth = 0, i = 0;

    if (!str_is_utf8(s) || !s.n)
        return "not UTF-8";
    for (size_t k = 0; k < s.n; k++)
        if ((unsigned char)s.p[k] < ' ' && s.p[k] != '\n')
            return "a control character";
    while (i < s.n) {
        if (s.p[i] == '&') {
            size_t k = i + 2;
            while (k < s.n && s.p[k] >= '0' && s.p[k] <= '9')
                k++;
            if (i + 1 >= s.n || s.p[i + 1] != '#' || k == i + 2 || k >= s.n || s.p[k] != ';')
                return "a bare &";
        }
        if (s.p[i++] != '<')
            continue;
        bool ends = i < s.n && s.p[i] == '/';
        const char *name = NULL;
        i += ends;
        for (size_t k = 0; k < ARRAY_SIZE(known); k++) {
            size_t n = strlen(known[k]);
            if (i + n < s.n && !memcmp(s.p + i, known[k], n) && memchr(" />\n", s.p[i + n], 4))
                name = known[k];
        }
        if (!name)
            return "an unknown tag";
        bool quoted = false;
        size_t start = i;
        while (i < s.n && (quoted || s.p[i] != '>')) {
            quoted ^= s.p[i] == '"';
            if (s.p[i++] == '<')
                return "a tag within a tag";
        }
        if (i >= s.n)
            return "an open tag";
        if (memmem(s.p + start, i - start, "nan", 3) || memmem(s.p + start, i - start, "inf", 3))
            return "a number that is none";
        if (ends && (!depth || stack[--depth] != name))
            return "tags are closed in another order";
        if (!ends && s.p[i - 1] != '/') {
            if (depth == ARRAY_SIZE(stack))
                return "too deep";
            stack[depth++] = name;
        }
        i++;
    }
    return depth ? "a tag is not closed" : NULL;
}

/* NULL: every line has at most `width` cells and no control characters; with colours, only the
 * sequences of colours. */
static inline const char *text_fault(struct str s, size_t width, bool colour)
{
    struct str rest = s;

    if (!str_is_utf8(s) || !s.n || s.p[s.n - 1] != '\n')
        return "not UTF-8 lines";
    while (rest.n) {
        struct str line = str_cut(rest, '\n', &rest);
        AUTO(buf) struct buf plain = {0};
        for (size_t i = 0; i < line.n; i++) {
            if (line.p[i] == 27 && colour) {
                while (i < line.n && line.p[i] != 'm')
                    i++;
                continue;
            }
            if ((unsigned char)line.p[i] < ' ' || line.p[i] == 127)
                return "a control character";
            buf_addc(&plain, line.p[i]);
        }
        if (text_width(buf_str(&plain)) > width)
            return "a line is too wide";
    }
    return NULL;
}
