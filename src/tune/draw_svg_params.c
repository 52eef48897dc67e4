/* draw_svg_params.c - SVG of parameters: parallel coordinates, importance, contour
 *
 * Strong colours are good trials in every picture here, for objectives of both directions.  With
 * more parameters or lines than fit, the most important ones are drawn and the caption says so.
 */
#include "base/util.h"
#include "tune/draw_priv.h"
#include <math.h>

enum { TOP = 64, LINES_MAX = 600, AXES_MAX = 10, BARS_MAX = 20, PAIRS_MAX = 8, ROW = 22 };
enum { FIELD_W = 96, FIELD_H = 64 };

/* ---- parallel coordinates ---- */
struct svg_lanes {
    struct svg s;
    const struct tune_view *v;
    const size_t *dims;
    size_t n, goal; /* axes without that of the objective */
    struct draw_axis axis;
    double x0, step, y, h;
    bool absent; /* a lane below for parameters that a trial does not have */
};

struct svg_ranked {
    double at; /* position of the value: 1 is best */
    size_t trial;
};

/* Bad ones first; of equal ones the earlier trial comes later, and so lies on top. */
static int svg_by_rank(const void *a, const void *b)
{
    const struct svg_ranked *p = a, *q = b;

    if (p->at != q->at)
        return p->at < q->at ? -1 : 1;
    return p->trial > q->trial ? -1 : p->trial < q->trial;
}

/* Where the line of a trial crosses an axis; the axis behind the last parameter is the objective.
 */
static double svg_lane_y(const struct svg_lanes *l, size_t axis, size_t trial)
{
    double at;

    if (axis == l->n) {
        at = draw_axis_at(&l->axis, tune_view_value(l->v, trial, l->goal));
    } else {
        double code = tune_view_code(l->v, trial, l->dims[axis]);
        if (isnan(code))
            return l->y + l->h + 24;
        at = tune_dim_unit(&l->v->space->dims[l->dims[axis]], code);
    }
    return l->y + (1 - at) * l->h;
}

/* Curves leave and reach an axis level, so that two lines through one point can be told apart. */
static void svg_lane_line(struct svg_lanes *l, const char *cls, size_t trial)
{
    svg_path_open(&l->s, cls, "");
    for (size_t i = 0; i <= l->n; i++) {
        double x = l->x0 + l->step * (double)i, y = svg_lane_y(l, i, trial);
        if (!i)
            buf_addf(l->s.out, "M%.0f %.1f", x, y);
        else
            buf_addf(l->s.out, "C%.0f %.1f %.0f %.1f %.0f %.1f", x - l->step * 0.6,
                     svg_lane_y(l, i - 1, trial), x - l->step * 0.4, y, x, y);
    }
    svg_path_close(&l->s);
}

/* Axes lie over the lines, and their labels have a rim of the background. */
static void svg_lane_axes(struct svg_lanes *l)
{
    for (size_t i = 0; i <= l->n; i++) {
        const struct tune_dim *d = i < l->n ? &l->v->space->dims[l->dims[i]] : NULL;
        double x = l->x0 + l->step * (double)i;
        struct draw_tick t[DRAW_TICKS];
        size_t n = d ? draw_dim_ticks(d, 8, (size_t)fmin(16, l->step / 9), t)
                     : draw_axis_ticks(&l->axis, 8, t);
        AUTO(buf) struct buf name = {0};
        if (d)
            buf_addf(&name, "%s%s", d->name, d->log ? " (log)" : "");
        else
            buf_adds(&name, draw_goal_name(l->v, l->goal));
        svg_line(&l->s, "axis", x, l->y, x, l->y + l->h);
        svg_text(&l->s, x, l->y - 12, l->step - 10, SVG_MIDDLE, "t", buf_str(&name));
        for (size_t k = 0; k < n; k++) {
            double y = l->y + (1 - t[k].at) * l->h;
            svg_line(&l->s, "axis", x - 3, y, x + 3, y);
            svg_text(&l->s, d ? x - 6 : x + 6, y + 4, l->step - 14, d ? SVG_END : SVG_START, "k h",
                     str_of(t[k].text));
        }
    }
    if (l->absent)
        svg_text(&l->s, l->x0 - 6, l->y + l->h + 28, l->x0 - 8, SVG_END, "k h", STR("absent"));
}

/* Bad trials first, so that good ones lie on top.  The number of lines. */
static size_t svg_lane_lines(struct svg_lanes *l, const struct draw_count *c)
{
    const struct tune_view *v = l->v;
    AUTO_FREE struct svg_ranked *r = xcalloc(v->n + 1, sizeof(*r));
    size_t n = 0, drawn = 0, step = c->done / LINES_MAX + 1;

    for (size_t i = 0; i < v->n; i++)
        if (tune_view_has(v, i, l->goal)) {
            double at = draw_axis_at(&l->axis, tune_view_value(v, i, l->goal));
            r[n++] = (struct svg_ranked){tune_view_maximizes(v, l->goal) ? at : 1 - at, i};
        }
    qsort(r, n, sizeof(*r), svg_by_rank);
    for (size_t i = (n + step - 1) % step; i < n; i += step) { /* the last, the best, is in it */
        char cls[16];
        /* Squared: the few good ones stand out of the many. */
        snprintf(cls, sizeof(cls), "thin s%d", (int)(r[i].at * r[i].at * (DRAW_RAMP - 1) + 0.5));
        svg_lane_line(l, cls, r[i].trial);
        drawn++;
    }
    if (c->best >= 0)
        svg_lane_line(l, "strong ink", (size_t)c->best);
    return drawn;
}

void svg_parallel(const struct tune_view *v, const struct tune_picture *pic, struct buf *out)
{
    AUTO_FREE size_t *dims = NULL;
    size_t all = draw_dims(v, pic, &dims);
    size_t n = MIN(MIN(all, (size_t)AXES_MAX), MAX((pic->width - 140) / 90, (size_t)1));
    struct draw_count c = draw_count_of(v, pic->goal);
    struct svg_lanes l = {.s = {out, (double)pic->width, 400},
                          .v = v,
                          .dims = dims,
                          .n = n,
                          .goal = pic->goal,
                          .axis = draw_axis_of(v, pic->goal),
                          .x0 = 84,
                          .y = TOP + 30,
                          .h = 258};
    AUTO(buf) struct buf caption = {0}, lines = {0};

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < v->n && !l.absent; k++)
            l.absent = tune_view_has(v, k, pic->goal) && isnan(tune_view_code(v, k, dims[i]));
    l.step = n ? (l.s.w - l.x0 - 76) / (double)n : l.s.w - l.x0 - 76;
    l.s.out = &lines; /* how many there are stands above them */
    size_t drawn = svg_lane_lines(&l, &c);
    l.s.out = out;
    draw_caption(v, pic->goal, &c, &caption);
    draw_beyond(&l.axis, &caption);
    if (drawn < c.done)
        buf_addf(&caption, ", %zu lines of %zu", drawn, c.done);
    if (n < all)
        buf_addf(&caption, ", %zu of %zu parameters", n, all);
    buf_adds(&caption, ". Strong lines are good trials.");
    svg_open(&l.s, v, "parameters and result", buf_str(&caption));
    buf_add(out, lines.p, lines.n);
    svg_lane_axes(&l);
    svg_close(&l.s);
}

/* ---- importance ---- */
struct svg_pair {
    size_t i, j;
    double share;
};

/* The number is the total: what would go if the parameter were fixed. */
static void svg_bar(struct svg *s, double y, struct str name, double alone, double total)
{
    double label = fmin(240, s->w * 0.3), x = 16 + label + 12, w = s->w - x - 76;
    char text[32];

    svg_text(s, 16, y + 14, label, SVG_START, "t", name);
    svg_rect(s, "trough", x, y + 5, w, 10);
    svg_rect(s, "pale", x, y + 5, w * total, 10);
    svg_rect(s, "bar", x, y + 5, w * fmin(alone, total), 10);
    snprintf(text, sizeof(text), "%.1f %%", 100 * total);
    svg_text(s, s->w - 16, y + 14, 56, SVG_END, "t", str_of(text));
}

/* The largest pairs of at least one per cent; their number. */
static size_t svg_top_pairs(const struct tune_importance *m, struct svg_pair *out)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++)
        for (size_t j = i + 1; j < m->n; j++) {
            double share = tune_importance_pair(m, i, j);
            if (share < 0.01 || (n == PAIRS_MAX && share <= out[n - 1].share))
                continue;
            size_t k = n < PAIRS_MAX ? n++ : n - 1;
            for (; k > 0 && out[k - 1].share < share; k--)
                out[k] = out[k - 1];
            out[k] = (struct svg_pair){i, j, share};
        }
    return n;
}

void svg_importance(const struct tune_view *v, const struct tune_picture *pic, struct buf *out)
{
    struct tune_importance m;
    struct svg_pair pairs[PAIRS_MAX];
    AUTO(buf) struct buf caption = {0};

    tune_importance_find(v, pic->goal, pic->seed, &m);
    AUTO_FREE size_t *order = tune_importance_order(&m);
    size_t n = MIN(m.n, (size_t)BARS_MAX), n_pairs = svg_top_pairs(&m, pairs);
    double pairs_h = n_pairs ? 30 + ROW * (double)n_pairs : 0;
    struct svg s = {out, (double)pic->width, TOP + ROW * (double)n + pairs_h + 16};

    buf_adds(&caption, "Share of variance; full: alone, pale: together with others. ");
    draw_shares(&m, n, &caption);
    buf_adds(&caption, ".");
    svg_open(&s, v, "importance of parameters", buf_str(&caption));
    for (size_t i = 0; i < n; i++)
        svg_bar(&s, TOP + ROW * (double)i, str_of(v->space->dims[order[i]].name),
                m.single[order[i]], m.total[order[i]]);
    if (n_pairs)
        svg_text(&s, 16, TOP + ROW * (double)n + 24, s.w - 32, SVG_START, "q",
                 STR("two parameters together, beyond what each does alone"));
    for (size_t i = 0; i < n_pairs; i++) {
        AUTO(buf) struct buf name = {0};
        draw_clean(&name, str_of(v->space->dims[pairs[i].i].name), 14);
        buf_adds(&name, " × ");
        draw_clean(&name, str_of(v->space->dims[pairs[i].j].name), 14);
        svg_bar(&s, TOP + ROW * (double)n + 30 + ROW * (double)i, buf_str(&name), 0,
                pairs[i].share);
    }
    svg_close(&s);
    tune_importance_done(&m);
}

/* ---- contour ---- */
/* A category is one cell wide: between two of them there is nothing. */
static size_t svg_field_cells(const struct tune_dim *d, size_t many)
{
    return tune_dim_unordered(d) && d->count <= (double)many ? (size_t)d->count : many;
}

/* One path for each level; neighbours in a row are one rectangle. */
static void svg_field(const struct svg_plot *p, const double *field, size_t w, size_t h)
{
    double cw = p->w / (double)w, ch = p->h / (double)h;

    for (int level = 0; level < DRAW_RAMP; level++) {
        buf_addf(p->s->out, "<path shape-rendering=\"crispEdges\" class=\"f%d\" d=\"", level);
        for (size_t r = 0; r < h; r++)
            for (size_t c = 0, run; c < w; c += run) {
                const double *row = field + r * w;
                for (run = 0; c + run < w; run++)
                    if (isnan(row[c + run]) || (int)(row[c + run] * (DRAW_RAMP - 0.01)) != level)
                        break;
                if (run)
                    buf_addf(p->s->out, "M%.1f %.1fh%.1fv%.1fh-%.1fz", p->x + cw * (double)c,
                             p->y + ch * (double)r, cw * (double)run, ch, cw * (double)run);
                else
                    run = 1;
            }
        svg_path_close(p->s);
    }
}

/* Best at the top, with the values at both ends. */
static void svg_legend(const struct svg_plot *p, const struct tune_view *v, size_t goal)
{
    struct draw_axis a = draw_axis_of(v, goal);
    bool up = tune_view_maximizes(v, goal);
    double x = p->x + p->w + 18, h = p->h / DRAW_RAMP;
    char text[32];

    for (int k = 0; k < DRAW_RAMP; k++) {
        char cls[8];
        snprintf(cls, sizeof(cls), "f%d", DRAW_RAMP - 1 - k);
        svg_rect(p->s, cls, x, p->y + h * k, 12, h + 0.4);
    }
    draw_number(up ? a.hi : a.lo, text);
    svg_text(p->s, x + 18, p->y + 10, 76, SVG_START, "k", str_of(text));
    draw_number(up ? a.lo : a.hi, text);
    svg_text(p->s, x + 18, p->y + p->h, 76, SVG_START, "k", str_of(text));
}

/* Dots with a rim, which are seen on every colour; the best one is larger. */
static void svg_field_dots(const struct svg_plot *p, const struct tune_view *v,
                           const struct tune_picture *pic, const struct draw_count *c)
{
    static const char *const classes[] = {"dot rim", "point ink", "halo", "big ink"};

    for (size_t k = 0; k < ARRAY_SIZE(classes); k++) {
        svg_path_open(p->s, classes[k], "");
        for (size_t i = 0; i < v->n; i++) {
            double a = tune_view_code(v, i, (size_t)pic->x);
            double b = tune_view_code(v, i, (size_t)pic->y);
            if (!tune_view_has(v, i, pic->goal) || isnan(a) || isnan(b))
                continue;
            if (k < 2 ? i % c->step == 0 : (long)i == c->best)
                svg_dot(p->s, svg_plot_x(p, draw_dot_at(&v->space->dims[pic->x], a, i)),
                        svg_plot_y(p, draw_dot_at(&v->space->dims[pic->y], b, i * 7 + 3)));
        }
        svg_path_close(p->s);
    }
}

void svg_contour(const struct tune_view *v, const struct tune_picture *pic, struct buf *out)
{
    const struct tune_dim *dx = &v->space->dims[pic->x], *dy = &v->space->dims[pic->y];
    struct svg s = {out, (double)pic->width, fmin((double)pic->width * 0.5, 420) + TOP + 66};
    struct svg_plot p = {&s, 104, TOP + 20, s.w - 104 - 108, s.h - TOP - 66};
    size_t w = svg_field_cells(dx, FIELD_W), h = svg_field_cells(dy, FIELD_H), shown = 0;
    AUTO_FREE double *field = xcalloc(w * h, sizeof(*field));
    struct draw_count c = draw_count_of(v, pic->goal);
    struct draw_tick t[DRAW_TICKS];
    AUTO(buf) struct buf caption = {0}, name_x = {0}, name_y = {0};

    draw_field(v, pic, w, h, field, &shown);
    draw_caption(v, pic->goal, &c, &caption);
    if (shown < c.done)
        buf_addf(&caption, ", %zu have both parameters", shown);
    buf_adds(&caption, ". Strong is good, blank unknown.");
    svg_open(&s, v, "values over two parameters", buf_str(&caption));
    svg_field(&p, field, w, h);
    svg_line(&s, "axis", p.x, p.y + p.h, p.x + p.w, p.y + p.h);
    svg_line(&s, "axis", p.x, p.y, p.x, p.y + p.h);
    svg_ticks_x(&p, t, draw_dim_ticks(dx, (size_t)(p.w / 80) + 2, 14, t), false);
    size_t ticks = draw_dim_ticks(dy, (size_t)(p.h / 40) + 2, 13, t);
    for (size_t i = 0; i < ticks; i++)
        svg_text(&s, p.x - 6, svg_plot_y(&p, t[i].at) + 4, p.x - 10, SVG_END, "k",
                 str_of(t[i].text));
    svg_field_dots(&p, v, pic, &c);
    svg_legend(&p, v, pic->goal);
    buf_addf(&name_x, "%s%s", dx->name, dx->log ? " (log)" : "");
    buf_addf(&name_y, "%s%s", dy->name, dy->log ? " (log)" : "");
    svg_text(&s, p.x + p.w / 2, s.h - 12, p.w, SVG_MIDDLE, "t", buf_str(&name_x));
    svg_text(&s, 16, p.y - 8, s.w - 120, SVG_START, "t", buf_str(&name_y));
    svg_text(&s, s.w - 16, p.y - 8, 90, SVG_END, "q", str_of(draw_goal_name(v, pic->goal)));
    svg_close(&s);
}
