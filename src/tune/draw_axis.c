/* draw_axis.c - ranges, ticks and labels of the axes of pictures
 *
 * An axis maps values to positions 0 … 1; what a position is in pixels or cells is not known here.
 * Any finite values are legal, also huge, tiny and equal ones: a result from outside must never
 * make a position that is no number.
 */
#include "base/json.h"
#include "base/table.h"
#include "base/util.h"
#include "tune/draw_priv.h"
#include <math.h>

enum { FENCE = 3, LOG_SPAN = 1000, SPREAD_MAX = 16 };
/* Beyond these, differences and quotients of two values would be no numbers. */
static const double largest = 1e250, smallest = 1e-250;
static const double margin_part = 0.04;

void draw_clean(struct buf *out, struct str text, size_t cells)
{
    size_t used = 0, last = out->n;

    for (size_t i = 0; i < text.n;) {
        uint32_t cp = 0;
        size_t n = utf8_decode((struct str){text.p + i, text.n - i}, &cp);
        struct str one = {text.p + i, n};
        /* Controls, what turns the direction of writing, and what XML does not allow. */
        bool bad = !n || cp < ' ' || (cp >= 0x7f && cp < 0xa0) || (cp >= 0x200e && cp <= 0x200f) ||
                   (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) ||
                   (cp >= 0xd800 && cp < 0xe000) || cp >= 0xfffe;
        if (bad)
            one = STR("?");
        size_t wide = text_width(one);
        if (used + wide > cells) { /* the last character that left room for it makes way for "…" */
            out->n = last;
            if (out->p)
                out->p[last] = 0;
            buf_adds(out, "…");
            return;
        }
        if (used + wide < cells)
            last = out->n + one.n;
        used += wide;
        buf_add(out, one.p, one.n);
        i += n ? n : 1;
    }
}

/* "1e-05" and "1e+06" become "1e-5" and "1e6". */
static void draw_tidy_exponent(char *s)
{
    char *e = strchr(s, 'e');

    if (!e)
        return;
    char *to = e + 1, *from = e + 1;
    if (*from == '-')
        *to++ = *from++;
    else if (*from == '+')
        from++;
    while (*from == '0' && from[1])
        from++;
    memmove(to, from, strlen(from) + 1);
}

void draw_number(double x, char out[32])
{
    snprintf(out, 32, "%.4g", x == 0 ? 0.0 : x);
    draw_tidy_exponent(out);
}

/* ---- ranges ---- */
static int draw_by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double draw_bounded(double x)
{
    return fabs(x) < smallest ? 0 : fmin(fmax(x, -largest), largest);
}

/* Room on both sides: what lies on the edge is hard to see. */
static void draw_axis_widen(struct draw_axis *a)
{
    double by = (a->hi - a->lo) * margin_part;

    if (a->log) {
        double times = pow(10, margin_part * (log10(a->hi) - log10(a->lo)));
        a->lo /= times;
        a->hi *= times;
        return;
    }
    if (!(by > 0))
        by = a->lo == 0 ? 0.5 : fabs(a->lo) * margin_part;
    a->lo -= by;
    a->hi += by;
}

struct draw_axis draw_axis_of(const struct tune_view *v, size_t goal)
{
    AUTO_FREE double *x = xcalloc(v->n + 1, sizeof(*x));
    struct draw_axis a = {.lo = 0, .hi = 1};
    size_t n = 0;

    for (size_t i = 0; i < v->n; i++)
        if (tune_view_has(v, i, goal))
            x[n++] = draw_bounded(tune_view_value(v, i, goal));
    if (!n)
        return a;
    qsort(x, n, sizeof(*x), draw_by_size);
    /* The good side is shown as far as it goes; on the bad side one diverged trial would press all
     * others into a line. */
    a.lo = x[0];
    a.hi = x[n - 1];
    double q1 = x[n / 4], q3 = x[n * 3 / 4], reach = FENCE * (q3 - q1);
    if (reach > 0 && tune_view_maximizes(v, goal))
        a.lo = fmax(a.lo, q1 - reach);
    else if (reach > 0)
        a.hi = fmin(a.hi, q3 + reach);
    /* Losses of many sizes: a linear axis would show the good ones as one line. */
    if (!tune_view_maximizes(v, goal) && a.lo > 0 && x[n / 2] / a.lo >= LOG_SPAN / 10.0 &&
        x[n - 1] / a.lo >= LOG_SPAN) {
        a.log = true;
        a.hi = x[n - 1];
    }
    for (size_t i = 0; i < n; i++) {
        a.below += x[i] < a.lo;
        a.above += x[i] > a.hi;
    }
    draw_axis_widen(&a);
    return a;
}

double draw_axis_at(const struct draw_axis *a, double value)
{
    double x = draw_bounded(value), at;

    if (a->log)
        at = (log10(fmax(x, a->lo)) - log10(a->lo)) / (log10(a->hi) - log10(a->lo));
    else
        at = (x - a->lo) / (a->hi - a->lo);
    return at > 0 ? fmin(at, 1) : 0;
}

/* ---- ticks ---- */
/* Distances that people count in: 1, 2 or 5 times a power of ten, so that at most `want` fit into
 * the span. */
static double draw_nice_step(double span, size_t want)
{
    double raw = span / (double)MAX(want, (size_t)2), size = pow(10, floor(log10(raw)));

    for (int i = 0; i < 3; i++) {
        static const double steps[] = {1, 2, 5};
        if (raw <= steps[i] * size * (1 + 1e-9))
            return steps[i] * size;
    }
    return 10 * size;
}

/* Values for ticks of a range; their number. */
static size_t draw_nice_values(double lo, double hi, bool log, size_t want, double *out)
{
    size_t n = 0;

    want = MIN(want, (size_t)DRAW_TICKS - 1);
    /* Powers of ten, or every second, third … of them.  Less than a decade is divided evenly. */
    if (log && hi / lo >= 10) {
        double first = ceil(log10(lo) - 1e-9), last = floor(log10(hi) + 1e-9);
        double step = ceil((last - first + 1) / (double)want);
        for (double k = first; k <= last && n < DRAW_TICKS; k += step)
            out[n++] = pow(10, k);
        if (n >= 2)
            return n;
        n = 0;
    }
    double step = hi > lo ? draw_nice_step(hi - lo, want) : 0;
    if (!(step > 0) || !isfinite(step)) {
        out[n++] = lo;
        return n;
    }
    for (double k = ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9 && n < DRAW_TICKS; k++) {
        double x = k * step;
        if (n && !(x > out[n - 1])) /* the range is narrower than the precision of numbers */
            break;
        out[n++] = x;
    }
    return n;
}

/* As many digits as neighbours need to differ. */
static void draw_tick_text(double x, double step, char out[DRAW_LABEL])
{
    double digits = x != 0 && step > 0 ? floor(log10(fabs(x) / step) + 1e-9) + 2 : 4;

    snprintf(out, DRAW_LABEL, "%.*g", (int)fmin(fmax(digits, 4), 15), x == 0 ? 0.0 : x);
    draw_tidy_exponent(out);
}

size_t draw_axis_ticks(const struct draw_axis *a, size_t want, struct draw_tick *out)
{
    double x[DRAW_TICKS];
    size_t n = draw_nice_values(a->lo, a->hi, a->log, want, x);

    for (size_t i = 0; i < n; i++) {
        out[i].at = draw_axis_at(a, x[i]);
        draw_tick_text(x[i], n > 1 ? fabs(x[1] - x[0]) : 0, out[i].text);
    }
    return n;
}

/* A choice is JSON: a plain text stands without its quotes. */
static void draw_choice_text(struct str json, size_t cells, char out[DRAW_LABEL])
{
    AUTO(buf) struct buf b = {0};

    if (json.n > 2 && json.p[0] == '"' && !memchr(json.p, '\\', json.n))
        json = (struct str){json.p + 1, json.n - 2};
    draw_clean(&b, json, cells);
    snprintf(out, DRAW_LABEL, "%s", b.p ? b.p : "");
}

/* The position of a number. */
static double draw_dim_at(const struct tune_dim *d, double value)
{
    if (d->count > 0)
        return tune_dim_unit(d, nearbyint((value - d->low) / d->step));
    if (!(d->width > 0))
        return 0;
    return ((d->log ? log10(value) : value) - d->from) / d->width;
}

/* Multiples of the golden ratio spread evenly, and look like chance without being it. */
double draw_dot_at(const struct tune_dim *d, double code, size_t trial)
{
    double lo, hi, part = fmod((double)trial * 0.6180339887498949, 1) - 0.5;

    if (!(d->count > 0) || d->count > SPREAD_MAX)
        return tune_dim_unit(d, code);
    tune_dim_cell(d, code, &lo, &hi);
    return (lo + hi) / 2 + part * (hi - lo) * 0.5;
}

size_t draw_dim_ticks(const struct tune_dim *d, size_t want, size_t cells, struct draw_tick *out)
{
    double x[DRAW_TICKS], count = d->count;
    size_t n = 0;

    want = MIN(want, (size_t)DRAW_TICKS);
    /* Few values: each has its tick.  Of many choices, every second, third … has. */
    if (d->choices || (count > 0 && count <= (double)want)) {
        double step = ceil(count / (double)want);
        for (double k = 0; k < count && n < want; k += step) {
            out[n].at = tune_dim_unit(d, k);
            if (d->choices)
                draw_choice_text(d->choices[(size_t)k], cells, out[n].text);
            else
                draw_tick_text(tune_dim_value(d, k), 0, out[n].text);
            n++;
        }
        return n;
    }
    size_t found = draw_nice_values(d->low, d->high, d->log, want, x);
    for (size_t i = 0; i < found; i++) {
        if (d->count > 0) /* only values that exist */
            x[i] = d->low + nearbyint((x[i] - d->low) / d->step) * d->step;
        double at = draw_dim_at(d, x[i]);
        if (!(at >= -1e-9 && at <= 1 + 1e-9) || (n && at <= out[n - 1].at))
            continue;
        out[n].at = at;
        draw_tick_text(x[i], found > 1 && !d->log ? fabs(x[1] - x[0]) : 0, out[n].text);
        n++;
    }
    return n;
}
