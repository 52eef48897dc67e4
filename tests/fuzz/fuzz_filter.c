/* fuzz_filter.c - filters: what is accepted is a tree an evaluator can trust */
#include "base/util.h"
#include "model/filter.h"
#include "model/job.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_leaf(const struct filter *f)
{
    enum job_state state;
    bool keyed =
        f->field == FILTER_F_TAG || f->field == FILTER_F_METRIC || f->field == FILTER_F_PARAM;

    ASSERT(f->op >= FILTER_EQ && f->n_values >= 1 && f->values && f->values[0]);
    ASSERT(keyed == (f->key != NULL));
    ASSERT(f->op == FILTER_IN ? !f->numeric : f->n_values == 1);
    if (f->numeric)
        ASSERT(isfinite(f->number) && f->op != FILTER_CONTAINS);
    for (size_t i = 0; f->field == FILTER_F_STATE && f->op != FILTER_CONTAINS && i < f->n_values;
         i++)
        ASSERT(job_state_parse(str_of(f->values[i]), &state));
}

static size_t check_tree(const struct filter *f)
{
    if (f->op == FILTER_AND || f->op == FILTER_OR)
        return check_tree(f->left) + check_tree(f->right);
    if (f->op == FILTER_NOT)
        return check_tree(f->left);
    check_leaf(f);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct arena a = {0};
    struct filter *f = NULL;
    struct err e = {0};

    if (filter_parse((struct str){(const char *)data, n}, INT64_C(1700000000000), &a, &f, &e) < 0)
        ASSERT(e.code && e.text[0] && !f);
    else if (f)
        ASSERT(check_tree(f) >= 1);
    arena_done(&a);
    return 0;
}
