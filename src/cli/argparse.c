/* argparse.c - finding options, their values, and the words about them; see argparse.h */
#include "cli/argparse.h"
#include "base/util.h"
#include <stdarg.h>
#include <stdio.h>

enum { HELP_COLUMN = 24, HELP_WIDTH = 54, NAMES_MAX = 80, WRONG_STATUS = 2 };

/* ---- words ---- */

static int say_wrong(const char *prog, const char *usage, const char *fmt, va_list ap)
{
    char text[1000];

    vsnprintf(text, sizeof(text), fmt, ap);
    fprintf(stderr, "%s\n%s: error: %s\n", usage, prog, text);
    return WRONG_STATUS;
}

int py_usage_error(const char *prog, const char *usage, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int status = say_wrong(prog, usage, fmt, ap);
    va_end(ap);
    return status;
}

int py_wrong(const struct py_parser *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int status = say_wrong(p->prog, p->usage, fmt, ap);
    va_end(ap);
    return status + 1;
}

static const char *both_names(const struct py_arg *a, char out[NAMES_MAX])
{
    snprintf(out, NAMES_MAX, "%s%s%s", a->letter ? a->letter : "", a->letter ? "/" : "", a->name);
    return out;
}

void py_usage_options(struct buf *b, const struct py_arg *args, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct py_arg *a = &args[i];
        bool must = a->kind == PY_REQUIRED;
        if (a->help)
            buf_addf(b, " %s%s%s%s%s", must ? "" : "[", a->letter ? a->letter : a->name,
                     a->metavar ? " " : "", a->metavar ? a->metavar : "", must ? "" : "]");
    }
}

void py_help_row(struct buf *b, const char *left, const char *help)
{
    size_t col = 0;
    int n = (int)strlen(left);

    if (n > HELP_COLUMN - 2)
        buf_addf(b, "%s\n%*s", left, HELP_COLUMN, "");
    else
        buf_addf(b, "%-*s", HELP_COLUMN, left);
    for (struct str rest = str_of(help); rest.n;) {
        struct str word = str_cut(rest, ' ', &rest);
        if (col && col + 1 + word.n > HELP_WIDTH) {
            buf_addf(b, "\n%*s", HELP_COLUMN, "");
            col = 0;
        }
        buf_addf(b, "%s" STR_FMT, col ? " " : "", STR_ARG(word));
        col += word.n + (col ? 1 : 0);
    }
    buf_addc(b, '\n');
}

void py_help_options(struct buf *b, const struct py_arg *args, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct py_arg *a = &args[i];
        const char *value = a->metavar ? a->metavar : "", *space = a->metavar ? " " : "";
        if (!a->help)
            continue;
        AUTO_FREE char *left = a->letter ? xasprintf("  %s%s%s, %s%s%s", a->letter, space, value,
                                                     a->name, space, value)
                                         : xasprintf("  %s%s%s", a->name, space, value);
        py_help_row(b, left, a->help);
    }
}

/* ---- options ---- */

bool py_is_help(const char *word)
{
    return !strcmp(word, "-h") || (strlen(word) > 2 && !strncmp("--help", word, strlen(word)));
}

static bool is_number(const char *word)
{
    double d;

    return str_to_double(str_of(word), &d);
}

bool py_is_option(const char *word)
{
    return word[0] == '-' && word[1] && !is_number(word);
}

static const struct py_arg *find_letter(const struct py_parser *p, const char *word,
                                        const char **value)
{
    *value = !word[2] ? NULL : word[2] == '=' ? word + 3 : word + 2;
    for (size_t i = 0; i < p->n_args; i++)
        if (p->args[i].letter && !strncmp(word, p->args[i].letter, 2))
            return &p->args[i];
    return NULL;
}

/* *found: how many it may mean; a whole name means one. */
static const struct py_arg *find_name(const struct py_parser *p, const char *word,
                                      const char **value, size_t *found)
{
    const char *eq = strchr(word, '=');
    size_t n = eq ? (size_t)(eq - word) : strlen(word);
    const struct py_arg *best = NULL;

    *value = eq ? eq + 1 : NULL;
    *found = 0;
    for (size_t i = 0; i < p->n_args; i++) {
        const struct py_arg *a = &p->args[i];
        bool whole = strlen(a->name) == n;
        if (strncmp(word, a->name, n) != 0 || (!a->help && !whole))
            continue;
        best = a;
        ++*found;
        if (whole) {
            *found = 1;
            break;
        }
    }
    return best;
}

static int check_value(const struct py_parser *p, const struct py_arg *a, const char *value)
{
    char names[NAMES_MAX];
    int64_t i;

    if (a->kind == PY_INT && !str_to_i64(str_of(value), &i))
        return py_wrong(p, "argument %s: invalid int value: '%.60s'", both_names(a, names), value);
    if (a->kind == PY_FLOAT && !is_number(value))
        return py_wrong(p, "argument %s: invalid float value: '%.60s'", both_names(a, names),
                        value);
    return 0;
}

int py_take(const struct py_parser *p, char ***argv, void *opts)
{
    const char *word = **argv, *value;
    char names[NAMES_MAX];
    size_t found = 1;
    const struct py_arg *a =
        word[1] == '-' ? find_name(p, word, &value, &found) : find_letter(p, word, &value);

    if (!a)
        return -1;
    if (found > 1)
        return py_wrong(p, "ambiguous option: %.*s", (int)MIN(strcspn(word, "="), (size_t)60),
                        word);
    if (!a->metavar) {
        if (value)
            return py_wrong(p, "argument %s: ignored explicit argument '%.60s'",
                            both_names(a, names), value);
        *(bool *)((char *)opts + a->offset) = true;
        return 0;
    }
    if (!value) {
        value = (*argv)[1];
        if (!value || py_is_option(value))
            return py_wrong(p, "argument %s: expected one argument", both_names(a, names));
        ++*argv;
    }
    *(const char **)((char *)opts + a->offset) = value;
    return check_value(p, a, value);
}

int py_check_required(const struct py_parser *p, const void *opts)
{
    AUTO(buf) struct buf missing = {0};
    char names[NAMES_MAX];

    buf_init(&missing, PY_TEXT_MAX);
    for (size_t i = 0; i < p->n_args; i++) {
        const struct py_arg *a = &p->args[i];
        if (a->kind == PY_REQUIRED && !*(const char *const *)((const char *)opts + a->offset))
            buf_addf(&missing, "%s%s", missing.n ? ", " : "", both_names(a, names));
    }
    if (!missing.n)
        return 0;
    return py_wrong(p, "the following arguments are required: %s", missing.p);
}
