/* template.c - placeholders in words, and the command of a run
 *
 * Owns: what counts as a placeholder, values inside word lists, what a command becomes for execve.
 * Shell lines are the business of shell_template.c.
 */
#include "model/template.h"
#include "base/arena.h"
#include "base/util.h"
#include "model/spec_priv.h"

/* An identifier as in C: letters, digits and _, not starting with a digit. */
static bool ident_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

struct brace_group template_brace(struct str text, size_t i)
{
    size_t end = i + 1;

    if (end < text.n && text.p[end] == '{')
        return (struct brace_group){BRACE_ESCAPED, .n = 2};
    while (end < text.n && ident_char(text.p[end], end == i + 1))
        end++;
    if (end == i + 1 || end >= text.n || text.p[end] != '}' || (i > 0 && text.p[i - 1] == '$'))
        return (struct brace_group){BRACE_PLAIN, .n = 1};
    return (struct brace_group){BRACE_PLACEHOLDER, {text.p + i + 1, end - i - 1}, end - i + 1};
}

bool template_has_placeholder(struct str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] != '{')
            continue;
        struct brace_group g = template_brace(text, i);
        if (g.kind == BRACE_PLACEHOLDER)
            return true;
        i += g.n - 1;
    }
    return false;
}

int template_unknown(const struct template_vars *v, struct str name, struct err *e)
{
    const char *known[64];
    size_t n = v->names(v->arg, known, ARRAY_SIZE(known));
    AUTO_FREE char *word = xstrndup(name.p, MIN(name.n, 60));
    const char *near = str_nearest(word, known, n);

    if (near)
        return err_set(e, ERR_INVALID,
                       "{%s} is not a parameter; did you mean {%.60s}? ({{%s}} for literal braces)",
                       word, near, word);
    return err_set(e, ERR_INVALID,
                   "{%s} is not a parameter of this job; add it to params, or write {{%s}} for "
                   "literal braces",
                   word, word);
}

int template_expand(struct str text, const struct template_vars *v, struct buf *out, struct err *e)
{
    bool escaped = false; /* inside {{ … }} */

    for (size_t i = 0; i < text.n;) {
        const char *brace = text.p + i;
        while (brace < text.p + text.n && *brace != '{' && *brace != '}')
            brace++;
        size_t plain = (size_t)(brace - (text.p + i));
        buf_add(out, text.p + i, plain);
        i += plain;
        if (i == text.n)
            break;
        if (*brace == '}') {
            buf_addc(out, '}');
            i += escaped && i + 1 < text.n && brace[1] == '}' ? 2 : 1;
            escaped = false;
            continue;
        }
        struct brace_group g = template_brace(text, i);
        struct str value = STR("{");
        if (g.kind == BRACE_PLACEHOLDER && !v->find(v->arg, g.name, &value))
            return template_unknown(v, g.name, e);
        buf_add(out, value.p, value.n);
        escaped = g.kind == BRACE_ESCAPED;
        i += g.n;
    }
    if (out->overflow)
        return err_set(e, ERR_LIMIT, "becomes longer than the %zu bytes allowed", out->max);
    return 0;
}

/* ---- params of one job ---- */

/* What params_find gets.  Values are copied into the arena, because numbers have no text of
 * their own. */
struct params_arg {
    const struct json *params;
    struct arena *a; /* NULL: only names are asked for */
};

static bool params_find(void *arg, struct str name, struct str *out)
{
    struct params_arg *p = arg;
    char key[256], scratch[32];
    AUTO_FREE char *owned = NULL;
    struct str text;

    if (name.n >= sizeof(key))
        return false;
    memcpy(key, name.p, name.n);
    key[name.n] = '\0';
    if (!json_has(p->params, key))
        return false;
    *out = STR("");
    /* Only the existence was asked for, so no value is formatted. */
    if (!p->a)
        return true;
    text = scalar_text(json_get(p->params, key), scratch, &owned);
    *out = (struct str){arena_strndup(p->a, text.p, text.n), text.n};
    return true;
}

static size_t params_names(void *arg, const char **out, size_t max)
{
    struct params_arg *p = arg;
    size_t n = 0;

    for (struct json_it it = {0}; n < max && json_next(p->params, &it); n++)
        out[n] = it.key;
    return n;
}

static struct template_vars params_vars(struct params_arg *p)
{
    return (struct template_vars){params_find, params_names, p};
}

int params_expand(struct str text, const struct json *params, struct buf *out, struct err *e)
{
    AUTO(arena) struct arena a = {0};
    struct params_arg arg = {params, &a};
    struct template_vars v = params_vars(&arg);

    return template_expand(text, &v, out, e);
}

/* Each word is expanded by itself, so a value with spaces stays within its word. */
static int command_words(const struct spec_command *c, const struct template_vars *v,
                         struct arena *a, char **argv, struct err *e)
{
    AUTO(buf) struct buf b = {0};
    size_t total = 0;

    buf_init(&b, SPEC_WORD_MAX);
    for (size_t i = 0; c->argv[i]; i++) {
        buf_reset(&b);
        if (template_expand(str_of(c->argv[i]), v, &b, e) < 0)
            return err_wrap(e, "command[%zu]", i);
        if (b.n && memchr(b.p, '\0', b.n))
            return err_set(e, ERR_INVALID, "command[%zu]: a parameter contains a NUL character", i);
        total += b.n + 1;
        argv[i] = arena_strndup(a, b.p ? b.p : "", b.n);
    }
    if (total > SPEC_COMMAND_BYTES)
        return err_set(e, ERR_LIMIT, "command: becomes %zu bytes long; at most %d are allowed",
                       total, SPEC_COMMAND_BYTES);
    return 0;
}

/* "BERTH_PARAM_lr=0.1" for each used parameter. */
static int shell_env(const template_used *used, const struct template_vars *v, struct arena *a,
                     char ***out, struct err *e)
{
    char **env = arena_alloc(a, (used->n + 1) * sizeof(char *));

    for (size_t i = 0; i < used->n; i++) {
        struct str name = used->p[i], value = STR("");

        v->find(v->arg, name, &value);
        if (memchr(value.p, '\0', value.n))
            return err_set(e, ERR_INVALID, "params." STR_FMT ": contains a NUL character",
                           STR_ARG(name));
        /* 13 bytes are "BERTH_PARAM_" and "=". */
        if (value.n + name.n + 13 > SPEC_WORD_MAX)
            return err_set(e, ERR_LIMIT,
                           "params." STR_FMT ": is %zu bytes long; at most %d can be handed on; "
                           "read it from the file named by BERTH_PARAMS_FILE",
                           STR_ARG(name), value.n, SPEC_WORD_MAX);
        env[i] = arena_printf(a, "BERTH_PARAM_" STR_FMT "=" STR_FMT, STR_ARG(name), STR_ARG(value));
    }
    *out = env;
    return 0;
}

static int command_shell(const struct spec_command *c, const struct template_vars *v,
                         struct arena *a, char **argv, char ***out_env, struct err *e)
{
    AUTO(buf) struct buf b = {0};
    template_used used = {0};
    int rc;

    buf_init(&b, SPEC_WORD_MAX);
    rc = template_shell(str_of(c->shell), v, &b, &used, e);
    if (rc < 0)
        err_wrap(e, "command");
    else
        rc = shell_env(&used, v, a, out_env, e);
    if (rc == 0)
        argv[2] = arena_strndup(a, b.p ? b.p : "", b.n);
    vec_done(&used);
    return rc;
}

int spec_argv(const struct spec_command *c, const struct json *params, struct arena *a,
              char ***out_argv, char ***out_env, struct err *e)
{
    struct params_arg arg = {params, a};
    struct template_vars v = params_vars(&arg);
    /* Without params braces are ordinary text, as in any shell line. */
    bool plain = !json_len(params);
    char **env = arena_alloc(a, sizeof(char *)), **argv;
    size_t n = 0;

    while (!c->shell && c->argv[n])
        n++;
    argv = arena_alloc(a, (c->shell ? 4 : n + 1) * sizeof(char *));
    if (c->shell) {
        argv[0] = arena_strdup(a, "/bin/sh");
        argv[1] = arena_strdup(a, "-c");
        if (plain)
            argv[2] = arena_strdup(a, c->shell);
        else if (command_shell(c, &v, a, argv, &env, e) < 0)
            return -1;
    } else if (plain) {
        for (size_t i = 0; i < n; i++)
            argv[i] = arena_strdup(a, c->argv[i]);
    } else if (command_words(c, &v, a, argv, e) < 0) {
        return -1;
    }
    *out_argv = argv;
    *out_env = env;
    return 0;
}

/* ---- questions at submit time ---- */

/* Expands the whole command into a scratch buffer; only errors matter. */
int spec_check_template(const struct spec *s, const struct template_vars *v, const char *path,
                        struct err *e)
{
    AUTO(buf) struct buf b = {0};
    template_used used = {0};
    int rc = 0;

    buf_init(&b, (size_t)SPEC_COMMAND_BYTES << 1);
    if (s->command.shell) {
        rc = template_shell(str_of(s->command.shell), v, &b, &used, e);
        if (rc < 0)
            err_wrap(e, "%scommand", path);
    }
    for (size_t k = 0; s->command.argv && s->command.argv[k] && rc == 0; k++) {
        rc = template_expand(str_of(s->command.argv[k]), v, &b, e);
        if (rc < 0)
            err_wrap(e, "%scommand[%zu]", path, k);
    }
    vec_done(&used);
    return rc;
}

int spec_check_placeholders(const struct spec *s, const struct json *params, const char *path,
                            struct err *e)
{
    struct params_arg arg = {params, NULL};
    struct template_vars v = params_vars(&arg);

    return json_len(params) ? spec_check_template(s, &v, path, e) : 0;
}

int params_check(const struct json *params, const char *path, struct err *e)
{
    if (json_type(params) == JSON_NULL)
        return 0;
    if (json_type(params) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "%sparams: is %s; write a map, as in {lr: 0.1}", path,
                       json_type_name(json_type(params)));
    if (json_len(params) > SPEC_PARAMS_MAX)
        return err_set(e, ERR_INVALID, "%sparams: has %zu keys; at most %d are allowed", path,
                       json_len(params), SPEC_PARAMS_MAX);
    for (struct json_it it = {0}; json_next(params, &it);) {
        size_t n = strlen(it.key);
        if (n < 1 || n > SPEC_NAME_MAX)
            return err_set(e, ERR_INVALID, "%sparams: a key is %zu bytes long; 1 to %d are allowed",
                           path, n, SPEC_NAME_MAX);
        if (json_type(it.val) == JSON_STR && memchr(json_str(it.val).p, '\0', json_str(it.val).n))
            return err_set(e, ERR_INVALID, "%sparams.%.60s: contains a NUL character; remove it",
                           path, it.key);
    }
    return 0;
}
