/* draw_priv.h - what all pictures of a study share: axes, labels, the parts of an SVG */
#pragma once
#include "tune/draw.h"
#include "tune/importance.h"

enum { DRAW_LABEL = 80, DRAW_TICKS = 24, DRAW_RAMP = 10, DRAW_DOTS = 4000 };

/* ---- draw_axis.c ---- */
/* A range of values.  `above` and `below` trials lie outside of it. */
struct draw_axis {
    double lo, hi;
    bool log;
    size_t above, below;
};
struct draw_tick {
    double at; /* 0 … 1 along the axis */
    char text[DRAW_LABEL];
};
/* The axis of an objective.  On the bad side, values far away from most are left out. */
struct draw_axis draw_axis_of(const struct tune_view *v, size_t goal);
/* Position in 0 … 1; values outside count as the nearer end. */
double draw_axis_at(const struct draw_axis *a, double value);
/* At most `want` ticks (2 … DRAW_TICKS); their number. */
size_t draw_axis_ticks(const struct draw_axis *a, size_t want, struct draw_tick *out);
/* Where the dot of a trial stands along a parameter: of few values, dots are spread over half of
 * the cell, or they would hide each other. */
double draw_dot_at(const struct tune_dim *d, double code, size_t trial);
/* Of a parameter; labels have at most `cells` characters (up to 16). */
size_t draw_dim_ticks(const struct tune_dim *d, size_t want, size_t cells, struct draw_tick *out);
/* Four digits, without needless zeros. */
void draw_number(double x, char out[32]);
/* The text without control characters, in at most `cells` cells; cut with "…". */
void draw_clean(struct buf *out, struct str text, size_t cells);

/* ---- draw.c ---- */
struct draw_count {
    size_t done, failed, stopped, pending;
    long best;   /* -1 = none */
    size_t step; /* every step-th trial is drawn as a dot, and the best */
};
struct draw_count draw_count_of(const struct tune_view *v, size_t goal);
/* Is a better than b for this objective? */
bool draw_better(const struct tune_view *v, size_t goal, double a, double b);
const char *draw_goal_name(const struct tune_view *v, size_t goal);
/* "187 of 200 trials have a result. Best: 0.88, trial 171." */
void draw_caption(const struct tune_view *v, size_t goal, const struct draw_count *c,
                  struct buf *out);
/* "name of the study: what". */
void draw_head(const struct tune_view *v, const char *what, struct buf *out);
/* What the shares of variance are based on; so many of them are drawn. */
void draw_shares(const struct tune_importance *m, size_t bars, struct buf *out);
/* ", 3 beyond the upper edge": what the axis leaves out, or nothing. */
void draw_beyond(const struct draw_axis *a, struct buf *out);
/* The parameters that vary, most important first.  The caller frees *out. */
size_t draw_dims(const struct tune_view *v, const struct tune_picture *p, size_t **out);
/* Points that no other one beats in both objectives, by the first one; their number. */
size_t draw_front(const struct tune_view *v, size_t x, size_t y, size_t **out);
/* The field of a contour: width × height positions between good (1) and bad (0), NaN where no trial
 * is near.  `shown` counts the trials that have both parameters. */
void draw_field(const struct tune_view *v, const struct tune_picture *p, size_t w, size_t h,
                double *out, size_t *shown);

/* ---- svg.c: an SVG that reads on light and dark ---- */
struct svg {
    struct buf *out;
    double w, h;
};
enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };
/* The title, and a line below it. */
void svg_open(struct svg *s, const struct tune_view *v, const char *what, struct str caption);
void svg_close(struct svg *s);
/* Text in a class ("t" ink, "q" grey, "b" bold), cut to `room` pixels; the whole as a tooltip. */
void svg_text(struct svg *s, double x, double y, double room, enum svg_anchor a, const char *cls,
              struct str text);
void svg_line(struct svg *s, const char *cls, double x1, double y1, double x2, double y2);
void svg_rect(struct svg *s, const char *cls, double x, double y, double w, double h);
/* Many dots are one path: svg_path_open, svg_dot …, svg_path_close. */
void svg_path_open(struct svg *s, const char *cls, const char *more);
void svg_dot(struct svg *s, double x, double y);
void svg_path_close(struct svg *s);

/* A rectangle with two axes; positions 0 … 1 are mapped to pixels. */
struct svg_plot {
    struct svg *s;
    double x, y, w, h;
};
static inline double svg_plot_x(const struct svg_plot *p, double at)
{
    return p->x + at * p->w;
}
static inline double svg_plot_y(const struct svg_plot *p, double at)
{
    return p->y + (1 - at) * p->h;
}
/* Lines across and labels; `labels` false: lines only. */
void svg_ticks_y(const struct svg_plot *p, const struct draw_tick *t, size_t n, bool labels);
void svg_ticks_x(const struct svg_plot *p, const struct draw_tick *t, size_t n, bool lines);

/* Pictures. */
typedef void draw_fn(const struct tune_view *v, const struct tune_picture *p, struct buf *out);
draw_fn svg_history, svg_parallel, svg_importance, svg_slice, svg_contour, svg_pareto;
draw_fn text_history, text_importance, text_slice, text_contour, text_pareto;
