/* draw.c - which pictures there are, and what they find out about the trials
 *
 * Owns what the two forms of a picture, SVG and characters, have in common: counts, sentences, the
 * order of parameters, the Pareto front and the field of a contour.  So both forms say the same.
 *
 * "Good" is 1 at the best end of an objective's axis and 0 at the other, whichever way it runs.
 */
#include "tune/draw.h"
#include "base/util.h"
#include "tune/draw_priv.h"
#include <math.h>

const char tune_picture_names[] = "history|parallel|importance|slice|contour|pareto";

static const struct {
    const char *name;
    draw_fn *svg, *text;
} pictures[TUNE_PICTURES] = {
    [TUNE_HISTORY] = {"history", svg_history, text_history},
    [TUNE_PARALLEL] = {"parallel", svg_parallel, NULL},
    [TUNE_IMPORTANCE] = {"importance", svg_importance, text_importance},
    [TUNE_SLICE] = {"slice", svg_slice, text_slice},
    [TUNE_CONTOUR] = {"contour", svg_contour, text_contour},
    [TUNE_PARETO] = {"pareto", svg_pareto, text_pareto},
};

enum { FIELD_POINTS = 1000, PICTURE_MIN = 240, PICTURE_MAX = 4000, CELLS_MIN = 24 };
enum { CELLS_MAX = 400, NAME_CELLS = 24, TITLE_CELLS = 40 };
static const double near_enough = 0.2; /* of the range: how far a trial tells about its vicinity */

bool tune_picture_find(struct str name, enum tune_picture_kind *out)
{
    for (size_t i = 0; i < TUNE_PICTURES; i++)
        if (str_eq_c(name, pictures[i].name)) {
            *out = (enum tune_picture_kind)i;
            return true;
        }
    return false;
}

struct tune_picture tune_picture_of(enum tune_picture_kind kind)
{
    return (struct tune_picture){.kind = kind, .other = 1, .x = -1, .y = -1};
}

/* ---- trials ---- */
bool draw_better(const struct tune_view *v, size_t goal, double a, double b)
{
    return tune_view_maximizes(v, goal) ? a > b : a < b;
}

const char *draw_goal_name(const struct tune_view *v, size_t goal)
{
    const char *name = v->goal_names ? v->goal_names[goal] : NULL;

    return name && *name ? name : "value";
}

/* A trial that is done without a finite value has failed as much as one that says so.  Of equal
 * values the first trial is the best: later ones did not improve on it. */
struct draw_count draw_count_of(const struct tune_view *v, size_t goal)
{
    struct draw_count c = {.best = -1};

    for (size_t i = 0; i < v->n; i++) {
        if (v->outcomes[i] == TUNE_PENDING) {
            c.pending++;
        } else if (!tune_view_has(v, i, goal)) {
            *(tune_view_stopped(v, i) ? &c.stopped : &c.failed) += 1;
        } else {
            c.done++;
            if (c.best < 0 || draw_better(v, goal, tune_view_value(v, i, goal),
                                          tune_view_value(v, (size_t)c.best, goal)))
                c.best = (long)i;
        }
    }
    /* More dots than this cannot be told apart, and the file would grow without end. */
    c.step = v->n / DRAW_DOTS + 1;
    return c;
}

void draw_caption(const struct tune_view *v, size_t goal, const struct draw_count *c,
                  struct buf *out)
{
    char best[32];

    if (!c->done) {
        buf_adds(out, v->n ? "No trial has a result yet" : "There are no trials yet");
    } else {
        draw_number(tune_view_value(v, (size_t)c->best, goal), best);
        buf_adds(out, "Best ");
        draw_clean(out, str_of(draw_goal_name(v, goal)), NAME_CELLS);
        buf_addf(out, ": %s, trial %ld of %zu", best, c->best + 1, v->n);
    }
    if (c->failed)
        buf_addf(out, ", %zu failed", c->failed);
    if (c->stopped)
        buf_addf(out, ", %zu stopped early", c->stopped);
    if (c->pending)
        buf_addf(out, ", %zu not done", c->pending);
}

void draw_head(const struct tune_view *v, const char *what, struct buf *out)
{
    if (v->title && *v->title) {
        draw_clean(out, str_of(v->title), TITLE_CELLS);
        buf_adds(out, ": ");
    }
    buf_adds(out, what);
}

void draw_shares(const struct tune_importance *m, size_t bars, struct buf *out)
{
    if (m->n_trials < 4)
        buf_addf(out, "%zu of at least 4 results are there", m->n_trials);
    else
        buf_addf(out, "%zu trials, %.0f %% of unseen ones explained", m->n_trials, 100 * m->fit);
    if (bars < m->n)
        buf_addf(out, ", %zu of %zu parameters", bars, m->n);
}

void draw_beyond(const struct draw_axis *a, struct buf *out)
{
    if (a->above)
        buf_addf(out, ", %zu beyond the upper edge", a->above);
    if (a->below)
        buf_addf(out, ", %zu beyond the lower edge", a->below);
}

/* Constants and ranges of one value have no axis. */
size_t draw_dims(const struct tune_view *v, const struct tune_picture *p, size_t **out)
{
    struct tune_importance m;
    size_t n = 0;

    tune_importance_find(v, p->goal, p->seed, &m);
    *out = tune_importance_order(&m);
    for (size_t i = 0; i < m.n; i++) {
        const struct tune_dim *d = &v->space->dims[(*out)[i]];
        if (d->kind != TUNE_CONST && d->count != 1 && (d->count > 0 || d->width > 0))
            (*out)[n++] = (*out)[i];
    }
    tune_importance_done(&m);
    return n;
}

/* ---- Pareto front ---- */
struct draw_point {
    double x, y; /* to be minimised */
    size_t trial;
};

/* Ties are broken by the number of the trial, so that the order never depends on qsort. */
static int draw_by_first(const void *a, const void *b)
{
    const struct draw_point *p = a, *q = b;

    if (p->x != q->x)
        return p->x < q->x ? -1 : 1;
    if (p->y != q->y)
        return p->y < q->y ? -1 : 1;
    return p->trial < q->trial ? -1 : p->trial > q->trial;
}

/* From the best of the first objective on, a trial is in the front when it improves the second one.
 * Of equal points the earliest trial stands for all. */
size_t draw_front(const struct tune_view *v, size_t x, size_t y, size_t **out)
{
    AUTO_FREE struct draw_point *p = xcalloc(v->n + 1, sizeof(*p));
    size_t n = 0, kept = 0;
    double best = INFINITY;

    for (size_t i = 0; i < v->n; i++)
        if (tune_view_has(v, i, x) && tune_view_has(v, i, y)) {
            double a = tune_view_value(v, i, x), b = tune_view_value(v, i, y);
            p[n++] = (struct draw_point){tune_view_maximizes(v, x) ? -a : a,
                                         tune_view_maximizes(v, y) ? -b : b, i};
        }
    qsort(p, n, sizeof(*p), draw_by_first);
    *out = xcalloc(n + 1, sizeof(**out));
    for (size_t i = 0; i < n; i++)
        if (p[i].y < best) {
            best = p[i].y;
            (*out)[kept++] = p[i].trial;
        }
    return kept;
}

/* ---- contour ---- */
struct draw_sample {
    double x, y, good;
};

/* Inverse distances: near trials count most.  Other categories say nothing. */
static double draw_field_at(const struct draw_sample *p, size_t n, double x, double y, double dx,
                            double dy)
{
    double sum = 0, weight = 0, nearest = INFINITY;

    for (size_t i = 0; i < n; i++) {
        double ax = fabs(p[i].x - x), ay = fabs(p[i].y - y);
        if (ax > dx || ay > dy)
            continue;
        double d2 = (dx < 1 ? 0 : ax * ax) + (dy < 1 ? 0 : ay * ay);
        /* The fourth power keeps the field near the values of trials; 1e-3, three hundredths of
         * the range, averages noise of trials that are that close. */
        double w = 1 / ((d2 + 1e-3) * (d2 + 1e-3));
        sum += w * p[i].good;
        weight += w;
        nearest = fmin(nearest, d2);
    }
    return nearest <= near_enough * near_enough ? sum / weight : NAN;
}

void draw_field(const struct tune_view *v, const struct tune_picture *p, size_t w, size_t h,
                double *out, size_t *shown)
{
    const struct tune_dim *dx = &v->space->dims[p->x], *dy = &v->space->dims[p->y];
    struct draw_axis axis = draw_axis_of(v, p->goal);
    AUTO_FREE struct draw_sample *s = xcalloc(v->n + 1, sizeof(*s));
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++) {
        double a = tune_view_code(v, i, (size_t)p->x), b = tune_view_code(v, i, (size_t)p->y);
        if (!tune_view_has(v, i, p->goal) || isnan(a) || isnan(b))
            continue;
        double at = draw_axis_at(&axis, tune_view_value(v, i, p->goal));
        s[n++] = (struct draw_sample){tune_dim_unit(dx, a), tune_dim_unit(dy, b),
                                      tune_view_maximizes(v, p->goal) ? at : 1 - at};
    }
    *shown = n;
    /* Every cell looks at every point: 6 million steps at most. */
    size_t step = n / FIELD_POINTS + 1, used = 0;
    for (size_t i = 0; i < n; i += step)
        s[used++] = s[i];
    double reach_x = tune_dim_unordered(dx) ? 0.5 / dx->count : 1;
    double reach_y = tune_dim_unordered(dy) ? 0.5 / dy->count : 1;
    for (size_t r = 0; r < h; r++)
        for (size_t c = 0; c < w; c++)
            out[r * w + c] = draw_field_at(s, used, ((double)c + 0.5) / (double)w,
                                           1 - ((double)r + 0.5) / (double)h, reach_x, reach_y);
}

/* ---- entry ---- */
/* Bad wishes come from the command line: they are errors with a sentence.  A contour without
 * parameters gets those that matter most. */
static int draw_check(const struct tune_view *v, struct tune_picture *p, struct err *e)
{
    const char *name = pictures[p->kind].name;

    if (p->goal >= v->n_goals || (p->kind == TUNE_PARETO && p->other >= v->n_goals))
        return err_set(e, ERR_INVALID,
                       "the picture %s needs objective %zu, and the study has %zu objective%s",
                       name, 1 + (p->goal >= v->n_goals ? p->goal : p->other), v->n_goals,
                       v->n_goals == 1 ? "" : "s");
    if (p->kind != TUNE_CONTOUR)
        return 0;
    if (p->x >= (long)v->space->n || p->y >= (long)v->space->n || (p->x >= 0 && p->x == p->y))
        return err_set(e, ERR_INVALID, "a contour needs two different parameters of the study");
    AUTO_FREE size_t *order = NULL;
    size_t n = draw_dims(v, p, &order);
    for (size_t i = 0; i < n && (p->x < 0 || p->y < 0); i++)
        if ((long)order[i] != p->x && (long)order[i] != p->y)
            *(p->x < 0 ? &p->x : &p->y) = (long)order[i];
    if (p->x < 0 || p->y < 0)
        return err_set(e, ERR_INVALID,
                       "a contour needs two parameters, and fewer vary in this study");
    return 0;
}

int tune_draw_svg(const struct tune_view *v, const struct tune_picture *p, struct buf *out,
                  struct err *e)
{
    struct tune_picture asked = *p;

    if (draw_check(v, &asked, e) < 0)
        return -1;
    /* Below the least width, labels would leave no room for anything else. */
    asked.width = asked.width ? asked.width : 900;
    asked.width = MIN(MAX(asked.width, (size_t)PICTURE_MIN), (size_t)PICTURE_MAX);
    pictures[p->kind].svg(v, &asked, out);
    return 0;
}

int tune_draw_text(const struct tune_view *v, const struct tune_picture *p, struct buf *out,
                   struct err *e)
{
    struct tune_picture asked = *p;

    if (!pictures[p->kind].text)
        return err_set(e, ERR_INVALID, "the picture %s does not fit a terminal; write it as SVG",
                       pictures[p->kind].name);
    if (draw_check(v, &asked, e) < 0)
        return -1;
    asked.width = asked.width ? asked.width : 80;
    asked.width = MIN(MAX(asked.width, (size_t)CELLS_MIN), (size_t)CELLS_MAX);
    pictures[p->kind].text(v, &asked, out);
    return 0;
}
