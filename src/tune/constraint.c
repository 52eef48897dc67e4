/* constraint.c - relations between parameters, such as "warmup + 2 * decay <= epochs"
 *
 * A constraint is two sums (expr.c) around one comparison (< <= > >= == !=).
 */
#include "base/util.h"
#include "tune/expr_priv.h"
#include <math.h>

struct tune_constraint {
    struct expr_step *steps;
    size_t n, right; /* the steps from `right` on are the sum on the right */
    char less, equal, greater;
};

static int constraint_relation(struct expr_reader *r, struct tune_constraint *c)
{
    static const struct {
        const char *word;
        char less, equal, greater;
    } all[] = {{"<=", 1, 1, 0}, {">=", 0, 1, 1}, {"==", 0, 1, 0},
               {"!=", 1, 0, 1}, {"<", 1, 0, 0},  {">", 0, 0, 1}};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (expr_takes(r, all[i].word)) {
            c->less = all[i].less;
            c->equal = all[i].equal;
            c->greater = all[i].greater;
            return 0;
        }
    return expr_bad(r, "a comparison is missing: < <= > >= == !=");
}

int tune_constraint_parse(struct tune_space *s, struct str text, struct tune_constraint **out,
                          struct err *e)
{
    struct tune_constraint *c = arena_alloc(&s->arena, sizeof(*c));
    struct expr_reader r = {.s = s, .what = "constraint", .e = e};

    r.text = r.at = arena_strndup(&s->arena, text.p, text.n);
    r.end = r.text + strlen(r.text);
    if (expr_sum(&r) < 0 || constraint_relation(&r, c) < 0)
        return -1;
    c->right = r.n;
    if (expr_sum(&r) < 0)
        return -1;
    expr_skip_spaces(&r);
    if (r.at != r.end)
        return expr_bad(&r, "nothing may follow the second sum");
    c->n = r.n;
    c->steps = arena_alloc(&s->arena, r.n * sizeof(*c->steps));
    memcpy(c->steps, r.steps, r.n * sizeof(*c->steps));
    *out = c;
    return 0;
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
    double a = expr_run(c->steps, c->right, s, code, NAN);
    double b = expr_run(c->steps + c->right, c->n - c->right, s, code, NAN);
    return (c->less && a < b) || (c->equal && a == b) || (c->greater && a > b);
}
