/* space_expr.c - parameters that are expressions of one draw, such as 10 ** uniform(-4, -1)
 *
 * A code is the position of the draw, so engines search evenly in what is drawn.  A value from
 * outside is led back to its draw by bisection, for which the expression must rise or fall
 * throughout.  Draws of whole numbers are few: their values become an ordered choice.
 */
#include "base/json.h"
#include "base/util.h"
#include "tune/expr_priv.h"
#include <math.h>

enum { EXPR_PROBES = 1024, EXPR_HALVINGS = 64 };

struct tune_expr {
    struct expr_step *steps;
    size_t n;
    bool log; /* of the draw */
};

double tune_expr_value(const struct tune_dim *d, double code)
{
    double x = d->from + code * d->width;

    return expr_run(d->expr->steps, d->expr->n, NULL, NULL, d->expr->log ? pow(10, x) : x);
}

double tune_expr_code(const struct tune_dim *d, double value)
{
    double lo = 0, hi = 1;
    bool rises = tune_expr_value(d, 1) > tune_expr_value(d, 0);

    for (int i = 0; i < EXPR_HALVINGS; i++) {
        double mid = (lo + hi) / 2;
        if ((tune_expr_value(d, mid) < value) == rises)
            lo = mid;
        else
            hi = mid;
    }
    double below = fabs(tune_expr_value(d, lo) - value);
    return below < fabs(tune_expr_value(d, hi) - value) ? lo : hi;
}

/* 2 ** int(5, 9) is the ordinal 32, 64, 128, 256, 512. */
static int expr_choices(struct tune_space *s, struct tune_dim *d, struct expr_reader *r)
{
    double n = r->draw.high - r->draw.low + 1;

    if (n > TUNE_CHOICES_MAX)
        return expr_bad(r, "int draws from more than 10000 numbers; use uniform");
    d->kind = TUNE_ORDINAL;
    d->choices = arena_alloc(&s->arena, (size_t)n * sizeof(*d->choices));
    d->values = arena_alloc(&s->arena, (size_t)n * sizeof(struct json *));
    d->step = 1;
    for (size_t k = 0; k < (size_t)n; k++) {
        double same, v = expr_run(r->steps, r->n, NULL, NULL, r->draw.low + (double)k);
        if (!isfinite(v))
            return expr_bad(r, "not every draw gives a finite number");
        bool whole = v == floor(v) && fabs(v) < 9e15;
        struct json *value = whole ? json_new_int((int64_t)v) : json_new_real(v);
        if (tune_dim_code_of(d, value, &same, NULL) == 0) {
            json_free(value);
            return expr_bad(r, "two draws give the same number; each must give its own");
        }
        AUTO_FREE char *text = json_text(value);
        d->choices[k] = str_of(arena_strdup(&s->arena, text));
        d->values[k] = value;
        d->count = (double)k + 1;
    }
    return 0;
}

/* Probes tell whether the values are finite and go one way. */
static int expr_range(struct tune_space *s, struct tune_dim *d, struct expr_reader *r)
{
    struct tune_expr *x = arena_alloc(&s->arena, sizeof(*x));

    x->steps = arena_alloc(&s->arena, r->n * sizeof(*x->steps));
    memcpy(x->steps, r->steps, r->n * sizeof(*x->steps));
    x->n = r->n;
    x->log = r->draw.log;
    d->kind = TUNE_FLOAT;
    d->expr = x;
    d->from = x->log ? log10(r->draw.low) : r->draw.low;
    d->width = (x->log ? log10(r->draw.high) : r->draw.high) - d->from;
    double first = tune_expr_value(d, 0), last = tune_expr_value(d, 1), before = first;
    for (int i = 1; i <= EXPR_PROBES; i++) {
        double v = tune_expr_value(d, (double)i / EXPR_PROBES);
        if (!isfinite(before) || !isfinite(v))
            return expr_bad(r, "not every draw gives a finite number");
        if (last > first ? v <= before : v >= before)
            return expr_bad(r, "the values must rise or fall throughout the draw");
        before = v;
    }
    d->low = MIN(first, last);
    d->high = MAX(first, last);
    return 0;
}

bool tune_expr_draws(struct str text)
{
    static const char *const calls[] = {"uniform", "int"}; /* and loguniform */

    for (size_t i = 0; i < text.n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(calls); k++) {
            size_t n = strlen(calls[k]);
            if (i + n >= text.n || memcmp(text.p + i, calls[k], n) != 0)
                continue;
            bool begins = i == 0 || !strchr("abcdefghijklmnopqrstuvwxyz_.", text.p[i - 1]) ||
                          (k == 0 && i >= 3 && !memcmp(text.p + i - 3, "log", 3));
            struct str rest = str_trim((struct str){text.p + i + n, text.n - i - n});
            if (begins && rest.n && rest.p[0] == '(')
                return true;
        }
    return false;
}

int tune_expr_parse(struct tune_space *s, struct tune_dim *d, struct str text, struct err *e)
{
    struct expr_reader r = {.what = "expression", .may_draw = true, .e = e};

    r.text = r.at = arena_strndup(&s->arena, text.p, text.n);
    r.end = r.text + strlen(r.text);
    if (expr_sum(&r) < 0)
        return -1;
    expr_skip_spaces(&r);
    if (r.at != r.end)
        return expr_bad(&r, "nothing may follow the sum");
    if (!r.n_draws)
        return expr_bad(&r, "there is no draw such as uniform(0, 1); write a constant");
    return r.draw.kind == TUNE_INT ? expr_choices(s, d, &r) : expr_range(s, d, &r);
}
