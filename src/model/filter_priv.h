/* filter_priv.h - between the grammar (filter.c) and the meaning of one term (filter_term.c) */
#pragma once
#include "model/filter.h"

struct filter_word {
    struct str text; /* unquoted, unescaped */
    size_t column;   /* from 1 */
    bool quoted;
};
struct filter_term {
    struct filter_word key, op;
    struct str space; /* what stands before a quoted key: "", or as in metric."val acc" */
    const struct filter_word *values; /* several only with ":" */
    size_t n_values;
};
/* "column 7: …"; keeps to one line whatever was typed. */
int filter_error(struct err *e, size_t column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A node in the arena; left and right may be NULL. */
struct filter *filter_node(struct arena *a, enum filter_op op, struct filter *left,
                           struct filter *right);
/* One condition as a tree: an age or a list may become several comparisons. */
int filter_term_make(const struct filter_term *t, int64_t now_ms, struct arena *a,
                     struct filter **out, struct err *e);
