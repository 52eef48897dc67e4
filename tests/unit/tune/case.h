/* case.h - what the tests of src/tune share: spaces from JSON, studies, plain functions to minimise
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/util.h"
#include "tune/study.h"
#include <cmocka.h>
#include <math.h>

#define UNIT_FLOAT(name) "{\"name\":\"" name "\",\"type\":\"float\",\"low\":0,\"high\":1}"
#define FIVE_FLOATS                                                                                \
    "[" UNIT_FLOAT("a") "," UNIT_FLOAT("b") "," UNIT_FLOAT("c") "," UNIT_FLOAT(                    \
        "d") "," UNIT_FLOAT("e") "]"
/* Numbers, logarithms, choices, steps, a constant and two levels of conditions. */
#define MIXED_TREE                                                                                 \
    "[{\"name\":\"kind\",\"type\":\"cat\",\"choices\":[\"svm\",\"mlp\"]},"                         \
    "{\"name\":\"c\",\"type\":\"float\",\"low\":0.001,\"high\":1000,\"log\":true,"                 \
    "\"when\":{\"kind\":[\"svm\"]}},"                                                              \
    "{\"name\":\"depth\",\"type\":\"int\",\"low\":1,\"high\":4,\"when\":{\"kind\":\"mlp\"}},"      \
    "{\"name\":\"width\",\"type\":\"int\",\"low\":8,\"high\":512,\"log\":true,"                    \
    "\"when\":{\"kind\":[\"mlp\"],\"depth\":[2,3,4]}},"                                            \
    "{\"name\":\"size\",\"type\":\"ordinal\",\"choices\":[1,2.5,\"l\",null]},"                     \
    "{\"name\":\"drop\",\"type\":\"float\",\"low\":0,\"high\":0.9,\"step\":0.3},"                  \
    "{\"name\":\"epochs\",\"type\":\"const\",\"value\":{\"n\":10}}]"

static inline int space_from(const char *items, const char *constraints, struct tune_space **out,
                             struct err *e)
{
    struct json *list = NULL, *rules = NULL;

    assert_int_equal(json_parse(str_of(items), "space", &list, e), 0);
    if (constraints)
        assert_int_equal(json_parse(str_of(constraints), "rules", &rules, e), 0);
    int rc = tune_space_parse(list, rules, out, e);
    json_free(list);
    json_free(rules);
    return rc;
}

static inline struct tune_space *space_of(const char *items, const char *constraints)
{
    struct tune_space *s = NULL;
    struct err e = {0};

    if (space_from(items, constraints, &s, &e) < 0)
        fail_msg("%s", e.text);
    return s;
}

static inline struct tune_study *study_of(const char *engine, const char *items,
                                          const char *constraints, int64_t budget, uint64_t seed)
{
    struct tune_conf conf = {.engine = engine, .seed = seed, .budget = budget};
    struct tune_study *s = NULL;
    struct err e = {0};

    if (tune_study_new(space_of(items, constraints), &conf, &s, &e) < 0)
        fail_msg("%s", e.text);
    return s;
}

/* Calls fn for every engine that the program has. */
static inline void each_engine(void (*fn)(const char *engine))
{
    struct str rest = str_of(tune_engine_names);

    while (rest.n) {
        struct str word = str_cut(rest, '|', &rest);
        AUTO_FREE char *name = xstrndup(word.p, word.n);
        fn(name);
    }
}

/* A value for any point of any space, smooth in numbers: what a trial would have measured. */
static inline double plain_loss(const struct tune_space *s, const double *code)
{
    double sum = 0;

    for (size_t i = 0; i < s->n; i++) {
        double u = isnan(code[i]) ? 0.9 : tune_dim_unit(&s->dims[i], code[i]);
        sum += (u - 0.3) * (u - 0.3) * (double)(i + 1);
    }
    return sum;
}
