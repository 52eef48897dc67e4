/* space.h - the parameters that a study varies: their kinds, ranges, conditions and constraints
 *
 * A point is one double per parameter, its code: for a continuous parameter a number from 0 to 1
 * (on the logarithm for `log`), for one with finitely many values the index of the value, and NaN
 * for a parameter whose condition does not hold.  Engines see codes only.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/rand.h"

struct json;
struct tune_expr;

enum tune_kind { TUNE_FLOAT, TUNE_INT, TUNE_CAT, TUNE_ORDINAL, TUNE_CONST };
enum { TUNE_DIMS_MAX = 1000, TUNE_CHOICES_MAX = 10000, TUNE_CONSTRAINTS_MAX = 100 };

/* One clause of `when`: the parameter exists while the parent has one of these codes. */
struct tune_when {
    size_t parent; /* an earlier parameter with finitely many values */
    double *codes;
    size_t n;
};

struct tune_dim {
    const char *name;
    enum tune_kind kind;
    bool log;
    bool decides;           /* another parameter's condition asks for this one */
    double low, high, step; /* numbers only; step 0 = continuous */
    double count;           /* number of values; 0 = continuous */
    double decimal;         /* values are whole multiples of 1 / decimal; 0 = not known */
    double from, width; /* of the range, its decimal logarithm; integers with half a cell more */
    struct tune_expr *expr; /* a float whose value is an expression of the draw; NULL = the draw */
    struct str *choices;    /* cat, ordinal and const: the values as JSON text */
    struct json **values;   /* the same as trees */
    struct tune_when *whens;
    size_t n_whens;
};

struct tune_constraint;
struct tune_space {
    struct arena arena; /* owns everything below but the trees of `values` */
    struct tune_dim *dims;
    size_t n;
    struct tune_constraint **constraints;
    size_t n_constraints;
    bool finite;      /* no continuous parameter */
    bool conditional; /* at least one condition */
};

/* `items` is the list of parameters, `constraints` a list of texts such as "a + b <= 1", or NULL.
 * The error names the parameter.  The caller frees *out. */
int tune_space_parse(const struct json *items, const struct json *constraints,
                     struct tune_space **out, struct err *e);
/* space_short.c: a map as in YAML: {lr: {log: [1e-5, 0.1]}, opt: [adam, sgd], net: {layers: {int:
 * [1, 8]}}}.  Nested parameters have their path as their name (net.layers).  Errors begin with the
 * path.  The caller frees *out. */
int tune_space_from_short(const struct json *map, struct tune_space **out, struct err *e);
int tune_space_from_short_rules(const struct json *map, const struct json *constraints,
                                struct tune_space **out, struct err *e);
void tune_space_free(struct tune_space *s);
/* The parameter of this name, or -1. */
long tune_space_find(const struct tune_space *s, struct str name);

/* The value of a float or integer parameter. */
double tune_dim_value(const struct tune_dim *d, double code);
/* Position in 0 … 1: the code itself when continuous, else the middle of the value's cell. */
double tune_dim_unit(const struct tune_dim *d, double code);
/* The code at a position; positions outside of 0 … 1 count as the nearer end. */
double tune_dim_code(const struct tune_dim *d, double unit);
/* The cell of a finite value, as positions; a continuous code is a cell without width. */
void tune_dim_cell(const struct tune_dim *d, double code, double *out_lo, double *out_hi);
/* Are there values between which nothing is nearer or farther? */
static inline bool tune_dim_unordered(const struct tune_dim *d)
{
    return d->kind == TUNE_CAT;
}
/* The code of a value from outside; the error says which values are legal. */
int tune_dim_code_of(const struct tune_dim *d, const struct json *value, double *out,
                     struct err *e);

/* Do all conditions of parameter i hold?  The codes before i are final. */
bool tune_space_active(const struct tune_space *s, const double *code, size_t i);
/* Do all constraints hold?  One that asks for an absent parameter holds. */
bool tune_space_allows(const struct tune_space *s, const double *code);
/* NaN for parameters whose conditions do not hold; a missing code of one that exists is drawn. */
void tune_space_settle(const struct tune_space *s, double *code, struct rng *r);
/* The codes as tune_space_read makes them from the values of this point: they can differ in the
 * last bits. */
void tune_space_canonical(const struct tune_space *s, double *code);
/* A point at random; false: no draw of many met the constraints. */
bool tune_space_draw(const struct tune_space *s, double *code, struct rng *r);
/* The next point of a finite space in the order of counting, or the first when `start`; false: it
 * was the last.  `counts` replaces the numbers of values (a grid's), NULL = all values. */
bool tune_space_count_on(const struct tune_space *s, const double *counts, double *code,
                         bool start);
/* {"lr":0.1,"opt":"adam"}: the parameters that exist. */
void tune_space_write(const struct tune_space *s, const double *code, const char *key,
                      struct buf *out);
/* The other direction; the error names the parameter that is missing, unknown or out of range. */
int tune_space_read(const struct tune_space *s, const struct json *params, double *out_code,
                    struct err *e);

/* constraint.c */
int tune_constraint_parse(struct tune_space *s, struct str text, struct tune_constraint **out,
                          struct err *e);
bool tune_constraint_holds(const struct tune_constraint *c, const struct tune_space *s,
                           const double *code);
