/* space.c - values, codes and positions of parameters, and points of a whole space
 *
 * An integer n has the cell n - 0.5 … n + 0.5, before the logarithm if there is one, so every
 * integer is as likely as its neighbours allow.  Choices have cells of equal width.
 */
#include "tune/space.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/util.h"
#include "tune/expr_priv.h"
#include <math.h>

enum { DRAWS_MAX = 2000 };

static double clamp_unit(double u)
{
    return u > 0 ? (u < 1 ? u : 1) : 0;
}

/* Rounding must not lead outside of the range. */
double tune_dim_value(const struct tune_dim *d, double code)
{
    double v;

    if (d->count > 0) {
        v = d->low + code * d->step;
        if (d->decimal > 0) /* 0.9, not 0.8999999999999999 */
            v = nearbyint(v * d->decimal) / d->decimal;
    } else if (d->expr) {
        v = tune_expr_value(d, code);
    } else {
        v = d->log ? pow(10, d->from + code * d->width) : d->low + code * d->width;
    }
    return v < d->low ? d->low : v > d->high ? d->high : v;
}

/* The inverse of tune_dim_value. */
static double numeric_code(const struct tune_dim *d, double value)
{
    if (d->count > 0)
        return nearbyint((value - d->low) / d->step);
    if (!(d->width > 0))
        return 0;
    if (d->expr)
        return tune_expr_code(d, value);
    return clamp_unit(d->log ? (log10(value) - d->from) / d->width : (value - d->low) / d->width);
}

void tune_dim_cell(const struct tune_dim *d, double code, double *out_lo, double *out_hi)
{
    if (!(d->count > 0)) {
        *out_lo = *out_hi = code;
    } else if (d->log) {
        double v = d->low + code;
        *out_lo = clamp_unit((log10(v - 0.5) - d->from) / d->width);
        *out_hi = clamp_unit((log10(v + 0.5) - d->from) / d->width);
    } else {
        *out_lo = code / d->count;
        *out_hi = (code + 1) / d->count;
    }
}

double tune_dim_unit(const struct tune_dim *d, double code)
{
    double lo, hi;

    if (!(d->count > 0))
        return code;
    tune_dim_cell(d, code, &lo, &hi);
    return (lo + hi) / 2;
}

double tune_dim_code(const struct tune_dim *d, double unit)
{
    double u = clamp_unit(unit), k;

    if (!(d->count > 0))
        return u;
    if (d->log)
        k = floor(pow(10, d->from + u * d->width) + 0.5) - d->low;
    else
        k = floor(u * d->count);
    return k < 0 ? 0 : k > d->count - 1 ? d->count - 1 : k;
}

/* Spaces are small and names are looked up when a space is read, so a list will do. */
long tune_space_find(const struct tune_space *s, struct str name)
{
    for (size_t i = 0; i < s->n; i++)
        if (str_eq_c(name, s->dims[i].name))
            return (long)i;
    return -1;
}

bool tune_space_active(const struct tune_space *s, const double *code, size_t i)
{
    const struct tune_dim *d = &s->dims[i];

    for (size_t w = 0; w < d->n_whens; w++) {
        const struct tune_when *c = &d->whens[w];
        bool met = false;
        for (size_t k = 0; k < c->n && !met; k++)
            met = code[c->parent] == c->codes[k]; /* NaN, an absent parent, equals nothing */
        if (!met)
            return false;
    }
    return true;
}

bool tune_space_allows(const struct tune_space *s, const double *code)
{
    for (size_t i = 0; i < s->n_constraints; i++)
        if (!tune_constraint_holds(s->constraints[i], s, code))
            return false;
    return true;
}

void tune_space_settle(const struct tune_space *s, double *code, struct rng *r)
{
    for (size_t i = 0; i < s->n; i++)
        if (!tune_space_active(s, code, i))
            code[i] = NAN;
        else if (isnan(code[i]))
            code[i] = tune_dim_code(&s->dims[i], rng_unit(r));
}

void tune_space_canonical(const struct tune_space *s, double *code)
{
    for (size_t i = 0; i < s->n; i++)
        if (!isnan(code[i]) && !(s->dims[i].count > 0))
            code[i] = numeric_code(&s->dims[i], tune_dim_value(&s->dims[i], code[i]));
}

bool tune_space_draw(const struct tune_space *s, double *code, struct rng *r)
{
    for (int tries = 0; tries < DRAWS_MAX; tries++) {
        for (size_t i = 0; i < s->n; i++)
            code[i] = NAN;
        tune_space_settle(s, code, r);
        if (tune_space_allows(s, code))
            return true;
    }
    return false;
}

bool tune_space_count_on(const struct tune_space *s, const double *counts, double *code, bool start)
{
    size_t at = s->n;

    /* As an odometer: the last parameter that can go on does, and those behind it begin again. */
    if (!start) {
        while (at > 0) {
            double count = counts ? counts[at - 1] : s->dims[at - 1].count;
            if (!isnan(code[at - 1]) && code[at - 1] + 1 < count)
                break;
            at--;
        }
        if (at == 0)
            return false;
        code[at - 1]++;
    } else {
        at = 0;
    }
    for (size_t i = at; i < s->n; i++)
        code[i] = tune_space_active(s, code, i) ? 0 : NAN;
    return true;
}

void tune_space_write(const struct tune_space *s, const double *code, const char *key,
                      struct buf *out)
{
    jw_object(out, key);
    for (size_t i = 0; i < s->n; i++) {
        const struct tune_dim *d = &s->dims[i];
        if (isnan(code[i]))
            continue;
        jw_key(out, str_of(d->name));
        if (d->choices)
            jw_raw(out, NULL, d->choices[(size_t)code[i]]);
        else if (d->kind == TUNE_INT)
            jw_int(out, NULL, (int64_t)tune_dim_value(d, code[i]));
        else
            jw_double(out, NULL, tune_dim_value(d, code[i]));
    }
    jw_end_object(out);
}

/* 1 and 1.0 are the same value. */
static bool same_value(const struct json *a, const struct json *b)
{
    enum json_type s = json_type(a), t = json_type(b);

    if ((s == JSON_INT || s == JSON_REAL) && (t == JSON_INT || t == JSON_REAL))
        return json_real(a) == json_real(b);
    return s == t && (s == JSON_NULL || json_equal(a, b));
}

int tune_dim_code_of(const struct tune_dim *d, const struct json *value, double *out, struct err *e)
{
    enum json_type t = json_type(value);

    if (d->choices) {
        for (size_t k = 0; k < (size_t)d->count; k++)
            if (same_value(d->values[k], value)) {
                *out = (double)k;
                return 0;
            }
        AUTO_FREE char *text = json_text(value);
        return err_set(e, ERR_INVALID, "parameter %s has no choice %.60s", d->name, text);
    }
    if (t != JSON_INT && t != JSON_REAL)
        return err_set(e, ERR_INVALID, "parameter %s takes a number, not %s", d->name,
                       json_type_name(t));
    double v = json_real(value);
    if (!(v >= d->low && v <= d->high))
        return err_set(e, ERR_INVALID, "parameter %s is %g; its range is %g to %g", d->name, v,
                       d->low, d->high);
    double code = numeric_code(d, v), back = tune_dim_value(d, code);
    if (d->count > 0 && fabs(back - v) > 1e-9 * d->step)
        return err_set(e, ERR_INVALID, "parameter %s is %g, which is no step of %g from %g",
                       d->name, v, d->step, d->low);
    *out = code;
    return 0;
}

int tune_space_read(const struct tune_space *s, const struct json *params, double *out_code,
                    struct err *e)
{
    size_t given = 0;

    if (json_type(params) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "params must be an object such as {\"lr\": 0.1}");
    for (size_t i = 0; i < s->n; i++) {
        const char *name = s->dims[i].name;
        bool has = json_has(params, name), active = tune_space_active(s, out_code, i);
        given += has;
        out_code[i] = NAN;
        if (active && !has)
            return err_set(e, ERR_INVALID, "params lacks the parameter %s", name);
        if (!active && has)
            return err_set(e, ERR_INVALID,
                           "params has the parameter %s, whose condition does not hold", name);
        if (has && tune_dim_code_of(&s->dims[i], json_get(params, name), &out_code[i], e) < 0)
            return -1;
    }
    if (given < json_len(params))
        for (struct json_it it = {0}; json_next(params, &it);)
            if (tune_space_find(s, str_of(it.key)) < 0)
                return err_set(e, ERR_INVALID, "params has %.60s, which the space does not know",
                               it.key);
    return 0;
}
