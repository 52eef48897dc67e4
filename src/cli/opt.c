/* opt.c - words of a command line into the struct of a command
 *
 * Owns: the rules of the command line.  `--name value`, `--name=value`, `-n value`, `-nvalue`,
 * letters of flags together (`-fa`), options before and after operands, `--` ends them.  A command
 * that starts a program leaves everything after the program's name alone.
 * Long names are never abbreviated, so that a script does not break when an option is added; only
 * commands with COMMAND_PYTHON accept abbreviations, because argparse does (see opt.h).
 */
#include "cli/opt.h"
#include "base/json.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"
#include <stdio.h>

enum { LABEL_MAX = 80 };
struct parse {
    const struct command *cmd; /* NULL before the command's name */
    const struct opt_group *const *groups;
    void *own, *shared;
    struct err *e;
    bool python;       /* the command has COMMAND_PYTHON */
    char strange[200]; /* python: the words that the command does not know */
};

bool choice_next(struct str *rest, struct str *out)
{
    if (!rest->n)
        return false;
    *out = str_cut(*rest, '|', rest);
    return true;
}

/* The command as messages name it: "berth ls", "atlas-server start". */
static const char *parse_who(const struct parse *p, char out[64])
{
    const char *program = p->cmd && p->cmd->program ? p->cmd->program : "berth";

    snprintf(out, 64, "%s%s%s", program, p->cmd ? " " : "", p->cmd ? p->cmd->name : "");
    return out;
}

/* The option as messages name it: "--limit", from argparse "argument -n/--limit". */
static const char *opt_label(const struct parse *p, const struct opt *o, char out[LABEL_MAX])
{
    if (p->python && o->letter)
        snprintf(out, LABEL_MAX, "argument -%c/--%s", o->letter, o->name);
    else
        snprintf(out, LABEL_MAX, "%s--%s", p->python ? "argument " : "", o->name);
    return out;
}

/* The struct that the offsets of this group count from. */
static void *group_base(const struct opt_group *g, void *own, void *shared)
{
    return g->shared ? shared : (char *)own + g->base;
}

/* *out_found: how many options `name` may stand for; more than one only for an abbreviation. */
static const struct opt *opt_find_long(const struct parse *p, struct str name, void **out_base,
                                       size_t *out_found)
{
    const struct opt *best = NULL;

    *out_found = 0;
    FOR_EACH_OPT (o, p->groups) {
        bool whole = str_eq_c(name, o->name);
        if (!whole && !(p->python && o->help && !strncmp(o->name, name.p, name.n)))
            continue;
        *out_base = group_base(*g_o, p->own, p->shared);
        best = o;
        ++*out_found;
        if (whole) {
            *out_found = 1;
            return best;
        }
    }
    return best;
}

static const struct opt *opt_find_letter(const struct parse *p, char letter, void **out_base)
{
    FOR_EACH_OPT (o, p->groups)
        if (o->letter == letter) {
            *out_base = group_base(*g_o, p->own, p->shared);
            return o;
        }
    return NULL;
}

/* Always -1.  Suggests the nearest option of the command, when one is near. */
static int opt_unknown_long(const struct parse *p, struct str name)
{
    const char *names[96];
    size_t n = 0;
    char me[64], word[64];

    FOR_EACH_OPT (o, p->groups)
        if (n < ARRAY_SIZE(names))
            names[n++] = o->name;
    snprintf(word, sizeof(word), STR_FMT, STR_ARG(name));
    const char *near = str_nearest(word, names, n);
    if (near)
        return err_set(p->e, ERR_INVALID, "%s has no option --%s; did you mean --%s?",
                       parse_who(p, me), word, near);
    return err_set(p->e, ERR_INVALID, "%s has no option --%s; see %s --help", parse_who(p, me),
                   word, parse_who(p, me));
}

/* Always -1, as all functions with `bad` or `unknown` in their names here. */
static int opt_bad_choice(const struct parse *p, const struct opt *o, const char *value)
{
    struct str rest = str_of(o->choices), word;
    char list[160] = "";
    size_t used = 0;

    while (choice_next(&rest, &word) && used < sizeof(list))
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s" STR_FMT, used ? ", " : "",
                                 STR_ARG(word));
    return err_set(p->e, ERR_INVALID, "--%s cannot be '%.40s'; it is one of %s", o->name, value,
                   list);
}

static bool choice_has(const char *choices, const char *value)
{
    struct str rest = str_of(choices), word;

    while (choice_next(&rest, &word))
        if (str_eq_c(word, value))
            return true;
    return false;
}

static int opt_bad_number(const struct parse *p, const struct opt *o, const char *value)
{
    char label[LABEL_MAX];
    bool real = o->type == OPT_REAL;

    opt_label(p, o, label);
    if (p->python)
        return err_set(p->e, ERR_INVALID, "%s: invalid %s value: '%.60s'", label,
                       real ? "float" : "int", value);
    if (o->type == OPT_PORT)
        return err_set(p->e, ERR_INVALID, "%s: '%.40s' is not a port number (1 to 65535)", label,
                       value);
    return err_set(p->e, ERR_INVALID, "%s: '%.40s' is not a %snumber", label, value,
                   real ? "" : "whole ");
}

/* Sizes, durations and CPUs: `at` is a struct opt_num. */
static int opt_store_units(const struct parse *p, const struct opt *o, void *at, const char *value)
{
    struct str s = str_of(value);
    int64_t v = 0;
    int rc = o->type == OPT_SIZE       ? size_parse(s, &v, p->e)
             : o->type == OPT_DURATION ? duration_parse(s, &v, p->e)
                                       : cpus_parse(s, &v, p->e);

    if (rc < 0)
        return err_wrap(p->e, "--%s", o->name);
    *(struct opt_num *)at = (struct opt_num){v, true};
    return 0;
}

/* value is NULL for flags.  Texts are stored as pointers into argv, without a copy. */
static int opt_store(const struct parse *p, const struct opt *o, void *base, const char *value)
{
    void *at = (char *)base + o->offset;
    int64_t whole = 0;
    double real = 0;

    switch (o->type) {
    case OPT_FLAG:
        *(bool *)at = true;
        return 0;
    case OPT_CHOICE:
        if (!choice_has(o->choices, value))
            return opt_bad_choice(p, o, value);
        __attribute__((fallthrough));
    case OPT_TEXT:
    case OPT_OPTIONAL:
    case OPT_REQUIRED:
        *(const char **)at = value;
        return 0;
    case OPT_LIST:
        vec_push((struct opt_list *)at, value);
        return 0;
    case OPT_SIZE:
    case OPT_DURATION:
    case OPT_CPUS:
        return opt_store_units(p, o, at, value);
    case OPT_INT:
        if (!str_to_i64(str_of(value), &whole))
            return opt_bad_number(p, o, value);
        *(struct opt_num *)at = (struct opt_num){whole, true};
        return 0;
    case OPT_REAL:
        if (!str_to_double(str_of(value), &real))
            return opt_bad_number(p, o, value);
        *(struct opt_real *)at = (struct opt_real){real, true};
        return 0;
    case OPT_PORT:
        if (!str_to_i64(str_of(value), &whole) || whole < 1 || whole > UINT16_MAX)
            return opt_bad_number(p, o, value);
        *(int *)at = (int)whole;
        return 0;
    }
    return 0;
}

static bool word_is_number(const char *word)
{
    double d;

    return str_to_double(str_of(word), &d);
}

/* "-" alone is an operand; argparse takes "-3" for one as well. */
static bool word_is_option(const struct parse *p, const char *word)
{
    return word[0] == '-' && word[1] && !(p->python && word_is_number(word));
}

/* Stores the value of `o`: `given` when it was attached to the option, else the next word. */
static int opt_take_value(const struct parse *p, const struct opt *o, void *base, const char *given,
                          char ***argv)
{
    char label[LABEL_MAX];

    if (given)
        return opt_store(p, o, base, given);
    const char *next = (*argv)[1];
    if (p->python && (!next || word_is_option(p, next)))
        return err_set(p->e, ERR_INVALID, "%s: expected one argument", opt_label(p, o, label));
    if (!next && (**argv)[1] != '-') /* named as it was typed */
        return err_set(p->e, ERR_INVALID, "-%c needs a value: -%c %s", o->letter, o->letter,
                       o->arg);
    if (!next)
        return err_set(p->e, ERR_INVALID, "--%s needs a value: --%s %s", o->name, o->name, o->arg);
    ++*argv;
    return opt_store(p, o, base, next);
}

/* argparse complains about unknown words only when everything else is in order. */
static void parse_add_strange(struct parse *p, const char *word)
{
    size_t n = strlen(p->strange);

    snprintf(p->strange + n, sizeof(p->strange) - n, "%s%s", n ? " " : "", word);
}

/* One word that begins with "--".  *argv stands on it; moves on over a separate value. */
static int parse_long(struct parse *p, char ***argv)
{
    const char *word = **argv + 2;
    const char *eq = strchr(word, '=');
    struct str name = {word, eq ? (size_t)(eq - word) : strlen(word)};
    char label[LABEL_MAX];
    size_t found;
    void *base;
    const struct opt *o = opt_find_long(p, name, &base, &found);

    if (!o && p->python) {
        parse_add_strange(p, **argv);
        return 0;
    }
    if (!o)
        return opt_unknown_long(p, name);
    if (found > 1)
        return err_set(p->e, ERR_INVALID, "ambiguous option: --%.*s", (int)MIN(name.n, (size_t)60),
                       name.p);
    if (o->type == OPT_OPTIONAL)
        return opt_store(p, o, base, eq ? eq + 1 : "");
    if (opt_has_value(o))
        return opt_take_value(p, o, base, eq ? eq + 1 : NULL, argv);
    if (eq && p->python)
        return err_set(p->e, ERR_INVALID, "%s: ignored explicit argument '%.60s'",
                       opt_label(p, o, label), eq + 1);
    if (eq)
        return err_set(p->e, ERR_INVALID, "--%s takes no value", o->name);
    return opt_store(p, o, base, NULL);
}

/* One word of letters: "-f", "-n5", "-fn", … */
static int parse_letters(struct parse *p, char ***argv)
{
    char me[64];

    for (const char *at = **argv + 1; *at; at++) {
        void *base;
        const struct opt *o = opt_find_letter(p, *at, &base);
        if (!o && p->python) {
            parse_add_strange(p, **argv);
            return 0;
        }
        if (!o)
            return err_set(p->e, ERR_INVALID, "%s has no option -%c; see %s --help",
                           parse_who(p, me), *at, parse_who(p, me));
        if (opt_has_value(o))
            return opt_take_value(p, o, base, at[1] ? at + 1 + (at[1] == '=') : NULL, argv);
        if (opt_store(p, o, base, NULL) < 0)
            return -1;
    }
    return 0;
}

static int parse_option(struct parse *p, char ***argv)
{
    return (**argv)[1] == '-' ? parse_long(p, argv) : parse_letters(p, argv);
}

bool python_is_help(const char *word)
{
    return !strcmp(word, "-h") || (strlen(word) > 2 && !strncmp("--help", word, strlen(word)));
}

static bool word_is_help(const struct parse *p, const char *word)
{
    return p->python ? python_is_help(word) : !strcmp(word, "-h") || !strcmp(word, "--help");
}

static bool is_spec_file(const char *word)
{
    const char *dot = strrchr(word, '.');

    return dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml") || !strcmp(dot, ".json"));
}

/* min_operands and max_operands of the command; the message names the first word too many. */
static int operands_check(const struct parse *p, const struct operands *ops)
{
    const struct command *cmd = p->cmd;
    char me[64];

    parse_who(p, me);
    if (ops->n < cmd->min_operands)
        return err_set(p->e, ERR_INVALID, "%s needs %s %s; %s --help shows examples", me,
                       strchr("AEIOUaeiou", cmd->operand[0]) ? "an" : "a", cmd->operand, me);
    if (ops->n > cmd->max_operands && !cmd->max_operands)
        return err_set(p->e, ERR_INVALID, "%s takes no operands, but got '%.60s'", me, ops->p[0]);
    if (ops->n > cmd->max_operands)
        return err_set(p->e, ERR_INVALID, "%s takes %zu %s, but also got '%.60s'", me,
                       cmd->max_operands, cmd->operand, ops->p[cmd->max_operands]);
    return 0;
}

/* What argparse checks at the end: required options and operands, then unknown words. */
static int python_check(const struct parse *p, const struct operands *ops)
{
    AUTO(buf) struct buf missing = {0};

    buf_init(&missing, PYTHON_TEXT_MAX);
    FOR_EACH_OPT (o, p->groups) {
        const char *base = group_base(*g_o, p->own, p->shared);
        char label[LABEL_MAX];
        if (o->type == OPT_REQUIRED && !*(const char *const *)(base + o->offset))
            buf_addf(&missing, "%s%s", missing.n ? ", " : "",
                     opt_label(p, o, label) + strlen("argument "));
    }
    for (size_t i = ops->n; i < p->cmd->min_operands; i++)
        buf_addf(&missing, "%s%s", missing.n ? ", " : "", p->cmd->words[i].name);
    if (missing.n)
        return err_set(p->e, ERR_INVALID, "the following arguments are required: %s", missing.p);
    if (p->strange[0])
        return err_set(p->e, ERR_NOT_FOUND, "unrecognized arguments: %s", p->strange);
    return 0;
}

/* Keeps the NULL at the end of out->p, because commands pass the array on as an argv. */
static void operand_push(struct parse *p, struct operands *out, const char *word)
{
    if (p->python && out->n >= p->cmd->max_operands) {
        parse_add_strange(p, word);
        return;
    }
    out->p = xrealloc(out->p, out->n + 2, sizeof(*out->p));
    out->p[out->n++] = word;
    out->p[out->n] = NULL;
}

/* Do all words from this one on belong to the program that the command starts? */
static bool operands_end_options(const struct parse *p, const struct operands *ops,
                                 const char *word)
{
    if (!(p->cmd->flags & COMMAND_STARTS))
        return false;
    if (p->python)
        return ops->n == p->cmd->min_operands;
    return !word_is_option(p, word) && !is_spec_file(word);
}

int opt_parse(const struct command *cmd, char **argv, void *own, void *shared, struct operands *out,
              bool *out_help, struct err *e)
{
    struct parse p = {cmd, cmd->groups, own, shared, e, cmd->flags & COMMAND_PYTHON, ""};
    bool options = true;

    *out = (struct operands){.p = xcalloc(1, sizeof(*out->p))}; /* ends with NULL when empty too */
    *out_help = false;
    for (; *argv; argv++) {
        if (options && operands_end_options(&p, out, *argv))
            options = false;
        if (!options) {
            operand_push(&p, out, *argv);
        } else if (!strcmp(*argv, "--")) {
            out->dashed = out->n == 0;
            options = false;
        } else if (word_is_help(&p, *argv)) {
            *out_help = true;
            return 0;
        } else if (!word_is_option(&p, *argv)) {
            operand_push(&p, out, *argv);
        } else if (parse_option(&p, &argv) < 0) {
            return -1;
        }
    }
    return p.python ? python_check(&p, out) : operands_check(&p, out);
}

int opt_parse_leading(const struct opt_group *const *groups, char **argv, void *shared,
                      char ***out_rest, bool *out_help, struct err *e)
{
    struct parse p = {NULL, groups, NULL, shared, e, false, ""};

    *out_help = false;
    for (; *argv && word_is_option(&p, *argv); argv++) {
        if (word_is_help(&p, *argv)) {
            *out_help = true;
            break;
        }
        if (parse_option(&p, &argv) < 0)
            return -1;
    }
    *out_rest = argv;
    return 0;
}

int opt_range(const struct opt_num *n, const char *label, int64_t lo, int64_t hi, struct err *e)
{
    return !n->set || (n->v >= lo && n->v <= hi)
               ? 0
               : err_set(e, ERR_INVALID, "%s must be between %lld and %lld", label, (long long)lo,
                         (long long)hi);
}

void opt_done(const struct command *cmd, void *own, void *shared, struct operands *ops)
{
    FOR_EACH_OPT (o, cmd->groups)
        if (o->type == OPT_LIST) {
            char *base = group_base(*g_o, own, shared);
            vec_done((struct opt_list *)(base + o->offset));
        }
    free(ops->p);
    *ops = (struct operands){0};
}

/* Seconds and CPUs as plain numbers where they are whole, else in thousandths. */
static struct json *thousandths_json(int64_t v, const char *unit)
{
    if (v % 1000 == 0)
        return json_new_int(v / 1000);
    AUTO_FREE char *text = xasprintf("%lld%s", (long long)v, unit);
    return json_new_str(str_of(text));
}

/* NULL: the option was not given, or has no form in JSON. */
static struct json *opt_json(const struct opt *o, const void *at)
{
    const struct opt_num *num = at;
    const struct opt_list *list = at;

    switch (o->type) {
    case OPT_FLAG:
        return *(const bool *)at ? json_new_bool(true) : NULL;
    case OPT_TEXT:
    case OPT_CHOICE:
        return *(const char *const *)at ? json_new_str(str_of(*(const char *const *)at)) : NULL;
    case OPT_LIST:
        return list->n ? json_new_words(list->p, list->n) : NULL;
    case OPT_INT:
    case OPT_SIZE:
        return num->set ? json_new_int(num->v) : NULL;
    case OPT_DURATION:
    case OPT_CPUS:
        return num->set ? thousandths_json(num->v, o->type == OPT_CPUS ? "m" : "ms") : NULL;
    default:
        return NULL;
    }
}

void opt_put_json(struct json *obj, const struct opt_group *const *groups, const void *own,
                  const char *names)
{
    struct str rest = str_of(names), name;

    while (choice_next(&rest, &name))
        FOR_EACH_OPT (o, groups) {
            const char *base = group_base(*g_o, (void *)(uintptr_t)own, (void *)(uintptr_t)own);
            struct json *v = str_eq_c(name, o->name) ? opt_json(o, base + o->offset) : NULL;
            AUTO_FREE char *key = xstrdup(o->name);
            for (char *dash = key; (dash = strchr(dash, '-'));)
                *dash = '_';
            if (v)
                json_set_take(obj, key, v);
        }
}

const struct command *command_find(const struct command *const *all, const char *name,
                                   struct err *e)
{
    const char *names[64];
    size_t n = 0;

    for (const struct command *const *c = all; *c; c++) {
        if (!strcmp((*c)->name, name))
            return *c;
        if (!((*c)->flags & COMMAND_HIDDEN) && n < ARRAY_SIZE(names))
            names[n++] = (*c)->name;
    }
    const char *near = str_nearest(name, names, n);
    if (near)
        err_set(e, ERR_INVALID, "'%.40s' is not a berth command; did you mean '%s'?", name, near);
    else
        err_set(e, ERR_INVALID, "'%.40s' is not a berth command; berth help lists them", name);
    return NULL;
}
