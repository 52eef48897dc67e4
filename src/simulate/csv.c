/* csv.c - rows of a CSV text
 *
 * Cells are separated by commas; a cell in quotes may hold commas, line ends and doubled quotes.
 * Blanks around a cell do not belong to it, a byte order mark at the start is no text, and lines
 * without anything are passed over.
 */
#include "simulate/csv_priv.h"

void csv_init(struct csv *c, struct str text)
{
    struct str bom = STR("\xef\xbb\xbf");

    *c = (struct csv){.rest = text, .next_line = 1};
    if (str_starts(text, bom))
        c->rest = (struct str){text.p + bom.n, text.n - bom.n};
}

/* The text between quotes starting at s.p[*i], doubled quotes undone. */
static int quoted(struct csv *c, struct str s, size_t *i, struct arena *a, struct str *out)
{
    size_t from = ++*i, n = 0;
    bool doubled = false;

    for (;; ++*i) {
        if (*i >= s.n)
            return -1;
        if (s.p[*i] == '\n')
            c->next_line++;
        if (s.p[*i] != '"')
            continue;
        if (*i + 1 >= s.n || s.p[*i + 1] != '"')
            break;
        doubled = true;
        ++*i;
    }
    *out = (struct str){s.p + from, *i - from};
    ++*i;
    if (!doubled)
        return 0;
    char *copy = arena_alloc(a, out->n + 1);
    for (size_t k = 0; k < out->n; k++) {
        copy[n++] = out->p[k];
        /* A quote inside is always the first of two; the second one is skipped. */
        k += out->p[k] == '"';
    }
    *out = (struct str){copy, n};
    return 0;
}

/* One row; leaves *i behind its line end. */
static int csv_row(struct csv *c, size_t *i, struct arena *a, const char *name, struct err *e)
{
    struct str s = c->rest;
    size_t line_start = *i;

    for (;;) {
        while (*i < s.n && (s.p[*i] == ' ' || s.p[*i] == '\t'))
            ++*i;
        uint32_t col = (uint32_t)(*i - line_start) + 1;
        struct str cell;
        if (*i < s.n && s.p[*i] == '"') {
            if (quoted(c, s, i, a, &cell) < 0)
                return err_set(e, ERR_INVALID,
                               "%s:%u:%u: a quoted cell has no end; close it with "
                               "\"",
                               name, c->line, col);
            while (*i < s.n && (s.p[*i] == ' ' || s.p[*i] == '\t'))
                ++*i;
        } else {
            size_t from = *i;
            while (*i < s.n && s.p[*i] != ',' && s.p[*i] != '\n' && s.p[*i] != '\r')
                ++*i;
            cell = str_trim((struct str){s.p + from, *i - from});
        }
        if (c->n == CSV_CELLS_MAX)
            return err_set(e, ERR_LIMIT, "%s:%u:%u: a row has more than %d cells", name, c->line,
                           col, CSV_CELLS_MAX);
        c->cols[c->n] = col;
        c->cells[c->n++] = cell;
        if (*i < s.n && s.p[*i] == '\r')
            ++*i;
        if (*i >= s.n)
            return 0;
        if (s.p[*i] == '\n') {
            ++*i;
            c->next_line++;
            return 0;
        }
        if (s.p[*i] != ',')
            return err_set(e, ERR_INVALID,
                           "%s:%u:%u: text follows a quoted cell; put a comma "
                           "between them",
                           name, c->line, (uint32_t)(*i - line_start) + 1);
        ++*i;
    }
}

int csv_next(struct csv *c, struct arena *a, const char *name, struct err *e)
{
    while (c->rest.n > 0) {
        size_t i = 0;
        c->n = 0;
        c->line = c->next_line;
        if (csv_row(c, &i, a, name, e) < 0)
            return -1;
        c->rest = (struct str){c->rest.p + i, c->rest.n - i};
        /* A row with one empty cell is an empty line. */
        if (c->n > 1 || c->cells[0].n > 0)
            return 1;
    }
    return 0;
}
