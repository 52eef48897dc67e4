/* grid.c - the boxed tables of `batch list` and `job list` */
#include "dialect/hyperctl/grid.h"
#include "base/table.h"
#include "base/util.h"
#include "base/vec.h"

struct grid {
    size_t columns;
    size_t *widths;
    VEC(char *) cells; /* titles first */
};

void grid_cell(struct grid *g, struct str text)
{
    size_t col = g->cells.n % g->columns;

    /* Widths are in cells of a terminal, not in bytes. */
    g->widths[col] = MAX(g->widths[col], text_width(text));
    vec_push(&g->cells, xstrndup(text.p, text.n));
}

struct grid *grid_new(const char *const *titles, size_t n)
{
    struct grid *g = xcalloc(1, sizeof(*g));

    g->columns = n;
    g->widths = xcalloc(n, sizeof(*g->widths));
    for (size_t i = 0; i < n; i++)
        grid_cell(g, str_of(titles[i]));
    return g;
}

void grid_free(struct grid *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->cells.n; i++)
        free(g->cells.p[i]);
    vec_done(&g->cells);
    free(g->widths);
    free(g);
}

static void spaces(struct buf *out, size_t n)
{
    while (n-- > 0)
        buf_addc(out, ' ');
}

static void grid_rule(const struct grid *g, struct buf *out)
{
    for (size_t c = 0; c < g->columns; c++) {
        buf_addc(out, '+');
        for (size_t i = 0; i < g->widths[c] + 2; i++)
            buf_addc(out, '-');
    }
    buf_adds(out, "+\n");
}

/* Centred; one space that is left over goes to the left of a text of even width. */
static void grid_row(const struct grid *g, size_t at, struct buf *out)
{
    for (size_t c = 0; c < g->columns; c++) {
        const char *text = g->cells.p[at + c];
        size_t n = text_width(str_of(text)), spare = g->widths[c] - n;
        size_t left = spare / 2 + (spare % 2 && n % 2 == 0);
        buf_adds(out, "| ");
        spaces(out, left);
        buf_adds(out, text);
        spaces(out, spare - left);
        buf_addc(out, ' ');
    }
    buf_adds(out, "|\n");
}

void grid_render(const struct grid *g, struct buf *out)
{
    grid_rule(g, out);
    grid_row(g, 0, out);
    grid_rule(g, out);
    /* A last row that is not complete is left out. */
    for (size_t at = g->columns; at + g->columns <= g->cells.n; at += g->columns)
        grid_row(g, at, out);
    grid_rule(g, out);
}
