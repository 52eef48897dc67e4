/* table.c - tables and colours on a terminal
 *
 * Owns: cell widths, fitting to the terminal, cutting, colour escapes, CSV.
 * Widths are decided here and not by wcwidth, whose answer depends on the locale the program was
 * started in.  Whatever a job called itself, a table shows no control characters: they, broken
 * UTF-8 and the marks that reverse the direction of text become "?".
 */
#include "base/table.h"
#include "base/util.h"
#include "base/vec.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

enum { GAP = 2, SHRUNK_MIN = 4 };

struct column {
    char *title;
    enum table_align align;
    bool shrinkable;
};

struct cell {
    struct str text; /* owned, raw */
    size_t width;
    enum colour colour;
};

struct table {
    VEC(struct column) columns;
    VEC(struct cell) cells;
};

struct range {
    uint32_t first, last;
};

static bool in_ranges(uint32_t cp, const struct range *ranges, size_t n)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (cp > ranges[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && cp >= ranges[lo].first;
}

/* Characters that take no cell of their own.  Both lists are sorted, since in_ranges searches by
 * halves. */
static const struct range combining[] = {
    {0x0300, 0x036F},   {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x05BF, 0x05BF}, {0x05C1, 0x05C2},
    {0x05C4, 0x05C5},   {0x05C7, 0x05C7}, {0x0610, 0x061A}, {0x064B, 0x065F}, {0x0670, 0x0670},
    {0x06D6, 0x06DC},   {0x06DF, 0x06E4}, {0x06E7, 0x06E8}, {0x06EA, 0x06ED}, {0x0711, 0x0711},
    {0x0730, 0x074A},   {0x093A, 0x093A}, {0x093C, 0x093C}, {0x0941, 0x0948}, {0x094D, 0x094D},
    {0x0951, 0x0957},   {0x0E31, 0x0E31}, {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF},
    {0x1DC0, 0x1DFF},   {0x200B, 0x200D}, {0x2060, 0x2060}, {0x20D0, 0x20FF}, {0x302A, 0x302D},
    {0x3099, 0x309A},   {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0x1F3FB, 0x1F3FF},
    {0xE0100, 0xE01EF},
};

static const struct range wide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},   {0x23E9, 0x23EC},
    {0x23F0, 0x23F0},   {0x23F3, 0x23F3},   {0x25FD, 0x25FE},   {0x2614, 0x2615},
    {0x2648, 0x2653},   {0x267F, 0x267F},   {0x2693, 0x2693},   {0x26A1, 0x26A1},
    {0x26AA, 0x26AB},   {0x26BD, 0x26BE},   {0x26C4, 0x26C5},   {0x26CE, 0x26CE},
    {0x26D4, 0x26D4},   {0x26EA, 0x26EA},   {0x26F2, 0x26F3},   {0x26F5, 0x26F5},
    {0x26FA, 0x26FA},   {0x26FD, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},
    {0x2728, 0x2728},   {0x274C, 0x274C},   {0x274E, 0x274E},   {0x2753, 0x2755},
    {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27B0, 0x27B0},   {0x27BF, 0x27BF},
    {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},   {0x2B55, 0x2B55},   {0x2E80, 0x303E},
    {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},
    {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE10, 0xFE19},
    {0xFE30, 0xFE6F},   {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},   {0x16FE0, 0x18CFF},
    {0x1AFF0, 0x1B2FF}, {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F18E},
    {0x1F191, 0x1F19A}, {0x1F200, 0x1F320}, {0x1F32D, 0x1F335}, {0x1F337, 0x1F37C},
    {0x1F37E, 0x1F393}, {0x1F3A0, 0x1F3CA}, {0x1F3CF, 0x1F3D3}, {0x1F3E0, 0x1F3F0},
    {0x1F3F4, 0x1F3F4}, {0x1F3F8, 0x1F43E}, {0x1F440, 0x1F440}, {0x1F442, 0x1F4FC},
    {0x1F4FF, 0x1F53D}, {0x1F54B, 0x1F54E}, {0x1F550, 0x1F567}, {0x1F57A, 0x1F57A},
    {0x1F595, 0x1F596}, {0x1F5A4, 0x1F5A4}, {0x1F5FB, 0x1F64F}, {0x1F680, 0x1F6C5},
    {0x1F6CC, 0x1F6CC}, {0x1F6D0, 0x1F6D2}, {0x1F6D5, 0x1F6D7}, {0x1F6DD, 0x1F6DF},
    {0x1F6EB, 0x1F6EC}, {0x1F6F4, 0x1F6FC}, {0x1F7E0, 0x1F7EB}, {0x1F7F0, 0x1F7F0},
    {0x1F90C, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x2FFFD}, {0x30000, 0x3FFFD},
};

/* Must not reach a terminal: C0, DEL, C1, line separators, direction marks and overrides. */
static bool is_hostile(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7F && cp < 0xA0) || cp == 0x200E || cp == 0x200F ||
           (cp >= 0x2028 && cp <= 0x202E) || (cp >= 0x2066 && cp <= 0x2069);
}

struct glyph {
    struct str bytes; /* what to print */
    size_t width;
};

/* Moves *s past one character.  False at the end.  What must not be shown becomes "?". */
static bool next_glyph(struct str *s, struct glyph *g)
{
    uint32_t cp;

    if (s->n == 0)
        return false;
    size_t len = utf8_decode(*s, &cp);
    if (len == 0 || is_hostile(cp)) {
        *g = (struct glyph){STR("?"), 1};
        len = MAX(len, 1);
    } else {
        size_t width = cp < 0x300                                        ? 1
                       : in_ranges(cp, combining, ARRAY_SIZE(combining)) ? 0
                       : in_ranges(cp, wide, ARRAY_SIZE(wide))           ? 2
                                                                         : 1;
        *g = (struct glyph){{s->p, len}, width};
    }
    *s = (struct str){s->p + len, s->n - len};
    return true;
}

size_t text_width(struct str s)
{
    struct glyph g;
    size_t width = 0;

    while (next_glyph(&s, &g))
        width += g.width;
    return width;
}

struct table *table_new(void)
{
    return xcalloc(1, sizeof(struct table));
}

void table_free(struct table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->columns.n; i++)
        free(t->columns.p[i].title);
    for (size_t i = 0; i < t->cells.n; i++)
        free((char *)(uintptr_t)t->cells.p[i].text.p);
    vec_done(&t->columns);
    vec_done(&t->cells);
    free(t);
}

void table_column(struct table *t, const char *title, enum table_align align, bool shrinkable)
{
    ASSERT(t->cells.n == 0);
    struct column c = {xstrdup(title), align, shrinkable};
    vec_push(&t->columns, c);
}

void table_cell(struct table *t, struct str text, enum colour c)
{
    ASSERT(t->columns.n > 0);
    char *copy = xmalloc(text.n + 1);
    if (text.n)
        memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    struct cell cell = {{copy, text.n}, text_width(text), c};
    vec_push(&t->cells, cell);
}

size_t table_rows(const struct table *t)
{
    return t->columns.n ? (t->cells.n + t->columns.n - 1) / t->columns.n : 0;
}

/* Takes cells away from the widest column of the kind, one by one, down to SHRUNK_MIN. */
static size_t column_shrink(const struct table *t, size_t *widths, size_t excess, bool shrinkable)
{
    while (excess > 0) {
        size_t widest = SIZE_MAX;
        for (size_t i = 0; i < t->columns.n; i++) {
            if (t->columns.p[i].shrinkable == shrinkable && widths[i] > SHRUNK_MIN &&
                (widest == SIZE_MAX || widths[i] > widths[widest]))
                widest = i;
        }
        if (widest == SIZE_MAX)
            break;
        widths[widest]--;
        excess--;
    }
    return excess;
}

/* The width of each column in cells; the caller frees the array. */
static size_t *fit_columns(const struct table *t, size_t width)
{
    size_t n = t->columns.n;
    size_t *widths = xcalloc(n, sizeof(*widths));

    for (size_t i = 0; i < n; i++)
        widths[i] = text_width(str_of(t->columns.p[i].title));
    for (size_t i = 0; i < t->cells.n; i++)
        widths[i % n] = MAX(widths[i % n], t->cells.p[i].width);
    if (width == 0)
        return widths;
    size_t total = n ? (n - 1) * GAP : 0;
    for (size_t i = 0; i < n; i++) {
        widths[i] = MIN(widths[i], width);
        total += widths[i];
    }
    /* Columns that should not shrink do so only when the others alone cannot make it fit; what
     * remains after that is cut at the right edge. */
    size_t excess = total > width ? total - width : 0;
    column_shrink(t, widths, column_shrink(t, widths, excess, true), false);
    return widths;
}

/* One output line: spaces are written only once something follows them, so no line ends in one. */
struct line {
    struct buf *out;
    size_t used, limit; /* in cells */
    size_t pending;     /* spaces */
    bool colour;
};

static void line_text(struct line *l, struct str text, size_t width, enum colour colour)
{
    size_t room = l->limit - MIN(l->limit, l->used + l->pending);
    struct glyph g;

    width = MIN(width, room);
    /* The mark "…" takes one cell of the width, so a cut text gets one cell less. */
    bool cut = text_width(text) > width;
    if (width == 0 || text.n == 0)
        return;
    for (; l->pending; l->pending--, l->used++)
        buf_addc(l->out, ' ');
    const char *start = l->colour ? colour_start(colour) : "";
    buf_adds(l->out, start);
    for (size_t left = width - cut; next_glyph(&text, &g) && g.width <= left; left -= g.width) {
        buf_add(l->out, g.bytes.p, g.bytes.n);
        l->used += g.width;
    }
    if (cut) {
        buf_adds(l->out, "…");
        l->used++;
    }
    if (*start)
        buf_adds(l->out, colour_end());
}

static void line_cell(struct line *l, const struct column *c, size_t width, struct str text,
                      enum colour colour)
{
    size_t before = l->used + l->pending;
    size_t own = text_width(text);

    if (c->align == TABLE_RIGHT && own < width)
        l->pending += width - own;
    line_text(l, text, width, colour);
    size_t now = l->used + l->pending;
    if (now < before + width)
        l->pending += before + width - now;
}

static void table_line_end(struct line *l)
{
    buf_addc(l->out, '\n');
    l->used = l->pending = 0;
}

void table_render(const struct table *t, size_t width, bool colour, struct buf *out)
{
    AUTO_FREE size_t *widths = fit_columns(t, width);
    struct line l = {.out = out, .limit = width ? width : SIZE_MAX, .colour = colour};
    size_t n = t->columns.n;

    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct column *c = &t->columns.p[i];
        line_cell(&l, c, widths[i], str_of(c->title), COLOUR_BOLD);
        l.pending += GAP;
    }
    table_line_end(&l);
    for (size_t i = 0; i < t->cells.n; i++) {
        const struct cell *cell = &t->cells.p[i];
        line_cell(&l, &t->columns.p[i % n], widths[i % n], cell->text, cell->colour);
        l.pending += GAP;
        if (i % n == n - 1 || i + 1 == t->cells.n)
            table_line_end(&l);
    }
}

void csv_add_field(struct buf *out, struct str s)
{
    bool quote = false;

    for (size_t i = 0; i < s.n && !quote; i++)
        quote = s.p[i] == '"' || s.p[i] == ',' || s.p[i] == '\n' || s.p[i] == '\r';
    if (!quote) {
        buf_add(out, s.p, s.n);
        return;
    }
    buf_addc(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '"')
            buf_addc(out, '"');
        buf_addc(out, s.p[i]);
    }
    buf_addc(out, '"');
}

void table_render_csv(const struct table *t, struct buf *out)
{
    size_t n = t->columns.n;

    for (size_t i = 0; i < n; i++) {
        csv_add_field(out, str_of(t->columns.p[i].title));
        buf_adds(out, i + 1 < n ? "," : "\r\n");
    }
    /* The last row may have fewer cells than columns: empty fields complete it. */
    for (size_t i = 0; i < table_rows(t) * n; i++) {
        if (i < t->cells.n)
            csv_add_field(out, t->cells.p[i].text);
        buf_adds(out, i % n + 1 < n ? "," : "\r\n");
    }
}

/* A size from the environment; text that is no plausible size is ignored. */
static size_t env_size(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    int64_t v;

    if (text && str_to_i64(str_of(text), &v) && v > 0 && v <= 65535)
        return (size_t)v;
    return otherwise;
}

struct term term_detect(int fd)
{
    struct term term = {.is_tty = isatty(fd)};
    struct winsize ws = {0};
    const char *type = getenv("TERM"), *no_colour = getenv("NO_COLOR");

    if (!term.is_tty)
        return term;
    if (ioctl(fd, TIOCGWINSZ, &ws) < 0)
        ws = (struct winsize){0};
    term.width = env_size("COLUMNS", ws.ws_col ? ws.ws_col : 80);
    term.height = env_size("LINES", ws.ws_row ? ws.ws_row : 24);
    term.colour = !(no_colour && *no_colour) && type && strcmp(type, "dumb") != 0;
    return term;
}

const char *colour_start(enum colour c)
{
    static const char *const escapes[] = {
        [COLOUR_NONE] = "",           [COLOUR_RED] = "\033[31m",  [COLOUR_GREEN] = "\033[32m",
        [COLOUR_YELLOW] = "\033[33m", [COLOUR_BLUE] = "\033[34m", [COLOUR_MAGENTA] = "\033[35m",
        [COLOUR_CYAN] = "\033[36m",   [COLOUR_DIM] = "\033[2m",   [COLOUR_BOLD] = "\033[1m",
    };
    return (size_t)c < ARRAY_SIZE(escapes) ? escapes[c] : "";
}

const char *colour_end(void)
{
    return "\033[0m";
}

bool colour_addf(struct buf *b, bool on, enum colour c, const char *fmt, ...)
{
    va_list ap;

    on = on && c != COLOUR_NONE;
    buf_adds(b, on ? colour_start(c) : "");
    va_start(ap, fmt);
    bool fits = buf_vaddf(b, fmt, ap);
    va_end(ap);
    return fits && buf_adds(b, on ? colour_end() : "");
}
