/* shell_template.c - placeholders in a line for /bin/sh
 *
 * A value never becomes text of the line: it travels as a variable, and the line gets a reference
 * to it, quoted so that the shell takes it as exactly that value at exactly that place:
 *
 *   unquoted            --lr {lr}        →  --lr "${BERTH_PARAM_lr}"
 *   in double quotes    "lr={lr}"        →  "lr=${BERTH_PARAM_lr}"
 *   in single quotes    'lr={lr}'        →  'lr='"${BERTH_PARAM_lr}"''
 *   here-document       <<EOF … {lr}     →  ${BERTH_PARAM_lr}
 *
 * Where no reference can stand for the plain value (backquotes, $((…)), a here-document with a
 * quoted delimiter) it is an error with the remedy.  The scanner follows the quoting rules of
 * POSIX sh 2.2 to 2.6; it need not know the grammar, as a misjudged place (a case pattern inside
 * $(…)) can only cost quoting, never run a value.
 */
#include "base/util.h"
#include "model/template.h"

/* The quoting contexts of sh.  CTX_DOC_RAW: a here-document whose delimiter is quoted. */
enum ctx { CTX_PLAIN, CTX_DOUBLE, CTX_SINGLE, CTX_ARITH, CTX_BACKQUOTE, CTX_DOC, CTX_DOC_RAW };
/* Far beyond what people write; a hostile line must not need more memory. */
enum { NEST_MAX = 32, DOCS_MAX = 16 };

struct doc { /* a here-document announced on this line */
    struct str delimiter;
    bool raw, strip_tabs;
};
/* One open quote, parenthesis or here-document.  parens counts those opened inside it. */
struct frame {
    enum ctx ctx;
    int parens;
    size_t doc; /* of DOC: which of scan.docs */
};
/* One command line being rewritten.  stack[0] is the command itself and is never popped. */
struct scan {
    struct str text;
    size_t i;
    struct frame stack[NEST_MAX];
    size_t depth;
    struct doc docs[DOCS_MAX];
    size_t n_docs, next_doc;
    size_t escape_end; /* where the last backslash pair ended: "\ #" begins no comment */
    bool escaped_brace;
    const struct template_vars *vars;
    template_used *used;
    struct buf *out;
};

/* The byte k places ahead, or NUL behind the end. */
static char at(const struct scan *s, size_t k)
{
    return s->i + k < s->text.n ? s->text.p[s->i + k] : '\0';
}

static struct frame *top(struct scan *s)
{
    return &s->stack[s->depth - 1];
}

/* Bytes that need no change go to the output as they are. */
static void copy(struct scan *s, size_t n)
{
    n = MIN(n, s->text.n - s->i);
    buf_add(s->out, s->text.p + s->i, n);
    s->i += n;
}

static int push(struct scan *s, enum ctx ctx, struct err *e)
{
    if (s->depth == NEST_MAX)
        return err_set(e, ERR_INVALID, "quotes are nested deeper than %d levels", NEST_MAX);
    s->stack[s->depth++] = (struct frame){.ctx = ctx};
    return 0;
}

/* An unbalanced ")" must not pop the command itself. */
static void pop(struct scan *s)
{
    if (s->depth > 1)
        s->depth--;
}

/* No reference can stand here, and putting the value itself would let it change the command. */
static int refuse(struct str name, const char *where, const char *remedy, struct err *e)
{
    return err_set(e, ERR_INVALID, "{%.*s} stands %s, where no value can be put; %s",
                   (int)MIN(name.n, 60), name.p, where, remedy);
}

static int put_reference(struct scan *s, struct str name, struct err *e)
{
    const char *open = "", *close = "";
    struct str value;
    size_t k = 0;

    switch (top(s)->ctx) {
    case CTX_PLAIN:
        open = close = "\"";
        break;
    case CTX_SINGLE:
        open = "'\"";
        close = "\"'";
        break;
    case CTX_DOUBLE:
    case CTX_DOC:
        break;
    case CTX_ARITH:
        return refuse(name, "inside $((...))", "assign it first, as in n={n}; $((n + 1))", e);
    case CTX_BACKQUOTE:
        return refuse(name, "inside backquotes", "use $(...) instead", e);
    case CTX_DOC_RAW:
        return refuse(name, "in a here-document with a quoted delimiter",
                      "remove the quotes around the delimiter", e);
    }
    if (!s->vars->find(s->vars->arg, name, &value))
        return template_unknown(s->vars, name, e);
    buf_addf(s->out, "%s${BERTH_PARAM_" STR_FMT "}%s", open, STR_ARG(name), close);
    while (k < s->used->n && !str_eq(s->used->p[k], name))
        k++;
    if (k == s->used->n)
        vec_push(s->used, name);
    return 0;
}

/* At { or }. */
static int on_brace(struct scan *s, struct err *e)
{
    if (at(s, 0) == '}') {
        buf_addc(s->out, '}');
        s->i += s->escaped_brace && at(s, 1) == '}' ? 2 : 1;
        s->escaped_brace = false;
        return 0;
    }
    struct brace_group g = template_brace(s->text, s->i);
    s->escaped_brace = g.kind == BRACE_ESCAPED;
    s->i += g.n;
    if (g.kind == BRACE_PLACEHOLDER)
        return put_reference(s, g.name, e);
    buf_addc(s->out, '{');
    return 0;
}

/* The delimiter word after << : up to a blank or operator, quotes removed. */
static int on_here(struct scan *s, struct err *e)
{
    struct doc d = {.strip_tabs = at(s, 2) == '-'};
    size_t start;

    copy(s, d.strip_tabs ? 3 : 2);
    while (at(s, 0) == ' ' || at(s, 0) == '\t')
        copy(s, 1);
    start = s->i;
    while (at(s, 0) && !strchr(" \t\n;|&<>()", at(s, 0))) {
        d.raw = d.raw || strchr("'\"\\", at(s, 0));
        copy(s, 1);
    }
    d.delimiter = (struct str){s->text.p + start, s->i - start};
    if (s->n_docs == DOCS_MAX)
        return err_set(e, ERR_INVALID, "more than %d here-documents in one command", DOCS_MAX);
    s->docs[s->n_docs++] = d;
    return 0;
}

/* Quotes in the delimiter word do not belong to the delimiter. */
static bool is_delimiter(const struct doc *d, struct str line)
{
    size_t k = 0;

    while (d->strip_tabs && line.n && *line.p == '\t')
        line = (struct str){line.p + 1, line.n - 1};
    for (size_t i = 0; i < d->delimiter.n; i++) {
        char c = d->delimiter.p[i];
        if (strchr("'\"\\", c))
            continue;
        if (k >= line.n || line.p[k++] != c)
            return false;
    }
    return k == line.n;
}

/* Here-documents begin after the line that announces them, in the order of announcement. */
static int enter_next_doc(struct scan *s, struct err *e)
{
    size_t k = s->next_doc;

    if (k == s->n_docs)
        return 0;
    s->next_doc++;
    if (push(s, s->docs[k].raw ? CTX_DOC_RAW : CTX_DOC, e) < 0)
        return -1;
    top(s)->doc = k;
    return 0;
}

/* At the first byte of a line of a here-document: is it the last one? */
static bool at_doc_end(struct scan *s)
{
    const char *p = s->text.p + s->i, *nl = memchr(p, '\n', s->text.n - s->i);
    struct str line = {p, nl ? (size_t)(nl - p) : s->text.n - s->i};

    if (s->i == 0 || p[-1] != '\n' || !is_delimiter(&s->docs[top(s)->doc], line))
        return false;
    pop(s);
    copy(s, line.n + (nl ? 1 : 0));
    return true;
}

/* $( and $(( open a context from everywhere but single quotes; else the dollar is plain. */
static int on_dollar(struct scan *s, struct err *e)
{
    if (at(s, 1) == '(' && at(s, 2) == '(') {
        copy(s, 3);
        if (push(s, CTX_ARITH, e) < 0)
            return -1;
        top(s)->parens = 2;
        return 0;
    }
    if (at(s, 1) == '(') {
        copy(s, 2);
        return push(s, CTX_PLAIN, e);
    }
    copy(s, 1);
    return 0;
}

/* "#" begins a comment only at the start of a word. */
static bool starts_comment(const struct scan *s)
{
    return s->i == 0 || (s->i != s->escape_end && strchr(" \t\n;|&()", s->text.p[s->i - 1]));
}

static int step_plain(struct scan *s, struct err *e)
{
    switch (at(s, 0)) {
    case '\'':
        copy(s, 1);
        return push(s, CTX_SINGLE, e);
    case '"':
        copy(s, 1);
        return push(s, CTX_DOUBLE, e);
    case '(':
        top(s)->parens++;
        copy(s, 1);
        return 0;
    case ')':
        copy(s, 1);
        if (top(s)->parens > 0)
            top(s)->parens--;
        else
            pop(s);
        return 0;
    case '#':
        if (starts_comment(s)) {
            const char *p = s->text.p + s->i, *nl = memchr(p, '\n', s->text.n - s->i);
            copy(s, nl ? (size_t)(nl - p) : s->text.n - s->i);
        } else {
            copy(s, 1);
        }
        return 0;
    case '<':
        if (at(s, 1) == '<' && at(s, 2) != '<')
            return on_here(s, e);
        /* "<<<" is a here-string of bash, not a here-document. */
        copy(s, at(s, 1) == '<' ? 3 : 1);
        return 0;
    case '\n':
        copy(s, 1);
        return enter_next_doc(s, e);
    default:
        copy(s, 1);
        return 0;
    }
}

/* The rest of the characters that mean something in one context only. */
static int step_inside(struct scan *s, struct err *e)
{
    char c = at(s, 0);

    switch (top(s)->ctx) {
    case CTX_PLAIN:
        return step_plain(s, e);
    case CTX_DOUBLE:
        if (c == '"')
            pop(s);
        break;
    case CTX_SINGLE:
        if (c == '\'')
            pop(s);
        break;
    case CTX_ARITH:
        if (c == '(')
            top(s)->parens++;
        else if (c == ')' && --top(s)->parens == 0)
            pop(s);
        break;
    case CTX_BACKQUOTE:
    case CTX_DOC:
    case CTX_DOC_RAW:
        break;
    }
    copy(s, 1);
    return 0;
}

static int step(struct scan *s, struct err *e)
{
    enum ctx ctx = top(s)->ctx;
    char c = at(s, 0);
    bool literal = ctx == CTX_SINGLE || ctx == CTX_DOC_RAW;

    if ((ctx == CTX_DOC || ctx == CTX_DOC_RAW) && at_doc_end(s))
        return top(s)->ctx == CTX_PLAIN ? enter_next_doc(s, e) : 0;
    if (c == '{' || c == '}')
        return on_brace(s, e);
    if (literal)
        return step_inside(s, e);
    if (c == '\\') {
        copy(s, 2);
        s->escape_end = s->i;
        return 0;
    }
    if (c == '`') {
        copy(s, 1);
        if (ctx != CTX_BACKQUOTE)
            return push(s, CTX_BACKQUOTE, e);
        pop(s);
        return 0;
    }
    if (c == '$' && ctx != CTX_BACKQUOTE)
        return on_dollar(s, e);
    return step_inside(s, e);
}

int template_shell(struct str text, const struct template_vars *v, struct buf *out,
                   template_used *used, struct err *e)
{
    struct scan s = {.text = text, .vars = v, .used = used, .out = out, .depth = 1};

    while (s.i < text.n)
        if (step(&s, e) < 0)
            return -1;
    if (out->overflow)
        return err_set(e, ERR_LIMIT, "becomes longer than the %zu bytes allowed", out->max);
    return 0;
}
