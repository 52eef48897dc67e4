/* opt.c - words of a command line into the struct of a command
 *
 * Owns: the rules of the command line.  `--name value`, `--name=value`, `-n value`, `-nvalue`,
 * letters of flags together (`-fa`), options before and after operands, `--` ends them.  A command
 * that starts a program leaves everything after the program's name alone.
 * Long names are never abbreviated: a script must not break when an option is added.
 */
#include "cli/opt.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"
#include <stdio.h>

struct parse {
    const struct command *cmd; /* NULL before the command's name */
    const struct opt_group *const *groups;
    void *own, *shared;
    struct err *e;
};

bool choice_next(struct str *rest, struct str *out)
{
    if (!rest->n)
        return false;
    *out = str_cut(*rest, '|', rest);
    return true;
}

static const char *who(const struct parse *p, char out[64])
{
    if (p->cmd)
        snprintf(out, 64, "berth %s", p->cmd->name);
    else
        snprintf(out, 64, "berth");
    return out;
}

static void *group_base(const struct opt_group *g, void *own, void *shared)
{
    return g->shared ? shared : (char *)own + g->base;
}

static const struct opt *find_long(const struct parse *p, struct str name, void **out_base)
{
    for (const struct opt_group *const *g = p->groups; *g; g++)
        for (size_t i = 0; i < (*g)->n; i++)
            if (str_eq_c(name, (*g)->opts[i].name)) {
                *out_base = group_base(*g, p->own, p->shared);
                return &(*g)->opts[i];
            }
    return NULL;
}

static const struct opt *find_letter(const struct parse *p, char letter, void **out_base)
{
    for (const struct opt_group *const *g = p->groups; *g; g++)
        for (size_t i = 0; i < (*g)->n; i++)
            if ((*g)->opts[i].letter == letter) {
                *out_base = group_base(*g, p->own, p->shared);
                return &(*g)->opts[i];
            }
    return NULL;
}

static int unknown_long(const struct parse *p, struct str name)
{
    const char *names[96];
    size_t n = 0;
    char me[64], word[64];

    for (const struct opt_group *const *g = p->groups; *g; g++)
        for (size_t i = 0; i < (*g)->n && n < ARRAY_SIZE(names); i++)
            names[n++] = (*g)->opts[i].name;
    snprintf(word, sizeof(word), STR_FMT, STR_ARG(name));
    const char *near = str_nearest(word, names, n);
    if (near)
        return err_set(p->e, ERR_INVALID, "%s has no option --%s; did you mean --%s?", who(p, me),
                       word, near);
    return err_set(p->e, ERR_INVALID, "%s has no option --%s; see %s --help", who(p, me), word,
                   who(p, me));
}

static int bad_choice(const struct parse *p, const struct opt *o, const char *value)
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

static int store_number(const struct parse *p, const struct opt *o, struct opt_num *out,
                        const char *value)
{
    struct str s = str_of(value);
    int64_t v = 0;
    int rc = 0;

    switch (o->type) {
    case OPT_SIZE:
        rc = size_parse(s, &v, p->e);
        break;
    case OPT_DURATION:
        rc = duration_parse(s, &v, p->e);
        break;
    case OPT_CPUS:
        rc = cpus_parse(s, &v, p->e);
        break;
    default:
        if (!str_to_i64(s, &v))
            rc = err_set(p->e, ERR_INVALID, "'%.40s' is not a whole number", value);
    }
    if (rc < 0)
        return err_wrap(p->e, "--%s", o->name);
    *out = (struct opt_num){v, true};
    return 0;
}

static int store_value(const struct parse *p, const struct opt *o, void *base, const char *value)
{
    char *at = (char *)base + o->offset;

    switch (o->type) {
    case OPT_FLAG:
        *(bool *)at = true;
        return 0;
    case OPT_CHOICE:
        if (!choice_has(o->choices, value))
            return bad_choice(p, o, value);
        *(const char **)at = value;
        return 0;
    case OPT_TEXT:
        *(const char **)at = value;
        return 0;
    case OPT_LIST:
        vec_push((struct opt_list *)at, value);
        return 0;
    default:
        return store_number(p, o, (struct opt_num *)at, value);
    }
}

/* One word that begins with "--".  *argv stands on it; moves on over a separate value. */
static int parse_long(const struct parse *p, char ***argv)
{
    const char *word = **argv + 2;
    const char *eq = strchr(word, '=');
    struct str name = {word, eq ? (size_t)(eq - word) : strlen(word)};
    void *base;
    const struct opt *o = find_long(p, name, &base);

    if (!o)
        return unknown_long(p, name);
    if (o->type == OPT_FLAG) {
        if (eq)
            return err_set(p->e, ERR_INVALID, "--%s takes no value", o->name);
        return store_value(p, o, base, NULL);
    }
    if (eq)
        return store_value(p, o, base, eq + 1);
    if (!(*argv)[1])
        return err_set(p->e, ERR_INVALID, "--%s needs a value: --%s %s", o->name, o->name, o->arg);
    return store_value(p, o, base, *++*argv);
}

/* One word of letters: "-f", "-n5", "-fn", … */
static int parse_letters(const struct parse *p, char ***argv)
{
    char me[64];

    for (const char *at = **argv + 1; *at; at++) {
        void *base;
        const struct opt *o = find_letter(p, *at, &base);
        if (!o)
            return err_set(p->e, ERR_INVALID, "%s has no option -%c; see %s --help", who(p, me),
                           *at, who(p, me));
        if (o->type == OPT_FLAG) {
            if (store_value(p, o, base, NULL) < 0)
                return -1;
            continue;
        }
        if (at[1])
            return store_value(p, o, base, at + 1 + (at[1] == '='));
        if (!(*argv)[1])
            return err_set(p->e, ERR_INVALID, "-%c needs a value: -%c %s", o->letter, o->letter,
                           o->arg);
        return store_value(p, o, base, *++*argv);
    }
    return 0;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1];
}

static bool is_help(const char *word)
{
    return !strcmp(word, "-h") || !strcmp(word, "--help");
}

static bool is_spec_file(const char *word)
{
    const char *dot = strrchr(word, '.');

    return dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml") || !strcmp(dot, ".json"));
}

static int check_operands(const struct command *cmd, const struct operands *ops, struct err *e)
{
    if (ops->n < cmd->min_operands)
        return err_set(e, ERR_INVALID, "berth %s needs a %s; berth %s --help shows examples",
                       cmd->name, cmd->operand, cmd->name);
    if (ops->n > cmd->max_operands && !cmd->max_operands)
        return err_set(e, ERR_INVALID, "berth %s takes no operands, but got '%.60s'", cmd->name,
                       ops->p[0]);
    if (ops->n > cmd->max_operands)
        return err_set(e, ERR_INVALID, "berth %s takes %zu %s, but also got '%.60s'", cmd->name,
                       cmd->max_operands, cmd->operand, ops->p[cmd->max_operands]);
    return 0;
}

static void push_rest(struct operands *out, char **argv)
{
    size_t have = out->n, more = 0;

    while (argv[more])
        more++;
    out->p = xrealloc(out->p, have + more + 1, sizeof(*out->p));
    for (size_t i = 0; i < more; i++)
        out->p[out->n++] = argv[i];
    out->p[out->n] = NULL;
}

int opt_parse(const struct command *cmd, char **argv, void *own, void *shared, struct operands *out,
              bool *out_help, struct err *e)
{
    struct parse p = {cmd, cmd->groups, own, shared, e};
    char *one[2] = {NULL, NULL};

    *out = (struct operands){0};
    *out_help = false;
    push_rest(out, one);
    for (; *argv; argv++) {
        if (!strcmp(*argv, "--")) {
            out->dashed = out->n == 0;
            push_rest(out, argv + 1);
            break;
        }
        if (is_help(*argv)) {
            *out_help = true;
            return 0;
        }
        if (is_option(*argv)) {
            int rc = (*argv)[1] == '-' ? parse_long(&p, &argv) : parse_letters(&p, &argv);
            if (rc < 0)
                return -1;
            continue;
        }
        if ((cmd->flags & COMMAND_STARTS) && !is_spec_file(*argv)) {
            push_rest(out, argv);
            break;
        }
        one[0] = *argv;
        push_rest(out, one);
    }
    return check_operands(cmd, out, e);
}

int opt_parse_leading(const struct opt_group *const *groups, char **argv, void *shared,
                      char ***out_rest, bool *out_help, struct err *e)
{
    struct parse p = {NULL, groups, NULL, shared, e};

    *out_help = false;
    for (; *argv && is_option(*argv); argv++) {
        if (is_help(*argv)) {
            *out_help = true;
            break;
        }
        int rc = (*argv)[1] == '-' ? parse_long(&p, &argv) : parse_letters(&p, &argv);
        if (rc < 0)
            return -1;
    }
    *out_rest = argv;
    return 0;
}

void opt_done(const struct command *cmd, void *own, void *shared, struct operands *ops)
{
    for (const struct opt_group *const *g = cmd->groups; *g; g++)
        for (size_t i = 0; i < (*g)->n; i++)
            if ((*g)->opts[i].type == OPT_LIST) {
                char *base = group_base(*g, own, shared);
                vec_done((struct opt_list *)(base + (*g)->opts[i].offset));
            }
    free(ops->p);
    *ops = (struct operands){0};
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
