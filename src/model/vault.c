/* vault.c - names of secrets, and values that only this home can read
 *
 * Every submission asks about every variable of its environment, so a pattern is first compared by
 * the letters it needs: few names have them all.
 */
#include "model/vault.h"
#include "base/seal.h"
#include "base/util.h"
#include "base/vec.h"
#include <ctype.h>

/* TOKENIZERS_PARALLELISM is an ordinary setting of a library. */
const char vault_default_names[] =
    "*TOKEN*,*SECRET*,*PASSWORD*,*PASSWD*,*PASSPHRASE*,*CREDENTIAL*,*APIKEY*,*_KEY,*_KEY_ID,"
    "*_KEY_BASE64,*_PWD,*_PAT,!TOKENIZERS_*";

/* One pattern.  `letters`: those that a matching name must have.  `last`: its last character, as a
 * capital; 0 = any. */
struct vault_name {
    char *text;
    uint32_t letters;
    char last;
    bool exception;
};
struct vault {
    uint8_t key[SEAL_KEY_BYTES];
    uint32_t letter[256]; /* the bit of each character, of capitals and small letters alike */
    VEC(struct vault_name) names;
};

/* ---- names ---- */

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static uint32_t letters_of(const struct vault *v, struct str s)
{
    uint32_t set = 0;

    for (size_t i = 0; i < s.n; i++)
        set |= v->letter[(unsigned char)s.p[i]];
    return set;
}

/* Goes back to the last * only, which is enough: linear but for bad patterns, and both are short.
 */
static bool name_matches(struct str pattern, struct str name)
{
    size_t p = 0, n = 0, star = SIZE_MAX, from = 0;

    while (n < name.n) {
        if (p < pattern.n && pattern.p[p] == '*') {
            star = p++;
            from = n;
        } else if (p < pattern.n &&
                   (pattern.p[p] == '?' || upper(pattern.p[p]) == upper(name.p[n]))) {
            p++;
            n++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            n = ++from;
        } else {
            return false;
        }
    }
    while (p < pattern.n && pattern.p[p] == '*')
        p++;
    return p == pattern.n;
}

bool vault_name_ok(struct str name)
{
    if (name.n && name.p[0] == '!')
        name = (struct str){name.p + 1, name.n - 1};
    if (!name.n || name.n > VAULT_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (!isalnum((unsigned char)name.p[i]) && !strchr("_*?.-", name.p[i]))
            return false;
    return true;
}

static struct str without_mark(struct str name)
{
    return name.n && name.p[0] == '!' ? (struct str){name.p + 1, name.n - 1} : name;
}

static int vault_add_names(struct vault *v, struct str list, struct err *e)
{
    while (list.n) {
        struct str name = str_trim(str_cut(list, ',', &list)), bare = without_mark(name);
        if (!vault_name_ok(name) || v->names.n == VAULT_NAMES_MAX)
            return err_set(e, ERR_INVALID,
                           "'%.*s' is not a name or pattern for secrets, as *_TOKEN or !SORT_KEY "
                           "(at most %d)",
                           (int)MIN(name.n, 60), name.p, VAULT_NAMES_MAX);
        char last = upper(bare.p[bare.n - 1]);
        struct vault_name one = {.text = xstrndup(bare.p, bare.n),
                                 .letters = letters_of(v, bare),
                                 .last = last == '*' || last == '?' ? 0 : last,
                                 .exception = name.n != bare.n};
        vec_push(&v->names, one);
    }
    return 0;
}

/* 1 = secret, 0 = an exception, -1 = the job says nothing of it. */
static int own_hides(struct str own, struct str name)
{
    int found = -1;

    while (own.n) {
        struct str one = str_cut(own, ',', &own), bare = without_mark(one);
        if (name_matches(bare, name))
            found = one.n == bare.n;
    }
    return found;
}

bool vault_hides(const struct vault *v, struct str own, struct str name)
{
    int said = own.n ? own_hides(own, name) : -1;
    uint32_t letters = letters_of(v, name);
    char last = name.n ? upper(name.p[name.n - 1]) : 0;

    if (said >= 0)
        return said;
    for (size_t i = v->names.n; i-- > 0;) {
        const struct vault_name *one = &v->names.p[i];
        if ((one->letters & ~letters) == 0 && (!one->last || one->last == last) &&
            name_matches(str_of(one->text), name))
            return !one->exception;
    }
    return false;
}

bool vault_spec_hides(const struct vault *v, const struct spec *s)
{
    for (char **at = s->command.env; *at; at++)
        if (vault_hides(v, str_of(s->command.secrets), (struct str){*at, strcspn(*at, "=")}))
            return true;
    return s->command.secrets != NULL;
}

int vault_new(const uint8_t secret[32], const char *names, struct vault **out, struct err *e)
{
    struct vault *v = xcalloc(1, sizeof(*v));

    seal_derive(secret, "berth secrets 1", v->key);
    for (int i = 0; i < 26; i++)
        v->letter['A' + i] = v->letter['a' + i] = 1u << i;
    bool failed = vault_add_names(v, str_of(vault_default_names), e) < 0 ||
                  vault_add_names(v, str_of(names), e) < 0;
    return HAND_OUT(failed ? -1 : 0, out, v, vault_free);
}

void vault_free(struct vault *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < v->names.n; i++)
        free(v->names.p[i].text);
    vec_done(&v->names);
    explicit_bzero(v->key, sizeof(v->key));
    free(v);
}

/* ---- values ---- */

bool vault_is_sealed(struct str text)
{
    return seal_is_text(text);
}

char *vault_seal_text(const struct vault *v, const char *purpose, struct str text)
{
    return seal_text(v->key, str_of(purpose), text);
}

int vault_open(const struct vault *v, const char *name, struct str sealed, char **out,
               struct err *e)
{
    char *value = seal_open_text(v->key, str_of(name), sealed);

    if (!value)
        return err_set(e, ERR_CONFLICT,
                       "the secret %.100s cannot be read: the file `secret` of the home is not the "
                       "one it was stored with; restore that file, or submit the job again",
                       name);
    *out = value;
    return 0;
}

int vault_open_text(const struct vault *v, const char *purpose, struct str text, char **out,
                    struct err *e)
{
    if (seal_is_text(text))
        return vault_open(v, purpose, text, out, e);
    *out = xstrndup(text.p, text.n);
    return 0;
}

/* ---- forms ---- */

/* Dialects keep what was sent to them under `extra`: variables as a map or as texts "K=V". */
static struct json *masked_copy(const struct json *j, const struct json *names)
{
    struct json *copy;

    switch (json_type(j)) {
    case JSON_ARRAY:
        copy = json_new_array();
        for (size_t i = 0; i < json_len(j); i++)
            json_push_take(copy, masked_copy(json_at(j, i), names));
        return copy;
    case JSON_OBJECT:
        copy = json_new_object();
        for (struct json_it it = {0}; json_next(j, &it);)
            json_set_take(copy, it.key,
                          json_has(names, it.key) && json_type(it.val) < JSON_ARRAY
                              ? json_new_str(STR("***"))
                              : masked_copy(it.val, names));
        return copy;
    case JSON_STR:
        break;
    default:
        return json_copy(j);
    }
    struct str text = json_str(j), value, name = str_cut(text, '=', &value);
    AUTO_FREE char *key = xstrndup(name.p, name.n);
    if (name.n == text.n || !json_has(names, key))
        return json_copy(j);
    AUTO_FREE char *hidden = xasprintf("%s=***", key);
    return json_new_str(str_of(hidden));
}

/* The names of the job as one text, for vault_hides; the caller frees it. */
static char *own_names(const struct json *form)
{
    const struct json *list = json_get(form, "secrets");
    AUTO(buf) struct buf b = {0};

    buf_init(&b, (VAULT_NAME_MAX + 2) * VAULT_NAMES_MAX * 10);
    for (size_t i = 0; i < (json_type(list) == JSON_ARRAY ? json_len(list) : 0); i++) {
        struct str one =
            json_type(json_at(list, i)) == JSON_STR ? json_str(json_at(list, i)) : STR("");
        if (b.n)
            buf_addc(&b, ',');
        buf_add(&b, one.p, one.n);
    }
    if (json_type(list) == JSON_STR)
        buf_add(&b, json_str(list).p, json_str(list).n);
    return xstrndup(b.n ? b.p : "", b.n);
}

/* Adds the names of what was sealed to the list of the job, each once. */
static void name_sealed(struct json *form, const char *own, const struct json *sealed)
{
    struct json *list = json_new_array();
    struct str rest = str_of(own);

    while (rest.n) { /* exceptions and patterns stay as they were said */
        struct str one = str_cut(rest, ',', &rest);
        AUTO_FREE char *key = xstrndup(one.p, one.n);
        if (!json_has(sealed, key))
            json_push_take(list, json_new_str(one));
    }
    for (struct json_it it = {0}; json_next(sealed, &it);)
        json_push_take(list, json_new_str(str_of(it.key)));
    json_set_take(form, "secrets", list);
}

/* A name without wildcards was meant to be there. */
static int check_named(const char *own, const struct json *sealed, struct err *e)
{
    struct str rest = str_of(own);

    while (rest.n) {
        struct str one = str_cut(rest, ',', &rest);
        AUTO_FREE char *key = xstrndup(one.p, one.n);
        if (one.n && one.p[0] != '!' && !strpbrk(key, "*?") && !json_has(sealed, key))
            return err_set(e, ERR_INVALID,
                           "secrets: env has no variable %.100s; send its value under env, or "
                           "submit with --secret %.100s",
                           key, key);
    }
    return 0;
}

/* Takes the secrets out of env.  *out is NULL when there are none. */
static void take_secrets(const struct vault *v, struct json *form, const char *own,
                         struct json **out)
{
    const struct json *env = json_get(form, "env");
    struct json *kept = json_new_object(), *sealed = json_new_object();

    for (struct json_it it = {0}; json_next(env, &it);) {
        if (!vault_hides(v, str_of(own), str_of(it.key)) || json_type(it.val) >= JSON_ARRAY) {
            json_set_take(kept, it.key, json_copy(it.val));
            continue;
        }
        AUTO_FREE char *scalar = json_type(it.val) == JSON_STR ? NULL : json_text(it.val);
        struct str value = scalar ? str_of(scalar) : json_str(it.val);
        AUTO_FREE char *text = seal_text(v->key, str_of(it.key), value);
        json_set_str(sealed, it.key, text);
    }
    *out = sealed;
    if (!json_len(sealed)) {
        json_free(kept);
        json_free(sealed);
        *out = NULL;
        return;
    }
    json_set_take(form, "env", kept);
    name_sealed(form, own, sealed);
    if (json_has(form, "extra"))
        json_set_take(form, "extra", masked_copy(json_get(form, "extra"), sealed));
}

int vault_seal_form(const struct vault *v, struct json *form, struct json **out, struct err *e)
{
    AUTO_FREE char *own = own_names(form);
    struct json *sealed;

    take_secrets(v, form, own, &sealed);
    return HAND_OUT(check_named(own, sealed, e), out, sealed, json_free);
}

void vault_mask_form(const struct vault *v, struct json *form)
{
    AUTO_FREE char *own = own_names(form);
    struct json *sealed;

    take_secrets(v, form, own, &sealed);
    json_free(sealed);
}

/* ---- the jobs of schedules ---- */

/* Calls fn for the job and for each of its `jobs`, which are replaced by the changed copies. */
typedef int (*tree_fn)(const struct vault *v, struct json *form, struct err *e);

static int tree_each(const struct vault *v, struct json *job, tree_fn fn, struct err *e)
{
    const struct json *jobs = json_get(job, "jobs");

    if (json_type(jobs) == JSON_ARRAY) {
        struct json *changed = json_new_array();
        int rc = 0;
        for (size_t i = 0; i < json_len(jobs) && rc == 0; i++) {
            struct json *one = json_copy(json_at(jobs, i));
            rc = fn(v, one, e);
            json_push_take(changed, one);
        }
        if (rc < 0) {
            json_free(changed);
            return -1;
        }
        json_set_take(job, "jobs", changed);
    }
    return fn(v, job, e);
}

static int tree_seal(const struct vault *v, struct json *form, struct err *e)
{
    AUTO_FREE char *own = own_names(form);
    struct json *sealed;

    (void)e;
    take_secrets(v, form, own, &sealed);
    if (sealed)
        json_set_take(form, "sealed", sealed);
    return 0;
}

static int tree_open(const struct vault *v, struct json *form, struct err *e)
{
    const struct json *sealed = json_get(form, "sealed");

    if (json_type(sealed) != JSON_OBJECT)
        return 0;
    struct json *env = json_has(form, "env") ? json_copy(json_get(form, "env")) : json_new_object();
    for (struct json_it it = {0}; json_next(sealed, &it);) {
        char *value = NULL;
        if (vault_open(v, it.key, json_str(it.val), &value, e) < 0) {
            json_free(env);
            return -1;
        }
        json_set_str(env, it.key, value);
        explicit_bzero(value, strlen(value));
        free(value);
    }
    json_set_take(form, "env", env);
    json_del(form, "sealed");
    return 0;
}

static int tree_strip(const struct vault *v, struct json *form, struct err *e)
{
    (void)v;
    (void)e;
    json_del(form, "sealed");
    return 0;
}

int vault_seal_tree(const struct vault *v, struct json *job, struct err *e)
{
    return tree_each(v, job, tree_seal, e);
}

int vault_open_tree(const struct vault *v, struct json *job, struct err *e)
{
    return tree_each(v, job, tree_open, e);
}

void vault_strip_tree(struct json *job)
{
    tree_each(NULL, job, tree_strip, NULL);
}
