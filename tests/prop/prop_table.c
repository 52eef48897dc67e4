/* prop_table.c - a table fits its terminal, shows no control characters and loses no row */
#include "base/table.h"
#include "base/util.h"
#include "prop.h"

static struct table *any_table(struct prop *p, size_t *columns, size_t *rows)
{
    struct table *t = table_new();

    *columns = 1 + prop_size(p, 6);
    *rows = prop_size(p, 8);
    for (size_t i = 0; i < *columns; i++)
        table_column(t, prop_text(p, 12).p, prop_bool(p) ? TABLE_RIGHT : TABLE_LEFT, prop_bool(p));
    for (size_t i = 0; i < *columns * *rows; i++)
        table_cell(t, prop_bool(p) ? prop_text(p, 60) : prop_bytes(p, 20),
                   (enum colour)prop_choice(p, COLOUR_BOLD));
    return t;
}

/* The text without colour escapes, which occupy no cells. */
static struct str without_colour(struct prop *p, struct str s)
{
    char *out = arena_alloc(prop_arena(p), s.n + 1);
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '\033') {
            out[n++] = s.p[i];
            continue;
        }
        while (i < s.n && s.p[i] != 'm')
            i++;
    }
    return (struct str){out, n};
}

static bool check_lines(struct prop *p, struct str text, size_t width, size_t lines)
{
    size_t seen = 0;

    for (struct str rest = text; rest.n > 0; seen++) {
        struct str line = str_cut(rest, '\n', &rest);
        if (!prop_check(p, width == 0 || text_width(line) <= width,
                        "%zu cells in a width of %zu: %.*s", text_width(line), width,
                        STR_ARG(line)))
            return false;
        for (size_t i = 0; i < line.n; i++) {
            if (!prop_check(p, (unsigned char)line.p[i] >= 0x20 && line.p[i] != 0x7F, "control %d",
                            line.p[i]))
                return false;
        }
    }
    return prop_check(p, seen == lines, "%zu lines, not %zu", seen, lines) &&
           prop_check(p, str_is_utf8(text), "not UTF-8");
}

static bool fits(struct prop *p, void *ctx UNUSED)
{
    size_t columns, rows, width = prop_size(p, 100);
    struct table *t = any_table(p, &columns, &rows);
    bool colour = prop_bool(p);
    struct buf b = {0};

    table_render(t, width, colour, &b);
    struct str text = colour ? without_colour(p, buf_str(&b)) : buf_str(&b);
    bool ok = check_lines(p, text, width, rows + 1);
    buf_done(&b);
    table_free(t);
    return ok;
}

static bool colour_changes_no_text(struct prop *p, void *ctx UNUSED)
{
    size_t columns, rows, width = prop_size(p, 100);
    struct table *t = any_table(p, &columns, &rows);
    struct buf plain = {0}, coloured = {0};

    table_render(t, width, false, &plain);
    table_render(t, width, true, &coloured);
    bool ok = str_eq(buf_str(&plain), without_colour(p, buf_str(&coloured)));
    prop_check(p, ok, "%s\n%s", plain.p, coloured.p);
    buf_done(&plain);
    buf_done(&coloured);
    table_free(t);
    return ok;
}

/* Reads one RFC 4180 field at s[*i]; the separator after it is consumed. */
static struct str read_field(struct prop *p, struct str s, size_t *i)
{
    char *out = arena_alloc(prop_arena(p), s.n + 1);
    size_t n = 0;
    bool quoted = *i < s.n && s.p[*i] == '"';

    for (*i += quoted; *i < s.n; (*i)++) {
        char c = s.p[*i];
        if (quoted && c == '"') {
            if (*i + 1 >= s.n || s.p[*i + 1] != '"') {
                (*i)++;
                break;
            }
            (*i)++;
        } else if (!quoted && (c == ',' || c == '\r')) {
            break;
        }
        out[n++] = c;
    }
    *i += *i < s.n && s.p[*i] == ',' ? 1 : 2;
    return (struct str){out, n};
}

static bool csv_comes_back(struct prop *p, void *ctx UNUSED)
{
    enum { COLUMNS = 3 };
    struct table *t = table_new();
    size_t cells = COLUMNS * prop_size(p, 5), at = 0;
    struct str want[COLUMNS * 6];
    struct buf b = {0};
    bool ok = true;

    for (size_t i = 0; i < COLUMNS + cells; i++) {
        want[i] = prop_text(p, 20);
        if (i < COLUMNS)
            table_column(t, want[i].p, TABLE_LEFT, true);
        else
            table_cell(t, want[i], COLOUR_RED);
    }
    table_render_csv(t, &b);
    for (size_t i = 0; i < COLUMNS + cells && ok; i++)
        ok = prop_check(p, str_eq(read_field(p, buf_str(&b), &at), want[i]), "field %zu of <%s>", i,
                        b.p);
    ok = ok && prop_check(p, at == b.n, "%zu of %zu bytes read", at, b.n);
    buf_done(&b);
    table_free(t);
    return ok;
}

int main(void)
{
    prop_run("a table never exceeds the width", 3000, fits, NULL);
    prop_run("colour changes no text", 1000, colour_changes_no_text, NULL);
    prop_run("CSV comes back field by field", 2000, csv_comes_back, NULL);
    return prop_end();
}
