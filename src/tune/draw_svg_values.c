/* draw_svg_values.c - SVG of values: over trials, over each parameter, and of two objectives
 *
 * Trials are grey dots, what was best is in the accent colour or ink.  Values outside of the axis
 * lie on its edge, and the caption counts them.
 */
#include "base/table.h"
#include "base/util.h"
#include "tune/draw_priv.h"
#include <math.h>

enum { LEFT = 72, RIGHT = 20, TOP = 76, BOTTOM = 44, PANELS_MAX = 12 };

/* Trials that are not drawn as dots are counted in the caption. */
static void svg_say_step(const struct draw_count *c, struct buf *out)
{
    if (c->step > 1)
        buf_addf(out, ", every %zuth drawn", c->step);
}

/* Of very many trials only some are drawn, but always the best. */
static bool svg_skips(const struct draw_count *c, size_t trial)
{
    return trial % c->step != 0 && (long)trial != c->best;
}

/* Lines across about every 44 pixels, and the base line.  Only the first panel of a row has labels:
 * all share the axis. */
static void svg_plot_frame(const struct svg_plot *p, const struct draw_axis *y, bool labels)
{
    struct draw_tick t[DRAW_TICKS];
    size_t n = draw_axis_ticks(y, (size_t)(p->h / 44) + 2, t);

    svg_ticks_y(p, t, n, labels);
    svg_line(p->s, "axis", p->x, p->y + p->h, p->x + p->w, p->y + p->h);
}

/* ---- history ---- */
/* A single trial stands in the middle. */
static double svg_trial_at(const struct tune_view *v, size_t trial)
{
    return v->n > 1 ? (double)trial / (double)(v->n - 1) : 0.5;
}

/* A step down (or up) at each better trial: between them nothing better was known.  Every
 * improvement is drawn, also of trials whose dots are skipped. */
static void svg_best_line(const struct svg_plot *p, const struct tune_view *v, size_t goal,
                          const struct draw_axis *a)
{
    double best = NAN;

    svg_path_open(p->s, "curve mark", "");
    for (size_t i = 0; i < v->n; i++) {
        double x = tune_view_value(v, i, goal);
        if (!tune_view_has(v, i, goal) || (!isnan(best) && !draw_better(v, goal, x, best)))
            continue;
        double at = svg_plot_x(p, svg_trial_at(v, i)), y = svg_plot_y(p, draw_axis_at(a, x));
        if (isnan(best))
            buf_addf(p->s->out, "M%.1f %.1f", at, y);
        else
            buf_addf(p->s->out, "H%.1fV%.1f", at, y);
        best = x;
    }
    if (!isnan(best))
        buf_addf(p->s->out, "H%.1f", p->x + p->w);
    svg_path_close(p->s);
}

/* A failed trial has no value: its cross stands at the base line. */
static void svg_history_dots(const struct svg_plot *p, const struct tune_view *v, size_t goal,
                             const struct draw_axis *a, const struct draw_count *c)
{
    struct svg *s = p->s;

    svg_path_open(s, "dot grey", "");
    for (size_t i = 0; i < v->n; i++)
        if (tune_view_has(v, i, goal) && !svg_skips(c, i))
            svg_dot(s, svg_plot_x(p, svg_trial_at(v, i)),
                    svg_plot_y(p, draw_axis_at(a, tune_view_value(v, i, goal))));
    svg_path_close(s);
    svg_path_open(s, "cross bad", "");
    for (size_t i = 0; i < v->n; i++)
        if (v->outcomes[i] != TUNE_PENDING && !tune_view_has(v, i, goal) &&
            !tune_view_stopped(v, i) && !svg_skips(c, i))
            buf_addf(s->out, "M%.1f %.1fl6 6m0-6l-6 6", svg_plot_x(p, svg_trial_at(v, i)) - 3,
                     p->y + p->h - 9);
    svg_path_close(s);
}

void svg_history(const struct tune_view *v, const struct tune_picture *pic, struct buf *out)
{
    struct svg s = {out, (double)pic->width, 360};
    struct svg_plot p = {&s, LEFT, TOP, s.w - LEFT - RIGHT, s.h - TOP - BOTTOM};
    struct draw_count c = draw_count_of(v, pic->goal);
    struct draw_axis a = draw_axis_of(v, pic->goal);
    struct draw_axis trials = {.lo = 1, .hi = v->n > 1 ? (double)v->n : 2};
    struct draw_tick t[DRAW_TICKS];
    AUTO(buf) struct buf caption = {0};

    draw_caption(v, pic->goal, &c, &caption);
    draw_beyond(&a, &caption);
    svg_say_step(&c, &caption);
    buf_adds(&caption, c.failed ? ". A cross is a failed trial." : ".");
    svg_open(&s, v, "best so far", buf_str(&caption));
    svg_plot_frame(&p, &a, true);
    if (v->n > 1)
        svg_ticks_x(&p, t, draw_axis_ticks(&trials, (size_t)(p.w / 90) + 2, t), false);
    svg_history_dots(&p, v, pic->goal, &a, &c);
    svg_best_line(&p, v, pic->goal, &a);
    if (c.best >= 0) {
        double x = svg_plot_x(&p, svg_trial_at(v, (size_t)c.best));
        double y = svg_plot_y(&p, draw_axis_at(&a, tune_view_value(v, (size_t)c.best, pic->goal)));
        svg_path_open(&s, "halo", "");
        svg_dot(&s, x, y);
        svg_path_close(&s);
        svg_path_open(&s, "big mark", "");
        svg_dot(&s, x, y);
        svg_path_close(&s);
    }
    svg_text(&s, p.x + p.w / 2, s.h - 10, p.w, SVG_MIDDLE, "q", STR("trial"));
    svg_text(&s, 16, TOP - 8, s.w / 2, SVG_START, "q", str_of(draw_goal_name(v, pic->goal)));
    svg_close(&s);
}

/* ---- slices ---- */
/* Late trials are stronger than early ones: where the search went. */
static void svg_slice_dots(const struct svg_plot *p, const struct tune_view *v, size_t goal,
                           size_t dim, const struct draw_axis *a, const struct draw_count *c)
{
    const struct tune_dim *d = &v->space->dims[dim];
    static const char *const classes[] = {"dot s2", "dot s5", "dot s9"};

    for (size_t age = 0; age < ARRAY_SIZE(classes); age++) {
        size_t from = v->n * age / ARRAY_SIZE(classes), to = v->n * (age + 1) / ARRAY_SIZE(classes);
        svg_path_open(p->s, classes[age], "");
        for (size_t i = from; i < to; i++) {
            double code = tune_view_code(v, i, dim);
            if (tune_view_has(v, i, goal) && !isnan(code) && !svg_skips(c, i))
                svg_dot(p->s, svg_plot_x(p, draw_dot_at(d, code, i)),
                        svg_plot_y(p, draw_axis_at(a, tune_view_value(v, i, goal))));
        }
        svg_path_close(p->s);
    }
    double code = c->best < 0 ? NAN : tune_view_code(v, (size_t)c->best, dim);
    if (isnan(code))
        return;
    for (int k = 0; k < 2; k++) {
        svg_path_open(p->s, k ? "big ink" : "halo", "");
        svg_dot(p->s, svg_plot_x(p, draw_dot_at(d, code, (size_t)c->best)),
                svg_plot_y(p, draw_axis_at(a, tune_view_value(v, (size_t)c->best, goal))));
        svg_path_close(p->s);
    }
}

void svg_slice(const struct tune_view *v, const struct tune_picture *pic, struct buf *out)
{
    AUTO_FREE size_t *dims = NULL;
    size_t all = draw_dims(v, pic, &dims), n = MIN(all, (size_t)PANELS_MAX);
    size_t columns = MAX(MIN(n, (pic->width - LEFT) / 200), (size_t)1);
    size_t rows = (n + columns - 1) / columns;
    double panel_h = 170, gap = 18;
    struct svg s = {out, (double)pic->width, TOP + (panel_h + 52) * (double)rows};
    double panel_w = (s.w - LEFT - RIGHT + gap) / (double)columns - gap;
    struct draw_count c = draw_count_of(v, pic->goal);
    struct draw_axis a = draw_axis_of(v, pic->goal);
    AUTO(buf) struct buf caption = {0};

    draw_caption(v, pic->goal, &c, &caption);
    draw_beyond(&a, &caption);
    svg_say_step(&c, &caption);
    if (all > n)
        buf_addf(&caption, ", %zu of %zu parameters", n, all);
    buf_adds(&caption, ". Late trials are stronger.");
    svg_open(&s, v, "values over parameters", buf_str(&caption));
    for (size_t i = 0; i < n; i++) {
        const struct tune_dim *d = &v->space->dims[dims[i]];
        size_t row = i / columns, column = i % columns;
        struct svg_plot p = {&s, LEFT + (double)column * (panel_w + gap),
                             TOP + (double)row * (panel_h + 52) + 6, panel_w, panel_h};
        struct draw_tick t[DRAW_TICKS];
        AUTO(buf) struct buf name = {0};
        size_t ticks = draw_dim_ticks(d, (size_t)(panel_w / 60) + 1, (size_t)(panel_w / 24), t);
        buf_addf(&name, "%s%s", d->name, d->log ? " (log)" : "");
        svg_text(&s, p.x, p.y - 7, p.w, SVG_START, "t", buf_str(&name));
        svg_plot_frame(&p, &a, column == 0);
        svg_ticks_x(&p, t, ticks, false);
        svg_slice_dots(&p, v, pic->goal, dims[i], &a, &c);
    }
    svg_close(&s);
}

/* ---- Pareto front ---- */
static void svg_goal_text(const struct tune_view *v, size_t goal, struct buf *out)
{
    buf_addf(out, "%s, %s", draw_goal_name(v, goal),
             tune_view_maximizes(v, goal) ? "more is better" : "less is better");
}

/* The line is a stair, not a slope: nobody has tried what lies between two points. */
static void svg_front(const struct svg_plot *p, const struct tune_view *v,
                      const struct tune_picture *pic, const struct draw_axis *ax,
                      const struct draw_axis *ay, const size_t *front, size_t n)
{
    for (int dots = 0; dots < 2; dots++) {
        svg_path_open(p->s, dots ? "big mark" : "curve mark", "");
        for (size_t i = 0; i < n; i++) {
            double x = svg_plot_x(p, draw_axis_at(ax, tune_view_value(v, front[i], pic->goal)));
            double y = svg_plot_y(p, draw_axis_at(ay, tune_view_value(v, front[i], pic->other)));
            if (dots)
                svg_dot(p->s, x, y);
            else /* between two points, nothing better than the corner is known */
                buf_addf(p->s->out, i ? "H%.1fV%.1f" : "M%.1f %.1f", x, y);
        }
        svg_path_close(p->s);
    }
}

void svg_pareto(const struct tune_view *v, const struct tune_picture *pic, struct buf *out)
{
    struct svg s = {out, (double)pic->width, 480};
    struct svg_plot p = {&s, LEFT, TOP, s.w - LEFT - RIGHT, s.h - TOP - BOTTOM};
    struct draw_axis ax = draw_axis_of(v, pic->goal), ay = draw_axis_of(v, pic->other);
    struct draw_count c = draw_count_of(v, pic->goal);
    struct draw_tick t[DRAW_TICKS];
    AUTO_FREE size_t *front = NULL;
    size_t n = draw_front(v, pic->goal, pic->other, &front), both = 0;
    AUTO(buf) struct buf caption = {0}, name_x = {0}, name_y = {0};

    for (size_t i = 0; i < v->n; i++)
        both += tune_view_has(v, i, pic->goal) && tune_view_has(v, i, pic->other);
    buf_addf(&caption, "%zu of %zu trials with both results: no other trial is better in both", n,
             both);
    draw_beyond(&ay, &caption);
    svg_say_step(&c, &caption);
    buf_adds(&caption, ".");
    svg_open(&s, v, "Pareto front", buf_str(&caption));
    svg_plot_frame(&p, &ay, true);
    svg_ticks_x(&p, t, draw_axis_ticks(&ax, (size_t)(p.w / 90) + 2, t), true);
    svg_path_open(&s, "dot grey", "");
    for (size_t i = 0; i < v->n; i++)
        if (tune_view_has(v, i, pic->goal) && tune_view_has(v, i, pic->other) && !svg_skips(&c, i))
            svg_dot(&s, svg_plot_x(&p, draw_axis_at(&ax, tune_view_value(v, i, pic->goal))),
                    svg_plot_y(&p, draw_axis_at(&ay, tune_view_value(v, i, pic->other))));
    svg_path_close(&s);
    svg_front(&p, v, pic, &ax, &ay, front, n);
    svg_goal_text(v, pic->goal, &name_x);
    svg_goal_text(v, pic->other, &name_y);
    svg_text(&s, p.x + p.w / 2, s.h - 10, p.w, SVG_MIDDLE, "q", buf_str(&name_x));
    svg_text(&s, 16, p.y - 8, s.w - 32, SVG_START, "q", buf_str(&name_y));
    svg_close(&s);
}
