/* expr_priv.h - sums over numbers, parameters and draws: what constraints and expressions share
 *
 * Numbers, names of numeric parameters, + - * / **, brackets, the functions exp, log, log10 and
 * sqrt, and, in expressions of parameters, one draw: uniform(a, b), loguniform(a, b) or int(a, b).
 * A sum is kept as a list of steps for a stack.
 */
#pragma once
#include "tune/space.h"

enum { EXPR_STEPS_MAX = 200, EXPR_BRACKETS_MAX = 20 };
enum expr_op {
    PUSH_NUMBER,
    PUSH_PARAM,
    PUSH_DRAW,
    ADD,
    SUB,
    MUL,
    DIV,
    POW,
    NEG,
    EXP,
    LOG,
    LOG10,
    SQRT
};

struct expr_step {
    enum expr_op op;
    size_t param;
    double number;
};

/* The number that an expression draws. */
struct expr_draw {
    enum tune_kind kind; /* TUNE_FLOAT or TUNE_INT */
    bool log;
    double low, high;
};

struct expr_reader {
    const struct tune_space *s; /* whose parameters may be named; NULL = none */
    const char *what;           /* "constraint", "expression" */
    const char *text, *at, *end;
    struct expr_step steps[EXPR_STEPS_MAX];
    size_t n;
    int brackets;
    bool may_draw;
    size_t n_draws; /* 0 or 1 */
    struct expr_draw draw;
    struct err *e;
};

/* Reads a sum and appends its steps; a message names the column. */
int expr_sum(struct expr_reader *r);
/* Reads the word if it is next. */
bool expr_takes(struct expr_reader *r, const char *word);
void expr_skip_spaces(struct expr_reader *r);
int expr_bad(struct expr_reader *r, const char *what);
/* The value; NaN when a parameter is absent. */
double expr_run(const struct expr_step *steps, size_t n, const struct tune_space *s,
                const double *code, double draw);

/* space_expr.c: a parameter whose value is an expression of one draw. */
/* Fills in the kind, range or choices of d. */
int tune_expr_parse(struct tune_space *s, struct tune_dim *d, struct str text, struct err *e);
/* Does this text have a draw, so that it is an expression and no constant? */
bool tune_expr_draws(struct str text);
double tune_expr_value(const struct tune_dim *d, double code);
/* The other direction, for values from low to high. */
double tune_expr_code(const struct tune_dim *d, double value);
