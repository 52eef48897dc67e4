/* spec_container.c - the keys `container`, `mounts` and `ports`: what they accept, and as text
 *
 * The value of `container` is kept as the text of a JSON object with keys in the order of the table
 * below and sizes in bytes, so that equal settings are equal texts.  core/container.c reads the
 * text when it starts the job.
 */
#include "base/file.h"
#include "base/units.h"
#include "base/util.h"
#include "model/spec_priv.h"
#include <stdio.h>

const struct spec_key container_keys[] = {
    {"entrypoint", KEY_ENTRYPOINT, .max = SPEC_WORD_MAX,
     .doc = "program that stands before the command instead of the image's own: a text, or a list "
            "of words; \"\" for none"},
    {"image_command", KEY_BOOL,
     .doc = "run the image's own command; `command` is then only what listings show"},
    {"workdir", KEY_DIR, .min = 1, .max = 4095,
     .doc = "directory inside in which it starts; by default cwd, else the image's"},
    {"user", KEY_TEXT, .min = 1, .max = 100,
     .doc = "who it runs as: \"root\", \"1000:1000\", or \"image\" for the image's own; by default "
            "the submitter"},
    {"network", KEY_TEXT, .min = 1, .max = 200,
     .doc = "host, none, bridge, or the name of a network, made when it is not there"},
    {"runtime", KEY_TEXT, .min = 1, .max = 100, .doc = "the engine's runtime, such as nvidia"},
    {"ipc", KEY_TEXT, .min = 1, .max = 200, .doc = "whose shared memory it uses: private, host, …"},
    {"shm_size", KEY_SIZE, .min = 1 << 10, .max = INT64_C(1) << 50,
     .doc = "size of /dev/shm, as 8G; the engine gives 64M"},
    {"pull", KEY_PULL, .doc = "when the image is fetched: missing (default), always or never"},
    {"labels", KEY_LABELS, .max = 100, .doc = "labels of the container, besides our own"},
    {"hostname", KEY_TEXT, .min = 1, .max = 63, .doc = "its host name"},
    {"init", KEY_BOOL,
     .doc = "put a small first process before the command that passes signals on and reaps "
            "(default true)"},
    {"read_only", KEY_BOOL, .doc = "nothing outside of mounts can be written"},
};
const size_t n_container_keys = ARRAY_SIZE(container_keys);

static const char *const pull_names[] = {"missing", "always", "never"};

/* ---- values ---- */

static int read_text(const struct reader *r, const struct spec_key *k, const struct json *v,
                     struct json **out)
{
    AUTO_FREE char *text = NULL;

    if (spec_read_text(r, k, v, &text) < 0)
        return -1;
    if (k->kind == KEY_DIR && text[0] != '/')
        return spec_bad(r, k->name, "\"%.80s\" is not absolute; write a path that starts with /",
                        text);
    *out = json_new_str(str_of(text));
    return 0;
}

/* A number is in bytes. */
static int read_size(const struct reader *r, const struct spec_key *k, const struct json *v,
                     struct json **out)
{
    int64_t n = 0;
    char shown[SHOW_MAX];

    if (json_type(v) == JSON_INT)
        n = json_int(v);
    else if (json_type(v) != JSON_STR)
        return spec_bad_type(r, k->name, v, "a size, as 8G");
    else if (size_parse(json_str(v), &n, r->e) < 0)
        return err_wrap(r->e, "%s%s%s", r->path, r->sub, k->name);
    if (n < k->min || n > k->max)
        return spec_bad(r, k->name, "%s is out of range; write a size, as 8G", spec_show(v, shown));
    *out = json_new_int(n);
    return 0;
}

/* A word that execve can take. */
static bool word_ok(const struct json *v, int64_t max)
{
    return json_type(v) == JSON_STR && json_str(v).n <= (size_t)max &&
           !memchr(json_str(v).p, '\0', json_str(v).n);
}

static int read_entrypoint(const struct reader *r, const struct spec_key *k, const struct json *v,
                           struct json **out)
{
    bool list = json_type(v) == JSON_ARRAY;

    if (!list && !word_ok(v, k->max))
        return spec_bad_type(r, k->name, v, "a program, or a list of words");
    if (json_len(v) > SPEC_LIST_MAX)
        return spec_bad(r, k->name, "has %zu words; at most %d are allowed", json_len(v),
                        SPEC_LIST_MAX);
    for (size_t i = 0; list && i < json_len(v); i++)
        if (!word_ok(json_at(v, i), k->max))
            return spec_bad_type(r, k->name, json_at(v, i), "texts in the list");
    *out = json_copy(v);
    return 0;
}

static int read_pull(const struct reader *r, const struct spec_key *k, const struct json *v,
                     struct json **out)
{
    char shown[SHOW_MAX];

    for (size_t i = 0; json_type(v) == JSON_STR && i < ARRAY_SIZE(pull_names); i++)
        if (str_eq_c(json_str(v), pull_names[i])) {
            *out = json_copy(v);
            return 0;
        }
    return spec_bad(r, k->name, "%s is none of missing, always and never", spec_show(v, shown));
}

static int read_labels(const struct reader *r, const struct spec_key *k, const struct json *v,
                       struct json **out)
{
    if (json_type(v) != JSON_OBJECT)
        return spec_bad_type(r, k->name, v, "a map, as in labels: {team: vision}");
    if (json_len(v) > (size_t)k->max)
        return spec_bad(r, k->name, "has %zu entries; at most %lld are allowed", json_len(v),
                        (long long)k->max);
    struct json *copy = json_new_object();
    for (struct json_it it = {0}; json_next(v, &it);) {
        char scratch[32];
        AUTO_FREE char *owned = NULL;
        bool scalar = json_type(it.val) != JSON_NULL && json_type(it.val) < JSON_ARRAY;
        /* Our own labels find the containers of a job again: nobody else may set them. */
        if (scalar && it.key[0] && strncmp(it.key, "berth.", 6) != 0) {
            json_set_take(copy, it.key, json_new_str(scalar_text(it.val, scratch, &owned)));
            continue;
        }
        json_free(copy);
        return spec_bad(r, k->name,
                        "\"%.60s\" cannot be set: labels have names other than berth.*, and texts",
                        it.key);
    }
    *out = copy;
    return 0;
}

static int read_value(const struct reader *r, const struct spec_key *k, const struct json *v,
                      struct json **out)
{
    switch (k->kind) {
    case KEY_BOOL:
        if (json_type(v) != JSON_BOOL)
            return spec_bad_type(r, k->name, v, "true or false");
        *out = json_copy(v);
        return 0;
    case KEY_SIZE:
        return read_size(r, k, v, out);
    case KEY_ENTRYPOINT:
        return read_entrypoint(r, k, v, out);
    case KEY_PULL:
        return read_pull(r, k, v, out);
    case KEY_LABELS:
        return read_labels(r, k, v, out);
    default:
        return read_text(r, k, v, out);
    }
}

/* ---- the object ---- */

/* In the order of the table, so that equal settings give equal texts. */
static int read_keys(const struct reader *r, const struct json *v, struct json *out)
{
    for (size_t i = 0; i < n_container_keys; i++) {
        const struct spec_key *k = &container_keys[i];
        const struct json *one = json_get(v, k->name);
        struct json *value = NULL;
        if (one && read_value(r, k, one, &value) < 0)
            return -1;
        if (one)
            json_set_take(out, k->name, value);
    }
    return 0;
}

/* The reader is copied, since messages below `container` have another prefix. */
static int read_container(const struct reader *outer, const struct spec_key *key,
                          const struct json *v)
{
    struct reader r = *outer;
    char path[160];

    if (json_type(v) != JSON_OBJECT)
        return spec_bad_type(outer, key->name, v, "a map, as in container: {network: host}");
    r.sub = "container.";
    snprintf(path, sizeof(path), "%s%s", r.path, r.sub);
    for (struct json_it it = {0}; json_next(v, &it);)
        if (!spec_key_find(container_keys, n_container_keys, str_of(it.key)))
            return spec_unknown_key(path, it.key, container_keys, n_container_keys, false, r.e);
    struct json *out = json_new_object();
    int rc = read_keys(&r, v, out);
    char **text = key_member(outer->s, key);
    /* An empty object says nothing and is not stored. */
    if (rc == 0 && json_len(out))
        *text = json_text(out);
    json_free(out);
    return rc;
}

/* ---- mounts and ports ---- */

/* "/data:/data" or "/data:/data:ro": both absolute, no other colon.  The target is made by the
 * supervisor, which may be root's, so the target must not climb out of the run's own tree. */
static bool mount_ok(struct str s)
{
    struct str rest, mode, host = str_cut(s, ':', &rest), target = str_cut(rest, ':', &mode);

    return host.n && host.p[0] == '/' && target.n && target.p[0] == '/' && !path_has_dots(target) &&
           (!mode.n || str_eq_c(mode, "ro") || str_eq_c(mode, "rw"));
}

static bool port_ok(struct str s)
{
    struct str to, from = str_cut(s, ':', &to);
    int64_t a, b;

    return str_to_i64(from, &a) && str_to_i64(to, &b) && a >= 1 && a <= 65535 && b >= 1 &&
           b <= 65535;
}

/* Two mappings with the same port of the node: only one could listen. */
static bool same_port(const char *a, const char *b)
{
    struct str rest;

    return str_eq(str_cut(str_of(a), ':', &rest), str_cut(str_of(b), ':', &rest));
}

static int read_pairs(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    const bool mounts = k->kind == KEY_MOUNTS;
    const char *form = mounts
                           ? "host:target or host:target:ro, both absolute, the target without '..'"
                           : "node:container, both from 1 to 65535";
    size_t n = json_len(v);
    char **list;

    if (json_type(v) != JSON_ARRAY)
        return spec_bad_type(r, k->name, v, "a list of texts");
    if (n > (size_t)k->max)
        return spec_bad(r, k->name, "has %zu entries; at most %lld are allowed", n,
                        (long long)k->max);
    if (!n)
        return 0;
    list = *(char ***)key_member(r->s, k) = xcalloc(n + 1, sizeof(char *));
    for (size_t i = 0; i < n; i++) {
        const struct json *one = json_at(v, i);
        char shown[SHOW_MAX];
        struct str s = json_type(one) == JSON_STR ? json_str(one) : STR("");
        if (s.n > 8192 || memchr(s.p, '\0', s.n) || (mounts ? !mount_ok(s) : !port_ok(s)))
            return spec_bad(r, k->name, "%s is not of the form %s", spec_show(one, shown), form);
        list[i] = xstrndup(s.p, s.n);
        for (size_t b = 0; !mounts && b < i; b++)
            if (same_port(list[b], list[i]))
                return spec_bad(r, k->name, "\"%s\" and \"%s\" use the same port of the node",
                                list[b], list[i]);
    }
    return 0;
}

/* ---- the whole container ---- */

int container_read(const struct reader *r, const struct spec_key *k, const struct json *v)
{
    return k->kind == KEY_CONTAINER ? read_container(r, k, v) : read_pairs(r, k, v);
}

static struct json *texts_json(char *const *list)
{
    struct json *j = json_new_array();

    for (; *list; list++)
        json_push_take(j, json_new_str(str_of(*list)));
    return j;
}

void container_write(struct json *j, const struct spec *s, const struct spec_key *k)
{
    const struct spec_container *c = &s->container;
    char **list = k->kind == KEY_MOUNTS ? c->mounts : c->ports;

    if (k->kind == KEY_CONTAINER)
        spec_write_object(j, k->name, c->options);
    else if (list)
        json_set_take(j, k->name, texts_json(list));
}

void container_done(struct spec_container *c)
{
    texts_free(c->mounts);
    texts_free(c->ports);
    free(c->image);
    free(c->options);
}
