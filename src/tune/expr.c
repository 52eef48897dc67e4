/* expr.c - the reader of sums over numbers, parameters and draws, and their value */
#include "base/util.h"
#include "tune/expr_priv.h"
#include <ctype.h>
#include <math.h>

int expr_bad(struct expr_reader *r, const char *what)
{
    return err_set(r->e, ERR_INVALID, "%s \"%.80s\", column %d: %s", r->what, r->text,
                   (int)(r->at - r->text) + 1, what);
}

void expr_skip_spaces(struct expr_reader *r)
{
    while (r->at < r->end && isspace((unsigned char)*r->at))
        r->at++;
}

bool expr_takes(struct expr_reader *r, const char *word)
{
    size_t n = strlen(word);

    expr_skip_spaces(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static int expr_emit(struct expr_reader *r, enum expr_op op, size_t param, double x)
{
    if (r->n == EXPR_STEPS_MAX)
        return expr_bad(r, "this is too long; split it in two");
    r->steps[r->n++] = (struct expr_step){op, param, x};
    return 0;
}

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || (unsigned char)c >= 0x80;
}

static int expr_call(struct expr_reader *r, struct str name);

static int expr_name(struct expr_reader *r)
{
    const char *start = r->at;

    while (r->at < r->end && is_name_byte(*r->at))
        r->at++;
    struct str name = {start, (size_t)(r->at - start)};
    expr_skip_spaces(r);
    if (r->at < r->end && *r->at == '(')
        return expr_call(r, name);
    long i = r->s ? tune_space_find(r->s, name) : -1;
    if (i < 0 || r->s->dims[i].choices) {
        r->at = start;
        return expr_bad(r, i < 0 ? "no parameter has this name"
                                 : "only numeric parameters can be compared");
    }
    return expr_emit(r, PUSH_PARAM, (size_t)i, 0);
}

/* Digits, a point and an exponent; signs belong to sums. */
static int expr_number(struct expr_reader *r)
{
    const char *start = r->at;
    double x;

    while (r->at < r->end && (isdigit((unsigned char)*r->at) || *r->at == '.'))
        r->at++;
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '-' || *r->at == '+'))
            r->at++;
        while (r->at < r->end && isdigit((unsigned char)*r->at))
            r->at++;
    }
    if (!str_to_double((struct str){start, (size_t)(r->at - start)}, &x)) {
        r->at = start;
        return expr_bad(r, "this is no number");
    }
    return expr_emit(r, PUSH_NUMBER, 0, x);
}

static int expr_atom(struct expr_reader *r);

/* An argument of a draw: a number, perhaps with a sign. */
static int expr_limit(struct expr_reader *r, double *out)
{
    bool minus = expr_takes(r, "-");
    size_t before = r->n;

    expr_skip_spaces(r);
    if (r->at == r->end || !(isdigit((unsigned char)*r->at) || *r->at == '.'))
        return expr_bad(r, "a draw takes two numbers, such as uniform(0, 1)");
    if (expr_number(r) < 0)
        return -1;
    r->n = before;
    *out = minus ? -r->steps[before].number : r->steps[before].number;
    return 0;
}

/* uniform(-4, -1): an expression draws once, so that its value tells what was drawn. */
static int expr_draw_call(struct expr_reader *r, enum tune_kind kind, bool log_scale)
{
    struct expr_draw d = {.kind = kind, .log = log_scale};
    bool whole = kind == TUNE_INT;

    if (!r->may_draw)
        return expr_bad(r, "nothing can be drawn in a constraint; name a parameter");
    if (r->n_draws)
        return expr_bad(r, "an expression has one draw; make the other one a parameter");
    expr_takes(r, "(");
    if (expr_limit(r, &d.low) < 0)
        return -1;
    if (!expr_takes(r, ","))
        return expr_bad(r, "a draw takes two numbers, such as uniform(0, 1)");
    if (expr_limit(r, &d.high) < 0)
        return -1;
    if (!expr_takes(r, ")"))
        return expr_bad(r, "a ) is missing");
    if (!(d.low < d.high) || !isfinite(d.high - d.low))
        return expr_bad(r, "the first number of a draw must be below the second");
    if (log_scale && !(d.low > 0))
        return expr_bad(r, "loguniform must begin above 0");
    if (whole && (d.low != floor(d.low) || d.high != floor(d.high)))
        return expr_bad(r, "int draws whole numbers; use uniform for real ones");
    r->draw = d;
    r->n_draws++;
    return expr_emit(r, PUSH_DRAW, 0, 0);
}

static int expr_call(struct expr_reader *r, struct str name)
{
    static const struct {
        const char *name;
        enum expr_op op;
    } all[] = {{"exp", EXP}, {"log", LOG}, {"log10", LOG10}, {"sqrt", SQRT}};

    if (str_eq_c(name, "uniform") || str_eq_c(name, "loguniform"))
        return expr_draw_call(r, TUNE_FLOAT, name.p[0] == 'l');
    if (str_eq_c(name, "int"))
        return expr_draw_call(r, TUNE_INT, false);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (str_eq_c(name, all[i].name))
            return expr_atom(r) < 0 ? -1 : expr_emit(r, all[i].op, 0, 0);
    r->at = name.p;
    return expr_bad(r, "there are uniform, loguniform, int, exp, log, log10 and sqrt only");
}

/* A number, a parameter, or a sum in brackets. */
static int expr_atom(struct expr_reader *r)
{
    expr_skip_spaces(r);
    if (r->at == r->end)
        return expr_bad(r, "a number or a parameter is missing");
    if (expr_takes(r, "(")) {
        if (++r->brackets > EXPR_BRACKETS_MAX)
            return expr_bad(r, "too many brackets");
        if (expr_sum(r) < 0)
            return -1;
        r->brackets--;
        return expr_takes(r, ")") ? 0 : expr_bad(r, "a ) is missing");
    }
    if (isdigit((unsigned char)*r->at) || *r->at == '.')
        return expr_number(r);
    if (is_name_byte(*r->at))
        return expr_name(r);
    return expr_bad(r, "a number or a parameter is missing");
}

/* -a ** b is -(a ** b), as in Python.  Signs in a row count as brackets. */
static int expr_power(struct expr_reader *r)
{
    bool minus = expr_takes(r, "-");

    if (minus && ++r->brackets > EXPR_BRACKETS_MAX)
        return expr_bad(r, "too many signs");
    if (minus) {
        int rc = expr_power(r);
        r->brackets--;
        return rc < 0 ? -1 : expr_emit(r, NEG, 0, 0);
    }
    if (expr_atom(r) < 0)
        return -1;
    if (!expr_takes(r, "**"))
        return 0;
    if (++r->brackets > EXPR_BRACKETS_MAX)
        return expr_bad(r, "too many powers");
    int rc = expr_power(r);
    r->brackets--;
    return rc < 0 ? -1 : expr_emit(r, POW, 0, 0);
}

static int expr_product(struct expr_reader *r)
{
    if (expr_power(r) < 0)
        return -1;
    for (;;) {
        bool times = expr_takes(r, "*");
        if (!times && !expr_takes(r, "/"))
            return 0;
        if (expr_power(r) < 0 || expr_emit(r, times ? MUL : DIV, 0, 0) < 0)
            return -1;
    }
}

int expr_sum(struct expr_reader *r)
{
    if (expr_product(r) < 0)
        return -1;
    for (;;) {
        bool plus = expr_takes(r, "+");
        if (!plus && !expr_takes(r, "-"))
            return 0;
        if (expr_product(r) < 0 || expr_emit(r, plus ? ADD : SUB, 0, 0) < 0)
            return -1;
    }
}

double expr_run(const struct expr_step *steps, size_t n_steps, const struct tune_space *s,
                const double *code, double draw)
{
    double stack[EXPR_STEPS_MAX] = {NAN};
    size_t n = 0;

    for (size_t i = 0; i < n_steps; i++) {
        const struct expr_step *t = &steps[i];
        double *top = n ? &stack[n - 1] : stack;
        if (t->op == PUSH_NUMBER) {
            stack[n++] = t->number;
        } else if (t->op == PUSH_DRAW) {
            stack[n++] = draw;
        } else if (t->op == PUSH_PARAM) {
            double k = code[t->param];
            stack[n++] = isnan(k) ? NAN : tune_dim_value(&s->dims[t->param], k);
        } else if (t->op >= NEG) {
            *top = t->op == NEG     ? -*top
                   : t->op == EXP   ? exp(*top)
                   : t->op == LOG   ? log(*top)
                   : t->op == LOG10 ? log10(*top)
                                    : sqrt(*top);
        } else {
            double b = stack[--n], *a = &stack[n - 1];
            *a = t->op == ADD   ? *a + b
                 : t->op == SUB ? *a - b
                 : t->op == MUL ? *a * b
                 : t->op == DIV ? *a / b
                                : pow(*a, b);
        }
    }
    return stack[0];
}
