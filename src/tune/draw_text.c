/* draw_text.c - pictures as characters: dots of Braille cells, two wide and four high
 *
 * A line is never wider than the picture, and no line but the last of a picture is empty.  Colours
 * add nothing that the characters do not say: the best trials are "●".
 */
#include "base/table.h"
#include "base/util.h"
#include "tune/draw_priv.h"
#include <math.h>

enum { PLOT_ROWS = 12, SLICE_ROWS = 6, SLICE_COLS = 24, SLICES_MAX = 12, BARS_MAX = 20 };
enum { PAIRS_MAX = 5, LABEL_MAX = 10 };

struct text_plot {
    size_t cols, rows;
    uint8_t *dots;   /* bits of Braille */
    uint8_t *marked; /* "●" instead */
    uint8_t *strong; /* in colour */
    bool colour;
};

/* The caller calls text_plot_done. */
static struct text_plot text_plot_new(size_t cols, size_t rows, bool colour)
{
    size_t n = cols * rows;

    return (struct text_plot){cols, rows, xcalloc(n, 1), xcalloc(n, 1), xcalloc(n, 1), colour};
}

static void text_plot_done(struct text_plot *p)
{
    FREE_EACH(p->dots, p->marked, p->strong);
}

/* x in dots from the left, y in 0 … 1 from the bottom. */
static void text_dot(struct text_plot *p, size_t x, double y, bool strong)
{
    static const uint8_t bits[2][4] = {{1, 2, 4, 64}, {8, 16, 32, 128}};
    size_t row = (size_t)((1 - y) * (double)(p->rows * 4 - 1) + 0.5), cell;

    cell = row / 4 * p->cols + MIN(x / 2, p->cols - 1);
    p->dots[cell] |= bits[x % 2][row % 4];
    p->strong[cell] |= strong;
}

/* The whole cell of a dot becomes a mark, which also those see who cannot tell a dot's place. */
static void text_mark(struct text_plot *p, size_t x, double y)
{
    size_t row = (size_t)((1 - y) * (double)(p->rows * 4 - 1) + 0.5) / 4;

    p->marked[row * p->cols + MIN(x / 2, p->cols - 1)] = 1;
}

/* Position 0 … 1 to dots of `cols` cells. */
static size_t text_x(double at, size_t cols)
{
    return (size_t)(at * (double)(cols * 2 - 1) + 0.5);
}

static void text_spaces(struct buf *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buf_addc(out, ' ');
}

/* The text in exactly so many cells. */
static void text_cell(struct buf *out, struct str text, size_t cells, bool right)
{
    AUTO(buf) struct buf b = {0};

    draw_clean(&b, text, cells);
    size_t used = text_width(buf_str(&b));
    if (right)
        text_spaces(out, cells - MIN(used, cells));
    buf_add(out, b.p ? b.p : "", b.n);
    if (!right)
        text_spaces(out, cells - MIN(used, cells));
}

/* A line of its own, cut to the width; escapes are not counted, since they take no cells. */
static void text_line(struct buf *out, struct str text, size_t width, enum colour c, bool colour)
{
    buf_adds(out, colour ? colour_start(c) : "");
    draw_clean(out, text, width);
    buf_adds(out, colour ? colour_end() : "");
    buf_addc(out, '\n');
}

/* Colours change only where they must, and every line ends without one. */
static void text_row(const struct text_plot *p, size_t row, struct buf *out)
{
    const char *now = "";

    for (size_t c = 0; c < p->cols; c++) {
        size_t cell = row * p->cols + c;
        bool on = p->marked[cell] || p->strong[cell];
        const char *want = !p->colour ? "" : on ? colour_start(COLOUR_CYAN) : "";
        if (strcmp(now, want) != 0) {
            buf_adds(out, *want ? want : colour_end());
            now = want;
        }
        if (p->marked[cell])
            buf_adds(out, "●");
        else if (p->dots[cell])
            buf_add_utf8(out, 0x2800U + p->dots[cell]);
        else
            buf_addc(out, ' ');
    }
    buf_adds(out, *now ? colour_end() : "");
    buf_addc(out, '\n');
}

/* Labels of the rows that have a tick, a line, then the dots. */
static void text_plot_write(const struct text_plot *p, const struct draw_tick *t, size_t n,
                            size_t label, struct buf *out)
{
    for (size_t r = 0; r < p->rows; r++) {
        const char *text = "";
        for (size_t i = 0; i < n; i++)
            if ((size_t)((1 - t[i].at) * (double)(p->rows - 1) + 0.5) == r)
                text = t[i].text;
        text_cell(out, str_of(text), label, true);
        buf_adds(out, *text ? " ┤" : " │");
        text_row(p, r, out);
    }
    text_spaces(out, label + 1);
    buf_adds(out, "└");
    for (size_t c = 0; c < p->cols; c++)
        buf_adds(out, "─");
    buf_addc(out, '\n');
}

/* All labels of an axis end in the same column. */
static size_t text_label_width(const struct draw_tick *t, size_t n)
{
    size_t most = 1;

    for (size_t i = 0; i < n; i++)
        most = MAX(most, text_width(str_of(t[i].text)));
    return MIN(most, (size_t)LABEL_MAX);
}

/* One text at each end of a line of `cols` cells. */
static void text_ends(struct buf *out, struct str first, struct str last, size_t cols)
{
    size_t half = cols / 2;

    text_cell(out, first, half, false);
    text_cell(out, last, cols - half, true);
}

static void text_head(const struct tune_view *v, const struct tune_picture *pic, const char *what,
                      struct str caption, struct buf *out)
{
    AUTO(buf) struct buf head = {0};

    draw_head(v, what, &head);
    text_line(out, buf_str(&head), pic->width, COLOUR_BOLD, pic->colour);
    text_line(out, caption, pic->width, COLOUR_NONE, pic->colour);
}

/* ---- history ---- */
void text_history(const struct tune_view *v, const struct tune_picture *pic, struct buf *out)
{
    struct draw_axis a = draw_axis_of(v, pic->goal);
    struct draw_count c = draw_count_of(v, pic->goal);
    struct draw_tick t[DRAW_TICKS];
    size_t n = draw_axis_ticks(&a, 5, t), label = text_label_width(t, n), next = 0;
    struct text_plot p = text_plot_new(pic->width - label - 2, PLOT_ROWS, pic->colour);
    AUTO(buf) struct buf caption = {0}, last = {0};
    double best = NAN;

    draw_caption(v, pic->goal, &c, &caption);
    draw_beyond(&a, &caption);
    text_head(v, pic, "best so far", buf_str(&caption), out);
    for (size_t i = 0; i < v->n; i++) {
        size_t x = text_x(v->n > 1 ? (double)i / (double)(v->n - 1) : 0.5, p.cols);
        double value = tune_view_value(v, i, pic->goal);
        if (tune_view_has(v, i, pic->goal)) {
            text_dot(&p, x, draw_axis_at(&a, value), false);
            if (isnan(best) || draw_better(v, pic->goal, value, best))
                best = value;
        }
        for (; next <= x && !isnan(best); next++) /* the line has no gaps */
            if (next % 2 == 0 || next == x)
                text_dot(&p, next, draw_axis_at(&a, best), true);
        next = MAX(next, x + 1);
    }
    if (c.best >= 0)
        text_mark(&p, text_x(v->n > 1 ? (double)c.best / (double)(v->n - 1) : 0.5, p.cols),
                  draw_axis_at(&a, tune_view_value(v, (size_t)c.best, pic->goal)));
    text_plot_write(&p, t, n, label, out);
    text_spaces(out, label + 2);
    buf_addf(&last, "%zu", v->n);
    text_ends(out, v->n ? STR("1") : STR("no trials"), v->n > 1 ? buf_str(&last) : STR(""), p.cols);
    buf_addc(out, '\n');
    text_plot_done(&p);
}

/* ---- importance ---- */
/* Full cells are what a parameter does alone, light ones what it does with others. */
static void text_bar(const struct tune_picture *pic, size_t label, struct str name, double alone,
                     double total, struct buf *out)
{
    size_t cells = pic->width - label - 10, full, all;

    full = (size_t)(fmin(alone, total) * (double)cells + 0.5);
    all = (size_t)(total * (double)cells + 0.5);
    text_cell(out, name, label, false);
    buf_addf(out, " %s", pic->colour ? colour_start(COLOUR_CYAN) : "");
    for (size_t i = 0; i < cells; i++)
        buf_adds(out, i < full ? "█" : i < all ? "░" : " ");
    buf_addf(out, "%s %6.1f %%\n", pic->colour ? colour_end() : "", 100 * total);
}

/* Up to five pairs of at least one per cent.  Their number is small, so each is looked for anew. */
static void text_pairs(const struct tune_view *v, const struct tune_picture *pic,
                       const struct tune_importance *m, size_t label, struct buf *out)
{
    double below = INFINITY;
    size_t last_i = 0, last_j = 0;

    for (int k = 0; k < PAIRS_MAX; k++) { /* the next one in the order of shares, then of numbers */
        double best = 0;
        size_t at_i = 0, at_j = 0;
        for (size_t i = 0; i < m->n; i++)
            for (size_t j = i + 1; j < m->n; j++) {
                double x = tune_importance_pair(m, i, j);
                bool later =
                    x < below || (x == below && (i > last_i || (i == last_i && j > last_j)));
                if (later && x > best) {
                    best = x;
                    at_i = i;
                    at_j = j;
                }
            }
        if (best < 0.01)
            return;
        AUTO(buf) struct buf name = {0};
        size_t half = (label - 3) / 2;
        draw_clean(&name, str_of(v->space->dims[at_i].name), half);
        buf_adds(&name, " × ");
        draw_clean(&name, str_of(v->space->dims[at_j].name), label - 3 - half);
        text_bar(pic, label, buf_str(&name), 0, best, out);
        below = best;
        last_i = at_i;
        last_j = at_j;
    }
}

void text_importance(const struct tune_view *v, const struct tune_picture *pic, struct buf *out)
{
    struct tune_importance m;
    size_t label = 7;
    AUTO(buf) struct buf caption = {0};

    tune_importance_find(v, pic->goal, pic->seed, &m);
    AUTO_FREE size_t *order = tune_importance_order(&m);
    size_t n = MIN(m.n, (size_t)BARS_MAX);
    for (size_t i = 0; i < n; i++)
        label = MAX(label, text_width(str_of(v->space->dims[order[i]].name)));
    label = MIN(label, pic->width / 3);
    buf_adds(&caption, "█ alone ░ with others; ");
    draw_shares(&m, n, &caption);
    text_head(v, pic, "importance of parameters", buf_str(&caption), out);
    for (size_t i = 0; i < n; i++)
        text_bar(pic, label, str_of(v->space->dims[order[i]].name), m.single[order[i]],
                 m.total[order[i]], out);
    text_pairs(v, pic, &m, label, out);
    tune_importance_done(&m);
}

/* ---- slices ---- */
/* The low and the high end of a parameter. */
static void text_dim_ends(const struct tune_dim *d, size_t cols, struct buf *out)
{
    struct draw_tick t[DRAW_TICKS];
    char lo[32], hi[32];

    if (d->choices) {
        size_t n = draw_dim_ticks(d, DRAW_TICKS, MIN(cols / 2, (size_t)16), t);
        text_ends(out, str_of(t[0].text), str_of(n > 1 ? t[n - 1].text : ""), cols);
        return;
    }
    draw_number(d->low, lo);
    draw_number(d->high, hi);
    text_ends(out, str_of(lo), str_of(hi), cols);
}

/* Panels side by side: dims[0 … n) from column 0 on, each `cols` wide with a gap of one. */
static void text_slice_row(const struct tune_view *v, const struct tune_picture *pic,
                           const size_t *dims, size_t n, size_t cols, struct buf *out)
{
    struct draw_axis a = draw_axis_of(v, pic->goal);
    struct draw_count c = draw_count_of(v, pic->goal);
    struct draw_tick t[DRAW_TICKS];
    size_t ticks = draw_axis_ticks(&a, 3, t), label = text_label_width(t, ticks);
    struct text_plot p = text_plot_new(n * (cols + 1) - 1, SLICE_ROWS, pic->colour);

    text_spaces(out, label + 2);
    for (size_t k = 0; k < n; k++) {
        text_cell(out, str_of(v->space->dims[dims[k]].name), cols, false);
        buf_adds(out, k + 1 < n ? " " : "\n");
        for (size_t i = 0; i < v->n; i++) {
            double code = tune_view_code(v, i, dims[k]);
            if (!tune_view_has(v, i, pic->goal) || isnan(code))
                continue;
            size_t x =
                k * (cols + 1) * 2 + text_x(tune_dim_unit(&v->space->dims[dims[k]], code), cols);
            double y = draw_axis_at(&a, tune_view_value(v, i, pic->goal));
            text_dot(&p, x, y, false);
            if ((long)i == c.best)
                text_mark(&p, x, y);
        }
    }
    text_plot_write(&p, t, ticks, label, out);
    text_spaces(out, label + 2);
    for (size_t k = 0; k < n; k++) {
        text_dim_ends(&v->space->dims[dims[k]], cols, out);
        buf_adds(out, k + 1 < n ? " " : "\n");
    }
    text_plot_done(&p);
}

/* As many panels in a row as fit at a width at which dots still say something. */
void text_slice(const struct tune_view *v, const struct tune_picture *pic, struct buf *out)
{
    AUTO_FREE size_t *dims = NULL;
    size_t all = draw_dims(v, pic, &dims), n = MIN(all, (size_t)SLICES_MAX);
    struct draw_count c = draw_count_of(v, pic->goal);
    AUTO(buf) struct buf caption = {0};

    draw_caption(v, pic->goal, &c, &caption);
    if (n < all)
        buf_addf(&caption, ", %zu of %zu parameters", n, all);
    text_head(v, pic, "values over parameters", buf_str(&caption), out);
    size_t room = pic->width - LABEL_MAX - 2;
    size_t columns = MAX(MIN(n, (room + 1) / (SLICE_COLS + 1)), (size_t)1);
    for (size_t i = 0; i < n; i += columns)
        text_slice_row(v, pic, dims + i, MIN(columns, n - i), (room + 1) / columns - 1, out);
}

/* ---- contour ---- */
/* Five shades; a blank cell has no trial near it. */
void text_contour(const struct tune_view *v, const struct tune_picture *pic, struct buf *out)
{
    static const char *const shades[] = {"·", "░", "▒", "▓", "█"};
    const struct tune_dim *dx = &v->space->dims[pic->x], *dy = &v->space->dims[pic->y];
    struct draw_tick t[DRAW_TICKS];
    size_t n = draw_dim_ticks(dy, 4, LABEL_MAX, t), label = text_label_width(t, n), shown = 0;
    size_t w = pic->width - label - 2, h = PLOT_ROWS;
    AUTO_FREE double *field = xcalloc(w * h, sizeof(*field));
    struct draw_count c = draw_count_of(v, pic->goal);
    AUTO(buf) struct buf caption = {0}, what = {0};

    draw_field(v, pic, w, h, field, &shown);
    draw_caption(v, pic->goal, &c, &caption);
    buf_adds(&caption, "; █ is good");
    draw_clean(&what, str_of(dy->name), 40);
    buf_adds(&what, " over ");
    draw_clean(&what, str_of(dx->name), 40);
    text_head(v, pic, what.p, buf_str(&caption), out);
    for (size_t r = 0; r < h; r++) {
        const char *text = "";
        for (size_t i = 0; i < n; i++)
            if ((size_t)((1 - t[i].at) * (double)(h - 1) + 0.5) == r)
                text = t[i].text;
        text_cell(out, str_of(text), label, true);
        buf_adds(out, *text ? " ┤" : " │");
        for (size_t k = 0; k < w; k++) {
            double good = field[r * w + k];
            buf_adds(out, isnan(good) ? " " : shades[(int)(good * 4.99)]);
        }
        buf_addc(out, '\n');
    }
    text_spaces(out, label + 2);
    text_dim_ends(dx, w, out);
    buf_addc(out, '\n');
}

/* ---- Pareto front ---- */
void text_pareto(const struct tune_view *v, const struct tune_picture *pic, struct buf *out)
{
    struct draw_axis ax = draw_axis_of(v, pic->goal), ay = draw_axis_of(v, pic->other);
    struct draw_tick t[DRAW_TICKS];
    size_t ticks = draw_axis_ticks(&ay, 6, t), label = text_label_width(t, ticks);
    struct text_plot p = text_plot_new(pic->width - label - 2, PLOT_ROWS + 4, pic->colour);
    AUTO_FREE size_t *front = NULL;
    size_t n = draw_front(v, pic->goal, pic->other, &front);
    AUTO(buf) struct buf caption = {0}, what = {0};
    char lo[32], hi[32];

    buf_addf(&caption, "● %zu trials that no other trial beats in both", n);
    buf_addf(&what, "%s (up) over %s", draw_goal_name(v, pic->other), draw_goal_name(v, pic->goal));
    text_head(v, pic, what.p, buf_str(&caption), out);
    for (size_t i = 0; i < v->n; i++)
        if (tune_view_has(v, i, pic->goal) && tune_view_has(v, i, pic->other))
            text_dot(&p, text_x(draw_axis_at(&ax, tune_view_value(v, i, pic->goal)), p.cols),
                     draw_axis_at(&ay, tune_view_value(v, i, pic->other)), false);
    for (size_t i = 0; i < n; i++)
        text_mark(&p, text_x(draw_axis_at(&ax, tune_view_value(v, front[i], pic->goal)), p.cols),
                  draw_axis_at(&ay, tune_view_value(v, front[i], pic->other)));
    text_plot_write(&p, t, ticks, label, out);
    text_spaces(out, label + 2);
    draw_number(ax.lo, lo);
    draw_number(ax.hi, hi);
    text_ends(out, str_of(lo), str_of(hi), p.cols);
    buf_addc(out, '\n');
    text_plot_done(&p);
}
