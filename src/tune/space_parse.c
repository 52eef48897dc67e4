/* space_parse.c - a space from its description: a list of parameters, each an object
 *
 *   {"name": "lr", "type": "float", "low": 1e-5, "high": 0.1, "log": true}
 *   {"name": "layers", "type": "int", "low": 1, "high": 8, "step": 1}
 *   {"name": "opt", "type": "cat", "choices": ["adam", "sgd"]}
 *   {"name": "size", "type": "ordinal", "choices": ["s", "m", "l"]}
 *   {"name": "epochs", "type": "const", "value": 10}
 *   {"name": "wd", "type": "expr", "value": "10 ** uniform(-4, -1)"}
 *   {"name": "momentum", …, "when": {"opt": ["sgd"]}}
 *
 * Everything that is wrong is an error here, with the name of the parameter, so that engines meet
 * legal spaces only.
 */
#include "base/json.h"
#include "base/util.h"
#include "base/vec.h"
#include "tune/expr_priv.h"
#include <math.h>

static const char *const space_keys[] = {"name", "type",    "low",  "high", "log",
                                         "step", "choices", "when", "value"};
static const char *const kind_names[] = {"float", "int", "cat", "ordinal", "const"};
/* Indices beyond this are not exact as doubles, and integers beyond it not as reals. */
static const double count_max = 4503599627370496.0;

/* A parameter that is being read. */
struct dim_reader {
    struct tune_space *s;
    struct tune_dim *d;
    const struct json *item;
    struct err *e;
};

static int dim_bad(const struct dim_reader *r, const char *what)
{
    return err_set(r->e, ERR_INVALID, "parameter %.60s: %s", r->d->name, what);
}

/* A misspelt key would otherwise be a default that nobody meant. */
static int read_keys(const struct dim_reader *r)
{
    for (struct json_it it = {0}; json_next(r->item, &it);) {
        bool known = false;
        for (size_t i = 0; i < ARRAY_SIZE(space_keys); i++)
            known |= !strcmp(it.key, space_keys[i]);
        if (known)
            continue;
        const char *near = str_nearest(it.key, space_keys, ARRAY_SIZE(space_keys));
        return err_set(r->e, ERR_INVALID, "parameter %.60s: unknown key %.40s%s%s", r->d->name,
                       it.key, near ? "; did you mean " : "", near ? near : "");
    }
    return 0;
}

static int read_name(struct dim_reader *r, size_t index)
{
    const struct json *name = json_get(r->item, "name");
    struct str text = json_str(name);

    if (json_type(r->item) != JSON_OBJECT)
        return err_set(r->e, ERR_INVALID, "space[%zu] is %s; a parameter is an object", index,
                       json_type_name(json_type(r->item)));
    if (json_type(name) != JSON_STR || !text.n || memchr(text.p, 0, text.n))
        return err_set(r->e, ERR_INVALID, "space[%zu] has no name; add \"name\": \"…\"", index);
    if (tune_space_find(r->s, text) >= 0)
        return err_set(r->e, ERR_INVALID, "two parameters have the name %.60s; rename one", text.p);
    r->d->name = arena_strndup(&r->s->arena, text.p, text.n);
    return 0;
}

static int read_kind(struct dim_reader *r)
{
    struct str type = json_get_str(r->item, "type");

    for (size_t i = 0; i < ARRAY_SIZE(kind_names); i++)
        if (str_eq_c(type, kind_names[i])) {
            r->d->kind = (enum tune_kind)i;
            return 0;
        }
    return dim_bad(r, "type must be float, int, cat, ordinal, const or expr");
}

/* A finite number; an absent one is `otherwise`, which is an error when it is NaN. */
static int read_number(struct dim_reader *r, const char *key, double otherwise, double *out)
{
    const struct json *v = json_get(r->item, key);
    enum json_type t = json_type(v);

    *out = v ? json_real(v) : otherwise;
    if ((v && t != JSON_INT && t != JSON_REAL) || !isfinite(*out))
        return err_set(r->e, ERR_INVALID, "parameter %.60s: %s must be a finite number", r->d->name,
                       key);
    return 0;
}

/* low, high, log and step, as far as they can be judged without the type. */
static int read_range(struct dim_reader *r)
{
    struct tune_dim *d = r->d;
    const struct json *log = json_get(r->item, "log");

    if (json_get(r->item, "choices") || json_get(r->item, "value"))
        return dim_bad(r, "a number has low and high, no choices and no value");
    if (log && json_type(log) != JSON_BOOL)
        return dim_bad(r, "log must be true or false");
    d->log = json_bool(log);
    if (read_number(r, "low", NAN, &d->low) < 0 || read_number(r, "high", NAN, &d->high) < 0 ||
        read_number(r, "step", 0, &d->step) < 0)
        return -1;
    if (d->low > d->high)
        return dim_bad(r, "low is above high; swap them");
    if (!isfinite(d->high - d->low))
        return dim_bad(r, "the range from low to high is too wide");
    if (d->step < 0 || (json_get(r->item, "step") && !(d->step > 0)))
        return dim_bad(r, "step must be above 0");
    if (d->log && !(d->low > 0))
        return dim_bad(r, "log needs low above 0");
    return 0;
}

/* Beyond 2^52 neighbours would be the same double. */
static int finish_int(struct dim_reader *r)
{
    struct tune_dim *d = r->d;

    if (d->low != floor(d->low) || d->high != floor(d->high) || d->step != floor(d->step))
        return dim_bad(r, "low, high and step of an int must be whole numbers");
    if (fabs(d->low) > count_max || fabs(d->high) > count_max)
        return dim_bad(r, "an int must be within 2^52 of 0");
    if (d->log && d->step > 1)
        return dim_bad(r, "log and step exclude each other");
    if (!(d->step > 0))
        d->step = 1;
    return 0;
}

/* The smallest power of ten that makes low and step whole numbers, 0 = there is none. */
static double decimal_of(const struct tune_dim *d)
{
    for (double q = 1; q < 1e13; q *= 10) {
        double low = d->low * q, step = d->step * q;
        if (fabs(low) < count_max && fabs(low - nearbyint(low)) < 1e-9 * fabs(low) + 1e-12 &&
            fabs(step - nearbyint(step)) < 1e-9 * step)
            return q;
    }
    return 0;
}

/* Number of values, and where positions 0 … 1 lie. */
static int finish_number(struct dim_reader *r)
{
    struct tune_dim *d = r->d;

    if (d->kind == TUNE_INT && finish_int(r) < 0)
        return -1;
    if (d->kind == TUNE_FLOAT && d->log && d->step > 0)
        return dim_bad(r, "log and step exclude each other");
    if (d->step > 0) {
        /* The allowance keeps 0.9 in 0 … 0.9 by 0.3. */
        d->count = floor((d->high - d->low) / d->step + 1e-9) + 1;
        if (d->count > count_max)
            return dim_bad(r, "there are more than 2^52 steps from low to high");
        d->decimal = decimal_of(d);
        d->high = MIN(d->high, tune_dim_value(d, d->count - 1));
    }
    double half = d->kind == TUNE_INT && d->log ? 0.5 : 0;
    d->from = d->log ? log10(d->low - half) : d->low;
    d->width = (d->log ? log10(d->high + half) : d->high) - d->from;
    if (!(d->count > 0) && !(d->width > 0)) /* one value, although continuous */
        d->count = d->step = 1;
    return 0;
}

/* The values of cat, ordinal and const, each once. */
static int read_choices(struct dim_reader *r)
{
    struct tune_dim *d = r->d;
    bool constant = d->kind == TUNE_CONST;
    const struct json *list = json_get(r->item, "choices");
    size_t n = constant ? 1 : json_len(list);

    if (constant ? !json_has(r->item, "value") || list : json_type(list) != JSON_ARRAY || !n)
        return dim_bad(r, constant ? "a const has a value and no choices"
                                   : "choices must be a list with at least one value");
    if (json_get(r->item, "low") || json_get(r->item, "high") || json_get(r->item, "log") ||
        json_get(r->item, "step"))
        return dim_bad(r, "low, high, log and step belong to float and int");
    if (n > TUNE_CHOICES_MAX)
        return dim_bad(r, "there are more than 10000 choices");
    d->choices = arena_alloc(&r->s->arena, n * sizeof(*d->choices));
    d->values = arena_alloc(&r->s->arena, n * sizeof(struct json *));
    for (size_t k = 0; k < n; k++) {
        double same;
        const struct json *v = constant ? json_get(r->item, "value") : json_at(list, k);
        if (k > 0 && tune_dim_code_of(d, v, &same, NULL) == 0)
            return dim_bad(r, "two choices are equal; remove one");
        AUTO_FREE char *text = json_text(v);
        d->choices[k] = str_of(arena_strdup(&r->s->arena, text));
        d->values[k] = v ? json_copy(v) : NULL;
        d->count = (double)k + 1;
    }
    d->step = 1;
    return 0;
}

/* One clause: "opt": ["sgd"], or a single value. */
static int read_clause(struct dim_reader *r, struct tune_when *w, const char *parent,
                       const struct json *values)
{
    long at = tune_space_find(r->s, str_of(parent));
    bool list = json_type(values) == JSON_ARRAY;
    size_t n = list ? json_len(values) : 1;

    if (at < 0)
        return err_set(r->e, ERR_INVALID,
                       "parameter %.60s: when names %.60s, which is no parameter before it",
                       r->d->name, parent);
    struct tune_dim *p = &r->s->dims[at];
    if (!(p->count > 0))
        return err_set(r->e, ERR_INVALID,
                       "parameter %.60s: when needs a parent with finitely many values, and %.60s "
                       "is continuous",
                       r->d->name, p->name);
    if (!n)
        return dim_bad(r, "a list of when is empty, so the parameter would never exist");
    w->parent = (size_t)at;
    w->codes = arena_alloc(&r->s->arena, n * sizeof(double));
    w->n = n;
    p->decides = true;
    for (size_t k = 0; k < n; k++)
        if (tune_dim_code_of(p, list ? json_at(values, k) : values, &w->codes[k], r->e) < 0)
            return err_wrap(r->e, "parameter %.60s: when", r->d->name);
    return 0;
}

static int read_when(struct dim_reader *r)
{
    const struct json *when = json_get(r->item, "when");

    if (!when)
        return 0;
    if (json_type(when) != JSON_OBJECT || json_len(when) > TUNE_DIMS_MAX)
        return dim_bad(r, "when must be an object such as {\"opt\": [\"sgd\"]}");
    r->d->whens = arena_alloc(&r->s->arena, (json_len(when) + 1) * sizeof(struct tune_when));
    for (struct json_it it = {0}; json_next(when, &it);)
        if (read_clause(r, &r->d->whens[r->d->n_whens++], it.key, it.val) < 0)
            return -1;
    r->s->conditional |= r->d->n_whens > 0;
    return 0;
}

/* "type": "expr" becomes a float or an ordinal. */
static int read_expr(struct dim_reader *r)
{
    const struct json *text = json_get(r->item, "value");

    for (struct json_it it = {0}; json_next(r->item, &it);)
        if (strcmp(it.key, "name") != 0 && strcmp(it.key, "type") != 0 &&
            strcmp(it.key, "value") != 0 && strcmp(it.key, "when") != 0)
            return dim_bad(r, "an expr has a value and no range or choices");
    if (json_type(text) != JSON_STR)
        return dim_bad(r, "the value of an expr is a text such as \"10 ** uniform(-4, -1)\"");
    if (tune_expr_parse(r->s, r->d, json_str(text), r->e) < 0)
        return err_wrap(r->e, "parameter %.60s", r->d->name);
    return 0;
}

static int read_values(struct dim_reader *r)
{
    if (str_eq_c(json_get_str(r->item, "type"), "expr"))
        return read_expr(r);
    if (read_kind(r) < 0)
        return -1;
    if (r->d->kind == TUNE_FLOAT || r->d->kind == TUNE_INT)
        return read_range(r) < 0 ? -1 : finish_number(r);
    return read_choices(r);
}

static int read_dim(struct tune_space *s, const struct json *item, struct err *e)
{
    struct dim_reader r = {s, &s->dims[s->n], item, e};

    if (read_name(&r, s->n) < 0 || read_keys(&r) < 0 || read_values(&r) < 0 || read_when(&r) < 0)
        return -1;
    s->finite &= r.d->count > 0;
    return 0;
}

static int read_constraints(struct tune_space *s, const struct json *list, struct err *e)
{
    size_t n = json_len(list);

    if (!list)
        return 0;
    if (json_type(list) != JSON_ARRAY || n > TUNE_CONSTRAINTS_MAX)
        return err_set(e, ERR_INVALID, "constraints must be a list of at most %d texts",
                       TUNE_CONSTRAINTS_MAX);
    s->constraints = arena_alloc(&s->arena, n * sizeof(struct tune_constraint *));
    for (size_t i = 0; i < n; i++) {
        const struct json *text = json_at(list, i);
        if (json_type(text) != JSON_STR)
            return err_set(e, ERR_INVALID, "constraints[%zu] is %s; write a text such as \"a < b\"",
                           i, json_type_name(json_type(text)));
        if (tune_constraint_parse(s, json_str(text), &s->constraints[i], e) < 0)
            return -1;
        s->n_constraints++;
    }
    return 0;
}

int tune_space_parse(const struct json *items, const struct json *constraints,
                     struct tune_space **out, struct err *e)
{
    size_t n = json_len(items);

    if (json_type(items) != JSON_ARRAY || !n)
        return err_set(e, ERR_INVALID, "space must be a list with at least one parameter");
    if (n > TUNE_DIMS_MAX)
        return err_set(e, ERR_LIMIT, "the space has %zu parameters; at most %d are possible", n,
                       TUNE_DIMS_MAX);
    struct tune_space *s = xcalloc(1, sizeof(*s));
    s->finite = true;
    s->dims = arena_alloc(&s->arena, n * sizeof(*s->dims));
    for (; s->n < n; s->n++)
        if (read_dim(s, json_at(items, s->n), e) < 0) {
            s->n++; /* its trees are freed too */
            tune_space_free(s);
            return -1;
        }
    if (read_constraints(s, constraints, e) < 0) {
        tune_space_free(s);
        return -1;
    }
    *out = s;
    return 0;
}

void tune_space_free(struct tune_space *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; s->dims[i].values && k < (size_t)s->dims[i].count; k++)
            json_free(s->dims[i].values[k]);
    arena_done(&s->arena);
    free(s);
}
