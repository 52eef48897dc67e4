/* constraint.c - relations between parameters, such as "warmup + 2 * decay <= epochs"
 *
 * A constraint is two sums around one comparison (< <= > >= == !=).  A sum has numbers, names of
 * numeric parameters, + - * / ** and brackets.  It is kept as a list of steps for a stack.
 */
#include "base/util.h"
#include "tune/space.h"
#include <ctype.h>
#include <math.h>

enum { STEPS_MAX = 200, BRACKETS_MAX = 20 };
enum constraint_op { PUSH_NUMBER, PUSH_PARAM, ADD, SUB, MUL, DIV, POW, NEG };

struct constraint_step {
    enum constraint_op op;
    size_t param;
    double number;
};
struct tune_constraint {
    const char *text;
    struct constraint_step steps[STEPS_MAX];
    size_t n, right; /* the steps from `right` on are the sum on the right */
    char less, equal, greater;
};

struct constraint_reader {
    const struct tune_space *s;
    struct tune_constraint *c;
    const char *at, *end;
    int brackets;
    struct err *e;
};

static int constraint_sum(struct constraint_reader *r);

static int constraint_bad(struct constraint_reader *r, const char *what)
{
    return err_set(r->e, ERR_INVALID, "constraint \"%.80s\", column %d: %s", r->c->text,
                   (int)(r->at - r->c->text) + 1, what);
}

static void skip_spaces(struct constraint_reader *r)
{
    while (r->at < r->end && isspace((unsigned char)*r->at))
        r->at++;
}

/* Reads the word if it is next. */
static bool constraint_takes(struct constraint_reader *r, const char *word)
{
    size_t n = strlen(word);

    skip_spaces(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static int constraint_emit(struct constraint_reader *r, enum constraint_op op, size_t param,
                           double x)
{
    if (r->c->n == STEPS_MAX)
        return constraint_bad(r, "the constraint is too long; split it in two");
    r->c->steps[r->c->n++] = (struct constraint_step){op, param, x};
    return 0;
}

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || (unsigned char)c >= 0x80;
}

static int constraint_name(struct constraint_reader *r)
{
    const char *start = r->at;

    while (r->at < r->end && is_name_byte(*r->at))
        r->at++;
    struct str name = {start, (size_t)(r->at - start)};
    long i = tune_space_find(r->s, name);
    if (i < 0 || r->s->dims[i].choices) {
        r->at = start;
        return constraint_bad(r, i < 0 ? "no parameter has this name"
                                       : "only numeric parameters can be compared");
    }
    return constraint_emit(r, PUSH_PARAM, (size_t)i, 0);
}

/* Digits, a point and an exponent; signs belong to sums. */
static int constraint_number(struct constraint_reader *r)
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
        return constraint_bad(r, "this is no number");
    }
    return constraint_emit(r, PUSH_NUMBER, 0, x);
}

/* A number, a parameter, or a sum in brackets. */
static int constraint_atom(struct constraint_reader *r)
{
    skip_spaces(r);
    if (r->at == r->end)
        return constraint_bad(r, "a number or a parameter is missing");
    if (constraint_takes(r, "(")) {
        if (++r->brackets > BRACKETS_MAX)
            return constraint_bad(r, "too many brackets");
        if (constraint_sum(r) < 0)
            return -1;
        r->brackets--;
        return constraint_takes(r, ")") ? 0 : constraint_bad(r, "a ) is missing");
    }
    if (isdigit((unsigned char)*r->at) || *r->at == '.')
        return constraint_number(r);
    if (is_name_byte(*r->at))
        return constraint_name(r);
    return constraint_bad(r, "a number or a parameter is missing");
}

/* -a ** b is -(a ** b), as in Python.  Signs in a row count as brackets. */
static int constraint_power(struct constraint_reader *r)
{
    bool minus = constraint_takes(r, "-");

    if (minus && ++r->brackets > BRACKETS_MAX)
        return constraint_bad(r, "too many signs");
    if (minus) {
        int rc = constraint_power(r);
        r->brackets--;
        return rc < 0 ? -1 : constraint_emit(r, NEG, 0, 0);
    }
    if (constraint_atom(r) < 0)
        return -1;
    if (!constraint_takes(r, "**"))
        return 0;
    if (++r->brackets > BRACKETS_MAX)
        return constraint_bad(r, "too many powers");
    int rc = constraint_power(r);
    r->brackets--;
    return rc < 0 ? -1 : constraint_emit(r, POW, 0, 0);
}

static int constraint_product(struct constraint_reader *r)
{
    if (constraint_power(r) < 0)
        return -1;
    for (;;) {
        bool times = constraint_takes(r, "*");
        if (!times && !constraint_takes(r, "/"))
            return 0;
        if (constraint_power(r) < 0 || constraint_emit(r, times ? MUL : DIV, 0, 0) < 0)
            return -1;
    }
}

static int constraint_sum(struct constraint_reader *r)
{
    if (constraint_product(r) < 0)
        return -1;
    for (;;) {
        bool plus = constraint_takes(r, "+");
        if (!plus && !constraint_takes(r, "-"))
            return 0;
        if (constraint_product(r) < 0 || constraint_emit(r, plus ? ADD : SUB, 0, 0) < 0)
            return -1;
    }
}

static int constraint_relation(struct constraint_reader *r)
{
    static const struct {
        const char *word;
        char less, equal, greater;
    } all[] = {{"<=", 1, 1, 0}, {">=", 0, 1, 1}, {"==", 0, 1, 0},
               {"!=", 1, 0, 1}, {"<", 1, 0, 0},  {">", 0, 0, 1}};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (constraint_takes(r, all[i].word)) {
            r->c->less = all[i].less;
            r->c->equal = all[i].equal;
            r->c->greater = all[i].greater;
            return 0;
        }
    return constraint_bad(r, "a comparison is missing: < <= > >= == !=");
}

int tune_constraint_parse(struct tune_space *s, struct str text, struct tune_constraint **out,
                          struct err *e)
{
    struct tune_constraint *c = arena_alloc(&s->arena, sizeof(*c));

    c->text = arena_strndup(&s->arena, text.p, text.n);
    struct constraint_reader r = {
        .s = s, .c = c, .at = c->text, .end = c->text + strlen(c->text), .e = e};
    if (constraint_sum(&r) < 0 || constraint_relation(&r) < 0)
        return -1;
    c->right = c->n;
    if (constraint_sum(&r) < 0)
        return -1;
    skip_spaces(&r);
    if (r.at != r.end)
        return constraint_bad(&r, "nothing may follow the second sum");
    *out = c;
    return 0;
}

/* The value of the steps [from, to); NaN when a parameter is absent. */
static double constraint_run(const struct tune_constraint *c, size_t from, size_t to,
                             const struct tune_space *s, const double *code)
{
    double stack[STEPS_MAX] = {NAN};
    size_t n = 0;

    for (size_t i = from; i < to; i++) {
        const struct constraint_step *t = &c->steps[i];
        if (t->op == PUSH_NUMBER) {
            stack[n++] = t->number;
        } else if (t->op == PUSH_PARAM) {
            double k = code[t->param];
            stack[n++] = isnan(k) ? NAN : tune_dim_value(&s->dims[t->param], k);
        } else if (t->op == NEG) {
            stack[n - 1] = -stack[n - 1];
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

/* Does it ask for a parameter that does not exist here? */
static bool constraint_absent(const struct tune_constraint *c, const double *code)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->steps[i].op == PUSH_PARAM && isnan(code[c->steps[i].param]))
            return true;
    return false;
}

bool tune_constraint_holds(const struct tune_constraint *c, const struct tune_space *s,
                           const double *code)
{
    if (constraint_absent(c, code))
        return true;
    double a = constraint_run(c, 0, c->right, s, code);
    double b = constraint_run(c, c->right, c->n, s, code);
    return (c->less && a < b) || (c->equal && a == b) || (c->greater && a > b);
}
