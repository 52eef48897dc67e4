/* spec.c - reads a job spec from the value tree and checks it, once
 *
 * Owns: what each kind of key accepts, the defaults, the messages.  Which keys exist and their
 * limits stand in spec_keys.c.
 *
 * Every message names the path, the value and the remedy: `jobs[3].resources.cpu: unknown key; did
 * you mean "cpus"?`.  Nothing is formatted unless something is wrong: a bulk submit reads 100 000
 * specs.
 */
#include "base/units.h"
#include "base/util.h"
#include "model/spec_priv.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

const char *spec_show(const struct json *v, char out[SHOW_MAX])
{
    AUTO_FREE char *text = json_text(v);

    if (snprintf(out, SHOW_MAX, "%s", text ? text : "null") >= SHOW_MAX)
        memcpy(out + SHOW_MAX - 4, "...", 4);
    return out;
}

int spec_bad(const struct reader *r, const char *key, const char *fmt, ...)
{
    char text[200];

    FORMAT_ARGS(text, fmt);
    return err_set(r->e, ERR_INVALID, "%s%s%s: %s", r->path, r->sub, key, text);
}

int spec_bad_type(const struct reader *r, const char *key, const struct json *v, const char *wanted)
{
    char shown[SHOW_MAX];

    return spec_bad(r, key, "%s is %s; write %s", spec_show(v, shown), json_type_name(json_type(v)),
                    wanted);
}

/* Members are int32_t or int64_t; the table knows the width. */
static void put_int(struct spec *s, const struct spec_key *k, int64_t v)
{
    if (k->width == sizeof(int64_t))
        *(int64_t *)key_member(s, k) = v;
    else
        *(int32_t *)key_member(s, k) = (int32_t)v;
}

static bool has_control(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
            return true;
    return false;
}

int spec_read_text(const struct reader *r, const struct spec_key *k, const struct json *v,
                   char **out)
{
    char scratch[32];
    AUTO_FREE char *owned = NULL;
    struct str s;

    if (json_type(v) != JSON_STR && (k->kind != KEY_TEXT || json_type(v) != JSON_INT))
        return spec_bad_type(r, k->name, v, "a text in quotes");
    s = scalar_text(v, scratch, &owned);
    if (s.n < (size_t)k->min || s.n > (size_t)k->max)
        return spec_bad(r, k->name, "is %zu bytes long; 1 to %" PRId64 " are allowed", s.n, k->max);
    if (k->kind == KEY_TEXT && has_control(s))
        return spec_bad(r, k->name, "contains a control character; write plain text on one line");
    if (memchr(s.p, '\0', s.n))
        return spec_bad(r, k->name, "contains a NUL character; remove it");
    *out = xstrndup(s.p, s.n);
    return 0;
}

static int read_dir(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    if (spec_read_text(r, k, v, &r->s->command.cwd) < 0)
        return -1;
    if (r->s->command.cwd[0] != '/')
        return spec_bad(r, k->name, "\"%.80s\" is not absolute; write a path that starts with /",
                        r->s->command.cwd);
    return 0;
}

/* 0, or -1 with a message in the unit that the user wrote. */
static int in_range(const struct reader *r, const struct spec_key *k, const struct json *v,
                    int64_t n)
{
    char shown[SHOW_MAX], lo[UNIT_TEXT_MAX], hi[UNIT_TEXT_MAX];

    if (n >= k->min && n <= k->max)
        return 0;
    switch (k->kind) {
    case KEY_SIZE:
        size_format(k->min, lo);
        size_format(k->max, hi);
        return spec_bad(r, k->name,
                        "%s is out of range; %s to %s are allowed (add a unit, as in 4G)",
                        spec_show(v, shown), lo, hi);
    case KEY_DURATION:
        duration_format(k->max, hi);
        return spec_bad(r, k->name, "%s is out of range; 0 to %s are allowed", spec_show(v, shown),
                        hi);
    case KEY_CPUS:
        return spec_bad(r, k->name, "%s is out of range; 0 to %" PRId64 " are allowed",
                        spec_show(v, shown), k->max / 1000);
    default:
        return spec_bad(r, k->name, "%s is out of range; %" PRId64 " to %" PRId64 " are allowed",
                        spec_show(v, shown), k->min, k->max);
    }
}

/* A number in the unit of `scale` (CPUs → 1000, seconds → 1000), or text with a unit. */
static int read_scaled(const struct reader *r, const struct spec_key *k, const struct json *v,
                       int64_t scale, int64_t *out)
{
    double d;

    switch (json_type(v)) {
    case JSON_INT:
    case JSON_REAL:
        d = json_real(v) * (double)scale;
        /* Beyond 2^53 llround of a double is not exact, and NaN fails every comparison. */
        if (!(fabs(d) < 9e15))
            return in_range(r, k, v, INT64_MAX);
        *out = llround(d);
        return 0;
    case JSON_STR:
        break;
    default:
        return spec_bad_type(r, k->name, v, "a number, or a text with a unit");
    }
    if (k->kind == KEY_SIZE   ? size_parse(json_str(v), out, r->e) < 0
        : k->kind == KEY_CPUS ? cpus_parse(json_str(v), out, r->e) < 0
                              : duration_parse(json_str(v), out, r->e) < 0)
        return err_wrap(r->e, "%s%s%s", r->path, r->sub, k->name);
    return 0;
}

static int read_number(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    int64_t n = 0;

    if (k->kind == KEY_INT) {
        if (json_type(v) != JSON_INT)
            return spec_bad_type(r, k->name, v, "a whole number");
        n = json_int(v);
    } else if (read_scaled(r, k, v, k->kind == KEY_SIZE ? 1 : 1000, &n) < 0) {
        return -1;
    }
    if (in_range(r, k, v, n) < 0)
        return -1;
    put_int(r->s, k, n);
    return 0;
}

/* execve takes neither NULs nor words beyond this length. */
static int check_word(const struct reader *r, const char *key, struct str s)
{
    if (s.n > SPEC_WORD_MAX)
        return spec_bad(r, key, "is %zu bytes long; at most %d can be handed to a program", s.n,
                        SPEC_WORD_MAX);
    if (memchr(s.p, '\0', s.n))
        return spec_bad(r, key, "contains a NUL character; remove it");
    return 0;
}

static int read_words(const struct reader *r, const char *key, const struct json *v)
{
    size_t n = json_len(v), total = 0;

    if (n == 0)
        return spec_bad(r, key, "is an empty list; write the program and its arguments");
    if (n > SPEC_WORDS_MAX)
        return spec_bad(r, key, "has %zu words; at most %d are allowed", n, SPEC_WORDS_MAX);
    r->s->command.argv = xcalloc(n + 1, sizeof(char *));
    for (size_t i = 0; i < n; i++) {
        const struct json *w = json_at(v, i);
        char scratch[32], at[32];
        AUTO_FREE char *owned = NULL;

        snprintf(at, sizeof(at), "command[%zu]", i);
        if (json_type(w) == JSON_NULL || json_len(w) || json_type(w) >= JSON_ARRAY)
            return spec_bad_type(r, at, w, "a text");
        struct str s = scalar_text(w, scratch, &owned);
        if (check_word(r, at, s) < 0)
            return -1;
        total += s.n + 1;
        r->s->command.argv[i] = xstrndup(s.p, s.n);
    }
    if (total > SPEC_COMMAND_BYTES)
        return spec_bad(r, key, "is %zu bytes long; at most %d are allowed", total,
                        SPEC_COMMAND_BYTES);
    if (!r->s->command.argv[0][0])
        return spec_bad(r, "command[0]", "is empty; write the name of a program");
    return 0;
}

static int read_command(const struct reader *r, const char *key, const struct json *v)
{
    struct str s;

    if (json_type(v) == JSON_ARRAY)
        return read_words(r, key, v);
    if (json_type(v) != JSON_STR)
        return spec_bad_type(r, key, v, "a line for the shell or a list of words");
    s = json_str(v);
    if (check_word(r, key, s) < 0)
        return -1;
    if (!str_trim(s).n)
        return spec_bad(r, key, "is empty; write what to run");
    r->s->command.shell = xstrndup(s.p, s.n);
    return 0;
}

/* Sorted variables make equal environments equal texts. */
static int env_order(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;

    while (*x == *y && *x != '=') {
        x++;
        y++;
    }
    /* '=' ends a key, so that A sorts before A1 although '=' is greater than '1'. */
    return (*x == '=' ? 0 : (unsigned char)*x) - (*y == '=' ? 0 : (unsigned char)*y);
}

static int read_variable(const struct reader *r, const char *name, const struct json *v, char **out)
{
    char scratch[32];
    AUTO_FREE char *owned = NULL;
    size_t key_n = strlen(name);
    struct str s;

    if (!key_n || strchr(name, '='))
        return spec_bad(r, "env", "\"%.60s\" is not a variable name; use letters, digits and _",
                        name);
    if (json_type(v) == JSON_NULL || json_type(v) >= JSON_ARRAY) {
        char at[80];
        snprintf(at, sizeof(at), "env.%.60s", name);
        return spec_bad_type(r, at, v, "a text, a number, true or false");
    }
    s = scalar_text(v, scratch, &owned);
    if (key_n + 1 + s.n > SPEC_WORD_MAX || memchr(s.p, '\0', s.n)) {
        char at[80];
        snprintf(at, sizeof(at), "env.%.60s", name);
        return check_word(r, at, s) < 0
                   ? -1
                   : spec_bad(r, at, "is longer than the %d bytes that can be handed on",
                              SPEC_WORD_MAX);
    }
    *out = xmalloc(key_n + s.n + 2);
    memcpy(*out, name, key_n);
    (*out)[key_n] = '=';
    memcpy(*out + key_n + 1, s.p, s.n);
    (*out)[key_n + 1 + s.n] = '\0';
    return 0;
}

static int read_env(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    size_t n = 0, total = 0;
    bool sorted = true;

    if (json_type(v) != JSON_OBJECT)
        return spec_bad_type(r, k->name, v, "a map, as in env: {SEED: 1}");
    if (json_len(v) > (size_t)k->max)
        return spec_bad(r, k->name, "has %zu variables; at most %" PRId64 " are allowed",
                        json_len(v), k->max);
    /* spec_new made an empty list. */
    free(r->s->command.env);
    r->s->command.env = xcalloc(json_len(v) + 1, sizeof(char *));
    for (struct json_it it = {0}; json_next(v, &it); n++) {
        if (read_variable(r, it.key, it.val, &r->s->command.env[n]) < 0)
            return -1;
        total += strlen(r->s->command.env[n]) + 1;
        sorted =
            sorted && (n == 0 || env_order(&r->s->command.env[n - 1], &r->s->command.env[n]) < 0);
    }
    if (total > SPEC_COMMAND_BYTES)
        return spec_bad(r, k->name, "is %zu bytes long; at most %d are allowed", total,
                        SPEC_COMMAND_BYTES);
    if (!sorted)
        qsort(r->s->command.env, n, sizeof(char *), env_order);
    return 0;
}

/* A resource may stand at the top or under `resources`, but not in both places. */
static int read_need(struct reader *r, const struct spec_key *k, const struct json *v)
{
    unsigned bit = 1u << (k - resource_keys);

    if (r->needs_seen & bit)
        return spec_bad(r, k->name, "is given twice, here and under resources; keep one");
    r->needs_seen |= bit;
    if (k->kind == KEY_SHARE)
        return training_read(r, k, v);
    return read_number(r, k, v);
}

static int read_resources(struct reader *r, const struct spec_key *key, const struct json *v)
{
    if (json_type(v) != JSON_OBJECT)
        return spec_bad_type(r, key->name, v, "a map, as in resources: {cpus: 2, mem: 4G}");
    r->sub = "resources.";
    for (struct json_it it = {0}; json_next(v, &it);) {
        const struct spec_key *k = spec_key_find(resource_keys, n_resource_keys, str_of(it.key));
        if (!k) {
            char path[160];
            snprintf(path, sizeof(path), "%s%s", r->path, r->sub);
            return spec_unknown_key(path, it.key, resource_keys, n_resource_keys, false, r->e);
        }
        if (it.val && read_need(r, k, it.val) < 0)
            return -1;
    }
    r->sub = "";
    return 0;
}

/* Kept as text and given back as it is: only the dialect knows what it means. */
static int read_extra(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    char **out = key_member(r->s, k);

    if (json_type(v) != JSON_OBJECT)
        return spec_bad_type(r, k->name, v, "a map");
    *out = json_text(v);
    if (strlen(*out) > (size_t)k->max)
        return spec_bad(r, k->name, "is %zu bytes long; at most %lld are kept", strlen(*out),
                        (long long)k->max);
    return 0;
}

static int read_key(struct reader *r, const struct spec_key *k, const struct json *v)
{
    switch (k->kind) {
    case KEY_TEXT:
        return spec_read_text(r, k, v, key_member(r->s, k));
    case KEY_COMMAND:
        return read_command(r, k->name, v);
    case KEY_DIR:
        return read_dir(r, k, v);
    case KEY_ENV:
        return read_env(r, k, v);
    case KEY_RESOURCES:
        return read_resources(r, k, v);
    case KEY_BOOL:
        if (json_type(v) != JSON_BOOL)
            return spec_bad_type(r, k->name, v, "true or false");
        *(bool *)key_member(r->s, k) = json_bool(v);
        return 0;
    case KEY_PATH:
    case KEY_SIGNAL:
    case KEY_TIME:
    case KEY_LAUNCH:
        return training_read(r, k, v);
    case KEY_EXTRA:
        return read_extra(r, k, v);
    case KEY_MOUNTS:
    case KEY_PORTS:
    case KEY_CONTAINER:
        return container_read(r, k, v);
    case KEY_NODES:
    case KEY_ASSETS:
        return place_read(r, k, v);
    case KEY_SECRETS:
        return secrets_read(r, k, v);
    case KEY_NOTIFY:
        return notify_read(r, k, v);
    default:
        return read_number(r, k, v);
    }
}

/* Keys are read in the order of the form; those that depend on others are checked at the end. */
static int read_members(struct reader *r, const struct json *j)
{
    for (struct json_it it = {0}; json_next(j, &it);) {
        struct str name = str_of(it.key);
        const struct spec_key *k = spec_key_find(spec_keys, n_spec_keys, name);

        if (k && (k->sweep || !it.val)) /* null means "not given" */
            continue;
        if (k && read_key(r, k, it.val) < 0)
            return -1;
        if (k)
            continue;
        k = spec_key_find(resource_keys, n_resource_keys, name);
        if (!k)
            return spec_unknown_key(r->path, it.key, spec_keys, n_spec_keys, true, r->e);
        if (it.val && read_need(r, k, it.val) < 0)
            return -1;
    }
    return 0;
}

/* A walk over the words of a command; a shell's quotes and operators end a word. */
struct command_words {
    char **argv;
    const char *line;
};

static bool next_word(struct command_words *w, struct str *out)
{
    if (w->argv) {
        *out = str_of(*w->argv);
        return *w->argv++ != NULL;
    }
    w->line += strspn(w->line, " \t\n");
    *out = (struct str){w->line, strcspn(w->line, " \t\n;|&<>()'\"`")};
    w->line += out->n;
    w->line += *w->line && !strchr(" \t\n", *w->line) ? strlen(w->line) : 0;
    return out->n > 0;
}

static struct str base_name(struct str word)
{
    for (size_t i = word.n; i-- > 0;)
        if (word.p[i] == '/' && i + 1 < word.n)
            return (struct str){word.p + i + 1, word.n - i - 1};
    return word;
}

/* Programs that are named before the one that a person would name. */
static bool is_interpreter(struct str base)
{
    static const char *const names[] = {"sh",    "bash", "dash",  "zsh",  "Rscript",
                                        "julia", "node", "perl",  "ruby", "env",
                                        "uv",    "exec", "nohup", "time", "torchrun"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_eq_c(base, names[i]))
            return true;
    size_t n = str_starts(base, STR("python")) ? 6 : str_starts(base, STR("pypy")) ? 4 : 0;
    while (n && n < base.n && strchr("0123456789.", base.p[n]))
        n++;
    return n && n == base.n;
}

/* "train.py" of "./src/train.py --lr 1" and of "python3 -u train.py": the first word that is no
 * assignment, and behind an interpreter the script or module that it runs. */
static struct str naming_word(const struct spec_command *c)
{
    struct command_words w = {c->shell ? NULL : c->argv, c->shell};
    struct str word, found = {0};
    bool skip = false;

    while (next_word(&w, &word)) {
        bool option = word.n > 1 && *word.p == '-';
        if (skip || memchr(word.p, '=', word.n) || (found.p && str_eq_c(word, "run"))) {
            skip = false;
            continue;
        }
        if (option && found.p) {
            if (str_eq_c(word, "-c") || str_eq_c(word, "-e")) /* the program is the next word */
                break;
            skip = str_eq_c(word, "-W") || str_eq_c(word, "-X");
            continue;
        }
        found = base_name(word);
        if (!is_interpreter(found))
            break;
    }
    return found;
}

static char *default_name(const struct spec_command *c)
{
    struct str name = naming_word(c);

    if (name.n > SPEC_NAME_MAX) /* never in the middle of a UTF-8 sequence */
        for (name.n = SPEC_NAME_MAX; name.n > 0 && ((unsigned char)name.p[name.n] & 0xc0) == 0x80;)
            name.n--;
    if (!name.n || has_control(name))
        return xstrdup("job");
    return xstrndup(name.p, name.n);
}

static struct spec *spec_new(void)
{
    struct spec *s = xcalloc(1, sizeof(*s));

    /* An empty, NULL-terminated list: env is never NULL. */
    s->command.env = xcalloc(1, sizeof(char *));
    for (size_t i = 0; i < n_spec_keys; i++)
        if (spec_keys[i].fallback)
            put_int(s, &spec_keys[i], spec_keys[i].fallback);
    for (size_t i = 0; i < n_resource_keys; i++)
        if (resource_keys[i].fallback)
            put_int(s, &resource_keys[i], resource_keys[i].fallback);
    return s;
}

/* Fills *s; on failure s is partly filled and the caller frees it. */
static int parse(const struct json *j, const char *path, bool need_command, struct spec *s,
                 struct err *e)
{
    struct reader r = {.path = path, .sub = "", .s = s, .e = e};
    char shown[SHOW_MAX];

    if (json_type(j) != JSON_OBJECT)
        return err_set(e, ERR_INVALID, "%s%s is %s; a job is a map with at least a command", path,
                       spec_show(j, shown), json_type_name(json_type(j)));
    if (read_members(&r, j) < 0)
        return -1;
    if (!s->command.argv && !s->command.shell) {
        if (need_command)
            return spec_bad(&r, "command", "is missing; write what to run");
        return 0;
    }
    if (s->limits.log_limit_bytes && s->limits.log_limit_bytes < SPEC_LOG_LIMIT_MIN)
        return spec_bad(&r, "log_limit",
                        "is less than 64K, the least a log can be cut to; write "
                        "0 for no limit");
    if (place_check(&r) < 0 || training_check(&r) < 0)
        return -1;
    if (!s->name)
        s->name = default_name(&s->command);
    if (!s->project)
        s->project = xstrdup("default");
    if (!s->queue)
        s->queue = xstrdup("default");
    return 0;
}

int spec_parse(const struct json *j, const char *path, struct spec **out, struct err *e)
{
    struct spec *s = spec_new();

    return HAND_OUT(parse(j, path, true, s, e), out, s, spec_free);
}

int spec_check_shared(const struct json *j, struct err *e)
{
    struct spec *s = spec_new();
    int rc = parse(j, "", false, s, e);

    spec_free(s);
    return rc;
}
