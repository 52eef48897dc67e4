/* filter.c - the grammar of filters: words, and, or, not, parentheses
 *
 * A hand-written descent over the text, no tokens kept.  Depth and number of terms are bounded, as
 * filters come from outside.  What a single term means stands in filter_term.c.
 */
#include "base/util.h"
#include "base/vec.h"
#include "model/filter_priv.h"
#include <stdio.h>

/* i: the first byte not read yet.  terms and depth: counted against the limits. */
struct parser {
    struct str text;
    size_t i;
    int64_t now_ms;
    struct arena *a;
    size_t terms, depth;
    struct err *e;
};

/* The place is part of the text, because an err has no member for it. */
int filter_error(struct err *e, size_t column, const char *fmt, ...)
{
    char text[200];

    FORMAT_ARGS(text, fmt);
    return err_set(e, ERR_INVALID, "filter, column %zu: %s", column, text);
}

struct filter *filter_node(struct arena *a, enum filter_op op, struct filter *left,
                           struct filter *right)
{
    struct filter *f = arena_alloc(a, sizeof(*f));

    f->op = op;
    f->left = left;
    f->right = right;
    return f;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct parser *p)
{
    while (p->i < p->text.n && is_space(p->text.p[p->i]))
        p->i++;
}

/* Bytes above 0x7f are parts of UTF-8 characters: names of parameters may have any letters. */
static bool key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || c == '/' || (unsigned char)c >= 0x80;
}

static bool value_char(char c)
{
    return !is_space(c) && !strchr("()\"',", c);
}

/* The next bare word without taking it; empty when something else follows. */
static struct str peek_word(struct parser *p)
{
    size_t end;

    skip_space(p);
    for (end = p->i; end < p->text.n && key_char(p->text.p[end]);)
        end++;
    return (struct str){p->text.p + p->i, end - p->i};
}

/* Keywords are recognised in any case, and only as whole words: "android" is no "and". */
static bool take_keyword(struct parser *p, const char *word)
{
    struct str w = peek_word(p);
    size_t n = strlen(word);

    if (w.n != n || strncasecmp(w.p, word, n) != 0)
        return false;
    p->i += n;
    return true;
}

static bool take_char(struct parser *p, char c)
{
    skip_space(p);
    if (p->i >= p->text.n || p->text.p[p->i] != c)
        return false;
    p->i++;
    return true;
}

static int read_quoted(struct parser *p, struct filter_word *out)
{
    char quote = p->text.p[p->i++];
    /* The unescaped text is never longer than the rest of the filter. */
    char *copy = arena_alloc(p->a, p->text.n - p->i + 1);
    size_t n = 0;

    while (p->i < p->text.n && p->text.p[p->i] != quote) {
        if (p->text.p[p->i] == '\\' && p->i + 1 < p->text.n)
            p->i++;
        copy[n++] = p->text.p[p->i++];
    }
    if (p->i >= p->text.n)
        return filter_error(p->e, out->column, "this quote is not closed; add %c at the end",
                            quote);
    p->i++;
    out->text = (struct str){copy, n};
    out->quoted = true;
    return 0;
}

static int read_value(struct parser *p, struct str op, struct filter_word *out)
{
    size_t start;

    skip_space(p);
    *out = (struct filter_word){.column = p->i + 1};
    if (p->i < p->text.n && (p->text.p[p->i] == '"' || p->text.p[p->i] == '\''))
        return read_quoted(p, out);
    for (start = p->i; p->i < p->text.n && value_char(p->text.p[p->i]);)
        p->i++;
    if (p->i == start)
        return filter_error(p->e, p->i + 1, "a value is missing after \"" STR_FMT "\"",
                            STR_ARG(op));
    out->text = (struct str){p->text.p + start, p->i - start};
    return 0;
}

static int read_op(struct parser *p, const struct filter_word *key, struct filter_word *out)
{
    /* Longer operators come first, so that "<=" is not read as "<". */
    static const char *const ops[] = {"<=", ">=", "!=", "==", ":", "=", "~", "<", ">"};

    skip_space(p);
    for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
        struct str op = str_of(ops[i]);
        struct str rest = {p->text.p + p->i, p->text.n - p->i};
        if (!str_starts(rest, op))
            continue;
        *out = (struct filter_word){.text = str_eq_c(op, "==") ? STR("=") : op, .column = p->i + 1};
        p->i += op.n;
        return 0;
    }
    return filter_error(p->e, key->column,
                        "\"%.*s\" needs an operator and a value, as in state:failed, name~%.*s or "
                        "lr<0.1",
                        (int)MIN(key->text.n, 40), key->text.p, (int)MIN(key->text.n, 40),
                        key->text.p);
}

/* A bare word, a quoted name, or a word and a dot before a quoted name. */
static int read_key(struct parser *p, struct filter_term *t)
{
    struct str word = peek_word(p);
    size_t next = p->i + word.n;
    bool quoted = next < p->text.n && (p->text.p[next] == '"' || p->text.p[next] == '\'') &&
                  (!word.n || word.p[word.n - 1] == '.');

    t->key = (struct filter_word){.text = word, .column = p->i + 1};
    if (!word.n && !quoted) {
        if (p->i >= p->text.n)
            return filter_error(p->e, p->i + 1, "a condition is missing at the end");
        return filter_error(p->e, p->i + 1, "expected a condition such as state:failed, not '%c'",
                            (unsigned char)p->text.p[p->i] < ' ' ? '?' : p->text.p[p->i]);
    }
    if (++p->terms > FILTER_MAX_TERMS)
        return filter_error(p->e, p->i + 1, "more than %d conditions", FILTER_MAX_TERMS);
    p->i = next;
    if (!quoted)
        return 0;
    t->space = word;
    return read_quoted(p, &t->key);
}

static int parse_term(struct parser *p, struct filter **out)
{
    VEC(struct filter_word) values = {0};
    struct filter_term t = {0};
    struct filter_word value;
    int rc;

    if (read_key(p, &t) < 0 || read_op(p, &t.key, &t.op) < 0)
        return -1;
    do {
        rc = read_value(p, t.op.text, &value);
        if (rc == 0)
            vec_push(&values, value);
        if (values.n > FILTER_MAX_TERMS)
            rc = filter_error(p->e, p->i + 1, "more than %d values", FILTER_MAX_TERMS);
    } while (rc == 0 && p->i < p->text.n && p->text.p[p->i] == ',' && p->i++ < p->text.n);
    if (rc == 0 && values.n > 1 && !str_eq_c(t.op.text, ":"))
        rc = filter_error(p->e, t.op.column,
                          "a list of values goes with \":\", as in " STR_FMT
                          ":a,b; quote the value if the comma belongs to it",
                          STR_ARG(t.key.text));
    t.values = values.p;
    t.n_values = values.n;
    if (rc == 0)
        rc = filter_term_make(&t, p->now_ms, p->a, out, p->e);
    vec_done(&values);
    return rc;
}

static int parse_or(struct parser *p, struct filter **out);

/* After "(". */
static int parse_nested(struct parser *p, struct filter **out)
{
    size_t open = p->i;

    if (parse_or(p, out) < 0)
        return -1;
    if (!take_char(p, ')'))
        return filter_error(p->e, open, "this parenthesis is not closed; add )");
    return 0;
}

/* Both nesting forms, ( and not, come through here: the depth is counted once. */
static int parse_unit(struct parser *p, struct filter **out)
{
    int rc;

    if (++p->depth > FILTER_MAX_DEPTH)
        return filter_error(p->e, p->i + 1, "nested deeper than %d levels", FILTER_MAX_DEPTH);
    if (take_keyword(p, "not")) {
        struct filter *inner;
        rc = parse_unit(p, &inner);
        if (rc == 0)
            *out = filter_node(p->a, FILTER_NOT, inner, NULL);
    } else if (take_char(p, '(')) {
        rc = parse_nested(p, out);
    } else {
        rc = parse_term(p, out);
    }
    p->depth--;
    return rc;
}

/* Parts that `parse` reads, joined by the keyword; the operators are left-associative. */
static int parse_joined(struct parser *p, int (*parse)(struct parser *p, struct filter **out),
                        const char *keyword, enum filter_op op, struct filter **out)
{
    struct filter *left, *right;

    if (parse(p, &left) < 0)
        return -1;
    while (take_keyword(p, keyword)) {
        if (parse(p, &right) < 0)
            return -1;
        left = filter_node(p->a, op, left, right);
    }
    *out = left;
    return 0;
}

static int parse_and(struct parser *p, struct filter **out)
{
    return parse_joined(p, parse_unit, "and", FILTER_AND, out);
}

static int parse_or(struct parser *p, struct filter **out)
{
    return parse_joined(p, parse_and, "or", FILTER_OR, out);
}

int filter_parse(struct str text, int64_t now_ms, struct arena *a, struct filter **out,
                 struct err *e)
{
    struct parser p = {.text = text, .now_ms = now_ms, .a = a, .e = e};
    struct filter *f;

    skip_space(&p);
    if (p.i == text.n) {
        *out = NULL;
        return 0;
    }
    if (text.n > FILTER_MAX_BYTES)
        return err_set(e, ERR_LIMIT, "filter: is %zu bytes long; at most %d are allowed", text.n,
                       FILTER_MAX_BYTES);
    /* Values become C strings, which a NUL would cut. */
    if (memchr(text.p, '\0', text.n))
        return err_set(e, ERR_INVALID, "filter: contains a NUL character; remove it");
    if (parse_or(&p, &f) < 0)
        return -1;
    skip_space(&p);
    if (p.i < text.n) {
        /* Everything was read but this: say what a user most likely did wrong. */
        if (text.p[p.i] == ')')
            return filter_error(e, p.i + 1, "this ) closes nothing; remove it");
        return filter_error(e, p.i + 1, "expected \"and\" or \"or\" before the next condition");
    }
    *out = f;
    return 0;
}
